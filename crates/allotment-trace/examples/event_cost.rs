//! What an event costs the thread that makes it: thread CPU time of allocations and frees with and without a reader.
//!
//! ```text
//! cargo run --release -p allotment-trace --example event_cost
//! ```
//!
//! A thread allocates and frees at random, 256 bytes to 20 KiB, up to 4,096 at once, which is one event each. Where there
//! is a reader, a second thread takes the events out and drops them. Rounds with and without it alternate; the medians
//! of nine are printed. On Linux, where a thread's CPU time is in `/proc`; elsewhere the time of the clock.

use core::error::Error;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::time::Instant;

use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::events::{EventBatch, SubscriptionDesc};
use allotment::memory::CallSites;
use allotment::{Allocation, AllocationOptions, Allocator, AllocatorDesc, MemoryUsage, Requirements};

const SLOTS: usize = 4096;
const OPERATIONS: u32 = 2_000_000;
const ROUNDS: usize = 9;

fn main() -> Result<(), Box<dyn Error>> {
    let profile = Profile::named("discrete-large-bar").ok_or("there is no such profile")?;
    let mut desc = AllocatorDesc::default();
    (desc.shards, desc.call_sites) = (1, CallSites::None);
    let allocator = Allocator::new(SimulatedGpu::new(profile), desc)?;
    for (what, options) in [
        ("without names", AllocationOptions::from(MemoryUsage::GpuOnly)),
        ("with a name", MemoryUsage::GpuOnly.with_name("mesh")),
    ] {
        let (mut without, mut with) = (Vec::new(), Vec::new());
        // The first round finds no blocks yet, and does not count.
        work(&allocator, &options)?;
        for _ in 0..ROUNDS {
            without.push(work(&allocator, &options)?);
            with.push(read_while(&allocator, || work(&allocator, &options))??);
        }
        let (without, with) = (median(without), median(with));
        println!(
            "{what}: {without:.1} ns an operation without a reader, {with:.1} with one: {:.1} ns an event",
            with - without
        );
    }
    Ok(())
}

/// Does something while another thread reads the events.
fn read_while<T>(allocator: &Allocator<SimulatedGpu>, work: impl FnOnce() -> T) -> Result<T, Box<dyn Error>> {
    let mut events = allocator.subscribe(&SubscriptionDesc::default())?;
    let over = AtomicBool::new(false);
    Ok(std::thread::scope(|scope| {
        let over = &over;
        scope.spawn(move || {
            let mut batch = EventBatch::new();
            while !over.load(Ordering::Relaxed) {
                events.wait(&mut batch, Duration::from_millis(10));
            }
        });
        let done = work();
        over.store(true, Ordering::Relaxed);
        done
    }))
}

/// Allocates and frees. Returns nanoseconds an operation.
fn work(allocator: &Allocator<SimulatedGpu>, options: &AllocationOptions) -> Result<f64, Box<dyn Error>> {
    let mut slots: Vec<Option<Allocation>> = (0..SLOTS).map(|_| None).collect();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let began = thread_time();
    for _ in 0..OPERATIONS {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let slot = &mut slots[random as usize % SLOTS];
        *slot = match slot.take() {
            Some(allocation) => {
                allocator.free(allocation)?;
                None
            }
            None => {
                let size = 256 + (random >> 32) % (20 << 10);
                Some(allocator.allocate(&Requirements::new(size), options)?)
            }
        };
    }
    let time = thread_time().saturating_sub(began);
    for allocation in slots.into_iter().flatten() {
        allocator.free(allocation)?;
    }
    Ok(time.as_nanos() as f64 / f64::from(OPERATIONS))
}

/// Returns the CPU time of this thread.
fn thread_time() -> Duration {
    static BEGAN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let read = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = read.and_then(|read| read.split(' ').next()?.parse().ok());
    nanoseconds.map_or_else(|| BEGAN.get_or_init(Instant::now).elapsed(), Duration::from_nanos)
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_unstable_by(f64::total_cmp);
    of[of.len() / 2]
}
