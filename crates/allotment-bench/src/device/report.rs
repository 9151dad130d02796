//! The results, as tables and as JSON.

use std::sync::Arc;

use serde::Serialize;

use super::cold::Cold;
use super::race::{Lap, Outcome};
use super::sequence::Sequence;
use crate::args::DeviceArgs;
use crate::failure::Failure;
use crate::units::{bytes, median};
use crate::vulkan::Gpu;

/// All figures of a run.
#[derive(Serialize)]
pub(crate) struct Report {
    device: String,
    buffer_image_granularity: u64,
    /// Remarks about the device and the build.
    notes: Vec<String>,
    /// Of the contenders that ran all laps.
    repetitions: u32,
    operations_per_lap: u32,
    /// One thread: processor time minus that of the harness. Two: wall time per operation of both.
    rows: Vec<Row>,
    scaling: Vec<Scaling>,
    cold: Vec<ColdRow>,
}

/// A new allocator that is filled and emptied: processor time of an operation, medians.
#[derive(Serialize)]
struct ColdRow {
    contender: &'static str,
    allocations: u32,
    fill_ns: f64,
    clear_ns: f64,
}

#[derive(Serialize)]
struct Row {
    workload: String,
    contender: &'static str,
    threads: usize,
    clock: Clock,
    laps: usize,
    ns_per_op: f64,
    /// The time of the fastest lap, and of the slowest.
    ns_per_op_min: f64,
    ns_per_op_max: f64,
    live: usize,
    live_bytes: u64,
    reserved_bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Clock {
    ThreadCpuLessEmpty,
    Wall,
}

/// Two threads compared with one, both by the wall clock.
#[derive(Serialize)]
struct Scaling {
    workload: String,
    contender: &'static str,
    wall_ns_per_op_1: f64,
    wall_ns_per_op_2: f64,
    /// Operations per second of two threads, divided by those of one.
    throughput_ratio: f64,
    /// The same ratio for the fastest laps: on a shared machine two threads are disturbed more often.
    throughput_ratio_fastest: f64,
    /// How many processors the two threads had, excluding waits for each other and for other programs. Two on a
    /// quiet machine for threads that never wait.
    processors_2: f64,
}

impl Report {
    pub(crate) fn new(gpu: &Gpu, args: &DeviceArgs) -> Self {
        Self {
            device: gpu.info.name.clone(),
            buffer_image_granularity: gpu.info.buffer_image_granularity,
            notes: gpu.info.notes(),
            repetitions: args.repetitions,
            operations_per_lap: args.pairs * 2,
            rows: Vec::new(),
            scaling: Vec::new(),
            cold: Vec::new(),
        }
    }

    /// Adds the results of one workload on one thread and on two. The first of both is the harness alone.
    pub(crate) fn add(&mut self, workload: &str, lanes: &[Arc<Sequence>], one: &[Outcome], two: &[Outcome]) {
        let cpu = |result: &Outcome| median(result.laps.iter().map(|lap| lap.cpu));
        let wall = |result: &Outcome| median(result.laps.iter().map(|lap| lap.wall));
        let fastest =
            |outcome: &Outcome| outcome.laps.iter().map(|lap| lap.wall).fold(f64::INFINITY, f64::min);
        let harness = one.first().map_or(0.0, cpu);
        for (i, result) in one.iter().enumerate() {
            // The harness is shown unchanged: its time is subtracted from the others.
            let less = if i == 0 { 0.0 } else { harness };
            let clock = Clock::ThreadCpuLessEmpty;
            self.rows.push(row(workload, result, &lanes[..1], clock, |lap| lap.cpu - less));
        }
        for result in two {
            self.rows.push(row(workload, result, lanes, Clock::Wall, |lap| lap.wall));
        }
        for (one, two) in one.iter().zip(two) {
            self.scaling.push(Scaling {
                workload: workload.to_owned(),
                contender: one.contender,
                wall_ns_per_op_1: wall(one),
                wall_ns_per_op_2: wall(two),
                throughput_ratio: wall(one) / wall(two),
                throughput_ratio_fastest: fastest(one) / fastest(two),
                processors_2: median(two.laps.iter().map(|lap| lap.cpu / lap.wall)),
            });
        }
    }

