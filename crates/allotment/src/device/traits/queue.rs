//! Queues of a device.

use core::time::Duration;

use super::{BufferDevice, ImageDevice};
use crate::device::{DeviceError, QueueIndex, Submission, TimelinePoint, TimelineValue};

/// A device with queues, each with a timeline. They copy between its buffers and images.
///
/// Every method may be called from any thread at any time. Where the API requires that the calls of a queue are
/// synchronised, the implementation does that.
///
/// # Safety
///
/// Safe code relies on these promises of an implementation: [`submitted`](Self::submitted) never reports less than
/// what was submitted, and [`completed`](Self::completed) never more than what the queue has executed.
pub unsafe trait QueueDevice: BufferDevice + ImageDevice {
    /// Submits copies to a queue, which executes them once all waits are satisfied. Copies run in any order,
    /// except that those of one image subresource run in the order given. Returns the value that the queue's
    /// timeline reaches when all of them are complete. Values count up from 1 and are reached in this order. A
    /// wait may name a point of another queue that is submitted later.
    ///
    /// The contents of a copied image are visible to everything that is submitted to the queue later, and to
    /// work that waits for the value.
    ///
    /// # Errors
    ///
    /// [`DeviceError`]; nothing was submitted in that case. [`DeviceError::InvalidCopy`] if the API cannot express an
    /// [image copy's](crate::device::ImageCopy) row pitch, box or aspect, or leave an image in the state `after`; if the
    /// queue [does not copy the aspect](ImageDevice::can_copy_aspect); or if an image
    /// [cannot be copied as a whole](ImageDevice::relocatable_image_info), has undefined contents in the state
    /// `before`, or has depth, stencil or several samples and the queue is not a graphics queue; or if an ownership
    /// transfer names a queue of another family than the one that it is submitted to.
    ///
    /// # Safety
    ///
    /// The copied ranges lie in their buffers, and two ranges of the same buffer do not overlap unless both are read.
    /// Each buffer was created with the [transfer usage](BufferDevice::buffer_transfer_usage) that its copies need. No
    /// copy writes to memory that is [`DEVICE_READ_ONLY`](crate::device::MemoryProperties::DEVICE_READ_ONLY) or reads
    /// from memory that is [`DEVICE_WRITE_ONLY`](crate::device::MemoryProperties::DEVICE_WRITE_ONLY). The buffers, the
    /// images and their memory stay alive until the returned value is reached.
    ///
    /// Each [image copy](crate::device::ImageCopy) satisfies the rules of its fields: the box lies in an existing
    /// subresource, the buffer layout satisfies the device's limits, the texel layout is the format's, and all aspects of the
    /// subresource are in the state `before` when the copy begins. The image was created with the usage that the copy
    /// needs, and no other work uses the subresource until the value is reached.
    ///
    /// Where a [family](Self::queue_family) of queues owns a range of a buffer or a subresource of an image (in Vulkan,
    /// unless the families share it), the queue is of that family when the copy begins, unless the copies of the submission,
    /// and those behind it on the queue, write all of the range or subresource: such copies make it the owner. Ownership is
    /// transferred by `releases` and `acquires` only: the family that releases a part owns it, an acquire is submitted for
    /// each release, with the same fields, and waits for it, and nothing else uses the part in between.
    ///
    /// Each [copy of a whole image](crate::device::FullImageCopy) does too: both images were created from its
    /// description, all of `from` is in the state `before`, and `to` is in its initial state. No image is in two of
    /// them, nor in one of them and in an image copy of the same submission, and the memory of the two does not
    /// overlap. No other work uses either image until the value is reached, and the ownership rule above holds for
    /// both.
    unsafe fn submit(
        &self,
        queue: QueueIndex,
        submission: &Submission<'_, Self>,
    ) -> Result<TimelineValue, DeviceError>
    where
        Self: Sized;

    /// Returns the family of a queue: [exclusive](crate::device::SharingMode::Exclusive) resources belong to the queues of one
    /// family at a time. The same for all queues where the API has no families, which is the default.
    fn queue_family(&self, queue: QueueIndex) -> u32 {
        let _ = queue;
        0
    }

    /// Returns true where the queue copies any box of an image. False where boxes have to begin and end at multiples of some
    /// size, or to be whole mip levels: on Vulkan, where the queue's family has another `minImageTransferGranularity` than one
    /// texel. Uploads copy on another queue then.
    fn copies_any_box(&self, queue: QueueIndex) -> bool {
        let _ = queue;
        true
    }

    /// Returns the value of the last submission to the queue; 0 before the first submission, and if the queue
    /// does not exist. Takes no lock and never fails, not even on a lost device. Once a submission has returned,
    /// every thread that knows of the return sees at least its value.
    fn submitted(&self, queue: QueueIndex) -> TimelineValue;

    /// Returns the last value that the queue's timeline has reached; 0 before the first submission.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Lost`].
    fn completed(&self, queue: QueueIndex) -> Result<TimelineValue, DeviceError>;

    /// Waits until the queue's timeline has reached `value`, at most for `timeout`.
    ///
    /// # Errors
    ///
    /// [`DeviceError::TimedOut`] if the timeout expires first, [`DeviceError::Lost`].
    fn wait(&self, point: TimelinePoint, timeout: Duration) -> Result<(), DeviceError>;
}
