//! Buffers that a frame reads back.

use core::time::Duration;

use allotment::MemoryUsage;
use allotment::device::simulated::SimulatedGpu;
use allotment::device::{
    BufferDesc, DeviceError, QueueDevice as _, QueueIndex, TimelinePoint, TimelineValue,
};
use allotment::gpu::{GpuDesc, ReadError, SubmitError};
use allotment::lifetime::{DeletionQueue, SubmissionTracker};
use allotment::memory::defragmentation::{DefragmentationDesc, DefragmentationStrategy};
use allotment::memory::names::ShortName;
use allotment::memory::{AccessError, OwningAllocator};
use allotment::upload::{RingDesc, RingError};

use crate::rig::{QUEUE, Rig, options};

#[test]
fn a_frame_reads_back_what_was_uploaded_before() {
    for profile in [
        "discrete-no-bar",
        "discrete-large-bar",
        "integrated",
        "mobile",
        "mobile-atom-1",
        "mobile-atom-4096",
        "d3d12-tier-1",
    ] {
        let rig = Rig::on(profile, GpuDesc::default());
        let buffer = rig.buffer(1000);
        let bytes: Vec<u8> = (0..1000_u32).map(|i| i as u8).collect();
        rig.gpu.uploads().write_buffer(&buffer, 0, &bytes).unwrap();
        let frame = rig.gpu.begin_frame().unwrap();
        let tickets = [(0, 1000), (100, 20), (999, 1)].map(|(offset, size)| {
            (
                frame.read_back(QUEUE, &buffer, offset, size).unwrap(),
                offset as usize..(offset + size) as usize,
            )
        });
        drop(buffer); // the GPU has not copied it yet, perhaps
        frame.end().unwrap();
        for (ticket, range) in tickets {
            assert_eq!(rig.bytes(&ticket), bytes[range], "{profile}");
        }
        rig.finish();
    }
}

#[test]
fn what_is_read_back_is_what_any_queue_wrote_before() {
    let rig = Rig::new();
    let (from, to) = (rig.buffer(1024), rig.buffer(1024));
    rig.gpu.uploads().write_buffer(&from, 0, &[9; 1024]).unwrap();
    rig.gpu.uploads().submit().unwrap();
    let frame = rig.gpu.begin_frame().unwrap();
    // The copy waits for a third queue, which gets its work last.
    let (other, third) = (rig.other_queue(), QueueIndex(2));
    let gate = TimelinePoint { queue: third, value: TimelineValue(rig.device.submitted(third).0 + 1) };
    let commands = frame.command_allocator(other).unwrap();
    commands.copy_buffer((&from.handle(), 0), (&to.handle(), 0), 1024);
    let copied = frame.submit_after(other, &[gate], |queue, waits| {
        // SAFETY: what it uses is alive until it has completed.
        unsafe { rig.device.submit_commands(queue, waits, &[&*commands]) }
    });
    copied.unwrap();
    drop(commands);
    let ticket = frame.read_back(QUEUE, &to, 0, 1024).unwrap();
    let read = rig.gpu.readback().unwrap().point(&ticket).unwrap().unwrap();
    // Time in which the queue could read it too early.
    let waited = rig.device.wait(read, Duration::from_millis(20));
    assert!(waited.is_err_and(DeviceError::is_timeout), "the other queue has not written it");
    assert_eq!(rig.submit(&frame, &frame.command_allocator(third).unwrap()), Ok(gate));
    frame.end().unwrap();
    assert_eq!(rig.bytes(&ticket), [9; 1024]);
    drop((from, to, ticket));
    rig.finish();
}

#[test]
fn a_buffer_that_is_moved_in_every_frame_is_read_back_from_where_it_is() {
    let full = DefragmentationDesc::new(DefragmentationStrategy::Full);
    let rig = Rig::with(GpuDesc::default().with_defragmentation(full));
    let options = MemoryUsage::GpuOnly.with_name("moves").relocatable();
    let create = |value| {
        let buffer = rig.gpu.create_buffer(&BufferDesc::new(64 << 10), &options).unwrap();
        rig.gpu.uploads().write_buffer(&buffer, 0, &[value; 64 << 10]).unwrap();
        buffer
    };
    let mut buffers: Vec<_> = (0..200).map(create).collect();
    let mut at = 0;
    buffers.retain(|_| {
        at += 1;
        at % 3 == 0
    });
    let mut tickets = Vec::new();
    for _ in 0..20 {
        let frame = rig.gpu.begin_frame().unwrap();
        let buffer = &buffers[tickets.len()];
        tickets.push(frame.read_back(QUEUE, buffer, 100, 10).unwrap());
        frame.end().unwrap();
    }
    assert!(buffers.iter().any(|buffer| buffer.moves() > 0), "nothing was moved");
    for (number, ticket) in tickets.iter().enumerate() {
        assert_eq!(rig.bytes(ticket), [3 * number as u8 + 2; 10]);
    }
    drop((buffers, tickets));
    rig.finish();
}

