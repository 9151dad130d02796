//! A `Gpu` creates in a custom pool everything that it creates in the default pools.

use core::time::Duration;
use std::sync::Arc;

use allotment::device::simulated::SimulatedGpu;
use allotment::device::{BufferDesc, ImageDesc, MemoryProperties};
use allotment::memory::blocks::{BlockSize, EmptyBlockPolicy};
use allotment::memory::defragmentation::{
    DefragmentationDesc, DefragmentationStrategy, Defragmenter, DefragmenterDesc, PassLimits, StepOutcome,
};
use allotment::memory::names::ShortName;
use allotment::memory::preview::AllocationPreview;
use allotment::memory::{AccessError, DestroyPoolError, MappedBuffer, ResourceError};
use allotment::upload::{ReadbackRing, RingDesc, UploadPool, UploadPoolDesc};
use allotment::{
    Algorithm, AllocationError, AllocationOptions, GpuDesc, MemoryUsage, Pool, PoolDesc, Requirements,
};

use crate::rig::{QUEUE, Rig};

/// A pool in the best memory type for a usage, and options that name it.
fn pool_for(rig: &Rig, usage: MemoryUsage) -> (Pool, AllocationOptions) {
    let allocator = rig.gpu.allocator();
    let best = allocator.explain(&Requirements::new(256), &usage.into())[0].memory_type;
    let pool = allocator.create_pool(PoolDesc::new([best])).unwrap();
    let options = usage.with_pool(&pool).with_name("in a pool");
    (pool, options)
}

fn live(rig: &Rig, pool: &Pool) -> u32 {
    rig.gpu.allocator().reports().pool_statistics(pool).unwrap().allocations
}

/// Nothing that was made may be left, in the pool or elsewhere.
fn finish(rig: Rig, pool: Pool, options: AllocationOptions) {
    drop(options);
    rig.gpu.wait_idle().unwrap();
    rig.gpu.allocator().destroy_pool(pool).unwrap();
    rig.finish();
}

#[test]
fn a_buffer_of_a_pool_is_uploaded_to_read_and_destroyed_as_any_other() {
    let rig = Rig::new();
    let (pool, options) = pool_for(&rig, MemoryUsage::GpuOnly);
    let buffer = rig.gpu.create_buffer(&BufferDesc::new(4096), &options).unwrap();
    let image = rig.gpu.create_image(&ImageDesc::new(64, 64, 4), &options).unwrap();
    assert_eq!(live(&rig, &pool), 2);
    assert_eq!(buffer.info().name.unwrap().as_str(), "in a pool");
    assert_eq!(image.info().memory_type, buffer.location().memory_type);
    rig.gpu.uploads().write_buffer(&buffer, 0, &[9; 4096]).unwrap();
    let mut found = [0; 4096];
    rig.gpu.read_buffer(&buffer, 0, &mut found).unwrap();
    assert_eq!(found, [9; 4096]);

    // The GPU still reads it when it is dropped.
    rig.device.pause_queues();
    let frame = rig.gpu.begin_frame().unwrap();
    let ticket = rig.read(&frame, (&buffer.handle(), 0), 4096);
    drop((buffer, image));
    frame.end().unwrap();
    assert_eq!(live(&rig, &pool), 2);
    let refused = rig.gpu.allocator().reset_pool(&pool);
    assert_eq!(refused, Err(AllocationError::ResourcesInPool { count: 2, name: ShortName::NONE }));
    rig.device.resume_queues();
    assert_eq!(rig.copied(&ticket), [9; 4096]);
    assert_eq!(live(&rig, &pool), 0);
    drop(ticket);
    finish(rig, pool, options);
}

