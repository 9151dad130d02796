//! Buffers and images that are read in one call, without a wait.

use core::panic::AssertUnwindSafe;
use core::pin::pin;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::panic::catch_unwind;
use std::sync::{Arc, Mutex, mpsc};
use std::task::Wake;

use allotment::MemoryUsage;
use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::device::{
    BufferDesc, DeviceError, ImageDesc, ImagePart, QueueDevice as _, QueueIndex, SharingMode, TimelinePoint,
    TimelineValue,
};
use allotment::gpu::{Gpu, GpuDesc};
use allotment::lifetime::{DeletionQueue, SubmissionTracker};
use allotment::memory::defragmentation::{DefragmentationDesc, DefragmentationStrategy};
use allotment::memory::names::ShortName;
use allotment::memory::{AccessError, Image, OwningAllocator};
use allotment::upload::{
    ImageWrite, ReadError, ReadHandle, ReadStatus, UploadError, Uploader, UploaderDesc, WhenFull,
};

use crate::hooked_device::{Hook, HookedDevice, Point};
use crate::rig::{Rig, options};

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
                rig.gpu.reads().read_buffer(&buffer, offset, size).unwrap(),
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
    let ticket = rig.gpu.reads().read_buffer(&to, 0, 1024).unwrap();
    assert_eq!(ticket.status(), ReadStatus::Pending);
    let read = rig.gpu.reads().submit().unwrap().unwrap();
    assert_eq!(ticket.status(), ReadStatus::Submitted(read));
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
        tickets.push(rig.gpu.reads().read_buffer(buffer, 100, 10).unwrap());
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
    let rig = Rig::on("d3d12-tier-1", GpuDesc::default());
    let small = rig.buffer(1000);
    let other = Rig::new();
    let foreign = other.buffer(64);
    let options = MemoryUsage::Readback.with_name("the CPU reads it");
    let direct = rig.gpu.create_buffer(&BufferDesc::new(64), &options).unwrap();
    let refused = |buffer, offset, size| rig.gpu.reads().read_buffer(buffer, offset, size).unwrap_err();

    for (offset, size) in [(0, 1001), (1000, 1), (u64::MAX, 2), (2, u64::MAX)] {
        let expected = ReadError::Access(AccessError::OutOfRange {
            offset,
            size,
            available: 1000,
            name: ShortName::new("test"),
        });
        assert_eq!(refused(&small, offset, size), expected);
    }
    assert_eq!(refused(&small, 0, 0), ReadError::ZeroSize { name: ShortName::new("test") });
    assert_eq!(
        refused(&foreign, 0, 64),
        ReadError::Access(AccessError::WrongAllocator { name: ShortName::new("test") })
    );
    assert!(matches!(refused(&direct, 0, 64), ReadError::WriteOnly { .. }));
    assert!(refused(&direct, 0, 64).to_string().contains("read the buffer with the CPU"));
    // None of that is pending, or keeps a recording open.
    assert_eq!(rig.gpu.reads().statistics().pending, 0);
    assert_eq!(rig.gpu.reads().submit().unwrap(), None);
    assert_eq!(rig.gpu.tracker().open_recordings().len(), 0);
    drop((small, direct, foreign));
    rig.finish();
    other.finish();
}

#[test]
fn a_buffer_that_is_no_copy_source_is_refused_and_no_queue_is_asked() {
    let rig = Rig::new();
    let desc = BufferDesc::new(64).with_usage(SimulatedGpu::NO_TRANSFER_SRC);
    let buffer = rig.gpu.create_buffer(&desc, &options()).unwrap();
    let refused = rig.gpu.reads().read_buffer(&buffer, 0, 64).unwrap_err();
    assert!(matches!(refused, ReadError::Access(_)), "{refused:?}");
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
    // Its own tracker knows nothing of the copy, and would destroy the buffer under it.
    let refused = rig.gpu.reads().read_buffer(&buffer, 0, 64).unwrap_err();
    assert!(matches!(refused, ReadError::WrongTracker { .. }), "{refused:?}");
    drop((buffer, memory, tracker));
    rig.finish();
}

