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
use core::time::Duration;
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
    /// Notified when a read was submitted, when the last access by the CPU is over, and when an activation no longer waits.
    submitted: Condvar,
    /// How many marks say that an activation waits. Changed under the lock; read without it by those that are in no hurry.
    wanted: AtomicU32,
}

/// The longest time for which an access waits for an activation that waits itself. It is not without an end, since what the
/// activation waits for may wait for this thread: a transfer for work of the GPU that this thread is about to submit, say. No test
/// depends on how late its threads are.
const LONGEST: Duration = Duration::from_secs(if cfg!(test) { 3600 } else { 1 });

#[derive(Debug, Default)]
struct Marked {
    writer: WriterId,
    writes: u32,
    reads: u32,
    /// Accesses by the CPU, of a placed resource.
    accesses: u32,
    /// Activations that wait until it is not read or accessed.
    wanted: u32,
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

    fn is_accessed(&self) -> bool {
        self.reads > 0 || self.accesses > 0
    }

    fn is_over(&self) -> bool {
        self.writes == 0 && !self.is_accessed() && self.wanted == 0
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

    /// Marks a placed resource as accessed by the CPU, after an activation that waits for those who do so already. Whether its bytes
    /// are its own is asked after this. The caller holds no lock and no other such mark.
    pub(crate) fn access(&self, resource: AllocationId) -> AccessMark<'_> {
        let mut all = locked(&self.marked);
        let is_wanted =
            |all: &mut HashMap<_, Marked>| all.get(&resource).is_some_and(|marked| marked.wanted > 0);
        if is_wanted(&mut all) {
            let waited = self.submitted.wait_timeout_while(all, LONGEST, is_wanted);
            all = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        all.entry(resource).or_default().accesses += 1;
        AccessMark { writers: self, resource }
    }

    /// Marks a placed resource as one whose accesses an activation waits for.
    pub(crate) fn want(&self, resource: AllocationId) -> WantMark<'_> {
        let mut all = locked(&self.marked);
        all.entry(resource).or_default().wanted += 1;
        self.wanted.fetch_add(1, Relaxed);
        WantMark { writers: self, resource }
    }

    /// Lets activations go first that wait, for a thread that is about to [read](Self::read) several resources: once it has begun, it
    /// waits for none of them. The caller holds no lock.
    pub(crate) fn let_activations_pass(&self) {
        // Relaxed: a read that comes with an activation may be submitted before it or after it.
        if self.wanted.load(Relaxed) > 0 {
            let is_wanted = |_: &mut HashMap<_, _>| self.wanted.load(Relaxed) > 0;
            drop(self.submitted.wait_timeout_while(locked(&self.marked), LONGEST, is_wanted));
        }
    }

    /// Calls `work` unless one of the resources is marked. None of them is marked meanwhile. `work` locks nothing but the states of
    /// an image, a lock under which no other is taken.
    pub(crate) fn while_unmarked<T>(
        &self,
        resources: impl Iterator<Item = AllocationId> + Clone,
        work: impl FnOnce() -> T,
    ) -> Result<T, Busy> {
        let all = locked(&self.marked);
        // What is written is refused, before anything is waited for.
        let first = |is: fn(&Marked) -> bool| resources.clone().find(|it| all.get(it).is_some_and(is));
        match (first(|marked| marked.writes > 0), first(Marked::is_accessed)) {
            (Some(written), _) => Err(Busy::Written(written)),
            (None, Some(accessed)) => Err(Busy::Accessed(accessed)),
            (None, None) => Ok(work()),
        }
    }

    /// Waits until no copy out of a resource is being submitted, and the CPU does not access it. The caller holds no lock.
    pub(crate) fn wait_until_accessed(&self, resource: AllocationId) {
        let mut all = locked(&self.marked);
        while all.get(&resource).is_some_and(Marked::is_accessed) {
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

/// While it lives, the CPU does not begin to access the placed resource.
pub(crate) struct WantMark<'a> {
    writers: &'a Writers,
    resource: AllocationId,
}

impl WantMark<'_> {
    pub(crate) fn resource(&self) -> AllocationId {
        self.resource
    }
}

impl Drop for WantMark<'_> {
    fn drop(&mut self) {
        self.writers.unmark(self.resource, |marked| {
            marked.wanted -= 1;
            self.writers.wanted.fetch_sub(1, Relaxed);
        });
        self.writers.submitted.notify_all();
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
    use core::sync::atomic::AtomicBool;

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

    #[test]
    fn what_is_written_is_refused_before_what_is_accessed_is_waited_for() {
        let writers = Arc::<Writers>::default();
        let (_accessed, written) =
            (writers.access(id(1)), writers.write(id(2), writers.new_writer()).unwrap());
        let all = [id(1), id(2), id(3)];
        let busy = writers.while_unmarked(all.into_iter(), || ()).unwrap_err();
        assert!(matches!(busy, Busy::Written(found) if found == id(2)), "{busy:?}");
        drop(written);
        let busy = writers.while_unmarked(all.into_iter(), || ()).unwrap_err();
        assert!(matches!(busy, Busy::Accessed(found) if found == id(1)), "{busy:?}");
    }

    #[test]
    fn an_access_that_begins_while_an_activation_waits_comes_after_it() {
        let writers = &Writers::default();
        let (first, [begins, is_done]) = (writers.access(id(7)), &[const { AtomicBool::new(false) }; 2]);
        std::thread::scope(|scope| {
            let wanted = writers.want(id(7));
            let accessing = scope.spawn(move || {
                begins.store(true, Relaxed);
                let _second = writers.access(id(7));
                assert!(is_done.load(Relaxed), "it would hold the activation back");
            });
            while !begins.load(Relaxed) {
                std::thread::yield_now();
            }
            // Of what no activation waits for.
            drop(writers.access(id(8)));
            // The activation waits for the first alone, though the second is there.
            drop(first);
            writers.wait_until_accessed(id(7));
            writers.while_unmarked([id(7)].into_iter(), || is_done.store(true, Relaxed)).unwrap();
            drop(wanted);
            accessing.join().unwrap();
        });
        assert!(locked(&writers.marked).is_empty());
        assert_eq!(writers.wanted.load(Relaxed), 0);
    }
}
