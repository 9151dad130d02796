//! `lifetime`: what it costs to keep things until the GPU is done with them, and to hand out a ring's bytes.
//!
//! No GPU takes part: a queue is done when it is told so.
//!
//! ```text
//!   object       what is retired
//!   keeper       what a contender must be able to do
//!   ours         the library's ways
//!   two_stage    the peer: the article's way, a box for each object
//!   retiring     workloads for keepers
//!   rings        the workload for rings, and ours
//!   plain_ring   the peer: a plain ring
//!   report       medians, as a table and as JSON
//! ```

mod keeper;
mod object;
mod ours;
mod plain_ring;
mod report;
mod retiring;
mod rings;
#[cfg(test)]
mod tests;
mod two_stage;

use crate::args::LifetimeArgs;
use crate::failure::Failure;
use crate::race::{Clock, race};
use report::Report;
use rings::Between;

/// Objects that are retired, recordings that are submitted, or requests of a ring, between two looks at what
/// is done.
const BATCH: u64 = 1000;

pub(crate) fn run(args: &LifetimeArgs) -> Result<(), Failure> {
    measure(args)?.print(args.json)
}

fn measure(args: &LifetimeArgs) -> Result<Report, Failure> {
    let mut report = Report::new(args);
    let mut alone = retiring::alone(args.batches);
    alone.push(("ring-allocate", rings::racers(args.batches, Between::Nothing)));
    alone.push(("ring-allocate-apart", rings::racers(args.batches, Between::Other)));
    for (workload, racers) in alone {
        report.rows.add(workload, Clock::ThreadCpu, &race(&racers, args.repetitions)?);
    }
    for &threads in &args.threads {
        let racers = retiring::on_threads(threads, args.batches);
        report.rows.add("retire-threads", Clock::Wall, &race(&racers, args.repetitions)?);
    }
    Ok(report)
}
