//! Reserved buffers: sparse buffers with unbound ranges.

use ash::vk;

use super::resources::Bindable as _;
use super::{BufferInfo, Shared, refused};
use crate::device::{DeviceError, QueueIndex, QueueKind, RangeBinding, Requirements};

/// Returns the queue that binds memory: preferably one for copies, which has the least to do that a thread would wait for.
pub(super) fn binding_queue(
    queues: &[(vk::Queue, u32)],
    kinds: &[QueueKind],
    binds: impl Fn(u32) -> bool,
) -> Option<QueueIndex> {
    let all = (0..).map(QueueIndex).zip(queues.iter().zip(kinds));
    let binding = all.filter(|(_, (of_queue, _))| binds(of_queue.1));
    binding.min_by_key(|(_, (_, kind))| **kind != QueueKind::Transfer).map(|(index, _)| index)
}

/// A fence that is destroyed where it is dropped.
struct Fence<'a> {
    device: &'a ash::Device,
    fence: vk::Fence,
}

impl Drop for Fence<'_> {
    fn drop(&mut self) {
        // SAFETY: of this device, and waited for, or never submitted, or the device is lost.
        unsafe { self.device.destroy_fence(self.fence, None) };
    }
}

impl Shared {
    pub(super) fn reserved_buffer(
        &self,
        info: &BufferInfo<'_>,
    ) -> Result<(vk::Buffer, Requirements), DeviceError> {
        let reserved = info.reserved().filter(|_| self.binding_queue.is_some());
        let reserved = reserved.ok_or(DeviceError::Unsupported)?;
        let buffer = self.with_buffer_info(&reserved, |raw| self.create_unbound_buffer(raw))??;
        Ok((buffer, buffer.memory_requirements(self)))
    }

    /// Binds memory to ranges of a reserved buffer, and waits until the queue has done it.
    ///
    /// # Safety
    ///
    /// As for [`bind_ranges`](crate::device::BufferDevice::bind_ranges).
    pub(super) unsafe fn bind_ranges(
        &self,
        buffer: vk::Buffer,
        ranges: &[RangeBinding<vk::DeviceMemory>],
    ) -> Result<(), DeviceError> {
        let queue = self.binding_queue.ok_or(DeviceError::Unsupported)?;
        let bind = |range: &RangeBinding<vk::DeviceMemory>| {
            let bind = vk::SparseMemoryBind::default().resource_offset(range.offset).size(range.size);
            range.memory.map_or(bind, |(memory, offset)| bind.memory(memory).memory_offset(offset))
        };
        let binds: Vec<_> = ranges.iter().map(bind).collect();
        let of_buffer = [vk::SparseBufferMemoryBindInfo::default().buffer(buffer).binds(&binds)];
        let info = [vk::BindSparseInfo::default().buffer_binds(&of_buffer)];
        // SAFETY: the structure is valid.
        let fence =
            unsafe { self.raw.create_fence(&vk::FenceCreateInfo::default(), None) }.map_err(refused)?;
        let fence = Fence { device: &self.raw, fence };
        {
            let queue = self.queues.lock(queue).ok_or(DeviceError::NoSuchQueue { queue })?;
            let _bound = self.memory_shared();
            // SAFETY: the queue is locked and binds; buffer and ranges are right by the caller's promise, and the fence is new.
            unsafe { self.raw.queue_bind_sparse(*queue, &info, fence.fence) }.map_err(refused)?;
        }
        // Not under the queue's lock: other threads may submit meanwhile.
        // SAFETY: the fence is of this device.
        unsafe { self.raw.wait_for_fences(&[fence.fence], true, u64::MAX) }.map_err(refused)
    }
}
