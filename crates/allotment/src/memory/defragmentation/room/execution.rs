//! The execution of a plan, batch by batch.
//!
//! ```text
//!   Closing ──► Reserving ──► HandingOut ──► InFlight ──► Reserving … ──► Done
//! ```
//!
//! The blocks of the plan are closed first, so that requests of other threads take none of its places. A batch has as
//! many steps as find their places free: a step to a place that an earlier one leaves waits until that is free. Each
//! place is reserved where it was planned; a place that another thread has taken ends the execution, and the room is
//! planned anew.

use std::collections::{HashSet, VecDeque};

use allotment_suballoc::Handle;

use super::holders::{Holder, Holders, is_live, range_of};
use super::layout::{At, Item, Layout, Place};
use super::plan::RoomPlan;
use crate::device::{Device, MemoryDesc};
use crate::memory::allocator::{Allocator, IdleBlocks, Reserved};
use crate::memory::defragmentation::PassLimits;
use crate::memory::defragmentation::desc::Spent;
use crate::memory::defragmentation::evacuation::{AT_ONCE, Evacuation, HandedOut};
use crate::memory::defragmentation::pace::Pace;
use crate::memory::defragmentation::pass::Move;
use crate::memory::defragmentation::stopwatch::Stopwatch;
use crate::memory::defragmentation::survey::{Arena, SurveyedArena, SurveyedBlock};
use crate::memory::mover::Mover;
use crate::memory::pool::{Close, CloseHow, NewPlace, ReservedPlace, TwoShards};
use crate::memory::token::AllocationId;
use crate::memory::{EmptiedBlocks, Movability};

/// How an execution goes on.
pub(super) enum Progress {
    Continue,
    /// The pass is full, or its moves must end before the next can be found.
    PassIsComplete,
    /// Places that moves left are still in use.
    Waiting,
    /// All steps are done.
    Done,
    /// The pool changed: what is planned cannot be done any more.
    Changed,
    /// No memory could be had for what has to go aside.
    NoMemory,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Closing the block at this position among those of the plan.
    Closing(usize),
    Reserving,
    HandingOut,
    InFlight,
    Done,
}

/// What an execution does to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Touched {
    /// Nothing.
    Never,
    /// It is to be closed.
    Planned,
    /// It is claimed, and about to be closed.
    Claimed,
    /// It is closed, by this closing.
    Closed(u64),
}

/// A step whose place is reserved.
#[derive(Clone, Copy, Debug)]
struct Started {
    item: u32,
    from: Option<At>,
    to: Place,
    reserved: Holder,
}

/// The memory of the execution's own.
#[derive(Debug)]
struct Aside {
    /// Bytes that are in it at once.
    bytes: u64,
    /// The block that was allocated last, and how it was closed.
    block: Option<u32>,
    closing: Option<u64>,
    /// What was placed in it: items, and their places after they left it.
    holders: Vec<Holder>,
}

impl Aside {
    /// Returns the block while something is in it. Afterwards it is freed, and another block may have its index.
    fn block<D: Device>(&self, allocator: &Allocator<D>, arena: Arena) -> Option<u32> {
        let block = self.block?;
        let inside = |&holder: &Holder| {
            range_of(allocator, holder).is_some_and(|(at, placed)| (at, placed.range.block) == (arena, block))
        };
        self.holders.iter().any(inside).then_some(block)
    }
}

/// A plan that is being executed.
#[derive(Debug)]
pub(super) struct Execution {
    /// The block set that gets the room; where blocks are emptied for a new one, that of the last of them.
    arena: Arena,
    mover: Mover,
    /// Each block of the plan: its set, its index there, and what the execution does to it.
    blocks: Vec<(Arena, u32, Touched)>,
    /// The record of each item.
    items: Vec<Holder>,
    /// Where each item is.
    places: Vec<Option<At>>,
    steps: VecDeque<(u32, Place)>,
    at: At,
    /// The blocks that the steps empty are to be freed for a new one; there is no room at `at`.
    replaces: bool,
    holders: Holders,
    /// Places that moves left.
    left: Vec<Holder>,
    /// In the order of the steps.
    batch: VecDeque<Started>,
    /// The batch's reserved places and moves.
    moves: Evacuation,
    phase: Phase,
    close_attempts: u32,
    aside: Aside,
}

