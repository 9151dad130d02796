//! How well the planning of a pass keeps its time limit.
//!
//! The library uses the wall clock, which continues while a thread is preempted. So the thread's own time shows
//! whether the library checked its clock often enough, and the wall time beside it shows the effect of the machine.

use core::time::Duration;
use std::time::Instant;

use allotment::memory::defragmentation::{
    Defragmentation, DefragmentationDesc, DefragmentationStrategy, NextPass, PassLimits,
};
use serde::Serialize;

use super::churn::{Churn, Sizes};
use super::ours::refused;
use super::times::{micros, quantile, share_within};
use crate::clock::thread_cpu_time;
use crate::failure::Failure;

/// Time limits of a pass.
pub(super) const LIMITS_US: [u32; 4] = [100, 250, 500, 1000];
pub(super) const MOVES: u32 = 64;

/// All calls with one limit.
#[derive(Debug, Serialize)]
pub(super) struct PlanningRow {
    sizes: Sizes,
    limit_us: u32,
    calls: usize,
    /// The share of calls within the limit plus a tenth, by processor time.
    within_share: f64,
    within_share_and_tenth: f64,
    median_us: f64,
    p999_us: f64,
    longest_us: f64,
    /// By the wall clock.
    within_share_wall: f64,
    longest_wall_us: f64,
    /// Calls that found nothing in time: they surveyed and planned.
    calls_without_moves: usize,
    longest_without_moves_us: f64,
    longest_with_moves_us: f64,
    /// Processor time of ending a pass.
    longest_end_us: f64,
    /// Completed defragmentations.
    runs: u32,
    moves: u64,
}

/// Times of calls.
#[derive(Default)]
struct Calls {
    cpu: Vec<Duration>,
    wall: Vec<Duration>,
    without_moves: Vec<Duration>,
    with_moves: Vec<Duration>,
    ends: Vec<Duration>,
    runs: u32,
    moves: u64,
}

/// Plans `calls` passes with each limit, with `live` allocations, some of which are replaced in between. When
/// nothing is left to gain, memory is scattered again.
pub(super) fn rows(live: u32, calls: u32) -> Result<Vec<PlanningRow>, Failure> {
    let mut rows = Vec::new();
    for sizes in Sizes::ALL {
        let mut churn = Churn::new(live, sizes)?;
        for limit in LIMITS_US {
            rows.push(row(sizes, limit, look(&mut churn, limit, calls as usize)?));
        }
        churn.free_all()?;
    }
    Ok(rows)
}

fn look(churn: &mut Churn, limit_us: u32, wanted: usize) -> Result<Calls, Failure> {
    let Churn { allocator, pool, traffic } = churn;
    let limits = PassLimits::default()
        .with_bytes(u64::MAX)
        .with_moves(MOVES)
        .with_time(Duration::from_micros(limit_us.into()));
    let desc = DefragmentationDesc::new(DefragmentationStrategy::Full).with_limits(limits);
    let mut calls = Calls::default();
    while calls.cpu.len() < wanted {
        let mut defragmentation = Defragmentation::new(&*allocator, Some(pool), desc).map_err(refused)?;
        while calls.cpu.len() < wanted {
            let (wall, cpu) = (Instant::now(), thread_cpu_time());
            let next = defragmentation.next_pass();
            let cpu = thread_cpu_time() - cpu;
            calls.wall.push(wall.elapsed());
            calls.cpu.push(cpu);
            match next {
                NextPass::Moves(pass) => {
                    calls.with_moves.push(cpu);
                    calls.moves += pass.moves().len() as u64;
                    let start = thread_cpu_time();
                    pass.end();
                    calls.ends.push(thread_cpu_time() - start);
                }
                NextPass::LimitReached => calls.without_moves.push(cpu),
                NextPass::Done => {
                    calls.without_moves.push(cpu);
                    calls.runs += 1;
                    break;
                }
            }
            traffic.go_on(allocator, pool)?;
        }
        drop(defragmentation);
        traffic.scatter(allocator, pool)?;
    }
    Ok(calls)
}

fn row(sizes: Sizes, limit_us: u32, mut calls: Calls) -> PlanningRow {
    let limit = Duration::from_micros(limit_us.into());
    let longest = |times: &[Duration]| times.iter().max().copied().map_or(0.0, micros);
    calls.cpu.sort_unstable();
    PlanningRow {
        sizes,
        limit_us,
        calls: calls.cpu.len(),
        within_share: share_within(&calls.cpu, limit),
        within_share_and_tenth: share_within(&calls.cpu, limit + limit / 10),
        median_us: micros(quantile(&calls.cpu, 0.5)),
        p999_us: micros(quantile(&calls.cpu, 0.999)),
        longest_us: longest(&calls.cpu),
        within_share_wall: share_within(&calls.wall, limit),
        longest_wall_us: longest(&calls.wall),
        calls_without_moves: calls.without_moves.len(),
        longest_without_moves_us: longest(&calls.without_moves),
        longest_with_moves_us: longest(&calls.with_moves),
        longest_end_us: longest(&calls.ends),
        runs: calls.runs,
        moves: calls.moves,
    }
}

impl PlanningRow {
    pub(super) fn print_head() {
        say!(
            "  {:8} {:>8} {:>6} {:>8} {:>8} {:>8} {:>8} {:>8} {:>10} {:>10} {:>9} {:>9} {:>8} {:>5}",
            "sizes",
            "limit µs",
            "calls",
            "within",
            "+ 10 %",
            "median",
            "p99.9",
            "longest",
            "wall: with",
            "longest",
            "no moves",
            "moves",
            "ending",
            "runs"
        );
    }

    pub(super) fn print(&self) {
        say!(
            "  {:8} {:>8} {:>6} {:>7.2}% {:>7.2}% {:>8.1} {:>8.1} {:>8.1} {:>9.2}% {:>10.1} {:>9.1} {:>9.1} {:>8.1} {:>5}",
            self.sizes.name(),
            self.limit_us,
            self.calls,
            self.within_share * 100.0,
            self.within_share_and_tenth * 100.0,
            self.median_us,
            self.p999_us,
            self.longest_us,
            self.within_share_wall * 100.0,
            self.longest_wall_us,
            self.longest_without_moves_us,
            self.longest_with_moves_us,
            self.longest_end_us,
            self.runs
        );
    }
}
