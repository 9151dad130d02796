//! How many blocks are given back, for how many bytes.

use allotment::device::simulated::SimulatedGpu;
use allotment::memory::blocks::{BlockGrowth, BlockSize, BlockSizes, EmptyBlockPolicy, Watermark};
use allotment::memory::defragmentation::{
    Defragmentation, DefragmentationDesc, DefragmentationStatistics, DefragmentationStrategy, NextPass,
    PassLimits,
};
use allotment::memory::names::ShortName;
use allotment::memory::{AccessError, AllocationId, ExpectedLifetime, Movability};
use allotment::{Allocation, MemoryUsage, PoolDesc, ResourceKind};

use crate::model::{HOST, Model, copy, movable, movable_aligned};
use crate::rig::{
    AllocateWanted as _, COARSE, DISCRETE, FINE, KIB, MIB, MOBILE, Rig, Wanted, aligned, fixed_pool, profile,
    small_blocks, wanted, wanted_in,
};

/// Ends every pass that there is, and copies nothing.
pub(crate) fn run(mut defragmentation: Defragmentation<'_, SimulatedGpu>) -> DefragmentationStatistics {
    loop {
        match defragmentation.next_pass() {
            NextPass::Moves(pass) => {
                pass.end();
            }
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
        let mut desc = wanted(0, MemoryUsage::GpuOnly).with_movability(Movability::Copied);
        desc.requirements = aligned(16 + random.below(90 * KIB), 256);
        live.push(rig.allocate_wanted(&desc).unwrap());
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
            let mut defragmentation = Defragmentation::new(&rig, None, desc).unwrap();
            let plan = defragmentation.plan().clone();
            let done = run(defragmentation);
            let after = rig.statistics();
            assert_eq!(after.blocks, plan.ideal_blocks, "{strategy:?} {seed}: {plan:?} {done:?}");
            assert_eq!(after.blocks, before.blocks - done.blocks_emptied);
            // As sums of integers: no more than a tenth above the bound.
            let (moved, bound) = (done.bytes_moved, plan.lower_bound_bytes);
            assert!(moved >= bound && moved * 10 <= bound * 11, "{strategy:?} {seed}: {moved} for {bound}");
            rig.check_invariants();
            assert_eq!(before.allocation_bytes, after.allocation_bytes);
            rig.free_all(live);
        }
    }
}

pub(crate) const FULL: DefragmentationStrategy = DefragmentationStrategy::Full;
pub(crate) const BLOCK: u64 = 64 * KIB;

pub(crate) fn unlimited(strategy: DefragmentationStrategy) -> DefragmentationDesc {
    DefragmentationDesc::new(strategy).with_limits(PassLimits::NONE)
}

/// Blocks of 64 KiB, of which no empty one is kept.
pub(crate) fn small_rig(name: &str) -> Rig {
    Rig::with(profile(name), |desc| {
        (desc.block_sizes, desc.empty_blocks, desc.threads) =
            (BlockSizes::fixed(BLOCK), EmptyBlockPolicy::NONE, 1);
    })
}

/// One allocation of each of these sizes in KiB a block.
pub(crate) fn one_a_block(model: &mut Model<'_>, sizes: &[u64]) {
    for &size in sizes {
        model.allocate(None, &movable(size * KIB));
        model.allocate(None, &movable(BLOCK - size * KIB));
    }
    for at in (0..model.live.len()).rev().filter(|at| at % 2 == 1) {
        model.free(at);
    }
    // In the order in which they were made.
    model.live.sort_by_key(|held| held.serial);
}

/// Nothing is planned and nothing is moved.
pub(crate) fn expect_nothing(mut defragmentation: Defragmentation<'_, SimulatedGpu>) {
    assert_eq!(defragmentation.plan().moves(), 0);
    assert!(matches!(defragmentation.next_pass(), NextPass::Done));
    assert_eq!(defragmentation.statistics(), DefragmentationStatistics::default());
}

