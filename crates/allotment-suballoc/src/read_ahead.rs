//! Reading ahead: what frees are going to read, of many ranges before the first is freed.
//!
//! In a block of many ranges, little of what a free reads is in a cache: the region, its neighbours, and the regions beside
//! these in their free lists, where each names the next to read. One free after the other waits for each of these loads
//! in turn. The loads of different ranges do not depend on each other, so the processor waits for many of them at once.

use crate::chain::NONE;
use crate::{Handle, VirtualBlock};

/// What is read. Each names what the next one reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum Reach {
    /// The region of the range.
    Range,
    /// Its neighbours in the block.
    Neighbours,
    /// The regions beside its free neighbours in their lists.
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
        let Ok(node) = self.node(handle) else { return 0 };
        let neighbours = [node.before, node.after].into_iter().filter(|&index| index != NONE);
        let neighbours = neighbours.map(|index| self.chain.node(index));
        match reach {
            Reach::Range => node.size,
            Reach::Neighbours => neighbours.fold(0, |sum, neighbour| sum ^ neighbour.size),
            Reach::Lists => {
                let listed = neighbours.filter(|neighbour| neighbour.is_free());
                let beside = listed.flat_map(|neighbour| neighbour.link).filter(|&index| index != NONE);
                beside.fold(0, |sum, index| sum ^ self.chain.node(index).size)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Algorithm, Request};

    #[test]
    fn a_range_is_read_with_its_neighbours_and_what_is_beside_them_in_their_lists() {
        let mut block = VirtualBlock::new(1000, Algorithm::Tlsf).unwrap();
        let [other, _, low, range, high] =
            [8, 1, 8, 32, 64].map(|size| block.allocate(Request::new(size), ()).unwrap().handle);
        let read = |block: &VirtualBlock<()>| Reach::ALL.map(|reach| block.read_around(range, reach));
        assert_eq!(read(&block), [32, 8 ^ 64, 0], "no neighbour is in a list");
        block.free(other).unwrap();
        block.free(low).unwrap();
        assert_eq!(read(&block), [32, 8 ^ 64, 8], "the region beside the neighbour before");
        block.free(high).unwrap();
        block.free(range).unwrap();
        assert_eq!(read(&block), [0, 0, 0], "stale");
    }
}
