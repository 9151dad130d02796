//! Buffers and images that get their room by moving others, which hold what they held.

use allotment::device::{BufferDesc, MemoryTypeIndex};
use allotment::memory::blocks::BlockSize;
use allotment::memory::defragmentation::{Defragmenter, RoomError};
use allotment::memory::{Buffer, ResourceError};
use allotment::upload::{Uploader, UploaderDesc};
use allotment::{AllocationOptions, PoolDesc};

use super::allocator::{KIB, MIB};
use super::image_copies::desc;
use super::moves::{EXTENT, assert_hold, assert_texels, defragmenter, stage, wanted, written_images};
use super::stage::Stage;
use crate::bytes::pattern;
use crate::fixture::{Fixture, Outcome, Test, tests};
use crate::gpu::{Gpu, PATIENCE};

pub(super) fn all<F: Fixture>() -> Vec<Test<F>> {
    tests![F:
        buffers_move_so_that_a_large_one_fits,
        buffers_that_move_by_less_than_their_size_go_aside,
        images_move_so_that_another_fits,
        a_pinned_buffer_in_the_way_is_left_where_it_is,
        nothing_moves_while_a_recording_is_open,
    ]
}

/// A pool of one block, in the memory type that `probe` is in.
fn pool<F: Fixture>(stage: &Stage<'_, F>, memory_type: MemoryTypeIndex, block: u64) -> AllocationOptions {
    let mut desc = PoolDesc::new([memory_type]);
    (desc.sizing, desc.max_blocks) = (Some(BlockSize::Fixed(block)), 1);
    wanted().with_pool(&stage.memory.allocator().create_pool(desc).unwrap())
}

fn type_of_buffers<F: Fixture>(stage: &Stage<'_, F>) -> MemoryTypeIndex {
    let buffer = stage.memory.create_buffer(&BufferDesc::new(64 * KIB).into(), &wanted()).unwrap();
    buffer.location().memory_type
}

/// Buffers of some sizes in KiB, one after the other, with their bytes.
fn written<F: Fixture>(
    stage: &Stage<'_, F>,
    defragmenter: &Defragmenter<F::Device>,
    options: &AllocationOptions,
    kib: &[u64],
) -> Vec<(Buffer<F::Device>, Vec<u8>)> {
    let uploader = Uploader::new(&stage.memory, UploaderDesc::default()).unwrap();
    let mut all = Vec::new();
    for (i, size) in (0..).zip(kib.iter().map(|kib| kib * KIB)) {
        let bytes = pattern(i, size);
        let buffer = defragmenter.create_buffer(&BufferDesc::new(size).into(), options).unwrap();
        uploader.initialize(&buffer, 0, &bytes).unwrap();
        all.push((buffer, bytes));
    }
    uploader.submit().unwrap();
    stage.wait_idle();
    all
}

fn keep_odd<T>(all: &mut Vec<T>) {
    let mut index = 0;
    all.retain(|_| (index % 2 == 1, index += 1).0);
}

/// The sizes and places of buffers of a multiple of 64 KiB are the same on all devices.
fn buffers_move_so_that_a_large_one_fits<F: Fixture>(gpu: &Gpu<F>) {
    let stage = stage(gpu);
    let defragmenter = defragmenter(&stage);
    let options = pool(&stage, type_of_buffers(&stage), MIB);
    let mut buffers = written(&stage, &defragmenter, &options, &[64; 16]);
    keep_odd(&mut buffers);
    stage.deletion_queue.reclaim();
    let large = BufferDesc::new(512 * KIB).into();
    let refused = defragmenter.create_buffer(&large, &options).unwrap_err();
    assert!(matches!(refused, ResourceError::Allocation(_)), "{refused}");
    let large = defragmenter.making_room(PATIENCE).create_buffer(&large, &options).unwrap();
    assert!(large.is_relocatable() && large.location().size >= 512 * KIB);
    assert_eq!(stage.memory.allocator().statistics().blocks, 1);
    // Half of them were in the way.
    assert_eq!(buffers.iter().map(|(buffer, _)| buffer.moves()).sum::<u32>(), 4);
    let bytes = pattern(99, 512 * KIB);
    let uploader = Uploader::new(&stage.memory, UploaderDesc::default()).unwrap();
    uploader.initialize(&large, 0, &bytes).unwrap();
    uploader.submit().unwrap();
    stage.wait_idle();
    drop(uploader);
    buffers.push((large, bytes));
    assert_hold(&stage, &buffers);
    stage.memory.allocator().check_invariants();
}