/// A read that has failed.
fn given_up() -> ReadHandle {
    let rig = Rig::new();
    rig.gpu.reads().read_buffer(&rig.buffer(64), 0, 64).unwrap()
}

fn image(rig: &Rig, name: &'static str) -> Image<SimulatedGpu> {
    rig.gpu.create_image(&ImageDesc::new(8, 8, 4), &MemoryUsage::GpuOnly.with_name(name)).unwrap()
}

#[test]
fn a_task_and_a_callback_get_the_bytes_once_a_frame_has_seen_that_they_are_there() {
    let rig = Rig::new();
    let buffer = rig.buffer(64);
    rig.gpu.uploads().write_buffer(&buffer, 0, &[7; 64]).unwrap();
    rig.device.pause_queues();
    let mut task = pin!(rig.gpu.reads().read_buffer(&buffer, 0, 64).unwrap());
    let (sender, called) = mpsc::channel();
    let read = rig.gpu.reads().read_buffer(&buffer, 60, 4).unwrap();
    // The callback has the only handle: the bytes are wanted all the same.
    read.on_finish(move |read| sender.send(read.bytes()).unwrap());
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut context = Context::from_waker(&waker);
    assert!(task.as_mut().poll(&mut context).is_pending());
    rig.gpu.begin_frame().unwrap().end().unwrap();
    assert!(task.as_mut().poll(&mut context).is_pending());
    assert_eq!((woken.0.load(Relaxed), called.try_recv()), (0, Err(mpsc::TryRecvError::Empty)));
    rig.device.resume_queues();
    rig.gpu.wait_idle().unwrap();
    rig.gpu.begin_frame().unwrap().end().unwrap();
    assert_eq!(woken.0.load(Relaxed), 1);
    assert_eq!(called.try_recv().unwrap().unwrap(), [7; 4]);
    let Poll::Ready(bytes) = task.as_mut().poll(&mut context) else { panic!("it was woken") };
    assert_eq!(bytes.unwrap(), [7; 64]);
    task.set(rig.gpu.reads().read_buffer(&buffer, 0, 64).unwrap());
    drop(buffer);
    rig.gpu.reads().submit().unwrap();
    let bytes = rig.bytes(&task);
    assert_eq!(bytes, [7; 64]);
    // A handle keeps memory of the `Gpu`.
    task.set(given_up());
    rig.finish();
}

#[test]
fn what_nobody_waits_for_is_not_copied() {
    let rig = Rig::new();
    let buffer = rig.buffer(64);
    drop(rig.gpu.reads().read_buffer(&buffer, 0, 64).unwrap());
    assert_eq!(rig.gpu.reads().submit().unwrap(), None);
    assert_eq!(rig.gpu.reads().statistics(), Default::default());
    drop(buffer);
    rig.finish();
}

#[test]
fn what_nobody_waits_for_submits_no_uploads() {
    let rig = Rig::new();
    let (buffer, other) = (rig.buffer(64), rig.buffer(64));
    rig.gpu.uploads().write_buffer(&other, 0, &[7; 64]).unwrap();
    drop(rig.gpu.reads().read_buffer(&buffer, 0, 64).unwrap());
    assert_eq!(rig.gpu.reads().submit().unwrap(), None);
    let uploads = rig.gpu.uploads().statistics();
    assert_eq!((uploads.submissions, uploads.open_bytes), (0, 64));
    // Nor does it keep its recording open.
    assert_eq!(rig.gpu.reads().statistics().pending, 0);
    drop((buffer, other));
    rig.finish();
}

