//! Times at which nothing is recorded that may write to what a defragmenter moves.
//!
//! ```text
//!   quiet             no such recording is open: all writes to the old places are submitted; none is opened
//!     copies            wait for all of these, on every queue
//!     new handles       are in place, and the point is known that whoever uses them waits for
//!   quiet no more     what is recorded from here on has the new handles, and waits for the copies
//! ```
//!
//! A recording that could be opened before the copies are submitted, and submitted itself before their point is known,
//! would have no order with them: its write would go to the old place while a queue reads it there. So the submission of
//! the copies is one of the few calls of a driver that is made with a lock held, the one that opens recordings.
//!
//! The CPU copies the bytes of mapped buffers, which takes longer, and so looks twice instead:
//!
//! ```text
//!   quiet moment      no such recording is open, and all that were submitted have completed
//!   copies            by the CPU
//!   still quiet       none was opened since; none is opened until the new handle is in place
//! ```
//!
//! If one was opened in between, the copy is for nothing, and the buffer stays.

use std::sync::{PoisonError, RwLockWriteGuard};

use super::SubmissionTracker;
use crate::lifetime::{RecordingId, TimelinePoints};
use crate::sync::checked::locked;

/// A moment at which no recording was open that may write to relocatable resources.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QuietMoment {
    /// How many of them there were until then.
    ever_writing: u64,
    /// The latest submissions of them.
    written: TimelinePoints,
}

impl QuietMoment {
    /// Returns the points at which all writes to relocatable resources have completed.
    pub(crate) fn written(&self) -> &TimelinePoints {
        &self.written
    }
}

/// No recording is opened while this lives.
pub(crate) struct Quiet<'a> {
    _opening: RwLockWriteGuard<'a, ()>,
}

/// A pass that has found what to move, or is about to.
pub(crate) struct PassInProgress<'a> {
    tracker: &'a SubmissionTracker,
}

impl Drop for PassInProgress<'_> {
    fn drop(&mut self) {
        locked(&self.tracker.shared.registry).passes -= 1;
    }
}

impl SubmissionTracker {
    /// Keeps recordings from being opened, until the result is dropped; `None` while a recording is open that may write to
    /// relocatable resources.
    pub(crate) fn keep_quiet(&self) -> Option<Quiet<'_>> {
        let opening = self.shared.opening.write().unwrap_or_else(PoisonError::into_inner);
        // Under the lock, so that none is opened behind this look.
        let is_quiet = locked(&self.shared.registry).open_writing == 0;
        is_quiet.then_some(Quiet { _opening: opening })
    }

    /// Begins a pass, which lasts until the result is dropped; `None` while a recording is open that may write to
    /// relocatable resources. This first look costs little; the one of [`keep_quiet`](Self::keep_quiet) counts.
    pub(crate) fn begin_pass(&self) -> Option<PassInProgress<'_>> {
        let mut registry = locked(&self.shared.registry);
        if registry.open_writing != 0 {
            return None;
        }
        registry.passes += 1;
        Some(PassInProgress { tracker: self })
    }

    /// Waits until all passes are over that have begun: for a caller that keeps a recording open which may write. No other
    /// pass begins meanwhile, so none has a place reserved for anything when this returns.
    ///
    /// A pass waits for driver calls, for the locks of resources and for those of descriptor heaps: the caller holds none of
    /// these locks.
    pub(crate) fn wait_for_passes(&self) {
        // They are over soon, by themselves: at the latest when they see that recording.
        while locked(&self.shared.registry).passes != 0 {
            std::thread::yield_now();
        }
    }

    /// Returns this moment; `None` while a recording is open that may write to relocatable resources.
    pub(crate) fn quiet_moment(&self) -> Option<QuietMoment> {
        let registry = locked(&self.shared.registry);
        let (ever_writing, written) = (registry.ever_writing, registry.written);
        (registry.open_writing == 0).then_some(QuietMoment { ever_writing, written })
    }

    /// Keeps recordings from being opened; `None` where one was opened since the moment that may write to relocatable
    /// resources.
    pub(crate) fn still_quiet(&self, then: QuietMoment) -> Option<Quiet<'_>> {
        let opening = self.shared.opening.write().unwrap_or_else(PoisonError::into_inner);
        let now = locked(&self.shared.registry).ever_writing;
        (now == then.ever_writing).then_some(Quiet { _opening: opening })
    }

    pub(in crate::lifetime) fn note_only_reads(&self, id: RecordingId) {
        locked(&self.shared.registry).only_reads(id);
    }
}

