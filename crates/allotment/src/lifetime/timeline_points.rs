//! A wait list: points on the timelines of several queues.

use core::fmt;

use crate::device::{QueueIndex, TimelinePoint, TimelineValue};

/// One point on each queue's timeline, 0 for queues that need no wait. Stored inline; 128 bytes.
///
/// ```
/// # use allotment::{device::{DeviceError, QueueIndex, TimelinePoint, TimelineValue}, lifetime::*};
/// # let timelines = ManualTimelines::new(2);
/// # let tracker = SubmissionTracker::new(timelines.clone())?;
/// let at = |queue, value| TimelinePoint { queue: QueueIndex(queue), value: TimelineValue(value) };
/// let mut points = TimelinePoints::from_iter([at(0, 5), at(1, 2)]);
/// points.insert(at(0, 3)); // the queue passes 3 before 5
/// assert_eq!(points.points().count(), 2);
/// assert!(TimelinePoints::from(at(0, 4)).is_within(&points));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct TimelinePoints {
    values: [u64; Self::MAX_QUEUES],
}

impl TimelinePoints {
    /// The most queues that a [`SubmissionTracker`](super::SubmissionTracker) supports. Engines use three or four.
    pub const MAX_QUEUES: usize = 16;

    /// No points.
    pub const EMPTY: Self = Self { values: [0; Self::MAX_QUEUES] };

    /// A buffer for [`as_slice`](Self::as_slice).
    pub const ROOM: [TimelinePoint; Self::MAX_QUEUES] =
        [TimelinePoint { queue: QueueIndex(0), value: TimelineValue(0) }; Self::MAX_QUEUES];

    /// Adds a point. Of two points on one queue the later is kept. A point of a queue beyond [`MAX_QUEUES`](Self::MAX_QUEUES)
    /// is ignored: no [`SubmissionTracker`](super::SubmissionTracker) has such a queue.
    pub fn insert(&mut self, point: TimelinePoint) {
        if let Some(value) = self.values.get_mut(usize::from(point.queue.0)) {
            // A queue completes its submissions in order, so the later point implies the earlier one.
            *value = (*value).max(point.value.0);
        }
    }

    /// Returns the points above 0.
    pub fn points(&self) -> impl Iterator<Item = TimelinePoint> {
        self.values.iter().enumerate().filter(|(_, value)| **value > 0).map(|(queue, value)| TimelinePoint {
            // There are at most MAX_QUEUES.
            queue: QueueIndex(queue as u8),
            value: TimelineValue(*value),
        })
    }

    /// Returns the value on a queue's timeline, 0 if there is no point. `None` for a queue beyond
    /// [`MAX_QUEUES`](Self::MAX_QUEUES).
    pub(super) fn value(&self, queue: QueueIndex) -> Option<TimelineValue> {
        self.values.get(usize::from(queue.0)).copied().map(TimelineValue)
    }

    /// Returns a number that grows where any of the values does.
    pub(super) fn sum(&self) -> u64 {
        self.values.iter().fold(0, |sum, &value| sum.wrapping_add(value))
    }

    /// Returns the points as a slice in `room`, for the [waits](crate::device::Submission::waits) of a submission.
    /// Does not allocate.
    ///
    /// ```
    /// use allotment::device::{QueueIndex, TimelinePoint, TimelineValue};
    /// use allotment::lifetime::TimelinePoints;
    ///
    /// let there = TimelinePoints::from(TimelinePoint { queue: QueueIndex(2), value: TimelineValue(7) });
    /// let mut room = TimelinePoints::ROOM;
    /// let waits = there.as_slice(&mut room);
    /// assert_eq!((waits.len(), waits[0].value.0), (1, 7));
    /// ```
    pub fn as_slice<'a>(&self, room: &'a mut [TimelinePoint; Self::MAX_QUEUES]) -> &'a [TimelinePoint] {
        let mut count = 0;
        for (to, point) in room.iter_mut().zip(self.points()) {
            *to = point;
            count += 1;
        }
        &room[..count]
    }

    /// Returns true if there is no point to wait for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values == Self::EMPTY.values
    }

    /// Returns true if reaching `reached` implies reaching all these points: no queue's value is above that in
    /// `reached`.
    #[must_use]
    pub fn is_within(&self, reached: &Self) -> bool {
        self.values.iter().zip(&reached.values).all(|(value, reached)| value <= reached)
    }
}

impl From<TimelinePoint> for TimelinePoints {
    fn from(point: TimelinePoint) -> Self {
        Self::from_iter([point])
    }
}

impl FromIterator<TimelinePoint> for TimelinePoints {
    fn from_iter<I: IntoIterator<Item = TimelinePoint>>(points: I) -> Self {
        let mut set = Self::EMPTY;
        points.into_iter().for_each(|point| set.insert(point));
        set
    }
}

impl fmt::Debug for TimelinePoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.points().map(|point| (point.queue.0, point.value.0))).finish()
    }
}
