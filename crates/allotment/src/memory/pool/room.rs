//! What a run that makes room for a request asks of the pools: what the request needs there, what is missing, and to be placed.
//! And what a survey asks: the blocks and the allocations of a shard.

use crate::memory::pool::requests::Placed;
use allotment_suballoc::{Algorithm, Alignment, Handle, Request};

use super::moves::SurveyedAllocation;
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

/// A block as a survey sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockSeen {
    pub(crate) index: u32,
    pub(crate) size: u64,
    pub(crate) shared: bool,
    /// Another run is emptying it, or is going to; or an earlier one has, and its old places are not free yet.
    pub(crate) of_another_run: bool,
}

/// A block set of a shard as a survey sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SetSeen {
    /// The requests that the shard has served.
    pub(crate) requests: u32,
    /// No thread allocates in the shard at present.
    pub(crate) is_idle: bool,
    /// The shared blocks that the set keeps.
    pub(crate) least_blocks: u32,
    /// Bytes that must stay free for coming requests.
    pub(crate) ahead: u64,
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

    /// Returns a block set and its blocks, for the run with a key. `None` where there is no set of this number.
    pub(crate) fn survey_blocks(&self, set: u8, run: u64, tick: u64) -> Option<(SetSeen, Vec<BlockSeen>)> {
        let at = usize::from(set);
        let there = self.counters.get(at)?.load();
        // The counters are read without the lock. They may be a little old; then the vector grows under it.
        let mut blocks = Vec::with_capacity((there.blocks + there.dedicated) as usize);
        let mut guard = locked(&self.state);
        let state = guard.as_mut()?;
        blocks.extend(state.sets.get(at)?.blocks().map(|(index, block)| BlockSeen {
            index,
            size: block.memory.size(),
            shared: block.role == Role::Shared,
            of_another_run: block.is_of_another_run(run),
        }));
        // The pool's watermark concerns its first memory type only.
        let first = state.first_sets().any(|first| first == at);
        let seen = SetSeen {
            requests: state.use_of_shard.requests(),
            is_idle: state.use_of_shard.is_idle(tick),
            least_blocks: state.least_blocks(at),
            ahead: if first { state.room_to_keep() } else { 0 },
        };
        Some((seen, blocks))
    }

    /// Adds the allocations among up to `count` records from `first` on to `seen`. Returns true when there are more records.
    pub(crate) fn survey_records(&self, first: u32, count: u32, seen: &mut Vec<SurveyedAllocation>) -> bool {
        self.state.look(|state| {
            let Some(state) = state.as_ref() else { return false };
            state.survey_allocations(self, first, count, |allocation| seen.push(allocation));
            first.saturating_add(count) < state.records()
        })
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
