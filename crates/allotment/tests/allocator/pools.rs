//! Custom pools: their algorithms, their bounds, their types, and their end.

use allotment::device::{MemoryHeapIndex, MemoryTypeIndex, MemoryTypeMask};
use allotment::memory::StackSide;
use allotment::memory::blocks::{BlockSize, BlockSizes, EmptyBlockPolicy};
use allotment::memory::names::ShortName;
use allotment::memory::{AccessError, Dedicated};
use allotment::{
    Algorithm, Alignment, Allocation, AllocationError, MemoryUsage, Pool, PoolDesc, ResourceKind,
};

use crate::rig::{
    AllocateWanted as _, COARSE, DEVICE_TYPE, DISCRETE, HEAP, KIB, MIB, Rig, Wanted, fixed_pool, profile,
    small_blocks, wanted, wanted_in,
};

/// A pool of one block.
fn one_block(rig: &Rig, algorithm: Algorithm, size: u64) -> Pool {
    let mut desc = fixed_pool(DEVICE_TYPE, size);
    (desc.algorithm, desc.max_blocks) = (algorithm, 1);
    rig.create_pool(desc).unwrap()
}

fn upper(size: u64) -> Wanted {
    let mut desc = wanted_in(size, DEVICE_TYPE);
    desc.side = StackSide::Upper;
    desc
}

fn offset_of(rig: &Rig, allocation: &Allocation) -> u64 {
    rig.location(allocation).unwrap().offset
}

#[test]
fn a_linear_pool_is_a_stack() {
    let rig = Rig::new(DISCRETE);
    let pool = one_block(&rig, Algorithm::Linear, 100 * KIB);
    let push = |kib: u64| rig.allocate_wanted_in(&pool, &wanted_in(kib * KIB, DEVICE_TYPE));
    let mut stack = vec![push(10).unwrap(), push(20).unwrap(), push(30).unwrap()];
    assert_eq!(stack.iter().map(|a| offset_of(&rig, a) / KIB).collect::<Vec<_>>(), [0, 10, 30]);
    assert!(matches!(push(50), Err(AllocationError::PoolFull { .. })));
    rig.free(stack.pop().unwrap()).unwrap();
    stack.push(push(50).unwrap());
    assert_eq!(offset_of(&rig, &stack[2]), 30 * KIB);
    rig.free_all(stack);
    rig.destroy_pool(pool).unwrap();
}

#[test]
fn a_linear_pool_is_two_stacks_that_grow_towards_each_other() {
    let rig = Rig::new(DISCRETE);
    let pool = one_block(&rig, Algorithm::Linear, 100 * KIB);
    let low = rig.allocate_wanted_in(&pool, &wanted_in(30 * KIB, DEVICE_TYPE)).unwrap();
    let high = rig.allocate_wanted_in(&pool, &upper(20 * KIB)).unwrap();
    let higher = rig.allocate_wanted_in(&pool, &upper(10 * KIB)).unwrap();
    let offsets = [&low, &high, &higher].map(|allocation| offset_of(&rig, allocation) / KIB);
    assert_eq!(offsets, [0, 80, 70]);
    let full = rig.allocate_wanted_in(&pool, &upper(41 * KIB)).unwrap_err();
    let expected = AllocationError::PoolFull {
        requested: 41 * KIB,
        max_blocks: 1,
        free: 40 * KIB,
        largest_free: 40 * KIB,
        name: ShortName::NONE,
    };
    assert_eq!(full, expected);
    let middle = rig.allocate_wanted_in(&pool, &wanted_in(40 * KIB, DEVICE_TYPE)).unwrap();
    rig.free_all([middle, higher, high, low]);
    rig.destroy_pool(pool).unwrap();
}

