//! The worked example at the top of `memory/defragmentation/run.rs`, with its numbers.

use allotment::device::simulated::SimulatedGpu;
use allotment::memory::Movability;
use allotment::memory::blocks::{BlockSizes, EmptyBlockPolicy};
use allotment::memory::defragmentation::{
    Defragmentation, DefragmentationDesc, DefragmentationStrategy, NextPass, PassLimits,
};
use allotment::{Allocation, AllocationOptions, MemoryUsage, Requirements};

use crate::rig::{DISCRETE, KIB, MIB, Rig, profile, wanted};

const LIMITS: PassLimits = PassLimits::NONE.with_bytes(128 * KIB);

/// Three blocks with the allocations `a` to `f`, in this order.
fn three_blocks() -> (Rig, Vec<Allocation>) {
    let rig = Rig::with(profile(DISCRETE), |desc| {
        (desc.block_sizes, desc.empty_blocks, desc.threads) =
            (BlockSizes::fixed(MIB), EmptyBlockPolicy::NONE, 1);
    });
    // The sizes fill the blocks from their beginnings on; the gaps are freed at the end.
    let layout =
        [(512, true), (256, true), (256, false), (256, true), (256, false), (128, true), (384, false)];
    let last = [(128, true), (384, false), (128, true), (384, false)];
    let (mut kept, mut gaps) = (Vec::new(), Vec::new());
    for (size, keep) in layout.into_iter().chain(last) {
        let desc = wanted(size * KIB, MemoryUsage::GpuOnly).with_movability(Movability::Copied);
        let allocation = rig.allocate(&desc.requirements, &desc.options).unwrap();
        if keep { kept.push(allocation) } else { gaps.push(allocation) }
    }
    rig.free_all(gaps);
    assert_eq!(rig.statistics().blocks, 3);
    let offsets: Vec<_> = kept.iter().map(|it| rig.location(it).unwrap().offset / KIB).collect();
    assert_eq!(offsets, [0, 512, 0, 512, 0, 512]);
    (rig, kept)
}

fn fast(rig: &Rig) -> Defragmentation<'_, SimulatedGpu> {
    let desc = DefragmentationDesc::new(DefragmentationStrategy::Fast).with_limits(LIMITS);
    Defragmentation::new(rig, None, desc).unwrap()
}

/// Executes a pass of one move. Returns the index of the allocation that was moved.
fn pass_of_one(defragmentation: &mut Defragmentation<'_, SimulatedGpu>, kept: &[Allocation]) -> usize {
    let NextPass::Moves(pass) = defragmentation.next_pass() else { panic!("there is a pass") };
    let [moved] = pass.moves() else { panic!("two moves would exceed the bytes of a pass") };
    let index = kept.iter().position(|it| it.id() == moved.id()).unwrap();
    pass.end();
    index
}

#[test]
fn two_passes_empty_the_cheapest_block() {
    let (rig, kept) = three_blocks();
    let mut defragmentation = fast(&rig);
    let plan = defragmentation.plan();
    assert_eq!((plan.blocks_freed(), plan.bytes_moved(), plan.moves()), (1, 256 * KIB, 2));
    assert_eq!(pass_of_one(&mut defragmentation, &kept), 5, "f");
    assert_eq!(rig.statistics().blocks, 3);
    assert_eq!(pass_of_one(&mut defragmentation, &kept), 4, "e");
    assert!(matches!(defragmentation.next_pass(), NextPass::Done));
    let done = defragmentation.statistics();
    drop(defragmentation);
    assert_eq!((done.passes, done.moves, done.blocks_emptied, done.blocks_kept), (2, 2, 1, 0));
    assert_eq!(rig.statistics().blocks, 2);
    let places: Vec<_> = kept.iter().map(|it| rig.location(it).unwrap()).collect();
    assert!(places[4].memory == places[0].memory && places[5].memory == places[0].memory);
    let mut offsets = [places[4].offset / KIB, places[5].offset / KIB];
    offsets.sort_unstable();
    assert_eq!(offsets, [768, 896]);
    rig.free_all(kept);
}

#[test]
fn a_request_that_fits_no_other_block_takes_the_block_back() {
    let (rig, mut kept) = three_blocks();
    let mut defragmentation = fast(&rig);
    assert_eq!(pass_of_one(&mut defragmentation, &kept), 5, "f");
    let movable = AllocationOptions::new(MemoryUsage::GpuOnly).with_movability(Movability::Copied);
    let request = rig.allocate(&Requirements::new(512 * KIB), &movable).unwrap();
    assert_eq!(rig.statistics().blocks, 3, "no fourth block");
    loop {
        match defragmentation.next_pass() {
            NextPass::Moves(_) => panic!("the block stays"),
            NextPass::LimitReached => {}
            NextPass::Done => break,
        }
    }
    let done = defragmentation.statistics();
    drop(defragmentation);
    assert_eq!((done.moves, done.blocks_emptied, done.blocks_kept), (1, 0, 1));
    let place = |allocation| rig.location(allocation).unwrap();
    assert!(place(&kept[5]).memory == place(&kept[0]).memory, "f stays where it was moved to");
    assert!(place(&request).memory == place(&kept[4]).memory);
    kept.push(request);
    rig.free_all(kept);
}
