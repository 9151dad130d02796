//! How long another thread waits while one looks.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use core::time::Duration;
use std::time::Instant;

use allotment::device::simulated::SimulatedGpu;
use allotment::events::{EventBatch, SubscriptionDesc};
use allotment::{Allocator, Requirements};

use super::{allocate, allocator, micros, setup};
use crate::args::GrowthArgs;
use crate::failure::Failure;

type Report = (&'static str, fn(&Allocator<SimulatedGpu>));

const REPORTS: [Report; 9] = [
    ("nothing", |_| std::thread::sleep(Duration::from_millis(1))),
    ("allocations", |allocator| drop(allocator.reports().allocations())),
    ("leaks", |allocator| drop(allocator.reports().leaks())),
    ("categories", |allocator| drop(allocator.reports().categories())),
    ("detailed_statistics", |allocator| drop(allocator.reports().detailed_statistics())),
    ("blocks", |allocator| drop(allocator.reports().blocks())),
    ("dump_json", |allocator| drop(allocator.reports().dump_json())),
    ("preview, lowest offset", |allocator| {
        let _ = allocator.preview(&Requirements::new(1024), &super::lowest());
    }),
    ("subscribe", |allocator| {
        let mut batch = EventBatch::new();
        // Refused while the one before ends.
        allocator
            .subscribe(&SubscriptionDesc::default())
            .into_iter()
            .for_each(|mut events| _ = events.read(&mut batch));
    }),
];

pub(super) fn run(args: &GrowthArgs) -> Result<(), Failure> {
    say!();
    say!(
        "{:<24} {:>10} {:>12} {:>12} {:>12} {:>10}",
        "report, in a loop",
        "calls",
        "longest us",
        "99.99 % us",
        "median us",
        "pairs/ms"
    );
    let allocator = allocator((u64::from(args.live) * 1024).next_power_of_two())?;
    let live = (0..args.live).map(|at| allocate(&allocator, 256 + u64::from(at % 3) * 256));
    let mut live = live.collect::<Result<Vec<_>, _>>()?;
    // Holes, so that there is something between the allocations.
    let freed = live.iter().enumerate().filter(|(at, _)| at % 4 == 0).count();
    for at in (0..freed).rev() {
        allocator.free(live.swap_remove(at * 3)).map_err(setup)?;
    }
    for (name, report) in REPORTS {
        beside(name, &allocator, 512, Duration::from_millis(args.wait_ms.into()), || report(&allocator))?;
    }
    live.into_iter().try_for_each(|allocation| allocator.free(allocation).map_err(setup))?;
    // Once, since the next request finds the index that the first one made; and while the other thread is at work.
    let (allocator, kept) = super::every_second_free(args.ranges)?;
    let half = Duration::from_millis(args.wait_ms.into()) / 2;
    let once = |call: &dyn Fn()| {
        std::thread::sleep(half);
        call();
        std::thread::sleep(half);
    };
    beside("nothing", &allocator, super::FREE, Duration::ZERO, || once(&|| ()))?;
    beside("first aligned, refused", &allocator, super::FREE, Duration::ZERO, || {
        once(&|| _ = super::refused(&allocator));
    })?;
    kept.into_iter().try_for_each(|allocation| allocator.free(allocation).map_err(setup))
}

/// Prints how long another thread, which allocates and frees `size` bytes, waits while `call` is repeated, once at least.
fn beside(
    name: &str,
    allocator: &Allocator<SimulatedGpu>,
    size: u64,
    for_at_least: Duration,
    call: impl Fn(),
) -> Result<(), Failure> {
    let over = AtomicBool::new(false);
    let (waits, calls) = std::thread::scope(|scope| {
        let other = scope.spawn(|| waits(allocator, size, &over));
        let began = Instant::now();
        let mut calls = 0;
        while calls == 0 || began.elapsed() < for_at_least {
            call();
            calls += 1;
        }
        over.store(true, Relaxed);
        (other.join(), calls)
    });
    let mut waits = waits.map_err(|_| Failure::Thread)??;
    waits.sort_unstable();
    let at = |part: f64| micros(waits[((waits.len() - 1) as f64 * part) as usize]);
    let total: Duration = waits.iter().sum();
    let rate = waits.len() as f64 / total.as_secs_f64() / 1e3;
    say!("{name:<24} {calls:>10} {:>12.1} {:>12.1} {:>12.3} {rate:>10.0}", at(1.0), at(0.9999), at(0.5));
    Ok(())
}

/// Allocates and frees until it is over. Returns how long each pair took.
fn waits(
    allocator: &Allocator<SimulatedGpu>,
    size: u64,
    over: &AtomicBool,
) -> Result<Vec<Duration>, Failure> {
    // Written to before, so that no page is missing when it counts.
    let mut waits = vec![Duration::MAX; 1 << 22];
    waits.clear();
    // One at least, however late the thread gets a processor.
    while (waits.is_empty() || !over.load(Relaxed)) && waits.len() < waits.capacity() {
        let began = Instant::now();
        let allocation = allocate(allocator, size)?;
        allocator.free(allocation).map_err(setup)?;
        waits.push(began.elapsed());
    }
    Ok(waits)
}
