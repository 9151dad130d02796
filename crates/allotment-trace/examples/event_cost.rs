//! What an event costs the thread that makes it: thread CPU time of allocations and frees with and without a reader.
//!
//! ```text
//! cargo run --release -p allotment-trace --example event_cost
//! ```
//!
//! A thread allocates and frees at random, 256 bytes to 20 KiB, up to 4,096 at once, which is one event each. The readers are a
//! thread that takes the events out and drops them, and a server: without a viewer, with one that reads, and with one that
//! reads nothing. Rounds without a reader and with each of them alternate; the medians of nine are printed. On Linux, where a thread's CPU time is in `/proc`; elsewhere the time of the clock.

use core::error::Error;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::time::Instant;

use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::events::{EventBatch, SubscriptionDesc};
use allotment::memory::reports::CallSites;
use allotment::{Allocation, AllocationOptions, Allocator, AllocatorDesc, MemoryUsage, Requirements};
use allotment_trace::live::{LiveReader, LiveServer};

const SLOTS: usize = 4096;
const OPERATIONS: u32 = 2_000_000;
const ROUNDS: usize = 9;

fn main() -> Result<(), Box<dyn Error>> {
    let profile = Profile::named("discrete-large-bar").ok_or("there is no such profile")?;
    let mut desc = AllocatorDesc::default();
    (desc.threads, desc.call_sites) = (1, CallSites::None);
    let allocator = Allocator::new(SimulatedGpu::new(profile), desc)?;
    for (what, options) in [
        ("without names", AllocationOptions::from(MemoryUsage::GpuOnly)),
        ("with a name", MemoryUsage::GpuOnly.with_name("mesh")),
    ] {
        let mut times = READERS.map(|_| Vec::new());
        // The first round finds no blocks yet, and does not count.
        work(&allocator, &options)?;
        for _ in 0..ROUNDS {
            for (reader, times) in READERS.into_iter().zip(&mut times) {
                times.push(read_while(&allocator, reader, || work(&allocator, &options))??);
            }
        }
        let [without, with @ ..] = times.map(median);
        println!("{what}: {without:.1} ns an operation without a reader");
        for (reader, with) in READERS.into_iter().skip(1).zip(with) {
            println!("  {reader:?}: {with:.1}, which is {:.1} ns an event", with - without);
        }
    }
    Ok(())
}

/// What reads the events.
#[derive(Clone, Copy, Debug)]
enum Reader {
    None,
    Thread,
    Server,
    ServerAndViewer,
    ServerAndStalledViewer,
}

const READERS: [Reader; 5] =
    [Reader::None, Reader::Thread, Reader::Server, Reader::ServerAndViewer, Reader::ServerAndStalledViewer];

/// Does something while the events are read.
fn read_while<T>(
    allocator: &Allocator<SimulatedGpu>,
    reader: Reader,
    work: impl FnOnce() -> T,
) -> Result<T, Box<dyn Error>> {
    let serve = || LiveServer::bind(allocator, "127.0.0.1:0");
    match reader {
        Reader::None => Ok(work()),
        Reader::Thread => drop_while(allocator, work),
        Reader::Server => {
            let _server = serve()?;
            Ok(work())
        }
        Reader::ServerAndViewer => {
            let server = serve()?;
            let mut viewer = LiveReader::connect(server.address())?;
            let viewer = std::thread::spawn(move || {
                while !viewer.has_ended() && viewer.poll(Duration::from_millis(100)).is_ok() {}
            });
            let done = work();
            drop(server);
            viewer.join().map_err(|_| "the viewer panicked")?;
            Ok(done)
        }
        Reader::ServerAndStalledViewer => {
            let server = serve()?;
            let _viewer = LiveReader::connect(server.address())?;
            Ok(work())
        }
    }
}

/// Does something while another thread reads the events and drops them.
fn drop_while<T>(allocator: &Allocator<SimulatedGpu>, work: impl FnOnce() -> T) -> Result<T, Box<dyn Error>> {
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
