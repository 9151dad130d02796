//! Queues that access a buffer while a step moves it. The simulated GPU reports accesses that no wait orders, however
//! its queues happen to run.

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use core::time::Duration;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use allotment::device::simulated::{Profile, SimulatedBuffer, SimulatedGpu};
use allotment::device::{BufferCopy, BufferDesc, Device, QueueDevice, QueueIndex, Submission};
use allotment::gpu::{Gpu, GpuDesc};
use allotment::memory::blocks::{BlockSizes, EmptyBlockPolicy};
use allotment::memory::defragmentation::{
    DefragmentationDesc, DefragmentationStrategy, PassLimits, StepOutcome,
};
use allotment::memory::{AccessError, Buffer, Transfer};
use allotment::upload::{Uploader, UploaderDesc};
use allotment::{AllocationOptions, AllocatorDesc, MemoryUsage};

use crate::hooked_device::{Hook, HookedDevice, Point};
use crate::rig::Rig;

const OTHER: QueueIndex = QueueIndex(1);
const SIZE: u64 = 60 << 10;

/// A `Gpu` whose steps empty each block that they can.
fn desc() -> GpuDesc {
    let mut desc = AllocatorDesc::default();
    (desc.block_sizes, desc.empty_blocks, desc.threads) =
        (BlockSizes::fixed(1 << 20), EmptyBlockPolicy::NONE, 1);
    GpuDesc::default()
        .with_allocator(desc)
        .with_defragmentation(DefragmentationDesc::new(DefragmentationStrategy::Full))
}

fn relocatable() -> AllocationOptions {
    MemoryUsage::GpuOnly.with_name("tile").relocatable()
}

/// Fills four blocks with tiles, and leaves a quarter of each.
fn tiles<D>(gpu: &Gpu<D>) -> Vec<Buffer<D>>
where
    D: for<'a> Device<BufferInfo<'a> = BufferDesc>,
{
    tiles_of(gpu, &relocatable())
}

fn tiles_of<D>(gpu: &Gpu<D>, options: &AllocationOptions) -> Vec<Buffer<D>>
where
    D: for<'a> Device<BufferInfo<'a> = BufferDesc>,
{
    let create = |_| gpu.create_buffer(&BufferDesc::new(SIZE), options).unwrap();
    let tiles: Vec<_> = (0..64).map(create).collect::<Vec<_>>().into_iter().step_by(4).collect();
    tiles.iter().for_each(|tile| gpu.uploads().write_buffer(tile, 0, &[1; SIZE as usize]).unwrap());
    gpu.wait_idle().unwrap();
    tiles
}

/// Steps until something was moved.
fn step<D: Device>(gpu: &Gpu<D>) -> u32 {
    let steps = (0..1000).map(|_| gpu.defragmenter().step(PassLimits::NONE).unwrap().statistics.moves);
    steps.into_iter().find(|moves| *moves != 0).unwrap_or(0)
}

#[test]
fn the_copies_of_a_step_come_after_what_other_queues_were_given_before() {
    let rig = Rig::with(desc());
    let tiles = tiles(&rig.gpu);
    rig.device.pause_queues();
    tiles.iter().for_each(|tile| rig.gpu.uploads().write_buffer(tile, 0, &[2; SIZE as usize]).unwrap());
    rig.gpu.uploads().submit().unwrap();
    assert!(step(&rig.gpu) > 0);
    rig.device.resume_queues();
    for tile in &tiles {
        let mut found = vec![0; SIZE as usize];
        rig.gpu.read_buffer(tile, 0, &mut found).unwrap();
        assert!(found.iter().all(|byte| *byte == 2));
    }
    drop(tiles);
    rig.finish();
}

type Act = Box<dyn FnOnce() + Send>;

/// Does something once, when the next work is about to be submitted, or when it has been.
#[derive(Default)]
struct Once {
    armed: Mutex<Option<(Point, Act)>>,
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Once")
    }
}

impl Hook for Once {
    fn reached(&self, point: Point) {
        let armed = self.armed.lock().unwrap().take_if(|(at, _)| *at == point);
        armed.into_iter().for_each(|(_, act)| act());
    }
}

