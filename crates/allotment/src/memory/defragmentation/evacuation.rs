//! The evacuation of one block: close, search, reserve, hand out, or cancel.
//!
//! ```text
//!   Closing ──► Checking ────────────► Reserving ──► HandingOut ──► all moves handed out
//!                  └──► Indexing ──► Searching ──┘     └──► offered to the owners of the allocations
//!
//!   from each phase: cancelled, when the block cannot be emptied any more: its reserved places are freed, it is reopened
//! ```
//!
//! `Indexing` and `Searching` are needed only for a block into which allocations came after the survey. A block of mapped
//! buffers is not handed out: its reserved places are offered to their owners (`offered_moves.rs`). Each phase works in batches
//! under the pool's lock; `run` calls the next one.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::PassLimits;
use super::desc::{DefragmentationDesc, DefragmentationStrategy, JoinThreads, Spent};
use super::pass::Move;
use super::plan::PlannedMove;
use super::stopwatch::Stopwatch;
use super::survey::Arena;
use crate::device::Device;
use crate::memory::Movability;
use crate::memory::allocator::{Allocator, Reserved};
use crate::memory::mover::Mover;
use crate::memory::pool::{
    AfterClosing, BlockOfSet, Close, CloseHow, ClosedBlock, MayBegin, NewPlace, PoolSlot, SurveyedAllocation,
    TwoShards,
};
use crate::memory::token::AllocationId;

/// Places that are reserved, or freed, per lock: 20 to 40 microseconds.
pub(super) const AT_ONCE: usize = 16;

/// Places reserved between two readings of the clock: two microseconds or so.
const PLACES_PER_CLOCK_READING: usize = 4;

/// Records that are read per lock.
const RECORDS_AT_ONCE: u32 = 256;

/// The block that is being emptied.
#[derive(Debug)]
pub(super) struct Current {
    /// Its index among the evacuations.
    pub(super) evacuation: usize,
    pub(super) moves: VecDeque<PlannedMove>,
    /// The planned moves by shard and record, while the block is searched for allocations that came after the survey.
    pub(super) known: HashMap<(u32, u32), PlannedMove>,
    /// Allocations in the block that the search has read, but not looked at.
    pub(super) seen: VecDeque<SurveyedAllocation>,
    pub(super) phase: Phase,
    /// Attempts to close the block so far.
    pub(super) close_attempts: u32,
}

#[derive(Debug)]
pub(super) enum Phase {
    Closing,
    /// Looking which of the planned moves are still needed.
    Checking(Check),
    /// Indexing the planned moves by record, before the search for unplanned allocations.
    Indexing,
    /// Searching the block for all allocations, from this shard and this record of it on.
    Searching((u32, u32)),
    Reserving,
    HandingOut,
}

/// A look at each of the planned moves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Check {
    /// Moves that were not looked at.
    left: usize,
    /// Allocations in the block when it was closed. Later on there are never more.
    live: usize,
}

/// The evacuation of one block.
#[derive(Debug)]
pub(super) struct Evacuation {
    pub(super) arena: Arena,
    pub(super) block: u32,
    pub(super) size: u64,
    /// Places that are reserved for moves not handed out yet.
    pub(super) reserved: VecDeque<Reserved>,
    /// Number of moves that are handed out and have not ended.
    pub(super) in_flight: u32,
    /// Bytes of moves that have not ended.
    pub(super) uncopied: u64,
    pub(super) state: EvacuationState,
    /// The closing of the block; 0 before.
    pub(super) closing: u64,
    /// The owners of its allocations accept the moves.
    pub(super) by_owners: bool,
    /// The shards whose blocks are joined, each with the requests that it had served; none where it is one.
    pub(super) joined: Arc<[(u32, u32)]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EvacuationState {
    InProgress,
    /// All moves were handed out.
    HandedOut,
    /// All places were offered to the owners of the allocations, which end the evacuation.
    Offered,
    /// Cancelled: the block stays.
    Cancelled,
    /// All moves have ended, and the block is empty.
    Emptied,
}

/// How to continue with a block.
pub(super) enum Step {
    Continue,
    /// All its allocations were handed out.
    HandedOut,
    /// The block was freed, or emptied by its owners.
    BlockFreed,
    /// The block stays, because its pool changed since the survey.
    KeepBlock,
    /// The run has no claim to the block any more. Nothing was done.
    Left,
}

/// The cost that a block may have, and the allocations that can be moved.
pub(super) struct Worth<F> {
    pub(super) strategy: DefragmentationStrategy,
    pub(super) can_move: F,
}

/// The result of an attempt to reserve a place.
enum OnePlace {
    AsPlanned,
    Elsewhere,
    /// The allocation was freed.
    NotNeeded,
    None,
}

pub(super) enum HandedOut {
    All,
    Some,
    Limit,
    /// The block stays: a request reopened it, or an allocation in it was mapped or pinned.
    Refused,
}

impl Current {
    /// Begins to empty a block.
    pub(super) fn new(evacuation: usize, moves: Vec<PlannedMove>) -> Self {
        Self {
            evacuation,
            moves: moves.into(),
            known: HashMap::new(),
            seen: VecDeque::new(),
            phase: Phase::Closing,
            close_attempts: 0,
        }
    }

