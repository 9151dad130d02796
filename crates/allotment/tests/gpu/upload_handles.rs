//! Handles of uploads: polled, called back, cancelled; and uploads that are stopped.

use core::future::Future as _;
use core::panic::AssertUnwindSafe;
use core::pin::pin;
use core::sync::atomic::{AtomicU32, Ordering::SeqCst};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::panic::catch_unwind;
use std::sync::{Arc, Mutex};
use std::task::Wake;
use std::thread;

use allotment::gpu::GpuDesc;
use allotment::upload::{Interruption, UploadError, UploadHandle, UploadStatus, UploaderDesc, WhenFull};

use crate::rig::{QUEUE, Rig};

const KIB: u64 = 1 << 10;

#[derive(Default)]
struct Woken(AtomicU32);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn rig(staging: u64) -> Rig {
    let mut uploader = UploaderDesc::default();
    (uploader.staging, uploader.when_full) = (staging, WhenFull::Wait(Duration::from_secs(60)));
    uploader.queue = Some(QUEUE);
    Rig::with(GpuDesc::default().with_uploader(uploader))
}

fn until_waiting(rig: &Rig, count: u64) {
    while rig.gpu.uploads().statistics().waiting < count {
        thread::yield_now();
    }
}

#[test]
fn a_handle_is_a_future_that_the_end_of_a_frame_wakes() {
    let rig = rig(64 * KIB);
    let (mesh, other) = (rig.buffer(64 * KIB), rig.buffer(64));
    let handle = UploadHandle::new();
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(handle.clone());
    assert_eq!(future.as_mut().poll(&mut context), Poll::Pending, "no write has begun");
    rig.device.pause_queues();
    let uploads = rig.gpu.uploads();
    uploads.with_handle(&handle).write_buffer(&mesh, 0, &[7; 1000]).unwrap();
    uploads.with_handle(&handle).write_buffer(&mesh, 5000, &[8; 1000]).unwrap();
    uploads.write_buffer(&other, 0, &[1; 64]).unwrap();
    assert_eq!(handle.status(), UploadStatus::Pending);
    let there = uploads.submit().unwrap();
    assert_eq!(handle.status(), UploadStatus::Submitted(there));
    rig.gpu.begin_frame().unwrap().end().unwrap();
    assert_eq!((future.as_mut().poll(&mut context), woken.0.load(SeqCst)), (Poll::Pending, 0));
    rig.device.resume_queues();
    rig.gpu.wait(there).unwrap();
    rig.gpu.begin_frame().unwrap().end().unwrap();
    assert_eq!(woken.0.load(SeqCst), 1, "once, though it was polled twice");
    assert_eq!(future.as_mut().poll(&mut context), Poll::Ready(UploadStatus::Arrived));
    drop((mesh, other));
    rig.finish();
}

#[test]
fn callbacks_may_upload_and_one_that_panics_leaves_the_others() {
    let rig = rig(64 * KIB);
    let mesh = Arc::new(rig.buffer(KIB));
    let handle = UploadHandle::new();
    let called = Arc::new(Mutex::new(Vec::new()));
    rig.gpu.uploads().with_handle(&handle).write_buffer(&mesh, 0, &[7; 64]).unwrap();
    let (seen, gpu, again) = (Arc::clone(&called), rig.gpu.clone(), Arc::clone(&mesh));
    handle.on_finish(|_| panic!("of the test"));
    handle.on_finish(move |status| {
        gpu.uploads().write_buffer(&again, 512, &[9; 64]).unwrap();
        seen.lock().unwrap().push(status);
    });
    handle.on_finish(|_| panic!("of the test, too"));
    // Of another handle, whose bytes come in the same batch.
    let (other, seen) = (UploadHandle::new(), Arc::clone(&called));
    rig.gpu.uploads().with_handle(&other).write_buffer(&mesh, 64, &[8; 64]).unwrap();
    other.on_finish(move |status| seen.lock().unwrap().push(status));
    // `submit` calls back as well, for what has arrived already.
    rig.device.pause_queues();
    let submitted = rig.gpu.uploads().submit().unwrap();
    rig.device.resume_queues();
    rig.gpu.wait(submitted).unwrap();
    let panic = catch_unwind(AssertUnwindSafe(|| rig.gpu.reclaim())).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"of the test"), "the first one goes on");
    assert_eq!(*called.lock().unwrap(), [UploadStatus::Arrived; 2]);
    let seen = Arc::clone(&called);
    handle.on_finish(move |status| seen.lock().unwrap().push(status));
    assert_eq!(called.lock().unwrap().len(), 3, "at once, where it is final");
    let mut found = [0; 64];
    rig.gpu.read_buffer(&mesh, 512, &mut found).unwrap();
    assert_eq!(found, [9; 64]);
    drop(mesh);
    rig.finish();
}

