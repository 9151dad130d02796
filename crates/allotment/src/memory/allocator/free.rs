//! The path of a free, from the token to the pool, and of an emptied block to the driver.

use std::sync::Arc;

use crate::device::Device;
use crate::memory::allocator::Allocator;
use crate::memory::pool::{
    AfterFree, EndedAllocation, Freed, Leave, PoolGuard, PoolSlot, RecordInUse, Settled, Taking,
};
use crate::memory::request::PoolShards;
use crate::memory::time::Moment;
use crate::memory::token::{Allocation, AllocationId};
use crate::memory::{Name, WrongAllocator};
use crate::sync::locked;

/// How many allocations are freed with one lock of their pool: the lock costs as much as a quarter of a free, and is held for
/// a microsecond or two.
const TOGETHER: usize = 32;

/// Allocations of one allocator whose frees are done together, some in one lock of their pool: in the order in which they were
/// added, and by the time that this is dropped.
pub(in crate::memory) struct FreesTogether<D: Device> {
    allocator: Arc<Allocator<D>>,
    /// Those from `begin` to `end` were live when they were added, and their handles were given up.
    ended: [AllocationId; TOGETHER],
    begin: usize,
    end: usize,
}

impl<D: Device> FreesTogether<D> {
    pub(in crate::memory) fn new(allocator: &Arc<Allocator<D>>) -> Self {
        let none = AllocationId { allocator: 0, pool: 0, record: 0, generation: 0 };
        Self { allocator: Arc::clone(allocator), ended: [none; TOGETHER], begin: 0, end: 0 }
    }

    /// Returns the allocator, whose allocations can be added.
    pub(in crate::memory) fn allocator(&self) -> &Arc<Allocator<D>> {
        &self.allocator
    }

    /// Adds an allocation of the allocator. The GPU must have finished all use of its memory.
    #[inline]
    pub(in crate::memory) fn add(&mut self, allocation: Allocation) {
        debug_assert_eq!(
            allocation.allocator,
            self.allocator.id(),
            "the allocation belongs to this allocator"
        );
        self.ended[self.end] = allocation.id();
        self.end += 1;
        if self.end == TOGETHER {
            self.free();
        }
    }

    fn free(&mut self) {
        while self.begin < self.end {
            self.allocator.free_of_one_pool(&self.ended[..self.end], &mut self.begin);
        }
        (self.begin, self.end) = (0, 0);
    }
}

impl<D: Device> Drop for FreesTogether<D> {
    fn drop(&mut self) {
        /// Goes on behind a free in which the device panicked.
        struct Rest<'a, D: Device>(&'a mut FreesTogether<D>);

        impl<D: Device> Drop for Rest<'_, D> {
            fn drop(&mut self) {
                self.0.free();
            }
        }

        Rest(self).0.free();
    }
}

impl<D: Device> Allocator<D> {
    /// Frees an allocation. The GPU must have finished all use of its memory.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let mesh = allocator.allocate(&Requirements::new(1000), &MemoryUsage::GpuOnly.into())?;
    /// allocator.free(mesh)?; // moved: it cannot be freed twice
    /// assert_eq!(allocator.statistics().allocations, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`WrongAllocator`] if the token belongs to another allocator; the error contains the token.
    #[inline(never)]
    #[doc(alias("vmaFreeMemory", "free_memory"))]
    pub fn free(&self, allocation: Allocation) -> Result<(), WrongAllocator> {
        if allocation.allocator != self.id() {
            return Err(WrongAllocator(allocation));
        }
        let Some(slot) = self.pools.get(allocation.pool) else { return Err(WrongAllocator(allocation)) };
        let in_use = RecordInUse::new(allocation.record, allocation.generation);
        match slot.lock_to_free() {
            Some(guard) => self.free_locked(slot, guard, in_use, allocation.id()),
            None => self.free_where_threads_meet(slot, in_use, allocation.id()),
        }
        Ok(())
    }

