//! Requests in, tokens out: the path that a request takes.

use std::borrow::Cow;
use std::sync::{MutexGuard, PoisonError};

use allotment_suballoc::{Alignment, MAX_SIZE};

use super::allocator::{Allocation, Allocator, default_pool};
use super::block_set::Role;
use super::candidates::{MemoryTypeCandidate, Ranking, judge};
use super::pool::{MAX_POOL_TYPES, PendingBlock, Pool, PoolSlot, PoolState, RoundedRequest};
use super::{AllocationDesc, AllocationError, BudgetPolicy, MemoryUsage, NewBlocks, ShortName};
use crate::device::{Device, MemoryProperties, MemoryTypeIndex, ResourceKind};
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
        Self::note_uncontended();
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
        let within_budget_unless_last = within_budget_unless_last(desc);
        let mut first = None;
        while let Some(memory_type) = types.next() {
            let desc = within_budget_unless_last.as_ref().filter(|_| types.peek().is_some()).unwrap_or(desc);
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
        self.by_pool_types(pool, desc, |set| self.allocate_from_pool(pool.index, set, desc))
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
    ///     "type 2 (host-visible, host-coherent, host-cached; heap 1): exactly what is wanted"
    /// );
    /// assert_eq!(reasons[3], "type 0 (device-local; heap 0): must be host-visible and is not");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn explain(&self, desc: &AllocationDesc) -> Vec<MemoryTypeCandidate> {
        let mut choices: Vec<_> = judge(self.device.properties(), desc, self.desc.memory_types).collect();
        choices.sort_by_key(|choice| match choice.verdict {
            super::Suitability::Suitable { cost, .. } => cost,
            _ => u32::MAX,
        });
        choices
    }

    /// Serves a request from one memory type of one pool.
    fn allocate_from_pool(
        &self,
        pool: u32,
        set: usize,
        desc: &AllocationDesc,
    ) -> Result<Allocation, AllocationError> {
        let slot = self.pools.get(pool).ok_or(AllocationError::ForeignPool)?;
        self.allocate_from_locked_pool(pool, slot, locked(&slot.state), set, desc)
    }

    /// Serves a request from one memory type of a pool that is locked already.
    pub(super) fn allocate_from_locked_pool<'a>(
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
            let rounded = self.round_request(state, set, desc)?;
            if let Some(record) = state.place_in_existing(slot, set, &rounded, desc)? {
                self.wake_maintenance_if_low(state);
                let (token, changed_priority) =
                    (self.token(pool, record, slot), state.changed_priority.take());
                drop(guard);
                self.set_priority(&token, changed_priority);
                return Ok(token);
            }
            if desc.new_blocks == NewBlocks::NeverAllocate {
                let (free, largest_free) = state.sets[set].room();
                let requested = rounded.sizes.requested;
                return Err(AllocationError::WouldGrow {
                    requested,
                    free,
                    largest_free,
                    name: ShortName::NONE,
                });
            }
            let heap_size = self.heaps.heap_size(state.sets[set].heap);
            let plan = match state.plan_block(set, &rounded, desc, heap_size) {
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
            let getting = PendingBlock::begin(slot, state, set, shared);
            drop(guard);
            let wanted = plan.sizes().next().unwrap_or(0);
            let got = self.waiting(|| {
                // What is refused all the same has given nothing back.
                let gets =
                    self.heaps.check(&self.device, source.memory_type, wanted, source.budget_policy).is_ok();
                if gets && !self.is_kept_up() {
                    self.free_all(self.pass_time(now));
                    self.release_from(slot, |state| state.take_stale(wanted));
                }
                self.allocate_block(&plan, &rounded, &source)
            });
            return self.insert_block(getting, pool, got, &rounded, desc);
        }
    }

    pub(super) fn round_request(
        &self,
        state: &PoolState<D>,
        set: usize,
        desc: &AllocationDesc,
    ) -> Result<RoundedRequest, AllocationError> {
        let heap_size = self.heaps.heap_size(state.sets[set].heap);
        let scarce = self.heaps.objects_are_scarce(&self.device);
        state.round_request(set, desc, heap_size, scarce)
    }

    /// Calls for block growth where a pool has less room than it shall have ahead of need.
    pub(super) fn wake_maintenance_if_low(&self, state: &PoolState<D>) {
        if state.rules.ahead.is_some() && state.needs_maintenance(self.heaps.heap_size(state.sets[0].heap)) {
            self.to_do.ring();
        }
    }

    pub(super) fn token(&self, pool: u32, record: u32, slot: &PoolSlot<D>) -> Allocation {
        let generation = slot.records.get(record).map_or(0, |record| record.generation());
        Allocation { allocator: self.id, pool, record, generation }
    }
}

/// What a request is while there are other memory types to try, where that differs: device memory that the CPU
/// can map is scarce on many machines, and all programs share it, so what can as well be staged does not
/// drive others out.
fn within_budget_unless_last(desc: &AllocationDesc) -> Option<AllocationDesc> {
    let within_budget_unless_last =
        desc.memory_usage == MemoryUsage::DeviceUpload && desc.budget == BudgetPolicy::AllowOverBudget;
    within_budget_unless_last.then(|| desc.clone().within_budget())
}

/// The door: past it, no sum of sizes and offsets can overflow.
fn check_size(desc: &AllocationDesc) -> Result<(), AllocationError> {
    match desc.requirements.size {
        0 => Err(AllocationError::ZeroSize),
        size if size > MAX_SIZE => Err(AllocationError::TooLarge { size, limit: MAX_SIZE }),
        _ => Ok(()),
    }
}
