//! What the steps of a defragmenter moved: the callback, and the sums of the steps.

use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::panic::catch_unwind;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};

use allotment::device::simulated::SimulatedGpu;
use allotment::device::{BufferDesc, ImageDesc, QueueDevice as _, Submission};
use allotment::lifetime::DeletionQueue;
use allotment::memory::blocks::{BlockSizes, EmptyBlockPolicy};
use allotment::memory::defragmentation::{
    DefragmentationDesc, DefragmentationStatistics, DefragmentationStrategy, Defragmenter, DefragmenterDesc,
    PassLimits, StepOutcome,
};
use allotment::memory::{AccessError, AllocationId, Buffer, Movability};
use allotment::{AllocatorDesc, GpuDesc, MemoryUsage};

use crate::rig::{QUEUE, Rig};

const SIZE: u64 = 60 << 10;

/// Blocks of 1 MiB, of which no empty one is kept.
fn rig() -> Rig {
    rig_on("discrete-no-bar")
}

fn rig_on(profile: &str) -> Rig {
    let mut desc = AllocatorDesc::default();
    (desc.block_sizes, desc.empty_blocks, desc.threads) =
        (BlockSizes::fixed(1 << 20), EmptyBlockPolicy::NONE, 1);
    Rig::on(profile, GpuDesc::default().with_allocator(desc))
}

fn defragmenter(rig: &Rig) -> Defragmenter<SimulatedGpu> {
    let full = DefragmentationDesc::new(DefragmentationStrategy::Full);
    Defragmenter::new(rig.gpu.memory(), DefragmenterDesc::new(full)).unwrap()
}

/// Every fourth of 64 buffers; their user data are their numbers.
fn scattered(rig: &Rig, defragmenter: &Defragmenter<SimulatedGpu>) -> Vec<Buffer<SimulatedGpu>> {
    let buffer = |number| {
        let options = MemoryUsage::GpuOnly.with_name("mesh").with_user_data(number);
        defragmenter.create_buffer(&BufferDesc::new(SIZE), &options).unwrap()
    };
    let kept: Vec<_> = (0..64).map(buffer).collect::<Vec<_>>().into_iter().step_by(4).collect();
    // Without contents they would be moved without a copy.
    kept.iter().for_each(|it| rig.gpu.uploads().write_buffer(it, 0, &[1; 100]).unwrap());
    rig.gpu.wait_idle().unwrap();
    kept
}

/// Steps until there is nothing to gain. Returns the sums of the steps.
fn run(rig: &Rig, defragmenter: &Defragmenter<SimulatedGpu>) -> DefragmentationStatistics {
    let mut sums = DefragmentationStatistics::default();
    for _ in 0..1000 {
        let step = defragmenter.step(PassLimits::NONE.with_moves(3)).unwrap();
        assert_eq!(step.outcome == StepOutcome::Moved, step.statistics.moves != 0);
        sums = sums + step.statistics;
        rig.gpu.wait_idle().unwrap();
        if step.outcome == StepOutcome::Idle {
            return sums;
        }
    }
    panic!("there is no end");
}

#[test]
fn the_callback_hears_of_each_resource_that_moved_when_it_has_its_new_handle() {
    let rig = rig();
    let defragmenter = defragmenter(&rig);
    let buffers = Arc::new(scattered(&rig, &defragmenter));
    let before: Vec<_> = buffers.iter().map(Buffer::location).collect();
    let places: Vec<_> = before.iter().map(|place| (place.memory, place.offset)).collect();
    let (sender, moved) = channel();
    let known = Arc::downgrade(&buffers);
    defragmenter.on_moved(move |one| {
        let buffers = known.upgrade().unwrap();
        let at = one.user_data() as usize / 4;
        let now = buffers[at].location();
        assert_eq!((one.id(), one.size()), (buffers[at].id(), SIZE));
        assert_eq!((one.from().memory, one.from().offset), places[at]);
        assert_eq!((one.to().memory, one.to().offset), (now.memory, now.offset));
        assert_eq!(buffers[at].moves(), 1, "the buffer has its new handle");
        sender.send(one.id()).unwrap();
    });
    let sums = run(&rig, &defragmenter);
    let mut heard: Vec<AllocationId> = moved.try_iter().collect();
    heard.sort_unstable();
    let mut expected: Vec<_> = buffers.iter().filter(|it| it.moves() == 1).map(Buffer::id).collect();
    expected.sort_unstable();
    assert_eq!((heard.len() as u32, heard), (sums.moves, expected));
    drop((buffers, defragmenter));
    rig.finish();
}

