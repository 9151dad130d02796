//! Buffers and images that are moved for their owners hold what they held, wherever they are.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use allotment::AllocationOptions;
use allotment::MemoryUsage;
use allotment::PoolDesc;
use allotment::device::{
    BufferCopy, BufferDesc, CopyDirection, ImageAspect, ImageCopy, QueueDevice as _, Submission,
};
use allotment::lifetime::Recording;
use allotment::memory::blocks::{BlockSize, BlockSizes, EmptyBlockPolicy, allocate_as_thread};
use allotment::memory::defragmentation::{
    Defragmentation, DefragmentationDesc, DefragmentationStatistics, DefragmentationStrategy, Defragmenter,
    DefragmenterDesc, JoinThreads, NextPass, PassLimits, StepOutcome,
};
use allotment::memory::{AccessError, Buffer, Image, Movability};
use allotment::upload::{ImageWrite, Uploader, UploaderDesc};

use super::allocator::{KIB, MIB};
use super::image_copies::{TEXEL, desc, state};
use super::stage::{FIRST, Stage};
use crate::bytes::{assert_same, pattern};
use crate::fixture::{Fixture, Outcome, Test, tests};
use crate::gpu::Gpu;

pub(super) fn all<F: Fixture>() -> Vec<Test<F>> {
    tests![F:
        moved_buffers_hold_their_bytes_and_their_blocks_are_given_back,
        buffers_of_several_shards_hold_their_bytes_in_the_blocks_of_one,
        moved_images_hold_their_texels,
        what_was_recorded_by_the_old_handle_reads_what_is_there,
        what_an_open_recording_writes_by_the_old_handle_is_not_lost,
        what_one_thread_writes_is_not_lost_while_another_moves_it,
        what_is_dropped_while_it_is_copied_goes_when_that_is_done,
        what_goes_before_anybody_saw_its_bytes_arrive_leaves_nothing_behind,
        the_cpu_is_kept_from_bytes_that_are_on_their_way,
        what_belongs_to_a_defragmenter_is_moved_by_nobody_else,
        a_pinned_buffer_among_relocatable_ones_stays_and_costs_nothing,
        threads_make_read_and_drop_buffers_while_they_are_moved,
        what_need_not_be_copied_is_made_again_without_a_copy,
        a_step_moves_no_more_than_its_limits,
        a_defragmenter_that_is_dropped_half_way_leaves_everything_where_it_is,
    ]
}

const SIZE: u64 = 60 * KIB;

pub(super) fn stage<F: Fixture>(gpu: &Gpu<F>) -> Stage<'_, F> {
    Stage::with(gpu, |desc| {
        desc.block_sizes = BlockSizes::fixed(MIB);
        desc.empty_blocks = EmptyBlockPolicy::NONE;
    })
}

pub(super) fn wanted() -> AllocationOptions {
    MemoryUsage::GpuOnly.with_name("relocatable")
}

pub(super) fn defragmenter<F: Fixture>(stage: &Stage<'_, F>) -> Defragmenter<F::Device> {
    let desc = DefragmentationDesc::new(DefragmentationStrategy::Full);
    Defragmenter::new(&stage.memory, DefragmenterDesc::new(desc).with_queue(FIRST)).unwrap()
}

/// Every fourth of `count` buffers that were created one after the other, with its bytes.
fn scattered<F: Fixture>(
    stage: &Stage<'_, F>,
    defragmenter: &Defragmenter<F::Device>,
    desc: &AllocationOptions,
    count: u64,
) -> Vec<(Buffer<F::Device>, Vec<u8>)> {
    let uploader = Uploader::new(&stage.memory, UploaderDesc::default()).unwrap();
    let mut all = Vec::new();
    for i in 0..count {
        let bytes = pattern(i, SIZE + i);
        let buffer = defragmenter.create_buffer(&BufferDesc::new(SIZE + i).into(), desc).unwrap();
        uploader.initialize(&buffer, 0, &bytes).unwrap();
        all.push((buffer, bytes));
    }
    uploader.submit().unwrap();
    stage.wait_idle();
    drop(uploader);
    let mut index = 0;
    all.retain(|_| (index % 4 == 0, index += 1).0);
    stage.deletion_queue.reclaim();
    all
}

