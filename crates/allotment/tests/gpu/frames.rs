//! Frames from begin to end, and frames that do not come to their end.

use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::collections::BTreeSet;
use std::panic::catch_unwind;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::device::{
    BufferDesc, DeviceError, QueueDevice as _, Submission, TimelinePoint, TimelineValue,
};
use allotment::gpu::{FrameError, Gpu, GpuDesc, Maintenance, SubmitError};
use allotment::memory::blocks::{BlockGrowth, BlockSizes, Watermark};
use allotment::memory::defragmentation::{DefragmentationDesc, DefragmentationStrategy, StepOutcome};
use allotment::{Alignment, AllocatorDesc};

use crate::rig::{QUEUE, Rig, options};

/// The time in which another thread does what it has to, also on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

fn small_blocks() -> AllocatorDesc {
    let mut desc = AllocatorDesc::default();
    desc.block_sizes = BlockSizes::fixed(1 << 20);
    desc
}

#[test]
fn what_frames_upload_stays_until_their_submissions_have_completed() {
    let rig = Rig::new();
    rig.device.set_latency(Duration::from_millis(2));
    let mut tickets = Vec::new();
    for number in 0..30_u8 {
        // The two calls that a frame must make are the first and the last of these.
        let frame = rig.gpu.begin_frame().unwrap();
        assert_eq!((frame.number(), frame.slot()), (u64::from(number), usize::from(number) % 3));
        let upload = frame.upload([number; 300]).unwrap();
        assert_eq!((upload.offset % 256, upload.size), (0, 300));
        tickets.push(rig.read(&frame, (&upload.buffer, upload.offset), 300));
        frame.end().unwrap();
    }
    for (number, ticket) in (0..).zip(&tickets) {
        assert_eq!(rig.copied(ticket), [number; 300]);
    }
    assert!(rig.gpu.upload_pool().statistics().made <= 4, "three in flight, and one that is recorded");
    drop(tickets);
    rig.finish();
}

#[test]
fn an_upload_takes_the_bytes_and_the_alignment_that_it_asks_for() {
    let mut profile = Profile::named("discrete-large-bar").unwrap();
    profile.limits.buffer_offset_alignment = Alignment::new(16).unwrap();
    let device = SimulatedGpu::new(profile);
    let rig = Rig { gpu: Gpu::new(device.clone(), GpuDesc::default()).unwrap(), device };
    let frame = rig.gpu.begin_frame().unwrap();
    let distances = |uploads: &mut dyn FnMut() -> u64| {
        let offsets: Vec<_> = (0..100).map(|_| uploads()).collect();
        let distances: BTreeSet<_> = offsets.windows(2).map(|pair| pair[1] - pair[0]).collect();
        distances.into_iter().collect::<Vec<_>>()
    };
    let aligned = |alignment| Alignment::new(alignment).unwrap();
    assert_eq!(distances(&mut || frame.upload_aligned([1; 60], aligned(4)).unwrap().offset), [60]);
    assert_eq!(distances(&mut || frame.upload_aligned([1; 3], Alignment::ONE).unwrap().offset), [3]);
    assert_eq!(distances(&mut || frame.upload_aligned([1; 64], aligned(512)).unwrap().offset), [512]);
    // The device's, where the bytes may be constants.
    assert_eq!(distances(&mut || frame.upload([1; 64]).unwrap().offset), [64]);
    assert_eq!(distances(&mut || frame.upload([1; 65]).unwrap().offset), [80]);
    drop(frame);
    rig.finish();
}

