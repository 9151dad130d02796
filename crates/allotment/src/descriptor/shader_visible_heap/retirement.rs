//! Retirement: slots, tables and chunks that were released, until the GPU has finished with them.

use core::mem;
use core::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

use super::mirror::WriteTarget;
use super::{Live, Shared};
use crate::descriptor::generation::{Chunk, Generation};
use crate::descriptor::slots::{DescriptorSlot, KeepAlive};
use crate::device::DescriptorDevice;
use crate::lifetime::{Reclaimed, ReleaseQueue, SubmissionTracker};
use crate::sync::locked;
use crate::sync::present::PresentGuard;

/// A released object.
pub(super) enum Retired<D: DescriptorDevice> {
    Slot { index: u32, keep: Option<KeepAlive> },
    Table { entry: u32, count: u32 },
    Chunks { generation: Arc<Generation<D>>, chunks: Vec<Chunk> },
    Kept(Kept<D>),
}

/// Objects to be dropped once a released object is reusable.
pub(super) enum Kept<D: DescriptorDevice> {
    Generation { _it: Arc<Generation<D>> },
    KeepAlive { _it: KeepAlive },
    Keeps { _them: Vec<KeepAlive> },
}

impl<D: DescriptorDevice> Shared<D> {
    pub(in crate::descriptor) fn retire_table(&self, entry: u32, count: u32) {
        self.sites.forget(super::site_of_table(entry));
        self.tables.retiring(entry, count);
        self.retired.retire(Retired::Table { entry, count });
    }

    pub(in crate::descriptor) fn retire_keeps(&self, keeps: Vec<KeepAlive>) {
        if !keeps.is_empty() {
            self.retired.retire(Retired::Kept(Kept::Keeps { _them: keeps }));
        }
    }

    pub(in crate::descriptor) fn retire_keep(&self, keep: KeepAlive) {
        self.retired.retire(Retired::Kept(Kept::KeepAlive { _it: keep }));
    }

    /// Retires the chunks of a recording, to be reused once the recording completes.
    pub(in crate::descriptor) fn retire_chunks(
        &self,
        recording: crate::lifetime::RecordingId,
        generation: Arc<Generation<D>>,
        chunks: Vec<Chunk>,
    ) {
        if chunks.is_empty() {
            // The recording took no chunks, so nothing is retired: the heap itself is retired when it is
            // replaced.
            locked(&self.lists).push(chunks);
            return;
        }
        generation.retiring(&chunks);
        self.retired.retire_with(recording, Retired::Chunks { generation, chunks });
    }

    /// Releases a slot of the library's own, which no recording can use. The caller has made sure of that.
    pub(in crate::descriptor) fn remove_own(&self, slot: DescriptorSlot) {
        if self.slots.remove(slot).is_ok() {
            self.own_slots.fetch_sub(1, Relaxed);
            self.clear(WriteTarget::Slot(slot.index()), 1);
            self.slots.make_reusable(&[slot.index()]);
        }
    }

    /// Makes the objects that the GPU has finished with reusable. Their resources are dropped after all of that,
    /// without a lock: a destructor may call the heap again, and one that panics loses nothing.
    pub(in crate::descriptor) fn reclaim(&self) -> Reclaimed {
        let mut kept = mem::take(&mut *locked(&self.kept));
        let mut batch = Batch::new(self);
        let reclaimed = self.retired.reclaim_here(|retired| batch.make_reusable(retired, &mut kept));
        drop(batch);
        kept.clear();
        // A later call may release more at once, when queues were late. A nested call from a destructor leaves
        // no room.
        if kept.capacity() > 0 {
            kept.reserve(self.retired.room());
        }
        // The allocation is reused, so that a steady program allocates nothing here.
        *locked(&self.kept) = kept;
        reclaimed
    }