#[test]
fn the_sums_of_the_steps_are_those_of_the_defragmenter() {
    let rig = rig();
    let defragmenter = defragmenter(&rig);
    let buffers = scattered(&rig, &defragmenter);
    let blocks = rig.gpu.allocator().statistics().blocks;
    let sums = run(&rig, &defragmenter);
    assert_eq!(sums, defragmenter.statistics());
    assert_eq!(blocks - sums.blocks_emptied, rig.gpu.allocator().statistics().blocks);
    assert_eq!((sums.passes, sums.bytes_moved), (sums.moves.div_ceil(3), u64::from(sums.moves) * SIZE));
    drop((buffers, defragmenter));
    rig.finish();
}

#[test]
fn an_image_whose_contents_are_not_kept_moves_and_counts_no_bytes() {
    let rig = rig();
    let defragmenter = defragmenter(&rig);
    let options = MemoryUsage::GpuOnly.with_name("albedo").with_movability(Movability::Recreated);
    let image = |_| defragmenter.create_image(&ImageDesc::new(128, 128, 4), &options).unwrap();
    let images: Vec<_> = (0..64).map(image).collect::<Vec<_>>().into_iter().step_by(4).collect();
    rig.gpu.wait_idle().unwrap();
    let sums = run(&rig, &defragmenter);
    assert!(sums.moves != 0 && sums.bytes_moved == 0, "{sums:?}");
    assert_eq!(sums, defragmenter.statistics());
    drop((images, defragmenter));
    rig.finish();
}

#[test]
fn an_image_that_moves_without_its_contents_has_no_state_afterwards() {
    let rig = rig();
    let defragmenter = defragmenter(&rig);
    let options = MemoryUsage::GpuOnly.with_name("target").with_movability(Movability::Recreated);
    let image = |_| {
        let image = defragmenter.create_image(&ImageDesc::new(128, 128, 4), &options).unwrap();
        // SAFETY: the simulated device has one state.
        unsafe { image.set_state(()) };
        image
    };
    let images: Vec<_> = (0..64).map(image).collect::<Vec<_>>().into_iter().step_by(4).collect();
    rig.gpu.wait_idle().unwrap();
    let sums = run(&rig, &defragmenter);
    assert!(sums.moves != 0 && sums.bytes_moved == 0, "{sums:?}");
    for image in &images {
        assert_eq!(
            image.state().is_none(),
            image.moves() > 0,
            "a new image is in no state that anything was told of"
        );
    }
    drop((images, defragmenter));
    rig.finish();
}

#[test]
fn the_callback_may_create_and_drop_resources_and_a_step_in_it_does_nothing() {
    let rig = rig();
    let defragmenter = Arc::new(defragmenter(&rig));
    let buffers = Arc::new(Mutex::new(scattered(&rig, &defragmenter)));
    let (of_callback, kept) = (Arc::downgrade(&defragmenter), Arc::clone(&buffers));
    let gone = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&gone);
    defragmenter.on_moved(move |one| {
        let defragmenter = of_callback.upgrade().unwrap();
        let options = MemoryUsage::GpuOnly.with_name("for a moment");
        drop(defragmenter.create_buffer(&BufferDesc::new(SIZE), &options).unwrap());
        let step = defragmenter.step(PassLimits::NONE).unwrap();
        assert_eq!((step.outcome, step.statistics), (StepOutcome::LimitReached, Default::default()));
        defragmenter.stop();
        // What moved is dropped, while the GPU copies it.
        kept.lock().unwrap().retain(|buffer| buffer.id() != one.id());
        noted.lock().unwrap().push(one.id());
    });
    let sums = run(&rig, &defragmenter);
    assert_eq!(gone.lock().unwrap().len() as u32, sums.moves);
    assert_eq!(buffers.lock().unwrap().len() as u32, 16 - sums.moves);
    rig.gpu.allocator().check_invariants();
    drop((buffers, defragmenter));
    rig.finish();
}

