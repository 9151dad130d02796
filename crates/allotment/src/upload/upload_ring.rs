//! A [`Ring`](super::Ring) over a buffer that the CPU writes: for one stream of frames.
//!
//! The ring never grows: its owner knows how much is in flight at once, and a full ring is a sign of an error. For
//! concurrent recordings or unknown amounts use an [`UploadPool`](super::UploadPool).

use std::sync::Arc;

use allotment_suballoc::Alignment;

use super::slice::UploadSlice;
use super::tracked_ring::TrackedRing;
use super::{RingDesc, RingError, RingStatistics};
use crate::device::{Device, MemoryTypeIndex, TimelinePoint};
use crate::lifetime::{SubmissionTracker, WrongDevice};
use crate::memory::{Allocator, MappedBuffer, ResourceError};

/// A ring of upload memory that the device reads once, reclaimed frame by frame.
///
/// Dropping it waits for submitted work for at most five seconds. If recordings that may use it are open, its
/// buffer is destroyed after them.
///
/// ```
/// use std::sync::Arc;
///
/// use allotment::device::simulated::{SimulatedGpu, Profile};
/// use allotment::device::{BufferCopy, QueueDevice as _, QueueIndex, Submission};
/// use allotment::lifetime::SubmissionTracker;
/// use allotment::upload::{RingDesc, UploadRing};
/// use allotment::{Alignment, Allocator, AllocatorDesc};
/// use ash::vk::BufferUsageFlags;
///
/// let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// let tracker = SubmissionTracker::new(device.clone())?;
/// let allocator = Arc::new(Allocator::new(device.clone(), AllocatorDesc::default())?);
/// // Vulkan needs a flag for shaders that read constants here. Direct3D 12 needs none.
/// let desc = RingDesc::upload(1 << 20).with_usage(BufferUsageFlags::UNIFORM_BUFFER.as_raw().into());
/// let mut ring = UploadRing::new(&allocator, &tracker, &desc)?;
///
/// let recording = tracker.record("a frame");
/// // Constant buffer ranges start at multiples of 256 bytes on every device.
/// let mut constants = ring.allocate(256, Alignment::new(256)?)?;
/// constants.write(0, &[1; 64])?;
/// println!("bind {:?} at {}", constants.buffer(), constants.offset());
/// let work = Submission::default();
/// // SAFETY: the submission is empty.
/// let point = recording.submit(QueueIndex(0), |queue| unsafe { device.submit(queue, &work) })?;
/// ring.close(point);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A slice cannot be written after its frame was closed:
///
/// ```compile_fail,E0499
/// # use allotment::device::{Device, TimelinePoint};
/// # use allotment::upload::UploadRing;
/// # use allotment::Alignment;
/// fn late<D: Device>(ring: &mut UploadRing<D>, submitted: TimelinePoint) {
///     let mut constants = ring.allocate(64, Alignment::ONE).unwrap();
///     ring.close(submitted);
///     constants.write(0, &[1; 64]).unwrap();
/// }
/// ```
#[derive(Debug)]
pub struct UploadRing<D: Device> {
    inner: TrackedRing<D>,
}

impl<D: Device> UploadRing<D> {
    /// Creates a ring with a buffer of this description.
    ///
    /// # Errors
    ///
    /// [`ResourceError`] if the buffer cannot be created, for example with a capacity of 0, or if the tracker tracks another
    /// device than the allocator's.
    #[inline(never)]
    pub fn new(
        allocator: &Arc<Allocator<D>>,
        tracker: &SubmissionTracker,
        desc: &RingDesc,
    ) -> Result<Self, ResourceError> {
        Ok(Self { inner: TrackedRing::new(allocator, tracker, desc)? })
    }

    /// Creates a ring over a buffer of the caller, which [`RingDesc`] cannot describe.
    ///
    /// # Errors
    ///
    /// [`WrongDevice`] if the tracker tracks another device than that of the buffer, which is dropped then.
    pub fn over(tracker: &SubmissionTracker, buffer: MappedBuffer<D>) -> Result<Self, WrongDevice> {
        Ok(Self { inner: TrackedRing::over(tracker, buffer)? })
    }

    /// Returns the buffer, for recording commands.
    #[must_use]
    pub fn buffer(&self) -> &D::Buffer {
        self.inner.buffer().handle_ref()
    }

    /// Returns the memory type of the buffer.
    #[must_use]
    pub fn memory_type(&self) -> MemoryTypeIndex {
        self.inner.buffer().memory_type()
    }

    /// Allocates `size` bytes of the open frame, at a multiple of `alignment` from the start of the buffer. If the
    /// ring is full, frames that queues have completed are reclaimed first.
    ///
    /// # Errors
    ///
    /// [`RingError`], which names what to wait for; only the failure count has changed.
    #[inline]
    pub fn allocate(&mut self, size: u64, alignment: Alignment) -> Result<UploadSlice<'_, D>, RingError> {
        let (ring, buffer, tracker) = self.inner.split();
        let offset = ring.allocate_reclaiming(size, alignment, |point| tracker.is_reached(point))?;
        Ok(UploadSlice::new(buffer, 0, offset, size))
    }

    /// Closes the open frame: the device uses everything allocated since the last close until `point`.
    pub fn close(&mut self, point: TimelinePoint) {
        let closing = Closing { ring: self, point };
        // Reclaim before the list of frames would grow: it then holds only frames in flight, and stops growing.
        if closing.ring.inner.ring.is_list_full() {
            closing.ring.reclaim();
        }
    }

    /// Frees everything allocated since the last close. It must not have been submitted.
    pub fn discard(&mut self) {
        self.inner.ring.discard();
    }

    /// Frees the frames that queues have completed, oldest first. Returns the number of freed bytes.
    /// [`allocate`](Self::allocate) does so itself when needed.
    pub fn reclaim(&mut self) -> u64 {
        let (ring, _, tracker) = self.inner.split();
        ring.reclaim(|point| tracker.is_reached(point))
    }

    /// Returns how full the ring is.
    #[must_use]
    pub fn statistics(&self) -> RingStatistics {
        self.inner.ring.statistics()
    }
}

/// Closes the open frame when dropped, even if the device panics when asked for its progress: the frame's bytes are
/// on a queue, and an open frame could be discarded.
struct Closing<'a, D: Device> {
    ring: &'a mut UploadRing<D>,
    point: TimelinePoint,
}

impl<D: Device> Drop for Closing<'_, D> {
    fn drop(&mut self) {
        self.ring.inner.ring.close(self.point);
    }
}
