//! Command pools and their command buffers.

use core::fmt;
use std::sync::{Mutex, PoisonError};

use ash::vk;

use super::{Device, refused};
use crate::device::{CommandAllocator as CommandAllocatorApi, CommandDevice, DeviceError, QueueIndex};
use crate::sync::locked;

/// A command pool and its primary command buffers, for the application's own commands; see
/// [`create_command_allocator`](CommandDevice::create_command_allocator). Destroyed when dropped.
pub struct CommandAllocator {
    pool: Mutex<Pool>,
    /// Outlives the pool.
    device: Device,
}

impl CommandAllocator {
    /// Returns the next of the pool's command buffers, in the initial state: one that was reset, or a newly
    /// allocated one. It belongs to the pool, and stays valid until the next
    /// [`reset`](CommandAllocatorApi::reset).
    ///
    /// # Errors
    ///
    /// [`DeviceError`]; no command buffer was taken in that case.
    pub fn next(&self) -> Result<vk::CommandBuffer, DeviceError> {
        locked(&self.pool).next(self.device.raw())
    }
}

impl CommandAllocatorApi for CommandAllocator {
    fn reset(&mut self) -> Result<(), DeviceError> {
        self.pool.get_mut().unwrap_or_else(PoisonError::into_inner).reset(self.device.raw())
    }
}

impl Drop for CommandAllocator {
    fn drop(&mut self) {
        self.pool.get_mut().unwrap_or_else(PoisonError::into_inner).destroy(self.device.raw());
    }
}

impl fmt::Debug for CommandAllocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandAllocator").field("pool", &self.pool).finish_non_exhaustive()
    }
}

impl CommandDevice for Device {
    type CommandAllocator = CommandAllocator;

    fn create_command_allocator(&self, queue: QueueIndex) -> Result<CommandAllocator, DeviceError> {
        let family = self.shared.queues.family(queue)?;
        let pool = Mutex::new(Pool::new(self.raw(), family)?);
        Ok(CommandAllocator { pool, device: self.clone() })
    }
}

/// A command pool and its buffers, without the device. The owner has to call [`destroy`](Self::destroy).
#[derive(Debug)]
pub(super) struct Pool {
    handle: vk::CommandPool,
    buffers: Vec<vk::CommandBuffer>,
    /// Number of buffers handed out since the last reset; they are the first ones.
    used: usize,
}

impl Pool {
    /// Creates a pool for queues of a family that the device has queues of.
    pub(super) fn new(device: &ash::Device, family: u32) -> Result<Self, DeviceError> {
        let info = vk::CommandPoolCreateInfo::default()
            // All buffers live until one reset and are recorded once, which drivers can use for a cheaper
            // allocator. No `RESET_COMMAND_BUFFER`: single buffers are never reset.
            .flags(vk::CommandPoolCreateFlags::TRANSIENT)
            .queue_family_index(family);
        // SAFETY: the family is one that the device has queues of.
        let handle = unsafe { device.create_command_pool(&info, None) }.map_err(refused)?;
        Ok(Self { handle, buffers: Vec::new(), used: 0 })
    }

    pub(super) fn next(&mut self, device: &ash::Device) -> Result<vk::CommandBuffer, DeviceError> {
        // One buffer at a time: after the first frames every buffer is reused, so a larger batch would save
        // nothing.
        if self.used == self.buffers.len() {
            let info = vk::CommandBufferAllocateInfo::default()
                .command_pool(self.handle)
                .level(vk::CommandBufferLevel::PRIMARY)
                .command_buffer_count(1);
            // SAFETY: the pool is live, and no other thread uses it now.
            let mut made = unsafe { device.allocate_command_buffers(&info) }.map_err(refused)?;
            self.buffers.append(&mut made);
        }
        self.used += 1;
        Ok(self.buffers[self.used - 1])
    }

    /// Resets the pool. The queue uses none of its buffers any more, as the code that submitted them promised.
    pub(super) fn reset(&mut self, device: &ash::Device) -> Result<(), DeviceError> {
        let flags = vk::CommandPoolResetFlags::empty();
        // Without `RELEASE_RESOURCES`: the pool keeps its memory, so that a steady frame allocates nothing.
        // SAFETY: the pool is live, and the queue no longer uses its buffers.
        unsafe { device.reset_command_pool(self.handle, flags) }.map_err(refused)?;
        self.used = 0;
        Ok(())
    }

    /// Destroys the pool. The queue uses none of its buffers any more, and the pool is not used afterwards.
    pub(super) fn destroy(&mut self, device: &ash::Device) {
        // SAFETY: the pool is live, and the queue no longer uses its buffers.
        unsafe { device.destroy_command_pool(self.handle, None) };
        // Destroying a pool frees its buffers, so they need no call of their own.
        self.buffers.clear();
    }
}
