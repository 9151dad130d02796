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
use super::packing::{Packed, Packing};
use super::plan::EmptiedByPlan;
use super::selection::{Candidate, Room, candidates};
use super::stopwatch::Stopwatch;
use super::survey::SurveyedArena;

/// A second look, in steps.
#[derive(Debug)]
pub(super) struct SecondLook {
    /// The blocks that stay so far, the cheapest first.
    rest: Vec<Candidate>,
    /// The next of them.
    at: usize,
    /// Of each arena, without the blocks that become empty.
    rooms: Vec<Room>,
    phase: Phase,
    packing: Packing,
}

/// What is done with the next block. A number counts its free ranges.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Taking its free ranges away, from this one on.
    Removing(usize),
    Placing,
    /// Returning the places that were found.
    Undoing,
    /// Returning so many of its free ranges.
    Returning(usize),
}

impl SecondLook {
    /// Begins to look at the blocks that are not emptied, in the arenas that have blocks which were selected.
    pub(super) fn new(
        strategy: DefragmentationStrategy,
        arenas: &[SurveyedArena],
        selected: &[Candidate],
        emptied: &EmptiedByPlan,
    ) -> Self {
        let mut rooms: Vec<_> = arenas.iter().map(Room::of).collect();
        for candidate in &emptied.candidates {
            let room = &mut rooms[candidate.arena];
            // Never too little: the plan empties some of the selected blocks, and all of these fit together by their
            // sums.
            *room = room.without(candidate).unwrap_or(*room);
        }
        // The free ranges of other arenas were not collected.
        let arenas_of: HashSet<_> = selected.iter().map(|one| one.arena).collect();
        let gone: HashSet<_> = emptied.candidates.iter().map(|one| (one.arena, one.block)).collect();
        let mut rest = candidates(arenas);
        rest.retain(|one| {
            let stays = arenas_of.contains(&one.arena) && !gone.contains(&(one.arena, one.block));
            stays && strategy.is_worth(one.cost, one.size)
        });
        // The sums of a plan with a limit of bytes were found by trying out which blocks free most.
        if matches!(strategy, DefragmentationStrategy::WithinBytes(_)) {
            rest.clear();
        }
        Self { rest, at: 0, rooms, phase: Phase::Removing(0), packing: Packing::default() }
    }

    /// Continues until the time is over. Returns true once all blocks were tried.
    pub(super) fn step(
        &mut self,
        arenas: &[SurveyedArena],
        holes: &mut [Holes],
        emptied: &mut EmptiedByPlan,
        time: &mut Stopwatch,
    ) -> bool {
        while let Some(&candidate) = self.rest.get(self.at) {
            let (arena, position) = (&arenas[candidate.arena], candidate.block as u32);
            let (own, holes) = (&arena.blocks[candidate.block].holes, &mut holes[candidate.arena]);
            // The block's own holes are in the tree with all others, so an allocation would be moved within its block,
            // and the block stay. They are taken out first, and come back if the block stays after all:
            //   Removing ──► Placing ──► each has a place: emptied, its holes stay away ──► next block
            //                   └──► Undoing ──► Returning, all is as before ──────────────► next block
            // A hole is one piece of work, after which the time is looked at; `place` and `undo` look at it themselves.
            match self.phase {
                Phase::Removing(0) if !self.may_go(&candidate, emptied) => self.at += 1,
                Phase::Removing(next) => match own.get(next) {
                    Some(&(offset, size)) => {
                        // It is there as it was measured: nothing was moved into this block, as `may_go` has seen, and
                        // what was cut out for a block that stayed has been undone.
                        holes.remove(position, offset, size);
                        self.phase = Phase::Removing(next + 1);
                    }
                    None => self.phase = Phase::Placing,
                },
                Phase::Placing => match self.packing.place(arena, &candidate, holes, time) {
                    Packed::Interrupted => return false,
                    Packed::Whole => {
                        emptied.add(arena, &candidate, core::mem::take(&mut self.packing).placed);
                        // Its free bytes are no room for the blocks after it, and its allocations have taken some of
                        // the others'.
                        let room = &mut self.rooms[candidate.arena];
                        *room = room.without(&candidate).unwrap_or(*room);
                        (self.at, self.phase) = (self.at + 1, Phase::Removing(0));
                    }
                    Packed::Not => self.phase = Phase::Undoing,
                },
                Phase::Undoing => {
                    if !self.packing.undo(holes, time) {
                        return false;
                    }
                    // Undone before its holes come back: the cuts were made without them, and are undone without them.
                    (self.packing, self.phase) = (Packing::default(), Phase::Returning(own.len()));
                }
                Phase::Returning(0) => (self.at, self.phase) = (self.at + 1, Phase::Removing(0)),
                Phase::Returning(left) => {
                    let (offset, size) = own[left - 1];
                    holes.add(position, offset, size);
                    self.phase = Phase::Returning(left - 1);
                }
            }
            if time.is_over() {
                return self.at == self.rest.len();
            }
        }
        true
    }

    /// Returns whether a block may become empty: nothing moves into it, and the others have the bytes.
    fn may_go(&self, candidate: &Candidate, emptied: &EmptiedByPlan) -> bool {
        !emptied.is_filled(candidate) && self.rooms[candidate.arena].without(candidate).is_some()
    }
}
