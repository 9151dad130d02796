//! The layout of the pools that are defragmented, read in many short steps.
//!
//! Each step copies some records out of a pool under its lock, for some microseconds; between two steps the pool
//! changes. So a survey is never wholly accurate, and each fact is checked again under the lock before it is acted on:
//! a survey decides what is tried, never whether it is correct.

use core::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use super::desc::JoinThreads;
use super::stopwatch::Stopwatch;
use crate::chunks::Chunks;
use crate::device::Device;
use crate::memory::Movability;
use crate::memory::allocator::Allocator;
use crate::memory::mover::{MovedBy, Mover, MoverId};
use crate::memory::pool::{MAX_POOL_SETS, Served, SetSeen, SurveyedAllocation};
use crate::memory::request::PoolShards;

/// Allocations that are surveyed per lock: 64 bytes each, some five microseconds.
const AT_ONCE: u32 = 256;

/// One block set: of one memory type, in one shard of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Arena {
    pub(super) pool: u32,
    pub(super) set: u8,
}

/// The pools that are defragmented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All default pools.
    DefaultPools,
    /// A custom pool, with all its shards.
    Pool(PoolShards),
}

impl Scope {
    /// Returns the pools, of default pools those that a mover has allocations in.
    pub(super) fn pools<D: Device>(self, allocator: &Allocator<D>, mover: MoverId) -> Vec<SurveyedPool> {
        let all = |shards| SurveyedPool { shards, set: None };
        match self {
            Self::DefaultPools => {
                // Passes have a plan that says what is in all pools.
                let serves_it = |served: Served| {
                    let serves = |mover| served.movers == MoverId::group(Some(mover));
                    !mover.is_defragmenter() || serves(mover) || serves(mover.owners())
                };
                let places = 0..allocator.pools.pools_per_shard();
                let places = places.filter(|&place| serves_it(Served::by(place).1));
                places.map(|place| all(allocator.pools.shards_of_default(place))).collect()
            }
            Self::Pool(shards) => vec![all(shards)],
        }
    }
}

/// A pool to be surveyed: all its block sets, or one.
#[derive(Clone, Copy, Debug)]
pub(super) struct SurveyedPool {
    pub(super) shards: PoolShards,
    pub(super) set: Option<u8>,
}

/// A block as the survey saw it.
#[derive(Debug)]
pub(super) struct SurveyedBlock {
    /// Which of the arena's block sets has it, and its index there.
    pub(super) member: usize,
    pub(super) index: u32,
    pub(super) size: u64,
    pub(super) shared: bool,
    /// An allocation in it cannot be moved, so the block cannot be emptied.
    pub(super) pinned: bool,
    /// Another run is emptying the block, or is going to; or an earlier one has, and its old places are not free yet.
    pub(super) of_another_run: bool,
    /// Who moves its allocations. A block is emptied where one moves all.
    pub(super) moved_by: MoversOfBlock,
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
    /// The free ranges between them, once these were found: offsets and sizes.
    pub(super) holes: Vec<(u64, u64)>,
}

/// By whom the allocations of a block are moved that are not pinned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum MoversOfBlock {
    /// It has no such allocation.
    #[default]
    Nobody,
    /// By the run.
    Own,
    /// By their owners, who accept moves that the run offers.
    Owners,
    /// By another mover.
    Another,
    /// Not all by the same.
    Several,
}

impl MoversOfBlock {
    fn add(&mut self, by: MovedBy) {
        let by = match by {
            MovedBy::Own => Self::Own,
            MovedBy::Owner => Self::Owners,
            MovedBy::Other => Self::Another,
        };
        *self = if *self == Self::Nobody || *self == by { by } else { Self::Several };
    }

    /// Returns true if the run cannot empty the block, since it does not move all of the allocations alike.
    pub(super) fn are_others(self) -> bool {
        matches!(self, Self::Another | Self::Several)
    }

    /// Returns true if the owners of its allocations move them.
    pub(super) fn are_owners(self) -> bool {
        self == Self::Owners
    }
}

