//! Sums over a pool's blocks.

use core::ops::Index;
use std::sync::OnceLock;

use allotment_suballoc::SizeRange;

use super::{Detail, MAX_POOL_SETS, PoolSlot, PoolState};
use crate::choices::Name;
use crate::choices::blocks::BlockSize;
use crate::device::{Device, MemoryTypeIndex};
use crate::memory::block_set::Block;
use crate::memory::pool::pieces::SeenKind;
use crate::memory::statistics::{Counters, DetailedStatistics, Statistics};

/// The counters of a pool's block sets.
///
/// The first beside the pool's lock, and the others made when they are needed: nearly all pools have one memory type.
#[derive(Debug, Default)]
pub(crate) struct CountersOfSets {
    first: Counters,
    others: OnceLock<Box<[Counters; MAX_POOL_SETS - 1]>>,
}

impl CountersOfSets {
    /// Iterates over the counters of the sets that have any.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Counters> {
        core::iter::once(&self.first).chain(self.others.get().into_iter().flat_map(|others| others.iter()))
    }

    #[inline(never)]
    fn other(&self, set: usize) -> &Counters {
        &self.others.get_or_init(Box::default)[set - 1]
    }

    /// Returns those of a set that has any.
    pub(super) fn get(&self, set: usize) -> Option<&Counters> {
        match set.checked_sub(1) {
            None => Some(&self.first),
            Some(at) => self.others.get()?.get(at),
        }
    }
}

impl Index<usize> for CountersOfSets {
    type Output = Counters;

    // Always: most pools have one set, and each allocation and free counts.
    #[inline(always)]
    fn index(&self, set: usize) -> &Counters {
        if set == 0 { &self.first } else { self.other(set) }
    }
}

impl<D: Device> PoolState<D> {
    /// Returns the sums over all memory types.
    pub(super) fn statistics(&self) -> Statistics {
        self.sets.iter().map(|set| set.statistics).sum()
    }

    /// Returns the bytes of the blocks that are in use: all but the empty ones.
    ///
    /// Not those of the allocations: they are less by the holes between them, and a block that is needed because of the
    /// holes would look like surplus.
    pub(super) fn used(&self) -> u64 {
        self.sets.iter().map(|set| set.statistics.block_bytes - set.empty_bytes).sum()
    }

    /// Returns the bytes of all blocks.
    pub(super) fn reserved(&self) -> u64 {
        self.sets.iter().map(|set| set.statistics.block_bytes).sum()
    }

    /// Returns the number of buffers and images that the allocator created in this pool.
    pub(super) fn resources(&self) -> u32 {
        self.live().filter(|(_, detail)| detail.has_resource()).count() as u32
    }

    /// Stores the statistics where they can be read without the lock.
    pub(super) fn store_counters(&self, slot: &PoolSlot<D>) {
        for (at, set) in self.sets.iter().enumerate() {
            slot.counters[at].store(&set.statistics);
        }
    }
}

/// What a pool, or a shard of it, is.
pub(crate) struct Description {
    /// The index of the pool's first shard.
    pub(crate) first: u32,
    pub(crate) sizing: BlockSize,
    pub(crate) name: Option<Name>,
    /// By block set.
    pub(crate) memory_types: Vec<MemoryTypeIndex>,
}

impl<D: Device> PoolSlot<D> {
    /// Returns what the pool is; `None` where there is none.
    pub(crate) fn describe(&self) -> Option<Description> {
        let describe = |state: &PoolState<D>| Description {
            first: state.shards.first,
            sizing: state.rules.sizing,
            name: state.rules.name.clone(),
            memory_types: state.sets.iter().map(|set| set.memory_type).collect(),
        };
        self.state.look(|state| state.as_ref().map(describe))
    }

    /// Passes the detailed statistics of each memory type to `add`, from a walk in [pieces](super::pieces).
    pub(crate) fn add_detailed(&self, mut add: impl FnMut(MemoryTypeIndex, DetailedStatistics)) {
        let mut sets: Vec<(MemoryTypeIndex, DetailedStatistics)> = Vec::new();
        let mut blocks = Vec::new();
        // With each block what its set says, so that the last one says the latest; a set without blocks has nothing to say.
        let read = |state: &PoolState<D>, set: usize, index, block: &Block<D>| {
            let of_set = &state.sets[set];
            let (brief, empty_blocks) = (of_set.statistics, of_set.empty_blocks);
            let free_ranges = block.ranges.statistics().free_range_count;
            let detailed = DetailedStatistics { brief, empty_blocks, ..DetailedStatistics::default() };
            ((set, index, block.object()), (of_set.memory_type, detailed), free_ranges)
        };
        self.each_block(read, |block| blocks.push(block));
        for (place @ (set, ..), (memory_type, of_set), free_ranges) in blocks {
            if sets.len() <= set {
                sets.resize(set + 1, (memory_type, DetailedStatistics::default()));
            }
            let (known_type, detailed) = &mut sets[set];
            *known_type = memory_type;
            (detailed.brief, detailed.empty_blocks) = (of_set.brief, of_set.empty_blocks);
            detailed.free_ranges += free_ranges;
            self.each_region(place, |region| {
                if region.kind == SeenKind::Free {
                    detailed.free_size = Some(SizeRange::including(detailed.free_size, region.size));
                }
            });
        }
        let read = |_: &PoolState<D>, record, detail: &Detail| {
            Some((usize::from(detail.set), self.records.get(record)?.size()))
        };
        self.each_live(read, |(set, size)| {
            // An allocation may be in a block that was added since.
            let Some((_, detailed)) = sets.get_mut(set) else { return };
            detailed.allocation_size = Some(SizeRange::including(detailed.allocation_size, size));
        });
        sets.into_iter().for_each(|(memory_type, detailed)| add(memory_type, detailed));
    }
}
