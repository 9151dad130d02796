//! `lifetime`: the cost of deferred destruction, and of allocating from a ring.
//!
//! No GPU takes part: a queue completes on request.
//!
//! ```text
//!   object       the retired objects
//!   deferred     the interface of the contenders
//!   ours         the library's ways
//!   two_stage    the peer: the article's way, a box for each object
//!   retiring     the workloads
//!   rings        the workload for rings, and ours
//!   plain_ring   the peer: a plain ring
//!   report       medians, as a table and as JSON
//! ```

mod deferred;
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

/// Objects retired, recordings submitted, or ring requests between two reclaims.
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
