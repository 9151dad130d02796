//! The only place that calls a driver.
//!
//! [`Device`] is what the layers above need of a graphics API, and nothing more: memory, buffers and images
//! to put there, and queues that copy. There is one implementation a file or folder beside this one:
//!
//! - [`host`]: simulated, on every machine. Real bytes, queues with threads of their own, and failures
//!   on demand.
//! - `vulkan` (feature `vulkan`): Vulkan 1.1 and up, over the application's own device.
//! - `d3d12` (feature `d3d12`, on Windows): Direct3D 12, over the application's own device.
//!
//! The two that call real drivers have the same files, so that who knows one finds the way in the other. What
//! both need stands once, beside their folders.
//!
//! The trait is meant to be implemented outside this crate as well. What it promises is written as a
//! generic conformance suite (`tests/devices`), which any implementation can be run through.

#[cfg(any(feature = "vulkan", all(feature = "d3d12", windows)))]
mod budget;
mod bytes;
mod command_device;
#[cfg(any(feature = "vulkan", all(feature = "d3d12", windows)))]
mod command_pools;
mod commands;
mod copy;
#[cfg(all(feature = "d3d12", windows))]
pub mod d3d12;
mod description;
mod descriptors;
mod error;
#[cfg(any(feature = "vulkan", all(feature = "d3d12", windows)))]
mod ledger;
mod memory;
mod owned;
mod properties;
mod queue;
mod resource;
mod sampler;
pub mod simulated;
#[cfg(feature = "vulkan")]
pub mod vulkan;
#[cfg(any(feature = "vulkan", all(feature = "d3d12", windows)))]
mod waves;

use core::fmt::Debug;
use core::ops::Range;
use core::ptr::NonNull;
use core::time::Duration;

pub(crate) use bytes::{copy_bytes, read_bytes, write_bytes};
pub use command_device::CommandDevice;
pub use commands::CommandAllocator;
pub use copy::{BufferCopy, CopyDirection, FullImageCopy, ImageCopy, TexelBlock, TransferUsage};
pub use description::{DescriptionError, DescriptionLimit};
pub use descriptors::{
    BufferUse, DescriptorDevice, DescriptorHeapAddress, DescriptorHeapBacking, DescriptorHeapDesc,
    DescriptorHeapType, DescriptorHeapVisibility, DescriptorLimits, ShaderVisibleHeapLimits,
    ShaderVisibleHeapType,
};
pub use error::{DeviceError, MissingFeature};
pub use memory::{MemoryDesc, MemoryHandle, Priority, PrioritySupport};
pub(crate) use owned::{Mapped, OwnedMemory, Visibility, make_visible};
pub use properties::{
    Api, DedicatedNeed, DeviceProperties, Limits, MemoryHeap, MemoryHeapBudget, MemoryHeapIndex,
    MemoryProperties, MemoryType, MemoryTypeIndex, MemoryTypeMask, QueueInfo, QueueKind, Requirements,
};
pub use queue::{QueueIndex, Submission, TimelinePoint, TimelineValue};
pub use resource::{BufferDesc, ImageDesc, ResourceKind, Tiling};
pub use sampler::{AddressMode, BorderColor, Compare, Filter, SamplerDesc};

