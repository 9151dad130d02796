//! A defragmentation on its way, pass by pass.
//!
//! ```text
//!   survey ──► plan ──► block by block: close, reserve places for all of it, hand out moves ──► over
//!     ▲                                              │
//!     └────────── the pools changed meanwhile ◄──────┘
//! ```
//!
//! Each arrow and each box can be interrupted, and goes on in the next pass from where it was. Nothing is locked for
//! longer than some tens of microseconds: a batch of records is read, or of places reserved.
//!
//! A block is emptied as a whole or not at all. It is closed first, so that nothing new comes into it; then places are
//! reserved for everything in it; only then the first byte is copied. Whoever needs room meanwhile and finds none opens
//! it again, before the driver is asked for more: then what is reserved is given back, and the block stays.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::PoisonError;

use super::desc::{DefragmentationDesc, DefragmentationStrategy};
use super::pass::Move;
use super::plan::{DefragmentationPlan, Evacuation, PlannedMove, Planner};
use super::stopwatch::Stopwatch;
use super::survey::{Arena, Scope, Survey};
use super::{DefragmentationStatistics, PassLimits};
use crate::device::Device;
use crate::memory::Movability;
use crate::memory::allocator::{Allocation, AllocationId, Allocator};
use crate::memory::pool::{PoolSlot, PoolState};
use crate::sync::locked;

/// Places that are reserved, or given back, under the lock at once: 20 to 40 microseconds.
const AT_ONCE: usize = 16;

/// How often it is tried to close a block while others give its pool more to join: as often as it takes when nobody
/// does. Then it is done at once.
const MOST_LOOKS: u32 = 256;

/// Places after which the clock is looked at: two microseconds or so.
const PLACES_A_LOOK: usize = 4;

/// Records that are looked at under the lock at once.
const RECORDS_AT_ONCE: u32 = 256;

/// How often the pools are surveyed again because they changed.
const ROUNDS: u32 = 4;

/// What a defragmentation knows between its passes. It holds no lock and borrows nothing, so whoever has an allocator
/// in another way than by reference can keep it.
#[derive(Debug)]
pub(in crate::memory) struct Run {
    desc: DefragmentationDesc,
    scope: Scope,
    /// It moves what is of a set, or else all other allocations.
    of_a_set: bool,
    stage: Stage,
    /// The latest.
    plan: DefragmentationPlan,
    /// Allocations that stay, since whoever moves said so.
    ignored: HashSet<AllocationId>,
    /// Blocks that are being emptied or were.
    departures: Vec<Departure>,
    /// Which of them stays, and gives back what was reserved for it.
    giving_up: Option<usize>,
    /// All blocks of the plan: nothing is moved into them.
    planned: HashSet<(Arena, u32)>,
    /// Surveys so far.
    rounds: u32,
    /// A block could not be emptied because of what changed since the survey.
    changed: bool,
    /// Bytes that may still be copied.
    bytes_left: u64,
    pub(in crate::memory) statistics: DefragmentationStatistics,
}

#[derive(Debug)]
enum Stage {
    Surveying(Survey),
    Planning(Planner),
    /// The plan is there, and the blocks in it wait to be emptied.
    Moving {
        waiting: VecDeque<Evacuation>,
        current: Option<Current>,
    },
    Over,
}

/// The block that is being emptied.
#[derive(Debug)]
struct Current {
    /// Which of the departures it is.
    departure: usize,
    moves: VecDeque<PlannedMove>,
    /// By its record, what was planned, while the block is looked through for more.
    known: HashMap<u32, PlannedMove>,
    phase: Phase,
    /// How often it was tried to close it.
    looks: u32,
}

#[derive(Debug)]
enum Phase {
    Closing,
    /// Noting what was planned, before what came into the block after the survey is looked for.
    Noting,
    /// Looking for it, from this record on.
    Listing(u32),
    Reserving,
    HandingOut,
}

