//! What was given back, until the GPU is done with it.

use core::mem;
use std::sync::Arc;

use super::Shared;
use super::mirror::Spot;
use crate::descriptor::generation::{Chunk, Generation};
use crate::descriptor::slots::{DescriptorSlot, KeepAlive};
use crate::device::DescriptorDevice;
use crate::lifetime::{Reclaimed, ReleaseQueue, SubmissionTracker};
use crate::sync::locked;

/// What was given back.
pub(super) enum Gone<D: DescriptorDevice> {
    Slot { index: u32, keep: Option<KeepAlive> },
    Table { entry: u32, count: u32 },
    Chunks { generation: Arc<Generation<D>>, chunks: Vec<Chunk> },
    Kept(Kept<D>),
}

/// What lived as long as something that was given back.
pub(super) enum Kept<D: DescriptorDevice> {
    Generation { _it: Arc<Generation<D>> },
    KeepAlive { _it: KeepAlive },
    Keeps { _them: Vec<KeepAlive> },
}

impl<D: DescriptorDevice> Shared<D> {
    pub(in crate::descriptor) fn retire_table(&self, entry: u32, count: u32) {
        self.tables.retiring(count);
        self.retired.retire(Gone::Table { entry, count });
    }

    pub(in crate::descriptor) fn retire_keeps(&self, keeps: Vec<KeepAlive>) {
        if !keeps.is_empty() {
            self.retired.retire(Gone::Kept(Kept::Keeps { _them: keeps }));
        }
    }

    pub(in crate::descriptor) fn retire_keep(&self, keep: KeepAlive) {
        self.retired.retire(Gone::Kept(Kept::KeepAlive { _it: keep }));
    }

    /// Chunks of a recording that is over for who had them: they go when it is.
    pub(in crate::descriptor) fn retire_chunks(
        &self,
        recording: crate::lifetime::RecordingId,
        generation: Arc<Generation<D>>,
        chunks: Vec<Chunk>,
    ) {
        if chunks.is_empty() {
            // It took none, so there is nothing to wait with: the heap itself is retired when it is replaced.
            locked(&self.lists).push(chunks);
            return;
        }
        generation.retiring(&chunks);
        self.retired.retire_with(recording, Gone::Chunks { generation, chunks });
    }

    /// Gives a slot back that no recording can use, by whoever has seen to that.
    pub(in crate::descriptor) fn remove_unused(&self, slot: DescriptorSlot) {
        if self.slots.remove(slot).is_ok() {
            self.clear(Spot::Slot(slot.index()), 1);
            self.slots.come_back(slot.index());
        }
    }

    pub(in crate::descriptor) fn reclaim(&self) -> Reclaimed {
        self.come_back_by(|each| self.retired.reclaim_here(each))
    }

    /// Takes back what `reclaim` hands out. What it kept goes after all of it is back, with no lock held: a destructor
    /// may come back to the heap, and one that panics loses nothing.
    fn come_back_by<R>(&self, reclaim: impl FnOnce(&mut dyn FnMut(Gone<D>)) -> R) -> R {
        let mut kept = mem::take(&mut *locked(&self.kept));
        let reclaimed = reclaim(&mut |gone| kept.extend(self.come_back(gone)));
        kept.clear();
        // More may come back at once some day, when queues were late. A destructor that came back here has no room.
        if kept.capacity() > 0 {
            kept.reserve(self.retired.room());
        }
        // The room is used again.
        *locked(&self.kept) = kept;
        reclaimed
    }

    /// Takes something back, and returns what goes with it.
    pub(super) fn come_back(&self, gone: Gone<D>) -> Option<Kept<D>> {
        match gone {
            Gone::Slot { index, keep } => {
                // Should the device panic, the resource stays for ever, since the mirror may still name it.
                let keep = mem::ManuallyDrop::new(keep);
                self.clear(Spot::Slot(index), 1);
                self.slots.come_back(index);
                mem::ManuallyDrop::into_inner(keep).map(|keep| Kept::KeepAlive { _it: keep })
            }
            Gone::Table { entry, count } => {
                self.clear(Spot::Table { entry, at: 0 }, count);
                self.tables.come_back(entry);
                None
            }
            Gone::Chunks { generation, mut chunks } => {
                generation.give_back(&chunks);
                chunks.clear();
                locked(&self.lists).push(chunks);
                Some(Kept::Generation { _it: generation })
            }
            Gone::Kept(kept) => Some(kept),
        }
    }
}

/// Retires something when it is dropped.
pub(super) struct Last<'a, T: Send + 'static> {
    pub(super) tracker: &'a SubmissionTracker,
    pub(super) what: Option<T>,
}

impl<T: Send + 'static> Drop for Last<'_, T> {
    fn drop(&mut self) {
        self.what.take().into_iter().for_each(|what| ReleaseQueue::new(self.tracker).retire(what));
    }
}
