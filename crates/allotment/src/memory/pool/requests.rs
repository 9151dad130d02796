//! What a request asks of a shard of a pool, and what the shard answers.
//!
//! Each question holds the lock for a moment, and what an answer demands is done without it: so no thread waits for a driver
//! call of another one but where that call is for both.
//!
//! ```text
//!   place ──► Placed
//!     ├─► Reclaim: what the GPU has finished with is destroyed ─────────┐
//!     ├─► Full: the pool may have no more blocks; an empty one is freed ┼─► place
//!     ├─► Wait: another thread allocates a block ───────────────────────┘
//!     └─► NeedsBlock ──► the driver ──► insert ──► Placed
//! ```
//!
//! The steps are those of `allocator/allocate.rs`.

use std::sync::{MutexGuard, PoisonError};

use super::shards::LockedShard;
use super::{
    BlockPlan, LentBlock, PendingBlock, PlanSizes, PoolSlot, PoolState, RecordInUse, RoundedRequest, Source,
};
use crate::choices::blocks::BlockSize;
use crate::device::{Device, MemoryHeapIndex, MemoryTypeIndex, OwnedMemory, Priority};
use crate::memory::block_set::{BlockSet, Role, UsableBlocks};
use crate::memory::driver::Terms;
use crate::memory::pool::pools::Pools;
use crate::memory::request::{AllocationRequest, LARGEST_WAITING};
use crate::memory::time::Moment;
use crate::memory::{AllocationError, NewBlocks, ShortName};
use crate::sync::locked;

/// Whether a shard was asked for this request before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    First {
        /// Something may wait for the GPU that could be destroyed.
        may_reclaim: bool,
    },
    Again,
}

/// What a shard says to a request.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "it is returned once for each driver call, and looked at at once"
)]
pub(crate) enum Answer<'a, D: Device> {
    Placed(Placed<D>),
    /// No block has room. What the GPU has finished with is destroyed before a block is allocated.
    Reclaim,
    /// The pool has all blocks that it may have. This one was empty, and is freed for one that serves the request.
    Full(OwnedMemory<D>),
    /// A block that another thread is allocating may have room.
    Wait(AwaitedBlock),
    NeedsBlock(NeededBlock<'a, D>),
}

/// A request that has its place.
#[derive(Debug)]
#[must_use = "the priority of its memory may have to be set"]
pub(crate) struct Placed<D: Device> {
    pub(crate) in_use: RecordInUse,
    /// Of the memory, which is reused: to be set with no lock held.
    pub(crate) changed_priority: Option<(D::Memory, Priority)>,
    /// The pool has less room than the maintenance thread keeps there.
    pub(crate) is_low: bool,
}

/// Which block a request waits for, of those that other threads are allocating.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AwaitedBlock {
    /// The shared block of a set.
    OfSet(usize),
    Any,
}

/// A block that a request needs. The pool counts it as pending until it is [inserted](PendingBlock::insert).
#[derive(Debug)]
pub(crate) struct NeededBlock<'a, D: Device> {
    pub(crate) pending: PendingBlock<'a, D>,
    pub(crate) plan: BlockPlan,
    pub(crate) rounded: RoundedRequest,
    pub(crate) source: Source<D>,
    /// When the request found that it needs the block.
    pub(crate) now: Moment,
}

/// What a shard says to a resource that comes with its own memory.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "it is returned once for each driver call, and looked at at once"
)]
pub(crate) enum Expected<'a, D: Device> {
    Block(NeededBlock<'a, D>),
    /// As [`Answer::Full`].
    Full(OwnedMemory<D>),
}

/// What a shard would do for a request.
#[derive(Debug)]
pub(crate) enum WouldPlace {
    Fits {
        memory_type: MemoryTypeIndex,
    },
    NeedsBlock {
        plan: BlockPlan,
        rounded: RoundedRequest,
        of: (MemoryTypeIndex, MemoryHeapIndex),
        terms: Terms,
    },
}

