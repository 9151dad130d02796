//! What moved: the list and the callback of a defragmentation, and the sums of its passes.

use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicU32, Ordering};
use std::panic::catch_unwind;

use allotment::device::simulated::SimulatedGpu;
use allotment::memory::AllocationId;
use allotment::memory::defragmentation::{
    Defragmentation, DefragmentationStatistics, EndedPass, Move, NextPass, Pass, PassLimits,
};

use crate::gains::{FULL, one_a_block, small_rig, unlimited};
use crate::model::{Model, copy};
use crate::rig::{DISCRETE, KIB, Rig};

/// Six blocks with 20 KiB in each: two of them can hold all.
fn six_blocks(rig: &Rig) -> Model<'_> {
    let mut model = Model::new(rig, &[], 1);
    one_a_block(&mut model, &[20; 6]);
    for held in &model.live {
        rig.set_user_data(&held.token, u64::from(held.serial)).unwrap();
    }
    model
}

/// The next pass, of a run whose time is not limited.
fn next<'d>(run: &'d mut Defragmentation<'_, SimulatedGpu>) -> Option<Pass<'d, SimulatedGpu>> {
    match run.next_pass() {
        NextPass::Moves(pass) => {
            pass.moves().iter().for_each(copy);
            Some(pass)
        }
        NextPass::LimitReached => panic!("time is not limited"),
        NextPass::Done => None,
    }
}

fn ids(moves: &[Move<SimulatedGpu>]) -> Vec<AllocationId> {
    moves.iter().map(|one| one.id()).collect()
}

#[test]
fn the_list_of_a_pass_has_each_allocation_that_moved_with_both_places() {
    let rig = small_rig(DISCRETE);
    let model = six_blocks(&rig);
    let before: Vec<_> = model.live.iter().map(|held| rig.location(&held.token).unwrap()).collect();
    let limits = PassLimits::NONE.with_moves(3);
    let mut run = Defragmentation::new(&rig, None, unlimited(FULL).with_limits(limits)).unwrap();
    let mut all = Vec::new();
    while let Some(pass) = next(&mut run) {
        let handed_out = ids(pass.moves());
        let moved = pass.end().moved;
        assert_eq!(ids(moved), handed_out);
        for one in moved {
            let at = model.position(one.id()).unwrap();
            let now = rig.location(&model.live[at].token).unwrap();
            assert_eq!((one.from().memory, one.from().offset), (before[at].memory, before[at].offset));
            assert_eq!((one.to().memory, one.to().offset), (now.memory, now.offset));
            assert_eq!((one.size(), one.user_data()), (20 * KIB, u64::from(model.live[at].serial)));
            assert!(!one.is_ignored());
        }
        all.extend(ids(moved));
    }
    assert_eq!((all.len() as u32, run.statistics().passes), (run.statistics().moves, 2));
    drop(run);
    model.check_alone();
    model.finish();
}

#[test]
fn what_is_ignored_or_freed_in_a_pass_is_not_among_what_moved() {
    let rig = small_rig(DISCRETE);
    let mut model = six_blocks(&rig);
    let mut run = Defragmentation::new(&rig, None, unlimited(FULL)).unwrap();
    let mut pass = next(&mut run).unwrap();
    let handed_out = ids(pass.moves());
    pass.ignore(0);
    model.free(model.position(handed_out[1]).unwrap());
    let EndedPass { moved, statistics: sums, .. } = pass.end();
    let moves = handed_out.len() as u32 - 2;
    assert_eq!((sums.passes, sums.ignored, sums.freed, sums.moves), (1, 1, 1, moves));
    assert_eq!(ids(moved), handed_out[2..]);
    drop(run);
    model.check_alone();
    model.finish();
}

#[test]
fn a_pass_that_was_dropped_or_forgotten_has_moved_nothing() {
    for forget in [false, true] {
        let rig = small_rig(DISCRETE);
        let model = six_blocks(&rig);
        let heard = AtomicU32::new(0);
        let mut run = Defragmentation::new(&rig, None, unlimited(FULL)).unwrap();
        run.on_moved(|_| _ = heard.fetch_add(1, Ordering::Relaxed));
        let dropped = next(&mut run).unwrap();
        if forget {
            core::mem::forget(dropped);
        } else {
            drop(dropped);
        }
        assert!(next(&mut run).is_none(), "what was cancelled stays");
        assert_eq!(run.statistics().moves, 0);
        drop(run);
        assert_eq!(heard.into_inner(), 0);
        model.check_alone();
        model.finish();
    }
}

