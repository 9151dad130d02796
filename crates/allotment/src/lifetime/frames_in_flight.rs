//! A limit on the number of frames in flight.

use core::num::NonZero;
use core::time::Duration;
use std::collections::VecDeque;
use std::time::Instant;

use super::timeline_points::TimelinePoints;
use super::tracker::SubmissionTracker;
use crate::device::DeviceError;

/// Initial capacity. Engines use two or three frames in flight; a larger limit grows the queue on demand.
const USUAL: usize = 8;

/// Limits how many frames the CPU may be ahead of the GPU.
///
/// A convenience: no other type of this module knows frames. A frame is everything that was submitted to any queue
/// between [`begin`](Self::begin) and [`end`](Self::end). A queue that received nothing in a frame is not waited
/// for, and no marker is submitted at the end.
///
/// ```
/// use core::{num::NonZero, time::Duration};
/// use allotment::device::QueueIndex;
/// use allotment::lifetime::{FramesInFlight, ManualTimelines, SubmissionTracker};
///
/// let timelines = ManualTimelines::new(1);
/// let tracker = SubmissionTracker::new(timelines.clone())?;
/// let mut frames = FramesInFlight::new(&tracker, NonZero::new(2).unwrap());
/// for frame in 0..10 {
///     frames.begin(Duration::from_secs(1))?;
///     let list = frames.slot(); // 0, 1, 0, 1, …: the resources of the frame before the last are free
///     timelines.submit(QueueIndex(0));
///     frames.end();
///     timelines.complete_all(QueueIndex(0));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FramesInFlight {
    tracker: SubmissionTracker,
    most: NonZero<usize>,
    /// The last submission of each frame in flight, oldest first.
    in_flight: VecDeque<TimelinePoints>,
    frame: u64,
}

impl FramesInFlight {
    /// Creates a limit of `most` frames in flight. Capacity grows with the frames in use: an unreached limit costs
    /// nothing.
    #[must_use]
    pub fn new(tracker: &SubmissionTracker, most: NonZero<usize>) -> Self {
        let in_flight = VecDeque::with_capacity(most.get().min(USUAL));
        Self { tracker: tracker.clone(), most, in_flight, frame: 0 }
    }

    /// Waits until another frame may be in flight, for at most `timeout`.
    ///
    /// # Errors
    ///
    /// [`DeviceError::TimedOut`] if the oldest frame does not complete in time: call this again before starting the
    /// frame. [`DeviceError::Lost`].
    pub fn begin(&mut self, timeout: Duration) -> Result<(), DeviceError> {
        let began = Instant::now();
        // Queues complete frames in order, so waiting for the oldest frame is enough.
        while self.in_flight.len() >= self.most.get() {
            let Some(oldest) = self.in_flight.front() else { break };
            let left = timeout.saturating_sub(began.elapsed());
            self.tracker.wait_all(oldest, left).map_err(|error| error.within(timeout))?;
            self.in_flight.pop_front();
        }
        Ok(())
    }

    /// Ends the frame: everything submitted so far belongs to it.
    pub fn end(&mut self) {
        // Read from the queues rather than collected from calls: submissions that bypass the tracker count, too.
        self.end_at(self.tracker.submitted());
    }

    /// Ends the frame: what was submitted up to these points belongs to it.
    pub(crate) fn end_at(&mut self, points: TimelinePoints) {
        self.in_flight.push_back(points);
        self.frame += 1;
    }

    /// Returns the points to wait for before another frame can begin; `None` if one can begin now. For a caller that
    /// waits by itself, with no lock held.
    pub(crate) fn oldest_to_wait_for(&self) -> Option<TimelinePoints> {
        if self.in_flight.len() >= self.most.get() { self.in_flight.front().copied() } else { None }
    }

    /// Forgets completed frames until another one can begin, or until it finds one that is not completed.
    pub(crate) fn forget_completed(&mut self) {
        while self.oldest_to_wait_for().is_some_and(|oldest| self.tracker.are_reached(&oldest)) {
            self.in_flight.pop_front();
        }
    }

    /// Returns the number of the current frame, from 0.
    #[must_use]
    pub fn frame(&self) -> u64 {
        self.frame
    }

    /// Returns the index of the per-frame resources that the current frame may use, from 0 to the limit − 1.
    #[must_use]
    pub fn slot(&self) -> usize {
        (self.frame % self.most.get() as u64) as usize
    }

    /// Returns the number of frames that were submitted and not yet waited for.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }
}
