//! Draining a release queue: waiting until all its items are released, and what they wait for meanwhile.

use core::time::Duration;
use std::time::Instant;

use super::ReleaseQueue;
use crate::device::{DeviceError, TimelinePoint};
use crate::lifetime::registry::RecordingStatus;
use crate::lifetime::shard::Tie;
use crate::lifetime::statistics::ReleaseStatistics;
use crate::lifetime::timeline_points::TimelinePoints;
use crate::lifetime::wait_for::WaitFor;
use crate::sync::checked::locked;

impl<T: Send + 'static> ReleaseQueue<T> {
    /// Waits until every item is passed to `each`, including items that are retired here meanwhile. Gives up after
    /// `timeout`, or when the remaining items wait for an open recording. Returns the remaining items.
    pub fn drain(&self, timeout: Duration, mut each: impl FnMut(T)) -> ReleaseStatistics {
        let began = Instant::now();
        let mut checked_twice = false;
        loop {
            let came = self.reclaim_here(&mut each).count > 0;
            let left = self.statistics();
            let rest = timeout.saturating_sub(began.elapsed());
            if left.pending == 0 || rest.is_zero() {
                return left;
            }
            if came {
                // `each` may have retired further items.
                checked_twice = false;
                continue;
            }
            let points = self.awaited();
            if points.is_empty() {
                // Recordings hold the rest, or no queue will ever release it; unless the last recording was closed
                // since the look.
                if checked_twice || !self.tracker.nothing_is_open() {
                    return left;
                }
                checked_twice = true;
            } else {
                // All points at once: waiting for the first alone would poll once per run.
                match self.tracker.wait_all(&points, rest) {
                    // The next reclaim finds out.
                    Ok(()) | Err(DeviceError::Lost) => {}
                    Err(_) => return left,
                }
            }
        }
    }

    /// Returns what must happen before the first pending item is released: a point, or the close of recordings.
    /// `None` if nothing is pending, or if a [`reclaim`](Self::reclaim) would release an item now.
    #[must_use]
    pub fn wait_for(&self) -> Option<WaitFor> {
        self.seal();
        let sealed = locked(&self.sealed);
        // Whether an item waits for a recording, and whether an item waits for nothing.
        let mut open = self.shards.each().any(|shard| !shard.is_empty());
        let mut ready = false;
        let mut first: Option<TimelinePoint> = None;
        let mut add = |points: &mut dyn Iterator<Item = TimelinePoint>| {
            let mut reached = true;
            // Only one point is returned: the lowest of the queue of the first item, since points of different
            // queues cannot be compared.
            for point in points.filter(|&point| !self.tracker.is_reached(point)) {
                reached = false;
                if first.is_none_or(|first| point.queue == first.queue && point.value < first.value) {
                    first = Some(point);
                }
            }
            ready |= reached;
        };
        if let Some(run) = sealed.runs.front() {
            // The first run has the lowest points; later runs cannot be ready earlier.
            add(&mut run.mark.points());
        }
        let waiting = sealed.waiting.recordings().map(Tie::Recording);
        for tie in sealed.tied.iter().map(|tied| tied.tie).chain(waiting) {
            match tie {
                Tie::Point(point) => add(&mut core::iter::once(point)),
                Tie::Recording(recording) => match self.tracker.status(recording) {
                    RecordingStatus::Submitted(point) => add(&mut core::iter::once(point)),
                    RecordingStatus::Open | RecordingStatus::WrongTracker => open = true,
                    // The next reclaim releases them, or finds the points that they wait for.
                    RecordingStatus::Discarded | RecordingStatus::Unknown => add(&mut core::iter::empty()),
                },
            }
        }
        open |= sealed.waiting.has_for_good();
        // Of each queue the lowest point: the others cannot be reached earlier.
        sealed.waiting.lowest().for_each(|point| add(&mut core::iter::once(point)));
        match first {
            // An item that is ready makes any wait superfluous.
            _ if ready => None,
            Some(point) => Some(WaitFor::Point(point)),
            None => open.then_some(WaitFor::Submission),
        }
    }

    /// Returns the points that sealed and tied items wait for.
    fn awaited(&self) -> TimelinePoints {
        let sealed = locked(&self.sealed);
        let mut points: TimelinePoints = sealed.runs.iter().flat_map(|run| run.mark.points()).collect();
        // A later point of a queue implies the earlier ones.
        sealed.waiting.highest().for_each(|point| points.insert(point));
        for tied in &sealed.tied {
            if let Tie::Point(point) = tied.tie {
                points.insert(point);
            }
        }
        points
    }
}