#[test]
fn what_cannot_be_read_back_is_refused() {
    let rig = Rig::on("d3d12-tier-1", GpuDesc::default().with_readback(RingDesc::readback(4096)));
    let (small, large) = (rig.buffer(1000), rig.buffer(8192));
    let other = Rig::new();
    let foreign = other.buffer(64);
    let options = MemoryUsage::Readback.with_name("the CPU reads it");
    let direct = rig.gpu.create_buffer(&BufferDesc::new(64), &options).unwrap();
    let frame = rig.gpu.begin_frame().unwrap();
    let refused = |buffer, offset, size| frame.read_back(QUEUE, buffer, offset, size).unwrap_err();

    for (offset, size) in [(0, 1001), (1000, 1), (u64::MAX, 2), (2, u64::MAX)] {
        let expected = ReadError::Access(AccessError::OutOfRange {
            offset,
            size,
            available: 1000,
            name: ShortName::new("test"),
        });
        assert_eq!(refused(&small, offset, size), expected);
    }
    assert_eq!(refused(&small, 0, 0), ReadError::Full(RingError::ZeroSize));
    let too_large = RingError::NeverFits { requested: 8192, capacity: 4096 };
    assert_eq!(refused(&large, 0, 8192), ReadError::Full(too_large));
    assert_eq!(
        refused(&foreign, 0, 64),
        ReadError::Access(AccessError::WrongAllocator { name: ShortName::new("test") })
    );
    assert!(matches!(refused(&direct, 0, 64), ReadError::WriteOnly { .. }));
    assert!(refused(&direct, 0, 64).to_string().contains("read the buffer with the CPU"));
    assert!(matches!(
        frame.read_back(QueueIndex(9), &small, 0, 64),
        Err(ReadError::Submit(SubmitError::Commands(DeviceError::NoSuchQueue { queue: QueueIndex(9) })))
    ));

    // None of that has taken room: the ring is free as a whole.
    let ticket = frame.read_back(QUEUE, &large, 0, 4000).unwrap();
    frame.end().unwrap();
    assert_eq!(rig.bytes(&ticket).len(), 4000);
    drop((small, large, direct, foreign, ticket));
    rig.finish();
    other.finish();
}

#[test]
fn a_buffer_that_is_no_copy_source_is_refused_and_no_queue_is_asked() {
    let rig = Rig::new();
    let desc = BufferDesc::new(64).with_usage(SimulatedGpu::NO_TRANSFER_SRC);
    let buffer = rig.gpu.create_buffer(&desc, &options()).unwrap();
    let frame = rig.gpu.begin_frame().unwrap();
    let refused = frame.read_back(QUEUE, &buffer, 0, 64).unwrap_err();
    assert!(matches!(refused, ReadError::Access(_)), "{refused:?}");
    frame.end().unwrap();
    drop(buffer);
    // The device would have noted the copy.
    rig.finish();
}

#[test]
fn a_buffer_that_another_tracker_destroys_is_not_read_back() {
    let rig = Rig::new();
    let tracker = SubmissionTracker::new(rig.device.clone()).unwrap();
    let memory = OwningAllocator::new(rig.gpu.allocator(), &DeletionQueue::new(&tracker)).unwrap();
    let buffer = memory.create_buffer(&BufferDesc::new(64), &options()).unwrap();
    let frame = rig.gpu.begin_frame().unwrap();
    // Its own tracker knows nothing of the frame, and would destroy the buffer under it.
    let refused = frame.read_back(QUEUE, &buffer, 0, 64).unwrap_err();
    assert!(matches!(refused, ReadError::WrongTracker { .. }), "{refused:?}");
    frame.end().unwrap();
    drop((buffer, memory, tracker));
    rig.finish();
}
