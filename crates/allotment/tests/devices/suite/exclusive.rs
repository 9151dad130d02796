//! Exclusive buffers: written over queues of other families, and found by the family to which they belong. Textures are in
//! `whole_textures.rs`. A device with one family says that this does not apply.

use allotment::device::{
    BufferCopy, BufferDesc, OwnedPart, OwnershipTransfer, QueueDevice as _, QueueIndex, QueueKind,
    SharingMode, Submission, TimelinePoint,
};
use allotment::gpu::GpuDesc;
use allotment::memory::{AccessError, Buffer, Transfer, TransferError};
use allotment::upload::{UploadError, UploadHandle, Uploader, UploaderDesc, WhenFull};
use allotment::{AllocationOptions, MemoryUsage};

use super::allocator::KIB;
use super::stage::Stage;
use crate::bytes::{Random, assert_same, pattern};
use crate::fixture::{Fixture, Outcome, Test, tests};
use crate::gpu::{Gpu, PATIENCE};

pub(super) fn all<F: Fixture>() -> Vec<Test<F>> {
    tests![F:
        both_halves_of_a_transfer_of_ownership_keep_the_bytes,
        exclusive_buffers_hold_what_was_written_over_queues_of_other_families,
        an_exclusive_buffer_that_is_dropped_before_it_is_handed_over_does_no_harm,
        what_was_submitted_is_handed_over_when_an_uploader_is_dropped,
        frames_find_what_was_uploaded_over_queues_of_other_families,
        frames_take_over_what_was_streamed_once_it_is_there,
        copies_of_exclusive_buffers_on_queues_of_other_families_are_refused,
    ]
}

const ONE_FAMILY: Outcome = Outcome::DoesNotApply("the device has queues of one family");

/// The first queue to whose family exclusive resources belong.
pub(super) fn home<F: Fixture>(gpu: &Gpu<F>) -> QueueIndex {
    let draws = |queue: &QueueIndex| gpu.properties().queues[usize::from(queue.0)] == QueueKind::Graphics;
    gpu.queues().find(draws).unwrap_or(QueueIndex(0))
}

/// The queues of other families.
pub(super) fn foreign<F: Fixture>(gpu: &Gpu<F>) -> Vec<QueueIndex> {
    let family = gpu.device().queue_family(home(gpu));
    gpu.queues().filter(|&queue| gpu.device().queue_family(queue) != family).collect()
}

fn exclusive<F: Fixture>(stage: &Stage<'_, F>, size: u64) -> Buffer<F::Device> {
    let desc = BufferDesc::new(size).with_sharing_mode(SharingMode::Exclusive);
    let options = AllocationOptions::new(MemoryUsage::GpuOnly).with_name("exclusive");
    stage.memory.create_buffer(&desc.into(), &options).unwrap()
}

fn over<F: Fixture>(stage: &Stage<'_, F>, queue: QueueIndex) -> Uploader<F::Device> {
    let mut desc = UploaderDesc::default();
    (desc.queue, desc.staging, desc.when_full) = (Some(queue), 64 * KIB, WhenFull::Wait(PATIENCE));
    Uploader::new(&stage.memory, desc).unwrap()
}

/// A `Gpu` whose uploads go over a queue.
fn front<F: Fixture>(gpu: &Gpu<F>, queue: QueueIndex) -> allotment::Gpu<F::Device> {
    let mut uploads = UploaderDesc::default();
    (uploads.queue, uploads.image_queue, uploads.staging) = (Some(queue), Some(queue), 64 * KIB);
    allotment::Gpu::new(gpu.device().clone(), GpuDesc::default().with_uploader(uploads)).unwrap()
}

/// Submits what is staged, and reads a buffer on the queue to whose family it belongs.
fn assert_holds<F: Fixture>(
    stage: &Stage<'_, F>,
    uploader: &Uploader<F::Device>,
    buffer: &Buffer<F::Device>,
    expected: &[u8],
    what: impl core::fmt::Debug,
) {
    let gpu = stage.gpu;
    let waits: Vec<_> = uploader.submit().unwrap().points().collect();
    let down = gpu.buffer(gpu.readback_type(), expected.len() as u64);
    let handle = buffer.handle();
    let copy = BufferCopy {
        from: &handle,
        from_offset: 0,
        to: down.raw(),
        to_offset: 0,
        size: expected.len() as u64,
    };
    gpu.wait(gpu.try_submit(home(gpu), &waits, &[copy]).unwrap());
    assert_same(&gpu.get(&down), expected, what);
}

