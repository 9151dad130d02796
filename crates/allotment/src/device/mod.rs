//! The only place that calls a driver.
//!
//! [`Device`] is what the layers above need of a graphics API, and nothing more: memory, buffers to put
//! there, and queues that copy. There is one implementation a file or folder beside this one:
//!
//! - [`host`]: simulated, on every machine. Real bytes, queues with threads of their own, and failures
//!   on demand.
//!
//! The trait is meant to be implemented outside this crate as well. What it promises is written as a
//! generic conformance suite (`tests/devices`), which any implementation can be run through.

mod bytes;
mod error;
pub mod host;
mod owned;
mod properties;
mod queue;

use core::fmt::Debug;
use core::ops::Range;
use core::ptr::NonNull;
use core::time::Duration;

pub(crate) use bytes::{read_bytes, write_bytes};
pub use error::DeviceError;
pub(crate) use owned::{OwnedMemory, Visibility, make_visible};
pub use properties::{
    Api, DedicatedNeed, DeviceProperties, HeapBudget, HeapIndex, Limits, MemoryHeap, MemoryProperties,
    MemoryType, MemoryTypeIndex, MemoryTypeMask, QueueInfo, QueueKind, Requirements,
};
pub use queue::{BufferCopy, QueueIndex, Submission, TimelinePoint, TimelineValue, Wait};

/// A graphics API's own name for a memory object, as it can be kept in 64 bits.
///
/// `VkDeviceMemory` is such a number; of a D3D12 heap it is the address.
pub trait MemoryHandle: Copy + Eq + Debug + Send + Sync + 'static {
    /// The handle as a number; [`from_raw`](Self::from_raw) gives the same handle back.
    fn to_raw(self) -> u64;
    /// The handle that [`to_raw`](Self::to_raw) made `raw` from.
    fn from_raw(raw: u64) -> Self;
}

/// What a buffer may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BufferDesc {
    /// Bytes, at least 1.
    pub size: u64,
    /// The graphics API's own usage flags (`VkBufferUsageFlags`, `D3D12_RESOURCE_FLAGS`); 0 where there
    /// is nothing to add to "can be copied from and to".
    pub usage: u64,
}

impl BufferDesc {
    /// A buffer of `size` bytes that can be copied from and to.
    #[must_use]
    pub const fn new(size: u64) -> Self {
        Self { size, usage: 0 }
    }
}

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
    /// The API's buffer.
    type Buffer: Debug + Send + Sync;

    /// What the device is and has.
    fn properties(&self) -> &DeviceProperties;

    /// How much of a heap this process uses, and how much it should use. Zeros where there is no such heap.
    ///
    /// May cost a system call; the memory layer asks seldom.
    fn heap_budget(&self, heap: HeapIndex) -> HeapBudget;

    /// Gets `size` bytes of a memory type from the driver. What they hold is undefined.
    ///
    /// # Errors
    ///
    /// [`DeviceError`]; nothing was allocated.
    fn allocate_memory(&self, memory_type: MemoryTypeIndex, size: u64) -> Result<Self::Memory, DeviceError>;

    /// Gives memory back to the driver, mapped or not.
    ///
    /// # Safety
    ///
    /// `memory` is live and from this device; it is not used after this call, by a queue either.
    unsafe fn free_memory(&self, memory: Self::Memory);

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

    /// What memory a buffer needs.
    ///
    /// # Errors
    ///
    /// [`DeviceError`] where the API cannot make such a buffer.
    fn buffer_requirements(&self, desc: &BufferDesc) -> Result<Requirements, DeviceError>;

    /// Makes a buffer over existing memory.
    ///
    /// # Errors
    ///
    /// [`DeviceError`]; there is no buffer then.
    ///
    /// # Safety
    ///
    /// `memory` is live, from this device, and outlives every use of the buffer; the buffer's
    /// [requirements](Self::buffer_requirements) hold at `offset`.
    unsafe fn create_buffer(
        &self,
        desc: &BufferDesc,
        memory: Self::Memory,
        offset: u64,
    ) -> Result<Self::Buffer, DeviceError>;

    /// Makes a buffer and memory that is the buffer's alone, in the one step that APIs have for it
    /// (`VkMemoryDedicatedAllocateInfo`, a committed resource). The memory is exactly as large as the
    /// buffer's requirements say.
    ///
    /// # Errors
    ///
    /// [`DeviceError`]; there is neither a buffer nor memory then.
    fn create_dedicated_buffer(
        &self,
        desc: &BufferDesc,
        memory_type: MemoryTypeIndex,
    ) -> Result<(Self::Memory, Self::Buffer), DeviceError>;

    /// Destroys a buffer; its memory stays.
    ///
    /// # Safety
    ///
    /// `buffer` is from this device, and no queue uses it after this call.
    unsafe fn destroy_buffer(&self, buffer: Self::Buffer);

    /// Hands work to a queue: once the waits are over, its copies run in any order. Returns the value
    /// that the queue's timeline reaches when all of them are done. Values count up from 1, and are reached
    /// in this order. A wait may be for a point of another queue that is submitted later.
    ///
    /// # Errors
    ///
    /// [`DeviceError`]; nothing was submitted then.
    ///
    /// # Safety
    ///
    /// The buffers and their memory stay alive until the returned value is reached.
    unsafe fn submit(
        &self,
        queue: QueueIndex,
        submission: &Submission<'_, Self>,
    ) -> Result<TimelineValue, DeviceError>
    where
        Self: Sized;

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
    /// [`DeviceError::Lost`].
    fn wait(&self, point: TimelinePoint, timeout: Duration) -> Result<Wait, DeviceError>;
}