#[test]
fn nothing_is_moved_where_nothing_can_be_gained() {
    let rig = small_rig(DISCRETE);
    expect_nothing(Defragmentation::new(&rig, None, unlimited(FULL)).unwrap());
    let mut model = Model::new(&rig, &[], 1);
    model.allocate(None, &movable(100));
    expect_nothing(Defragmentation::new(&rig, None, unlimited(FULL)).unwrap());
    // Full blocks, but for one.
    (0..30).for_each(|_| model.allocate(None, &movable(8 * KIB)));
    expect_nothing(Defragmentation::new(&rig, None, unlimited(FULL)).unwrap());
    model.check_alone();
    model.finish();
}

#[test]
fn a_block_is_emptied_into_another_that_could_have_been_emptied_as_well() {
    let rig = small_rig(DISCRETE);
    let mut model = Model::new(&rig, &[], 1);
    let unit = BLOCK / 16;
    // Two blocks with an allocation of three units, and three blocks of single ones.
    for _ in 0..2 {
        model.allocate(None, &movable(3 * unit));
        (0..13).for_each(|_| model.allocate(None, &movable(unit)));
    }
    (0..48).for_each(|_| model.allocate(None, &movable(unit)));
    // By their bytes the first two can go. But there are three units together only in the second:
    //   [AAA░░a░░a░░a░░a░] [BBB░░░░bb░░bb░░b] and three times [c░c░c░c░c░c░c░cc]
    let comb = [0, 2, 4, 6, 8, 10, 12, 14, 15];
    let combs = [28, 44, 60].into_iter().flat_map(|first| comb.map(|at| first + at));
    let kept: Vec<_> = [0, 3, 6, 9, 12, 14, 19, 20, 23, 24, 27].into_iter().chain(combs).collect();
    for at in (0..model.live.len()).rev().filter(|at| !kept.contains(at)) {
        model.free(at);
    }
    let mut defragmentation = Defragmentation::new(&rig, None, unlimited(FULL)).unwrap();
    let plan = defragmentation.plan();
    assert_eq!((plan.blocks, plan.blocks_freed(), plan.ideal_blocks), (5, 2, 3), "{plan:?}");
    assert!(plan.bytes_moved() <= plan.bytes_freed());
    drop(defragmentation);
    let done = run_with_copies(&mut model, unlimited(FULL));
    assert_eq!((done.blocks_emptied, rig.statistics().blocks), (2, 3), "{done:?}");
    model.finish();
}

pub(crate) fn run_with_copies(model: &mut Model<'_>, desc: DefragmentationDesc) -> DefragmentationStatistics {
    let rig = model.rig;
    let mut defragmentation = Defragmentation::new(rig, None, desc).unwrap();
    model.run(&mut defragmentation);
    let done = defragmentation.statistics();
    drop(defragmentation);
    model.check_alone();
    done
}

#[test]
fn alignments_and_granularity_are_kept() {
    for name in [COARSE, FINE, DISCRETE] {
        let rig = Rig::with(profile(name), |desc| {
            desc.block_sizes = BlockSizes::fixed(MIB);
            (desc.empty_blocks, desc.threads) = (EmptyBlockPolicy::NONE, 1);
        });
        let granularity = profile(name).limits.buffer_image_granularity;
        let mut random = Random(9);
        let mut live: Vec<(Allocation, Wanted)> = Vec::new();
        let kinds = [
            ResourceKind::Buffer,
            ResourceKind::OptimalImage,
            ResourceKind::LinearImage,
            ResourceKind::Unknown,
        ];
        for _ in 0..600 {
            let mut desc = wanted(0, MemoryUsage::GpuOnly).with_movability(Movability::Copied);
            desc.requirements = aligned(1 + random.below(30 * KIB), 1 << random.below(14));
            desc.requirements.kind = kinds[random.below(4) as usize];
            live.push((rig.allocate_wanted(&desc).unwrap(), desc));
        }
        for at in (0..600).rev() {
            if random.below(3) != 0 {
                rig.free(live.swap_remove(at).0).unwrap();
            }
        }
        rig.trim();
        let before = rig.statistics();
        let types: Vec<_> = live.iter().map(|(token, _)| rig.type_of(token)).collect();
        let done = run(Defragmentation::new(&rig, None, unlimited(FULL)).unwrap());
        assert!(done.blocks_emptied > 2, "{done:?}");
        rig.check_invariants();
        let after = rig.statistics();
        assert_eq!(
            (before.allocations, before.allocation_bytes),
            (after.allocations, after.allocation_bytes)
        );
        let mut places = Vec::new();
        for ((token, desc), was) in live.iter().zip(types) {
            let place = rig.location(token).unwrap();
            assert_eq!(place.memory_type, was);
            assert!(desc.requirements.alignment.is_aligned(place.offset));
            places.push((
                rig.memory_of(token),
                place.offset,
                place.offset + place.size,
                desc.requirements.kind,
            ));
        }
        places.sort_unstable_by_key(|&(memory, offset, ..)| (memory, offset));
        let linear = |kind| matches!(kind, ResourceKind::Buffer | ResourceKind::LinearImage);
        for pair in places.windows(2) {
            let ((memory, _, end, one), (next, start, _, other)) = (pair[0], pair[1]);
            assert!(memory != next || end <= start);
            let unlike = linear(one) != linear(other)
                || one == ResourceKind::Unknown
                || other == ResourceKind::Unknown;
            if memory == next && unlike {
                assert!(granularity.align_down(end - 1) < granularity.align_down(start), "{name}: {pair:?}");
            }
        }
        rig.free_all(live.into_iter().map(|(token, _)| token));
    }
}