fn both_halves_of_a_transfer_of_ownership_keep_the_bytes<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    let home = home(gpu);
    let foreign = foreign(gpu);
    let Some(&other) = foreign.first() else { return ONE_FAMILY };
    let stage = Stage::new(gpu);
    let buffer = exclusive(&stage, 1000);
    let handle = buffer.handle();
    let (up, down) = (gpu.buffer(gpu.upload_type(), 1000), gpu.buffer(gpu.readback_type(), 1000));
    gpu.put(&up, 0, &pattern(1, 1000));
    let into = [BufferCopy { from: up.raw(), from_offset: 0, to: &handle, to_offset: 0, size: 1000 }];
    let out = [BufferCopy { from: &handle, from_offset: 0, to: down.raw(), to_offset: 0, size: 1000 }];
    let part = OwnedPart::Buffer { buffer: &handle, offset: 0, size: 1000 };
    // There and back, and there again.
    let there = [OwnershipTransfer { part, from: home, to: other }];
    let back = [OwnershipTransfer { part, from: other, to: home }];
    let mut waits = Vec::new();
    let steps = [
        (home, Submission { copies: &into, releases: &there, ..Submission::default() }),
        (other, Submission { acquires: &there, releases: &back, ..Submission::default() }),
        (home, Submission { acquires: &back, releases: &there, ..Submission::default() }),
        (other, Submission { acquires: &there, copies: &out, ..Submission::default() }),
    ];
    for (queue, step) in steps {
        let point = gpu.try_submit_all(queue, &Submission { waits: &waits, ..step }).unwrap();
        waits = vec![point];
    }
    waits.into_iter().for_each(|point| gpu.wait(point));
    assert_same(&gpu.get(&down), &pattern(1, 1000), "handed over three times");
    Outcome::Ran
}

fn exclusive_buffers_hold_what_was_written_over_queues_of_other_families<F: Fixture>(
    gpu: &Gpu<F>,
) -> Outcome {
    let queues = foreign(gpu);
    if queues.is_empty() {
        return ONE_FAMILY;
    }
    let stage = Stage::new(gpu);
    for (queue, seed) in queues.into_iter().zip(1..) {
        let mut random = Random::new(seed);
        let uploader = over(&stage, queue);
        let sizes = [1000, 70_000, 300_000];
        let buffers = sizes.map(|size| exclusive(&stage, size));
        let shared = stage.buffer(5000, MemoryUsage::GpuOnly);
        let mut expected = sizes.map(|size| pattern(seed, size));
        for (buffer, bytes) in buffers.iter().zip(&expected) {
            uploader.initialize(buffer, 0, bytes).unwrap();
        }
        for seed in 0..120 {
            let at = random.below(3) as usize;
            let most = if random.below(8) == 0 { sizes[at] } else { 2000 };
            let offset = random.below(sizes[at]);
            let size = 1 + random.below((sizes[at] - offset).min(most));
            let bytes = pattern(1000 + seed, size);
            let range = offset as usize..(offset + size) as usize;
            match random.below(10) {
                0 => {
                    // Its own family writes.
                    let waits: Vec<_> = uploader.submit().unwrap().points().collect();
                    let up = gpu.buffer(gpu.upload_type(), size);
                    gpu.put(&up, 0, &bytes);
                    let handle = buffers[at].handle();
                    let copy =
                        BufferCopy { from: up.raw(), from_offset: 0, to: &handle, to_offset: offset, size };
                    gpu.wait(gpu.try_submit(home(gpu), &waits, &[copy]).unwrap());
                }
                1 => {
                    uploader.update(&buffers[at], offset, &bytes).unwrap();
                    _ = uploader.submit().unwrap();
                }
                2 => {
                    uploader.update(&shared, 0, &bytes[..bytes.len().min(5000)]).unwrap();
                    continue;
                }
                _ => uploader.update(&buffers[at], offset, &bytes).unwrap(),
            }
            expected[at][range].copy_from_slice(&bytes);
            if random.below(12) == 0 {
                assert_holds(&stage, &uploader, &buffers[at], &expected[at], (queue, seed, at));
            }
        }
        for (buffer, bytes) in buffers.iter().zip(&expected) {
            assert_holds(&stage, &uploader, buffer, bytes, queue);
        }
        stage.wait_idle();
    }
    Outcome::Ran
}

