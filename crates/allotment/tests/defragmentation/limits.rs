//! What the limits of a pass and of a run allow.

use allotment::memory::defragmentation::{
    Defragmentation, DefragmentationDesc, DefragmentationStrategy, NextPass, PassLimits,
};

use crate::gains::{FULL, one_a_block, run_with_copies, small_rig, unlimited};
use crate::model::{Model, copy, movable};
use crate::rig::{DISCRETE, KIB};

#[test]
fn fast_moves_no_more_than_a_byte_for_two() {
    let rig = small_rig(DISCRETE);
    let mut model = Model::new(&rig, &[], 1);
    // 33 of 64 are more than half; with them two blocks could be emptied.
    one_a_block(&mut model, &[31, 31, 33, 33]);
    rig.trim();
    let done = run_with_copies(&mut model, unlimited(DefragmentationStrategy::Fast));
    assert_eq!((done.blocks_emptied, done.bytes_moved), (2, 62 * KIB));
    model.finish();
    let mut model = Model::new(&rig, &[], 1);
    one_a_block(&mut model, &[33, 31]);
    rig.trim();
    assert_eq!(run_with_copies(&mut model, unlimited(DefragmentationStrategy::Fast)).bytes_moved, 31 * KIB);
    model.finish();
    let mut model = Model::new(&rig, &[], 1);
    one_a_block(&mut model, &[33, 40, 34]);
    rig.trim();
    assert_eq!(run_with_copies(&mut model, unlimited(DefragmentationStrategy::Fast)).bytes_moved, 0);
    model.finish();
}

#[test]
fn no_more_bytes_are_copied_than_were_allowed_in_all_passes_and_rounds() {
    for allowed in [0, 1, 3, 7, 10, 11, 20, 40, 100, 1000] {
        let rig = small_rig(DISCRETE);
        let mut model = Model::new(&rig, &[], 1);
        one_a_block(&mut model, &[1, 2, 3, 4, 5, 6, 7]);
        rig.trim();
        let done =
            run_with_copies(&mut model, unlimited(DefragmentationStrategy::WithinBytes(allowed * KIB)));
        assert!(done.bytes_moved <= allowed * KIB, "{done:?}");
        let sums = [0, 1, 3, 6, 10, 15, 21];
        let best = sums.iter().rposition(|&sum| sum <= allowed).unwrap();
        assert_eq!(done.blocks_emptied as usize, best, "{allowed} {done:?}");
        model.finish();
    }
}

/// Allocations that enter a block between the plan and its emptying move with it, as far as the strategy allows that.
#[test]
fn what_came_after_the_plan_counts_too() {
    for strategy in [DefragmentationStrategy::Fast, DefragmentationStrategy::WithinBytes(10 * KIB)] {
        let rig = small_rig(DISCRETE);
        let mut model = Model::new(&rig, &[], 1);
        one_a_block(&mut model, &[10, 20]);
        rig.trim();
        let mut defragmentation = Defragmentation::new(&rig, None, unlimited(strategy)).unwrap();
        assert_eq!(defragmentation.plan().bytes_moved(), 10 * KIB);
        // While the second block is full, another comes into the first.
        model.allocate(None, &movable(44 * KIB));
        model.allocate(None, &movable(30 * KIB));
        assert_eq!(rig.memory_of(&model.live[3].token), rig.memory_of(&model.live[0].token));
        model.free(2);
        model.run(&mut defragmentation);
        let done = defragmentation.statistics();
        // Of the first block 40 KiB of 64 would be copied now, and of the second 20.
        let expected = if strategy == DefragmentationStrategy::Fast { 20 * KIB } else { 0 };
        assert_eq!(done.bytes_moved, expected, "{strategy:?} {done:?}");
        drop(defragmentation);
        model.check_alone();
        model.finish();
    }
}

#[test]
fn a_pass_has_no_more_moves_and_bytes_than_its_limits() {
    for (moves, bytes) in
        [(1, u64::MAX), (3, u64::MAX), (u32::MAX, 4 * KIB), (u32::MAX, 9 * KIB), (2, 5 * KIB)]
    {
        let rig = small_rig(DISCRETE);
        let mut model = Model::new(&rig, &[], 3);
        (0..200).for_each(|_| {
            let size = 256 + model.random.below(4 * KIB - 256);
            model.allocate(None, &movable(size));
        });
        model.thin_out(70);
        rig.trim();
        let limits = PassLimits::NONE.with_moves(moves).with_bytes(bytes);
        let mut defragmentation =
            Defragmentation::new(&rig, None, DefragmentationDesc::new(FULL).with_limits(limits)).unwrap();
        let planned = defragmentation.plan().clone();
        assert!(planned.blocks_freed() > 2);
        loop {
            match defragmentation.next_pass() {
                NextPass::Moves(pass) => {
                    assert!(pass.moves().len() as u64 <= u64::from(moves) && pass.bytes() <= bytes);
                    pass.moves().iter().for_each(copy);
                    pass.end();
                }
                NextPass::LimitReached => panic!("time was not limited"),
                NextPass::Done => break,
            }
        }
        let done = defragmentation.statistics();
        assert_eq!((done.moves, done.blocks_emptied), (planned.moves(), planned.blocks_freed()));
        drop(defragmentation);
        model.check_alone();
        model.finish();
    }
}

#[test]
fn what_is_larger_than_a_pass_may_move_stays_and_so_does_its_block() {
    let rig = small_rig(DISCRETE);
    let mut model = Model::new(&rig, &[], 1);
    one_a_block(&mut model, &[20, 5, 40, 6]);
    let limits = PassLimits::NONE.with_bytes(10 * KIB);
    let done = run_with_copies(&mut model, DefragmentationDesc::new(FULL).with_limits(limits));
    assert_eq!((done.moves, done.blocks_emptied), (2, 2));
    // One that comes later.
    model.finish();
    let mut model = Model::new(&rig, &[], 1);
    one_a_block(&mut model, &[9, 30]);
    let mut defragmentation =
        Defragmentation::new(&rig, None, DefragmentationDesc::new(FULL).with_limits(limits)).unwrap();
    assert_eq!(defragmentation.plan().moves(), 1);
    model.allocate(None, &movable(34 * KIB));
    model.allocate(None, &movable(24 * KIB));
    assert_eq!(rig.memory_of(&model.live[3].token), rig.memory_of(&model.live[0].token));
    model.free(2);
    loop {
        match defragmentation.next_pass() {
            NextPass::Moves(pass) => {
                assert!(pass.bytes() <= 10 * KIB, "{pass:?}");
                pass.moves().iter().for_each(copy);
                pass.end();
            }
            NextPass::LimitReached => {}
            NextPass::Done => break,
        }
    }
    drop(defragmentation);
    model.check_alone();
    model.finish();
}
