//! Sums over a pool's blocks.

use super::{PoolSlot, PoolState};
use crate::device::{Device, MemoryTypeIndex};
use crate::memory::reports::statistics::{DetailedStatistics, Statistics};

impl<D: Device> PoolState<D> {
    /// Returns the sums over all memory types.
    pub(in crate::memory) fn statistics(&self) -> Statistics {
        self.sets.iter().map(|set| set.statistics).sum()
    }

    /// Passes the detailed statistics of each memory type to `add`.
    pub(in crate::memory) fn add_detailed(
        &mut self,
        slot: &PoolSlot<D>,
        mut add: impl FnMut(MemoryTypeIndex, DetailedStatistics),
    ) {
        // Ranges that wait in the quick lists are free.
        self.flush_quick_lists_and_say_so();
        for (set, blocks) in self.sets.iter().enumerate() {
            add(blocks.memory_type, self.detailed(slot, set));
        }
    }

    /// Returns sums and extremes of one memory type from a walk over its allocations. Call after
    /// [`flush_quick_lists`](Self::flush_quick_lists).
    pub(in crate::memory) fn detailed(&self, slot: &PoolSlot<D>, set: usize) -> DetailedStatistics {
        let mut detailed = self.sets[set].detailed();
        for (record, _) in self.live().filter(|(_, detail)| usize::from(detail.set) == set) {
            let Some(entry) = slot.records.get(record) else { continue };
            let size = allotment_suballoc::SizeRange::including(detailed.allocation_size, entry.size());
            detailed.allocation_size = Some(size);
        }
        detailed
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
    pub(in crate::memory) fn resources(&self) -> u32 {
        self.live().filter(|(_, detail)| detail.has_resource()).count() as u32
    }

    /// Stores the statistics where they can be read without the lock.
    pub(in crate::memory) fn store_counters(&self, slot: &PoolSlot<D>) {
        for (set, counters) in self.sets.iter().zip(&slot.counters) {
            counters.store(&set.statistics);
        }
    }
}
