//! `time`: nanoseconds of an operation.

use core::time::Duration;
use std::sync::Arc;

use serde::Serialize;

use super::check::Verdict;
use super::contender::{BASE, EMPTY, Ranges};
use super::play::Player;
use super::run::{Measure, Run};
use super::workload::Workload;
use crate::failure::Failure;
use crate::race::{Outcome, Racer, race};
use crate::units::median;

/// A contender in a workload. Times in nanoseconds per operation, those of the harness subtracted.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) workload: String,
    pub(super) contender: &'static str,
    laps: usize,
    operations_per_lap: u64,
    /// The most live ranges.
    live: u32,
    pub(super) ns_per_op: f64,
    /// Of the fastest lap, and of the slowest.
    ns_per_op_min: f64,
    ns_per_op_max: f64,
    /// `ns_per_op` divided by that of offset-allocator.
    pub(super) ratio: Option<f64>,
    heap_allocations_per_op: f64,
    /// Requests of a lap that were refused, and those of them that would have fitted.
    pub(super) refused: u64,
    refused_that_fit: u64,
}

/// Measures a workload.
pub(super) fn measure(run: &mut Run<'_>, workload: &Arc<Workload>) -> Result<Vec<Row>, Failure> {
    let mut entries = Entries { workload, limit: run.limit(), racers: Vec::new(), verdicts: Vec::new() };
    run.each(workload, &mut entries)?;
    let Entries { racers, verdicts, .. } = entries;
    let outcomes = race(&racers, run.args.repetitions)?;
    Ok(rows(workload, &outcomes, &verdicts))
}

/// The contenders that passed their check, each with a thread.
struct Entries<'a> {
    workload: &'a Arc<Workload>,
    limit: Duration,
    racers: Vec<Racer>,
    verdicts: Vec<Verdict>,
}

impl Measure for Entries<'_> {
    fn contender<C: Ranges>(&mut self, verdict: &Verdict) -> Result<(), Failure> {
        let workload = Arc::clone(self.workload);
        let mut player = None;
        let lap = move || {
            let player: &mut Player<C> = player.get_or_insert_with(|| {
                let Some(mut player) = Player::new(&workload) else {
                    unreachable!("it was created for the check")
                };
                player.fill();
                player
            });
            player.lap()
        };
        self.racers.push(Racer::alone(C::NAME, lap).with_limit(self.limit));
        self.verdicts.push(*verdict);
        Ok(())
    }
}

fn rows(workload: &Workload, outcomes: &[Outcome], verdicts: &[Verdict]) -> Vec<Row> {
    let time = |outcome: &Outcome| median(outcome.laps.iter().map(|lap| lap.cpu));
    let of = |name: &str| outcomes.iter().find(|outcome| outcome.contender == name).map(time);
    let harness = of(EMPTY).unwrap_or(0.0);
    let base = of(BASE).map(|time| time - harness);
    let row = |(outcome, verdict): (&Outcome, &Verdict)| {
        // The time of the harness itself is shown unchanged.
        let less = if outcome.contender == EMPTY { 0.0 } else { harness };
        let times = || outcome.laps.iter().map(|lap| lap.cpu - less);
        let ns_per_op = time(outcome) - less;
        let operations: u64 = outcome.laps.iter().map(|lap| lap.operations).sum();
        let heap_allocations: u64 = outcome.laps.iter().map(|lap| lap.heap_allocations).sum();
        Row {
            workload: workload.name.clone(),
            contender: outcome.contender,
            laps: outcome.laps.len(),
            operations_per_lap: workload.lap.len() as u64,
            live: workload.live,
            ns_per_op,
            ns_per_op_min: times().fold(f64::INFINITY, f64::min),
            ns_per_op_max: times().fold(f64::NEG_INFINITY, f64::max),
            ratio: base.filter(|_| outcome.contender != EMPTY).map(|base| ns_per_op / base),
            heap_allocations_per_op: heap_allocations as f64 / operations as f64,
            refused: verdict.refused,
            refused_that_fit: verdict.refused_that_fit,
        }
    };
    outcomes.iter().zip(verdicts).map(row).collect()
}

/// Prints the rows of one workload.
pub(super) fn print(rows: &[Row]) {
    let Some(first) = rows.first() else { return };
    say!();
    say!("{}: {} live at most, laps of {} operations", first.workload, first.live, first.operations_per_lap);
    let [name, spread, ratio] = ["contender", "fastest–slowest", "ratio"];
    say!(
        "  {name:28} {:>9} {spread:>19} {ratio:>7} {:>5} {:>8} {:>8}",
        "ns/op",
        "laps",
        "refused",
        "that fit"
    );
    for row in rows {
        say!(
            "  {:28} {:>9.2} {:>19} {:>7} {:>5} {:>8} {:>8}",
            row.contender,
            row.ns_per_op,
            format!("{:.2}–{:.2}", row.ns_per_op_min, row.ns_per_op_max),
            row.ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}")),
            row.laps,
            row.refused,
            row.refused_that_fit,
        );
    }
}