/// Block sets that are treated as one, as the survey saw them: of one shard of a pool, or of all whose blocks may be
/// joined. Allocations are moved within them.
#[derive(Debug)]
pub(super) struct SurveyedArena {
    pub(super) members: Vec<Member>,
    pub(super) blocks: Vec<SurveyedBlock>,
    pub(super) allocations: Chunks<SurveyedAllocation>,
    /// Bytes that must stay free for coming requests.
    pub(super) ahead: u64,
    /// Its shards may be joined with others.
    joined: bool,
}

/// A block set of an arena.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) arena: Arena,
    /// The requests that its shard had served.
    pub(super) requests: u32,
    /// The least number of shared blocks that the shard keeps, empty or not.
    pub(super) least_blocks: u32,
    /// The position in the arena's blocks of each block index.
    place_of: Vec<u32>,
}

/// The survey so far.
#[derive(Debug, Default)]
pub(super) struct Survey {
    pub(super) arenas: Vec<SurveyedArena>,
    pools: Vec<SurveyedPool>,
    /// The current pool, and its next shard and record; `None` before its blocks were read.
    at: (usize, Option<(u32, u32)>),
    /// The first arena of the current pool.
    first: usize,
    join_threads: JoinThreads,
    /// Larger allocations are not moved, but by their owners.
    largest: u64,
    /// The key of the run.
    key: u64,
}

impl Survey {
    /// Begins a survey in which allocations larger than `largest` bytes count as pinned.
    pub(super) fn new(
        pools: Vec<SurveyedPool>,
        join_threads: JoinThreads,
        largest: u64,
        Mover { key, .. }: Mover,
    ) -> Self {
        Self { arenas: Vec::new(), pools, at: (0, None), first: 0, join_threads, largest, key }
    }

    /// Returns a survey that is complete.
    pub(super) fn of_arenas(arenas: Vec<SurveyedArena>) -> Self {
        Self { arenas, ..Self::default() }
    }

    /// Takes the survey out.
    pub(super) fn take(&mut self) -> Self {
        core::mem::take(self)
    }

    /// Drops a small piece of what was read. Returns false once nothing is left.
    pub(super) fn drop_piece(&mut self) -> bool {
        let Some(arena) = self.arenas.last_mut() else { return false };
        if !arena.allocations.drop_chunk() && arena.blocks.pop().is_none() {
            self.arenas.pop();
        }
        true
    }

    /// Continues the survey until the time is over. Returns true once all pools were read.
    pub(super) fn step<D: Device>(
        &mut self,
        allocator: &Allocator<D>,
        moved_by: impl Fn(&SurveyedAllocation) -> Option<MovedBy>,
        time: &mut Stopwatch,
    ) -> bool {
        // `at` says what comes next, in this order for each pool:
        //   (pool, None)                     the blocks of all its shards
        //   (pool, Some((shard, record)))    a batch of the records of one shard
        // Blocks come before records, so that each allocation finds its block. Requests come and go between two
        // batches: an allocation that is placed behind the survey's back is found when its block is closed, and one
        // that is freed then is missing when its place is to be reserved.
        // Allocated before the lock is taken: the heap is not used under it.
        let mut seen = Vec::with_capacity(AT_ONCE as usize);
        while let Some(&pool) = self.pools.get(self.at.0) {
            match self.at.1 {
                None => {
                    self.first = self.arenas.len();
                    pool.shards.indices().for_each(|index| self.look_at_blocks(allocator, pool, index));
                    self.at.1 = Some((0, 0));
                }
                // The records of all shards, since an allocation may be in a block of another one; those of a pool without
                // a block need not be read.
                Some((shard, first)) if shard < pool.shards.count && self.first < self.arenas.len() => {
                    let index = pool.shards.index(shard as u8);
                    let slot = allocator.pools.get(index);
                    let more = slot.is_some_and(|slot| slot.survey_records(first, AT_ONCE, &mut seen));
                    for allocation in seen.drain(..) {
                        // No lock is held here: the pool goes on while the copies are sorted into their blocks.
                        let fits = |by: &MovedBy| *by != MovedBy::Own || allocation.size <= self.largest;
                        let by = moved_by(&allocation).filter(fits);
                        self.add(allocation, by);
                    }
                    self.at.1 = Some(if more { (shard, first + AT_ONCE) } else { (shard + 1, 0) });
                }
                Some(_) => {
                    self.at = (self.at.0 + 1, None);
                    // No lock was taken, so no time has passed.
                    continue;
                }
            }
            // The clock is read after each batch: the counter of `is_over` is for much smaller pieces of work.
            if time.is_over_now() {
                break;
            }
        }
        self.at.0 == self.pools.len()
    }

