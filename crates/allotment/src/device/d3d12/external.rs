//! Memory shared with other devices and processes, as handles.

use std::os::windows::io::{AsRawHandle as _, FromRawHandle as _, OwnedHandle};

use windows::Win32::Foundation::{GENERIC_ALL, HANDLE};
use windows::Win32::Graphics::Direct3D12::*;
use windows::core::PCWSTR;

use super::memory::Memory;
use super::properties::ResourceClasses;
use super::{Device, MemoryOptions, Shared, create, refused};
use crate::device::{DescriptionError, DeviceError, MemoryDesc};

impl Device {
    /// Exports memory as a new shared handle.
    ///
    /// # Errors
    ///
    /// The driver's error.
    ///
    /// # Safety
    ///
    /// `memory` is live, from this device, and was created with `D3D12_HEAP_FLAG_SHARED`
    /// ([`MemoryOptions::with_heap_flags`]).
    pub unsafe fn export_memory(&self, memory: Memory) -> Result<OwnedHandle, DeviceError> {
        // SAFETY: the caller's promise.
        let object = unsafe { memory.pageable() };
        // SAFETY: both are live; a null name and null attributes are allowed.
        let handle =
            unsafe { self.shared.raw.CreateSharedHandle(&object, None, GENERIC_ALL.0, PCWSTR::null()) };
        let handle = handle.map_err(|error| refused(&error))?;
        // SAFETY: the handle is new and has no other owner.
        Ok(unsafe { OwnedHandle::from_raw_handle(handle.0) })
    }
}

impl Shared {
    /// Opens the heap of a shared handle, if it satisfies the description.
    pub(super) fn open_heap(
        &self,
        handle: &OwnedHandle,
        desc: &MemoryDesc<'_, MemoryOptions>,
    ) -> Result<ID3D12Heap, DeviceError> {
        // The handle may be of a resource or a fence; the runtime refuses these by their interface.
        let heap: ID3D12Heap = create(|heap| {
            // SAFETY: the handle is open, and the runtime checks the interface of its object.
            unsafe { self.raw.OpenSharedHandle(HANDLE(handle.as_raw_handle()), heap) }
        })?;
        // SAFETY: the heap is live.
        let found = unsafe { heap.GetDesc() };
        let class = &self.classes[desc.memory_type.get()];
        let (has, wanted) = (found.Properties, class.heap(D3D12_HEAP_FLAG_SHARED));
        // A custom heap is compared by its properties; for other types the runtime fills them in by itself.
        let same_pages = has.Type != D3D12_HEAP_TYPE_CUSTOM
            || (has.CPUPageProperty, has.MemoryPoolPreference)
                == (wanted.CPUPageProperty, wanted.MemoryPoolPreference);
        // Larger is fine: the allocator uses only the bytes that it asked for.
        let satisfies = found.SizeInBytes >= desc.size
            && has.Type == wanted.Type
            && same_pages
            // It supports every resource that a heap of this memory type must support.
            && found.Flags.0 & ResourceClasses::empty().heap_flags().0 & !class.supports.heap_flags().0 == 0;
        if satisfies { Ok(heap) } else { Err(DescriptionError::SharedHeap.into()) }
    }
}
