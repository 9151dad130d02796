//! No argument of a safe call makes it panic, whatever its size: it is refused, or counts as the most that there is.

use core::time::Duration;

use allotment::device::{MemoryHeapIndex, MemoryTypeMask, Priority};
use allotment::memory::blocks::{BlockGrowth, BlockSizes, EmptyBlockPolicy, Watermark};
use allotment::memory::defragmentation::{
    Defragmentation, DefragmentationDesc, DefragmentationStatistics, DefragmentationStrategy, NextPass,
    NotThisMove, PassLimits,
};
use allotment::memory::names::ShortName;
use allotment::memory::{Dedicated, Movability};
use allotment::{AllocationError, AllocatorDesc, MemoryUsage};

use crate::rig::{
    AllocateWanted as _, DEVICE_TYPE, DISCRETE, HEAP, KIB, MIB, Rig, empty_blocks, profile, small_blocks,
    wanted, wanted_in,
};

const HUGE: [u64; 4] = [1 << 48, 1 << 63, (1 << 63) + 1, u64::MAX];

/// An allocator that may have 64 MiB of each heap.
fn limited(change: impl FnOnce(&mut AllocatorDesc)) -> Rig {
    Rig::with(profile(DISCRETE), |desc| {
        desc.heap_limits = (0..4).map(|heap| (MemoryHeapIndex(heap), 64 * MIB)).collect();
        change(desc);
    })
}

fn serves(rig: &Rig) {
    rig.trim();
    let got = rig.allocate_wanted(&wanted_in(KIB, DEVICE_TYPE)).unwrap();
    rig.free(got).unwrap();
    rig.check_invariants();
}

#[test]
fn a_reservation_of_any_size_ends_at_the_limit_and_the_allocator_serves_on() {
    for block_growth in [BlockGrowth::OnDemand, BlockGrowth::Ahead(Watermark::default())] {
        let rig = limited(|desc| desc.block_growth = block_growth);
        for bytes in HUGE {
            let refused = rig.reserve_wanted(&wanted_in(1, DEVICE_TYPE), bytes);
            assert!(matches!(refused, Err(AllocationError::HeapLimit { .. })), "{bytes}: {refused:?}");
            serves(&rig);
        }
    }
}

#[test]
fn a_watermark_of_any_height_is_met_as_far_as_the_limit_allows() {
    for number in HUGE.into_iter().chain([0, 1]) {
        for field in 0..3 {
            let mut watermark = Watermark::default();
            *[&mut watermark.bytes, &mut watermark.frames, &mut watermark.block_divisor][field] = number;
            let rig = limited(|desc| desc.block_growth = BlockGrowth::Ahead(watermark));
            let got = rig.allocate_wanted(&wanted_in(MIB, DEVICE_TYPE)).unwrap();
            for _ in 0..3 {
                rig.maintain();
                rig.end_frame();
            }
            rig.free(got).unwrap();
            assert!(rig.reports().memory_heaps()[0].reserved <= 64 * MIB, "{watermark:?}");
            rig.maintain();
            serves(&rig);
        }
    }
}

#[test]
fn a_batch_of_any_count_is_refused_and_leaves_nothing_behind() {
    let rig = limited(|_| {});
    for count in [usize::MAX, usize::MAX >> 20, (u32::MAX as usize) + 1] {
        let refused = rig.allocate_wanted_many(&wanted_in(1, DEVICE_TYPE), count).unwrap_err();
        assert_eq!(
            refused,
            AllocationError::TooManyAllocations { limit: u32::MAX, name: ShortName::NONE },
            "{count}"
        );
    }
    let refused = rig.allocate_wanted_many(&wanted_in(MIB, DEVICE_TYPE), u32::MAX as usize).unwrap_err();
    assert!(matches!(refused, AllocationError::HeapLimit { .. }), "{refused:?}");
    assert_eq!(rig.statistics().allocations, 0);
    assert_eq!(rig.allocate_wanted_many(&wanted_in(MIB, DEVICE_TYPE), 0).unwrap(), []);
    serves(&rig);
}

#[test]
fn a_retention_of_any_length_and_size_keeps_no_more_than_there_is() {
    for (ticks, surplus, divisor) in
        [(u32::MAX, u64::MAX, 0), (u32::MAX, u64::MAX, 1), (0, u64::MAX, u64::MAX), (1, 0, 1)]
    {
        let mut keeps = empty_blocks(ticks, surplus);
        keeps.kept_divisor = divisor;
        let rig = limited(|desc| desc.empty_blocks = keeps);
        rig.reserve_wanted(&wanted_in(1, DEVICE_TYPE), 32 * MIB).unwrap();
        let got: Vec<_> =
            (0..20).map(|_| rig.allocate_wanted(&wanted_in(MIB, DEVICE_TYPE)).unwrap()).collect();
        rig.end_frame();
        rig.free_all(got);
        (0..300).for_each(|_| rig.end_frame());
        serves(&rig);
    }
}

