//! Blocks of several shards, which become one another's.

use core::time::Duration;

use allotment::memory::DestroyPoolError;
use allotment::memory::blocks::{BlockSizes, ManualTime, TimeSource, allocate_as_thread};
use allotment::memory::defragmentation::{
    Defragmentation, DefragmentationDesc, DefragmentationStrategy, JoinThreads, NextPass, PassLimits,
    RoomError,
};
use allotment::{Allocation, MemoryUsage, PoolDesc};

use crate::gains::{FULL, unlimited};
use crate::model::{HOST, Model, copy, movable};
use crate::rig::{AllocateWanted as _, DISCRETE, KIB, MIB, Rig, fixed_pool, profile, wanted_in};
use crate::room::make_free_range;

fn rig_with(time: &ManualTime) -> Rig {
    Rig::with(profile(DISCRETE), |desc| {
        (desc.threads, desc.block_sizes) = (4, BlockSizes::fixed(MIB));
        desc.time = TimeSource::Manual(time.clone());
    })
}

fn rig() -> Rig {
    rig_with(&ManualTime::new())
}

fn joining(join: JoinThreads) -> DefragmentationDesc {
    unlimited(FULL).with_join_threads(join)
}

/// Calls `f` as a thread that uses a shard.
fn in_shard<T>(shard: u32, f: impl FnOnce() -> T) -> T {
    let before = allocate_as_thread(shard);
    let result = f();
    allocate_as_thread(before);
    result
}

/// Allocates the same in each of four shards, 400 KiB in all.
fn in_four_shards(model: &mut Model<'_>, pool: Option<usize>) {
    for shard in 0..4 {
        in_shard(shard, || (0..5).for_each(|_| model.allocate(pool, &movable(20 * KIB))));
    }
}

fn run(model: &mut Model<'_>, join: JoinThreads) {
    let mut run = Defragmentation::new(model.rig, None, joining(join)).unwrap();
    model.run(&mut run);
    drop(run);
    model.check_alone();
}

