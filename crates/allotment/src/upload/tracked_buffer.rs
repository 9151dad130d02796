//! A mapped buffer that queues use, which is destroyed once they have completed what uses it.

use core::fmt;

use crate::device::Device;
use crate::lifetime::{ReleaseQueue, SubmissionTracker, WrongDevice};
use crate::memory::MappedBuffer;

/// A mapped buffer, and the tracker that knows when queues have finished with it.
pub(super) struct TrackedBuffer<D: Device> {
    /// `None` only while being dropped.
    buffer: Option<MappedBuffer<D>>,
    tracker: SubmissionTracker,
}

impl<D: Device> TrackedBuffer<D> {
    pub(super) fn new(tracker: &SubmissionTracker, buffer: MappedBuffer<D>) -> Result<Self, WrongDevice> {
        tracker.check_device(buffer.allocator().device())?;
        Ok(Self { buffer: Some(buffer), tracker: tracker.clone() })
    }

    pub(super) fn get(&self) -> &MappedBuffer<D> {
        match &self.buffer {
            Some(buffer) => buffer,
            None => unreachable!("taken only when dropped"),
        }
    }

    pub(super) fn tracker(&self) -> &SubmissionTracker {
        &self.tracker
    }
}

impl<D: Device> Drop for TrackedBuffer<D> {
    /// Retires the buffer like any resource: bytes that are in use belong to recordings, and the buffer is destroyed when
    /// these have completed. This queue holds nothing else, and its drop waits for it.
    #[inline(never)]
    fn drop(&mut self) {
        let last = ReleaseQueue::new(&self.tracker);
        self.buffer.take().into_iter().for_each(|buffer| last.retire(buffer));
    }
}

impl<D: Device> fmt::Debug for TrackedBuffer<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.buffer.fmt(f)
    }
}