#[test]
fn threads_that_upload_to_one_frame_at_once_get_ranges_of_their_own() {
    const EACH: u64 = 400;
    for profile in ["discrete-large-bar", "mobile"] {
        let rig = Rig::on(profile, GpuDesc::default());
        let results = rig.buffer(5 * EACH * 40);
        for round in 0..3_u8 {
            let frame = rig.gpu.begin_frame().unwrap();
            // One before the threads: the thread of the frame has an arena of its own.
            frame.upload([0; 1]).unwrap();
            let ranges = Mutex::new(Vec::new());
            let upload = &|thread: u8| {
                let commands = frame.command_allocator(QUEUE).unwrap();
                for i in 0..EACH {
                    let of = u64::from(thread) * EACH + i;
                    let upload =
                        frame.upload_aligned([(of % 251) as u8 ^ round; 40], Alignment::ONE).unwrap();
                    let from = (&upload.buffer, upload.offset);
                    commands.copy_buffer(from, (&results.handle(), of * 40), 40);
                    ranges.lock().unwrap().push((format!("{:?}", upload.buffer), upload.offset));
                }
                rig.submit(&frame, &commands).unwrap();
            };
            thread::scope(|scope| {
                (1..5).for_each(|thread| _ = scope.spawn(move || upload(thread)));
                upload(0);
            });
            frame.end().unwrap();
            let mut ranges = ranges.into_inner().unwrap();
            ranges.sort_unstable();
            assert!(ranges.windows(2).all(|it| it[0].0 != it[1].0 || it[0].1 + 40 <= it[1].1));
            let mut found = vec![0; 5 * EACH as usize * 40];
            rig.gpu.read_buffer(&results, 0, &mut found).unwrap();
            for (of, found) in found.chunks(40).enumerate() {
                assert_eq!(found, [(of % 251) as u8 ^ round; 40], "{profile} {round} {of}");
            }
        }
        let pages = rig.gpu.upload_pool().statistics();
        assert!(pages.made <= 3 * 5, "a page for each thread at most: {pages:?}");
        rig.gpu.upload_pool().check_invariants();
        drop(results);
        rig.finish();
    }
}

#[test]
fn a_frame_waits_while_as_many_as_allowed_are_in_flight() {
    let rig = Rig::with(GpuDesc::default().with_frames_in_flight(2).with_timeout(Duration::from_millis(20)));
    rig.device.pause_queues();
    for _ in 0..2 {
        let frame = rig.gpu.begin_frame().unwrap();
        rig.submit(&frame, &frame.command_allocator(QUEUE).unwrap()).unwrap();
        frame.end().unwrap();
    }
    let refused = rig.gpu.begin_frame().map(drop);
    let timeout = Duration::from_millis(20);
    assert!(
        matches!(refused, Err(FrameError::Wait(DeviceError::TimedOut { timeout: t, .. })) if t == timeout),
        "{refused:?}"
    );
    rig.device.resume_queues();
    // For longer than the timeout above, which is this wait's as well.
    let last = TimelinePoint { queue: QUEUE, value: rig.device.submitted(QUEUE) };
    rig.device.wait(last, Duration::from_secs(60)).unwrap();
    rig.gpu.wait_idle().unwrap();
    rig.gpu.begin_frame().unwrap().end().unwrap();
    rig.finish();
}

#[test]
fn a_frame_that_is_dropped_half_way_loses_nothing() {
    let rig = Rig::new();
    let buffer = rig.buffer(4096);
    rig.gpu.begin_frame().unwrap().end().unwrap();
    for _ in 0..10 {
        let frame = rig.gpu.begin_frame().unwrap();
        rig.gpu.uploads().write_buffer(&buffer, 0, &[3; 4096]).unwrap();
        frame.upload([1; 1000]).unwrap();
        let commands = frame.command_allocator(QUEUE).unwrap();
        commands.copy_buffer((&buffer.handle(), 0), (&buffer.handle(), 2048), 1024);
        drop(frame);
    }
    rig.gpu.reclaim();
    let pages = rig.gpu.upload_pool().statistics();
    assert_eq!((pages.made, pages.bytes), (1, pages.free_bytes), "each frame's page came back at once");
    let statistics = rig.gpu.uploads().statistics();
    assert!(
        statistics.open_bytes > 0 && statistics.submissions <= 10,
        "uploads stay pending: {statistics:?}"
    );
    let frame = rig.gpu.begin_frame().unwrap();
    let ticket = rig.read(&frame, (&buffer.handle(), 0), 4096);
    frame.end().unwrap();
    assert_eq!(rig.copied(&ticket), [3; 4096]);
    drop((buffer, ticket));
    rig.finish();
}

#[test]
fn what_a_dropped_frame_has_submitted_is_waited_for() {
    let rig = Rig::new();
    rig.device.pause_queues();
    let frame = rig.gpu.begin_frame().unwrap();
    let upload = frame.upload([5; 512]).unwrap();
    let ticket = rig.read(&frame, (&upload.buffer, upload.offset), 512);
    drop(frame);
    let frame = rig.gpu.begin_frame().unwrap();
    let next = frame.upload([6; 512]).unwrap();
    assert_eq!(rig.gpu.upload_pool().statistics().made, 2, "the first page is in use");
    rig.device.resume_queues();
    drop((frame, next));
    assert_eq!(rig.copied(&ticket), [5; 512]);
    drop(ticket);
    rig.finish();
}

