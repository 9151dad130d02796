//! Runs the passes one after another, and times them.

use core::time::Duration;
use std::time::Instant;

use allotment::memory::defragmentation::{
    Defragmentation, DefragmentationDesc, DefragmentationError, DefragmentationPlan,
    DefragmentationStatistics, DefragmentationStrategy, NextPass,
};

use super::carrier::Carrier;
use super::playback::Playback;
use crate::failure::Failure;
use crate::target::Target;

/// The result of a defragmentation.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) plan: DefragmentationPlan,
    /// The plan of the strategy `full`, for comparison.
    pub(crate) full: DefragmentationPlan,
    /// Time of planning everything at once.
    pub(crate) planned_in: Duration,
    pub(crate) statistics: DefragmentationStatistics,
    pub(crate) passes: Vec<PassSeen>,
    /// The longest planning time of a pass, including the last, which finds nothing.
    pub(crate) longest: Duration,
    pub(crate) moved: Vec<Moved>,
}

/// One pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PassSeen {
    pub(crate) moves: u32,
    pub(crate) bytes: u64,
    pub(crate) blocks_emptied: u32,
    pub(crate) bytes_emptied: u64,
    /// Its planning time.
    pub(crate) found_in: Duration,
}

/// An allocation that was moved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moved {
    /// The user data of the allocation.
    pub(crate) user_data: u64,
    /// The index of the pass.
    pub(crate) pass: usize,
}

/// Runs the whole defragmentation.
pub(super) fn defragment<T: Target>(
    playback: &mut Playback<'_, T>,
    desc: DefragmentationDesc,
) -> Result<Done, Failure> {
    let allocator = playback.allocator;
    let mut full = desc;
    // The plan of `full` is the most that any strategy could gain, for comparison in the report.
    full.strategy = DefragmentationStrategy::Full;
    let full = Defragmentation::new(allocator, None, full).map_err(refused)?.plan().clone();
    let started = Instant::now();
    let plan = Defragmentation::new(allocator, None, desc).map_err(refused)?.plan().clone();
    let planned_in = started.elapsed();

    // A new run, so that surveying and planning count as time of the passes.
    let mut running = Defragmentation::new(allocator, None, desc).map_err(refused)?;
    let carrier = Carrier::new(playback);
    let (mut passes, mut moved, mut longest) = (Vec::<PassSeen>::new(), Vec::new(), Duration::ZERO);
    loop {
        let before = running.statistics();
        let turn = turn(playback, &mut running, &carrier)?;
        longest = longest.max(turn.found_in);
        let after = running.statistics();
        match turn.found {
            Found::Moves(owners) => {
                moved.extend(owners.into_iter().map(|user_data| Moved { user_data, pass: passes.len() }));
                passes.push(PassSeen {
                    moves: after.moves - before.moves,
                    bytes: after.bytes_moved - before.bytes_moved,
                    blocks_emptied: after.blocks_emptied - before.blocks_emptied,
                    bytes_emptied: after.bytes_emptied - before.bytes_emptied,
                    found_in: turn.found_in,
                });
            }
            Found::LimitReached => {}
            // The time limit ended the planning of this pass; the next call continues it.
            Found::Done => break,
        }
    }
    Ok(Done { plan, full, planned_in, statistics: running.statistics(), passes, longest, moved })
}

struct Turn {
    found: Found,
    found_in: Duration,
}

enum Found {
    /// The user data of the moved allocations.
    Moves(Vec<u64>),
    LimitReached,
    Done,
}

/// Plans a pass, and executes it if there is one.
fn turn<T: Target>(
    playback: &mut Playback<'_, T>,
    running: &mut Defragmentation<'_, T::Device>,
    carrier: &Carrier<'_, T::Device>,
) -> Result<Turn, Failure> {
    let started = Instant::now();
    let next = running.next_pass();
    let found_in = started.elapsed();
    let found = match next {
        NextPass::Moves(pass) => Found::Moves(carrier.carry(playback, pass)?),
        NextPass::LimitReached => Found::LimitReached,
        NextPass::Done => Found::Done,
    };
    Ok(Turn { found, found_in })
}

/// Returns the usage error for linear blocks, which cannot be defragmented.
fn refused(error: DefragmentationError) -> Failure {
    Failure::Usage(error.to_string())
}