#[test]
fn a_dedicated_block_that_a_smaller_request_takes_over_is_used_from_its_start_on_the_upper_side_too() {
    let rig = Rig::new(DISCRETE);
    let mut desc = PoolDesc::new([DEVICE_TYPE]);
    desc.algorithm = Algorithm::Linear;
    desc.sizing = Some(BlockSize::Growing(small_blocks(16 * KIB, MIB)));
    let pool = rig.create_pool(desc).unwrap();
    // Larger than the pool's largest block, so the block is dedicated to it; freed, the pool keeps the block.
    let first = rig.allocate_wanted_in(&pool, &wanted_in(36 * MIB, DEVICE_TYPE)).unwrap();
    let memory = rig.memory_of(&first);
    rig.free(first).unwrap();
    let second = rig.allocate_wanted_in(&pool, &upper(34 * MIB)).unwrap();
    let info = rig.info(&second).unwrap();
    assert_eq!((rig.memory_of(&second), info.offset, info.occupied), (memory, 0, 36 * MIB));
    rig.free(second).unwrap();
    rig.destroy_pool(pool).unwrap();
}

#[test]
fn a_linear_pool_is_a_ring() {
    let rig = Rig::new(DISCRETE);
    let pool = one_block(&rig, Algorithm::Linear, 100 * KIB);
    let mut ring = std::collections::VecDeque::new();
    for i in 0..200 {
        while ring.len() >= 3 {
            rig.free(ring.pop_front().unwrap()).unwrap();
        }
        let size = KIB * (10 + i % 17);
        ring.push_back(rig.allocate_wanted_in(&pool, &wanted_in(size, DEVICE_TYPE)).unwrap());
    }
    assert_eq!(rig.reports().pool_statistics(&pool).unwrap().blocks, 1);
    rig.free_all(ring);
    rig.destroy_pool(pool).unwrap();
}

#[test]
fn where_one_block_is_used_as_a_ring_the_upper_side_is_had_from_another() {
    let rig = Rig::new(DISCRETE);
    let mut desc = fixed_pool(DEVICE_TYPE, 100 * KIB);
    desc.algorithm = Algorithm::Linear;
    let pool = rig.create_pool(desc).unwrap();
    let lower = |kib: u64| rig.allocate_wanted_in(&pool, &wanted_in(kib * KIB, DEVICE_TYPE)).unwrap();
    let (oldest, next) = (lower(50), lower(40));
    rig.free(oldest).unwrap();
    let wrapped = lower(30);
    assert_eq!(offset_of(&rig, &wrapped), 0);
    let high = rig.allocate_wanted_in(&pool, &upper(5 * KIB)).unwrap();
    assert_ne!(rig.memory_of(&high), rig.memory_of(&wrapped));
    rig.free_all([next, wrapped, high]);
    rig.destroy_pool(pool).unwrap();
}

#[test]
fn the_upper_side_is_refused_where_there_is_none_before_anybody_is_asked_for_memory() {
    let rig = Rig::new(DISCRETE);
    for algorithm in [Algorithm::Tlsf, Algorithm::Buddy] {
        let pool = one_block(&rig, algorithm, 64 * KIB);
        assert_eq!(
            rig.allocate_wanted_in(&pool, &upper(KIB)).unwrap_err(),
            AllocationError::UpperSide { name: ShortName::NONE }
        );
        rig.destroy_pool(pool).unwrap();
    }
    assert_eq!(
        rig.allocate_wanted(&upper(KIB)).unwrap_err(),
        AllocationError::UpperSide { name: ShortName::NONE }
    );
    assert_eq!(
        rig.allocate_wanted(&upper(100 * MIB)).unwrap_err(),
        AllocationError::UpperSide { name: ShortName::NONE }
    );
    assert_eq!(
        rig.preview_wanted(&upper(KIB)).unwrap_err(),
        AllocationError::UpperSide { name: ShortName::NONE }
    );
    assert_eq!(rig.reports().device_calls().allocate, 0);
}

