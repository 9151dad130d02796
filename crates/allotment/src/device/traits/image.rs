//! Images of a device.

use core::fmt::Debug;

use super::{Device, MemoryDevice};
use crate::device::{
    DeviceError, HostImageWrite, ImageAspect, ImageDesc, ImageShape, ImageViewSupport, MemoryDesc, QueueKind,
    Requirements, ResourceKind,
};

/// A device with images that are bound to its memory.
///
/// Every method may be called from any thread at any time.
///
/// # Safety
///
/// Safe code relies on these promises of an implementation: an image uses no memory but that which its
/// [requirements](Self::image_requirements) name, [`image_kind`](Self::image_kind) says what it is, and
/// [`image_shape`](Self::image_shape) describes no more texels than it has.
pub unsafe trait ImageDevice: MemoryDevice {
    /// The API's image handle. A clone refers to the same image.
    type Image: Clone + Debug + Send + Sync;
    /// The API's description of an image (`VkImageCreateInfo`). A stored description can create the same image
    /// again, and equal ones create equal images.
    type ImageInfo<'a>: From<ImageDesc> + Clone + Debug + PartialEq + Send + Sync;
    /// The API's state of an image between uses: `VkImageLayout`, `D3D12_RESOURCE_STATES`. The default is the
    /// state of a newly created image; a transition from it may discard the image's contents.
    type ImageState: Copy + Debug + Default + PartialEq + Send + Sync + 'static;

    /// Returns the resource kind of an image with this description, which decides whether
    /// `bufferImageGranularity` separates it from buffers.
    fn image_kind(&self, info: &Self::ImageInfo<'_>) -> ResourceKind;

    /// Returns the dimensions of an image with this description, and how its texels lie in a buffer. Copies of texels are
    /// checked against it before they are staged.
    fn image_shape(&self, info: &Self::ImageInfo<'_>) -> ImageShape;

    /// Returns what descriptions of views of an image with this description are checked against. By default there are no
    /// views.
    fn image_view_support(&self, info: &Self::ImageInfo<'_>) -> ImageViewSupport {
        let _ = info;
        ImageViewSupport::new(0)
    }

    /// Returns true where a copy of texels on a queue of this kind can find a subresource in the state `before` and leave
    /// it in `after`.
    fn can_copy_between_states(
        &self,
        queue: QueueKind,
        before: Self::ImageState,
        after: Self::ImageState,
    ) -> bool {
        let _ = (queue, before, after);
        true
    }

    /// Returns true where queues of this kind copy an aspect between buffers and images.
    fn can_copy_aspect(&self, queue: QueueKind, aspect: ImageAspect) -> bool {
        let _ = (queue, aspect);
        true
    }

    /// Returns the state in which a copy on a queue of this kind leaves an image that shaders are going to read, or one that
    /// allows all uses where shaders cannot read it. The default is for devices whose images have one state.
    fn state_to_read(&self, queue: QueueKind, shape: &ImageShape) -> Self::ImageState {
        let _ = (queue, shape);
        Self::ImageState::default()
    }

    /// Returns true where the default state may be named as the one before a copy whatever state a subresource is in, since
    /// that discards its texels.
    fn discards_from_any_state(&self) -> bool {
        false
    }

    /// Returns true where the CPU can leave an image of this shape in the state `after` when it
    /// [copies texels](Self::write_image_from_host) into it. By default it cannot copy any.
    fn can_write_from_host(&self, shape: &ImageShape, after: Self::ImageState) -> bool {
        let _ = (shape, after);
        false
    }

    /// Copies texels from the CPU's memory into an image, and transitions the subresource from the state `before` to `after`.
    /// They are there when the call returns: all that is submitted to a queue from then on sees them.
    ///
    /// # Errors
    ///
    /// [`DeviceError`]; the contents of the subresource are undefined then, as those of a new image, and it can be written
    /// from the default state. [`DeviceError::Unsupported`] by default.
    ///
    /// # Safety
    ///
    /// The image is live, from this device and bound. Its shape [can be written](Self::can_write_from_host) with the state
    /// `after`, and `write` satisfies the rules of its fields: there are as many bytes as the box has, and the box lies in an
    /// existing subresource and consists of whole blocks. No queue has been given work that uses the subresource, or all that
    /// uses it has completed, and no other thread writes it meanwhile.
    unsafe fn write_image_from_host(&self, write: &HostImageWrite<'_, Self>) -> Result<(), DeviceError>
    where
        Self: Device + Sized,
    {
        let _ = write;
        Err(DeviceError::Unsupported)
    }

    /// Returns true where all queues of the device may use an image with this description, one after the other, and find its
    /// texels. False where a [family](super::QueueDevice::queue_family) of queues has to hand it over to another
    /// (`VK_SHARING_MODE_EXCLUSIVE`).
    fn queues_share_image(&self, info: &Self::ImageInfo<'_>) -> bool {
        let _ = info;
        true
    }

    /// Returns a description that borrows nothing, by which defragmentation can create such an image again elsewhere
    /// and copy it there [as a whole](crate::device::FullImageCopy), at least by a graphics queue. `None` where that is
    /// not possible.
    fn relocatable_image_info(&self, info: &Self::ImageInfo<'_>) -> Option<Self::ImageInfo<'static>>;

    /// Returns the memory requirements of an image.
    ///
    /// # Errors
    ///
    /// [`DeviceError`] if the API cannot create such an image; [`DeviceError::InvalidDescription`] if the
    /// description is rejected before the driver is called.
    #[doc(alias("vmaFindMemoryTypeIndexForImageInfo", "find_memory_type_index_for_image_info"))]
    fn image_requirements(&self, info: &Self::ImageInfo<'_>) -> Result<Requirements, DeviceError>;

    /// Creates an image and binds it to existing memory.
    ///
    /// # Errors
    ///
    /// [`DeviceError`]; no image exists in that case.
    ///
    /// # Safety
    ///
    /// `memory` is live, from this device, and outlives every use of the image; the image's
    /// [requirements](Self::image_requirements) hold at `offset`. Where they require dedicated memory, the image is
    /// [created together with it](Self::create_dedicated_image) instead.
    unsafe fn create_image(
        &self,
        info: &Self::ImageInfo<'_>,
        memory: Self::Memory,
        offset: u64,
    ) -> Result<Self::Image, DeviceError>;

    /// Creates an image together with dedicated memory, the way the API does it
    /// (`VkMemoryDedicatedAllocateInfo`, a committed resource). The memory's size is that of the image's
    /// requirements; the size in `memory` is ignored.
    ///
    /// # Errors
    ///
    /// [`DeviceError`]; neither the image nor its memory exists in that case.
    fn create_dedicated_image(
        &self,
        info: &Self::ImageInfo<'_>,
        memory: &MemoryDesc<'_, Self::MemoryOptions>,
    ) -> Result<(Self::Memory, Self::Image), DeviceError>;

    /// Destroys an image. Its memory is not freed.
    ///
    /// # Safety
    ///
    /// `image` is from this device, and no queue uses it after this call.
    unsafe fn destroy_image(&self, image: Self::Image);

    /// Sets the debug name of an image, for the API's own tools. Does nothing if the API has no debug names.
    ///
    /// # Safety
    ///
    /// `image` is live and from this device.
    unsafe fn name_image(&self, image: &Self::Image, name: &str) {
        let _ = (image, name);
    }
}
