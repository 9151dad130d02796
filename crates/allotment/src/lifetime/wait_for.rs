//! The event that a refused request waits for.

use core::fmt;

use crate::device::TimelinePoint;

/// The event after which a request that failed for now will succeed.
///
/// ```
/// # use allotment::{device::{DeviceError, QueueIndex, TimelinePoint, TimelineValue}, lifetime::*};
/// # let timelines = ManualTimelines::new(2);
/// # let tracker = SubmissionTracker::new(timelines.clone())?;
/// let released = ReleaseQueue::new(&tracker);
/// let recording = tracker.record("a frame");
/// released.retire(7);
/// assert_eq!(released.wait_for(), Some(WaitFor::Submission), "the recording is open");
/// let point = recording.submit(QueueIndex(0), |queue| Ok::<_, DeviceError>(timelines.submit(queue)))?;
/// assert_eq!(released.wait_for(), Some(WaitFor::Point(point)));
/// # timelines.complete_all(QueueIndex(0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitFor {
    /// The device must reach this point; then a call to `reclaim` makes the resources available.
    ///
    /// It is the earliest point that helps: the request fails before. The resources released first become available
    /// then; a larger request, or one while several queues are busy, may fail again with another point.
    Point(TimelinePoint),
    /// No wait helps: an open recording holds the resources. Submit or discard it, along with open chunks of a
    /// ring.
    Submission,
    /// No wait helps: the device has completed the oldest frame, but a
    /// [`ReadbackTicket`](crate::upload::ReadbackTicket) holds its memory. Read its data, and drop the ticket.
    Tickets,
}

impl fmt::Display for WaitFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Point(TimelinePoint { queue, value }) => {
                write!(f, "wait until queue {} has reached {}", queue.0, value.0)
            }
            Self::Submission => f.write_str("submit or discard the open recordings first"),
            Self::Tickets => f.write_str("read the completed readbacks and drop their tickets"),
        }
    }
}
