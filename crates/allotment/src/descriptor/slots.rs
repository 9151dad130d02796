//! Bindless slots: descriptors of a shader-visible heap with a constant index, which shaders receive as a
//! number.
//!
//! A slot is written once, before its index is known, so work in flight never sees it change. To bind something
//! else, [replace](super::ShaderVisibleHeap::replace) the slot by another; the old one is reused once no work
//! can read it any more. Until then it keeps its resource alive, if the caller passed it. The slot of a relocatable
//! resource keeps its index when the resource moves: another heap of the device has the new descriptor there.
//!
//! A slot counts its handles with 32 bits. A slot that has used up all of them is not used again, so that no
//! old handle becomes valid: it remains in use in the [statistics](super::DescriptorHeapStatistics::used).

use core::any::Any;
use core::fmt;
use std::sync::{Arc, Mutex};

use super::error::DescriptorError;
use super::events::RegionEvents;
use super::free_slots::FreeSlots;
use super::generation::Chunks;
use super::statistics::{DescriptorHeapStatistics, Usage};
use crate::events::{Announces, EventLog};
use crate::sync::locked;

/// An object to keep alive as long as a descriptor of it can be read: an `Arc` of an
/// [`Buffer`](crate::memory::Buffer), of a view, of a texture.
pub type KeepAlive = Arc<dyn Any + Send + Sync>;

/// A handle of a slot of a shader-visible heap. All copies refer to the same slot and become stale when it is
/// removed.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// use allotment::device::BufferUse;
///
/// let lights = std::sync::Arc::new(gpu.create_buffer(&BufferDesc::new(256), &MemoryUsage::GpuOnly.into())?);
/// let handle = lights.handle();
/// // SAFETY: the buffer is alive as long as the slot, which keeps it, and the range lies in it.
/// let descriptor = unsafe { device.buffer_descriptor(&handle, 0..256, BufferUse::ReadOnly) };
/// let heap = gpu.descriptors()?.resources();
/// let slot = heap.insert(&descriptor, Some(lights.clone()))?;
/// heap.remove(slot)?;
/// assert!(heap.remove(slot).is_err(), "a copy of the handle is stale");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DescriptorSlot {
    /// The number of its heap. 64 bits, so that no two heaps have the same number.
    heap: u64,
    index: u32,
    generation: u32,
}

impl DescriptorSlot {
    /// Returns the index of the descriptor in the heap, which shaders use. It never changes.
    #[must_use]
    pub fn index(self) -> u32 {
        self.index
    }
}

#[derive(Default)]
struct Slot {
    /// The generation of the valid handle: the number of slots that had this index before. A live one is less
    /// than [`WORN_OUT`].
    generation: u32,
    state: SlotState,
    keep: Option<KeepAlive>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SlotState {
    #[default]
    Free,
    /// It has a handle.
    Live,
    /// It has no handle, and is in use until the GPU has finished with it; for good where it is worn out.
    Removed,
}

impl Slot {
    /// Returns whether a handle of this index is valid.
    fn has(&self, handle: DescriptorSlot) -> bool {
        self.state == SlotState::Live && self.generation == handle.generation
    }
}

/// The generation of no handle: a slot that reaches it is never allocated again.
const WORN_OUT: u32 = u32::MAX;

/// The slots of a heap.
pub(super) struct Slots {
    heap: u64,
    free: FreeSlots,
    /// Shared with the list of what announces itself to a reader of events.
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    /// As many entries as slots were ever used. Not a [`Slab`](crate::slab::Slab): threads take indices without this
    /// lock, and an entry keeps its generation while it is free.
    slots: Vec<Slot>,
    capacity: u32,
    usage: Usage,
    events: RegionEvents,
}

/// Returns the slots in use, each as a range.
fn in_use(slots: &[Slot]) -> impl Iterator<Item = (u32, u32)> + '_ {
    (0..).zip(slots).filter(|(_, slot)| slot.state != SlotState::Free).map(|(index, _)| (index, 1))
}

impl Announces for Mutex<Inner> {
    fn announce(&self) {
        let mut inner = locked(self);
        let Inner { slots, events, .. } = &mut *inner;
        events.announce(in_use(slots));
    }
}

impl Slots {
    /// Creates the slots of a heap, the first of the driver's heaps that they are in.
    pub(super) fn new(heap: u64, capacity: u32, log: &EventLog, first: &Arc<Mutex<Chunks>>) -> Self {
        let free = FreeSlots::new();
        free.add(0..capacity);
        let events = RegionEvents::new(log, first);
        let inner = Inner { slots: Vec::new(), capacity, usage: Usage::default(), events };
        let inner = Arc::new(Mutex::new(inner));
        log.parts().add(&inner);
        Self { heap, free, inner }
    }

    /// Takes a free slot, by its index.
    pub(super) fn take(&self) -> Option<u32> {
        self.free.take()
    }

    /// Returns a slot that was taken and not published.
    pub(super) fn put_back(&self, index: u32) {
        let was_taken = self.free.give_back(index);
        debug_assert!(was_taken, "a slot is given back once");
    }