#[test]
fn after_a_callback_that_panicked_the_next_step_goes_on_with_what_it_has_not_heard() {
    let rig = rig();
    let defragmenter = defragmenter(&rig);
    let buffers = scattered(&rig, &defragmenter);
    let (sender, moved) = channel();
    let number = Mutex::new(0);
    defragmenter.on_moved(move |one| {
        sender.send(one.id()).unwrap();
        let mut number = number.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *number += 1;
        assert_ne!(*number % 3, 2, "every third call panics");
    });
    let mut panics = 0;
    for _ in 0..1000 {
        let step = || defragmenter.step(PassLimits::NONE.with_moves(4)).unwrap();
        let stepped = catch_unwind(AssertUnwindSafe(step));
        panics += u32::from(stepped.is_err());
        rig.gpu.allocator().check_invariants();
        rig.gpu.wait_idle().unwrap();
        if stepped.is_ok_and(|step| step.outcome == StepOutcome::Idle) {
            break;
        }
    }
    let mut heard: Vec<_> = moved.try_iter().collect();
    heard.sort_unstable();
    let mut expected: Vec<_> = buffers.iter().filter(|it| it.moves() == 1).map(Buffer::id).collect();
    expected.sort_unstable();
    assert!(panics > 1);
    assert_eq!(heard, expected);
    assert_eq!(defragmenter.statistics().moves as usize, heard.len());
    drop((buffers, defragmenter));
    rig.finish();
}

#[test]
fn threads_that_step_at_the_same_time_report_each_move_once() {
    let rig = rig();
    let defragmenter = defragmenter(&rig);
    let places = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&places);
    defragmenter.on_moved(move |one| {
        heard.lock().unwrap().push((
            one.id(),
            one.from().memory,
            one.from().offset,
            one.to().memory,
            one.to().offset,
        ));
    });
    let (mut kept, limits) = (Vec::new(), PassLimits::NONE.with_moves(2));
    for _ in 0..12 {
        kept.truncate(2);
        rig.gpu.wait_idle().unwrap();
        kept.extend(scattered(&rig, &defragmenter));
        rig.gpu.wait_idle().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    // The first steps may find nothing to do, since little has changed.
                    for _ in 0..40 {
                        while defragmenter.step(limits).unwrap().outcome != StepOutcome::Idle {
                            rig.gpu.reclaim();
                        }
                    }
                });
            }
        });
        rig.gpu.wait_idle().unwrap();
    }
    assert_eq!(places.lock().unwrap().len() as u32, defragmenter.statistics().moves);
    for buffer in &kept {
        let places = places.lock().unwrap();
        let of_buffer: Vec<_> = places.iter().filter(|moved| moved.0 == buffer.id()).collect();
        assert_eq!(of_buffer.len() as u32, buffer.moves());
        assert!(of_buffer.windows(2).all(|two| (two[0].3, two[0].4) == (two[1].1, two[1].2)));
        let now = buffer.location();
        assert!(of_buffer.last().is_none_or(|last| (last.3, last.4) == (now.memory, now.offset)));
    }
    drop((kept, defragmenter));
    rig.finish();
}

