//! What is destroyed at the end, in the right order.

use core::fmt;
use std::sync::Arc;

use ash::vk;

use crate::messages::Messages;

/// An instance and a device. Gone with the last that uses them.
pub(crate) struct Context {
    pub(crate) device: ash::Device,
    pub(crate) physical_device: vk::PhysicalDevice,
    pub(crate) families: Vec<u32>,
    pub(crate) api_version: u32,
    pub(crate) sparse_binding: bool,
    /// After the device.
    pub(crate) base: Base,
}

/// An instance and who listens to its layers.
pub(crate) struct Base {
    pub(crate) instance: ash::Instance,
    pub(crate) messenger: Option<(ash::ext::debug_utils::Instance, vk::DebugUtilsMessengerEXT)>,
    /// The instance's own end is told to it, so it goes later.
    pub(crate) messages: Arc<Messages>,
    /// The library with the code of all of them.
    pub(crate) entry: ash::Entry,
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
