//! `ranges`: allocators of ranges of an integer space, side by side. No GPU takes part.
//!
//! ```text
//!   contender/   one allocator per file, behind one trait
//!   workload/    the operations, generated beforehand, the same for all
//!   check        no overlap, aligned, within the space: before anything is measured
//!   play         the loop that is timed
//!   run          options, and which contenders pass their check
//!   select       names of the command line
//!   time         nanoseconds of an operation
//! ```

mod check;
mod contender;
mod play;
mod run;
mod select;
mod time;
mod workload;

use std::sync::Arc;

use serde::Serialize;

use crate::args::{RangesArgs, RangesMode};
use crate::failure::Failure;
use run::{Omitted, Run};

/// All figures of a run.
#[derive(Debug, Default, Serialize)]
struct Report {
    repetitions: u32,
    /// A hundredth of the ranges and operations: the figures mean nothing.
    quick: bool,
    rows: Vec<time::Row>,
    omitted: Vec<Omitted>,
}

pub(crate) fn run(args: &RangesArgs) -> Result<(), Failure> {
    let report = measure(args)?;
    if args.json {
        say!("{}", serde_json::to_string(&report)?);
    }
    Ok(())
}

/// Measures, and prints tables as they are finished, unless JSON is wanted.
fn measure(args: &RangesArgs) -> Result<Report, Failure> {
    let mut run = Run::new(args)?;
    let mut report = Report { repetitions: args.repetitions, quick: args.quick, ..Report::default() };
    for mode in &args.modes {
        match mode {
            RangesMode::Time => {
                for plan in run.plans()? {
                    let workload = Arc::new(plan.generate(run.scale()));
                    let rows = time::measure(&mut run, &workload)?;
                    if !args.json {
                        time::print(&rows);
                    }
                    report.rows.extend(rows);
                }
            }
        }
    }
    report.omitted = run.omitted;
    if !args.json {
        print_omitted(&report.omitted);
    }
    Ok(report)
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
