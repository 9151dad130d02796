//! The layout of the pools that are defragmented, read in many short steps.
//!
//! Each step copies some records out of a pool under its lock, for some microseconds; between two steps the pool
//! changes. So a survey is never wholly accurate, and each fact is checked again under the lock before it is acted on:
//! a survey decides what is tried, never whether it is correct.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use super::movers::{MovedBy, OtherMovers};
use super::stopwatch::Stopwatch;
use crate::device::Device;
use crate::memory::Movability;
use crate::memory::allocator::Allocator;
use crate::memory::block_set::Role;
use crate::memory::defragmentation::moves::SurveyedAllocation;
use crate::memory::pool::PoolSlot;
use crate::memory::pool::shards::PoolShards;
use crate::memory::reports::statistics::Counters;
use crate::sync::locked;

/// Records that are copied per lock: 64 bytes each, some five microseconds.
const AT_ONCE: u32 = 256;

/// One memory type of one shard of a pool. Allocations are moved within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Arena {
    pub(super) pool: u32,
    pub(super) set: u8,
}

/// The pools that are defragmented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::memory) enum Scope {
    /// All default pools.
    DefaultPools,
    /// A custom pool, with all its shards.
    Pool(PoolShards),
}

impl Scope {
    /// Returns the shards of the pools.
    pub(super) fn shards<D: Device>(self, allocator: &Allocator<D>) -> PoolShards {
        match self {
            // Whichever pools they belong to, shards are surveyed in the order of their indices.
            Self::DefaultPools => PoolShards { first: 0, stride: 1, count: allocator.default_pool_count() },
            Self::Pool(shards) => shards,
        }
    }

    /// Returns the arenas that exist now.
    pub(super) fn arenas<D: Device>(self, allocator: &Allocator<D>) -> Vec<Arena> {
        let sets = |(pool, slot): (u32, &PoolSlot<D>)| {
            let count = locked(&slot.state).as_ref().map_or(0, |state| state.sets.len());
            (0..count as u8).map(move |set| Arena { pool, set })
        };
        let slots =
            self.shards(allocator).indices().filter_map(|index| Some((index, allocator.pools.get(index)?)));
        // A pool without memory has nothing to move, and a default pool's state may not have been created yet.
        slots.filter(|(_, slot)| slot.has_memory()).flat_map(sets).collect()
    }
}

/// A block as the survey saw it.
#[derive(Debug)]
pub(super) struct SurveyedBlock {
    pub(super) index: u32,
    pub(super) size: u64,
    pub(super) shared: bool,
    /// An allocation in it cannot be moved, so the block cannot be emptied.
    pub(super) pinned: bool,
    /// Another run is emptying the block, or is going to; or an earlier one has, and its old places are not free yet.
    pub(super) of_another_run: bool,
    /// Some of its allocations belong to a mover that is not active, or does not agree to empty the block.
    pub(super) left_to_others: bool,
    /// The run has allocations of its own in it.
    pub(super) own: bool,
    /// The other movers that have allocations in it, with the bytes that they would copy.
    pub(super) others: Vec<(usize, u64)>,
    /// Bytes of the allocated ranges.
    pub(super) occupied: u64,
    /// Bytes that its allocations need in other blocks.
    pub(super) needed: u64,
    /// Bytes to copy when it is emptied.
    pub(super) cost: u64,
    /// Its allocations, as indices into those of the arena.
    pub(super) allocations: Vec<u32>,
    /// The allocated ranges by offset; popped in order to find the free ranges between them.
    pub(super) ranges: BinaryHeap<Reverse<(u64, u64)>>,
}

/// An arena as the survey saw it.
#[derive(Debug)]
pub(super) struct SurveyedArena {
    pub(super) arena: Arena,
    pub(super) blocks: Vec<SurveyedBlock>,
    pub(super) allocations: Vec<SurveyedAllocation>,
    /// The least number of shared blocks that the pool keeps, empty or not.
    pub(super) least_blocks: u32,
    /// Bytes that must stay free for coming requests.
    pub(super) ahead: u64,
    /// The position in `blocks` of each block index.
    place_of: Vec<u32>,
}

/// The survey so far.
#[derive(Debug)]
pub(super) struct Survey {
    pub(super) arenas: Vec<SurveyedArena>,
    /// The current arena, and its next record; `None` before its blocks were read.
    at: (usize, Option<u32>),
    /// Larger allocations are not moved.
    largest: u64,
}

impl Survey {
    /// Begins a survey in which allocations larger than `largest` bytes count as pinned.
    pub(super) fn new(arenas: Vec<Arena>, largest: u64) -> Self {
        let arenas = arenas.into_iter().map(|arena| SurveyedArena {
            arena,
            blocks: Vec::new(),
            allocations: Vec::new(),
            least_blocks: 0,
            ahead: 0,
            place_of: Vec::new(),
        });
        Self { arenas: arenas.collect(), at: (0, None), largest }
    }

    /// Continues the survey until the time is over. Returns true once all arenas were read.
    pub(super) fn step<D: Device>(
        &mut self,
        allocator: &Allocator<D>,
        movers: &OtherMovers,
        moved_by: impl Fn(u32, &SurveyedAllocation) -> MovedBy,
        time: &mut Stopwatch,
    ) -> bool {
        // Allocated before the lock is taken: the heap is not used under it.
        let mut seen = Vec::with_capacity(AT_ONCE as usize);
        while let Some(surveyed) = self.arenas.get_mut(self.at.0) {
            match self.at.1 {
                None => {
                    surveyed.look_at_blocks(allocator, movers);
                    self.at.1 = Some(0);
                }
                Some(first) => {
                    let more = surveyed.look_at_records(allocator, first, &mut seen);
                    let pool = surveyed.arena.pool;
                    for allocation in seen.drain(..) {
                        let by = moved_by(pool, &allocation);
                        let too_large = by == MovedBy::Own && allocation.size > self.largest;
                        surveyed.add(allocation, if too_large { MovedBy::None } else { by }, movers);
                    }
                    if more {
                        self.at.1 = Some(first + AT_ONCE);
                    } else {
                        surveyed.ask(movers);
                        self.at = (self.at.0 + 1, None);
                    }
                }
            }
            // The clock is read after each batch: the counter of `is_over` is for much smaller pieces of work.
            if time.is_over_now() {
                break;
            }
        }
        self.at.0 == self.arenas.len()
    }
}