/// Steps until there is nothing to gain. Returns how many resources were moved.
fn run<F: Fixture>(stage: &Stage<'_, F>, defragmenter: &Defragmenter<F::Device>) -> u32 {
    let before = defragmenter.statistics();
    let mut sums = DefragmentationStatistics::default();
    for _ in 0..1000 {
        let step = defragmenter.step(PassLimits::NONE).unwrap();
        sums = sums + step.statistics;
        assert_eq!(step.statistics.moves > 0, step.outcome == StepOutcome::Moved);
        if step.outcome == StepOutcome::Idle {
            stage.wait_idle();
            stage.deletion_queue.reclaim();
            assert_eq!(sums, defragmenter.statistics() - before);
            return sums.moves;
        }
    }
    panic!("there is no end");
}

pub(super) fn assert_hold<F: Fixture>(stage: &Stage<'_, F>, buffers: &[(Buffer<F::Device>, Vec<u8>)]) {
    for (i, (buffer, bytes)) in buffers.iter().enumerate() {
        stage.assert_holds(buffer, bytes, i);
    }
}

/// Memory objects that allocations share.
fn blocks<F: Fixture>(stage: &Stage<'_, F>) -> u32 {
    stage.memory.allocator().statistics().blocks
}

fn moved_buffers_hold_their_bytes_and_their_blocks_are_given_back<F: Fixture>(gpu: &Gpu<F>) {
    let stage = stage(gpu);
    let defragmenter = defragmenter(&stage);
    let buffers = scattered(&stage, &defragmenter, &wanted(), 64);
    let before = blocks(&stage);
    assert!(before >= 4, "{before}");
    let handles: Vec<_> = buffers.iter().map(|(buffer, _)| buffer.handle()).collect();
    let moves = run(&stage, &defragmenter);
    assert!(moves > 0 && blocks(&stage) < before, "{moves} moved, {before} blocks are {}", blocks(&stage));
    assert_eq!(defragmenter.statistics().moves, moves);
    assert_eq!(buffers.iter().map(|(buffer, _)| buffer.moves()).sum::<u32>(), moves);
    for ((buffer, _), old) in buffers.iter().zip(handles) {
        let same = format!("{:?}", buffer.handle()) == format!("{old:?}");
        assert!(buffer.moves() > 0 || same, "what did not move has its handle");
    }
    assert_hold(&stage, &buffers);
    stage.memory.allocator().check_invariants();
    // What has moved may move again, once its copy is done, but not for nothing.
    loop {
        let before = blocks(&stage);
        if run(&stage, &defragmenter) == 0 {
            break;
        }
        assert!(blocks(&stage) < before, "moves that free nothing");
    }
    assert_hold(&stage, &buffers);
}

fn buffers_of_several_shards_hold_their_bytes_in_the_blocks_of_one<F: Fixture>(gpu: &Gpu<F>) {
    let stage = Stage::with(gpu, |desc| {
        (desc.threads, desc.block_sizes) = (4, BlockSizes::fixed(MIB));
        desc.empty_blocks = EmptyBlockPolicy::NONE;
    });
    let desc = DefragmentationDesc::new(DefragmentationStrategy::Full);
    let desc = DefragmenterDesc::new(desc.with_join_threads(JoinThreads::Always)).with_queue(FIRST);
    let defragmenter = Defragmenter::new(&stage.memory, desc).unwrap();
    let mut buffers = Vec::new();
    for shard in 0..4 {
        // As four threads would.
        let before = allocate_as_thread(shard);
        buffers.extend(scattered(&stage, &defragmenter, &wanted(), 8));
        allocate_as_thread(before);
    }
    let before = blocks(&stage);
    assert!(before >= 4, "{before}");
    // 480 KiB in all.
    assert!(run(&stage, &defragmenter) >= 6);
    assert_eq!(blocks(&stage), before - 3);
    assert_hold(&stage, &buffers);
    stage.memory.allocator().check_invariants();
    assert_eq!(run(&stage, &defragmenter), 0);
    // Freed, after the GPU, from the blocks of other shards.
    buffers.clear();
    stage.wait_idle();
    stage.deletion_queue.reclaim();
    stage.memory.allocator().check_invariants();
}