    /// Frees allocations of this allocator, whose handles were given up, from the `next` one to the last that is of its pool.
    /// `next` is moved before each free, so that none is freed again should one panic.
    fn free_of_one_pool(&self, ended: &[AllocationId], next: &mut usize) {
        let Some(pool) = ended.get(*next).map(|id| id.pool) else { return };
        let (slot, mut held) = (self.pools.get(pool), None);
        for &id in ended[*next..].iter().take_while(|id| id.pool == pool) {
            *next += 1;
            let Some(slot) = slot else { continue };
            let in_use = RecordInUse::new(id.record, id.generation);
            let Some(mut guard) = held.take().or_else(|| slot.lock_to_free()) else {
                self.free_where_threads_meet(slot, in_use, id);
                continue;
            };
            match slot.free(guard.as_mut(), in_use, || self.pools.now()) {
                // The lock is kept for the next one.
                AfterFree::Nothing | AfterFree::Name(None | Some(Name::Static(_))) => held = Some(guard),
                after => {
                    drop(guard);
                    self.after_locked(slot, after, id);
                }
            }
        }
    }

    /// Frees an allocation of a slot that is locked.
    #[inline(always)]
    fn free_locked(
        &self,
        slot: &PoolSlot<D>,
        mut guard: PoolGuard<'_, D>,
        in_use: RecordInUse,
        id: AllocationId,
    ) {
        let after = slot.free(guard.as_mut(), in_use, || self.pools.now());
        drop(guard);
        self.after_locked(slot, after, id);
    }

    /// Does what the free of an allocation leaves for after the lock.
    #[inline(always)]
    fn after_locked(&self, slot: &PoolSlot<D>, after: AfterFree<D>, id: AllocationId) {
        match after {
            // Nearly all frees of a steady program end here.
            AfterFree::Nothing => {}
            AfterFree::NoPool => self.free_placed(id),
            after => self.end_free(slot, after),
        }
    }

    /// Frees an allocation of a slot whose lock another thread has, or had until lately.
    #[cold]
    #[inline(never)]
    fn free_where_threads_meet(&self, slot: &PoolSlot<D>, in_use: RecordInUse, id: AllocationId) {
        match self.pools.leave((id.pool, slot), in_use, self.events().is_read()) {
            Leave::Left => {}
            Leave::Many(guard) => {
                drop(self.take_left_frees_briefly(slot, guard));
            }
            Leave::Locked(guard) => {
                let guard = self.take_left_frees_briefly(slot, guard);
                self.free_locked(slot, guard, in_use, id);
            }
        }
    }

