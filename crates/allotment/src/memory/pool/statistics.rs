//! Sums over a pool's blocks.

use super::{PoolSlot, PoolState};
use crate::device::Device;
use crate::memory::statistics::{DetailedStatistics, Statistics};

impl<D: Device> PoolState<D> {
    pub(in crate::memory) fn statistics(&self) -> Statistics {
        self.sets.iter().map(|set| set.statistics).sum()
    }

    /// Sums and extremes of one memory type from a walk, after [`settle`](Self::settle).
    pub(in crate::memory) fn detailed(&self, set: usize) -> DetailedStatistics {
        let mut detailed = self.sets[set].detailed();
        for detail in self.live().map(|(_, detail)| detail).filter(|detail| usize::from(detail.set) == set) {
            let size =
                allotment_suballoc::SizeRange::including(detailed.allocation_size, detail.sizes.requested);
            detailed.allocation_size = Some(size);
        }
        detailed
    }

    /// Bytes of the blocks that are in use: all but the empty ones. (Of the allocations would be less by
    /// what lies between them, and a block that is needed because of that would look like surplus.)
    pub(super) fn used(&self) -> u64 {
        self.sets.iter().map(|set| set.statistics.block_bytes - set.empty_bytes).sum()
    }

    pub(super) fn reserved(&self) -> u64 {
        self.sets.iter().map(|set| set.statistics.block_bytes).sum()
    }

    /// How many buffers and images of the allocator's own stand here.
    pub(in crate::memory) fn resources(&self) -> u32 {
        self.live().filter(|(_, detail)| detail.has_resource).count() as u32
    }

    pub(in crate::memory) fn store_counters(&self, slot: &PoolSlot<D>) {
        for (set, counters) in self.sets.iter().zip(&slot.counters) {
            counters.store(&set.statistics);
        }
    }
}
