//! What stands where in the pools that are defragmented, from many short looks.
//!
//! Each look copies some records out of a pool under its lock, for some microseconds; between two of them the pool
//! changes. So what a survey says is never wholly true, and all that follows from it is checked once more before it is
//! done: a survey decides what is tried, never what is right.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use super::stopwatch::Stopwatch;
use crate::device::Device;
use crate::memory::Movability;
use crate::memory::allocator::Allocator;
use crate::memory::block_set::Role;
use crate::memory::moves::Standing;
use crate::memory::pool::PoolSlot;
use crate::memory::statistics::Counters;
use crate::sync::locked;

/// Records that are copied under the lock at once: 64 bytes each, some five microseconds.
const AT_ONCE: u32 = 256;

/// One memory type of one pool: within it, allocations move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Arena {
    pub(super) pool: u32,
    pub(super) set: u8,
}

/// Which pools are defragmented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::memory) enum Scope {
    /// All default ones.
    DefaultPools,
    /// A custom one, by its index.
    Pool(u32),
}

impl Scope {
    /// The arenas that there are now.
    pub(super) fn arenas<D: Device>(self, allocator: &Allocator<D>) -> Vec<Arena> {
        let sets = |(pool, slot): (u32, &PoolSlot<D>)| {
            let count = locked(&slot.state).as_ref().map_or(0, |state| state.sets.len());
            (0..count as u8).map(move |set| Arena { pool, set })
        };
        match self {
            Self::DefaultPools => {
                let pools = allocator
                    .indexed_slots()
                    .take_while(|(index, _)| *index < allocator.default_pool_count());
                pools.filter(|(_, slot)| slot.has_memory()).flat_map(sets).collect()
            }
            Self::Pool(index) => {
                let slot = allocator.pools.get(index);
                slot.into_iter().flat_map(|slot| sets((index, slot))).collect()
            }
        }
    }
}

/// A block as it was seen.
#[derive(Debug)]
pub(super) struct SurveyedBlock {
    pub(super) index: u32,
    pub(super) size: u64,
    pub(super) shared: bool,
    /// Something in it stays, so that it cannot be emptied.
    pub(super) pinned: bool,
    /// It is closed already.
    pub(super) closed: bool,
    /// Bytes of ranges in it.
    pub(super) occupied: u64,
    /// Bytes that its allocations need elsewhere.
    pub(super) needed: u64,
    /// Bytes that would be copied.
    pub(super) cost: u64,
    /// Its allocations, as indices into those of the arena.
    pub(super) standing: Vec<u32>,
    /// Their ranges by offset; taken out in order when the gaps between them are looked for.
    pub(super) ranges: BinaryHeap<Reverse<(u64, u64)>>,
}

/// An arena as it was seen.
#[derive(Debug)]
pub(super) struct SurveyedArena {
    pub(super) arena: Arena,
    pub(super) blocks: Vec<SurveyedBlock>,
    pub(super) standings: Vec<Standing>,
    /// Shared blocks that the pool keeps, whether or not they are empty.
    pub(super) least_blocks: u32,
    /// Bytes that stay free for who comes next.
    pub(super) ahead: u64,
    /// Where a block's index leads in `blocks`.
    place_of: Vec<u32>,
}

/// What is looked at, and how far.
#[derive(Debug)]
pub(super) struct Survey {
    pub(super) arenas: Vec<SurveyedArena>,
    /// The arena that is looked at, and the record in it that comes next; `None` before its blocks were.
    at: (usize, Option<u32>),
    /// Allocations that are larger stay.
    largest: u64,
}

impl Survey {
    /// A survey in which allocations stay that are larger than `largest` bytes.
    pub(super) fn new(arenas: Vec<Arena>, largest: u64) -> Self {
        let arenas = arenas.into_iter().map(|arena| SurveyedArena {
            arena,
            blocks: Vec::new(),
            standings: Vec::new(),
            least_blocks: 0,
            ahead: 0,
            place_of: Vec::new(),
        });
        Self { arenas: arenas.collect(), at: (0, None), largest }
    }

