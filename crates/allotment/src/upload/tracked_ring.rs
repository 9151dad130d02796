//! What both rings over a buffer are: the buffer, which bytes of it are whose, and who knows how far queues
//! are.

use core::fmt;
use std::sync::Arc;

use super::{Ring, RingDesc};
use crate::device::{BufferDesc, Device};
use crate::lifetime::{ReleaseQueue, SubmissionTracker};
use crate::memory::{Allocator, MappedBuffer, ResourceError};

/// Frames that are pending at most times: three in flight of two or three submissions each, and some.
pub(super) const FRAMES: usize = 16;

/// A ring over a buffer, which goes when queues are done with the frames.
pub(super) struct TrackedRing<D: Device> {
    pub(super) ring: Ring,
    /// Taken when dropped.
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
        Ok(Self::over(tracker, MappedBuffer::new(allocator, &info, &desc.memory)?))
    }

    pub(super) fn over(tracker: &SubmissionTracker, buffer: MappedBuffer<D>) -> Self {
        let mut ring = Ring::new(buffer.size());
        ring.expect_frames(FRAMES);
        Self { ring, buffer: Some(buffer), tracker: tracker.clone() }
    }
}

impl<D: Device> TrackedRing<D> {
    pub(super) fn buffer(&self) -> &MappedBuffer<D> {
        match &self.buffer {
            Some(buffer) => buffer,
            None => unreachable!("taken only when dropped"),
        }
    }

    /// The ring and the buffer, side by side.
    pub(super) fn split(&mut self) -> (&mut Ring, &MappedBuffer<D>, &SubmissionTracker) {
        match &self.buffer {
            Some(buffer) => (&mut self.ring, buffer, &self.tracker),
            None => unreachable!("taken only when dropped"),
        }
    }
}

impl<D: Device> Drop for TrackedRing<D> {
    /// The buffer is retired like anything else: frames that are open, or closed, or still to be submitted, are some
    /// recording's, and it goes when these are done. The end of a queue that has nothing else is waited for.
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
