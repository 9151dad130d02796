//! Who shares a block with whom, how large blocks are, and what is too large for one.

use allotment::device::MemoryDevice as _;
use allotment::memory::FitStrategy;
use allotment::memory::blocks::BlockSizes;
use allotment::memory::names::ShortName;
use allotment::memory::{Dedicated, ExpectedLifetime};
use allotment::{Allocation, MemoryUsage, ResourceKind};

use crate::rig::{
    AllocateWanted as _, COARSE, DEVICE_TYPE, DISCRETE, FINE, KIB, MIB, Rig, aligned, profile, small_blocks,
    wanted, wanted_in,
};

#[test]
fn short_lived_and_long_lived_allocations_never_share_a_block() {
    let rig = Rig::new(DISCRETE);
    let desc = |i: u64| {
        let lifetime = if i % 2 == 0 { ExpectedLifetime::Short } else { ExpectedLifetime::Long };
        wanted(KIB * (1 + i), MemoryUsage::GpuOnly).with_lifetime(lifetime)
    };
    let got: Vec<_> = (0..100).map(|i| rig.allocate_wanted(&desc(i)).unwrap()).collect();
    let memory_of = |parity: usize| {
        let mut memory: Vec<_> =
            got.iter().skip(parity).step_by(2).map(|allocation| rig.memory_of(allocation)).collect();
        memory.sort_unstable();
        memory.dedup();
        memory
    };
    let (short, long) = (memory_of(0), memory_of(1));
    assert!(short.iter().all(|memory| !long.contains(memory)), "{short:?} and {long:?}");
    rig.free_all(got);
}

/// Allocates these kinds by turns and returns them.
fn mixed(rig: &Rig, kinds: &[ResourceKind]) -> Vec<Allocation> {
    let desc = |i: usize| wanted(100 + i as u64, MemoryUsage::GpuOnly).with_kind(kinds[i % kinds.len()]);
    (0..60).map(|i| rig.allocate_wanted(&desc(i)).unwrap()).collect()
}

#[test]
fn with_a_coarse_granularity_linear_and_optimal_resources_stand_in_different_blocks() {
    let rig = Rig::new(COARSE);
    let got = mixed(&rig, &[ResourceKind::Buffer, ResourceKind::OptimalImage]);
    let (linear, optimal) = (rig.memory_of(&got[0]), rig.memory_of(&got[1]));
    assert_ne!(linear, optimal);
    assert_eq!(rig.objects(), 2);
    assert_eq!(rig.statistics().rounding, 0, "apart, they need no distance");
    rig.free_all(got);
}

#[test]
fn with_a_fine_granularity_they_share_blocks_and_images_take_whole_pages() {
    let rig = Rig::new(FINE);
    let got = mixed(&rig, &[ResourceKind::Buffer, ResourceKind::OptimalImage]);
    assert_eq!(rig.objects(), 1);
    let page = rig.device.properties().limits.buffer_image_granularity;
    for image in got.iter().skip(1).step_by(2) {
        let info = rig.info(image).unwrap();
        assert!(page.is_aligned(rig.location(image).unwrap().offset) && page.is_aligned(info.occupied));
    }
    rig.free_all(got);
}

/// A resource of unknown kind may be linear beside an optimal image, and optimal beside a buffer.
#[test]
fn a_resource_of_unknown_kind_shares_a_page_with_nobody() {
    for name in [COARSE, FINE] {
        let rig = Rig::new(name);
        let kinds = [
            ResourceKind::Unknown,
            ResourceKind::OptimalImage,
            ResourceKind::Buffer,
            ResourceKind::Unknown,
            ResourceKind::LinearImage,
        ];
        let got = mixed(&rig, &kinds);
        let page = rig.device.properties().limits.buffer_image_granularity;
        let pages = |allocation: &Allocation| {
            let place = rig.location(allocation).unwrap();
            (
                rig.memory_of(allocation),
                page.align_down(place.offset),
                page.align_down(place.offset + place.size - 1),
            )
        };
        for (i, unknown) in got.iter().enumerate().filter(|(i, _)| i % 5 == 0 || i % 5 == 3) {
            let (memory, first, last) = pages(unknown);
            for (j, other) in got.iter().enumerate().filter(|&(j, _)| j != i) {
                let (others, from, to) = pages(other);
                assert!(memory != others || last < from || to < first, "{i} and {j} on {name}");
            }
        }
        rig.free_all(got);
    }
}

#[test]
fn allocations_in_memory_that_is_not_coherent_take_whole_atoms() {
    let rig = Rig::new(crate::rig::MOBILE);
    let desc = wanted(1, MemoryUsage::Readback);
    let got: Vec<_> = (0..10).map(|_| rig.allocate_wanted(&desc).unwrap()).collect();
    assert!(got.iter().all(|allocation| rig.location(allocation).unwrap().offset % 64 == 0));
    assert_eq!((rig.statistics().allocation_bytes, rig.statistics().rounding), (10, 630));
    rig.free_all(got);
}

fn sizes() -> BlockSizes {
    let mut sizes = small_blocks(MIB, 16 * MIB);
    (sizes.growth_divisor, sizes.dedicated_threshold_divisor) = (4, 2);
    sizes
}

