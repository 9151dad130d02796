//! A pool has several copies (shards), so that threads do not wait for each other's locks.
//!
//! ```text
//!   one pool:   shard 0      shard 1      shard 2   …
//!               [blocks]     [blocks]     –
//!                  ▲            ▲
//!               threads A, C  thread B, after it found shard 0 locked
//! ```
//!
//! Every thread begins at shard 0 and stays in its shard until it has found it locked again and again; then it moves to
//! the shard that the fewest threads use, if that spreads the threads more evenly ([`residents`](super::residents)). So a
//! program that allocates from one thread at a time has one shard and packs as if there were no others, and threads that
//! allocate at the same time separate by themselves, as far as there are shards.
//! Occasional contention, as with a thread that frees what it allocated here, is no reason to move: a thread that moves
//! leaves partly filled blocks behind.
//!
//! A shard costs nothing until a thread moves there, not even host memory, and then a partly filled block. So no thread moves to one without
//! memory where the pool's shards would then have little in their blocks ([`may_open`](Pools::may_open)): small pools
//! have few shards, however many threads contend. Threads that share a shard let each other work for a while
//! (`sync/turns.rs`).
//!
//! A shard can use the room of the others. A request that finds no room in its thread's shard takes an empty block of
//! another shard before a new one is allocated; and if the driver refuses one of the wanted size, the other shards are
//! searched for room before a smaller one is allocated. (To search them first would sometimes save a block. But soon every
//! thread would own a part of every block, and contend with the others at every free.)
//!
//! A token names a record of the shard that it was allocated from, for good. Its range is in a block of that shard, until
//! defragmentation moves it into a block of another one ([`JoinThreads`](crate::memory::defragmentation::JoinThreads)), which
//! is its *home* then:
//!
//! ```text
//!   before   shard 0: record 7 ──► block 0 of shard 0         shard 1: record 3 (reserved) ──► block 2 of shard 1
//!   after    shard 0: record 7 ──► block 2 of shard 1         shard 1: record 3 (left)     ──► block 0 of shard 0
//! ```
//!
//! Only the two records are exchanged; no block says whose its ranges are. What counts blocks and bytes (statistics, the
//! empty-block policy) is with the block, and what belongs to the allocation (labels, maps, moves) with the record. So the
//! sums over all shards of a pool are right, those of one shard need not agree with its records. Whichever thread frees
//! such a token ends the record under the lock of its shard, and then frees the range under that of its home: one lock
//! after the other, never both. The range does not wait in a quick list.
//!
//! Default pools and custom pools share all of this. A custom pool has one shard where more would change what its
//! description promises: where it has a maximum of blocks, which threads would have to divide among themselves, and
//! where it is linear, as the order of its allocations is the order of the calls. Its minimum of blocks holds for its
//! shards together: it begins in shard 0, and a block of the minimum that is lent takes its part of it along. So the
//! pool never has fewer; but a shard keeps its part empty while another one has blocks in use.
//!
//! Sixteen threads on 16 cores have 12 times the throughput of one. The idea, its figures and what was tried:
//! `docs/design/shards.md`.

use crate::device::OwnedMemory;
use crate::memory::pool::requests::Placed;
pub(super) use crate::memory::request::MOST_SHARDS;
pub(super) use crate::memory::request::PoolShards;
use core::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::MutexGuard;

use allotment_suballoc::{Algorithm, Alignment, FitStrategy};

use crate::device::{Device, MemoryTypeIndex};
use crate::memory::pool::pools::Pools;
use crate::memory::pool::residents::{Contended, note_uncontended, own_shard_of};
use crate::memory::pool::served::Served;
use crate::memory::pool::{Pool, PoolDesc, PoolSlot, PoolState, QuickPlace};
use crate::memory::request::AllocationRequest;
use crate::memory::statistics::{Counters, Statistics};
use crate::memory::{AllocationError, ShortName};
use crate::sync::{contended_lately, locked, spin_locked, try_locked};