    /// Marks a slot as live after its descriptor was written, and creates its handle.
    pub(super) fn publish(&self, index: u32, keep: Option<KeepAlive>) -> DescriptorSlot {
        let mut inner = locked(&self.inner);
        // Grown with use: slots are taken from the front, so the list is about as long as the most slots in use at
        // once.
        if inner.slots.len() <= index as usize {
            inner.slots.resize_with(index as usize + 1, Slot::default);
        }
        // Counted here and not when it was taken: a slot whose write failed was never in use.
        inner.usage.take(1);
        inner.events.allocated((index, 1));
        let slot = &mut inner.slots[index as usize];
        debug_assert_eq!(slot.state, SlotState::Free, "a slot is taken by one caller at a time");
        slot.state = SlotState::Live;
        slot.keep = keep;
        DescriptorSlot { heap: self.heap, index, generation: slot.generation }
    }

    /// Checks that a handle is of this heap and not stale.
    pub(super) fn check(&self, slot: DescriptorSlot) -> Result<(), DescriptorError> {
        if slot.heap != self.heap {
            return Err(DescriptorError::WrongHeap);
        }
        let inner = locked(&self.inner);
        let found = inner.slots.get(slot.index as usize);
        if found.is_some_and(|found| found.has(slot)) { Ok(()) } else { Err(DescriptorError::Stale) }
    }

    /// Ends the life of a slot, which is retiring from now on. Returns the object that it kept alive.
    pub(super) fn remove(&self, slot: DescriptorSlot) -> Result<Option<KeepAlive>, DescriptorError> {
        if slot.heap != self.heap {
            return Err(DescriptorError::WrongHeap);
        }
        let mut inner = locked(&self.inner);
        let found = inner.slots.get_mut(slot.index as usize);
        let found = found.filter(|found| found.has(slot));
        let found = found.ok_or(DescriptorError::Stale)?;
        // At once, and not when the slot is reused: the handle is stale from now on.
        found.state = SlotState::Removed;
        // A live slot has not reached the last generation, so this does not overflow.
        found.generation += 1;
        let keep = found.keep.take();
        inner.usage.retiring += 1;
        Ok(keep)
    }

    /// Makes a removed slot reusable.
    pub(super) fn make_reusable(&self, index: u32) {
        let mut inner = locked(&self.inner);
        inner.usage.retiring -= 1;
        let Some(found) = inner.slots.get_mut(index as usize) else { return };
        // Leaked for good: a reused index with an old generation would make old handles valid again.
        if found.generation == WORN_OUT {
            return;
        }
        found.state = SlotState::Free;
        inner.usage.give_back(1);
        inner.events.freed((index, 1));
        // Last: from here on another thread can take it.
        drop(inner);
        let was_taken = self.free.give_back(index);
        debug_assert!(was_taken, "a slot is given back once");
    }

    /// Moves the slots to another of the driver's heaps, and adds slots up to `capacity`.
    pub(super) fn move_to(&self, next: &Arc<Mutex<Chunks>>, capacity: u32) {
        let mut inner = locked(&self.inner);
        let Inner { slots, events, .. } = &mut *inner;
        let was_known = events.leave(in_use(slots));
        events.enter(next, was_known, in_use(slots));
        if capacity > inner.capacity {
            // Under the lock, so that no second call adds the same slots.
            self.free.add(inner.capacity..capacity);
            inner.capacity = capacity;
        }
    }

    /// Takes the objects that all slots keep alive, when the heap is dropped. The slots are in none of the driver's heaps
    /// from then on.
    pub(super) fn take_keeps(&self) -> Vec<KeepAlive> {
        let mut inner = locked(&self.inner);
        let Inner { slots, events, .. } = &mut *inner;
        events.leave(in_use(slots));
        slots.iter_mut().filter_map(|slot| slot.keep.take()).collect()
    }

    pub(super) fn count_failure(&self) {
        locked(&self.inner).usage.failures += 1;
    }

    pub(super) fn statistics(&self) -> DescriptorHeapStatistics {
        let inner = locked(&self.inner);
        // Slots are allocated one by one, so the largest range is one slot.
        let largest = u32::from(inner.usage.used < inner.capacity);
        inner.usage.statistics(inner.capacity, largest, 1)
    }
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slots").field("statistics", &self.statistics()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor::heap_desc::ShaderVisibleHeapDesc;

    #[test]
    fn a_slot_whose_handles_have_come_to_their_end_is_not_used_again_and_no_handle_becomes_good() {
        let (log, heap) = Chunks::of_no_device(&ShaderVisibleHeapDesc::resources().with_regions(2, 0, 0));
        let slots = Slots::new(7, 2, &log, &heap);
        let hand_out = || slots.take().map(|index| slots.publish(index, None));
        let stale = hand_out().unwrap();
        slots.remove(stale).unwrap();
        slots.make_reusable(stale.index());
        // As after four thousand million more.
        locked(&slots.inner).slots[0].generation = WORN_OUT - 1;
        let last = hand_out().unwrap();
        assert_eq!((last.index(), last.generation), (0, WORN_OUT - 1));
        assert!(slots.remove(last).unwrap().is_none());
        slots.make_reusable(last.index());
        let other = hand_out().unwrap();
        assert_eq!(other.index(), 1, "the first is worn out");
        assert!(hand_out().is_none());
        let statistics = slots.statistics();
        assert_eq!((statistics.used, statistics.retiring, statistics.free), (2, 0, 0));
        for gone in [stale, last] {
            assert_eq!(slots.check(gone), Err(DescriptorError::Stale));
            assert!(matches!(slots.remove(gone), Err(DescriptorError::Stale)));
        }
        assert_eq!(slots.check(other), Ok(()));
        slots.move_to(&heap, 3);
        assert_eq!(hand_out().map(DescriptorSlot::index), Some(2), "there are others");
    }
}