#[test]
fn a_submission_that_takes_a_new_handle_waits_for_its_copy_also_while_the_step_has_not_returned() {
    let rig = rig();
    let meshes: Vec<_> = {
        let options = MemoryUsage::GpuOnly.with_name("mesh").relocatable();
        let create = |_| rig.gpu.create_buffer(&BufferDesc::new(SIZE), &options).unwrap();
        (0..64).map(create).collect::<Vec<_>>().into_iter().step_by(4).collect()
    };
    meshes.iter().for_each(|mesh| rig.gpu.uploads().write_buffer(mesh, 0, &[1; 100]).unwrap());
    rig.gpu.wait_idle().unwrap();
    rig.gpu.reclaim();
    let (gpu, device, other) = (rig.gpu.clone(), rig.device.clone(), rig.other_queue());
    let (sender, waited) = channel();
    // Called by the step, when the handles are new: a thread beside it could do the same at this moment.
    rig.gpu.defragmenter().on_moved(move |_| {
        let submit = |queue, waits: &[_]| {
            sender.send(waits.to_vec()).unwrap();
            // SAFETY: the submission is empty.
            unsafe { device.submit(queue, &Submission { waits, ..Submission::default() }) }
        };
        gpu.submit(gpu.record("reads"), other, submit).unwrap();
    });
    let mut steps = 0;
    while steps < 100 {
        let step = rig.gpu.defragmenter().step(PassLimits::NONE).unwrap();
        rig.gpu.wait_idle().unwrap();
        let waits: Vec<_> = waited.try_iter().collect();
        assert_eq!(waits.len() as u32, step.statistics.moves);
        if let Some(point) = step.copied_at {
            assert!(waits.iter().all(|waits| waits.contains(&point)), "{waits:?} {point:?}");
            break;
        }
        steps += 1;
    }
    assert!(steps < 100, "nothing was moved");
    // The callback owns a `Gpu`.
    rig.gpu.defragmenter().on_moved(|_| {});
    drop(meshes);
    rig.finish();
}

#[test]
fn a_frame_that_only_reads_keeps_nothing_from_moving_and_reads_the_old_places() {
    let rig = rig();
    let defragmenter = defragmenter(&rig);
    let buffers = scattered(&rig, &defragmenter);
    for (at, buffer) in buffers.iter().enumerate() {
        rig.gpu.uploads().write_buffer(buffer, 0, &[at as u8; 100]).unwrap();
    }
    rig.gpu.wait_idle().unwrap();
    let frame = rig.gpu.begin_frame().unwrap();
    let step = || defragmenter.step(PassLimits::NONE).unwrap();
    assert_eq!(step().outcome, StepOutcome::RecordingIsOpen);
    let frame = frame.only_reads();
    let old: Vec<_> = buffers.iter().map(Buffer::handle).collect();
    assert!((0..10).map(|_| step().statistics.moves).sum::<u32>() > 0);
    rig.gpu.reclaim();
    let tickets: Vec<_> = old.iter().map(|old| rig.read(&frame, (old, 0), 100)).collect();
    frame.end().unwrap();
    for (at, ticket) in tickets.iter().enumerate() {
        assert_eq!(rig.copied(ticket), [at as u8; 100]);
    }
    drop((buffers, defragmenter));
    rig.finish();
}