#[test]
fn commands_are_reset_only_after_their_submission_has_completed() {
    let rig = Rig::new();
    rig.device.set_latency(Duration::from_millis(1));
    let (from, to) = (rig.buffer(64), rig.buffer(64));
    for _ in 0..50 {
        let frame = rig.gpu.begin_frame().unwrap();
        for _ in 0..3 {
            let commands = frame.command_allocator(QUEUE).unwrap();
            assert!(commands.is_empty());
            commands.copy_buffer((&from.handle(), 0), (&to.handle(), 0), 64);
            rig.submit(&frame, &commands).unwrap();
        }
        frame.end().unwrap();
    }
    assert!(matches!(
        rig.gpu.begin_frame().unwrap().command_allocator(allotment::device::QueueIndex(9)),
        Err(DeviceError::NoSuchQueue { queue: allotment::device::QueueIndex(9) })
    ));
    drop((from, to));
    // The device would have noted a reset of commands that a queue still executes.
    rig.finish();
}

#[test]
fn a_frame_submits_to_several_queues() {
    let rig = Rig::new();
    let other = rig.other_queue();
    rig.device.set_latency(Duration::from_millis(1));
    let middle = rig.buffer(1024);
    for number in 0..20_u8 {
        let frame = rig.gpu.begin_frame().unwrap();
        let upload = frame.upload([number; 1024]).unwrap();
        let first = frame.command_allocator(other).unwrap();
        first.copy_buffer((&upload.buffer, upload.offset), (&middle.handle(), 0), 1024);
        let there = rig.submit(&frame, &first).unwrap();
        let mut ring = rig.gpu.readback().unwrap();
        let ticket = ring.allocate(1024, Alignment::ONE).unwrap();
        let second = frame.command_allocator(QUEUE).unwrap();
        second.copy_buffer((&middle.handle(), 0), (ring.buffer(), ticket.offset()), 1024);
        let read = frame.submit_after(QUEUE, &[there], |queue, waits| {
            assert!(waits.contains(&there));
            // SAFETY: what it uses is alive until it has completed.
            unsafe { rig.device.submit_commands(queue, waits, &[&*second]) }
        });
        ring.close(read.unwrap());
        drop(ring);
        frame.end().unwrap();
        assert_eq!(rig.copied(&ticket), [number; 1024]);
    }
    drop(middle);
    rig.finish();
}

#[test]
fn what_a_frame_on_several_queues_uploads_stays_until_the_last_of_them_has_completed() {
    let rig = Rig::new();
    let other = rig.other_queue();
    let frame = rig.gpu.begin_frame().unwrap();
    let upload = frame.upload([1; 256]).unwrap();
    let first = rig.submit(&frame, &frame.command_allocator(QUEUE).unwrap()).unwrap();
    // The other queue waits for what a later frame submits to the first one.
    let later = TimelinePoint { queue: QUEUE, value: TimelineValue(first.value.0 + 1) };
    let mut ring = rig.gpu.readback().unwrap();
    let ticket = ring.allocate(256, Alignment::ONE).unwrap();
    let commands = frame.command_allocator(other).unwrap();
    commands.copy_buffer((&upload.buffer, upload.offset), (ring.buffer(), ticket.offset()), 256);
    let read = frame.submit_after(other, &[later], |queue, waits| {
        // SAFETY: what it uses is alive until it has completed.
        unsafe { rig.device.submit_commands(queue, waits, &[&*commands]) }
    });
    ring.close(read.unwrap());
    drop((ring, commands));
    frame.end().unwrap();

    rig.gpu.wait(first).unwrap();
    let frame = rig.gpu.begin_frame().unwrap();
    frame.upload([2; 256]).unwrap();
    assert_eq!(rig.gpu.upload_pool().statistics().made, 2, "the page of the first frame is in use");
    assert_eq!(rig.submit(&frame, &frame.command_allocator(QUEUE).unwrap()), Ok(later));
    frame.end().unwrap();
    assert_eq!(rig.copied(&ticket), [1; 256]);
    drop(ticket);
    rig.finish();
}