#[test]
fn nothing_goes_to_another_pool_or_memory_type() {
    let rig = small_rig(DISCRETE);
    let mut desc = fixed_pool(HOST, BLOCK);
    desc.memory_types.push(crate::rig::DEVICE_TYPE);
    desc.empty_blocks = EmptyBlockPolicy::NONE;
    let pools = [rig.create_pool(desc.clone()).unwrap(), rig.create_pool(desc).unwrap()];
    let mut homes: Vec<(Allocation, usize)> = Vec::new();
    let mut random = Random(4);
    for i in 0..600 {
        let mut desc = wanted_in(1 + random.below(8 * KIB), [HOST, crate::rig::DEVICE_TYPE][i / 4 % 2]);
        desc.movability = Movability::Copied;
        desc.lifetime = if i % 8 == 0 { ExpectedLifetime::Short } else { ExpectedLifetime::Long };
        let token = match i % 4 {
            0 | 1 => rig.allocate_wanted(&desc).unwrap(),
            which => rig.allocate_wanted_in(&pools[which - 2], &desc).unwrap(),
        };
        homes.push((token, i % 4));
    }
    for at in (0..600).rev() {
        if random.below(3) != 0 {
            rig.free(homes.swap_remove(at).0).unwrap();
        }
    }
    rig.trim();
    let of = |pool: &allotment::Pool| rig.reports().pool_statistics(pool).unwrap();
    let seen = || {
        let mut sums: Vec<_> =
            rig.reports().detailed_statistics().iter().map(|one| one.brief.allocation_bytes).collect();
        sums.extend(pools.iter().map(|pool| of(pool).allocation_bytes));
        sums
    };
    let types = || homes.iter().map(|(token, _)| rig.type_of(token)).collect::<Vec<_>>();
    let (bytes, before) = (seen(), types());
    for step in 0..3 {
        let blocks = [rig.statistics().blocks, of(&pools[0]).blocks, of(&pools[1]).blocks];
        let done = run(match step {
            0 => Defragmentation::new(&rig, None, unlimited(FULL)).unwrap(),
            at => Defragmentation::new(&rig, Some(&pools[at - 1]), unlimited(FULL)).unwrap(),
        });
        assert!(done.blocks_emptied > 0);
        assert_eq!((seen(), types()), (bytes.clone(), before.clone()));
        let after = [rig.statistics().blocks, of(&pools[0]).blocks, of(&pools[1]).blocks];
        assert_eq!(after[0], blocks[0] - done.blocks_emptied);
        for at in 1..3 {
            assert_eq!(after[at], blocks[at] - if step == at { done.blocks_emptied } else { 0 });
        }
        rig.check_invariants();
    }
    rig.free_all(homes.into_iter().map(|(token, _)| token));
    pools.into_iter().for_each(|pool| rig.destroy_pool(pool).unwrap());
}

