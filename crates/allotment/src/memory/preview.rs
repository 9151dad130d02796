//! What a request would do, without doing it.

use super::allocator::Allocator;
use super::block_set::BlockSet;
use super::{AllocationDesc, AllocationError, NewBlocks, ShortName};
use crate::device::{Device, MemoryHeapIndex, MemoryTypeIndex};
use crate::sync::locked;

/// What a request would do; see [`Allocator::preview`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AllocationPreview {
    /// There is room in memory that the allocator has already.
    Fits {
        /// Of this type.
        memory_type: MemoryTypeIndex,
    },
    /// The driver would be asked for memory.
    Grows {
        /// Of this type.
        memory_type: MemoryTypeIndex,
        /// From this heap.
        heap: MemoryHeapIndex,
        /// So many bytes.
        bytes: u64,
    },
}

impl<D: Device> Allocator<D> {
    /// What serving a request would do now: use what is there, or ask the driver for how much.
    ///
    /// Between the answer and the request, other threads may change both. A request that is refused gives
    /// empty blocks back and tries once more; the answer does not count on the room that this makes.
    ///
    /// # Errors
    ///
    /// What [`allocate`](Self::allocate) would be refused with by the allocator's own rules; what the
    /// driver would say, only asking it tells.
    pub fn preview(&self, desc: &AllocationDesc) -> Result<AllocationPreview, AllocationError> {
        self.by_ranking(desc, |memory_type, desc| {
            self.preview_shards(self.default_pool_for(memory_type, desc), desc)
        })
    }

    /// What serving a request from one memory type of one pool would do.
    pub(super) fn preview_from_pool(
        &self,
        pool: u32,
        set: usize,
        desc: &AllocationDesc,
    ) -> Result<AllocationPreview, AllocationError> {
        let slot = self.pools.get(pool).ok_or(AllocationError::ForeignPool)?;
        let mut guard = locked(&slot.state);
        let state = guard.as_mut().ok_or(AllocationError::ForeignPool)?;
        state.flush_quick_lists();
        let fitted = self.round_request(state, set, desc)?;
        let BlockSet { memory_type, heap, .. } = state.sets[set];
        if state.would_place(set, &fitted) {
            return Ok(AllocationPreview::Fits { memory_type });
        }
        if desc.new_blocks == NewBlocks::NeverAllocate {
            let (free, largest_free) = state.sets[set].room();
            let requested = fitted.sizes.requested;
            return Err(AllocationError::WouldGrow { requested, free, largest_free, name: ShortName::NONE });
        }
        let plan = state.plan_block(set, &fitted, desc, self.heaps.heap_size(heap))?;
        let wish = state.source(set, desc).budget_policy;
        drop(guard);

        let mut refused = AllocationError::ZeroSize;
        for (bytes, _) in plan.attempts(self.heaps.room_for_block(&self.device, heap), &fitted) {
            match self.heaps.check(&self.device, memory_type, bytes, wish) {
                Ok(()) => return Ok(AllocationPreview::Grows { memory_type, heap, bytes }),
                Err(error) if error.falls_through() => refused = error,
                Err(error) => return Err(error),
            }
        }
        Err(refused)
    }
}