    /// Drops the moves of allocations that are not in the block any more, which need no place: they were freed since the
    /// survey, or another run moved them before this one claimed the block. If the rest is all that was
    /// in the block when it was closed, no search for unplanned allocations is needed, which would read all records of the
    /// pool.
    pub(super) fn check<D: Device>(
        &mut self,
        allocator: &Allocator<D>,
        of: &Evacuation,
        mut check: Check,
        time: &mut Stopwatch,
    ) -> Step {
        // The list is turned around once. Each move is taken from the front, and goes to the back if its allocation is
        // there:
        //   [a b c d] ► [b c d a] ► [c d a] ► [d a c] ► [a c d]          b was freed since the survey
        // So the check needs no second list, can stop anywhere, and leaves the largest allocation at the front, which
        // `reserve` needs: small ones that come first would cut up the ranges of large ones.
        while check.left > 0 {
            let Some(planned) = self.moves.pop_front() else { break };
            check.left -= 1;
            // Counting the block's allocations instead is not enough: another run may have emptied the block since the
            // survey, and a new block with as many may have its index. It would be closed, and none of them moved.
            let is_there = |slot: &PoolSlot<D>| {
                slot.has_in_block((planned.record, planned.generation), of.arena.pool, of.block())
            };
            if allocator.pools.get(planned.pool).is_some_and(is_there) {
                // Behind the others: once all were looked at, they are in their order again.
                self.moves.push_back(planned);
            }
            if time.is_over() {
                break;
            }
        }
        // `live` is from the moment of the closing. Nothing came in since then, so an equal number means the same ones.
        // What is freed during the check may look like an unplanned allocation, but none can look like a planned one.
        let all_known = self.moves.len() == check.live;
        self.phase = match check.left {
            0 if all_known => Phase::Reserving,
            0 => Phase::Indexing,
            _ => Phase::Checking(check),
        };
        Step::Continue
    }

    /// Indexes the planned moves by record, so that the search for other allocations keeps their planned places.
    pub(super) fn index_planned(&mut self, time: &mut Stopwatch) -> Step {
        // From here on the moves are in the order of the records, as the search finds them. Each planned place goes
        // along (`to`), so what the order by size has found is kept; only unplanned allocations take what is left.
        self.known.reserve(self.moves.len());
        while let Some(planned) = self.moves.pop_front() {
            self.known.insert((planned.pool, planned.record), planned);
            if time.is_over() {
                return Step::Continue;
            }
        }
        self.phase = Phase::Searching((0, 0));
        Step::Continue
    }
}

impl Evacuation {
    /// Begins the evacuation of a block.
    pub(super) fn new(arena: Arena, block: u32, size: u64, cost: u64) -> Self {
        Self {
            arena,
            block,
            size,
            reserved: VecDeque::new(),
            in_flight: 0,
            uncopied: cost,
            state: EvacuationState::InProgress,
            closing: 0,
            by_owners: false,
            joined: Arc::new([]),
        }
    }

    /// Takes the reserved places, which are to be offered to owners.
    pub(super) fn take_offered(&mut self) -> (ClosedBlock, VecDeque<Reserved>) {
        self.state = EvacuationState::Offered;
        self.uncopied = 0;
        (self.closed(), core::mem::take(&mut self.reserved))
    }

    /// Returns the block, in its pool.
    fn block(&self) -> BlockOfSet {
        (self.arena.set.into(), self.block)
    }

    /// Returns the closing of the block.
    pub(super) fn closed(&self) -> ClosedBlock {
        ClosedBlock { pool: self.arena.pool, block: self.block(), closing: self.closing, size: self.size }
    }

