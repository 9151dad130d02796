//! When freed ranges are merged with the free space beside them.

use crate::VirtualBlock;
use crate::algorithm::Engine;

/// When a TLSF block merges a freed range with the free space beside it. Set by
/// [`VirtualBlock::set_coalescing`].
///
/// | | [`Immediate`](Self::Immediate) | [`Deferred`](Self::Deferred) |
/// |---|---|---|
/// | a free and a request | look for a place, split, merge | mostly exchange the first range of a list |
/// | lost inside a range | nothing | up to a 16th of it, until space is short |
/// | free, but usable for one size only | nothing | 8 ranges of each of 16 sizes per power of two, or an eighth of what is in use |
/// | host memory per live range | 20–30 bytes + `T` | 16 bytes more |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Coalescing {
    /// At once, in [`free`](VirtualBlock::free): the tightest packing.
    #[default]
    Immediate,
    /// When space is short. Until then a freed range is kept as it is, for the next request of about its size. For blocks
    /// with room to spare, in which many ranges come and go. With few ranges of many sizes there is rarely one to reuse, and
    /// nothing is gained.
    Deferred,
}

impl<T> VirtualBlock<T> {
    /// Sets when freed ranges are merged with the free space beside them. All handles stay valid. O(ranges) where that
    /// changes anything.
    ///
    /// This never decides *whether* a request succeeds: where it would not, kept ranges are merged until it does, or until
    /// none is left. Such a request takes O(kept ranges), and once O(ranges) for the padding; after it, ranges are merged at
    /// once until a 16th of the block is free again.
    ///
    /// Requests with [`LeastMemory`](crate::Strategy::LeastMemory) or [`LowestOffset`](crate::Strategy::LowestOffset), and
    /// compaction, merge all kept ranges first: what they promise is about all that is free.
    ///
    /// Buddy and linear blocks have no choice and ignore it.
    ///
    /// ```
    /// use allotment_suballoc::{Algorithm, Coalescing, Request, VirtualBlock};
    ///
    /// let mut block = VirtualBlock::new(1 << 20, Algorithm::Tlsf)?;
    /// block.set_coalescing(Coalescing::Deferred);
    /// let [old, _beside] = [1000, 1000].map(|size| block.allocate(Request::new(size), ()));
    /// let old = old?;
    /// block.free(old.handle)?;
    /// // The range that was freed last, for a request of about its size.
    /// assert_eq!(block.allocate(Request::new(995), ())?.offset, old.offset);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn set_coalescing(&mut self, coalescing: Coalescing) {
        self.engine.defer_coalescing(coalescing == Coalescing::Deferred);
    }

    /// Returns when freed ranges are merged with the free space beside them.
    #[must_use]
    pub fn coalescing(&self) -> Coalescing {
        match &self.engine {
            Engine::Deferred(_) | Engine::WideDeferred(_) => Coalescing::Deferred,
            _ => Coalescing::Immediate,
        }
    }

    /// Merges up to `at_most` of the ranges that [`Coalescing::Deferred`] keeps, the largest first. Returns how many are
    /// still kept. For a moment in which nothing else is to do, before large requests.
    ///
    /// ```
    /// use allotment_suballoc::{Algorithm, Coalescing, Request, VirtualBlock};
    ///
    /// let mut block = VirtualBlock::new(1 << 20, Algorithm::Tlsf)?;
    /// block.set_coalescing(Coalescing::Deferred);
    /// for range in [(); 8].map(|()| block.allocate(Request::new(64), ())) {
    ///     block.free(range?.handle)?;
    /// }
    /// assert_eq!(block.coalesce(5), 3);
    /// assert_eq!(block.coalesce(5), 0);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn coalesce(&mut self, at_most: u32) -> u32 {
        match &mut self.engine {
            Engine::Deferred(ranges) => ranges.coalesce(at_most),
            Engine::WideDeferred(ranges) => ranges.coalesce(at_most),
            _ => 0,
        }
    }
}