/// A block or an allocation of a survey: the number of its arena among those of a plan, and its position there.
pub(super) type Seen = (u32, u32);

/// Returns the blocks of some arenas that take part in a plan, as a layout; and of each block and of each item where the survey
/// has it.
pub(super) async fn layout_of(
    arenas: &[&SurveyedArena],
    takes_part: impl Fn(&SurveyedBlock) -> bool,
    pace: &mut Pace,
) -> (Layout, Vec<Seen>, Vec<Seen>) {
    let (mut taking_part, mut sizes, mut count) = (Vec::new(), Vec::new(), 0);
    for (number, arena) in (0..).zip(arenas) {
        for (at, block) in (0..).zip(&arena.blocks).filter(|(_, block)| takes_part(block)) {
            taking_part.push((number, at));
            sizes.push(block.size);
            count += block.allocations.len();
        }
    }
    let numbers = taking_part.iter().map(|&(number, _)| number).collect();
    let mut layout = Layout::with_capacity(sizes, numbers, count);
    let mut items = Vec::with_capacity(count);
    for (block, &(number, at)) in (0..).zip(&taking_part) {
        let arena = arenas[number as usize];
        for &index in &arena.blocks[at as usize].allocations {
            let seen = &arena.allocations[index as usize];
            let movable = seen.movability != Movability::Pinned;
            let cost = if seen.movability == Movability::Copied { seen.size } else { 0 };
            let item = Item {
                bytes: seen.taken,
                alignment: seen.needed_alignment,
                // A new place never takes more than the old one, but for a change of the pool's rules.
                cost: Some(cost).filter(|_| movable && seen.needed <= seen.taken),
            };
            if layout.push_surveyed(item, At { block, offset: seen.offset }) {
                items.push((number, index));
            }
            pace.step().await;
        }
    }
    (layout, taking_part, items)
}

impl Execution {
    pub(super) async fn new(
        arenas: &[&SurveyedArena],
        (layout, blocks, items): (&Layout, &[Seen], &[Seen]),
        (plan, replaces): (RoomPlan, bool),
        mover: Mover,
        pace: &mut Pace,
    ) -> Self {
        let mut holders = Holders::new(blocks.len());
        let seen = items.iter().map(|&(arena, index)| &arenas[arena as usize].allocations[index as usize]);
        let records = pace.collect(seen.map(|seen| (seen.pool, seen.record, seen.generation))).await;
        let places = pace.collect((0..layout.item_count()).map(|item| layout.place(item))).await;
        for (place, &holder) in places.iter().zip(&records) {
            place.iter().for_each(|at| holders.put(at.block, at.offset, holder));
            pace.step().await;
        }
        // Only blocks that a step leaves or enters are closed, and the one that gets the room. Requests go on using the others.
        let mut touched = vec![Touched::Never; blocks.len()];
        touched[plan.at.block as usize] = Touched::Planned;
        for &(item, to) in &plan.steps {
            if let Place::At(at) = to {
                touched[at.block as usize] = Touched::Planned;
            }
            layout.place(item).iter().for_each(|at| touched[at.block as usize] = Touched::Planned);
            pace.step().await;
        }
        let aside = most_aside(layout, &plan, pace).await;
        let blocks = blocks.iter().map(|&(arena, at)| arenas[arena as usize].block(at as usize)).zip(touched);
        let blocks: Vec<_> = blocks.map(|((arena, index), touched)| (arena, index, touched)).collect();
        let (arena, index, _) = blocks[plan.at.block as usize];
        let moves = Evacuation::new(arena, index, 0, 0);
        Self {
            arena,
            mover,
            blocks,
            items: records,
            places,
            steps: plan.steps.into(),
            at: plan.at,
            replaces,
            holders,
            left: Vec::new(),
            batch: VecDeque::new(),
            moves,
            phase: Phase::Closing(0),
            close_attempts: 0,
            aside: Aside { bytes: aside, block: None, closing: None, holders: Vec::new() },
        }
    }

    pub(super) fn arena(&self) -> Arena {
        self.arena
    }

    /// Returns true if the request is served by a new block, in place of those that were emptied.
    pub(super) fn replaces(&self) -> bool {
        self.replaces
    }

