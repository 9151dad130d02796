//! Bindless slots: descriptors of a shader-visible heap with a constant index, which shaders receive as a
//! number.
//!
//! A slot is written once, before its index is known, so work in flight never sees it change. To bind something
//! else, [replace](super::ShaderVisibleHeap::replace) the slot by another; the old one is reused once no work
//! can read it any more. Until then it keeps its resource alive, if the caller passed it. The slot of a relocatable
//! resource keeps its index when the resource moves: another heap of the device has the new descriptor there.
//!
//! ```text
//!   slots   │ 0 live │ 1 free │ 2 removed │ 3 free │ 4 live │      as many as were ever in use at once
//!   free         3 ──► 1 ──► end                                   the last one that came back is the next one
//! ```
//!
//! The list of free slots is in the slots themselves, under the lock that a new handle needs anyway: so inserting takes
//! that lock once, and so does giving back many slots.
//!
//! A slot counts its handles with 32 bits. A slot that has used up all of them is not used again, so that no
//! old handle becomes valid: it remains in use in the [statistics](super::DescriptorHeapStatistics::used).

use core::any::Any;
use core::fmt;
use core::num::NonZeroU32;
use std::sync::{Arc, Mutex};

use super::error::DescriptorError;
use super::events::RegionEvents;
use super::generation::Chunks;
use super::statistics::{DescriptorHeapStatistics, Usage};
use crate::events::{Announces, EventLog, lock_to_announce};
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

struct Slot {
    /// The generation of the valid handle: the number of slots that had this index before. A live one is less
    /// than [`WORN_OUT`].
    generation: u32,
    state: SlotState,
    keep: Option<KeepAlive>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlotState {
    /// In the list of free slots, with the one that follows there.
    Free { next: Option<FreeSlot> },
    /// It has a handle, or is being given one.
    Live,
    /// It has no handle, and is in use until the GPU has finished with it; for good where it is worn out.
    Removed,
}

/// The index of a free slot, and one more: so that an `Option` takes no more room.
type FreeSlot = NonZeroU32;

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
    /// Shared with the list of what announces itself to a reader of events.
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    /// As many entries as slots were in use at once. Not a [`Slab`](crate::slab::Slab): an entry keeps its generation
    /// while it is free.
    slots: Vec<Slot>,
    /// The first free slot of those in `slots`. Each entry that is free is in this list, once.
    free: Option<FreeSlot>,
    capacity: u32,
    /// The peak leaves out what came since the last slot was given back; see [`Inner::raise_peak`].
    usage: Usage,
    events: RegionEvents,
}

impl Inner {
    /// Takes a free slot, by its index, for a descriptor that keeps an object alive. Returns that object if there is no
    /// slot.
    // By value and inlined: an object that is moved through memory is written in halves and read as a whole, for which
    // the processor waits until both have arrived.
    #[inline]
    fn take(&mut self, keep: Option<KeepAlive>) -> Result<u32, Option<KeepAlive>> {
        let index = match self.free {
            Some(first) => {
                let index = first.get() - 1;
                let slot = &mut self.slots[index as usize];
                let SlotState::Free { next } = slot.state else { unreachable!("slots in the list are free") };
                self.free = next;
                slot.state = SlotState::Live;
                slot.keep = keep;
                index
            }
            None => self.take_another(keep)?,
        };
        self.usage.used += 1;
        self.events.allocated((index, 1));
        Ok(index)
    }

    /// Takes the first slot that was never in use.
    #[cold]
    fn take_another(&mut self, keep: Option<KeepAlive>) -> Result<u32, Option<KeepAlive>> {
        // There are no more entries than the capacity says, which has 32 bits.
        let index = self.slots.len() as u32;
        if index == self.capacity {
            return Err(keep);
        }
        self.slots.push(Slot { generation: 0, state: SlotState::Live, keep });
        Ok(index)
    }

    /// Gives back a slot that is in use.
    fn give_back(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        debug_assert!(!matches!(slot.state, SlotState::Free { .. }), "a slot is given back once");
        slot.state = SlotState::Free { next: self.free };
        self.free = FreeSlot::new(index + 1);
        self.usage.give_back(1);
        self.events.freed((index, 1));
    }

    /// Raises the peak to what is in use. Called before slots that were in use are given back, and not when they are
    /// taken: a slot whose write failed was never in use.
    fn raise_peak(&mut self) {
        self.usage.peak = self.usage.peak.max(self.usage.used);
    }
}