#[test]
fn a_buddy_pool_rounds_to_powers_of_two_and_says_so() {
    let rig = Rig::new(DISCRETE);
    let pool = one_block(&rig, Algorithm::Buddy, 64 * KIB);
    let got: Vec<_> = [5, 9, 17]
        .map(|kib| rig.allocate_wanted_in(&pool, &wanted_in(kib * KIB, DEVICE_TYPE)).unwrap())
        .into();
    let statistics = rig.reports().pool_statistics(&pool).unwrap();
    assert_eq!((statistics.allocation_bytes, statistics.rounding), (31 * KIB, 25 * KIB));
    assert_eq!((statistics.padding, statistics.free()), (0, 8 * KIB));
    rig.free_all(got);
    rig.destroy_pool(pool).unwrap();
}

#[test]
fn a_pool_of_fixed_blocks_gives_nobody_memory_of_its_own() {
    let rig = Rig::new(DISCRETE);
    let pool = rig.create_pool(fixed_pool(DEVICE_TYPE, 64 * KIB)).unwrap();
    let dedicated = wanted_in(KIB, DEVICE_TYPE).with_dedicated(Dedicated::Always);
    assert_eq!(
        rig.allocate_wanted_in(&pool, &dedicated).unwrap_err(),
        AllocationError::DedicatedInFixedPool { name: ShortName::NONE }
    );
    let large = rig.allocate_wanted_in(&pool, &wanted_in(65 * KIB, DEVICE_TYPE)).unwrap_err();
    let (requested, block_size) = (65 * KIB, 64 * KIB);
    assert_eq!(large, AllocationError::TooLargeForBlock { requested, block_size, name: ShortName::NONE });
    rig.destroy_pool(pool).unwrap();
}

#[test]
fn a_pool_that_is_full_says_what_is_free_and_serves_again_when_something_is_freed() {
    let rig = Rig::new(DISCRETE);
    let mut desc = fixed_pool(DEVICE_TYPE, 64 * KIB);
    desc.max_blocks = 3;
    let pool = rig.create_pool(desc).unwrap();
    let desc = wanted_in(20 * KIB, DEVICE_TYPE);
    let mut got: Vec<_> = (0..20).map_while(|_| rig.allocate_wanted_in(&pool, &desc).ok()).collect();
    assert_eq!(got.len(), 9);
    let full = rig.allocate_wanted_in(&pool, &desc).unwrap_err();
    let (free, largest_free, name) = (12 * KIB, 4 * KIB, ShortName::NONE);
    assert_eq!(
        full,
        AllocationError::PoolFull { requested: 20 * KIB, max_blocks: 3, free, largest_free, name }
    );
    rig.free(got.swap_remove(4)).unwrap();
    got.push(rig.allocate_wanted_in(&pool, &desc).unwrap());
    rig.free_all(got);
    rig.destroy_pool(pool).unwrap();
}

#[test]
fn an_empty_block_does_not_keep_a_full_pool_from_serving_another_size_or_type() {
    let rig = Rig::new(DISCRETE);
    let mut desc = PoolDesc::new([DEVICE_TYPE, MemoryTypeIndex(1)]);
    desc.sizing = Some(BlockSize::Growing(small_blocks(64 * KIB, 64 * KIB)));
    desc.max_blocks = 1;
    let pool = rig.create_pool(desc).unwrap();
    let other = wanted_in(KIB, MemoryTypeIndex(1));
    for wanted in [wanted_in(10 * MIB, DEVICE_TYPE), wanted_in(KIB, DEVICE_TYPE), other] {
        let allocation = rig.allocate_wanted_in(&pool, &wanted).expect("the block before is empty");
        rig.free(allocation).unwrap();
        assert_eq!(rig.objects(), 1);
    }
    rig.destroy_pool(pool).unwrap();
}

