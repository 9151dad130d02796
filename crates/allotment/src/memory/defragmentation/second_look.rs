//! A second look at the blocks that a plan leaves as they are.
//!
//! ```text
//!   stays         [c░c░c░c░c░c]
//!   selected      [AAA░░a░░a░░]   [BBB░░░░b░░b]     AAA fits no hole of what stays, nor does BBB: both stay as well
//!   second look   [░░░░░░░░░░░]   [BBBAAA░b░░b]     AAA fits the other block, as long as that stays
//! ```
//!
//! The blocks are selected by their sums, as many as the free bytes hold, and each is planned without the free ranges of
//! those that come after it. So where one allocation fits no range, the cheapest block stays though it could have been
//! emptied into the next one; and blocks that were not selected, since the bytes did not suffice for all, were not tried.
//! Here each block that stays is tried once more, by price, with the free ranges of all others. Those into which the
//! plan moves something stay, since nothing is moved twice.
//!
//! # Cost
//!
//! That of the plan once more at most: O(n log n), and mostly much less, since the largest allocation of a block comes
//! first and finds no range.

use std::collections::HashSet;

use super::desc::DefragmentationStrategy;
use super::holes::Holes;
use super::pace::Pace;
use super::packing::pack;
use super::plan::EmptiedByPlan;
use super::selection::{Candidate, Capacity, candidates};
use super::survey::SurveyedArena;

/// Tries the blocks once more that are not emptied, in the arenas that have blocks which were selected.
pub(super) async fn look_again(
    strategy: DefragmentationStrategy,
    arenas: &[SurveyedArena],
    selected: &[Candidate],
    holes: &mut [Holes],
    emptied: &mut EmptiedByPlan,
    pace: &mut Pace,
) {
    // The sums of a plan with a limit of bytes were found by trying out which blocks free most.
    if matches!(strategy, DefragmentationStrategy::WithinBytes(_)) {
        return;
    }
    // Of each arena, without the blocks that become empty.
    let mut capacities: Vec<_> = arenas.iter().map(Capacity::of).collect();
    for candidate in &emptied.candidates {
        let capacity = &mut capacities[candidate.arena];
        // Never too little: the plan empties some of the selected blocks, and all of these fit together by their
        // sums.
        *capacity = capacity.without(candidate).unwrap_or(*capacity);
    }
    // The free ranges of other arenas were not collected.
    let arenas_of: HashSet<_> = selected.iter().map(|one| one.arena).collect();
    let gone: HashSet<_> = emptied.candidates.iter().map(|one| (one.arena, one.block)).collect();
    // The cheapest first.
    for candidate in candidates(arenas) {
        let stays =
            arenas_of.contains(&candidate.arena) && !gone.contains(&(candidate.arena, candidate.block));
        // A block may become empty where nothing moves into it, and the others have the bytes.
        let without =
            capacities[candidate.arena].without(&candidate).filter(|_| !emptied.is_filled(&candidate));
        let Some(without) = without.filter(|_| stays && strategy.is_worth(candidate.cost, candidate.size))
        else {
            continue;
        };
        let (arena, position) = (&arenas[candidate.arena], candidate.block as u32);
        let (own, holes) = (&arena.blocks[candidate.block].holes, &mut holes[candidate.arena]);
        // The block's own holes are in the tree with all others, so an allocation would be moved within its block,
        // and the block stay. They are taken out first, and come back if the block stays after all.
        for &(offset, size) in own {
            // It is there as it was measured: nothing was moved into this block, and what was cut out for a block that
            // stayed has been undone.
            holes.remove(position, offset, size);
            pace.step().await;
        }
        match pack(arena, &candidate, holes, pace).await {
            Some(placed) => {
                emptied.add(arena, &candidate, placed);
                // Its free bytes are no place for the blocks after it, and its allocations have taken some of the others'.
                capacities[candidate.arena] = without;
            }
            None => {
                for &(offset, size) in own {
                    holes.add(position, offset, size);
                    pace.step().await;
                }
            }
        }
        pace.step().await;
    }
}
