//! What is streamed: frames do not wait for it, and have as much of it as the program says.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use core::time::Duration;
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Instant;

use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::device::{
    BufferCopy, BufferDesc, ImageDesc, ImagePart, QueueDevice as _, QueueIndex, SharingMode, Submission,
    TimelinePoint,
};
use allotment::gpu::{Gpu, GpuDesc};
use allotment::upload::{UploadHandle, UploadStatus, UploaderDesc, WhenFull};

use crate::hooked_device::{Hook, HookedDevice, Point};
use crate::rig::{QUEUE, Rig, options};

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

/// Notes what the submissions of the graphics queue wait for.
#[derive(Debug, Default)]
struct Waits(Mutex<Vec<TimelinePoint>>);

impl Hook for Waits {
    fn reached(&self, _: Point) {}

    fn submits(&self, queue: QueueIndex, waits: &[TimelinePoint]) {
        if queue == QUEUE {
            self.0.lock().unwrap().extend(waits);
        }
    }
}

impl Waits {
    /// Returns the last point of a queue that was waited for since the last call.
    fn last_of(&self, queue: QueueIndex) -> u64 {
        let points = core::mem::take(&mut *self.0.lock().unwrap());
        points.iter().filter(|it| it.queue == queue).map(|it| it.value.0).max().unwrap_or(0)
    }
}

#[test]
fn a_read_waits_for_what_is_streamed_to_its_resource_and_for_nothing_else_that_is() {
    let transfer = QueueIndex(2);
    for sharing in [SharingMode::Concurrent, SharingMode::Exclusive] {
        let inner = SimulatedGpu::new(Profile::named("discrete-no-bar").unwrap());
        let device = HookedDevice::<Waits>::new(inner);
        let mut uploader = desc();
        (uploader.queue, uploader.image_queue) = (Some(transfer), Some(transfer));
        // What is streamed fits while the queues are stopped.
        uploader.staging = 1024 * KIB;
        let gpu = Gpu::new(device.clone(), GpuDesc::default().with_uploader(uploader)).unwrap();
        let buffer =
            |size| gpu.create_buffer(&BufferDesc::new(size).with_sharing_mode(sharing), &options()).unwrap();
        let image = |side| {
            let desc = ImageDesc::new(side, side, 4).with_sharing_mode(sharing);
            gpu.create_image(&desc, &options()).unwrap()
        };
        let (near, far, icon, sky) = (buffer(KIB), buffer(200 * KIB), image(8), image(128));
        let uploads = gpu.uploads();
        uploads.write_buffer(&near, 0, &bytes(1, KIB)).unwrap();
        uploads.write_image(&icon, &bytes(2, 256)).unwrap();
        gpu.wait(uploads.submit().unwrap()).unwrap();
        let before = gpu.device().submitted(transfer).0;
        device.hook.last_of(transfer);
        for round in 0..4 {
            device.inner.pause_queues();
            let handles = [(); 2].map(|()| UploadHandle::streamed());
            uploads.with_handle(&handles[0]).write_buffer(&far, 0, &bytes(round, 200 * KIB)).unwrap();
            uploads.with_handle(&handles[1]).write_image(&sky, &bytes(round, 64 * KIB)).unwrap();
            let whole = ImagePart::default();
            let reads = [
                gpu.reads().read_buffer(&near, 0, KIB).unwrap(),
                gpu.reads().read_image(&icon, &whole).unwrap(),
            ];
            gpu.begin_frame().unwrap().end().unwrap();
            let last = device.hook.last_of(transfer);
            assert!(last <= before, "{sharing:?}, {round}: {last}, {before}");
            // Each of those that were streamed alone, and both.
            let far_read = (round != 1).then(|| gpu.reads().read_buffer(&far, 0, 200 * KIB).unwrap());
            let sky_read = (round != 0).then(|| gpu.reads().read_image(&sky, &whole).unwrap());
            gpu.begin_frame().unwrap().end().unwrap();
            assert!(device.hook.last_of(transfer) > before, "{sharing:?}, {round}");
            device.inner.resume_queues();
            gpu.wait_idle().unwrap();
            assert!(reads[0].bytes().unwrap() == bytes(1, KIB) && reads[1].bytes().unwrap() == bytes(2, 256));
            assert!(far_read.is_none_or(|it| it.bytes().unwrap() == bytes(round, 200 * KIB)));
            assert!(sky_read.is_none_or(|it| it.bytes().unwrap() == bytes(round, 64 * KIB)));
        }
        drop((near, far, icon, sky));
        gpu.wait_idle().unwrap();
        drop(gpu);
        assert_eq!(device.inner.validation_errors(), Vec::<String>::new());
    }
}

