//! Residency priorities: `VK_EXT_pageable_device_local_memory`.

use ash::vk;

use super::{EnabledFeatures, Shared};
use crate::device::{DeviceError, Priority};

impl Shared {
    /// # Safety
    ///
    /// The conditions of [`set_memory_priority`](crate::device::MemoryDevice::set_memory_priority) apply.
    pub(super) unsafe fn set_priority(
        &self,
        memory: vk::DeviceMemory,
        priority: Priority,
    ) -> Result<(), DeviceError> {
        // Without the extension only the priority of the allocation counts, see `priority_support`.
        let functions = self.pageable.as_ref().ok_or(DeviceError::Unsupported)?;
        // Called through the pointer: `ash` 0.38 has no method for it.
        let set = functions.fp().set_device_memory_priority_ext;
        // SAFETY: the memory is live, and the extension is enabled.
        unsafe { set(self.raw.handle(), memory, priority.get()) };
        Ok(())
    }
}

/// Returns the functions of the extension if it is enabled.
pub(super) fn functions(
    instance: &ash::Instance,
    device: &ash::Device,
    enabled: EnabledFeatures,
) -> Option<ash::ext::pageable_device_local_memory::Device> {
    let is_enabled = enabled.contains(EnabledFeatures::PAGEABLE_DEVICE_LOCAL_MEMORY);
    is_enabled.then(|| ash::ext::pageable_device_local_memory::Device::new(instance, device))
}
