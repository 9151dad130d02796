//! Uploads without and with a frame.

use allotment::device::{
    BufferCopy, BufferDesc, ImageDesc, ImagePart, QueueDevice as _, QueueIndex, Submission,
};
use allotment::gpu::{Gpu, GpuDesc, GpuError};
use allotment::memory::blocks::BlockSizes;
use allotment::memory::defragmentation::{DefragmentationDesc, DefragmentationStrategy};
use allotment::upload::{FillError, ImageWrite, UploadError, UploadHandle, UploadStatus, UploaderDesc};
use allotment::{AllocatorDesc, MemoryUsage};

use crate::rig::{QUEUE, Rig, options};

#[test]
fn bytes_that_are_uploaded_without_a_frame_can_be_read() {
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
        let buffer = rig.buffer(10_000);
        let bytes: Vec<u8> = (0..10_000_u32).map(|i| i as u8).collect();
        rig.gpu.uploads().write_buffer(&buffer, 0, &bytes).unwrap();
        let points = rig.gpu.uploads().submit().unwrap();
        rig.gpu.wait(points).unwrap();
        let mut found = vec![0; 10_000];
        rig.gpu.read_buffer(&buffer, 0, &mut found).unwrap();
        assert_eq!(found, bytes, "{profile}");
        drop(buffer);
        rig.finish();
    }
}

#[test]
fn commands_wait_for_the_uploads_before_them() {
    let rig = Rig::new();
    let buffer = rig.buffer(4096);
    rig.gpu.uploads().write_buffer(&buffer, 0, &[7; 4096]).unwrap();
    let frame = rig.gpu.begin_frame().unwrap();
    let ticket = rig.read(&frame, (&buffer.handle(), 0), 4096);
    frame.end().unwrap();
    assert_eq!(rig.copied(&ticket), [7; 4096]);
    drop((buffer, ticket));
    rig.finish();
}

#[test]
fn a_closure_that_fails_ends_the_write_with_its_own_error() {
    let mut uploader = UploaderDesc::default();
    uploader.staging = 32 << 10;
    let rig = Rig::with(GpuDesc::default().with_uploader(uploader));
    let desc = ImageDesc::new(64, 64, 4);
    let picture = rig.gpu.create_image(&desc, &MemoryUsage::GpuOnly.with_name("picture")).unwrap();
    let whole = ImageWrite::default();
    // More often than staging memory has space for, should a write keep its own.
    for failing in (0..4).cycle().take(40) {
        let (handle, mut calls) = (UploadHandle::new(), 0);
        let written = rig.gpu.uploads().with_handle(&handle).write_image_with(&picture, &whole, |rows| {
            calls += 1;
            rows.rows_mut().for_each(|row| row.fill(calls));
            if calls > failing { Err(format!("block {calls} has no mode").into()) } else { Ok(()) }
        });
        let error = written.unwrap_err();
        assert_eq!(calls, failing + 1, "it is not called again");
        assert!(error.to_string().contains(&format!("block {calls} has no mode")), "{error}");
        assert!(error.to_string().contains("picture"), "{error}");
        let FillError::Fill { error, .. } = error else { panic!("{error}") };
        assert_eq!(error.to_string(), format!("block {calls} has no mode"));
        rig.gpu.wait(rig.gpu.uploads().submit().unwrap()).unwrap();
        rig.gpu.reclaim();
        assert_eq!(handle.status(), UploadStatus::Lost);
    }
    rig.gpu
        .uploads()
        .write_image_with(&picture, &whole, |rows| {
            rows.rows_mut().for_each(|row| row.fill(9));
            Ok(())
        })
        .unwrap();
    let read = rig.gpu.reads().read_image(&picture, &ImagePart::default()).unwrap();
    assert_eq!(rig.gpu.reads().wait(&read).unwrap(), [9; 64 * 64 * 4]);
    // What the library refuses is not the closure's.
    rig.gpu.uploads().stop();
    let refused = rig.gpu.uploads().write_image_with(&picture, &whole, |_| Err("not called".into()));
    assert!(matches!(refused, Err(FillError::Upload(UploadError::Interrupted { .. }))), "{refused:?}");
    drop((picture, read));
    rig.finish();
}

#[test]
fn an_update_waits_for_what_still_reads_the_old_bytes() {
    let rig = Rig::new();
    let buffer = rig.buffer(4096);
    rig.gpu.uploads().write_buffer(&buffer, 0, &[1; 4096]).unwrap();
    rig.gpu.wait(rig.gpu.uploads().submit().unwrap()).unwrap();
    rig.device.pause_queues();
    let frame = rig.gpu.begin_frame().unwrap();
    let old = rig.read(&frame, (&buffer.handle(), 0), 4096);
    rig.gpu.uploads().update_buffer(&buffer, 0, &[2; 4096]).unwrap();
    let new = rig.read(&frame, (&buffer.handle(), 0), 4096);
    frame.end().unwrap();
    rig.device.resume_queues();
    assert_eq!(rig.copied(&old), [1; 4096]);
    assert_eq!(rig.copied(&new), [2; 4096]);
    drop((buffer, old, new));
    rig.finish();
}