    /// Looks on. True once everything was looked at.
    pub(super) fn step<D: Device>(
        &mut self,
        allocator: &Allocator<D>,
        stays: impl Fn(u32, &Standing) -> bool,
        time: &mut Stopwatch,
    ) -> bool {
        let mut seen = Vec::with_capacity(AT_ONCE as usize);
        while let Some(surveyed) = self.arenas.get_mut(self.at.0) {
            match self.at.1 {
                None => {
                    surveyed.look_at_blocks(allocator);
                    self.at.1 = Some(0);
                }
                Some(first) => {
                    let more = surveyed.look_at_records(allocator, first, &mut seen);
                    let pool = surveyed.arena.pool;
                    for standing in seen.drain(..) {
                        surveyed.add(standing, standing.size > self.largest || stays(pool, &standing));
                    }
                    self.at = if more { (self.at.0, Some(first + AT_ONCE)) } else { (self.at.0 + 1, None) };
                }
            }
            if time.is_over_now() {
                break;
            }
        }
        self.at.0 == self.arenas.len()
    }
}

impl SurveyedArena {
    fn look_at_blocks<D: Device>(&mut self, allocator: &Allocator<D>) {
        let Some(slot) = allocator.pools.get(self.arena.pool) else { return };
        let there = slot.counters.get(usize::from(self.arena.set)).map(Counters::load).unwrap_or_default();
        self.blocks.reserve((there.blocks + there.dedicated) as usize);
        self.standings.reserve(there.allocations as usize);
        let guard = locked(&slot.state);
        let Some(state) = guard.as_ref() else { return };
        let first = self.arena.set == 0;
        self.least_blocks = if first { state.rules.min_blocks } else { 0 };
        self.ahead = if first { state.room_to_keep() } else { 0 };
        self.blocks.extend(state.sets[usize::from(self.arena.set)].blocks().map(|(index, block)| {
            SurveyedBlock {
                index,
                size: block.memory.size(),
                shared: block.role == Role::Shared,
                pinned: false,
                closed: block.is_closed(),
                occupied: 0,
                needed: 0,
                cost: 0,
                standing: Vec::new(),
                ranges: BinaryHeap::new(),
            }
        }));
        drop(guard);
        let count = self.blocks.iter().map(|block| block.index as usize + 1).max().unwrap_or(0);
        self.place_of.resize(count, u32::MAX);
        for (at, block) in self.blocks.iter().enumerate() {
            self.place_of[block.index as usize] = at as u32;
        }
    }

    /// True where there are more records.
    fn look_at_records<D: Device>(
        &self,
        allocator: &Allocator<D>,
        first: u32,
        seen: &mut Vec<Standing>,
    ) -> bool {
        let Some(slot) = allocator.pools.get(self.arena.pool) else { return false };
        let guard = locked(&slot.state);
        let Some(state) = guard.as_ref() else { return false };
        state.standings(slot, first, AT_ONCE, |standing| {
            if standing.set == self.arena.set {
                seen.push(standing);
            }
        });
        first.saturating_add(AT_ONCE) < state.records()
    }

    fn add(&mut self, standing: Standing, stays: bool) {
        // A block that came after they were looked at is none of this survey's.
        let Some(&at) = self.place_of.get(standing.block as usize) else { return };
        let Some(block) = self.blocks.get_mut(at as usize) else { return };
        block.pinned |= stays || standing.movability == Movability::Pinned;
        block.occupied += standing.taken;
        block.needed += standing.needed;
        block.cost += if standing.movability == Movability::Copied { standing.size } else { 0 };
        block.ranges.push(Reverse((standing.offset, standing.taken)));
        block.standing.push(self.standings.len() as u32);
        self.standings.push(standing);
    }
}

impl SurveyedBlock {
    pub(super) fn is_empty(&self) -> bool {
        self.standing.is_empty()
    }

    /// True where what is moved may go there.
    pub(super) fn may_take(&self) -> bool {
        self.shared && !self.closed && !self.is_empty()
    }
}
