//! The device layer: the only part of the crate that calls a driver.
//!
//! [`Device`] is the interface between the allocator and a graphics API: memory objects, buffers and images
//! bound to them, and queues that copy. Each implementation is a module of this one:
//!
//! - [`simulated`]: a simulated GPU, which runs on every machine. It has real bytes, one thread per queue, and
//!   failures on demand.
//! - `vulkan` (feature `vulkan`): Vulkan 1.1 and later, over the application's own device.
//! - `d3d12` (feature `d3d12`, on Windows): Direct3D 12, over the application's own device.
//!
//! The Vulkan and Direct3D 12 folders have the same file names, so that a reader of one finds the counterpart in
//! the other. Code that both share is in the files beside the two folders.
//!
//! The trait can be implemented outside this crate. Its contract is written as a generic conformance suite
//! (`tests/devices`), which runs against any implementation.

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

/// A graphics API's memory, resources and queues, as the allocator uses them.
///
/// Every method may be called from any thread at any time. Where the API requires external synchronisation (of a
/// queue, say), the implementation provides it.
///
/// # Safety
///
/// Safe code relies on these promises of an implementation:
///
/// - memory that [`allocate_memory`](Self::allocate_memory) returned stays valid until
///   [`free_memory`](Self::free_memory), and its handle names no other object until then;
/// - [`map_memory`](Self::map_memory) returns a pointer to as many bytes as were allocated, which may be read
///   and written from any thread until the memory is unmapped or freed;
/// - [`properties`](Self::properties) never changes.
pub unsafe trait Device: Send + Sync + 'static {
    /// The API's memory object: `VkDeviceMemory`, or an `ID3D12Heap` or committed resource.
    type Memory: MemoryHandle;
    /// The API's buffer handle. A clone refers to the same buffer.
    type Buffer: Clone + Debug + Send + Sync;
    /// The API's image handle. A clone refers to the same image.
    type Image: Clone + Debug + Send + Sync;
    /// The API's description of a buffer (`VkBufferCreateInfo`). A stored description can create the same buffer
    /// again.
    type BufferInfo<'a>: From<BufferDesc> + Clone + Debug + Send + Sync;
    /// The API's description of an image (`VkImageCreateInfo`). A stored description can create the same image
    /// again.
    type ImageInfo<'a>: From<ImageDesc> + Clone + Debug + Send + Sync;
    /// The API's options for a memory object besides its type, size and priority: export to and import from
    /// other processes or APIs, for example.
    type MemoryOptions: Clone + Debug + Send + Sync;
    /// The API's state of an image between uses: `VkImageLayout`, `D3D12_RESOURCE_STATES`. The default is the
    /// state of a newly created image; a transition from it may discard the image's contents.
    type ImageState: Copy + Debug + Default + PartialEq + Send + Sync + 'static;

    /// Returns the device's heaps, memory types, limits and queues.
    fn properties(&self) -> &DeviceProperties;

    /// Returns a number that is unique among the devices alive in this process. Clones of a device return the
    /// same number.
    fn id(&self) -> u64;

    /// Returns this process's usage and budget of a memory heap; zeros if the heap does not exist.
    ///
    /// May cost a system call. The allocator calls it rarely.
    fn heap_budget(&self, heap: MemoryHeapIndex) -> MemoryHeapBudget;

    /// Allocates memory from the driver. Its contents are undefined.
    ///
    /// # Errors
    ///
    /// [`DeviceError`]; nothing was allocated in that case.
    fn allocate_memory(
        &self,
        desc: &MemoryDesc<'_, Self::MemoryOptions>,
    ) -> Result<Self::Memory, DeviceError>;

    /// Frees memory, mapped or not.
    ///
    /// # Safety
    ///
    /// `memory` is live and from this device; neither the CPU nor a queue uses it after this call.
    unsafe fn free_memory(&self, memory: Self::Memory);

    /// Returns when the driver accepts the [`Priority`] of a memory object. Never changes. The default
    /// implementation returns [`Ignored`](PrioritySupport::Ignored).
    fn priority_support(&self) -> PrioritySupport {
        PrioritySupport::Ignored
    }

    /// Changes the residency priority of memory. The driver treats it as a hint.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Unsupported`] unless the device accepts priorities at [any
    /// time](PrioritySupport::AnyTime); otherwise the driver's error. The priority is unchanged in both cases.
    ///
    /// # Safety
    ///
    /// `memory` is live and from this device, and no other thread sets its priority or frees it during this
    /// call.
    unsafe fn set_memory_priority(
        &self,
        memory: Self::Memory,
        priority: Priority,
    ) -> Result<(), DeviceError> {
        let _ = (memory, priority);
        Err(DeviceError::Unsupported)
    }

    /// Maps all of the memory into the CPU's address space. The address is a multiple of 64.
    ///
    /// # Errors
    ///
    /// [`DeviceError`]; the memory is not mapped in that case.
    ///
    /// # Safety
    ///
    /// `memory` is live, from this device, host-visible and not mapped.
    unsafe fn map_memory(&self, memory: Self::Memory) -> Result<NonNull<u8>, DeviceError>;

    /// Unmaps memory that [`map_memory`](Self::map_memory) mapped.
    ///
    /// # Safety
    ///
    /// `memory` is live, from this device and mapped; the pointer is not used after this call.
    unsafe fn unmap_memory(&self, memory: Self::Memory);

    /// Flushes CPU writes so that the GPU sees them. Required where memory is not host-coherent.
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

    /// Invalidates the CPU's caches so that the CPU sees GPU writes. Required where memory is not host-coherent.
    ///
    /// # Errors
    ///
    /// [`DeviceError`].
    ///
    /// # Safety
    ///
    /// The conditions of [`flush_memory`](Self::flush_memory) apply.
    unsafe fn invalidate_memory(&self, memory: Self::Memory, range: Range<u64>) -> Result<(), DeviceError>;

    /// Returns the size in bytes of a buffer with this description. Its [memory
    /// requirements](Self::buffer_requirements) may be larger.
    fn buffer_size(&self, info: &Self::BufferInfo<'_>) -> u64;

    /// Returns which buffer copies a buffer with this description supports: as the source, as the destination.
    /// Safe code copies bytes only as this allows, so an implementation must not report more than the API
    /// guarantees for the description. The memory that the buffer is bound to is not considered.
    fn buffer_transfer_usage(&self, info: &Self::BufferInfo<'_>) -> TransferUsage;

    /// Returns a description that borrows nothing, by which defragmentation can create such a buffer again elsewhere
    /// and copy its contents there. `None` where that is not possible: the buffer cannot be copied, or the
    /// description cannot be used twice. The memory that the buffer is bound to is not considered (queues may not
    /// read some memory, for example).
    fn relocatable_buffer_info(&self, info: &Self::BufferInfo<'_>) -> Option<Self::BufferInfo<'static>>;

    /// Returns the memory requirements of a buffer.
    ///
    /// # Errors
    ///
    /// [`DeviceError`] if the API cannot create such a buffer; [`DeviceError::InvalidDescription`] if the
    /// description is rejected before the driver is called.
    fn buffer_requirements(&self, info: &Self::BufferInfo<'_>) -> Result<Requirements, DeviceError>;

    /// Creates a buffer and binds it to existing memory.
    ///
    /// # Errors
    ///
    /// [`DeviceError`]; no buffer exists in that case.
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

    /// Creates a buffer together with dedicated memory, the way the API does it
    /// (`VkMemoryDedicatedAllocateInfo`, a committed resource). The memory's size is that of the buffer's
    /// requirements; the size in `memory` is ignored.
    ///
    /// # Errors
    ///
    /// [`DeviceError`]; neither the buffer nor its memory exists in that case.
    fn create_dedicated_buffer(
        &self,
        info: &Self::BufferInfo<'_>,
        memory: &MemoryDesc<'_, Self::MemoryOptions>,
    ) -> Result<(Self::Memory, Self::Buffer), DeviceError>;

    /// Destroys a buffer. Its memory is not freed.
    ///
    /// # Safety
    ///
    /// `buffer` is from this device, and no queue uses it after this call.
    unsafe fn destroy_buffer(&self, buffer: Self::Buffer);

    /// Returns the memory requirements of an image.
    ///
    /// # Errors
    ///
    /// [`DeviceError`] if the API cannot create such an image; [`DeviceError::InvalidDescription`] if the
    /// description is rejected before the driver is called.
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

    /// Returns the resource kind of an image with this description, which decides whether
    /// `bufferImageGranularity` separates it from buffers.
    fn image_kind(&self, info: &Self::ImageInfo<'_>) -> ResourceKind;

    /// Returns a description that borrows nothing, by which defragmentation can create such an image again elsewhere
    /// and copy it there [as a whole](FullImageCopy), at least by a graphics queue. `None` where that is not
    /// possible.
    fn relocatable_image_info(&self, info: &Self::ImageInfo<'_>) -> Option<Self::ImageInfo<'static>>;

    /// Sets the debug name of memory, for the API's own tools. Does nothing if the API has no debug names.
    ///
    /// # Safety
    ///
    /// `memory` is live and from this device.
    unsafe fn name_memory(&self, memory: Self::Memory, name: &str) {
        let _ = (memory, name);
    }

    /// Sets the debug name of a buffer, for the API's own tools. Does nothing if the API has no debug names.
    ///
    /// # Safety
    ///
    /// `buffer` is live and from this device.
    unsafe fn name_buffer(&self, buffer: &Self::Buffer, name: &str) {
        let _ = (buffer, name);
    }

    /// Sets the debug name of an image, for the API's own tools. Does nothing if the API has no debug names.
    ///
    /// # Safety
    ///
    /// `image` is live and from this device.
    unsafe fn name_image(&self, image: &Self::Image, name: &str) {
        let _ = (image, name);
    }

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
    /// [`DeviceError`]; nothing was submitted in that case. [`DeviceError::Unsupported`] if the API cannot
    /// express an [image copy's](ImageCopy) row pitch or leave an image in the state `after`; or if an image
    /// [cannot be copied as a whole](Self::relocatable_image_info), has undefined contents in the state `before`, or
    /// has depth, stencil or several samples and the queue is not a graphics queue.
    ///
    /// # Safety
    ///
    /// The copied ranges lie in their buffers, and two ranges of the same buffer do not overlap unless both are
    /// read. Each buffer was created with the [transfer usage](Self::buffer_transfer_usage) that its copies
    /// need. No copy writes to memory that is [`DEVICE_READ_ONLY`](MemoryProperties::DEVICE_READ_ONLY) or reads
    /// from memory that is [`DEVICE_WRITE_ONLY`](MemoryProperties::DEVICE_WRITE_ONLY). The buffers, the images
    /// and their memory stay alive until the returned value is reached.
    ///
    /// Each [image copy](ImageCopy) satisfies the rules of its fields: the box lies in an existing subresource,
    /// the buffer layout satisfies the device's limits, the texel block is the format's, and the subresource is
    /// in the state `before` when the copy begins. The image was created with the usage that the copy needs, and
    /// no other work uses the subresource until the value is reached. Where queue families own images (in
    /// Vulkan, unless the image is shared by them), the queue belongs to the owning family: ownership is not
    /// transferred.
    ///
    /// Each [copy of a whole image](FullImageCopy) does too: both images were created from its description, all
    /// of `from` is in the state `before`, and `to` is in its initial state. No image is in two of them, nor in
    /// one of them and in an image copy of the same submission, and the memory of the two does not overlap. No
    /// other work uses either image until the value is reached, and the ownership rule above holds for both.
    unsafe fn submit(
        &self,
        queue: QueueIndex,
        submission: &Submission<'_, Self>,
    ) -> Result<TimelineValue, DeviceError>
    where
        Self: Sized;

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