/// The maximum number of shards of a custom pool.
pub(super) const MOST_CUSTOM_SHARDS: u32 = 16;

/// Shards for each thread that can run at once.
///
/// With one, threads would share shards in a program that has more threads, and a thread that the system interrupts while
/// it holds a lock would keep others from running. Shards that no thread needs cost nothing.
const SHARDS_PER_PROCESSOR: usize = 4;

/// A shard is opened only where allocations fill at least one part in this many of the blocks of all shards, with the new
/// one.
const LEAST_FILL: u64 = 16;

/// The pieces of 1,000 ranges in which a search is prepared, before the rest is done at once.
const MOST_PIECES: usize = 2000;

/// Returns four times the number of threads that can run at once, up to [`MOST_SHARDS`].
pub(super) fn default_shards() -> u32 {
    let processors = std::thread::available_parallelism().map_or(1, core::num::NonZero::get);
    processors.saturating_mul(SHARDS_PER_PROCESSOR).min(MOST_SHARDS as usize) as u32
}

impl PoolShards {
    /// Returns the index of the shard that this thread uses.
    #[inline]
    pub(crate) fn own(self) -> u32 {
        self.first + own_shard_of(self.count) * self.stride
    }

    /// Iterates over the indices of the first `used` shards and of the thread's own, which comes first.
    fn own_first(self, used: u32) -> impl Iterator<Item = u32> {
        let Self { first, stride, count } = self;
        let own = own_shard_of(count);
        let used = used.min(count).max(own + 1);
        (0..used).map(move |i| first + (own + i) % used * stride)
    }

    /// Notes that the thread did not find its shard locked.
    #[inline]
    fn note_uncontended(self) {
        if self.count != 1 {
            note_uncontended();
        }
    }
}

/// A locked shard, by its index.
#[derive(Debug)]
pub(crate) struct LockedShard<'a, D: Device> {
    pub(super) index: u32,
    pub(super) slot: &'a PoolSlot<D>,
    pub(super) guard: MutexGuard<'a, Option<PoolState<D>>>,
}

impl<'a, D: Device> LockedShard<'a, D> {
    /// Locks a shard.
    pub(crate) fn lock((index, slot): (u32, &'a PoolSlot<D>)) -> Self {
        Self { index, slot, guard: locked(&slot.state) }
    }

    /// Returns its index, and its slot.
    pub(crate) fn place(&self) -> (u32, &'a PoolSlot<D>) {
        (self.index, self.slot)
    }
}

impl<D: Device> Pools<D> {
    /// Returns the most shards of a custom pool. All but the first are made when a thread needs them.
    pub(super) fn shards_for(&self, desc: &PoolDesc) -> u32 {
        // Shards would divide a maximum of blocks among themselves: a thread could be refused while there is room in the
        // block of another. And in a linear pool they would mix up the order of the calls.
        let whole = desc.max_blocks != u32::MAX || desc.algorithm == Algorithm::Linear;
        if whole { 1 } else { self.shards_of_defaults.min(MOST_CUSTOM_SHARDS) }
    }

    /// Locks the thread's own shard of a pool; or, after too much contention, another one that fewer threads use, which
    /// becomes the thread's own.
    fn lock_shard(&self, shards: PoolShards) -> Result<LockedShard<'_, D>, AllocationError> {
        let index = shards.own();
        let slot = self.shard(shards, index)?;
        match try_locked(&slot.state) {
            Some(guard) => Ok(LockedShard { index, slot, guard }),
            None => self.lock_contended_shard(shards),
        }
    }