    /// Reads the blocks of a shard.
    fn look_at_blocks<D: Device>(&mut self, allocator: &Allocator<D>, pool: SurveyedPool, index: u32) {
        // A shard without memory has nothing to move, and a default pool's state may not have been created yet.
        let Some(slot) = allocator.pools.get(index).filter(|slot| slot.has_memory()) else { return };
        let tick = allocator.pools.now().tick;
        for set in 0..MAX_POOL_SETS as u8 {
            if pool.set.is_some_and(|only| only != set) {
                continue;
            }
            // The index is built from the copy, outside the lock.
            let Some((seen, blocks)) = slot.survey_blocks(set, self.key, tick) else { break };
            let joins = match self.join_threads {
                JoinThreads::Always => true,
                JoinThreads::WhenIdle => seen.is_idle,
                JoinThreads::Never => false,
            };
            // The requests are compared when a block is closed: an idle shard that has served one since then is in use again.
            let SetSeen { requests, least_blocks, ahead, .. } = seen;
            let member =
                Member { arena: Arena { pool: index, set }, requests, least_blocks, place_of: Vec::new() };
            let blocks = blocks.into_iter().map(|seen| SurveyedBlock {
                of_another_run: seen.of_another_run,
                ..SurveyedBlock::new(seen.index, seen.size, seen.shared)
            });
            let arena = self.arena_for(set, joins);
            arena.ahead += ahead;
            arena.add_blocks(member, blocks.collect());
        }
    }

    /// Returns the arena of the current pool for the blocks of a set: that of all shards that are joined, or a new one.
    fn arena_for(&mut self, set: u8, joins: bool) -> &mut SurveyedArena {
        // With `WhenIdle`, of a pool whose second shard is in use, two arenas:
        //   shard 0  idle    [a b ░ ░] [c ░ ░ ░]  ┐
        //   shard 2  idle    [d ░ e ░]            ┘ one, within which moves go anywhere
        //   shard 1  in use  [f ░ ░ ░] [g ░ ░ ░]    another, of its own: nothing comes in, nothing leaves
        let is_it = |arena: &SurveyedArena| {
            joins && arena.joined && arena.members.iter().all(|member| member.arena.set == set)
        };
        let found = self.arenas[self.first..].iter().position(is_it).map(|at| self.first + at);
        let at = found.unwrap_or_else(|| {
            self.arenas.push(SurveyedArena {
                members: Vec::new(),
                blocks: Vec::new(),
                allocations: Chunks::new(),
                ahead: 0,
                joined: joins,
            });
            self.arenas.len() - 1
        });
        &mut self.arenas[at]
    }

    /// Adds an allocation to the arena of its block.
    fn add(&mut self, allocation: SurveyedAllocation, by: Option<MovedBy>) {
        let Some(pool) = self.pools.get(self.at.0) else { return };
        let home = Arena { pool: pool.shards.index(allocation.home), set: allocation.set };
        let of = |arena: &SurveyedArena| arena.members.iter().position(|member| member.arena == home);
        let arenas = self.arenas[self.first..].iter_mut();
        let Some((arena, member)) = arenas.filter_map(|arena| of(arena).map(|at| (arena, at))).next() else {
            return;
        };
        arena.add(member, allocation, by);
    }
}

impl SurveyedArena {
    /// Returns the arena of one block set.
    pub(super) fn of_set(arena: Arena, least_blocks: u32, blocks: Vec<SurveyedBlock>) -> Self {
        let mut of_set = Self {
            members: Vec::new(),
            blocks: Vec::new(),
            allocations: Chunks::new(),
            ahead: 0,
            joined: false,
        };
        of_set.add_blocks(Member { arena, requests: 0, least_blocks, place_of: Vec::new() }, blocks);
        of_set
    }

    /// Adds a block set.
    fn add_blocks(&mut self, mut member: Member, blocks: Vec<SurveyedBlock>) {
        let count = blocks.iter().map(|block| block.index as usize + 1).max().unwrap_or(0);
        // An array: block indices are small, and each record looks its block up.
        // An index without a block gets a position beyond every list.
        member.place_of.resize(count, u32::MAX);
        for (at, block) in (self.blocks.len() as u32..).zip(&blocks) {
            member.place_of[block.index as usize] = at;
        }
        let number = self.members.len();
        self.blocks.extend(blocks.into_iter().map(|block| SurveyedBlock { member: number, ..block }));
        self.members.push(member);
    }

