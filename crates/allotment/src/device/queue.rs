//! Queues: timelines and submissions.

use core::fmt;

use super::{BufferCopy, Device, FullImageCopy, ImageCopy, OwnershipTransfer};
#[cfg(any(feature = "vulkan", all(feature = "d3d12", windows)))]
use super::{DeviceError, QueueKind};

/// A queue, as an index into [`DeviceProperties::queues`](super::DeviceProperties::queues).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueIndex(pub u8);

/// A value of a queue's timeline. It is 0 before the first submission; each submission's value is one more than
/// that of the submission before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimelineValue(pub u64);

/// A point on the timeline of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimelinePoint {
    /// The queue.
    pub queue: QueueIndex,
    /// The value on its timeline.
    pub value: TimelineValue,
}

/// Work to submit to a queue.
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
    /// Timeline points that the queue waits for before it executes the copies.
    pub waits: &'a [TimelinePoint],
    /// Copies between buffers. The copies of one submission run in any order.
    pub copies: &'a [BufferCopy<'a, D>],
    /// Copies between buffers and images. Those of the same subresource run in the order given, each starting in
    /// the state in which the one before left the subresource. All others, and the copies between buffers, run
    /// in any order.
    pub image_copies: &'a [ImageCopy<'a, D>],
    /// Copies of whole images, in any order.
    pub full_images: &'a [FullImageCopy<'a, D>],
    /// Parts of exclusive resources that the queue's family takes over before the copies. Each was
    /// [released](Self::releases) by a submission that this one waits for.
    pub acquires: &'a [OwnershipTransfer<'a, D>],
    /// Parts of exclusive resources that the queue's family hands over after the copies, also after those of earlier
    /// submissions to the queue.
    pub releases: &'a [OwnershipTransfer<'a, D>],
    /// Bytes that are copied may have been those of another resource until now: the queue makes what was written to that one
    /// visible first, by an aliasing barrier on Direct3D 12. On Vulkan the memory barrier before all copies does so.
    pub aliases: bool,
}

impl<D: Device> Default for Submission<'_, D> {
    /// Returns a submission without waits and without copies.
    fn default() -> Self {
        Self {
            waits: &[],
            copies: &[],
            image_copies: &[],
            full_images: &[],
            acquires: &[],
            releases: &[],
            aliases: false,
        }
    }
}

/// Returns the queue that binds memory to ranges of buffers: preferably one for copies, which has the least to do that a thread
/// would wait for.
#[cfg(any(feature = "vulkan", all(feature = "d3d12", windows)))]
pub(super) fn binding_queue(kinds: &[QueueKind], binds: impl Fn(usize) -> bool) -> Option<QueueIndex> {
    let binding = kinds.iter().enumerate().filter(|(index, _)| binds(*index));
    // The cast cannot truncate: there are at most 256 queues.
    binding.min_by_key(|(_, kind)| **kind != QueueKind::Transfer).map(|(index, _)| QueueIndex(index as u8))
}

/// Returns an error for waits on a queue that the device does not have, and for waits that could never be
/// satisfied: on `queue` itself, for the point `next` that this submission signals or a later one.
#[cfg(any(feature = "vulkan", all(feature = "d3d12", windows)))]
pub(super) fn check_waits(
    waits: &[TimelinePoint],
    queue: QueueIndex,
    next: u64,
    queues: usize,
) -> Result<(), DeviceError> {
    // An impossible wait is refused rather than submitted, since the queue would never get past it.
    waits.iter().try_for_each(|&point| {
        if usize::from(point.queue.0) >= queues {
            return Err(DeviceError::NoSuchQueue { queue: point.queue });
        }
        // A wait for the own queue's next value would never be satisfied, and the queue would hang.
        if point.queue == queue && point.value.0 >= next {
            return Err(DeviceError::WaitsForItself { point });
        }
        Ok(())
    })
}

#[cfg(any(feature = "vulkan", all(feature = "d3d12", windows)))]
impl<D: Device> Submission<'_, D> {
    /// Returns true if there are commands to record: bytes to copy, or an image.
    pub(super) fn has_copies(&self) -> bool {
        // Copies of 0 bytes are skipped, since Vulkan forbids them.
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
            .field("acquires", &self.acquires)
            .field("releases", &self.releases)
            .field("aliases", &self.aliases)
            .finish()
    }
}
