//! The crate `gpu-alloc`: a whole allocator, which chooses a memory type and counts references to memory objects.
//! Here it gets one memory object as large as the space, of a device that is none.

use core::cell::Cell;
use core::marker::PhantomData;
use core::ptr::NonNull;
use std::borrow::Cow;

use gpu_alloc::{
    AllocationFlags, Config, DeviceMapError, DeviceProperties, GpuAllocator, MappedMemoryRange, MemoryBlock,
    MemoryDevice, MemoryHeap, MemoryPropertyFlags, MemoryType, OutOfMemory, Request, UsageFlags,
};

use super::{Ranges, Space};

/// A strategy, which it chooses by the usage.
pub(in crate::ranges) trait Kind: Send + 'static {
    const NAME: &'static str;
    const USAGE: UsageFlags;
    /// Whether the size of a memory object must be a power of two.
    const IS_BUDDY: bool;
}

pub(in crate::ranges) enum Buddy {}
pub(in crate::ranges) enum FreeList {}

impl Kind for Buddy {
    const NAME: &'static str = "gpu-alloc-buddy";
    const USAGE: UsageFlags = UsageFlags::FAST_DEVICE_ACCESS;
    const IS_BUDDY: bool = true;
}

impl Kind for FreeList {
    const NAME: &'static str = "gpu-alloc-freelist";
    const USAGE: UsageFlags = UsageFlags::TRANSIENT;
    const IS_BUDDY: bool = false;
}

/// The number of the one memory object.
type Memory = u8;

/// Has one memory object.
#[derive(Debug)]
struct Device {
    is_allocated: Cell<bool>,
}

impl MemoryDevice<Memory> for Device {
    unsafe fn allocate_memory(&self, _: u64, _: u32, _: AllocationFlags) -> Result<Memory, OutOfMemory> {
        if self.is_allocated.replace(true) { Err(OutOfMemory::OutOfDeviceMemory) } else { Ok(0) }
    }

    unsafe fn deallocate_memory(&self, _: Memory) {
        self.is_allocated.set(false);
    }

    unsafe fn map_memory(&self, _: &mut Memory, _: u64, _: u64) -> Result<NonNull<u8>, DeviceMapError> {
        Err(DeviceMapError::MapFailed)
    }

    unsafe fn unmap_memory(&self, _: &mut Memory) {}

    unsafe fn invalidate_memory_ranges(
        &self,
        _: &[MappedMemoryRange<'_, Memory>],
    ) -> Result<(), OutOfMemory> {
        Ok(())
    }

    unsafe fn flush_memory_ranges(&self, _: &[MappedMemoryRange<'_, Memory>]) -> Result<(), OutOfMemory> {
        Ok(())
    }
}

pub(in crate::ranges) struct GpuAlloc<K> {
    allocator: GpuAllocator<Memory>,
    device: Device,
    kind: PhantomData<K>,
}

impl<K: Kind> Ranges for GpuAlloc<K> {
    type Handle = MemoryBlock<Memory>;

    const NAME: &'static str = K::NAME;

    fn new(space: &Space) -> Option<Self> {
        if K::IS_BUDDY && !space.size.is_power_of_two() {
            return None;
        }
        let config = Config {
            // No request gets a memory object of its own.
            dedicated_threshold: u64::MAX,
            preferred_dedicated_threshold: u64::MAX,
            transient_dedicated_threshold: u64::MAX,
            starting_free_list_chunk: space.size,
            final_free_list_chunk: space.size,
            minimal_buddy_size: space.unit,
            initial_buddy_dedicated_size: space.size,
        };
        let properties = DeviceProperties {
            memory_types: Cow::Owned(vec![MemoryType { heap: 0, props: MemoryPropertyFlags::DEVICE_LOCAL }]),
            // It limits memory objects to a 32nd of the heap.
            memory_heaps: Cow::Owned(vec![MemoryHeap { size: space.size.checked_mul(64)? }]),
            max_memory_allocation_count: u32::MAX,
            max_memory_allocation_size: u64::MAX,
            non_coherent_atom_size: 1,
            buffer_device_address: false,
        };
        let device = Device { is_allocated: Cell::new(false) };
        Some(Self { allocator: GpuAllocator::new(config, properties), device, kind: PhantomData })
    }

    #[inline(always)]
    fn allocate(&mut self, size: u64, alignment: u64) -> Option<(MemoryBlock<Memory>, u64)> {
        let request = Request { size, align_mask: alignment - 1, usage: K::USAGE, memory_types: 1 };
        // SAFETY: all calls have the same device, whose properties the allocator has.
        let block = unsafe { self.allocator.alloc(&self.device, request) }.ok()?;
        let offset = block.offset();
        Some((block, offset))
    }

    #[inline(always)]
    fn free(&mut self, handle: MemoryBlock<Memory>) {
        // SAFETY: the same device, and the block is of this allocator.
        unsafe { self.allocator.dealloc(&self.device, handle) };
    }
}

impl<K> Drop for GpuAlloc<K> {
    fn drop(&mut self) {
        // SAFETY: the same device.
        unsafe { self.allocator.cleanup(&self.device) };
    }
}