#[test]
fn a_callback_that_panics_leaves_the_others_of_its_read_and_of_its_batch() {
    let rig = Rig::new();
    let buffer = rig.buffer(64);
    rig.gpu.uploads().write_buffer(&buffer, 0, &[7; 64]).unwrap();
    let (sender, called) = mpsc::channel();
    let read = |bad: bool| {
        let read = rig.gpu.reads().read_buffer(&buffer, 0, 64).unwrap();
        for number in 0..3 {
            let sender = sender.clone();
            read.clone().on_finish(move |read| {
                assert!(!(bad && number == 1), "of the test");
                sender.send((number, read.bytes().is_ok())).unwrap();
            });
        }
        read
    };
    // In flight, and then when the copy was never submitted.
    let (first, second) = (read(true), read(false));
    rig.gpu.wait(rig.gpu.reads().submit().unwrap().unwrap()).unwrap();
    let reclaimed = catch_unwind(AssertUnwindSafe(|| rig.gpu.reclaim()));
    assert!(reclaimed.is_err());
    assert_eq!(called.try_iter().collect::<Vec<_>>(), [0, 2, 0, 1, 2].map(|number| (number, true)));
    drop((first, second));
    let (first, second) = (read(true), read(true));
    drop(buffer);
    let device = rig.device.clone();
    let dropped = catch_unwind(AssertUnwindSafe(move || drop(rig.gpu)));
    assert!(dropped.is_err());
    assert_eq!(called.try_iter().collect::<Vec<_>>(), [0, 2, 0, 2].map(|number| (number, false)));
    drop((first, second));
    assert_eq!((device.usage().memory_objects, device.usage().buffers), (0, 0));
}

#[test]
fn a_source_may_be_dropped_and_a_handle_kept_for_long() {
    let rig = Rig::new();
    let reads: Vec<_> = (0..50_u8)
        .map(|number| {
            let (buffer, image) = (rig.buffer(256), image(&rig, "dropped"));
            rig.gpu.uploads().write_buffer(&buffer, 0, &[number; 256]).unwrap();
            rig.gpu.uploads().write_image(&image, &[number; 256]).unwrap();
            let both = (
                rig.gpu.reads().read_buffer(&buffer, 0, 256).unwrap(),
                rig.gpu.reads().read_image(&image, &ImagePart::default()).unwrap(),
            );
            drop((buffer, image));
            rig.gpu.begin_frame().unwrap().end().unwrap();
            both
        })
        .collect();
    for (number, (of_buffer, of_image)) in (0..).zip(&reads) {
        assert_eq!(rig.bytes(of_buffer), [number; 256]);
        assert_eq!(rig.bytes(of_image), [number; 256]);
    }
    // Each batch has memory of its own as long as somebody has its handles, and it comes back.
    assert!(rig.gpu.reads().statistics().bytes >= 50 * 512);
    drop(reads);
    for _ in 0..1100 {
        rig.gpu.begin_frame().unwrap().end().unwrap();
    }
    assert_eq!(rig.gpu.reads().statistics().bytes, 0);
    rig.finish();
}

#[test]
fn an_image_whose_state_is_lost_meanwhile_fails_alone() {
    let rig = Rig::new();
    let (lost, kept) = (image(&rig, "lost"), image(&rig, "kept"));
    for image in [&lost, &kept] {
        rig.gpu.uploads().write_image(image, &[7; 256]).unwrap();
    }
    let whole = ImagePart::default();
    let of_lost = rig.gpu.reads().read_image(&lost, &whole).unwrap();
    let of_kept = rig.gpu.reads().read_image(&kept, &whole).unwrap();
    lost.forget_state();
    rig.gpu.begin_frame().unwrap().end().unwrap();
    let ReadStatus::Failed(error) = of_lost.status() else { panic!("{of_lost:?}") };
    assert!(matches!(error, ReadError::UnknownState { .. }), "{error}");
    assert_eq!(error.name(), Some("lost"));
    assert_eq!(rig.bytes(&of_kept), [7; 256]);
    drop((lost, kept, of_kept));
    rig.finish();
}

