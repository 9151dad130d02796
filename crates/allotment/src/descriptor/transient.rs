//! Transient descriptors: tables that one recording allocates, and that are reused once it completes.
//!
//! ```text
//!   chunks   ▓▓▓▓▓▓▓▓   ▓▓▓▓▓░░░        large request   ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓
//!                            next end                   a chunk of its own: the current chunk stays
//! ```
//!
//! A request is an addition and a comparison, without a lock or an atomic operation: no other thread uses the
//! chunk. Chunks come from the heap now and then, under a lock, and are returned together once the recording's
//! submission completes, or at once when it is discarded, so several submissions within one frame do not add
//! up.
//!
//! A recording that has many chunks takes several at once, as many as it has, up to a 64th of the region. The
//! unused ones are reserved until it completes, and the lock is taken less often.
//!
//! The current chunk is abandoned for a new one only if the new one has more room left.

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

/// The location of shader-visible descriptors, for one recording.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// let frame = gpu.begin_frame()?;
/// let mut transient = frame.transient_descriptors()?;
/// let place = transient.allocate(4)?.place();
/// // `SetGraphicsRootDescriptorTable(0, place.gpu)` on Direct3D 12; a push constant for bindless shaders.
/// println!("{} descriptors from {} on", place.count, place.first);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TableLocation {
    /// The index of the first descriptor in the heap.
    pub first: u32,
    /// The number of descriptors.
    pub count: u32,
    /// The GPU's reference to the first descriptor: an address, a `D3D12_GPU_DESCRIPTOR_HANDLE`. 0 if the API
    /// has none.
    pub gpu: u64,
}

/// A recording's view of a shader-visible heap, from which it allocates transient tables.
///
/// It can be sent to another thread with its recording, and is not shared: two threads need two recordings.
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
    /// The alignment of tables, minus one.
    mask: u32,
    /// The distance between descriptors in bytes, and the GPU's reference to the first one; both 0 if the API
    /// has none.
    stride: u32,
    base: u64,
    generation: Arc<Generation<D>>,
    shared: Arc<Shared<D>>,
    recording: RecordingId,
    chunks: Vec<Chunk>,
    /// The number of descriptors in these chunks.
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
        // On an API without such addresses every product is 0, so `place_of` needs no branch.
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

    /// Returns the device's heap to bind. It does not change during the recording.
    #[must_use]
    pub fn heap(&self) -> &D::DescriptorHeap {
        self.generation.heap.raw()
    }

    /// Returns the recording of this view.
    #[must_use]
    pub fn recording(&self) -> RecordingId {
        self.recording
    }

    /// Returns the location of a long-lived table for this recording. The table cannot be written from now on.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::Replaced`] if the heap was replaced since the recording began and the table is newer;
    /// [`DescriptorError::WrongTracker`] if the table belongs to another heap.
    pub fn place(&self, range: &DescriptorRange<D>) -> Result<TableLocation, DescriptorError> {
        // The entry of another heap's range would name some other table here.
        if !Arc::ptr_eq(range.shared(), &self.shared) {
            return Err(DescriptorError::WrongHeap);
        }
        let first = range.expose(self.generation.number).ok_or(DescriptorError::Replaced)?;
        Ok(self.place_of(first, range.count()))
    }

    #[inline]
    fn place_of(&self, first: u32, count: u32) -> TableLocation {
        TableLocation { first, count, gpu: self.base + u64::from(first) * u64::from(self.stride) }
    }

    /// Allocates `count` adjacent descriptors, to be written now.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::Exhausted`], with the event to wait for; [`DescriptorError::NeverFits`],
    /// [`DescriptorError::Empty`]; [`DescriptorError::Replaced`] if the heap that the recording began with is
    /// full and was replaced.
    #[inline]
    pub fn allocate(&mut self, count: u32) -> Result<TransientTable<'_, D>, DescriptorError> {
        let mut first = self.next;
        // A count of 0 wraps to the largest number, which exceeds any room: one comparison covers both cases.
        if count.wrapping_sub(1) < self.end - first {
            // The end of the chunk is aligned, so rounding up does not pass it.
            self.next = first + ((count + self.mask) & !self.mask);
        } else {
            first = self.take(count)?;
        }
        Ok(TransientTable { transient: self, first, count })
    }

    /// Serves a request that does not fit the current chunk.
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
        // What the recording has decides how many chunks it gets at once; see `take_chunk`.
        let taken = self.taken;
        let chunk = match self.generation.take_chunk(count, taken) {
            Some(chunk) => chunk,
            None => {
                // Other recordings may have completed; asking for it costs a query of the queues.
                self.shared.reclaim();
                self.generation.take_chunk(count, taken).ok_or_else(|| self.refusal(count))?
            }
        };
        self.taken += chunk.count;
        self.chunks.push(chunk);
        // Chunks are whole multiples of the alignment, so the rounded count fits.
        let taken = (count + self.mask) & !self.mask;
        let left = chunk.count - taken;
        if chunk.first == self.end {
            // The new chunk continues the current one, so nothing of that is lost.
            let first = self.next;
            self.next = first + taken;
            self.end = chunk.first + chunk.count;
            return Ok(first);
        }
        // The chunk with more room becomes the current one, so a large request does not waste the rest of a
        // small chunk.
        if left > self.end - self.next {
            self.next = chunk.first + taken;
            self.end = chunk.first + chunk.count;
        }
        Ok(chunk.first)
    }

    /// Returns the error for a request that no chunk serves.
    fn refusal(&self, count: u32) -> DescriptorError {
        self.generation.count_failure();
        // Growing or compacting the heap does not help a recording that began with the old one.
        if !self.shared.is_current(&self.generation) {
            return DescriptorError::Replaced;
        }
        self.shared.exhausted(self.shared.heap_type, Region::Transient, count, &self.generation.statistics())
    }
}