    /// Closes the block: no new allocation is placed in it from now on.
    pub(super) fn close<D: Device>(
        &mut self,
        allocator: &Allocator<D>,
        slot: &PoolSlot<D>,
        mover: Mover,
        desc: &DefragmentationDesc,
        now: &mut Current,
    ) -> Step {
        // Before the lock of the block's shard: the look takes the locks of all joined shards in turn, this one's as
        // well.
        if desc.join_threads == JoinThreads::WhenIdle && self.is_in_use(allocator) {
            self.arena.disclaim(allocator, self.block, mover);
            return Step::KeepBlock;
        }
        let how = CloseHow { release: desc.emptied_blocks, hold: false };
        let closed = slot.close(self.block(), mover.key, how, &mut now.close_attempts);
        let Some((closed, live)) = closed else { return Step::KeepBlock };
        match closed {
            Close::NotYet => return Step::Continue,
            Close::Empty => return Step::BlockFreed,
            Close::NotClaimed => return Step::Left,
            Close::Closed(closing) => self.closing = closing,
        }
        // Of the moment of the closing: with an older count, `check` would take the planned ones for all, and one that came
        // in between would keep a block for which everything else was copied.
        now.phase = Phase::Checking(Check { left: now.moves.len(), live: live as usize });
        Step::Continue
    }

    /// Returns true where a thread allocated since the survey from a shard that is joined: it is no longer idle.
    fn is_in_use<D: Device>(&self, allocator: &Allocator<D>) -> bool {
        self.joined.iter().any(|&(pool, requests)| {
            let now = allocator.pools.get(pool).and_then(PoolSlot::requests);
            now.is_some_and(|now| now != requests)
        })
    }

    /// Searches a batch of records for allocations in the block, planned or not. The block is closed, so one look at
    /// each record is enough.
    pub(super) fn search<D: Device>(
        &mut self,
        allocator: &Allocator<D>,
        slot: &PoolSlot<D>,
        now: &mut Current,
        (shard, first): (u32, u32),
        worth: &Worth<impl Fn(&SurveyedAllocation) -> bool>,
        time: &mut Stopwatch,
    ) -> Step {
        // A block knows its ranges, but not the records of its allocations. So all records of the pool are read once,
        // and those that name this block are kept: its own shard's and all others', since a record stays in its shard
        // when its allocation moves to a block of another one.
        //
        // Brittle: the reset below has to come before the returns for shards without a state, or the planned cost would
        // be added to the counted one where the first shard was never used.
        // Counted anew by the search: the planned cost may be out of date.
        if (shard, first) == (0, 0) && now.seen.is_empty() {
            self.uncopied = 0;
        }
        let Some(shards) = slot.shards() else { return Step::KeepBlock };
        let (mut stays, mut cost) = (false, 0);
        let next_shard =
            if shard + 1 < shards.count { Phase::Searching((shard + 1, 0)) } else { Phase::Reserving };
        // A default pool may have a shard that was never used.
        let Some(slot) = allocator.pools.get(shards.index(shard as u8)) else {
            now.phase = next_shard;
            return Step::Continue;
        };
        // `first` moves on only once `seen` is empty. A step that was interrupted comes back with the same `first`,
        // finds some left, and reads nothing again.
        let next = first.saturating_add(RECORDS_AT_ONCE);
        // Grown before the lock is taken.
        now.seen.reserve(RECORDS_AT_ONCE as usize);
        // What was read before and not looked at comes first.
        let count = if now.seen.is_empty() { RECORDS_AT_ONCE } else { 0 };
        let records = slot.find_in_block((first, count), self.arena.pool, self.block(), &mut now.seen);
        while let Some(allocation) = now.seen.pop_front() {
            let SurveyedAllocation { pool, record, generation, .. } = allocation;
            stays |= allocation.movability == Movability::Pinned || !(worth.can_move)(&allocation);
            cost += if allocation.movability == Movability::Copied { allocation.size } else { 0 };
            // Without the generation, an allocation that has the record of a freed one would get that one's place.
            let known = now.known.get(&(pool, record)).filter(|known| known.generation == generation);
            // Moved even if it came after the survey: a block that is left with it would be emptied for nothing.
            // An unplanned allocation gets its block only when its place is reserved.
            let to = known.and_then(|known| known.to);
            now.moves.push_back(PlannedMove { pool, record, generation, to });
            if time.is_over() {
                break;
            }
        }
        if now.seen.is_empty() {
            now.phase = if next < records { Phase::Searching((shard, next)) } else { next_shard };
        }
        self.uncopied += cost;
        // Asked after each batch, so that a block which turns out to stay is not searched to its end.
        // The strategy found the block worth its cost at the survey; allocations placed in it since may change that.
        let dear =
            !worth.strategy.is_worth(self.uncopied, self.size) || self.uncopied > worth.strategy.bytes();
        if stays || dear { Step::KeepBlock } else { Step::Continue }
    }