#[test]
fn the_cpu_writes_and_reads_a_buffer_where_its_memory_is_mapped() {
    for profile in ["discrete-large-bar", "integrated", "mobile"] {
        let rig = Rig::on(profile, GpuDesc::default());
        let (pool, options) = pool_for(&rig, MemoryUsage::Readback);
        let buffer = rig.gpu.create_buffer(&BufferDesc::new(1000), &options).unwrap();
        buffer.write(10, &[1, 2, 3]).unwrap();
        let mut found = [0; 3];
        buffer.read(10, &mut found).unwrap();
        assert_eq!(found, [1, 2, 3]);
        assert!(buffer.info().mapped_ptr.is_some());
        // Beyond the buffer, though its memory may have more.
        let beyond = AccessError::OutOfRange {
            offset: 998,
            size: 3,
            available: 1000,
            name: ShortName::new("in a pool"),
        };
        assert_eq!(buffer.write(998, &[0; 3]), Err(beyond));
        assert_eq!(buffer.read(998, &mut found), Err(beyond));
        drop(buffer);
        finish(rig, pool, options);
    }
    let rig = Rig::on("discrete-no-bar", GpuDesc::default());
    let buffer = rig.buffer(64);
    let memory_type = buffer.location().memory_type;
    assert_eq!(
        buffer.write(0, &[1]),
        Err(AccessError::NotHostVisible { memory_type, name: ShortName::new("test") })
    );
    drop(buffer);
    rig.finish();
}

#[test]
fn rings_upload_pages_and_mapped_buffers_take_their_memory_from_a_pool() {
    let rig = Rig::new();
    let (pool, options) = pool_for(&rig, MemoryUsage::Upload);
    let allocator = Arc::clone(rig.gpu.allocator());
    let mapped = MappedBuffer::new(&allocator, &BufferDesc::new(256), &options).unwrap();
    mapped.write(0, &[5; 256]).unwrap();
    assert_eq!(live(&rig, &pool), 1);
    let ring_desc = RingDesc::readback(1 << 16).with_memory(options.clone());
    let ring = ReadbackRing::new(&allocator, rig.gpu.tracker(), &ring_desc).unwrap();
    assert_eq!(live(&rig, &pool), 2);
    let pages_desc = UploadPoolDesc::default().with_memory(options.clone());
    let pages = UploadPool::new(&allocator, rig.gpu.tracker(), pages_desc).unwrap();
    let recording = rig.gpu.record("uploads");
    let mut arena = pages.arena(recording.id());
    arena.allocate(100, allotment::Alignment::ONE).unwrap();
    assert_eq!(live(&rig, &pool), 3);
    drop((recording, arena));
    // A ring and pages hold a clone of the pool, by their options.
    drop((mapped, ring_desc, ring));
    let refused = allocator.destroy_pool(pool.clone()).unwrap_err();
    assert!(matches!(refused, DestroyPoolError::InUse { allocations: 1, .. }), "{refused}");
    drop(refused);
    rig.gpu.wait_idle().unwrap();
    drop(pages);
    finish(rig, pool, options);
}

#[test]
fn many_allocations_previews_and_reservations_are_made_in_a_pool() {
    let rig = Rig::new();
    let (pool, options) = pool_for(&rig, MemoryUsage::GpuOnly);
    let allocator = rig.gpu.allocator();
    let page = Requirements::new(65536);
    let grows = allocator.preview(&page, &options).unwrap();
    assert!(matches!(grows, AllocationPreview::Grows { .. }), "{grows:?}");
    let reserved = allocator.reserve(&page, &options, 64 << 20).unwrap();
    assert!(reserved >= 64 << 20);
    assert_eq!(allocator.reports().pool_statistics(&pool).unwrap().block_bytes, reserved);
    assert!(matches!(allocator.preview(&page, &options).unwrap(), AllocationPreview::Fits { .. }));
    let calls = allocator.reports().device_calls();
    let pages = allocator.allocate_many(&page, &options, 1024).unwrap();
    assert_eq!(allocator.reports().device_calls(), calls, "the room was reserved");
    let detailed = allocator.reports().detailed_pool_statistics(&pool).unwrap();
    assert_eq!((detailed.brief.allocations, detailed.brief.allocation_bytes), (1024, 64 << 20));
    assert_eq!(allocator.statistics().allocations, 1024);
    assert!(allocator.free_many(pages).is_empty());
    finish(rig, pool, options);
}

