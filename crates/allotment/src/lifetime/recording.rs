//! Commands that are being recorded.

use core::error::Error;
use core::fmt;

use super::registry::{RecordingId, RecordingStatus};
use super::tracker::SubmissionTracker;
use crate::device::{QueueIndex, TimelinePoint, TimelineValue};

/// Commands that somebody records, from the first until they are submitted or dropped.
///
/// As long as it is open, nothing that is retired is dropped (unless it is
/// [owning](SubmissionTracker::record_explicit)): the commands may use whatever was alive when they were
/// recorded. It may go from thread to thread and stay open for many frames. Dropping it says that its
/// commands will never run. A command list that is submitted again and again stays open, by
/// [`submit_and_keep`](Self::submit_and_keep), until it is reset.
#[derive(Debug)]
#[must_use = "a recording that is dropped is discarded"]
pub struct Recording {
    tracker: SubmissionTracker,
    id: RecordingId,
    /// What it was submitted as, for the last time.
    point: Option<TimelinePoint>,
    /// It was submitted and left open, or perhaps so.
    kept: bool,
    /// It holds back nothing but what it keeps.
    owning: bool,
    /// It is being submitted. Where that panics, nobody knows whether a queue has it.
    submitting: bool,
}

/// A submission failed, and the recording is as it was: submit it again, or drop it.
#[derive(Debug)]
pub struct Refused<E> {
    /// The recording, still open.
    pub recording: Recording,
    /// Why.
    pub error: E,
}

impl<E: fmt::Display> fmt::Display for Refused<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the recording was not submitted: {}", self.error)
    }
}

impl<E: Error + 'static> Error for Refused<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.error)
    }
}

impl Recording {
    pub(super) fn new(tracker: SubmissionTracker, id: RecordingId, owning: bool) -> Self {
        Self { tracker, id, point: None, kept: false, owning, submitting: false }
    }

    /// Whether it is [owning](SubmissionTracker::record_explicit): what is retired while it is open does not wait for it.
    #[must_use]
    pub fn is_owning(&self) -> bool {
        self.owning
    }

    /// The recording's name, for who keeps things [with it](super::ReleaseQueue::retire_with).
    #[must_use]
    pub fn id(&self) -> RecordingId {
        self.id
    }

    /// The tracker that it was opened by.
    #[must_use]
    pub fn tracker(&self) -> &SubmissionTracker {
        &self.tracker
    }

    /// Submits it: `submit` hands the commands to the queue, which it is told, and returns the value that the queue's
    /// timeline has when they are done. No lock is held meanwhile.
    ///
    /// It is one submission: what it fails with is taken to mean that no queue has anything of the recording.
    ///
    /// # Errors
    ///
    /// What `submit` fails with, and the recording, as open as before.
    pub fn submit<E>(
        mut self,
        queue: QueueIndex,
        submit: impl FnOnce(QueueIndex) -> Result<TimelineValue, E>,
    ) -> Result<TimelinePoint, Refused<E>> {
        match Self::submit_as_one(core::slice::from_mut(&mut self), queue, submit) {
            Ok(point) => {
                self.point = Some(point);
                Ok(point)
            }
            Err(error) => Err(Refused { recording: self, error }),
        }
    }

    /// Submits it and leaves it open, for commands that are submitted again later. Close it by dropping it, or
    /// by a last [`submit`](Self::submit).
    ///
    /// # Errors
    ///
    /// What `submit` fails with.
    pub fn submit_and_keep<E>(
        &mut self,
        queue: QueueIndex,
        submit: impl FnOnce(QueueIndex) -> Result<TimelineValue, E>,
    ) -> Result<TimelinePoint, E> {
        let point = Self::submit_as_one(core::slice::from_mut(self), queue, submit)?;
        self.kept = true;
        Ok(point)
    }

    /// Submits several recordings in one submission. They are taken out of `recordings`, whose room stays.
    ///
    /// # Errors
    ///
    /// What `submit` fails with; then `recordings` is as it was.
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
        for recording in recordings.iter_mut() {
            // A submission before this one panicked, and a queue may have it.
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
        let fate = match self.point {
            _ if self.kept || self.submitting => RecordingStatus::Unknown,
            Some(point) => RecordingStatus::Submitted(point),
            None => RecordingStatus::Discarded,
        };
        self.tracker.close(self.id, fate);
    }
}
