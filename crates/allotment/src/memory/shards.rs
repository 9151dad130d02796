//! Default pools stand in several copies, so that threads do not wait for each other.
//!
//! ```text
//!   one memory type, one lifetime:   shard 0      shard 1      shard 2   …
//!                                    [blocks]     [blocks]     –
//!                                       ▲            ▲
//!                                    threads A,C   thread B, once it found shard 0 taken
//! ```
//!
//! Every thread begins at shard 0 and stays in its shard until it has found it locked several times within a
//! few dozen requests; then it goes on to the next that is not, and stays there. So a program that allocates
//! from one thread at a time has one shard and packs as if there were no others, and threads that do it at
//! the same time come apart by themselves. To meet somebody now and then, who frees something that he
//! allocated here, is no reason to move: who moves leaves blocks behind that are partly filled.
//!
//! What one shard has too much of is not out of the others' reach. Who finds no room in the own shard takes
//! an empty block of another's before a new one is got; and where none can be got, the others' blocks are
//! searched for room before the request is refused. (Searching them first would save a block now and then,
//! and soon every thread would own a part of every block, and meet the others at every free.) A token is
//! freed into the shard that it is from, by whichever thread.

use core::cell::Cell;
use std::sync::{MutexGuard, TryLockError};

use super::allocator::{Allocation, Allocator};
use super::pool::{PoolSlot, PoolState};
use super::preview::AllocationPreview;
use super::{AllocationDesc, AllocationError, ShortName};
use crate::device::Device;
use crate::sync::locked;

/// More shards than this would not meet less, and each costs a partly filled block.
pub(super) const MOST_SHARDS: u32 = 16;

thread_local! {
    /// The shard that this thread was in last, of whichever pool and allocator.
    static SHARD: Cell<u32> = const { Cell::new(0) };
    /// How often it found its shard locked of late.
    static CONTENTION: Cell<u32> = const { Cell::new(0) };
}

/// What a meeting counts. Each request without one takes 1 off.
const CONTENDED_COST: u32 = 8;

/// From so much on a thread moves: after eight meetings in a row, or a meeting in every eighth request for
/// long.
const MOVE_AT: u32 = 64;

/// As many shards as threads can run at once, up to eight.
pub(super) fn default_shards() -> u32 {
    std::thread::available_parallelism().map_or(1, |threads| threads.get().min(8) as u32)
}

/// A pool that was entered: its index, the pool, and its lock.
type Entered<'a, D> = (u32, &'a PoolSlot<D>, MutexGuard<'a, Option<PoolState<D>>>);

impl<D: Device> Allocator<D> {
    /// The shard of a default pool that this thread was in last.
    pub(super) fn own_shard(&self, first: u32) -> u32 {
        first + SHARD.get() % self.shards * self.pools_per_shard()
    }

    /// All shards of a default pool, the thread's own first.
    fn shards_of(&self, first: u32) -> impl Iterator<Item = u32> + use<D> {
        let (own, shards, stride) = (SHARD.get(), self.shards, self.pools_per_shard());
        (0..shards).map(move |i| first + (own + i) % shards * stride)
    }

    /// Notes that the thread found its shard free.
    pub(super) fn note_uncontended() {
        let meetings = CONTENTION.get();
        if meetings != 0 {
            CONTENTION.set(meetings - 1);
        }
    }

