//! Slots and tables that are taken before anybody can name them.

use core::mem;

use super::Shared;
use super::mirror::Spot;
use crate::descriptor::error::{DescriptorError, Region};
use crate::descriptor::slots::{DescriptorSlot, KeepAlive};
use crate::descriptor::statistics::DescriptorHeapStatistics;
use crate::device::{DescriptorDevice, ShaderVisibleHeapType};

/// A slot that was taken and whose handle nobody has yet. When this is dropped it goes back, and is cleared before where
/// it was written: the next heap is a copy of the mirror, and must not get a descriptor of what its owner destroys.
pub(super) struct Taken<'a, D: DescriptorDevice> {
    shared: &'a Shared<D>,
    index: u32,
    written: bool,
}

impl<D: DescriptorDevice> Taken<'_, D> {
    pub(super) fn write(&mut self, descriptor: &D::Descriptor<'_>) -> Result<(), DescriptorError> {
        self.written = true;
        self.shared.write(Spot::Slot(self.index), descriptor)
    }

    /// Makes its handle.
    pub(super) fn publish(self, keep: Option<KeepAlive>) -> DescriptorSlot {
        let taken = mem::ManuallyDrop::new(self);
        taken.shared.slots.publish(taken.index, keep)
    }
}

impl<D: DescriptorDevice> Drop for Taken<'_, D> {
    fn drop(&mut self) {
        if !self.written || self.shared.clear_after_failure(Spot::Slot(self.index), 1) {
            self.shared.slots.put_back(self.index);
        }
    }
}

impl<D: DescriptorDevice> Shared<D> {
    pub(super) fn take_slot(&self) -> Option<Taken<'_, D>> {
        self.slots.take().map(|index| Taken { shared: self, index, written: false })
    }

    /// As many slots as are wanted, or none.
    pub(super) fn take_slots(&self, count: u32) -> Option<Vec<Taken<'_, D>>> {
        // Looked at before, so that what others want is not taken for nothing.
        if count > self.slots.statistics().free {
            return None;
        }
        let taken: Vec<_> = core::iter::from_fn(|| self.take_slot()).take(count as usize).collect();
        (taken.len() == count as usize).then_some(taken)
    }

    /// Does something that writes a spot. Should the device panic meanwhile, the spot is cleared: whoever wrote it thinks
    pub(in crate::descriptor) fn take_table(&self, count: u32) -> Result<u32, DescriptorError> {
        if count == 0 {
            return Err(DescriptorError::Empty);
        }
        if let Some(entry) = self.try_take_table(count)? {
            return Ok(entry);
        }
        self.reclaim();
        if let Some(entry) = self.try_take_table(count)? {
            return Ok(entry);
        }
        self.tables.count_failure();
        let statistics = self.tables.statistics();
        if count > statistics.capacity {
            return Err(DescriptorError::NeverFits { requested: count, capacity: statistics.capacity });
        }
        Err(self.exhausted(self.heap_type, Region::Tables, count, &statistics))
    }

    fn try_take_table(&self, count: u32) -> Result<Option<u32>, DescriptorError> {
        let live = self.live()?;
        // The heap is not replaced between the look at its generation and the taking.
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
