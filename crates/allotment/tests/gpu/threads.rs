//! Several threads and one frame; loader threads beside frames.

use core::time::Duration;
use std::thread;

use allotment::device::simulated::SimulatedGpu;
use allotment::device::{BufferDesc, QueueDevice as _};
use allotment::gpu::{Frame, Gpu, GpuDesc};
use allotment::memory::blocks::{BlockSizes, EmptyBlockPolicy};
use allotment::memory::defragmentation::PassLimits;
use allotment::upload::{Uploader, UploaderDesc, WhenFull};
use allotment::{Alignment, AllocatorDesc, MemoryUsage};

use crate::rig::{QUEUE, Rig};

#[test]
fn a_gpu_and_a_frame_are_shared_between_threads() {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<Gpu<SimulatedGpu>>();
    is_shared::<Frame<SimulatedGpu>>();
}

#[test]
fn threads_record_within_one_frame() {
    let rig = Rig::new();
    let results = rig.buffer(8 * 1024);
    for number in 0..20_u8 {
        let frame = rig.gpu.begin_frame().unwrap();
        thread::scope(|scope| {
            for part in 0..8_u8 {
                let (rig, frame, results) = (&rig, &frame, &results);
                scope.spawn(move || {
                    let shared = frame.upload([number ^ part; 512]).unwrap();
                    let mut arena = frame.upload_arena();
                    let mut own = arena.allocate(512, Alignment::new(256).unwrap()).unwrap();
                    own.write(0, &[number + part; 512]).unwrap();
                    let at = u64::from(part) * 1024;
                    let commands = frame.command_allocator(QUEUE).unwrap();
                    commands.copy_buffer((&shared.buffer, shared.offset), (&results.handle(), at), 512);
                    commands.copy_buffer((own.buffer(), own.offset()), (&results.handle(), at + 512), 512);
                    rig.submit(frame, &commands).unwrap();
                });
            }
        });
        frame.end().unwrap();
        let mut found = vec![0; 8 * 1024];
        rig.gpu.read_buffer(&results, 0, &mut found).unwrap();
        for (part, found) in (0..).zip(found.chunks(1024)) {
            assert_eq!((found[0], found[511]), (number ^ part, number ^ part));
            assert_eq!((found[512], found[1023]), (number + part, number + part));
        }
    }
    drop(results);
    rig.finish();
}

#[test]
fn loader_threads_upload_while_frames_run() {
    let rig = Rig::with(GpuDesc::default());
    let loaded: Vec<_> = thread::scope(|scope| {
        let load = |seed: u8| {
            let (gpu, rig) = (rig.gpu.clone(), &rig);
            move || {
                let mut meshes = Vec::new();
                for i in 0..40_u8 {
                    let mesh = rig.buffer(10_000);
                    gpu.uploads().write_buffer(&mesh, 0, &[seed ^ i; 10_000]).unwrap();
                    if i % 8 == 0 {
                        gpu.uploads().submit().unwrap();
                    }
                    meshes.push((seed ^ i, mesh));
                }
                meshes
            }
        };
        let threads = [scope.spawn(load(1)), scope.spawn(load(100)), scope.spawn(load(200))];
        for _ in 0..100 {
            let frame = rig.gpu.begin_frame().unwrap();
            rig.submit(&frame, &frame.command_allocator(QUEUE).unwrap()).unwrap();
            frame.end().unwrap();
        }
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    for (value, mesh) in &loaded {
        let mut found = [0; 10_000];
        rig.gpu.read_buffer(mesh, 0, &mut found).unwrap();
        assert_eq!(found, [*value; 10_000]);
    }
    drop(loaded);
    rig.finish();
}

/// A step keeps recordings from being opened while it gives buffers their new handles, for which it needs their locks. An
/// uploader holds such a lock while it records a piece, for which it opens a recording. Between two pieces the buffer may
/// move.
#[test]
fn an_upload_that_waits_for_the_gpu_and_a_step_do_not_wait_for_each_other() {
    const SIZE: usize = 60 << 10;
    let mut desc = AllocatorDesc::default();
    (desc.block_sizes, desc.empty_blocks, desc.threads) =
        (BlockSizes::fixed(1 << 20), EmptyBlockPolicy::NONE, 1);
    let rig = Rig::with(GpuDesc::default().with_allocator(desc));
    let options = MemoryUsage::GpuOnly.with_name("tile").relocatable();
    let create = |_| rig.gpu.create_buffer(&BufferDesc::new(SIZE as u64), &options).unwrap();
    let tiles: Vec<_> = (0..64).map(create).collect::<Vec<_>>().into_iter().step_by(4).collect();
    rig.gpu.wait_idle().unwrap();
    rig.gpu.reclaim();

    rig.device.pause_queues();
    let submitted = |queue| rig.device.submitted(queue).0;
    let before = submitted(QUEUE);
    let mut moves = 0;
    thread::scope(|scope| {
        let (rig, tiles) = (&rig, &tiles);
        scope.spawn(move || {
            // Less than a buffer, so that the upload fills it and waits for the first of its batches.
            let mut desc = UploaderDesc::default();
            (desc.staging, desc.queue) = (16 << 10, Some(QUEUE));
            // The queues are paused for as long as the other thread takes.
            desc.when_full = WhenFull::Wait(Duration::from_secs(60));
            let uploader = Uploader::new(rig.gpu.memory(), desc).unwrap();
            for tile in tiles {
                uploader.update(tile, 0, &[7; SIZE]).unwrap();
            }
            rig.gpu.wait(uploader.submit().unwrap()).unwrap();
        });
        while submitted(QUEUE) < before + 1 {
            thread::yield_now();
        }
        // A batch is submitted, and the uploader is about to wait, or waits.
        for _ in 0..100 {
            moves += rig.gpu.defragmenter().step(PassLimits::NONE).unwrap().statistics.moves;
            thread::yield_now();
        }
        rig.device.resume_queues();
    });
    moves += rig.gpu.defragmenter().step(PassLimits::NONE).unwrap().statistics.moves;
    assert!(moves > 0, "it could have moved some");
    for tile in &tiles {
        let mut found = vec![0; SIZE];
        rig.gpu.read_buffer(tile, 0, &mut found).unwrap();
        assert!(found.iter().all(|&byte| byte == 7));
    }
    drop((tiles, options));
    rig.finish();
}
