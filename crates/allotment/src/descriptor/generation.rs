//! One of the successive device heaps of a shader-visible heap, until growth or compaction replaces it, with
//! its chunks.

use core::fmt;
use std::sync::{Arc, Mutex};

use super::device_heap::DeviceHeap;
use super::error::DescriptorError;
use super::free_chunks::FreeChunks;
use super::heap_regions::Regions;
use super::statistics::{DescriptorHeapStatistics, Usage};
use crate::device::{DescriptorDevice, DescriptorHeapVisibility, ShaderVisibleHeapType};
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
    chunks: Mutex<Chunks>,
}

/// The fraction of the region that a recording takes ahead of need at most: small enough that many recordings
/// have room at once.
const AT_ONCE: u32 = 64;

#[derive(Debug)]
struct Chunks {
    /// The free chunks of the transient region.
    free: FreeChunks,
    usage: Usage,
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
        let heap =
            DeviceHeap::new(allocator, DescriptorHeapVisibility::ShaderVisible(heap_type), regions.capacity)?;
        // The region is a whole number of chunks.
        let free = FreeChunks::new(regions.transient.len() as u32 / regions.chunk);
        let most_at_once = regions.transient.len() as u32 / AT_ONCE;
        Ok(Self {
            number,
            heap,
            regions,
            most_at_once,
            chunks: Mutex::new(Chunks { free, usage: Usage::default() }),
        })
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
        Some(Chunk { at, chunks: chunks_taken, first: self.regions.transient.start + at * size, count })
    }

    /// Marks chunks as waiting for their recording.
    pub(super) fn retiring(&self, chunks: &[Chunk]) {
        let count: u32 = chunks.iter().map(|chunk| chunk.count).sum();
        locked(&self.chunks).usage.retiring += count;
    }

    /// Returns chunks, to be reused.
    pub(super) fn give_back(&self, given: &[Chunk]) {
        let mut guard = locked(&self.chunks);
        let Chunks { free, usage } = &mut *guard;
        for chunk in given {
            free.give_back(chunk.at, chunk.chunks);
            usage.retiring -= chunk.count;
            usage.give_back(chunk.count);
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

impl<D: DescriptorDevice> fmt::Debug for Generation<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Generation").field("number", &self.number).field("regions", &self.regions).finish()
    }
}
