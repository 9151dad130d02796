//! What is streamed: frames do not wait for it, and have as much of it as the program says.

use core::time::Duration;
use std::thread;
use std::time::Instant;

use allotment::gpu::GpuDesc;
use allotment::upload::{UploadHandle, UploadStatus, UploaderDesc, WhenFull};

use crate::rig::Rig;

const KIB: u64 = 1 << 10;

fn desc() -> UploaderDesc {
    let mut desc = UploaderDesc::default();
    (desc.staging, desc.when_full) = (64 * KIB, WhenFull::Wait(Duration::from_secs(60)));
    desc
}

fn bytes(seed: u64, size: u64) -> Vec<u8> {
    (0..size).map(|i| (i * 7 + (i >> 8) * 3 + seed * 31) as u8).collect()
}

#[test]
fn frames_wait_for_what_is_written_and_not_for_what_is_streamed() {
    let rig = Rig::with(GpuDesc::default().with_uploader(desc()));
    let (near, far) = (rig.buffer(KIB), rig.buffer(200 * KIB));
    let (plain, streamed) = (UploadHandle::new(), UploadHandle::streamed());
    assert!(!plain.is_streamed() && streamed.is_streamed());
    let uploads = rig.gpu.uploads();
    uploads.with_handle(&streamed).write_buffer(&far, 0, &bytes(1, 200 * KIB)).unwrap();
    assert_eq!(rig.draw(), []);
    uploads.with_handle(&plain).write_buffer(&near, 0, &bytes(2, KIB)).unwrap();
    let waited = rig.draw();
    assert_eq!(waited.len(), 1, "one queue copies buffers");
    // What was streamed before comes before it on the queue, and what is streamed later makes no difference.
    uploads.with_handle(&streamed).write_buffer(&far, 0, &bytes(3, 200 * KIB)).unwrap();
    assert_eq!(rig.draw(), waited);
    while !streamed.status().is_final() {
        rig.draw();
    }
    assert_eq!(streamed.status(), UploadStatus::Arrived);
    let mut found = vec![0; 200 << 10];
    rig.gpu.read_buffer(&far, 0, &mut found).unwrap();
    assert!(found == bytes(3, 200 * KIB));
    drop((near, far));
    rig.finish();
}

#[test]
fn no_frame_begins_later_for_what_is_streamed() {
    let rig = Rig::with(GpuDesc::default().with_uploader(desc()));
    let far = rig.buffer(KIB);
    rig.draw();
    rig.gpu.wait(rig.gpu.tracker().submitted()).unwrap();
    rig.device.pause_queues();
    let streamed = UploadHandle::streamed();
    let uploads = rig.gpu.uploads();
    for round in 0..3 {
        uploads.with_handle(&streamed).write_buffer(&far, 0, &bytes(round, KIB)).unwrap();
        uploads.submit().unwrap();
        for _ in 0..6 {
            // It submits nothing, so there is nothing else that it could wait for.
            rig.gpu.begin_frame().unwrap().end().unwrap();
        }
        assert!(!streamed.status().is_final());
    }
    rig.device.resume_queues();
    drop(far);
    rig.finish();
}

#[test]
fn streamed_and_other_writes_of_the_same_bytes_arrive_in_their_order() {
    let rig = Rig::with(GpuDesc::default().with_uploader(desc()));
    let buffer = rig.buffer(40 * KIB);
    let streamed = UploadHandle::streamed();
    let uploads = rig.gpu.uploads();
    let mut found = vec![0; 40 << 10];
    for round in 0..20 {
        uploads.with_handle(&streamed).write_buffer(&buffer, 0, &bytes(round, 40 * KIB)).unwrap();
        uploads.write_buffer(&buffer, 0, &bytes(100 + round, 4 * KIB)).unwrap();
        uploads.with_handle(&streamed).write_buffer(&buffer, 2 * KIB, &bytes(200 + round, 100)).unwrap();
        rig.gpu.read_buffer(&buffer, 0, &mut found).unwrap();
        let mut expected = bytes(round, 40 * KIB);
        expected[..4 << 10].copy_from_slice(&bytes(100 + round, 4 * KIB));
        expected[2 << 10..(2 << 10) + 100].copy_from_slice(&bytes(200 + round, 100));
        assert!(found == expected, "{round}");
    }
    drop(buffer);
    rig.finish();
}

#[test]
fn a_frame_has_no_more_of_what_is_streamed_than_the_program_says() {
    const LIMIT: u64 = 16 * KIB;
    let mut desc = desc();
    desc.streamed_bytes_per_frame = LIMIT;
    let rig = Rig::with(GpuDesc::default().with_uploader(desc));
    let (near, far) = (rig.buffer(KIB), rig.buffer(256 * KIB));
    let streamed = UploadHandle::streamed();
    // What a thread has begun is not stopped: a piece of an eighth of the staging memory.
    let piece = 8 * KIB;
    thread::scope(|scope| {
        let uploads = rig.gpu.uploads();
        let writer = scope.spawn(|| {
            let uploads = rig.gpu.uploads();
            uploads.with_handle(&streamed).write_buffer(&far, 0, &bytes(1, 256 * KIB)).unwrap();
        });
        let mut before = uploads.statistics().staged_bytes;
        let (mut frames, mut was_slow, mut began) = (0, false, Instant::now());
        while !writer.is_finished() {
            // Other writes go on.
            uploads.write_buffer(&near, 0, &[7; 1 << 10]).unwrap();
            let frame = rig.gpu.begin_frame().unwrap();
            let (now, since) = (uploads.statistics().staged_bytes, began);
            began = Instant::now();
            frame.end().unwrap();
            // Where this thread had no processor for as long, there was no limit.
            if since.elapsed() < Duration::from_millis(100) {
                // As much before the first look as after the last, at most.
                assert!(now - before <= 2 * (LIMIT + piece) + KIB, "{}", now - before);
            } else {
                was_slow = true;
            }
            (before, frames) = (now, frames + 1);
        }
        let least = 256 * KIB / (LIMIT + piece);
        assert!(was_slow || frames >= least / 2, "{frames} frames");
    });
    let mut found = vec![0; 256 << 10];
    rig.gpu.read_buffer(&far, 0, &mut found).unwrap();
    assert!(found == bytes(1, 256 * KIB));
    drop((near, far));
    rig.finish();
}

#[test]
fn a_program_without_frames_streams_all_that_it_likes() {
    let mut desc = desc();
    (desc.streamed_bytes_per_frame, desc.streamed_time_per_frame) = (0, Duration::ZERO);
    let rig = Rig::with(GpuDesc::default().with_uploader(desc));
    let far = rig.buffer(32 * KIB);
    let streamed = UploadHandle::streamed();
    let uploads = rig.gpu.uploads();
    uploads.with_handle(&streamed).write_buffer(&far, 0, &bytes(1, 32 * KIB)).unwrap();
    rig.gpu.wait_idle().unwrap();
    assert_eq!(streamed.status(), UploadStatus::Arrived);
    // One that waits for the next frame can be cancelled.
    let cancelled = UploadHandle::streamed();
    thread::scope(|scope| {
        let writer = scope
            .spawn(|| rig.gpu.uploads().with_handle(&cancelled).write_buffer(&far, 0, &bytes(2, 32 * KIB)));
        cancelled.cancel();
        writer.join().unwrap().unwrap_err();
    });
    drop(far);
    rig.finish();
}
