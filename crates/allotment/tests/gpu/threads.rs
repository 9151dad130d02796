//! Several threads and one frame; loader threads beside frames.

use std::thread;

use allotment::Alignment;
use allotment::device::simulated::SimulatedGpu;
use allotment::gpu::{Frame, Gpu, GpuDesc};

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
                    let mut commands = frame.command_allocator(QUEUE).unwrap();
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
