//! Threads that share the uploads of a `Gpu` and little staging memory: who waits, and for whom.

use core::sync::atomic::{AtomicU32, Ordering::SeqCst};
use core::time::Duration;
use std::thread;

use allotment::device::simulated::SimulatedGpu;
use allotment::device::{DeviceError, QueueDevice as _, Submission};
use allotment::gpu::GpuDesc;
use allotment::upload::{Interruption, UploadError, Uploader, UploaderDesc, WhenFull};

use crate::rig::{QUEUE, Rig};

const KIB: u64 = 1 << 10;

/// No queue is paused for as long here.
const PATIENCE: Duration = Duration::from_secs(60);

fn rig(staging: u64) -> Rig {
    let mut uploader = UploaderDesc::default();
    (uploader.staging, uploader.when_full) = (staging, WhenFull::Wait(PATIENCE));
    uploader.queue = Some(QUEUE);
    Rig::with(GpuDesc::default().with_uploader(uploader))
}

/// Waits until so many threads wait for staging memory.
fn until_waiting(rig: &Rig, count: u64) {
    while rig.gpu.uploads().statistics().waiting < count {
        thread::yield_now();
    }
}

fn assert_bytes(rig: &Rig, buffer: &allotment::memory::Buffer<SimulatedGpu>, expected: &[u8]) {
    let mut found = vec![0; expected.len()];
    rig.gpu.read_buffer(buffer, 0, &mut found).unwrap();
    assert!(found == expected, "other bytes");
}

fn bytes(seed: u64, size: u64) -> Vec<u8> {
    (0..size).map(|i| (i * 7 + (i >> 8) * 3 + seed * 31) as u8).collect()
}

#[test]
fn an_uploader_is_shared_between_threads() {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<Uploader<SimulatedGpu>>();
}

#[test]
fn a_frame_submits_while_another_thread_waits_for_staging_memory() {
    let rig = rig(64 * KIB);
    let world = rig.buffer(1024 * KIB);
    let expected = bytes(1, 1024 * KIB);
    rig.device.pause_queues();
    let uploaded = AtomicU32::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            rig.gpu.uploads().write_buffer(&world, 0, &expected).unwrap();
            uploaded.fetch_add(1, SeqCst);
        });
        until_waiting(&rig, 1);
        // Neither the submission nor the end waits for that thread, which waits for the queue.
        for _ in 0..2 {
            let frame = rig.gpu.begin_frame().unwrap();
            let submit = |queue, waits: &[_]| {
                // SAFETY: there is nothing in it.
                unsafe { rig.device.submit(queue, &Submission { waits, ..Submission::default() }) }
            };
            frame.submit(QUEUE, submit).unwrap();
            frame.end().unwrap();
        }
        assert_eq!((uploaded.load(SeqCst), rig.gpu.uploads().statistics().waiting), (0, 1));
        rig.device.resume_queues();
    });
    rig.gpu.wait(rig.gpu.uploads().submit().unwrap()).unwrap();
    assert_bytes(&rig, &world, &expected);
    drop(world);
    rig.finish();
}

#[test]
fn a_small_upload_is_in_the_next_submission_while_large_ones_wait_for_staging_memory() {
    let rig = rig(64 * KIB);
    let worlds: Vec<_> = (0..3).map(|_| rig.buffer(512 * KIB)).collect();
    let lights = rig.buffer(64 * KIB);
    rig.device.pause_queues();
    thread::scope(|scope| {
        for (seed, world) in (0..).zip(&worlds) {
            let rig = &rig;
            scope.spawn(move || rig.gpu.uploads().write_buffer(world, 0, &bytes(seed, 512 * KIB)).unwrap());
        }
        until_waiting(&rig, 3);
        let mut others = 0;
        for i in 0..4 {
            let before = rig.device.submitted(QUEUE).0;
            rig.gpu.uploads().write_buffer(&lights, i * KIB, &bytes(i, KIB)).unwrap();
            let there = rig.gpu.uploads().submit().unwrap();
            others += there.points().map(|point| point.value.0 - before - 1).sum::<u64>();
        }
        // Where the queue was seen to be fast, a second batch of large ones is submitted ahead; no third one is while it is paused.
        assert!(others <= 1, "{others} submissions came between");
        assert_eq!(rig.gpu.uploads().statistics().waiting, 3);
        rig.device.resume_queues();
    });
    rig.gpu.wait(rig.gpu.uploads().submit().unwrap()).unwrap();
    for (seed, world) in (0..).zip(&worlds) {
        assert_bytes(&rig, world, &bytes(seed, 512 * KIB));
    }
    let expected: Vec<u8> = (0..4).flat_map(|i| bytes(i, KIB)).collect();
    assert_bytes(&rig, &lights, &expected);
    drop((worlds, lights));
    rig.finish();
}

#[test]
fn one_batch_of_large_uploads_at_a_time_is_before_a_small_one_on_the_queue() {
    let rig = rig(64 * KIB);
    let (world, lights) = (rig.buffer(512 * KIB), rig.buffer(KIB));
    rig.device.pause_queues();
    let before = rig.device.submitted(QUEUE).0;
    thread::scope(|scope| {
        scope.spawn(|| rig.gpu.uploads().write_buffer(&world, 0, &bytes(1, 512 * KIB)).unwrap());
        until_waiting(&rig, 1);
        rig.gpu.uploads().write_buffer(&lights, 0, &[7; 1024]).unwrap();
        let there = rig.gpu.uploads().submit().unwrap();
        assert!(there.points().all(|point| point.value.0 <= before + 2), "{there:?} after {before}");
        rig.device.resume_queues();
    });
    drop((world, lights));
    rig.finish();
}