#[test]
fn the_types_of_a_pool_are_tried_in_its_order_and_only_those_that_the_resource_allows() {
    let rig = Rig::new(DISCRETE);
    let mut desc = PoolDesc::new([3, 1].map(MemoryTypeIndex));
    desc.sizing = Some(BlockSize::Fixed(64 * KIB));
    let pool = rig.create_pool(desc).unwrap();
    // The memory usage has no say in a pool.
    let first = rig.allocate_wanted_in(&pool, &wanted(KIB, MemoryUsage::GpuOnly)).unwrap();
    let mut host_only = wanted(KIB, MemoryUsage::GpuOnly);
    host_only.requirements.memory_types = MemoryTypeMask(0b0111);
    let second = rig.allocate_wanted_in(&pool, &host_only).unwrap();
    assert_eq!((rig.type_of(&first).0, rig.type_of(&second).0), (3, 1));
    let elsewhere = rig.allocate_wanted_in(&pool, &wanted_in(KIB, DEVICE_TYPE)).unwrap_err();
    assert!(matches!(elsewhere, AllocationError::NotInPool { allowed: MemoryTypeMask(1), .. }));
    rig.free_all([first, second]);
    rig.destroy_pool(pool).unwrap();
}

#[test]
fn a_pool_over_two_heaps_falls_back_to_the_second_when_the_first_is_full() {
    let mut small = profile(DISCRETE);
    small.heaps[0].size = 100 * KIB;
    let rig = Rig::with(small, |_| {});
    let mut desc = PoolDesc::new([0, 1].map(MemoryTypeIndex));
    desc.sizing = Some(BlockSize::Fixed(64 * KIB));
    let pool = rig.create_pool(desc).unwrap();
    let got: Vec<_> = (0..3)
        .map(|_| rig.allocate_wanted_in(&pool, &wanted(40 * KIB, MemoryUsage::GpuOnly)).unwrap())
        .collect();
    assert_eq!(got.iter().map(|a| rig.type_of(a).0).collect::<Vec<_>>(), [0, 1, 1]);
    assert_eq!((rig.taken(HEAP), rig.taken(MemoryHeapIndex(1))), (64 * KIB, 128 * KIB));
    rig.free_all(got);
    rig.destroy_pool(pool).unwrap();
}

#[test]
fn a_pool_aligns_everything_in_it() {
    let rig = Rig::new(DISCRETE);
    let mut desc = fixed_pool(DEVICE_TYPE, 64 * KIB);
    desc.alignment = Alignment::new(512).unwrap();
    let pool = rig.create_pool(desc).unwrap();
    let desc = wanted_in(100, DEVICE_TYPE);
    let got: Vec<_> = (0..5).map(|_| rig.allocate_wanted_in(&pool, &desc).unwrap()).collect();
    assert!(got.iter().all(|allocation| offset_of(&rig, allocation) % 512 == 0));
    rig.free_all(got);
    rig.destroy_pool(pool).unwrap();
}

#[test]
fn a_pool_keeps_kinds_apart_unless_it_was_told_not_to() {
    let rig = Rig::new(COARSE);
    for ignore in [false, true] {
        let mut desc = fixed_pool(DEVICE_TYPE, 256 * KIB);
        desc.ignore_granularity = ignore;
        let pool = rig.create_pool(desc).unwrap();
        let image = wanted_in(KIB, DEVICE_TYPE).with_kind(ResourceKind::OptimalImage);
        let buffer = wanted_in(KIB, DEVICE_TYPE);
        let got = [&image, &buffer].map(|desc| rig.allocate_wanted_in(&pool, desc).unwrap());
        let pages = [0, 1].map(|i| offset_of(&rig, &got[i]) / (64 * KIB));
        assert_eq!(pages[0] == pages[1], ignore);
        rig.free_all(got);
        rig.destroy_pool(pool).unwrap();
    }
}