/// A graphics API, as far as memory is concerned.
///
/// Every method may be called from any thread at any time; where the API itself wants calls on one object
/// (a queue, say) serialised, the implementation does so.
///
/// # Safety
///
/// Safe code relies on what an implementation says:
///
/// - memory that [`allocate_memory`](Self::allocate_memory) returned stays valid until
///   [`free_memory`](Self::free_memory), and its handle names nothing else until then;
/// - [`map_memory`](Self::map_memory) returns a pointer to as many bytes as were allocated, which may be
///   read and written from any thread until the memory is unmapped or freed;
/// - [`properties`](Self::properties) never changes.
pub unsafe trait Device: Send + Sync + 'static {
    /// The API's memory object.
    type Memory: MemoryHandle;
    /// The API's buffer. A clone is another name for the same one.
    type Buffer: Clone + Debug + Send + Sync;
    /// The API's image. A clone is another name for the same one.
    type Image: Clone + Debug + Send + Sync;
    /// What the API wants to know of a buffer that it shall make. Who keeps one can make the buffer again.
    type BufferInfo<'a>: From<BufferDesc> + Clone + Debug + Send + Sync;
    /// What the API wants to know of an image that it shall make. Who keeps one can make the image again.
    type ImageInfo<'a>: From<ImageDesc> + Clone + Debug + Send + Sync;
    /// What the API can be told about memory beside its type, size and priority: who else may use it,
    /// where it comes from.
    type MemoryOptions: Clone + Debug + Send + Sync;
    /// What state the API has an image in between uses: `VkImageLayout`, `D3D12_RESOURCE_STATES`. The default
    /// is that of an image that was just made; what it holds may be lost in a change from there.
    type ImageState: Copy + Debug + Default + PartialEq + Send + Sync + 'static;

    /// What the device is and has.
    fn properties(&self) -> &DeviceProperties;

    /// A number that no other device has which lives at the same time. Clones are the same device.
    fn id(&self) -> u64;

    /// How much of a heap this process uses, and how much it should use. Zeros where there is no such heap.
    ///
    /// May cost a system call; the memory layer asks seldom.
    fn heap_budget(&self, heap: MemoryHeapIndex) -> MemoryHeapBudget;

    /// Gets memory from the driver. What its bytes hold is undefined.
    ///
    /// # Errors
    ///
    /// [`DeviceError`]; nothing was allocated.
    fn allocate_memory(
        &self,
        desc: &MemoryDesc<'_, Self::MemoryOptions>,
    ) -> Result<Self::Memory, DeviceError>;

    /// Gives memory back to the driver, mapped or not.
    ///
    /// # Safety
    ///
    /// `memory` is live and from this device; it is not used after this call, by a queue either.
    unsafe fn free_memory(&self, memory: Self::Memory);

    /// When the device takes the [`Priority`] of a memory object. Never changes. Unless implemented, it takes none.
    fn priority_support(&self) -> PrioritySupport {
        PrioritySupport::Ignored
    }

    /// Gives memory another residency priority than it was allocated with. Advice.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Unsupported`] unless the device takes priorities at [any time](PrioritySupport::AnyTime), or what
    /// the driver refuses with. The priority is as before then.
    ///
    /// # Safety
    ///
    /// `memory` is live and from this device, and nobody else sets its priority or frees it meanwhile.
    unsafe fn set_memory_priority(
        &self,
        memory: Self::Memory,
        priority: Priority,
    ) -> Result<(), DeviceError> {
        let _ = (memory, priority);
        Err(DeviceError::Unsupported)
    }

    /// Makes all of the memory addressable by the CPU. The address is a multiple of 64.
    ///
    /// # Errors
    ///
    /// [`DeviceError`]; the memory is not mapped then.
    ///
    /// # Safety
    ///
    /// `memory` is live, from this device, host-visible and not mapped.
    unsafe fn map_memory(&self, memory: Self::Memory) -> Result<NonNull<u8>, DeviceError>;

    /// Ends what [`map_memory`](Self::map_memory) began.
    ///
    /// # Safety
    ///
    /// `memory` is live, from this device and mapped; the pointer is not used after this call.
    unsafe fn unmap_memory(&self, memory: Self::Memory);

    /// Makes what the CPU wrote visible to the device. Needed where memory is not host-coherent.
    ///
    /// # Errors
    ///
    /// [`DeviceError`].
    ///
    /// # Safety
    ///
    /// `memory` is live, from this device and mapped; `range` lies in it, and both its ends are multiples
    /// of [`Limits::non_coherent_atom_size`] or the end of the memory.
    unsafe fn flush_memory(&self, memory: Self::Memory, range: Range<u64>) -> Result<(), DeviceError>;

    /// Makes what the device wrote visible to the CPU. Needed where memory is not host-coherent.
    ///
    /// # Errors
    ///
    /// [`DeviceError`].
    ///
    /// # Safety
    ///
    /// As for [`flush_memory`](Self::flush_memory).
    unsafe fn invalidate_memory(&self, memory: Self::Memory, range: Range<u64>) -> Result<(), DeviceError>;

    /// Bytes of a buffer of this description; of its memory, [`buffer_requirements`](Self::buffer_requirements)
    /// may want more.
    fn buffer_size(&self, info: &Self::BufferInfo<'_>) -> u64;

    /// Which copies between buffers may name a buffer made so: as the source, as the destination. Safe code copies
    /// bytes only as this allows, so an implementation says no more than the API promises of the description. Says
    /// nothing about the memory that the buffer stands in.
    fn buffer_transfer_usage(&self, info: &Self::BufferInfo<'_>) -> TransferUsage;

    /// Whether a buffer made so can be copied from and to, so that it can be moved: its bytes in another buffer made
    /// so are as good. Says nothing about the memory that it stands in, from which queues may not read, say.
    fn is_copyable_buffer(&self, info: &Self::BufferInfo<'_>) -> bool;

    /// What memory a buffer needs.
    ///
    /// # Errors
    ///
    /// [`DeviceError`] where the API cannot make such a buffer; [`DeviceError::InvalidDescription`] where it is not
    /// even asked.
    fn buffer_requirements(&self, info: &Self::BufferInfo<'_>) -> Result<Requirements, DeviceError>;

    /// Makes a buffer over existing memory.
    ///
    /// # Errors
    ///
    /// [`DeviceError`]; there is no buffer then.
    ///
    /// # Safety
    ///
    /// `memory` is live, from this device, and outlives every use of the buffer; the buffer's
    /// [requirements](Self::buffer_requirements) hold at `offset`. Where they require dedicated memory, the buffer is
    /// [created together with it](Self::create_dedicated_buffer) instead.
    unsafe fn create_buffer(
        &self,
        info: &Self::BufferInfo<'_>,
        memory: Self::Memory,
        offset: u64,
    ) -> Result<Self::Buffer, DeviceError>;

    /// Makes a buffer and memory that is the buffer's alone, in the one step that APIs have for it
    /// (`VkMemoryDedicatedAllocateInfo`, a committed resource). The memory is exactly as large as the
    /// buffer's requirements say, whatever size `memory` names.
    ///
    /// # Errors
    ///
    /// [`DeviceError`]; there is neither a buffer nor memory then.
    fn create_dedicated_buffer(
        &self,
        info: &Self::BufferInfo<'_>,
        memory: &MemoryDesc<'_, Self::MemoryOptions>,
    ) -> Result<(Self::Memory, Self::Buffer), DeviceError>;

    /// Destroys a buffer; its memory stays.
    ///
    /// # Safety
    ///
    /// `buffer` is from this device, and no queue uses it after this call.
    unsafe fn destroy_buffer(&self, buffer: Self::Buffer);

    /// What memory an image needs.
    ///
    /// # Errors
    ///
    /// [`DeviceError`] where the API cannot make such an image; [`DeviceError::InvalidDescription`] where it is not
    /// even asked.
    fn image_requirements(&self, info: &Self::ImageInfo<'_>) -> Result<Requirements, DeviceError>;

    /// Makes an image over existing memory.
    ///
    /// # Errors
    ///
    /// [`DeviceError`]; there is no image then.
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

    /// Makes an image and memory that is the image's alone, in the one step that APIs have for it
    /// (`VkMemoryDedicatedAllocateInfo`, a committed resource). The memory is exactly as large as the
    /// image's requirements say, whatever size `memory` names.
    ///
    /// # Errors
    ///
    /// [`DeviceError`]; there is neither an image nor memory then.
    fn create_dedicated_image(
        &self,
        info: &Self::ImageInfo<'_>,
        memory: &MemoryDesc<'_, Self::MemoryOptions>,
    ) -> Result<(Self::Memory, Self::Image), DeviceError>;

    /// Destroys an image; its memory stays.
    ///
    /// # Safety
    ///
    /// `image` is from this device, and no queue uses it after this call.
    unsafe fn destroy_image(&self, image: Self::Image);

    /// What stands in memory that an image of this description gets, which decides how far it must be from
    /// buffers.
    fn image_kind(&self, info: &Self::ImageInfo<'_>) -> ResourceKind;

    /// Whether an image made so can be copied [as a whole](FullImageCopy) into another one made so, by a queue for
    /// graphics at least, so that it can be moved.
    fn is_copyable_image(&self, info: &Self::ImageInfo<'_>) -> bool;

    /// Tells the API's own tools what memory is called. Does nothing where it has none.
    ///
    /// # Safety
    ///
    /// `memory` is live and from this device.
    unsafe fn name_memory(&self, memory: Self::Memory, name: &str) {
        let _ = (memory, name);
    }

    /// Tells the API's own tools what a buffer is called. Does nothing where it has none.
    ///
    /// # Safety
    ///
    /// `buffer` is live and from this device.
    unsafe fn name_buffer(&self, buffer: &Self::Buffer, name: &str) {
        let _ = (buffer, name);
    }

    /// Tells the API's own tools what an image is called. Does nothing where it has none.
    ///
    /// # Safety
    ///
    /// `image` is live and from this device.
    unsafe fn name_image(&self, image: &Self::Image, name: &str) {
        let _ = (image, name);
    }

    /// Hands work to a queue: once the waits are over, its copies run in any order, those of the same
    /// subresource of an image in the order given. Returns the value that the queue's timeline reaches when all
    /// of them are done. Values count up from 1, and are reached in this order. A wait may be for a point of
    /// another queue that is submitted later.
    ///
    /// A copied image is seen as it then is by all that is submitted to the queue later, and by what waits for
    /// the value.
    ///
    /// # Errors
    ///
    /// [`DeviceError`]; nothing was submitted then. [`DeviceError::Unsupported`] where the API cannot say
    /// an [image copy's](ImageCopy) row pitch, or leave an image in the state that shall be after; where an image
    /// [cannot be copied as a whole](Self::is_copyable_image), holds nothing in the state that it is in before, or
    /// has depth, a stencil or several samples and the queue is not for graphics.
    ///
    /// # Safety
    ///
    /// The copied ranges lie in their buffers, and two of the same buffer do not overlap unless both are read.
    /// Each buffer was made to be [copied that way](Self::buffer_transfer_usage).
    /// No copy writes to memory that is [`DEVICE_READ_ONLY`](MemoryProperties::DEVICE_READ_ONLY) or reads from
    /// memory that is [`DEVICE_WRITE_ONLY`](MemoryProperties::DEVICE_WRITE_ONLY). The buffers, the images and
    /// their memory stay alive until the returned value is reached.
    ///
    /// Each [image copy](ImageCopy) keeps to what its fields say: the box lies in a subresource that exists,
    /// the buffer is laid out as the device's limits want it, the texel block is the format's, and the
    /// subresource is in the state `before` when the copy begins. The image was made to be copied that way, and
    /// nothing else uses the subresource until the value is reached. Where queues own images (Vulkan's
    /// families, unless the image is shared by them), the queue is one of the owner's: nothing is handed over.
    ///
    /// Each [copy of a whole image](FullImageCopy) does so too: both images were made from its description, all of
    /// `from` is in the state `before`, and `to` is as it was made. No image is in two of them, nor in one of them and
    /// in an image copy of the same submission, and the memory of the two does not overlap. Nothing else uses either
    /// until the value is reached, and of their owners the same is true as above.
    unsafe fn submit(
        &self,
        queue: QueueIndex,
        submission: &Submission<'_, Self>,
    ) -> Result<TimelineValue, DeviceError>
    where
        Self: Sized;

    /// The value of the last submission to the queue; 0 before anything was submitted, and where there is no
    /// such queue. Takes no lock and never fails, not on a lost device either. What a submission has returned is
    /// counted from then on, for whoever knows that it has returned.
    fn submitted(&self, queue: QueueIndex) -> TimelineValue;

    /// The last value that the queue's timeline has reached; 0 before anything was submitted.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Lost`].
    fn completed(&self, queue: QueueIndex) -> Result<TimelineValue, DeviceError>;

    /// Waits until the queue's timeline has reached `value`, at most for `timeout`.
    ///
    /// # Errors
    ///
    /// [`DeviceError::TimedOut`] where the time is up first, [`DeviceError::Lost`].
    fn wait(&self, point: TimelinePoint, timeout: Duration) -> Result<(), DeviceError>;
}
