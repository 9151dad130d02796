//! A new block: from the plan to the driver, and into the pool.

use super::allocator::{Allocation, Allocator};
use super::block_set::Role;
use super::heaps::heap_of;
use super::pool::{BlockPlan, PendingBlock, PoolSlot, RoundedRequest, Source};
use super::{AllocationDesc, AllocationError};
use crate::device::{
    Device, MemoryDesc, MemoryHandle as _, MemoryHeapIndex, MemoryTypeIndex, OwnedMemory, Priority,
};
use crate::sync::locked;

impl<D: Device> Allocator<D> {
    /// Gets what the plan wants from the driver, in place of empty blocks if need be. Called with no lock
    /// held.
    pub(super) fn allocate_block(
        &self,
        plan: &BlockPlan,
        rounded: &RoundedRequest,
        source: &Source<D>,
    ) -> Result<(OwnedMemory<D>, Role), AllocationError> {
        self.try_sizes(plan, rounded, source).or_else(|refused| {
            if self.make_room(source.memory_type, refused) {
                self.try_sizes(plan, rounded, source)
            } else {
                Err(refused)
            }
        })
    }

    /// Asks the driver for one size after the other.
    fn try_sizes(
        &self,
        plan: &BlockPlan,
        rounded: &RoundedRequest,
        source: &Source<D>,
    ) -> Result<(OwnedMemory<D>, Role), AllocationError> {
        let Source { memory_type, priority, dedicated_priority, ref options, budget_policy, .. } = *source;
        let heap = heap_of(&self.device, memory_type)?;
        let mut refused = AllocationError::ZeroSize;
        for (size, role) in plan.attempts(self.heaps.room_for_block(&self.device, heap), rounded) {
            let priority = if role == Role::Shared { priority } else { dedicated_priority };
            let memory =
                MemoryDesc::new(memory_type, size).with_priority(priority).with_options(options.as_ref());
            match self.heaps.allocate(&self.device, &memory, budget_policy) {
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

    /// Tells the API's own tools what a block is for.
    pub(super) fn name_block(&self, memory: &OwnedMemory<D>, source: &Source<D>) {
        let name = match &source.name {
            Some(name) => format!("block of {name}"),
            None => format!("block of memory type {}", source.memory_type),
        };
        // SAFETY: the memory is owned by the caller, so it is live.
        unsafe { self.device.name_memory(memory.handle(), &name) };
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

    /// Takes in what the driver gave, or passes on what it said.
    pub(super) fn insert_block(
        &self,
        getting: PendingBlock<'_, D>,
        pool: u32,
        got: Result<(OwnedMemory<D>, Role), AllocationError>,
        rounded: &RoundedRequest,
        desc: &AllocationDesc,
    ) -> Result<Allocation, AllocationError> {
        let (slot, set) = (getting.slot(), getting.set());
        let mut guard = locked(&slot.state);
        getting.end(guard.as_mut());
        let (memory, role) = got?;
        let placed = match guard.as_mut() {
            Some(state) => state.place_in_new_block(slot, set, memory, role, rounded, desc),
            None => Err((AllocationError::ForeignPool, Some(memory))),
        };
        guard.as_ref().into_iter().for_each(|state| self.wake_maintenance_if_low(state));
        // The generation is read before a reset can change it.
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

    /// Takes in memory that nobody else has, and serves a request from it.
    pub(super) fn insert_lent_block(
        &self,
        pool: u32,
        slot: &PoolSlot<D>,
        memory: OwnedMemory<D>,
        role: Role,
        rounded: &RoundedRequest,
        desc: &AllocationDesc,
    ) -> Result<Allocation, AllocationError> {
        let getting = locked(&slot.state).as_mut().map(|state| PendingBlock::begin(slot, state, 0, false));
        match getting {
            Some(getting) => self.insert_block(getting, pool, Ok((memory, role)), rounded, desc),
            None => {
                self.heaps.free(&self.device, memory);
                Err(AllocationError::ForeignPool)
            }
        }
    }

    /// Announces memory to a pool that is about to be made together with a resource, for that resource alone, and is
    /// exactly as large, so that nothing is rounded. Who is answered [settles](Self::insert_block) it, whatever comes of it.
    pub(super) fn begin_dedicated_block(
        &self,
        pool: u32,
        set: usize,
        desc: &AllocationDesc,
    ) -> Result<(PendingBlock<'_, D>, RoundedRequest, Source<D>), AllocationError> {
        let custom = pool >= self.default_pool_count();
        let slot = if custom {
            self.pools.get(pool).ok_or(AllocationError::ForeignPool)?
        } else {
            self.shard(pool)?
        };
        loop {
            let mut guard = locked(&slot.state);
            let state = guard.as_mut().ok_or(AllocationError::ForeignPool)?;
            let mut rounded = self.round_request(state, set, desc)?;
            rounded.request.size = desc.requirements.size;
            rounded.sizes.occupied = desc.requirements.size;
            let heap_size = self.heaps.heap_size(state.sets[set].heap);
            match state.plan_block(set, &rounded, desc, heap_size) {
                Ok(_) => {
                    let source = state.source(set, desc);
                    return Ok((PendingBlock::begin(slot, state, set, false), rounded, source));
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

    /// Tells the device the priority of memory that is used again, if it is not the one that it was told before. For who
    /// has the allocation that the memory is used for now, and no lock.
    pub(super) fn set_priority(
        &self,
        allocation: &Allocation,
        changed_priority: Option<(D::Memory, Priority)>,
    ) {
        let Some((memory, priority)) = changed_priority else { return };
        // While it is held nobody gives the memory back.
        let Ok((place, _held)) = self.hold(allocation) else { return };
        if D::Memory::from_raw(place.memory) == memory {
            // SAFETY: the allocation is in the memory, so it is live, and only who used it first is told to do this.
            let told = unsafe { self.device.set_memory_priority(memory, priority) };
            // It is advice, and the memory is as good without it.
            let _ = told;
        }
    }
}