    /// Returns all pools, in which what threads left has been freed. Called with no lock held.
    #[inline]
    pub(in crate::memory) fn settled(&self) -> Settled<'_, D> {
        self.pools.settled(|slot| _ = self.take_left_frees_in(slot))
    }

    /// Frees what threads left in the shards that were locked, so that all frees that have returned have happened, but for one in
    /// the hands of each thread that does the same at this moment. Returns true if there was any. One load where no thread left
    /// one yet.
    #[inline]
    pub(crate) fn take_left_frees(&self) -> bool {
        self.pools.may_have_left_frees() && self.take_left_frees_of_all()
    }

    #[cold]
    fn take_left_frees_of_all(&self) -> bool {
        let mut any = false;
        for slot in self.pools.with_left_frees() {
            any |= self.take_left_frees_in(slot);
        }
        any
    }

    /// Frees what threads left in some shards of a pool.
    #[inline]
    pub(super) fn take_left_frees_of_shards(&self, shards: PoolShards) {
        if self.pools.may_have_left_frees() {
            let slots = shards.indices().filter_map(|index| self.pools.get(index));
            slots.for_each(|slot| _ = self.take_left_frees_in(slot));
        }
    }

    /// Frees what threads left in a slot. Returns true if there was any.
    pub(super) fn take_left_frees_in(&self, slot: &PoolSlot<D>) -> bool {
        slot.lock_to_take_left().map(|guard| drop(self.take_left_frees_of(slot, guard))).is_some()
    }

    /// Frees what threads left in a slot, which is locked, and is so again when this returns.
    pub(in crate::memory) fn take_left_frees_of<'a>(
        &self,
        slot: &'a PoolSlot<D>,
        guard: PoolGuard<'a, D>,
    ) -> PoolGuard<'a, D> {
        self.take_left_frees_until(slot, guard, None)
    }

    /// Does what [`take_left_frees_of`](Self::take_left_frees_of) does, for a thread that leaves frees. Requests wait for it
    /// for the microseconds that this takes, and not for a call of the driver.
    fn take_left_frees_briefly<'a>(
        &self,
        slot: &'a PoolSlot<D>,
        guard: PoolGuard<'a, D>,
    ) -> PoolGuard<'a, D> {
        self.take_left_frees_until(slot, guard, Some(slot.taking()))
    }

    fn take_left_frees_until<'a>(
        &self,
        slot: &'a PoolSlot<D>,
        mut guard: PoolGuard<'a, D>,
        mut taking: Option<Taking<'_>>,
    ) -> PoolGuard<'a, D> {
        while let Some(after) = slot.take_left(&mut guard, || self.pools.now()) {
            drop(taking.take());
            drop(guard);
            self.end_free(slot, after);
            guard = locked(&slot.state);
        }
        guard
    }

    /// Does what a free leaves for after the lock.
    fn end_free(&self, slot: &PoolSlot<D>, after: AfterFree<D>) {
        match after {
            // No placed resource is left.
            AfterFree::Nothing | AfterFree::NoPool => {}
            // Dropped without the lock, since the last owner of a shared name frees host memory.
            AfterFree::Name(name) => drop(name),
            AfterFree::Elsewhere(home, ended) => self.free_elsewhere(home, ended),
            AfterFree::Freed(freed, now) => self.after_free(slot, freed, now),
        }
    }

    /// Frees an allocation that is known to belong to this allocator, at once: it is never left to another thread, since the
    /// caller looks at what is free next.
    pub(in crate::memory) fn free_own(&self, allocation: Allocation) {
        debug_assert_eq!(allocation.allocator, self.id(), "the allocation belongs to this allocator");
        let Some(slot) = self.pools.get(allocation.pool) else { return };
        let in_use = RecordInUse::new(allocation.record, allocation.generation);
        let guard = self.take_left_frees_of(slot, locked(&slot.state));
        self.free_locked(slot, guard, in_use, allocation.id());
    }

    /// Frees the range of an allocation that has ended, in the shard that has its block: defragmentation moved it there
    /// while both shards were idle. The locks of both are taken one after the other, so the free takes as long as two.
    #[cold]
    fn free_elsewhere(&self, home: u32, ended: EndedAllocation) {
        let Some(slot) = self.pools.get(home) else { return };
        if let Some((freed, now)) = slot.free_elsewhere(ended, || self.pools.now()) {
            self.after_free(slot, freed, now);
        }
    }

    /// Does what a free leaves for after the lock. `now` is the time, if it was read before the free.
    pub(in crate::memory) fn after_free(&self, slot: &PoolSlot<D>, freed: Freed<D>, now: Option<Moment>) {
        let Freed { memory, more, name } = freed;
        drop(name);
        match memory {
            // A driver call takes up to milliseconds; the maintenance thread makes it, if there is one.
            Some(memory) if self.pools.grows_ahead() => self.pools.leave_to_maintenance(memory),
            Some(memory) => self.waiting(|| {
                self.heaps().free(self.device(), memory);
                if more {
                    self.release_each(|| slot.take_unwanted());
                }
            }),
            None => {}
        }
        // The time that has passed counts for the other pools as well, which may have no frees of their own.
        let unwanted = now.map_or(Vec::new(), |now| self.pass_time(now));
        if !unwanted.is_empty() {
            self.waiting(|| self.free_all(unwanted));
        }
    }
}