#[test]
fn memory_of_its_own_goes_into_a_block_that_can_hold_it_with_full_only() {
    let rig = Rig::with(profile(DISCRETE), |desc| {
        desc.block_sizes = small_blocks(16 * KIB, 256 * KIB);
        (desc.empty_blocks, desc.threads) = (EmptyBlockPolicy::NONE, 1);
        desc.block_sizes.growth_divisor = 1;
    });
    let mut model = Model::new(&rig, &[], 1);
    model.allocate(None, &movable(20 * KIB));
    assert!(rig.is_dedicated(&model.live[0].token));
    // Blocks grow with what is in use.
    (0..60).for_each(|_| model.allocate(None, &movable(8 * KIB)));
    let large = model.live.iter().map(|held| rig.block_size_of(&held.token)).max().unwrap();
    assert!(large >= 128 * KIB);
    for at in (1..model.live.len()).rev() {
        if rig.block_size_of(&model.live[at].token) < large || at % 4 != 0 {
            model.free(at);
        }
    }
    rig.trim();
    let own = model.live.iter().position(|held| rig.is_dedicated(&held.token)).unwrap();
    assert_eq!(run_with_copies(&mut model, unlimited(DefragmentationStrategy::Fast)).moves, 0);
    assert!(rig.is_dedicated(&model.live[own].token));
    let done = run_with_copies(&mut model, unlimited(FULL));
    assert_eq!((done.moves, done.bytes_emptied), (1, 20 * KIB));
    assert!(!rig.is_dedicated(&model.live[own].token));
    assert_eq!(rig.statistics().dedicated, 0);
    model.finish();
}

#[test]
fn a_pool_keeps_the_blocks_that_it_must_have() {
    for min_blocks in 0..6 {
        let rig = small_rig(DISCRETE);
        let mut desc = fixed_pool(HOST, BLOCK);
        (desc.min_blocks, desc.empty_blocks) = (min_blocks, EmptyBlockPolicy::NONE);
        let pools = [rig.create_pool(desc).unwrap()];
        let mut model = Model::new(&rig, &pools, 1);
        for _ in 0..4 {
            model.allocate(Some(0), &movable(8 * KIB));
            model.allocate(Some(0), &movable(56 * KIB));
        }
        (0..4).rev().for_each(|at| model.free(2 * at + 1));
        let mut defragmentation = Defragmentation::new(&rig, Some(&pools[0]), unlimited(FULL)).unwrap();
        let planned = defragmentation.plan().clone();
        model.run(&mut defragmentation);
        let done = defragmentation.statistics();
        drop(defragmentation);
        model.check_alone();
        let blocks = rig.reports().pool_statistics(&pools[0]).unwrap().blocks;
        assert_eq!(blocks, min_blocks.max(1), "{planned:?} {done:?}");
        assert_eq!(done.blocks_emptied, 3.min(4u32.saturating_sub(min_blocks)), "nothing is moved in vain");
        model.finish();
        pools.into_iter().for_each(|pool| rig.destroy_pool(pool).unwrap());
    }
}

#[test]
fn a_block_on_its_way_out_is_opened_before_the_driver_is_asked() {
    // At each point: before the first pass, while one is open, between two.
    for calls in 0..6 {
        let rig = small_rig(DISCRETE);
        let mut model = Model::new(&rig, &[], 1);
        (0..32).for_each(|_| model.allocate(None, &movable(4 * KIB)));
        for at in (0..32).rev() {
            // Eight of sixteen in the first block, six in the second.
            if at % 2 == 1 || at == 20 || at == 26 {
                model.free(at);
            }
        }
        model.live.sort_by_key(|held| held.serial);
        rig.trim();
        let desc = DefragmentationDesc::new(FULL).with_limits(PassLimits::NONE.with_moves(2));
        let mut defragmentation = Defragmentation::new(&rig, None, desc).unwrap();
        assert_eq!(defragmentation.plan().blocks_freed(), 1);
        let mut moved: Vec<AllocationId> = Vec::new();
        for call in 0..calls {
            let NextPass::Moves(pass) = defragmentation.next_pass() else { break };
            model.check_moves(&pass);
            pass.moves().iter().for_each(copy);
            moved.extend(pass.moves().iter().map(|one| one.id()));
            if call + 1 == calls {
                fill_up(&rig, &mut model);
            }
            pass.end();
            model.check_bytes();
        }
        if calls == 0 {
            fill_up(&rig, &mut model);
        }
        let before = moved.len();
        loop {
            match defragmentation.next_pass() {
                NextPass::Moves(pass) => {
                    model.check_moves(&pass);
                    pass.moves().iter().for_each(copy);
                    moved.extend(pass.moves().iter().map(|one| one.id()));
                    pass.end();
                }
                NextPass::LimitReached => {}
                NextPass::Done => break,
            }
        }
        let done = defragmentation.statistics();
        drop(defragmentation);
        model.check_alone();
        if (1..3).contains(&calls) {
            assert_eq!(moved.len(), before, "nothing is copied for a block that stays: {done:?}");
            assert_eq!((done.blocks_emptied, done.blocks_kept), (0, 1), "{calls} {done:?}");
        }
        model.finish();
    }
}

