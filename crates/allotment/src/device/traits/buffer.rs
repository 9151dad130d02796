//! Buffers of a device.

use core::fmt::Debug;

use super::MemoryDevice;
use crate::device::{
    AddressError, BufferDesc, BufferViewUses, DeviceError, MemoryDesc, RangeBinding, Requirements,
    TransferUsage,
};

/// A device with buffers that are bound to its memory.
///
/// Every method may be called from any thread at any time.
///
/// # Safety
///
/// Safe code relies on these promises of an implementation: [`buffer_size`](Self::buffer_size),
/// [`buffer_transfer_usage`](Self::buffer_transfer_usage) and [`buffer_view_uses`](Self::buffer_view_uses) report no
/// more than the API guarantees, and a buffer uses no memory but that which its
/// [requirements](Self::buffer_requirements) name.
pub unsafe trait BufferDevice: MemoryDevice {
    /// The API's buffer handle. A clone refers to the same buffer.
    type Buffer: Clone + Debug + Send + Sync;
    /// The API's description of a buffer (`VkBufferCreateInfo`). A stored description can create the same buffer
    /// again, and equal ones create equal buffers.
    type BufferInfo<'a>: From<BufferDesc> + Clone + Debug + PartialEq + Send + Sync;

    /// Returns the size in bytes of a buffer with this description. Its [memory
    /// requirements](Self::buffer_requirements) may be larger.
    fn buffer_size(&self, info: &Self::BufferInfo<'_>) -> u64;

    /// Returns which buffer copies a buffer with this description supports: as the source, as the destination.
    /// Safe code copies bytes only as this allows, so an implementation must not report more than the API
    /// guarantees for the description. The memory that the buffer is bound to is not considered.
    fn buffer_transfer_usage(&self, info: &Self::BufferInfo<'_>) -> TransferUsage;

    /// Returns what shaders may see a buffer with this description as, through a descriptor. Safe code creates views and
    /// descriptors only as this allows.
    fn buffer_view_uses(&self, info: &Self::BufferInfo<'_>) -> BufferViewUses {
        let _ = info;
        BufferViewUses::empty()
    }

    /// Returns a description that borrows nothing, by which defragmentation can create such a buffer again elsewhere
    /// and copy its contents there. `None` where that is not possible: the buffer cannot be copied, or the
    /// description cannot be used twice. The memory that the buffer is bound to is not considered (queues may not
    /// read some memory, for example).
    fn relocatable_buffer_info(&self, info: &Self::BufferInfo<'_>) -> Option<Self::BufferInfo<'static>>;

    /// Returns a description that borrows nothing, by which such a buffer can be created again elsewhere, where the CPU
    /// copies its bytes through mapped memory. `None` where that is not possible. Unlike
    /// [`relocatable_buffer_info`](Self::relocatable_buffer_info), it need not allow that queues copy the buffer.
    fn remappable_buffer_info(&self, info: &Self::BufferInfo<'_>) -> Option<Self::BufferInfo<'static>> {
        self.relocatable_buffer_info(info)
    }

    /// Returns false where no queue can write to a buffer with this description, whatever is recorded, as the API
    /// guarantees. The memory that the buffer is bound to is not considered.
    fn queues_may_write(&self, info: &Self::BufferInfo<'_>) -> bool {
        let _ = info;
        true
    }

    /// Returns true where all queues of the device may use a buffer with this description, one after the other, and find
    /// its bytes. False where a [family](super::QueueDevice::queue_family) of queues has to hand it over to another
    /// (`VK_SHARING_MODE_EXCLUSIVE`): uploads then do so, and other copies that the library submits run on a queue of
    /// the family of the first graphics queue.
    fn queues_share_buffer(&self, info: &Self::BufferInfo<'_>) -> bool {
        let _ = info;
        true
    }

    /// Checks that a buffer with this description has a [device address](Self::device_address).
    ///
    /// # Errors
    ///
    /// [`AddressError`], the reason why it has none.
    fn check_device_address(&self, info: &Self::BufferInfo<'_>) -> Result<(), AddressError> {
        let _ = info;
        Err(AddressError::Unsupported)
    }

    /// Returns the address of a buffer's first byte for shaders and commands (`VkDeviceAddress`,
    /// `D3D12_GPU_VIRTUAL_ADDRESS`). It is the same as long as the buffer lives.
    ///
    /// # Safety
    ///
    /// `buffer` is live, from this device, and was created from a description that
    /// [`check_device_address`](Self::check_device_address) accepts.
    unsafe fn device_address(&self, buffer: &Self::Buffer) -> u64 {
        let _ = buffer;
        0
    }

    /// Returns the memory requirements of a buffer.
    ///
    /// # Errors
    ///
    /// [`DeviceError`] if the API cannot create such a buffer; [`DeviceError::InvalidDescription`] if the
    /// description is rejected before the driver is called.
    #[doc(alias("vmaFindMemoryTypeIndexForBufferInfo", "find_memory_type_index_for_buffer_info"))]
    fn buffer_requirements(&self, info: &Self::BufferInfo<'_>) -> Result<Requirements, DeviceError>;

    /// Returns the memory requirements of a new buffer that is placed among others: those of
    /// [`buffer_requirements`](Self::buffer_requirements), or more bytes, where that saves a call of the driver. A block that is to
    /// have room for just one buffer has this size, in bytes.
    ///
    /// # Errors
    ///
    /// Those of [`buffer_requirements`](Self::buffer_requirements).
    fn new_buffer_requirements(&self, info: &Self::BufferInfo<'_>) -> Result<Requirements, DeviceError> {
        self.buffer_requirements(info)
    }

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

    /// Returns true where the device has [reserved buffers](Self::create_reserved_buffer).
    fn has_reserved_buffers(&self) -> bool {
        false
    }

    /// Creates a buffer that has addresses and no memory (`VK_BUFFER_CREATE_SPARSE_RESIDENCY_BIT`, a reserved resource), to
    /// ranges of which memory is [bound](Self::bind_ranges) while it lives. Its size is not limited by that of memory
    /// objects. Returns what the memory has to be: the ranges are multiples of the alignment, and the size is that of all of
    /// it.
    ///
    /// # Errors
    ///
    /// [`DeviceError`]; no buffer exists in that case. [`DeviceError::Unsupported`] where the device
    /// [has none](Self::has_reserved_buffers).
    fn create_reserved_buffer(
        &self,
        info: &Self::BufferInfo<'_>,
    ) -> Result<(Self::Buffer, Requirements), DeviceError> {
        let _ = info;
        Err(DeviceError::Unsupported)
    }

    /// Binds memory to ranges of a reserved buffer, or takes it away, and waits until the GPU has done so (`vkQueueBindSparse`,
    /// `UpdateTileMappings`): all that is submitted
    /// to a queue from then on sees it. The bytes stay with the memory.
    ///
    /// # Errors
    ///
    /// [`DeviceError`]; what was bound before is bound still, unless the device is [lost](DeviceError::Lost).
    ///
    /// # Safety
    ///
    /// `buffer` is a live reserved buffer of this device. The ranges lie in it and in live memory of this device, of a type
    /// that the buffer allows, at multiples of the alignment that it requires; no two of them overlap, in the buffer or in
    /// memory. No queue uses a range to which memory was bound before. The memory outlives its binding. Calls for one buffer do
    /// not overlap in time; those for several may.
    unsafe fn bind_ranges(
        &self,
        buffer: &Self::Buffer,
        ranges: &[RangeBinding<Self::Memory>],
    ) -> Result<(), DeviceError> {
        let _ = (buffer, ranges);
        Err(DeviceError::Unsupported)
    }

    /// Destroys a buffer. Its memory is not freed.
    ///
    /// # Safety
    ///
    /// `buffer` is from this device, and no queue uses it after this call.
    unsafe fn destroy_buffer(&self, buffer: Self::Buffer);

    /// Sets the debug name of a buffer, for the API's own tools. Does nothing if the API has no debug names.
    ///
    /// # Safety
    ///
    /// `buffer` is live and from this device.
    unsafe fn name_buffer(&self, buffer: &Self::Buffer, name: &str) {
        let _ = (buffer, name);
    }
}
