//! A command recording, from its first command to its submission.

use core::error::Error;
use core::fmt;

use super::registry::{RecordingId, RecordingStatus};
use super::tracker::SubmissionTracker;
use crate::device::{QueueIndex, TimelinePoint, TimelineValue};

/// Commands being recorded, from the first command until they are submitted or dropped.
///
/// While a recording is open, no retired object is dropped: its commands may use any object that was alive when
/// they were recorded. An [explicit](SubmissionTracker::record_explicit) recording is exempt from this. A recording
/// may move between threads and stay open for many frames. Dropping it declares that its commands will never run. A
/// command list that is submitted repeatedly stays open, through [`submit_and_keep`](Self::submit_and_keep), until
/// it is reset.
///
/// ```
/// # use allotment::{device::{DeviceError, QueueIndex, TimelinePoint, TimelineValue}, lifetime::*};
/// # let timelines = ManualTimelines::new(2);
/// # let tracker = SubmissionTracker::new(timelines.clone())?;
/// let shadows = tracker.record("shadows");
/// let loader = std::thread::spawn(move || shadows); // recorded on another thread
/// let shadows = loader.join().expect("a thread that records");
/// assert_eq!(tracker.status(shadows.id()), RecordingStatus::Open);
/// drop(shadows); // its commands never run
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a recording that is dropped is discarded"]
pub struct Recording {
    tracker: SubmissionTracker,
    id: RecordingId,
    /// The point of its last submission.
    point: Option<TimelinePoint>,
    /// It was submitted and left open, or may have been.
    kept: bool,
    /// It delays only the objects that it keeps.
    explicit: bool,
    /// A submission is running. If it panics, the commands may or may not be on the queue.
    submitting: bool,
    /// Whoever closes it looks at orphans afterwards.
    leaves_orphans: bool,
}

/// A failed submission. It returns the recording as it was: submit it again, or drop it.
///
/// ```
/// # use allotment::{device::{DeviceError, QueueIndex, TimelinePoint, TimelineValue}, lifetime::*};
/// # let timelines = ManualTimelines::new(2);
/// # let tracker = SubmissionTracker::new(timelines.clone())?;
/// let recording = tracker.record("a frame");
/// let refused = recording.submit(QueueIndex(0), |_| Err::<TimelineValue, _>("out of memory"));
/// let NotSubmitted { recording, error } = refused.err().ok_or("refused")?;
/// println!("{error}: once more");
/// recording.submit(QueueIndex(0), |queue| Ok::<_, DeviceError>(timelines.submit(queue)))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct NotSubmitted<E> {
    /// The recording, still open.
    pub recording: Recording,
    /// The error of the closure that submits.
    pub error: E,
}

impl<E: fmt::Display> fmt::Display for NotSubmitted<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the recording was not submitted: {}", self.error)
    }
}

impl<E: Error + 'static> Error for NotSubmitted<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.error)
    }
}

impl Recording {
    pub(super) fn new(tracker: SubmissionTracker, id: RecordingId, explicit: bool) -> Self {
        Self { tracker, id, point: None, kept: false, explicit, submitting: false, leaves_orphans: false }
    }

    /// Returns whether it is [explicit](SubmissionTracker::record_explicit): objects that are retired while it is
    /// open do not wait for it.
    #[must_use]
    pub fn is_explicit(&self) -> bool {
        self.explicit
    }

    /// Returns the recording's id, for example for [`retire_with`](super::ReleaseQueue::retire_with).
    #[must_use]
    pub fn id(&self) -> RecordingId {
        self.id
    }

    /// Returns the tracker that opened it.
    #[must_use]
    pub fn tracker(&self) -> &SubmissionTracker {
        &self.tracker
    }