/// A block on its way out.
#[derive(Debug)]
struct Departure {
    arena: Arena,
    block: u32,
    size: u64,
    /// Reserved and not handed out.
    reserved: VecDeque<Reserved>,
    /// Handed out and not ended.
    out: u32,
    /// Bytes that are to be copied for it, as far as that has not ended.
    uncopied: u64,
    state: DepartureState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DepartureState {
    Going,
    /// All that is left was handed out.
    Leaving,
    /// It stays.
    Stays,
    Gone,
}

#[derive(Debug)]
struct Reserved {
    from: AllocationId,
    to: Allocation,
}

/// What came of looking for moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::memory) enum Found {
    /// There are some.
    Moves,
    /// Time was up.
    LimitReached,
    /// There are none.
    Done,
}

impl Run {
    pub(super) fn new<D: Device>(
        allocator: &Allocator<D>,
        desc: DefragmentationDesc,
        scope: Scope,
        of_a_set: bool,
    ) -> Self {
        Self {
            desc,
            scope,
            of_a_set,
            stage: Stage::Surveying(Survey::new(scope.arenas(allocator), desc.limits.bytes)),
            plan: DefragmentationPlan::default(),
            ignored: HashSet::new(),
            departures: Vec::new(),
            giving_up: None,
            planned: HashSet::new(),
            rounds: 1,
            changed: false,
            bytes_left: desc.strategy.bytes(),
            statistics: DefragmentationStatistics::default(),
        }
    }

    pub(super) fn scope(&self) -> Scope {
        self.scope
    }

    /// What the passes from now on do at most. Allocations that are larger than its bytes stay from the next survey on.
    pub(in crate::memory) fn limit(&mut self, limits: PassLimits) {
        self.desc.limits = limits;
    }

    /// Looks around and plans until the plan is there.
    pub(super) fn plan<D: Device>(&mut self, allocator: &Allocator<D>) -> &DefragmentationPlan {
        let mut time = Stopwatch::new(core::time::Duration::MAX);
        while !matches!(self.stage, Stage::Moving { .. } | Stage::Over) {
            self.prepare(allocator, &mut time);
        }
        &self.plan
    }

    /// Surveys or plans on.
    fn prepare<D: Device>(&mut self, allocator: &Allocator<D>, time: &mut Stopwatch) {
        match &mut self.stage {
            Stage::Surveying(survey) => {
                let (ignored, of_a_set) = (&self.ignored, self.of_a_set);
                let stays = |pool, standing: &crate::memory::moves::Standing| {
                    let (record, generation) = (standing.record, standing.generation);
                    let id = AllocationId { allocator: allocator.id, pool, record, generation };
                    standing.of_a_set != of_a_set || (!ignored.is_empty() && ignored.contains(&id))
                };
                if survey.step(allocator, stays, time) {
                    let survey = core::mem::replace(survey, Survey::new(Vec::new(), 0));
                    let strategy = self.desc.strategy.with_bytes_left(self.bytes_left);
                    self.stage = Stage::Planning(Planner::new(strategy, survey));
                }
            }
            Stage::Planning(planner) => {
                if let Some((plan, evacuations)) = planner.step(time) {
                    self.plan = plan;
                    self.planned = evacuations.iter().map(|one| (one.arena, one.block)).collect();
                    self.stage = Stage::Moving { waiting: evacuations.into(), current: None };
                }
            }
            Stage::Moving { .. } | Stage::Over => {}
        }
    }

    /// Looks for the next moves, within the limits of a pass.
    pub(in crate::memory) fn find<D: Device>(
        &mut self,
        allocator: &Allocator<D>,
        found: &mut Vec<Move<D>>,
    ) -> Found {
        let limits = self.desc.limits;
        let mut time = Stopwatch::new(limits.time);
        let mut bytes = 0;
        loop {
            if !matches!(self.stage, Stage::Moving { .. } | Stage::Over) {
                self.prepare(allocator, &mut time);
            } else if !self.advance(allocator, found, &mut bytes, &mut time) {
                break;
            }
            if time.is_over_now() {
                break;
            }
        }
        match self.stage {
            _ if !found.is_empty() => Found::Moves,
            Stage::Over => Found::Done,
            _ => Found::LimitReached,
        }
    }

