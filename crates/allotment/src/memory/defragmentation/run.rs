//! A run: executes a plan pass by pass.
//!
//! ```text
//!   survey ──► plan ──► block by block: close, reserve places for all of it, hand out moves ──► finished
//!     ▲                                              │
//!     └────────── the pools changed meanwhile ◄──────┘
//! ```
//!
//! Each arrow and each box can be interrupted, and continues in the next pass. No lock is held for longer than some
//! tens of microseconds: for a batch of records that is read, or of places that are reserved.
//!
//! A block is emptied completely or not at all. It is closed first, so that no new allocation is placed in it. Then
//! places are reserved for all its allocations. Only then the first byte is copied. A request that finds no room
//! meanwhile reopens the block before the driver is asked for another one; then the reserved places are freed, and the
//! block stays.
//!
//! Several runs may be open over the same pools, one for each mover. A run empties the blocks in which all allocations are
//! its mover's (`mover.rs`). It claims the blocks of its plan before it reserves the first place, and leaves blocks that
//! another run has claimed or closed. Blocks of mapped buffers are emptied by their owners, to whom the run of their
//! `Defragmenter` offers the places that it reserved (`offered_moves.rs`).
//!
//! # A worked example
//!
//! (`tests/defragmentation/worked_example.rs` checks its numbers.)
//!
//! The state: one memory type with three blocks of 1024 KiB, sizes and offsets in KiB. The request: the strategy
//! [`Fast`](super::DefragmentationStrategy::Fast), and at most 128 KiB a pass.
//!
//! ```text
//!   block 0   a 512 at 0, b 256 at 512     free  256 at 768
//!   block 1   c 256 at 0, d 128 at 512     free  256 at 256, 384 at 640
//!   block 2   e 128 at 0, f 128 at 512     free  384 at 128, 384 at 640
//! ```
//!
//! 1. *Survey*: copies of 768, 384 and 256 KiB would empty the blocks. All that is larger than a pass counts as pinned,
//!    so with 128 KiB a pass `a`, `b` and `c` pin blocks 0 and 1.
//! 2. *Selection*: block 2 costs 256 KiB, less than half of its 1024, so `Fast` takes it. The others have 256 + 640 =
//!    896 KiB free, enough for its 256. (With larger passes block 1 would be the next candidate, at 384 KiB. But block
//!    0 alone has 256 KiB free, too few for the 256 + 384 KiB of both, so block 1 would stay.)
//! 3. *Plan*: the smallest free range that holds `f` is 256 at 768 in block 0, of which 128 at 896 remain; the smallest
//!    that holds `e` is that remainder. Both move to block 0.
//! 4. *First pass*: block 2 is closed. Both places are reserved in block 0, as live allocations. `f` is handed out; `e`
//!    would make it 256 KiB and waits. The caller copies `f`. At the end of the pass the two allocations exchange their
//!    ranges: the handle of `f` names block 0 now, and the reserved one, which names 512 in block 2, is freed.
//! 5. *Second pass*: `e` is handed out, and copied likewise. At its end nothing is left in block 2: it counts as
//!    emptied, and is freed to the driver with the old place of `e`.
//! 6. *Third pass*: no block is left, and none was kept because of a change. The run is finished.
//!
//! If a request for 512 KiB comes between the two passes, it fits neither block 0 nor block 1. The pool reopens block
//! 2, where 896 KiB are free by then, instead of allocating a fourth block. The second pass finds block 2 open, frees
//! the place reserved for `e`, and counts block 2 as kept. `f` stays where it is now. The run then surveys the pools
//! again.

use std::collections::{HashSet, VecDeque};

use super::desc::{DefragmentationDesc, Spent};
use super::evacuation::{Current, Evacuation, EvacuationState, HandedOut, Phase, Step, Worth};
use super::pace::Paced;
use super::pass::Move;
use super::plan::{DefragmentationPlan, Planned, PlannedEvacuation, plan};
use super::room::RoomRun;
use super::stopwatch::Stopwatch;
use super::survey::{Scope, Survey};
use super::{DefragmentationStatistics, PassLimits};
use crate::device::Device;
use crate::memory::allocator::Allocator;
use crate::memory::mover::{MovedBy, Mover};
use crate::memory::pool::{AfterClosing, MoveEnd, SurveyedAllocation};
use crate::memory::token::AllocationId;