    /// Executes the next small step.
    pub(super) fn advance<D: Device>(
        &mut self,
        allocator: &Allocator<D>,
        found: &mut Vec<Move<D>>,
        (limits, spent): (&PassLimits, &mut Spent),
        time: &mut Stopwatch,
    ) -> Progress {
        match self.phase {
            Phase::Closing(next) => self.close(allocator, next),
            Phase::Reserving => self.reserve(allocator, time),
            Phase::HandingOut => match self.moves.hand_out(allocator, 0, found, limits, spent) {
                HandedOut::All => {
                    self.phase = Phase::InFlight;
                    Progress::Continue
                }
                HandedOut::Some => Progress::Continue,
                HandedOut::Limit => Progress::PassIsComplete,
                HandedOut::Refused => Progress::Changed,
            },
            Phase::InFlight if self.moves.in_flight > 0 => Progress::PassIsComplete,
            Phase::InFlight => {
                self.settle(allocator, time);
                if self.batch.is_empty() {
                    self.phase = Phase::Reserving;
                }
                Progress::Continue
            }
            Phase::Done => Progress::Done,
        }
    }

    fn close<D: Device>(&mut self, allocator: &Allocator<D>, next: usize) -> Progress {
        let Some(&(arena, block, touched)) = self.blocks.get(next) else {
            self.phase = Phase::Reserving;
            return Progress::Continue;
        };
        if touched == Touched::Never {
            self.phase = Phase::Closing(next + 1);
            return Progress::Continue;
        }
        let set = usize::from(arena.set);
        let Some(slot) = allocator.pools.get(arena.pool) else { return Progress::Changed };
        // Another run may have claimed or closed it since the survey.
        if touched == Touched::Planned && !slot.claim((set, block), self.mover.key) {
            return Progress::Changed;
        }
        self.blocks[next].2 = Touched::Claimed;
        // Held: the plan may empty it first, and fill it again.
        let how = CloseHow { release: EmptiedBlocks::KeepByPolicy, hold: true };
        let closed = slot.close((set, block), self.mover.key, how, &mut self.close_attempts);
        let Some((closed, _)) = closed else {
            return Progress::Changed;
        };
        match closed {
            Close::NotYet => Progress::Continue,
            Close::Closed(closing) => {
                self.blocks[next].2 = Touched::Closed(closing);
                if (arena, block) == (self.moves.arena, self.moves.block) {
                    self.moves.closing = closing;
                }
                (self.phase, self.close_attempts) = (Phase::Closing(next + 1), 0);
                Progress::Continue
            }
            // Its owners emptied it, or another run has it.
            Close::Empty | Close::NotClaimed => {
                self.blocks[next].2 = Touched::Never;
                Progress::Changed
            }
        }
    }

    /// Reserves the places of the next steps, as many as are free.
    fn reserve<D: Device>(&mut self, allocator: &Allocator<D>, time: &mut Stopwatch) -> Progress {
        self.moves.reserved.reserve(AT_ONCE);
        for _ in 0..AT_ONCE {
            let Some(&(item, to)) = self.steps.front() else { break };
            if !is_live(allocator, self.items[item as usize]) {
                // Its owner freed it: then there is more room, not less.
                self.steps.pop_front();
                continue;
            }
            // A batch ends at the first step that needs an earlier one of it to have ended, for its place or for its item:
            //   steps      C ► aside      B ► where C was      C ► where B was
            //   batches    C ► aside   │  B ► where C was   │  C ► where B was      a copy each, and one wait between two of them
            // An item is in the batch once: its next step begins where this one ends.
            let waits = self.batch.iter().any(|started| started.item == item);
            let placed = match to {
                _ if waits => false,
                Place::At(at) => {
                    let (arena, index, _) = self.blocks[at.block as usize];
                    // By the range before it, a block finds the free region at this offset in one look, and need not search
                    // for it.
                    let after = self.holders.before(allocator, at.block, (arena, index), at.offset);
                    let place = NewPlace::At { block: index, offset: at.offset, after };
                    self.reserve_one(allocator, arena, |locks, item| locks.reserve_place(item, place))
                }
                // In a hole of a block that the plan does not touch, or in the block that was allocated for it.
                Place::Aside => {
                    let arena = self.arena;
                    let mut reserve = |place| {
                        self.reserve_one(allocator, arena, |locks, item| locks.reserve_place(item, place))
                    };
                    reserve(NewPlace::Planned(None))
                        || self.aside.block(allocator, arena).is_some_and(|block| {
                            self.reserve_one(allocator, arena, |locks, item| {
                                locks.reserve_place(item, NewPlace::InBlock(block))
                            })
                        })
                }
            };
            if !placed {
                return self.without_place(allocator, to);
            }
            if time.is_over_now() {
                break;
            }
        }
        if self.steps.is_empty() {
            self.phase = if self.batch.is_empty() { Phase::Done } else { Phase::HandingOut };
        }
        Progress::Continue
    }

