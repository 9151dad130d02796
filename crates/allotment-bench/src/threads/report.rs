//! The results, as a table and as JSON.

use serde::Serialize;

use super::crew::Lap;
use crate::args::ThreadsArgs;
use crate::failure::Failure;
use crate::start_barrier::processors;
use crate::units::median;

/// All figures of a run.
#[derive(Serialize)]
pub(super) struct Report {
    /// Threads that can run at once.
    processors: usize,
    repetitions: u32,
    /// Pairs of a free and an allocation, of each thread in a lap.
    pairs: u32,
    /// `None` for the allocator's default.
    shards: Option<u32>,
    rows: Vec<Row>,
}

/// Medians of all laps.
#[derive(Serialize)]
pub(super) struct Row {
    workload: &'static str,
    contender: &'static str,
    /// Live allocations of each thread.
    live: u32,
    threads: u32,
    /// Operations of all threads.
    millions_per_second: f64,
    millions_per_second_min: f64,
    millions_per_second_max: f64,
    /// The throughput divided by that of the first row: one thread, or threads that free their own.
    ratio: f64,
    /// Processor time of an operation: where it grows with the threads, they disturb each other.
    cpu_ns_per_op: f64,
    /// Processors that the threads had.
    processors_used: f64,
    reserved_bytes: u64,
    reserved_over_live: f64,
}

impl Row {
    pub(super) fn new(workload: &'static str, live: u32, threads: u32, laps: &[Lap]) -> Self {
        let throughput = |lap: &Lap| lap.operations as f64 / lap.wall.as_secs_f64() / 1e6;
        let cpu = |lap: &Lap| lap.cpu.as_nanos() as f64 / lap.operations as f64;
        let used = |lap: &Lap| lap.cpu.as_secs_f64() / lap.wall.as_secs_f64();
        let reserved = laps.iter().map(|lap| lap.reserved).max().unwrap_or(0);
        Self {
            workload,
            contender: "allotment",
            live,
            threads,
            millions_per_second: median(laps.iter().map(throughput)),
            millions_per_second_min: laps.iter().map(throughput).fold(f64::INFINITY, f64::min),
            millions_per_second_max: laps.iter().map(throughput).fold(0.0, f64::max),
            ratio: 1.0,
            cpu_ns_per_op: median(laps.iter().map(cpu)),
            processors_used: median(laps.iter().map(used)),
            reserved_bytes: reserved,
            reserved_over_live: median(laps.iter().map(|lap| lap.reserved as f64 / lap.live.max(1) as f64)),
        }
    }
}

impl Report {
    pub(super) fn new(args: &ThreadsArgs) -> Self {
        Self {
            processors: processors(),
            repetitions: args.repetitions,
            pairs: args.pairs,
            shards: args.shards,
            rows: Vec::new(),
        }
    }

    /// Adds rows, the first of which is what the others are compared with.
    pub(super) fn add(&mut self, rows: Vec<Row>) {
        let first = rows.first().map_or(1.0, |row| row.millions_per_second);
        self.rows.extend(rows.into_iter().map(|row| Row { ratio: row.millions_per_second / first, ..row }));
    }

    pub(super) fn json(&self) -> Result<String, Failure> {
        Ok(serde_json::to_string(self)?)
    }

    pub(super) fn print(&self, json: bool) -> Result<(), Failure> {
        if json {
            say!("{}", self.json()?);
            return Ok(());
        }
        let shards = self.shards.map_or("default".to_owned(), |shards| shards.to_string());
        say!("Medians of {} laps of {} pairs per thread; shards: {shards}.", self.repetitions, self.pairs);
        say!("{} processors. An operation is an allocation or a free.", self.processors);
        say!();
        say!(
            "  {:<8} {:>7} {:>7} {:>9} {:>17} {:>6} {:>9} {:>10} {:>8} {:>13}",
            "work",
            "live",
            "threads",
            "million/s",
            "slowest–fastest",
            "ratio",
            "cpu ns/op",
            "processors",
            "MiB",
            "reserved/live"
        );
        for row in &self.rows {
            say!(
                "  {:<8} {:>7} {:>7} {:>9.2} {:>17} {:>6.2} {:>9.1} {:>10.2} {:>8} {:>13.3}",
                row.workload,
                row.live,
                row.threads,
                row.millions_per_second,
                format!("{:.2}–{:.2}", row.millions_per_second_min, row.millions_per_second_max),
                row.ratio,
                row.cpu_ns_per_op,
                row.processors_used,
                row.reserved_bytes >> 20,
                row.reserved_over_live
            );
        }
        Ok(())
    }
}
