//! The uploader on a failing device.

use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;

use super::*;
use crate::device::{DeviceError, QueueDevice as _};
use crate::lifetime::DeletionQueue;
use crate::memory::{Buffer, OwningAllocator};
use crate::upload::lane::{FrameLimits, Lane, LaneState, Piece};

fn memory(rig: &Rig) -> OwningAllocator<SimulatedGpu> {
    OwningAllocator::new(&rig.allocator, &DeletionQueue::new(&rig.tracker)).unwrap()
}

fn target(memory: &OwningAllocator<SimulatedGpu>, size: u64) -> Buffer<SimulatedGpu> {
    let desc = AllocationOptions::new(MemoryUsage::GpuOnly);
    memory.create_buffer(&BufferDesc::new(size), &desc).unwrap()
}

fn read(buffer: &Buffer<SimulatedGpu>) -> Vec<u8> {
    let mut bytes = vec![0; buffer.size() as usize];
    buffer.read(0, &mut bytes).unwrap();
    bytes
}

/// Stages bytes for a pinned buffer.
fn stage(
    lane: &Lane<SimulatedGpu>,
    memory: &OwningAllocator<SimulatedGpu>,
    to: (&Buffer<SimulatedGpu>, u64),
    bytes: &[u8],
) -> Result<(), UploadError> {
    let ((to, to_offset), size) = (to, bytes.len() as u64);
    let piece = Piece::of_buffer(to.id(), to_offset, size);
    let record = |batch: &mut LaneState<_>, from_offset| {
        batch.add_copy(&piece, from_offset, &to.handle(), None);
        Ok(())
    };
    lane.stage(memory, &piece, None, |staging, at| Ok(staging.write(at, bytes)?), record)
}

#[test]
fn a_batch_whose_submission_panics_is_gone_and_its_bytes_stay_until_the_queue_is_done() {
    for given in [false, true] {
        let rig = Rig::new("integrated");
        let memory = memory(&rig);
        let (first, second) = (target(&memory, 400), target(&memory, 400));
        let lane = Lane::new(QUEUE, None, 1000, WhenFull::Refuse, FrameLimits::NONE);
        let id = |buffer: &Buffer<_>| buffer.id();
        stage(&lane, &memory, (&first, 0), &pattern(1, 400)).unwrap();
        rig.device.pause_queues();
        let panics = || {
            lane.flush_with(&memory, |device, queue, work| {
                if given {
                    // SAFETY: all resources live until the end of the test.
                    unsafe { device.submit(queue, work) }.unwrap();
                }
                panic!("of the test");
            })
        };
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        assert_eq!(lane.statistics(&rig.tracker).1, 0);
        assert_eq!(lane.writes_to(&rig.tracker, id(&first)), given, "as far as the tracker knows");
        // It is not submitted again, and its memory is not reused while the queue reads it.
        lane.flush(&memory).unwrap();
        assert_eq!(rig.device.submitted(QUEUE), TimelineValue(u64::from(given)));
        lane.discard();
        let large = pattern(2, 400);
        stage(&lane, &memory, (&second, 0), &large).unwrap();
        lane.flush(&memory).unwrap();
        let full = stage(&lane, &memory, (&second, 0), &large);
        assert_eq!(full.is_err(), given, "the bytes of both are in use: {full:?}");
        rig.device.resume_queues();
        lane.flush(&memory).unwrap();
        rig.wait_idle();
        assert_eq!(read(&second), large);
        if given {
            assert_eq!(read(&first), pattern(1, 400));
        }
        drop((lane, first, second));
        assert_eq!(memory.deletion_queue().drain(LONG).pending, 0);
    }
}

