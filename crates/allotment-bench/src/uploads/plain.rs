//! Plain copies of texels to images: `vkCmdCopyBufferToImage` from a buffer that is full already, a few submissions ahead.

use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use ash::vk;

use crate::failure::Failure;
use crate::vulkan::{Buffer, Gpu};

/// Bytes of a submission: as many as a batch of the library's default has.
const BATCH: u64 = 8 << 20;

/// Submissions in flight, so that the queue never waits.
const AHEAD: usize = 4;

/// A queue that copies texels.
pub(super) struct Plain {
    gpu: Arc<Gpu>,
    source: Buffer,
    pool: vk::CommandPool,
    commands: Vec<(vk::CommandBuffer, vk::Fence)>,
}

impl Plain {
    pub(super) fn new(gpu: &Arc<Gpu>) -> Result<Self, Failure> {
        let visible = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
        let host = |flags: vk::MemoryPropertyFlags| {
            flags.contains(visible)
                && (gpu.info.software || !flags.contains(vk::MemoryPropertyFlags::DEVICE_LOCAL))
        };
        let found = gpu.info.memory_types.iter().find(|it| host(it.flags));
        let none = || Failure::NoDevice("the device has no host memory for staging".to_owned());
        let source =
            Buffer::new(gpu, found.ok_or_else(none)?.index, BATCH * AHEAD as u64)?.ok_or_else(none)?;
        if let Some(memory) = source.memory() {
            memory.write(&vec![7; (BATCH * AHEAD as u64) as usize])?;
        }
        let info = vk::CommandPoolCreateInfo::default()
            .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER)
            .queue_family_index(gpu.queue_family);
        // SAFETY: the family is one that the device was made with.
        let pool = unsafe { gpu.device.create_command_pool(&info, None) }
            .map_err(Failure::vulkan("vkCreateCommandPool"))?;
        let mut plain = Self { gpu: Arc::clone(gpu), source, pool, commands: Vec::new() };
        let info =
            vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(AHEAD as u32);
        // SAFETY: the pool is the device's.
        let commands = unsafe { gpu.device.allocate_command_buffers(&info) }
            .map_err(Failure::vulkan("vkAllocateCommandBuffers"))?;
        let signalled = vk::FenceCreateInfo::default().flags(vk::FenceCreateFlags::SIGNALED);
        for commands in commands {
            // SAFETY: the struct is valid and lives for the call.
            let fence = unsafe { gpu.device.create_fence(&signalled, None) };
            plain.commands.push((commands, fence.map_err(Failure::vulkan("vkCreateFence"))?));
        }
        Ok(plain)
    }

    /// Copies all texels of RGBA8 images without mip levels, and waits. Returns the time of all of it.
    ///
    /// # Safety
    ///
    /// The images are live, new, of this size, and made to be copied to; no other thread uses them.
    pub(super) unsafe fn copy(&mut self, images: &[vk::Image], side: u32) -> Result<Duration, Failure> {
        let row = u64::from(side) * 4;
        let step = u32::try_from(BATCH / row).unwrap_or(side).clamp(1, side);
        let began = Instant::now();
        // Small images share a submission.
        let per_submission = (BATCH / (row * u64::from(side))).max(1) as usize;
        let mut at = 0;
        for images in images.chunks(per_submission) {
            for first in (0..side).step_by(step as usize) {
                let rows = step.min(side - first);
                self.submit(at % AHEAD, images, side, first..first + rows)?;
                at += 1;
            }
        }
        self.wait()?;
        Ok(began.elapsed())
    }

    fn submit(
        &mut self,
        at: usize,
        images: &[vk::Image],
        side: u32,
        rows: core::ops::Range<u32>,
    ) -> Result<(), Failure> {
        let device = &self.gpu.device;
        let (commands, fence) = self.commands[at];
        // SAFETY: the fence is the device's.
        unsafe { device.wait_for_fences(&[fence], true, u64::MAX) }
            .map_err(Failure::vulkan("vkWaitForFences"))?;
        // SAFETY: as above, and no queue uses it.
        unsafe { device.reset_fences(&[fence]) }.map_err(Failure::vulkan("vkResetFences"))?;
        let begin = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // SAFETY: the commands are not pending, since their fence was waited for.
        unsafe { device.begin_command_buffer(commands, &begin) }
            .map_err(Failure::vulkan("vkBeginCommandBuffer"))?;
        if rows.start == 0 {
            self.barrier(commands, images, vk::ImageLayout::UNDEFINED, vk::ImageLayout::TRANSFER_DST_OPTIMAL);
        }
        let bytes = u64::from(rows.end - rows.start) * u64::from(side) * 4;
        for (image, offset) in images.iter().zip((0..).step_by(bytes as usize)) {
            let region = vk::BufferImageCopy::default()
                .buffer_offset(at as u64 * BATCH + offset)
                .image_subresource(
                    vk::ImageSubresourceLayers::default()
                        .aspect_mask(vk::ImageAspectFlags::COLOR)
                        .layer_count(1),
                )
                .image_offset(vk::Offset3D { x: 0, y: rows.start as i32, z: 0 })
                .image_extent(vk::Extent3D { width: side, height: rows.end - rows.start, depth: 1 });
            let layout = vk::ImageLayout::TRANSFER_DST_OPTIMAL;
            // SAFETY: the commands are being recorded; the caller says that the box lies in the image, and the bytes of a
            // submission are in the buffer.
            unsafe {
                device.cmd_copy_buffer_to_image(commands, self.source.handle, *image, layout, &[region]);
            };
        }
        if rows.end == side {
            let read = vk::ImageLayout::SHADER_READ_ONLY_OPTIMAL;
            self.barrier(commands, images, vk::ImageLayout::TRANSFER_DST_OPTIMAL, read);
        }
        // SAFETY: the commands are being recorded.
        unsafe { device.end_command_buffer(commands) }.map_err(Failure::vulkan("vkEndCommandBuffer"))?;
        let queue = self.gpu.library().lock_queue(self.gpu.queue);
        let queue = queue.ok_or_else(|| Failure::NoDevice("the queue is gone".to_owned()))?;
        let recorded = [commands];
        let submit = [vk::SubmitInfo::default().command_buffers(&recorded)];
        // SAFETY: the queue is locked; commands, fence, buffer and images outlive the wait for the fence.
        unsafe { device.queue_submit(*queue, &submit, fence) }.map_err(Failure::vulkan("vkQueueSubmit"))
    }

    fn barrier(
        &self,
        commands: vk::CommandBuffer,
        images: &[vk::Image],
        from: vk::ImageLayout,
        to: vk::ImageLayout,
    ) {
        let range = vk::ImageSubresourceRange::default()
            .aspect_mask(vk::ImageAspectFlags::COLOR)
            .level_count(1)
            .layer_count(1);
        let barriers: Vec<_> = images
            .iter()
            .map(|image| {
                vk::ImageMemoryBarrier::default()
                    .old_layout(from)
                    .new_layout(to)
                    .src_access_mask(vk::AccessFlags::TRANSFER_WRITE)
                    .dst_access_mask(vk::AccessFlags::TRANSFER_WRITE)
                    .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
                    .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
                    .image(*image)
                    .subresource_range(range)
            })
            .collect();
        let stage = vk::PipelineStageFlags::TRANSFER;
        let none = vk::DependencyFlags::empty();
        // SAFETY: the commands are being recorded, and the images are live.
        unsafe { self.gpu.device.cmd_pipeline_barrier(commands, stage, stage, none, &[], &[], &barriers) };
    }

    fn wait(&self) -> Result<(), Failure> {
        let fences: Vec<_> = self.commands.iter().map(|(_, fence)| *fence).collect();
        // SAFETY: the fences are the device's.
        unsafe { self.gpu.device.wait_for_fences(&fences, true, u64::MAX) }
            .map_err(Failure::vulkan("vkWaitForFences"))
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        // A queue may still use them where a submission failed.
        _ = self.wait();
        for (_, fence) in &self.commands {
            // SAFETY: the fence is the device's, and no queue uses it.
            unsafe { self.gpu.device.destroy_fence(*fence, None) };
        }
        // SAFETY: the pool is the device's, and its commands are not pending.
        unsafe { self.gpu.device.destroy_command_pool(self.pool, None) };
    }
}