#[test]
fn explain_says_which_types_of_a_pool_a_request_tries_and_in_which_order() {
    let rig = Rig::on("discrete-large-bar", GpuDesc::default());
    let allocator = rig.gpu.allocator();
    let types = [2, 0].map(allotment::device::MemoryTypeIndex);
    let pool = allocator.create_pool(PoolDesc::new(types)).unwrap();
    let mut options = MemoryUsage::GpuOnly.with_pool(&pool);
    let reasons = |options: &AllocationOptions| -> Vec<String> {
        let candidates = allocator.explain(&Requirements::new(256), options);
        candidates.iter().map(|found| format!("{} {}", found.memory_type, found.suitability)).collect()
    };
    let not_in_pool = "not one of the pool's memory types";
    assert_eq!(
        reasons(&options),
        ["2 suitable", "0 suitable at cost 1", &format!("1 {not_in_pool}"), &format!("3 {not_in_pool}")]
    );
    // What is required holds in a pool as well, and decides.
    options.required = MemoryProperties::DEVICE_LOCAL;
    assert_eq!(reasons(&options)[0], "0 suitable at cost 1");
    let made = allocator.allocate(&Requirements::new(256), &options).unwrap();
    assert_eq!(allocator.location(&made).unwrap().memory_type, types[1]);
    allocator.free(made).unwrap();
    options.required = MemoryProperties::PROTECTED;
    let refused = allocator.allocate(&Requirements::new(256), &options).unwrap_err();
    assert!(matches!(refused, AllocationError::NoTypeWithProperties { .. }), "{refused}");
    finish(rig, pool, options);
}

#[test]
fn a_pool_is_not_destroyed_while_a_clone_of_it_is_around() {
    let rig = Rig::new();
    let (pool, options) = pool_for(&rig, MemoryUsage::GpuOnly);
    let refused = rig.gpu.allocator().destroy_pool(pool).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the pool has 1 other clones, drop them, and the options and rings that hold one"
    );
    let DestroyPoolError::Cloned { pool, clones: 1 } = refused else { panic!("{refused:?}") };
    assert!(rig.gpu.create_buffer(&BufferDesc::new(64), &options).is_ok(), "the pool is as it was");
    finish(rig, pool, options);
}

#[test]
fn a_pool_of_another_allocator_is_refused_by_every_call() {
    let rig = Rig::new();
    let other = Rig::new();
    let (pool, options) = pool_for(&other, MemoryUsage::GpuOnly);
    let allocator = rig.gpu.allocator();
    let size = Requirements::new(64);
    let wrong = AllocationError::WrongPool { name: ShortName::new("in a pool") };
    assert_eq!(allocator.allocate(&size, &options).unwrap_err(), wrong);
    assert_eq!(allocator.allocate_many(&size, &options, 3).unwrap_err(), wrong);
    assert_eq!(allocator.preview(&size, &options).unwrap_err(), wrong);
    assert_eq!(allocator.reserve(&size, &options, 100).unwrap_err(), wrong);
    assert!(matches!(
        allocator.reports().detailed_pool_statistics(&pool),
        Err(AllocationError::WrongPool { .. })
    ));
    let refused = rig.gpu.create_buffer(&BufferDesc::new(64), &options).unwrap_err();
    assert_eq!(refused, ResourceError::Allocation(wrong));
    let refused = rig.gpu.create_image(&ImageDesc::new(64, 64, 4), &options).unwrap_err();
    assert_eq!(refused, ResourceError::Allocation(wrong));
    rig.finish();
    finish(other, pool, options);
}

