//! Ranges that wait for the GPU: those that were retired, and those that were dropped.
//!
//! A range has the number of its heap, and no reference to it: each allocation and each free would count references, in
//! memory that all threads write. So a range that is dropped looks its heap up, under one lock for all heaps. `free` and
//! `retire` are called on the heap and take no such lock.
//!
//! ```text
//!   drop(range) ──► HEAPS   │ 3 ─► heap │ 4 ─► heap │ 9 ─► heap │      in the order of the numbers
//!                             └──► its queue of retired ranges ──► reclaim ──► free
//! ```
//!
//! A range that outlives its heap finds none: its page was destroyed with the heap.

use core::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, Weak};

use super::{CpuDescriptorRange, PageRange, Slots};
use crate::lifetime::{ReleaseQueue, SubmissionTracker};
use crate::sync::locked;

/// The heaps of all devices.
static HEAPS: Mutex<Heaps> = Mutex::new(Heaps { next: 0, heaps: Vec::new() });

struct Heaps {
    /// The number of the next heap. 64 bits do not run out.
    next: u64,
    /// By their numbers, which grow.
    heaps: Vec<(u64, Weak<RetiredRanges>)>,
}

impl Heaps {
    fn find(&self, heap: u64) -> Result<usize, usize> {
        self.heaps.binary_search_by_key(&heap, |&(number, _)| number)
    }
}

/// The ranges of a heap that wait for the GPU.
///
/// Apart from the heap, which a range that is dropped cannot name: that is generic over the device. And apart from its
/// slots, which readers of events keep for a moment: they must not be the last to keep the tracker.
#[derive(Debug)]
pub(super) struct RetiredRanges {
    /// A number that no other heap has.
    pub(super) heap: u64,
    slots: Arc<Slots>,
    pub(super) queue: ReleaseQueue<PageRange>,
}

impl RetiredRanges {
    /// Creates the queue of a new heap, which ranges that are dropped find from now on.
    pub(super) fn new(slots: &Arc<Slots>, tracker: &SubmissionTracker) -> Arc<Self> {
        let queue = ReleaseQueue::new(tracker);
        let mut heaps = locked(&HEAPS);
        let heap = heaps.next;
        heaps.next += 1;
        let new = Arc::new(Self { heap, slots: Arc::clone(slots), queue });
        heaps.heaps.push((heap, Arc::downgrade(&new)));
        new
    }

    /// Frees a range of the heap once the GPU has finished with what is recorded or submitted now.
    pub(super) fn retire(&self, range: PageRange) {
        self.slots.sites.forget(range.site());
        self.slots.counts.retiring.fetch_add(range.count, Relaxed);
        self.queue.retire(range);
    }
}

impl Drop for RetiredRanges {
    fn drop(&mut self) {
        let mut heaps = locked(&HEAPS);
        if let Ok(at) = heaps.find(self.heap) {
            heaps.heaps.remove(at);
        }
    }
}

impl Drop for CpuDescriptorRange {
    /// Frees the range once all recordings that are open now, and their submissions, have completed. Does nothing where the
    /// heap was dropped.
    #[inline(never)]
    fn drop(&mut self) {
        let heap = {
            let heaps = locked(&HEAPS);
            heaps.find(self.heap).ok().and_then(|at| heaps.heaps[at].1.upgrade())
        };
        // Without the lock: this may be the last reference to the queue of a heap that another thread drops.
        if let Some(heap) = heap {
            heap.retire(self.range);
        }
    }
}