#[test]
fn a_read_that_is_too_large_for_the_memory_fails_alone() {
    let mut profile = Profile::named("discrete-no-bar").unwrap();
    let least = profile.heaps.iter_mut().find(|heap| !heap.device_local).unwrap();
    least.size = 16 << 20;
    let device = SimulatedGpu::new(profile);
    let mut uploader = UploaderDesc::default();
    uploader.staging = 1 << 20;
    let desc = GpuDesc::default().with_uploader(uploader);
    let rig = Rig { gpu: Gpu::new(device.clone(), desc).unwrap(), device };
    let (small, large, image) = (rig.buffer(64), rig.buffer(32 << 20), image(&rig, "small"));
    let largest = ImageDesc::new(4096, 4096, 4);
    let largest = rig.gpu.create_image(&largest, &MemoryUsage::GpuOnly.with_name("largest")).unwrap();
    // SAFETY: the simulated GPU has one state.
    unsafe { largest.set_state(()) };
    rig.gpu.uploads().write_buffer(&small, 0, &[7; 64]).unwrap();
    rig.gpu.uploads().write_image(&image, &[8; 256]).unwrap();
    let whole = ImagePart::default();
    for at in 0..8 {
        let read = |number| match number {
            _ if number == at && at % 2 == 0 => rig.gpu.reads().read_buffer(&large, 0, 32 << 20).unwrap(),
            _ if number == at => rig.gpu.reads().read_image(&largest, &whole).unwrap(),
            3 | 4 => rig.gpu.reads().read_image(&image, &whole).unwrap(),
            _ => rig.gpu.reads().read_buffer(&small, 0, 64).unwrap(),
        };
        let reads: Vec<_> = (0..8).map(read).collect();
        rig.gpu.begin_frame().unwrap().end().unwrap();
        rig.gpu.wait_idle().unwrap();
        for (number, read) in reads.iter().enumerate() {
            match read.bytes() {
                Err(error) => {
                    assert_eq!(number, at, "{error}");
                    assert!(matches!(error, ReadError::Memory(_)), "{error}");
                }
                Ok(bytes) if number == 3 || number == 4 => assert_eq!(bytes, [8; 256]),
                Ok(bytes) => assert_eq!(bytes, [7; 64]),
            }
        }
    }
    assert_eq!(rig.gpu.reads().statistics().submissions, 8, "each batch is one submission all the same");
    // Where each is too large.
    let reads: Vec<_> = (0..100).map(|_| rig.gpu.reads().read_buffer(&large, 0, 32 << 20).unwrap()).collect();
    assert_eq!(rig.gpu.reads().submit().unwrap(), None);
    assert!(reads.iter().all(|read| matches!(read.status(), ReadStatus::Failed(ReadError::Memory(_)))));
    drop((small, large, image, largest, reads));
    rig.finish();
}

#[test]
fn reads_of_a_lost_device_or_a_dropped_gpu_fail_and_say_so() {
    let rig = Rig::new();
    let buffer = rig.buffer(64);
    let (sender, called) = mpsc::channel();
    let given_up = rig.gpu.reads().read_buffer(&buffer, 0, 64).unwrap();
    given_up.clone().on_finish(move |read| sender.send(read.status()).unwrap());
    drop((buffer, rig.gpu));
    assert_eq!(given_up.status(), ReadStatus::Failed(ReadError::GivenUp));
    assert_eq!(called.recv().unwrap(), ReadStatus::Failed(ReadError::GivenUp));
    assert_eq!((rig.device.usage().memory_objects, rig.device.usage().buffers), (0, 0));

    let rig = Rig::new();
    let buffer = rig.buffer(64);
    rig.device.pause_queues();
    let in_flight = rig.gpu.reads().read_buffer(&buffer, 0, 64).unwrap();
    rig.gpu.reads().submit().unwrap();
    let pending = rig.gpu.reads().read_buffer(&buffer, 0, 64).unwrap();
    rig.device.lose_device();
    assert!(rig.gpu.reads().submit().is_err());
    for read in [in_flight, pending] {
        let refused = read.bytes().unwrap_err().to_string();
        assert!(refused.contains("lost"), "{refused}");
    }
}