    /// Takes the next small step in emptying blocks. False where there is nothing to do, or a limit is reached.
    fn advance<D: Device>(
        &mut self,
        allocator: &Allocator<D>,
        found: &mut Vec<Move<D>>,
        bytes: &mut u64,
        time: &mut Stopwatch,
    ) -> bool {
        if let Some(index) = self.giving_up {
            let departure = &mut self.departures[index];
            let slot = allocator.pools.get(departure.arena.pool);
            if slot.is_none_or(|slot| departure.give_up_some(allocator, slot)) {
                self.giving_up = None;
            }
            return true;
        }
        let Stage::Moving { waiting, current, .. } = &mut self.stage else { return false };
        let Some(now) = current else {
            match waiting.pop_front() {
                Some(Evacuation { arena, block, size, cost, moves }) => {
                    let (reserved, state) = (VecDeque::new(), DepartureState::Going);
                    let uncopied = cost;
                    self.departures.push(Departure { arena, block, size, reserved, out: 0, uncopied, state });
                    let departure = self.departures.len() - 1;
                    let (moves, known) = (moves.into(), HashMap::new());
                    *current = Some(Current { departure, moves, known, phase: Phase::Closing, looks: 0 });
                }
                None => return self.begin_another_round(allocator, !found.is_empty()),
            }
            return true;
        };
        let others = self.departures.iter().enumerate().filter(|&(at, _)| at != now.departure);
        let promised = others.map(|(_, other)| other.uncopied).sum();
        let departure = &mut self.departures[now.departure];
        let Some(slot) = allocator.pools.get(departure.arena.pool) else { return false };
        let done = match &mut now.phase {
            Phase::Closing => departure.close(slot, &self.desc, now),
            Phase::Noting => now.note(time),
            Phase::Listing(first) => {
                let first = *first;
                let worth = Worth {
                    strategy: self.desc.strategy.with_bytes_left(self.bytes_left.saturating_sub(promised)),
                    largest: self.desc.limits.bytes,
                    ignored: &self.ignored,
                    of_a_set: self.of_a_set,
                };
                departure.list(allocator, slot, now, first, &worth)
            }
            Phase::Reserving => {
                let arena = departure.arena;
                let planned = &self.planned;
                let stays = |block| !planned.contains(&(arena, block));
                departure.reserve(allocator, slot, now, stays, time)
            }
            Phase::HandingOut => {
                let limits = &self.desc.limits;
                match departure.hand_out(allocator, slot, now.departure, found, limits, bytes) {
                    HandedOut::All => Step::Over,
                    HandedOut::Some => Step::On,
                    HandedOut::Limit => return false,
                    HandedOut::Refused => Step::Stays,
                }
            }
        };
        match done {
            Step::On => {}
            Step::Over => {
                departure.state = DepartureState::Leaving;
                let index = now.departure;
                *current = None;
                self.settle(allocator, index);
            }
            Step::Gone => {
                departure.give_up(allocator, slot);
                *current = None;
            }
            Step::Stays => {
                self.giving_up = Some(now.departure);
                departure.state = DepartureState::Stays;
                self.planned.remove(&(departure.arena, departure.block));
                self.changed = true;
                self.statistics.blocks_kept += 1;
                *current = None;
            }
        }
        true
    }

    /// After the last block of a plan. True where the pools are to be surveyed once more.
    fn begin_another_round<D: Device>(&mut self, allocator: &Allocator<D>, moves_are_out: bool) -> bool {
        if moves_are_out || self.departures.iter().any(|departure| departure.out > 0) {
            return false;
        }
        if self.changed && self.rounds < ROUNDS {
            self.changed = false;
            self.rounds += 1;
            self.departures.clear();
            self.stage = Stage::Surveying(Survey::new(self.scope.arenas(allocator), self.desc.limits.bytes));
            return true;
        }
        self.stage = Stage::Over;
        false
    }

    /// A block that everything has left counts, unless somebody needed it at last.
    fn settle<D: Device>(&mut self, allocator: &Allocator<D>, departure: usize) {
        let departure = &mut self.departures[departure];
        if departure.state != DepartureState::Leaving || departure.out != 0 {
            return;
        }
        departure.uncopied = 0;
        let left = |slot: &PoolSlot<D>| {
            let guard = locked(&slot.state);
            guard.as_ref().is_none_or(|state| departure.is_closed(state) || departure.is_gone(state))
        };
        if allocator.pools.get(departure.arena.pool).is_none_or(left) {
            departure.state = DepartureState::Gone;
            self.statistics.blocks_emptied += 1;
            self.statistics.bytes_emptied += departure.size;
        } else {
            departure.state = DepartureState::Stays;
            self.statistics.blocks_kept += 1;
        }
    }

