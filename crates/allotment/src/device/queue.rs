//! Work for a queue, and how far it is.

use core::fmt;

#[cfg(any(feature = "vulkan", all(feature = "d3d12", windows)))]
use super::DeviceError;
use super::{BufferCopy, Device, FullImageCopy, ImageCopy};

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

/// Work for a queue.
///
/// ```
/// use allotment::device::simulated::SimulatedGpu;
/// use allotment::device::{QueueIndex, Submission, TimelinePoint, TimelineValue};
///
/// let waits = [TimelinePoint { queue: QueueIndex(1), value: TimelineValue(7) }];
/// let submission: Submission<'_, SimulatedGpu> = Submission { waits: &waits, ..Submission::default() };
/// assert!(submission.copies.is_empty() && submission.image_copies.is_empty());
/// ```
pub struct Submission<'a, D: Device> {
    /// Points that must be reached first.
    pub waits: &'a [TimelinePoint],
    /// What to copy then between buffers. The copies of one submission run in any order.
    pub copies: &'a [BufferCopy<'a, D>],
    /// What to copy then between buffers and images. Those of the same subresource run in the order given,
    /// each with the state that the one before left it in; all others, and those between buffers, run in any
    /// order.
    pub image_copies: &'a [ImageCopy<'a, D>],
    /// Which images to copy then as a whole, in any order.
    pub full_images: &'a [FullImageCopy<'a, D>],
}

impl<D: Device> Default for Submission<'_, D> {
    /// Nothing to wait for and nothing to do.
    fn default() -> Self {
        Self { waits: &[], copies: &[], image_copies: &[], full_images: &[] }
    }
}

/// Refuses waits for one of the device's `queues` that does not exist, and for what would wait for itself:
/// the point `next` of `queue`, which this becomes, and what comes after it.
#[cfg(any(feature = "vulkan", all(feature = "d3d12", windows)))]
pub(super) fn check_waits(
    waits: &[TimelinePoint],
    queue: QueueIndex,
    next: u64,
    queues: usize,
) -> Result<(), DeviceError> {
    let possible = |point: &TimelinePoint| {
        usize::from(point.queue.0) < queues && !(point.queue == queue && point.value.0 >= next)
    };
    if waits.iter().all(possible) { Ok(()) } else { Err(DeviceError::Unsupported) }
}

#[cfg(any(feature = "vulkan", all(feature = "d3d12", windows)))]
impl<D: Device> Submission<'_, D> {
    /// True where there is something to record: bytes to copy, or an image.
    pub(super) fn has_copies(&self) -> bool {
        self.copies.iter().any(|copy| copy.size > 0)
            || !self.image_copies.is_empty()
            || !self.full_images.is_empty()
    }
}

impl<D: Device> fmt::Debug for Submission<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Submission")
            .field("waits", &self.waits)
            .field("copies", &self.copies)
            .field("image_copies", &self.image_copies)
            .field("full_images", &self.full_images)
            .finish()
    }
}
