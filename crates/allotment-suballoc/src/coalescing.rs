//! When freed ranges are merged with the free space beside them.

use crate::VirtualBlock;
use crate::algorithm::Engine;

/// When a TLSF block merges a freed range with the free space beside it. Set by
/// [`VirtualBlock::set_coalescing`].
///
/// | | [`Immediate`](Self::Immediate) | [`Deferred`](Self::Deferred) |
/// |---|---|---|
/// | a free and a request | look for a place, split, merge | mostly put a range on a list, and take it off again |
/// | lost inside a range | nothing | up to a 16th of it, until space is short |
/// | cached, so free for requests of one size | nothing | 8 ranges of each size class (16 per power of two), and beyond those an eighth of what is in use |
/// | host memory | 20–30 bytes + `T` per live range | 16 bytes more (24 in a block of 2^32 units or more), and 6 to 12 KiB for the lists |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Coalescing {
    /// At once, in [`free`](VirtualBlock::free): the tightest packing.
    #[default]
    Immediate,
    /// When space is short. Until then a freed range is cached as it is, for the next request of about its size. For blocks
    /// with room to spare, in which many ranges come and go. With few ranges of many sizes there is rarely one to reuse, and
    /// nothing is gained.
    Deferred,
}

impl<T> VirtualBlock<T> {
    /// Sets when freed ranges are merged with the free space beside them. All handles stay valid. O(ranges) where that
    /// changes anything.
    ///
    /// This never decides *whether* a request succeeds: where it would not, cached ranges are merged until it does, and then the
    /// units that were lost inside live ranges are taken back. Each free pays for the merge of one range, so the merges are
    /// O(1) on average. To take units back is O(ranges), where ranges were allocated since the last time. No live range
    /// changes, also where the request is refused in the end. A block that was full caches nothing until a 16th of it is free.
    ///
    /// Requests with [`LeastMemory`](crate::Strategy::LeastMemory) or [`LowestOffset`](crate::Strategy::LowestOffset),
    /// [`allocate_below`](Self::allocate_below), [`allocate_at`](Self::allocate_at) and [`next_move`](Self::next_move) do all of
    /// that first: what they promise is about all that is free. [`resize`](Self::resize) merges the ranges that it grows into,
    /// and others of their sizes.
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

    /// Merges up to `at_most` of the cached ranges of [`Coalescing::Deferred`], the largest first. Returns how many are still
    /// cached. For a moment in which nothing else is to do, before large requests.
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
