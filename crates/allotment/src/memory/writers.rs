//! Which uploader has copies to a resource on their way, what is being read, and which placed resources the CPU accesses.
//!
//! ```text
//!   a write begins ──► its last copy is submitted ──► handed over      of an exclusive resource, by a queue of another family
//!   └─────────────────────── marks ────────────────────────┘
//!   a write begins ──► its last copy is submitted                      of an image else
//!   └──────────────── marks ───────────┘
//! ```
//!
//! A copy names the state that an image is in, which is that after the copies that were staged before. So a second uploader
//! may not stage any meanwhile: it could submit first. A read names it as well. And what a queue has written of an exclusive
//! resource is undefined to all families but its own until it is handed over.
//!
//! A placed resource is marked as well while the CPU accesses its bytes, and for as long as a [`Transfer`](crate::memory::Transfer)
//! waits for a copy: what overlaps it is not activated meanwhile, and what does not is.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::memory::AllocationId;
use crate::sync::locked;

/// An uploader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WriterId(u32);

/// The uploaders of an allocator's resources.
#[derive(Debug, Default)]
pub(crate) struct Writers {
    last: AtomicU32,
    /// Those that are marked.
    marked: Mutex<HashMap<AllocationId, Marked>>,
    /// Notified when a read was submitted, and when the last access by the CPU is over.
    submitted: Condvar,
}

#[derive(Debug, Default)]
struct Marked {
    writer: WriterId,
    writes: u32,
    reads: u32,
    /// Accesses by the CPU, of a placed resource.
    accesses: u32,
}

/// Another uploader has copies to the resource on their way.
#[derive(Debug)]
pub(crate) struct OtherWriter;

/// Why a resource does not lose its bytes at this moment.
#[derive(Debug)]
pub(crate) enum Busy {
    /// An uploader writes it, or has copies to it on their way.
    Written(AllocationId),
    /// A copy out of it is being submitted, or the CPU accesses its bytes. That is soon over.
    Accessed(AllocationId),
}

impl Marked {
    /// Refuses what another uploader writes.
    fn of(&mut self, writer: WriterId) -> Result<&mut Self, OtherWriter> {
        if self.writes > 0 && self.writer != writer { Err(OtherWriter) } else { Ok(self) }
    }

    fn is_over(&self) -> bool {
        self.writes == 0 && self.reads == 0 && self.accesses == 0
    }
}

impl Writers {
    /// Returns a number for an uploader.
    pub(crate) fn new_writer(&self) -> WriterId {
        // Relaxed, since the number only has to be unique.
        WriterId(self.last.fetch_add(1, Relaxed))
    }

    /// Marks a resource as written by an uploader, once no copy out of it is being submitted: that takes as long as a call of
    /// the driver, and the caller holds no lock.
    pub(crate) fn write(
        self: &Arc<Self>,
        resource: AllocationId,
        by: WriterId,
    ) -> Result<WriteMark, OtherWriter> {
        let mut all = locked(&self.marked);
        while all.get(&resource).is_some_and(|marked| marked.reads > 0) {
            all = self.submitted.wait(all).unwrap_or_else(PoisonError::into_inner);
        }
        let marked = all.entry(resource).or_default().of(by)?;
        marked.writer = by;
        marked.writes += 1;
        drop(all);
        Ok(WriteMark { writers: Arc::clone(self), resource })
    }

    /// Marks a resource as read. `own` is the uploader whose copies are submitted, and which stages no more.
    pub(crate) fn read(
        self: &Arc<Self>,
        resource: AllocationId,
        own: WriterId,
    ) -> Result<ReadMark, OtherWriter> {
        let mut all = locked(&self.marked);
        all.entry(resource).or_default().of(own)?.reads += 1;
        drop(all);
        Ok(ReadMark { writers: Arc::clone(self), resource })
    }