impl<D: Device> Pools<D> {
    /// Asks a shard for a place, whose lock the caller holds: steps 3, 4 and 6.
    pub(crate) fn ask<'a>(
        &self,
        LockedShard { slot, mut guard, .. }: LockedShard<'a, D>,
        (set, sizes): (usize, PlanSizes),
        request: &AllocationRequest<'_>,
        asked: Asked,
    ) -> Result<Answer<'a, D>, AllocationError> {
        let state = guard.as_mut().ok_or(AllocationError::WrongPool { name: ShortName::NONE })?;
        // Once: a request that comes back from a wait finds freed ranges in the blocks, into which `place_in_existing` flushes
        // the lists. And a freed range may be in a block that cannot be mapped.
        if asked != Asked::Again
            && request.requirements.size <= LARGEST_WAITING
            && request.is_ordinary()
            && self.usable_blocks(state.sets[set].memory_type, request) == UsableBlocks::ALL
        {
            let rounded = state.rounded_size(set, request);
            if let Some(in_use) = state.place_quickly(slot, set, rounded, request) {
                return Ok(Answer::Placed(Placed { in_use, changed_priority: None, is_low: false }));
            }
        }
        let rounded = self.round_request(state, set, request)?;
        if let Some(record) = state.place_in_existing(slot, set, &rounded, request)? {
            return Ok(Answer::Placed(state.placed(slot, record)));
        }
        if asked == (Asked::First { may_reclaim: true }) && !matches!(sizes, PlanSizes::Below(_)) {
            return Ok(Answer::Reclaim);
        }
        state.may_grow(set, &rounded, request)?;
        let plan = match state.plan_block(set, &rounded, request) {
            Err(full @ AllocationError::PoolFull { .. }) => return state.make_way(slot).ok_or(full),
            plan => plan?,
        };
        self.check_last_resort(&plan, request)?;
        let shared = plan.role == Role::Shared;
        if shared && state.sets[set].growing {
            // One block for both threads: the block of the other one probably has room for this request, too. If it has not,
            // this thread is the next to allocate.
            return Ok(Answer::Wait(AwaitedBlock::OfSet(set)));
        }
        let from = (state.sets[set].memory_type, state.terms(request));
        if let Some(refused) = self.known_refusal(&plan, (sizes, &rounded), from) {
            request.note_answered();
            return Err(refused);
        }
        // Copied while the pool is locked, since the driver call is made without the lock.
        let source = state.source(set, request);
        let now = self.time.now();
        // Before the driver call, which replaces blocks that have been empty for some frames: their age must be current.
        state.pass_time(now);
        let pending = PendingBlock::begin(slot, state, set, shared);
        Ok(Answer::NeedsBlock(NeededBlock { pending, plan, rounded, source, now }))
    }

    /// Announces to a pool that the caller creates dedicated memory together with a resource. The caller passes it to
    /// [`insert_block`](Self::insert_block), also when it is a refusal; or it frees the empty block that was in the way.
    ///
    /// The memory has exactly the size of the resource, as the API demands, so nothing is rounded.
    pub(crate) fn expect_dedicated<'a>(
        &self,
        slot: &'a PoolSlot<D>,
        set: usize,
        request: &AllocationRequest<'_>,
    ) -> Result<Expected<'a, D>, AllocationError> {
        let mut guard = locked(&slot.state);
        let state = guard.as_mut().ok_or(AllocationError::WrongPool { name: ShortName::NONE })?;
        let mut rounded = self.round_request(state, set, request)?;
        rounded.request.size = request.requirements.size;
        rounded.sizes.occupied = request.requirements.size;
        let plan = match state.plan_block(set, &rounded, request) {
            Err(full @ AllocationError::PoolFull { .. }) => {
                return state.take_any_empty(slot).map(Expected::Full).ok_or(full);
            }
            plan => plan?,
        };
        let (source, now) = (state.source(set, request), self.time.now());
        let pending = PendingBlock::begin(slot, state, set, false);
        Ok(Expected::Block(NeededBlock { pending, plan, rounded, source, now }))
    }

    /// Returns what a shard would do for a request.
    pub(crate) fn would_place(
        &self,
        slot: &PoolSlot<D>,
        set: usize,
        request: &AllocationRequest<'_>,
    ) -> Result<WouldPlace, AllocationError> {
        let mut guard = locked(&slot.state);
        let state = guard.as_mut().ok_or(AllocationError::WrongPool { name: ShortName::NONE })?;
        // The request itself would flush them before it gave up, and ranges joined with their neighbours may hold it.
        state.flush_quick_lists_and_say_so();
        let rounded = self.round_request(state, set, request)?;
        let BlockSet { memory_type, heap, .. } = state.sets[set];
        if state.would_place(set, &rounded) {
            return Ok(WouldPlace::Fits { memory_type });
        }
        state.may_grow(set, &rounded, request)?;
        let plan = state.plan_block(set, &rounded, request)?;
        self.check_last_resort(&plan, request)?;
        let terms = state.terms(request);
        Ok(WouldPlace::NeedsBlock { plan, rounded, of: (memory_type, heap), terms })
    }

    /// Returns how many bytes the blocks of a pool have to give back before a request that was refused gets a block of its own
    /// size there; `None` where no number of bytes helps.
    pub(super) fn missing_by_own_pool(
        &self,
        (state, set): (&PoolState<D>, usize),
        rounded: &RoundedRequest,
        request: &AllocationRequest<'_>,
    ) -> Option<u64> {
        // Where all blocks have one size, an empty one is as good as a new one.
        if matches!(state.rules.sizing, BlockSize::Fixed(_)) {
            return None;
        }
        // At least one byte: the pool may have all its blocks.
        Some(self.missing_for_block((state, set), rounded, request)?.max(1))
    }

    /// Returns how many bytes of a heap any of its pools have to give back before a request that was refused gets a block of
    /// its own size; `None` where no number of bytes helps.
    pub(super) fn missing_by_any_pool(
        &self,
        (state, set): (&PoolState<D>, usize),
        rounded: &RoundedRequest,
        request: &AllocationRequest<'_>,
    ) -> Option<u64> {
        // What others free is of no use to a pool that may not have another block.
        if state.has_all_blocks() {
            return None;
        }
        let missing = self.missing_for_block((state, set), rounded, request)?;
        // At least one byte: the device may have all its memory objects. Nothing else that was the reason changes by what
        // other pools free.
        (missing != 0 || self.heaps.all_objects_exist(&self.device)).then(|| missing.max(1))
    }

    /// Returns how many bytes a heap has too few for the least block that serves a request; `None` where none may be allocated.
    fn missing_for_block(
        &self,
        (state, set): (&PoolState<D>, usize),
        rounded: &RoundedRequest,
        request: &AllocationRequest<'_>,
    ) -> Option<u64> {
        if request.options.new_blocks == NewBlocks::NeverAllocate {
            return None;
        }
        let memory_type = state.sets[set].memory_type;
        let plan = state.plan_block_sizes(set, rounded, request).ok()?;
        let at_last = RoundedRequest { at_last: true, ..*rounded };
        let (size, _) = plan.attempts(PlanSizes::All, u64::MAX, &at_last).last()?;
        Some(self.heaps.missing(&self.device, memory_type, size, state.budget_policy(request.budget)))
    }

    /// Rounds a request for one block set of a pool (step 3).
    pub(super) fn round_request(
        &self,
        state: &PoolState<D>,
        set: usize,
        request: &AllocationRequest<'_>,
    ) -> Result<RoundedRequest, AllocationError> {
        let scarce = self.heaps.objects_are_scarce(&self.device);
        let usable = self.usable_blocks(state.sets[set].memory_type, request);
        Ok(RoundedRequest { usable, ..state.round_request(set, request, scarce)? })
    }

    /// Refuses a block that is a last resort, where the other memory types have not been tried.
    fn check_last_resort(
        &self,
        plan: &BlockPlan,
        request: &AllocationRequest<'_>,
    ) -> Result<(), AllocationError> {
        if plan.is_last_resort() && !request.at_last {
            let limit = self.device.properties().limits.max_allocation_count;
            return Err(AllocationError::TooManyAllocations { limit, name: ShortName::NONE });
        }
        Ok(())
    }
}