pub(super) const EXTENT: [u32; 3] = [128, 96, 1];

/// Creates images until `create` returns none, or 64, and writes their texels.
pub(super) fn written_images<F: Fixture>(
    stage: &Stage<'_, F>,
    create: impl Fn() -> Option<Image<F::Device>>,
) -> Vec<(Image<F::Device>, Vec<u8>)> {
    let mut on_first = UploaderDesc::default();
    on_first.image_queue = Some(FIRST);
    let uploader = Uploader::new(&stage.memory, on_first).unwrap();
    let state = state(stage.gpu);
    let mut images: Vec<(Image<F::Device>, Vec<u8>)> = Vec::new();
    for i in 0..64 {
        let Some(image) = create() else { break };
        let bytes = pattern(i, u64::from(EXTENT[0] * EXTENT[1] * TEXEL.bytes));
        uploader.write_image(&image, &ImageWrite::default().with_after(state), &bytes).unwrap();
        assert_eq!(image.state(), Some(state));
        images.push((image, bytes));
    }
    uploader.submit().unwrap();
    stage.wait_idle();
    images
}

/// Reads images back, and compares their texels.
pub(super) fn assert_texels<F: Fixture>(stage: &Stage<'_, F>, images: &[(Image<F::Device>, Vec<u8>)]) {
    let gpu = stage.gpu;
    let state = state(gpu);
    let pitch = TEXEL.row_pitch(EXTENT[0], &gpu.properties().limits);
    let row = TEXEL.row_bytes(EXTENT[0]) as usize;
    let back = stage.buffer(pitch * u64::from(EXTENT[1]), MemoryUsage::Readback);
    for (i, (image, bytes)) in images.iter().enumerate() {
        assert_eq!(image.state(), Some(state));
        let handle = image.handle();
        let copies = [ImageCopy {
            buffer: &back.handle(),
            buffer_offset: 0,
            row_pitch: pitch,
            rows: EXTENT[1],
            image: &handle,
            mip_level: 0,
            array_layer: 0,
            origin: [0; 3],
            extent: EXTENT,
            aspect: ImageAspect::Color,
            texels: TEXEL.into(),
            direction: CopyDirection::OutOfImage,
            before: state,
            after: state,
        }];
        let work = Submission { image_copies: &copies, ..Submission::default() };
        let recording = stage.tracker.record("reads an image");
        // SAFETY: the buffer has room for all rows, the image is in this state, and both live until it is done.
        let point = recording.submit(FIRST, |_| unsafe { gpu.device().submit(FIRST, &work) }).unwrap();
        stage.wait(point);
        let mut found = vec![0; (pitch * u64::from(EXTENT[1])) as usize];
        back.read(0, &mut found).unwrap();
        for (y, (found, expected)) in found.chunks(pitch as usize).zip(bytes.chunks(row)).enumerate() {
            assert_same(&found[..row], expected, (i, y));
        }
    }
}

