//! Devices that create command allocators, each in its own way.

use super::{CommandAllocator, Device, DeviceError, QueueIndex};

/// A device that an application records commands for: it creates what the commands are recorded into.
pub trait CommandDevice: Device {
    /// The API's command pool or command allocator.
    type CommandAllocator: CommandAllocator;

    /// Creates a command allocator for commands of a queue.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Unsupported`] where there is no such queue, else the driver's refusal.
    fn create_command_allocator(&self, queue: QueueIndex) -> Result<Self::CommandAllocator, DeviceError>;
}

impl CommandDevice for super::simulated::SimulatedGpu {
    type CommandAllocator = super::simulated::CommandAllocator;

    fn create_command_allocator(&self, queue: QueueIndex) -> Result<Self::CommandAllocator, DeviceError> {
        self.command_allocator(queue)
    }
}

#[cfg(feature = "vulkan")]
impl CommandDevice for super::vulkan::Device {
    type CommandAllocator = super::vulkan::CommandAllocator;

    fn create_command_allocator(&self, queue: QueueIndex) -> Result<Self::CommandAllocator, DeviceError> {
        self.create_command_allocator(queue)
    }
}

#[cfg(all(feature = "d3d12", windows))]
impl CommandDevice for super::d3d12::Device {
    type CommandAllocator = super::d3d12::CommandAllocator;

    fn create_command_allocator(&self, queue: QueueIndex) -> Result<Self::CommandAllocator, DeviceError> {
        self.create_command_allocator(queue)
    }
}
