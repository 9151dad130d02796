//! Memory objects: heaps, committed resources, and the buffer through which the CPU maps a heap.

use core::ffi::c_void;
use core::fmt;
use core::ops::Range;
use core::ptr::{self, NonNull};
use std::sync::Arc;

use windows::Win32::Graphics::Direct3D12::*;
use windows::core::Interface as _;

use super::buffers::BUFFER;
use super::properties::{PLACEMENT, ResourceClasses};
use super::{Device, MemoryOptions, Shared, create, names, refused};
use crate::device::{
    DescriptionError, DeviceError, DeviceProperties, MemoryDesc, MemoryDevice, MemoryHandle,
    MemoryHeapBudget, MemoryHeapIndex, MemoryProperties, MemoryTypeIndex, MemoryTypeMask, Priority,
    PrioritySupport,
};

/// A heap, or a committed resource, which includes its memory: the address of an `ID3D12Pageable`, and in its lowest
/// bit, which is 0 in every address of an object, which of them it is.
///
/// [`Device::pageable`](super::Device::pageable) returns the interface, and [`Device::heap`](super::Device::heap) that
/// of a heap.
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

/// Set in the number of a committed resource.
const COMMITTED: u64 = 1;

/// A new memory object.
pub(super) enum NewMemory {
    Heap(ID3D12Heap),
    Committed(ID3D12Resource),
}

impl NewMemory {
    fn into_object(self) -> (Memory, ID3D12Pageable) {
        let (object, kind): (ID3D12Pageable, u64) = match self {
            Self::Heap(heap) => (heap.into(), 0),
            Self::Committed(resource) => (resource.into(), COMMITTED),
        };
        // Exposed, since the address is stored as a number in tokens and becomes a pointer again.
        (Memory(object.as_raw().expose_provenance() as u64 | kind), object)
    }
}

impl Memory {
    fn address(self) -> *mut c_void {
        ptr::with_exposed_provenance_mut((self.0 & !COMMITTED) as usize)
    }

    /// Returns the interface behind the handle.
    ///
    /// # Safety
    ///
    /// The memory is live.
    pub(super) unsafe fn pageable(self) -> ID3D12Pageable {
        let raw = self.address();
        // SAFETY: the address of the interface of `NewMemory`, which the ledger keeps alive.
        let borrowed = unsafe { ID3D12Pageable::from_raw_borrowed(&raw) };
        // An object's address is not null.
        borrowed.cloned().unwrap_or_else(|| unreachable!("live memory has an address"))
    }

    /// Returns the heap behind the handle; `None` for a committed resource.
    ///
    /// # Safety
    ///
    /// The memory is live.
    pub(super) unsafe fn heap(self) -> Option<ID3D12Heap> {
        if self.0 & COMMITTED != 0 {
            return None;
        }
        let raw = self.address();
        // An `ID3D12Pageable` that was made from an `ID3D12Heap` has its address: COM interfaces inherit one another
        // singly, so no query is needed to get back.
        // SAFETY: the address of the interface of `NewMemory`, which the ledger keeps alive.
        unsafe { ID3D12Heap::from_raw_borrowed(&raw) }.cloned()
    }
}

/// The ledger's data of a memory object, which is released when this is dropped.
#[derive(Debug)]
pub(super) struct Object {
    /// The buffer over the whole heap that is mapped now. Released before the heap.
    mapping: Option<ID3D12Resource>,
    /// A heap, or a committed resource.
    _object: ID3D12Pageable,
    size: u64,
    /// Whether the memory is not evicted. The runtime counts calls, so each one must have its counterpart.
    pub(super) resident: bool,
}

impl Shared {
    pub(super) fn allocate(&self, desc: &MemoryDesc<'_, MemoryOptions>) -> Result<Memory, DeviceError> {
        let allocated = self.record_allocation(desc, || {
            let heap = match desc.options.and_then(|options| options.import.as_ref()) {
                Some(handle) => self.open_heap(handle, desc)?,
                None => self.create_heap(desc)?,
            };
            Ok((NewMemory::Heap(heap), ()))
        });
        allocated.map(|(memory, ())| memory)
    }

    /// Returns true for memory that the CPU can map.
    pub(super) fn is_mappable(&self, memory_type: MemoryTypeIndex) -> bool {
        let found = self.properties.memory_type(memory_type);
        found.is_some_and(|found| found.properties.contains(MemoryProperties::HOST_VISIBLE))
    }

    /// Creates a heap or a committed resource with `create`, sets its priority, and records it in the ledger.
    pub(super) fn record_allocation<R>(
        &self,
        desc: &MemoryDesc<'_, MemoryOptions>,
        create: impl FnOnce() -> Result<(NewMemory, R), DeviceError>,
    ) -> Result<(Memory, R), DeviceError> {
        self.ledger.allocate(&self.properties, MemoryTypeMask::ALL, desc, || {
            // Inside the closure: a priority is set before another thread can have the handle.
            let (created, rest) = create()?;
            let (memory, object) = created.into_object();
            if desc.priority != Default::default() {
                // The priority is a hint, which old runtimes do not support.
                let _ = self.set_priority(&object, desc.priority);
            }
            Ok((memory, Object { mapping: None, _object: object, size: desc.size, resident: true }, rest))
        })
    }

