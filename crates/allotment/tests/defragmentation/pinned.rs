//! Pinned and mapped allocations keep their blocks.

use allotment::AllocationError;
use allotment::memory::blocks::EmptyBlockPolicy;
use allotment::memory::defragmentation::{Defragmentation, DefragmentationDesc, NextPass, PassLimits};
use allotment::memory::preview::AllocationPreview;

use crate::gains::{BLOCK, FULL, expect_nothing, one_a_block, run_with_copies, small_rig, unlimited};
use crate::model::{HOST, Model, copy, movable};
use crate::rig::{AllocateWanted as _, DISCRETE, KIB, fixed_pool, wanted_in};

#[test]
fn what_is_pinned_or_mapped_keeps_its_block() {
    let rig = small_rig(DISCRETE);
    let mut model = Model::new(&rig, &[], 1);
    one_a_block(&mut model, &[20, 20, 20]);
    for held in &model.live {
        rig.map(&held.token).unwrap();
    }
    expect_nothing(Defragmentation::new(&rig, None, unlimited(FULL)).unwrap());
    rig.unmap(&model.live[0].token).unwrap();
    model.live[1..].iter_mut().for_each(|held| held.maps = 1);
    let done = run_with_copies(&mut model, unlimited(FULL));
    assert_eq!((done.moves, done.blocks_emptied), (1, 1));
    for at in 1..3 {
        rig.unmap(&model.live[at].token).unwrap();
        model.live[at].maps = 0;
    }
    assert_eq!(run_with_copies(&mut model, unlimited(FULL)).moves, 1);
    model.finish();

    // A pool of the program's own has both in its blocks.
    let pools = [rig.create_pool(fixed_pool(HOST, BLOCK)).unwrap()];
    let mut model = Model::new(&rig, &pools, 1);
    for _ in 0..3 {
        model.allocate(Some(0), &wanted_in(KIB, HOST));
        model.allocate(Some(0), &movable(63 * KIB));
    }
    (0..3).rev().for_each(|at| model.free(2 * at + 1));
    expect_nothing(Defragmentation::new(&rig, Some(&pools[0]), unlimited(FULL)).unwrap());
    model.finish();
}

/// Pinned allocations have blocks of their own, so that the blocks of the others can be emptied.
#[test]
fn few_pinned_allocations_among_many_movable_ones_keep_no_block() {
    let rig = small_rig(DISCRETE);
    let mut model = Model::new(&rig, &[], 1);
    for _ in 0..8 {
        model.allocate(None, &movable(60 * KIB));
        model.allocate(None, &wanted_in(4 * KIB, HOST));
    }
    assert_eq!(rig.statistics().blocks, 9, "eight, and one of pinned allocations");
    // Of each block of movable ones little is left.
    (0..8).rev().for_each(|at| model.free(2 * at));
    rig.trim();
    for _ in 0..8 {
        model.allocate(None, &movable(7 * KIB));
        model.allocate(None, &movable(57 * KIB));
    }
    for size in [57 * KIB; 8] {
        let at = model.live.iter().position(|held| held.bytes.len() as u64 == size).unwrap();
        model.free(at);
    }
    rig.trim();
    assert_eq!(rig.statistics().blocks, 9);
    run_with_copies(&mut model, unlimited(FULL));
    assert_eq!(rig.statistics().blocks, 1 + 1, "one of each");
    model.finish();
}

/// A pool of the program's own does the same where it is asked to.
#[test]
fn in_a_pool_that_keeps_them_apart_few_pinned_allocations_keep_no_block() {
    for separate in [true, false] {
        let rig = small_rig(DISCRETE);
        let mut desc = fixed_pool(HOST, BLOCK);
        (desc.separate_movable, desc.empty_blocks) = (separate, EmptyBlockPolicy::NONE);
        let pools = [rig.create_pool(desc).unwrap()];
        let mut model = Model::new(&rig, &pools, 1);
        for _ in 0..8 {
            model.allocate(Some(0), &movable(60 * KIB));
            model.allocate(Some(0), &wanted_in(4 * KIB, HOST));
        }
        // Of each block of movable ones little is left.
        (0..8).rev().for_each(|at| model.free(2 * at));
        for _ in 0..8 {
            model.allocate(Some(0), &movable(7 * KIB));
            model.allocate(Some(0), &movable(53 * KIB));
        }
        for _ in 0..8 {
            let at = model.live.iter().position(|held| held.bytes.len() as u64 == 53 * KIB).unwrap();
            model.free(at);
        }
        rig.trim();
        let mut run = Defragmentation::new(&rig, Some(&pools[0]), unlimited(FULL)).unwrap();
        model.run(&mut run);
        drop(run);
        model.check_alone();
        let blocks = rig.reports().pool_statistics(&pools[0]).unwrap().blocks;
        assert!(if separate { blocks == 1 + 1 } else { blocks > 2 }, "{blocks}, {separate}");
        model.finish();
        pools.into_iter().for_each(|pool| rig.destroy_pool(pool).unwrap());
    }
}

