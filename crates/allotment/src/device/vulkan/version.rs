//! Detection of the usable version of Vulkan. The application need not name it: `ash` has loaded all functions,
//! and loaders and drivers return those of a version only to an application that requested it.
//! (`VkApplicationInfo::apiVersion` itself cannot be queried.)
//!
//! NVIDIA's driver (580 on an H100) returns all device functions that it has, whatever was requested. They work where the
//! application requested 1.1 or more. Where it requested 1.0, the loader answers what version 1.1 asks with nothing at all, and
//! that tells.

use core::ptr::null;

use ash::vk;

/// Returns true if the loader returned the function. If it did not, `ash` stores a function that panics, the
/// same as in a table for which nothing was found.
macro_rules! is_there {
    ($table:expr, $kind:ty, $function:ident) => {
        $table.$function as usize != <$kind>::load(|_| null()).$function as usize
    };
}

/// Returns the highest version, up to 1.3, all of whose functions that this crate calls were found, and are answered.
///
/// # Safety
///
/// `physical_device` is of `instance`.
pub(super) unsafe fn found(
    instance: &ash::Instance,
    physical_device: vk::PhysicalDevice,
    device: &ash::Device,
) -> u32 {
    let (first, second, third) = (device.fp_v1_1(), device.fp_v1_2(), device.fp_v1_3());
    // Layers may return instance functions for older versions too, but device functions only if the device has
    // them.
    // The first function that is missing decides, from 1.1 upwards: a version without a lower one does not exist.
    if !is_there!(instance.fp_v1_1(), ash::InstanceFnV1_1, get_physical_device_properties2)
        || !is_there!(first, ash::DeviceFnV1_1, get_buffer_memory_requirements2)
        || !is_there!(first, ash::DeviceFnV1_1, get_image_memory_requirements2)
        // SAFETY: the caller's promise; the function is there.
        || !unsafe { answers_1_1(instance, physical_device) }
    {
        vk::API_VERSION_1_0
    } else if !is_there!(second, ash::DeviceFnV1_2, get_semaphore_counter_value)
        || !is_there!(second, ash::DeviceFnV1_2, wait_semaphores)
        || !is_there!(second, ash::DeviceFnV1_2, get_buffer_device_address)
    {
        vk::API_VERSION_1_1
    } else if !is_there!(third, ash::DeviceFnV1_3, get_device_buffer_memory_requirements)
        || !is_there!(third, ash::DeviceFnV1_3, get_device_image_memory_requirements)
    {
        vk::API_VERSION_1_2
    } else {
        vk::API_VERSION_1_3
    }
}

/// Returns true if the instance answers a question of Vulkan 1.1.
///
/// # Safety
///
/// `physical_device` is of `instance`, for which the loader returned `vkGetPhysicalDeviceProperties2`.
unsafe fn answers_1_1(instance: &ash::Instance, physical_device: vk::PhysicalDevice) -> bool {
    let mut third = vk::PhysicalDeviceMaintenance3Properties::default();
    let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut third);
    // SAFETY: the caller's promise. Who does not know the structure that is chained passes over it.
    unsafe { instance.get_physical_device_properties2(physical_device, &mut properties) };
    // A device of Vulkan 1.1 has at least 2^30 here.
    third.max_memory_allocation_size != 0
}
