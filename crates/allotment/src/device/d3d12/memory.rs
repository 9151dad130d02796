//! Memory from the driver: heaps, committed resources, and the window through which the CPU sees a heap.

use core::ffi::c_void;
use core::fmt;
use core::ptr::{self, NonNull};

use windows::Win32::Graphics::Direct3D12::*;
use windows::core::Interface as _;

use super::buffers::BUFFER;
use super::properties::{PLACEMENT, Takes};
use super::{MemoryOptions, Shared, create, refused};
use crate::device::{
    DeviceError, MemoryDesc, MemoryHandle, MemoryProperties, MemoryTypeIndex, MemoryTypeMask,
};

/// A heap, or a committed resource, which is its own memory: the address of an `ID3D12Pageable`.
///
/// [`Device::pageable`](super::Device::pageable) gives the interface.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Memory(u64);

impl MemoryHandle for Memory {
    fn to_raw(self) -> u64 {
        self.0
    }

    fn from_raw(raw: u64) -> Self {
        Self(raw)
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({:#x})", self.0)
    }
}

impl Memory {
    fn of(object: &ID3D12Pageable) -> Self {
        Self(object.as_raw().expose_provenance() as u64)
    }

    /// The interface behind the handle.
    ///
    /// # Safety
    ///
    /// The memory is live.
    pub(super) unsafe fn pageable(self) -> ID3D12Pageable {
        let raw = ptr::with_exposed_provenance_mut::<c_void>(self.0 as usize);
        // SAFETY: the address of the interface that `of` saw, which the ledger keeps alive.
        let borrowed = unsafe { ID3D12Pageable::from_raw_borrowed(&raw) };
        // Null is no address of an object.
        borrowed.cloned().unwrap_or_else(|| unreachable!("live memory has an address"))
    }
}

/// What the ledger keeps of a memory object: it is released when this is dropped.
#[derive(Debug)]
pub(super) struct Object {
    /// What is mapped now: a buffer over the whole heap, which goes before it.
    window: Option<ID3D12Resource>,
    /// A heap, or a committed resource.
    _object: ID3D12Pageable,
    size: u64,
    /// It was not evicted. The runtime counts, so that each call must have its counterpart.
    pub(super) resident: bool,
}

impl Shared {
    pub(super) fn allocate(&self, desc: &MemoryDesc<'_, MemoryOptions>) -> Result<Memory, DeviceError> {
        let made = self.enter(desc, || {
            let heap = match desc.options.and_then(|options| options.import.as_ref()) {
                Some(handle) => self.open_heap(handle, desc)?,
                None => self.create_heap(desc)?,
            };
            Ok((heap.into(), ()))
        });
        made.map(|(memory, ())| memory)
    }

    /// True for memory that the CPU can map.
    pub(super) fn is_mappable(&self, memory_type: MemoryTypeIndex) -> bool {
        let found = self.properties.memory_type(memory_type);
        found.is_some_and(|found| found.properties.contains(MemoryProperties::HOST_VISIBLE))
    }

    /// Enters what `make` makes, a heap or a committed resource, which gets its priority.
    pub(super) fn enter<R>(
        &self,
        desc: &MemoryDesc<'_, MemoryOptions>,
        make: impl FnOnce() -> Result<(ID3D12Pageable, R), DeviceError>,
    ) -> Result<(Memory, R), DeviceError> {
        self.ledger.allocate(&self.properties, MemoryTypeMask::ALL, desc, || {
            let (object, rest) = make()?;
            if desc.priority != Default::default() {
                // Advice, which old runtimes do not take.
                let _ = self.set_priority(&object, desc.priority);
            }
            let memory = Memory::of(&object);
            Ok((memory, Object { window: None, _object: object, size: desc.size, resident: true }, rest))
        })
    }

    fn create_heap(&self, desc: &MemoryDesc<'_, MemoryOptions>) -> Result<ID3D12Heap, DeviceError> {
        let class = &self.classes[desc.memory_type.get()];
        // Multisampled targets stand at multiples of 4 MiB, and are no smaller: no smaller heap takes them.
        let msaa = D3D12_DEFAULT_MSAA_RESOURCE_PLACEMENT_ALIGNMENT as u64;
        let alignment =
            if class.takes.contains(Takes::TARGETS) && desc.size >= msaa { msaa } else { PLACEMENT };
        let wanted = D3D12_HEAP_DESC {
            // What the last resource in it is rounded to.
            SizeInBytes: desc.size.next_multiple_of(PLACEMENT),
            Properties: class.properties,
            Alignment: alignment,
            Flags: class.takes.heap_flags() | self.heap_flags(desc.options),
        };
        create(|heap| {
            // SAFETY: the device is live, and the runtime checks the description.
            unsafe { self.raw.CreateHeap(&wanted, heap) }
        })
    }

    /// The flags that are the same for heaps and committed resources.
    pub(super) fn heap_flags(&self, options: Option<&MemoryOptions>) -> D3D12_HEAP_FLAGS {
        let asked = options.map_or(D3D12_HEAP_FLAG_NONE, |options| options.heap_flags);
        if self.skips_zeroing { asked | D3D12_HEAP_FLAG_CREATE_NOT_ZEROED } else { asked }
    }

    pub(super) fn free(&self, memory: Memory) {
        self.ledger.free(memory, drop);
    }

    /// # Safety
    ///
    /// As for [`map_memory`](crate::Device::map_memory).
    pub(super) unsafe fn map(&self, memory: Memory) -> Result<NonNull<u8>, DeviceError> {
        // SAFETY: the caller's promise.
        let object = unsafe { memory.pageable() };
        // Committed resources are never of memory that the CPU can map.
        let heap: ID3D12Heap = object.cast().map_err(|_| DeviceError::MapFailed)?;
        let size = self.ledger.with(memory, |object| object.size).ok_or(DeviceError::MapFailed)?;
        // A heap cannot be mapped, but a buffer that covers all of it can.
        let desc = D3D12_RESOURCE_DESC { Width: size.next_multiple_of(PLACEMENT), ..BUFFER };
        let window = self.create_placed(&desc.into(), &desc, &heap, 0)?;
        let mut first = ptr::null_mut();
        // SAFETY: a buffer that the CPU can reach, by the caller's promise; the pointer is written to.
        unsafe { window.Map(0, None, Some(&mut first)) }.map_err(|error| refused(&error))?;
        let first = NonNull::new(first.cast()).ok_or(DeviceError::MapFailed)?;
        self.ledger.with(memory, |object| object.window = Some(window));
        Ok(first)
    }

    /// # Safety
    ///
    /// As for [`unmap_memory`](crate::Device::unmap_memory).
    pub(super) unsafe fn unmap(&self, memory: Memory) {
        if let Some(window) = self.ledger.with(memory, |object| object.window.take()).flatten() {
            // SAFETY: it was mapped, and the pointer is not used any more.
            unsafe { window.Unmap(0, None) };
        }
    }
}