    /// Declares that the commands write to no relocatable resource. A
    /// [`Defragmenter`](crate::memory::Defragmenter) moves nothing while a recording is open that has not declared
    /// this: it would write to where a resource was, and the write would be lost.
    ///
    /// For recordings that stay open for long, such as a command list that is submitted in every frame.
    ///
    /// ```
    /// # use allotment::lifetime::*;
    /// # let timelines = ManualTimelines::new(2);
    /// # let tracker = SubmissionTracker::new(timelines.clone())?;
    /// let bundle = tracker.record("user interface").only_reads();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn only_reads(self) -> Self {
        self.tracker.note_only_reads(self.id);
        self
    }

    /// Makes its end run no destructor, and wait for nothing: for a recording that is closed while a lock is held. Without
    /// the lock, [`visit_orphans`](SubmissionTracker::visit_orphans) is called afterwards.
    pub(crate) fn leaving_orphans(mut self) -> Self {
        self.leaves_orphans = true;
        self
    }

    /// Submits the recording. `submit` receives the queue, submits the commands to it, and returns the timeline
    /// value that the queue signals when they have completed. No lock is held during the call.
    ///
    /// The closure makes one submission: an error means that no queue has received any of the commands.
    ///
    /// ```
    /// # use allotment::{device::{DeviceError, QueueIndex, TimelinePoint, TimelineValue}, lifetime::*};
    /// # let timelines = ManualTimelines::new(2);
    /// # let tracker = SubmissionTracker::new(timelines.clone())?;
    /// let recording = tracker.record("a frame");
    /// let queue = QueueIndex(0);
    /// let done = recording.submit(queue, |queue| Ok::<_, DeviceError>(timelines.submit(queue)))?;
    /// assert!(!tracker.is_reached(done));
    /// timelines.complete(queue, done.value); // a GPU does so by itself
    /// assert!(tracker.is_reached(done));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the error of `submit`, together with the recording, which is still open.
    pub fn submit<E>(
        mut self,
        queue: QueueIndex,
        submit: impl FnOnce(QueueIndex) -> Result<TimelineValue, E>,
    ) -> Result<TimelinePoint, NotSubmitted<E>> {
        match Self::submit_as_one(core::slice::from_mut(&mut self), queue, submit) {
            Ok(point) => {
                self.point = Some(point);
                Ok(point)
            }
            Err(error) => Err(NotSubmitted { recording: self, error }),
        }
    }

    /// Submits the recording and leaves it open, for commands that are submitted again later. Close it by dropping
    /// it, or with a last [`submit`](Self::submit).
    ///
    /// ```
    /// # use allotment::{device::{DeviceError, QueueIndex, TimelinePoint, TimelineValue}, lifetime::*};
    /// # let timelines = ManualTimelines::new(2);
    /// # let tracker = SubmissionTracker::new(timelines.clone())?;
    /// let mut bundle = tracker.record("a list that is submitted in every frame");
    /// for _frame in 0..3 {
    ///     bundle.submit_and_keep(QueueIndex(0), |queue| Ok::<_, DeviceError>(timelines.submit(queue)))?;
    /// }
    /// assert_eq!(tracker.statistics().open, 1);
    /// drop(bundle); // what it uses waits for the third submission
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the error of `submit`.
    pub fn submit_and_keep<E>(
        &mut self,
        queue: QueueIndex,
        submit: impl FnOnce(QueueIndex) -> Result<TimelineValue, E>,
    ) -> Result<TimelinePoint, E> {
        let point = Self::submit_as_one(core::slice::from_mut(self), queue, submit)?;
        self.kept = true;
        Ok(point)
    }

    /// Submits several recordings as one submission. They are removed from `recordings`, which keeps its capacity.
    ///
    /// ```
    /// # use allotment::{device::{DeviceError, QueueIndex, TimelinePoint, TimelineValue}, lifetime::*};
    /// # let timelines = ManualTimelines::new(2);
    /// # let tracker = SubmissionTracker::new(timelines.clone())?;
    /// let mut recordings = vec![tracker.record("shadows"), tracker.record("colors")];
    /// let done = Recording::submit_together(&mut recordings, QueueIndex(0), |queue| {
    ///     Ok::<_, DeviceError>(timelines.submit(queue))
    /// })?;
    /// assert_eq!((done.value, recordings.len()), (TimelineValue(1), 0), "one submission of both");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the error of `submit`; `recordings` is then unchanged.
    pub fn submit_together<E>(
        recordings: &mut Vec<Self>,
        queue: QueueIndex,
        submit: impl FnOnce(QueueIndex) -> Result<TimelineValue, E>,
    ) -> Result<TimelinePoint, E> {
        let point = Self::submit_as_one(recordings, queue, submit)?;
        recordings.iter_mut().for_each(|recording| recording.point = Some(point));
        recordings.clear();
        Ok(point)
    }

    fn submit_as_one<E>(
        recordings: &mut [Self],
        queue: QueueIndex,
        submit: impl FnOnce(QueueIndex) -> Result<TimelineValue, E>,
    ) -> Result<TimelinePoint, E> {
        // Marked before the call: if `submit` panics, `drop` sees that a queue may have the commands.
        for recording in recordings.iter_mut() {
            // A submission before this one panicked, and a queue may have received it: treat the recording as
            // submitted.
            recording.kept |= recording.submitting;
            recording.submitting = true;
        }
        let submitted = submit(queue);
        recordings.iter_mut().for_each(|recording| recording.submitting = false);
        submitted.map(|value| TimelinePoint { queue, value })
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let status = match self.point {
            // The safe assumption: a queue may have the commands, so everything tied to the recording waits for all
            // queues.
            _ if self.kept || self.submitting => RecordingStatus::Unknown,
            Some(point) => RecordingStatus::Submitted(point),
            None => RecordingStatus::Discarded,
        };
        self.tracker.close(self.id, status);
        if !self.leaves_orphans {
            self.tracker.visit_orphans();
        }
    }
}