/// Surveys of a run at most. Pools that change all the time would otherwise keep it going for ever.
const MAX_ROUNDS: u32 = 4;

/// The state of a defragmentation between its passes. It holds no lock and borrows nothing, so a `Defragmenter`, which
/// owns its allocator by an `Arc`, can keep it as well.
#[derive(Debug)]
pub(crate) struct Run {
    pub(super) desc: DefragmentationDesc,
    scope: Scope,
    pub(super) mover: Mover,
    stage: Stage,
    /// The latest plan.
    plan: DefragmentationPlan,
    /// Allocations whose moves were ignored: they stay for the rest of the run.
    ignored: HashSet<AllocationId>,
    /// Blocks that are being emptied, or were.
    pub(super) evacuations: Vec<Evacuation>,
    /// The index of the evacuation that was cancelled and is freeing its reserved places.
    pub(super) cancelling: Option<usize>,
    /// Number of surveys so far.
    rounds: u32,
    /// A block could not be emptied because its pool changed since the survey.
    changed: bool,
    /// Bytes that may still be copied.
    pub(super) bytes_left: u64,
    /// Room for a request is made, rather than blocks emptied.
    room: Option<Box<RoomRun>>,
    pub(crate) statistics: DefragmentationStatistics,
    /// The statistics when the pass before ended: those of a pass are the difference.
    pub(super) before_pass: DefragmentationStatistics,
}

#[derive(Debug)]
enum Stage {
    Surveying(Survey),
    Planning(Paced<Planned>),
    /// The plan is complete; `waiting` are the blocks that are emptied next.
    Moving {
        waiting: VecDeque<PlannedEvacuation>,
        current: Option<Current>,
    },
    Finished,
}

/// Result of a search for moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// There are moves.
    Moves,
    /// The time was up before one was found.
    LimitReached,
    /// There are no more moves.
    Done,
}

impl Run {
    pub(super) fn new<D: Device>(
        allocator: &Allocator<D>,
        desc: DefragmentationDesc,
        scope: Scope,
        mover: Mover,
    ) -> Self {
        let pools = scope.pools(allocator, mover.id);
        let survey = Survey::new(pools, desc.join_threads, desc.limits.bytes, mover);
        Self {
            desc,
            scope,
            mover,
            stage: Stage::Surveying(survey),
            plan: DefragmentationPlan::default(),
            ignored: HashSet::new(),
            evacuations: Vec::new(),
            cancelling: None,
            rounds: 1,
            changed: false,
            bytes_left: desc.strategy.bytes(),
            room: None,
            statistics: DefragmentationStatistics::default(),
            before_pass: DefragmentationStatistics::default(),
        }
    }

    /// Makes room for a request instead of emptying blocks.
    pub(super) fn for_room(mut self, room: RoomRun) -> Self {
        (self.stage, self.room) = (Stage::Finished, Some(Box::new(room)));
        self
    }

    pub(super) fn mover(&self) -> Mover {
        self.mover
    }

    pub(super) fn making_room(&self) -> Option<&RoomRun> {
        self.room.as_deref()
    }

    /// Returns the request that room is made for, to be changed.
    pub(super) fn room(&mut self) -> Option<&mut RoomRun> {
        self.room.as_deref_mut()
    }

    pub(super) fn scope(&self) -> Scope {
        self.scope
    }

    /// Sets the limits of the next passes. Allocations larger than its bytes count as pinned from the next survey on.
    pub(crate) fn limit(&mut self, limits: PassLimits) {
        self.desc.limits = limits;
    }

    /// Surveys and plans until the plan is complete.
    pub(super) fn plan<D: Device>(&mut self, allocator: &Allocator<D>) -> &DefragmentationPlan {
        allocator.take_left_frees();
        // A plan in part says nothing about the gain, so the limits do not apply here.
        let mut time = Stopwatch::new(core::time::Duration::MAX);
        while !matches!(self.stage, Stage::Moving { .. } | Stage::Finished) {
            self.prepare(allocator, &mut time);
        }
        &self.plan
    }

