//! At most so many frames in flight.

use core::num::NonZero;
use core::time::Duration;
use std::collections::VecDeque;

use super::timeline_points::TimelinePoints;
use super::tracker::SubmissionTracker;
use crate::device::DeviceError;

/// Frames that there is room for at first. Nobody wants more; who asks for more gets the room when it is needed.
const USUAL: usize = 8;

/// Lets the CPU get ahead of the GPU by so many frames and no more.
///
/// A convenience: nothing else here knows of frames. A frame is what all queues are given between
/// [`begin`](Self::begin) and [`end`](Self::end); one in which a queue is given nothing does not wait for that
/// queue, and nothing is submitted to mark an end.
///
/// ```
/// use core::{num::NonZero, time::Duration};
/// use allotment::device::QueueIndex;
/// use allotment::lifetime::{FramesInFlight, ManualTimelines, SubmissionTracker};
///
/// let timelines = ManualTimelines::new(1);
/// let tracker = SubmissionTracker::new(timelines.clone())?;
/// let mut pacer = FramesInFlight::new(&tracker, NonZero::new(2).unwrap());
/// for frame in 0..10 {
///     pacer.begin(Duration::from_secs(1))?;
///     let list = pacer.slot(); // 0, 1, 0, 1, …: what the frame before the last used is free
///     timelines.submit(QueueIndex(0));
///     pacer.end();
///     timelines.complete_all(QueueIndex(0));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FramesInFlight {
    tracker: SubmissionTracker,
    most: NonZero<usize>,
    /// What the frames in flight are done with, oldest first.
    in_flight: VecDeque<TimelinePoints>,
    frame: u64,
}

impl FramesInFlight {
    /// At most `most` frames in flight. Room is made for those that there are: a bound that is never met costs nothing.
    #[must_use]
    pub fn new(tracker: &SubmissionTracker, most: NonZero<usize>) -> Self {
        let in_flight = VecDeque::with_capacity(most.get().min(USUAL));
        Self { tracker: tracker.clone(), most, in_flight, frame: 0 }
    }

    /// Waits until one more frame may be in flight, at most for `timeout`.
    ///
    /// # Errors
    ///
    /// [`DeviceError::TimedOut`] where the time is up first: there is no room for a frame, and this is to be called again.
    /// [`DeviceError::Lost`].
    pub fn begin(&mut self, timeout: Duration) -> Result<(), DeviceError> {
        while self.in_flight.len() >= self.most.get() {
            let Some(oldest) = self.in_flight.front() else { break };
            self.tracker.wait_all(oldest, timeout)?;
            self.in_flight.pop_front();
        }
        Ok(())
    }

    /// Says that the frame was submitted, whatever it consists of.
    pub fn end(&mut self) {
        self.in_flight.push_back(self.tracker.submitted());
        self.frame += 1;
    }

    /// Returns what has to be completed before another frame can begin; `None` where one can begin now. For a caller
    /// that waits by itself, with no lock held.
    pub(crate) fn oldest_to_wait_for(&self) -> Option<TimelinePoints> {
        if self.in_flight.len() >= self.most.get() { self.in_flight.front().copied() } else { None }
    }

    /// Forgets completed frames until another one can begin, or until one is found that is not completed.
    pub(crate) fn forget_completed(&mut self) {
        while self.oldest_to_wait_for().is_some_and(|oldest| self.tracker.are_reached(&oldest)) {
            self.in_flight.pop_front();
        }
    }

    /// The number of the frame that is made now, from 0.
    #[must_use]
    pub fn frame(&self) -> u64 {
        self.frame
    }

    /// Which of as many sets of resources as frames can be in flight the frame may use.
    #[must_use]
    pub fn slot(&self) -> usize {
        (self.frame % self.most.get() as u64) as usize
    }

    /// Frames that were submitted and not waited for.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }
}