impl<D: Device> PoolSlot<D> {
    /// Waits until a block is there, or refused, that another thread is allocating.
    pub(crate) fn wait_for_block(&self, awaited: AwaitedBlock) {
        let guard = locked(&self.state);
        let is_pending = |state: &PoolState<D>| match awaited {
            AwaitedBlock::OfSet(set) => state.sets[set].growing,
            AwaitedBlock::Any => state.pending != 0,
        };
        // The lock was free since the shard gave its answer, and the block may have come.
        if guard.as_ref().is_some_and(is_pending) {
            drop(self.grown.wait(guard).unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Adds a block that another shard lent, and places a request in it. On error the memory is returned.
    pub(super) fn insert_lent(
        &self,
        set: usize,
        lent: LentBlock<D>,
        rounded: &RoundedRequest,
        request: &AllocationRequest<'_>,
    ) -> Result<Placed<D>, (AllocationError, Option<OwnedMemory<D>>)> {
        let LentBlock { memory, role, of_minimum } = lent;
        let mut guard = locked(&self.state);
        // The pool's minimum goes where its block goes, so it holds for all shards together.
        guard.iter_mut().for_each(|state| state.change_minimum(set, |blocks| blocks + u32::from(of_minimum)));
        self.insert(guard, set, (memory, role, true), rounded, request)
    }

    /// Adds a memory object to the pool whose lock the caller holds, and places a request in it.
    fn insert(
        &self,
        mut guard: MutexGuard<'_, Option<PoolState<D>>>,
        set: usize,
        (memory, role, lent): (OwnedMemory<D>, Role, bool),
        rounded: &RoundedRequest,
        request: &AllocationRequest<'_>,
    ) -> Result<Placed<D>, (AllocationError, Option<OwnedMemory<D>>)> {
        let Some(state) = guard.as_mut() else {
            // The pool was destroyed meanwhile.
            return Err((AllocationError::WrongPool { name: ShortName::NONE }, Some(memory)));
        };
        let record = state.place_in_new_block(self, set, memory, (role, lent), rounded, request)?;
        Ok(state.placed(self, record))
    }
}

impl<'a, D: Device> PendingBlock<'a, D> {
    /// Adds the memory that the driver allocated to the pool and places the request in it; or notes that it was refused. On
    /// error the memory is returned, if there is any.
    pub(crate) fn insert(
        self,
        memory: Result<(OwnedMemory<D>, Role), AllocationError>,
        rounded: &RoundedRequest,
        request: &AllocationRequest<'_>,
    ) -> Result<Placed<D>, (AllocationError, Option<OwnedMemory<D>>)> {
        let (slot, set) = (self.slot(), self.set());
        let mut guard = locked(&slot.state);
        // Before anything can fail: other threads wait for this.
        self.end(guard.as_mut());
        let (memory, role) = memory.map_err(|refused| (refused, None))?;
        slot.insert(guard, set, (memory, role, false), rounded, request)
    }
}

impl<D: Device> PoolState<D> {
    /// Describes a request that was placed under a record.
    pub(super) fn placed(&mut self, slot: &PoolSlot<D>, record: u32) -> Placed<D> {
        // Under the lock, before a reset of the pool can change the generation. The priority is set after it, by a driver call.
        let generation = slot.records.get(record).map_or(0, |record| record.generation());
        let in_use = RecordInUse::new(record, generation);
        Placed { in_use, changed_priority: self.changed_priority.take(), is_low: self.is_low() }
    }

    /// Returns true if the pool has less room than the maintenance thread keeps there.
    pub(super) fn is_low(&self) -> bool {
        self.rules.ahead.is_some() && self.needs_maintenance()
    }

    /// Refuses a request that is to get no new block.
    fn may_grow(
        &self,
        set: usize,
        rounded: &RoundedRequest,
        request: &AllocationRequest<'_>,
    ) -> Result<(), AllocationError> {
        if request.options.new_blocks != NewBlocks::NeverAllocate {
            return Ok(());
        }
        let (free, largest_free) = self.sets[set].free_and_largest();
        let requested = rounded.sizes.requested;
        Err(AllocationError::WouldGrow { requested, free, largest_free, name: ShortName::NONE })
    }

    /// Returns what lets a pool with all its blocks have another one; `None` where nothing does.
    fn make_way<'a>(&mut self, slot: &PoolSlot<D>) -> Option<Answer<'a, D>> {
        match self.take_any_empty(slot) {
            Some(memory) => Some(Answer::Full(memory)),
            // The block of another thread may have room for this request; or it is refused, and this one may be allocated.
            None => (self.pending != 0).then_some(Answer::Wait(AwaitedBlock::Any)),
        }
    }

    /// Takes an empty block out: one that is too small, or dedicated, must not keep the pool from allocating one that is
    /// needed.
    fn take_any_empty(&mut self, slot: &PoolSlot<D>) -> Option<OwnedMemory<D>> {
        let memory = self.take_empty(None, |_| true)?;
        self.store_counters(slot);
        Some(memory)
    }
}