#[test]
fn a_recording_outlives_its_frame() {
    let rig = Rig::new();
    let (from, to) = (rig.buffer(256), rig.buffer(256));
    rig.gpu.uploads().write_buffer(&from, 0, &[8; 256]).unwrap();
    let frame = rig.gpu.begin_frame().unwrap();
    let late = rig.gpu.record("late");
    let (from_handle, to_handle) = (from.handle().clone(), to.handle().clone());
    frame.end().unwrap();
    drop(from); // the recording may use it
    for _ in 0..10 {
        let frame = rig.gpu.begin_frame().unwrap();
        frame.upload([1; 64]).unwrap();
        rig.submit(&frame, &frame.command_allocator(QUEUE).unwrap()).unwrap();
        frame.end().unwrap();
    }
    assert!(rig.gpu.upload_pool().statistics().made <= 4, "the late recording holds back no page");
    let copies = [allotment::device::BufferCopy {
        from: &from_handle,
        from_offset: 0,
        to: &to_handle,
        to_offset: 0,
        size: 256,
    }];
    let submitted = rig.gpu.submit(late, QUEUE, |queue, waits| {
        let work = Submission { waits, copies: &copies, ..Submission::default() };
        // SAFETY: `from` was dropped while the recording was open, and `to` is alive.
        unsafe { allotment::device::QueueDevice::submit(&rig.device, queue, &work) }
    });
    rig.gpu.wait(submitted.unwrap()).unwrap();
    let mut found = [0; 256];
    rig.gpu.read_buffer(&to, 0, &mut found).unwrap();
    assert_eq!(found, [8; 256]);
    drop(to);
    rig.finish();
}

#[test]
fn a_submission_that_fails_can_be_repeated() {
    let rig = Rig::new();
    let buffer = rig.buffer(128);
    rig.gpu.uploads().write_buffer(&buffer, 0, &[4; 128]).unwrap();
    let frame = rig.gpu.begin_frame().unwrap();
    let refused = frame.submit(QUEUE, |_, _| Err::<_, &str>("no"));
    assert_eq!(refused, Err(SubmitError::Commands("no")));
    assert_eq!(refused.unwrap_err().to_string(), "the commands were not submitted: no");
    rig.gpu.uploads().write_buffer(&buffer, 64, &[5; 64]).unwrap();
    rig.device.fail_from(1, DeviceError::OutOfHostMemory);
    assert!(matches!(frame.command_allocator(QUEUE), Err(DeviceError::OutOfHostMemory)));
    let refused = frame.submit(QUEUE, |_, _| -> Result<_, DeviceError> { panic!("uploads come first") });
    assert!(matches!(refused, Err(SubmitError::Uploads(_))), "{refused:?}");
    rig.device.clear_faults();
    let ticket = rig.read(&frame, (&buffer.handle(), 0), 128);
    frame.end().unwrap();
    let found = rig.copied(&ticket);
    assert_eq!((found[0], found[64]), (4, 5));
    drop((buffer, ticket));
    rig.finish();
}

#[test]
fn a_closure_that_panics_after_it_submitted_leaves_its_commands_alone() {
    let rig = Rig::new();
    rig.device.pause_queues();
    let (from, to) = (rig.buffer(64), rig.buffer(64));
    let frame = rig.gpu.begin_frame().unwrap();
    let commands = frame.command_allocator(QUEUE).unwrap();
    commands.copy_buffer((&from.handle(), 0), (&to.handle(), 0), 64);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        frame.submit(QUEUE, |queue, waits| -> Result<_, DeviceError> {
            // SAFETY: what it uses is alive until it has completed.
            unsafe { rig.device.submit_commands(queue, waits, &[&*commands]) }.unwrap();
            panic!("after the submission");
        })
    }));
    assert!(panicked.is_err());
    drop((commands, frame, from, to));
    let frame = rig.gpu.begin_frame().unwrap();
    drop(frame.command_allocator(QUEUE).unwrap());
    frame.end().unwrap();
    rig.device.resume_queues();
    rig.finish();
}

#[test]
fn a_frame_that_is_leaked_keeps_the_next_frames_working() {
    let rig = Rig::new();
    core::mem::forget(rig.gpu.begin_frame().unwrap());
    for _ in 0..10 {
        let frame = rig.gpu.begin_frame().unwrap();
        let upload = frame.upload([1; 64]).unwrap();
        let ticket = rig.read(&frame, (&upload.buffer, upload.offset), 64);
        frame.end().unwrap();
        assert_eq!(rig.copied(&ticket), [1; 64]);
    }
    let longest = rig.gpu.tracker().statistics().longest_open.unwrap();
    assert_eq!(longest.label, "frame");
    assert_eq!(rig.device.validation_errors(), Vec::<String>::new());
}