#[test]
fn a_part_that_the_cpu_writes_after_a_move_leaves_the_bytes_beside_it_that_the_gpu_copied() {
    // Its readback memory is cached and not coherent.
    let rig = rig_on("mobile");
    let (defragmenter, allocator) = (defragmenter(&rig), rig.gpu.allocator());
    let buffer = |number| {
        let options = MemoryUsage::Readback.with_name("counters");
        let buffer = defragmenter.create_buffer(&BufferDesc::new(SIZE), &options).unwrap();
        // So the CPU's caches hold something at every place, also where others are moved to.
        let bytes = vec![number; SIZE as usize];
        buffer.with_raw(|raw| allocator.write(raw.allocation(), 0, &bytes)).unwrap();
        (number, buffer)
    };
    let kept: Vec<_> = (0..64).map(buffer).collect::<Vec<_>>().into_iter().step_by(4).collect();
    rig.gpu.wait_idle().unwrap();
    let sums = run(&rig, &defragmenter);
    assert!(sums.moves > 0 && kept.iter().any(|(_, buffer)| buffer.moves() > 0), "{sums:?}");
    for (number, buffer) in &kept {
        let mut found = vec![0; SIZE as usize];
        let mut expected = vec![*number; SIZE as usize];
        expected[100..108].fill(0xff);
        buffer.with_raw(|raw| {
            let allocation = raw.allocation();
            allocator.write(allocation, 100, &[0xff; 8]).unwrap();
            allocator.read(allocation, 0, &mut found).unwrap();
        });
        let wrong = found.iter().zip(&expected).filter(|(found, expected)| found != expected).count();
        assert_eq!(wrong, 0, "bytes of buffer {number}");
    }
    drop((kept, defragmenter));
    rig.finish();
}

#[test]
fn what_queues_only_read_or_only_write_stays_where_it_is() {
    for usage in [MemoryUsage::Upload, MemoryUsage::Readback] {
        let rig = rig_on("d3d12-tier-1");
        let defragmenter = defragmenter(&rig);
        let create = |_| {
            let buffer = defragmenter.create_buffer(&BufferDesc::new(SIZE), &usage.with_name("staging"));
            let buffer = buffer.unwrap();
            buffer.write(0, &[7; 100]).unwrap();
            buffer
        };
        let kept: Vec<_> = (0..64).map(create).collect::<Vec<_>>().into_iter().step_by(4).collect();
        rig.gpu.wait_idle().unwrap();
        assert_eq!(run(&rig, &defragmenter).moves, 0, "{usage}");
        for buffer in &kept {
            let mut found = [0; 100];
            buffer.read(0, &mut found).unwrap();
            assert_eq!(found, [7; 100]);
        }
        drop((kept, defragmenter));
        rig.finish();
    }
}

#[test]
fn the_cpu_neither_reads_nor_writes_a_buffer_before_its_bytes_have_arrived() {
    let rig = rig_on("discrete-large-bar");
    let defragmenter = defragmenter(&rig);
    let create = |number: u8| {
        let options = MemoryUsage::DeviceUpload.with_name("constants");
        let buffer = defragmenter.create_buffer(&BufferDesc::new(SIZE), &options).unwrap();
        buffer.write(0, &[number; 100]).unwrap();
        (number, buffer)
    };
    let kept: Vec<_> = (0..64).map(create).collect::<Vec<_>>().into_iter().step_by(4).collect();
    rig.gpu.wait_idle().unwrap();
    rig.device.pause_queues();
    let steps = (0..1000).map(|_| defragmenter.step(PassLimits::NONE).unwrap().statistics.moves);
    assert!(steps.into_iter().any(|moves| moves != 0));
    for (number, buffer) in &kept {
        let (mut found, moved) = ([0; 100], buffer.moves() > 0);
        let (read, written) = (buffer.read(0, &mut found), buffer.write(100, &[!number]));
        for done in [read, written] {
            let is_refused = matches!(done, Err(AccessError::Moving { .. }));
            assert_eq!((is_refused, done.is_ok()), (moved, !moved), "{done:?}");
        }
        // An upload comes after the copy, by a queue.
        rig.gpu.uploads().write_buffer(buffer, 101, &[*number]).unwrap();
    }
    rig.device.resume_queues();
    rig.gpu.wait(defragmenter.copied_at()).unwrap();
    rig.gpu.wait(rig.gpu.uploads().submit().unwrap()).unwrap();
    for (number, buffer) in &kept {
        let mut found = [0; 102];
        buffer.write(100, &[!number]).unwrap();
        buffer.read(0, &mut found).unwrap();
        assert_eq!((&found[..100], &found[100..]), (&[*number; 100][..], &[!number, *number][..]));
    }
    drop((kept, defragmenter));
    rig.finish();
}