#[test]
fn a_reservation_for_requests_that_no_block_of_the_pool_holds_allocates_no_block() {
    let rig = Rig::new();
    for (block_size, size) in [(1, 2), (4096, 4097), (3 << 20, 1 << 22)] {
        let best =
            rig.gpu.allocator().explain(&Requirements::new(1), &MemoryUsage::GpuOnly.into())[0].memory_type;
        let mut desc = PoolDesc::new([best]);
        desc.sizing = Some(BlockSize::Fixed(block_size));
        let pool = rig.gpu.allocator().create_pool(desc).unwrap();
        let options = MemoryUsage::GpuOnly.with_pool(&pool);
        let refused = rig.gpu.allocator().reserve(&Requirements::new(size), &options, 1 << 20);
        let allocated = rig.gpu.allocator().allocate(&Requirements::new(size), &options);
        assert_eq!(refused.unwrap_err(), allocated.unwrap_err());
        assert_eq!(rig.gpu.allocator().reports().pool_statistics(&pool).unwrap().blocks, 0);
        drop(options);
        rig.gpu.allocator().destroy_pool(pool).unwrap();
    }
    rig.finish();
}

#[test]
fn the_end_of_a_frame_defragments_a_custom_pool_with_relocatable_buffers() {
    let full = DefragmentationDesc::new(DefragmentationStrategy::Full);
    let rig = Rig::with(GpuDesc::default().with_defragmentation(full));
    let allocator = Arc::clone(rig.gpu.allocator());
    let best = allocator.explain(&Requirements::new(256), &MemoryUsage::GpuOnly.into())[0].memory_type;
    let mut desc = PoolDesc::new([best]);
    desc.sizing = Some(BlockSize::Fixed(1 << 20));
    desc.empty_blocks = EmptyBlockPolicy::NONE;
    let pool = allocator.create_pool(desc).unwrap();
    let options = MemoryUsage::GpuOnly.with_pool(&pool).relocatable();
    let mesh = |number: u8| {
        let mesh = rig.gpu.create_buffer(&BufferDesc::new(256 << 10), &options).unwrap();
        rig.gpu.uploads().write_buffer(&mesh, 0, &[number; 1000]).unwrap();
        (number, mesh)
    };
    let mut meshes: Vec<_> = (0..32).map(mesh).collect();
    assert_eq!(allocator.reports().pool_statistics(&pool).unwrap().blocks, 8);
    meshes.retain(|(number, _)| number % 4 == 0);
    for _ in 0..100 {
        rig.gpu.begin_frame().unwrap().end().unwrap();
        rig.gpu.wait_idle().unwrap();
    }
    let after = allocator.reports().pool_statistics(&pool).unwrap();
    assert_eq!((after.blocks, after.allocations), (2, 8));
    assert_eq!(meshes.iter().map(|(_, mesh)| mesh.moves()).sum::<u32>(), 6);
    assert_eq!(
        allocator.reset_pool(&pool),
        Err(AllocationError::ResourcesInPool { count: 8, name: ShortName::NONE })
    );
    for (number, mesh) in &meshes {
        let mut found = vec![0; 1000];
        rig.gpu.read_buffer(mesh, 0, &mut found).unwrap();
        assert_eq!(found, [*number; 1000]);
    }
    drop((meshes, options));
    rig.gpu.wait_idle().unwrap();
    rig.gpu.defragmenter().stop();
    allocator.destroy_pool(pool).unwrap();
    drop(allocator);
    rig.finish();
}

