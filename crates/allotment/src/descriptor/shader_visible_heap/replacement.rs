//! Replacement of the device's heap: growth and compaction.
//!
//! The new heap and its mirror are created without a lock. Then, under the lock that all writers share, the
//! tables are packed side by side, slots and tables are copied from the old mirror to the new one, and from
//! there to the new heap. The old heap is retired; recordings that began with it keep it until they complete.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::Arc;

use super::mirror::{copy_all, new_mirror};
use super::retirement::{Kept, Retired};
use super::{Live, Shared};
use crate::descriptor::device_heap::DeviceHeap;
use crate::descriptor::error::DescriptorError;
use crate::descriptor::generation::Generation;
use crate::descriptor::heap_desc::ShaderVisibleHeapDesc;
use crate::descriptor::heap_regions::Regions;
use crate::device::DescriptorDevice;
use crate::log::event;

impl<D: DescriptorDevice> Shared<D> {
    /// Returns whether recordings that begin now use this generation.
    pub(in crate::descriptor) fn is_current(&self, generation: &Generation<D>) -> bool {
        self.read().as_ref().is_some_and(|live| live.current.number == generation.number)
    }

    /// Returns whether the heap can be replaced: the previous one is gone.
    pub(super) fn can_be_replaced(&self) -> bool {
        self.read().as_ref().is_none_or(|live| live.previous.strong_count() == 0)
    }

    /// Creates another heap of the device and copies all descriptors to it.
    pub(super) fn replace_heap(
        self: &Arc<Self>,
        change: impl FnOnce(ShaderVisibleHeapDesc) -> Result<ShaderVisibleHeapDesc, DescriptorError>,
    ) -> Result<(), DescriptorError> {
        // Recordings that have completed release the previous heap, which has to be gone.
        self.reclaim();
        let next = self.create_next(change)?;
        self.replace_by(next, |_| Ok(()))
    }

    /// Creates another heap of the device, which can [replace](Self::replace_by) the present one.
    pub(super) fn create_next(
        self: &Arc<Self>,
        change: impl FnOnce(ShaderVisibleHeapDesc) -> Result<ShaderVisibleHeapDesc, DescriptorError>,
    ) -> Result<NextHeap<D>, DescriptorError> {
        // A second thread gets an error instead of waiting: after the first one's replacement, its own description
        // would be outdated.
        if self.replacing.swap(true, Acquire) {
            return Err(DescriptorError::StillReplacing { wait: None });
        }
        let one_at_a_time = OneAtATime(Arc::clone(self));
        let (desc, number) = {
            let guard = self.live()?;
            let live = guard.as_ref().ok_or(DescriptorError::HeapGone)?;
            // Two heaps at most: a table stores two locations, and a write goes to both heaps.
            if live.previous.strong_count() > 0 {
                // The queue may tell a subscriber that the device is lost, who may call the heap.
                drop(guard);
                return Err(DescriptorError::StillReplacing { wait: self.retired.wait_for() });
            }
            // Asked again when the heap is replaced; here it keeps a step from moving what could not be followed.
            if self.poisoned.load(Relaxed) {
                return Err(DescriptorError::Poisoned);
            }
            let number = live.current.number.checked_add(1).ok_or(DescriptorError::TooManyReplacements)?;
            (change(live.desc)?, number)
        };
        let regions = Regions::new(&desc, &self.limits)?;
        // Without a lock that writers wait for: creating a heap takes a driver call.
        let new = Generation::new(&self.allocator, desc.heap_type, number, regions)?;
        let mirror = new_mirror(&self.allocator, &new)?;
        Ok(NextHeap { new, mirror, desc, _one_at_a_time: one_at_a_time })
    }