    fn create_heap(&self, desc: &MemoryDesc<'_, MemoryOptions>) -> Result<ID3D12Heap, DeviceError> {
        let class = &self.classes[desc.memory_type.get()];
        // Multisampled targets are placed at multiples of 4 MiB and are at least as large, so no smaller heap
        // can contain them.
        let msaa = D3D12_DEFAULT_MSAA_RESOURCE_PLACEMENT_ALIGNMENT as u64;
        let alignment = if class.supports.contains(ResourceClasses::TARGETS) && desc.size >= msaa {
            msaa
        } else {
            PLACEMENT
        };
        let flags = self.heap_flags(desc.options)?;
        let heap_desc = D3D12_HEAP_DESC {
            // Sizes of resources are rounded up to this, so the last one fits.
            SizeInBytes: desc.size.next_multiple_of(PLACEMENT),
            Properties: class.heap(flags),
            Alignment: alignment,
            Flags: class.supports.heap_flags() | flags,
        };
        create(|heap| {
            // SAFETY: the device is live, and the runtime checks the description.
            unsafe { self.raw.CreateHeap(&heap_desc, heap) }
        })
    }

    /// Returns the flags that heaps and committed resources have in common.
    pub(super) fn heap_flags(
        &self,
        options: Option<&MemoryOptions>,
    ) -> Result<D3D12_HEAP_FLAGS, DescriptionError> {
        let requested = options.map_or(Ok(D3D12_HEAP_FLAG_NONE), MemoryOptions::checked_heap_flags)?;
        // Skips the zeroing of pages that were this process's before; the system still zeroes those of others.
        Ok(if self.skips_zeroing { requested | D3D12_HEAP_FLAG_CREATE_NOT_ZEROED } else { requested })
    }

    pub(super) fn free(&self, memory: Memory) {
        // The ledger drops the last reference, after it has removed the entry.
        self.ledger.free(memory, drop);
    }
}

// SAFETY: the ledger keeps memory until it is freed, so its address is unique meanwhile; all of the memory is
// mapped, and the properties are never written.
unsafe impl MemoryDevice for Device {
    type Memory = Memory;
    type MemoryOptions = MemoryOptions;

    fn properties(&self) -> &DeviceProperties {
        &self.shared.properties
    }

    fn id(&self) -> u64 {
        Arc::as_ptr(&self.shared).addr() as u64
    }

    fn heap_budget(&self, heap: MemoryHeapIndex) -> MemoryHeapBudget {
        self.shared.heap_budget(heap)
    }

    fn allocate_memory(&self, desc: &MemoryDesc<'_, MemoryOptions>) -> Result<Memory, DeviceError> {
        self.shared.allocate(desc)
    }

    unsafe fn free_memory(&self, memory: Memory) {
        self.shared.free(memory);
    }

    fn priority_support(&self) -> PrioritySupport {
        self.shared.priority_support()
    }

    unsafe fn set_memory_priority(&self, memory: Memory, priority: Priority) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        let object = unsafe { memory.pageable() };
        self.shared.set_priority(&object, priority)
    }

    unsafe fn map_memory(&self, memory: Memory) -> Result<NonNull<u8>, DeviceError> {
        let device = &*self.shared;
        // SAFETY: the caller's promise.
        let heap = unsafe { memory.heap() };
        // Committed resources are never in memory that the CPU can map.
        let heap = heap.ok_or(DeviceError::MapFailed)?;
        let size = device.ledger.with(memory, |object| object.size).ok_or(DeviceError::MapFailed)?;
        // Heaps cannot be mapped, but a buffer that covers the whole heap can.
        // The heap's size was rounded up to 64 KiB at creation, so the buffer covers it.
        let desc = D3D12_RESOURCE_DESC { Width: size.next_multiple_of(PLACEMENT), ..BUFFER };
        let buffer = device.create_placed(&desc.into(), &desc, &heap, 0)?;
        let mut first = ptr::null_mut();
        // SAFETY: a buffer that the CPU can map, by the caller's promise; the runtime writes the pointer to
        // `first`.
        unsafe { buffer.Map(0, None, Some(&mut first)) }.map_err(|error| refused(&error))?;
        let first = NonNull::new(first.cast()).ok_or(DeviceError::MapFailed)?;
        // Kept in the ledger, so that the pages stay mapped until the heap is released.
        device.ledger.with(memory, |object| object.mapping = Some(buffer));
        Ok(first)
    }

    unsafe fn unmap_memory(&self, memory: Memory) {
        if let Some(buffer) = self.shared.ledger.with(memory, |object| object.mapping.take()).flatten() {
            // SAFETY: it was mapped, and the pointer is not used any more.
            unsafe { buffer.Unmap(0, None) };
        }
    }

    /// Mappable memory is always coherent in Direct3D 12.
    unsafe fn flush_memory(&self, _: Memory, _: Range<u64>) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Mappable memory is always coherent in Direct3D 12.
    unsafe fn invalidate_memory(&self, _: Memory, _: Range<u64>) -> Result<(), DeviceError> {
        Ok(())
    }

    unsafe fn name_memory(&self, memory: Memory, name: &str) {
        // SAFETY: the caller's promise.
        let object = unsafe { memory.pageable() };
        names::name(&object, name);
    }
}
