//! Memory with exactly one owner: a safe interface to the trait's unsafe methods.

use core::ops::Range;
use core::ptr::NonNull;

use super::{Device, DeviceError, MemoryDesc, MemoryProperties, MemoryTypeIndex, Priority};

/// When host-visible memory is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mapping {
    /// When it is allocated: without an address it is of no use.
    Required,
    /// When the CPU first accesses it, which may be never.
    OnDemand,
}

/// A memory object that nothing else can free, map or unmap.
///
/// Host-visible memory is mapped once, when the CPU first needs it, and stays mapped. Memory that only the GPU uses is
/// not: on a GPU whose memory is all host-visible that would be all of it, and a 32-bit program has not as much address
/// space.
///
/// Has no `Drop`: dropping it without [`free`](Self::free) leaks the driver's memory.
#[derive(Debug)]
pub(crate) struct OwnedMemory<D: Device> {
    handle: D::Memory,
    memory_type: MemoryTypeIndex,
    size: u64,
    /// The priority that was last passed to the device.
    priority: Priority,
    /// Address of the first byte, if the memory was mapped when it came to its present owner. While it is a block of a
    /// pool, the [`MemoryObjects`](crate::memory) have the address, which any thread may add.
    mapped: Option<Mapped>,
    /// The memory type is host-visible.
    visible: bool,
}

/// The address of mapped memory, which any thread may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mapped(pub(crate) NonNull<u8>);

// SAFETY: the trait's contract lets any thread use the pointer of mapped memory.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl<D: Device> OwnedMemory<D> {
    /// Allocates memory from the driver, and maps it if that is required and it is host-visible. At most two driver calls.
    pub(crate) fn allocate(
        device: &D,
        desc: &MemoryDesc<'_, D::MemoryOptions>,
        mapping: Mapping,
    ) -> Result<Self, DeviceError> {
        let handle = device.allocate_memory(desc)?;
        // SAFETY: the handle is new, so nothing else has it.
        unsafe { Self::adopt(device, handle, desc, mapping) }
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
        mapping: Mapping,
    ) -> Result<Self, DeviceError> {
        let MemoryDesc { memory_type, size, priority, .. } = *desc;
        // The type comes from the description: a handle does not tell what memory it is.
        let properties = device.properties().memory_type(memory_type).map(|t| t.properties);
        let visible = properties.is_some_and(|p| p.contains(MemoryProperties::HOST_VISIBLE));
        let mapped = if visible && mapping == Mapping::Required {
            // SAFETY: live, host-visible, and not mapped yet.
            match unsafe { map_memory(device, handle) } {
                Ok(first) => Some(first),
                Err(error) => {
                    // SAFETY: live, and dropped with this call.
                    unsafe { device.free_memory(handle) };
                    return Err(error);
                }
            }
        } else {
            None
        };
        Ok(Self { handle, memory_type, size, priority, mapped, visible })
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

    /// Returns true if the memory type is host-visible.
    pub(crate) fn is_host_visible(&self) -> bool {
        self.visible
    }

    /// Maps the memory if it is host-visible and the driver can.
    pub(crate) fn map_if_possible(mut self, device: &D) -> Self {
        if self.visible && self.mapped.is_none() {
            // SAFETY: live, host-visible, not mapped, and known to its owner alone.
            self.mapped = unsafe { map_memory(device, self.handle) }.ok();
        }
        self
    }

    /// Returns the address of the first byte, if the memory was mapped when it came to its present owner.
    pub(crate) fn address(&self) -> Option<NonNull<u8>> {
        self.mapped.map(|Mapped(first)| first)
    }

    /// Stores the address of the first byte, for the next owner.
    pub(crate) fn note_address(&mut self, first: Option<NonNull<u8>>) {
        self.mapped = first.map(Mapped);
    }
}

/// Maps memory. Whatever a driver lacks for it, the error is [`DeviceError::MapFailed`], unless the device is lost: memory
/// of the type can be had, but not be mapped.
///
/// # Safety
///
/// `memory` is live, from this device, host-visible and not mapped, and no other thread maps it.
pub(crate) unsafe fn map_memory<D: Device>(device: &D, memory: D::Memory) -> Result<Mapped, DeviceError> {
    // SAFETY: as the caller promises.
    let mapped = unsafe { device.map_memory(memory) };
    mapped.map(Mapped).map_err(|error| if error.is_out_of_memory() { DeviceError::MapFailed } else { error })
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
