//! The common part of both rings: a buffer, the ring over it, and the tracker that knows the progress of the
//! queues.

use core::fmt;
use std::sync::Arc;

use super::tracked_buffer::TrackedBuffer;
use super::{Ring, RingDesc};
use crate::device::{BufferDesc, Device};
use crate::lifetime::{SubmissionTracker, WrongDevice};
use crate::memory::{Allocator, MappedBuffer, ResourceError};

/// Usual number of pending frames: three in flight of two or three submissions each, and some spare.
pub(super) const FRAMES: usize = 16;

/// A ring over a buffer, which is destroyed once queues have completed its frames.
pub(super) struct TrackedRing<D: Device> {
    pub(super) ring: Ring,
    buffer: TrackedBuffer<D>,
}

impl<D: Device> TrackedRing<D> {
    pub(super) fn new(
        allocator: &Arc<Allocator<D>>,
        tracker: &SubmissionTracker,
        desc: &RingDesc,
    ) -> Result<Self, ResourceError> {
        let info = BufferDesc::new(desc.capacity).with_usage(desc.usage).into();
        // Before memory is allocated.
        tracker.check_device(allocator.device())?;
        Ok(Self::over(tracker, MappedBuffer::new(allocator, &info, &desc.memory)?)?)
    }

    pub(super) fn over(tracker: &SubmissionTracker, buffer: MappedBuffer<D>) -> Result<Self, WrongDevice> {
        let buffer = TrackedBuffer::new(tracker, buffer)?;
        let mut ring = Ring::new(buffer.get().size());
        // Reserved now, so that the first frames in flight do not allocate.
        ring.expect_frames(FRAMES);
        Ok(Self { ring, buffer })
    }

    pub(super) fn buffer(&self) -> &MappedBuffer<D> {
        self.buffer.get()
    }

    pub(super) fn tracker(&self) -> &SubmissionTracker {
        self.buffer.tracker()
    }

    /// Returns the ring, the buffer and the tracker, borrowed separately.
    pub(super) fn split(&mut self) -> (&mut Ring, &MappedBuffer<D>, &SubmissionTracker) {
        (&mut self.ring, self.buffer.get(), self.buffer.tracker())
    }
}

impl<D: Device> fmt::Debug for TrackedRing<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrackedRing").field("ring", &self.ring).field("buffer", &self.buffer).finish()
    }
}
