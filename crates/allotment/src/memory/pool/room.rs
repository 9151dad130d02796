//! What a run that makes room for a request asks of the pools: what the request needs there, what is missing, and to be placed.

use crate::memory::pool::requests::Placed;
use allotment_suballoc::{Algorithm, Alignment, Handle, Request};

use super::shards::PoolShards;
use super::{PoolSlot, PoolState};
use crate::device::{Device, MemoryHeapIndex};
use crate::memory::block_set::Role;
use crate::memory::pool::pools::Pools;
use crate::memory::request::AllocationRequest;
use crate::sync::locked;

/// What a request needs in a block set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Needed {
    /// Bytes of a range in one of its blocks, and their alignment.
    pub(crate) bytes: u64,
    pub(crate) alignment: Alignment,
    /// Bytes that the blocks of the set have to give back before the request gets a block of its own; `None` where no number of
    /// bytes helps.
    pub(crate) missing: Option<u64>,
    pub(crate) heap: MemoryHeapIndex,
}

impl<D: Device> PoolSlot<D> {
    /// Returns the pool's shards and the heap of each block set; `None` where there is no pool.
    pub(crate) fn heaps_of_sets(&self) -> Option<(PoolShards, Vec<MemoryHeapIndex>)> {
        let guard = locked(&self.state);
        let state = guard.as_ref()?;
        Some((state.shards, state.sets.iter().map(|set| set.heap).collect()))
    }

    /// Returns whether the blocks of the pool take new ranges at their ends only.
    pub(crate) fn is_linear(&self) -> bool {
        locked(&self.state).as_ref().is_some_and(|state| state.rules.algorithm == Algorithm::Linear)
    }
}

impl<D: Device> Pools<D> {
    /// Returns what a request needs in a block set of the shard in slot `pool`; `None` where it cannot share a block there.
    pub(crate) fn needed_in(&self, pool: u32, set: usize, request: &AllocationRequest<'_>) -> Option<Needed> {
        let guard = locked(&self.slots.get(pool)?.state);
        let state = guard.as_ref()?;
        let rounded = self.round_request(state, set, request).ok()?;
        if rounded.role == Role::DedicatedToAllocation || state.rules.algorithm == Algorithm::Linear {
            return None;
        }
        let Request { size, alignment, .. } = rounded.request;
        let missing = self.missing_by_own_pool((state, set), &rounded, request);
        let (bytes, alignment) = state.range_of(set, size, alignment);
        Some(Needed { bytes, alignment, missing, heap: state.sets[set].heap })
    }

    /// Returns the heap of a block set, and how many bytes any of its pools have to give back before a request gets a block of
    /// its own there; `None` where no number of bytes helps.
    pub(crate) fn missing_in(
        &self,
        pool: u32,
        set: usize,
        request: &AllocationRequest<'_>,
    ) -> Option<(MemoryHeapIndex, u64)> {
        let guard = locked(&self.slots.get(pool)?.state);
        let state: &PoolState<D> = guard.as_ref()?;
        let rounded = self.round_request(state, set, request).ok()?;
        let bytes = self.missing_by_any_pool((state, set), &rounded, request)?;
        Some((state.sets[set].heap, bytes))
    }

    /// Places a request at an offset of a block, which may be closed: directly behind the range `after`, or at the start of the
    /// block where that is `None`. Returns `None` where the place is not free.
    pub(crate) fn place_in_room(
        &self,
        (pool, set): (u32, usize),
        at: (u32, u64, Option<Handle>),
        request: &AllocationRequest<'_>,
    ) -> Option<Placed<D>> {
        let slot = self.slots.get(pool)?;
        let mut guard = locked(&slot.state);
        let state = guard.as_mut()?;
        let rounded = self.round_request(state, set, request).ok()?;
        let placed = state.place_request_at(slot, set, at, &rounded, request);
        state.store_counters(slot);
        Some(state.placed(slot, placed?))
    }
}
