//! Memory objects of a device.

use core::fmt::Debug;
use core::ops::Range;
use core::ptr::NonNull;

use crate::device::{
    DeviceError, DeviceProperties, MemoryDesc, MemoryHandle, MemoryHeapBudget, MemoryHeapIndex, Priority,
    PrioritySupport,
};

/// A device whose memory can be allocated, mapped and freed.
///
/// Every method may be called from any thread at any time.
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
pub unsafe trait MemoryDevice: Send + Sync + 'static {
    /// The API's memory object: `VkDeviceMemory`, or an `ID3D12Heap` or committed resource.
    type Memory: MemoryHandle;
    /// The API's options for a memory object besides its type, size and priority: export to and import from
    /// other processes or APIs, for example.
    type MemoryOptions: Clone + Debug + Send + Sync;

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
    /// of [`non_coherent_atom_size`](crate::device::Limits::non_coherent_atom_size) or the end of the memory.
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

    /// Sets the debug name of memory, for the API's own tools. Does nothing if the API has no debug names.
    ///
    /// # Safety
    ///
    /// `memory` is live and from this device.
    unsafe fn name_memory(&self, memory: Self::Memory, name: &str) {
        let _ = (memory, name);
    }
}
