//! A new block: from the plan through the driver into the pool.
//!
//! No pool is locked during a driver call. A [`PendingBlock`] tells other threads that one is under way.

use crate::choices::blocks::BlockSize;
use crate::device::{
    Device, MemoryDesc, MemoryHandle as _, MemoryHeapIndex, MemoryTypeIndex, OwnedMemory, Priority,
};
use crate::memory::allocator::{Allocation, Allocator};
use crate::memory::block_set::Role;
use crate::memory::driver::heaps::heap_of;
use crate::memory::driver::ladder::IdleBlocks;
use crate::memory::driver::refusals::Terms;
use crate::memory::pool::shards::LockedShard;
use crate::memory::pool::time::Moment;
use crate::memory::pool::{
    BlockPlan, LentBlock, PendingBlock, PlanSizes, PoolSlot, PoolState, RoundedRequest, Source,
};
use crate::memory::request::desc::AllocationRequest;
use crate::memory::{AllocationError, NewBlocks, ShortName};
use crate::sync::locked;

/// The refusal where the driver was not asked, since a plan has no smaller sizes. No request of 0 bytes comes so far.
pub(in crate::memory) const NO_ATTEMPT: AllocationError = AllocationError::ZeroSize { name: ShortName::NONE };

impl<D: Device> Allocator<D> {
    /// Returns the refusal of all sizes of a plan, where each of them was refused before and nothing has changed since.
    /// Costs no driver call.
    pub(in crate::memory) fn known_refusal(
        &self,
        plan: &BlockPlan,
        (sizes, rounded): (PlanSizes, &RoundedRequest),
        (memory_type, terms): (MemoryTypeIndex, Terms),
    ) -> Option<AllocationError> {
        let heap = heap_of(&self.device, memory_type).ok()?;
        // An idle block would be freed for the request.
        if self.pools.objects().idle_in(heap.get()) != 0 || self.heaps.refused_none(memory_type) {
            return None;
        }
        let mut refused = None;
        for (size, _) in plan.attempts(sizes, self.heaps.room_for_block(&self.device, heap), rounded) {
            refused = Some(self.heaps.refused_before(&self.device, memory_type, size, terms)?);
        }
        refused
    }

