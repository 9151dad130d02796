//! The state of a pool for a reader of the events: announced shard by shard, and with each shard that is new.

use super::events::PoolPlace;
use super::shards::{LockedShard, MOST_SHARDS, PoolShards};
use super::{PoolSlot, PoolState};
use crate::device::Device;
use crate::events::{Announcement, Event};
use crate::memory::ExpectedLifetime;
use crate::memory::pool::pools::Pools;
use crate::memory::pool::served::Served;
use crate::memory::token::Record;
use crate::sync::locked;

/// The allocations that are announced while other threads wait for the lock of their pool.
const AT_ONCE: u32 = 512;

impl<D: Device> Pools<D> {
    /// Announces the blocks of all shards. Returns the shards, each with the announcement that goes on.
    pub(crate) fn announce_blocks(&self, first: u32) -> Vec<(u32, Announcement)> {
        let Some(shards) = self.shards_from(first) else { return Vec::new() };
        // Before the locks, under which as little host memory as possible is allocated.
        let mut announced = Vec::with_capacity(shards.count as usize);
        let mut all = self.lock_shards(shards);
        // The same for all: where the log begins another one in between, the reader hears of none of them.
        let epoch = self.events.epoch();
        for LockedShard { index, guard, .. } in all.iter_mut().flatten() {
            let announcement = guard.as_mut().and_then(|state| self.announce_pool(*index, state, epoch));
            announced.extend(announcement.map(|announcement| (*index, announcement)));
        }
        drop(all);
        // Who found one of them taken stays away from it otherwise, perhaps for longer than this took.
        shards.indices().filter_map(|index| self.slots.get(index)).for_each(|slot| slot.state.pass());
        announced
    }

    /// Announces some allocations of a shard. Returns false when that was the last of them.
    pub(crate) fn announce_piece(&self, index: u32, announcement: &Announcement) -> bool {
        let Some(slot) = self.slots.get(index) else { return false };
        slot.state.look(|state| {
            state.as_mut().is_some_and(|state| state.announce_some(slot, announcement, AT_ONCE))
        })
    }

    /// Locks the shards of a pool that have a slot, in the order of their indices, as everywhere where more than one is
    /// locked.
    fn lock_shards(&self, shards: PoolShards) -> [Option<LockedShard<'_, D>>; MOST_SHARDS as usize] {
        loop {
            let mut indices = shards.indices();
            let all: [_; MOST_SHARDS as usize] = core::array::from_fn(|_| {
                let index = indices.next()?;
                let slot = self.slots.get(index)?;
                Some(LockedShard { index, slot, guard: locked(&slot.state) })
            });
            // One that another thread made meanwhile, below those that were locked already. Whoever installs it relies on
            // an announcement of all.
            let is_missed =
                |(index, one): (u32, &Option<_>)| one.is_none() && self.slots.get(index).is_some();
            if !shards.indices().zip(&all).any(is_missed) {
                return all;
            }
        }
    }

    /// Returns the shards of the pool whose shard 0 is in a slot; `None` where there is none.
    pub(crate) fn shards_from(&self, first: u32) -> Option<PoolShards> {
        if first < self.default_pool_count() {
            // Other shards may exist where shard 0 was never used.
            return (first < self.pools_per_shard()).then(|| self.shards_of_default(first));
        }
        let shards = |state: &PoolState<D>| (state.shard == 0).then_some(state.shards);
        self.slots.get(first)?.state.look(|state| state.as_ref().and_then(shards))
    }

    fn announce_pool(&self, index: u32, state: &mut PoolState<D>, epoch: u64) -> Option<Announcement> {
        let name = state.rules.name.clone().unwrap_or(self.default_pool_name(index));
        state.announce(self.place_of(index, state.shards), &name, epoch)
    }

    /// Returns where a pool is, and what it serves if it is a default one.
    fn place_of(&self, index: u32, PoolShards { first, stride, .. }: PoolShards) -> PoolPlace {
        let custom = index >= self.default_pool_count();
        let of_the_program = Served { lifetime: ExpectedLifetime::Long, optimal: false, movers: 0 };
        let served = if custom { of_the_program } else { Served::by(index % stride).1 };
        PoolPlace {
            index,
            first,
            custom,
            served: Served { optimal: served.optimal && self.separate_optimal, ..served },
            granularity: self.device.properties().limits.buffer_image_granularity,
        }
    }

    /// Puts a new shard of a pool into its slot, where requests find it.
    pub(super) fn install(&self, index: u32, mut new: PoolState<D>) {
        new.enter_slot(index);
        if let Some(slot) = self.slots.get(index) {
            let mut guard = locked(&slot.state);
            // Of two threads that make a shard of a custom pool, the first one.
            if guard.is_some() {
                return;
            }
            // Nobody reads. A reader who comes after this locks the slot after this, and hears of the pool then.
            if !self.events.is_read() {
                guard.insert(new).begin_active();
                slot.note_pool(true);
                return;
            }
        }
        // All of them: its allocations may soon be in blocks of the others. While the reader has yet to hear of those, as after
        // events were lost, it is announced with them.
        let mut all = self.lock_shards(new.shards);
        let epoch = self.events.epoch();
        let others_are_known = all
            .iter()
            .flatten()
            .filter_map(|shard| shard.guard.as_ref())
            .all(|state| state.is_announced_in(epoch));
        let Some(shard) = all.iter_mut().flatten().find(|shard| shard.index == index) else { return };
        // Another thread came first, since the lock was released.
        if shard.guard.is_some() {
            return;
        }
        let state = shard.guard.insert(new);
        state.begin_active();
        shard.slot.note_pool(true);
        // Under the lock: whether the reader came before or comes next, it hears of the pool once.
        if others_are_known {
            // A pool that is new has no allocations.
            _ = self.announce_pool(index, state, epoch);
        }
    }
}

impl<D: Device> PoolSlot<D> {
    /// Writes how often an allocation is mapped, unless it is freed already.
    #[cold]
    pub(crate) fn emit_maps(&self, record: u32, generation: u32) {
        let mut guard = locked(&self.state);
        // After a reset of the pool the record may belong to another allocation.
        let state = guard.as_mut().filter(|_| self.has_generation(record, generation));
        if let Some(state) = state {
            // Read under the lock: the last event is the last count, whichever thread came first.
            let count = self.records.get(record).map_or(0, Record::maps);
            state.events.of_allocation(record, |allocation| Event::Mapped { allocation, count });
        }
    }

    /// Writes that the owner of an allocation released it, unless it is freed already.
    #[cold]
    pub(crate) fn emit_free_requested(&self, record: u32, generation: u32) {
        let mut guard = locked(&self.state);
        let state = guard.as_mut().filter(|_| self.has_generation(record, generation));
        if let Some(state) = state {
            state.events.of_allocation(record, |allocation| Event::FreeRequested { allocation });
        }
    }
}
