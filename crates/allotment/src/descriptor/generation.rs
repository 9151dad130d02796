//! One of the successive device heaps of a shader-visible heap, until growth or compaction replaces it, with
//! its chunks.

use core::fmt;
use std::sync::{Arc, Mutex};

use super::device_heap::DeviceHeap;
use super::error::DescriptorError;
use super::events::{HeapEvents, HeapInfo, kind_of};
use super::free_chunks::FreeChunks;
use super::heap_regions::Regions;
use super::statistics::{DescriptorHeapStatistics, Usage};
use crate::device::{DescriptorDevice, DescriptorHeapVisibility, ShaderVisibleHeapType};
use crate::events::{Announces, EventLog, lock_to_announce};
use crate::memory::Allocator;
use crate::sync::locked;

/// One of the device's heaps that a shader-visible heap consists of over time. Recordings that began with it
/// keep it.
pub(super) struct Generation<D: DescriptorDevice> {
    /// Counts from 0.
    pub(super) number: u32,
    pub(super) heap: DeviceHeap<D>,
    pub(super) regions: Regions,
    /// The maximum number of descriptors that a recording takes ahead of need.
    most_at_once: u32,
    /// Shared with the list of what announces itself to a reader of events, which knows nothing of the device.
    chunks: Arc<Mutex<Chunks>>,
}

/// The fraction of the region that a recording takes ahead of need at most: small enough that many recordings
/// have room at once.
const AT_ONCE: u32 = 64;

/// The transient region of a heap.
#[derive(Debug)]
pub(super) struct Chunks {
    /// The free chunks of the transient region.
    free: FreeChunks,
    usage: Usage,
    /// The first descriptor of the region.
    start: u32,
    /// Descriptors per chunk.
    size: u32,
    pub(super) events: HeapEvents,
}

impl Chunks {
    pub(super) fn new(log: &EventLog, info: HeapInfo, regions: &Regions) -> Self {
        // The region is a whole number of chunks.
        let free = FreeChunks::new(regions.transient.len() as u32 / regions.chunk);
        let (start, size) = (regions.transient.start, regions.chunk);
        Self { free, usage: Usage::default(), start, size, events: HeapEvents::new(log, info) }
    }

    /// Creates the region of a heap of resources that no device has, for tests.
    #[cfg(test)]
    pub(super) fn of_no_device(desc: &super::ShaderVisibleHeapDesc) -> (EventLog, Arc<Mutex<Self>>) {
        let limits =
            crate::device::ShaderVisibleHeapLimits { max_capacity: 1 << 20, reserved: 0, table_alignment: 1 };
        let (log, regions) = (EventLog::default(), Regions::new(desc, &limits).unwrap());
        let kind = kind_of(DescriptorHeapVisibility::ShaderVisible(desc.heap_type));
        let info =
            HeapInfo { id: log.parts().next_object().unwrap(), kind, capacity: regions.capacity, name: None };
        let chunks = Arc::new(Mutex::new(Self::new(&log, info, &regions)));
        (log, chunks)
    }

    /// Announces the heap and the chunks in use to a reader of events that does not know them.
    pub(super) fn announce(&mut self) {
        let (start, size) = (self.start, self.size);
        self.events.announce(self.free.taken().map(|(at, chunks)| (start + at * size, chunks * size)));
    }
}

impl Announces for Mutex<Chunks> {
    fn announce(&self) -> bool {
        let chunks = lock_to_announce(self);
        chunks.map(|mut chunks| chunks.announce()).is_some()
    }
}

/// Adjacent chunks of one recording.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    at: u32,
    chunks: u32,
    pub(super) first: u32,
    pub(super) count: u32,
}

