//! The results of races: a row for each contender and workload.

use serde::Serialize;

use super::{Lap, Outcome};
use crate::units::median;

/// All rows of a run.
#[derive(Default, Serialize)]
#[serde(transparent)]
pub(crate) struct Rows(Vec<Row>);

/// Times are medians of all laps, in nanoseconds.
#[derive(Serialize)]
pub(crate) struct Row {
    pub(crate) workload: &'static str,
    pub(crate) contender: &'static str,
    pub(crate) threads: usize,
    clock: Clock,
    laps: usize,
    pub(crate) ns_per_op: f64,
    /// The time of the fastest lap, and of the slowest.
    pub(crate) ns_per_op_min: f64,
    ns_per_op_max: f64,
    /// Processor time of all threads per operation of all threads.
    pub(crate) cpu_ns_per_op: f64,
    /// Wall time per operation of all threads: on two threads, half the value of one thread is perfect scaling.
    wall_ns_per_op: f64,
    /// Over all laps but the first.
    heap_allocations_per_op: f64,
}

/// The clock of `ns_per_op`.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Clock {
    /// The thread's processor time.
    ThreadCpu,
    /// The wall time of each thread, from its start to its end, per operation.
    Wall,
}

impl Clock {
    fn name(self) -> &'static str {
        match self {
            Self::ThreadCpu => "cpu",
            Self::Wall => "wall",
        }
    }
}

impl Rows {
    /// Adds the results of one workload.
    pub(crate) fn add(&mut self, workload: &'static str, clock: Clock, outcomes: &[Outcome]) {
        self.0.extend(outcomes.iter().map(|outcome| row(workload, clock, outcome)));
    }

    pub(crate) fn iter(&self) -> core::slice::Iter<'_, Row> {
        self.0.iter()
    }

    /// Prints a table for each workload.
    pub(crate) fn print(&self, processors: usize) {
        say!(
            "cpu: the thread's processor time. wall: each thread's wall time per operation; the threads had"
        );
        say!("{processors} processors. Beside it, per operation of all threads: processor time, and");
        say!("wall time.");
        let mut last = "";
        for row in &self.0 {
            if row.workload != last {
                say!();
                say!("{}", row.workload);
                let [name, fastest, cpu, wall] = ["contender", "fastest–slowest", "cpu/op", "wall/op"];
                say!(
                    "  {name:32} {:>7} {:>5} {:>8} {fastest:>17} {cpu:>8} {wall:>8} {:>12}",
                    "threads",
                    "clock",
                    "ns/op",
                    "heap/op"
                );
                last = row.workload;
            }
            row.print();
        }
    }
}

impl Row {
    fn print(&self) {
        say!(
            "  {:32} {:>7} {:>5} {:>8.2} {:>17} {:>8.2} {:>8.2} {:>12.6}",
            self.contender,
            self.threads,
            self.clock.name(),
            self.ns_per_op,
            format!("{:.2}–{:.2}", self.ns_per_op_min, self.ns_per_op_max),
            self.cpu_ns_per_op,
            self.wall_ns_per_op,
            self.heap_allocations_per_op
        );
    }
}

fn row(workload: &'static str, clock: Clock, Outcome { contender, threads, laps }: &Outcome) -> Row {
    let time = |lap: &Lap| match clock {
        Clock::ThreadCpu => lap.cpu,
        Clock::Wall => lap.own,
    };
    let operations: u64 = laps.iter().map(|lap| lap.operations).sum();
    let heap_allocations: u64 = laps.iter().map(|lap| lap.heap_allocations).sum();
    Row {
        workload,
        contender,
        threads: *threads,
        clock,
        laps: laps.len(),
        ns_per_op: median(laps.iter().map(time)),
        ns_per_op_min: laps.iter().map(time).fold(f64::INFINITY, f64::min),
        ns_per_op_max: laps.iter().map(time).fold(f64::NEG_INFINITY, f64::max),
        cpu_ns_per_op: median(laps.iter().map(|lap| lap.cpu)),
        wall_ns_per_op: median(laps.iter().map(|lap| lap.wall)),
        heap_allocations_per_op: heap_allocations as f64 / operations as f64,
    }
}
