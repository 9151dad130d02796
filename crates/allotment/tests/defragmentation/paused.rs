//! A run that pauses wherever it can does the same as one that never pauses.

use core::time::Duration;
use std::collections::HashMap;

use allotment::memory::defragmentation::{
    Defragmentation, DefragmentationDesc, DefragmentationStatistics, DefragmentationStrategy, NextPass,
    PassLimits,
};

use crate::gains::small_rig;
use crate::model::{Model, copy, movable, movable_aligned};
use crate::rig::{DISCRETE, KIB};

/// What a run came to: its sums without the number of passes; of each allocation the block, by number, and the offset;
/// and how often the run paused before it had a move.
struct Outcome {
    statistics: DefragmentationStatistics,
    places: Vec<(usize, u64)>,
    pauses: u32,
}

/// Runs to the end among some hundred allocations. With `late`, allocations come and go between the plan and the first
/// pass.
fn run(seed: u64, late: bool, time: Duration) -> Outcome {
    let rig = small_rig(DISCRETE);
    let mut model = Model::new(&rig, &[], seed);
    for _ in 0..600 {
        let size = 1 + model.random.below(3 * KIB);
        let alignment = 1 << model.random.below(9);
        model.allocate(None, &movable_aligned(size, alignment));
    }
    model.thin_out(60);
    rig.trim();
    let limits = PassLimits::NONE.with_moves(3).with_time(time);
    let desc = DefragmentationDesc::new(DefragmentationStrategy::Full).with_limits(limits);
    let mut defragmentation = Defragmentation::new(&rig, None, desc).unwrap();
    if late {
        assert!(defragmentation.plan().blocks_freed() > 1);
        (0..10).for_each(|_| model.allocate(None, &movable(100)));
        model.thin_out(3);
    }
    let mut pauses = 0;
    loop {
        match defragmentation.next_pass() {
            NextPass::Moves(pass) => {
                pass.moves().iter().for_each(copy);
                pass.end();
            }
            NextPass::LimitReached => pauses += 1,
            NextPass::Done => break,
        }
    }
    let mut statistics = defragmentation.statistics();
    statistics.passes = 0;
    drop(defragmentation);
    let mut blocks = HashMap::new();
    let places = model.live.iter().map(|held| {
        let at = rig.location(&held.token).unwrap();
        let next = blocks.len();
        (*blocks.entry(rig.memory_of(&held.token)).or_insert(next), at.offset)
    });
    let places = places.collect();
    model.check_alone();
    model.finish();
    Outcome { statistics, places, pauses }
}

#[test]
fn a_run_that_pauses_wherever_it_can_moves_the_same_to_the_same_places() {
    for (seed, late) in (0..6).flat_map(|seed| [(seed, false), (seed, true)]) {
        let at_once = run(seed, late, Duration::MAX);
        let paused = run(seed, late, Duration::ZERO);
        assert!(at_once.statistics.blocks_emptied > 1 && at_once.pauses == 0, "{:?}", at_once.statistics);
        // One for each allocation at least: in each part of the work there is a pause after each.
        let moves = at_once.statistics.moves;
        assert!(paused.pauses > moves, "{} pauses in {moves} moves", paused.pauses);
        assert_eq!(paused.statistics, at_once.statistics);
        assert_eq!(paused.places, at_once.places);
    }
}
