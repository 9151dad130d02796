//! VMA's own functions that the crate `vk-mem` links and does not export: the JSON dump, and names.

use core::ffi::{CStr, c_char, c_void};

use ash::vk;
use vk_mem::{Allocation, Allocator};

/// `VmaAllocator` and `VmaAllocation`.
type Handle = *mut c_void;

/// `VmaAllocationInfo` of VMA 3.
#[repr(C)]
struct VmaAllocationInfo {
    memory_type: u32,
    memory: vk::DeviceMemory,
    offset: vk::DeviceSize,
    size: vk::DeviceSize,
    mapped: *mut c_void,
    user_data: *mut c_void,
    name: *const c_char,
}

#[allow(non_snake_case, reason = "the names are VMA's")]
unsafe extern "C" {
    fn vmaBuildStatsString(allocator: Handle, text: *mut *mut c_char, detailed: vk::Bool32);
    fn vmaFreeStatsString(allocator: Handle, text: *mut c_char);
    fn vmaSetAllocationName(allocator: Handle, allocation: Handle, name: *const c_char);
    fn vmaGetAllocationInfo(allocator: Handle, allocation: Handle, info: *mut VmaAllocationInfo);
}

fn allocator_handle(allocator: &Allocator) -> Handle {
    const { assert!(size_of::<Allocator>() == size_of::<Handle>()) };
    // SAFETY: the struct consists of VMA's handle, which is a pointer, and of nothing else: its size leaves no room.
    unsafe { core::ptr::from_ref(allocator).cast::<Handle>().read() }
}

fn allocation_handle(allocation: &Allocation) -> Handle {
    const { assert!(size_of::<Allocation>() == size_of::<Handle>()) };
    // SAFETY: as for the allocator.
    unsafe { core::ptr::from_ref(allocation).cast::<Handle>().read() }
}

/// Returns what `vmaBuildStatsString` writes, with the detailed map.
pub(super) fn dump(allocator: &Allocator) -> String {
    let handle = allocator_handle(allocator);
    let mut text = core::ptr::null_mut();
    // SAFETY: the allocator exists, and the function only writes the pointer.
    unsafe { vmaBuildStatsString(handle, &raw mut text, vk::TRUE) };
    // SAFETY: VMA returns a string that ends with 0, and keeps it until it is freed below.
    let copy = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    // SAFETY: the string is this allocator's, and is freed once.
    unsafe { vmaFreeStatsString(handle, text) };
    copy
}

/// Names an allocation of this allocator.
///
/// # Safety
///
/// The allocation must exist and belong to the allocator, and no other thread may use it.
pub(super) unsafe fn set_name(allocator: &Allocator, allocation: &Allocation, name: &CStr) {
    let (allocator, allocation) = (allocator_handle(allocator), allocation_handle(allocation));
    // SAFETY: the caller guarantees it; VMA copies the name.
    unsafe { vmaSetAllocationName(allocator, allocation, name.as_ptr()) };
}

/// Returns the name of an allocation, as `vmaGetAllocationInfo` reports it.
///
/// # Safety
///
/// As for [`set_name`].
pub(super) unsafe fn name(allocator: &Allocator, allocation: &Allocation) -> Option<String> {
    let mut info = VmaAllocationInfo {
        memory_type: 0,
        memory: vk::DeviceMemory::null(),
        offset: 0,
        size: 0,
        mapped: core::ptr::null_mut(),
        user_data: core::ptr::null_mut(),
        name: core::ptr::null(),
    };
    let (allocator, allocation) = (allocator_handle(allocator), allocation_handle(allocation));
    // SAFETY: the caller guarantees that both exist; the function fills the struct, whose layout is VMA's.
    unsafe { vmaGetAllocationInfo(allocator, allocation, &raw mut info) };
    if info.name.is_null() {
        return None;
    }
    // SAFETY: a name that is not null ends with 0, and VMA keeps it as long as the allocation.
    let name = unsafe { CStr::from_ptr(info.name) };
    Some(name.to_string_lossy().into_owned())
}
