//! The passes, one after the other, with a clock beside them.

use core::time::Duration;
use std::time::Instant;

use allotment::Allocator;
use allotment::device::simulated::SimulatedGpu;
use allotment::memory::{
    Defragmentation, DefragmentationDesc, DefragmentationError, DefragmentationPlan,
    DefragmentationStatistics, DefragmentationStrategy, Move, NextPass,
};

use super::carrier::Carrier;
use crate::failure::Failure;

/// What a defragmentation came to.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) plan: DefragmentationPlan,
    /// What could be done at most, for comparison.
    pub(crate) full: DefragmentationPlan,
    /// How long the plan took, in one go.
    pub(crate) planned_in: Duration,
    pub(crate) statistics: DefragmentationStatistics,
    pub(crate) passes: Vec<PassSeen>,
    /// The longest time for which a pass was looked for, also in vain.
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
    /// How long it was looked for.
    pub(crate) found_in: Duration,
}

/// An allocation that got another place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moved {
    /// Its owner's own number.
    pub(crate) user_data: u64,
    /// Index into the passes.
    pub(crate) pass: usize,
}

/// Does it all.
pub(super) fn defragment(
    allocator: &Allocator<SimulatedGpu>,
    desc: DefragmentationDesc,
) -> Result<Done, Failure> {
    let mut full = desc;
    full.strategy = DefragmentationStrategy::Full;
    let full = allocator.defragmentation(full).map_err(refused)?.plan().clone();
    let started = Instant::now();
    let plan = allocator.defragmentation(desc).map_err(refused)?.plan().clone();
    let planned_in = started.elapsed();

    // Another one, so that looking around and planning count as what passes take.
    let mut running = allocator.defragmentation(desc).map_err(refused)?;
    let carrier = Carrier::new(allocator);
    let (mut passes, mut moved, mut longest) = (Vec::<PassSeen>::new(), Vec::new(), Duration::ZERO);
    loop {
        let before = running.statistics();
        let turn = turn(&mut running, &carrier)?;
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
    /// The numbers of the owners of what was moved.
    Moves(Vec<u64>),
    LimitReached,
    Done,
}

/// Looks for a pass, and carries it out where there is one.
fn turn(running: &mut Defragmentation<'_, SimulatedGpu>, carrier: &Carrier<'_>) -> Result<Turn, Failure> {
    let started = Instant::now();
    let next = running.next_pass();
    let found_in = started.elapsed();
    let found = match next {
        NextPass::Moves(mut pass) => {
            carrier.carry(&mut pass)?;
            let gone = pass.moves().iter().filter(|one| !one.is_ignored());
            let owners = gone.map(Move::user_data).collect();
            pass.end();
            Found::Moves(owners)
        }
        NextPass::LimitReached => Found::LimitReached,
        NextPass::Done => Found::Done,
    };
    Ok(Turn { found, found_in })
}

/// Linear blocks were asked for.
fn refused(error: DefragmentationError) -> Failure {
    Failure::Usage(error.to_string())
}
