//! Reading ahead: what frees are going to read, of many ranges before the first is freed.
//!
//! In a block of many ranges, little of what a free reads is in a cache: the region, its neighbours, and where these are
//! listed, where each names the next to read. One free after the other waits for each of these loads in turn.
//! The loads of different ranges do not depend on each other, so the processor waits for many of them at once.

use crate::algorithm::Ranges;
use crate::{Handle, HandleError, VirtualBlock};

/// What is read. Each names what the next one reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum Reach {
    /// The region of the range.
    Range,
    /// Its neighbours in the block.
    Neighbours,
    /// Where its free neighbours are listed.
    Lists,
}

impl Reach {
    /// All of them, in the order in which each names the next.
    pub const ALL: [Self; 3] = [Self::Range, Self::Neighbours, Self::Lists];
}

/// A block of fewer regions is in the caches that are close to a core, as far as it is used: reading ahead only adds to its work.
const MANY_REGIONS: usize = 1 << 13;

/// The number of ranges that are read about before the first of them is freed: the loads that a processor waits for at
/// once are about as many.
const AHEAD: usize = 16;

impl<T> VirtualBlock<T> {
    /// Frees ranges, and calls `freed` for each with the data that was stored with it, in the order of `handles`.
    ///
    /// In a block of a million ranges, freeing many at a time takes half the time of freeing one after the other: what the
    /// frees read is fetched for 16 of them at once. In a small block there is no difference.
    ///
    /// # Errors
    ///
    /// `freed` gets a [`HandleError`] for each handle that is stale or belongs to another block; the others are freed.
    ///
    /// ```
    /// use allotment_suballoc::{Algorithm, HandleError, Request, VirtualBlock};
    ///
    /// let mut block = VirtualBlock::new(1 << 20, Algorithm::Tlsf)?;
    /// let mut meshes = Vec::new();
    /// for number in 0..100 {
    ///     meshes.push(block.allocate(Request::new(1000 + number), number)?.handle);
    /// }
    /// meshes.push(meshes[0]);
    /// let mut freed = Vec::new();
    /// block.free_many(&meshes, |mesh| freed.push(mesh));
    /// assert_eq!(freed[99], Ok(99));
    /// assert_eq!(freed[100], Err(HandleError::Stale));
    /// assert!(block.is_empty());
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn free_many(&mut self, handles: &[Handle], mut freed: impl FnMut(Result<T, HandleError>)) {
        for handles in handles.chunks(AHEAD) {
            if self.engine.capacity() >= MANY_REGIONS {
                self.read_all_around(handles);
            }
            for &handle in handles {
                freed(self.free(handle));
            }
        }
    }

    fn read_all_around(&self, handles: &[Handle]) {
        // The first loads of all ranges, then the second ones of all: those of one range depend on each other, those of
        // different ranges do not.
        let sum = Reach::ALL.iter().fold(0, |sum, &reach| {
            handles.iter().fold(sum, |sum, &handle| sum ^ self.read_around(handle, reach))
        });
        // So that the loads stay, whose results nobody needs.
        core::hint::black_box(sum);
    }

    /// Reads a part of what [`free`](Self::free) is going to read, and returns some of it; 0 for a stale handle.
    #[doc(hidden)]
    #[must_use]
    pub fn read_around(&self, handle: Handle, reach: Reach) -> u64 {
        if self.check(handle).is_err() { 0 } else { self.engine.read_around(handle.index, reach) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Algorithm, Request};

    #[test]
    fn a_range_is_read_with_its_neighbours_and_where_these_are_listed() {
        let mut block = VirtualBlock::new(1000, Algorithm::Tlsf).unwrap();
        let [low, range, high, _] =
            [8, 32, 64, 1].map(|size| block.allocate(Request::new(size), ()).unwrap().handle);
        let read = |block: &VirtualBlock<()>| Reach::ALL.map(|reach| block.read_around(range, reach));
        assert_eq!(read(&block), [8, 40, 0], "where it and its neighbours begin; no neighbour is listed");
        block.free(low).unwrap();
        assert_eq!(read(&block), [8, 40, 8], "the size of the neighbour before");
        block.free(high).unwrap();
        assert_eq!(read(&block), [8, 40, 8 ^ 64], "those of both");
        block.free(range).unwrap();
        assert_eq!(read(&block), [0, 0, 0], "stale");
    }
}