#[test]
fn a_reset_frees_everything_in_a_pool_and_makes_its_tokens_stale() {
    let rig = Rig::new(DISCRETE);
    let outside = rig.allocate_wanted(&wanted(KIB, MemoryUsage::Upload)).unwrap();
    let pool = rig.create_pool(fixed_pool(MemoryTypeIndex(1), 64 * KIB)).unwrap();
    let desc = wanted(10 * KIB, MemoryUsage::Upload);
    let old: Vec<_> = (0..20).map(|_| rig.allocate_wanted_in(&pool, &desc).unwrap()).collect();
    rig.reset_pool(&pool).unwrap();
    assert_eq!(rig.reports().pool_statistics(&pool).unwrap().allocations, 0);
    assert_eq!(rig.write(&old[0], 0, &[1]), Err(AccessError::Stale));
    let fresh: Vec<_> = (0..20).map(|_| rig.allocate_wanted_in(&pool, &desc).unwrap()).collect();
    rig.free_all(old);
    assert_eq!(rig.reports().pool_statistics(&pool).unwrap().allocations, 20, "stale tokens free nothing");
    rig.write(&outside, 0, &[1]).unwrap();
    rig.free_all(fresh.into_iter().chain([outside]));
    rig.destroy_pool(pool).unwrap();
}

#[test]
fn a_reset_gives_back_what_the_pool_does_not_keep_of_every_memory_type() {
    let rig = Rig::new(DISCRETE);
    let mut desc = PoolDesc::new([0, 1].map(MemoryTypeIndex));
    (desc.sizing, desc.empty_blocks) = (Some(BlockSize::Fixed(64 * KIB)), EmptyBlockPolicy::NONE);
    desc.min_blocks = 1;
    let pool = rig.create_pool(desc).unwrap();
    let types = [DEVICE_TYPE, MemoryTypeIndex(1)];
    for memory_type in types.into_iter().cycle().take(6) {
        let token = rig.allocate_wanted_in(&pool, &wanted_in(50 * KIB, memory_type)).unwrap();
        // Forgotten on purpose: the reset takes it.
        drop(token);
    }
    assert_eq!(rig.objects(), 6);
    rig.reset_pool(&pool).unwrap();
    rig.check_invariants();
    assert_eq!((rig.objects(), rig.reports().pool_statistics(&pool).unwrap().blocks), (1, 1));
    rig.destroy_pool(pool).unwrap();
}

#[test]
fn a_reset_of_a_hundred_thousand_takes_no_more_than_a_moment() {
    let rig = Rig::new(DISCRETE);
    let pool = one_block(&rig, Algorithm::Linear, 10 * MIB);
    for _ in 0..100_000 {
        drop(rig.allocate_wanted_in(&pool, &wanted_in(100, DEVICE_TYPE)).unwrap());
    }
    let start = std::time::Instant::now();
    rig.reset_pool(&pool).unwrap();
    assert!(start.elapsed().as_secs() < 5, "{:?}", start.elapsed());
    rig.destroy_pool(pool).unwrap();
}

#[test]
fn a_token_outlives_its_pool_and_stands_for_nothing_in_the_next() {
    let rig = Rig::new(DISCRETE);
    let first = one_block(&rig, Algorithm::Tlsf, 64 * KIB);
    let stale = rig.allocate_wanted_in(&first, &wanted_in(KIB, DEVICE_TYPE)).unwrap();
    rig.reset_pool(&first).unwrap();
    rig.destroy_pool(first).unwrap();
    assert_eq!(rig.location(&stale).unwrap_err(), AccessError::Stale);
    // The next pool takes the place of the first, and its first allocation that of the stale one.
    let second = one_block(&rig, Algorithm::Tlsf, 64 * KIB);
    let live = rig.allocate_wanted_in(&second, &wanted_in(KIB, DEVICE_TYPE)).unwrap();
    assert_eq!(rig.location(&stale).unwrap_err(), AccessError::Stale);
    rig.free(stale).unwrap();
    assert_eq!(rig.reports().pool_statistics(&second).unwrap().allocations, 1);
    rig.free(live).unwrap();
    rig.destroy_pool(second).unwrap();
}

