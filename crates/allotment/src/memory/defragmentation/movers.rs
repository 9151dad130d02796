//! The movers of an allocator: its `Defragmenter`s, and the runs whose passes the program executes.
//!
//! ```text
//!   mover          moves                                       is there
//!   passes         movable allocations without a Defragmenter  while such a run is open: one for the default pools, one for each custom pool
//!   Defragmenter   the resources that it created               from its creation to its drop
//!   owners         its mapped buffers, each when accepted      from the first such buffer to the drop of their Defragmenter
//! ```
//!
//! Each allocation has one mover, by the id in its record, which no other mover has as long as the allocation's resource
//! lives. A block may hold allocations of several movers. The run
//! that empties it reserves places for all of them, hands each mover its part of the moves, and moves its own part; see
//! `handover.rs`. So the block is emptied whole or not at all, and each mover touches nothing but its own resources.
//!
//! A part is handed only to a mover that is active: one that executed a pass or a step within the last second, and was
//! neither stopped nor finished since. The allocations of others count as pinned. A mover that stays away for longer
//! loses the parts that it has not taken: their places are freed, and their blocks are reopened.
//!
//! The owners of mapped buffers count as one more mover of a `Defragmenter`, with no runs of its own: its parts are
//! offers, which the owners accept one by one (`offers.rs`).
//!
//! The list has a lock of its own, which is taken last: no other lock is taken while it is held.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::collections::{HashSet, VecDeque};
use std::sync::Mutex;

use super::desc::DefragmentationStrategy;
use super::evacuation::Evacuation;
use super::moves::SurveyedAllocation;
use crate::memory::allocator::AllocationId;
use crate::memory::pool::shards::PoolShards;
use crate::sync::locked;

/// The mover of an allocation, as its record has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::memory) struct MoverId(pub(in crate::memory) u16);

impl MoverId {
    /// The passes of the program.
    pub(in crate::memory) const PASSES: Self = Self(0);
}

/// A registered mover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::memory) struct Mover {
    pub(in crate::memory) id: MoverId,
    /// Its number in the list, which is not reused: 64 bits, of which a run takes one, last for ever. Never 0.
    pub(in crate::memory) key: u64,
}

/// The ids of a `Defragmenter` and of the owners of its mapped buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::memory) struct MoverIds {
    pub(in crate::memory) defragmenter: MoverId,
    pub(in crate::memory) owners: MoverId,
}

/// Ticks (sixtieths of a second) after which a mover that did nothing counts as away: longer than most pauses of a
/// program that does a step in each frame, short beside the time for which its closed blocks could be missed.
pub(in crate::memory) const AWAY_TICKS: u64 = 60;

/// Surveys of a mover for which the moves that it refused are remembered. An image may get a state in which it can be
/// copied; to ask again costs the copies of one block at worst.
const REFUSED_FOR: u32 = 16;

/// Moves that a mover refused are remembered up to this number: 32 bytes each.
const MAX_REFUSED: usize = 4096;

/// The movers of an allocator.
#[derive(Debug, Default)]
pub(in crate::memory) struct Movers {
    pub(super) list: Mutex<List>,
    /// Number of parts that are handed over and not taken. Read without the lock.
    parts: AtomicU32,
    /// A mover has refused a move at some time.
    refused: AtomicBool,
}

#[derive(Debug, Default)]
pub(super) struct List {
    pub(super) movers: Vec<Entry>,
    last_key: u64,
    ids: FreeIds,
}

/// The ids that no `Defragmenter` and no resource of one has.
///
/// Records have 16 bits for the id of a mover, so ids are used again: once neither the `Defragmenter` is left nor any
/// resource that it created. Shared, an id would let one mover move what only another one may.
#[derive(Debug, Default)]
struct FreeIds {
    /// The highest that was in use.
    last: u16,
    /// Those below that are free.
    free: Vec<u16>,
}

impl FreeIds {
    fn take(&mut self) -> Option<MoverId> {
        let id = self.free.pop().or_else(|| {
            self.last = self.last.checked_add(1)?;
            Some(self.last)
        });
        id.map(MoverId)
    }

    fn give_back(&mut self, id: MoverId) {
        debug_assert!(id != MoverId::PASSES && !self.free.contains(&id.0), "the id was in use");
        self.free.push(id.0);
    }
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) mover: Mover,
    /// The key of the `Defragmenter` whose mapped buffers these owners have; `None` for other movers.
    pub(super) owners_for: Option<u64>,
    /// The pools of a run with passes; `None` for a `Defragmenter`, which follows its resources into all pools.
    pools: Option<PoolShards>,
    terms: Terms,
    /// The tick of its latest pass or step; `None` before the first, and after it was stopped or finished.
    called: Option<u64>,
    /// Allocations that it could not move, or whose moves were ignored.
    refused: HashSet<AllocationId>,
    /// Its surveys since the refusals were forgotten last.
    surveys: u32,
    /// The parts of blocks that it is to move.
    pub(super) parts: VecDeque<Evacuation>,
    /// Parts that it lost since it stayed away.
    lost: u32,
}