fn moved_images_hold_their_texels<F: Fixture>(gpu: &Gpu<F>) {
    let stage = stage(gpu);
    let defragmenter = defragmenter(&stage);
    let desc = desc(gpu, EXTENT);
    let create = || Some(defragmenter.create_image(&desc.into(), &wanted()).unwrap());
    let mut images = written_images(&stage, create);
    let mut index = 0;
    images.retain(|_| (index % 4 == 0, index += 1).0);
    stage.deletion_queue.reclaim();
    let before = blocks(&stage);
    let moves = run(&stage, &defragmenter);
    // Where the driver wants images alone in their memory, there may be no block to go into.
    assert!(before < 4 || moves > 0, "{before} blocks are {}", blocks(&stage));
    assert_texels(&stage, &images);
}

fn what_was_recorded_by_the_old_handle_reads_what_is_there<F: Fixture>(gpu: &Gpu<F>) {
    let stage = stage(gpu);
    let defragmenter = defragmenter(&stage);
    let buffers = scattered(&stage, &defragmenter, &wanted(), 64);
    let old: Vec<_> = buffers.iter().map(|(buffer, _)| buffer.handle()).collect();
    let recording = stage.tracker.record("recorded before").only_reads();
    let moves = (0..10).map(|_| defragmenter.step(PassLimits::NONE).unwrap().statistics.moves).sum::<u32>();
    assert!(moves > 0);
    let targets: Vec<_> =
        buffers.iter().map(|(_, bytes)| stage.buffer(bytes.len() as u64, MemoryUsage::Readback)).collect();
    // What was given back early would be these buffers' by now, with other bytes.
    let others: Vec<_> = (0..16).map(|i| stage.source(&pattern(1000 + i, SIZE))).collect();
    stage.wait_idle();
    stage.deletion_queue.reclaim();
    let named: Vec<_> = targets.iter().map(|target| (target.handle(), target.size())).collect();
    let copies: Vec<_> = old
        .iter()
        .zip(&named)
        .map(|(from, (to, size))| BufferCopy { from, from_offset: 0, to, to_offset: 0, size: *size })
        .collect();
    let work = Submission { copies: &copies, ..Submission::default() };
    // SAFETY: the recording was open when they were moved, so what they were lives until it is over.
    let point = recording.submit(FIRST, |_| unsafe { gpu.device().submit(FIRST, &work) }).unwrap();
    stage.wait(point);
    for (i, ((_, bytes), target)) in buffers.iter().zip(&targets).enumerate() {
        stage.assert_holds(target, bytes, i);
    }
    stage.wait_idle();
    assert_hold(&stage, &buffers);
    drop(others);
}

/// Submits a copy of other bytes to a buffer, by the handle that it has while the recording is open.
fn write_by_queue<F: Fixture>(
    stage: &Stage<'_, F>,
    recording: Recording,
    source: &Buffer<F::Device>,
    to: &Buffer<F::Device>,
) {
    let (from, to) = (source.handle(), to.handle());
    stage.submit_copy(FIRST, recording, &[], [&from, &to], source.size());
}

fn what_an_open_recording_writes_by_the_old_handle_is_not_lost<F: Fixture>(gpu: &Gpu<F>) {
    let stage = stage(gpu);
    let defragmenter = defragmenter(&stage);
    let mut buffers = scattered(&stage, &defragmenter, &wanted(), 64);
    let recording = stage.tracker.record("writes to all of them");
    let handles: Vec<_> = buffers.iter().map(|(buffer, _)| buffer.handle()).collect();
    for _ in 0..3 {
        let step = defragmenter.step(PassLimits::NONE).unwrap();
        assert_eq!((step.outcome, step.statistics.moves), (StepOutcome::RecordingIsOpen, 0));
    }
    let bytes: Vec<_> = (0..).zip(&buffers).map(|(i, (_, old))| pattern(500 + i, old.len() as u64)).collect();
    let sources: Vec<_> = bytes.iter().map(|bytes| stage.source(bytes)).collect();
    let named: Vec<_> = sources.iter().map(|source| (source.handle(), source.size())).collect();
    let copies: Vec<_> = named
        .iter()
        .zip(&handles)
        .map(|((from, size), to)| BufferCopy { from, from_offset: 0, to, to_offset: 0, size: *size })
        .collect();
    let work = Submission { copies: &copies, ..Submission::default() };
    // SAFETY: the buffers and their sources live until the recording has completed.
    recording.submit(FIRST, |_| unsafe { gpu.device().submit(FIRST, &work) }).unwrap();
    assert!(run(&stage, &defragmenter) > 0);
    buffers.iter_mut().zip(bytes).for_each(|((_, old), new)| *old = new);
    assert_hold(&stage, &buffers);
}

