//! Events of an allocator, from its pools to a reader.

use core::time::Duration;

use crate::device::{Device, MemoryHeapIndex};
use crate::events::{
    AlreadySubscribed, Event, EventSubscription, RefusalReason, StallKind, SubscriptionDesc,
};
use crate::memory::AllocationError;
use crate::memory::allocator::Allocator;
use crate::memory::pool::refused_request;
use crate::memory::request::AllocationRequest;
use crate::memory::time::Moment;
use crate::memory::token::{Allocation, AllocationId};
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
    /// events too, then each change. The state of a pool is written under its lock, some hundred allocations at a time: other
    /// threads wait for less than 200 µs. What they change meanwhile follows, or is announced as it is then. Waits for no
    /// driver: the tables of a descriptor heap that another thread replaces at this moment follow with the next
    /// [`end_frame`](Self::end_frame) or [`maintain`](Self::maintain).
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
    #[inline(never)]
    #[doc(alias("VmaDeviceMemoryCallbacks", "log_allocations", "log_frees"))]
    pub fn subscribe(&self, desc: &SubscriptionDesc) -> Result<EventSubscription, AlreadySubscribed> {
        self.take_left_frees();
        let subscription = EventSubscription::new(self.events(), desc)?;
        self.announce_if_asked();
        Ok(subscription)
    }

    /// Announces the state of all pools, if a reader has just begun to read or has lost events.
    #[inline]
    pub(super) fn announce_if_asked(&self) {
        if self.events().takes_state() {
            self.announce();
        }
    }

    #[cold]
    fn announce(&self) {
        // Else this thread could announce what is placed in memory that another one is about to announce.
        let announcing = locked(&self.announcing);
        let epoch = self.events().epoch();
        for heap in 0..self.device().properties().heaps.len() {
            // A device has at most 16 heaps.
            self.heaps().emit_budget(MemoryHeapIndex(heap as u8));
        }
        // Not by the slots that exist: a default pool may have a shard 1 and no shard 0.
        for index in 0..self.pools.slot_count() {
            self.announce_shards(index);
        }
        self.placed.announce(epoch);
        drop(announcing);
        if !self.events().parts().announce() {
            self.events().ask_for_state(epoch);
        }
    }

    /// Announces all shards of the pool whose shard 0 is in a slot: first the blocks of all, at once, since an allocation of
    /// one may be in a block of another; then the allocations, some at a time.
    fn announce_shards(&self, first: u32) {
        for (index, announcement) in self.pools.announce_blocks(first) {
            while self.pools.announce_piece(index, &announcement) {}
        }
    }

    /// Writes that a request was refused and what it asked for, if there is a reader.
    #[cold]
    pub(super) fn emit_refused(&self, error: &AllocationError, request: &AllocationRequest<'_>) {
        if !self.events().is_read() {
            return;
        }
        let (reason, available, largest_free) = reason_of(error);
        let requested = request.requirements.size;
        let name = request.options.name.as_ref();
        self.events().push_always(|texts| Event::Refused {
            reason,
            requested,
            available,
            largest_free,
            name: texts.add_text(name),
        });
        self.events().push_always(|_| Event::RefusedRequest(refused_request(request)));
    }

    /// Writes that a frame ended, and announces the state of all pools to a reader that lost events.
    #[inline]
    pub(super) fn emit_frame_end(&self, passed: Option<Moment>) {
        if self.events().is_read() {
            if let Some(now) = passed {
                self.events().push_always(|_| Event::TimePassed { sixtieths: now.tick });
            }
            self.events().end_frame();
            self.announce_if_asked();
        }
    }

    /// Writes that a thread waited, if there is a reader.
    pub(super) fn emit_stall(&self, waited: Duration) {
        if self.events().is_read() {
            let nanoseconds = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
            self.events().push_always(|_| Event::Stalled { kind: StallKind::DriverCall, nanoseconds });
        }
    }

    /// Writes how often an allocation is mapped, after a change.
    pub(super) fn emit_maps(&self, allocation: &Allocation) {
        if self.events().is_read() {
            if let Ok((slot, _)) = self.slot_and_record(allocation) {
                slot.emit_maps(allocation.record, allocation.generation);
            }
        }
    }

    /// Notes that the owner of an allocation released it, which is freed once the GPU has finished with it. The caller has its
    /// handle alone.
    pub(in crate::memory) fn note_released(&self, id: AllocationId) {
        let Ok(slot) = self.slot_of(id) else { return };
        let record = slot.records.get(id.record).filter(|record| record.generation() == id.generation);
        let Some(record) = record else { return };
        // For a reader that begins to read before the free. A pool that may be reset ends allocations without their handles.
        if id.pool < self.pools.default_pool_count() {
            record.note_released_by_handle();
        } else {
            record.note_released();
        }
        if self.events().is_read() {
            slot.emit_free_requested(id.record, id.generation);
        }
    }
}

#[cfg(test)]
#[cfg(feature = "simulated")]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::device::simulated::{Profile, SimulatedGpu};
    use crate::events::{AllocationKey, EventBatch};
    use crate::{AllocatorDesc, MemoryUsage, Requirements};

    #[test]
    fn what_changes_while_the_state_is_announced_is_told_once_and_in_order() {
        let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
        let allocator = Allocator::new(device, AllocatorDesc::default()).unwrap();
        let allocate =
            |size| allocator.allocate(&Requirements::new(size), &MemoryUsage::GpuOnly.into()).unwrap();
        let mut held: Vec<_> = (0..5000).map(|at| allocate(256 + at % 7 * 256)).collect();
        let mut subscription =
            EventSubscription::new(allocator.events(), &SubscriptionDesc::default()).unwrap();
        assert!(allocator.events().takes_state());
        let first = (0..allocator.pools.slot_count()).find_map(|first| {
            let announced = allocator.pools.announce_blocks(first);
            (!announced.is_empty()).then_some(announced)
        });
        let (mut step, mut pieces) = (1_usize, 0);
        for (index, announcement) in first.unwrap() {
            loop {
                // Of what was announced, of what was not, and of what came since.
                for _ in 0..200 {
                    step = step.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    match (step >> 60) % 3 {
                        0 => held.push(allocate(256 + (step >> 40 & 7) as u64 * 256)),
                        1 => allocator.free(held.swap_remove((step >> 33) % held.len())).unwrap(),
                        _ => {
                            let named = &held[(step >> 33) % held.len()];
                            allocator.set_user_data(named, (step >> 50) as u64).unwrap();
                        }
                    }
                }
                pieces += 1;
                if !allocator.pools.announce_piece(index, &announcement) {
                    break;
                }
            }
        }
        assert!(pieces > 5);
        let mut batch = EventBatch::new();
        subscription.read(&mut batch);
        let mut live: HashMap<AllocationKey, (u64, u64)> = HashMap::new();
        for event in batch.events() {
            match event {
                Event::Allocated(it) => {
                    let twice = live.insert(it.allocation, (it.offset, it.user_data));
                    assert!(twice.is_none(), "an allocation is told once");
                }
                Event::Labelled { allocation, user_data, .. } => {
                    live.get_mut(allocation).expect("a label is one of an allocation that was told").1 =
                        *user_data;
                }
                Event::Freed { allocation } => {
                    assert!(live.remove(allocation).is_some(), "what was told is freed");
                }
                _ => {}
            }
        }
        assert_eq!(live.len(), held.len());
        for allocation in &held {
            let info = allocator.info(allocation).unwrap();
            assert_eq!(live.get(&allocation.id().key()), Some(&(info.offset, info.user_data)));
        }
        drop(allocator.free_many(held));
    }
}