#[test]
fn a_buffer_that_was_never_written_is_moved_without_a_copy_and_its_first_bytes_wait_for_nothing() {
    let rig = Rig::on("discrete-large-bar", {
        let mut desc = AllocatorDesc::default();
        (desc.block_sizes, desc.empty_blocks, desc.threads) =
            (BlockSizes::fixed(1 << 20), EmptyBlockPolicy::NONE, 1);
        GpuDesc::default().with_allocator(desc)
    });
    let defragmenter = defragmenter(&rig);
    let create = |_| {
        let options = MemoryUsage::DeviceUpload.with_name("newborn");
        defragmenter.create_buffer(&BufferDesc::new(SIZE), &options).unwrap()
    };
    let kept: Vec<_> = (0..64).map(create).collect::<Vec<_>>().into_iter().step_by(4).collect();
    // One of them has contents.
    kept[15].write(0, &[7; 100]).unwrap();
    rig.gpu.wait_idle().unwrap();
    rig.device.pause_queues();
    let mut sums = DefragmentationStatistics::default();
    for _ in 0..1000 {
        sums = sums + defragmenter.step(PassLimits::NONE).unwrap().statistics;
        if sums.moves != 0 {
            break;
        }
    }
    for newborn in &kept[..15] {
        newborn.write(0, &[1; 100]).unwrap();
        let mut found = [0; 100];
        newborn.read(0, &mut found).unwrap();
        assert_eq!(found, [1; 100]);
    }
    rig.device.resume_queues();
    assert!(sums.moves > 0);
    let moved = kept[15].moves();
    assert_eq!(sums.bytes_moved, u64::from(moved) * SIZE, "{} moves", sums.moves);
    let mut found = [0; 100];
    rig.gpu.read_buffer(&kept[15], 0, &mut found).unwrap();
    assert_eq!(found, [7; 100]);
    drop((kept, defragmenter));
    rig.finish();
}

/// Does this on a thread of its own, so that a deadlock is a failure.
fn soon(work: impl FnOnce() + Send + 'static) {
    let (sender, done) = channel();
    let thread = std::thread::spawn(move || {
        work();
        let _ = sender.send(());
    });
    if done.recv_timeout(Duration::from_secs(60)) == Err(RecvTimeoutError::Timeout) {
        panic!("it waits for itself");
    }
    thread.join().unwrap();
}

#[test]
fn the_callback_of_a_frame_that_ends_may_upload_submit_and_use_other_frames() {
    soon(|| {
        let mut desc = AllocatorDesc::default();
        desc.block_sizes = BlockSizes::fixed(1 << 20);
        let full = DefragmentationDesc::new(DefragmentationStrategy::Full);
        let rig = Rig::with(GpuDesc::default().with_allocator(desc).with_defragmentation(full));
        let gpu = &rig.gpu;
        let table = Arc::new(rig.buffer(4096));
        let options = MemoryUsage::GpuOnly.with_name("tile").relocatable();
        let mut tiles: Vec<_> =
            (0..16).map(|_| gpu.create_buffer(&BufferDesc::new(256 << 10), &options).unwrap()).collect();
        let mut index = 0;
        tiles.retain(|_| (index % 4 == 0, index += 1).0);
        gpu.reclaim();
        let (of_callback, to, heard) = (gpu.clone(), table.clone(), Arc::new(Mutex::new(0)));
        let count = heard.clone();
        gpu.defragmenter().on_moved(move |one| {
            let gpu = &of_callback;
            gpu.uploads().write_buffer(&to, 0, &one.to().offset.to_le_bytes()).unwrap();
            gpu.wait(gpu.uploads().submit().unwrap()).unwrap();
            let frame = gpu.begin_frame().unwrap();
            rig_submit(gpu, &frame);
            frame.end().unwrap();
            gpu.wait_idle().unwrap();
            let mut address = [0; 8];
            gpu.read_buffer(&to, 0, &mut address).unwrap();
            assert_eq!(address, one.to().offset.to_le_bytes());
            *count.lock().unwrap() += 1;
        });
        for _ in 0..20 {
            gpu.begin_frame().unwrap().end().unwrap();
        }
        assert_eq!(*heard.lock().unwrap(), gpu.defragmenter().statistics().moves);
        assert!(*heard.lock().unwrap() > 0);
        gpu.defragmenter().on_moved(|_| ());
        drop((tiles, table));
        rig.finish();
    });
}