    /// Continues the survey or the planning.
    fn prepare<D: Device>(&mut self, allocator: &Allocator<D>, time: &mut Stopwatch) {
        match &mut self.stage {
            Stage::Surveying(survey) => {
                let (mover, ignored) = (self.mover, &self.ignored);
                let moved_by =
                    |allocation: &SurveyedAllocation| moved_by(mover, ignored, allocator, allocation);
                if survey.step(allocator, moved_by, time) {
                    let survey = survey.take();
                    // A later survey may spend only the bytes that the passes before it left.
                    let strategy = self.desc.strategy.with_bytes_left(self.bytes_left);
                    self.stage = Stage::Planning(Paced::new(move |mut pace| async move {
                        plan(strategy, survey, &mut pace).await
                    }));
                }
            }
            Stage::Planning(planning) => {
                if let Some(Planned { plan, evacuations, .. }) = planning.go_on(time.end()) {
                    self.statistics.blocks_left_to_others = plan.left_to_others;
                    // From the plan to the first move: a block is claimed here, closed when its turn comes, and emptied
                    // last of all. A claim keeps moves out of the block, of this run and of others, but requests may
                    // still be placed in it:
                    //   claimed    no move goes in, requests do   costs nothing: a whole plan may wait so
                    //   closed     nothing goes in                its free bytes serve no one: as late as can be
                    self.plan = plan;
                    let mut waiting = VecDeque::from(evacuations);
                    let all = waiting.len();
                    // Before the first reservation: an allocation must not go where it is moved again. Another run may have
                    // claimed some of the blocks since the survey.
                    waiting.retain(|planned| planned.claim(allocator, self.mover));
                    self.changed |= waiting.len() != all;
                    self.stage = Stage::Moving { waiting, current: None };
                }
            }
            Stage::Moving { .. } | Stage::Finished => {}
        }
    }

    /// Finds the next moves, within what is left of the limits of a pass.
    pub(crate) fn find<D: Device>(
        &mut self,
        allocator: &Allocator<D>,
        found: &mut Vec<Move<D>>,
        spent: &mut Spent,
    ) -> Found {
        allocator.take_left_frees();
        let limits = self.desc.limits;
        if let Some(room) = &mut self.room {
            return room.find(allocator, &limits, found);
        }
        // This is fairly simple: prepare until there is a plan, then take one small step after the other, until a step
        // says that it cannot go on, or the time is over. All that is kept between two passes is in `self`, so it does
        // not matter where a pass stops. (`a_run_that_pauses_wherever_it_can_moves_the_same_to_the_same_places` stops
        // it everywhere.)
        // One stopwatch for the whole pass: the survey, the plan and the reservations share its time.
        let mut time = Stopwatch::new(limits.time.saturating_sub(spent.time));
        loop {
            let prepared = matches!(self.stage, Stage::Moving { .. } | Stage::Finished);
            if !prepared && self.cancelling.is_none() {
                self.prepare(allocator, &mut time);
            } else if !self.advance(allocator, found, spent, &mut time) {
                break;
            }
            // Asked after the step, so that each pass makes at least one step, however short its time.
            if time.is_over_now() {
                break;
            }
        }
        // Moves found before the time was up are handed out rather than kept for the next pass: their places are
        // reserved.
        if !found.is_empty() {
            return Found::Moves;
        }
        // While a block that stays has reserved places, the run is not done: it frees them first.
        if matches!(self.stage, Stage::Finished) && self.cancelling.is_none() {
            Found::Done
        } else {
            Found::LimitReached
        }
    }