impl<D: DescriptorDevice> Drop for TransientDescriptors<D> {
    #[inline(never)]
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

/// Descriptors that were just allocated, to be written now. It borrows the view, so they cannot be written
/// later.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// use allotment::descriptor::DescriptorFill;
///
/// let frame = gpu.begin_frame()?;
/// let mut transient = frame.transient_descriptors()?;
/// let mut table = transient.allocate(4)?;
/// table.fill(DescriptorFill::Null)?; // before some of them are written
/// let place = table.place();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TransientTable<'a, D: DescriptorDevice> {
    transient: &'a TransientDescriptors<D>,
    first: u32,
    count: u32,
}

impl<D: DescriptorDevice> TransientTable<'_, D> {
    /// Returns the location of the table.
    #[inline]
    #[must_use]
    pub fn place(&self) -> TableLocation {
        self.transient.place_of(self.first, self.count)
    }

    fn heap(&self) -> &super::device_heap::DeviceHeap<D> {
        &self.transient.generation.heap
    }

    /// Writes the `at`-th descriptor.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::OutOfRange`], or [`DescriptorError::WrongKind`] for a descriptor of another type.
    pub fn write(&mut self, at: u32, descriptor: &D::Descriptor<'_>) -> Result<(), DescriptorError> {
        check_range(at, 1, self.count)?;
        // SAFETY: the table belongs to this recording alone, and no command was given its location yet.
        unsafe { self.heap().write(self.first + at, descriptor) }
    }

    /// Copies CPU descriptors to this table, from its `at`-th descriptor on, in one call.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::OutOfRange`], [`DescriptorError::WrongKind`], or [`DescriptorError::WrongHeap`] if
    /// `range` does not belong to `cpu_heap`, [`DescriptorError::Unwritten`].
    pub fn copy_from(
        &mut self,
        at: u32,
        cpu_heap: &CpuDescriptorHeap<D>,
        range: &CpuDescriptorRange,
    ) -> Result<(), DescriptorError> {
        check_range(at, range.count(), self.count)?;
        cpu_heap.copied(range, |heap, first| {
            // SAFETY: the range is borrowed, so no thread writes it meanwhile; the table belongs to this
            // recording alone, and no command was given its location yet.
            unsafe { self.heap().copy_from(heap, first, self.first + at, range.count()) }
        })?
    }

    /// Fills all descriptors of the table.
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