/// The thread opens a recording, takes the handle and submits, while steps of another begin and end at any time.
fn what_one_thread_writes_is_not_lost_while_another_moves_it<F: Fixture>(gpu: &Gpu<F>) {
    let stage = stage(gpu);
    let defragmenter = defragmenter(&stage);
    let mut buffers = scattered(&stage, &defragmenter, &wanted(), 64);
    let (done, moves) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // What is made and dropped in between gives it something to do.
            let mut made = Vec::new();
            while !done.load(Ordering::Relaxed) {
                let step = defragmenter.step(PassLimits::NONE.with_moves(3)).unwrap();
                moves.fetch_add(step.statistics.moves, Ordering::Relaxed);
                if step.outcome == StepOutcome::Idle {
                    let desc = BufferDesc::new(SIZE).into();
                    made.extend((0..20).map(|_| defragmenter.create_buffer(&desc, &wanted()).unwrap()));
                    let mut index = 0;
                    made.retain(|_| (index % 5 == 0, index += 1).0);
                    stage.deletion_queue.reclaim();
                }
            }
        });
        for round in 0..60 {
            let at = round % buffers.len();
            let bytes = pattern(700 + round as u64, buffers[at].1.len() as u64);
            let source = stage.source(&bytes);
            let recording = stage.tracker.record("writes one of them");
            write_by_queue(&stage, recording, &source, &buffers[at].0);
            buffers[at].1 = bytes;
            if round % 7 == 0 {
                stage.wait_idle();
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    stage.wait_idle();
    assert_hold(&stage, &buffers);
    stage.deletion_queue.reclaim();
}

fn what_is_dropped_while_it_is_copied_goes_when_that_is_done<F: Fixture>(gpu: &Gpu<F>) {
    let stage = stage(gpu);
    let defragmenter = defragmenter(&stage);
    let mut buffers = scattered(&stage, &defragmenter, &wanted(), 64);
    for _ in 0..100 {
        if defragmenter.step(PassLimits::NONE.with_moves(2)).unwrap().outcome == StepOutcome::Moved {
            // Perhaps one that is being copied.
            buffers.pop();
            stage.deletion_queue.reclaim();
        }
    }
    stage.wait_idle();
    assert_hold(&stage, &buffers);
    drop(buffers);
    stage.deletion_queue.reclaim();
    assert_eq!(stage.memory.allocator().statistics().allocations, 0);
}

fn what_goes_before_anybody_saw_its_bytes_arrive_leaves_nothing_behind<F: Fixture>(gpu: &Gpu<F>) {
    let stage = stage(gpu);
    let defragmenter = defragmenter(&stage);
    let buffers = scattered(&stage, &defragmenter, &wanted(), 64);
    while defragmenter.step(PassLimits::NONE).unwrap().outcome != StepOutcome::Moved {}
    drop((buffers, defragmenter));
    stage.wait_idle();
    stage.deletion_queue.reclaim();
    assert_eq!(stage.memory.allocator().statistics().allocations, 0);
    assert_eq!(blocks(&stage), 0);
}

fn the_cpu_is_kept_from_bytes_that_are_on_their_way<F: Fixture>(gpu: &Gpu<F>) {
    let stage = stage(gpu);
    let defragmenter = defragmenter(&stage);
    let buffers = scattered(&stage, &defragmenter, &wanted(), 64);
    while defragmenter.step(PassLimits::NONE).unwrap().outcome != StepOutcome::Moved {}
    let mut early = 0;
    for (i, (buffer, bytes)) in buffers.iter().enumerate() {
        let mut found = vec![0; bytes.len()];
        match buffer.read(0, &mut found) {
            Ok(()) => assert_same(&found, bytes, i),
            Err(AccessError::Moving { .. }) => {
                early += 1;
                let written = buffer.write(0, &[1]);
                assert!(matches!(written, Ok(()) | Err(AccessError::Moving { .. })), "{written:?}");
            }
            Err(AccessError::NotHostVisible { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
    stage.wait_idle();
    // All bytes are there by now; a copy may have completed between two of the reads above.
    if early == 0 {
        assert_hold(&stage, &buffers);
    }
    for (buffer, bytes) in &buffers {
        let written = buffer.write(0, &bytes[..1]);
        assert!(matches!(written, Ok(()) | Err(AccessError::NotHostVisible { .. })), "{written:?}");
    }
    assert_hold(&stage, &buffers);
}

fn what_belongs_to_a_defragmenter_is_moved_by_nobody_else<F: Fixture>(gpu: &Gpu<F>) {
    let stage = stage(gpu);
    let defragmenter = defragmenter(&stage);
    let buffers = scattered(&stage, &defragmenter, &wanted(), 64);
    let desc = DefragmentationDesc::new(DefragmentationStrategy::Full).with_limits(PassLimits::NONE);
    let mut by_hand = Defragmentation::new(stage.memory.allocator(), None, desc).unwrap();
    assert_eq!(by_hand.plan().moves(), 0);
    assert!(matches!(by_hand.next_pass(), NextPass::Done));
    assert!(by_hand.plan().left_to_others > 0);
    // The run stays open, and keeps no resource of the other from being moved.
    assert!(run(&stage, &defragmenter) > 0);
    drop(by_hand);
    assert_hold(&stage, &buffers);
}

fn a_pinned_buffer_among_relocatable_ones_stays_and_costs_nothing<F: Fixture>(gpu: &Gpu<F>) {
    let stage = stage(gpu);
    let defragmenter = defragmenter(&stage);
    // One of the application's own among those of each block, in a pool that does not keep them apart.
    let first = defragmenter.create_buffer(&BufferDesc::new(SIZE).into(), &wanted()).unwrap();
    let mut desc = PoolDesc::new([first.info().memory_type]);
    desc.sizing = Some(BlockSize::Fixed(MIB));
    let pool = stage.memory.allocator().create_pool(desc).unwrap();
    drop(first);
    let wanted = wanted().with_pool(&pool);
    let desc = wanted.clone().with_movability(Movability::Copied);
    let mut own = Vec::new();
    let mut buffers = Vec::new();
    for i in 0..64u64 {
        buffers.push(defragmenter.create_buffer(&BufferDesc::new(SIZE).into(), &wanted).unwrap());
        if i % 4 == 3 {
            own.push(stage.memory.create_buffer(&BufferDesc::new(SIZE).into(), &desc).unwrap());
        }
    }
    let mut index = 0;
    buffers.retain(|_| (index % 4 == 0, index += 1).0);
    stage.deletion_queue.reclaim();
    let places =
        |own: &[Buffer<F::Device>]| -> Vec<u64> { own.iter().map(|it| it.location().offset).collect() };
    let before = places(&own);
    assert_eq!(
        (run(&stage, &defragmenter), defragmenter.statistics().bytes_moved),
        (0, 0),
        "each block has one that stays"
    );
    assert_eq!(places(&own), before);
    drop(pool);
}

fn threads_make_read_and_drop_buffers_while_they_are_moved<F: Fixture>(gpu: &Gpu<F>) {
    let stage = stage(gpu);
    let defragmenter = defragmenter(&stage);
    let done = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for thread in 0..2u64 {
            let (stage, defragmenter, done) = (&stage, &defragmenter, &done);
            scope.spawn(move || {
                let uploader = Uploader::new(&stage.memory, UploaderDesc::default()).unwrap();
                let mut live: Vec<(Buffer<F::Device>, Vec<u8>)> = Vec::new();
                for i in 0..150u64 {
                    let bytes = pattern(thread << 32 | i, SIZE / 2 + i);
                    let desc = BufferDesc::new(SIZE / 2 + i).into();
                    let buffer = defragmenter.create_buffer(&desc, &wanted()).unwrap();
                    // It may be moving already: then its bytes are written after those that are copied.
                    uploader.initialize(&buffer, 0, &bytes).unwrap();
                    uploader.submit().unwrap();
                    live.push((buffer, bytes));
                    if live.len() > 20 {
                        drop(live.swap_remove((i * 7 % 20) as usize));
                        stage.deletion_queue.reclaim();
                    }
                }
                done.fetch_add(1, Ordering::Relaxed);
                drop(live);
            });
        }
        while done.load(Ordering::Relaxed) < 2 {
            defragmenter.step(PassLimits::default()).unwrap();
            stage.deletion_queue.reclaim();
        }
    });
    stage.wait_idle();
    stage.deletion_queue.reclaim();
    stage.memory.allocator().check_invariants();
}

fn what_need_not_be_copied_is_made_again_without_a_copy<F: Fixture>(gpu: &Gpu<F>) {
    let stage = stage(gpu);
    let defragmenter = defragmenter(&stage);
    let buffers = scattered(&stage, &defragmenter, &wanted().with_movability(Movability::Recreated), 64);
    let before = blocks(&stage);
    assert!(run(&stage, &defragmenter) > 0 && blocks(&stage) < before);
    assert_eq!(defragmenter.statistics().bytes_moved, 0);
    drop(buffers);
}

fn a_step_moves_no_more_than_its_limits<F: Fixture>(gpu: &Gpu<F>) {
    let stage = stage(gpu);
    let defragmenter = defragmenter(&stage);
    let buffers = scattered(&stage, &defragmenter, &wanted(), 64);
    let limits = PassLimits::NONE.with_moves(3).with_bytes(130 * KIB);
    for _ in 0..200 {
        let step = defragmenter.step(limits).unwrap();
        assert!(step.statistics.moves <= 2 && step.statistics.bytes_moved <= 130 * KIB, "{step:?}");
        assert_eq!(step.copied_at.is_some(), step.statistics.moves > 0);
    }
    assert!(defragmenter.statistics().passes > 1);
    stage.wait_idle();
    assert_hold(&stage, &buffers);
}

fn a_defragmenter_that_is_dropped_half_way_leaves_everything_where_it_is<F: Fixture>(gpu: &Gpu<F>) {
    let stage = stage(gpu);
    for steps in 0..6 {
        let defragmenter = defragmenter(&stage);
        let buffers = scattered(&stage, &defragmenter, &wanted(), 64);
        for _ in 0..steps {
            defragmenter.step(PassLimits::NONE.with_moves(1)).unwrap();
        }
        defragmenter.stop();
        let by_hand = Defragmentation::new(stage.memory.allocator(), None, DefragmentationDesc::default());
        assert!(by_hand.is_ok(), "a defragmenter that was stopped keeps no other from beginning");
        drop((by_hand, defragmenter));
        stage.wait_idle();
        stage.deletion_queue.reclaim();
        assert_hold(&stage, &buffers);
        stage.memory.allocator().check_invariants();
        let other = Defragmenter::new(&stage.memory, DefragmenterDesc::default()).unwrap();
        other.step(PassLimits::NONE).expect("no other defragmentation runs any more");
        drop((buffers, other));
        stage.wait_idle();
        stage.deletion_queue.reclaim();
    }
}
