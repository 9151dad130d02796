//! Events of an allocator, from its pools to a reader.

use core::sync::atomic::Ordering;
use core::time::Duration;

use crate::device::{Device, MemoryHeapIndex};
use crate::events::{
    AlreadySubscribed, Announcement, Event, EventSubscription, RefusalReason, StallKind, SubscriptionDesc,
};
use crate::memory::allocator::{Allocation, Allocator, Served};
use crate::memory::pool::events::{PoolPlace, refused_request};
use crate::memory::pool::shards::{LockedShard, MOST_SHARDS, PoolShards};
use crate::memory::pool::time::Moment;
use crate::memory::pool::{PoolSlot, PoolState};
use crate::memory::request::desc::AllocationRequest;
use crate::memory::token::record::Record;
use crate::memory::{AllocationError, Lifetime};
use crate::sync::locked;

/// Returns why a request was refused, the bytes that there were, and the largest free range.
fn reason_of(error: &AllocationError) -> (RefusalReason, u64, u64) {
    match *error {
        AllocationError::OverBudget { usage, budget, .. } => {
            (RefusalReason::OverBudget, budget.saturating_sub(usage), 0)
        }
        AllocationError::HeapLimit { reserved, limit, .. } => {
            (RefusalReason::HeapLimit, limit.saturating_sub(reserved), 0)
        }
        AllocationError::OutOfMemory { .. } => (RefusalReason::OutOfMemory, 0, 0),
        AllocationError::WouldGrow { free, largest_free, .. } => {
            (RefusalReason::WouldGrow, free, largest_free)
        }
        AllocationError::PoolFull { free, largest_free, .. } => (RefusalReason::PoolFull, free, largest_free),
        AllocationError::TooManyAllocations { .. } => (RefusalReason::TooManyBlocks, 0, 0),
        AllocationError::NoMemoryType { .. }
        | AllocationError::NoTypeWithProperties { .. }
        | AllocationError::NotInPool { .. } => (RefusalReason::NoMemoryType, 0, 0),
        _ => (RefusalReason::Other, 0, 0),
    }
}

impl<D: Device> Allocator<D> {
    /// Attaches a reader to the events of the allocator and of the descriptor heaps over it: first the whole state, as
    /// events too, then each change. The state of a pool is written under its lock, about 20 ns an allocation, and changes
    /// of it follow without a gap.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// use allotment::events::{Event, EventBatch, SubscriptionDesc};
    ///
    /// let mut events = allocator.subscribe(&SubscriptionDesc::default())?;
    /// let mesh = allocator.allocate(&Requirements::new(1000), &MemoryUsage::GpuOnly.into())?;
    /// let mut batch = EventBatch::new();
    /// events.read(&mut batch);
    /// assert!(batch.events().iter().any(|event| matches!(event, Event::Allocated(it) if it.requested == 1000)));
    /// # allocator.free(mesh)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`AlreadySubscribed`] while another subscription of this allocator lives.
    #[doc(alias("VmaDeviceMemoryCallbacks", "log_allocations", "log_frees"))]
    pub fn subscribe(&self, desc: &SubscriptionDesc) -> Result<EventSubscription, AlreadySubscribed> {
        let subscription = EventSubscription::new(&self.events, desc)?;
        self.announce_if_asked();
        Ok(subscription)
    }

    /// Announces the state of all pools, if a reader has just begun to read or has lost events.
    #[inline]
    pub(in crate::memory) fn announce_if_asked(&self) {
        if self.events.takes_state() {
            self.announce();
        }
    }

    #[cold]
    fn announce(&self) {
        for heap in 0..self.device.properties().heaps.len() {
            // A device has at most 16 heaps.
            self.heaps.emit_budget(MemoryHeapIndex(heap as u8));
        }
        // Not by the slots that exist: a default pool may have a shard 1 and no shard 0.
        for index in 0..self.slot_count.load(Ordering::Acquire) {
            self.announce_shards(index);
        }
        self.events.parts().announce();
    }

    /// Announces all shards of the pool whose shard 0 is in a slot, at once: an allocation of one may be in a block of
    /// another.
    fn announce_shards(&self, first: u32) {
        let Some(shards) = self.shards_from(first) else { return };
        let mut all = self.lock_shards(shards);
        // The same for all: where the log begins another one in between, the reader hears of none of them.
        let epoch = self.events.epoch();
        let mut announcements = [const { None }; MOST_SHARDS as usize];
        for (locked, announcement) in all.iter_mut().zip(&mut announcements) {
            let Some((index, _, guard)) = locked else { continue };
            *announcement = guard.as_mut().and_then(|state| self.announce_pool(*index, state, epoch));
        }
        for (locked, announcement) in all.iter().zip(&announcements) {
            if let (Some((_, slot, guard)), Some(announcement)) = (locked, announcement) {
                guard.iter().for_each(|state| state.announce_allocations(slot, announcement));
            }
        }
    }

    /// Locks the shards of a pool that have a slot, in the order of their indices, as everywhere where more than one is
    /// locked.
    fn lock_shards(&self, shards: PoolShards) -> [Option<LockedShard<'_, D>>; MOST_SHARDS as usize] {
        loop {
            let mut indices = shards.indices();
            let all: [_; MOST_SHARDS as usize] = core::array::from_fn(|_| {
                let index = indices.next()?;
                let slot = self.pools.get(index)?;
                Some((index, slot, locked(&slot.state)))
            });
            // One that another thread made meanwhile, below those that were locked already. Whoever installs it relies on
            // an announcement of all.
            let is_missed =
                |(index, one): (u32, &Option<_>)| one.is_none() && self.pools.get(index).is_some();
            if !shards.indices().zip(&all).any(is_missed) {
                return all;
            }
        }
    }