#[test]
fn reads_from_many_threads_while_others_write_bring_bytes_of_one_write() {
    let rig = Rig::new();
    let images: Vec<_> = (0..4).map(|_| image(&rig, "shared")).collect();
    for image in &images {
        rig.gpu.uploads().write_image(image, &[0; 256]).unwrap();
    }
    std::thread::scope(|scope| {
        let (gpu, images) = (&rig.gpu, &images);
        for thread in 0..2 {
            scope.spawn(move || {
                for round in 1..40_u8 {
                    gpu.uploads()
                        .write_image(&images[usize::from(round % 2) + 2 * thread], &[round; 256])
                        .unwrap();
                    if round % 8 == 0 {
                        gpu.uploads().submit().unwrap();
                    }
                }
            });
            scope.spawn(move || {
                for round in 0..40 {
                    let read = gpu.reads().read_image(&images[round % 4], &ImagePart::default()).unwrap();
                    let bytes = gpu.reads().wait(&read).unwrap();
                    assert!(bytes.iter().all(|byte| *byte == bytes[0]), "{bytes:?}");
                }
            });
        }
    });
    drop(images);
    rig.finish();
}

#[test]
fn an_image_with_copies_staged_by_another_uploader_is_not_read_before_they_are_submitted() {
    let rig = Rig::new();
    let image = image(&rig, "of another uploader");
    let uploader = Uploader::new(rig.gpu.memory(), UploaderDesc::default()).unwrap();
    let read = || {
        let read = rig.gpu.reads().read_image(&image, &ImagePart::default()).unwrap();
        rig.gpu.reads().wait(&read)
    };
    uploader.write_image(&image, &ImageWrite::default(), &[7; 256]).unwrap();
    let refused = read().unwrap_err();
    assert_eq!(refused, ReadError::OtherUploader { name: ShortName::new("of another uploader") });
    assert!(refused.to_string().contains("call its `submit` first"), "{refused}");
    uploader.submit().unwrap();
    assert_eq!(read().unwrap(), [7; 256]);
    uploader.write_image(&image, &ImageWrite::default(), &[8; 256]).unwrap();
    uploader.discard();
    assert_eq!(read().unwrap(), [7; 256]);
    drop((image, uploader));
    rig.finish();
}

/// Lets another thread work while a submission is on its way to the queue, and looks whether it could.
#[derive(Debug, Default)]
struct Meanwhile {
    thread: Mutex<Option<(mpsc::Sender<()>, mpsc::Receiver<()>)>>,
    has_worked: AtomicBool,
}

impl Hook for Meanwhile {
    fn reached(&self, point: Point) {
        if point != Point::BeforeSubmit {
            return;
        }
        let Some((begin, done)) = self.thread.lock().unwrap().take() else { return };
        begin.send(()).unwrap();
        // Time in which it could stage its copy, if nothing kept it from that.
        self.has_worked.store(done.recv_timeout(Duration::from_millis(50)).is_ok(), Relaxed);
    }
}