    /// Executes the next small step. Returns false when there is nothing to do, or a limit is reached.
    fn advance<D: Device>(
        &mut self,
        allocator: &Allocator<D>,
        found: &mut Vec<Move<D>>,
        spent: &mut Spent,
        time: &mut Stopwatch,
    ) -> bool {
        // The cases come in the order in which others wait for them. One call does one batch of one of them:
        //   1  a block that stays       its reserved places are bytes that no request gets
        //   2  the current block        it is closed, and waits for nobody but this run
        //   3  the next of the plan     it is claimed, but requests may still use it
        //   4  another round            nothing is closed, nothing is in flight
        // First of all: reserved places of a cancelled evacuation are room that requests may need.
        if let Some(index) = self.cancelling {
            let evacuation = &mut self.evacuations[index];
            if evacuation.cancel_batch(allocator) {
                self.cancelling = None;
            }
            return true;
        }
        let Stage::Moving { waiting, current, .. } = &mut self.stage else { return false };
        let Some(now) = current else {
            match waiting.pop_front() {
                Some(PlannedEvacuation { arena, block, size, cost, moves, joined, by_owners }) => {
                    let evacuation = Evacuation::new(arena, block, size, cost);
                    self.evacuations.push(Evacuation { joined, by_owners, ..evacuation });
                    let evacuation = self.evacuations.len() - 1;
                    *current = Some(Current::new(evacuation, moves));
                }
                // Not finished yet, perhaps: blocks that were kept may be worth another look.
                // The last block of the plan was handed out.
                None => return self.begin_another_round(allocator, !found.is_empty()),
            }
            return true;
        };
        // The current block is left out of the sum: where it is searched, its bytes are counted anew, and added to
        // this.
        // Bytes of other blocks whose moves are in flight are spent as well, though not copied yet.
        let others = self.evacuations.iter().enumerate().filter(|&(at, _)| at != now.evacuation);
        let promised = others.map(|(_, other)| other.uncopied).sum();
        let evacuation = &mut self.evacuations[now.evacuation];
        let Some(slot) = allocator.pools.get(evacuation.arena.pool) else { return false };
        let done = match &mut now.phase {
            Phase::Closing => evacuation.close(allocator, slot, self.mover, &self.desc, now),
            Phase::Checking(check) => {
                let check = *check;
                now.check(allocator, evacuation, check, time)
            }
            Phase::Indexing => now.index_planned(time),
            Phase::Searching(next) => {
                let next = *next;
                let (by_owners, largest) = (evacuation.by_owners, self.desc.limits.bytes);
                // The same answer as for the survey, to allocations that came after it. One that the run does not move
                // keeps the block, before a place is reserved for any other. (`what_came_after_the_plan_counts_too` has
                // one that costs too much.)
                let can_move = |allocation: &SurveyedAllocation| match moved_by(
                    self.mover,
                    &self.ignored,
                    allocator,
                    allocation,
                ) {
                    Some(MovedBy::Own) => !by_owners && allocation.size <= largest,
                    Some(MovedBy::Owner) => by_owners,
                    Some(MovedBy::Other) | None => false,
                };
                let left = self.bytes_left.saturating_sub(promised);
                let worth = Worth { strategy: self.desc.strategy.with_bytes_left(left), can_move };
                evacuation.search(allocator, slot, now, next, &worth, time)
            }
            Phase::Reserving => evacuation.reserve(allocator, now, time),
            // Where all owners have gone meanwhile, nothing is left to offer, and the block is counted as one that was handed
            // out.
            Phase::HandingOut if evacuation.by_owners && !evacuation.reserved.is_empty() => {
                // Bytes that owners copy for this run's plan are spent as well.
                self.bytes_left = self.bytes_left.saturating_sub(evacuation.uncopied);
                let sums = allocator.offer(evacuation.take_offered(), self.mover);
                self.statistics = self.statistics + sums;
                *current = None;
                return true;
            }
            Phase::HandingOut => {
                let limits = &self.desc.limits;
                match evacuation.hand_out(allocator, now.evacuation, found, limits, spent) {
                    HandedOut::All => Step::HandedOut,
                    HandedOut::Some => Step::Continue,
                    // The next pass goes on here: the block stays current and closed, its other places stay reserved.
                    HandedOut::Limit => return false,
                    HandedOut::Refused => Step::KeepBlock,
                }
            }
        };
        match done {
            Step::Continue => {}
            Step::HandedOut => {
                evacuation.state = EvacuationState::HandedOut;
                // The next block is closed and its places are reserved while the moves of this one are still in flight.
                // Where the owners freed all that was to be handed out, no move ends later, so the block is counted
                // now.
                let index = now.evacuation;
                *current = None;
                self.count_emptied(allocator, index);
            }
            Step::BlockFreed => {
                // Its allocations are gone, so the places reserved for them are not needed.
                evacuation.cancel(allocator);
                *current = None;
            }
            Step::KeepBlock => {
                // Its places are freed by the first case above, a batch a step: a block may have thousands of them.
                let index = now.evacuation;
                *current = None;
                self.keep_block(index);
            }
            Step::Left => {
                // The block was freed since it was claimed, and another one has its index. Nothing was closed or reserved
                // here, so there is nothing to free, and nothing to count as kept.
                evacuation.state = EvacuationState::Cancelled;
                self.changed = true;
                *current = None;
            }
        }
        true
    }