    /// Returns how many bytes the blocks of a pool have to give back before a request that was refused gets a block of its own
    /// size there; `None` where no number of bytes helps.
    pub(in crate::memory) fn missing_by_own_pool(
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
    pub(in crate::memory) fn missing_by_any_pool(
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
        let (memory_type, heap) = (state.sets[set].memory_type, state.sets[set].heap);
        let plan = state.plan_block_sizes(set, rounded, request, self.heaps.heap_size(heap)).ok()?;
        let at_last = RoundedRequest { at_last: true, ..*rounded };
        let (size, _) = plan.attempts(PlanSizes::All, u64::MAX, &at_last).last()?;
        Some(self.heaps.missing(&self.device, memory_type, size, state.budget_policy(request.budget)))
    }

    /// Allocates the block of a plan, after the blocks were freed that the pool has not used for some frames: a new
    /// block takes their place rather than being added to them. Called with no lock held.
    pub(in crate::memory) fn allocate_block_replacing_stale(
        &self,
        slot: &PoolSlot<D>,
        now: Moment,
        plan: &BlockPlan,
        (sizes, rounded): (PlanSizes, &RoundedRequest),
        source: &Source<D>,
    ) -> Result<(OwnedMemory<D>, Role), AllocationError> {
        let preferred = plan.sizes().next().unwrap_or(0);
        self.waiting(|| {
            // Only if the budget allows the block: a request that is refused must have freed nothing.
            let allowed =
                self.heaps.check(&self.device, source.memory_type, preferred, source.terms.budget).is_ok();
            // With a maintenance thread, that thread frees blocks.
            if allowed && !self.grows_ahead() {
                self.free_all(self.pass_time(now));
                self.release_each(|| slot.take_stale(preferred));
            }
            self.allocate_block(plan, (sizes, rounded), source)
        })
    }

    /// Allocates a block of a plan: of the wanted size, before which idle blocks are freed if need be; or of the smaller
    /// sizes in turn, for the last of which they are freed. Called with no lock held.
    fn allocate_block(
        &self,
        plan: &BlockPlan,
        (sizes, rounded): (PlanSizes, &RoundedRequest),
        source: &Source<D>,
    ) -> Result<(OwnedMemory<D>, Role), AllocationError> {
        let attempt = |sizes, before| self.try_sizes(plan, (sizes, rounded), source, before);
        if let PlanSizes::Below(_) = sizes {
            return attempt(sizes, NO_ATTEMPT);
        }
        let refused = match attempt(PlanSizes::Wanted, NO_ATTEMPT) {
            Err(refused) if refused.falls_through() => refused,
            done => return done,
        };
        let free_idle_for = |refused| {
            self.free_idle_for(&IdleBlocks::Free, (source.memory_type, refused), source.terms.budget)
        };
        if free_idle_for(refused) {
            // Anew, since the figures may allow a larger block now.
            return attempt(sizes, refused);
        }
        let smaller = match refused.refused_bytes(rounded.at_last) {
            Some(bytes) if sizes == PlanSizes::All => attempt(PlanSizes::Below(bytes), refused),
            _ => Err(refused),
        };
        match smaller {
            // What is idle may be too little for any block to share, and enough for memory of the request's own.
            Err(refused) if refused.falls_through() && free_idle_for(refused) => attempt(sizes, refused),
            done => done,
        }
    }

    /// Asks the driver for sizes of a plan in turn. Returns the refusal of the last; `before` where there is none.
    fn try_sizes(
        &self,
        plan: &BlockPlan,
        (sizes, rounded): (PlanSizes, &RoundedRequest),
        source: &Source<D>,
        before: AllocationError,
    ) -> Result<(OwnedMemory<D>, Role), AllocationError> {
        let Source { memory_type, priority, dedicated_priority, ref options, terms, .. } = *source;
        let heap = heap_of(&self.device, memory_type)?;
        let mut refused = before;
        for (size, role) in plan.attempts(sizes, self.heaps.room_for_block(&self.device, heap), rounded) {
            let priority = if role == Role::Shared { priority } else { dedicated_priority };
            let desc =
                MemoryDesc::new(memory_type, size).with_priority(priority).with_options(options.as_ref());
            let make = || OwnedMemory::allocate(&self.device, &desc, terms.mapping);
            let terms = plan.terms(size, terms);
            match self.heaps.allocate(&self.device, (memory_type, size), terms, make) {
                Ok(memory) => {
                    self.name_block(&memory, source);
                    return Ok((memory, role));
                }
                // Every other size is refused as well.
                Err(error @ AllocationError::TooManyAllocations { .. }) => return Err(error),
                Err(error) if error.falls_through() => refused = error,
                // A lost device, for example.
                Err(error) => return Err(error),
            }
        }
        Err(refused)
    }

    /// Names a block for the API's debugging tools.
    pub(in crate::memory) fn name_block(&self, memory: &OwnedMemory<D>, source: &Source<D>) {
        let name = match &source.name {
            Some(name) => format!("block of {name}"),
            None => format!("block of memory type {}", source.memory_type),
        };
        // SAFETY: the memory is owned by the caller, so it is live.
        unsafe { self.device.name_memory(memory.handle(), &name) };
    }

    /// Returns the bytes of a heap that [`release_empty`](Self::release_empty) would free.
    pub(in crate::memory) fn empty_bytes(&self, heap: MemoryHeapIndex, but: Option<&PoolSlot<D>>) -> u64 {
        let others = self.slots().filter(|slot| !but.is_some_and(|but| core::ptr::eq(*slot, but)));
        others.map(|slot| slot.empty_bytes(heap)).sum()
    }

    /// Adds the memory that the driver allocated to the pool and places the request in it; or returns the refusal.
    pub(in crate::memory) fn insert_block(
        &self,
        pending: PendingBlock<'_, D>,
        pool: u32,
        memory: Result<(OwnedMemory<D>, Role), AllocationError>,
        rounded: &RoundedRequest,
        request: &AllocationRequest<'_>,
    ) -> Result<Allocation, AllocationError> {
        let (slot, set) = (pending.slot(), pending.set());
        let mut guard = locked(&slot.state);
        // Before anything can fail: other threads wait for this.
        pending.end(guard.as_mut());
        let (memory, role) = memory?;
        self.insert_into_locked_pool((pool, slot, guard), set, (memory, role, false), rounded, request)
    }

    /// Adds a memory object to a pool whose lock the caller holds, and places a request in it.
    fn insert_into_locked_pool(
        &self,
        (pool, slot, mut guard): LockedShard<'_, D>,
        set: usize,
        (memory, role, lent): (OwnedMemory<D>, Role, bool),
        rounded: &RoundedRequest,
        request: &AllocationRequest<'_>,
    ) -> Result<Allocation, AllocationError> {
        let placed = match guard.as_mut() {
            Some(state) => state.place_in_new_block(slot, set, memory, (role, lent), rounded, request),
            // The pool was destroyed meanwhile.
            None => Err((AllocationError::WrongPool { name: ShortName::NONE }, Some(memory))),
        };
        guard.as_ref().into_iter().for_each(|state| self.wake_maintenance_if_low(state));
        // Under the lock: a reset of the pool changes the generation.
        let placed = placed.map(|record| self.token(pool, record, slot));
        let changed_priority = guard.as_mut().and_then(|state| state.changed_priority.take());
        drop(guard);
        match placed {
            Ok(token) => {
                self.set_priority(&token, changed_priority);
                Ok(token)
            }
            Err((error, memory)) => {
                if let Some(memory) = memory {
                    self.heaps.free(&self.device, memory);
                }
                Err(error)
            }
        }
    }

    /// Adds a block that another shard lent, and places a request in it.
    pub(in crate::memory) fn insert_lent_block(
        &self,
        pool: u32,
        slot: &PoolSlot<D>,
        set: usize,
        lent: LentBlock<D>,
        rounded: &RoundedRequest,
        request: &AllocationRequest<'_>,
    ) -> Result<Allocation, AllocationError> {
        let LentBlock { memory, role, of_minimum } = lent;
        let mut guard = locked(&slot.state);
        // The pool's minimum goes where its block goes, so it holds for all shards together.
        guard.iter_mut().for_each(|state| state.change_minimum(set, |blocks| blocks + u32::from(of_minimum)));
        self.insert_into_locked_pool((pool, slot, guard), set, (memory, role, true), rounded, request)
    }

    /// Announces to a pool that the caller creates dedicated memory together with a resource. The caller passes the
    /// result to [`insert_block`](Self::insert_block), also when it is a refusal.
    ///
    /// The memory has exactly the size of the resource, as the API demands, so nothing is rounded.
    pub(in crate::memory) fn begin_dedicated_block(
        &self,
        pool: u32,
        set: usize,
        request: &AllocationRequest<'_>,
    ) -> Result<(PendingBlock<'_, D>, RoundedRequest, Source<D>), AllocationError> {
        let slot = self.shard(pool)?;
        loop {
            let mut guard = locked(&slot.state);
            let state = guard.as_mut().ok_or(AllocationError::WrongPool { name: ShortName::NONE })?;
            let mut rounded = self.round_request(state, set, request)?;
            rounded.request.size = request.requirements.size;
            rounded.sizes.occupied = request.requirements.size;
            let heap_size = self.heaps.heap_size(state.sets[set].heap);
            match state.plan_block(set, &rounded, request, heap_size) {
                Ok(_) => {
                    let source = state.source(set, request);
                    return Ok((PendingBlock::begin(slot, state, set, false), rounded, source));
                }
                Err(error) => {
                    let full = matches!(error, AllocationError::PoolFull { .. });
                    // An empty block must not keep the pool from allocating one that is needed.
                    let idle = if full { state.take_empty(None, |_| true) } else { None };
                    let Some(memory) = idle else { return Err(error) };
                    state.store_counters(slot);
                    drop(guard);
                    self.heaps.free(&self.device, memory);
                }
            }
        }
    }

    /// Sets the residency priority of reused memory, if it has changed. The caller owns the allocation that uses the
    /// memory now, and holds no lock.
    pub(in crate::memory) fn set_priority(
        &self,
        allocation: &Allocation,
        changed_priority: Option<(D::Memory, Priority)>,
    ) {
        let Some((memory, priority)) = changed_priority else { return };
        // While the allocation is held, no thread frees the memory.
        let Ok((place, _held)) = self.hold(allocation) else { return };
        if D::Memory::from_raw(place.memory) == memory {
            // SAFETY: the allocation is in the memory, so it is live, and only the thread that used it first calls
            // this.
            let result = unsafe { self.device.set_memory_priority(memory, priority) };
            // A priority is a hint; the memory is usable without it.
            let _ = result;
        }
    }
}