#[test]
fn another_uploader_stages_nothing_to_an_image_while_a_read_of_it_is_submitted() {
    let inner = SimulatedGpu::new(Profile::named("discrete-no-bar").unwrap());
    let device = HookedDevice::<Meanwhile>::new(inner);
    let gpu = Gpu::new(device.clone(), GpuDesc::default()).unwrap();
    let mut desc = UploaderDesc::default();
    desc.image_queue = Some(QueueIndex(2));
    let uploader = Uploader::new(gpu.memory(), desc).unwrap();
    let desc = ImageDesc::new(8, 8, 4).with_sharing_mode(SharingMode::Concurrent);
    let image = gpu.create_image(&desc, &MemoryUsage::GpuOnly.with_name("picture")).unwrap();
    let whole = ImagePart::default();
    gpu.uploads().write_image(&image, &[7; 256]).unwrap();
    gpu.wait(gpu.uploads().submit().unwrap()).unwrap();
    // Twice the same image.
    let reads = [0, 1].map(|_| gpu.reads().read_image(&image, &whole).unwrap());
    let (begin, begins) = mpsc::channel();
    let (done, is_done) = mpsc::channel();
    *device.hook.thread.lock().unwrap() = Some((begin, is_done));
    std::thread::scope(|scope| {
        let (uploader, image) = (&uploader, &image);
        scope.spawn(move || {
            begins.recv().unwrap();
            uploader.write_image(image, &ImageWrite::default(), &[8; 256]).unwrap();
            // The read is over, perhaps.
            let _ = done.send(());
        });
        gpu.reads().submit().unwrap();
    });
    assert!(!device.hook.has_worked.load(Relaxed), "the copies of the read name the state before");
    let written = uploader.submit().unwrap();
    for read in &reads {
        assert_eq!(gpu.reads().wait(read).unwrap(), [7; 256]);
    }
    gpu.wait(written).unwrap();
    let read = gpu.reads().read_image(&image, &whole).unwrap();
    assert_eq!(gpu.reads().wait(&read).unwrap(), [8; 256]);
    drop((image, uploader, read, reads, gpu));
    assert_eq!(device.inner.validation_errors(), Vec::<String>::new());
}

#[test]
fn an_uploader_that_waits_for_work_to_come_is_refused_since_a_read_would_come_before_that() {
    let rig = Rig::new();
    let mut desc = UploaderDesc::default();
    desc.queue = Some(QueueIndex(2));
    let uploader = Uploader::new(rig.gpu.memory(), desc).unwrap();
    let (buffer, other) = (rig.buffer(64), rig.buffer(64));
    rig.gpu.uploads().write_buffer(&buffer, 0, &[7; 64]).unwrap();
    rig.gpu.uploads().submit().unwrap();
    for queue in [QueueIndex(0), QueueIndex(1), QueueIndex(2)] {
        let next = TimelineValue(rig.device.submitted(queue).0 + 1);
        let point = TimelinePoint { queue, value: next };
        let refused = uploader.wait_for(point).unwrap_err();
        assert_eq!(refused, UploadError::NotSubmitted { point });
        assert!(refused.to_string().contains("submit it before"), "{refused}");
    }
    // The read waits for all that is submitted, also for this, and takes the first queue's next value.
    uploader.update(&other, 0, &[8; 64]).unwrap();
    uploader.submit().unwrap();
    let read = rig.gpu.reads().read_buffer(&buffer, 0, 64).unwrap();
    assert_eq!(rig.gpu.reads().wait(&read).unwrap(), [7; 64]);
    drop((buffer, other, uploader, read));
    rig.finish();
}

#[test]
fn a_callback_of_a_read_that_fails_may_upload_to_its_image() {
    let rig = Rig::new();
    let uploader = Arc::new(Uploader::new(rig.gpu.memory(), UploaderDesc::default()).unwrap());
    let image = Arc::new(image(&rig, "uploaded to"));
    rig.gpu.uploads().write_image(&image, &[7; 256]).unwrap();
    let read = rig.gpu.reads().read_image(&image, &ImagePart::default()).unwrap();
    rig.gpu.reads().wait(&read).unwrap();
    drop(read);
    let (sender, called) = mpsc::channel();
    let (to, by) = (Arc::clone(&image), Arc::clone(&uploader));
    let read = rig.gpu.reads().read_image(&image, &ImagePart::default()).unwrap();
    read.on_finish(move |read| {
        assert!(read.bytes().is_err());
        sender.send(by.write_image(&to, &ImageWrite::default(), &[8; 256])).unwrap();
    });
    // The first call is the submission: there is memory, which was used before.
    rig.device.fail_call(1, DeviceError::OutOfHostMemory);
    let refused = rig.gpu.reads().submit();
    assert_eq!(refused, Err(ReadError::Device(DeviceError::OutOfHostMemory)));
    assert_eq!(called.try_recv(), Ok(Ok(())));
    rig.gpu.wait(uploader.submit().unwrap()).unwrap();
    let read = rig.gpu.reads().read_image(&image, &ImagePart::default()).unwrap();
    assert_eq!(rig.gpu.reads().wait(&read).unwrap(), [8; 256]);
    drop((image, uploader, read));
    rig.finish();
}

