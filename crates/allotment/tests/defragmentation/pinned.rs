//! Pinned and mapped allocations keep their blocks.

use allotment::memory::{DefragmentationDesc, NextPass, PassLimits};

use crate::gains::{BLOCK, FULL, expect_nothing, one_a_block, run_with_copies, small_rig, unlimited};
use crate::model::{HOST, Model, copy, movable};
use crate::rig::{DISCRETE, KIB, wanted_in};

#[test]
fn what_is_pinned_or_mapped_keeps_its_block() {
    let rig = small_rig(DISCRETE);
    let mut model = Model::new(&rig, &[], 1);
    one_a_block(&mut model, &[20, 20, 20]);
    for held in &model.live {
        rig.map(&held.token).unwrap();
    }
    expect_nothing(rig.defragmentation(unlimited(FULL)).unwrap());
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

    let mut model = Model::new(&rig, &[], 1);
    for _ in 0..3 {
        model.allocate(None, &wanted_in(KIB, HOST));
        model.allocate(None, &movable(63 * KIB));
    }
    (0..3).rev().for_each(|at| model.free(2 * at + 1));
    expect_nothing(rig.defragmentation(unlimited(FULL)).unwrap());
    model.finish();
}

#[test]
fn what_is_mapped_after_it_was_planned_and_reserved_stays() {
    let rig = small_rig(DISCRETE);
    let mut model = Model::new(&rig, &[], 1);
    for size in [40, 40] {
        (0..size / 4).for_each(|_| model.allocate(None, &movable(4 * KIB)));
        model.allocate(None, &wanted_in(BLOCK - size * KIB, HOST));
    }
    for at in (0..model.live.len()).rev() {
        if at % 3 != 0 {
            model.free(at);
        }
    }
    rig.trim();
    let mut defragmentation = rig
        .defragmentation(DefragmentationDesc::new(FULL).with_limits(PassLimits::NONE.with_moves(1)))
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