#[cfg(test)]
#[cfg(not(allotment_loom))]
mod tests {
    use core::sync::atomic::{AtomicBool, Ordering};

    use crate::device::{DeviceError, QueueIndex};
    use crate::lifetime::{ManualTimelines, SubmissionTracker};

    #[test]
    fn a_recording_that_may_write_and_was_opened_since_a_quiet_moment_ends_it_also_when_it_is_over() {
        let timelines = ManualTimelines::new(1);
        let tracker = SubmissionTracker::new(timelines.clone()).unwrap();
        let moment = tracker.quiet_moment().unwrap();
        assert!(tracker.still_quiet(moment).is_some());
        let recording = tracker.record("writes");
        assert!(tracker.quiet_moment().is_none() && tracker.still_quiet(moment).is_none());
        recording.submit(QueueIndex(0), |queue| Ok::<_, DeviceError>(timelines.submit(queue))).unwrap();
        assert!(tracker.still_quiet(moment).is_none(), "what it wrote may have come after the copy");
        let moment = tracker.quiet_moment().unwrap();
        drop(tracker.record_explicit("writes as well"));
        assert!(tracker.still_quiet(moment).is_none());
    }

    #[test]
    fn a_recording_that_only_reads_ends_no_quiet_moment() {
        let tracker = SubmissionTracker::new(ManualTimelines::new(1)).unwrap();
        let long = tracker.record("a list that is submitted in every frame").only_reads();
        let moment = tracker.quiet_moment().unwrap();
        drop(tracker.record_explicit("reads").only_reads().only_reads());
        assert!(tracker.still_quiet(moment).is_some());
        drop(long);
        assert!(tracker.still_quiet(moment).is_some());
    }

    #[test]
    fn a_quiet_moment_has_the_last_submissions_of_recordings_that_may_write_and_of_no_others() {
        let timelines = ManualTimelines::new(2);
        let tracker = SubmissionTracker::new(timelines.clone()).unwrap();
        let written = || tracker.quiet_moment().unwrap().written().points().collect::<Vec<_>>();
        assert_eq!(written(), []);
        let submit = |queue| Ok::<_, DeviceError>(timelines.submit(queue));
        let first = tracker.record("writes").submit(QueueIndex(0), submit).unwrap();
        assert_eq!(written(), [first]);
        tracker.record("reads").only_reads().submit(QueueIndex(0), submit).unwrap();
        drop(tracker.record("discarded"));
        assert_eq!(written(), [first]);
        // Submitted several times, at points that the tracker does not remember: up to now, on any queue.
        let mut kept = tracker.record("a list that is submitted again");
        let then = kept.submit_and_keep(QueueIndex(1), submit).unwrap();
        assert!(tracker.quiet_moment().is_none());
        let last = tracker.record("reads").only_reads().submit(QueueIndex(0), submit).unwrap();
        drop(kept);
        assert_eq!(written(), [last, then]);
    }

    #[test]
    fn no_recording_is_opened_while_moved_resources_get_their_new_handles() {
        let tracker = SubmissionTracker::new(ManualTimelines::new(1)).unwrap();
        let replaced = AtomicBool::new(false);
        let quiet = tracker.still_quiet(tracker.quiet_moment().unwrap()).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let recording = tracker.record("takes the handles that are there");
                assert!(replaced.load(Ordering::Acquire));
                drop(recording);
            });
            // Time in which the thread could open it.
            std::thread::sleep(core::time::Duration::from_millis(20));
            replaced.store(true, Ordering::Release);
            drop(quiet);
        });
    }
}
