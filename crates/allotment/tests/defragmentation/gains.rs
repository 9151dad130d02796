//! How many blocks are given back, for how many bytes.

use allotment::device::host::HostDevice;
use allotment::memory::{
    BlockSizes, Defragmentation, DefragmentationDesc, DefragmentationStatistics, DefragmentationStrategy,
    Movability, NextPass, PassLimits,
};
use allotment::{Allocation, Intent};

use crate::rig::{DISCRETE, KIB, MIB, Rig, aligned, profile, wanted};

/// Ends every pass that there is, and copies nothing.
pub(crate) fn run(mut defragmentation: Defragmentation<'_, HostDevice>) -> DefragmentationStatistics {
    loop {
        match defragmentation.next_pass() {
            NextPass::Moves(pass) => pass.end(),
            NextPass::LimitReached => {}
            NextPass::Done => break,
        }
    }
    defragmentation.statistics()
}

/// Numbers below `n`, the same every time.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// Ten thousand allocations, what is left of twenty thousand, in blocks of 16 MiB.
fn half_of_twenty_thousand(seed: u64) -> (Rig, Vec<Allocation>) {
    let rig = Rig::with(profile(DISCRETE), |desc| desc.block_sizes = BlockSizes::fixed(16 * MIB));
    let mut random = Random(seed);
    let mut live = Vec::new();
    for _ in 0..20_000 {
        let mut desc = wanted(0, Intent::Device).movable(Movability::Copied);
        desc.requirements = aligned(16 + random.below(90 * KIB), 256);
        live.push(rig.allocate(&desc).unwrap());
    }
    for _ in 0..10_000 {
        let gone = live.swap_remove(random.below(live.len() as u64) as usize);
        rig.free(gone).unwrap();
    }
    rig.trim();
    (rig, live)
}

#[test]
fn half_empty_blocks_become_the_least_number_of_full_ones_at_the_least_cost() {
    for seed in 0..3 {
        for strategy in [DefragmentationStrategy::Fast, DefragmentationStrategy::Full] {
            let (rig, live) = half_of_twenty_thousand(seed);
            let before = rig.statistics();
            let desc = DefragmentationDesc::new(strategy).with_limits(PassLimits::NONE);
            let mut defragmentation = rig.defragmentation(desc).unwrap();
            let start = std::time::Instant::now();
            let plan = defragmentation.plan().clone();
            let planned = start.elapsed();
            let done = run(defragmentation);
            let took = start.elapsed();
            let after = rig.statistics();
            eprintln!(
                "{strategy:?}: {} -> {} (ideal {}), moved {} ({} % of {}), bound {} ratio {:.3}, {planned:?} {took:?}, {done:?}",
                before.blocks,
                after.blocks,
                plan.ideal_blocks,
                done.bytes_moved,
                done.bytes_moved * 100 / before.allocation_bytes,
                before.allocation_bytes,
                plan.lower_bound_bytes,
                done.bytes_moved as f64 / plan.lower_bound_bytes as f64,
            );
            rig.check_invariants();
            assert_eq!(before.allocation_bytes, after.allocation_bytes);
            rig.free_all(live);
        }
    }
}
