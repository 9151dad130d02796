//! How many blocks a call looks at.

use super::VISITS;
use crate::device::simulated::{Profile, SimulatedGpu};
use crate::memory::blocks::{BlockSizes, ManualTime, TimeSource};
use crate::{Alignment, Allocation, Allocator, AllocatorDesc, MemoryUsage, Requirements};

const KIB: u64 = 1 << 10;

/// An allocator with that many full blocks, each with one allocation.
fn with_blocks(count: usize, size: u64) -> (Allocator<SimulatedGpu>, Vec<Allocation>) {
    let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    let desc = AllocatorDesc { block_sizes: BlockSizes::fixed(size), ..AllocatorDesc::default() };
    let allocator = Allocator::new(device, desc).unwrap();
    let one = || allocator.allocate(&Requirements::new(size), &MemoryUsage::GpuOnly.into()).unwrap();
    let allocations = (0..count).map(|_| one()).collect();
    assert_eq!(allocator.statistics().blocks as usize, count);
    (allocator, allocations)
}

/// Returns how many blocks a call looks at.
fn visits(call: impl FnOnce()) -> usize {
    VISITS.set(0);
    call();
    VISITS.get()
}

#[test]
fn a_trim_looks_at_each_empty_block_a_few_times() {
    let (allocator, mut allocations) = with_blocks(2000, 64 * KIB);
    // Every second one, in no order.
    let kept = allocations.split_off(1000);
    allocations.into_iter().rev().for_each(|allocation| allocator.free(allocation).unwrap());
    let visits = visits(|| assert!(allocator.trim()));
    assert_eq!(allocator.statistics().blocks, 1000);
    assert!(visits < 20 * 1000, "{visits}");
    allocator.check_invariants();
    drop(allocator.free_many(kept));
}

#[test]
fn a_request_among_many_full_blocks_looks_at_few() {
    // Up to 256 KiB the first fit, above the closest one.
    for size in [64 * KIB, 500 * KIB] {
        let (allocator, mut allocations) = with_blocks(1000, size.next_power_of_two());
        for at in [0, 499, 998] {
            allocator.free(allocations.swap_remove(at)).unwrap();
            let requirements = Requirements::new(size);
            let mut again = None;
            let visits =
                visits(|| again = allocator.allocate(&requirements, &MemoryUsage::GpuOnly.into()).ok());
            assert_eq!(allocator.statistics().blocks, 1000, "no block was added");
            assert!(visits < 400, "{visits}");
            allocations.extend(again);
        }
        allocator.check_invariants();
        drop(allocator.free_many(allocations));
    }
}

#[test]
fn a_frame_end_looks_at_no_block_that_is_in_use() {
    let (allocator, mut allocations) = with_blocks(1000, 64 * KIB);
    allocator.free(allocations.swap_remove(500)).unwrap();
    let visits = visits(|| (0..10).for_each(|_| allocator.end_frame()));
    assert!(visits <= 10 * 4, "{visits}");
    drop(allocator.free_many(allocations));
}

#[test]
fn a_free_that_empties_a_block_looks_at_few_of_those_that_are_empty() {
    let (allocator, allocations) = with_blocks(2000, 64 * KIB);
    // The program ends frames, so that blocks stay.
    allocator.end_frame();
    let visits = visits(|| drop(allocator.free_many(allocations)));
    assert!(allocator.statistics().blocks > 1000, "they are kept for a while");
    assert!(visits < 20 * 2000, "{visits}");
}

#[test]
fn large_requests_take_the_block_in_which_they_fit_most_closely() {
    // Each search is compared with the simple one, in `place_in_shared`.
    let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    // Time stands still: how many blocks there are must not depend on how long the test takes.
    let desc = AllocatorDesc { time: TimeSource::Manual(ManualTime::new()), ..AllocatorDesc::default() };
    let allocator = Allocator::new(device, desc).unwrap();
    let (mut live, mut step) = (Vec::new(), 1_u64);
    let mut random = |below: u64| {
        step = step.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (step >> 33) % below
    };
    for round in 0..6000 {
        if live.len() > 300 || (round > 400 && random(2) == 0 && !live.is_empty()) {
            let at = random(live.len() as u64) as usize;
            allocator.free(live.swap_remove(at)).unwrap();
        }
        // From 256 KiB to 16 MiB, and some that change a block but are not compared.
        let octaves = 10 + random(5);
        let size = (1 + random(1 << octaves)) * KIB;
        let alignment = Alignment::new(1 << random(17)).unwrap();
        let requirements = Requirements::new(size).with_alignment(alignment);
        live.push(allocator.allocate(&requirements, &MemoryUsage::GpuOnly.into()).unwrap());
        if round % 500 == 0 {
            allocator.check_invariants();
        }
    }
    let blocks = allocator.statistics().blocks;
    assert!(blocks > 64, "{blocks} are in several groups");
    drop(allocator.free_many(live));
}
