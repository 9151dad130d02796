//! Slots of a shader-visible heap whose index stays: what shaders are told as a number (bindless).
//!
//! A slot is written once, before anybody can know its index, so nothing in flight ever sees it change. To change what
//! something is bound to is to [replace](super::ShaderVisibleHeap::replace) its slot by another; the old one comes back
//! when nothing can read it any more. A slot owns what it points at, if it is told to, until then.
//!
//! A slot counts its handles with 32 bits. One that has had them all is not used again, so that no handle of the past is
//! ever good: it stays in use for the [statistics](super::DescriptorHeapStatistics::used).

use core::any::Any;
use core::fmt;
use std::sync::{Arc, Mutex};

use super::error::DescriptorError;
use super::free_slots::FreeSlots;
use super::statistics::{DescriptorHeapStatistics, Usage};
use crate::sync::locked;

/// What lives as long as a descriptor that points at it may be read: an `Arc` of an
/// [`OwnedBuffer`](crate::memory::OwnedBuffer), of a view, of a texture.
pub type KeepAlive = Arc<dyn Any + Send + Sync>;

/// Names a slot of a shader-visible heap. A copy is another name for the same one; all of them are stale when the slot
/// was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DescriptorSlot {
    /// Whose. Of 64 bits, so that no two heaps have the same number.
    heap: u64,
    index: u32,
    generation: u32,
}

impl DescriptorSlot {
    /// The descriptor's index in the heap: what shaders are told. It never changes.
    #[must_use]
    pub fn index(self) -> u32 {
        self.index
    }
}

#[derive(Default)]
struct Slot {
    /// Which handle is good: the number of slots that stood here before. A live one has less than [`WORN_OUT`].
    generation: u32,
    live: bool,
    keep: Option<KeepAlive>,
}

/// The generation that no handle has: a slot that comes to it is never handed out again.
const WORN_OUT: u32 = u32::MAX;

/// The slots of a heap.
pub(super) struct Slots {
    heap: u64,
    free: FreeSlots,
    inner: Mutex<Inner>,
}

struct Inner {
    /// As many as were ever used.
    slots: Vec<Slot>,
    capacity: u32,
    usage: Usage,
}

impl Slots {
    pub(super) fn new(heap: u64, capacity: u32) -> Self {
        let free = FreeSlots::new();
        free.add(0..capacity);
        let inner = Inner { slots: Vec::new(), capacity, usage: Usage::default() };
        Self { heap, free, inner: Mutex::new(inner) }
    }

    /// A slot that nobody has, by its index.
    pub(super) fn take(&self) -> Option<u32> {
        self.free.take()
    }

    /// A slot that was taken goes back, unused.
    pub(super) fn put_back(&self, index: u32) {
        self.free.give_back(index);
    }

    /// A slot that was taken is written: its handle is known from now on.
    pub(super) fn publish(&self, index: u32, keep: Option<KeepAlive>) -> DescriptorSlot {
        let mut inner = locked(&self.inner);
        if inner.slots.len() <= index as usize {
            inner.slots.resize_with(index as usize + 1, Slot::default);
        }
        inner.usage.take(1);
        let slot = &mut inner.slots[index as usize];
        slot.live = true;
        slot.keep = keep;
        DescriptorSlot { heap: self.heap, index, generation: slot.generation }
    }

    pub(super) fn check(&self, slot: DescriptorSlot) -> Result<(), DescriptorError> {
        if slot.heap != self.heap {
            return Err(DescriptorError::Foreign);
        }
        let inner = locked(&self.inner);
        let found = inner.slots.get(slot.index as usize);
        let live = found.is_some_and(|found| found.live && found.generation == slot.generation);
        if live { Ok(()) } else { Err(DescriptorError::Stale) }
    }

    /// Ends the life of a slot: it is on its way back from now on. Returns what it kept.
    pub(super) fn remove(&self, slot: DescriptorSlot) -> Result<Option<KeepAlive>, DescriptorError> {
        if slot.heap != self.heap {
            return Err(DescriptorError::Foreign);
        }
        let mut inner = locked(&self.inner);
        let found = inner.slots.get_mut(slot.index as usize);
        let found = found.filter(|found| found.live && found.generation == slot.generation);
        let found = found.ok_or(DescriptorError::Stale)?;
        found.live = false;
        // It was live, so there is one more.
        found.generation += 1;
        let keep = found.keep.take();
        inner.usage.retiring += 1;
        Ok(keep)
    }

    /// A slot that was removed may be used again.
    pub(super) fn make_reusable(&self, index: u32) {
        let mut inner = locked(&self.inner);
        inner.usage.retiring -= 1;
        let found = inner.slots.get(index as usize);
        if found.is_some_and(|found| found.generation == WORN_OUT) {
            return;
        }
        inner.usage.give_back(1);
        drop(inner);
        self.free.give_back(index);
    }

    /// There are more slots.
    pub(super) fn grow(&self, capacity: u32) {
        let mut inner = locked(&self.inner);
        if capacity > inner.capacity {
            self.free.add(inner.capacity..capacity);
            inner.capacity = capacity;
        }
    }

    /// What all slots keep, at the end of the heap.
    pub(super) fn take_keeps(&self) -> Vec<KeepAlive> {
        locked(&self.inner).slots.iter_mut().filter_map(|slot| slot.keep.take()).collect()
    }

    pub(super) fn count_failure(&self) {
        locked(&self.inner).usage.failures += 1;
    }

    pub(super) fn statistics(&self) -> DescriptorHeapStatistics {
        let inner = locked(&self.inner);
        // Slots are handed out one by one.
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

    #[test]
    fn a_slot_whose_handles_have_come_to_their_end_is_not_used_again_and_no_handle_becomes_good() {
        let slots = Slots::new(7, 2);
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
        slots.grow(3);
        assert_eq!(hand_out().map(DescriptorSlot::index), Some(2), "there are others");
    }
}
