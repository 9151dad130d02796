//! Memory and buffers with destructors, for reference measurements.

use core::ffi::c_void;
use core::ptr::NonNull;
use std::sync::Arc;

use ash::vk;

use super::Gpu;
use crate::failure::Failure;

/// Device memory of one type, mapped if it is host-visible.
pub(crate) struct Memory {
    gpu: Arc<Gpu>,
    handle: vk::DeviceMemory,
    size: usize,
    mapped: Option<NonNull<c_void>>,
    coherent: bool,
}

impl Memory {
    fn new(gpu: &Arc<Gpu>, memory_type: usize, size: u64) -> Result<Self, Failure> {
        let info =
            vk::MemoryAllocateInfo::default().allocation_size(size).memory_type_index(memory_type as u32);
        // SAFETY: the memory type is one of the device's.
        let handle = unsafe { gpu.device.allocate_memory(&info, None) }
            .map_err(Failure::vulkan("vkAllocateMemory"))?;
        let flags = gpu.info.memory_types[memory_type].flags;
        let coherent = flags.contains(vk::MemoryPropertyFlags::HOST_COHERENT);
        let mut memory = Self { gpu: Arc::clone(gpu), handle, size: size as usize, mapped: None, coherent };
        if flags.contains(vk::MemoryPropertyFlags::HOST_VISIBLE) {
            let whole = vk::MemoryMapFlags::empty();
            // SAFETY: the memory is host-visible and not mapped yet.
            let mapped = unsafe { gpu.device.map_memory(handle, 0, vk::WHOLE_SIZE, whole) };
            memory.mapped = NonNull::new(mapped.map_err(Failure::vulkan("vkMapMemory"))?);
        }
        Ok(memory)
    }

    /// Copies `bytes` to the start of the memory with one plain `memcpy`. Does nothing if it is not mapped.
    pub(crate) fn write(&self, bytes: &[u8]) -> Result<(), Failure> {
        let Some(mapped) = self.mapped else { return Ok(()) };
        let count = bytes.len().min(self.size);
        // SAFETY: `count` bytes lie in the slice and in the mapped memory, which do not overlap; the queue
        // is idle, since `Transfer` waits for what it submits.
        unsafe { mapped.cast::<u8>().copy_from_nonoverlapping(NonNull::from(bytes).cast(), count) };
        if self.coherent {
            return Ok(());
        }
        // SAFETY: the range is the whole of mapped memory of this device.
        unsafe { self.gpu.device.flush_mapped_memory_ranges(&[self.whole()]) }
            .map_err(Failure::vulkan("vkFlushMappedMemoryRanges"))
    }

    /// Copies the start of the memory to `bytes` with one plain `memcpy`. Does nothing if it is not mapped.
    pub(crate) fn read(&self, bytes: &mut [u8]) -> Result<(), Failure> {
        let Some(mapped) = self.mapped else { return Ok(()) };
        if !self.coherent {
            // SAFETY: the range is the whole of mapped memory of this device.
            unsafe { self.gpu.device.invalidate_mapped_memory_ranges(&[self.whole()]) }
                .map_err(Failure::vulkan("vkInvalidateMappedMemoryRanges"))?;
        }
        let count = bytes.len().min(self.size);
        // SAFETY: `count` bytes lie in the slice and in the mapped memory, which do not overlap; the queue
        // is idle, since `Transfer` waits for what it submits.
        unsafe { mapped.cast::<u8>().copy_to_nonoverlapping(NonNull::from(bytes).cast(), count) };
        Ok(())
    }

    fn whole(&self) -> vk::MappedMemoryRange<'static> {
        vk::MappedMemoryRange::default().memory(self.handle).size(vk::WHOLE_SIZE)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the memory is live, and the buffer over it was dropped before; freeing unmaps.
        unsafe { self.gpu.device.free_memory(self.handle, None) };
    }
}

/// A buffer for copies, with dedicated memory.
pub(crate) struct Buffer {
    pub(crate) handle: vk::Buffer,
    /// `None` until it is bound, and while it is dropped.
    memory: Option<Memory>,
    gpu: Arc<Gpu>,
}

impl Buffer {
    /// Creates a buffer in memory of this type, or returns `None` if the type does not allow buffers.
    pub(crate) fn new(gpu: &Arc<Gpu>, memory_type: usize, size: u64) -> Result<Option<Self>, Failure> {
        let usage = vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::TRANSFER_DST;
        let info = vk::BufferCreateInfo::default().size(size).usage(usage);
        // SAFETY: the struct is valid and lives for the call.
        let handle =
            unsafe { gpu.device.create_buffer(&info, None) }.map_err(Failure::vulkan("vkCreateBuffer"))?;
        let mut buffer = Self { handle, memory: None, gpu: Arc::clone(gpu) };
        // SAFETY: the buffer is the device's.
        let needs = unsafe { gpu.device.get_buffer_memory_requirements(handle) };
        if needs.memory_type_bits >> memory_type & 1 == 0 {
            return Ok(None);
        }
        let memory = Memory::new(gpu, memory_type, needs.size)?;
        // SAFETY: the buffer is not bound yet; the memory is of a type and size that it can be bound to.
        unsafe { gpu.device.bind_buffer_memory(handle, memory.handle, 0) }
            .map_err(Failure::vulkan("vkBindBufferMemory"))?;
        buffer.memory = Some(memory);
        Ok(Some(buffer))
    }

    /// Returns the memory that it is bound to.
    pub(crate) fn memory(&self) -> Option<&Memory> {
        self.memory.as_ref()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the buffer is live, and no queue uses it, since `Transfer` waits for what it submits.
        unsafe { self.gpu.device.destroy_buffer(self.handle, None) };
        self.memory = None;
    }
}
