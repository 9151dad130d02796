//! Each default pool has several copies (shards), so that threads do not wait for each other's locks.
//!
//! ```text
//!   one memory type, one lifetime:   shard 0      shard 1      shard 2   …
//!                                    [blocks]     [blocks]     –
//!                                       ▲            ▲
//!                                    threads A, C  thread B, after it found shard 0 locked
//! ```
//!
//! Every thread begins at shard 0 and stays in its shard until it has found it locked several times within a few dozen
//! requests; then it moves to the next shard that is not locked. So a program that allocates from one thread at a time
//! has one shard and packs as if there were no others, and threads that allocate at the same time separate by
//! themselves. Occasional contention, as with a thread that frees what it allocated here, is no reason to move: a
//! thread that moves leaves partly filled blocks behind.
//!
//! A shard can use the room of the others. A request that finds no room in its thread's shard takes an empty block of
//! another shard before a new one is allocated; and if the driver refuses one, the other shards are searched for room
//! before the request fails. (To search them first would sometimes save a block. But soon every thread would own
//! a part of every block, and contend with the others at every free.) A token is freed into the shard that it was
//! allocated from, by whichever thread.
//!
//! Two threads on two cores had 2.0 and 1.5 times the throughput of one (`docs/measurements/2026-11-21-vulkan.md`).

use core::cell::Cell;
use std::sync::{MutexGuard, TryLockError};

use super::allocator::{Allocation, Allocator};
use super::desc::AllocationRequest;
use super::pool::{PoolSlot, PoolState};
use super::preview::AllocationPreview;
use super::{AllocationError, ShortName};
use crate::device::Device;
use crate::sync::locked;

/// The maximum number of shards. More would not reduce contention, and each costs a partly filled block.
pub(super) const MOST_SHARDS: u32 = 16;

thread_local! {
    /// The shard that this thread used last, in any pool of any allocator.
    static SHARD: Cell<u32> = const { Cell::new(0) };
    /// How often this thread found its shard locked lately, weighted.
    static CONTENTION: Cell<u32> = const { Cell::new(0) };
}

/// The contention that a request adds when it found its shard locked. Each other request subtracts 1.
const CONTENDED_COST: u32 = 8;

/// The contention from which a thread moves: after eight locked shards in a row, or one in every eighth request for
/// long.
const MOVE_AT: u32 = 64;

/// Returns the number of threads that can run at once, up to eight.
pub(super) fn default_shards() -> u32 {
    std::thread::available_parallelism().map_or(1, |threads| threads.get().min(8) as u32)
}

/// A locked shard: its index, its slot, and its lock.
type LockedShard<'a, D> = (u32, &'a PoolSlot<D>, MutexGuard<'a, Option<PoolState<D>>>);

impl<D: Device> Allocator<D> {
    /// Returns the shard of a default pool that this thread used last.
    pub(super) fn own_shard(&self, first: u32) -> u32 {
        // The thread may have used an allocator with more shards.
        first + SHARD.get() % self.shards * self.pools_per_shard()
    }

    /// Iterates over all shards of a default pool, the thread's own first.
    fn shards_of(&self, first: u32) -> impl Iterator<Item = u32> + use<D> {
        let (own, shards, stride) = (SHARD.get(), self.shards, self.pools_per_shard());
        (0..shards).map(move |i| first + (own + i) % shards * stride)
    }

    /// Notes that the thread did not find its shard locked.
    pub(super) fn note_uncontended() {
        let contention = CONTENTION.get();
        if contention != 0 {
            CONTENTION.set(contention - 1);
        }
    }

