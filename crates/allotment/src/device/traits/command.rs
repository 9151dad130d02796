//! Devices that create command allocators, each in its own way.

use super::Device;
use crate::device::{CommandAllocator, DeviceError, QueueIndex};

/// A device that an application records commands for: it creates what the commands are recorded into.
pub trait CommandDevice: Device {
    /// The API's command pool or command allocator.
    type CommandAllocator: CommandAllocator;

    /// Creates a command allocator for commands of a queue.
    ///
    /// # Errors
    ///
    /// [`DeviceError::NoSuchQueue`] where there is no such queue, else the driver's refusal.
    fn create_command_allocator(&self, queue: QueueIndex) -> Result<Self::CommandAllocator, DeviceError>;
}