fn an_exclusive_buffer_that_is_dropped_before_it_is_handed_over_does_no_harm<F: Fixture>(
    gpu: &Gpu<F>,
) -> Outcome {
    let queues = foreign(gpu);
    if queues.is_empty() {
        return ONE_FAMILY;
    }
    let stage = Stage::new(gpu);
    for queue in queues {
        let uploader = over(&stage, queue);
        for size in [100, 40_000, 200_000] {
            let bytes = pattern(size, size);
            // Submitted, on its way, and not submitted at all.
            let buffer = exclusive(&stage, size);
            uploader.update(&buffer, 0, &bytes).unwrap();
            drop(buffer);
            stage.deletion_queue.reclaim();
            uploader.submit().unwrap();
            stage.wait_idle();
            stage.deletion_queue.reclaim();
            assert_eq!(stage.deletion_queue.statistics().pending, 0, "nothing keeps it alive any more");
            let buffer = exclusive(&stage, size);
            uploader.update(&buffer, 0, &bytes).unwrap();
            drop(buffer);
            uploader.discard();
            stage.deletion_queue.reclaim();
        }
        // Of the last one a batch may have submitted itself.
        uploader.submit().unwrap();
        stage.wait_idle();
        assert_eq!(stage.tracker.statistics().open, 0, "no recording is left");
    }
    Outcome::Ran
}

fn what_was_submitted_is_handed_over_when_an_uploader_is_dropped<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    let home = home(gpu);
    let queues = foreign(gpu);
    if queues.is_empty() {
        return ONE_FAMILY;
    }
    let stage = Stage::new(gpu);
    for queue in queues {
        let buffer = exclusive(&stage, 300_000);
        let bytes = pattern(3, 300_000);
        let uploader = over(&stage, queue);
        // Batches submit themselves, since this is more than fits. The last one is discarded.
        uploader.update(&buffer, 0, &bytes).unwrap();
        drop(uploader);
        stage.wait_idle();
        let down = gpu.buffer(gpu.readback_type(), 8 * KIB);
        let handle = buffer.handle();
        let copy = BufferCopy { from: &handle, from_offset: 0, to: down.raw(), to_offset: 0, size: 8 * KIB };
        gpu.wait(gpu.try_submit(home, &[], &[copy]).unwrap());
        assert_same(&gpu.get(&down), &bytes[..8 << 10], queue);
    }
    Outcome::Ran
}

fn frames_find_what_was_uploaded_over_queues_of_other_families<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    let queues = foreign(gpu);
    if queues.is_empty() {
        return ONE_FAMILY;
    }
    for queue in queues {
        let front = front(gpu, queue);
        let options = AllocationOptions::new(MemoryUsage::GpuOnly).with_name("exclusive");
        let desc = BufferDesc::new(3000).with_sharing_mode(SharingMode::Exclusive);
        let buffers = [&options, &options.clone().relocatable()]
            .map(|options| front.create_buffer(&desc.into(), options).unwrap());
        let mut coming = Vec::new();
        for number in 0..20 {
            let frame = front.begin_frame().unwrap();
            for (at, buffer) in (0..).zip(&buffers) {
                let bytes = pattern(number + at, 3000);
                let uploads = front.uploads();
                // Half of them streamed.
                let handle = UploadHandle::streamed();
                let streamed = uploads.with_handle(&handle);
                let uploads = if (number / 2 + at) % 2 == 0 { streamed } else { uploads };
                uploads.update_buffer(buffer, 0, &bytes).unwrap();
                let read = front.reads().read_buffer(buffer, 0, 3000).unwrap();
                coming.push((read, bytes));
            }
            frame.end().unwrap();
            if number % 5 == 4 {
                front.wait_idle().unwrap();
                for (read, bytes) in coming.drain(..) {
                    assert_same(&read.bytes().unwrap(), &bytes, (queue, number));
                }
            }
        }
        let mut found = vec![0; 3000];
        front.read_buffer(&buffers[0], 0, &mut found).unwrap();
        assert_same(&found, &pattern(19, 3000), queue);
        drop(buffers);
        front.wait_idle().unwrap();
        assert_eq!(front.deletion_queue().statistics().pending, 0);
    }
    Outcome::Ran
}

