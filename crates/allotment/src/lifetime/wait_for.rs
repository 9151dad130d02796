//! What a request that was refused for now waits for.

use core::fmt;

use crate::device::TimelinePoint;

/// What has to happen before a request that was refused for now succeeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitFor {
    /// The device has to reach this point, and what it is done with to be taken back: `reclaim`.
    ///
    /// It is the earliest point that helps: the request is refused before it is reached. What comes back then is
    /// what was given back first; a request for more, or one where several queues are busy, may be refused once
    /// more with another point.
    Point(TimelinePoint),
    /// No wait helps: what is being recorded holds the room. Submit or discard it, and what is left open of a
    /// ring or a recording.
    Submission,
    /// No wait helps: the device is done with the oldest frame, and a
    /// [`ReadbackTicket`](crate::upload::ReadbackTicket) holds it. Read what it is for, and drop it.
    Tickets,
}

impl fmt::Display for WaitFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Point(TimelinePoint { queue, value }) => {
                write!(f, "wait until queue {} has reached {}", queue.0, value.0)
            }
            Self::Submission => f.write_str("submit what was recorded first"),
            Self::Tickets => f.write_str("read what is there and drop its tickets"),
        }
    }
}