#[test]
fn an_upload_to_a_buffer_that_a_step_moved_arrives_after_the_copy_of_the_move() {
    let mut allocator = AllocatorDesc::default();
    allocator.block_sizes = BlockSizes::fixed(1 << 20);
    let full = DefragmentationDesc::new(DefragmentationStrategy::Full);
    let desc = GpuDesc::default().with_allocator(allocator);
    let rig = Rig::with(desc.with_defragmentation(full));
    let uploads = rig.gpu.uploads();
    let mesh = |_| rig.gpu.create_buffer(&BufferDesc::new(256 << 10), &options().relocatable()).unwrap();
    let mut meshes: Vec<_> = (0..16).map(mesh).collect();
    meshes.iter().for_each(|mesh| uploads.write_buffer(mesh, 0, &[1; 1000]).unwrap());
    let mut index = 0;
    meshes.retain(|_| (index % 4 == 0, index += 1).0);
    rig.gpu.wait_idle().unwrap();

    // The copies of a move wait for this one on another queue; an upload on a third queue does not.
    let (slow, back) = (rig.buffer(32 << 20), rig.buffer(32 << 20));
    let (from, to) = (slow.handle(), back.handle());
    let copy = BufferCopy { from: &from, from_offset: 0, to: &to, to_offset: 0, size: 32 << 20 };
    let mut moves = 0;
    while moves == 0 {
        let recording = rig.gpu.record("a slow copy");
        let submit = |queue, waits: &[_]| {
            let work = Submission { waits, copies: core::slice::from_ref(&copy), ..Submission::default() };
            // SAFETY: the ranges lie in the buffers, which live until the queue is idle.
            let copy = || unsafe { rig.device.submit(queue, &work) };
            (1..8).for_each(|_| _ = copy().unwrap());
            copy()
        };
        rig.gpu.submit(recording, rig.other_queue(), submit).unwrap();
        moves = rig
            .gpu
            .begin_frame()
            .unwrap()
            .end()
            .unwrap()
            .defragmentation
            .map_or(0, |step| step.statistics.moves);
    }
    meshes.iter().for_each(|mesh| uploads.write_buffer(mesh, 0, &[2; 1000]).unwrap());
    rig.gpu.wait(uploads.submit().unwrap()).unwrap();
    rig.gpu.wait_idle().unwrap();
    for mesh in &meshes {
        let mut found = vec![0; 1000];
        rig.gpu.read_buffer(mesh, 0, &mut found).unwrap();
        assert_eq!(found, [2; 1000], "moved {} times", mesh.moves());
    }
    drop((meshes, slow, back));
    rig.finish();
}

#[test]
fn a_program_that_only_computes_needs_no_frame() {
    let rig = Rig::new();
    let buffer = rig.buffer(64);
    rig.gpu.uploads().write_buffer(&buffer, 0, &[9; 64]).unwrap();
    let recording = rig.gpu.record("compute");
    let device = rig.device.clone();
    let mut seen = 0;
    let point = rig.gpu.submit(recording, QUEUE, |queue, waits| {
        seen = waits.len();
        // SAFETY: there is nothing in it.
        unsafe { device.submit(queue, &Submission { waits, ..Submission::default() }) }
    });
    rig.gpu.wait(point.unwrap()).unwrap();
    assert_eq!(seen, 1, "the upload");
    drop(buffer);
    assert_eq!(rig.gpu.reclaim().count, 1);
    rig.finish();
}

#[test]
fn an_invalid_configuration_is_named() {
    let device = Rig::new().device;
    let mut uploader = UploaderDesc::default();
    uploader.queue = Some(QueueIndex(9));
    let refused = Gpu::new(device, GpuDesc::default().with_uploader(uploader)).map(drop);
    let expected = UploadError::NoSuchQueue { queue: QueueIndex(9) };
    assert_eq!(refused, Err(GpuError::Uploader(expected)));
    assert_eq!(
        refused.unwrap_err().to_string(),
        "invalid uploader configuration: the device has no queue 9, choose one of its `properties().queues`"
    );
}

#[test]
fn buffers_outlive_their_gpu() {
    let rig = Rig::new();
    let buffer = rig.buffer(4096);
    let Rig { device, gpu } = rig;
    gpu.uploads().write_buffer(&buffer, 0, &[1; 4096]).unwrap();
    drop(gpu);
    assert_eq!(device.usage().buffers, 1);
    drop(buffer);
    assert_eq!(device.usage().buffers, 0);
    assert_eq!(device.validation_errors(), Vec::<String>::new());
}

#[test]
fn a_buffer_of_another_gpu_is_refused() {
    let (one, other) = (Rig::new(), Rig::new());
    let buffer = one.gpu.create_buffer(&BufferDesc::new(64), &options()).unwrap();
    assert!(other.gpu.uploads().write_buffer(&buffer, 0, &[1]).is_err());
    assert!(other.gpu.read_buffer(&buffer, 0, &mut [0]).is_err());
    drop(buffer);
    one.finish();
    other.finish();
}
