//! How long an allocating thread waits while another thread defragments.
//!
//! The pool's lock cannot be observed from outside. A thread that allocates and frees continuously notices it: an
//! operation takes as long as the other thread holds the lock, plus the time to wake up.
//!
//! ```text
//!   allocating     ─op─op─op─────────op─op─
//!   defragmenting  ───┤lock├─┤ lock ├──────
//! ```
//!
//! On a shared machine either thread may be preempted, during an operation or while it holds the lock. Such operations
//! are identified by the system's counters, and reported separately.

use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use core::time::Duration;
use std::time::Instant;

use allotment::device::simulated::SimulatedGpu;
use allotment::memory::defragmentation::{
    Defragmentation, DefragmentationDesc, DefragmentationStrategy, NextPass, PassLimits,
};
use allotment::{Allocator, Pool};
use serde::Serialize;

use super::churn::{Churn, Sizes, Traffic};
use super::ours::{movable, refused};
use super::times::{micros, quantile, share_within};
use crate::clock::thread_cpu_time;
use crate::failure::Failure;
use crate::rng::Rng;

/// The activity of the other thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Other {
    Sleeps,
    /// Allocates and frees as well.
    Allocates,
    /// Plans and ends passes, and replaces some allocations between two of them.
    Defragments,
}

/// The operations during one activity. An operation is an allocation and its free, which take the lock once each.
#[derive(Debug, Serialize)]
pub(super) struct BesideRow {
    sizes: Sizes,
    other: Other,
    operations: usize,
    cpu_p999_us: f64,
    cpu_longest_us: f64,
    wall_p999_us: f64,
    wall_longest_us: f64,
    /// Operations during which neither thread was preempted.
    undisturbed: usize,
    undisturbed_p999_us: f64,
    undisturbed_longest_us: f64,
    /// The share of these that took at most 200 µs.
    undisturbed_within_200us: f64,
    /// The longest of these without a sleep, which excludes the time to wake up.
    awake_longest_us: f64,
    /// The longest work of these by the thread's own processor time.
    own_longest_us: f64,
    /// The time of these in which the thread did not work: it waited for a lock, and to wake up after that.
    waited_p999_us: f64,
    waited_longest_us: f64,
    /// The share of these that waited at most 200 µs.
    waited_within_200us: f64,
}

/// An operation, and how its thread was scheduled meanwhile.
#[derive(Clone, Copy)]
struct Operation {
    start: Instant,
    wall: Duration,
    cpu: Duration,
    /// Its thread was preempted.
    lost: bool,
    slept: bool,
}

/// Voluntary context switches, and preemptions.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Switches {
    slept: i64,
    lost: i64,
}

impl Switches {
    /// Returns the counters of the calling thread.
    fn now() -> Self {
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the pointer is to a local struct, which the call may write.
        unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
        // SAFETY: every bit pattern is a `rusage`, zeros too.
        let usage = unsafe { usage.assume_init() };
        Self { slept: usage.ru_nvcsw, lost: usage.ru_nivcsw }
    }
}

/// Measures for `time` beside each activity, with `live` allocations.
pub(super) fn rows(live: u32, time: Duration) -> Result<Vec<BesideRow>, Failure> {
    let mut rows = Vec::new();
    for sizes in Sizes::ALL {
        let mut churn = Churn::new(live, sizes)?;
        for other in [Other::Sleeps, Other::Allocates, Other::Defragments] {
            rows.push(beside(&mut churn, sizes, other, time)?);
        }
        churn.free_all()?;
    }
    Ok(rows)
}

fn beside(churn: &mut Churn, sizes: Sizes, other: Other, time: Duration) -> Result<BesideRow, Failure> {
    let Churn { allocator, pool, traffic } = churn;
    let (allocator, pool) = (&*allocator, &*pool);
    // The pool is not scattered during the measurement, since that would allocate blocks from the device.
    let (begun, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let mut all = Vec::new();
    let mut disturbed = Vec::new();
    let begin = Instant::now();
    while begin.elapsed() < time {
        begun.store(false, Relaxed);
        over.store(false, Relaxed);
        let (operations, spans) = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| operate(allocator, pool, sizes, &begun, &over));
            while !begun.load(Relaxed) && !waiting.is_finished() {
                std::thread::yield_now();
            }
            let spans = match other {
                Other::Sleeps => {
                    std::thread::sleep(time / 4);
                    Ok(Vec::new())
                }
                Other::Allocates => watched(|| (0..500).try_for_each(|_| traffic.go_on(allocator, pool))),
                Other::Defragments => defragment(allocator, pool, traffic, time),
            };
            over.store(true, Relaxed);
            (waiting.join().map_err(|_| Failure::Thread), spans)
        });
        all.extend(operations??);
        disturbed.extend(spans?);
        if other == Other::Defragments {
            traffic.scatter(allocator, pool)?;
        }
    }
    Ok(row(sizes, other, &all, &disturbed))
}

/// The start and end of an activity during which its thread was preempted.
type Span = (Instant, Instant);

/// Runs an activity, and returns when it was preempted.
fn watched(what: impl FnOnce() -> Result<(), Failure>) -> Result<Vec<Span>, Failure> {
    let (start, before) = (Instant::now(), Switches::now());
    what()?;
    let disturbed = Switches::now().lost != before.lost;
    Ok(if disturbed { vec![(start, Instant::now())] } else { Vec::new() })
}