#[test]
fn a_write_that_is_cancelled_says_how_much_of_it_arrives_and_the_others_go_on() {
    let rig = rig(64 * KIB);
    let worlds: Vec<_> = (0..3).map(|_| rig.buffer(512 * KIB)).collect();
    let handles: Vec<_> = (0..3).map(|_| UploadHandle::new()).collect();
    rig.device.pause_queues();
    let written: Vec<_> = thread::scope(|scope| {
        let upload = |(world, handle)| {
            let rig = &rig;
            scope.spawn(move || {
                let bytes = vec![7; 512 << 10];
                rig.gpu.uploads().with_handle(handle).write_buffer(world, 0, &bytes)
            })
        };
        let threads: Vec<_> = worlds.iter().zip(&handles).map(upload).collect();
        until_waiting(&rig, 3);
        handles[0].cancel();
        handles[2].cancel();
        while rig.gpu.uploads().statistics().waiting > 1 {
            thread::yield_now();
        }
        rig.device.resume_queues();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    rig.gpu.wait(rig.gpu.uploads().submit().unwrap()).unwrap();
    rig.gpu.reclaim();
    for (i, (world, written)) in worlds.iter().zip(written).enumerate() {
        let arrives = match written {
            Ok(()) => 512 * KIB,
            Err(UploadError::Interrupted { by: Interruption::Cancelled, written, remaining, .. }) => {
                assert_eq!(written + remaining, 512 * KIB);
                written
            }
            Err(other) => panic!("{other:?}"),
        };
        assert_eq!(arrives == 512 * KIB, i == 1, "{arrives} of upload {i}");
        let mut found = vec![0; arrives as usize];
        rig.gpu.read_buffer(world, 0, &mut found).unwrap();
        assert!(found.iter().all(|&byte| byte == 7));
        let expected = if i == 1 { UploadStatus::Arrived } else { UploadStatus::Cancelled };
        assert_eq!(handles[i].status(), expected);
    }
    drop(worlds);
    rig.finish();
}

#[test]
fn a_stop_wakes_all_that_wait_and_refuses_writes_until_it_is_over() {
    let rig = rig(64 * KIB);
    let worlds: Vec<_> = (0..4).map(|_| rig.buffer(512 * KIB)).collect();
    rig.device.pause_queues();
    thread::scope(|scope| {
        for world in &worlds {
            let rig = &rig;
            scope.spawn(move || {
                let stopped = rig.gpu.uploads().write_buffer(world, 0, &vec![1; 512 << 10]).unwrap_err();
                let text = stopped.to_string();
                assert!(
                    matches!(stopped, UploadError::Interrupted { by: Interruption::Stopped, .. }),
                    "{stopped:?}"
                );
                assert!(text.contains("bytes are written") && text.contains("resume it"), "{text}");
            });
        }
        until_waiting(&rig, 4);
        rig.gpu.uploads().stop();
    });
    let refused = rig.gpu.uploads().write_buffer(&worlds[0], 0, &[1; 16]);
    assert!(
        matches!(
            refused,
            Err(UploadError::Interrupted { by: Interruption::Stopped, written: 0, remaining: 16, .. })
        ),
        "{refused:?}"
    );
    rig.device.resume_queues();
    rig.gpu.uploads().resume();
    rig.gpu.uploads().write_buffer(&worlds[0], 0, &vec![2; 512 << 10]).unwrap();
    let mut found = vec![0; 512 << 10];
    rig.gpu.read_buffer(&worlds[0], 0, &mut found).unwrap();
    assert!(found.iter().all(|&byte| byte == 2));
    drop(worlds);
    rig.finish();
}

#[test]
fn what_is_discarded_or_on_a_lost_device_is_lost_by_its_handle() {
    let rig = rig(64 * KIB);
    let mesh = rig.buffer(KIB);
    let [discarded, lost] = [0; 2].map(|_| UploadHandle::new());
    let uploads = rig.gpu.uploads();
    uploads.with_handle(&discarded).write_buffer(&mesh, 0, &[7; 64]).unwrap();
    uploads.discard();
    assert_eq!(discarded.status(), UploadStatus::Lost);
    rig.device.pause_queues();
    uploads.with_handle(&lost).write_buffer(&mesh, 0, &[7; 64]).unwrap();
    let there = uploads.submit().unwrap();
    assert_eq!(lost.status(), UploadStatus::Submitted(there));
    rig.device.lose_device();
    assert!(rig.gpu.wait(there).is_err());
    rig.gpu.reclaim();
    assert_eq!(lost.status(), UploadStatus::Lost);
    let refused = UploadHandle::new();
    assert!(uploads.with_handle(&refused).write_buffer(&mesh, 0, &[7; 64]).is_err());
    assert_eq!(refused.status(), UploadStatus::Lost);
}
