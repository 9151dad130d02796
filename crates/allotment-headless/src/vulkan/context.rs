//! Owns the instance and the device, and destroys them in the right order.

use core::fmt;
use std::sync::Arc;

use ash::vk;

use crate::Messages;

/// An instance and a device. Destroyed with its last user.
pub(super) struct Context {
    pub(super) device: ash::Device,
    pub(super) physical_device: vk::PhysicalDevice,
    pub(super) families: Vec<u32>,
    pub(super) api_version: u32,
    pub(super) sparse_binding: bool,
    /// Of buffers.
    pub(super) sparse_residency: bool,
    /// Dropped after the device.
    pub(super) base: Base,
}

/// An instance with its messenger.
pub(super) struct Base {
    pub(super) instance: ash::Instance,
    pub(super) messenger: Option<(ash::ext::debug_utils::Instance, vk::DebugUtilsMessengerEXT)>,
    /// The messenger also records messages about the instance's destruction, so they are dropped later.
    pub(super) messages: Arc<Messages>,
    /// The library that contains the code of all of them.
    pub(super) entry: ash::Entry,
}

impl core::ops::Deref for Context {
    type Target = Base;

    fn deref(&self) -> &Base {
        &self.base
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("device", &self.device.handle())
            .field("api_version", &self.api_version)
            .field("families", &self.families)
            .finish_non_exhaustive()
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: all code that submitted work was dropped before.
        let _ = unsafe { self.device.device_wait_idle() };
        // SAFETY: no other code has the device, whose objects are destroyed.
        unsafe { self.device.destroy_device(None) };
    }
}

impl Drop for Base {
    fn drop(&mut self) {
        if let Some((functions, messenger)) = self.messenger.take() {
            // SAFETY: of this instance, and destroyed once.
            unsafe { functions.destroy_debug_utils_messenger(messenger, None) };
        }
        // SAFETY: no other code has the instance, whose objects are destroyed.
        unsafe { self.instance.destroy_instance(None) };
    }
}
