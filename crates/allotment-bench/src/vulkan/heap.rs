//! Modified heap sizes.
//!
//! A software device reports an arbitrary heap size; lavapipe reports 2 GiB and allows more all the same.
//! Contenders act on it: VMA, for example, switches from blocks to dedicated memory when a heap is full. A replay
//! does not touch the memory, so the arbitrary size may be replaced by that of a real GPU. This is done in the
//! function table that all contenders get.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::OnceLock;

use ash::vk;

/// Size of every heap in bytes.
static SIZE: AtomicU64 = AtomicU64::new(0);

/// The loader's function. It is valid for any instance of the process.
static REAL: OnceLock<vk::PFN_vkGetPhysicalDeviceMemoryProperties> = OnceLock::new();

/// Returns the instance with a function table that reports `size` bytes for all heaps.
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