fn rig_submit(gpu: &allotment::Gpu<SimulatedGpu>, frame: &allotment::gpu::Frame<SimulatedGpu>) {
    let empty = |queue, waits: &[_]| {
        // SAFETY: the submission is empty.
        unsafe { gpu.device().submit(queue, &Submission { waits, ..Submission::default() }) }
    };
    frame.submit(QUEUE, empty).unwrap();
}

#[test]
fn what_is_called_with_the_token_of_a_buffer_may_use_it_in_every_way() {
    soon(|| {
        let rig = rig();
        let defragmenter = defragmenter(&rig);
        let buffers = scattered(&rig, &defragmenter);
        let buffer = &buffers[0];
        buffer.with_raw(|raw| {
            assert_eq!(raw.size(), buffer.size());
            rig.gpu.uploads().update_buffer(buffer, 0, &[7; 100]).unwrap();
            let step = defragmenter.step(PassLimits::NONE).unwrap();
            assert_eq!(step.statistics.moves, 0, "the token is that of the place where it is");
            let mut found = [0; 100];
            rig.gpu.read_buffer(buffer, 0, &mut found).unwrap();
            assert_eq!(found, [7; 100]);
        });
        drop((buffers, defragmenter));
        rig.finish();
    });
}

/// A destructor that uses the `Gpu`.
struct Uses {
    gpu: allotment::Gpu<SimulatedGpu>,
    dropped: Arc<Mutex<u32>>,
}

impl Drop for Uses {
    fn drop(&mut self) {
        let options = MemoryUsage::GpuOnly.with_name("for a moment");
        let buffer = self.gpu.create_buffer(&BufferDesc::new(64), &options).unwrap();
        self.gpu.uploads().write_buffer(&buffer, 0, &[1; 64]).unwrap();
        drop(self.gpu.readback().unwrap());
        self.gpu.wait_idle().unwrap();
        *self.dropped.lock().unwrap() += 1;
    }
}

/// What is left of a deletion queue that is dropped is destroyed by whoever closes the recording that it waits for.
#[test]
fn destructors_that_an_upload_a_readback_or_a_step_runs_may_use_the_gpu() {
    soon(|| {
        let rig = rig();
        let gpu = &rig.gpu;
        let defragmenter = defragmenter(&rig);
        let buffers = scattered(&rig, &defragmenter);
        let dropped = Arc::new(Mutex::new(0));
        let leave = || {
            // The batch of this is the recording that it waits for.
            gpu.uploads().update_buffer(&buffers[0], 0, &[7; 100]).unwrap();
            let queue = DeletionQueue::new(gpu.tracker());
            drop(queue.own(Uses { gpu: gpu.clone(), dropped: dropped.clone() }));
        };
        leave();
        gpu.uploads().submit().unwrap();
        assert_eq!(*dropped.lock().unwrap(), 1);
        leave();
        let frame = gpu.begin_frame().unwrap();
        let read = gpu.reads().read_buffer(&buffers[0], 0, 100).unwrap();
        frame.end().unwrap();
        drop(read);
        assert_eq!(*dropped.lock().unwrap(), 2);
        leave();
        gpu.uploads().discard();
        assert_eq!(*dropped.lock().unwrap(), 3);
        drop((buffers, defragmenter));
        rig.finish();
    });
}
