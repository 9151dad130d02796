//! `lifetime`: the cost of deferred destruction, of allocating from a ring, and of uploads to transient memory.
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
//!   uploading    copies to transient memory of frames, and the peer
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
mod uploading;

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
    let is_wanted = |workload: &str| args.workload.as_ref().is_none_or(|wanted| workload.starts_with(wanted));
    let mut alone = retiring::alone(args.batches);
    alone.push(("ring-allocate", rings::racers(args.batches, Between::Nothing)));
    alone.push(("ring-allocate-apart", rings::racers(args.batches, Between::Other)));
    alone.push(("upload", uploading::racers(args.batches)?));
    for (workload, racers) in alone.into_iter().filter(|(workload, _)| is_wanted(workload)) {
        report.rows.add(workload, Clock::ThreadCpu, &race(&racers, args.repetitions)?);
    }
    for &threads in &args.threads {
        if is_wanted("retire-threads") {
            let racers = retiring::on_threads(threads, args.batches);
            report.rows.add("retire-threads", Clock::Wall, &race(&racers, args.repetitions)?);
        }
    }
    Ok(report)
}