impl SurveyedArena {
    fn look_at_blocks<D: Device>(&mut self, allocator: &Allocator<D>, movers: &OtherMovers) {
        let Some(slot) = allocator.pools.get(self.arena.pool) else { return };
        let there = slot.counters.get(usize::from(self.arena.set)).map(Counters::load).unwrap_or_default();
        // The counters are read without the lock. They may be a little old; then the vectors grow under it.
        self.blocks.reserve((there.blocks + there.dedicated) as usize);
        self.allocations.reserve(there.allocations as usize);
        let mut guard = locked(&slot.state);
        let Some(state) = guard.as_mut() else { return };
        let set = usize::from(self.arena.set);
        // The plan of a run that is not continued must not keep others from its blocks.
        state.sets[set].end_claims(|run| movers.holds_claims(run));
        // The pool's minimum and its watermark concern its first memory type only.
        let set = usize::from(self.arena.set);
        self.least_blocks = state.least_blocks(set);
        let first = state.first_sets().any(|first| first == set);
        self.ahead = if first { state.room_to_keep() } else { 0 };
        self.blocks.extend(state.sets[set].blocks().map(|(index, block)| SurveyedBlock {
            index,
            size: block.memory.size(),
            shared: block.role == Role::Shared,
            pinned: false,
            of_another_run: block.is_of_another_run(movers.own_key()),
            left_to_others: false,
            own: false,
            others: Vec::new(),
            occupied: 0,
            needed: 0,
            cost: 0,
            allocations: Vec::new(),
            ranges: BinaryHeap::new(),
        }));
        // The index is built from the copy, outside the lock.
        drop(guard);
        let count = self.blocks.iter().map(|block| block.index as usize + 1).max().unwrap_or(0);
        // An array: block indices are small, and each record looks its block up.
        self.place_of.resize(count, u32::MAX);
        for (at, block) in self.blocks.iter().enumerate() {
            self.place_of[block.index as usize] = at as u32;
        }
    }

    /// Copies a batch of records. Returns true when there are more.
    fn look_at_records<D: Device>(
        &self,
        allocator: &Allocator<D>,
        first: u32,
        seen: &mut Vec<SurveyedAllocation>,
    ) -> bool {
        let Some(slot) = allocator.pools.get(self.arena.pool) else { return false };
        let guard = locked(&slot.state);
        let Some(state) = guard.as_ref() else { return false };
        state.survey_allocations(slot, first, AT_ONCE, |allocation| {
            // The records of a pool are shared by its memory types.
            if allocation.set == self.arena.set {
                seen.push(allocation);
            }
        });
        first.saturating_add(AT_ONCE) < state.records()
    }

    fn add(&mut self, mut allocation: SurveyedAllocation, by: MovedBy, movers: &OtherMovers) {
        // A block that was added after the blocks were read is not part of this survey.
        let Some(&at) = self.place_of.get(allocation.block as usize) else { return };
        let Some(block) = self.blocks.get_mut(at as usize) else { return };
        let copied = if allocation.movability == Movability::Copied { allocation.size } else { 0 };
        match by {
            _ if allocation.movability == Movability::Pinned => block.pinned = true,
            MovedBy::None => {
                block.pinned = true;
                allocation.movability = Movability::Pinned;
            }
            MovedBy::Inactive => block.left_to_others = true,
            MovedBy::Own => block.own = true,
            MovedBy::Other(mover) => {
                // Owners have no run that would empty the block.
                block.own |= movers.is_of_own(mover);
                match block.others.iter_mut().find(|(other, _)| *other == mover) {
                    Some((_, part)) => *part += copied,
                    None => block.others.push((mover, copied)),
                }
            }
        }
        block.occupied += allocation.taken;
        block.needed += allocation.needed;
        block.cost += copied;
        block.ranges.push(Reverse((allocation.offset, allocation.taken)));
        block.allocations.push(self.allocations.len() as u32);
        self.allocations.push(allocation);
    }
}

impl SurveyedArena {
    /// Leaves the blocks to others that the other movers in them do not agree to empty.
    fn ask(&mut self, movers: &OtherMovers) {
        for block in &mut self.blocks {
            let agrees =
                |&(mover, part): &(usize, u64)| movers.terms(mover).agree(block.size, block.cost, part);
            block.left_to_others |= !block.others.iter().all(agrees);
        }
    }
}

impl SurveyedBlock {
    /// Returns true if the block could be emptied, by one mover or by several.
    pub(super) fn may_go(&self) -> bool {
        !self.pinned && !self.left_to_others && !self.of_another_run && !self.is_empty()
    }

    /// Returns true if only other movers keep the run from emptying the block.
    pub(super) fn is_left_to_others(&self) -> bool {
        !self.pinned && !self.is_empty() && (self.left_to_others || self.of_another_run)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.allocations.is_empty()
    }

    /// Returns true when moved allocations may be placed in this block.
    pub(super) fn may_take(&self) -> bool {
        self.shared && !self.of_another_run && !self.is_empty()
    }
}
