//! What commands are recorded into: a command pool and its buffers.

use core::fmt;

use ash::vk;

use super::{Device, refused};
use crate::device::{CommandAllocator as CommandMemoryApi, DeviceError, QueueIndex};

/// A command pool and its primary command buffers, for commands of the application's own: see
/// [`Device::command_memory`]. Destroyed when it is dropped.
pub struct CommandAllocator {
    pool: Pool,
    /// Outlives the pool.
    device: Device,
}

impl CommandAllocator {
    /// The next of the pool's command buffers, in the initial state: one that was reset, or a new one where
    /// there are no more. It is the pool's, and stays usable until the next
    /// [`reset`](CommandMemoryApi::reset).
    ///
    /// # Errors
    ///
    /// [`DeviceError`]; nothing was taken then.
    #[expect(clippy::should_implement_trait, reason = "it never ends, and may fail")]
    pub fn next(&mut self) -> Result<vk::CommandBuffer, DeviceError> {
        self.pool.next(self.device.raw())
    }
}

impl CommandMemoryApi for CommandAllocator {
    fn reset(&mut self) -> Result<(), DeviceError> {
        self.pool.reset(self.device.raw())
    }
}

impl Drop for CommandAllocator {
    fn drop(&mut self) {
        self.pool.destroy(self.device.raw());
    }
}

impl fmt::Debug for CommandAllocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandAllocator").field("pool", &self.pool).finish_non_exhaustive()
    }
}

impl Device {
    /// What commands for a queue are recorded into.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Unsupported`] where there is no such queue, else what the driver refuses with.
    pub fn command_memory(&self, queue: QueueIndex) -> Result<CommandAllocator, DeviceError> {
        let family = self.shared.queues.family(queue)?;
        Ok(CommandAllocator { pool: Pool::new(self.raw(), family)?, device: self.clone() })
    }
}

/// A command pool and its buffers, without the device. Who owns it destroys it.
#[derive(Debug)]
pub(super) struct Pool {
    handle: vk::CommandPool,
    buffers: Vec<vk::CommandBuffer>,
    /// Buffers that were handed out since the last reset: the first so many.
    used: usize,
}

impl Pool {
    /// A pool for queues of a family that the device has queues of.
    pub(super) fn new(device: &ash::Device, family: u32) -> Result<Self, DeviceError> {
        let info = vk::CommandPoolCreateInfo::default()
            .flags(vk::CommandPoolCreateFlags::TRANSIENT)
            .queue_family_index(family);
        // SAFETY: the family is one that the device has queues of.
        let handle = unsafe { device.create_command_pool(&info, None) }.map_err(refused)?;
        Ok(Self { handle, buffers: Vec::new(), used: 0 })
    }

    pub(super) fn next(&mut self, device: &ash::Device) -> Result<vk::CommandBuffer, DeviceError> {
        if self.used == self.buffers.len() {
            let info = vk::CommandBufferAllocateInfo::default()
                .command_pool(self.handle)
                .level(vk::CommandBufferLevel::PRIMARY)
                .command_buffer_count(1);
            // SAFETY: the pool is live, and nobody else uses it now.
            let mut made = unsafe { device.allocate_command_buffers(&info) }.map_err(refused)?;
            self.buffers.append(&mut made);
        }
        self.used += 1;
        Ok(self.buffers[self.used - 1])
    }

    /// The queue is done with all buffers, as those promised who submitted them.
    pub(super) fn reset(&mut self, device: &ash::Device) -> Result<(), DeviceError> {
        let flags = vk::CommandPoolResetFlags::empty();
        // SAFETY: the pool is live, and the queue is done with its buffers.
        unsafe { device.reset_command_pool(self.handle, flags) }.map_err(refused)?;
        self.used = 0;
        Ok(())
    }

    /// The queue is done with all buffers. Nothing is used of it afterwards.
    pub(super) fn destroy(&mut self, device: &ash::Device) {
        // SAFETY: the pool is live, and the queue is done with its buffers.
        unsafe { device.destroy_command_pool(self.handle, None) };
        self.buffers.clear();
    }
}