/// Holds up the first submission of the transfer queue once it is told to, until a frame is over.
#[derive(Debug, Default)]
struct HeldUp {
    frame: Mutex<Option<(mpsc::Sender<()>, mpsc::Receiver<()>)>>,
    is_late: AtomicBool,
}

impl Hook for HeldUp {
    fn reached(&self, _: Point) {}

    fn submits(&self, queue: QueueIndex, _: &[TimelinePoint]) {
        if queue != QueueIndex(2) {
            return;
        }
        let Some((begin, is_over)) = self.frame.lock().unwrap().take() else { return };
        begin.send(()).unwrap();
        self.is_late.store(is_over.recv_timeout(Duration::from_secs(20)).is_err(), Relaxed);
    }
}

#[test]
fn a_frame_does_not_wait_for_a_thread_that_submits_what_is_streamed() {
    let inner = SimulatedGpu::new(Profile::named("discrete-no-bar").unwrap());
    let device = HookedDevice::<HeldUp>::new(inner);
    let gpu = Gpu::new(device.clone(), GpuDesc::default().with_uploader(desc())).unwrap();
    let [near, far] =
        [KIB, 20 * KIB].map(|size| gpu.create_buffer(&BufferDesc::new(size), &options()).unwrap());
    let near_bytes = UploadHandle::new();
    for round in 0..3 {
        // Frames wait for these, which have arrived.
        gpu.uploads().with_handle(&near_bytes).write_buffer(&near, 0, &bytes(round, KIB)).unwrap();
        let near_at = gpu.uploads().submit().unwrap();
        gpu.wait(near_at).unwrap();
        let (begin, begins) = mpsc::channel();
        let (over, is_over) = mpsc::channel();
        *device.hook.frame.lock().unwrap() = Some((begin, is_over));
        thread::scope(|scope| {
            let streamed = scope.spawn(|| {
                let streamed = UploadHandle::streamed();
                // More than a quarter of the staging memory, so that it is submitted by this thread.
                gpu.uploads().with_handle(&streamed).write_buffer(&far, 0, &bytes(round, 20 * KIB)).unwrap();
            });
            begins.recv_timeout(Duration::from_secs(20)).expect("the thread submits");
            let frame = gpu.begin_frame().unwrap();
            let mut waited = Vec::new();
            let submit = |queue, waits: &[TimelinePoint]| {
                waited = waits.to_vec();
                // SAFETY: there is nothing in it.
                unsafe { device.submit(queue, &Submission { waits, ..Submission::default() }) }
            };
            frame.submit(QUEUE, submit).unwrap();
            frame.end().unwrap();
            over.send(()).unwrap();
            assert!(near_at.points().all(|point| waited.contains(&point)), "{waited:?}");
            streamed.join().unwrap();
        });
        assert!(!device.hook.is_late.load(Relaxed), "the frame has waited");
    }
    let mut found = vec![0; 20 << 10];
    gpu.read_buffer(&far, 0, &mut found).unwrap();
    assert!(found == bytes(2, 20 * KIB));
    drop((near, far));
    gpu.wait_idle().unwrap();
    drop(gpu);
    assert_eq!(device.inner.validation_errors(), Vec::<String>::new());
}

