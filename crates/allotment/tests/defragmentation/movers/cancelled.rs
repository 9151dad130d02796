//! Several movers, stopped after any number of steps: nothing is lost, nothing stays reserved or closed.

use super::*;
use crate::amount::drawn;
use allotment::memory::defragmentation::Defragmentation;

const FULL: DefragmentationStrategy = DefragmentationStrategy::Full;

/// A world of two sets and passes.
fn world() -> World {
    let mut world = World::new(&[FULL; 2]);
    for at in 0..64 {
        world.create([Some(0), None, Some(1)][at % 3], SIZE);
    }
    for at in (0..64).rev().filter(|at| at % 16 >= 5) {
        world.free(at);
    }
    world.settle();
    world
}

/// Who is stopped first, and how.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stop {
    /// The run of passes, then both sets.
    PassesFirst,
    /// Both sets, then the run of passes.
    SetsFirst,
    /// One set is dropped; the others go on to the end.
    OneSetDropped,
    /// The run of passes is dropped; the sets go on to the end.
    PassesDropped,
}

fn stop_after_any_number_of_calls(how: Stop) {
    for calls in 0.. {
        assert!(calls < 3000, "there is no end");
        if calls <= 300 && !drawn(calls) {
            continue;
        }
        let mut world = world();
        let small = PassLimits::NONE.with_moves(1).with_time(Duration::ZERO);
        let mut run = Defragmentation::new(world.allocator(), None, full().with_limits(small)).unwrap();
        let blocks = world.allocator().statistics().blocks;
        let mut busy = true;
        for call in 0..calls {
            busy = match call % 3 {
                0 => world.pass(&mut run),
                1 => world.step(0, small),
                _ => world.step(1, small),
            };
        }
        let before = world.sums() + run.statistics();
        match how {
            Stop::PassesFirst | Stop::PassesDropped => drop(run),
            Stop::SetsFirst => {
                world.sets.iter().for_each(Defragmenter::stop);
                world.allocator().check_invariants();
                drop(run);
            }
            Stop::OneSetDropped => {
                drop(run);
                drop(world.sets.remove(0));
            }
        }
        if matches!(how, Stop::OneSetDropped | Stop::PassesDropped) {
            (0..world.sets.len()).for_each(|set| world.step_until_idle(set));
        }
        world.sets.iter().for_each(Defragmenter::stop);
        world.check_at_rest();
        let freed = blocks - world.allocator().statistics().blocks;
        let sums = world.sums();
        assert!(sums.blocks_emptied <= freed, "{sums:?}, {before:?}");
        world.finish();
        if !busy && calls > 300 {
            break;
        }
    }
}

#[test]
fn stopped_with_the_passes_first_they_leave_nothing_behind() {
    stop_after_any_number_of_calls(Stop::PassesFirst);
}

#[test]
fn stopped_with_the_sets_first_they_leave_nothing_behind() {
    stop_after_any_number_of_calls(Stop::SetsFirst);
}

#[test]
fn a_set_that_is_dropped_half_way_leaves_nothing_behind() {
    stop_after_any_number_of_calls(Stop::OneSetDropped);
}

#[test]
fn passes_that_are_dropped_half_way_leave_nothing_behind() {
    stop_after_any_number_of_calls(Stop::PassesDropped);
}
