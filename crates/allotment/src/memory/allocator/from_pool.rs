//! Allocates from one memory type of a pool, in whichever of its shards; and where no block can be had, among allocations that
//! are kept apart otherwise.

use crate::device::{Device, MemoryTypeIndex};
use crate::memory::AllocationError;
use crate::memory::allocator::Allocator;
use crate::memory::allocator::new_block::NO_ATTEMPT;
use crate::memory::pool::{Asked, LockedShard, PlanSizes, Pool, both_sets};
use crate::memory::request::{AllocationRequest, PoolShards};
use crate::memory::token::Allocation;

impl<D: Device> Allocator<D> {
    /// Allocates from one memory type of a pool, in whichever of its shards.
    pub(super) fn allocate_from_shards(
        &self,
        shards: PoolShards,
        set: usize,
        request: &AllocationRequest<'_>,
    ) -> Result<Allocation, AllocationError> {
        let shard = self.pools.lock_for(shards, set, request)?;
        let own = shard.place();
        let attempt = |shard, sizes| {
            let asked = Asked::First { may_reclaim: self.may_reclaim() };
            let answer = self.pools.ask(shard, (set, sizes), request, asked)?;
            self.allocate_from_shard(own, answer, (set, sizes), request)
        };
        if !self.pools.others_have_memory(shards, own.0) {
            // The usual case: one thread at a time.
            return attempt(shard, PlanSizes::All);
        }
        if let Some(placed) = self.pools.place_in_shard(shard, set, request)? {
            return Ok(self.accept(own.0, placed));
        }
        if let Some((pool, placed)) = self.pools.place_in_lent_block(shards, own, set, request)? {
            return Ok(self.accept(pool, placed));
        }
        let refused = match attempt(LockedShard::lock(own), PlanSizes::Wanted) {
            Err(refused) if refused.falls_through() => refused,
            done => return done,
        };
        // No block of the wanted size can be had, so the rest of the others' blocks is better than a smaller one.
        if let Some((pool, placed)) = self.pools.place_in_any(shards, Some(own.0), set, request)? {
            return Ok(self.accept(pool, placed));
        }
        if let Some(bytes) = refused.refused_bytes(request.at_last) {
            match attempt(LockedShard::lock(own), PlanSizes::Below(bytes)) {
                // There is no smaller one.
                Err(NO_ATTEMPT) => {}
                Err(smaller) if smaller.falls_through() => return Err(smaller),
                done => return done,
            }
        }
        Err(self.pools.with_room_of(shards.indices().map(|pool| (pool, set)), refused))
    }

    /// Places an allocation among those of other movers, or among pinned ones, in the blocks of default pools that there
    /// are: where no block can be had for a request, that is better than a refusal.
    pub(super) fn place_among_others(
        &self,
        memory_type: MemoryTypeIndex,
        request: &AllocationRequest<'_>,
        refused: AllocationError,
    ) -> Result<Allocation, AllocationError> {
        if !refused.falls_through() {
            return Err(refused);
        }
        for others in self.pools.default_pools_of_others(memory_type, request) {
            if let Some((pool, placed)) = self.pools.place_in_any(others, None, 0, request)? {
                return Ok(self.accept(pool, placed));
            }
        }
        Err(self.pools.with_room_of_all_groups(memory_type, request, refused))
    }

    /// Does what [`place_among_others`](Self::place_among_others) does, in a custom pool that keeps movable and pinned
    /// allocations apart.
    pub(super) fn place_in_other_set(
        &self,
        pool: &Pool,
        set: usize,
        request: &AllocationRequest<'_>,
        refused: AllocationError,
    ) -> Result<Allocation, AllocationError> {
        let Some(other) = pool.other_set(set).filter(|_| refused.falls_through()) else {
            return Err(refused);
        };
        if let Some((pool, placed)) = self.pools.place_in_any(pool.shards(), None, other, request)? {
            return Ok(self.accept(pool, placed));
        }
        Err(self.pools.with_room_of(both_sets(pool, [set, other]), refused))
    }
}
