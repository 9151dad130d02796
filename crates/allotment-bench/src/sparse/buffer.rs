//! A sparse buffer, memory for it, and the queue that binds one to the other.

use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use allotment::device::{MemoryDevice as _, QueueIndex};
use ash::vk;

use crate::failure::Failure;
use crate::vulkan::Gpu;

/// A sparse buffer, parts of which may have no memory.
pub(super) struct SparseBuffer {
    pub(super) handle: vk::Buffer,
    pub(super) needs: vk::MemoryRequirements,
    pub(super) size: u64,
    gpu: Arc<Gpu>,
}

impl SparseBuffer {
    pub(super) fn new(gpu: &Arc<Gpu>, size: u64) -> Result<Self, Failure> {
        let usage = vk::BufferUsageFlags::TRANSFER_SRC
            | vk::BufferUsageFlags::TRANSFER_DST
            | vk::BufferUsageFlags::STORAGE_BUFFER;
        let flags = vk::BufferCreateFlags::SPARSE_BINDING | vk::BufferCreateFlags::SPARSE_RESIDENCY;
        let info = vk::BufferCreateInfo::default().flags(flags).size(size).usage(usage);
        // SAFETY: the struct is valid and lives for the call, and `Binder::new` has checked the features.
        let handle =
            unsafe { gpu.device.create_buffer(&info, None) }.map_err(Failure::vulkan("vkCreateBuffer"))?;
        // SAFETY: the buffer is the device's.
        let needs = unsafe { gpu.device.get_buffer_memory_requirements(handle) };
        Ok(Self { handle, needs, size, gpu: Arc::clone(gpu) })
    }
}

impl Drop for SparseBuffer {
    fn drop(&mut self) {
        // SAFETY: the buffer is live, and no queue uses it, since all that is submitted is waited for.
        unsafe { self.gpu.device.destroy_buffer(self.handle, None) };
    }
}

/// Memory that is not mapped.
pub(super) struct Memory {
    pub(super) handle: vk::DeviceMemory,
    gpu: Arc<Gpu>,
}

impl Memory {
    pub(super) fn new(gpu: &Arc<Gpu>, memory_type: usize, size: u64) -> Result<Self, Failure> {
        let info =
            vk::MemoryAllocateInfo::default().allocation_size(size).memory_type_index(memory_type as u32);
        // SAFETY: the memory type is one of the device's.
        let handle = unsafe { gpu.device.allocate_memory(&info, None) }
            .map_err(Failure::vulkan("vkAllocateMemory"))?;
        Ok(Self { handle, gpu: Arc::clone(gpu) })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the memory is live, and what it was bound to is not used any more.
        unsafe { self.gpu.device.free_memory(self.handle, None) };
    }
}

/// The queue that binds, and a fence.
pub(super) struct Binder {
    queue: QueueIndex,
    fence: vk::Fence,
    gpu: Arc<Gpu>,
}

impl Binder {
    pub(super) fn new(gpu: &Arc<Gpu>) -> Result<Self, Failure> {
        let queue = gpu.sparse_queue().ok_or_else(|| {
            Failure::NoDevice(format!("{} has no sparse buffers with unbound parts", gpu.info.name))
        })?;
        // SAFETY: the struct is valid and lives for the call.
        let fence = unsafe { gpu.device.create_fence(&vk::FenceCreateInfo::default(), None) }
            .map_err(Failure::vulkan("vkCreateFence"))?;
        Ok(Self { queue, fence, gpu: Arc::clone(gpu) })
    }

    /// Binds, and waits. Returns the time of the call alone, and that until the fence is signalled.
    pub(super) fn bind(
        &self,
        buffer: &SparseBuffer,
        binds: &[vk::SparseMemoryBind],
    ) -> Result<(Duration, Duration), Failure> {
        let of_buffer = [vk::SparseBufferMemoryBindInfo::default().buffer(buffer.handle).binds(binds)];
        let info = [vk::BindSparseInfo::default().buffer_binds(&of_buffer)];
        let device = &self.gpu.device;
        let queue = self.gpu.library().lock_queue(self.queue);
        let queue = queue.ok_or_else(|| Failure::NoDevice("the queue is gone".to_owned()))?;
        let start = Instant::now();
        // SAFETY: the queue is locked and binds sparse memory; the ranges lie in the buffer and in the memory, at multiples of
        // the buffer's alignment; the fence is unsignalled.
        unsafe { device.queue_bind_sparse(*queue, &info, self.fence) }
            .map_err(Failure::vulkan("vkQueueBindSparse"))?;
        let call = start.elapsed();
        // SAFETY: the fence is the device's.
        unsafe { device.wait_for_fences(&[self.fence], true, u64::MAX) }
            .map_err(Failure::vulkan("vkWaitForFences"))?;
        let whole = start.elapsed();
        // SAFETY: the fence is signalled, and no queue uses it.
        unsafe { device.reset_fences(&[self.fence]) }.map_err(Failure::vulkan("vkResetFences"))?;
        Ok((call, whole))
    }

    /// Returns the kind of its queue.
    pub(super) fn queue_kind(gpu: &Gpu) -> String {
        let kinds = &gpu.library().properties().queues;
        let kind = gpu.sparse_queue().and_then(|queue| kinds.get(usize::from(queue.0)));
        kind.map_or_else(String::new, |kind| format!("{kind:?}").to_lowercase())
    }
}

impl Drop for Binder {
    fn drop(&mut self) {
        // SAFETY: the fence is the device's, and no queue uses it.
        unsafe { self.gpu.device.destroy_fence(self.fence, None) };
    }
}
