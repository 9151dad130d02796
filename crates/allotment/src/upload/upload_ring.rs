//! A [`Ring`](super::Ring) over a buffer that the CPU writes: for one stream of frames.
//!
//! The ring never grows: what has to be in flight at once is known, and running out is a sign. For many
//! recordings at a time, or amounts that nobody knows, take an [`UploadPool`](super::UploadPool).

use std::sync::Arc;

use allotment_suballoc::Alignment;

use super::slice::{UploadLocation, UploadSlice};
use super::tracked_ring::TrackedRing;
use super::{RingDesc, RingError, RingStatistics};
use crate::device::{Device, MemoryTypeIndex, TimelinePoint};
use crate::lifetime::SubmissionTracker;
use crate::memory::{Allocator, MappedBuffer, ResourceError};

/// Room for what the CPU writes and the device reads once, which comes back frame by frame.
///
/// When it is dropped it waits, for five seconds at most, for what queues were given; where recordings are open that
/// may use it, its buffer goes when these are over.
///
/// ```
/// use std::sync::Arc;
///
/// use allotment::device::simulated::{SimulatedGpu, Profile};
/// use allotment::device::{BufferCopy, Device, QueueIndex, Submission};
/// use allotment::lifetime::SubmissionTracker;
/// use allotment::upload::{RingDesc, UploadRing};
/// use allotment::{Alignment, Allocator, AllocatorDesc};
/// use ash::vk::BufferUsageFlags;
///
/// let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// let tracker = SubmissionTracker::new(device.clone())?;
/// let allocator = Arc::new(Allocator::new(device.clone(), AllocatorDesc::default())?);
/// // Vulkan wants to know that shaders will read constants here. On Direct3D 12 no flags are needed.
/// let desc = RingDesc::upload(1 << 20).with_usage(BufferUsageFlags::UNIFORM_BUFFER.as_raw().into());
/// let mut ring = UploadRing::new(&allocator, &tracker, &desc)?;
///
/// let recording = tracker.record("a frame");
/// // Ranges of constants begin and end at multiples of 256 bytes on every device.
/// let mut constants = ring.allocate(256, Alignment::new(256)?)?;
/// constants.write(0, &[1; 64])?;
/// println!("bind {:?} at {}", constants.buffer(), constants.offset());
/// let work = Submission::default();
/// // SAFETY: there is nothing in it.
/// let point = recording.submit(QueueIndex(0), |queue| unsafe { device.submit(queue, &work) })?;
/// ring.close(point);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Nothing is written once the frame was closed:
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
    /// A ring over a buffer that is created as described.
    ///
    /// # Errors
    ///
    /// [`ResourceError`] where there is no such buffer to be had, as for a capacity of 0.
    pub fn new(
        allocator: &Arc<Allocator<D>>,
        tracker: &SubmissionTracker,
        desc: &RingDesc,
    ) -> Result<Self, ResourceError> {
        Ok(Self { inner: TrackedRing::new(allocator, tracker, desc)? })
    }

    /// A ring over a buffer of the caller's making: one that [`RingDesc`] cannot describe.
    #[must_use]
    pub fn over(tracker: &SubmissionTracker, buffer: MappedBuffer<D>) -> Self {
        Self { inner: TrackedRing::over(tracker, buffer) }
    }

    /// The buffer, for recording.
    #[must_use]
    pub fn buffer(&self) -> &D::Buffer {
        self.inner.buffer().handle()
    }

    /// Which memory type the buffer is of.
    #[must_use]
    pub fn memory_type(&self) -> MemoryTypeIndex {
        self.inner.buffer().memory_type()
    }

    /// `size` bytes to write now, at a multiple of `alignment` from the start of the buffer. They belong to
    /// the open frame. Where there is no room, frames that queues are done with come back first.
    ///
    /// # Errors
    ///
    /// [`RingError`], which says what to wait for; nothing but the count of failures has changed.
    #[inline]
    pub fn allocate(&mut self, size: u64, alignment: Alignment) -> Result<UploadSlice<'_, D>, RingError> {
        let (ring, buffer, tracker) = self.inner.split();
        let offset = ring.allocate_reclaiming(size, alignment, |point| tracker.is_reached(point))?;
        Ok(UploadSlice::new(buffer, UploadLocation { page: 0, offset, size }))
    }

    /// Says that the device uses what was allocated since the last close until `point`.
    pub fn close(&mut self, point: TimelinePoint) {
        let closing = Closing { ring: self, point };
        if closing.ring.inner.ring.is_list_full() {
            closing.ring.reclaim();
        }
    }

    /// Takes back what was allocated since the last close: nothing of it was, or will be, submitted.
    pub fn discard(&mut self) {
        self.inner.ring.discard();
    }

    /// Takes back the frames that queues are done with, oldest first. Returns how many bytes came back.
    /// [`allocate`](Self::allocate) does so by itself when it has to.
    pub fn reclaim(&mut self) -> u64 {
        let TrackedRing { ring, tracker, .. } = &mut self.inner;
        ring.reclaim(|point| tracker.is_reached(point))
    }

    /// How full the ring is.
    #[must_use]
    pub fn statistics(&self) -> RingStatistics {
        self.inner.ring.statistics()
    }
}

/// Closes the open frame when it is dropped, also where the device panics when it is asked how far queues are: a queue
/// has these bytes, and an open frame can be discarded.
struct Closing<'a, D: Device> {
    ring: &'a mut UploadRing<D>,
    point: TimelinePoint,
}

impl<D: Device> Drop for Closing<'_, D> {
    fn drop(&mut self) {
        self.ring.inner.ring.close(self.point);
    }
}
