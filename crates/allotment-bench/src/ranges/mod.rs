//! `ranges`: allocators of ranges of an integer space, side by side. No GPU takes part.
//!
//! ```text
//!   contender/      one allocator per file, behind one trait
//!   workload/       the operations, generated beforehand, the same for all
//!   check           no overlap, aligned, within the space: before anything is measured
//!   play            the loop that is timed
//!   run             options, and which contenders pass their check
//!   select          names of the command line
//!   time            nanoseconds of an operation
//!   latency         quantiles of the time of single operations
//!   fragmentation   use of a space when requests are refused, and of a roomy one
//!   memory          host memory, and time to clear
//!   threads         a mutex between several threads
//!   table           times as Markdown
//! ```

mod check;
mod contender;
mod fragmentation;
mod latency;
mod memory;
mod play;
mod run;
mod select;
mod table;
#[cfg(test)]
mod tests;
mod threads;
mod time;
mod workload;

use std::sync::Arc;

use serde::Serialize;

use crate::args::{RangesArgs, RangesMode};
use crate::failure::Failure;
use run::{Omitted, Run};
use workload::{Plan, Workload};

/// All figures of a run.
#[derive(Debug, Default, Serialize)]
struct Report {
    repetitions: u32,
    /// A hundredth of the ranges and operations: the figures mean nothing.
    quick: bool,
    rows: Vec<Row>,
    omitted: Vec<Omitted>,
}

/// A row of one of the modes.
#[derive(Debug, Serialize)]
#[serde(tag = "mode", rename_all = "snake_case")]
enum Row {
    Time(time::Row),
    Latency(latency::Row),
    Fragmentation(fragmentation::Row),
    Memory(memory::Row),
    Threads(threads::Row),
}

/// The workloads whose host memory is measured.
const MEMORY: [&str; 3] = ["churn-1e3", "churn-1e5", "churn-1e6"];

pub(crate) fn run(args: &RangesArgs) -> Result<(), Failure> {
    if let Some(file) = &args.table {
        let table = table::markdown(&times_of_table(args)?, table::today());
        match file {
            Some(path) => table::rewrite(path, &table)?,
            None => table.iter().for_each(|line| say!("{line}")),
        }
        return Ok(());
    }
    let report = measure(args)?;
    if args.json {
        say!("{}", serde_json::to_string(&report)?);
    }
    Ok(())
}

/// Measures the workloads and contenders of the table.
fn times_of_table(args: &RangesArgs) -> Result<Vec<time::Row>, Failure> {
    let names = |all: &[(&str, &str)]| all.iter().map(|&(name, _)| name.to_owned()).collect();
    let args = RangesArgs {
        workload: names(&table::WORKLOADS),
        contender: names(&table::CONTENDERS),
        modes: Vec::new(),
        table: None,
        ..*args
    };
    let mut run = Run::new(&args)?;
    let mut rows = Vec::new();
    for plan in run.plans(&[])? {
        let workload = Arc::new(plan.generate(run.scale()));
        rows.extend(time::measure(&mut run, &workload)?);
    }
    Ok(rows)
}

/// Measures, and prints tables as they are finished, unless JSON is wanted.
fn measure(args: &RangesArgs) -> Result<Report, Failure> {
    let mut run = Run::new(args)?;
    let mut report = Report { repetitions: args.repetitions, quick: args.quick, ..Report::default() };
    let full: Vec<&str> = fragmentation::full_spaces().iter().map(|full| full.name).collect();
    let plans = run.plans(&full)?;
    for mode in &args.modes {
        if !args.json && args.modes.len() > 1 {
            say!();
            say!("# {mode:?}");
        }
        match mode {
            RangesMode::Time => {
                each(&mut run, &mut report, &plans, (time::measure as _, time::print as _, Row::Time as _))?;
            }
            RangesMode::Latency => {
                each(
                    &mut run,
                    &mut report,
                    &plans,
                    (latency::measure as _, latency::print as _, Row::Latency as _),
                )?;
            }
            RangesMode::Fragmentation => {
                for full in fragmentation::full_spaces() {
                    if run.has_workload(full.name) {
                        let rows = fragmentation::fill(&mut run, full)?;
                        report.add(rows, !args.json, fragmentation::print, Row::Fragmentation);
                    }
                }
                each(
                    &mut run,
                    &mut report,
                    &plans,
                    (fragmentation::measure as _, fragmentation::print as _, Row::Fragmentation as _),
                )?;
            }
            RangesMode::Memory => {
                let of_memory = plans.iter().filter(|plan| MEMORY.contains(&plan.name.as_str()));
                each(
                    &mut run,
                    &mut report,
                    of_memory,
                    (memory::measure as _, memory::print as _, Row::Memory as _),
                )?;
            }
            RangesMode::Threads => {
                let rows = threads::measure(&mut run)?;
                report.add(rows, !args.json, threads::print, Row::Threads);
            }
        }
    }
    report.omitted = run.into_omitted();
    if !args.json {
        print_omitted(&report.omitted);
    }
    Ok(report)
}

/// How a mode measures a workload, how it prints its rows, and how they are kept.
type Parts<R> = (fn(&mut Run<'_>, &Arc<Workload>) -> Result<Vec<R>, Failure>, fn(&[R]), fn(R) -> Row);

/// Measures each of the workloads.
fn each<'p, R>(
    run: &mut Run<'_>,
    report: &mut Report,
    plans: impl IntoIterator<Item = &'p Plan>,
    (measure, print, keep): Parts<R>,
) -> Result<(), Failure> {
    for plan in plans {
        let rows = measure(run, &Arc::new(plan.generate(run.scale())))?;
        report.add(rows, !run.args.json, print, keep);
    }
    Ok(())
}

impl Report {
    fn add<R>(&mut self, rows: Vec<R>, prints: bool, print: fn(&[R]), keep: fn(R) -> Row) {
        if prints {
            print(&rows);
        }
        self.rows.extend(rows.into_iter().map(keep));
    }
}

fn print_omitted(omitted: &[Omitted]) {
    if !omitted.is_empty() {
        say!();
        say!("omitted");
    }
    for Omitted { workload, contender, reason } in omitted {
        say!("  {workload:22} {contender:28} {reason}");
    }
}