fn frames_take_over_what_was_streamed_once_it_is_there<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    let queues = foreign(gpu);
    if queues.is_empty() {
        return ONE_FAMILY;
    }
    for queue in queues {
        let front = front(gpu, queue);
        let options = AllocationOptions::new(MemoryUsage::GpuOnly).with_name("exclusive");
        let desc = BufferDesc::new(300_000).with_sharing_mode(SharingMode::Exclusive);
        let buffer = front.create_buffer(&desc.into(), &options).unwrap();
        let down = gpu.buffer(gpu.readback_type(), 300_000);
        for round in 0..6 {
            let bytes = pattern(round, 300_000);
            let handle = UploadHandle::streamed();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    front.uploads().with_handle(&handle).update_buffer(&buffer, 0, &bytes).unwrap();
                });
                let frame = || {
                    let frame = front.begin_frame().unwrap();
                    let has_arrived = handle.status().is_final();
                    let source = buffer.handle();
                    let copy = BufferCopy {
                        from: &source,
                        from_offset: 0,
                        to: down.raw(),
                        to_offset: 0,
                        size: 300_000,
                    };
                    let copies = if has_arrived { vec![copy] } else { Vec::new() };
                    let submit = |queue, waits: &[TimelinePoint]| {
                        let work = Submission { waits, copies: &copies, ..Submission::default() };
                        // SAFETY: the copy reads what has arrived and was handed over before this call.
                        unsafe { gpu.device().submit(queue, &work) }
                    };
                    let drawn = frame.submit(home(gpu), submit).unwrap();
                    frame.end().unwrap();
                    has_arrived.then_some(drawn)
                };
                let drawn = loop {
                    if let Some(drawn) = frame() {
                        break drawn;
                    }
                };
                front.wait(drawn).unwrap();
            });
            assert_same(&gpu.get(&down), &bytes, (queue, round));
        }
        drop(buffer);
        front.wait_idle().unwrap();
        assert_eq!(front.deletion_queue().statistics().pending, 0);
    }
    Outcome::Ran
}

fn copies_of_exclusive_buffers_on_queues_of_other_families_are_refused<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    let queues = foreign(gpu);
    if queues.is_empty() {
        return ONE_FAMILY;
    }
    let stage = Stage::new(gpu);
    let buffer = exclusive(&stage, 1000);
    for queue in queues {
        let mut transfer = Transfer::new(stage.memory.allocator(), queue, 1000).unwrap().through_the_queue();
        let refused = buffer.with_raw(|raw| transfer.download_from(raw, 0, &mut [0; 10])).unwrap_err();
        let is_named = matches!(refused, TransferError::Access(AccessError::OtherFamily { queue: of, .. }) if of == queue);
        assert!(is_named, "{refused}");
        drop(transfer);
        // An upload that waits for what is not submitted yet could keep its own family from getting there.
        let uploader = over(&stage, queue);
        let next = allotment::device::TimelineValue(gpu.device().submitted(home(gpu)).0 + 1);
        let point = TimelinePoint { queue: home(gpu), value: next };
        uploader.update(&buffer, 0, &[1; 10]).unwrap();
        assert_eq!(uploader.wait_for(point), Err(UploadError::NotSubmitted { point }));
        let submitted = uploader.submit().unwrap();
        stage.tracker.wait_all(&submitted, PATIENCE).unwrap();
    }
    Outcome::Ran
}