    /// Returns of each member how many shared blocks can be freed beside those that are empty already: its shard keeps its
    /// part of the pool's minimum.
    pub(super) fn spare_blocks(&self) -> Vec<u32> {
        let mut spare = vec![0_u32; self.members.len()];
        let in_use = self.blocks.iter().filter(|block| block.shared && !block.is_empty());
        in_use.for_each(|block| spare[block.member] += 1);
        let members = spare.iter_mut().zip(&self.members);
        members.for_each(|(spare, member)| *spare = spare.saturating_sub(member.least_blocks));
        spare
    }

    /// Returns the shards that are joined, each with the requests that it had served; none where the arena is of one.
    pub(super) fn joined_shards(&self) -> Arc<[(u32, u32)]> {
        if self.members.len() == 1 {
            return Arc::new([]);
        }
        self.members.iter().map(|member| (member.arena.pool, member.requests)).collect()
    }

    /// Returns the block set of a block, and its index there.
    pub(super) fn block(&self, at: usize) -> (Arena, u32) {
        let block = &self.blocks[at];
        (self.members[block.member].arena, block.index)
    }

    /// Adds an allocation to its block, and by whom it is moved; `None` where it stays.
    pub(super) fn add(&mut self, member: usize, mut allocation: SurveyedAllocation, by: Option<MovedBy>) {
        // A block that was added after the blocks were read is not part of this survey.
        let Some(&at) = self.members[member].place_of.get(allocation.block as usize) else { return };
        let Some(block) = self.blocks.get_mut(at as usize) else { return };
        let copied = if allocation.movability == Movability::Copied { allocation.size } else { 0 };
        match by {
            // Pinned by its owner, mapped, or on its way already, whoever moves it: asked before the movers.
            _ if allocation.movability == Movability::Pinned => block.pinned = true,
            // Larger than a pass, or its move was ignored before: for this run it is as good as pinned, and all that reads
            // the survey later shall see it so.
            None => {
                block.pinned = true;
                allocation.movability = Movability::Pinned;
            }
            Some(by) => block.moved_by.add(by),
        }
        block.occupied += allocation.taken;
        block.needed += allocation.needed;
        block.cost += copied;
        // Where it lies matters as well for what stays: the holes of its block are found between the ranges.
        block.ranges.push(Reverse((allocation.offset, allocation.taken)));
        block.allocations.push(self.allocations.len() as u32);
        self.allocations.push(allocation);
    }
}

impl SurveyedBlock {
    /// Returns a block without allocations, which no run has claimed.
    pub(super) fn new(index: u32, size: u64, shared: bool) -> Self {
        Self {
            member: 0,
            index,
            size,
            shared,
            pinned: false,
            of_another_run: false,
            moved_by: MoversOfBlock::default(),
            occupied: 0,
            needed: 0,
            cost: 0,
            allocations: Vec::new(),
            ranges: BinaryHeap::new(),
            holes: Vec::new(),
        }
    }

    /// Returns true if the block could be emptied.
    pub(super) fn may_go(&self) -> bool {
        !self.pinned && !self.moved_by.are_others() && !self.of_another_run && !self.is_empty()
    }

    /// Returns true if only other movers keep the run from emptying the block.
    pub(super) fn is_left_to_others(&self) -> bool {
        !self.pinned && !self.is_empty() && (self.moved_by.are_others() || self.of_another_run)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.allocations.is_empty()
    }

    /// Returns true if the block takes part where blocks are emptied to be freed.
    pub(super) fn may_leave(&self) -> bool {
        !self.of_another_run && !self.is_empty()
    }

    /// Returns true when moved allocations may be placed in this block.
    pub(super) fn may_take(&self) -> bool {
        // Of a pool that does not keep them apart: a block that another mover could empty is not made one that nobody can.
        let of_others = self.moved_by == MoversOfBlock::Another && !self.pinned;
        self.shared && !self.of_another_run && !self.is_empty() && !of_others
    }
}
