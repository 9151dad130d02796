//! How far the queues are: what was submitted to each, what each was seen to have completed, and waiting for it.

use core::sync::atomic::Ordering::{AcqRel, Acquire};
use core::time::Duration;
use std::time::Instant;

use super::SubmissionTracker;
use crate::device::{DeviceError, QueueIndex, TimelinePoint, TimelineValue};
use crate::lifetime::orphan::Patience;
use crate::lifetime::timeline_points::TimelinePoints;
use crate::lifetime::timelines::Timeline;
use crate::lifetime::tracker::rule_is_off;
use crate::log::event;
use crate::sync::checked::AtomicU64;

impl SubmissionTracker {
    /// Returns the points of the last submission to each queue.
    #[must_use]
    pub fn submitted(&self) -> TimelinePoints {
        if rule_is_off("completion") {
            return TimelinePoints::EMPTY;
        }
        self.queues().map(|queue| self.submitted_point(queue)).collect()
    }

    pub(in crate::lifetime) fn queue_count(&self) -> usize {
        self.shared.queues
    }

    fn queues(&self) -> impl Iterator<Item = QueueIndex> + use<> {
        // There are at most MAX_QUEUES.
        (0..self.shared.queues as u8).map(QueueIndex)
    }

    fn submitted_point(&self, queue: QueueIndex) -> TimelinePoint {
        TimelinePoint { queue, value: self.shared.timelines.submitted(queue) }
    }

    /// Updates the progress of all queues with work in flight. One driver call for each of them; none if nothing is
    /// in flight.
    ///
    /// Then drops the objects of queues that were dropped earlier, if recordings and the GPU have finished with
    /// them.
    pub fn poll(&self) {
        self.poll_in_flight();
        self.reclaim_orphans(Patience::None);
    }

    /// Like [`poll`](Self::poll), without the orphans.
    pub(in crate::lifetime) fn poll_in_flight(&self) {
        self.read_clock();
        for queue in self.queues() {
            if self.last_completed(queue) < self.submitted_point(queue).value.0 {
                self.poll_queue(queue);
                // A driver call takes longer than two loads: skip queues that have nothing left to complete.
            }
        }
    }

    /// Like `poll_in_flight`, including queues without work in flight.
    fn poll_all(&self) {
        self.read_clock();
        self.queues().for_each(|queue| {
            self.poll_queue(queue);
        });
    }

    /// Returns true if the point was not submitted yet.
    pub(in crate::lifetime) fn is_ahead(&self, point: TimelinePoint) -> bool {
        self.submitted_point(point.queue).value < point.value
    }

    /// Returns the points that queues were last seen to have completed.
    pub(in crate::lifetime) fn completed(&self) -> TimelinePoints {
        self.queues()
            .map(|queue| TimelinePoint { queue, value: TimelineValue(self.last_completed(queue)) })
            .collect()
    }

    /// Returns true if a queue was not yet seen to have completed everything submitted to it.
    pub(in crate::lifetime) fn is_in_flight(&self) -> bool {
        !self.is_lost() && !self.submitted().is_within(&self.completed())
    }

    /// Returns the value that a queue was last seen to have completed.
    fn last_completed(&self, queue: QueueIndex) -> u64 {
        self.shared.completed.get(usize::from(queue.0)).map_or(0, |value| value.load(Acquire))
    }

    fn poll_queue(&self, queue: QueueIndex) -> u64 {
        let Some(seen) = self.shared.completed.get(usize::from(queue.0)) else { return 0 };
        match self.shared.timelines.completed(queue) {
            Ok(TimelineValue(value)) => raise(seen, value),
            Err(DeviceError::Lost) => {
                // The cached value stays as it is: `reached` checks `lost` first, and statistics keep the last
                // known point.
                self.note_loss();
                u64::MAX
            }
            // The progress is unknown, so nothing more counts as completed.
            Err(_) => seen.load(Acquire),
        }
    }

    /// Updates the progress of the queues, and returns it. `ahead`: an item waits for a point that was not
    /// submitted yet, so queues without work in flight are polled, too.
    pub(in crate::lifetime) fn poll_progress(&self, ahead: bool) -> Reached {
        if ahead {
            self.poll_all();
        } else {
            self.poll_in_flight();
        }
        self.reached()
    }

    /// Returns the last known progress: everything, if the device is lost.
    fn reached(&self) -> Reached {
        if self.is_lost() {
            return Reached::Everything;
        }
        Reached::Up(self.completed())
    }

