//! What holds the ranges of some blocks while allocations move: which allocation is before a place.

use std::collections::BTreeMap;

use allotment_suballoc::Handle;

use crate::device::Device;
use crate::memory::allocator::Allocator;
use crate::memory::block_set::PlacedRange;
use crate::memory::defragmentation::survey::Arena;

/// A record and its generation, by the shard that has it: an allocation, or a place that is reserved or left.
pub(super) type Holder = (u32, u32, u32);

/// Returns true while a holder is what it was. Locks the shard of its record.
pub(super) fn is_live<D: Device>(allocator: &Allocator<D>, (pool, record, generation): Holder) -> bool {
    allocator.pools.get(pool).is_some_and(|slot| slot.is_live(record, generation))
}

/// Returns the range of a holder, with the block set that has it.
pub(super) fn range_of<D: Device>(allocator: &Allocator<D>, holder: Holder) -> Option<(Arena, PlacedRange)> {
    let (pool, record, generation) = holder;
    let (pool, set, placed) = allocator.pools.get(pool)?.range_of(record, generation)?;
    Some((Arena { pool, set }, placed))
}

/// The ranges of some blocks by offset, as far as they are known. One that is gone is forgotten when it is met.
#[derive(Debug)]
pub(super) struct Holders {
    /// By the index of the block in the plan.
    blocks: Vec<BTreeMap<u64, Holder>>,
}

impl Holders {
    pub(super) fn new(blocks: usize) -> Self {
        Self { blocks: vec![BTreeMap::new(); blocks] }
    }

    pub(super) fn put(&mut self, block: u32, offset: u64, holder: Holder) {
        self.blocks[block as usize].insert(offset, holder);
    }

    /// Returns the live range that is next before an offset; `None` where there is none before it. Locks the shard of its
    /// record. Whether it still ends at the place is checked when that is taken.
    pub(super) fn before<D: Device>(
        &mut self,
        allocator: &Allocator<D>,
        block: u32,
        (arena, index): (Arena, u32),
        offset: u64,
    ) -> Option<Handle> {
        loop {
            // Most are what they were. One that was freed or moved on is found out here, so no end of a move has to clean up
            // the map.
            let (&start, &holder) = self.blocks[block as usize].range(..offset).next_back()?;
            match range_of(allocator, holder) {
                Some((at, placed)) if (at, placed.range.block, placed.offset) == (arena, index, start) => {
                    return Some(placed.range.handle);
                }
                _ => _ = self.blocks[block as usize].remove(&start),
            }
        }
    }

    /// Returns true when a range that a move left is still held, since its old use has not ended: then places that are
    /// not free yet become free.
    pub(super) fn any_left<D: Device>(allocator: &Allocator<D>, left: &mut Vec<Holder>) -> bool {
        // Each is forgotten once; one that is held is answer enough.
        while left.last().is_some_and(|&holder| !is_live(allocator, holder)) {
            left.pop();
        }
        !left.is_empty()
    }

    /// Drops a small piece. Returns false once nothing is left.
    pub(super) fn drop_piece(&mut self) -> bool {
        let Some(block) = self.blocks.last_mut() else { return false };
        if block.pop_first().is_none() {
            self.blocks.pop();
        }
        true
    }
}