/// A step is about to submit its copies, or has just done so, when another thread records a write of one of the buffers on
/// another queue and submits it: if that is possible, then without an order.
#[test]
fn a_write_that_is_recorded_while_a_step_submits_its_copies_comes_after_them() {
    for point in [Point::BeforeSubmit, Point::AfterSubmit] {
        let device = HookedDevice::<Once>::new(SimulatedGpu::new(Profile::named("discrete-no-bar").unwrap()));
        let gpu = Gpu::new(device.clone(), desc()).unwrap();
        let tiles = Arc::new(tiles(&gpu));
        let source = gpu.create_buffer(&BufferDesc::new(SIZE), &relocatable()).unwrap();
        gpu.uploads().write_buffer(&source, 0, &[2; SIZE as usize]).unwrap();
        gpu.wait_idle().unwrap();
        device.inner.pause_queues();

        let (done, thread) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(None)));
        let act = {
            let (gpu, tiles, done, thread) = (gpu.clone(), tiles.clone(), done.clone(), thread.clone());
            move || {
                let is_done = done.clone();
                *thread.lock().unwrap() = Some(thread::spawn(move || {
                    let recording = gpu.record("beside a step");
                    let (from, targets) = (source.handle(), tiles.iter().map(Buffer::handle));
                    let targets: Vec<SimulatedBuffer> = targets.collect();
                    gpu.submit(recording, OTHER, |queue, waits| {
                        let copy =
                            |to| BufferCopy { from: &from, from_offset: 0, to, to_offset: 0, size: SIZE };
                        let copies: Vec<_> = targets.iter().map(copy).collect();
                        let work = Submission { waits, copies: &copies, ..Submission::default() };
                        // SAFETY: the ranges lie in the buffers, which live until the queues are idle.
                        unsafe { gpu.device().submit(queue, &work) }
                    })
                    .unwrap();
                    done.store(true, Relaxed);
                }));
                wait_a_while(&is_done);
            }
        };
        *device.hook.armed.lock().unwrap() = Some((point, Box::new(act)));
        step(&gpu);
        let thread = thread.lock().unwrap().take();
        thread.into_iter().for_each(|thread| thread.join().unwrap());
        device.inner.resume_queues();
        gpu.wait_idle().unwrap();
        assert_eq!(device.inner.validation_errors(), [""; 0], "{point:?}");
        for tile in tiles.iter() {
            let mut found = vec![0; SIZE as usize];
            gpu.read_buffer(tile, 0, &mut found).unwrap();
            assert!(found.iter().all(|byte| *byte == 2));
        }
    }
}

/// Waits for a thread that may have to wait for this one: those that need not take microseconds.
fn wait_a_while(done: &AtomicBool) {
    let began = Instant::now();
    while !done.load(Relaxed) && began.elapsed() < Duration::from_millis(200) {
        thread::yield_now();
    }
}

/// A step has found places for the buffers, and is about to create the first of them there.
#[test]
fn no_write_is_refused_since_a_step_is_about_to_move_the_buffer() {
    type Write = fn(&Gpu<HookedDevice<Once>>, &Buffer<HookedDevice<Once>>);
    let writes: [Write; 6] = [
        |gpu, tile| gpu.uploads().write_buffer(tile, 0, &[2; 1000]).unwrap(),
        |gpu, tile| gpu.uploads().update_buffer(tile, 0, &[2; 1000]).unwrap(),
        |gpu, tile| {
            let uploader = Uploader::new(gpu.memory(), UploaderDesc::default()).unwrap();
            uploader.initialize(tile, 0, &[2; 1000]).unwrap();
            gpu.wait(uploader.submit().unwrap()).unwrap();
        },
        |gpu, tile| match tile.write(0, &[2; 1000]) {
            Err(AccessError::NotHostVisible { .. }) => {
                gpu.uploads().write_buffer(tile, 0, &[2; 1000]).unwrap();
            }
            written => written.unwrap(),
        },
        |gpu, tile| {
            tile.with_raw(|raw| {
                let mut transfer = Transfer::new(gpu.allocator(), OTHER, 4096).unwrap();
                transfer.upload_to(raw, 0, &[2; 1000]).unwrap();
            });
        },
        |gpu, tile| {
            // Reads wait for nothing: the bytes are where they were.
            let mut found = [0; 1000];
            gpu.read_buffer(tile, 0, &mut found).unwrap();
            assert_eq!(found, [1; 1000]);
            let read = gpu.reads().read_buffer(tile, 0, 1000).unwrap();
            assert_eq!(gpu.reads().wait(&read).unwrap(), [1; 1000]);
            gpu.uploads().update_buffer(tile, 0, &[2; 1000]).unwrap();
        },
    ];
    for profile in ["discrete-no-bar", "discrete-large-bar"] {
        for (number, write) in writes.into_iter().enumerate() {
            let device = HookedDevice::<Once>::new(SimulatedGpu::new(Profile::named(profile).unwrap()));
            // The steps are those of the test.
            let gpu = Gpu::new(device.clone(), desc()).unwrap();
            let usage = MemoryUsage::DeviceUpload.with_name("tile").relocatable();
            let tiles = Arc::new(tiles_of(&gpu, &usage));
            let (done, thread) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(None)));
            let act = {
                let (gpu, tiles, done, thread) = (gpu.clone(), tiles.clone(), done.clone(), thread.clone());
                move || {
                    let is_done = done.clone();
                    *thread.lock().unwrap() = Some(thread::spawn(move || {
                        tiles.iter().for_each(|tile| write(&gpu, tile));
                        done.store(true, Relaxed);
                    }));
                    wait_a_while(&is_done);
                }
            };
            *device.hook.armed.lock().unwrap() = Some((Point::BeforeBind, Box::new(act)));
            step(&gpu);
            let thread = thread.lock().unwrap().take().unwrap();
            assert!(thread.join().is_ok(), "write {number} on {profile}");
            gpu.wait_idle().unwrap();
            for tile in tiles.iter() {
                let mut found = [0; 1001];
                gpu.read_buffer(tile, 0, &mut found).unwrap();
                assert!(found[..1000].iter().all(|byte| *byte == 2), "write {number} on {profile}");
                assert_eq!(found[1000], 1);
            }
            assert_eq!(device.inner.validation_errors(), [""; 0], "write {number} on {profile}");
        }
    }
}