    /// Returns whether the queue has completed everything up to a point. True on a lost device, where nothing runs.
    #[must_use]
    pub fn is_reached(&self, point: TimelinePoint) -> bool {
        // The cached value first: a driver call is needed only if it does not suffice.
        self.is_lost()
            || self.last_completed(point.queue) >= point.value.0
            || self.poll_queue(point.queue) >= point.value.0
    }

    /// Returns whether all queues have completed everything up to these points; see
    /// [`is_reached`](Self::is_reached).
    #[must_use]
    pub fn are_reached(&self, points: &TimelinePoints) -> bool {
        points.points().all(|point| self.is_reached(point))
    }

    fn note_loss(&self) {
        if !self.shared.lost.swap(true, AcqRel) {
            event!(WARN, "lifetime", "the device is lost");
        }
    }

    /// Returns whether the device was found to be lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.shared.lost.load(Acquire)
    }

    /// Returns the timeline of a queue. Calls the driver.
    #[must_use]
    pub fn timeline(&self, queue: QueueIndex) -> Timeline {
        let submitted = self.shared.timelines.submitted(queue);
        self.poll_queue(queue);
        Timeline { submitted, completed: TimelineValue(self.last_completed(queue)), lost: self.is_lost() }
    }

    /// Waits for a point for at most `timeout`.
    ///
    /// # Errors
    ///
    /// [`DeviceError::TimedOut`] if the point is not reached in time; [`DeviceError::Lost`] if it will never be
    /// reached: then nothing is in flight either.
    pub fn wait(&self, point: TimelinePoint, timeout: Duration) -> Result<(), DeviceError> {
        if self.is_lost() {
            return Err(DeviceError::Lost);
        }
        if self.last_completed(point.queue) >= point.value.0 {
            return Ok(());
        }
        let waited = self.shared.timelines.wait(point, timeout);
        match waited {
            Ok(()) => {
                // The wait has shown that the point is reached: remember it, and save the next poll a driver call.
                if let Some(seen) = self.shared.completed.get(usize::from(point.queue.0)) {
                    raise(seen, point.value.0);
                }
            }
            Err(DeviceError::Lost) => self.note_loss(),
            Err(_) => {}
        }
        waited
    }

    /// Waits for several points for at most `timeout` in total.
    ///
    /// # Errors
    ///
    /// As for [`wait`](Self::wait).
    pub fn wait_all(&self, points: &TimelinePoints, timeout: Duration) -> Result<(), DeviceError> {
        let began = Instant::now();
        // One after the other is enough: the total time is that of the slowest queue.
        for point in points.points() {
            let waited = self.wait(point, timeout.saturating_sub(began.elapsed()));
            // Report the caller's timeout; the rest of it that was left for the last point says little.
            waited.map_err(|error| error.within(timeout))?;
        }
        Ok(())
    }

    /// Waits for everything that was submitted by now.
    ///
    /// # Errors
    ///
    /// As for [`wait`](Self::wait).
    pub fn wait_idle(&self, timeout: Duration) -> Result<(), DeviceError> {
        self.wait_all(&self.submitted(), timeout)
    }
}

/// Raises the value that a queue was seen to have completed. Returns the current value, which other threads may
/// have raised further; the caller then sees everything that the queue wrote up to it. Not `fetch_max`, which
/// `ThreadSanitizer` does not know.
fn raise(seen: &AtomicU64, value: u64) -> u64 {
    let mut now = seen.load(Acquire);
    while now < value {
        match seen.compare_exchange(now, value, AcqRel, Acquire) {
            Ok(_) => return value,
            Err(others) => now = others,
        }
    }
    now
}

/// The progress of all queues.
pub(in crate::lifetime) enum Reached {
    Up(TimelinePoints),
    /// The device is lost.
    Everything,
}

impl Reached {
    /// Returns whether a point is reached. A point of a queue that does not exist is never reached.
    pub(in crate::lifetime) fn covers_point(&self, point: TimelinePoint) -> bool {
        match self {
            Self::Up(reached) => reached.value(point.queue).is_some_and(|value| value >= point.value),
            Self::Everything => true,
        }
    }

    pub(in crate::lifetime) fn covers(&self, points: &TimelinePoints) -> bool {
        match self {
            Self::Up(reached) => points.is_within(reached),
            Self::Everything => true,
        }
    }
}