#[test]
fn on_a_fast_queue_a_second_batch_of_large_uploads_is_submitted_ahead_and_no_third() {
    let rig = rig(64 * KIB);
    let world = rig.buffer(512 * KIB);
    // How fast the queue is seen to be depends on when threads have a processor.
    for round in 0.. {
        rig.gpu.uploads().write_buffer(&world, 0, &bytes(1, 512 * KIB)).unwrap();
        rig.device.pause_queues();
        let ahead = thread::scope(|scope| {
            let writer =
                scope.spawn(|| rig.gpu.uploads().write_buffer(&world, 0, &bytes(2, 512 * KIB)).unwrap());
            until_waiting(&rig, 1);
            let ahead = rig.gpu.uploads().statistics().batches_in_flight;
            rig.device.resume_queues();
            writer.join().unwrap();
            ahead
        });
        assert!(ahead <= 2, "{ahead}");
        if ahead == 2 {
            break;
        }
        assert!(round < 1000, "never ahead");
    }
    assert_bytes(&rig, &world, &bytes(2, 512 * KIB));
    drop(world);
    rig.finish();
}

#[test]
fn threads_that_upload_more_than_staging_memory_at_once_all_arrive_within_it() {
    const THREADS: u64 = 8;
    for staging in [4 * KIB, 20_000, 64 * KIB] {
        let rig = rig(staging);
        let worlds: Vec<_> = (0..THREADS).map(|_| rig.buffer(100_000)).collect();
        thread::scope(|scope| {
            let upload = |(seed, world)| {
                let rig = &rig;
                scope.spawn(move || {
                    let expected = bytes(seed, 100_000);
                    let (first, rest) = expected.split_at(50_001);
                    let uploads = rig.gpu.uploads();
                    uploads.write_buffer(world, 0, first).unwrap();
                    for (i, small) in (0..).zip(rest.chunks(1000)) {
                        uploads.update_buffer(world, 50_001 + i * 1000, small).unwrap();
                    }
                    // Once more, in another order.
                    uploads.write_buffer(world, 50_001, rest).unwrap();
                })
            };
            let threads: Vec<_> = (0..).zip(&worlds).map(upload).collect();
            while !threads.iter().all(thread::ScopedJoinHandle::is_finished) {
                let now = rig.gpu.uploads().statistics();
                assert!(now.open_bytes + now.bytes_in_flight <= staging, "{now:?} of {staging}");
                rig.gpu.uploads().submit().unwrap();
                thread::yield_now();
            }
        });
        rig.gpu.wait(rig.gpu.uploads().submit().unwrap()).unwrap();
        for (seed, world) in (0..).zip(&worlds) {
            assert_bytes(&rig, world, &bytes(seed, 100_000));
        }
        drop(worlds);
        rig.finish();
    }
}

#[test]
fn a_lost_device_wakes_all_that_wait_for_staging_memory() {
    let rig = rig(64 * KIB);
    let worlds: Vec<_> = (0..4).map(|_| rig.buffer(512 * KIB)).collect();
    rig.device.pause_queues();
    thread::scope(|scope| {
        for world in &worlds {
            let rig = &rig;
            scope.spawn(move || {
                let lost = rig.gpu.uploads().write_buffer(world, 0, &vec![1; 512 << 10]).unwrap_err();
                assert!(
                    matches!(
                        lost,
                        UploadError::Device { source: DeviceError::Lost, .. }
                            | UploadError::Interrupted { by: Interruption::Device(DeviceError::Lost), .. }
                    ),
                    "{lost:?} is no loss"
                );
            });
        }
        until_waiting(&rig, 4);
        rig.device.lose_device();
    });
    assert_eq!(rig.gpu.uploads().statistics().waiting, 0);
    assert_eq!(rig.gpu.uploads().statistics().open_bytes, 0);
    assert_eq!(rig.gpu.tracker().statistics().open, 0, "no recording holds anything back");
}

#[test]
fn a_write_that_waits_too_long_leaves_the_queue_to_the_next() {
    let rig = Rig::new();
    let mut desc = UploaderDesc::default();
    (desc.staging, desc.queue) = (64 * KIB, Some(QUEUE));
    desc.when_full = WhenFull::Wait(Duration::from_millis(30));
    let uploader = Uploader::new(rig.gpu.memory(), desc).unwrap();
    let worlds: Vec<_> = (0..4).map(|_| rig.buffer(512 * KIB)).collect();
    rig.device.pause_queues();
    thread::scope(|scope| {
        for world in &worlds {
            let uploader = &uploader;
            scope.spawn(move || {
                let late = uploader.update(world, 0, &vec![1; 512 << 10]).unwrap_err();
                // The first thread has written some of its bytes, and the others perhaps none.
                let is_late = matches!(
                    late,
                    UploadError::TimedOut { .. }
                        | UploadError::Interrupted { by: Interruption::TimedOut(_), .. }
                );
                assert!(is_late, "{late:?}");
            });
        }
    });
    let left = uploader.statistics();
    assert!(left.waiting == 0 && left.open_bytes + left.bytes_in_flight <= 64 * KIB, "{left:?}");
    rig.device.resume_queues();
    uploader.update(&worlds[0], 0, &bytes(3, 512 * KIB)).unwrap();
    rig.gpu.wait(uploader.submit().unwrap()).unwrap();
    assert_bytes(&rig, &worlds[0], &bytes(3, 512 * KIB));
    drop((worlds, uploader));
    rig.finish();
}
