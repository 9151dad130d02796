//! Requests in, tokens out: the path that a request takes, and the way back.

use std::borrow::Cow;
use std::sync::{MutexGuard, PoisonError};

use allotment_suballoc::{Alignment, MAX_SIZE};

use super::allocator::{Allocation, Allocator, default_pool};
use super::block_set::Role;
use super::candidates::{MemoryTypeCandidate, Ranking, judge};
use super::heaps::heap_of;
use super::pool::{Fitted, Freed, Getting, MAX_POOL_TYPES, Plan, Pool, PoolSlot, PoolState, Source};
use super::{AllocationDesc, AllocationError, BudgetPolicy, Foreign, MemoryUsage, NewBlocks, ShortName};
use crate::device::{
    Device, MemoryDesc, MemoryHandle as _, MemoryHeapIndex, MemoryProperties, MemoryTypeIndex, OwnedMemory,
    Priority, ResourceKind,
};
use crate::sync::locked;

impl<D: Device> Allocator<D> {
    /// Allocates memory from the default pools.
    ///
    /// # Errors
    ///
    /// [`AllocationError`]; nothing has changed. Where several memory types were tried, it is what the
    /// first of them, the one that suits best, refused with.
    pub fn allocate(&self, desc: &AllocationDesc) -> Result<Allocation, AllocationError> {
        match self.allocate_quickly(desc) {
            Some(allocation) => Ok(allocation),
            None => self.allocate_by_ranking(desc),
        }
    }

    /// Serves what most requests are: one that a range serves which was freed a moment ago, in the memory
    /// type that suits best, where nobody else is in the pool right now.
    fn allocate_quickly(&self, desc: &AllocationDesc) -> Option<Allocation> {
        if !desc.is_ordinary() {
            return None;
        }
        let ranking = &self.rankings[desc.memory_usage as usize];
        let memory_type = ranking.types(desc.requirements.memory_types).next()?;
        let pool = self.own_shard(self.default_pool_for(memory_type, desc));
        let slot = self.pools.get(pool)?;
        let mut guard = slot.state.try_lock().ok()?;
        Self::met_nobody();
        let (record, generation) = guard.as_mut()?.place_quickly(slot, 0, desc)?;
        Some(Allocation { allocator: self.id, pool, record, generation })
    }

    fn allocate_by_ranking(&self, desc: &AllocationDesc) -> Result<Allocation, AllocationError> {
        self.by_ranking(desc, |memory_type, desc| {
            self.allocate_from_shards(self.default_pool_for(memory_type, desc), desc)
        })
    }

    /// Tries the memory types that suit a request, the best first, until one serves it or refuses for a reason
    /// that no other would change. The error is what the first of them refused with.
    pub(super) fn by_ranking<T>(
        &self,
        desc: &AllocationDesc,
        attempt: impl Fn(MemoryTypeIndex, &AllocationDesc) -> Result<T, AllocationError>,
    ) -> Result<T, AllocationError> {
        let ranking = self.ranking(desc)?;
        let mut types = ranking.types(desc.requirements.memory_types).peekable();
        let polite = polite(desc);
        let mut first = None;
        while let Some(memory_type) = types.next() {
            let desc = polite.as_ref().filter(|_| types.peek().is_some()).unwrap_or(desc);
            match attempt(memory_type, desc) {
                Err(error) if error.falls_through() => first = first.or(Some(error)),
                result => return result.map_err(|refused| refused.of(desc)),
            }
        }
        Err(first.unwrap_or_else(|| self.no_memory_type(desc)).of(desc))
    }

    /// Says why no memory type suits a request.
    pub(super) fn no_memory_type(&self, desc: &AllocationDesc) -> AllocationError {
        let (allowed, required) = (desc.requirements.memory_types, desc.required);
        let types = self.device.properties().indexed_types();
        let mut usable = types
            .filter(|(index, _)| allowed.contains(*index) && self.desc.memory_types.contains(*index))
            .peekable();
        // What rules all types out by itself is to blame before the memory usage is.
        if usable.peek().is_some() && !usable.any(|(_, found)| found.properties.contains(required)) {
            return AllocationError::NoTypeWithProperties { allowed, required, name: ShortName::NONE };
        }
        AllocationError::NoMemoryType { allowed, memory_usage: desc.memory_usage, name: ShortName::NONE }
    }