    /// Begins to cancel an evacuation.
    pub(super) fn keep_block(&mut self, evacuation: usize) {
        self.cancelling = Some(evacuation);
        self.evacuations[evacuation].state = EvacuationState::Cancelled;
        // The plan no longer holds for this block, so another survey follows the last block.
        self.changed = true;
        self.statistics.blocks_kept += 1;
    }

    /// Begins another survey after the last block of a plan, where a change makes that worthwhile. Returns true if so.
    fn begin_another_round<D: Device>(&mut self, allocator: &Allocator<D>, moves_in_flight: bool) -> bool {
        // The moves in flight end before: their old places would look like allocations to a survey.
        if moves_in_flight || self.evacuations.iter().any(|evacuation| evacuation.in_flight > 0) {
            return false;
        }
        // Without a change another survey would find the same blocks not worth emptying.
        if self.changed && self.rounds < MAX_ROUNDS {
            self.changed = false;
            self.rounds += 1;
            // No move is in flight, so no index into the list is left.
            self.evacuations.clear();
            // Two things are carried over: the bytes that are left, and the allocations whose moves were ignored. All
            // else begins anew, with the limits of the present pass, which may have changed since the run began.
            let (join_threads, largest) = (self.desc.join_threads, self.desc.limits.bytes);
            let pools = self.scope.pools(allocator, self.mover.id);
            self.stage = Stage::Surveying(Survey::new(pools, join_threads, largest, self.mover));
            return true;
        }
        self.stage = Stage::Finished;
        false
    }

    /// Counts a block from which all allocations were moved, unless a request reopened it meanwhile.
    pub(super) fn count_emptied<D: Device>(&mut self, allocator: &Allocator<D>, evacuation: usize) {
        let evacuation = &mut self.evacuations[evacuation];
        // Called after the last hand-out, and after the end of each move. In whatever order these come, exactly one
        // call finds all moves handed out and none in flight, and it replaces the state: so the block is counted once.
        if evacuation.state != EvacuationState::HandedOut || evacuation.in_flight != 0 {
            return;
        }
        evacuation.uncopied = 0;
        // The block as it may be found now:
        //   closed             old places are in it still, passed on to be freed later     emptied
        //   empty, or gone     the last old place was freed, perhaps the block with it     emptied
        //   open, with more    a request was placed in it                                   kept, though all was moved
        // A request may have reopened the block after its last move was handed out, and placed something in it.
        if allocator.pools.after_closing(&evacuation.closed()) != Some(AfterClosing::InUse) {
            evacuation.state = EvacuationState::Emptied;
            self.statistics.blocks_emptied += 1;
            self.statistics.bytes_emptied += evacuation.size;
        } else {
            evacuation.state = EvacuationState::Cancelled;
            self.statistics.blocks_kept += 1;
        }
    }

