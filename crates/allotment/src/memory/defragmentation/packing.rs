//! The allocations of a block that a plan tries to empty, and the places that are found for them, in small steps.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use super::holes::{Cut, Holes};
use super::moves::SurveyedAllocation;
use super::plan::PlannedMove;
use super::selection::Candidate;
use super::stopwatch::Stopwatch;
use super::survey::{SurveyedArena, SurveyedBlock};

/// The allocations of one block, and the places found for them.
#[derive(Debug, Default)]
pub(super) struct Packing {
    /// Number of the block's allocations that were pushed to the heap.
    sorted: usize,
    /// By size, the largest on top.
    rest: BinaryHeap<(u64, u32)>,
    pub(super) placed: Vec<(PlannedMove, Cut)>,
    /// An allocation found no place.
    stays: bool,
    /// For a block that stays: the end of the ranges measured so far.
    end: u64,
}

/// Whether places were found for the allocations of a block.
pub(super) enum Packed {
    Interrupted,
    Whole,
    Not,
}

impl Packing {
    /// Finds places for the allocations of a block. If one finds none, its block stays, and its free ranges are added.
    pub(super) fn step(
        &mut self,
        arena: &mut SurveyedArena,
        candidate: &Candidate,
        holes: &mut Holes,
        time: &mut Stopwatch,
    ) -> Packed {
        //   place ──► all have one ──────────────────────────────────────────────────────► Whole
        //     └─────► one has none ──► its cuts undone ──► its own holes added ───────────► Not
        // `stays` remembers which of the two rows an interrupted block is in. Without it the next step would go on
        // placing the rest of a block that cannot leave.
        if !self.stays {
            match self.place(arena, candidate, holes, time) {
                Packed::Not => self.stays = true,
                done => return done,
            }
        }
        self.leave(arena, candidate, holes, time)
    }

    /// Finds places for the allocations of the block.
    pub(super) fn place(
        &mut self,
        arena: &SurveyedArena,
        candidate: &Candidate,
        holes: &mut Holes,
        time: &mut Stopwatch,
    ) -> Packed {
        let block = &arena.blocks[candidate.block];
        // A heap sorts while the allocations are popped, so the sort can be interrupted, too.
        for &item in &block.allocations[self.sorted..] {
            self.rest.push((arena.allocations[item as usize].needed, item));
            self.sorted += 1;
            // Asked after the work, so that each step does some, however short its time.
            if time.is_over() {
                return Packed::Interrupted;
            }
        }
        // Large allocations first: they fit few ranges, while small ones fit into what is left.
        while let Some((_, item)) = self.rest.pop() {
            let SurveyedAllocation { needed, needed_alignment, pool, record, generation, .. } =
                arena.allocations[item as usize];
            // The allocation without a place is not kept for another try: a second look begins with a `Packing` of its
            // own.
            let Some(cut) = holes.cut(needed, needed_alignment) else { return Packed::Not };
            // Of the place only the block is kept. The pool changes until the place is reserved, so its range is found
            // anew then.
            let (to, block) = arena.block(cut.block as usize);
            let planned = PlannedMove { pool, record, generation, to: Some((to.pool, block)) };
            self.placed.push((planned, cut));
            // A block whose last allocation was just placed is done, whatever the time.
            if time.is_over() && !self.rest.is_empty() {
                return Packed::Interrupted;
            }
        }
        Packed::Whole
    }

    /// Leaves the block as it is: returns the places found for its allocations, and adds its own free ranges.
    fn leave(
        &mut self,
        arena: &mut SurveyedArena,
        candidate: &Candidate,
        holes: &mut Holes,
        time: &mut Stopwatch,
    ) -> Packed {
        if !self.undo(holes, time) {
            return Packed::Interrupted;
        }
        let at = candidate.block as u32;
        let block = &mut arena.blocks[candidate.block];
        // Room for the blocks after it, which cost more per byte freed.
        if block.may_take() && !measure((at, block), holes, &mut self.end, time) {
            return Packed::Interrupted;
        }
        Packed::Not
    }

    /// Returns the places that were found. Returns true once all were returned.
    pub(super) fn undo(&mut self, holes: &mut Holes, time: &mut Stopwatch) -> bool {
        // In the opposite order of the cuts, as `Holes::undo` requires.
        while let Some((_, cut)) = self.placed.pop() {
            holes.undo(&cut);
            if time.is_over() {
                return false;
            }
        }
        true
    }
}

/// Adds the free ranges of a block, from `end` on. Returns true once all were added.
pub(super) fn measure(
    (at, found): (u32, &mut SurveyedBlock),
    holes: &mut Holes,
    end: &mut u64,
    time: &mut Stopwatch,
) -> bool {
    // The ranges come by offset. What lies between the end of one and the start of the next is a hole:
    //   0 ├▓▓▓▓░░░▓▓▓░░░░░▓▓░░░┤ size
    //         end ┘  └ offset of the next
    while let Some(Reverse((offset, size))) = found.ranges.pop() {
        // Saturating, since the survey read the records at different times and may have seen one range twice.
        add_hole((at, found), holes, *end, offset.saturating_sub(*end));
        // And the larger end, for the same reason: a range that lies within another one must not open a hole there.
        *end = (*end).max(offset + size);
        if time.is_over() {
            return false;
        }
    }
    let rest = found.size.saturating_sub(*end);
    add_hole((at, found), holes, *end, rest);
    true
}

/// Adds a free range of a block.
fn add_hole((at, found): (u32, &mut SurveyedBlock), holes: &mut Holes, offset: u64, size: u64) {
    if size != 0 {
        holes.add(at, offset, size);
        // A second look takes these away again while it tries to empty this very block.
        found.holes.push((offset, size));
    }
}
