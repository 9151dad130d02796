//! Heaps that say they are larger than they are.
//!
//! A software device names a heap size that its driver's authors made up; lavapipe's is 2 GiB, and it hands
//! out more all the same. Contenders act on it: VMA, for one, gives up blocks for memory of their own once
//! a heap is full. A replay touches none of the memory, so a made-up size may be replaced by one like a
//! GPU's. It is done in the function table that all contenders get.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::OnceLock;

use ash::vk;

/// Bytes of every heap.
static SIZE: AtomicU64 = AtomicU64::new(0);

/// The loader's own function. It serves any instance of the process.
static REAL: OnceLock<vk::PFN_vkGetPhysicalDeviceMemoryProperties> = OnceLock::new();

/// The instance, with a function table by which all heaps have `size` bytes.
pub(super) fn with_heaps_of(size: u64, instance: &ash::Instance) -> ash::Instance {
    let mut functions = instance.fp_v1_0().clone();
    REAL.get_or_init(|| functions.get_physical_device_memory_properties);
    SIZE.store(size, Relaxed);
    functions.get_physical_device_memory_properties = memory_properties;
    ash::Instance::from_parts_1_3(
        instance.handle(),
        functions,
        instance.fp_v1_1().clone(),
        instance.fp_v1_3().clone(),
    )
}

/// # Safety
///
/// As for `vkGetPhysicalDeviceMemoryProperties`.
unsafe extern "system" fn memory_properties(
    physical: vk::PhysicalDevice,
    properties: *mut vk::PhysicalDeviceMemoryProperties,
) {
    let Some(real) = REAL.get() else { return };
    // SAFETY: the arguments are the caller's, who promised what the function asks for.
    unsafe { real(physical, properties) };
    // SAFETY: the caller promised a valid pointer, and what it points to has just been written.
    let properties = unsafe { &mut *properties };
    for heap in properties.memory_heaps.iter_mut().take(properties.memory_heap_count as usize) {
        heap.size = SIZE.load(Relaxed);
    }
}
