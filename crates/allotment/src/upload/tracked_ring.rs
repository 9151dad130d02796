//! The common part of both rings: a buffer, the ring over it, and the tracker that knows the progress of the
//! queues.

use core::fmt;
use std::sync::Arc;

use super::{Ring, RingDesc};
use crate::device::{BufferDesc, Device};
use crate::lifetime::{ReleaseQueue, SubmissionTracker, WrongDevice};
use crate::memory::{Allocator, MappedBuffer, ResourceError};

/// Usual number of pending frames: three in flight of two or three submissions each, and some spare.
pub(super) const FRAMES: usize = 16;

/// A ring over a buffer, which is destroyed once queues have completed its frames.
pub(super) struct TrackedRing<D: Device> {
    pub(super) ring: Ring,
    /// `None` only while being dropped.
    buffer: Option<MappedBuffer<D>>,
    pub(super) tracker: SubmissionTracker,
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
        tracker.check_device(buffer.allocator().device())?;
        let mut ring = Ring::new(buffer.size());
        // Reserved now, so that the first frames in flight do not allocate.
        ring.expect_frames(FRAMES);
        Ok(Self { ring, buffer: Some(buffer), tracker: tracker.clone() })
    }
}

impl<D: Device> TrackedRing<D> {
    pub(super) fn buffer(&self) -> &MappedBuffer<D> {
        match &self.buffer {
            Some(buffer) => buffer,
            None => unreachable!("taken only when dropped"),
        }
    }

    /// Returns the ring, the buffer and the tracker, borrowed separately.
    pub(super) fn split(&mut self) -> (&mut Ring, &MappedBuffer<D>, &SubmissionTracker) {
        match &self.buffer {
            Some(buffer) => (&mut self.ring, buffer, &self.tracker),
            None => unreachable!("taken only when dropped"),
        }
    }
}

impl<D: Device> Drop for TrackedRing<D> {
    /// Retires the buffer like any resource: open, closed and unsubmitted frames belong to recordings, and the
    /// buffer is destroyed when these have completed. This queue holds nothing else, and its drop waits for it.
    #[inline(never)]
    fn drop(&mut self) {
        let last = ReleaseQueue::new(&self.tracker);
        self.buffer.take().into_iter().for_each(|buffer| last.retire(buffer));
    }
}

impl<D: Device> fmt::Debug for TrackedRing<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrackedRing").field("ring", &self.ring).field("buffer", &self.buffer).finish()
    }
}