/// The moves to which a mover agrees.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) strategy: DefragmentationStrategy,
    /// Bytes of the largest allocation that it moves.
    pub(super) largest: u64,
    /// Bytes that it may still copy.
    pub(super) bytes_left: u64,
}

impl Terms {
    /// Returns true if the mover agrees to copy `part` bytes out of a block of `size` bytes, where `cost` bytes are
    /// copied in all.
    pub(super) fn agree(&self, size: u64, cost: u64, part: u64) -> bool {
        self.strategy.is_worth(cost, size) && part <= self.bytes_left
    }
}

/// The other movers as a run sees them from its survey on.
#[derive(Debug)]
pub(super) struct OtherMovers {
    own: Mover,
    others: Vec<OtherMover>,
}

#[derive(Debug)]
pub(super) struct OtherMover {
    mover: Mover,
    pools: Option<PoolShards>,
    pub(super) terms: Terms,
    refused: HashSet<AllocationId>,
    active: bool,
    owners_for: Option<u64>,
}

/// Which mover can move an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MovedBy {
    /// The run that asks.
    Own,
    /// Another mover, by its index among the others.
    Other(usize),
    /// A mover that is not active at present, or does not agree.
    Inactive,
    /// None: it is pinned.
    None,
}

impl OtherMovers {
    /// Returns which mover can move an allocation, as far as that depends on the movers.
    pub(super) fn of(&self, id: AllocationId, allocation: &SurveyedAllocation) -> MovedBy {
        let SurveyedAllocation { mover, size, .. } = *allocation;
        if mover == self.own.id {
            return MovedBy::Own;
        }
        let is_it = |other: &OtherMover| {
            other.mover.id == mover && other.pools.is_none_or(|pools| pools.contain(id.pool))
        };
        match self.others.iter().position(is_it) {
            Some(at) => {
                let other = &self.others[at];
                let refused = !other.refused.is_empty() && other.refused.contains(&id);
                let may = other.active && size <= other.terms.largest && !refused;
                if may { MovedBy::Other(at) } else { MovedBy::Inactive }
            }
            // A run with passes could begin at any time; a `Defragmenter` that was dropped does not come back.
            None if mover == MoverId::PASSES => MovedBy::Inactive,
            None => MovedBy::None,
        }
    }

    /// Returns the key of the run's own mover.
    pub(super) fn own_key(&self) -> u64 {
        self.own.key
    }

    pub(super) fn terms(&self, at: usize) -> &Terms {
        &self.others[at].terms
    }

    /// Returns true if a mover has no runs beside those of the run's own: it moves only what that one offers.
    pub(super) fn is_of_own(&self, at: usize) -> bool {
        self.others[at].owners_for == Some(self.own.key)
    }

    /// Returns true if the mover with this key may have claims to blocks.
    pub(super) fn holds_claims(&self, key: u64) -> bool {
        key == self.own.key || self.others.iter().any(|other| other.active && other.mover.key == key)
    }
}

impl List {
    pub(super) fn entry(&mut self, key: u64) -> Option<&mut Entry> {
        self.movers.iter_mut().find(|entry| entry.mover.key == key)
    }

    fn add(&mut self, id: MoverId, pools: Option<PoolShards>, strategy: DefragmentationStrategy) -> Mover {
        // 0 stands for no run in the claims of blocks.
        self.last_key += 1;
        let mover = Mover { id, key: self.last_key };
        let terms = Terms { strategy, largest: 0, bytes_left: strategy.bytes() };
        let (called, refused, parts) = (None, HashSet::new(), VecDeque::new());
        let (surveys, lost) = (0, 0);
        let owners_for = None;
        self.movers.push(Entry { mover, owners_for, pools, terms, called, refused, surveys, parts, lost });
        mover
    }
}

impl Entry {
    fn is_active(&self, tick: u64) -> bool {
        // Owners show it one by one: a mapped buffer that no owner looks at is pinned.
        self.owners_for.is_some()
            || self.called.is_some_and(|called| tick.saturating_sub(called) <= AWAY_TICKS)
    }
}

impl Movers {
    /// Takes the ids of a `Defragmenter`: both, so that the first mapped buffer is not the one that finds none left.
    /// `None` where all 65,535 are in use.
    pub(in crate::memory) fn take_ids(&self) -> Option<MoverIds> {
        let ids = &mut locked(&self.list).ids;
        let defragmenter = ids.take()?;
        let Some(owners) = ids.take() else {
            ids.give_back(defragmenter);
            return None;
        };
        Some(MoverIds { defragmenter, owners })
    }

