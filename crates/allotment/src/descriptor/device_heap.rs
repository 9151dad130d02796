//! A descriptor heap of the device, with its backing memory: the only access of this module to the device's
//! descriptors.
//!
//! This file checks indices, heap types and lengths. Which caller may write which slot is determined by handles
//! that other files create: a slot is written through its only handle.

use core::fmt;
use core::mem::ManuallyDrop;
use core::ops::Range;
use std::sync::Arc;

use super::error::{DescriptorError, check_range};
use super::fill::DescriptorFill;
use crate::device::{
    DescriptorDevice, DescriptorHeapAddress, DescriptorHeapBacking, DescriptorHeapDesc, DescriptorHeapType,
    DescriptorHeapVisibility, MemoryProperties,
};
use crate::memory::{AllocationOptions, Allocator, MappedBuffer, MemoryUsage};

/// A descriptor heap that is destroyed when it is dropped, after which no queue may use it.
pub(super) struct DeviceHeap<D: DescriptorDevice> {
    allocator: Arc<Allocator<D>>,
    /// Live until this is dropped.
    raw: ManuallyDrop<D::DescriptorHeap>,
    /// The buffer behind the heap, if the API needs one. Outlives the heap.
    _memory: Option<MappedBuffer<D>>,
    usage: DescriptorHeapVisibility,
    capacity: u32,
}

impl<D: DescriptorDevice> DeviceHeap<D> {
    pub(super) fn new(
        allocator: &Arc<Allocator<D>>,
        usage: DescriptorHeapVisibility,
        capacity: u32,
    ) -> Result<Self, DescriptorError> {
        let desc = DescriptorHeapDesc { usage, capacity };
        let device = allocator.device();
        let memory = device.descriptor_heap_buffer(&desc).map(|info| {
            // `DeviceUpload`: the GPU reads descriptors with every draw, and the CPU writes them in place.
            let mut wanted = MemoryUsage::DeviceUpload
                .with_name("descriptor heap")
                .with_category(AllocationOptions::LIBRARY_CATEGORY);
            // Coherent, since descriptors are written one by one, which would need a flush each.
            wanted.required |= MemoryProperties::HOST_COHERENT;
            MappedBuffer::new(allocator, &info, &wanted).map_err(DescriptorError::Memory)
        });
        let memory = memory.transpose()?;
        let stands = memory
            .as_ref()
            .map(|buffer| DescriptorHeapBacking { buffer: buffer.handle_ref(), address: buffer.address() });
        // SAFETY: the buffer is present if the device wants one, was created by the description that the device
        // returned, in coherent memory; it is stored beside the heap and dropped after it.
        let raw = unsafe { device.create_descriptor_heap(&desc, stands) }?;
        Ok(Self {
            allocator: Arc::clone(allocator),
            raw: ManuallyDrop::new(raw),
            _memory: memory,
            usage,
            capacity,
        })
    }

    pub(super) fn raw(&self) -> &D::DescriptorHeap {
        &self.raw
    }

    pub(super) fn device(&self) -> &D {
        self.allocator.device()
    }

    pub(super) fn heap_type(&self) -> DescriptorHeapType {
        self.usage.kind()
    }

    pub(super) fn capacity(&self) -> u32 {
        self.capacity
    }

    pub(super) fn address(&self) -> DescriptorHeapAddress {
        self.device().descriptor_heap_address(self.raw())
    }

    fn check(&self, descriptor: &D::Descriptor<'_>) -> Result<(), DescriptorError> {
        let (expected, found) = (self.heap_type(), D::descriptor_kind(descriptor));
        if expected != found {
            return Err(DescriptorError::WrongKind { expected, found });
        }
        // The type of heap may be right although the device has no slots for this type of descriptor; it says so before
        // anything is written.
        if self.device().can_write(descriptor) { Ok(()) } else { Err(DescriptorError::TypeNotListed) }
    }

    /// Writes a descriptor.
    ///
    /// # Safety
    ///
    /// The caller owns the slot: no other thread writes it or copies from it meanwhile, and no recorded work
    /// reads its previous descriptor.
    pub(super) unsafe fn write(
        &self,
        at: u32,
        descriptor: &D::Descriptor<'_>,
    ) -> Result<(), DescriptorError> {
        check_range(at, 1, self.capacity)?;
        self.check(descriptor)?;
        // SAFETY: the heap is live, the slot lies in it, the descriptor is of the heap's type; the rest is the
        // caller's promise.
        unsafe { self.device().write_descriptor(self.raw(), at, descriptor) };
        Ok(())
    }

    /// Fills a range as `fill` says.
    ///
    /// # Safety
    ///
    /// As for [`write`](Self::write), for each slot of the range.
    pub(super) unsafe fn fill(&self, range: Range<u32>, fill: DescriptorFill) -> Result<(), DescriptorError> {
        check_range(range.start, range.len() as u32, self.capacity)?;
        match fill {
            DescriptorFill::Leave => {}
            DescriptorFill::Null => {
                // SAFETY: the range lies in the heap, which is live; the rest is the caller's promise.
                unsafe { self.device().write_null_descriptors(self.raw(), range) };
            }
            DescriptorFill::Poison => {
                // SAFETY: as above.
                unsafe { self.device().poison_descriptors(self.raw(), range) };
            }
        }
        Ok(())
    }

    /// Copies descriptors from a CPU heap of the same device.
    ///
    /// # Safety
    ///
    /// Each slot that is copied was written, and no thread writes it meanwhile; for the slots that are
    /// overwritten, as for [`write`](Self::write).
    #[inline]
    pub(super) unsafe fn copy_from(
        &self,
        from: &Self,
        from_at: u32,
        at: u32,
        count: u32,
    ) -> Result<(), DescriptorError> {
        check_range(from_at, count, from.capacity)?;
        check_range(at, count, self.capacity)?;
        if from.heap_type() != self.heap_type() {
            return Err(DescriptorError::WrongKind { expected: self.heap_type(), found: from.heap_type() });
        }
        debug_assert!(
            matches!(from.usage, DescriptorHeapVisibility::CpuOnly(_)),
            "shader-visible heaps are not read"
        );
        // Heaps of one allocator have one device in memory, so the ids are read only for those of two allocators.
        if !core::ptr::eq(from.device(), self.device()) && from.device().id() != self.device().id() {
            return Err(DescriptorError::WrongHeap);
        }
        // SAFETY: both heaps are live, of one device and of one type, and the ranges lie in them; the rest is
        // the caller's promise.
        unsafe { self.device().copy_descriptors(from.raw(), from_at, self.raw(), at, count) };
        Ok(())
    }
}

impl<D: DescriptorDevice> Drop for DeviceHeap<D> {
    #[inline(never)]
    fn drop(&mut self) {
        // SAFETY: not used after this.
        let raw = unsafe { ManuallyDrop::take(&mut self.raw) };
        // SAFETY: created by this device; the queues have finished with the heap, or it was never submitted to
        // them.
        unsafe { self.device().destroy_descriptor_heap(raw) };
    }
}

impl<D: DescriptorDevice> fmt::Debug for DeviceHeap<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceHeap").field("usage", &self.usage).field("capacity", &self.capacity).finish()
    }
}