#[test]
fn budgets_limits_and_block_sizes_of_any_size_are_met_or_refused() {
    for number in HUGE.into_iter().chain([0, 1, MIB]) {
        let rig = Rig::with(profile(DISCRETE), |desc| {
            desc.heap_limits = vec![(HEAP, number), (MemoryHeapIndex(255), number)];
        });
        rig.device.set_budget(HEAP, number);
        rig.refresh_budgets();
        for size in [1, MIB, 100 * MIB] {
            for desc in [wanted_in(size, DEVICE_TYPE), wanted_in(size, DEVICE_TYPE).within_budget()] {
                if let Ok(got) = rig.allocate_wanted(&desc) {
                    rig.free(got).unwrap();
                }
            }
        }
        assert!(rig.reports().memory_heaps()[0].reserved <= number);
    }
    for smallest in [1, 1 << 40, 1 << 48] {
        let rig = limited(|desc| desc.block_sizes = small_blocks(smallest, 1 << 48));
        serves(&rig);
    }
    let mut sizes = BlockSizes::default();
    (sizes.growth_divisor, sizes.dedicated_threshold_divisor) = (u64::MAX, u64::MAX);
    serves(&limited(|desc| desc.block_sizes = sizes));
}

#[test]
fn priorities_that_are_no_numbers_and_masks_that_allow_nothing_are_met_or_refused() {
    let rig = limited(|_| {});
    for priority in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, f32::MAX] {
        let mut desc = wanted_in(MIB, DEVICE_TYPE).with_dedicated(Dedicated::Always);
        desc.priority = Priority::new(priority);
        assert!((0.0..=1.0).contains(&desc.priority.get()), "{priority}");
        rig.free(rig.allocate_wanted(&desc).unwrap()).unwrap();
    }
    let none = Rig::with(profile(DISCRETE), |desc| desc.memory_types = MemoryTypeMask(0));
    let refused = none.allocate_wanted(&wanted(1, MemoryUsage::GpuOnly)).unwrap_err();
    assert!(matches!(refused, AllocationError::NoMemoryType { .. }), "{refused}");
    assert!(none.reserve_wanted(&wanted(1, MemoryUsage::GpuOnly), u64::MAX).is_err());
    for shards in [0, u32::MAX] {
        serves(&limited(|desc| desc.threads = shards));
    }
}

#[test]
fn any_limits_of_a_defragmentation_are_met_and_it_comes_to_an_end() {
    let bytes = [0, 1, u64::MAX];
    let limits = |bytes, moves, time| PassLimits::NONE.with_bytes(bytes).with_moves(moves).with_time(time);
    let limits = bytes.into_iter().flat_map(|bytes| {
        [(0, Duration::ZERO), (u32::MAX, Duration::MAX)].map(|(moves, time)| limits(bytes, moves, time))
    });
    for limits in limits.chain([PassLimits::NONE]) {
        for strategy in bytes.map(DefragmentationStrategy::WithinBytes) {
            let rig = Rig::with(profile(DISCRETE), |desc| {
                (desc.block_sizes, desc.empty_blocks) = (BlockSizes::fixed(64 * KIB), EmptyBlockPolicy::NONE);
            });
            let movable = wanted_in(16 * KIB, DEVICE_TYPE).with_movability(Movability::Copied);
            let mut all: Vec<_> = (0..16).map(|_| rig.allocate_wanted(&movable).unwrap()).collect();
            let kept = all.iter().position(|_| true).map(|_| all.split_off(12)).unwrap();
            let kept: Vec<_> = kept.into_iter().chain((0..3).map(|at| all.swap_remove(3 * at))).collect();
            rig.free_all(all);
            let desc = DefragmentationDesc::new(strategy).with_limits(limits);
            let mut run = Defragmentation::new(&rig, None, desc).unwrap();
            loop {
                match run.next_pass() {
                    NextPass::Moves(mut pass) => {
                        pass.ignore(usize::MAX);
                        let other = rig.allocate_wanted(&wanted_in(KIB, DEVICE_TYPE)).unwrap();
                        let Err(NotThisMove { allocation: other, .. }) = pass.destroy(usize::MAX, other)
                        else {
                            panic!("it is none of the pass's")
                        };
                        rig.free(other).unwrap();
                        pass.end();
                    }
                    NextPass::LimitReached => {}
                    NextPass::Done => break,
                }
            }
            let done = run.statistics();
            assert_eq!(DefragmentationStatistics::default() - done, DefragmentationStatistics::default());
            drop(run);
            rig.free_all(kept);
        }
    }
}

#[test]
fn a_wait_of_any_length_ends_when_there_is_something_to_do() {
    let rig = limited(|desc| desc.block_growth = BlockGrowth::Ahead(Watermark::default()));
    let got = rig.allocate_wanted(&wanted_in(4 * MIB, DEVICE_TYPE)).unwrap();
    assert!(rig.wait_for_maintenance(Duration::MAX), "the block is full");
    rig.free(got).unwrap();
}
