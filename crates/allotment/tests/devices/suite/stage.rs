//! The common part of the suites of lifetimes and uploads: a tracker, an allocator whose resources retire by being
//! dropped, and a look at the end whether all of them are gone.

use std::sync::Arc;

use allotment::device::{BufferCopy, BufferDesc, QueueDevice as _, QueueIndex, Submission, TimelinePoint};
use allotment::lifetime::{DeletionQueue, Recording, SubmissionTracker};
use allotment::memory::reports::LeakHandler;
use allotment::memory::{Buffer, OwningAllocator, Transfer};
use allotment::{AllocationOptions, Allocator, AllocatorDesc, MemoryUsage};

use super::allocator::KIB;
use crate::bytes::assert_same;
use crate::fixture::Fixture;
use crate::gpu::{Gpu, PATIENCE};

pub(super) const FIRST: QueueIndex = QueueIndex(0);

/// A device's buffer as a command knows it: a name that keeps nothing alive.
pub(super) type Name<F> = <<F as Fixture>::Device as allotment::device::BufferDevice>::Buffer;

pub(crate) struct Stage<'g, F: Fixture> {
    pub(super) gpu: &'g Gpu<F>,
    pub(super) tracker: SubmissionTracker,
    pub(super) deletion_queue: DeletionQueue,
    pub(crate) memory: OwningAllocator<F::Device>,
}

impl<'g, F: Fixture> Stage<'g, F> {
    pub(crate) fn new(gpu: &'g Gpu<F>) -> Self {
        Self::with(gpu, |_| {})
    }

    pub(super) fn with(gpu: &'g Gpu<F>, change: impl FnOnce(&mut AllocatorDesc)) -> Self {
        let mut desc = AllocatorDesc::default();
        desc.on_leak = LeakHandler::Ignore;
        change(&mut desc);
        let allocator = Arc::new(Allocator::new(gpu.device().clone(), desc).unwrap());
        let tracker = SubmissionTracker::new(gpu.device().clone()).unwrap();
        let deletion_queue = DeletionQueue::new(&tracker);
        let memory = OwningAllocator::new(&allocator, &deletion_queue).unwrap();
        Self { gpu, tracker, deletion_queue, memory }
    }

    pub(super) fn buffer(&self, size: u64, memory_usage: MemoryUsage) -> Buffer<F::Device> {
        let desc = AllocationOptions::new(memory_usage).with_name("of the test");
        self.memory.create_buffer(&BufferDesc::new(size).into(), &desc).unwrap()
    }

    /// A buffer that the CPU has written, to be copied from.
    pub(super) fn source(&self, bytes: &[u8]) -> Buffer<F::Device> {
        let buffer = self.buffer(bytes.len() as u64, MemoryUsage::Upload);
        buffer.write(0, bytes).unwrap();
        buffer
    }

    /// Submits a recording of one copy of whole buffers, by the names that its commands have.
    pub(super) fn submit_copy(
        &self,
        queue: QueueIndex,
        recording: Recording,
        waits: &[TimelinePoint],
        [from, to]: [&Name<F>; 2],
        size: u64,
    ) -> TimelinePoint {
        let copies = [BufferCopy { from, from_offset: 0, to, to_offset: 0, size }];
        let work = Submission { waits, copies: &copies, ..Submission::default() };
        // SAFETY: that the buffers live as long as the recording, and what it is submitted as, is what the tests
        // hold against the library; a device that is used wrongly is noticed by what watches it.
        recording.submit(queue, |_| unsafe { self.gpu.device().submit(queue, &work) }).unwrap()
    }

    /// Submits a recording of nothing.
    pub(super) fn submit_nothing(
        &self,
        queue: QueueIndex,
        recording: Recording,
        waits: &[TimelinePoint],
    ) -> TimelinePoint {
        let work = Submission { waits, ..Submission::default() };
        // SAFETY: there is nothing in it.
        recording.submit(queue, |_| unsafe { self.gpu.device().submit(queue, &work) }).unwrap()
    }

    pub(super) fn wait(&self, point: TimelinePoint) {
        assert_eq!(self.tracker.wait(point, PATIENCE), Ok(()));
    }

    pub(crate) fn wait_idle(&self) {
        assert_eq!(self.tracker.wait_idle(PATIENCE), Ok(()));
    }

    /// Reads a buffer back, by a queue where the CPU does not reach it, and compares.
    pub(super) fn assert_holds(
        &self,
        buffer: &Buffer<F::Device>,
        expected: &[u8],
        what: impl core::fmt::Debug,
    ) {
        let mut found = vec![0; expected.len()];
        let mut transfer = Transfer::new(self.memory.allocator(), FIRST, 64 * KIB).unwrap();
        buffer.with_raw(|raw| transfer.download_from(raw, 0, &mut found)).unwrap();
        assert_same(&found, expected, what);
    }
}

impl<F: Fixture> Drop for Stage<'_, F> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        assert_eq!(self.deletion_queue.drain(PATIENCE).pending, 0, "no recording is open any more");
        self.memory.allocator().check_invariants();
        assert_eq!(
            self.memory.allocator().statistics().allocations,
            0,
            "everything was retired and has gone"
        );
    }
}
