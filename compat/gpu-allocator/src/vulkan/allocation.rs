//! A piece of memory, and its bytes where the CPU reaches them.

use core::ffi::c_void;
use core::marker::PhantomData;
use core::num::NonZeroU64;
use core::ptr::NonNull;
use core::slice;

use allotment::device::vulkan::Device;
use allotment::memory::MemoryLocation as Place;
use ash::vk;

use crate::memory::chunk_id;

/// A piece of memory. Dropping it frees nothing: pass it to [`Allocator::free`](super::Allocator::free).
///
/// Where the CPU reaches it, it is a [`presser::Slab`], and [`mapped_slice`](Self::mapped_slice) returns its bytes. What
/// the GPU writes to meanwhile must not be read so, and what it reads must not be written.
#[derive(Debug, Default)]
pub struct Allocation {
    inner: Option<allotment::Allocation>,
    memory: vk::DeviceMemory,
    offset: u64,
    size: u64,
    mapped: Option<Mapped>,
    properties: vk::MemoryPropertyFlags,
    dedicated: bool,
}

/// The address of memory for the CPU.
#[derive(Clone, Copy, Debug)]
struct Mapped(NonNull<c_void>);

// SAFETY: the address is the same for all threads, and reading and writing there is another matter.
unsafe impl Send for Mapped {}
// SAFETY: as above; bytes are borrowed from an allocation as from any owner of bytes.
unsafe impl Sync for Mapped {}

impl Allocation {
    pub(super) fn new(
        inner: allotment::Allocation,
        place: &Place<Device>,
        properties: vk::MemoryPropertyFlags,
        dedicated: bool,
    ) -> Self {
        Self {
            memory: place.memory,
            offset: place.offset,
            size: place.size,
            mapped: place.mapped_ptr.map(|address| Mapped(address.cast())),
            inner: Some(inner),
            properties,
            dedicated,
        }
    }

    pub(super) fn inner(&self) -> Option<&allotment::Allocation> {
        self.inner.as_ref()
    }

    pub(super) fn into_inner(self) -> Option<allotment::Allocation> {
        self.inner
    }

    /// Borrows the memory as a slab; `None` where the CPU does not reach it, or where it has more than `isize::MAX`
    /// bytes.
    pub fn try_as_mapped_slab(&mut self) -> Option<MappedAllocationSlab<'_>> {
        let address = self.mapped_ptr()?.cast().as_ptr();
        let size = usize::try_from(self.size).ok().filter(|size| isize::try_from(*size).is_ok())?;
        Some(MappedAllocationSlab { borrowed: PhantomData, address, size })
    }

    /// Returns a number that no other live allocation of its allocator has; `None` for a null allocation.
    pub fn chunk_id(&self) -> Option<NonZeroU64> {
        self.inner.as_ref().and_then(chunk_id)
    }

    /// Returns the properties of the memory type.
    pub fn memory_properties(&self) -> vk::MemoryPropertyFlags {
        self.properties
    }

    /// Returns the memory object, for binding at [`offset`](Self::offset).
    ///
    /// # Safety
    ///
    /// The memory object belongs to the allocator. Resources that are bound to it are destroyed before the allocation is
    /// freed.
    pub unsafe fn memory(&self) -> vk::DeviceMemory {
        self.memory
    }

    /// Returns true if the memory object is dedicated to one resource.
    pub fn is_dedicated(&self) -> bool {
        self.dedicated
    }

    /// Returns the offset in the memory object, in bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the address of the first byte; `None` where the CPU does not reach the memory.
    pub fn mapped_ptr(&self) -> Option<NonNull<c_void>> {
        self.mapped.map(|Mapped(address)| address)
    }

    /// Returns the bytes; `None` where the CPU does not reach the memory.
    pub fn mapped_slice(&self) -> Option<&[u8]> {
        let address = self.mapped_ptr()?.cast().as_ptr();
        // SAFETY: the allocator mapped as many bytes there, which stay mapped until the allocation is freed.
        Some(unsafe { slice::from_raw_parts(address, self.size as usize) })
    }

    /// Returns the bytes, to be written; `None` where the CPU does not reach the memory.
    pub fn mapped_slice_mut(&mut self) -> Option<&mut [u8]> {
        let address = self.mapped_ptr()?.cast().as_ptr();
        // SAFETY: as above, and no other allocation has these bytes.
        Some(unsafe { slice::from_raw_parts_mut(address, self.size as usize) })
    }

    /// Returns true for an allocation that [`Default`] made.
    pub fn is_null(&self) -> bool {
        self.inner.is_none()
    }

    fn slab_address(&self) -> *mut u8 {
        let Some(address) = self.mapped_ptr() else {
            panic!("the CPU does not reach this memory; `try_as_mapped_slab` says so without a panic")
        };
        address.cast().as_ptr()
    }
}

/// The bytes of an [`Allocation`], as a slab.
pub struct MappedAllocationSlab<'a> {
    borrowed: PhantomData<&'a mut Allocation>,
    address: *mut u8,
    size: usize,
}

// SAFETY: the bytes are mapped as long as the allocation is borrowed.
unsafe impl presser::Slab for MappedAllocationSlab<'_> {
    fn base_ptr(&self) -> *const u8 {
        self.address
    }

    fn base_ptr_mut(&mut self) -> *mut u8 {
        self.address
    }

    fn size(&self) -> usize {
        self.size
    }
}

/// Panics where the CPU does not reach the memory; [`Allocation::try_as_mapped_slab`] does not.
// SAFETY: the bytes are mapped until the allocation is freed.
unsafe impl presser::Slab for Allocation {
    fn base_ptr(&self) -> *const u8 {
        self.slab_address()
    }

    fn base_ptr_mut(&mut self) -> *mut u8 {
        self.slab_address()
    }

    fn size(&self) -> usize {
        match isize::try_from(self.size) {
            Ok(size) => size as usize,
            Err(_) => panic!("a slab has at most `isize::MAX` bytes"),
        }
    }
}