#[test]
fn many_pools_come_and_go_and_their_places_are_used_again() {
    let rig = Rig::new(DISCRETE);
    for _ in 0..3 {
        let pools: Vec<_> = (0..100).map(|_| one_block(&rig, Algorithm::Buddy, 4 * KIB)).collect();
        let desc = wanted_in(KIB, DEVICE_TYPE);
        let got: Vec<_> = pools.iter().map(|pool| rig.allocate_wanted_in(pool, &desc).unwrap()).collect();
        assert_eq!(rig.statistics().blocks, 100);
        rig.free_all(got);
        pools.into_iter().for_each(|pool| rig.destroy_pool(pool).unwrap());
        assert_eq!(rig.statistics(), allotment::memory::reports::Statistics::default());
    }
}

#[test]
fn a_pool_does_not_see_the_allocators_limits_on_its_default_blocks() {
    let rig = Rig::new(DISCRETE);
    let pool = one_block(&rig, Algorithm::Tlsf, 600 * MIB);
    let large = rig.allocate_wanted_in(&pool, &wanted_in(500 * MIB, DEVICE_TYPE)).unwrap();
    assert!(!rig.is_dedicated(&large) && rig.block_size_of(&large) == 600 * MIB);
    rig.free(large).unwrap();
    rig.destroy_pool(pool).unwrap();
}

#[test]
fn a_pool_that_says_nothing_of_its_blocks_has_the_allocator_s() {
    let rig = Rig::with(profile(DISCRETE), |desc| desc.block_sizes = BlockSizes::fixed(2 * MIB));
    let pool = rig.create_pool(PoolDesc::new([DEVICE_TYPE])).unwrap();
    let allocation = rig.allocate_wanted_in(&pool, &wanted_in(KIB, DEVICE_TYPE)).unwrap();
    assert_eq!(rig.info(&allocation).unwrap().block_size, 2 * MIB);
    rig.free(allocation).unwrap();
    rig.destroy_pool(pool).unwrap();
}

#[test]
fn an_allocator_that_is_told_so_gives_each_request_memory_of_its_own() {
    let rig = Rig::with(profile(DISCRETE), |desc| desc.dedicated = Dedicated::Always);
    let mut growing = PoolDesc::new([DEVICE_TYPE]);
    growing.name = Some("growing".into());
    let [growing, fixed] = [growing, fixed_pool(DEVICE_TYPE, MIB)].map(|desc| rig.create_pool(desc).unwrap());
    let mut all = Vec::new();
    for _ in 0..3 {
        all.extend((0..20).map(|_| rig.allocate_wanted(&wanted_in(100, DEVICE_TYPE)).unwrap()));
        all.extend((0..20).map(|_| rig.allocate_wanted_in(&growing, &wanted_in(100, DEVICE_TYPE)).unwrap()));
        // A pool promises the size of its blocks.
        all.extend((0..20).map(|_| rig.allocate_wanted_in(&fixed, &wanted_in(100, DEVICE_TYPE)).unwrap()));
        let mut never = wanted_in(100, DEVICE_TYPE);
        never.dedicated = Dedicated::Never;
        all.push(rig.allocate_wanted(&never).unwrap());
        let statistics = rig.statistics();
        assert_eq!((statistics.dedicated, statistics.blocks), (40, 2), "what is asked for comes first");
        // What was freed stays dedicated where it is reused.
        rig.free_all(core::mem::take(&mut all));
    }
    rig.destroy_pool(growing).unwrap();
    rig.destroy_pool(fixed).unwrap();
}

#[test]
fn a_pool_that_is_told_so_gives_each_request_memory_of_its_own() {
    let rig = Rig::new(DISCRETE);
    let mut desc = PoolDesc::new([DEVICE_TYPE]);
    desc.dedicated = Dedicated::Always;
    let pool = rig.create_pool(desc).unwrap();
    let mut all: Vec<_> =
        (0..20).map(|_| rig.allocate_wanted_in(&pool, &wanted_in(100, DEVICE_TYPE)).unwrap()).collect();
    all.push(rig.allocate_wanted(&wanted_in(100, DEVICE_TYPE)).unwrap());
    let statistics = rig.statistics();
    assert_eq!((statistics.dedicated, statistics.blocks), (20, 1));
    rig.free_all(all);
    rig.destroy_pool(pool).unwrap();
}