#[test]
fn a_lost_device_is_an_error_and_nothing_hangs() {
    let rig = Rig::new();
    let buffer = rig.buffer(64);
    for _ in 0..3 {
        let frame = rig.gpu.begin_frame().unwrap();
        rig.submit(&frame, &frame.command_allocator(QUEUE).unwrap()).unwrap();
        frame.end().unwrap();
    }
    let frame = rig.gpu.begin_frame().unwrap();
    rig.gpu.uploads().write_buffer(&buffer, 0, &[1; 64]).unwrap();
    rig.device.lose_device();
    assert!(matches!(
        frame.submit(QUEUE, |_, _| Err::<_, DeviceError>(DeviceError::Lost)),
        Err(SubmitError::Uploads(_))
    ));
    frame.end().unwrap();
    assert!(rig.gpu.wait_idle().is_err());
    drop(buffer);
    drop(rig);
}

#[test]
fn the_end_of_a_frame_defragments_within_its_limits() {
    let strategy = DefragmentationDesc::new(DefragmentationStrategy::Full);
    let desc = GpuDesc::default().with_allocator(small_blocks()).with_defragmentation(strategy);
    let rig = Rig::with(desc);
    let mut meshes = Vec::new();
    for number in 0..16_u8 {
        let mesh = rig.gpu.create_buffer(&BufferDesc::new(256 << 10), &options().relocatable()).unwrap();
        rig.gpu.uploads().write_buffer(&mesh, 0, &[number; 1024]).unwrap();
        meshes.push((number, mesh));
    }
    let blocks = rig.gpu.allocator().statistics().blocks;
    meshes.retain(|(number, _)| number % 4 == 0);
    let mut moves = 0;
    for _ in 0..200 {
        let frame = rig.gpu.begin_frame().unwrap();
        for (number, mesh) in &meshes {
            let handle = mesh.handle();
            let ticket = rig.read(&frame, (&handle, 0), 1024);
            assert_eq!(rig.copied(&ticket), [*number; 1024]);
        }
        moves += frame.end().unwrap().defragmentation.unwrap().statistics.moves;
    }
    assert_eq!(moves, 3);
    assert!(rig.gpu.allocator().statistics().blocks < blocks);
    // Half of the rest goes, so that there is something to gain again.
    meshes.truncate(meshes.len() / 2);
    rig.gpu.wait_idle().unwrap();
    let late = rig.gpu.record("late");
    let report = rig.gpu.begin_frame().unwrap().end().unwrap();
    let step = report.defragmentation.unwrap();
    assert_eq!((step.outcome, step.statistics.moves), (StepOutcome::RecordingIsOpen, 0));
    drop((late, meshes));
    rig.finish();
}

#[test]
fn blocks_are_allocated_ahead_at_the_end_of_a_frame_or_by_a_thread() {
    let growing_ahead = |maintenance| {
        let mut allocator = small_blocks();
        allocator.block_growth = BlockGrowth::Ahead(Watermark::default());
        Rig::with(GpuDesc::default().with_allocator(allocator).with_maintenance(maintenance))
    };
    let blocks = |rig: &Rig| rig.gpu.allocator().statistics().blocks;

    let rig = growing_ahead(Maintenance::EndOfFrame);
    let buffer = rig.buffer(1 << 19);
    assert_eq!(blocks(&rig), 1, "the block of the buffer: no thread allocates others");
    rig.gpu.begin_frame().unwrap().end().unwrap();
    assert!(blocks(&rig) > 1);
    drop(buffer);
    rig.finish();

    let rig = growing_ahead(Maintenance::Thread);
    let buffer = rig.buffer(1 << 19);
    // As soon as the buffer exists the thread may have allocated them, or only much later.
    let began = Instant::now();
    while blocks(&rig) <= 1 {
        assert!(began.elapsed() < PATIENCE, "{:?}", rig.gpu.allocator().statistics());
        thread::yield_now();
    }
    drop(buffer);
    rig.finish();
}

#[test]
fn frames_may_overlap() {
    let rig = Rig::new();
    let mut open: Vec<allotment::gpu::Frame<SimulatedGpu>> = Vec::new();
    let mut tickets = Vec::new();
    for number in 0..12_u8 {
        let frame = rig.gpu.begin_frame().unwrap();
        let upload = frame.upload([number; 64]).unwrap();
        tickets.push(rig.read(&frame, (&upload.buffer, upload.offset), 64));
        open.push(frame);
        if open.len() == 2 {
            open.remove(0).end().unwrap();
        }
    }
    drop(open);
    for (number, ticket) in (0..).zip(&tickets) {
        assert_eq!(rig.copied(ticket), [number; 64]);
    }
    drop(tickets);
    rig.finish();
}
