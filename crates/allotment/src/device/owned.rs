//! Memory with exactly one owner: a safe interface to the trait's unsafe methods.

use core::ops::Range;
use core::ptr::NonNull;

use super::{Device, DeviceError, MemoryDesc, MemoryProperties, MemoryTypeIndex, Priority};

/// A memory object that nothing else can free, map or unmap.
///
/// Host-visible memory is mapped once, before it is shared, and stays mapped: address space is plentiful, and so
/// no map call is ever made under a lock or during a frame.
///
/// Has no `Drop`: dropping it without [`free`](Self::free) leaks the driver's memory.
#[derive(Debug)]
pub(crate) struct OwnedMemory<D: Device> {
    handle: D::Memory,
    memory_type: MemoryTypeIndex,
    size: u64,
    /// The priority that was last passed to the device.
    priority: Priority,
    /// Address of the first byte; `Some` exactly if the memory type is host-visible.
    mapped: Option<Mapped>,
}

/// The address of mapped memory, which any thread may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mapped(pub(crate) NonNull<u8>);

// SAFETY: the trait's contract lets any thread use the pointer of mapped memory.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl<D: Device> OwnedMemory<D> {
    /// Allocates memory from the driver, and maps it if it is host-visible. At most two driver calls.
    pub(crate) fn allocate(device: &D, desc: &MemoryDesc<'_, D::MemoryOptions>) -> Result<Self, DeviceError> {
        let handle = device.allocate_memory(desc)?;
        // SAFETY: the handle is new, so nothing else has it.
        unsafe { Self::adopt(device, handle, desc) }
    }

    /// Takes ownership of memory that was just created together with a resource.
    ///
    /// # Safety
    ///
    /// `handle` is live, from this device, of the description's type, size and priority, not mapped, and nothing
    /// else frees or maps it.
    pub(crate) unsafe fn adopt(
        device: &D,
        handle: D::Memory,
        desc: &MemoryDesc<'_, D::MemoryOptions>,
    ) -> Result<Self, DeviceError> {
        let MemoryDesc { memory_type, size, priority, .. } = *desc;
        // The type comes from the description: a handle does not tell what memory it is.
        let properties = device.properties().memory_type(memory_type).map(|t| t.properties);
        let visible = properties.is_some_and(|p| p.contains(MemoryProperties::HOST_VISIBLE));
        let mapped = if visible {
            // SAFETY: live, host-visible, and not mapped yet.
            match unsafe { device.map_memory(handle) } {
                Ok(pointer) => Some(Mapped(pointer)),
                // Memory of a host-visible type that cannot be mapped is of no use to any caller.
                Err(error) => {
                    // SAFETY: live, and dropped with this call.
                    unsafe { device.free_memory(handle) };
                    return Err(error);
                }
            }
        } else {
            None
        };
        Ok(Self { handle, memory_type, size, priority, mapped })
    }

    /// Frees the memory, which unmaps it too.
    pub(crate) fn free(self, device: &D) {
        // SAFETY: `self` was the only owner and is consumed by this call.
        unsafe { device.free_memory(self.handle) };
    }

    pub(crate) fn handle(&self) -> D::Memory {
        self.handle
    }

    pub(crate) fn memory_type(&self) -> MemoryTypeIndex {
        self.memory_type
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn priority(&self) -> Priority {
        self.priority
    }

    /// Stores the priority that the caller is about to pass to the device.
    pub(crate) fn note_priority(&mut self, priority: Priority) {
        self.priority = priority;
    }

    /// Returns the address of byte `offset`; `None` if the memory is not host-visible.
    pub(crate) fn address(&self, offset: u64) -> Option<NonNull<u8>> {
        debug_assert!(offset <= self.size);
        // SAFETY: `offset` lies in the memory, all of which is mapped.
        self.mapped.map(|Mapped(first)| unsafe { first.add(offset as usize) })
    }
}

/// The direction in which bytes are made visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visibility {
    /// CPU writes, to the device.
    Flush,
    /// Device writes, to the CPU.
    Invalidate,
}

/// Flushes or invalidates `range` of mapped memory of `size` bytes, rounded out to whole atoms.
///
/// # Safety
///
/// `memory` is live, from this device and mapped, and `range` lies in its `size` bytes.
pub(crate) unsafe fn make_visible<D: Device>(
    device: &D,
    memory: D::Memory,
    size: u64,
    range: Range<u64>,
    visibility: Visibility,
) -> Result<(), DeviceError> {
    let atom = device.properties().limits.non_coherent_atom_size;
    // The end of the memory need not be a multiple of the atom; rounding beyond it would leave the memory.
    let range = atom.align_down(range.start)..atom.align_up(range.end).min(size);
    match visibility {
        // SAFETY: the range lies in the memory and its ends are multiples of the atom or its end.
        Visibility::Flush => unsafe { device.flush_memory(memory, range) },
        // SAFETY: as above.
        Visibility::Invalidate => unsafe { device.invalidate_memory(memory, range) },
    }
}
