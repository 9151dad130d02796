//! A shader-visible heap as it is until it grows or is compacted: the device's heap, and the chunks in it.

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

/// One of the device's heaps that a shader-visible heap is in turn. Recordings that began with it keep it.
pub(super) struct Generation<D: DescriptorDevice> {
    /// Counts from 0.
    pub(super) number: u32,
    pub(super) heap: DeviceHeap<D>,
    pub(super) regions: Regions,
    /// Descriptors that a recording takes ahead of need, at most.
    most_at_once: u32,
    chunks: Mutex<Chunks>,
}

/// What part of the region a recording takes ahead of need, at most: so small that many recordings are not in each
/// other's way.
const AT_ONCE: u32 = 64;

#[derive(Debug)]
struct Chunks {
    /// Of the transient region.
    free: FreeChunks,
    usage: Usage,
}

/// Chunks in a row, which one recording has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    at: u32,
    chunks: u32,
    pub(super) first: u32,
    pub(super) count: u32,
}

impl<D: DescriptorDevice> Generation<D> {
    /// Makes the device's heap.
    pub(super) fn new(
        allocator: &Arc<Allocator<D>>,
        heap_type: ShaderVisibleHeapType,
        number: u32,
        regions: Regions,
    ) -> Result<Self, DescriptorError> {
        let heap =
            DeviceHeap::new(allocator, DescriptorHeapVisibility::ShaderVisible(heap_type), regions.capacity)?;
        // The region is a whole number of them.
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

    /// Descriptors of the transient region.
    pub(super) fn transient(&self) -> u32 {
        self.regions.transient.len() as u32
    }

    /// As many chunks in a row as hold `count` descriptors; more, where there are, for who has taken `taken` descriptors
    /// in chunks before: as many again, but no more than a small part of the region. `None` where there is no room now.
    pub(super) fn take_chunk(&self, count: u32, taken: u32) -> Option<Chunk> {
        let size = self.regions.chunk;
        let needed = count.div_ceil(size);
        let wanted = needed.max(taken.min(self.most_at_once) / size);
        let mut chunks = locked(&self.chunks);
        let (at, chunks_taken) = match chunks.free.take(wanted) {
            Some(at) => (at, wanted),
            None => (chunks.free.take(needed)?, needed),
        };
        // Both lie in the region.
        let count = chunks_taken * size;
        chunks.usage.take(count);
        Some(Chunk { at, chunks: chunks_taken, first: self.regions.transient.start + at * size, count })
    }

    /// They wait for their recording from now on.
    pub(super) fn retiring(&self, chunks: &[Chunk]) {
        let count: u32 = chunks.iter().map(|chunk| chunk.count).sum();
        locked(&self.chunks).usage.retiring += count;
    }

    /// They come back.
    pub(super) fn give_back(&self, given: &[Chunk]) {
        let mut guard = locked(&self.chunks);
        let Chunks { free, usage } = &mut *guard;
        for chunk in given {
            free.give_back(chunk.at, chunk.chunks);
            usage.retiring -= chunk.count;
            usage.give_back(chunk.count);
        }
    }

    /// Goes on counting where the one before ends.
    pub(super) fn inherit(&self, before: &Self) {
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