    /// Allocates memory from a custom pool. The pool's memory types are tried in its order; the memory usage
    /// has no say.
    ///
    /// # Errors
    ///
    /// [`AllocationError`]; nothing has changed.
    ///
    /// ```
    /// use allotment::device::MemoryTypeIndex;
    /// use allotment::device::simulated::{SimulatedGpu, Profile};
    /// use allotment::memory::BlockSize;
    /// use allotment::{
    ///     AllocationDesc, AllocationError, Allocator, AllocatorDesc, MemoryUsage, PoolDesc, Requirements,
    /// };
    ///
    /// let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let mut desc = PoolDesc::new([MemoryTypeIndex(0)]);
    /// (desc.sizing, desc.max_blocks) = (Some(BlockSize::Fixed(1 << 20)), 1);
    /// let pool = allocator.create_pool(desc)?;
    ///
    /// let half = AllocationDesc::new(Requirements::new(600 << 10), MemoryUsage::GpuOnly);
    /// let first = allocator.allocate_in(&pool, &half)?;
    /// let refused = allocator.allocate_in(&pool, &half);
    /// assert!(matches!(refused, Err(AllocationError::PoolFull { max_blocks: 1, .. })));
    /// allocator.free(first)?;
    /// allocator.destroy_pool(pool)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn allocate_in(&self, pool: &Pool, desc: &AllocationDesc) -> Result<Allocation, AllocationError> {
        self.by_pool_types(pool, desc, |set| self.allocate_from(pool.index, set, desc))
    }

    /// Tries those of a pool's memory types that the request allows, in the pool's order, until one serves it or refuses
    /// for a reason that no other would change. The error is what the first of them refused with.
    pub(super) fn by_pool_types<T>(
        &self,
        pool: &Pool,
        desc: &AllocationDesc,
        attempt: impl Fn(usize) -> Result<T, AllocationError>,
    ) -> Result<T, AllocationError> {
        check_size(desc)?;
        if pool.allocator != self.id {
            return Err(AllocationError::ForeignPool);
        }
        let types = self.pool_types(pool.index);
        let mut first = None;
        let mut eligible = 0;
        for (set, memory_type) in types.into_iter().flatten().enumerate() {
            if !desc.requirements.memory_types.contains(memory_type) {
                continue;
            }
            eligible += 1;
            match attempt(set) {
                Err(error) if error.falls_through() => first = first.or(Some(error)),
                result => return result.map_err(|refused| refused.of(desc)),
            }
        }
        debug_assert!(first.is_some() || eligible == 0);
        let allowed = desc.requirements.memory_types;
        Err(first.unwrap_or(AllocationError::NotInPool { allowed, name: ShortName::NONE }).of(desc))
    }

    fn pool_types(&self, index: u32) -> [Option<MemoryTypeIndex>; MAX_POOL_TYPES] {
        let mut types = [None; MAX_POOL_TYPES];
        if let Some(slot) = self.pools.get(index) {
            let state = locked(&slot.state);
            for (entry, set) in types.iter_mut().zip(state.iter().flat_map(|state| &state.sets)) {
                *entry = Some(set.memory_type);
            }
        }
        types
    }

    /// Checks what is wanted at the door, and ranks the memory types that may serve it.
    pub(super) fn ranking(&self, desc: &AllocationDesc) -> Result<Cow<'_, Ranking>, AllocationError> {
        check_size(desc)?;
        let wishes = desc.required | desc.preferred | desc.avoided;
        if wishes.is_empty() {
            return Ok(Cow::Borrowed(&self.rankings[desc.memory_usage as usize]));
        }
        Ok(Cow::Owned(Ranking::new(self.device.properties(), desc, self.desc.memory_types)))
    }

    pub(super) fn default_pool_for(&self, memory_type: MemoryTypeIndex, desc: &AllocationDesc) -> u32 {
        // What may be linear by turns stays among the linear ones, on pages of its own.
        let optimal = self.separate_optimal && desc.kind == ResourceKind::OptimalImage;
        default_pool(memory_type, desc.lifetime, optimal)
    }

    /// The non-coherent atom where memory of this type needs flushes, else 1.
    pub(super) fn atom_of(&self, memory_type: MemoryTypeIndex) -> Alignment {
        let properties = self.device.properties();
        let has = properties.memory_type(memory_type).map(|found| found.properties);
        let coherent = MemoryProperties::HOST_COHERENT;
        let visible = MemoryProperties::HOST_VISIBLE;
        if has.is_some_and(|has| has.contains(visible) && !has.contains(coherent)) {
            properties.limits.non_coherent_atom_size
        } else {
            Alignment::ONE
        }
    }

    /// What is thought of each memory type for a request: those that would be tried, in that order, then
    /// the others with the reason.
    ///
    /// ```
    /// use allotment::device::simulated::{SimulatedGpu, Profile};
    /// use allotment::{AllocationDesc, Allocator, AllocatorDesc, MemoryUsage, Requirements};
    ///
    /// let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let desc = AllocationDesc::new(Requirements::new(256), MemoryUsage::Readback);
    /// let reasons: Vec<String> = allocator.explain(&desc).iter().map(|c| c.to_string()).collect();
    /// assert_eq!(
    ///     reasons[0],
    ///     "type 2 (host-visible, host-coherent, host-cached; heap 1): suitable"
    /// );
    /// assert_eq!(reasons[3], "type 0 (device-local; heap 0): lacks required host-visible");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn explain(&self, desc: &AllocationDesc) -> Vec<MemoryTypeCandidate> {
        let mut choices: Vec<_> = judge(self.device.properties(), desc, self.desc.memory_types).collect();
        choices.sort_by_key(|choice| match choice.suitability {
            super::Suitability::Suitable { cost, .. } => cost,
            _ => u32::MAX,
        });
        choices
    }

    /// Serves a request from one memory type of one pool.
    fn allocate_from(
        &self,
        pool: u32,
        set: usize,
        desc: &AllocationDesc,
    ) -> Result<Allocation, AllocationError> {
        let slot = self.pools.get(pool).ok_or(AllocationError::ForeignPool)?;
        self.serve(pool, slot, locked(&slot.state), set, desc)
    }

    /// Serves a request from one memory type of a pool that is locked already.
    pub(super) fn serve<'a>(
        &self,
        pool: u32,
        slot: &'a PoolSlot<D>,
        mut guard: MutexGuard<'a, Option<PoolState<D>>>,
        set: usize,
        desc: &AllocationDesc,
    ) -> Result<Allocation, AllocationError> {
        let state = guard.as_mut().ok_or(AllocationError::ForeignPool)?;
        if desc.is_ordinary() {
            if let Some((record, generation)) = state.place_quickly(slot, set, desc) {
                return Ok(Allocation { allocator: self.id, pool, record, generation });
            }
        }
        loop {
            let state = guard.as_mut().ok_or(AllocationError::ForeignPool)?;
            let fitted = self.fit(state, set, desc)?;
            if let Some(record) = state.place(slot, set, &fitted, desc)? {
                self.watch(state);
                let (token, untold) = (self.token(pool, record, slot), state.untold.take());
                drop(guard);
                self.tell_priority(&token, untold);
                return Ok(token);
            }
            if desc.new_blocks == NewBlocks::NeverAllocate {
                let (free, largest_free) = state.sets[set].room();
                let requested = fitted.sizes.requested;
                return Err(AllocationError::WouldGrow {
                    requested,
                    free,
                    largest_free,
                    name: ShortName::NONE,
                });
            }
            let heap_size = self.heaps.heap_size(state.sets[set].heap);
            let plan = match state.plan(set, &fitted, desc, heap_size) {
                Ok(plan) => plan,
                Err(error) => {
                    let full = matches!(error, AllocationError::PoolFull { .. });
                    // A block that is kept for nobody must not stand in the way of one that is wanted.
                    let idle = if full { state.take_empty(None, |_| true) } else { None };
                    if let Some(memory) = idle {
                        state.store_counters(slot);
                        drop(guard);
                        self.waiting(|| self.heaps.free(&self.device, memory));
                        guard = locked(&slot.state);
                    } else if full && state.pending != 0 {
                        // What another thread is getting may have room, or not come.
                        guard =
                            self.waiting(|| slot.grown.wait(guard).unwrap_or_else(PoisonError::into_inner));
                    } else {
                        return Err(error);
                    }
                    continue;
                }
            };
            let shared = plan.role == Role::Shared;
            if shared && state.sets[set].growing {
                // Another thread is getting a block; perhaps it has room for both.
                guard = self.waiting(|| slot.grown.wait(guard).unwrap_or_else(PoisonError::into_inner));
                continue;
            }
            let source = state.source(set, desc);
            let now = self.time.now();
            state.pass_time(now);
            let getting = Getting::begin(slot, state, set, shared);
            drop(guard);
            let wanted = plan.sizes().next().unwrap_or(0);
            let got = self.waiting(|| {
                // What is refused all the same has given nothing back.
                let gets = self.heaps.check(&self.device, source.memory_type, wanted, source.wish).is_ok();
                if gets && !self.is_kept_up() {
                    self.free_all(self.pass_time(now));
                    self.release_from(slot, |state| state.take_stale(wanted));
                }
                self.get_memory(&plan, &fitted, &source)
            });
            return self.settle(getting, pool, got, &fitted, desc);
        }
    }

    pub(super) fn fit(
        &self,
        state: &PoolState<D>,
        set: usize,
        desc: &AllocationDesc,
    ) -> Result<Fitted, AllocationError> {
        let heap_size = self.heaps.heap_size(state.sets[set].heap);
        let scarce = self.heaps.objects_are_scarce(&self.device);
        state.fit(set, desc, heap_size, scarce)
    }

    /// Gets what the plan wants from the driver, in place of empty blocks if need be. Called with no lock
    /// held.
    fn get_memory(
        &self,
        plan: &Plan,
        fitted: &Fitted,
        source: &Source<D>,
    ) -> Result<(OwnedMemory<D>, Role), AllocationError> {
        self.ask_for(plan, fitted, source).or_else(|refused| {
            if self.make_room(source.memory_type, refused) {
                self.ask_for(plan, fitted, source)
            } else {
                Err(refused)
            }
        })
    }

    /// Tells the API's own tools what a block is for.
    pub(super) fn name_block(&self, memory: &OwnedMemory<D>, source: &Source<D>) {
        let name = match &source.name {
            Some(name) => format!("block of {name}"),
            None => format!("block of memory type {}", source.memory_type),
        };
        // SAFETY: the memory is owned by the caller, so it is live.
        unsafe { self.device.name_memory(memory.handle(), &name) };
    }

    /// Tells the device the priority of memory that is used again, if it is not the one that it was told before. For who
    /// has the allocation that the memory is used for now, and no lock.
    pub(super) fn tell_priority(&self, allocation: &Allocation, untold: Option<(D::Memory, Priority)>) {
        let Some((memory, priority)) = untold else { return };
        // While it is held nobody gives the memory back.
        let Ok((place, _held)) = self.hold(allocation) else { return };
        if D::Memory::from_raw(place.memory) == memory {
            // SAFETY: the allocation is in the memory, so it is live, and only who used it first is told to do this.
            let told = unsafe { self.device.set_memory_priority(memory, priority) };
            // It is advice, and the memory is as good without it.
            let _ = told;
        }
    }

    /// Asks the driver for one size after the other.
    fn ask_for(
        &self,
        plan: &Plan,
        fitted: &Fitted,
        source: &Source<D>,
    ) -> Result<(OwnedMemory<D>, Role), AllocationError> {
        let Source { memory_type, priority, own_priority, ref options, wish, .. } = *source;
        let heap = heap_of(&self.device, memory_type)?;
        let mut refused = AllocationError::ZeroSize;
        for (size, role) in plan.candidates(self.heaps.room_for_block(&self.device, heap), fitted) {
            let priority = if role == Role::Shared { priority } else { own_priority };
            let memory =
                MemoryDesc::new(memory_type, size).with_priority(priority).with_options(options.as_ref());
            match self.heaps.allocate(&self.device, &memory, wish) {
                Ok(memory) => {
                    self.name_block(&memory, source);
                    return Ok((memory, role));
                }
                Err(error) if error.falls_through() => refused = error,
                Err(error) => return Err(error),
            }
        }
        Err(refused)
    }

    /// Gives empty blocks back where that may help against a refusal. True when there was one.
    pub(super) fn make_room(&self, memory_type: MemoryTypeIndex, refused: AllocationError) -> bool {
        let Ok(heap) = heap_of(&self.device, memory_type) else { return false };
        // What is on its way back is no longer in any pool, and still counts.
        if self.return_memory() != 0 {
            return true;
        }
        // Blocks that are given back in vain would be missed by the next memory type of the heap.
        let helps = match refused {
            AllocationError::TooManyAllocations { .. } => return self.release_empty(None),
            AllocationError::OverBudget { requested, usage, budget, .. } => {
                usage.saturating_add(requested) <= budget.saturating_add(self.empty_bytes(heap))
            }
            AllocationError::HeapLimit { requested, reserved, limit, .. } => {
                reserved + requested <= limit.saturating_add(self.empty_bytes(heap))
            }
            AllocationError::OutOfMemory { .. } => true,
            _ => false,
        };
        helps && self.release_empty(Some(heap))
    }

    /// Bytes of a heap that [`release_empty`](Self::release_empty) would give back.
    fn empty_bytes(&self, heap: MemoryHeapIndex) -> u64 {
        let of_slot = |slot: &PoolSlot<D>| {
            let guard = locked(&slot.state);
            guard.as_ref().map_or(0, |state| state.empty_bytes(heap))
        };
        self.slots().map(of_slot).sum()
    }

    /// Calls for block growth where a pool has less room than it shall have ahead of need.
    pub(super) fn watch(&self, state: &PoolState<D>) {
        if state.rules.ahead.is_some() && state.needs_upkeep(self.heaps.heap_size(state.sets[0].heap)) {
            self.to_do.ring();
        }
    }

    /// Takes in what the driver gave, or passes on what it said.
    pub(super) fn settle(
        &self,
        getting: Getting<'_, D>,
        pool: u32,
        got: Result<(OwnedMemory<D>, Role), AllocationError>,
        fitted: &Fitted,
        desc: &AllocationDesc,
    ) -> Result<Allocation, AllocationError> {
        let (slot, set) = (getting.slot(), getting.set());
        let mut guard = locked(&slot.state);
        getting.end(guard.as_mut());
        let (memory, role) = got?;
        let placed = match guard.as_mut() {
            Some(state) => state.place_in_new(slot, set, memory, role, fitted, desc),
            None => Err((AllocationError::ForeignPool, Some(memory))),
        };
        guard.as_ref().into_iter().for_each(|state| self.watch(state));
        // The generation is read before a reset can change it.
        let placed = placed.map(|record| self.token(pool, record, slot));
        let untold = guard.as_mut().and_then(|state| state.untold.take());
        drop(guard);
        match placed {
            Ok(token) => {
                self.tell_priority(&token, untold);
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

    /// Takes in memory that nobody else has, and serves a request from it.
    pub(super) fn take_in(
        &self,
        pool: u32,
        slot: &PoolSlot<D>,
        memory: OwnedMemory<D>,
        role: Role,
        fitted: &Fitted,
        desc: &AllocationDesc,
    ) -> Result<Allocation, AllocationError> {
        let getting = locked(&slot.state).as_mut().map(|state| Getting::begin(slot, state, 0, false));
        match getting {
            Some(getting) => self.settle(getting, pool, Ok((memory, role)), fitted, desc),
            None => {
                self.heaps.free(&self.device, memory);
                Err(AllocationError::ForeignPool)
            }
        }
    }

    /// Announces memory to a pool that is about to be made together with a resource, for that resource alone, and is
    /// exactly as large, so that nothing is rounded. Who is answered [settles](Self::settle) it, whatever comes of it.
    pub(super) fn announce(
        &self,
        pool: u32,
        set: usize,
        desc: &AllocationDesc,
    ) -> Result<(Getting<'_, D>, Fitted, Source<D>), AllocationError> {
        let custom = pool >= self.default_pool_count();
        let slot = if custom {
            self.pools.get(pool).ok_or(AllocationError::ForeignPool)?
        } else {
            self.shard(pool)?
        };
        loop {
            let mut guard = locked(&slot.state);
            let state = guard.as_mut().ok_or(AllocationError::ForeignPool)?;
            let mut fitted = self.fit(state, set, desc)?;
            fitted.request.size = desc.requirements.size;
            fitted.sizes.occupied = desc.requirements.size;
            let heap_size = self.heaps.heap_size(state.sets[set].heap);
            match state.plan(set, &fitted, desc, heap_size) {
                Ok(_) => {
                    let source = state.source(set, desc);
                    return Ok((Getting::begin(slot, state, set, false), fitted, source));
                }
                Err(error) => {
                    let full = matches!(error, AllocationError::PoolFull { .. });
                    // A block that is kept for nobody must not stand in the way.
                    let idle = if full { state.take_empty(None, |_| true) } else { None };
                    let Some(memory) = idle else { return Err(error) };
                    state.store_counters(slot);
                    drop(guard);
                    self.heaps.free(&self.device, memory);
                }
            }
        }
    }

    pub(super) fn token(&self, pool: u32, record: u32, slot: &PoolSlot<D>) -> Allocation {
        let generation = slot.records.get(record).map_or(0, |record| record.generation());
        Allocation { allocator: self.id, pool, record, generation }
    }

    /// Takes memory back. What stood in it must no longer be in use by the device.
    ///
    /// # Errors
    ///
    /// [`Foreign`] when the token is from another allocator; it comes back with the error.
    pub fn free(&self, allocation: Allocation) -> Result<(), Foreign> {
        if allocation.allocator != self.id {
            return Err(Foreign(allocation));
        }
        let Some(slot) = self.pools.get(allocation.pool) else { return Err(Foreign(allocation)) };
        let mut guard = locked(&slot.state);
        let (Some(state), Some(entry)) = (guard.as_mut(), slot.records.get(allocation.record)) else {
            return Ok(());
        };
        if entry.generation() != allocation.generation {
            // The pool was reset: the memory is free already.
            return Ok(());
        }
        if let Some(name) = state.free_quickly(slot, entry, allocation.record) {
            drop(guard);
            drop(name);
            return Ok(());
        }
        if let Some(name) = state.free_later(slot, allocation.record) {
            drop(guard);
            drop(name);
            return Ok(());
        }
        let now = state.looks_at_time(allocation.record).then(|| self.time.now());
        // Before a block becomes empty, so that it is not taken to have been empty since the last look.
        now.into_iter().for_each(|now| state.pass_time(now));
        let Freed { memory, more, name } = state.free(slot, allocation.record);
        drop(guard);
        drop(name);
        match memory {
            Some(memory) if self.is_kept_up() => self.to_do.give_back(memory),
            Some(memory) => self.waiting(|| {
                self.heaps.free(&self.device, memory);
                if more {
                    self.release_from(slot, PoolState::take_unwanted);
                }
            }),
            None => {}
        }
        let unwanted = now.map_or(Vec::new(), |now| self.pass_time(now));
        if !unwanted.is_empty() {
            self.waiting(|| self.free_all(unwanted));
        }
        Ok(())
    }
}

/// What a request is while there are other memory types to try, where that differs: device memory that the CPU
/// can map is scarce on many machines, and all programs share it, so what can as well be staged does not
/// drive others out.
fn polite(desc: &AllocationDesc) -> Option<AllocationDesc> {
    let polite =
        desc.memory_usage == MemoryUsage::DeviceUpload && desc.budget == BudgetPolicy::AllowOverBudget;
    polite.then(|| desc.clone().within_budget())
}

/// The door: past it, no sum of sizes and offsets can overflow.
fn check_size(desc: &AllocationDesc) -> Result<(), AllocationError> {
    match desc.requirements.size {
        0 => Err(AllocationError::ZeroSize),
        size if size > MAX_SIZE => Err(AllocationError::TooLarge { size, limit: MAX_SIZE }),
        _ => Ok(()),
    }
}
