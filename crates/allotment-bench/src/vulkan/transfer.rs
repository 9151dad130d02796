//! Timed copies on a queue.

use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use ash::vk;

use super::{Buffer, Gpu};
use crate::failure::Failure;

/// A command buffer and a fence.
pub(crate) struct Transfer {
    gpu: Arc<Gpu>,
    pool: vk::CommandPool,
    commands: vk::CommandBuffer,
    fence: vk::Fence,
}

impl Transfer {
    pub(crate) fn new(gpu: &Arc<Gpu>) -> Result<Self, Failure> {
        let device = &gpu.device;
        let info = vk::CommandPoolCreateInfo::default()
            .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER)
            .queue_family_index(gpu.queue_family);
        // SAFETY: the family is one that the device was made with.
        let pool = unsafe { device.create_command_pool(&info, None) }
            .map_err(Failure::vulkan("vkCreateCommandPool"))?;
        let mut transfer = Self {
            gpu: Arc::clone(gpu),
            pool,
            commands: vk::CommandBuffer::null(),
            fence: vk::Fence::null(),
        };
        let info = vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(1);
        // SAFETY: the pool is the device's.
        let commands = unsafe { device.allocate_command_buffers(&info) }
            .map_err(Failure::vulkan("vkAllocateCommandBuffers"))?;
        transfer.commands = commands.first().copied().unwrap_or_default();
        // SAFETY: the struct is valid and lives for the call.
        transfer.fence = unsafe { device.create_fence(&vk::FenceCreateInfo::default(), None) }
            .map_err(Failure::vulkan("vkCreateFence"))?;
        Ok(transfer)
    }

    /// Copies `size` bytes from the start of one buffer to the start of another, and waits. The time is from before
    /// the recording of the commands to the end of the wait.
    pub(crate) fn copy(&mut self, from: &Buffer, to: &Buffer, size: u64) -> Result<Duration, Failure> {
        // SAFETY: the buffers are bound and outlive the call; the caller passes a size that both have.
        unsafe { self.copy_between(from.handle, to.handle, size) }
    }

    /// Copies between buffers of any owner.
    ///
    /// # Safety
    ///
    /// Both are live and of this device, are made to copy from and to on its queue, are bound, and have
    /// `size` bytes.
    pub(crate) unsafe fn copy_between(
        &mut self,
        from: vk::Buffer,
        to: vk::Buffer,
        size: u64,
    ) -> Result<Duration, Failure> {
        let start = Instant::now();
        self.record(from, to, size)?;
        let commands = [self.commands];
        let submit = [vk::SubmitInfo::default().command_buffers(&commands)];
        let device = &self.gpu.device;
        let queue = self.gpu.library().lock_queue(self.gpu.queue);
        let queue = queue.ok_or_else(|| Failure::NoDevice("the queue is gone".to_owned()))?;
        // SAFETY: the queue is locked; the commands are recorded, the fence is unsignalled, and both
        // outlive the wait below.
        unsafe { device.queue_submit(*queue, &submit, self.fence) }
            .map_err(Failure::vulkan("vkQueueSubmit"))?;
        // SAFETY: the fence is the device's.
        unsafe { device.wait_for_fences(&[self.fence], true, u64::MAX) }
            .map_err(Failure::vulkan("vkWaitForFences"))?;
        let elapsed = start.elapsed();
        // SAFETY: the fence is signalled, and no queue uses it.
        unsafe { device.reset_fences(&[self.fence]) }.map_err(Failure::vulkan("vkResetFences"))?;
        Ok(elapsed)
    }

    fn record(&mut self, from: vk::Buffer, to: vk::Buffer, size: u64) -> Result<(), Failure> {
        let device = &self.gpu.device;
        let begin = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // SAFETY: the commands are not pending, since `copy` waits for them.
        unsafe { device.begin_command_buffer(self.commands, &begin) }
            .map_err(Failure::vulkan("vkBeginCommandBuffer"))?;
        let region = [vk::BufferCopy::default().size(size)];
        // SAFETY: the commands are being recorded; the caller says that the region lies in both buffers.
        unsafe { device.cmd_copy_buffer(self.commands, from, to, &region) };
        // Makes the copied bytes visible to the CPU.
        let barrier = [vk::MemoryBarrier::default()
            .src_access_mask(vk::AccessFlags::TRANSFER_WRITE)
            .dst_access_mask(vk::AccessFlags::HOST_READ | vk::AccessFlags::TRANSFER_READ)];
        let after = vk::PipelineStageFlags::HOST | vk::PipelineStageFlags::TRANSFER;
        // SAFETY: the commands are being recorded, outside of a render pass.
        unsafe {
            device.cmd_pipeline_barrier(
                self.commands,
                vk::PipelineStageFlags::TRANSFER,
                after,
                vk::DependencyFlags::empty(),
                &barrier,
                &[],
                &[],
            );
        }
        // SAFETY: the commands are being recorded.
        unsafe { device.end_command_buffer(self.commands) }.map_err(Failure::vulkan("vkEndCommandBuffer"))
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        // SAFETY: the fence is null or the device's, and no queue uses it.
        unsafe { self.gpu.device.destroy_fence(self.fence, None) };
        // SAFETY: the pool is the device's, and its commands are not pending.
        unsafe { self.gpu.device.destroy_command_pool(self.pool, None) };
    }
}
