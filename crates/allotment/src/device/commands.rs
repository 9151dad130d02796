//! The objects that own the memory of recorded commands.

use super::DeviceError;

/// Memory for recorded commands: a `VkCommandPool` in Vulkan, an `ID3D12CommandAllocator` in Direct3D 12. It is
/// reset as a whole, once the queue has executed everything that was recorded into it.
///
/// Commands are recorded through a shared reference: the owner alone can reset it, or put another in its place.
pub trait CommandAllocator: Send + Sized + 'static {
    /// Resets the allocator. All commands recorded into it are discarded.
    ///
    /// An application that [submits](super::QueueDevice::submit) the recorded commands, with any call of the API,
    /// promises that the allocator is neither reset nor dropped before the queue has executed them.
    ///
    /// # Errors
    ///
    /// [`DeviceError`]. The allocator cannot be used again and can only be dropped.
    fn reset(&mut self) -> Result<(), DeviceError>;
}