    /// Reserves places for a batch of allocations.
    pub(super) fn reserve<D: Device>(
        &mut self,
        allocator: &Allocator<D>,
        now: &mut Current,
        time: &mut Stopwatch,
    ) -> Step {
        // All places first, and only then the first move: this is what makes a plan of a whole block worth more than
        // single moves. A place is an allocation, so no request can take it while the rest are found:
        //   closed   [e ░ f ░]      stays   [a a b ░ ░]
        //   closed   [e ░ f ░]      stays   [a a b F E]      F and E: reserved for f and e
        // If one finds no place, all are freed again and the block stays, without a byte copied.
        // Grown before the lock is taken.
        self.reserved.reserve(AT_ONCE);
        match allocator.pools.after_closing(&self.closed()) {
            Some(AfterClosing::Closed) => {}
            Some(AfterClosing::Empty) => return Step::BlockFreed,
            // A request found no other room and reopened the block. One that does so from here on is noticed before a byte is
            // copied.
            Some(AfterClosing::InUse) | None => return Step::KeepBlock,
        }
        // Kept from one place to the next: most moves are between the same shards.
        let mut locks = None;
        for at in 0..AT_ONCE {
            let Some(planned) = now.moves.pop_front() else { break };
            match self.reserve_one(allocator, &mut locks, &planned) {
                OnePlace::AsPlanned | OnePlace::NotNeeded => {}
                // All blocks may have been searched, which takes as long as a whole batch.
                OnePlace::Elsewhere => break,
                OnePlace::None => return Step::KeepBlock,
            }
            if at % PLACES_PER_CLOCK_READING == PLACES_PER_CLOCK_READING - 1 && time.is_over_now() {
                break;
            }
        }
        if now.moves.is_empty() {
            now.phase = Phase::HandingOut;
        }
        Step::Continue
    }

    /// Reserves a place for one allocation: in the planned block, or else in another one of its shard, or of the shards
    /// that are joined with it.
    fn reserve_one<'a, D: Device>(
        &mut self,
        allocator: &'a Allocator<D>,
        locks: &mut Option<TwoShards<'a, D>>,
        planned: &PlannedMove,
    ) -> OnePlace {
        let &PlannedMove { pool, record, generation, to } = planned;
        // The planned shard first, and any other that is joined as a way out. The survey is some passes old: requests
        // may have taken the range, and the plan keeps no range, only the block.
        let first = to.map_or(self.arena.pool, |(to, _)| to);
        let joined = Arc::clone(&self.joined);
        let others = joined.iter().map(|&(other, _)| other).filter(|&other| other != first);
        for destination in core::iter::once(first).chain(others) {
            if locks.as_ref().is_none_or(|locks| !locks.are(pool, destination)) {
                // `lock_two` takes the lower shard first, whichever has the record: two runs that move in opposite
                // directions do not wait for each other.
                // Dropped first, or the thread would wait for itself.
                *locks = None;
                *locks = allocator.pools.lock_two(pool, destination);
            }
            let Some(locks) = locks else { return OnePlace::NotNeeded };
            // Asked for each destination anew: between two pairs of locks the owner may free it, or another run move
            // it.
            if !locks.has_in_block((record, generation), self.arena.pool, self.block()) {
                return OnePlace::NotNeeded;
            }
            let block = to.filter(|&(to, _)| to == destination).map(|(_, block)| block);
            let Some(reserved) = locks.reserve_place((record, generation), NewPlace::Planned(block)) else {
                continue;
            };
            let from = AllocationId { allocator: allocator.id(), pool, record, generation };
            self.reserved.push_back(Reserved::new(from, destination, &reserved));
            // An allocation that was not planned has no block here, so it always counts as found elsewhere.
            return if reserved.block == block { OnePlace::AsPlanned } else { OnePlace::Elsewhere };
        }
        OnePlace::None
    }