    /// Enters the thread's own shard of a default pool; or, where it meets others there too often, the next
    /// that nobody is in, which becomes its own.
    fn lock_shard(&self, first: u32) -> Result<Entered<'_, D>, AllocationError> {
        for pool in self.shards_of(first) {
            let slot = self.shard(pool)?;
            let guard = match slot.state.try_lock() {
                Ok(guard) => guard,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    CONTENTION.set(CONTENTION.get() + CONTENDED_COST);
                    if CONTENTION.get() >= MOVE_AT {
                        continue;
                    }
                    locked(&slot.state)
                }
            };
            let shard = pool / self.pools_per_shard();
            if SHARD.replace(shard) != shard {
                CONTENTION.set(0);
            }
            return Ok((pool, slot, guard));
        }
        let pool = self.own_shard(first);
        let slot = self.shard(pool)?;
        CONTENTION.set(0);
        Ok((pool, slot, locked(&slot.state)))
    }

    /// A shard's slot, with its pool made when it is entered first.
    pub(super) fn shard(&self, pool: u32) -> Result<&PoolSlot<D>, AllocationError> {
        let slot = self.pools.get_or_make(pool).ok_or(AllocationError::ForeignPool)?;
        // Made again where the device panicked in it.
        slot.made.call_once_force(|_| {
            *locked(&slot.state) = self.new_default_pool(pool % self.pools_per_shard());
        });
        Ok(slot)
    }

    /// The other shards of the pool that have memory.
    fn others_with_memory(&self, first: u32, but: u32) -> impl Iterator<Item = (u32, &PoolSlot<D>)> {
        let others = self.shards_of(first).filter(move |&pool| pool != but);
        others.filter_map(|pool| Some((pool, self.pools.get(pool).filter(|slot| slot.has_memory())?)))
    }

    /// Serves a request from the shards of a default pool.
    pub(super) fn allocate_from_shards(
        &self,
        first: u32,
        desc: &AllocationDesc,
    ) -> Result<Allocation, AllocationError> {
        let (pool, slot, guard) = self.lock_shard(first)?;
        if self.others_with_memory(first, pool).next().is_none() {
            return self.allocate_from_locked_pool(pool, slot, guard, 0, desc);
        }
        if let Some(allocation) = self.place_in_shard(pool, slot, guard, desc)? {
            return Ok(allocation);
        }
        if let Some(allocation) = self.place_in_lent_block(first, pool, slot, desc)? {
            return Ok(allocation);
        }
        self.allocate_from_locked_pool(pool, slot, locked(&slot.state), 0, desc).or_else(|refused| {
            if !refused.falls_through() {
                return Err(refused);
            }
            for (other, slot) in self.others_with_memory(first, pool) {
                if let Some(allocation) = self.place_in_shard(other, slot, locked(&slot.state), desc)? {
                    return Ok(allocation);
                }
            }
            Err(self.with_room_of_all_shards(first, refused))
        })
    }

    /// Serves a request from an empty block of another shard, which moves here, or from what was reserved
    /// there.
    fn place_in_lent_block(
        &self,
        first: u32,
        pool: u32,
        slot: &PoolSlot<D>,
        desc: &AllocationDesc,
    ) -> Result<Option<Allocation>, AllocationError> {
        // As this shard sees the request.
        let (rounded, in_blocks) = {
            let guard = locked(&slot.state);
            let state = guard.as_ref().ok_or(AllocationError::ForeignPool)?;
            let rounded = self.round_request(state, 0, desc)?;
            (rounded, state.may_share_block(rounded.role))
        };
        for (other, other_slot) in self.others_with_memory(first, pool) {
            let mut guard = locked(&other_slot.state);
            let Some(state) = guard.as_mut() else { continue };
            let lent = state.lend(other_slot, &rounded, in_blocks);
            self.wake_maintenance_if_low(state);
            if let Some((memory, role)) = lent {
                drop(guard);
                return self.insert_lent_block(pool, slot, memory, role, &rounded, desc).map(Some);
            }
            if state.holds_reserve() {
                if let Some(allocation) = self.place_in_shard(other, other_slot, guard, desc)? {
                    return Ok(Some(allocation));
                }
            }
        }
        Ok(None)
    }

    /// Sums up over all shards what a refusal says of one.
    fn with_room_of_all_shards(&self, first: u32, refused: AllocationError) -> AllocationError {
        let AllocationError::WouldGrow { requested, .. } = refused else { return refused };
        let rooms = self.shards_of(first).filter_map(|pool| {
            let guard = locked(&self.pools.get(pool)?.state);
            guard.as_ref().map(|state| state.sets[0].room())
        });
        let (free, largest_free) = rooms.fold((0, 0), |(free, largest), (f, l)| (free + f, l.max(largest)));
        AllocationError::WouldGrow { requested, free, largest_free, name: ShortName::NONE }
    }

    /// Serves a request from what a shard has.
    fn place_in_shard(
        &self,
        pool: u32,
        slot: &PoolSlot<D>,
        mut guard: MutexGuard<'_, Option<PoolState<D>>>,
        desc: &AllocationDesc,
    ) -> Result<Option<Allocation>, AllocationError> {
        let state = guard.as_mut().ok_or(AllocationError::ForeignPool)?;
        let rounded = self.round_request(state, 0, desc)?;
        let placed = state.place_in_existing(slot, 0, &rounded, desc)?;
        self.wake_maintenance_if_low(state);
        let placed = placed.map(|record| self.token(pool, record, slot));
        let changed_priority = state.changed_priority.take();
        drop(guard);
        placed.iter().for_each(|token| self.set_priority(token, changed_priority));
        Ok(placed)
    }

    /// What serving a request from the shards of a default pool would do.
    pub(super) fn preview_shards(
        &self,
        first: u32,
        desc: &AllocationDesc,
    ) -> Result<AllocationPreview, AllocationError> {
        let own = self.own_shard(first);
        let slot = self.shard(own)?;
        let forecast = self.preview_from_pool(own, 0, desc);
        if matches!(forecast, Ok(AllocationPreview::Fits { .. })) {
            return forecast;
        }
        let (rounded, in_blocks, memory_type) = {
            let guard = locked(&slot.state);
            let state = guard.as_ref().ok_or(AllocationError::ForeignPool)?;
            let rounded = self.round_request(state, 0, desc)?;
            (rounded, state.may_share_block(rounded.role), state.sets[0].memory_type)
        };
        for (_, other) in self.others_with_memory(first, own) {
            let mut guard = locked(&other.state);
            let Some(state) = guard.as_mut() else { continue };
            state.flush_quick_lists();
            // What others have room for is used where they lend it, and where nothing can be got.
            let searched = state.holds_reserve() || forecast.is_err();
            if state.lendable(&rounded, in_blocks).is_some() || (searched && state.would_place(0, &rounded)) {
                return Ok(AllocationPreview::Fits { memory_type });
            }
        }
        forecast.map_err(|refused| self.with_room_of_all_shards(first, refused))
    }
}