    /// Returns the shards of the pool whose shard 0 is in a slot; `None` where there is none.
    pub(in crate::memory) fn shards_from(&self, first: u32) -> Option<PoolShards> {
        if first < self.default_pool_count() {
            let (stride, count) = (self.pools_per_shard(), self.shards);
            // Other shards may exist where shard 0 was never used.
            return (first < stride).then_some(PoolShards { first, stride, count });
        }
        let guard = locked(&self.pools.get(first)?.state);
        let state = guard.as_ref()?;
        (state.shard == 0).then_some(state.shards)
    }

    fn announce_pool(&self, index: u32, state: &mut PoolState<D>, epoch: u64) -> Option<Announcement> {
        let name = state.rules.name.clone().unwrap_or(self.default_pool_name(index));
        state.announce(self.place_of(index, state.shard), &name, epoch)
    }

    /// Returns where a pool is, and what it serves if it is a default one.
    fn place_of(&self, index: u32, shard: u32) -> PoolPlace {
        let custom = index >= self.default_pool_count();
        let stride = if custom { 1 } else { self.pools_per_shard() };
        let of_the_program = Served { lifetime: Lifetime::Long, optimal: false, movable: false };
        let served = if custom { of_the_program } else { Served::by(index % stride).1 };
        PoolPlace {
            index,
            first: index - shard * stride,
            custom,
            served: Served { optimal: served.optimal && self.separate_optimal, ..served },
            granularity: self.device.properties().limits.buffer_image_granularity,
        }
    }

    /// Puts a new shard of a pool into its slot, where requests find it.
    pub(in crate::memory) fn install(&self, index: u32, mut new: PoolState<D>) {
        new.enter_slot(index);
        if let Some(slot) = self.pools.get(index) {
            let mut guard = locked(&slot.state);
            // Nobody reads. A reader who comes after this locks the slot after this, and hears of the pool then.
            if !self.events.is_read() {
                guard.insert(new).begin_active();
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
            .filter_map(|(_, _, guard)| guard.as_ref())
            .all(|state| state.is_announced_in(epoch));
        let Some((_, _, guard)) = all.iter_mut().flatten().find(|(at, ..)| *at == index) else { return };
        let state = guard.insert(new);
        state.begin_active();
        // Under the lock: whether the reader came before or comes next, it hears of the pool once.
        if others_are_known {
            // A pool that is new has no allocations.
            _ = self.announce_pool(index, state, epoch);
        }
    }

    /// Writes that a request was refused and what it asked for, if there is a reader.
    #[cold]
    pub(in crate::memory) fn emit_refused(&self, error: &AllocationError, request: &AllocationRequest<'_>) {
        if !self.events.is_read() {
            return;
        }
        let (reason, available, largest_free) = reason_of(error);
        let requested = request.requirements.size;
        let name = request.options.name.as_ref();
        self.events.push_always(|texts| Event::Refused {
            reason,
            requested,
            available,
            largest_free,
            name: texts.add_text(name),
        });
        self.events.push_always(|_| Event::RefusedRequest(refused_request(request)));
    }

    /// Writes that a frame ended, and announces the state of all pools to a reader that lost events.
    #[inline]
    pub(in crate::memory) fn emit_frame_end(&self, passed: Option<Moment>) {
        if self.events.is_read() {
            if let Some(now) = passed {
                self.events.push_always(|_| Event::TimePassed { sixtieths: now.tick });
            }
            self.events.end_frame();
            self.announce_if_asked();
        }
    }

    /// Writes that a thread waited, if there is a reader.
    pub(in crate::memory) fn emit_stall(&self, waited: Duration) {
        if self.events.is_read() {
            let nanoseconds = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
            self.events.push_always(|_| Event::Stalled { kind: StallKind::DriverCall, nanoseconds });
        }
    }

    /// Writes how often an allocation is mapped, after a change.
    pub(in crate::memory) fn emit_maps(&self, allocation: &Allocation) {
        self.emit_of_allocation(allocation, |state, slot| {
            // Read under the lock: the last event is the last count, whichever thread came first.
            let count = slot.records.get(allocation.record).map_or(0, Record::maps);
            state.events.of_allocation(allocation.record, |allocation| Event::Mapped { allocation, count });
        });
    }

    /// Notes that the owner of an allocation released it, which is freed once the GPU has finished with it.
    pub(in crate::memory) fn note_released(&self, allocation: &Allocation) {
        let Ok((_, record)) = self.slot_and_record(allocation) else { return };
        // For a reader that begins to read before the free.
        record.note_released();
        self.emit_of_allocation(allocation, |state, _| {
            state.events.of_allocation(allocation.record, |allocation| Event::FreeRequested { allocation });
        });
    }

    /// Writes an event about an allocation that was made without its pool's lock, unless the allocation is freed
    /// already. One branch without a reader.
    #[inline]
    pub(in crate::memory) fn emit_of_allocation(
        &self,
        allocation: &Allocation,
        emit: impl FnOnce(&mut PoolState<D>, &PoolSlot<D>),
    ) {
        if self.events.is_read() {
            self.write_of_allocation(allocation, emit);
        }
    }

    #[cold]
    fn write_of_allocation(
        &self,
        allocation: &Allocation,
        emit: impl FnOnce(&mut PoolState<D>, &PoolSlot<D>),
    ) {
        let Ok((slot, record)) = self.slot_and_record(allocation) else { return };
        let mut guard = locked(&slot.state);
        // After a reset of the pool the record may belong to another allocation.
        if record.generation() == allocation.generation {
            if let Some(state) = guard.as_mut() {
                emit(state, slot);
            }
        }
    }
}