    /// Locks the thread's own shard of a default pool; or, after too much contention, the next shard that is not
    /// locked, which becomes the thread's own.
    fn lock_shard(&self, first: u32) -> Result<LockedShard<'_, D>, AllocationError> {
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
                    // Until then the thread waits: the lock is held for less than 100 ns, and a move costs a partly
                    // filled block.
                    locked(&slot.state)
                }
            };
            let shard = pool / self.pools_per_shard();
            // In a new shard the thread's history says nothing.
            if SHARD.replace(shard) != shard {
                CONTENTION.set(0);
            }
            return Ok((pool, slot, guard));
        }
        // All shards are locked, so no other one is better than the thread's own.
        let pool = self.own_shard(first);
        let slot = self.shard(pool)?;
        CONTENTION.set(0);
        Ok((pool, slot, locked(&slot.state)))
    }

    /// Returns the slot of a shard, and creates its pool at the first call.
    pub(super) fn shard(&self, pool: u32) -> Result<&PoolSlot<D>, AllocationError> {
        let slot = self.pools.get_or_make(pool).ok_or(AllocationError::WrongPool)?;
        // Forced, so that a panic of the device during the first call does not make the pool unusable.
        slot.made.call_once_force(|_| {
            *locked(&slot.state) = self.new_default_pool(pool % self.pools_per_shard());
        });
        Ok(slot)
    }

    /// Iterates over the shards but one that have memory.
    fn others_with_memory(&self, first: u32, but: u32) -> impl Iterator<Item = (u32, &PoolSlot<D>)> {
        let others = self.shards_of(first).filter(move |&pool| pool != but);
        others.filter_map(|pool| Some((pool, self.pools.get(pool).filter(|slot| slot.has_memory())?)))
    }

    /// Allocates from the shards of a default pool.
    pub(super) fn allocate_from_shards(
        &self,
        first: u32,
        request: &AllocationRequest<'_>,
    ) -> Result<Allocation, AllocationError> {
        let (pool, slot, guard) = self.lock_shard(first)?;
        if self.others_with_memory(first, pool).next().is_none() {
            // The usual case: one thread at a time.
            return self.allocate_from_locked_pool(pool, slot, guard, 0, request);
        }
        if let Some(allocation) = self.place_in_shard(pool, slot, guard, request)? {
            return Ok(allocation);
        }
        if let Some(allocation) = self.place_in_lent_block(first, pool, slot, request)? {
            return Ok(allocation);
        }
        self.allocate_from_locked_pool(pool, slot, locked(&slot.state), 0, request).or_else(|refused| {
            if !refused.falls_through() {
                return Err(refused);
            }
            // No shard can get a block, so the rest of the others' blocks is better than a refusal.
            for (other, slot) in self.others_with_memory(first, pool) {
                if let Some(allocation) = self.place_in_shard(other, slot, locked(&slot.state), request)? {
                    return Ok(allocation);
                }
            }
            Err(self.with_room_of_all_shards(first, refused))
        })
    }

    /// Places a request in an empty block of another shard, which is moved to this one, or in the blocks that were
    /// reserved there.
    fn place_in_lent_block(
        &self,
        first: u32,
        pool: u32,
        slot: &PoolSlot<D>,
        request: &AllocationRequest<'_>,
    ) -> Result<Option<Allocation>, AllocationError> {
        // By this shard's own next block size: the block is going to be one of its blocks.
        let (rounded, in_blocks) = {
            let guard = locked(&slot.state);
            let state = guard.as_ref().ok_or(AllocationError::WrongPool)?;
            let rounded = self.round_request(state, 0, request)?;
            (rounded, state.may_share_block(rounded.role))
        };
        for (other, other_slot) in self.others_with_memory(first, pool) {
            let mut guard = locked(&other_slot.state);
            let Some(state) = guard.as_mut() else { continue };
            let lent = state.lend(other_slot, &rounded, in_blocks);
            self.wake_maintenance_if_low(state);
            if let Some((memory, role)) = lent {
                drop(guard);
                return self.insert_lent_block(pool, slot, memory, role, &rounded, request).map(Some);
            }
            // A reservation is made in one shard, by one thread; the threads of the others have to find it.
            if state.holds_reserve() {
                if let Some(allocation) = self.place_in_shard(other, other_slot, guard, request)? {
                    return Ok(Some(allocation));
                }
            }
        }
        Ok(None)
    }

    /// Replaces the room of one shard in a refusal by that of all shards.
    fn with_room_of_all_shards(&self, first: u32, refused: AllocationError) -> AllocationError {
        let AllocationError::WouldGrow { requested, .. } = refused else { return refused };
        let rooms = self.shards_of(first).filter_map(|pool| {
            let guard = locked(&self.pools.get(pool)?.state);
            guard.as_ref().map(|state| state.sets[0].room())
        });
        let (free, largest_free) = rooms.fold((0, 0), |(free, largest), (f, l)| (free + f, l.max(largest)));
        AllocationError::WouldGrow { requested, free, largest_free, name: ShortName::NONE }
    }

    /// Places a request in the existing blocks of a shard.
    pub(super) fn place_in_shard(
        &self,
        pool: u32,
        slot: &PoolSlot<D>,
        mut guard: MutexGuard<'_, Option<PoolState<D>>>,
        request: &AllocationRequest<'_>,
    ) -> Result<Option<Allocation>, AllocationError> {
        let state = guard.as_mut().ok_or(AllocationError::WrongPool)?;
        let rounded = self.round_request(state, 0, request)?;
        let placed = state.place_in_existing(slot, 0, &rounded, request)?;
        self.wake_maintenance_if_low(state);
        let placed = placed.map(|record| self.token(pool, record, slot));
        let changed_priority = state.changed_priority.take();
        drop(guard);
        placed.iter().for_each(|token| self.set_priority(token, changed_priority));
        Ok(placed)
    }

    /// Previews an allocation from the shards of a default pool.
    pub(super) fn preview_shards(
        &self,
        first: u32,
        request: &AllocationRequest<'_>,
    ) -> Result<AllocationPreview, AllocationError> {
        let own = self.own_shard(first);
        let slot = self.shard(own)?;
        let preview = self.preview_from_pool(own, 0, request);
        if matches!(preview, Ok(AllocationPreview::Fits { .. })) {
            return preview;
        }
        let (rounded, in_blocks, memory_type) = {
            let guard = locked(&slot.state);
            let state = guard.as_ref().ok_or(AllocationError::WrongPool)?;
            let rounded = self.round_request(state, 0, request)?;
            (rounded, state.may_share_block(rounded.role), state.sets[0].memory_type)
        };
        for (_, other) in self.others_with_memory(first, own) {
            let mut guard = locked(&other.state);
            let Some(state) = guard.as_mut() else { continue };
            state.flush_quick_lists();
            // Room in other shards counts where they lend it, and where no block can be allocated, as in
            // `allocate_from_shards`.
            let searched = state.holds_reserve() || preview.is_err();
            if state.lendable(&rounded, in_blocks).is_some() || (searched && state.would_place(0, &rounded)) {
                return Ok(AllocationPreview::Fits { memory_type });
            }
        }
        preview.map_err(|refused| self.with_room_of_all_shards(first, refused))
    }
}
