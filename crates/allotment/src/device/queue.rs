//! Work for a queue, and how far it is.

use core::fmt;

use super::Device;
#[cfg(any(feature = "vulkan", all(feature = "d3d12", windows)))]
use super::DeviceError;

/// Which queue; an index into [`DeviceProperties::queues`](super::DeviceProperties::queues).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueIndex(pub u8);

/// A point on a queue's timeline. 0 is reached before anything is submitted; each submission's value is
/// one more than that of the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimelineValue(pub u64);

/// A point on the timeline of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimelinePoint {
    /// The queue.
    pub queue: QueueIndex,
    /// The point.
    pub value: TimelineValue,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Wait {
    /// The point was reached.
    Reached,
    /// The time was up first.
    TimedOut,
}

/// Bytes to copy from one buffer to another. They may be the same buffer where the ranges do not overlap.
pub struct BufferCopy<'a, D: Device> {
    /// Where to read.
    pub from: &'a D::Buffer,
    /// From which byte.
    pub from_offset: u64,
    /// Where to write.
    pub to: &'a D::Buffer,
    /// From which byte.
    pub to_offset: u64,
    /// How many bytes.
    pub size: u64,
}

impl<D: Device> fmt::Debug for BufferCopy<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferCopy")
            .field("from", &self.from)
            .field("from_offset", &self.from_offset)
            .field("to", &self.to)
            .field("to_offset", &self.to_offset)
            .field("size", &self.size)
            .finish()
    }
}

/// Work for a queue.
pub struct Submission<'a, D: Device> {
    /// Points that must be reached first.
    pub waits: &'a [TimelinePoint],
    /// What to copy then. The copies of one submission run in any order.
    pub copies: &'a [BufferCopy<'a, D>],
}

#[cfg(any(feature = "vulkan", all(feature = "d3d12", windows)))]
impl<D: Device> Submission<'_, D> {
    /// Refuses waits for one of the device's `queues` that does not exist, and for what would wait for itself:
    /// the point `next` of `queue`, which this becomes, and what comes after it.
    pub(super) fn check(&self, queue: QueueIndex, next: u64, queues: usize) -> Result<(), DeviceError> {
        let possible = |point: &TimelinePoint| {
            usize::from(point.queue.0) < queues && !(point.queue == queue && point.value.0 >= next)
        };
        if self.waits.iter().all(possible) { Ok(()) } else { Err(DeviceError::Unsupported) }
    }

    /// True where there are bytes to copy.
    pub(super) fn has_copies(&self) -> bool {
        self.copies.iter().any(|copy| copy.size > 0)
    }
}

impl<D: Device> fmt::Debug for Submission<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Submission").field("waits", &self.waits).field("copies", &self.copies).finish()
    }
}