    /// Gives ids back, which no mover and no resource has any more.
    pub(in crate::memory) fn give_back(&self, MoverIds { defragmenter, owners }: MoverIds) {
        let ids = &mut locked(&self.list).ids;
        ids.give_back(owners);
        ids.give_back(defragmenter);
    }

    /// Adds a `Defragmenter`.
    pub(in crate::memory) fn add_defragmenter(
        &self,
        id: MoverId,
        strategy: DefragmentationStrategy,
    ) -> Mover {
        locked(&self.list).add(id, None, strategy)
    }

    /// Adds the owners of the mapped buffers of a `Defragmenter`.
    pub(in crate::memory) fn add_owners(&self, id: MoverId, of: Mover) -> Mover {
        let mut list = locked(&self.list);
        let mover = list.add(id, None, DefragmentationStrategy::Full);
        if let Some(entry) = list.entry(mover.key) {
            entry.owners_for = Some(of.key);
            entry.terms.largest = u64::MAX;
        }
        mover
    }

    /// Adds a run with passes.
    pub(super) fn add_passes(&self, pools: PoolShards, strategy: DefragmentationStrategy) -> Mover {
        locked(&self.list).add(MoverId::PASSES, Some(pools), strategy)
    }

    /// Removes a mover. Returns the parts that it did not take, to be cancelled.
    pub(super) fn remove(&self, mover: Mover) -> VecDeque<Evacuation> {
        let mut list = locked(&self.list);
        let Some(at) = list.movers.iter().position(|entry| entry.mover == mover) else {
            return VecDeque::new();
        };
        let parts = list.movers.swap_remove(at).parts;
        self.note_taken(parts.len());
        parts
    }

    /// Notes that a mover is at work, and on which terms. Returns the number of parts that it lost since the last call.
    pub(super) fn note_call(&self, mover: Mover, terms: Terms, tick: u64) -> u32 {
        let mut list = locked(&self.list);
        let Some(entry) = list.entry(mover.key) else { return 0 };
        (entry.terms, entry.called) = (terms, Some(tick));
        core::mem::take(&mut entry.lost)
    }

    /// Notes that a mover is called while no run of it is open. Returns the number of parts that it lost since the last
    /// call.
    pub(in crate::memory) fn note_idle_call(&self, mover: Mover, largest: u64, tick: u64) -> u32 {
        let mut list = locked(&self.list);
        let Some(entry) = list.entry(mover.key) else { return 0 };
        let bytes_left = entry.terms.strategy.bytes();
        entry.terms = Terms { largest, bytes_left, ..entry.terms };
        entry.called = Some(tick);
        core::mem::take(&mut entry.lost)
    }

    /// Notes that a mover has nothing to do. Returns false, with nothing changed, if it was handed a part meanwhile.
    pub(super) fn note_rest(&self, mover: Mover) -> bool {
        let mut list = locked(&self.list);
        let Some(entry) = list.entry(mover.key) else { return true };
        if !entry.parts.is_empty() {
            return false;
        }
        entry.called = None;
        true
    }

    /// Notes that a mover stops working. Returns the parts that it did not take, to be cancelled.
    pub(super) fn note_stop(&self, mover: Mover) -> VecDeque<Evacuation> {
        let mut list = locked(&self.list);
        let Some(entry) = list.entry(mover.key) else { return VecDeque::new() };
        entry.called = None;
        let parts = core::mem::take(&mut entry.parts);
        self.note_taken(parts.len());
        parts
    }

    /// Notes whether a mover could move an allocation.
    pub(in crate::memory) fn note_refused(&self, mover: Mover, id: AllocationId, refused: bool) {
        let mut list = locked(&self.list);
        let Some(entry) = list.entry(mover.key) else { return };
        if !refused {
            entry.refused.remove(&id);
            return;
        }
        if entry.refused.len() >= MAX_REFUSED {
            // To ask again costs the copies of one block for each of them, at worst.
            entry.refused.clear();
        }
        entry.refused.insert(id);
        self.refused.store(true, Ordering::Relaxed);
    }

    /// Returns true if a mover may have refused a move. Relaxed: a refusal that is remembered too long costs one block.
    pub(super) fn have_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// Returns true if there are parts for a mover.
    pub(in crate::memory) fn has_parts_for(&self, mover: Mover) -> bool {
        self.has_parts() && locked(&self.list).entry(mover.key).is_some_and(|entry| !entry.parts.is_empty())
    }

    /// Returns true if there are parts for any mover.
    pub(super) fn has_parts(&self) -> bool {
        // Relaxed: a part that is handed over at this moment is found by the next call.
        self.parts.load(Ordering::Relaxed) != 0
    }

    pub(super) fn note_taken(&self, count: usize) {
        self.parts.fetch_sub(count as u32, Ordering::Relaxed);
    }