/// Takes all room that there is, and asks the driver for nothing.
fn fill_up(rig: &Rig, model: &mut Model<'_>) {
    let calls = rig.reports().device_calls();
    let free = rig.statistics().free();
    for _ in 0..free / (4 * KIB) {
        model.allocate(None, &movable(4 * KIB));
    }
    assert_eq!(rig.reports().device_calls(), calls);
    assert_eq!(rig.statistics().free(), 0);
}

#[test]
fn what_is_moving_is_read_as_before_and_written_by_nobody() {
    let rig = small_rig(DISCRETE);
    let mut model = Model::new(&rig, &[], 1);
    one_a_block(&mut model, &[10, 20]);
    let mut defragmentation = Defragmentation::new(&rig, None, unlimited(FULL)).unwrap();
    let NextPass::Moves(pass) = defragmentation.next_pass() else { panic!("there is something to gain") };
    let one = &pass.moves()[0];
    let held = &model.live[model.position(one.id()).unwrap()];
    assert_eq!(rig.write(&held.token, 0, &[1, 2, 3]), Err(AccessError::Moving { name: ShortName::NONE }));
    assert_eq!(rig.map(&held.token).err(), Some(AccessError::Moving { name: ShortName::NONE }));
    assert_eq!(rig.unmap(&held.token).err(), Some(AccessError::NotMapped { name: ShortName::NONE }));
    assert_eq!((pass.bytes(), one.user_data()), (10 * KIB, 0));
    copy(one);
    model.check_bytes();
    pass.end();
    let at = model.live.iter().position(|held| held.bytes.len() == 10 << 10).unwrap();
    model.fill(at);
    rig.map(&model.live[at].token).unwrap();
    rig.unmap(&model.live[at].token).unwrap();
    drop(defragmentation);
    model.check_alone();
    model.finish();
}

#[test]
fn growing_blocks_of_many_sizes_become_fewer_bytes() {
    for seed in 0..20 {
        let rig = small_rig(DISCRETE);
        let mut desc = PoolDesc::new([HOST]);
        let mut sizes = small_blocks(16 * KIB, 256 * KIB);
        sizes.growth_divisor = 3;
        (desc.sizing, desc.empty_blocks) = (Some(BlockSize::Growing(sizes)), EmptyBlockPolicy::NONE);
        let pools = [rig.create_pool(desc).unwrap()];
        let mut model = Model::new(&rig, &pools, seed);
        for _ in 0..300 {
            let (size, alignment) = (1 + model.random.below(9 * KIB), 1 << model.random.below(10));
            model.allocate(Some(0), &movable_aligned(size, alignment));
        }
        model.thin_out(65);
        let before = rig.statistics();
        let mut defragmentation = Defragmentation::new(&rig, Some(&pools[0]), unlimited(FULL)).unwrap();
        let planned = defragmentation.plan().clone();
        model.run(&mut defragmentation);
        let done = defragmentation.statistics();
        drop(defragmentation);
        let after = model.check_alone();
        assert_eq!(after.block_bytes, before.block_bytes - planned.bytes_freed(), "{seed}: {done:?}");
        assert!(after.block_bytes * 3 < before.block_bytes * 2, "{seed}: {before:?} {after:?}");
        model.finish();
        pools.into_iter().for_each(|pool| rig.destroy_pool(pool).unwrap());
    }
}