    /// Reserves the place of the next step in a block set, which `place` takes there. Returns false where it is not free.
    fn reserve_one<D: Device>(
        &mut self,
        allocator: &Allocator<D>,
        arena: Arena,
        place: impl FnOnce(&mut TwoShards<'_, D>, (u32, u32)) -> Option<ReservedPlace>,
    ) -> bool {
        let Some(&(item, to)) = self.steps.front() else { return false };
        let holder @ (pool, record, generation) = self.items[item as usize];
        let Some(mut locks) = allocator.pools.lock_two(pool, arena.pool) else { return false };
        // Its owner may have freed it a moment ago; the next look finds that.
        let Some(reserved) = place(&mut locks, (record, generation)) else { return false };
        let from = AllocationId { allocator: allocator.id(), pool, record, generation };
        self.moves.reserved.push_back(Reserved::new(from, arena.pool, &reserved));
        let reserved = (arena.pool, reserved.record, reserved.generation);
        match to {
            Place::At(at) => self.holders.put(at.block, at.offset, reserved),
            Place::Aside => self.aside.holders.extend([reserved, holder]),
        }
        self.batch.push_back(Started { item, from: self.places[item as usize], to, reserved });
        self.steps.pop_front();
        true
    }

    /// Goes on where the place of the next step is not free.
    fn without_place<D: Device>(&mut self, allocator: &Allocator<D>, to: Place) -> Progress {
        if !self.batch.is_empty() {
            // An earlier step of the batch has to leave the place first.
            self.phase = Phase::HandingOut;
            return Progress::Continue;
        }
        // The caller passed old places on, and the GPU may read them still. Planning anew would find them in use as well.
        if Holders::any_left(allocator, &mut self.left) {
            return Progress::Waiting;
        }
        match to {
            Place::Aside => self.allocate_aside(allocator),
            // Nothing of this execution is in the way, so another thread has the place.
            Place::At(_) => Progress::Changed,
        }
    }

    /// Allocates a block for what goes aside, for this execution alone, and puts the next item into it: the block is
    /// freed with the last item that leaves it. It may be one more than the pool's `max_blocks`.
    fn allocate_aside<D: Device>(&mut self, allocator: &Allocator<D>) -> Progress {
        if self.steps.is_empty() {
            return Progress::Continue;
        }
        let (arena, set) = (self.arena, usize::from(self.arena.set));
        let Some(slot) = allocator.pools.get(arena.pool) else { return Progress::Changed };
        let source = slot.source_for_run(set, self.aside.bytes);
        let Some((source, size)) = source else { return Progress::Changed };
        let desc = MemoryDesc::new(source.memory_type, size).with_priority(source.priority);
        let desc = desc.with_options(source.options.as_ref());
        // No lock is held during the driver call: the block becomes one of the pool's, closed already, in the step below.
        let memory = allocator.waiting(|| {
            allocator.object_of_driver(&desc, (source.terms.budget, source.terms.mapping), IdleBlocks::Free)
        });
        let Ok(memory) = memory else { return Progress::NoMemory };
        allocator.name_block(&memory, &source);
        let mut memory = Some(memory);
        let (mut block, mut closing) = (None, None);
        let key = self.mover.key;
        let reserved = self.reserve_one(allocator, arena, |locks, item| {
            let (reserved, closed) = locks.reserve_in_new_block(item, (set, key), &mut memory)?;
            (block, closing) = (reserved.block, closed);
            Some(reserved)
        });
        // Not used after all: its item was freed, or the pool is gone.
        memory.into_iter().for_each(|memory| allocator.heaps().free(allocator.device(), memory));
        if reserved {
            (self.aside.block, self.aside.closing) = (block, closing);
        }
        if reserved { Progress::Continue } else { Progress::Changed }
    }

    /// Notes where the items of a batch are, whose moves have ended, until the time is over.
    fn settle<D: Device>(&mut self, allocator: &Allocator<D>, time: &mut Stopwatch) {
        while let Some(started) = self.batch.pop_front() {
            self.settle_one(allocator, &started);
            if time.is_over() {
                break;
            }
        }
    }

    fn settle_one<D: Device>(
        &mut self,
        allocator: &Allocator<D>,
        &Started { item, from, to, reserved }: &Started,
    ) {
        let holder = self.items[item as usize];
        // The pool itself is asked: since the end of the move the owner may have freed the allocation.
        let placed = range_of(allocator, holder);
        let is_at = |at: At| {
            let (arena, index, _) = self.blocks[at.block as usize];
            let planned = (arena, index, at.offset);
            placed.is_some_and(|(arena, placed)| (arena, placed.range.block, placed.offset) == planned)
        };
        if placed.is_none() || from.is_some_and(is_at) {
            // Freed, or it stays: the reserved place is free again.
            return;
        }
        if let Place::At(at) = to {
            self.holders.put(at.block, at.offset, holder);
        }
        // The reserved allocation names the old place now.
        from.into_iter().for_each(|from| self.holders.put(from.block, from.offset, reserved));
        self.left.push(reserved);
        self.places[item as usize] = match to {
            Place::At(at) => Some(at),
            Place::Aside => None,
        };
    }

    /// Returns the place of the room: its block, its offset, and the range before it.
    pub(super) fn room<D: Device>(&mut self, allocator: &Allocator<D>) -> (u32, u64, Option<Handle>) {
        let (arena, index, _) = self.blocks[self.at.block as usize];
        let after = self.holders.before(allocator, self.at.block, (arena, index), self.at.offset);
        (index, self.at.offset, after)
    }

    /// Returns true while places that moves left are still in use.
    pub(super) fn waits_for_places<D: Device>(&mut self, allocator: &Allocator<D>) -> bool {
        Holders::any_left(allocator, &mut self.left)
    }

    /// Drops a small piece of what is known of the blocks. Returns false once nothing is left.
    pub(super) fn drop_piece(&mut self) -> bool {
        self.holders.drop_piece()
    }

    /// Notes the end of a move.
    pub(super) fn ended(&mut self) {
        self.moves.in_flight = self.moves.in_flight.saturating_sub(1);
    }

    /// Frees all reserved places and opens the blocks.
    pub(super) fn end<D: Device>(&mut self, allocator: &Allocator<D>) {
        // Reserved places first: they are in the blocks that are opened next, where a request would find less room.
        self.moves.cancel(allocator);
        let aside = self.aside.block.zip(self.aside.closing);
        // What is still aside stays there, in a block like any other.
        let aside = aside.map(|(block, closing)| (self.arena, block, Touched::Closed(closing)));
        for &(arena, block, touched) in self.blocks.iter().chain(&aside) {
            let Some(slot) = allocator.pools.get(arena.pool) else { continue };
            let block = (usize::from(arena.set), block);
            match touched {
                Touched::Never | Touched::Planned => {}
                Touched::Claimed => slot.disclaim(block, self.mover.key),
                Touched::Closed(closing) => slot.end_hold(block, closing, self.mover.key),
            }
        }
        // Blocks that are empty in the end are kept or freed as any others; a maintenance thread looks for them itself.
        for &(arena, ..) in self.blocks.iter().filter(|(_, _, touched)| *touched != Touched::Never) {
            let Some(slot) = allocator.pools.get(arena.pool) else { continue };
            if !slot.grows_ahead() {
                allocator.release_each(|| slot.take_unwanted());
            }
        }
    }
}

/// Returns the bytes of a block that holds all items that are aside at one time.
async fn most_aside(layout: &Layout, plan: &RoomPlan, pace: &mut Pace) -> u64 {
    let mut aside = HashSet::new();
    let (mut bytes, mut most) = (0_u64, 0);
    for &(item, to) in &plan.steps {
        let Item { bytes: each, alignment, .. } = layout.item(item);
        let padded = alignment.align_up(each);
        match to {
            // As much as is aside at the same time, not the sum of all that ever was:
            //   steps    A ► aside    A ► its place    B ► aside    B ► its place       most: the larger of A and B
            Place::Aside if aside.insert(item) => bytes += padded,
            Place::At(_) if aside.remove(&item) => bytes -= padded,
            _ => {}
        }
        most = most.max(bytes);
        pace.step().await;
    }
    most
}
