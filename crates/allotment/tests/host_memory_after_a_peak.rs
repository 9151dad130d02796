//! Host memory that the allocator keeps once the allocations of a peak are freed.
//!
//! A test binary of its own, since it counts what goes through the global allocator.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it should")]

#[path = "common/counting.rs"]
mod counting;

use allotment::device::MemoryTypeIndex;
use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::memory::blocks::BlockSize;
use allotment::{
    Allocation, AllocationOptions, Allocator, AllocatorDesc, MemoryUsage, PoolDesc, Requirements,
};

use counting::bytes_of_this_thread as bytes;

/// Allocations of the peak: `ALLOCATIONS` of the environment, for measurements.
fn allocations() -> usize {
    std::env::var("ALLOCATIONS").map_or(200_000, |count| count.parse().unwrap())
}

#[test]
fn a_trim_after_a_peak_gives_the_host_memory_back() {
    let count = allocations();
    let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    let before = bytes();
    let used = || bytes() - before;
    let allocator = Allocator::new(device, AllocatorDesc::default()).unwrap();
    let mut tokens = Vec::with_capacity(count);
    let of_tokens = bytes();
    for i in 0..count as u64 {
        let request = Requirements::new(256 + i % 7 * 256);
        tokens.push(allocator.allocate(&request, &MemoryUsage::GpuOnly.into()).unwrap());
    }
    let peak = bytes() - of_tokens;
    for token in tokens {
        allocator.free(token).unwrap();
    }
    let freed = used();
    assert!(allocator.trim());
    let trimmed = used();
    println!("{count} allocations: {peak} bytes at the peak, {freed} freed, {trimmed} trimmed");
    assert!(trimmed <= 5 << 20, "{trimmed} bytes are kept");
}

/// An allocator of one shard, and the options of a pool of one block that stays.
fn with_a_block_that_stays() -> (Allocator<SimulatedGpu>, AllocationOptions) {
    let mut desc = AllocatorDesc::default();
    desc.threads = 1;
    let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    let allocator = Allocator::new(device, desc).unwrap();
    let mut pool = PoolDesc::new([MemoryTypeIndex(0)]);
    pool.sizing = Some(BlockSize::Fixed(64 << 20));
    (pool.min_blocks, pool.max_blocks) = (1, 1);
    let pool = allocator.create_pool(pool).unwrap();
    (allocator, AllocationOptions::from(MemoryUsage::GpuOnly).with_pool(&pool))
}

fn allocate(
    allocator: &Allocator<SimulatedGpu>,
    options: &AllocationOptions,
    count: usize,
) -> Vec<Allocation> {
    (0..count).map(|_| allocator.allocate(&Requirements::new(256), options).unwrap()).collect()
}

#[test]
fn a_trim_gives_back_what_a_block_has_for_more_ranges_also_where_the_block_stays() {
    let (allocator, options) = with_a_block_that_stays();
    let before = bytes();
    let mut peak = allocate(&allocator, &options, 100_000);
    let oldest = peak.swap_remove(0);
    for token in peak {
        allocator.free(token).unwrap();
    }
    assert!(bytes() - before > 10 << 20);
    assert!(!allocator.trim(), "the block stays");
    let kept = bytes() - before;
    assert!(kept < 128 << 10, "{kept} bytes are kept for one allocation");
    allocator.free(oldest).unwrap();
    // As new: what a frame needs does not depend on what was before.
    allocator.trim();
    for token in allocate(&allocator, &options, 1000) {
        allocator.free(token).unwrap();
    }
    allocator.check_invariants();
}