/// Returns the slots in use, each as a range.
fn in_use(slots: &[Slot]) -> impl Iterator<Item = (u32, u32)> + '_ {
    (0..)
        .zip(slots)
        .filter(|(_, slot)| !matches!(slot.state, SlotState::Free { .. }))
        .map(|(index, _)| (index, 1))
}

impl Announces for Mutex<Inner> {
    fn announce(&self) -> bool {
        let Some(mut inner) = lock_to_announce(self) else { return false };
        let Inner { slots, events, .. } = &mut *inner;
        events.announce(in_use(slots));
        true
    }
}

impl Slots {
    /// Creates the slots of a heap, the first of the driver's heaps that they are in.
    pub(super) fn new(heap: u64, capacity: u32, log: &EventLog, first: &Arc<Mutex<Chunks>>) -> Self {
        let events = RegionEvents::new(log, first);
        let inner = Inner { slots: Vec::new(), free: None, capacity, usage: Usage::default(), events };
        let inner = Arc::new(Mutex::new(inner));
        log.parts().add(&inner);
        Self { heap, inner }
    }

    /// Takes a free slot for a descriptor that keeps `keep` alive. The handle is given to no one before the descriptor is
    /// written.
    ///
    /// # Errors
    ///
    /// Returns what it was to keep alive if no slot is free.
    #[inline]
    pub(super) fn take(&self, keep: Option<KeepAlive>) -> Result<DescriptorSlot, Option<KeepAlive>> {
        let mut inner = locked(&self.inner);
        let index = inner.take(keep)?;
        Ok(self.handle(index, &inner))
    }

    /// Takes `count` slots, or none.
    pub(super) fn take_all(&self, count: u32) -> Option<Vec<DescriptorSlot>> {
        let mut inner = locked(&self.inner);
        if count > inner.capacity - inner.usage.used {
            return None;
        }
        let mut taken = Vec::with_capacity(count as usize);
        taken.extend((0..count).map_while(|_| inner.take(None).ok().map(|index| self.handle(index, &inner))));
        Some(taken)
    }

    #[inline]
    fn handle(&self, index: u32, inner: &Inner) -> DescriptorSlot {
        DescriptorSlot { heap: self.heap, index, generation: inner.slots[index as usize].generation }
    }

    /// Lets a slot keep an object alive, which was taken without one.
    pub(super) fn keep(&self, slot: DescriptorSlot, keep: KeepAlive) {
        let mut inner = locked(&self.inner);
        let slot = &mut inner.slots[slot.index as usize];
        debug_assert!(slot.state == SlotState::Live && slot.keep.is_none(), "it was taken without");
        slot.keep = Some(keep);
    }

    /// Gives back a slot that was taken and whose handle no one was given. Returns the object that it kept alive.
    pub(super) fn put_back(&self, slot: DescriptorSlot) -> Option<KeepAlive> {
        let mut inner = locked(&self.inner);
        inner.give_back(slot.index);
        inner.slots[slot.index as usize].keep.take()
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
    // Inlined, as in `Inner::take`.
    #[inline(always)]
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

    /// Makes removed slots reusable.
    pub(super) fn make_reusable(&self, indices: &[u32]) {
        let mut inner = locked(&self.inner);
        inner.raise_peak();
        for &index in indices {
            inner.usage.retiring -= 1;
            // Leaked for good: a reused index with an old generation would make old handles valid again.
            if inner.slots[index as usize].generation != WORN_OUT {
                inner.give_back(index);
            }
        }
    }

    /// Moves the slots to another of the driver's heaps, and adds slots up to `capacity`.
    pub(super) fn move_to(&self, next: &Arc<Mutex<Chunks>>, capacity: u32) {
        let mut inner = locked(&self.inner);
        let Inner { slots, events, .. } = &mut *inner;
        let was_known = events.leave(in_use(slots));
        events.enter(next, was_known, in_use(slots));
        inner.capacity = inner.capacity.max(capacity);
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
        let mut inner = locked(&self.inner);
        inner.raise_peak();
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
        let hand_out = || slots.take(None).ok();
        let stale = hand_out().unwrap();
        slots.remove(stale).unwrap();
        slots.make_reusable(&[stale.index()]);
        // As after four thousand million more.
        locked(&slots.inner).slots[0].generation = WORN_OUT - 1;
        let last = hand_out().unwrap();
        assert_eq!((last.index(), last.generation), (0, WORN_OUT - 1));
        assert!(slots.remove(last).unwrap().is_none());
        slots.make_reusable(&[last.index()]);
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
