//! Where an allocation is, and everything else that is known of it.

use core::ptr::NonNull;

use crate::device::{Device, MemoryHandle, MemoryTypeIndex, ResourceKind};
use crate::memory::token::record::RawPlace;
use crate::memory::{CallSite, Movability, Name};

/// Where the memory of an allocation is, as [`Allocator::location`](crate::memory::Allocator::location) reads it
/// without a lock.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// let constants = allocator.allocate(&Requirements::new(256), &MemoryUsage::Upload.with_name("constants"))?;
/// let place = allocator.location(&constants)?;
/// // What a bind call of the API takes.
/// println!("{} bytes of {:?} from {} on", place.size, place.memory, place.offset);
/// assert!(place.mapped_ptr.is_some(), "the CPU writes there");
/// # allocator.free(constants)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct MemoryLocation<D: Device> {
    /// The driver's memory object, for binding. It belongs to the allocator: never free, map or unmap it.
    #[doc(alias = "GetHeap")]
    pub memory: D::Memory,
    /// Offset of the allocation in the memory object, in bytes.
    #[doc(alias = "GetOffset")]
    pub offset: u64,
    /// Size in bytes, as requested.
    #[doc(alias = "GetSize")]
    pub size: u64,
    /// Memory type of the memory object.
    pub memory_type: MemoryTypeIndex,
    /// Address of the first byte for the CPU; `None` where the CPU cannot map the memory. Memory of
    /// [`GpuOnly`](crate::MemoryUsage) allocations is mapped only once the CPU needs it, if it can be: use
    /// [`map`](crate::memory::Allocator::map), `read` or `write` there, or require `HOST_VISIBLE`. Valid until the
    /// allocation is freed, its pool is reset, or, where it is [movable](crate::memory::Movability), defragmentation moves
    /// it.
    ///
    /// Memory that is not host-coherent needs [`flush`](crate::memory::Allocator::flush) after writing and
    /// [`invalidate`](crate::memory::Allocator::invalidate) before reading.
    #[doc(alias = "VMA_ALLOCATION_CREATE_MAPPED_BIT")]
    pub mapped_ptr: Option<NonNull<u8>>,
}

// Not derived, since a location is copied whether or not its device can be.
impl<D: Device> Clone for MemoryLocation<D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D: Device> Copy for MemoryLocation<D> {}

impl<D: Device> MemoryLocation<D> {
    #[inline]
    pub(in crate::memory) fn of(place: &RawPlace) -> Self {
        let RawPlace { memory, offset, size, address, .. } = *place;
        let memory_type = place.memory_type();
        Self { memory: D::Memory::from_raw(memory), offset, size, memory_type, mapped_ptr: address }
    }
}

/// Everything that the allocator knows of an allocation.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// let options = MemoryUsage::GpuOnly.with_name("sea").with_category("terrain");
/// let sea = allocator.allocate(&Requirements::new(64 << 20), &options)?;
/// let info = allocator.info(&sea)?;
/// assert!(info.dedicated, "it is larger than a block");
/// assert_eq!((info.category, info.occupied, info.block_size), ("terrain", 64 << 20, 64 << 20));
/// # allocator.free(sea)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("VmaAllocationInfo", "VmaAllocationInfo2", "AllocationInfo2"))]
#[derive(Debug)]
#[non_exhaustive]
pub struct AllocationInfo<D: Device> {
    /// The driver's memory object, for binding. It belongs to the allocator: never free, map or unmap it.
    pub memory: D::Memory,
    /// Offset of the allocation in the memory object, in bytes.
    pub offset: u64,
    /// Size in bytes, as requested.
    pub size: u64,
    /// Address of the first byte for the CPU, as [`MemoryLocation::mapped_ptr`].
    pub mapped_ptr: Option<NonNull<u8>>,
    /// Memory type of the memory object.
    pub memory_type: MemoryTypeIndex,
    /// Bytes from the first one on that the allocation occupies, rounding included: up to the granularity, the
    /// non-coherent atom, a buddy's power of two, a sixteenth of a coarse alignment; of dedicated memory, all of it. What alignment leaves unused before
    /// the allocation is not included ([`Statistics::padding`](crate::memory::reports::Statistics::padding)).
    pub occupied: u64,
    /// Kind of resource that the allocation was made for.
    pub kind: ResourceKind,
    /// Debug name.
    #[doc(alias = "GetName")]
    pub name: Option<Name>,
    /// Where the program made the allocation, if the allocator [stores](crate::memory::AllocatorDesc::call_sites) that.
    pub call_site: Option<CallSite>,
    /// User data.
    #[doc(alias = "GetPrivateData")]
    pub user_data: u64,
    /// Category; empty for none.
    pub category: &'static str,
    /// True when no other allocation is in the memory object.
    #[doc(alias = "is_dedicated")]
    pub dedicated: bool,
    /// True when the memory was allocated together with its resource, and takes no other.
    pub dedicated_to_resource: bool,
    /// Index of the memory object among those of its pool and memory type, for drawing.
    #[doc(alias = "chunk_id")]
    pub block: u32,
    /// Size of the memory object in bytes.
    pub block_size: u64,
    /// How many calls of [`map`](crate::memory::Allocator::map) have no [`unmap`](crate::memory::Allocator::unmap) yet.
    /// At most 32,767: there it stays, and the allocation counts as mapped for good.
    pub maps: u32,
    /// Whether defragmentation may move the allocation.
    pub movability: Movability,
    /// True while a defragmentation pass moves it.
    pub moving: bool,
}

// Not derived, since it is cloned whether or not the device can be.
impl<D: Device> Clone for AllocationInfo<D> {
    fn clone(&self) -> Self {
        Self { name: self.name.clone(), call_site: self.call_site.clone(), ..*self }
    }
}