    /// Marks a placed resource as accessed by the CPU. Waits for nothing: whether its bytes are its own is asked after this.
    pub(crate) fn access(&self, resource: AllocationId) -> AccessMark<'_> {
        locked(&self.marked).entry(resource).or_default().accesses += 1;
        AccessMark { writers: self, resource }
    }

    /// Calls `work` unless one of the resources is marked. None of them is marked meanwhile. `work` locks nothing but the states of
    /// an image, a lock under which no other is taken.
    pub(crate) fn while_unmarked<T>(
        &self,
        mut resources: impl Iterator<Item = AllocationId>,
        work: impl FnOnce() -> T,
    ) -> Result<T, Busy> {
        let all = locked(&self.marked);
        let busy = resources.find_map(|resource| match all.get(&resource)? {
            Marked { writes: 1.., .. } => Some(Busy::Written(resource)),
            Marked { .. } => Some(Busy::Accessed(resource)),
        });
        busy.map_or_else(|| Ok(work()), Err)
    }

    /// Waits until no copy out of a resource is being submitted, and the CPU does not access it. The caller holds no lock.
    pub(crate) fn wait_until_accessed(&self, resource: AllocationId) {
        let mut all = locked(&self.marked);
        while all.get(&resource).is_some_and(|marked| marked.reads > 0 || marked.accesses > 0) {
            all = self.submitted.wait(all).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn unmark(&self, resource: AllocationId, unmark: impl FnOnce(&mut Marked)) {
        let mut all = locked(&self.marked);
        if let Some(marked) = all.get_mut(&resource) {
            unmark(marked);
            if marked.is_over() {
                all.remove(&resource);
            }
        }
    }
}

/// While it lives, no other uploader stages copies to the resource, and no reads but those of the same `Gpu` are submitted.
pub(crate) struct WriteMark {
    writers: Arc<Writers>,
    resource: AllocationId,
}

impl WriteMark {
    pub(crate) fn resource(&self) -> AllocationId {
        self.resource
    }
}

impl Clone for WriteMark {
    fn clone(&self) -> Self {
        // Not by `write`, which waits: there is a mark.
        if let Some(marked) = locked(&self.writers.marked).get_mut(&self.resource) {
            marked.writes += 1;
        }
        Self { writers: Arc::clone(&self.writers), resource: self.resource }
    }
}

impl Drop for WriteMark {
    fn drop(&mut self) {
        self.writers.unmark(self.resource, |marked| marked.writes -= 1);
    }
}

/// While it lives, no other resource gets the bytes of the placed one.
pub(crate) struct AccessMark<'a> {
    writers: &'a Writers,
    resource: AllocationId,
}

impl Drop for AccessMark<'_> {
    fn drop(&mut self) {
        let mut left = 0;
        self.writers.unmark(self.resource, |marked| {
            marked.accesses -= 1;
            left = marked.accesses;
        });
        if left == 0 {
            self.writers.submitted.notify_all();
        }
    }
}

/// While it lives, no uploader stages copies to the resource.
pub(crate) struct ReadMark {
    writers: Arc<Writers>,
    resource: AllocationId,
}

impl Drop for ReadMark {
    fn drop(&mut self) {
        self.writers.unmark(self.resource, |marked| marked.reads -= 1);
        self.writers.submitted.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(record: u32) -> AllocationId {
        AllocationId { allocator: 0, pool: 0, record, generation: 0 }
    }

    #[test]
    fn a_resource_has_one_writer_until_its_last_mark_is_gone() {
        let writers = Arc::<Writers>::default();
        let [one, other] = [writers.new_writer(), writers.new_writer()];
        let first = writers.write(id(7), one).unwrap();
        let second = first.clone();
        assert!(writers.write(id(7), other).is_err());
        assert!(writers.read(id(7), other).is_err());
        drop(writers.write(id(8), other).unwrap());
        drop(first);
        assert!(writers.write(id(7), other).is_err());
        drop(second);
        drop(writers.write(id(7), other).unwrap());
        assert!(locked(&writers.marked).is_empty());
    }

    #[test]
    fn a_write_waits_for_a_read_that_is_being_submitted() {
        let writers = Arc::<Writers>::default();
        let one = writers.new_writer();
        let (kept, reading) = (writers.write(id(7), one).unwrap(), writers.read(id(7), one).unwrap());
        std::thread::scope(|scope| {
            let write = scope.spawn(|| writers.write(id(7), one).map(drop));
            assert!(!write.is_finished());
            // Copies that are on their way are none of its business.
            drop(kept.clone());
            drop(reading);
            write.join().unwrap().unwrap();
        });
        drop(kept);
        assert!(locked(&writers.marked).is_empty());
    }
}