    /// Hands out the reserved moves, as many as fit into the pass.
    pub(super) fn hand_out<D: Device>(
        &mut self,
        allocator: &Allocator<D>,
        evacuation: usize,
        found: &mut Vec<Move<D>>,
        limits: &PassLimits,
        spent: &mut Spent,
    ) -> HandedOut {
        // Up to here the owner could do all with the allocation, though a place is reserved for it. From here on a
        // queue may copy it, so all that could have changed is looked at once more:
        //   addresses     the new places are mapped like the old ones     a driver call, so before any lock
        //   the block     closed still                                    or no block is gained by the copies
        //   each move     live, not mapped, not pinned, within the limits
        //   then          marked as moving: from now on the CPU may read it, but neither write nor map it
        // Grown before the locks are taken.
        found.reserve(AT_ONCE);
        // Before any of them moves: an allocation that has an address has one in its new place.
        if !self.reserved.iter().take(AT_ONCE).all(|one| allocator.map_as_before(one.from, &one.to)) {
            return HandedOut::Refused;
        }
        // Looked at before the batch and not under its locks, which may be those of another shard. A request that
        // reopens the block in between is noticed before the next batch; this one is copied for a block that stays.
        let closed = allocator.pools.after_closing(&self.closed()) == Some(AfterClosing::Closed);
        let is_live = |from: AllocationId| {
            allocator.slot_of(from).is_ok_and(|slot| slot.is_live(from.record, from.generation))
        };
        // A request reopened the block, so copying the rest would not free it. If no allocation is left to copy, the
        // evacuation can still end.
        if !closed && self.reserved.iter().any(|reserved| is_live(reserved.from)) {
            return HandedOut::Refused;
        }
        // None is left where the owners have freed the rest.
        // A batch of allocations of one shard, which need not be that of the block.
        let Some(pool) = self.reserved.front().map(|reserved| reserved.from.pool) else {
            return HandedOut::All;
        };
        let Some(slot) = allocator.pools.get(pool) else { return HandedOut::All };
        let Some(mut moves) = slot.begin_moves() else { return HandedOut::All };
        // Freed after the locks: a free takes the pool's lock again.
        let mut unneeded = Vec::new();
        let (mut limit, mut refused) = (false, false);
        for _ in 0..AT_ONCE {
            if self.reserved.front().is_none_or(|reserved| reserved.from.pool != pool) {
                break;
            }
            let Some(Reserved { from, to, copied }) = self.reserved.pop_front() else { break };
            let size = match moves.may_begin(from.record, from.generation) {
                MayBegin::Yes(size) => size,
                MayBegin::No => {
                    refused = true;
                    0
                }
                // The owner freed the allocation since its place was reserved.
                // Its place is not given to another of the block: the others have theirs.
                MayBegin::Gone => {
                    unneeded.push(to);
                    continue;
                }
            };
            limit = spent.exceeds(limits, size);
            if limit || refused {
                // The next pass, or the cancellation, continues with this one.
                self.reserved.push_front(Reserved { from, to, copied });
                break;
            }
            let place = allocator.pools.get(to.pool).and_then(|slot| slot.place_of(to.record));
            let Some(place) = place else { continue };
            (spent.moves, spent.bytes) = (spent.moves + 1, spent.bytes + size);
            self.in_flight += 1;
            found.push(Move::new(&moves.begin(from.record), &place, evacuation, from, to));
        }
        drop(moves);
        unneeded.into_iter().for_each(|to| allocator.free_own(to));
        match (self.reserved.is_empty(), limit) {
            // Before the others. Moves of this batch that were handed out already stay so, and end with their pass; the
            // rest is given up. (`what_is_mapped_after_it_was_planned_and_reserved_stays`)
            _ if refused => HandedOut::Refused,
            (true, _) => HandedOut::All,
            (false, true) => HandedOut::Limit,
            (false, false) => HandedOut::Some,
        }
    }

    /// Cancels the evacuation: the block stays, and its reserved places are freed.
    pub(super) fn cancel<D: Device>(&mut self, allocator: &Allocator<D>) {
        while !self.cancel_batch(allocator) {}
    }

    /// Frees a batch of the reserved places. Returns true once all are freed and the block is open.
    pub(super) fn cancel_batch<D: Device>(&mut self, allocator: &Allocator<D>) -> bool {
        self.state = EvacuationState::Cancelled;
        // Moves in flight count as bytes to copy until they end.
        if self.in_flight == 0 {
            self.uncopied = 0;
        }
        let some = self.reserved.len().min(AT_ONCE);
        // The places are freed after the locks, since a free locks the pool.
        let mut given = Vec::with_capacity(some);
        // Moves in flight are not among these: their places belong to the pass that has them, and are freed at its end.
        given.extend(self.reserved.drain(..some));
        for Reserved { from, .. } in &given {
            allocator.note_reserved(*from, false);
        }
        // By the number of the closing: a block that a request has reopened, and another run has closed since, is that
        // run's.
        let all = self.reserved.is_empty();
        if all {
            allocator.pools.reopen(&self.closed());
        }
        given.into_iter().for_each(|Reserved { to, .. }| allocator.free_own(to));
        all
    }
}