#[test]
fn a_read_is_waited_for_by_its_own_gpu_alone() {
    let (rig, other) = (Rig::new(), Rig::new());
    let buffer = rig.buffer(64);
    let read = rig.gpu.reads().read_buffer(&buffer, 0, 64).unwrap();
    let refused = other.gpu.reads().wait(&read).unwrap_err();
    assert!(matches!(refused, ReadError::WrongTracker { .. }), "{refused}");
    assert_eq!(read.status(), ReadStatus::Pending);
    drop((read, buffer));
    rig.finish();
    other.finish();
}

#[test]
fn a_gpu_that_is_dropped_calls_back_for_the_reads_in_flight() {
    let rig = Rig::new();
    let buffer = rig.buffer(64);
    rig.gpu.uploads().write_buffer(&buffer, 0, &[7; 64]).unwrap();
    let (sender, called) = mpsc::channel();
    let read = rig.gpu.reads().read_buffer(&buffer, 0, 64).unwrap();
    read.on_finish(move |read| sender.send(read.bytes()).unwrap());
    rig.gpu.reads().submit().unwrap();
    drop((buffer, rig.gpu));
    assert_eq!(called.recv().unwrap().unwrap(), [7; 64]);
    assert_eq!((rig.device.usage().memory_objects, rig.device.usage().buffers), (0, 0));
}

#[test]
fn a_tool_that_waits_for_each_read_and_has_no_frames_uses_its_memory_again() {
    let rig = Rig::new();
    let buffer = rig.buffer(64);
    for number in 0..100 {
        rig.gpu.uploads().update_buffer(&buffer, 0, &[number; 64]).unwrap();
        let mut bytes = [0; 64];
        rig.gpu.read_buffer(&buffer, 0, &mut bytes).unwrap();
        assert_eq!(bytes, [number; 64]);
    }
    assert!(rig.gpu.reads().statistics().bytes <= 4 * (64 << 10), "{:?}", rig.gpu.reads().statistics());
    drop(buffer);
    rig.finish();
}

#[test]
fn images_are_read_while_they_are_written_in_pieces_over_another_queue() {
    for sharing in [SharingMode::Concurrent, SharingMode::Exclusive] {
        let mut uploader = UploaderDesc::default();
        (uploader.queue, uploader.image_queue) = (Some(QueueIndex(2)), Some(QueueIndex(2)));
        (uploader.staging, uploader.when_full) = (16 << 10, WhenFull::Wait(Duration::from_secs(60)));
        let rig = Rig::with(GpuDesc::default().with_uploader(uploader));
        let desc = ImageDesc::new(64, 64, 4).with_sharing_mode(sharing);
        let image = rig.gpu.create_image(&desc, &options()).unwrap();
        rig.gpu.uploads().write_image(&image, &[0; 64 * 64 * 4]).unwrap();
        let (gpu, image_of) = (&rig.gpu, &image);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for round in 1..30 {
                    gpu.uploads().write_image(image_of, &[round; 64 * 64 * 4]).unwrap();
                }
            });
            for _ in 0..60 {
                let read = gpu.reads().read_image(image_of, &ImagePart::default()).unwrap();
                match gpu.reads().wait(&read) {
                    Ok(bytes) => assert_eq!(bytes.len(), 64 * 64 * 4),
                    // It belongs to the queue that writes.
                    Err(error) => assert!(matches!(error, ReadError::BeingWritten { .. }), "{error}"),
                }
            }
        });
        let read = rig.gpu.reads().read_image(&image, &ImagePart::default()).unwrap();
        assert_eq!(rig.gpu.reads().wait(&read).unwrap(), [29; 64 * 64 * 4]);
        drop((image, read));
        // The device found no copy that another races, or of what another family owns.
        rig.finish();
    }
}

#[derive(Default)]
struct Woken(AtomicU32);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}
