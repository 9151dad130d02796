//! Free single slots that are kept ready, so that threads seldom write the words of free slots, which they share.
//!
//! ```text
//!   magazines    [ 9 3 7 ▒ ▒ ]   [ 64 65 66 ▒ ]        a thread takes and returns the last slot of its magazine
//!                  ▲ up to 64 at once    ▼ 32 at once
//!   free slots   ▓▓▓▓▓▓▓▓  ▓▓░▓▓▓▓▓  ░░░░░░░░           a bit each: see `free_slots`
//! ```
//!
//! A magazine belongs to no thread: it is a shard ([`Shards`]), which a thread that takes a slot locks without waiting where
//! another has it. All are
//! emptied before a page is added or pages are trimmed, so slots that are kept ready neither cost a page nor keep one.
//!
//! # Readers of events
//!
//! A slot in a magazine is free, but its bit is not set. So there are no such slots while there is a reader of events,
//! which knows the slots by their bits. The reader sets `is_observed`, and then locks and empties each magazine; a
//! thread adds slots to a magazine only if it finds `is_observed` unset with the magazine locked. Whichever of the two
//! locks first, nothing is left in the magazine.
//!
//! # Peak
//!
//! Slots that are kept ready are not in use. Each magazine notes the fewest slots that it had since the last look, so
//! that the most that were in use at once are known without a shared counter: exactly with one thread. With several, the
//! times at which magazines had the fewest are taken to be the same, and a magazine that is filled or emptied does not
//! look at the others: up to 64 slots of each count as in use then.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use super::Slots;
use crate::descriptor::free_slots::WORD;

/// Slots of a magazine: those of a word.
const ROOM: usize = WORD as usize;

/// Slots returned at once by a full magazine: half of them, so that neither the next slot that is taken nor the next
/// one that is returned needs the shared words.
const SPILLED: usize = ROOM / 2;

/// Free slots that are kept ready.
#[derive(Debug)]
pub(super) struct Magazine {
    slots: [u32; ROOM],
    /// The first `len` of `slots` are kept.
    len: usize,
    /// The lowest `len` since the last look.
    lowest: usize,
}

impl Magazine {
    pub(super) const fn new() -> Self {
        Self { slots: [0; ROOM], len: 0, lowest: 0 }
    }

    #[inline]
    fn pop(&mut self) -> Option<u32> {
        let last = self.len.checked_sub(1)?;
        self.len = last;
        self.lowest = self.lowest.min(last);
        self.slots.get(last).copied()
    }

    /// Adds a slot, if there is room.
    #[inline]
    fn push(&mut self, slot: u32) -> bool {
        let Some(place) = self.slots.get_mut(self.len) else { return false };
        *place = slot;
        self.len += 1;
        true
    }

    /// Removes the first slots, which were returned the longest ago.
    fn remove_first(&mut self, count: usize, each: impl FnMut(u32)) {
        self.slots[..count].iter().copied().for_each(each);
        self.slots.copy_within(count..self.len, 0);
        self.len -= count;
        self.lowest = self.len;
    }
}

impl Slots {
    /// Takes a slot that is kept ready.
    #[inline]
    pub(super) fn take_ready(&self) -> Option<u32> {
        self.magazines.any().pop()
    }

    /// Keeps a returned slot ready. Returns `false`, and changes nothing, if there is a reader of events.
    #[inline]
    pub(super) fn keep_ready(&self, slot: u32) -> bool {
        let mut magazine = self.magazines.any();
        // With the magazine locked: see above.
        if self.is_observed.load(SeqCst) {
            return false;
        }
        debug_assert!(!magazine.slots[..magazine.len].contains(&slot), "a range exists once");
        debug_assert_eq!(self.singles.word(slot / WORD) & 1 << (slot % WORD), 0, "a range exists once");
        if !magazine.push(slot) {
            self.spill(&mut magazine);
            magazine.push(slot);
        }
        true
    }

    #[cold]
    fn spill(&self, magazine: &mut Magazine) {
        // Before the slots are free: from then on they may be in use again.
        self.counts.raise(self.counts.used.load(Relaxed).saturating_sub(magazine.lowest as u32));
        self.counts.used.fetch_sub(SPILLED as u32, Relaxed);
        magazine.remove_first(SPILLED, |slot| self.return_free(slot));
    }

    fn return_free(&self, slot: u32) {
        let was_taken = self.singles.give_back(slot);
        debug_assert!(was_taken, "a slot is free once");
    }

