//! Uploads on the simulated GPU, whose queues really copy bytes, some time after the submission.

mod arenas;
mod extremes;
mod readback;
mod rings;
mod uploader;

use core::time::Duration;
use std::sync::Arc;

use super::*;
use crate::device::simulated::{Profile, SimulatedBuffer, SimulatedGpu};
use crate::device::{
    BufferCopy, BufferDesc, QueueDevice as _, QueueIndex, Submission, TimelinePoint, TimelineValue,
};
use crate::lifetime::{Recording, SubmissionTracker};
use crate::memory::reports::LeakHandler;
use crate::memory::{Allocator, AllocatorDesc, MappedBuffer};
use crate::{Alignment, AllocationOptions, MemoryUsage};

const QUEUE: QueueIndex = QueueIndex(0);
const ONE: Alignment = Alignment::ONE;
const LONG: Duration = Duration::from_secs(20);

fn align(value: u64) -> Alignment {
    Alignment::new(value).unwrap()
}

fn point(value: u64) -> TimelinePoint {
    TimelinePoint { queue: QUEUE, value: TimelineValue(value) }
}

/// A device with an allocator and a tracker. When dropped, checks that all memory is free and that the device has
/// no validation errors.
struct Rig {
    device: SimulatedGpu,
    allocator: Arc<Allocator<SimulatedGpu>>,
    tracker: SubmissionTracker,
}

impl Rig {
    fn new(profile: &str) -> Self {
        let device = SimulatedGpu::new(Profile::named(profile).unwrap());
        let desc = AllocatorDesc { on_leak: LeakHandler::Ignore, ..AllocatorDesc::default() };
        let allocator = Arc::new(Allocator::new(device.clone(), desc).unwrap());
        let tracker = SubmissionTracker::new(device.clone()).unwrap();
        Self { device, allocator, tracker }
    }

    /// Creates a buffer that queues write and the CPU reads, or the reverse.
    fn buffer(&self, size: u64, memory_usage: MemoryUsage) -> MappedBuffer<SimulatedGpu> {
        let desc = AllocationOptions::new(memory_usage);
        MappedBuffer::new(&self.allocator, &BufferDesc::new(size), &desc).unwrap()
    }

    /// Copies one range. The buffers must live until the point is reached.
    fn copy(
        &self,
        recording: Recording,
        from: (&SimulatedBuffer, u64),
        to: (&SimulatedBuffer, u64),
        size: u64,
    ) -> TimelinePoint {
        let copy = BufferCopy { from: from.0, from_offset: from.1, to: to.0, to_offset: to.1, size };
        let work = Submission { copies: &[copy], ..Submission::default() };
        // SAFETY: the ranges lie within the buffers, whose lifetime is what the tests check.
        recording.submit(QUEUE, |queue| unsafe { self.device.submit(queue, &work) }).unwrap()
    }

    /// Submits empty work.
    fn submit(&self, recording: Recording) -> TimelinePoint {
        // SAFETY: the submission is empty.
        recording.submit(QUEUE, |queue| unsafe { self.device.submit(queue, &Submission::default()) }).unwrap()
    }

    fn wait(&self, point: TimelinePoint) {
        assert_eq!(self.tracker.wait(point, LONG), Ok(()));
    }

    fn wait_idle(&self) {
        assert_eq!(self.tracker.wait_idle(LONG), Ok(()));
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.allocator.check_invariants();
        assert_eq!(self.allocator.statistics().allocations, 0, "{:?}", self.allocator.reports().leaks());
        assert_eq!(self.device.usage().buffers, 0);
        assert_eq!(self.device.validation_errors(), Vec::<String>::new());
    }
}

/// Returns bytes that identify their seed and offset.
fn pattern(seed: u64, size: u64) -> Vec<u8> {
    (0..size).map(|i| (i * 7 + seed * 31 + 1) as u8).collect()
}

fn bytes(buffer: &MappedBuffer<SimulatedGpu>, offset: u64, size: u64) -> Vec<u8> {
    let mut bytes = vec![0; size as usize];
    buffer.read(offset, &mut bytes).unwrap();
    bytes
}
