//! What races gave: a row for each contender of each workload.

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
    /// Of the fastest and of the slowest lap.
    pub(crate) ns_per_op_min: f64,
    ns_per_op_max: f64,
    /// Processor time of all threads by the operations of all.
    pub(crate) cpu_ns_per_op: f64,
    /// The wall's time by the operations of all threads: half as much on two as on one is what there is to
    /// reach.
    wall_ns_per_op: f64,
    /// In all laps but the first.
    heap_allocations_per_op: f64,
}

/// What `ns_per_op` is.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Clock {
    /// The thread's processor time.
    ThreadCpu,
    /// The wall's time of each thread, from its start to its end, by what the threads did.
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
    /// Takes in what one workload gave.
    pub(crate) fn add(&mut self, workload: &'static str, clock: Clock, outcomes: &[Outcome]) {
        self.0.extend(outcomes.iter().map(|outcome| row(workload, clock, outcome)));
    }

    pub(crate) fn iter(&self) -> core::slice::Iter<'_, Row> {
        self.0.iter()
    }

    /// A table for each workload.
    pub(crate) fn print(&self, processors: usize) {
        say!(
            "cpu: the thread's processor time. wall: the time of each thread by what it did; the threads had"
        );
        say!("{processors} processors. Beside it, of all threads by all operations: processor time, and");
        say!("the wall's.");
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
