//! Reserved buffers: reserved resources, to whose tiles ranges of heaps are mapped.

use core::time::Duration;
use std::thread;

use windows::Win32::Graphics::Direct3D12::*;

use super::memory::Memory;
use super::properties::{self, ResourceClasses, types_that_support};
use super::{ResourceInfo, Shared};
use crate::device::{
    DedicatedNeed, DeviceError, MemoryHandle as _, MemoryTypeIndex, MemoryTypeMask, QueueIndex, RangeBinding,
    Requirements, ResourceKind, TimelinePoint,
};

/// Bytes of a tile.
const TILE: u32 = D3D12_TILED_RESOURCE_TILE_SIZE_IN_BYTES;

/// Between two looks at a fence that the system has no event to wait for with.
const NEXT_LOOK: Duration = Duration::from_millis(1);

impl Shared {
    pub(super) fn reserved_buffer(
        &self,
        info: &ResourceInfo<'_>,
    ) -> Result<(ID3D12Resource, Requirements), DeviceError> {
        // Tiles of textures have shapes, and their smallest levels share some.
        if self.binding_queue.is_none() || !info.is_buffer() {
            return Err(DeviceError::Unsupported);
        }
        self.check_description(info)?;
        let tile = properties::alignment(TILE);
        // The width was checked: rounded up, it is below 2^48.
        let size = tile.align_up(info.desc.Width);
        // Where resources have one state, none is reserved; and the CPU maps heaps through a buffer over all of them.
        let types = types_that_support(&self.classes, ResourceClasses::BUFFERS, true, false);
        let unmapped = (0..32).filter(|&index| {
            let index = MemoryTypeIndex(index);
            types.contains(index) && !self.is_mappable(index)
        });
        let requirements = Requirements {
            size,
            alignment: tile,
            memory_types: MemoryTypeMask(unmapped.fold(0, |mask, index| mask | 1 << index)),
            dedicated: DedicatedNeed::None,
            kind: ResourceKind::Buffer,
        };
        Ok((self.create_reserved(info)?, requirements))
    }

    /// Maps heaps to ranges of a reserved buffer, and waits until the queue has done it.
    ///
    /// # Safety
    ///
    /// As for [`bind_ranges`](crate::device::BufferDevice::bind_ranges).
    pub(super) unsafe fn bind_ranges(
        &self,
        buffer: &ID3D12Resource,
        ranges: &[RangeBinding<Memory>],
    ) -> Result<(), DeviceError> {
        let queue = self.binding_queue.ok_or(DeviceError::Unsupported)?;
        let raw = self.queues.raw(queue).ok_or(DeviceError::NoSuchQueue { queue })?;
        let memory_of = |range: &RangeBinding<Memory>| range.memory.map(|(memory, _)| memory);
        let mut ranges = ranges.to_vec();
        // One call takes tiles of one heap. What is taken away comes first, since the same tiles may be mapped elsewhere.
        ranges.sort_by_key(|range| memory_of(range).map(Memory::to_raw));
        let mut calls = Vec::new();
        for ranges in ranges.chunk_by(|one, next| memory_of(one) == memory_of(next)) {
            // SAFETY: the memory is live, by the caller's promise.
            let heap = memory_of(&ranges[0]).map(|memory| unsafe { memory.heap() });
            // A committed resource has no tiles for others. No call was made yet, so nothing has changed.
            let heap = heap.map(|heap| heap.ok_or(DeviceError::Unsupported)).transpose()?;
            calls.push((heap, ranges));
        }
        for (heap, ranges) in &calls {
            // SAFETY: all are live, and the ranges are right, by the caller's promise.
            unsafe { map_tiles(raw, buffer, heap.as_ref(), ranges) };
        }
        self.reach_mappings(queue)
    }

    /// Waits until the queue has done all that it was given.
    fn reach_mappings(&self, queue: QueueIndex) -> Result<(), DeviceError> {
        // SAFETY: there are no lists.
        let value = unsafe { self.queues.submit_lists(queue, &[], &[]) }?;
        let point = TimelinePoint { queue, value };
        loop {
            match self.queues.wait(point, Duration::MAX) {
                // The tiles are mapped all the same: another error would say that they are not. The wait looks at the fence
                // before all else, and a queue comes to an end or is lost.
                Err(error) if error != DeviceError::Lost => thread::sleep(NEXT_LOOK),
                reached => return reached,
            }
        }
    }
}

/// Maps tiles of a heap to ranges of a buffer, or takes those away that are mapped there.
///
/// # Safety
///
/// Buffer and heap are live, and of the queue's device; the ranges are multiples of a tile, and lie in both.
unsafe fn map_tiles(
    queue: &ID3D12CommandQueue,
    buffer: &ID3D12Resource,
    heap: Option<&ID3D12Heap>,
    ranges: &[RangeBinding<Memory>],
) {
    // The casts cannot truncate: neither a resource nor a heap has more than 2^47 bytes.
    let tiles = |bytes: u64| (bytes / u64::from(TILE)) as u32;
    let in_buffer = |range: &RangeBinding<_>| D3D12_TILED_RESOURCE_COORDINATE {
        X: tiles(range.offset),
        ..Default::default()
    };
    let size = |range: &RangeBinding<_>| D3D12_TILE_REGION_SIZE {
        NumTiles: tiles(range.size),
        ..Default::default()
    };
    let starts: Vec<_> = ranges.iter().map(in_buffer).collect();
    let sizes: Vec<_> = ranges.iter().map(size).collect();
    let kind = if heap.is_some() { D3D12_TILE_RANGE_FLAG_NONE } else { D3D12_TILE_RANGE_FLAG_NULL };
    let kinds = vec![kind; ranges.len()];
    let in_heap = |range: &RangeBinding<_>| range.memory.map_or(0, |(_, offset)| tiles(offset));
    let offsets: Vec<_> = ranges.iter().map(in_heap).collect();
    let counts: Vec<_> = sizes.iter().map(|size| size.NumTiles).collect();
    let count = ranges.len() as u32;
    // SAFETY: each list has as many entries as it is said to have, and the rest is the caller's promise.
    unsafe {
        queue.UpdateTileMappings(
            buffer,
            count,
            Some(starts.as_ptr()),
            Some(sizes.as_ptr()),
            heap,
            count,
            Some(kinds.as_ptr()),
            Some(offsets.as_ptr()),
            Some(counts.as_ptr()),
            D3D12_TILE_MAPPING_FLAG_NONE,
        );
    }
}
