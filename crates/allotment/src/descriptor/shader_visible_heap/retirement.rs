//! Retirement: slots, tables and chunks that were released, until the GPU has finished with them.

use core::mem;
use std::sync::Arc;

use super::Shared;
use super::mirror::WriteTarget;
use crate::descriptor::generation::{Chunk, Generation};
use crate::descriptor::slots::{DescriptorSlot, KeepAlive};
use crate::device::DescriptorDevice;
use crate::lifetime::{Reclaimed, ReleaseQueue, SubmissionTracker};
use crate::sync::locked;

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
        self.tables.retiring(count);
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

    /// Releases a slot that no recording can use. The caller has made sure of that.
    pub(in crate::descriptor) fn remove_unused(&self, slot: DescriptorSlot) {
        if self.slots.remove(slot).is_ok() {
            self.clear(WriteTarget::Slot(slot.index()), 1);
            self.slots.make_reusable(slot.index());
        }
    }

    pub(in crate::descriptor) fn reclaim(&self) -> Reclaimed {
        self.reclaim_by(|each| self.retired.reclaim_here(each))
    }

    /// Makes the objects that `reclaim` hands out reusable. Their resources are dropped after all of that,
    /// without a lock: a destructor may call the heap again, and one that panics loses nothing.
    fn reclaim_by<R>(&self, reclaim: impl FnOnce(&mut dyn FnMut(Retired<D>)) -> R) -> R {
        let mut kept = mem::take(&mut *locked(&self.kept));
        let reclaimed = reclaim(&mut |retired| kept.extend(self.make_reusable(retired)));
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
    pub(super) fn make_reusable(&self, retired: Retired<D>) -> Option<Kept<D>> {
        match retired {
            Retired::Slot { index, keep } => {
                // If the device panics in `clear`, the resource is leaked, since the mirror may still refer to
                // it.
                let keep = mem::ManuallyDrop::new(keep);
                self.clear(WriteTarget::Slot(index), 1);
                self.slots.make_reusable(index);
                mem::ManuallyDrop::into_inner(keep).map(|keep| Kept::KeepAlive { _it: keep })
            }
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