    /// Keeps slots of the word whose first slot is `first`, which the thread has taken beside one that it uses, and
    /// counts all of them.
    pub(super) fn keep_rest(&self, first: u32, mut rest: u64) {
        let mut magazine = self.magazines.any();
        let before = self.counts.used.fetch_add(1, Relaxed);
        self.counts.raise((before + 1).saturating_sub(magazine.lowest as u32));
        if !self.is_observed.load(SeqCst) {
            let kept = magazine.len;
            // The last slot first: the first one is used next, which keeps those in use together.
            while rest != 0 {
                let bit = u64::BITS - 1 - rest.leading_zeros();
                if !magazine.push(first + bit) {
                    break;
                }
                rest &= !(1 << bit);
            }
            magazine.lowest = magazine.len;
            self.counts.used.fetch_add((magazine.len - kept) as u32, Relaxed);
        }
        drop(magazine);
        // For a reader that came meanwhile, or where another thread has filled the magazine.
        if rest != 0 {
            let all_were_taken = self.give_back_some(first, rest);
            debug_assert!(all_were_taken, "the thread has taken them");
        }
    }

    /// Empties all magazines.
    pub(super) fn empty_magazines(&self) {
        self.look_at_magazines();
        for mut magazine in self.magazines.each() {
            let count = magazine.len;
            self.counts.used.fetch_sub(count as u32, Relaxed);
            magazine.remove_first(count, |slot| self.return_free(slot));
        }
    }

    /// Raises the peak to what was in use since the last look. Returns the number of slots that are kept ready.
    pub(super) fn look_at_magazines(&self) -> u32 {
        let (mut lowest, mut ready) = (0, 0);
        for mut magazine in self.magazines.each() {
            lowest += magazine.lowest as u32;
            ready += magazine.len as u32;
            magazine.lowest = magazine.len;
        }
        self.counts.raise(self.counts.used.load(Relaxed).saturating_sub(lowest));
        ready
    }

    /// Counts a run that was allocated.
    pub(super) fn count_run(&self, count: u32) {
        let ready = self.look_at_magazines();
        let used = self.counts.used.fetch_add(count, Relaxed) + count;
        self.counts.raise(used.saturating_sub(ready));
    }
}

#[cfg(all(test, feature = "simulated"))]
#[cfg(not(allotment_loom))]
mod tests {
    use std::sync::Arc;

    use crate::descriptor::{CpuDescriptorHeap, CpuDescriptorHeapDesc};
    use crate::device::DescriptorHeapType;
    use crate::device::simulated::{Profile, SimulatedGpu};
    use crate::lifetime::SubmissionTracker;
    use crate::{Allocator, AllocatorDesc};

    fn heap() -> Arc<CpuDescriptorHeap<SimulatedGpu>> {
        let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
        let tracker = SubmissionTracker::new(device.clone()).unwrap();
        let allocator = Arc::new(Allocator::new(device, AllocatorDesc::default()).unwrap());
        let desc = CpuDescriptorHeapDesc::new(DescriptorHeapType::Resource).with_page_size(64);
        Arc::new(CpuDescriptorHeap::new(&allocator, &tracker, desc).unwrap())
    }

    #[test]
    fn slots_that_other_threads_keep_ready_are_used_before_a_page_is_added() {
        let heap = heap();
        let first = heap.allocate(1).unwrap();
        // One thread after the other: each has a magazine of its own, if several can run at once.
        let next = || (0..9).map(|_| heap.allocate(1).unwrap()).collect::<Vec<_>>();
        let others: Vec<_> =
            (0..7).flat_map(|_| std::thread::scope(|scope| scope.spawn(next).join().unwrap())).collect();
        let statistics = heap.statistics();
        assert_eq!((statistics.used, statistics.free, statistics.pages), (64, 0, 1));
        others.into_iter().chain([first]).for_each(|slot| heap.free(slot).unwrap());
        assert_eq!(heap.statistics().used, 0);
    }

    #[test]
    fn the_peak_does_not_count_slots_that_are_kept_ready() {
        let heap = heap();
        let mut held: Vec<_> = (0..100).map(|_| heap.allocate(1).unwrap()).collect();
        held.drain(3..).for_each(|slot| heap.free(slot).unwrap());
        held.extend((0..50).map(|_| heap.allocate(1).unwrap()));
        held.drain(1..).for_each(|slot| heap.free(slot).unwrap());
        assert_eq!((heap.statistics().used, heap.statistics().peak), (1, 100));
        let run = heap.allocate(120).unwrap();
        assert_eq!((heap.statistics().used, heap.statistics().peak), (121, 121));
        held.push(run);
        held.into_iter().for_each(|range| heap.free(range).unwrap());
        heap.trim();
        assert_eq!((heap.statistics().pages, heap.statistics().peak), (0, 121));
    }
}
