//! Host memory that the allocator keeps once the allocations of a peak are freed.
//!
//! A test binary of its own, since it counts what goes through the global allocator.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it should")]

#[path = "common/counting.rs"]
mod counting;

use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::{Allocator, AllocatorDesc, MemoryUsage, Requirements};

/// Allocations of the peak: `ALLOCATIONS` of the environment, for measurements.
fn allocations() -> usize {
    std::env::var("ALLOCATIONS").map_or(200_000, |count| count.parse().unwrap())
}

#[test]
fn a_trim_after_a_peak_gives_the_host_memory_back() {
    let count = allocations();
    let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    let before = counting::bytes();
    let used = || counting::bytes() - before;
    let allocator = Allocator::new(device, AllocatorDesc::default()).unwrap();
    let mut tokens = Vec::with_capacity(count);
    let of_tokens = counting::bytes();
    for i in 0..count as u64 {
        let request = Requirements::new(256 + i % 7 * 256);
        tokens.push(allocator.allocate(&request, &MemoryUsage::GpuOnly.into()).unwrap());
    }
    let peak = counting::bytes() - of_tokens;
    for token in tokens {
        allocator.free(token).unwrap();
    }
    let freed = used();
    assert!(allocator.trim());
    let trimmed = used();
    println!("{count} allocations: {peak} bytes at the peak, {freed} freed, {trimmed} trimmed");
    assert!(trimmed <= 5 << 20, "{trimmed} bytes are kept");
}