    /// Takes the next part that was handed to a mover.
    pub(super) fn take_part(&self, mover: Mover) -> Option<Evacuation> {
        if !self.has_parts() {
            return None;
        }
        let part = locked(&self.list).entry(mover.key)?.parts.pop_front()?;
        self.note_taken(1);
        Some(part)
    }

    /// Hands each of the movers its part of a block, where all of them are active and agree to copy `cost` bytes in
    /// all; else returns the parts.
    pub(super) fn hand_over(
        &self,
        parts: Vec<(MoverId, Evacuation)>,
        cost: u64,
        tick: u64,
    ) -> Result<(), Vec<(MoverId, Evacuation)>> {
        let mut list = locked(&self.list);
        let find = |list: &List, id: MoverId, part: &Evacuation| {
            let takes = |entry: &Entry| {
                let is_it =
                    entry.mover.id == id && entry.pools.is_none_or(|pools| pools.contain(part.arena.pool));
                is_it && entry.is_active(tick) && entry.terms.agree(part.size, cost, part.uncopied)
            };
            list.movers.iter().position(takes)
        };
        // All or none: the block is emptied whole.
        let takers: Option<Vec<usize>> = parts.iter().map(|(id, part)| find(&list, *id, part)).collect();
        let Some(takers) = takers else { return Err(parts) };
        self.parts.fetch_add(parts.len() as u32, Ordering::Relaxed);
        for ((_, mut part), at) in parts.into_iter().zip(takers) {
            part.handed_over = tick;
            let entry = &mut list.movers[at];
            if entry.owners_for.is_none() {
                entry.terms.bytes_left = entry.terms.bytes_left.saturating_sub(part.uncopied);
            }
            entry.parts.push_back(part);
        }
        Ok(())
    }

    /// Takes back parts that no mover has taken yet.
    pub(super) fn take_parts(&self, of: impl Fn(&Evacuation) -> bool) -> Vec<Evacuation> {
        let mut back = Vec::new();
        if !self.has_parts() {
            return back;
        }
        for entry in &mut locked(&self.list).movers {
            while let Some(at) = entry.parts.iter().position(&of) {
                back.extend(entry.parts.remove(at));
            }
        }
        self.note_taken(back.len());
        back
    }

    /// Takes the parts of the movers that have stayed away for too long, to be cancelled. `unaccepted` gets the
    /// allocations that their owners did not move.
    pub(super) fn take_expired(&self, tick: u64, unaccepted: &mut Vec<AllocationId>) -> Vec<Evacuation> {
        let mut expired = Vec::new();
        if !self.has_parts() {
            return expired;
        }
        let mut list = locked(&self.list);
        for entry in list.movers.iter_mut().filter(|entry| !entry.is_active(tick)) {
            entry.lost += entry.parts.len() as u32;
            expired.extend(entry.parts.drain(..));
        }
        let mut lost = Vec::new();
        for entry in &mut list.movers {
            let Some(defragmenter) = entry.owners_for else { continue };
            let old = |part: &Evacuation| tick.saturating_sub(part.handed_over) > AWAY_TICKS;
            while let Some(at) = entry.parts.iter().position(old) {
                let part = entry.parts.remove(at);
                let late = part.iter().flat_map(|part| &part.reserved).map(|reserved| reserved.from);
                unaccepted.extend(late);
                expired.extend(part);
                lost.push(defragmenter);
            }
        }
        for key in lost {
            list.entry(key).into_iter().for_each(|entry| entry.lost += 1);
        }
        self.note_taken(expired.len());
        expired
    }

    /// Returns the other movers as they are now.
    pub(super) fn others(&self, own: Mover, tick: u64) -> OtherMovers {
        let mut list = locked(&self.list);
        if let Some(entry) = list.entry(own.key) {
            entry.surveys += 1;
            if entry.surveys >= REFUSED_FOR {
                entry.surveys = 0;
                entry.refused.clear();
            }
        }
        let others = list.movers.iter().filter(|entry| entry.mover != own);
        let others = others.map(|entry| OtherMover {
            mover: entry.mover,
            pools: entry.pools,
            terms: entry.terms,
            refused: entry.refused.clone(),
            active: entry.is_active(tick),
            owners_for: entry.owners_for,
        });
        OtherMovers { own, others: others.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_movers_have_an_id_at_the_same_time() {
        let movers = Movers::default();
        let taken: Vec<_> = core::iter::from_fn(|| movers.take_ids()).collect();
        let mut ids: Vec<_> = taken.iter().flat_map(|ids| [ids.defragmenter.0, ids.owners.0]).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!((ids.len(), ids[0]), (65_534, 1), "each once, and none is that of passes");
        movers.give_back(taken[7]);
        assert_eq!(movers.take_ids(), Some(taken[7]));
        assert_eq!(movers.take_ids(), None);
    }
}