#[test]
fn what_four_threads_allocated_ends_in_as_few_blocks_as_it_fills() {
    let rig = rig();
    let mut model = Model::new(&rig, &[], 1);
    // All at once, so that none finds the other's shard by chance.
    let barrier = std::sync::Barrier::new(4);
    let tokens: Vec<Allocation> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|shard| {
                let (rig, barrier) = (&rig, &barrier);
                scope.spawn(move || {
                    allocate_as_thread(shard);
                    barrier.wait();
                    (0..5).map(|_| rig.allocate_wanted(&movable(20 * KIB)).unwrap()).collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    tokens.into_iter().for_each(|token| model.adopt(None, &movable(20 * KIB), token));
    assert!(rig.statistics().blocks > 1);
    let plan = Defragmentation::new(&rig, None, joining(JoinThreads::Always)).unwrap().plan().clone();
    assert_eq!(plan.ideal_blocks, 1);
    run(&mut model, JoinThreads::Always);
    assert_eq!(rig.statistics().blocks, 1, "400 KiB in a block of 1 MiB");
    // What was joined is not moved again.
    let mut again = Defragmentation::new(&rig, None, joining(JoinThreads::Always)).unwrap();
    assert_eq!(again.plan().moves(), 0);
    drop(again);
    model.finish();
}

#[test]
fn shards_are_joined_once_nobody_allocated_from_them_for_a_second() {
    let time = ManualTime::new();
    let rig = rig_with(&time);
    let mut model = Model::new(&rig, &[], 2);
    in_four_shards(&mut model, None);
    time.advance(Duration::from_secs(5));
    run(&mut model, JoinThreads::WhenIdle);
    assert_eq!(rig.statistics().blocks, 4, "the last requests may have come a moment ago");
    time.advance(Duration::from_millis(900));
    run(&mut model, JoinThreads::WhenIdle);
    assert_eq!(rig.statistics().blocks, 4, "not yet a second");
    // A thread is at work in shard 2; those that free only are no hindrance.
    in_shard(2, || model.allocate(None, &movable(KIB)));
    model.free(0);
    time.advance(Duration::from_millis(200));
    run(&mut model, JoinThreads::WhenIdle);
    assert_eq!(rig.statistics().blocks, 2, "the others are one block");
    let busy = |model: &Model<'_>| {
        let at = model.live.iter().position(|held| held.bytes.len() == KIB as usize).unwrap();
        let memory = rig.memory_of(&model.live[at].token);
        model.live.iter().filter(|held| rig.memory_of(&held.token) == memory).count()
    };
    assert_eq!(busy(&model), 6, "the thread has its block for itself");
    time.advance(Duration::from_millis(1100));
    run(&mut model, JoinThreads::Never);
    assert_eq!(rig.statistics().blocks, 2);
    run(&mut model, JoinThreads::WhenIdle);
    assert_eq!(rig.statistics().blocks, 1);
    model.finish();
}

#[test]
fn a_shard_whose_thread_returns_after_the_survey_keeps_its_blocks() {
    let time = ManualTime::new();
    let rig = rig_with(&time);
    let mut model = Model::new(&rig, &[], 3);
    in_four_shards(&mut model, None);
    run(&mut model, JoinThreads::WhenIdle);
    time.advance(Duration::from_secs(2));
    let mut defragmentation = Defragmentation::new(&rig, None, joining(JoinThreads::WhenIdle)).unwrap();
    assert_eq!(defragmentation.plan().blocks_freed(), 3);
    (0..4).for_each(|shard| in_shard(shard, || model.allocate(None, &movable(KIB))));
    model.run(&mut defragmentation);
    assert_eq!(defragmentation.statistics().moves, 0);
    drop(defragmentation);
    assert_eq!(model.check_alone().blocks, 4);
    model.finish();
}

#[test]
fn joined_allocations_are_freed_by_any_thread_in_any_order_and_their_blocks_go() {
    for seed in 0..20 {
        let rig = rig();
        let mut model = Model::new(&rig, &[], seed);
        in_four_shards(&mut model, None);
        run(&mut model, JoinThreads::Always);
        // Others come, and all is joined again.
        for shard in 0..4 {
            in_shard(shard, || (0..10).for_each(|_| model.allocate(None, &movable(70 * KIB))));
        }
        model.thin_out(60);
        model.check_alone();
        run(&mut model, JoinThreads::Always);
        let ideal = model.bytes().div_ceil(MIB);
        // Holes of 20 KiB among allocations that stay hold none of 70 KiB, as within one shard.
        let (blocks, bytes) = (u64::from(model.objects_in_use()), model.bytes());
        assert!(blocks <= ideal + 1, "{seed}: {blocks} for {bytes}");
        std::thread::scope(|scope| {
            let mut tokens: Vec<_> = model.live.drain(..).map(|held| held.token).collect();
            let rig = &rig;
            while !tokens.is_empty() {
                let shard = model.random.below(4) as u32;
                let some: Vec<_> = (0..=model.random.below(3))
                    .filter_map(|_| {
                        let at = (model.random.below(1 << 20) as usize).checked_rem(tokens.len())?;
                        Some(tokens.swap_remove(at))
                    })
                    .collect();
                scope.spawn(move || in_shard(shard, || rig.free_all(some)));
            }
        });
        rig.check_invariants();
        rig.trim();
        assert_eq!(rig.statistics().blocks, 0);
    }
}

#[test]
fn a_pass_over_several_shards_can_be_cancelled_and_its_allocations_freed_meanwhile() {
    for step in 0..6 {
        let rig = rig();
        let mut model = Model::new(&rig, &[], 4);
        in_four_shards(&mut model, None);
        for _ in 0..2 {
            let desc = joining(JoinThreads::Always).with_limits(PassLimits::NONE.with_moves(7));
            let mut defragmentation = Defragmentation::new(&rig, None, desc).unwrap();
            while let NextPass::Moves(mut pass) = defragmentation.next_pass() {
                model.check_moves(&pass);
                pass.moves().iter().for_each(copy);
                let at = model.position(pass.moves()[0].id()).unwrap();
                match step {
                    0 => drop(pass),
                    1 => {
                        pass.ignore(1);
                        pass.end();
                    }
                    2 => {
                        model.free(at);
                        rig.check_invariants();
                        pass.end();
                    }
                    3 => {
                        let mut old = Vec::new();
                        pass.end_with(|place| old.push(place));
                        rig.check_invariants();
                        // Moved, and freed before its old place is.
                        model.free(at);
                        rig.free_all(old);
                    }
                    4 => {
                        let mut old = Vec::new();
                        model.free(at);
                        pass.end_with(|place| old.push(place));
                        rig.free_all(old.into_iter().rev());
                    }
                    _ => core::mem::forget(pass),
                }
                model.check_bytes();
                rig.check_invariants();
                if step == 5 {
                    break;
                }
            }
            drop(defragmentation);
            model.check_alone();
        }
        model.finish();
    }
}

/// A pool of four shards.
fn pool(least: u32, separate: bool) -> PoolDesc {
    let mut desc = fixed_pool(HOST, MIB);
    (desc.min_blocks, desc.separate_movable) = (least, separate);
    desc
}

#[test]
fn the_shards_of_a_custom_pool_are_joined_reset_and_destroyed() {
    for (least, separate) in [(0, false), (1, false), (3, false), (0, true), (2, true)] {
        let rig = rig();
        let pools = [rig.create_pool(pool(least, separate)).unwrap()];
        let mut model = Model::new(&rig, &pools, 5);
        in_four_shards(&mut model, Some(0));
        let mut run = Defragmentation::new(&rig, Some(&pools[0]), joining(JoinThreads::Always)).unwrap();
        model.run(&mut run);
        drop(run);
        model.check_alone();
        // To empty a block of the pool's minimum would free nothing. Part of it may be blocks of pinned allocations.
        let (blocks, least_blocks) = (model.objects_in_use(), least.max(1));
        assert!(blocks == least_blocks || (separate && blocks < least_blocks), "{blocks} {least} {separate}");
        assert!(rig.reports().pool_statistics(&pools[0]).unwrap().blocks <= least.max(1));
        // A reset frees what is in the blocks of other shards as well, and the tokens are stale.
        rig.reset_pool(&pools[0]).unwrap();
        rig.check_invariants();
        assert_eq!(rig.reports().pool_statistics(&pools[0]).unwrap().allocations, 0);
        model.finish();
        let [pool] = pools;
        rig.destroy_pool(pool).unwrap();
    }
}

#[test]
fn a_pool_in_whose_shard_nothing_is_left_but_records_is_in_use() {
    let rig = rig();
    let pools = [rig.create_pool(pool(0, false)).unwrap()];
    let mut model = Model::new(&rig, &pools, 6);
    // Fuller, so that the others are moved there.
    in_shard(3, || (0..20).for_each(|_| model.allocate(Some(0), &movable(20 * KIB))));
    in_shard(1, || model.allocate(Some(0), &movable(20 * KIB)));
    let mut run = Defragmentation::new(&rig, Some(&pools[0]), joining(JoinThreads::Always)).unwrap();
    model.run(&mut run);
    drop(run);
    model.free_where(|held| held.serial <= 20);
    assert_eq!(model.check_alone().allocations, 1);
    let refused = rig.destroy_pool(pools[0].clone()).unwrap_err();
    assert!(matches!(refused, DestroyPoolError::InUse { allocations: 1, .. }), "{refused}");
    drop(refused);
    model.finish();
    let [pool] = pools;
    rig.destroy_pool(pool).unwrap();
}

#[test]
fn reports_name_the_memory_that_a_joined_allocation_is_in() {
    let rig = rig();
    let mut model = Model::new(&rig, &[], 7);
    for shard in 0..4_u32 {
        let desc = movable(20 * KIB).with_name(format!("of shard {shard}"));
        in_shard(shard, || model.allocate(None, &desc));
    }
    run(&mut model, JoinThreads::Always);
    let memory = rig.memory_of(&model.live[0].token);
    for held in &model.live {
        let info = rig.info(&held.token).unwrap();
        assert_eq!((rig.memory_of(&held.token), info.block_size, info.dedicated), (memory, MIB, false));
    }
    let dump = rig.reports().dump_json();
    (0..4).for_each(|shard| assert_eq!(dump.matches(&format!("of shard {shard}")).count(), 1, "{dump}"));
    assert_eq!(rig.reports().leaks().len(), 4);
    model.finish();
}

#[test]
fn room_is_made_over_the_shards_of_a_pool() {
    let rig = rig();
    let pools = [rig.create_pool(pool(0, false)).unwrap()];
    let mut model = Model::new(&rig, &pools, 8);
    // 424 KiB are free in each of three blocks.
    for shard in 0..3 {
        in_shard(shard, || (0..4).for_each(|_| model.allocate(Some(0), &movable(150 * KIB))));
    }
    let room = |join| {
        make_free_range(&rig, &pools[0], 900 * KIB, joining(join), |pass| {
            pass.moves().iter().for_each(copy);
            pass.end();
        })
    };
    assert!(
        matches!(room(JoinThreads::Never), Err(RoomError::NothingHelps { .. })),
        "{:?}",
        room(JoinThreads::Never)
    );
    room(JoinThreads::Always).unwrap();
    assert_eq!(model.check_alone().blocks, 3);
    let options = MemoryUsage::GpuOnly
        .with_pool(&pools[0])
        .with_new_blocks(allotment::memory::NewBlocks::NeverAllocate);
    let range = rig.allocate(&wanted_in(900 * KIB, HOST).requirements, &options).unwrap();
    rig.free(range).unwrap();
    drop(options);
    // Among allocations of other shards too, where the shards are defragmented one by one.
    model.free_where(|held| held.serial % 4 == 0);
    room(JoinThreads::Never).unwrap();
    model.check_alone();
    model.finish();
    let [pool] = pools;
    rig.destroy_pool(pool).unwrap();
}

#[test]
fn a_strategy_and_limits_hold_over_shards_as_well() {
    let rig = rig();
    let mut model = Model::new(&rig, &[], 9);
    in_four_shards(&mut model, None);
    let strategy = DefragmentationStrategy::WithinBytes(100 * KIB);
    let desc = DefragmentationDesc::new(strategy).with_limits(PassLimits::NONE.with_moves(3));
    let mut run = Defragmentation::new(&rig, None, desc.with_join_threads(JoinThreads::Always)).unwrap();
    model.run(&mut run);
    let done = run.statistics();
    assert_eq!((done.bytes_moved, done.blocks_emptied, done.passes), (100 * KIB, 1, 2));
    drop(run);
    model.finish();
}
