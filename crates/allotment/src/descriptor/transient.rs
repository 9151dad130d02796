//! Descriptors that one recording uses and forgets.
//!
//! ```text
//!   chunks   ▓▓▓▓▓▓▓▓   ▓▓▓▓▓░░░        large request   ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓
//!                            next end                   of its own: the current chunk stays
//! ```
//!
//! A request is an addition and a comparison, with no lock and no atomic: nobody else sees the chunk. Chunks come from
//! the heap now and then, under a lock, and go back together when the recording's submission is over, or at once when it
//! is discarded: submissions within one frame do not add up.
//!
//! A recording that has taken much takes several chunks at once, as many as it has, up to a 64th of the region: what it
//! does not use of them is nobody else's until it is over, and the lock is taken less often.
//!
//! A chunk is left for a new one only when more room is left there than here.

use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use std::sync::Arc;

use super::cpu_heap::{CpuDescriptorHeap, CpuDescriptorRange};
use super::error::{DescriptorError, Region, check_range};
use super::fill::DescriptorFill;
use super::generation::{Chunk, Generation};
use super::range::DescriptorRange;
use super::shader_visible_heap::Shared;
use crate::device::DescriptorDevice;
use crate::lifetime::RecordingId;

/// Where descriptors are that shaders see, as one recording sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TableLocation {
    /// The index of the first one in the heap.
    pub first: u32,
    /// How many there are.
    pub count: u32,
    /// The first one to the GPU: an address, a `D3D12_GPU_DESCRIPTOR_HANDLE`. 0 where the API has no such thing.
    pub gpu: u64,
}

/// A shader-visible heap as one recording sees it, with room for descriptors of its own.
///
/// It goes from thread to thread with its recording, and is not shared: two threads have two recordings.
///
/// ```
/// fn send<T: Send>() {}
/// send::<allotment::descriptor::TransientDescriptors<allotment::device::simulated::SimulatedGpu>>();
/// ```
///
/// ```compile_fail
/// fn share<T: Sync>() {}
/// share::<allotment::descriptor::TransientDescriptors<allotment::device::simulated::SimulatedGpu>>();
/// ```
pub struct TransientDescriptors<D: DescriptorDevice> {
    /// The next free descriptor of the current chunk; a multiple of the alignment, and at most `end`.
    next: u32,
    end: u32,
    /// The alignment of tables, less one.
    mask: u32,
    /// Bytes from one descriptor to the next, and where the first is to the GPU; 0 both where there is no such thing.
    stride: u32,
    base: u64,
    generation: Arc<Generation<D>>,
    shared: Arc<Shared<D>>,
    recording: RecordingId,
    chunks: Vec<Chunk>,
    /// Descriptors of these.
    taken: u32,
    one_thread: PhantomData<Cell<()>>,
}

impl<D: DescriptorDevice> TransientDescriptors<D> {
    pub(super) fn new(
        shared: Arc<Shared<D>>,
        generation: Arc<Generation<D>>,
        recording: RecordingId,
        chunks: Vec<Chunk>,
    ) -> Self {
        let base = generation.heap.address().gpu;
        let limits = generation.heap.device().descriptor_limits();
        let stride = if base == 0 { 0 } else { limits.stride(generation.heap.heap_type()) };
        let mask = generation.regions.alignment - 1;
        let one_thread = PhantomData;
        Self {
            next: 0,
            end: 0,
            mask,
            stride,
            base,
            generation,
            shared,
            recording,
            chunks,
            taken: 0,
            one_thread,
        }
    }

    /// The device's heap to bind. It stays the same for the whole recording.
    #[must_use]
    pub fn heap(&self) -> &D::DescriptorHeap {
        self.generation.heap.raw()
    }

    /// The recording that it is for.
    #[must_use]
    pub fn recording(&self) -> RecordingId {
        self.recording
    }

    /// Where a long-lived table is, for this recording. It is not written any more from now on.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::Replaced`] where the heap was replaced since the recording began, and the table came after
    /// that; [`DescriptorError::Foreign`] where it is another heap's.
    pub fn place(&self, range: &DescriptorRange<D>) -> Result<TableLocation, DescriptorError> {
        if !Arc::ptr_eq(range.shared(), &self.shared) {
            return Err(DescriptorError::Foreign);
        }
        let first = range.expose(self.generation.number).ok_or(DescriptorError::Replaced)?;
        Ok(self.place_of(first, range.count()))
    }

    #[inline]
    fn place_of(&self, first: u32, count: u32) -> TableLocation {
        TableLocation { first, count, gpu: self.base + u64::from(first) * u64::from(self.stride) }
    }

