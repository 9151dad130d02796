//! Each mover empties its own blocks, whatever the others do: the fewest of each remain, and no byte is copied for one that
//! stays.

use super::*;
use allotment::memory::defragmentation::Defragmentation;

const FULL: DefragmentationStrategy = DefragmentationStrategy::Full;

/// Passes and steps that do the least that they can.
fn small() -> PassLimits {
    PassLimits::NONE.with_moves(2).with_time(Duration::ZERO)
}

#[test]
fn resources_of_two_sets_and_of_passes_that_are_created_by_turns_share_no_block() {
    let mut world = World::new(&[FULL; 2]);
    world.interleave(9, &[Some(0), None, Some(1)], 16);
    world.assert_blocks_of_their_own();
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
fn a_set_needs_no_step_of_another_to_come_down_to_its_ideal() {
    let mut world = World::new(&[FULL; 2]);
    world.interleave(8, &[Some(0), Some(1)], 4);
    world.step_until_idle(0);
    assert_eq!(world.allocator().statistics().blocks, 1 + 4, "the other set has not done a step yet");
    world.step_until_idle(1);
    world.assert_ideal();
    assert_frugal(world.sums(), 6, 6 * 4 * SIZE);
    world.finish();
}

#[test]
fn passes_leave_the_blocks_of_a_set_to_its_steps() {
    let mut world = World::new(&[FULL]);
    world.interleave(8, &[Some(0), None], 4);
    let passes = world.passes();
    assert_eq!((passes.blocks_emptied, passes.blocks_left_to_others), (3, 4));
    world.step_until_idle(0);
    world.assert_ideal();
    assert_frugal(world.sums() + passes, 6, 6 * 4 * SIZE);
    world.finish();
}

#[test]
fn two_sets_and_manual_passes_in_turns_come_down_to_the_ideal() {
    for first in [0, 1, 7] {
        let mut world = World::new(&[FULL; 2]);
        world.interleave(9, &[Some(0), None, Some(1)], 5);
        let mut run = Defragmentation::new(world.allocator(), None, full().with_limits(small())).unwrap();
        // Any of them may plan first.
        for _ in 0..first {
            world.pass(&mut run);
        }
        for _frame in 0..1000 {
            world.step(0, small());
            world.pass(&mut run);
            world.step(1, small());
        }
        let passes = run.statistics();
        drop(run);
        world.assert_ideal();
        assert_frugal(world.sums() + passes, 6, 6 * 5 * SIZE);
        world.finish();
    }
}

#[test]
fn movers_with_different_strategies_empty_what_each_of_them_finds_worth_its_cost() {
    let half = DefragmentationStrategy::Fast;
    let mut world = World::new(&[FULL, half]);
    // Twelve of sixteen are live in each block: emptying one costs more than half of it.
    world.interleave(8, &[Some(0), Some(1)], 12);
    (0..2).for_each(|set| world.step_until_idle(set));
    assert_eq!(world.allocator().statistics().blocks, 3 + 4);
    assert_eq!(world.sets[1].statistics().bytes_moved, 0);
    world.finish();
}