fn defragment(
    allocator: &Allocator<SimulatedGpu>,
    pool: &Pool,
    traffic: &mut Traffic,
    time: Duration,
) -> Result<Vec<Span>, Failure> {
    let limits = PassLimits::default().with_bytes(u64::MAX).with_moves(super::planning::MOVES);
    let desc = DefragmentationDesc::new(DefragmentationStrategy::Full).with_limits(limits);
    let mut defragmentation = Defragmentation::new(allocator, Some(pool), desc).map_err(refused)?;
    let mut spans = Vec::new();
    let mut done = false;
    let begin = Instant::now();
    while !done && begin.elapsed() < time {
        spans.extend(watched(|| {
            match defragmentation.next_pass() {
                NextPass::Moves(pass) => {
                    pass.end();
                }
                NextPass::LimitReached => {}
                NextPass::Done => done = true,
            }
            // Changes since the last survey are what the library must survey again.
            traffic.go_on(allocator, pool)
        })?);
    }
    Ok(spans)
}

/// Allocates and frees until the measurement is over.
fn operate(
    allocator: &Allocator<SimulatedGpu>,
    pool: &Pool,
    sizes: Sizes,
    begun: &AtomicBool,
    over: &AtomicBool,
) -> Result<Vec<Operation>, Failure> {
    let mut rng = Rng::new(4);
    let mut all = Vec::with_capacity(1 << 20);
    let mut before = Switches::now();
    while !over.load(Relaxed) {
        let (requirements, options) = movable(sizes.one(&mut rng))?;
        let (start, cpu) = (Instant::now(), thread_cpu_time());
        let allocation =
            allocator.allocate(&requirements, &options.clone().with_pool(pool)).map_err(refused)?;
        allocator.free(allocation).map_err(refused)?;
        let (wall, cpu) = (start.elapsed(), thread_cpu_time() - cpu);
        let after = Switches::now();
        let (lost, slept) = (after.lost != before.lost, after.slept != before.slept);
        all.push(Operation { start, wall, cpu, lost, slept });
        before = after;
        begun.store(true, Relaxed);
    }
    Ok(all)
}

fn row(sizes: Sizes, other: Other, all: &[Operation], disturbed: &[Span]) -> BesideRow {
    let sorted = |times: &mut dyn Iterator<Item = Duration>| {
        let mut times: Vec<_> = times.collect();
        times.sort_unstable();
        times
    };
    let cpu = sorted(&mut all.iter().map(|one| one.cpu));
    let wall = sorted(&mut all.iter().map(|one| one.wall));
    let meets = |one: &Operation, &(start, end): &Span| one.start < end && start < one.start + one.wall;
    // Short operations were not disturbed, and there are too many to check.
    let moment = Duration::from_micros(5);
    let fine =
        |one: &&Operation| !one.lost && (one.wall < moment || !disturbed.iter().any(|span| meets(one, span)));
    let undisturbed: Vec<_> = all.iter().filter(fine).collect();
    let awake = undisturbed.iter().filter(|one| !one.slept).map(|one| one.wall).max();
    let own = undisturbed.iter().map(|one| one.cpu).max();
    let waited = sorted(&mut undisturbed.iter().map(|one| one.wall.saturating_sub(one.cpu)));
    let undisturbed = sorted(&mut undisturbed.iter().map(|one| one.wall));
    BesideRow {
        sizes,
        other,
        operations: all.len(),
        cpu_p999_us: micros(quantile(&cpu, 0.999)),
        cpu_longest_us: micros(quantile(&cpu, 1.0)),
        wall_p999_us: micros(quantile(&wall, 0.999)),
        wall_longest_us: micros(quantile(&wall, 1.0)),
        undisturbed: undisturbed.len(),
        undisturbed_p999_us: micros(quantile(&undisturbed, 0.999)),
        undisturbed_longest_us: micros(quantile(&undisturbed, 1.0)),
        undisturbed_within_200us: share_within(&undisturbed, Duration::from_micros(200)),
        awake_longest_us: micros(awake.unwrap_or_default()),
        own_longest_us: micros(own.unwrap_or_default()),
        waited_p999_us: micros(quantile(&waited, 0.999)),
        waited_longest_us: micros(quantile(&waited, 1.0)),
        waited_within_200us: share_within(&waited, Duration::from_micros(200)),
    }
}

impl BesideRow {
    pub(super) fn print_head() {
        say!(
            "  {:8} {:12} {:>10} {:>10} {:>10} {:>10} {:>10} {:>11} {:>10} {:>10} {:>10} {:>10} {:>10} {:>12} {:>10} {:>10}",
            "sizes",
            "other thread",
            "operations",
            "cpu p99.9",
            "longest",
            "wall p99.9",
            "longest",
            "undisturbed",
            "p99.9",
            "longest",
            "≤ 200 µs",
            "awake",
            "own work",
            "waited p99.9",
            "longest",
            "≤ 200 µs"
        );
    }

    pub(super) fn print(&self) {
        say!(
            "  {:8} {:12} {:>10} {:>10.1} {:>10.1} {:>10.1} {:>10.1} {:>11} {:>10.1} {:>10.1} {:>9.4}% {:>10.1} \
             {:>10.1} {:>12.1} {:>10.1} {:>9.4}%",
            self.sizes.name(),
            format!("{:?}", self.other).to_lowercase(),
            self.operations,
            self.cpu_p999_us,
            self.cpu_longest_us,
            self.wall_p999_us,
            self.wall_longest_us,
            self.undisturbed,
            self.undisturbed_p999_us,
            self.undisturbed_longest_us,
            self.undisturbed_within_200us * 100.0,
            self.awake_longest_us,
            self.own_longest_us,
            self.waited_p999_us,
            self.waited_longest_us,
            self.waited_within_200us * 100.0
        );
    }
}