    /// Adds how long it took to fill new allocators with so many allocations, and to empty them.
    pub(crate) fn add_cold(&mut self, allocations: u32, laps: Vec<(&'static str, Vec<Cold>)>) {
        self.cold.extend(laps.into_iter().map(|(contender, laps)| ColdRow {
            contender,
            allocations,
            fill_ns: median(laps.iter().map(|lap| lap.fill)),
            clear_ns: median(laps.iter().map(|lap| lap.clear)),
        }));
    }

    pub(crate) fn print(&self, json: bool) -> Result<(), Failure> {
        if json {
            say!("{}", serde_json::to_string(self)?);
            return Ok(());
        }
        say!("{}, granularity {}", self.device, self.buffer_image_granularity);
        self.notes.iter().for_each(|note| say!("note: {note}"));
        say!();
        say!("One thread: nanoseconds of processor time per operation, minus those of \"empty\"; medians of");
        say!("laps of {} operations each.", self.operations_per_lap);
        self.print_rows(Clock::ThreadCpuLessEmpty);
        say!();
        say!("Two threads, each with a live set of its own: wall time per operation of both.");
        self.print_rows(Clock::Wall);
        say!();
        say!("Scaling: wall time per operation, and throughput of two threads divided by that of one;");
        say!("and how many processors the two had: below 2 they waited, for each other or other programs.");
        say!(
            "  {:12} {:14} {:>10} {:>10} {:>7} {:>16} {:>11}",
            "workload",
            "contender",
            "1 thread",
            "2 threads",
            "ratio",
            "of fastest laps",
            "processors"
        );
        for row in &self.scaling {
            say!(
                "  {:12} {:14} {:>10.1} {:>10.1} {:>7.2} {:>16.2} {:>11.2}",
                row.workload,
                row.contender,
                row.wall_ns_per_op_1,
                row.wall_ns_per_op_2,
                row.throughput_ratio,
                row.throughput_ratio_fastest,
                row.processors_2
            );
        }
        if !self.cold.is_empty() {
            say!();
            say!("A new allocator, filled and emptied: nanoseconds of processor time per operation.");
        }
        for ColdRow { contender, allocations, fill_ns, clear_ns } in &self.cold {
            say!("  {contender:14} {allocations} allocations {fill_ns:>8.1}, {clear_ns:.1} to free one");
        }
        Ok(())
    }

    fn print_rows(&self, clock: Clock) {
        say!(
            "  {:12} {:14} {:>4} {:>9} {:>19} {:>7} {:>11} {:>11}",
            "workload",
            "contender",
            "laps",
            "ns/op",
            "fastest–slowest",
            "live",
            "live bytes",
            "reserved"
        );
        for row in self.rows.iter().filter(|row| row.clock == clock) {
            say!(
                "  {:12} {:14} {:>4} {:>9.1} {:>19} {:>7} {:>11} {:>11}",
                row.workload,
                row.contender,
                row.laps,
                row.ns_per_op,
                format!("{:.1}–{:.1}", row.ns_per_op_min, row.ns_per_op_max),
                row.live,
                bytes(row.live_bytes),
                bytes(row.reserved_bytes),
            );
        }
    }
}

fn row(
    workload: &str,
    result: &Outcome,
    lanes: &[Arc<Sequence>],
    clock: Clock,
    time: impl Fn(&Lap) -> f64,
) -> Row {
    let times: Vec<f64> = result.laps.iter().map(time).collect();
    Row {
        workload: workload.to_owned(),
        contender: result.contender,
        threads: lanes.len(),
        clock,
        laps: times.len(),
        ns_per_op: median(times.iter().copied()),
        ns_per_op_min: times.iter().copied().fold(f64::INFINITY, f64::min),
        ns_per_op_max: times.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        live: lanes.iter().map(|lane| lane.live()).sum(),
        live_bytes: lanes.iter().map(|lane| lane.live_bytes()).sum(),
        reserved_bytes: result.reading.reserved_bytes,
    }
}
