//! A new block: from the plan through the driver into the pool.
//!
//! No pool is locked during a driver call. A [`PendingBlock`] tells other threads that one is under way.

use crate::device::{Device, MemoryDesc, MemoryHandle as _, MemoryHeapIndex, OwnedMemory, Priority};
use crate::memory::allocator::Allocator;
use crate::memory::allocator::ladder::IdleBlocks;
use crate::memory::block_set::Role;
use crate::memory::driver::heap_of;
use crate::memory::pool::{
    BlockPlan, Expected, NeededBlock, PendingBlock, Placed, PlanSizes, PoolSlot, RoundedRequest, Source,
};
use crate::memory::request::{AllocationRequest, PoolShards};
use crate::memory::time::Moment;
use crate::memory::token::Allocation;
use crate::memory::{AllocationError, ShortName};

/// The refusal where the driver was not asked, since a plan has no smaller sizes. No request of 0 bytes comes so far.
pub(super) const NO_ATTEMPT: AllocationError = AllocationError::ZeroSize { name: ShortName::NONE };

impl<D: Device> Allocator<D> {
    /// Allocates the block of a plan, after the blocks were freed that the pool has not used for some frames: a new
    /// block takes their place rather than being added to them. Called with no lock held.
    pub(super) fn allocate_block_replacing_stale(
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
                self.heaps().check(self.device(), source.memory_type, preferred, source.terms.budget).is_ok();
            // With a maintenance thread, that thread frees blocks.
            if allowed && !source.terms.ahead && !self.pools.grows_ahead() {
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
        let idle = if source.terms.ahead { IdleBlocks::Keep } else { IdleBlocks::Free };
        let free_idle_for =
            |refused| self.free_idle_for(&idle, (source.memory_type, refused), source.terms.budget);
        let again = if free_idle_for(refused) {
            // Anew, since the figures may allow a larger block now.
            attempt(sizes, refused)
        } else {
            match refused.refused_bytes(rounded.at_last) {
                Some(bytes) if sizes == PlanSizes::All => attempt(PlanSizes::Below(bytes), refused),
                _ => Err(refused),
            }
        };
        match again {
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
        let heap = heap_of(self.device(), memory_type)?;
        let mut refused = before;
        for (size, role) in plan.attempts(sizes, self.heaps().room_for_block(self.device(), heap), rounded) {
            let priority = if role == Role::Shared { priority } else { dedicated_priority };
            let desc =
                MemoryDesc::new(memory_type, size).with_priority(priority).with_options(options.as_ref());
            let make = || OwnedMemory::allocate(self.device(), &desc, terms.mapping);
            let terms = plan.terms(size, terms);
            match self.heaps().allocate(self.device(), (memory_type, size), terms, make) {
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
        unsafe { self.device().name_memory(memory.handle(), &name) };
    }

    /// Returns the bytes of a heap that [`release_empty`](Self::release_empty) would free.
    pub(in crate::memory) fn empty_bytes(&self, heap: MemoryHeapIndex, but: Option<&PoolSlot<D>>) -> u64 {
        let others = self.settled().slots().filter(|slot| !but.is_some_and(|but| core::ptr::eq(*slot, but)));
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
        let placed = self.pools.placed_or_freed(pending.insert(memory, rounded, request))?;
        Ok(self.accept(pool, placed))
    }

    /// Returns the token of a request that has its place. The caller holds no lock.
    pub(in crate::memory) fn accept(&self, pool: u32, placed: Placed<D>) -> Allocation {
        let Placed { in_use, changed_priority, is_low } = placed;
        if is_low {
            self.pools.request_maintenance();
        }
        let token = self.pools.token_of(pool, in_use);
        self.set_priority(&token, changed_priority);
        token
    }

    /// Announces to a pool that the caller creates dedicated memory together with a resource. The caller passes the
    /// result to [`insert_block`](Self::insert_block), also when it is a refusal.
    pub(in crate::memory) fn begin_dedicated_block(
        &self,
        (shards, pool): (PoolShards, u32),
        set: usize,
        request: &AllocationRequest<'_>,
    ) -> Result<NeededBlock<'_, D>, AllocationError> {
        let slot = self.pools.shard(shards, pool)?;
        loop {
            match self.pools.expect_dedicated(slot, set, request)? {
                Expected::Block(needed) => return Ok(needed),
                Expected::Full(memory) => self.waiting(|| self.heaps().free(self.device(), memory)),
            }
        }
    }

    /// Sets the residency priority of reused memory, if it has changed. The caller owns the allocation that uses the
    /// memory now, and holds no lock.
    fn set_priority(&self, allocation: &Allocation, changed_priority: Option<(D::Memory, Priority)>) {
        let Some((memory, priority)) = changed_priority else { return };
        // While the allocation is held, no thread frees the memory.
        let Ok((place, _held)) = self.hold(allocation) else { return };
        if D::Memory::from_raw(place.memory) == memory {
            // SAFETY: the allocation is in the memory, so it is live, and only the thread that used it first calls
            // this.
            let result = unsafe { self.device().set_memory_priority(memory, priority) };
            // A priority is a hint; the memory is usable without it.
            let _ = result;
        }
    }
}