    /// Makes a released object reusable, and returns what is to be dropped afterwards.
    pub(super) fn make_one_reusable(&self, retired: Retired<D>) -> Vec<Kept<D>> {
        let mut kept = Vec::new();
        Batch::new(self).make_reusable(retired, &mut kept);
        kept
    }

    #[inline(never)]
    fn make_other_reusable(&self, retired: Retired<D>) -> Option<Kept<D>> {
        match retired {
            Retired::Slot { .. } => unreachable!("a batch has the slots"),
            Retired::Table { entry, count } => {
                self.clear(WriteTarget::Table { entry, at: 0 }, count);
                self.tables.make_reusable(entry);
                None
            }
            Retired::Chunks { generation, mut chunks } => {
                generation.give_back(&chunks);
                chunks.clear();
                locked(&self.lists).push(chunks);
                Some(Kept::Generation { _it: generation })
            }
            Retired::Kept(kept) => Some(kept),
        }
    }
}

/// Slots that a batch makes reusable at once. More would save little, and keep a replacement of the heap waiting.
const BATCH: usize = 64;

/// Makes released objects reusable; slots several at once, so that each lock is taken once for all of them.
struct Batch<'a, D: DescriptorDevice> {
    shared: &'a Shared<D>,
    /// The heap, in which no slot is written or cleared while it is replaced. Locked only while there are `cleared` ones.
    live: Option<PresentGuard<'a, Live<D>>>,
    /// The first `count` are slots that were cleared and are not reusable yet.
    cleared: [u32; BATCH],
    count: usize,
}

impl<'a, D: DescriptorDevice> Batch<'a, D> {
    fn new(shared: &'a Shared<D>) -> Self {
        Self { shared, live: None, cleared: [0; BATCH], count: 0 }
    }

    /// Makes a released object reusable, at the end of the batch at the latest. Adds what is to be dropped after that.
    // Inlined, so that what is retired is not copied once more.
    #[inline(always)]
    fn make_reusable(&mut self, retired: Retired<D>, kept: &mut Vec<Kept<D>>) {
        match retired {
            Retired::Slot { index, keep } => {
                // If the device panics while it clears the slot, the resource is leaked, since the mirror may still
                // refer to it.
                let keep = mem::ManuallyDrop::new(keep);
                self.clear(index);
                if let Some(keep) = mem::ManuallyDrop::into_inner(keep) {
                    kept.push(Kept::KeepAlive { _it: keep });
                }
            }
            other => {
                // Tables and chunks have locks of their own, and tables lock the heap.
                self.finish();
                kept.extend(self.shared.make_other_reusable(other));
            }
        }
    }

    #[inline]
    fn clear(&mut self, index: u32) {
        let shared = self.shared;
        // Not in the batch meanwhile: where the device panics, the queue drops what else is ready before it drops the batch,
        // and a destructor may call the heap, or drop it.
        let live = self.live.take().unwrap_or_else(|| shared.read());
        if let Some(live) = &*live {
            shared.clear_in(live, WriteTarget::Slot(index), 1);
        }
        self.live = Some(live);
        self.cleared[self.count] = index;
        self.count += 1;
        if self.count == BATCH {
            self.finish();
        }
    }

    fn finish(&mut self) {
        self.live = None;
        let count = mem::take(&mut self.count);
        if count > 0 {
            self.shared.slots.make_reusable(&self.cleared[..count]);
        }
    }
}

impl<D: DescriptorDevice> Drop for Batch<'_, D> {
    /// Also where the device has panicked: the slots before that one are clear.
    fn drop(&mut self) {
        self.finish();
    }
}

/// Retires a value when it is dropped.
pub(super) struct RetireOnDrop<'a, T: Send + 'static> {
    pub(super) tracker: &'a SubmissionTracker,
    pub(super) what: Option<T>,
}

impl<T: Send + 'static> Drop for RetireOnDrop<'_, T> {
    fn drop(&mut self) {
        self.what.take().into_iter().for_each(|what| ReleaseQueue::new(self.tracker).retire(what));
    }
}
