//! A modified buffer-image granularity.
//!
//! The behaviour of an allocator can be measured with any granularity, as long as nothing is bound to the memory.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::OnceLock;

use ash::vk;

/// The granularity in bytes that is reported from now on.
static GRANULARITY: AtomicU64 = AtomicU64::new(1);

/// The loader's function. It is valid for any instance of the process.
static REAL: OnceLock<vk::PFN_vkGetPhysicalDeviceProperties> = OnceLock::new();

/// Returns the instance with a function table that reports this granularity. All such instances share the last
/// value.
pub(super) fn with_granularity_of(bytes: u64, instance: &ash::Instance) -> ash::Instance {
    let mut functions = instance.fp_v1_0().clone();
    REAL.get_or_init(|| functions.get_physical_device_properties);
    GRANULARITY.store(bytes, Relaxed);
    functions.get_physical_device_properties = properties;
    ash::Instance::from_parts_1_3(
        instance.handle(),
        functions,
        instance.fp_v1_1().clone(),
        instance.fp_v1_3().clone(),
    )
}

/// # Safety
///
/// As for `vkGetPhysicalDeviceProperties`.
unsafe extern "system" fn properties(
    physical: vk::PhysicalDevice,
    properties: *mut vk::PhysicalDeviceProperties,
) {
    let Some(real) = REAL.get() else { return };
    // SAFETY: the arguments are the caller's, who promised what the function asks for.
    unsafe { real(physical, properties) };
    // SAFETY: the caller promised a valid pointer, and what it points to has just been written.
    unsafe { (*properties).limits.buffer_image_granularity = GRANULARITY.load(Relaxed) };
}
