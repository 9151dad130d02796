//! A piece of a heap.

use core::num::NonZeroU64;

use allotment::device::d3d12::Device;
use allotment::memory::MemoryLocation as Place;
use windows::Win32::Graphics::Direct3D12::ID3D12Heap;

use crate::memory::chunk_id;

/// A piece of a heap. Dropping it frees nothing: pass it to [`Allocator::free`](super::Allocator::free).
#[derive(Debug)]
pub struct Allocation {
    inner: allotment::Allocation,
    heap: ID3D12Heap,
    offset: u64,
    size: u64,
}

impl Allocation {
    pub(super) fn new(inner: allotment::Allocation, place: &Place<Device>, heap: ID3D12Heap) -> Self {
        Self { inner, heap, offset: place.offset, size: place.size }
    }

    pub(super) fn inner(&self) -> &allotment::Allocation {
        &self.inner
    }

    pub(super) fn into_inner(self) -> allotment::Allocation {
        self.inner
    }

    /// Returns a number that no other live allocation of its allocator has.
    pub fn chunk_id(&self) -> Option<NonZeroU64> {
        chunk_id(&self.inner)
    }

    /// Returns the heap, for `ID3D12Device::CreatePlacedResource` at [`offset`](Self::offset).
    ///
    /// # Safety
    ///
    /// The heap belongs to the allocator, and other allocations are in it. Resources that are placed in this one are
    /// released before it is freed.
    pub unsafe fn heap(&self) -> &ID3D12Heap {
        &self.heap
    }

    /// Returns the offset in the heap, in bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns true for an allocation without memory. There is none: each was allocated.
    pub fn is_null(&self) -> bool {
        self.chunk_id().is_none()
    }
}