#[test]
fn a_frame_takes_over_what_has_arrived_also_beside_a_thread_that_submits() {
    let inner = SimulatedGpu::new(Profile::named("discrete-no-bar").unwrap());
    let device = HookedDevice::<HeldUp>::new(inner);
    let gpu = Gpu::new(device.clone(), GpuDesc::default().with_uploader(desc())).unwrap();
    let exclusive = BufferDesc::new(20 * KIB).with_sharing_mode(SharingMode::Exclusive);
    let [first, second] = [(); 2].map(|()| gpu.create_buffer(&exclusive, &options()).unwrap());
    let copy = gpu.create_buffer(&BufferDesc::new(20 * KIB), &options()).unwrap();
    for round in 0..3 {
        device.inner.pause_queues();
        let streamed = UploadHandle::streamed();
        gpu.uploads().with_handle(&streamed).write_buffer(&first, 0, &bytes(round, 20 * KIB)).unwrap();
        gpu.uploads().submit().unwrap();
        device.inner.resume_queues();
        gpu.wait(gpu.tracker().submitted()).unwrap();
        gpu.reclaim();
        assert_eq!(streamed.status(), UploadStatus::Arrived);
        let (begin, begins) = mpsc::channel();
        let (over, is_over) = mpsc::channel();
        *device.hook.frame.lock().unwrap() = Some((begin, is_over));
        thread::scope(|scope| {
            scope.spawn(|| {
                let streamed = UploadHandle::streamed();
                gpu.uploads()
                    .with_handle(&streamed)
                    .write_buffer(&second, 0, &bytes(round, 20 * KIB))
                    .unwrap();
            });
            begins.recv_timeout(Duration::from_secs(20)).expect("the thread submits");
            // The frame has to wait for it here, since what it uses is handed over under the same lock.
            scope.spawn(move || {
                thread::sleep(Duration::from_millis(50));
                over.send(()).unwrap();
            });
            let frame = gpu.begin_frame().unwrap();
            let submit = |queue, waits: &[TimelinePoint]| {
                let (from, to) = (&first.handle(), &copy.handle());
                let copies = [BufferCopy { from, from_offset: 0, to, to_offset: 0, size: 20 * KIB }];
                // SAFETY: both buffers have the range, and live longer; nothing else uses the copy.
                unsafe {
                    device.submit(queue, &Submission { waits, copies: &copies, ..Submission::default() })
                }
            };
            frame.submit(QUEUE, submit).unwrap();
            frame.end().unwrap();
        });
        gpu.wait_idle().unwrap();
    }
    drop((first, second, copy));
    gpu.wait_idle().unwrap();
    drop(gpu);
    assert_eq!(device.inner.validation_errors(), Vec::<String>::new());
}

#[test]
fn a_read_waits_for_bytes_that_went_with_what_is_streamed_to_an_exclusive_buffer() {
    let rig = Rig::new();
    let desc = BufferDesc::new(KIB).with_sharing_mode(SharingMode::Exclusive);
    let (near, far) = (rig.buffer(KIB), rig.gpu.create_buffer(&desc, &options()).unwrap());
    let streamed = UploadHandle::streamed();
    for round in 0..4 {
        rig.device.pause_queues();
        rig.gpu.uploads().write_buffer(&near, 0, &bytes(round, KIB)).unwrap();
        rig.gpu.uploads().with_handle(&streamed).write_buffer(&far, 0, &bytes(round, KIB)).unwrap();
        if round % 2 == 1 {
            rig.draw();
        }
        let read = rig.gpu.reads().read_buffer(&near, 0, KIB).unwrap();
        rig.gpu.reads().submit().unwrap();
        rig.device.resume_queues();
        assert!(rig.bytes(&read) == bytes(round, KIB), "{round}");
    }
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
    // By a handle that was cancelled nothing is written.
    let cancelled = UploadHandle::streamed();
    cancelled.cancel();
    uploads.with_handle(&cancelled).write_buffer(&far, 0, &bytes(2, 32 * KIB)).unwrap_err();
    drop(far);
    rig.finish();
}