#[test]
fn what_the_program_frees_while_a_survey_is_made_is_found_by_the_next_one() {
    let full = DefragmentationDesc::new(DefragmentationStrategy::Full);
    // Each step without time does one small piece of work, so a survey takes several.
    let no_time = PassLimits::NONE.with_time(Duration::ZERO);
    for steps_before in 0..60 {
        let rig = Rig::new();
        let defragmenter = Defragmenter::new(rig.gpu.memory(), DefragmenterDesc::new(full)).unwrap();
        let (pool, options) = pool_of_small_blocks(&rig);
        let mesh = |_| defragmenter.create_buffer(&BufferDesc::new(256 << 10), &options).unwrap();
        let mut meshes: Vec<_> = (0..32).map(mesh).collect();
        let steps = |count, limits| {
            for _ in 0..count {
                defragmenter.step(limits).unwrap();
                rig.gpu.wait_idle().unwrap();
            }
        };
        steps(steps_before, no_time);
        meshes = meshes.into_iter().step_by(4).collect();
        rig.gpu.wait_idle().unwrap();
        steps(20, PassLimits::NONE);
        let blocks = rig.gpu.allocator().reports().pool_statistics(&pool).unwrap().blocks;
        assert_eq!((defragmenter.statistics().moves, blocks), (6, 2), "freed after {steps_before} steps");
        drop((meshes, options, defragmenter));
        rig.gpu.wait_idle().unwrap();
        rig.gpu.allocator().destroy_pool(pool).unwrap();
        rig.finish();
    }
}

#[test]
fn a_step_goes_on_with_the_next_pool_within_what_the_one_before_has_left_of_the_limits() {
    let full = DefragmentationDesc::new(DefragmentationStrategy::Full);
    // Six of eight blocks become empty in each pool, by a move each.
    for (limits, expected) in [(PassLimits::NONE, vec![12]), (PassLimits::NONE.with_moves(4), vec![4; 3])] {
        let rig = Rig::new();
        let defragmenter = Defragmenter::new(rig.gpu.memory(), DefragmenterDesc::new(full)).unwrap();
        let pools = [(); 2].map(|()| pool_of_small_blocks(&rig));
        let mut meshes = Vec::new();
        for (_, options) in &pools {
            let mesh = |_| defragmenter.create_buffer(&BufferDesc::new(256 << 10), options).unwrap();
            meshes.extend((0..32).map(mesh).collect::<Vec<_>>().into_iter().step_by(4));
        }
        rig.gpu.wait_idle().unwrap();
        let mut moves = Vec::new();
        loop {
            let step = defragmenter.step(limits).unwrap();
            rig.gpu.wait_idle().unwrap();
            if step.outcome == StepOutcome::Idle {
                break;
            }
            moves.push(step.statistics.moves);
        }
        moves.retain(|&moves| moves != 0);
        assert_eq!(moves, expected);
        drop((meshes, defragmenter));
        rig.gpu.wait_idle().unwrap();
        for (pool, options) in pools {
            drop(options);
            rig.gpu.allocator().destroy_pool(pool).unwrap();
        }
        rig.finish();
    }
}

/// A pool with blocks of 1 MiB, and options that name it.
fn pool_of_small_blocks(rig: &Rig) -> (Pool, AllocationOptions) {
    let allocator = rig.gpu.allocator();
    let best = allocator.explain(&Requirements::new(256), &MemoryUsage::GpuOnly.into())[0].memory_type;
    let mut desc = PoolDesc::new([best]);
    desc.sizing = Some(BlockSize::Fixed(1 << 20));
    desc.empty_blocks = EmptyBlockPolicy::NONE;
    let pool = allocator.create_pool(desc).unwrap();
    let options = MemoryUsage::GpuOnly.with_pool(&pool).with_name("in a pool");
    (pool, options)
}

