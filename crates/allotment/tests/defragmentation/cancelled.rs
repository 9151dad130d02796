//! Stopped at every point at which it can be: nothing is lost, nothing stays reserved or closed.

use core::time::Duration;

use allotment::device::simulated::SimulatedGpu;
use allotment::memory::blocks::{BlockSizes, EmptyBlockPolicy};
use allotment::memory::defragmentation::{
    Defragmentation, DefragmentationDesc, DefragmentationStrategy, EmptiedBlocks, NextPass, PassLimits,
};
use allotment::{Algorithm, AllocationError};

use crate::model::{HOST, Model, copy, movable, movable_aligned};
use crate::rig::{AllocateWanted as _, DISCRETE, KIB, Rig, fixed_pool, profile, wanted_in};

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Ended,
    Dropped,
    Forgotten,
    /// All of them are freed by their owner while the pass is open.
    Freed,
}

/// No block is closed.
fn check_open(model: &Model<'_>, block_size: u64) {
    // Larger than any hole, so that no block is opened for it, and told what is free in those that are open.
    let desc = wanted_in(block_size, HOST).without_new_blocks();
    let refused = match model.pools.first() {
        Some(pool) => model.rig.allocate_wanted_in(pool, &desc),
        None => model.rig.allocate_wanted(&desc),
    };
    let Err(AllocationError::WouldGrow { free, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(free, model.rig.statistics().free(), "no block stays closed");
}

/// Every call of `next_pass` does the least that it can, and no pass has more than three moves.
fn small_steps(strategy: DefragmentationStrategy) -> DefragmentationDesc {
    DefragmentationDesc::new(strategy).with_limits(PassLimits::NONE.with_moves(3).with_time(Duration::ZERO))
}

/// Goes on for `calls` calls, the last of which ends as told. True where it was done before.
fn go_on(
    model: &mut Model<'_>,
    defragmentation: &mut Defragmentation<'_, SimulatedGpu>,
    calls: usize,
    last: End,
) -> bool {
    for call in 1..=calls {
        let end = if call == calls { last } else { End::Ended };
        match defragmentation.next_pass() {
            NextPass::Moves(pass) => {
                model.check_moves(&pass);
                pass.moves().iter().for_each(copy);
                match end {
                    End::Ended => {
                        pass.end();
                    }
                    End::Dropped => drop(pass),
                    End::Forgotten => core::mem::forget(pass),
                    End::Freed => {
                        let ids: Vec<_> = pass.moves().iter().map(|one| one.id()).collect();
                        for id in ids {
                            model.free(model.position(id).unwrap());
                        }
                        pass.end();
                    }
                }
            }
            NextPass::LimitReached => {}
            NextPass::Done => return true,
        }
    }
    false
}

fn cancel_everywhere(algorithm: Algorithm, strategy: DefragmentationStrategy, custom: bool, last: End) {
    let block_size = 32 * KIB;
    let mut calls = 0;
    loop {
        let rig = Rig::with(profile(DISCRETE), |desc| {
            (desc.algorithm, desc.empty_blocks, desc.threads) = (algorithm, EmptyBlockPolicy::NONE, 1);
            desc.block_sizes = BlockSizes::fixed(block_size);
        });
        let mut pool = fixed_pool(HOST, block_size);
        (pool.algorithm, pool.empty_blocks) = (algorithm, EmptyBlockPolicy::NONE);
        let pools: Vec<_> = custom.then(|| rig.create_pool(pool).unwrap()).into_iter().collect();
        let home = custom.then_some(0);
        let mut model = Model::new(&rig, &pools, 11);
        for _ in 0..40 {
            // Powers of two, so that nothing is lost to rounding.
            let size = 512 << model.random.below(5);
            model.allocate(home, &movable_aligned(size, 256));
        }
        model.thin_out(60);
        rig.trim();
        let before = model.check_alone();
        let desc = small_steps(strategy);
        let mut defragmentation = match pools.first() {
            Some(pool) => Defragmentation::new(&rig, Some(pool), desc).unwrap(),
            None => Defragmentation::new(&rig, None, desc).unwrap(),
        };
        let done = go_on(&mut model, &mut defragmentation, calls, last);
        drop(defragmentation);
        let after = model.check_alone();
        assert!(after.blocks <= before.blocks);
        assert_eq!(after.blocks, model.objects_in_use(), "what is empty is given back");
        check_open(&model, block_size);
        // What is free can be used, to the last byte.
        let free = rig.statistics().free();
        let filler = wanted_in(512, HOST).without_new_blocks();
        for _ in 0..free / 512 {
            model.allocate(home, &filler);
        }
        assert_eq!((rig.statistics().free(), rig.statistics().blocks), (0, after.blocks));
        model.check_alone();
        model.finish();
        pools.into_iter().for_each(|pool| rig.destroy_pool(pool).unwrap());
        if done {
            assert!(calls > 10, "{calls}");
            break;
        }
        calls += 1;
    }
}

#[test]
fn dropped_after_any_number_of_passes_it_leaves_nothing_behind() {
    for strategy in [DefragmentationStrategy::Full, DefragmentationStrategy::Fast] {
        for custom in [false, true] {
            cancel_everywhere(Algorithm::Tlsf, strategy, custom, End::Ended);
        }
    }
    cancel_everywhere(Algorithm::Buddy, DefragmentationStrategy::Full, false, End::Ended);
}

#[test]
fn dropped_with_its_last_pass_dropped_it_leaves_nothing_behind() {
    cancel_everywhere(Algorithm::Tlsf, DefragmentationStrategy::Full, false, End::Dropped);
    cancel_everywhere(Algorithm::Buddy, DefragmentationStrategy::Full, true, End::Dropped);
}

#[test]
fn dropped_with_its_last_pass_forgotten_it_leaves_nothing_behind() {
    cancel_everywhere(Algorithm::Tlsf, DefragmentationStrategy::Full, true, End::Forgotten);
    cancel_everywhere(Algorithm::Buddy, DefragmentationStrategy::Full, false, End::Forgotten);
}

#[test]
fn dropped_after_its_last_pass_was_freed_it_leaves_nothing_behind() {
    cancel_everywhere(Algorithm::Tlsf, DefragmentationStrategy::Full, false, End::Freed);
    cancel_everywhere(Algorithm::Buddy, DefragmentationStrategy::Full, true, End::Freed);
}

/// The rest of twenty-four allocations in three blocks.
fn holes(rig: &Rig) -> Model<'_> {
    let mut model = Model::new(rig, &[], 5);
    (0..24).for_each(|_| model.allocate(None, &movable(4 * KIB)));
    for at in [23, 21, 20, 18, 17, 13, 12, 10, 9, 8, 5, 3, 2] {
        model.free(at);
    }
    rig.trim();
    model
}

fn small_rig() -> Rig {
    Rig::with(profile(DISCRETE), |desc| {
        (desc.empty_blocks, desc.threads) = (EmptyBlockPolicy::NONE, 1);
        desc.block_sizes = BlockSizes::fixed(32 * KIB);
    })
}

#[test]
fn a_pass_that_was_forgotten_is_cancelled_by_the_next() {
    let rig = small_rig();
    let mut model = holes(&rig);
    let mut defragmentation =
        Defragmentation::new(&rig, None, small_steps(DefragmentationStrategy::Full)).unwrap();
    let mut forgotten = Vec::new();
    loop {
        match defragmentation.next_pass() {
            NextPass::Moves(pass) => {
                let ids: Vec<_> = pass.moves().iter().map(|one| one.id()).collect();
                assert!(ids.iter().all(|id| !forgotten.contains(id)), "what was cancelled stays");
                if forgotten.is_empty() {
                    core::mem::forget(pass);
                    forgotten = ids;
                } else {
                    pass.moves().iter().for_each(copy);
                    pass.end();
                }
            }
            NextPass::LimitReached => {}
            NextPass::Done => break,
        }
    }
    assert_eq!(defragmentation.statistics().ignored as usize, forgotten.len());
    drop(defragmentation);
    model.check_alone();
    check_open(&model, 32 * KIB);
    let at = model.position(forgotten[0]).unwrap();
    model.fill(at);
    model.check_alone();
    model.finish();
}

#[test]
fn old_places_that_are_retired_keep_their_block_until_they_are_freed() {
    for release in [EmptiedBlocks::Free, EmptiedBlocks::KeepByPolicy] {
        let rig = small_rig();
        let model = holes(&rig);
        let before = model.check_alone();
        let desc = DefragmentationDesc::new(DefragmentationStrategy::Full).with_emptied_blocks(release);
        let mut defragmentation =
            Defragmentation::new(&rig, None, desc.with_limits(PassLimits::NONE)).unwrap();
        let mut retired = Vec::new();
        loop {
            match defragmentation.next_pass() {
                NextPass::Moves(pass) => {
                    pass.moves().iter().for_each(copy);
                    let places: Vec<_> = pass.moves().iter().map(|one| one.from()).collect();
                    let mut places = places.iter();
                    pass.end_with(|old| {
                        let (place, from) = (rig.location(&old).unwrap(), places.next().unwrap());
                        assert_eq!((place.memory, place.offset), (from.memory, from.offset));
                        retired.push(old);
                    });
                    model.check();
                }
                NextPass::LimitReached => {}
                NextPass::Done => break,
            }
        }
        let done = defragmentation.statistics();
        assert_eq!((done.blocks_emptied, done.moves as usize), (1, retired.len()));
        drop(defragmentation);
        model.check();
        assert_eq!(rig.statistics().blocks, before.blocks, "it is still in use");
        assert_eq!(rig.statistics().allocations as usize, model.live.len() + retired.len());
        rig.free_all(retired);
        model.check_alone();
        assert_eq!(rig.statistics().blocks, before.blocks - 1);
        model.finish();
    }
}

#[test]
fn both_places_of_what_is_freed_or_ignored_in_a_pass_wait_for_whoever_copies_later() {
    let rig = small_rig();
    let mut model = holes(&rig);
    let desc = DefragmentationDesc::new(DefragmentationStrategy::Full).with_limits(PassLimits::NONE);
    let mut defragmentation = Defragmentation::new(&rig, None, desc).unwrap();
    let NextPass::Moves(mut pass) = defragmentation.next_pass() else { panic!("there is something to gain") };
    assert!(pass.moves().len() >= 2);
    let ends = |index: usize| [pass.moves()[index].from(), pass.moves()[index].to()];
    let (freed, ignored) = (ends(0), ends(1));
    let at = model.position(pass.moves()[0].id()).unwrap();
    model.free(at);
    pass.ignore(1);
    // As if the copies were still running.
    pass.moves().iter().for_each(copy);
    let mut left = Vec::new();
    pass.end_with(|place| left.push(place));
    let kept: Vec<_> = left.iter().map(|place| rig.location(place).unwrap()).collect();
    for place in [freed[0], freed[1], ignored[1]] {
        let is_kept = kept.iter().any(|kept| (kept.memory, kept.offset) == (place.memory, place.offset));
        assert!(is_kept, "{place:?} belongs to no other allocation");
    }
    rig.free_all(left);
    drop(defragmentation);
    model.check_alone();
    model.finish();
}

#[test]
fn a_pool_that_is_reset_while_a_pass_is_open_has_nothing_reserved_and_what_came_after_stays() {
    for (freed, trimmed) in [(false, false), (true, false), (false, true)] {
        let rig = small_rig();
        let pools = [rig.create_pool(fixed_pool(HOST, 32 * KIB)).unwrap()];
        let mut model = Model::new(&rig, &pools, 5);
        (0..24).for_each(|_| model.allocate(Some(0), &movable(4 * KIB)));
        model.thin_out(60);
        let desc = small_steps(DefragmentationStrategy::Full);
        let mut defragmentation = Defragmentation::new(&rig, Some(&pools[0]), desc).unwrap();
        let pass = loop {
            match defragmentation.next_pass() {
                NextPass::Moves(pass) => break pass,
                NextPass::LimitReached => {}
                NextPass::Done => panic!("there is something to gain"),
            }
        };
        if freed {
            let at = model.position(pass.moves()[0].id()).unwrap();
            model.free(at);
        }
        rig.reset_pool(&pools[0]).unwrap();
        assert_eq!(rig.statistics().allocations, 0);
        let stale = core::mem::take(&mut model.live);
        if trimmed {
            // The tables that the pass is going to look at are gone.
            rig.trim();
            pass.end();
            (0..20).for_each(|_| model.allocate(Some(0), &movable(3 * KIB)));
        } else {
            (0..20).for_each(|_| model.allocate(Some(0), &movable(3 * KIB)));
            pass.end();
        }
        model.check_alone();
        rig.free_all(stale.into_iter().map(|held| held.token));
        model.check_alone();
        let done = go_on(&mut model, &mut defragmentation, 10_000, End::Ended);
        assert!(done);
        drop(defragmentation);
        model.check_alone();
        check_open(&model, 32 * KIB);
        model.finish();
        pools.into_iter().for_each(|pool| rig.destroy_pool(pool).unwrap());
    }
}
