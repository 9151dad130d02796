//! Finds places for the allocations of one block.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use super::holes::{Cut, Holes};
use super::pace::Pace;
use super::plan::PlannedMove;
use super::selection::Candidate;
use super::survey::{SurveyedArena, SurveyedBlock};
use crate::memory::pool::SurveyedAllocation;

/// Finds places for all allocations of a block, the largest first. Where one finds none, all is as before.
pub(super) async fn pack(
    arena: &SurveyedArena,
    candidate: &Candidate,
    holes: &mut Holes,
    pace: &mut Pace,
) -> Option<Vec<(PlannedMove, Cut)>> {
    // A heap, not a sorted list: the largest allocation often finds no place, and then the rest need not be sorted.
    let mut rest = BinaryHeap::new();
    for &item in &arena.blocks[candidate.block].allocations {
        rest.push((arena.allocations[item as usize].needed, item));
        pace.step().await;
    }
    let mut placed = Vec::with_capacity(rest.len());
    // Large allocations first: they fit few ranges, while small ones fit into what is left.
    while let Some((_, item)) = rest.pop() {
        let SurveyedAllocation { needed, needed_alignment, pool, record, generation, .. } =
            arena.allocations[item as usize];
        let Some(cut) = holes.cut(needed, needed_alignment) else {
            // In the opposite order of the cuts, as `Holes::undo` requires.
            while let Some((_, cut)) = placed.pop() {
                holes.undo(&cut);
                pace.step().await;
            }
            return None;
        };
        // Of the place only the block is kept. The pool changes until the place is reserved, so its range is found
        // anew then.
        let (to, block) = arena.block(cut.block as usize);
        placed.push((PlannedMove { pool, record, generation, to: Some((to.pool, block)) }, cut));
        pace.step().await;
    }
    Some(placed)
}

/// Adds the free ranges of a block, which is at this position in its arena.
pub(super) async fn measure(at: u32, found: &mut SurveyedBlock, holes: &mut Holes, pace: &mut Pace) {
    // The ranges come by offset. What lies between the end of one and the start of the next is a hole:
    //   0 ├▓▓▓▓░░░▓▓▓░░░░░▓▓░░░┤ size
    //         end ┘  └ offset of the next
    let mut end = 0_u64;
    while let Some(Reverse((offset, size))) = found.ranges.pop() {
        // Saturating, since the survey read the records at different times and may have seen one range twice.
        add_hole((at, found), holes, end, offset.saturating_sub(end));
        // And the larger end, for the same reason: a range that lies within another one must not open a hole there.
        end = end.max(offset + size);
        pace.step().await;
    }
    let rest = found.size.saturating_sub(end);
    add_hole((at, found), holes, end, rest);
}

/// Adds a free range of a block.
fn add_hole((at, found): (u32, &mut SurveyedBlock), holes: &mut Holes, offset: u64, size: u64) {
    if size != 0 {
        holes.add(at, offset, size);
        // A second look takes these away again while it tries to empty this very block.
        found.holes.push((offset, size));
    }
}
