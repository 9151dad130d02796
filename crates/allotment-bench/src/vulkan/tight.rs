//! A device whose memory is made up, so that its heaps can be full.
//!
//! A software device has one heap that no program fills. So contenders are told of the memory types of a discrete GPU with a
//! window for the CPU, and what they allocate is taken from heaps of these sizes, or refused; the bytes come from the driver's
//! first memory type, whichever it is.
//!
//! ```text
//!   type 0   device-local                             heap 0   1 GiB
//!   type 1   host-visible, coherent                   heap 1   4 GiB
//!   type 2   host-visible, coherent, cached           heap 1
//!   type 3   device-local, host-visible, coherent     heap 2   256 MiB
//! ```

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use ash::vk::{self, Handle, MemoryPropertyFlags as Flags};

const HEAPS: [u64; 3] = [1 << 30, 4 << 30, 256 << 20];

const TYPES: [(Flags, u32); 4] = [
    (Flags::DEVICE_LOCAL, 0),
    (Flags::from_raw(Flags::HOST_VISIBLE.as_raw() | Flags::HOST_COHERENT.as_raw()), 1),
    (
        Flags::from_raw(
            Flags::HOST_VISIBLE.as_raw() | Flags::HOST_COHERENT.as_raw() | Flags::HOST_CACHED.as_raw(),
        ),
        1,
    ),
    (
        Flags::from_raw(
            Flags::DEVICE_LOCAL.as_raw() | Flags::HOST_VISIBLE.as_raw() | Flags::HOST_COHERENT.as_raw(),
        ),
        2,
    ),
];

/// What is left of each heap, in bytes.
static LEFT: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];

/// Calls that were refused.
static REFUSED: AtomicU64 = AtomicU64::new(0);

/// The driver's functions, which are those of any device of the process that the loader knows.
static DRIVER: OnceLock<(vk::PFN_vkAllocateMemory, vk::PFN_vkFreeMemory)> = OnceLock::new();

/// The heap and the size of each memory object.
static SIZES: Mutex<BTreeMap<u64, (usize, u64)>> = Mutex::new(BTreeMap::new());

/// Empties all heaps, but for what others have of one of them.
pub(crate) fn begin(heap: usize, left: u64) {
    for (index, size) in HEAPS.into_iter().enumerate() {
        LEFT[index].store(if index == heap { left } else { size }, Relaxed);
    }
    REFUSED.store(0, Relaxed);
}

/// Returns the calls that were refused since [`begin`].
pub(crate) fn refused() -> u64 {
    REFUSED.load(Relaxed)
}

/// Returns the instance and the device with function tables that tell of this memory.
pub(super) fn with_tight_memory(
    instance: &ash::Instance,
    device: &ash::Device,
) -> (ash::Instance, ash::Device) {
    let mut of_instance = instance.fp_v1_0().clone();
    of_instance.get_physical_device_memory_properties = memory_properties;
    let mut of_device = device.fp_v1_0().clone();
    DRIVER.get_or_init(|| (of_device.allocate_memory, of_device.free_memory));
    (of_device.allocate_memory, of_device.free_memory) = (allocate, free);
    let instance = ash::Instance::from_parts_1_3(
        instance.handle(),
        of_instance,
        instance.fp_v1_1().clone(),
        instance.fp_v1_3().clone(),
    );
    let device = ash::Device::from_parts_1_3(
        device.handle(),
        of_device,
        device.fp_v1_1().clone(),
        device.fp_v1_2().clone(),
        device.fp_v1_3().clone(),
    );
    (instance, device)
}

/// # Safety
///
/// As for `vkGetPhysicalDeviceMemoryProperties`.
unsafe extern "system" fn memory_properties(
    _: vk::PhysicalDevice,
    properties: *mut vk::PhysicalDeviceMemoryProperties,
) {
    let mut made_up = vk::PhysicalDeviceMemoryProperties {
        memory_type_count: TYPES.len() as u32,
        memory_heap_count: HEAPS.len() as u32,
        ..Default::default()
    };
    for (found, (property_flags, heap_index)) in made_up.memory_types.iter_mut().zip(TYPES) {
        *found = vk::MemoryType { property_flags, heap_index };
    }
    for (index, (found, size)) in made_up.memory_heaps.iter_mut().zip(HEAPS).enumerate() {
        let local = if index == 1 { vk::MemoryHeapFlags::empty() } else { vk::MemoryHeapFlags::DEVICE_LOCAL };
        *found = vk::MemoryHeap { size, flags: local };
    }
    // SAFETY: the caller promised a valid pointer.
    unsafe { properties.write(made_up) };
}

/// # Safety
///
/// As for `vkAllocateMemory`.
unsafe extern "system" fn allocate(
    device: vk::Device,
    info: *const vk::MemoryAllocateInfo<'_>,
    callbacks: *const vk::AllocationCallbacks<'_>,
    memory: *mut vk::DeviceMemory,
) -> vk::Result {
    let Some((driver, _)) = DRIVER.get() else { return vk::Result::ERROR_INITIALIZATION_FAILED };
    // SAFETY: the caller promised a valid struct.
    let mut info = unsafe { *info };
    let (_, heap) = TYPES[info.memory_type_index as usize];
    let (heap, size) = (heap as usize, info.allocation_size);
    if LEFT[heap].fetch_update(Relaxed, Relaxed, |left| left.checked_sub(size)).is_err() {
        REFUSED.fetch_add(1, Relaxed);
        return vk::Result::ERROR_OUT_OF_DEVICE_MEMORY;
    }
    info.memory_type_index = 0;
    // SAFETY: the arguments are the caller's, but for the memory type, which every device has.
    let result = unsafe { driver(device, &raw const info, callbacks, memory) };
    if result == vk::Result::SUCCESS {
        // SAFETY: the driver has just written the handle.
        let handle = unsafe { *memory };
        SIZES.lock().unwrap_or_else(PoisonError::into_inner).insert(handle.as_raw(), (heap, size));
    } else {
        LEFT[heap].fetch_add(size, Relaxed);
    }
    result
}

/// # Safety
///
/// As for `vkFreeMemory`.
unsafe extern "system" fn free(
    device: vk::Device,
    memory: vk::DeviceMemory,
    callbacks: *const vk::AllocationCallbacks<'_>,
) {
    let known = SIZES.lock().unwrap_or_else(PoisonError::into_inner).remove(&memory.as_raw());
    if let Some((heap, size)) = known {
        LEFT[heap].fetch_add(size, Relaxed);
    }
    if let Some((_, driver)) = DRIVER.get() {
        // SAFETY: the arguments are the caller's.
        unsafe { driver(device, memory, callbacks) };
    }
}