    /// Notes how moves ended: what was moved is in its new place, `stays` is not. Their places are given back already.
    pub(super) fn ended<D: Device>(
        &mut self,
        allocator: &Allocator<D>,
        moves: impl IntoIterator<Item = Ended>,
    ) {
        for Ended { departure, id, copied, outcome } in moves {
            let index = departure;
            let Some(departure) = self.departures.get_mut(index) else { continue };
            departure.out -= 1;
            departure.uncopied = departure.uncopied.saturating_sub(copied);
            match outcome {
                Outcome::Moved => {
                    self.statistics.moves += 1;
                    self.statistics.bytes_moved += copied;
                    self.bytes_left = self.bytes_left.saturating_sub(copied);
                }
                Outcome::Freed { .. } => self.statistics.freed += 1,
                Outcome::Stays => {
                    self.statistics.ignored += 1;
                    self.ignored.insert(id);
                    if departure.state != DepartureState::Stays {
                        self.statistics.blocks_kept += 1;
                    }
                    if let Some(slot) = allocator.pools.get(departure.arena.pool) {
                        departure.give_up(allocator, slot);
                    }
                    self.forget_current(index);
                }
            }
            self.settle(allocator, index);
        }
    }

    /// The block that is being emptied stays.
    fn forget_current(&mut self, departure: usize) {
        if let Stage::Moving { current, .. } = &mut self.stage {
            current.take_if(|current| current.departure == departure);
        }
    }

    /// Gives back all that is reserved, and opens what is not empty yet.
    pub(super) fn cancel<D: Device>(&mut self, allocator: &Allocator<D>) {
        let giving_up = self.giving_up.take();
        for (index, departure) in self.departures.iter_mut().enumerate() {
            if departure.state == DepartureState::Going || giving_up == Some(index) {
                if let Some(slot) = allocator.pools.get(departure.arena.pool) {
                    departure.give_up(allocator, slot);
                }
            }
        }
        self.stage = Stage::Over;
    }
}

/// How a move ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    pub(super) departure: usize,
    pub(super) id: AllocationId,
    /// Bytes that were to be copied for it.
    pub(super) copied: u64,
    pub(super) outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Moved,
    /// Its owner freed it meanwhile. Where it holds its place, that is to be freed now.
    Freed {
        holds_its_place: bool,
    },
    Stays,
}

/// How emptying a block goes on.
enum Step {
    On,
    /// All that was in it has another place, or is about to.
    Over,
    /// It is no longer there, or was emptied by others.
    Gone,
    /// It stays, because of what changed since the survey.
    Stays,
}

/// What a block may cost, and what in it stays.
struct Worth<'a> {
    strategy: DefragmentationStrategy,
    largest: u64,
    ignored: &'a HashSet<AllocationId>,
    of_a_set: bool,
}

enum HandedOut {
    All,
    Some,
    Limit,
    /// The block stays: somebody needed it, or mapped what is in it.
    Refused,
}

impl Current {
    /// Notes what was planned: it goes where that says, whatever came into the block since.
    fn note(&mut self, time: &mut Stopwatch) -> Step {
        self.known.reserve(self.moves.len());
        while let Some(planned) = self.moves.pop_front() {
            self.known.insert(planned.record, planned);
            if time.is_over() {
                return Step::On;
            }
        }
        self.phase = Phase::Listing(0);
        Step::On
    }
}

impl Departure {
    fn set(&self) -> usize {
        usize::from(self.arena.set)
    }

