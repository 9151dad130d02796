//! `defrag`: the gain and the cost of defragmentation, and how long it holds the lock.
//!
//! Nothing is copied: each move ends at once.
//!
//! ```text
//!   state      the allocations, and which of them are freed
//!   contents   the contents of the blocks, and the lower bound of copied bytes
//!   ours       the library, on a simulated GPU
//!   vma        the peer, on the Vulkan device
//!   outcome    the results of either
//!   churn      memory in use, for the following
//!   planning   how well passes keep their time limit
//!   beside     how long other threads wait for the lock
//!   room       requests that get their room by moves
//!   room_limit the same among many allocations, with a time limit
//!   slivers    requests among holes that are a little too small
//!   times      statistics of durations
//!   report     rows, as tables and as JSON
//! ```

mod beside;
mod churn;
mod contents;
mod ours;
mod outcome;
mod planning;
mod report;
mod room;
mod room_limit;
mod slivers;
mod state;
#[cfg(test)]
mod tests;
mod times;
mod vma;

use core::time::Duration;
use std::sync::Arc;

use allotment::memory::defragmentation::DefragmentationStrategy;

use crate::args::DefragArgs;
use crate::failure::Failure;
use crate::vulkan::Gpu;
use outcome::Outcome;
use report::{Report, Row};
use state::{State, states};
use vma::Algorithm;

/// Moves per pass, if limited.
const MOVES: u32 = planning::MOVES;

pub(crate) fn run(args: &DefragArgs) -> Result<(), Failure> {
    measure(args)?.print(args.common.json)
}

fn measure(args: &DefragArgs) -> Result<Report, Failure> {
    let mut report = Report::new(args);
    // Without a device the peer is omitted; the rest does not need one.
    let gpu = match Gpu::open(&args.common) {
        Ok(gpu) => Some(gpu),
        Err(why) => {
            report.notes.push(format!("vma is omitted: {why}"));
            None
        }
    };
    report.notes.extend(gpu.iter().flat_map(|gpu| gpu.info.notes()));
    let wanted = |name: &str| args.only.as_ref().is_none_or(|only| name.starts_with(only.as_str()));
    for state in states(args.allocations).into_iter().filter(|state| wanted(state.name)) {
        let limits: &[_] = if state.name == "half" { &[None, Some(MOVES)] } else { &[None] };
        for &moves in limits {
            add_ours(&mut report, &state, moves)?;
            if let Some(gpu) = &gpu {
                add_vma(&mut report, gpu, &state, moves)?;
            }
        }
    }
    if wanted("planning") {
        report.planning = planning::rows(args.live, args.calls)?;
    }
    if wanted("beside") {
        report.beside = beside::rows(args.live, Duration::from_millis(args.beside_ms.into()))?;
    }
    if wanted("room") {
        report.room = room::rows(args.calls)?;
    }
    if wanted("room-limit") {
        report.room_limit = room_limit::rows(args.live)?;
    }
    if wanted("slivers") {
        report.slivers = slivers::rows()?;
    }
    Ok(report)
}

fn add_ours(report: &mut Report, state: &State, moves: Option<u32>) -> Result<(), Failure> {
    let repetitions = report.repetitions;
    let mut add = |name, strategy| {
        let outcomes = repeat(repetitions, || ours::run(state, strategy, moves))?;
        report.rows.push(Row::new(state, name, ours::NAME, moves, &outcomes));
        Ok::<_, Failure>(outcomes.first().map_or(0, |outcome| outcome.bytes_moved))
    };
    add("fast", DefragmentationStrategy::Fast)?;
    let all = add("full", DefragmentationStrategy::Full)?;
    add("within-quarter", DefragmentationStrategy::WithinBytes(all / 4))?;
    Ok(())
}

fn add_vma(report: &mut Report, gpu: &Arc<Gpu>, state: &State, moves: Option<u32>) -> Result<(), Failure> {
    for algorithm in Algorithm::ALL {
        if let Some(why) = algorithm.refuses(state) {
            if !report.notes.iter().any(|note| note == why) {
                report.notes.push(why.to_owned());
            }
            continue;
        }
        let outcomes = repeat(report.repetitions, || vma::run(gpu, state, algorithm, moves))?;
        report.rows.push(Row::new(state, algorithm.name(), vma::NAME, moves, &outcomes));
    }
    Ok(())
}

fn repeat(times: u32, mut what: impl FnMut() -> Result<Outcome, Failure>) -> Result<Vec<Outcome>, Failure> {
    (0..times).map(|_| what()).collect()
}
