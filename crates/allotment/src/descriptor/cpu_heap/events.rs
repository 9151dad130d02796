//! The events of a CPU descriptor heap: a descriptor heap of the events is a page.
//!
//! Runs are taken and freed under the lock of the pages, which their events are written under. Single slots are taken and
//! freed without a lock, while nobody reads. How a reader that comes meanwhile misses none of them:
//!
//! ```text
//!   a thread                                   the reader comes, under the lock of the pages
//!     takes or frees a slot: its word            is_observed = true
//!     is_observed?                               reads all words, and announces the slots in use
//!       no    done: the reader finds the change
//!       yes   under the lock: the word against what the reader knows, and an event for each slot that differs
//! ```
//!
//! Each writes one thing and then reads the other's, all four [`SeqCst`]: at least one of them sees the other's. So after
//! each call the reader knows the state, or has been told by the thread whose change it missed. A bit for each slot, of
//! what the reader knows, keeps both from telling it.
//!
//! While there is a reader, a slot is freed under the lock: its event is written before another thread can take the slot,
//! so that no reuse is missed.

use core::sync::atomic::Ordering::SeqCst;

use allotment_suballoc::RegionKind;

use super::Slots;
use super::pages::{Page, PageTable, Runs, Slot};
use crate::descriptor::events::{HeapInfo, allocated, freed, kind_of};
use crate::descriptor::free_slots::WORD;
use crate::device::{DescriptorHeapType, DescriptorHeapVisibility};
use crate::events::{Announces, DescriptorKind, Event, EventLog, EventSource, ObjectId, lock_to_announce};
use crate::sync::locked;

/// Where the pages write their events.
#[derive(Debug)]
pub(super) struct PageEvents {
    source: EventSource,
    kind: DescriptorKind,
    /// The heap is destroyed, and announced no more.
    is_destroyed: bool,
}

impl PageEvents {
    pub(super) fn new(log: &EventLog, heap_type: DescriptorHeapType) -> Self {
        let kind = kind_of(DescriptorHeapVisibility::CpuOnly(heap_type));
        Self { source: EventSource::new(log), kind, is_destroyed: false }
    }

    /// Writes that a page was created.
    pub(super) fn created(&mut self, slot: &Slot, page: u32, page_size: u32) {
        if self.source.is_read() {
            let info = slot.info(self.kind, page, page_size);
            self.source.emit(|texts| info.created(texts));
        }
    }

    /// Writes that a page was destroyed.
    pub(super) fn destroyed(&mut self, heap: ObjectId) {
        self.source.emit(|_| Event::DescriptorHeapDestroyed { heap });
    }

    #[inline]
    pub(super) fn allocated(&mut self, heap: ObjectId, range: (u32, u32)) {
        self.source.emit(|_| allocated(heap, range));
    }

    #[inline]
    pub(super) fn freed(&mut self, heap: ObjectId, range: (u32, u32)) {
        self.source.emit(|_| freed(heap, range));
    }
}

impl Slot {
    /// Describes the page, which has this number.
    fn info(&self, kind: DescriptorKind, page: u32, page_size: u32) -> HeapInfo {
        let (capacity, what) = match &self.page {
            // A page of runs has at most 2^24 descriptors.
            Page::Runs(runs) => (runs.block.size() as u32, "ranges"),
            Page::Singles { .. } | Page::Vacant => (page_size, "single descriptors"),
        };
        HeapInfo { id: self.id, kind, capacity, name: Some(format!("page {page}: {what}").into()) }
    }
}

impl PageTable {
    /// Writes that all pages are destroyed, with the heap.
    pub(super) fn destroyed(&mut self) {
        self.events.is_destroyed = true;
        for slot in self.slots.iter().filter(|slot| !matches!(slot.page, Page::Vacant)) {
            self.events.destroyed(slot.id);
        }
    }
}

/// Returns the bits that are set in a mask, from the lowest on.
fn bits_of(mut mask: u64) -> impl Iterator<Item = u32> {
    core::iter::from_fn(move || {
        let bit = (mask != 0).then(|| mask.trailing_zeros())?;
        mask &= mask - 1;
        Some(bit)
    })
}

/// Returns the ranges of a page with runs.
fn runs_of(runs: &Runs) -> impl Iterator<Item = (u32, u32)> + '_ {
    let used = runs.block.regions().filter(|region| matches!(region.kind, RegionKind::Used { .. }));
    used.map(|region| (region.offset as u32, region.size as u32))
}

impl Slots {
    pub(super) fn page_size(&self) -> u32 {
        1 << self.page_shift
    }

    /// Returns the page of a single slot, and its index in the page.
    #[inline]
    pub(super) fn locate(&self, slot: u32) -> (u32, u32) {
        (slot >> self.page_shift, slot & (self.page_size() - 1))
    }

    /// Writes the events of single slots in the word of `slot`, which this thread took or returned. One branch without
    /// a reader.
    #[inline]
    pub(super) fn changed(&self, slot: u32) {
        if self.is_observed.load(SeqCst) {
            self.write_changes(slot);
        }
    }

    #[cold]
    fn write_changes(&self, slot: u32) {
        let mut guard = locked(&self.pages);
        let PageTable { slots, events } = &mut *guard;
        let (page, first) = self.locate(slot / WORD * WORD);
        // Another page, if the thread returned the last slot of its page: that one was destroyed since.
        let Some(Slot { page: Page::Singles { known }, id, .. }) = slots.get_mut(page as usize) else {
            return;
        };
        let known = &mut known[(first / WORD) as usize];
        let used = !self.singles.word(slot / WORD);
        // Slots of other threads are among them: those threads will find that nothing differs.
        for bit in bits_of(core::mem::replace(known, used) ^ used) {
            let range = (first + bit, 1);
            if used & 1 << bit != 0 { events.allocated(*id, range) } else { events.freed(*id, range) }
        }
        self.note_reader(events);
    }