    /// Places nothing new in the block any more.
    fn close<D: Device>(
        &mut self,
        slot: &PoolSlot<D>,
        desc: &DefragmentationDesc,
        now: &mut Current,
    ) -> Step {
        let mut guard = locked(&slot.state);
        let Some(state) = guard.as_mut() else { return Step::Stays };
        now.looks += 1;
        let closed = state.close(self.set(), self.block, desc.emptied_blocks, now.looks > MOST_LOOKS);
        state.store_counters(slot);
        match closed {
            None => return Step::On,
            Some(false) => return Step::Gone,
            Some(true) => {}
        }
        drop(guard);
        let known = |planned: &PlannedMove| is_live(slot, planned);
        now.moves.retain(known);
        let live = self.live(slot);
        let all_known = live == Some(now.moves.len() as u32);
        now.phase = if all_known { Phase::Reserving } else { Phase::Noting };
        Step::On
    }

    /// Allocations in the block.
    fn live<D: Device>(&self, slot: &PoolSlot<D>) -> Option<u32> {
        let guard = locked(&slot.state);
        Some(guard.as_ref()?.sets[self.set()].block(self.block)?.live())
    }

    /// Looks for what is in the block, planned or not. Nothing comes in any more, so one look at each record is enough.
    fn list<D: Device>(
        &mut self,
        allocator: &Allocator<D>,
        slot: &PoolSlot<D>,
        now: &mut Current,
        first: u32,
        worth: &Worth<'_>,
    ) -> Step {
        if first == 0 {
            self.uncopied = 0;
        }
        let guard = locked(&slot.state);
        let Some(state) = guard.as_ref() else { return Step::Stays };
        let (mut stays, mut cost) = (false, 0);
        let (pool, allocator) = (self.arena.pool, allocator.id);
        state.standings(slot, first, RECORDS_AT_ONCE, |standing| {
            if (usize::from(standing.set), standing.block) == (self.set(), self.block) {
                let (record, generation) = (standing.record, standing.generation);
                stays |= standing.movability == Movability::Pinned || standing.size > worth.largest;
                stays |= standing.of_a_set != worth.of_a_set;
                stays |= worth.ignored.contains(&AllocationId { allocator, pool, record, generation });
                cost += if standing.movability == Movability::Copied { standing.size } else { 0 };
                let known = now.known.get(&record).filter(|known| known.generation == generation);
                // Where the others go is seen when a place is reserved.
                let to = known.map_or(u32::MAX, |known| known.to);
                now.moves.push_back(PlannedMove { record, generation, to });
            }
        });
        let next = first.saturating_add(RECORDS_AT_ONCE);
        now.phase = if next < state.records() { Phase::Listing(next) } else { Phase::Reserving };
        self.uncopied += cost;
        // It was worth emptying with what was in it when it was planned.
        let dear =
            !worth.strategy.is_worth(self.uncopied, self.size) || self.uncopied > worth.strategy.bytes();
        if stays || dear { Step::Stays } else { Step::On }
    }

    /// Reserves places for the next allocations.
    fn reserve<D: Device>(
        &mut self,
        allocator: &Allocator<D>,
        slot: &PoolSlot<D>,
        now: &mut Current,
        stays: impl Fn(u32) -> bool,
        time: &mut Stopwatch,
    ) -> Step {
        self.reserved.reserve(AT_ONCE);
        let mut guard = locked(&slot.state);
        let Some(state) = guard.as_mut() else { return Step::Stays };
        if !self.is_closed(state) {
            // Somebody needed it.
            return if self.is_gone(state) { Step::Gone } else { Step::Stays };
        }
        for at in 0..AT_ONCE {
            let Some(planned) = now.moves.pop_front() else { break };
            if is_live(slot, &planned) {
                let to = Some(planned.to).filter(|&to| to != u32::MAX);
                let Some(to_record) = state.reserve_place(slot, planned.record, to, &stays) else {
                    return Step::Stays;
                };
                let PlannedMove { record, generation, .. } = planned;
                let pool = self.arena.pool;
                let from = AllocationId { allocator: allocator.id, pool, record, generation };
                self.reserved.push_back(Reserved { from, to: allocator.token(pool, to_record, slot) });
                // All blocks may have been searched for it, which takes as long as all else here.
                let found = state.detail(to_record).map(|detail| detail.spot.block);
                if found != Some(planned.to) {
                    break;
                }
            }
            if at % PLACES_A_LOOK == PLACES_A_LOOK - 1 && time.is_over_now() {
                break;
            }
        }
        state.store_counters(slot);
        if now.moves.is_empty() {
            now.phase = Phase::HandingOut;
        }
        Step::On
    }