    /// Records how moves ended. Their places are released already.
    pub(super) fn ended<D: Device>(
        &mut self,
        allocator: &Allocator<D>,
        moves: impl IntoIterator<Item = Ended>,
    ) {
        for ended in moves {
            let Ended { evacuation: index, id, copied, outcome, with_others } = ended;
            match outcome {
                // Bytes are spent when they have moved. A move that is ignored or freed gives back what was promised
                // for it, so that another block may have it.
                MoveEnd::Moved => {
                    self.statistics.moves += 1;
                    self.statistics.bytes_moved += copied;
                    self.bytes_left = self.bytes_left.saturating_sub(copied);
                }
                MoveEnd::Freed { .. } => self.statistics.freed += 1,
                MoveEnd::Stays => self.statistics.ignored += 1,
            }
            if let Some(room) = &mut self.room {
                room.ended(&ended);
                continue;
            }
            let Some(evacuation) = self.evacuations.get_mut(index) else { continue };
            evacuation.in_flight -= 1;
            evacuation.uncopied = evacuation.uncopied.saturating_sub(copied);
            match outcome {
                MoveEnd::Moved | MoveEnd::Freed { .. } => {}
                MoveEnd::Stays => {
                    // Remembered, so that the next survey does not plan the same move again. What stays with others may
                    // move at another time.
                    if with_others {
                        self.changed = true;
                    } else {
                        self.ignored.insert(id);
                    }
                    // One that stays keeps its block, so what is not handed out yet is not moved. Moves of the block in
                    // the same pass end as their owners said: they are copied already.
                    // Several moves of one block may be ignored; the block counts once.
                    if evacuation.state != EvacuationState::Cancelled {
                        self.statistics.blocks_kept += 1;
                    }
                    evacuation.cancel(allocator);
                    self.stop_current(index);
                }
            }
            self.count_emptied(allocator, index);
        }
    }

    /// Stops emptying the current block.
    fn stop_current(&mut self, evacuation: usize) {
        // Brittle: a cancelled evacuation has no reserved places. If it stayed current, the next step would take that
        // for "all handed out", and count the block a second time.
        if let Stage::Moving { current, .. } = &mut self.stage {
            current.take_if(|current| current.evacuation == evacuation);
        }
    }

    /// Frees all reserved places, reopens the blocks that are not emptied yet, and ends the claims to others.
    pub(super) fn cancel<D: Device>(&mut self, allocator: &Allocator<D>) {
        self.room.iter_mut().for_each(|room| room.cancel(allocator));
        // What a run has of a pool, from the weakest to the strongest: claims, closed blocks, reserved places. A claim
        // that is left would keep every later run out of the block.
        // (`dropped_after_any_number_of_passes_it_leaves_nothing_behind` stops a run at each point.)
        if let Stage::Moving { waiting, current } = &self.stage {
            let waiting = waiting.iter().map(|planned| (planned.arena, planned.block));
            // The current block is claimed still if it is not closed yet.
            let current = current.iter().filter_map(|current| self.evacuations.get(current.evacuation));
            let claimed = waiting.chain(current.map(|evacuation| (evacuation.arena, evacuation.block)));
            claimed.for_each(|(arena, block)| arena.disclaim(allocator, block, self.mover));
        }
        let cancelling = self.cancelling.take();
        for (index, evacuation) in self.evacuations.iter_mut().enumerate() {
            // The others have no reserved places left: all of them were handed out or freed.
            if evacuation.state == EvacuationState::InProgress || cancelling == Some(index) {
                evacuation.cancel(allocator);
            }
        }
        self.stage = Stage::Finished;
    }
}

/// Returns by whom an allocation is moved; `None` where its move was ignored before.
fn moved_by<D: Device>(
    mover: Mover,
    ignored: &HashSet<AllocationId>,
    allocator: &Allocator<D>,
    allocation: &SurveyedAllocation,
) -> Option<MovedBy> {
    let was_ignored = !ignored.is_empty() && ignored.contains(&allocation.id(allocator.id()));
    (!was_ignored).then(|| mover.moves(allocation.mover))
}

/// The end of a move.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    pub(super) evacuation: usize,
    pub(super) id: AllocationId,
    /// Bytes that the move copies.
    pub(super) copied: u64,
    pub(super) outcome: MoveEnd,
    /// It stays only since another of its pass does.
    pub(super) with_others: bool,
}
