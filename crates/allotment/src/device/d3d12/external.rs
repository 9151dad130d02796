//! Memory that is shared with other devices and processes, as handles.

use std::os::windows::io::{AsRawHandle as _, FromRawHandle as _, OwnedHandle};

use windows::Win32::Foundation::{GENERIC_ALL, HANDLE};
use windows::Win32::Graphics::Direct3D12::*;
use windows::core::PCWSTR;

use super::memory::Memory;
use super::properties::Takes;
use super::{Device, MemoryOptions, Shared, create, refused};
use crate::device::{DeviceError, MemoryDesc};

impl Device {
    /// A new handle that names memory, for whoever shall share it.
    ///
    /// # Errors
    ///
    /// What the driver refuses with.
    ///
    /// # Safety
    ///
    /// `memory` is live, from this device, and was made with `D3D12_HEAP_FLAG_SHARED`
    /// ([`MemoryOptions::with_heap_flags`]).
    pub unsafe fn export_memory(&self, memory: Memory) -> Result<OwnedHandle, DeviceError> {
        // SAFETY: the caller's promise.
        let object = unsafe { memory.pageable() };
        // SAFETY: both are live; a null name and null attributes are allowed.
        let handle =
            unsafe { self.shared.raw.CreateSharedHandle(&object, None, GENERIC_ALL.0, PCWSTR::null()) };
        let handle = handle.map_err(|error| refused(&error))?;
        // SAFETY: new, and ours to close.
        Ok(unsafe { OwnedHandle::from_raw_handle(handle.0) })
    }
}

impl Shared {
    /// The heap that a handle names, where it has what is asked for.
    pub(super) fn open_heap(
        &self,
        handle: &OwnedHandle,
        desc: &MemoryDesc<'_, MemoryOptions>,
    ) -> Result<ID3D12Heap, DeviceError> {
        let heap: ID3D12Heap = create(|heap| {
            // SAFETY: the handle is open; what it names is asked for by its interface.
            unsafe { self.raw.OpenSharedHandle(HANDLE(handle.as_raw_handle()), heap) }
        })?;
        // SAFETY: the heap is live.
        let told = unsafe { heap.GetDesc() };
        let class = &self.classes[desc.memory_type.get()];
        let (has, wanted) = (told.Properties, class.properties);
        let same_pages = has.Type != D3D12_HEAP_TYPE_CUSTOM
            || (has.CPUPageProperty, has.MemoryPoolPreference)
                == (wanted.CPUPageProperty, wanted.MemoryPoolPreference);
        let suits = told.SizeInBytes >= desc.size
            && has.Type == wanted.Type
            && same_pages
            // It takes all that a heap of this type must.
            && told.Flags.0 & Takes::empty().heap_flags().0 & !class.takes.heap_flags().0 == 0;
        if suits { Ok(heap) } else { Err(DeviceError::Unsupported) }
    }
}