#[test]
fn an_uploader_whose_device_is_lost_lets_go_of_everything_and_says_so_ever_after() {
    let rig = Rig::new("discrete-no-bar");
    let memory = memory(&rig);
    let uploader = Uploader::new(&memory, UploaderDesc::default()).unwrap();
    let buffer = target(&memory, 1000);
    uploader.update(&buffer, 0, &pattern(1, 1000)).unwrap();
    rig.device.lose_device();
    let lost = UploadError::from(DeviceError::Lost);
    assert_eq!(uploader.submit(), Err(lost));
    assert_eq!(uploader.statistics().open_bytes, 0);
    assert_eq!(rig.tracker.statistics().open, 0, "no recording holds anything back");
    assert_eq!(uploader.update(&buffer, 0, &[1]), Err(lost));
    assert_eq!(uploader.initialize(&buffer, 0, &[1]), Err(lost));
    assert_eq!(uploader.wait_for(point(0)), Err(lost));
    assert_eq!(uploader.submit(), Err(lost));
    drop((uploader, buffer));
    assert_eq!(memory.deletion_queue().drain(LONG).pending, 0);
}

#[test]
fn what_a_queue_refuses_stays_and_can_be_submitted_again() {
    let rig = Rig::new("discrete-no-bar");
    let memory = memory(&rig);
    let uploader = Uploader::new(&memory, UploaderDesc::default()).unwrap();
    let buffer = target(&memory, 1000);
    uploader.update(&buffer, 0, &pattern(1, 1000)).unwrap();
    rig.device.fail_from(1, DeviceError::OutOfHostMemory);
    assert_eq!(uploader.submit(), Err(UploadError::from(DeviceError::OutOfHostMemory)));
    assert_eq!(uploader.statistics().open_bytes, 1000);
    rig.device.clear_faults();
    rig.device.pause_queues();
    let there = uploader.submit().unwrap();
    let statistics = uploader.statistics();
    assert_eq!(
        (statistics.open_bytes, statistics.batches_in_flight, statistics.bytes_in_flight),
        (0, 1, 1000)
    );
    rig.device.resume_queues();
    assert_eq!(rig.tracker.wait_all(&there, LONG), Ok(()));
    assert_eq!(uploader.statistics().batches_in_flight, 0);
    drop((uploader, buffer));
    assert_eq!(memory.deletion_queue().drain(LONG).pending, 0);
}

#[test]
fn a_batch_waits_for_the_latest_point_of_each_queue_that_it_was_given() {
    let rig = Rig::new("discrete-large-bar");
    let memory = memory(&rig);
    let target = target(&memory, 100);
    let lane = Lane::new(QUEUE, None, 1000, WhenFull::Refuse, FrameLimits::NONE);
    let point = |queue, value| TimelinePoint { queue: QueueIndex(queue), value: TimelineValue(value) };
    for (queue, value) in [(1, 5), (2, 7), (1, 3), (2, 9), (1, 4)] {
        lane.wait_for(point(queue, value));
    }
    stage(&lane, &memory, (&target, 0), &pattern(1, 100)).unwrap();
    let mut waits: Vec<TimelinePoint> = Vec::new();
    let refused = lane.flush_with(&memory, |_, _, work| {
        waits.extend(work.waits);
        Err(DeviceError::OutOfHostMemory)
    });
    assert!(refused.is_err());
    assert_eq!(waits, [point(1, 5), point(2, 9)]);
    // The batch was refused, and waits for the same when it is submitted again. The next one does not.
    for (offset, expected) in [(0, &waits[..]), (50, &[])] {
        if offset > 0 {
            stage(&lane, &memory, (&target, offset), &pattern(1, 50)).unwrap();
        }
        let mut found: Vec<TimelinePoint> = Vec::new();
        let submitted = lane.flush_with(&memory, |device, queue, work| {
            found.extend(work.waits);
            let work = Submission { waits: &[], copies: work.copies, ..Submission::default() };
            // SAFETY: all resources live until the end of the test.
            unsafe { device.submit(queue, &work) }
        });
        submitted.unwrap();
        assert_eq!(found, expected);
    }
    rig.wait_idle();
}
