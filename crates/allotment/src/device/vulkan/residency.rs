//! Residency priorities: `VK_EXT_pageable_device_local_memory`.

use ash::vk;

use super::{Device, EnabledFeatures};
use crate::device::{DeviceError, Priority};

impl Device {
    /// Sets the residency priority of memory, in place of the one from its allocation. The driver treats it as a
    /// hint.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Unsupported`] if `VK_EXT_pageable_device_local_memory` is not enabled.
    ///
    /// # Safety
    ///
    /// `memory` is live and from this device, and no other thread sets its priority or frees it during this
    /// call.
    pub unsafe fn set_priority(
        &self,
        memory: vk::DeviceMemory,
        priority: Priority,
    ) -> Result<(), DeviceError> {
        let functions = self.shared.pageable.as_ref().ok_or(DeviceError::Unsupported)?;
        let set = functions.fp().set_device_memory_priority_ext;
        // SAFETY: the memory is live, and the extension is enabled.
        unsafe { set(self.shared.raw.handle(), memory, priority.get()) };
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
