//! `latency`: the time of each operation by itself.
//!
//! A sequence is replayed several times, each time from an empty space; the time of an operation is its shortest one.
//! So what the machine adds now and then is gone, and what the allocator does at this operation stays. A workload may be about
//! its frees alone.

use core::hint::black_box;
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;

use super::check::Verdict;
use super::contender::{EMPTY, Ranges};
use super::play::{Player, step};
use super::run::{Measure, Run};
use super::workload::Workload;
use crate::failure::Failure;

/// Replays of each contender at most.
const REPLAYS: u32 = 5;

/// A contender in a workload. Nanoseconds, the median of the harness subtracted.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) workload: String,
    pub(super) contender: &'static str,
    replays: u32,
    operations: usize,
    p50_ns: u32,
    p99_ns: u32,
    p999_ns: u32,
    max_ns: u32,
    refused: u64,
}

/// Measures a workload.
pub(super) fn measure(run: &mut Run<'_>, workload: &Arc<Workload>) -> Result<Vec<Row>, Failure> {
    let mut replays = Replays { workload, all: Vec::new() };
    run.each(workload, &mut replays)?;
    let mut all = replays.all;
    for _ in 0..REPLAYS.min(run.args.repetitions) {
        for replay in &mut all {
            if replay.spent < run.limit() {
                let start = Instant::now();
                (replay.run)(workload, &mut replay.times);
                replay.spent += start.elapsed();
                replay.count += 1;
            }
        }
    }
    for replay in &mut all {
        if workload.is_about_frees {
            let mut ops = workload.lap.iter();
            replay.times.retain(|_| ops.next().is_some_and(|op| op.size == 0));
        }
        replay.times.sort_unstable();
    }
    let harness =
        all.iter().find(|replay| replay.contender == EMPTY).map_or(0, |empty| quantile(&empty.times, 0.5));
    Ok(all.iter().map(|replay| replay.row(workload, harness)).collect())
}

struct Replays<'a> {
    workload: &'a Workload,
    all: Vec<Replay>,
}

/// A contender with the shortest times so far.
struct Replay {
    contender: &'static str,
    run: fn(&Arc<Workload>, &mut [u32]),
    times: Vec<u32>,
    spent: Duration,
    count: u32,
    verdict: Verdict,
}

impl Measure for Replays<'_> {
    fn contender<C: Ranges>(&mut self, verdict: &Verdict) -> Result<(), Failure> {
        self.all.push(Replay {
            contender: C::NAME,
            run: replay::<C>,
            times: vec![u32::MAX; self.workload.lap.len()],
            spent: Duration::ZERO,
            count: 0,
            verdict: *verdict,
        });
        Ok(())
    }
}

/// Plays the fill, and the lap with the time of each operation.
fn replay<C: Ranges>(workload: &Arc<Workload>, times: &mut [u32]) {
    let Some(mut player) = Player::<C>::new(workload) else { unreachable!("it was created for the check") };
    player.fill();
    for (op, time) in workload.lap.iter().zip(times) {
        let slot = black_box(&mut player.slots[op.slot as usize]);
        let start = Instant::now();
        step(&mut player.ranges, slot, op);
        let spent = start.elapsed();
        *time = (*time).min(u32::try_from(spent.as_nanos()).unwrap_or(u32::MAX));
    }
}

impl Replay {
    fn row(&self, workload: &Workload, harness: u32) -> Row {
        let less = if self.contender == EMPTY { 0 } else { harness };
        let at = |share| quantile(&self.times, share).saturating_sub(less);
        Row {
            workload: workload.name.clone(),
            contender: self.contender,
            replays: self.count,
            operations: self.times.len(),
            p50_ns: at(0.5),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            max_ns: at(1.0),
            refused: self.verdict.refused,
        }
    }
}

/// Returns the smallest number that a share of all does not exceed.
fn quantile(sorted: &[u32], share: f64) -> u32 {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

/// Prints the rows of one workload.
pub(super) fn print(rows: &[Row]) {
    let Some(first) = rows.first() else { return };
    say!();
    say!("{}: nanoseconds of each of {} operations", first.workload, first.operations);
    let name = "contender";
    say!(
        "  {name:28} {:>8} {:>8} {:>8} {:>10} {:>7} {:>8}",
        "p50",
        "p99",
        "p99.9",
        "max",
        "replays",
        "refused"
    );
    for row in rows {
        say!(
            "  {:28} {:>8} {:>8} {:>8} {:>10} {:>7} {:>8}",
            row.contender,
            row.p50_ns,
            row.p99_ns,
            row.p999_ns,
            row.max_ns,
            row.replays,
            row.refused
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_ranks() {
        let times: Vec<u32> = (1..=1000).collect();
        let found = [0.5, 0.99, 0.999, 1.0].map(|share| quantile(&times, share));
        assert_eq!(found, [500, 990, 999, 1000]);
        assert_eq!((quantile(&[7], 0.5), quantile(&[], 0.5)), (7, 0));
    }
}
