//! Exclusive resources: which queues may use a resource, and how one family of queues hands it over to another.
//!
//! ```text
//!   transfer queue   copies ─► release from family 2 to family 0 ─┐ timeline
//!   graphics queue                                                └► acquire from family 2 by family 0 ─► draws
//! ```
//!
//! Both halves name the same part, the same families and the same state. What a family overwrites as a whole it need not
//! acquire: the bytes that were there before are lost, and nothing else.

use core::fmt;

use super::{Device, ImageAspect, QueueIndex, QueueKind, TexelLayout};

/// The queues that may use a resource: `VkSharingMode`. Without effect where queues have no families, as on Direct3D 12.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SharingMode {
    /// Queues of one family at a time. Drivers may compress such images. [Uploads](crate::upload::Uploader) leave it to the
    /// family of the first graphics queue; the program transfers it to others.
    Exclusive,
    /// All queues, one after the other.
    Concurrent,
}

/// A part of an exclusive resource that the family of a queue hands over to that of another. The
/// [release](super::Submission::releases) is submitted on a queue of the one family, and the
/// [acquire](super::Submission::acquires), with the same fields and after it, on a queue of the other. Between two queues of
/// a family it does nothing.
pub struct OwnershipTransfer<'a, D: Device> {
    /// What is handed over.
    pub part: OwnedPart<'a, D>,
    /// A queue of the family that owns it before.
    pub from: QueueIndex,
    /// A queue of the family that owns it afterwards.
    pub to: QueueIndex,
}

/// A part of a resource that one family of queues owns.
pub enum OwnedPart<'a, D: Device> {
    /// A range of a buffer.
    Buffer {
        /// The buffer.
        buffer: &'a D::Buffer,
        /// Offset in bytes.
        offset: u64,
        /// Size in bytes, at least 1.
        size: u64,
    },
    /// All aspects of a mip level of an array layer.
    Image {
        /// The image.
        image: &'a D::Image,
        /// How the texels of the image's format lie in a buffer, which says what aspects there are.
        texels: TexelLayout,
        /// The mip level.
        mip_level: u32,
        /// The array layer.
        array_layer: u32,
        /// The state that it is in before and after.
        state: D::ImageState,
    },
}

impl<D: Device> Clone for OwnershipTransfer<'_, D> {
    fn clone(&self) -> Self {
        // By hand: a derive would require `D: Clone`, though only references are copied.
        *self
    }
}

impl<D: Device> Copy for OwnershipTransfer<'_, D> {}

impl<D: Device> Clone for OwnedPart<'_, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D: Device> Copy for OwnedPart<'_, D> {}

impl<D: Device> fmt::Debug for OwnershipTransfer<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnershipTransfer")
            .field("part", &self.part)
            .field("from", &self.from)
            .field("to", &self.to)
            .finish()
    }
}

impl<D: Device> fmt::Debug for OwnedPart<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Buffer { buffer, offset, size } => f
                .debug_struct("Buffer")
                .field("buffer", buffer)
                .field("offset", offset)
                .field("size", size)
                .finish(),
            Self::Image { image, texels, mip_level, array_layer, state } => f
                .debug_struct("Image")
                .field("image", image)
                .field("aspects", &texels.aspects().collect::<Vec<ImageAspect>>())
                .field("mip_level", mip_level)
                .field("array_layer", array_layer)
                .field("state", state)
                .finish(),
        }
    }
}

/// Returns the queue to whose family exclusive resources belong: the first graphics queue, or the first queue.
pub(crate) fn home_queue<D: Device>(device: &D) -> QueueIndex {
    let mut queues = (0..).zip(&device.properties().queues);
    queues
        .find(|(_, kind)| **kind == QueueKind::Graphics)
        .map_or(QueueIndex(0), |(index, _)| QueueIndex(index))
}

/// Returns whether a queue is of the family to which exclusive resources belong.
pub(crate) fn is_of_home_family<D: Device>(device: &D, queue: QueueIndex) -> bool {
    device.queue_family(queue) == device.queue_family(home_queue(device))
}