impl<D: DescriptorDevice> Generation<D> {
    /// Creates the device's heap.
    pub(super) fn new(
        allocator: &Arc<Allocator<D>>,
        heap_type: ShaderVisibleHeapType,
        number: u32,
        regions: Regions,
    ) -> Result<Self, DescriptorError> {
        let visibility = DescriptorHeapVisibility::ShaderVisible(heap_type);
        let heap = DeviceHeap::new(allocator, visibility, regions.capacity)?;
        let most_at_once = regions.transient.len() as u32 / AT_ONCE;
        let parts = allocator.events().parts();
        let info = HeapInfo {
            id: parts.next_object().ok_or(DescriptorError::TooManyHeaps)?,
            kind: kind_of(visibility),
            capacity: regions.capacity,
            name: (number > 0).then(|| format!("generation {number}").into()),
        };
        let chunks = Arc::new(Mutex::new(Chunks::new(allocator.events(), info, &regions)));
        parts.add(&chunks);
        Ok(Self { number, heap, regions, most_at_once, chunks })
    }

    /// Returns what writes the events of the heap, to those whose ranges are in it.
    pub(super) fn chunks(&self) -> &Arc<Mutex<Chunks>> {
        &self.chunks
    }

    /// Returns the size of the transient region, in descriptors.
    pub(super) fn transient(&self) -> u32 {
        self.regions.transient.len() as u32
    }

    /// Takes as many adjacent chunks as hold `count` descriptors. Takes more, if they are free, for a recording
    /// that has `taken` descriptors in chunks already: as many again, up to a small part of the region. `None`
    /// if no range fits now.
    pub(super) fn take_chunk(&self, count: u32, taken: u32) -> Option<Chunk> {
        let size = self.regions.chunk;
        // Doubling what a recording has, up to `most_at_once`, lets it take the lock rarely, as a growing vector
        // reallocates rarely.
        let needed = count.div_ceil(size);
        let wanted = needed.max(taken.min(self.most_at_once) / size);
        let mut chunks = locked(&self.chunks);
        let (at, chunks_taken) = match chunks.free.take(wanted) {
            Some(at) => (at, wanted),
            // Chunks ahead of need are an optimization only: a fragmented region still serves the request
            // itself.
            None => (chunks.free.take(needed)?, needed),
        };
        // The chunks lie in the region, so the product fits.
        let count = chunks_taken * size;
        chunks.usage.take(count);
        let first = chunks.start + at * size;
        chunks.events.allocated((first, count));
        Some(Chunk { at, chunks: chunks_taken, first, count })
    }

    /// Marks chunks as waiting for their recording.
    pub(super) fn retiring(&self, chunks: &[Chunk]) {
        let count: u32 = chunks.iter().map(|chunk| chunk.count).sum();
        locked(&self.chunks).usage.retiring += count;
    }

    /// Returns chunks, to be reused.
    pub(super) fn give_back(&self, given: &[Chunk]) {
        let mut guard = locked(&self.chunks);
        let Chunks { free, usage, events, .. } = &mut *guard;
        for chunk in given {
            free.give_back(chunk.at, chunk.chunks);
            usage.retiring -= chunk.count;
            usage.give_back(chunk.count);
            events.freed((chunk.first, chunk.count));
        }
    }

    /// Continues the counters of the previous generation.
    pub(super) fn inherit(&self, before: &Self) {
        // Only these count over the life of a heap; how many chunks are in use is a matter of each generation.
        let Usage { peak, failures, .. } = locked(&before.chunks).usage;
        let mut chunks = locked(&self.chunks);
        (chunks.usage.peak, chunks.usage.failures) = (peak, failures);
    }

    pub(super) fn count_failure(&self) {
        locked(&self.chunks).usage.failures += 1;
    }

    pub(super) fn statistics(&self) -> DescriptorHeapStatistics {
        let chunks = locked(&self.chunks);
        let largest = chunks.free.largest() * self.regions.chunk;
        chunks.usage.statistics(self.transient(), largest, 1)
    }
}

impl<D: DescriptorDevice> Drop for Generation<D> {
    #[inline(never)]
    fn drop(&mut self) {
        locked(&self.chunks).events.destroyed();
    }
}

impl<D: DescriptorDevice> fmt::Debug for Generation<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Generation").field("number", &self.number).field("regions", &self.regions).finish()
    }
}