    /// Copies all descriptors to the next heap, and makes it the present one. `write` may write slots of its mirror
    /// before it is copied: those descriptors are seen by recordings that begin from now on, and by no others.
    pub(super) fn replace_by(
        &self,
        next: NextHeap<D>,
        write: impl FnOnce(&DeviceHeap<D>) -> Result<(), DescriptorError>,
    ) -> Result<(), DescriptorError> {
        let NextHeap { new, mirror, desc, _one_at_a_time } = next;
        let number = new.number;
        let mut guard = self.live.exclusive();
        let live = guard.get().ok_or(DescriptorError::HeapGone)?;
        // Threads that clear descriptors hold the lock for reading, so the flag does not change after this
        // read.
        if self.poisoned.load(Relaxed) {
            return Err(DescriptorError::Poisoned);
        }
        let mut tables = self.tables.lock();
        let packed = tables.pack(&self.tables, &new.regions)?;
        let slots = (0, 0, live.desc.slots);
        let moved = packed.moves.iter().map(|table| (table.from, table.to, table.count));
        for (from, to, count) in core::iter::once(slots).chain(moved).filter(|&(_, _, count)| count > 0) {
            // SAFETY: all of both mirrors is written, and no other thread writes them while the lock is held;
            // no other code has access to the new one.
            unsafe { mirror.copy_from(&live.mirror, from, to, count) }?;
        }
        write(&mirror)?;
        copy_all(&mirror, &new)?;
        self.tables.move_to(&mut tables, packed, number, new.chunks());
        drop(tables);
        self.slots.move_to(new.chunks(), desc.slots);
        new.inherit(&live.current);
        let previous = Arc::downgrade(&live.current);
        let old = guard.replace(Some(Live { desc, current: Arc::new(new), previous, mirror }));
        drop(guard);
        if let Some(Live { current, mirror, .. }) = old {
            self.retired.retire(Retired::Kept(Kept::Generation { _it: current }));
            drop(mirror);
        }
        event!(DEBUG, "descriptor", generation = number, "replaced a descriptor heap");
        Ok(())
    }
}

/// A heap of the device that was created to replace the present one. No other replacement begins as long as this exists.
pub(super) struct NextHeap<D: DescriptorDevice> {
    new: Generation<D>,
    mirror: DeviceHeap<D>,
    desc: ShaderVisibleHeapDesc,
    _one_at_a_time: OneAtATime<D>,
}

/// Lets other replacements begin when it is dropped.
struct OneAtATime<D: DescriptorDevice>(Arc<Shared<D>>);

impl<D: DescriptorDevice> Drop for OneAtATime<D> {
    fn drop(&mut self) {
        self.0.replacing.store(false, Release);
    }
}

#[cfg(all(test, feature = "simulated"))]
mod tests {
    use super::*;
    use crate::AllocatorDesc;
    use crate::descriptor::ShaderVisibleHeap;
    use crate::device::simulated::{Profile, SimulatedGpu};
    use crate::lifetime::SubmissionTracker;
    use crate::memory::Allocator;

    #[test]
    fn a_heap_whose_replacements_can_be_counted_no_more_is_not_replaced() {
        let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
        let tracker = SubmissionTracker::new(device.clone()).unwrap();
        let allocator = Arc::new(Allocator::new(device, AllocatorDesc::default()).unwrap());
        let desc = ShaderVisibleHeapDesc::resources().with_regions(4, 16, 16).with_chunk(4);
        let heap = ShaderVisibleHeap::new(&allocator, &tracker, desc).unwrap();
        let mut exclusive = heap.shared.live.exclusive();
        let mut live = exclusive.replace(None).unwrap();
        Arc::get_mut(&mut live.current).unwrap().number = u32::MAX - 1;
        exclusive.replace(Some(live));
        drop(exclusive);
        let before = heap.allocate(4).unwrap();
        heap.compact().unwrap();
        assert_eq!(heap.statistics().generation, u32::MAX);
        let after = heap.allocate(4).unwrap();
        heap.reclaim();
        assert_eq!(heap.compact(), Err(DescriptorError::TooManyReplacements));
        assert_eq!(heap.grow(8, 16, 16), Err(DescriptorError::TooManyReplacements));
        let recording = tracker.record("a frame");
        let view = heap.begin(&recording).unwrap();
        let places = [&before, &after].map(|table| view.place(table).unwrap().first);
        assert_eq!(places[0].abs_diff(places[1]), 4, "each has its own");
    }
}
