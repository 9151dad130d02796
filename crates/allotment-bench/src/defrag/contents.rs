//! The contents of the blocks, and a lower bound of the bytes that an optimal planner must copy.
//!
//! To free k blocks, the contents of k blocks must be moved, and the k blocks with the fewest bytes give the least
//! that this can be. The bound ignores whether the bytes fit elsewhere, so it may not be reachable.

use std::collections::BTreeMap;

use super::state::BLOCK;

/// The blocks of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Contents {
    /// Memory objects, including empty ones.
    pub(super) blocks: u32,
    /// Requested bytes in each non-empty block, in increasing order.
    occupied: Vec<u64>,
}

impl Contents {
    /// Creates the contents from the number of memory objects, and the memory object and size of each allocation.
    pub(super) fn of(blocks: u32, allocations: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut by_memory = BTreeMap::<_, u64>::new();
        for (memory, size) in allocations {
            *by_memory.entry(memory).or_default() += size;
        }
        let mut occupied: Vec<_> = by_memory.into_values().collect();
        occupied.sort_unstable();
        Self { blocks, occupied }
    }

    /// Returns the bytes in all blocks.
    pub(super) fn live(&self) -> u64 {
        self.occupied.iter().sum()
    }

    /// Returns the fewest blocks that have room for the bytes.
    pub(super) fn ideal(&self) -> u32 {
        self.live().div_ceil(BLOCK) as u32
    }

    /// Returns the number of non-empty blocks.
    pub(super) fn in_use(&self) -> u32 {
        self.occupied.len() as u32
    }

    /// Returns the lower bound of copied bytes for reaching the ideal number.
    pub(super) fn lower_bound(&self) -> u64 {
        self.bound_of(self.in_use() - self.ideal())
    }

    /// Returns the lower bound of copied bytes for emptying `freed` blocks.
    pub(super) fn bound_of(&self, freed: u32) -> u64 {
        self.occupied.iter().take(freed as usize).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_what_is_in_the_emptiest_blocks_beyond_the_ideal_number() {
        let contents = Contents::of(5, [(7, BLOCK / 2), (3, BLOCK / 4), (7, 16), (9, BLOCK / 8), (1, BLOCK)]);
        assert_eq!((contents.in_use(), contents.ideal()), (4, 2));
        assert_eq!(contents.lower_bound(), BLOCK / 8 + BLOCK / 4);
        assert_eq!(contents.bound_of(1), BLOCK / 8);
        assert_eq!(Contents::of(3, []).lower_bound(), 0);
    }
}