#[test]
fn blocks_grow_from_the_smallest_size_to_the_largest_with_what_is_in_use() {
    let rig = Rig::with(profile(DISCRETE), |desc| desc.block_sizes = sizes());
    let got: Vec<_> =
        (0..800).map(|_| rig.allocate_wanted(&wanted_in(200 * KIB, DEVICE_TYPE)).unwrap()).collect();
    let mut seen = Vec::new();
    for allocation in &got {
        let size = rig.block_size_of(allocation);
        if seen.last() != Some(&size) {
            seen.push(size);
        }
    }
    assert_eq!(seen, [MIB, 2 * MIB, 4 * MIB, 8 * MIB, 16 * MIB]);
    assert!(rig.objects() < 25, "{} blocks for 156 MiB", rig.objects());
    rig.free_all(got);
}

#[test]
fn a_block_is_never_more_than_an_eighth_of_its_heap() {
    let mut small = profile(DISCRETE);
    small.heaps[0].size = 40 * MIB;
    let rig = Rig::with(small, |_| {});
    let got: Vec<_> = (0..30).map(|_| rig.allocate_wanted(&wanted_in(MIB, DEVICE_TYPE)).unwrap()).collect();
    assert!(got.iter().all(|allocation| rig.block_size_of(allocation) <= 5 * MIB));
    rig.free_all(got);
}

#[test]
fn what_is_larger_than_a_share_of_the_next_block_gets_memory_of_its_own() {
    let is_own = |rig: &Rig, size| {
        let allocation = rig.allocate_wanted(&wanted_in(size, DEVICE_TYPE)).unwrap();
        let own = rig.is_dedicated(&allocation);
        assert!(!own || rig.block_size_of(&allocation) == size, "made to measure");
        rig.free(allocation).unwrap();
        rig.trim();
        own
    };
    let rig = Rig::with(profile(DISCRETE), |desc| desc.block_sizes = sizes());
    assert!(!is_own(&rig, MIB), "as large as the first block");
    assert!(is_own(&rig, MIB + 1));
    // 32 MiB in use make the next block 8 MiB, half of which may share.
    let base: Vec<_> =
        (0..64).map(|_| rig.allocate_wanted(&wanted_in(500 * KIB, DEVICE_TYPE)).unwrap()).collect();
    let next = (rig.taken(crate::rig::HEAP) / 4).next_power_of_two();
    assert!(!is_own(&rig, next / 2));
    assert!(is_own(&rig, next / 2 + 1));
    rig.free_all(base);
}

#[test]
fn who_never_wants_dedicated_memory_gets_a_block_that_is_large_enough_or_nothing() {
    let rig = Rig::with(profile(DISCRETE), |desc| desc.block_sizes = sizes());
    let never = |size| wanted_in(size, DEVICE_TYPE).with_dedicated(Dedicated::Never);
    let fits = rig.allocate_wanted(&never(10 * MIB)).unwrap();
    assert!(!rig.is_dedicated(&fits) && rig.block_size_of(&fits) <= 16 * MIB);
    let refused = rig.allocate_wanted(&never(16 * MIB + 1)).unwrap_err();
    let (requested, block_size) = (16 * MIB + 1, 16 * MIB);
    assert_eq!(
        refused,
        allotment::AllocationError::TooLargeForBlock { requested, block_size, name: ShortName::NONE }
    );
    rig.free(fits).unwrap();
}

#[test]
fn a_dedicated_allocation_is_alone_in_its_memory_and_takes_it_along() {
    let rig = Rig::new(DISCRETE);
    let desc = wanted(KIB, MemoryUsage::GpuOnly).with_dedicated(Dedicated::Always);
    let got: Vec<_> = (0..5).map(|_| rig.allocate_wanted(&desc).unwrap()).collect();
    assert_eq!((rig.objects(), rig.statistics().dedicated, rig.statistics().block_bytes), (5, 5, 5 * KIB));
    rig.free_all(got);
    assert_eq!(rig.objects(), 0, "no other request may have it");
}

#[test]
fn places_keep_any_alignment() {
    for name in [DISCRETE, COARSE, FINE] {
        let rig = Rig::new(name);
        let mut got = Vec::new();
        for shift in 0..17 {
            for size in [1, 100, 70_000] {
                let mut desc = wanted(size, MemoryUsage::GpuOnly);
                desc.requirements = aligned(size, 1 << shift);
                got.push(rig.allocate_wanted(&desc).unwrap());
                assert_eq!(rig.location(got.last().unwrap()).unwrap().offset % (1 << shift), 0);
            }
        }
        rig.free_all(got);
    }
}

#[test]
fn the_strategy_is_passed_on_to_the_block() {
    let rig = Rig::new(DISCRETE);
    let mut desc = wanted_in(KIB, DEVICE_TYPE);
    let got: Vec<_> = (0..6).map(|_| rig.allocate_wanted(&desc).unwrap()).collect();
    let offsets: Vec<_> = got.iter().map(|allocation| rig.location(allocation).unwrap().offset).collect();
    let mut kept = Vec::new();
    for (i, allocation) in got.into_iter().enumerate() {
        if i % 2 == 0 { rig.free(allocation).unwrap() } else { kept.push(allocation) }
    }
    desc.strategy = FitStrategy::LowestOffset;
    let lowest = rig.allocate_wanted(&desc).unwrap();
    assert_eq!(rig.location(&lowest).unwrap().offset, offsets.into_iter().min().unwrap());
    rig.free_all(kept.into_iter().chain([lowest]));
}