    /// Does what [`lock_shard`](Self::lock_shard) does, for a thread that has just found its shard locked.
    #[cold]
    fn lock_contended_shard(&self, shards: PoolShards) -> Result<LockedShard<'_, D>, AllocationError> {
        let index = shards.own();
        let slot = self.shard(shards, index)?;
        if let Some(guard) = slot.lock_behind_left_frees() {
            return Ok(LockedShard { index, slot, guard });
        }
        // Who contends again and again waits for as long as a hundred requests take each time, though seldom.
        let how = if contended_lately() { Contended::ForLong } else { Contended::Briefly };
        self.note_contended(shards, how);
        let index = shards.own();
        let slot = self.shard(shards, index)?;
        if let Some(guard) = spin_locked(&slot.state) {
            return Ok(LockedShard { index, slot, guard });
        }
        self.note_contended(shards, Contended::ForLong);
        // Perhaps another one by now.
        let index = shards.own();
        Ok(LockedShard::lock((index, self.shard(shards, index)?)))
    }

    /// Notes that the thread found its shard locked, and moves it where that happened too often.
    fn note_contended(&self, shards: PoolShards, how: Contended) {
        // Where there is one shard, there is no other to move to, and the thread stays where it is in the pools that have
        // several.
        if shards.count == 1 || !self.residents.note_contended(how) {
            return;
        }
        let may_open = self.may_open(shards);
        self.residents.move_to_better(shards.count, |shard| {
            let open = self.slots.get(shards.index(shard as u8)).is_some_and(PoolSlot::has_memory);
            // Of two equally good ones, the one whose blocks may have room.
            (open || may_open).then_some(u32::from(!open))
        });
    }

    /// Returns true if a pool has enough in its blocks for another shard, whose first block is about as large as the
    /// average one.
    ///
    /// Worked example: a pool has three blocks of 4 MiB in three shards, with 1 MiB of allocations in all. Four shards
    /// would have a 16th in their blocks on average, which is just enough, so a fourth is opened if threads contend for
    /// the three. To open a fifth, 1.25 MiB must be allocated. Reads counters without a lock, so the answer may be
    /// outdated.
    fn may_open(&self, shards: PoolShards) -> bool {
        let (mut open, mut of_pool) = (0, Statistics::default());
        for slot in shards.indices().filter_map(|pool| self.slots.get(pool)) {
            let statistics: Statistics = slot.counters.iter().map(Counters::load).sum();
            open += u64::from(statistics.block_bytes != 0);
            of_pool = of_pool + statistics;
        }
        let blocks = u64::from(of_pool.blocks) + u64::from(of_pool.dedicated);
        let average = of_pool.block_bytes.checked_div(blocks).unwrap_or(0);
        of_pool.allocation_bytes.saturating_mul(LEAST_FILL) >= average.saturating_mul(open + 1)
    }

    /// Returns the slot of a shard, one of `shards`. Makes the shard at the first call.
    pub(crate) fn shard(&self, shards: PoolShards, pool: u32) -> Result<&PoolSlot<D>, AllocationError> {
        const GONE: AllocationError = AllocationError::WrongPool { name: ShortName::NONE };
        if pool >= self.default_pool_count() {
            // The first shard is there as long as its pool.
            let slot = self.slots.get(pool).filter(|slot| pool == shards.first || slot.has_pool());
            return slot.or_else(|| self.make_custom_shard(shards, pool)).ok_or(GONE);
        }
        let slot = self.slots.get_or_make(pool).ok_or(GONE)?;
        // Forced, so that a panic of the device during the first call does not make the pool unusable.
        slot.made.call_once_force(|_| {
            if let Some(state) = self.new_default_pool(pool) {
                self.install(pool, state);
            }
            let place = pool % self.pools_per_shard();
            self.used_groups.fetch_or(1 << Served::by(place).1.movers, Relaxed);
            self.used_shards.fetch_max(pool / self.pools_per_shard() + 1, Release);
        });
        Ok(slot)
    }

    /// Iterates over the shards that have memory, the thread's own first.
    fn with_memory(&self, shards: PoolShards) -> impl Iterator<Item = (u32, &PoolSlot<D>)> {
        let default = shards.first < self.default_pool_count();
        let used = if default { self.used_shards.load(Relaxed) } else { shards.count };
        let slots = shards.own_first(used);
        slots.filter_map(|pool| Some((pool, self.slots.get(pool).filter(|slot| slot.has_memory())?)))
    }

    /// Returns true if shards of a pool but one have memory.
    pub(crate) fn others_have_memory(&self, shards: PoolShards, but: u32) -> bool {
        self.others_with_memory(shards, but).next().is_some()
    }

    /// Iterates over the shards but one that have memory.
    fn others_with_memory(&self, shards: PoolShards, but: u32) -> impl Iterator<Item = (u32, &PoolSlot<D>)> {
        self.with_memory(shards).filter(move |&(pool, _)| pool != but)
    }

    /// Does what the first search for the lowest offset, or for one of an alignment, has to do in blocks with very many ranges, piece
    /// by piece: other threads have the lock in between.
    fn prepare<'a>(
        &self,
        mut shard: LockedShard<'a, D>,
        set: usize,
        request: &AllocationRequest<'_>,
    ) -> Result<LockedShard<'a, D>, AllocationError> {
        let searches_by_size = request.options.strategy == FitStrategy::Balanced;
        if searches_by_size && request.requirements.alignment == Alignment::ONE {
            return Ok(shard);
        }
        for _ in 0..MOST_PIECES {
            let LockedShard { index, slot, mut guard } = shard;
            let state = guard.as_mut().ok_or(AllocationError::WrongPool { name: ShortName::NONE })?;
            let rounded = self.round_request(state, set, request)?;
            if state.sets[set].prepare(&rounded.request, rounded.usable) {
                return Ok(LockedShard { index, slot, guard });
            }
            drop(guard);
            slot.state.pass();
            shard = LockedShard { index, slot, guard: slot.state.lock_for_a_piece() };
        }
        // The rest in one piece: other threads may change so much between two of them that the index is dropped each time.
        Ok(shard)
    }

    /// Locks the thread's own shard of a pool for a request.
    pub(crate) fn lock_for(
        &self,
        shards: PoolShards,
        set: usize,
        request: &AllocationRequest<'_>,
    ) -> Result<LockedShard<'_, D>, AllocationError> {
        self.prepare(self.lock_shard(shards)?, set, request)
    }

    /// Places a request in the existing blocks of the first shard that has room. Returns its index as well.
    pub(crate) fn place_in_any(
        &self,
        shards: PoolShards,
        but: Option<u32>,
        set: usize,
        request: &AllocationRequest<'_>,
    ) -> Result<Option<(u32, Placed<D>)>, AllocationError> {
        let request = &AllocationRequest { without_quick_lists: true, ..*request };
        for shard in self.with_memory(shards).filter(|&(pool, _)| Some(pool) != but) {
            if let Some(placed) = self.place_in_shard(LockedShard::lock(shard), set, request)? {
                return Ok(Some((shard.0, placed)));
            }
        }
        Ok(None)
    }

    /// Places a request in an empty block of another shard, which is moved to this one, or in the blocks that were
    /// reserved there. Returns the index of the shard as well.
    pub(crate) fn place_in_lent_block(
        &self,
        shards: PoolShards,
        (pool, slot): (u32, &PoolSlot<D>),
        set: usize,
        request: &AllocationRequest<'_>,
    ) -> Result<Option<(u32, Placed<D>)>, AllocationError> {
        // By this shard's own next block size: the block is going to be one of its blocks.
        let (rounded, in_blocks) = {
            let guard = locked(&slot.state);
            let state = guard.as_ref().ok_or(AllocationError::WrongPool { name: ShortName::NONE })?;
            let rounded = self.round_request(state, set, request)?;
            (rounded, state.may_share_block(&rounded))
        };
        for (other, other_slot) in self.others_with_memory(shards, pool) {
            let mut guard = locked(&other_slot.state);
            let Some(state) = guard.as_mut() else { continue };
            let lent = state.lend(other_slot, set, &rounded, in_blocks);
            self.wake_maintenance_if_low(state);
            if let Some(lent) = lent {
                drop(guard);
                let placed = slot.insert_lent(set, lent, &rounded, request);
                return self.placed_or_freed(placed).map(|placed| Some((pool, placed)));
            }
            // A reservation is made in one shard, by one thread; the threads of the others have to find it.
            if state.holds_reserve() {
                let request = &AllocationRequest { without_quick_lists: true, ..*request };
                let shard = LockedShard { index: other, slot: other_slot, guard };
                if let Some(placed) = self.place_in_shard(shard, set, request)? {
                    return Ok(Some((other, placed)));
                }
            }
        }
        Ok(None)
    }

    /// Frees the memory that a pool did not take.
    pub(crate) fn placed_or_freed<T>(
        &self,
        placed: Result<T, (AllocationError, Option<OwnedMemory<D>>)>,
    ) -> Result<T, AllocationError> {
        placed.map_err(|(error, memory)| {
            memory.into_iter().for_each(|memory| self.heaps.free(&self.device, memory));
            error
        })
    }

    /// Wakes the maintenance thread if a shard has less room than its watermark.
    fn wake_maintenance_if_low(&self, state: &PoolState<D>) {
        if state.is_low() {
            self.request_maintenance();
        }
    }

    /// Replaces the room of one block set in a refusal by that of all that were searched, each by its shard.
    pub(crate) fn with_room_of(
        &self,
        searched: impl Iterator<Item = (u32, usize)>,
        refused: AllocationError,
    ) -> AllocationError {
        let rooms = || {
            let rooms = searched.filter_map(|(pool, set)| {
                let guard = locked(&self.slots.get(pool)?.state);
                guard.as_ref().map(|state| state.sets[set].free_and_largest())
            });
            rooms.fold((0, 0), |(free, largest), (f, l)| (free + f, l.max(largest)))
        };
        let name = ShortName::NONE;
        match refused {
            AllocationError::WouldGrow { requested, .. } => {
                let (free, largest_free) = rooms();
                AllocationError::WouldGrow { requested, free, largest_free, name }
            }
            AllocationError::PoolFull { requested, max_blocks, .. } => {
                let (free, largest_free) = rooms();
                AllocationError::PoolFull { requested, max_blocks, free, largest_free, name }
            }
            _ => refused,
        }
    }

    /// Places an [ordinary](AllocationRequest::is_ordinary) request in the thread's own shard: in a range that was freed a
    /// moment ago, or else in a shared block. `in_any_block` says that any of them may serve it.
    // Always: the second call of it is cold, and the first would have its arguments in memory.
    #[inline(always)]
    pub(crate) fn place_in_own_shard(
        &self,
        shards: PoolShards,
        (set, in_any_block): (usize, bool),
        request: &AllocationRequest<'_>,
    ) -> Option<QuickPlace> {
        let index = shards.own();
        let slot = self.slots.get(index)?;
        let LockedShard { index, slot, mut guard } = match try_locked(&slot.state) {
            Some(guard) => {
                shards.note_uncontended();
                LockedShard { index, slot, guard }
            }
            // A thread that meets others here often moves to another shard.
            None => self.lock_contended_shard(shards).ok()?,
        };
        let state = guard.as_mut()?;
        let rounded = state.rounded_size(set, request);
        if state.looks_for_left_frees(slot) {
            state.take_left_quickly(slot);
        }
        let mut in_use = state.place_quickly(slot, set, rounded, request);
        if in_use.is_none() && slot.has_left_frees() {
            if !state.take_left_quickly(slot) {
                // The caller takes them, and tries once more.
                return None;
            }
            in_use = state.place_quickly(slot, set, rounded, request);
        }
        let in_use = match in_use {
            Some(in_use) => in_use,
            // The slow path begins with this search, too; here the lock need not be taken again.
            None if in_any_block => {
                let in_use = state.place_in_shared(slot, set, rounded, request)?;
                self.wake_maintenance_if_low(state);
                in_use
            }
            None => return None,
        };
        debug_assert!(state.changed_priority.is_none(), "a block that changes its role is not left empty");
        Some(QuickPlace::new(index, in_use))
    }

    /// Places a request in the existing blocks of a shard.
    pub(crate) fn place_in_shard(
        &self,
        LockedShard { slot, mut guard, .. }: LockedShard<'_, D>,
        set: usize,
        request: &AllocationRequest<'_>,
    ) -> Result<Option<Placed<D>>, AllocationError> {
        let state = guard.as_mut().ok_or(AllocationError::WrongPool { name: ShortName::NONE })?;
        let rounded = self.round_request(state, set, request)?;
        let placed = state.place_in_existing(slot, set, &rounded, request)?;
        self.wake_maintenance_if_low(state);
        Ok(placed.map(|record| state.placed(slot, record)))
    }

    /// Replaces the room in a refusal by that of the default pools of all groups of movers.
    pub(crate) fn with_room_of_all_groups(
        &self,
        memory_type: MemoryTypeIndex,
        request: &AllocationRequest<'_>,
        refused: AllocationError,
    ) -> AllocationError {
        let own = self.default_pool_for(memory_type, request);
        let all = core::iter::once(own).chain(self.default_pools_of_others(memory_type, request));
        self.with_room_of(all.flat_map(PoolShards::indices).map(|pool| (pool, 0)), refused)
    }

    /// Returns the memory type where shards of a pool but one would lend an empty block for a request, or have room that they
    /// share: where they hold a reservation, or `all` says that no block can be allocated.
    pub(crate) fn would_place_in_others(
        &self,
        shards: PoolShards,
        (own, set): (u32, usize),
        all: bool,
        request: &AllocationRequest<'_>,
    ) -> Result<Option<MemoryTypeIndex>, AllocationError> {
        let (rounded, in_blocks, memory_type) = {
            let guard = locked(&self.shard(shards, own)?.state);
            let state = guard.as_ref().ok_or(AllocationError::WrongPool { name: ShortName::NONE })?;
            let rounded = self.round_request(state, set, request)?;
            (rounded, state.may_share_block(&rounded), state.sets[set].memory_type)
        };
        for (_, other) in self.others_with_memory(shards, own) {
            let mut guard = locked(&other.state);
            let Some(state) = guard.as_mut() else { continue };
            state.flush_quick_lists_and_say_so();
            let searched = all || state.holds_reserve();
            if state.lendable(set, &rounded, in_blocks).is_some()
                || (searched && state.would_place(set, &rounded))
            {
                return Ok(Some(memory_type));
            }
        }
        Ok(None)
    }

    /// Returns the memory type where [`place_in_any`](Self::place_in_any) would find room.
    pub(crate) fn would_place_in_any(
        &self,
        shards: PoolShards,
        set: usize,
        request: &AllocationRequest<'_>,
    ) -> Result<Option<MemoryTypeIndex>, AllocationError> {
        for (_, slot) in self.with_memory(shards) {
            let mut guard = locked(&slot.state);
            let Some(state) = guard.as_mut() else { continue };
            state.flush_quick_lists_and_say_so();
            let rounded = self.round_request(state, set, request)?;
            if state.would_place(set, &rounded) {
                return Ok(Some(state.sets[set].memory_type));
            }
        }
        Ok(None)
    }
}

/// Returns two block sets of all shards of a pool.
pub(crate) fn both_sets(pool: &Pool, sets: [usize; 2]) -> impl Iterator<Item = (u32, usize)> {
    pool.shards().indices().flat_map(move |shard| sets.map(|set| (shard, set)))
}

#[cfg(test)]
#[cfg(feature = "simulated")]
mod tests;
