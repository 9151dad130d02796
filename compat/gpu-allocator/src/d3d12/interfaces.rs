//! Interfaces of the application's version of `windows`, and those of Allotment's version.
//!
//! gpu-allocator accepts many versions of `windows`, each with types of its own; an application has the newest of them
//! that all of its packages accept. An interface is a pointer in all of them, and the pointer passes between them.

use allotment::device::d3d12::{Device, windows as of_allotment};
use allotment::memory::MemoryLocation as Place;
use windows::Win32::Graphics::Direct3D12::{ID3D12Device, ID3D12Heap};
use windows::core::Interface;

type DeviceOfAllotment = of_allotment::Win32::Graphics::Direct3D12::ID3D12Device;

/// Returns another reference to a device, for Allotment.
pub(super) fn device_for_allotment(device: &ID3D12Device) -> DeviceOfAllotment {
    let pointer = device.clone().into_raw();
    // SAFETY: a pointer to the same interface, whose reference it takes over from the clone.
    unsafe { <DeviceOfAllotment as of_allotment::core::Interface>::from_raw(pointer) }
}

/// Returns the heap that an allocation of the device is in; `None` for a committed resource.
pub(super) fn heap_of(device: &Device, place: &Place<Device>) -> Option<ID3D12Heap> {
    // SAFETY: the allocation is live, and so is its memory.
    let heap = unsafe { device.heap(place.memory) }?;
    let pointer = of_allotment::core::Interface::into_raw(heap);
    // SAFETY: as above; the reference that Allotment returned is passed on.
    Some(unsafe { ID3D12Heap::from_raw(pointer) })
}