#[test]
fn a_pool_that_keeps_them_apart_serves_every_request_that_it_has_room_for() {
    for first_is_movable in [true, false] {
        let rig = small_rig(DISCRETE);
        let mut desc = fixed_pool(HOST, BLOCK);
        (desc.separate_movable, desc.min_blocks, desc.max_blocks) = (true, 2, 2);
        let pools = [rig.create_pool(desc).unwrap()];
        let mut model = Model::new(&rig, &pools, 1);
        let (movable, pinned) = (movable(4 * KIB), wanted_in(4 * KIB, HOST));
        let (first, second) = if first_is_movable { (movable, pinned) } else { (pinned, movable) };
        let calls = rig.device.usage().allocate_calls;
        let in_block = (BLOCK / (4 * KIB)) as usize;
        model.allocate(Some(0), &first);
        model.allocate(Some(0), &second);
        let memory = |at: usize| rig.memory_of(&model.live[at].token);
        assert_ne!(memory(0), memory(1), "each has a block of the minimum");
        for _ in 0..2 * in_block - 2 {
            let mut second = second.clone();
            second.options.pool = Some(pools[0].clone());
            let preview = rig.preview_wanted(&second).unwrap();
            assert!(matches!(preview, AllocationPreview::Fits { memory_type: HOST }), "{preview:?}");
            drop(second.options.pool.take());
            model.allocate(Some(0), &second);
            rig.check_invariants();
        }
        let refused = rig.allocate_wanted_in(&pools[0], &second);
        assert!(
            matches!(refused, Err(AllocationError::PoolFull { free: 0, max_blocks: 2, .. })),
            "{refused:?}"
        );
        assert_eq!(rig.device.usage().allocate_calls, calls);
        model.check_alone();
        model.finish();
        assert_eq!(rig.reports().pool_statistics(&pools[0]).unwrap().blocks, 2, "the minimum stays");
        pools.into_iter().for_each(|pool| rig.destroy_pool(pool).unwrap());
    }
}

/// Where no block can be had, room among the others is better than a refusal.
#[test]
fn a_pinned_request_takes_room_among_movable_allocations_before_it_is_refused_and_the_other_way_round() {
    for first_is_movable in [true, false] {
        let rig = small_rig(DISCRETE);
        let mut model = Model::new(&rig, &[], 1);
        let (movable, pinned) = (movable(4 * KIB), wanted_in(4 * KIB, HOST));
        let (first, second) = if first_is_movable { (movable, pinned) } else { (pinned, movable) };
        model.allocate(None, &first);
        let second = second.without_new_blocks();
        for _ in 0..BLOCK / (4 * KIB) - 1 {
            model.allocate(None, &second);
        }
        assert_eq!(rig.statistics().blocks, 1);
        let refused = rig.allocate_wanted(&second);
        assert!(matches!(refused, Err(AllocationError::WouldGrow { free: 0, .. })), "{refused:?}");
        model.finish();
    }
}

#[test]
fn what_is_mapped_after_it_was_planned_and_reserved_stays() {
    let rig = small_rig(DISCRETE);
    let mut model = Model::new(&rig, &[], 1);
    for size in [40, 40] {
        (0..size / 4).for_each(|_| model.allocate(None, &movable(4 * KIB)));
        model.allocate(None, &movable(BLOCK - size * KIB));
    }
    for at in (0..model.live.len()).rev() {
        if at % 3 != 0 {
            model.free(at);
        }
    }
    rig.trim();
    let mut defragmentation = Defragmentation::new(
        &rig,
        None,
        DefragmentationDesc::new(FULL).with_limits(PassLimits::NONE.with_moves(1)),
    )
    .unwrap();
    let NextPass::Moves(pass) = defragmentation.next_pass() else { panic!("there is something to gain") };
    let first = pass.moves()[0].id();
    pass.moves().iter().for_each(copy);
    pass.end();
    // Moves that were not handed out yet have places already.
    for held in model.live.iter_mut().filter(|held| held.token.id() != first) {
        rig.map(&held.token).unwrap();
        held.maps = 1;
    }
    let mut others = 0;
    loop {
        match defragmentation.next_pass() {
            NextPass::Moves(pass) => {
                others += pass.moves().len();
                model.check_moves(&pass);
                pass.moves().iter().for_each(copy);
                pass.end();
            }
            NextPass::LimitReached => {}
            NextPass::Done => break,
        }
    }
    assert_eq!(others, 0);
    let done = defragmentation.statistics();
    assert_eq!((done.blocks_emptied, done.moves), (0, 1));
    assert!(done.blocks_kept >= 1);
    drop(defragmentation);
    model.check_alone();
    for held in &mut model.live {
        if held.maps == 1 {
            rig.unmap(&held.token).unwrap();
        }
    }
    model.finish();
}