    /// Returns slots of the word whose first slot is `first`. Returns `false` if one of them is free already.
    #[inline]
    pub(super) fn give_back_some(&self, first: u32, bits: u64) -> bool {
        if self.is_observed.load(SeqCst) {
            return self.give_back_and_write(first, bits);
        }
        let all_were_taken = self.singles.give_back_some(first, bits);
        // For a reader that came between the two.
        self.changed(first);
        all_were_taken
    }

    #[cold]
    fn give_back_and_write(&self, first: u32, bits: u64) -> bool {
        let mut guard = locked(&self.pages);
        let PageTable { slots, events } = &mut *guard;
        let (page, index) = self.locate(first);
        if let Some(Slot { page: Page::Singles { known }, id, .. }) = slots.get_mut(page as usize) {
            let known = &mut known[(index / WORD) as usize];
            for bit in bits_of(*known & bits) {
                events.freed(*id, (index + bit, 1));
            }
            *known &= !bits;
        }
        self.note_reader(events);
        // Last, and under the lock: the thread that takes a slot next writes that after this.
        self.singles.give_back_some(first, bits)
    }

    /// Lets threads do without the lock from now on, if the reader is gone or lost events.
    fn note_reader(&self, events: &PageEvents) {
        if !events.source.is_read() {
            self.is_observed.store(false, SeqCst);
        }
    }
}

impl Announces for Slots {
    fn announce(&self) -> bool {
        let Some(mut guard) = lock_to_announce(&self.pages) else { return false };
        let PageTable { slots, events } = &mut *guard;
        if events.is_destroyed || events.source.is_announced() {
            return true;
        }
        let Some(announcement) = events.source.announce() else { return true };
        // Before any word is read: a thread that changes one later finds that there is a reader.
        self.is_observed.store(true, SeqCst);
        // And none keeps a slot ready any more: its bit would say that it is in use.
        self.empty_magazines();
        for (page, slot) in (0..).zip(slots) {
            if matches!(slot.page, Page::Vacant) {
                continue;
            }
            let info = slot.info(events.kind, page, self.page_size());
            announcement.emit(|texts| info.created(texts));
            let emit = |range| announcement.emit(|_| allocated(slot.id, range));
            match &mut slot.page {
                Page::Vacant => {}
                Page::Runs(runs) => runs_of(runs).for_each(emit),
                Page::Singles { known } => {
                    let words = (page << self.page_shift) / WORD..;
                    for (known, (word, first)) in
                        known.iter_mut().zip(words.zip((0..).step_by(WORD as usize)))
                    {
                        *known = !self.singles.word(word);
                        bits_of(*known).for_each(|bit| emit((first + bit, 1)));
                    }
                }
            }
        }
        true
    }
}

#[cfg(test)]
#[cfg(feature = "simulated")]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::descriptor::{CpuDescriptorHeap, CpuDescriptorHeapDesc};
    use crate::device::simulated::{Profile, SimulatedGpu};
    use crate::events::{EventBatch, EventSubscription, SubscriptionDesc};
    use crate::lifetime::SubmissionTracker;
    use crate::{Allocator, AllocatorDesc};

    /// Returns the slots that were taken and freed, in order: the first of each range, and whether it was taken.
    fn read(events: &mut EventSubscription) -> Vec<(u32, bool)> {
        let mut batch = EventBatch::new();
        events.read(&mut batch);
        let slots = batch.events().iter().filter_map(|event| match *event {
            Event::DescriptorsAllocated { first, .. } => Some((first, true)),
            Event::DescriptorsFreed { first, .. } => Some((first, false)),
            _ => None,
        });
        slots.collect()
    }

    /// The orders of the drawing above, one after the other, since threads meet in them once in a million times.
    #[test]
    fn what_changes_as_the_reader_comes_is_told_once_by_the_reader_or_by_the_thread() {
        let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
        let tracker = SubmissionTracker::new(device.clone()).unwrap();
        let allocator = Arc::new(Allocator::new(device, AllocatorDesc::default()).unwrap());
        let desc = CpuDescriptorHeapDesc::new(DescriptorHeapType::Resource);
        let heap = CpuDescriptorHeap::new(&allocator, &tracker, desc).unwrap();
        let subscribe = || allocator.subscribe(&SubscriptionDesc::default()).unwrap();
        let slots = &heap.slots;
        let zero = heap.allocate(1).unwrap();

        // A slot is taken, and then the reader comes, which finds it.
        slots.empty_magazines();
        assert_eq!(slots.singles.take(), Some(1));
        let mut events = subscribe();
        slots.changed(1);
        assert_eq!(read(&mut events), [(0, true), (1, true)]);

        // The reader comes, and then a thread that had found none returns a slot, and another takes it.
        assert!(slots.singles.give_back(1));
        slots.changed(1);
        assert_eq!(slots.singles.take(), Some(1));
        slots.changed(1);
        assert_eq!(read(&mut events), [(1, false), (1, true)]);

        // The same, where the other thread is told of the change first: the slot was in use all the time.
        assert!(slots.singles.give_back(1));
        assert_eq!(slots.singles.take(), Some(1));
        slots.changed(1);
        slots.changed(1);
        assert_eq!(read(&mut events), []);

        // The reader is gone: the next change notes it, and the one after takes no lock.
        drop(events);
        assert!(slots.give_back_some(0, 0b10) && !slots.is_observed.load(SeqCst));
        heap.free(zero).unwrap();
        assert_eq!(read(&mut subscribe()), []);
    }
}