#[test]
fn memory_that_is_not_coherent_is_flushed_at_its_new_place() {
    let rig = small_rig(MOBILE);
    let mut model = Model::new(&rig, &[], 6);
    for _ in 0..400 {
        let size = 1 + model.random.below(3 * KIB);
        model.allocate(None, &movable(size));
    }
    model.thin_out(60);
    rig.trim();
    let limits = PassLimits::NONE.with_moves(7);
    let mut defragmentation =
        Defragmentation::new(&rig, None, DefragmentationDesc::new(FULL).with_limits(limits)).unwrap();
    let planned = defragmentation.plan().blocks_freed();
    assert!(planned > 1);
    loop {
        match defragmentation.next_pass() {
            NextPass::Moves(pass) => {
                model.check_moves(&pass);
                // What the CPU sees is what was written last, since nothing but the CPU wrote.
                pass.moves().iter().for_each(copy);
                let ids: Vec<_> = pass.moves().iter().map(|one| one.id()).collect();
                pass.end();
                for held in model.live.iter().filter(|held| ids.contains(&held.token.id())) {
                    rig.flush(&held.token, 0..held.bytes.len() as u64).unwrap();
                    let atom = profile(MOBILE).limits.non_coherent_atom_size;
                    assert!(atom.is_aligned(rig.location(&held.token).unwrap().offset));
                }
                model.check();
            }
            NextPass::LimitReached => {}
            NextPass::Done => break,
        }
    }
    assert_eq!(defragmentation.statistics().blocks_emptied, planned);
    drop(defragmentation);
    model.check_alone();
    model.finish();
}

#[test]
fn another_allocation_than_that_of_the_move_is_not_destroyed_in_its_place() {
    let rig = small_rig(DISCRETE);
    let mut model = Model::new(&rig, &[], 1);
    one_a_block(&mut model, &[10, 20]);
    let mut defragmentation = Defragmentation::new(&rig, None, unlimited(FULL)).unwrap();
    let NextPass::Moves(mut pass) = defragmentation.next_pass() else { panic!("there is something to gain") };
    let at = model.live.iter().position(|held| held.token.id() != pass.moves()[0].id()).unwrap();
    let mut other = model.live.swap_remove(at);
    other.token = pass.destroy(0, other.token).unwrap_err().allocation;
    model.live.push(other);
    pass.ignore(0);
    assert!(pass.moves()[0].is_ignored() && pass.bytes() == 0);
    pass.end();
    assert_eq!(defragmentation.statistics().ignored, 1);
    assert!(matches!(defragmentation.next_pass(), NextPass::Done));
    drop(defragmentation);
    model.check_alone();
    model.finish();
}

/// An emptied block is freed by maintenance, where another thread does that.
#[test]
fn emptied_blocks_are_left_to_upkeep_where_there_is_some() {
    let rig = Rig::with(profile(DISCRETE), |desc| {
        (desc.block_sizes, desc.empty_blocks, desc.threads) =
            (BlockSizes::fixed(BLOCK), EmptyBlockPolicy::NONE, 1);
        desc.block_growth = BlockGrowth::Ahead(Watermark::default());
    });
    let mut model = Model::new(&rig, &[], 1);
    for _ in 0..300 {
        let size = 1 + model.random.below(6 * KIB);
        model.allocate(None, &movable(size));
    }
    model.thin_out(75);
    rig.maintain();
    let objects = rig.objects();
    let mut defragmentation = Defragmentation::new(&rig, None, unlimited(FULL)).unwrap();
    let planned = defragmentation.plan().clone();
    loop {
        match defragmentation.next_pass() {
            NextPass::Moves(pass) => {
                pass.moves().iter().for_each(copy);
                pass.end();
                model.check_bytes();
            }
            NextPass::LimitReached => {}
            NextPass::Done => break,
        }
    }
    let done = defragmentation.statistics();
    assert!(done.blocks_emptied > 0 && done.blocks_emptied == planned.blocks_freed(), "{planned:?} {done:?}");
    drop(defragmentation);
    assert_eq!(rig.objects(), objects, "no request waits for the driver");
    // None is allocated in their place, as room for the watermark was left.
    assert_eq!(rig.maintain().blocks, 0);
    assert!(rig.objects() <= objects - done.blocks_emptied);
    model.check_alone();
    model.finish();
}