fn buffers_that_move_by_less_than_their_size_go_aside<F: Fixture>(gpu: &Gpu<F>) {
    let stage = stage(gpu);
    let defragmenter = defragmenter(&stage);
    let options = pool(&stage, type_of_buffers(&stage), MIB);
    let mut buffers = written(&stage, &defragmenter, &options, &[64, 384, 64, 384, 128]);
    let last = buffers.pop().unwrap();
    keep_odd(&mut buffers);
    stage.deletion_queue.reclaim();
    let wanted = BufferDesc::new(128 * KIB).into();
    let made = defragmenter.making_room(PATIENCE).create_buffer(&wanted, &options).unwrap();
    buffers.push(last);
    assert_hold(&stage, &buffers);
    let moves: u32 = buffers.iter().map(|(buffer, _)| buffer.moves()).sum();
    assert!(moves >= 2, "one of them goes aside and comes back: {moves}");
    // The block for that is gone.
    stage.deletion_queue.reclaim();
    assert_eq!(stage.memory.allocator().statistics().blocks, 1);
    stage.memory.allocator().check_invariants();
    drop(made);
}

fn images_move_so_that_another_fits<F: Fixture>(gpu: &Gpu<F>) {
    let stage = stage(gpu);
    let defragmenter = defragmenter(&stage);
    let small = desc(gpu, EXTENT);
    let probe = defragmenter.create_image(&small.into(), &wanted()).unwrap();
    if probe.info().dedicated {
        // The driver wants images alone in their memory.
        return;
    }
    let options = pool(&stage, probe.location().memory_type, MIB);
    drop(probe);
    let create = || defragmenter.create_image(&small.into(), &options).ok();
    let mut images = written_images(&stage, create);
    keep_odd(&mut images);
    stage.deletion_queue.reclaim();
    // As large as two and a half of them.
    let large = desc(gpu, [EXTENT[0], EXTENT[1] * 5 / 2, 1]).into();
    let before = stage.memory.allocator().statistics().blocks;
    let made = defragmenter.making_room(PATIENCE).create_image(&large, &options);
    assert_texels(&stage, &images);
    let moves: u32 = images.iter().map(|(image, _)| image.moves()).sum();
    assert!(made.is_ok() && moves > 0, "{moves} of {} moved: {made:?}", images.len());
    stage.deletion_queue.reclaim();
    assert_eq!(stage.memory.allocator().statistics().blocks, before);
    stage.memory.allocator().check_invariants();
}

fn a_pinned_buffer_in_the_way_is_left_where_it_is<F: Fixture>(gpu: &Gpu<F>) {
    let stage = stage(gpu);
    let defragmenter = defragmenter(&stage);
    let options = pool(&stage, type_of_buffers(&stage), MIB);
    let mut buffers = written(&stage, &defragmenter, &options, &[64; 7]);
    let pinned = stage.memory.create_buffer(&BufferDesc::new(64 * KIB).into(), &options).unwrap();
    buffers.extend(written(&stage, &defragmenter, &options, &[64; 8]));
    keep_odd(&mut buffers);
    stage.deletion_queue.reclaim();
    let before: Vec<_> = buffers.iter().map(|(buffer, _)| buffer.location().offset).collect();
    let at = pinned.location().offset;
    let large = BufferDesc::new(576 * KIB).into();
    let refused = defragmenter.making_room(PATIENCE).create_buffer(&large, &options).unwrap_err();
    assert!(matches!(refused, ResourceError::Room(RoomError::NothingHelps { .. })), "{refused}");
    let after: Vec<_> = buffers.iter().map(|(buffer, _)| buffer.location().offset).collect();
    assert_eq!((before, at), (after, pinned.location().offset), "a request that is refused moves nothing");
    let fits = BufferDesc::new(320 * KIB).into();
    let made = defragmenter.making_room(PATIENCE).create_buffer(&fits, &options).unwrap();
    assert_eq!(pinned.location().offset, at);
    assert_hold(&stage, &buffers);
    drop(made);
}

fn nothing_moves_while_a_recording_is_open<F: Fixture>(gpu: &Gpu<F>) {
    let stage = stage(gpu);
    let defragmenter = defragmenter(&stage);
    let options = pool(&stage, type_of_buffers(&stage), MIB);
    let mut buffers = written(&stage, &defragmenter, &options, &[64; 16]);
    keep_odd(&mut buffers);
    stage.deletion_queue.reclaim();
    let wanted = BufferDesc::new(128 * KIB).into();
    let recording = stage.tracker.record("may read any of them");
    let refused = defragmenter.making_room(PATIENCE).create_buffer(&wanted, &options).unwrap_err();
    assert!(matches!(refused, ResourceError::Room(RoomError::InUse { .. })), "{refused}");
    assert!(buffers.iter().all(|(buffer, _)| buffer.moves() == 0));
    drop(recording);
    let made = defragmenter.making_room(PATIENCE).create_buffer(&wanted, &options).unwrap();
    assert_hold(&stage, &buffers);
    drop(made);
}
