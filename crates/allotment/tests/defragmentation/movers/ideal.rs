//! With all movers at work, in whichever order, the fewest blocks remain, and no byte is copied for one that stays.

use super::*;

const FULL: DefragmentationStrategy = DefragmentationStrategy::Full;

/// Passes and steps that do the least that they can.
fn small() -> PassLimits {
    PassLimits::NONE.with_moves(2).with_time(Duration::ZERO)
}

#[test]
fn two_sets_of_movable_resources_in_shared_blocks_come_down_to_the_ideal() {
    let mut world = World::new(&[FULL; 2]);
    world.interleave(4, &[Some(0), Some(1)], 4);
    for _frame in 0..40 {
        world.step(0, PassLimits::NONE);
        world.step(1, PassLimits::NONE);
    }
    world.assert_ideal();
    assert_frugal(world.sums(), 3, 3 * 4 * SIZE);
    world.finish();
}

#[test]
fn two_sets_that_do_small_steps_in_turns_come_down_to_the_ideal() {
    let mut world = World::new(&[FULL; 2]);
    world.interleave(8, &[Some(0), Some(1)], 4);
    for _frame in 0..2000 {
        world.step(0, small());
        world.step(1, small());
    }
    world.assert_ideal();
    assert_frugal(world.sums(), 6, 6 * 4 * SIZE);
    world.finish();
}

#[test]
fn two_sets_one_after_the_other_come_down_to_the_ideal() {
    let mut world = World::new(&[FULL; 2]);
    world.interleave(8, &[Some(0), Some(1)], 4);
    world.step_until_idle(0);
    assert_eq!(world.allocator().statistics().blocks, 8, "the other set has not done a step yet");
    assert_eq!((world.sums().bytes_moved, world.sums().blocks_left_to_others), (0, 8));
    world.step_until_idle(1);
    world.step_until_idle(0);
    world.assert_ideal();
    assert_frugal(world.sums(), 6, 6 * 4 * SIZE);
    world.finish();
}

#[test]
fn a_set_beside_manual_passes_comes_down_to_the_ideal() {
    let mut world = World::new(&[FULL]);
    world.interleave(8, &[Some(0), None], 4);
    world.step_until_idle(0);
    assert_eq!(world.allocator().statistics().blocks, 8, "no run of passes is open");
    // The passes in one go, whose run ends before the set does its next step.
    let passes = world.passes();
    assert_eq!((passes.blocks_handed_over, passes.blocks_emptied), (6, 0));
    world.step_until_idle(0);
    world.assert_ideal();
    assert_frugal(world.sums() + passes, 6, 6 * 4 * SIZE);
    world.finish();
}

#[test]
fn a_set_and_manual_passes_in_turns_come_down_to_the_ideal() {
    for first in [0, 1, 7] {
        let mut world = World::new(&[FULL]);
        world.interleave(8, &[Some(0), None], 4);
        let mut run = world.allocator().defragmentation(full().with_limits(small())).unwrap();
        // Either of both may plan first.
        for _ in 0..first {
            world.pass(&mut run);
        }
        for _frame in 0..3000 {
            world.step(0, small());
            world.pass(&mut run);
        }
        let passes = run.statistics();
        drop(run);
        for _frame in 0..600 {
            world.step(0, small());
        }
        let more = world.passes();
        world.step_until_idle(0);
        world.assert_ideal();
        let mut sums = world.sums() + passes + more;
        // A plan with a mover that has finished by then is given up before a byte is copied.
        sums.blocks_kept = 0;
        assert_frugal(sums, 6, 6 * 4 * SIZE);
        world.finish();
    }
}

#[test]
fn two_sets_and_manual_passes_in_the_same_blocks_come_down_to_the_ideal() {
    let mut world = World::new(&[FULL; 2]);
    world.interleave(9, &[Some(0), None, Some(1)], 5);
    (0..2).for_each(|set| world.step_until_idle(set));
    let mut passes = DefragmentationStatistics::default();
    for _ in 0..3 {
        passes = passes + world.passes();
        (0..2).for_each(|set| world.step_until_idle(set));
    }
    world.assert_ideal();
    assert_frugal(world.sums() + passes, 6, 6 * 5 * SIZE);
    world.finish();
}

#[test]
fn blocks_of_one_mover_alone_are_emptied_by_that_mover() {
    let mut world = World::new(&[FULL; 2]);
    // Each block belongs to one set.
    for block in 0..8 {
        (0..16).for_each(|_| world.create(Some(block % 2), SIZE));
    }
    for at in (0..world.live.len()).rev().filter(|at| at % 16 >= 4) {
        world.free(at);
    }
    world.settle();
    for _frame in 0..60 {
        for set in 0..2 {
            world.step(set, PassLimits::NONE);
        }
    }
    world.assert_ideal();
    let sums = world.sums();
    assert_frugal(sums, 6, 6 * 4 * SIZE);
    assert_eq!(sums.blocks_handed_over, 0, "{sums:?}");
    world.finish();
}

#[test]
fn movers_with_different_strategies_empty_what_each_of_them_finds_worth_its_cost() {
    let half = DefragmentationStrategy::Fast;
    let mut world = World::new(&[FULL, half]);
    // Twelve of sixteen are live in each block: emptying one costs more than half of it.
    world.interleave(8, &[Some(0), Some(1)], 12);
    for _frame in 0..60 {
        for set in 0..2 {
            world.step(set, PassLimits::NONE);
        }
    }
    assert_eq!((world.allocator().statistics().blocks, world.sums().bytes_moved), (8, 0));
    assert!(world.sums().blocks_left_to_others > 0);
    world.finish();
    let mut world = World::new(&[FULL, half]);
    world.interleave(8, &[Some(0), Some(1)], 8);
    for _frame in 0..60 {
        for set in 0..2 {
            world.step(set, PassLimits::NONE);
        }
    }
    world.assert_ideal();
    world.finish();
}
