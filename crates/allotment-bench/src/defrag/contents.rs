//! What is in the blocks, and what the best of all planners would have to copy.
//!
//! To give k blocks back, everything in k blocks must go elsewhere, and the k with the least in them are the least
//! that this can be. Whether it finds room is not asked, so nobody may be able to do as well.

use std::collections::BTreeMap;

use super::state::BLOCK;

/// The blocks of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Contents {
    /// Memory objects, the empty ones among them.
    pub(super) blocks: u32,
    /// Bytes in each that has something in it, as they were asked for; the least first.
    occupied: Vec<u64>,
}

impl Contents {
    /// Of `blocks` memory objects, with allocations of these: a memory object and a size each.
    pub(super) fn of(blocks: u32, allocations: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut by_memory = BTreeMap::<_, u64>::new();
        for (memory, size) in allocations {
            *by_memory.entry(memory).or_default() += size;
        }
        let mut occupied: Vec<_> = by_memory.into_values().collect();
        occupied.sort_unstable();
        Self { blocks, occupied }
    }

    /// Bytes in all of them.
    pub(super) fn live(&self) -> u64 {
        self.occupied.iter().sum()
    }

    /// The least number of blocks that have room for as many bytes.
    pub(super) fn ideal(&self) -> u32 {
        self.live().div_ceil(BLOCK) as u32
    }

    /// Blocks with something in them.
    pub(super) fn in_use(&self) -> u32 {
        self.occupied.len() as u32
    }

    /// Bytes that are copied at least until the ideal number is left.
    pub(super) fn lower_bound(&self) -> u64 {
        self.bound_of(self.in_use() - self.ideal())
    }

    /// Bytes that are copied at least until `freed` blocks less are in use.
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