    /// `count` descriptors in a row, to be written now.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::Exhausted`], with the point to wait for; [`DescriptorError::NeverFits`],
    /// [`DescriptorError::Empty`]; [`DescriptorError::Replaced`] where the heap that the recording began with is full,
    /// and there is another by now.
    #[inline]
    pub fn allocate(&mut self, count: u32) -> Result<TransientTable<'_, D>, DescriptorError> {
        let mut first = self.next;
        // A count of 0 turns into the largest number, which is below no room.
        if count.wrapping_sub(1) < self.end - first {
            // The end of the chunk is aligned, so it is not passed.
            self.next = first + ((count + self.mask) & !self.mask);
        } else {
            first = self.take(count)?;
        }
        Ok(TransientTable { transient: self, first, count })
    }

    /// Serves a request that the current chunk has no room for.
    #[cold]
    fn take(&mut self, count: u32) -> Result<u32, DescriptorError> {
        if count == 0 {
            return Err(DescriptorError::Empty);
        }
        let capacity = self.generation.transient();
        if count > capacity {
            self.generation.count_failure();
            return Err(DescriptorError::NeverFits { requested: count, capacity });
        }
        let taken = self.taken;
        let chunk = match self.generation.take_chunk(count, taken) {
            Some(chunk) => chunk,
            None => {
                self.shared.reclaim();
                self.generation.take_chunk(count, taken).ok_or_else(|| self.refusal(count))?
            }
        };
        self.taken += chunk.count;
        self.chunks.push(chunk);
        // Whole, since chunks are.
        let taken = (count + self.mask) & !self.mask;
        let left = chunk.count - taken;
        if chunk.first == self.end {
            // It goes on where the current one ends, so nothing of that is lost.
            let first = self.next;
            self.next = first + taken;
            self.end = chunk.first + chunk.count;
            return Ok(first);
        }
        if left > self.end - self.next {
            self.next = chunk.first + taken;
            self.end = chunk.first + chunk.count;
        }
        Ok(chunk.first)
    }

    fn refusal(&self, count: u32) -> DescriptorError {
        self.generation.count_failure();
        if !self.shared.is_current(&self.generation) {
            return DescriptorError::Replaced;
        }
        self.shared.exhausted(self.shared.heap_type, Region::Transient, count, &self.generation.statistics())
    }
}

impl<D: DescriptorDevice> Drop for TransientDescriptors<D> {
    fn drop(&mut self) {
        let chunks = core::mem::take(&mut self.chunks);
        self.shared.retire_chunks(self.recording, Arc::clone(&self.generation), chunks);
    }
}

impl<D: DescriptorDevice> fmt::Debug for TransientDescriptors<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransientDescriptors")
            .field("next", &self.next)
            .field("end", &self.end)
            .field("chunks", &self.chunks.len())
            .finish_non_exhaustive()
    }
}

/// Descriptors that were just allocated, to be written now. It borrows what it was allocated from, so nobody writes
/// there later.
pub struct TransientTable<'a, D: DescriptorDevice> {
    transient: &'a TransientDescriptors<D>,
    first: u32,
    count: u32,
}

impl<D: DescriptorDevice> TransientTable<'_, D> {
    /// Where it is, to be kept.
    #[inline]
    #[must_use]
    pub fn place(&self) -> TableLocation {
        self.transient.place_of(self.first, self.count)
    }

    fn heap(&self) -> &super::device_heap::DeviceHeap<D> {
        &self.transient.generation.heap
    }

    /// Writes its `at`-th descriptor.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::OutOfRange`], or the descriptor is of another kind.
    pub fn write(&mut self, at: u32, descriptor: &D::Descriptor<'_>) -> Result<(), DescriptorError> {
        check_range(at, 1, self.count)?;
        // SAFETY: the table was given to this recording alone, and nobody was told of it.
        unsafe { self.heap().write(self.first + at, descriptor) }
    }

    /// Copies a range of staging descriptors to its `at`-th on, in one go.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::OutOfRange`], [`DescriptorError::WrongKind`], or [`DescriptorError::Foreign`] where `range` is
    /// not of `staging`, [`DescriptorError::Unwritten`].
    pub fn copy_from(
        &mut self,
        at: u32,
        cpu_heap: &CpuDescriptorHeap<D>,
        range: &CpuDescriptorRange,
    ) -> Result<(), DescriptorError> {
        check_range(at, range.count(), self.count)?;
        cpu_heap.copied(range, |heap, first| {
            // SAFETY: the range is borrowed, so nobody writes it meanwhile; the table was given to this recording alone,
            // and nobody was told of it.
            unsafe { self.heap().copy_from(heap, first, self.first + at, range.count()) }
        })?
    }

    /// Makes all of it what `fill` says.
    ///
    /// # Errors
    ///
    /// None that depend on the caller.
    pub fn fill(&mut self, fill: DescriptorFill) -> Result<(), DescriptorError> {
        // SAFETY: as in `write`.
        unsafe { self.heap().fill(self.first..self.first + self.count, fill) }
    }
}

impl<D: DescriptorDevice> fmt::Debug for TransientTable<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransientTable").field("place", &self.place()).finish()
    }
}
