//! Reading ahead: what frees are going to read, of many ranges before the first is freed.
//!
//! In a block of many ranges, little of what a free reads is in a cache: the region, its neighbours, and where these are
//! listed, where each names the next to read. One free after the other waits for each of these loads in turn.
//! The loads of different ranges do not depend on each other, so the processor waits for many of them at once.

use crate::algorithm::Ranges;
use crate::{Handle, VirtualBlock};

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

impl<T> VirtualBlock<T> {
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