#[test]
fn a_pool_that_cannot_be_defragmented_keeps_no_step_from_being_idle() {
    let rig = Rig::new();
    let full = DefragmentationDesc::new(DefragmentationStrategy::Full);
    let defragmenter = Defragmenter::new(rig.gpu.memory(), DefragmenterDesc::new(full)).unwrap();
    let best =
        rig.gpu.allocator().explain(&Requirements::new(256), &MemoryUsage::GpuOnly.into())[0].memory_type;
    let mut desc = PoolDesc::new([best]);
    desc.algorithm = Algorithm::Linear;
    let pool = rig.gpu.allocator().create_pool(desc).unwrap();
    let options = MemoryUsage::GpuOnly.with_pool(&pool);
    let mesh = defragmenter.create_buffer(&BufferDesc::new(256), &options).unwrap();
    let outcomes: Vec<_> = (0..6).map(|_| defragmenter.step(PassLimits::NONE).unwrap().outcome).collect();
    assert_eq!(outcomes[2..], [StepOutcome::Idle; 4], "{outcomes:?}");
    drop((mesh, options, defragmenter));
    rig.gpu.wait_idle().unwrap();
    rig.gpu.allocator().destroy_pool(pool).unwrap();
    rig.finish();
}

#[test]
fn a_pool_is_not_destroyed_while_its_defragmentation_is_under_way() {
    let full = DefragmentationDesc::new(DefragmentationStrategy::Full);
    let limits = PassLimits::NONE.with_moves(1);
    let rig = Rig::new();
    let defragmenter = Defragmenter::new(rig.gpu.memory(), DefragmenterDesc::new(full)).unwrap();
    let best =
        rig.gpu.allocator().explain(&Requirements::new(256), &MemoryUsage::GpuOnly.into())[0].memory_type;
    let mut desc = PoolDesc::new([best]);
    desc.sizing = Some(BlockSize::Fixed(1 << 20));
    let pool = rig.gpu.allocator().create_pool(desc).unwrap();
    let options = MemoryUsage::GpuOnly.with_pool(&pool);
    let mesh = |_| defragmenter.create_buffer(&BufferDesc::new(256 << 10), &options).unwrap();
    let mut meshes: Vec<_> = (0..32).map(mesh).collect();
    let mut index = 0;
    meshes.retain(|_| (index % 4 == 0, index += 1).0);
    rig.gpu.wait_idle().unwrap();
    while defragmenter.step(limits).unwrap().statistics.moves == 0 {}
    drop((meshes, options));
    rig.gpu.wait_idle().unwrap();
    let refused = rig.gpu.allocator().destroy_pool(pool);
    let pool = match refused {
        Err(DestroyPoolError::Cloned { pool, clones: 1 } | DestroyPoolError::InUse { pool, .. }) => pool,
        other => panic!("{other:?}"),
    };
    defragmenter.stop();
    rig.gpu.allocator().destroy_pool(pool).unwrap();
    assert_eq!(defragmenter.step(limits).unwrap().statistics.moves, 0);
    drop(defragmenter);
    rig.finish();
}

#[test]
fn frames_use_buffers_of_a_pool_while_the_pool_is_maintained() {
    let mut desc = allotment::AllocatorDesc::default();
    desc.block_growth =
        allotment::memory::blocks::BlockGrowth::Ahead(allotment::memory::blocks::Watermark::default());
    let rig = Rig::with(GpuDesc::default().with_allocator(desc));
    let (pool, options) = pool_for(&rig, MemoryUsage::GpuOnly);
    let mut kept = Vec::new();
    for number in 0..50_u8 {
        let frame = rig.gpu.begin_frame().unwrap();
        let buffer = rig.gpu.create_buffer(&BufferDesc::new(1 << 20), &options).unwrap();
        rig.gpu.uploads().write_buffer(&buffer, 0, &[number; 64]).unwrap();
        let commands = frame.command_allocator(QUEUE).unwrap();
        rig.submit(&frame, &commands).unwrap();
        frame.end().unwrap();
        rig.gpu.allocator().maintain();
        kept.push(buffer);
    }
    let calls = rig.gpu.allocator().reports().device_calls();
    let next: allotment::memory::Buffer<SimulatedGpu> =
        rig.gpu.create_buffer(&BufferDesc::new(1 << 20), &options).unwrap();
    assert_eq!(rig.gpu.allocator().reports().device_calls().allocate, calls.allocate, "the room was there");
    drop((kept, next));
    finish(rig, pool, options);
}