#[test]
fn the_callback_hears_of_each_move_once_and_may_use_the_allocator() {
    let rig = small_rig(DISCRETE);
    let model = six_blocks(&rig);
    let mut heard = Vec::new();
    let mut run =
        Defragmentation::new(&rig, None, unlimited(FULL).with_limits(PassLimits::NONE.with_moves(3)))
            .unwrap();
    run.on_moved(|one| {
        let now = rig.reports().info(one.id()).unwrap();
        assert_eq!((now.memory, now.offset), (one.to().memory, one.to().offset));
        let other = rig.allocate(&allotment::Requirements::new(100), &allotment::MemoryUsage::GpuOnly.into());
        rig.free(other.unwrap()).unwrap();
        heard.push(one.id());
    });
    let mut listed = Vec::new();
    while let Some(pass) = next(&mut run) {
        listed.extend(ids(pass.end_with(|place| rig.free(place).unwrap()).moved));
    }
    drop(run);
    assert!(!heard.is_empty());
    assert_eq!(heard, listed);
    model.check_alone();
    model.finish();
}

#[test]
fn a_callback_that_panics_leaves_the_pass_ended_and_the_run_goes_on() {
    let rig = small_rig(DISCRETE);
    let model = six_blocks(&rig);
    let mut run =
        Defragmentation::new(&rig, None, unlimited(FULL).with_limits(PassLimits::NONE.with_moves(3)))
            .unwrap();
    run.on_moved(|_| panic!("not now"));
    let first = next(&mut run).unwrap();
    assert!(
        catch_unwind(AssertUnwindSafe(|| assert!(first.end().moved.is_empty(), "it does not return")))
            .is_err()
    );
    assert_eq!(run.statistics().moves, 3);
    model.check();
    run.on_moved(|_| {});
    let second = next(&mut run).unwrap().end().statistics;
    assert_eq!((second.passes, second.moves), (1, run.statistics().moves - 3));
    assert!(next(&mut run).is_none());
    drop(run);
    model.check_alone();
    assert_eq!(rig.statistics().blocks, 2);
    model.finish();
}

#[test]
fn a_retire_that_panics_leaves_what_moved_in_its_new_places() {
    let rig = small_rig(DISCRETE);
    let model = six_blocks(&rig);
    let mut run = Defragmentation::new(&rig, None, unlimited(FULL)).unwrap();
    let pass = next(&mut run).unwrap();
    let (handed_out, mut left) = (pass.moves().len(), Vec::new());
    let ended = catch_unwind(AssertUnwindSafe(|| {
        pass.end_with(|place| {
            left.push(place);
            assert_ne!(left.len(), handed_out, "only the last one panics");
        });
    }));
    assert!(ended.is_err());
    assert_eq!(run.statistics().moves as usize, handed_out);
    drop(run);
    rig.free_all(left);
    model.check_alone();
    model.finish();
}

#[test]
fn the_sums_of_the_passes_are_those_of_the_run() {
    let rig = small_rig(DISCRETE);
    let model = six_blocks(&rig);
    let mut run =
        Defragmentation::new(&rig, None, unlimited(FULL).with_limits(PassLimits::NONE.with_moves(1)))
            .unwrap();
    let mut sums = DefragmentationStatistics::default();
    let mut passes = 0;
    while let Some(pass) = next(&mut run) {
        let of_pass = pass.end().statistics;
        passes += 1;
        assert_eq!((of_pass.passes, of_pass.moves, of_pass.bytes_moved), (1, 1, 20 * KIB));
        assert_eq!((of_pass.blocks_emptied, of_pass.bytes_emptied), (1, 64 * KIB));
        sums = sums + of_pass;
    }
    assert_eq!(passes, 4);
    assert_eq!(sums, run.statistics());
    drop(run);
    model.finish();
}
