//! What is destroyed at the end, in the right order.

use core::fmt;
use std::sync::Arc;

use ash::vk;

use crate::Messages;

/// An instance and a device. Gone with the last that uses them.
pub(super) struct Context {
    pub(super) device: ash::Device,
    pub(super) physical_device: vk::PhysicalDevice,
    pub(super) families: Vec<u32>,
    pub(super) api_version: u32,
    pub(super) sparse_binding: bool,
    /// After the device.
    pub(super) base: Base,
}

/// An instance and who listens to its layers.
pub(super) struct Base {
    pub(super) instance: ash::Instance,
    pub(super) messenger: Option<(ash::ext::debug_utils::Instance, vk::DebugUtilsMessengerEXT)>,
    /// The instance's own end is told to it, so it goes later.
    pub(super) messages: Arc<Messages>,
    /// The library with the code of all of them.
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
        // SAFETY: whoever submitted work has gone before.
        let _ = unsafe { self.device.device_wait_idle() };
        // SAFETY: nobody else has the device, whose objects are gone.
        unsafe { self.device.destroy_device(None) };
    }
}

impl Drop for Base {
    fn drop(&mut self) {
        if let Some((functions, messenger)) = self.messenger.take() {
            // SAFETY: of this instance, and destroyed once.
            unsafe { functions.destroy_debug_utils_messenger(messenger, None) };
        }
        // SAFETY: nobody else has the instance, whose objects are gone.
        unsafe { self.instance.destroy_instance(None) };
    }
}