/// A step has found places for the tiles and creates the first of them there, when another one is dropped; its memory is
/// freed before the copies are submitted.
#[test]
fn a_buffer_that_goes_while_a_step_moves_it_takes_nothing_from_the_others() {
    let mut left_with_others = 0;
    for goes in 0..16 {
        let device = HookedDevice::<Once>::new(SimulatedGpu::new(Profile::named("discrete-no-bar").unwrap()));
        let gpu = Gpu::new(device.clone(), desc()).unwrap();
        let mut tiles = tiles(&gpu);
        for (number, tile) in (0..).zip(&tiles) {
            gpu.uploads().write_buffer(tile, 0, &[number; SIZE as usize]).unwrap();
        }
        gpu.wait_idle().unwrap();
        let dropped = tiles.remove(goes);
        let (queue, hook) = (gpu.deletion_queue().clone(), Arc::clone(&device.hook));
        let act = move || {
            drop(dropped);
            let free = move || _ = queue.reclaim();
            *hook.armed.lock().unwrap() = Some((Point::BeforeSubmit, Box::new(free)));
        };
        *device.hook.armed.lock().unwrap() = Some((Point::BeforeBind, Box::new(act)));
        left_with_others += gpu.defragmenter().step(PassLimits::NONE).unwrap().statistics.moves;
        gpu.wait_idle().unwrap();
        gpu.allocator().check_invariants();
        let numbers = (0..16_u8).filter(|number| usize::from(*number) != goes);
        for (number, tile) in numbers.zip(&tiles) {
            let mut found = vec![0; SIZE as usize];
            gpu.read_buffer(tile, 0, &mut found).unwrap();
            assert!(found.iter().all(|found| *found == number), "tile {number} without {goes}");
        }
        drop((tiles, gpu));
        assert_eq!(device.inner.validation_errors(), [""; 0], "without {goes}");
        assert_eq!(device.inner.usage().buffers, 0, "without {goes}");
    }
    assert_ne!(left_with_others, 0);
}

/// Threads that create buffers, fill them, drop most of them, and step.
#[test]
fn steps_of_any_thread_and_uploads_of_others_have_an_order() {
    const HALF: usize = SIZE as usize / 2;
    let rig = Rig::with(desc());
    let gpu = &rig.gpu;
    // Later than the host submits what comes next, so that the order is not that of a host that has seen everything.
    rig.device.set_latency(Duration::from_micros(300));
    let work = |worker: u8| {
        let mut kept = Vec::new();
        for number in 0..250_u32 {
            let tile = gpu.create_buffer(&BufferDesc::new(SIZE), &relocatable()).unwrap();
            let byte = worker ^ number as u8;
            gpu.uploads().write_buffer(&tile, 0, &[byte; HALF]).unwrap();
            if number % 3 == 0 {
                gpu.uploads().submit().unwrap();
            }
            gpu.uploads().update_buffer(&tile, HALF as u64, &[byte; HALF]).unwrap();
            if number % 2 == 0 {
                gpu.uploads().submit().unwrap();
                gpu.defragmenter().step(PassLimits::NONE).unwrap();
            }
            kept.push((byte, tile));
            if number % 50 == 49 {
                // Every other one, so that all blocks have holes, and some are emptied by the next steps.
                let mut index = 0;
                kept.retain(|_| (index % 4 == 0, index += 1).0);
                gpu.begin_frame().unwrap().end().unwrap();
            }
            gpu.reclaim();
        }
        kept
    };
    let kept: Vec<_> = thread::scope(|scope| {
        let work = &work;
        let workers = [0, 50, 100, 200].map(|worker| scope.spawn(move || work(worker)));
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    // What the threads had no time for: with the last updates on their way, and nobody who keeps anything in its place.
    gpu.uploads().submit().unwrap();
    while gpu.defragmenter().step(PassLimits::NONE).unwrap().outcome == StepOutcome::Moved {}
    assert_ne!(gpu.defragmenter().statistics().moves, 0);
    rig.device.set_latency(Duration::ZERO);
    for (byte, tile) in &kept {
        let mut found = vec![0; SIZE as usize];
        gpu.read_buffer(tile, 0, &mut found).unwrap();
        assert!(found.iter().all(|found| found == byte));
    }
    drop(kept);
    rig.finish();
}
