//! Allocation of slots and tables, and the errors when there are none.

use core::mem;

use super::Shared;
use super::mirror::WriteTarget;
use crate::descriptor::error::{DescriptorError, Region};
use crate::descriptor::slots::{DescriptorSlot, KeepAlive};
use crate::descriptor::statistics::DescriptorHeapStatistics;
use crate::device::{DescriptorDevice, ShaderVisibleHeapType};

/// A slot that was taken, and whose handle no one was given yet. Dropping it returns the slot, and clears it first if
/// it was written: the next heap is a copy of the mirror, and must not contain a descriptor of a resource that its
/// owner may destroy.
pub(super) struct UnpublishedSlot<'a, D: DescriptorDevice> {
    shared: &'a Shared<D>,
    slot: DescriptorSlot,
    written: bool,
}

impl<D: DescriptorDevice> UnpublishedSlot<'_, D> {
    pub(super) fn write(&mut self, descriptor: &D::Descriptor<'_>) -> Result<(), DescriptorError> {
        // Set before the write: a write that fails half way leaves something to clear.
        self.written = true;
        self.shared.write_unguarded(WriteTarget::Slot(self.slot.index()), descriptor)
    }

    /// Returns the handle of the slot.
    pub(super) fn publish(self) -> DescriptorSlot {
        mem::ManuallyDrop::new(self).slot
    }

    /// Returns the handle of a slot that was taken without an object to keep alive.
    pub(super) fn publish_with(self, keep: Option<KeepAlive>) -> DescriptorSlot {
        if let Some(keep) = keep {
            self.shared.slots.keep(self.slot, keep);
        }
        self.publish()
    }
}

impl<D: DescriptorDevice> Drop for UnpublishedSlot<'_, D> {
    #[cold]
    fn drop(&mut self) {
        // A slot that cannot be cleared is never returned, so no shader is given its index.
        if !self.written || self.shared.clear_after_failure(WriteTarget::Slot(self.slot.index()), 1) {
            drop(self.shared.slots.put_back(self.slot));
        }
    }
}

impl<D: DescriptorDevice> Shared<D> {
    /// Writes a descriptor that keeps `keep` alive into a new slot.
    #[inline]
    pub(super) fn insert(
        &self,
        descriptor: &D::Descriptor<'_>,
        keep: Option<KeepAlive>,
    ) -> Result<DescriptorSlot, DescriptorError> {
        let slot = match self.slots.take(keep) {
            Ok(slot) => slot,
            Err(keep) => self.reclaim_and_take(keep)?,
        };
        let unpublished = UnpublishedSlot { shared: self, slot, written: true };
        self.write_unguarded(WriteTarget::Slot(slot.index()), descriptor)?;
        mem::forget(unpublished);
        Ok(slot)
    }

    /// Takes a slot for a descriptor that keeps `keep` alive.
    pub(super) fn take_slot_or_reclaim(
        &self,
        keep: Option<KeepAlive>,
    ) -> Result<UnpublishedSlot<'_, D>, DescriptorError> {
        let slot = self.slots.take(keep).or_else(|keep| self.reclaim_and_take(keep))?;
        Ok(UnpublishedSlot { shared: self, slot, written: false })
    }

    /// Takes a slot that comes back now.
    // Reclaiming asks the queues for their state, so it is done only when no slot is free.
    #[cold]
    fn reclaim_and_take(&self, keep: Option<KeepAlive>) -> Result<DescriptorSlot, DescriptorError> {
        self.reclaim();
        self.slots.take(keep).map_err(|_| self.no_slots(1))
    }

    /// Takes `count` slots, or none.
    pub(super) fn take_slots(&self, count: u32) -> Option<Vec<UnpublishedSlot<'_, D>>> {
        let taken = self.slots.take_all(count)?;
        Some(taken.into_iter().map(|slot| UnpublishedSlot { shared: self, slot, written: false }).collect())
    }

    /// Takes a table, by its entry. Reclaims once if no range is free.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::Empty`], [`DescriptorError::NeverFits`], [`DescriptorError::Exhausted`],
    /// [`DescriptorError::HeapGone`].
    pub(in crate::descriptor) fn take_table(&self, count: u32) -> Result<u32, DescriptorError> {
        if count == 0 {
            return Err(DescriptorError::Empty);
        }
        if let Some(entry) = self.try_take_table(count)? {
            return Ok(entry);
        }
        // Only now: reclaiming asks the device for the state of its queues, which a request that finds a range
        // need not pay for.
        self.reclaim();
        if let Some(entry) = self.try_take_table(count)? {
            return Ok(entry);
        }
        self.tables.count_failure();
        let statistics = self.tables.statistics();
        // After the attempt and not before: a region may have grown meanwhile.
        if count > statistics.capacity {
            return Err(DescriptorError::NeverFits { requested: count, capacity: statistics.capacity });
        }
        Err(self.exhausted(self.heap_type, Region::Tables, count, &statistics))
    }

    /// Takes a table, by its entry, if there is room now.
    pub(super) fn try_take_table(&self, count: u32) -> Result<Option<u32>, DescriptorError> {
        let live = self.live()?;
        // The guard keeps the heap from being replaced between the read of its generation and the allocation.
        Ok(live.as_ref().and_then(|live| self.tables.take(count, live.current.number)))
    }

    pub(super) fn no_slots(&self, requested: u32) -> DescriptorError {
        self.slots.count_failure();
        let statistics = self.slots.statistics();
        if requested > statistics.capacity {
            return DescriptorError::NeverFits { requested, capacity: statistics.capacity };
        }
        self.exhausted(self.heap_type, Region::Slots, requested, &statistics)
    }

    pub(in crate::descriptor) fn exhausted(
        &self,
        heap_type: ShaderVisibleHeapType,
        region: Region,
        requested: u32,
        statistics: &DescriptorHeapStatistics,
    ) -> DescriptorError {
        let DescriptorHeapStatistics { free, largest_free: largest, retiring, .. } = *statistics;
        // Asking for the event costs a look at the queue of releases, and there is none if nothing is pending.
        let wait = if retiring > 0 { self.retired.wait_for() } else { None };
        DescriptorError::Exhausted {
            heap_type: heap_type.into(),
            region,
            requested,
            free,
            largest,
            retiring,
            wait,
        }
    }
}