    fn is_closed<D: Device>(&self, state: &PoolState<D>) -> bool {
        state.sets[self.set()].block(self.block).is_some_and(|block| block.is_closed())
    }

    /// True where its allocations were all freed, and it with them.
    fn is_gone<D: Device>(&self, state: &PoolState<D>) -> bool {
        state.sets[self.set()].block(self.block).is_none_or(|block| block.is_empty())
    }

    /// Hands out what is reserved, as much as a pass may have.
    fn hand_out<D: Device>(
        &mut self,
        allocator: &Allocator<D>,
        slot: &PoolSlot<D>,
        departure: usize,
        found: &mut Vec<Move<D>>,
        limits: &PassLimits,
        bytes: &mut u64,
    ) -> HandedOut {
        found.reserve(AT_ONCE);
        // Whoever writes to one of these by its place has ended before, and finds it moving afterwards.
        let alone = slot.changes.write().unwrap_or_else(PoisonError::into_inner);
        let guard = locked(&slot.state);
        let Some(state) = guard.as_ref() else { return HandedOut::All };
        let is_live = |from: AllocationId| {
            slot.records.get(from.record).is_some_and(|record| record.generation() == from.generation)
        };
        if !self.is_closed(state) && self.reserved.iter().any(|reserved| is_live(reserved.from)) {
            return HandedOut::Refused;
        }
        let mut unneeded = Vec::new();
        let (mut limit, mut refused) = (false, false);
        for _ in 0..AT_ONCE {
            let Some(Reserved { from, to }) = self.reserved.pop_front() else { break };
            let Some(record) = slot.records.get(from.record).filter(|it| it.generation() == from.generation)
            else {
                // Its owner freed it.
                unneeded.push(to);
                continue;
            };
            let size = record.read().size;
            let many = found.len() as u64 >= u64::from(limits.moves.max(1));
            limit = many || (!found.is_empty() && *bytes + size > limits.bytes);
            // Nobody maps it from here on until the pass ends; before, it had a place reserved and nobody knew, so that
            // it may have been mapped or pinned.
            refused = record.maps() != 0 || !record.read().movable;
            if limit || refused {
                self.reserved.push_front(Reserved { from, to });
                break;
            }
            record.set_moving(true);
            *bytes += size;
            self.out += 1;
            found.push(Move::new(state, slot, departure, from, to));
        }
        drop(guard);
        drop(alone);
        unneeded.into_iter().for_each(|to| allocator.free_own(to));
        match (self.reserved.is_empty(), limit) {
            _ if refused => HandedOut::Refused,
            (true, _) => HandedOut::All,
            (false, true) => HandedOut::Limit,
            (false, false) => HandedOut::Some,
        }
    }

    /// The block stays: what is reserved is given back.
    fn give_up<D: Device>(&mut self, allocator: &Allocator<D>, slot: &PoolSlot<D>) {
        while !self.give_up_some(allocator, slot) {}
    }

    /// The same, as much as is done at once. True once it is all.
    fn give_up_some<D: Device>(&mut self, allocator: &Allocator<D>, slot: &PoolSlot<D>) -> bool {
        self.state = DepartureState::Stays;
        if self.out == 0 {
            self.uncopied = 0;
        }
        let some = self.reserved.len().min(AT_ONCE);
        let mut given = Vec::with_capacity(some);
        let mut guard = locked(&slot.state);
        let Some(state) = guard.as_mut() else { return true };
        given.extend(self.reserved.drain(..some));
        for Reserved { from, .. } in &given {
            if slot.records.get(from.record).is_some_and(|record| record.generation() == from.generation) {
                state.note_moving(slot, from.record, false);
            }
        }
        let all = self.reserved.is_empty();
        if all {
            state.reopen(self.set(), self.block);
        }
        drop(guard);
        given.into_iter().for_each(|Reserved { to, .. }| allocator.free_own(to));
        all
    }
}

/// True where the allocation is the one that was seen.
fn is_live<D: Device>(slot: &PoolSlot<D>, planned: &PlannedMove) -> bool {
    slot.records.get(planned.record).is_some_and(|record| record.generation() == planned.generation)
}
