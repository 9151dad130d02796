//! What commands are recorded into, for an application's own commands.

use super::DeviceError;

/// What commands are recorded into: a command pool on Vulkan, a command allocator on Direct3D 12. Used
/// again as a whole, once the queue has passed all that was recorded into it.
pub trait CommandAllocator: Send + Sized + 'static {
    /// Makes it as new; what was recorded is gone.
    ///
    /// Whoever [submits](super::Device::submit) what was recorded, in whichever call of an API, promises that
    /// the memory is neither reset nor dropped before the queue is done with it.
    ///
    /// # Errors
    ///
    /// [`DeviceError`]. It can only be dropped then.
    fn reset(&mut self) -> Result<(), DeviceError>;
}
