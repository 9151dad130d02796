//! Pools: a lock, a block set for each memory type, the records of the allocations, and the pool's rules.
//!
//! A default pool serves one memory type, one lifetime, and linear or optimal resources; a custom pool serves what
//! its user directs there. Both are the same type with other [`Rules`].
//!
//! The files are the steps of an allocation that a pool takes, with the numbers that `allocator/allocate.rs` gives them:
//!
//! | file | step | entry |
//! |---|---|---|
//! | `quick_path.rs` | 0: reuse a range that was freed a moment ago | [`place_quickly`](PoolState::place_quickly) |
//! | `place.rs` | 0: or search the shared blocks, for a request that surely shares one | [`place_in_shared`](PoolState::place_in_shared) |
//! | `round.rs` | 3: round the request; choose a shared or a dedicated block | [`round_request`](PoolState::round_request) |
//! | `place.rs` | 4: search the existing blocks | [`place_in_existing`](PoolState::place_in_existing) |
//! | `plan.rs` | 6: choose the sizes of a new block | [`plan_block`](PoolState::plan_block) |
//! | `pending.rs` | 7: allocate it without the lock; other threads wait | [`PendingBlock`] |
//! | `place.rs` | 8: add the block and place the request in it | [`place_in_new_block`](PoolState::place_in_new_block) |
//! | `records.rs` | 4 and 8: write the record that the token names | [`publish`](PoolState::publish) |
//!
//! `requests.rs` has what a request asks of a shard, step by step.
//!
//! The way back is in `free.rs`, `left_frees.rs` where threads meet, and `empty.rs`, which decides which empty blocks are freed; `active.rs` has the pools in which
//! that may change with time; `shrink.rs` returns the host memory of a peak. `events.rs` writes what happens, for a reader.
//!
//! Runs that move allocations ask in this order: `survey.rs`, `emptying.rs`, `reserve.rs`, `moves.rs`; and `room.rs`, where
//! they make room for a request.

mod active;
mod allocator_desc;
mod announce;
mod clock;
mod custom_pools;
mod dedicated;
mod desc;
mod empty;
mod emptying;
mod error;
mod events;
mod free;
mod growth_ahead;
mod invariants;
mod left_frees;
mod maintenance;
mod moves;
mod pending;
mod pieces;
mod place;
mod plan;
mod pools;
mod quick_path;
mod records;
mod requests;
mod reserve;
mod residents;
mod room;
mod round;
mod served;
mod shards;
mod shrink;
mod slots;
mod statistics;
mod survey;
mod two_shards;
mod use_of_shard;

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Once, RwLock};

use allotment_suballoc::{Algorithm, Alignment};

use super::block_set::BlockSet;
use super::token::{MemoryObjects, Record, RecordTable};
use super::{BudgetPolicy, Dedicated, Name};
use crate::choices::blocks::{BlockSize, EmptyBlockPolicy};
use crate::chunks::Chunks;
use crate::device::{Device, Priority, PrioritySupport};
use crate::events::EventLog;
use crate::memory::request::{MAX_POOL_TYPES, PoolShards, other_set};
use crate::slab::Slab;
use crate::sync::{TurnMutex, locked};
use crate::table::Ahead;

// For programs: the descriptions of an allocator and of a pool, the handle of a pool, and how its blocks grow.
pub use self::allocator_desc::AllocatorDesc;
pub use self::desc::PoolDesc;
pub use self::error::{CreatePoolError, DestroyPoolError};
pub use self::growth_ahead::{BlockGrowth, Watermark};
pub use self::residents::allocate_as_thread;
pub(super) use crate::memory::request::Pool;

// All pools of an allocator, and a custom one on its way.
pub(super) use self::custom_pools::{FirstBlock, NewPool};
pub(super) use self::invariants::check_pool;
pub(super) use self::pools::{Pools, Settled};
pub(super) use self::served::Served;
pub(super) use self::slots::PoolSlots;

// A request of a shard, and its answers.
pub(super) use self::dedicated::DedicatedForResource;
pub(super) use self::events::refused_request;
pub(super) use self::pending::PendingBlock;
pub(super) use self::place::LentBlock;
pub(super) use self::plan::{BlockPlan, PlanSizes, Source};
pub(super) use self::quick_path::{QuickPlace, RecordInUse};
pub(super) use self::requests::{Answer, Asked, Expected, NeededBlock, Placed, WouldPlace};
pub(super) use self::round::RoundedRequest;
pub(super) use self::shards::{LockedShard, both_sets};

// The way back: the end of an allocation, and blocks that become empty.
pub(super) use self::free::{AfterFree, EndedAllocation, Freed};
pub(super) use self::left_frees::{Leave, PoolGuard, Taking};

// What runs that move allocations ask of a pool.
pub(super) use self::emptying::{AfterClosing, BlockOfSet, Close, CloseHow, ClosedBlock};
pub(super) use self::moves::{BegunMove, MayBegin, MoveEnd, after_retirement};
pub(super) use self::reserve::{NewPlace, ReservedPlace};
pub(super) use self::room::Needed;
pub(super) use self::survey::{SetSeen, SurveyedAllocation};
pub(super) use self::two_shards::TwoShards;

// What is read of allocations, blocks and pools.
pub(super) use self::pieces::{SeenKind, SeenRegion};
pub(super) use self::records::{Detail, DetailState, HeldRange, Label};
pub(super) use self::statistics::Description;

// What a pool and its shards consist of, beside the types below.
pub(super) use self::clock::Clock;
pub(super) use self::desc::MAX_POOL_SETS;
pub(super) use self::events::PoolEvents;
pub(super) use self::growth_ahead::Flow;
pub(super) use self::use_of_shard::UseOfShard;

use self::active::{ActivePools, Rest};
use self::left_frees::LeftFrees;
use self::statistics::CountersOfSets;

/// The configuration of a pool, custom or default.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Rules<D: Device> {
    pub(super) alignment: Alignment,
    /// The multiple that optimal images are rounded up to, so that they share no page with linear resources.
    pub(super) granularity: Alignment,
    pub(super) algorithm: Algorithm,
    pub(super) sizing: BlockSize,
    /// This shard's part of the pool's minimum, by memory type.
    pub(super) min_blocks: [u32; MAX_POOL_TYPES],
    pub(super) max_blocks: u32,
    /// Movable allocations have block sets of their own; see [`PoolState::other_set`].
    pub(super) separate_movable: bool,
    pub(super) empty_blocks: EmptyBlockPolicy,
    /// What [`Dedicated::Automatic`] means.
    pub(super) dedicated: Dedicated,
    pub(super) budget: BudgetPolicy,
    /// The residency priority of shared blocks.
    pub(super) priority: Priority,
    /// When the device accepts priorities.
    pub(super) priorities: PrioritySupport,
    pub(super) options: Option<D::MemoryOptions>,
    /// How much room the maintenance thread keeps ahead of demand, where there is one.
    pub(super) ahead: Option<Watermark>,
    pub(super) name: Option<Name>,
}

impl<D: Device> Rules<D> {
    /// Returns those of another shard.
    fn of_sibling(&self) -> Self {
        Self {
            // The blocks of the minimum were allocated in shard 0, and take their part of it along where they are lent.
            min_blocks: [0; MAX_POOL_TYPES],
            options: self.options.clone(),
            name: self.name.clone(),
            ..*self
        }
    }
}

/// A slot that holds a pool, or one shard of it, or none.
///
/// Aligned to 128 bytes, since many processors prefetch cache lines in pairs: threads in different pools share no line.
///
/// In this order, with what each allocation and free reads and writes at the beginning: of a thousand pools that are used in turn,
/// none is in a cache.
#[derive(Debug)]
#[repr(C, align(128))]
pub(super) struct PoolSlot<D: Device> {
    pub(super) state: TurnMutex<Option<PoolState<D>>>,
    pub(super) counters: CountersOfSets,
    pub(super) records: RecordTable,
    /// Makes the state of a default pool when a request first needs it. Unused in a custom pool.
    pub(super) made: Once,
    /// Frees that threads left which found the lock taken. Made when the first one does.
    left: LeftFrees,
    /// There is a state. Written with the lock held, and read without it for a shard of a custom pool, which is made when a
    /// thread needs it: later pools use the slot again.
    has_pool: AtomicBool,
    /// Locked shared while a thread accesses memory through a token whose allocation may move; locked exclusively
    /// while allocations move or the pool is reset. Taken before `state`. A reset takes those of all shards; a thread
    /// that holds one takes no other.
    pub(super) changes: RwLock<()>,
    /// Notified when a [`PendingBlock`] ends, with or without memory.
    pub(super) grown: Condvar,
    /// The memory objects that the records name, of all pools.
    pub(super) objects: Arc<MemoryObjects>,
}

impl<D: Device> PoolSlot<D> {
    fn new(objects: Arc<MemoryObjects>) -> Self {
        Self {
            state: TurnMutex::new(None),
            made: Once::new(),
            left: LeftFrees::default(),
            has_pool: AtomicBool::new(false),
            changes: RwLock::new(()),
            grown: Condvar::new(),
            records: RecordTable::default(),
            objects,
            counters: CountersOfSets::default(),
        }
    }

    /// Takes the pool out of its slot, with all that it has.
    pub(super) fn take_pool(&self) -> Option<PoolState<D>> {
        let mut guard = locked(&self.state);
        guard.iter_mut().for_each(PoolState::end_active);
        self.note_pool(false);
        guard.take()
    }

    /// Notes that the slot has a pool from here on, or none. The caller holds the lock.
    fn note_pool(&self, has: bool) {
        // Relaxed: whoever finds it takes the lock, or the slow way to it once more.
        self.has_pool.store(has, Relaxed);
    }

    /// Returns true if there is a pool in the slot, or a shard of one.
    fn has_pool(&self) -> bool {
        self.has_pool.load(Relaxed)
    }

    /// Returns true if the pool has memory objects. Reads counters without the lock, so the answer may be outdated.
    pub(super) fn has_memory(&self) -> bool {
        self.counters.iter().any(|counters| counters.have_memory())
    }
}

/// The part of a pool, or of one shard of it, that its lock guards.
///
/// In this order, with what each allocation and free reads and writes at the beginning: of a thousand pools that are used in turn,
/// none is in a cache.
#[derive(Debug)]
#[repr(C)]
pub(super) struct PoolState<D: Device> {
    /// Whether threads allocate here at present.
    pub(super) use_of_shard: UseOfShard,
    pub(super) shard: u32,
    /// Ranges in the quick lists of all sets.
    waiting: usize,
    pub(super) sets: Vec<BlockSet<D>>,
    /// By the index of the record. Invariant: no vacant record is spent; spent ones are out of use for good.
    details: Slab<Detail>,
    /// Whether the ends of frames visit the pool.
    rest: Rest,
    active: Arc<ActivePools>,
    pub(super) clock: Clock,
    /// Bytes that requests took out of blocks, frame by frame.
    pub(super) flow: Flow,
    /// Where the pool writes what happens.
    pub(super) events: PoolEvents,
    pub(super) rules: Rules<D>,
    /// The shards of its pool, and which of them this is.
    pub(super) shards: PoolShards,
    /// By the same index. Invariant: empty where the detail is not `labelled`, waits, or is vacant. Those of the first record
    /// alone are made when it has a label.
    labels: Chunks<Label>,
    /// Records that the next allocations may need.
    next_records: Ahead<Record>,
    /// Memory objects that threads are allocating for the pool.
    pub(super) pending: u32,
    /// Until this tick no block is freed, since [`Allocator::reserve`](crate::Allocator::reserve) allocated it.
    pub(super) reserved_until: u64,
    /// The tick at which the maintenance thread was refused a block. It tries again in the next.
    pub(super) refused_ahead: Option<u64>,
    /// The key of the run with passes that may move the pool's allocations; 0 where there is none.
    defragmented: u64,
    /// Memory that was reused, and its new priority: the thread that holds the lock passes it to the device once it has
    /// released the lock.
    pub(super) changed_priority: Option<(D::Memory, Priority)>,
}

impl<D: Device> PoolState<D> {
    fn new(
        rules: Rules<D>,
        (shards, shard): (PoolShards, u32),
        mut sets: Vec<BlockSet<D>>,
        active: &Arc<ActivePools>,
        log: &EventLog,
    ) -> Self {
        sets.iter_mut().for_each(|set| {
            set.always_shared = rules.sizing.always_shared(set.heap_size, rules.dedicated);
        });
        Self {
            rules,
            shards,
            shard,
            sets,
            details: Slab::new(),
            labels: Chunks::new(),
            next_records: Ahead::new(),
            clock: Clock::default(),
            rest: Rest::beginning(active),
            active: Arc::clone(active),
            use_of_shard: UseOfShard::default(),
            waiting: 0,
            pending: 0,
            flow: Flow::default(),
            reserved_until: 0,
            refused_ahead: None,
            defragmented: 0,
            changed_priority: None,
            events: PoolEvents::new(log),
        }
    }

    /// Returns the set of the same memory type for movable allocations where `set` serves pinned ones, or the other way
    /// round, in a pool that keeps them apart.
    pub(super) fn other_set(&self, set: usize) -> Option<usize> {
        let separate = self.rules.separate_movable;
        other_set(set, if separate { self.sets.len() / 2 } else { self.sets.len() }, separate)
    }

    /// Returns the sets of the first memory type: one, or two in a pool that keeps movable allocations apart.
    fn first_sets(&self) -> impl Iterator<Item = usize> + use<D> {
        core::iter::once(0).chain(self.other_set(0))
    }

    /// Returns the number of shared blocks of the memory type of a set.
    pub(super) fn blocks_of_type(&self, set: usize) -> u32 {
        let sets = core::iter::once(set).chain(self.other_set(set));
        sets.map(|set| self.sets[set].statistics.blocks).sum()
    }

    /// Returns the shared blocks of the memory type of a set that the pool keeps.
    pub(super) fn minimum(&self, set: usize) -> u32 {
        self.rules.min_blocks.get(self.type_position(set)).copied().unwrap_or(0)
    }

    /// Changes the minimum of the memory type of a set, where a block of it goes to another shard or comes from one.
    fn change_minimum(&mut self, set: usize, change: impl FnOnce(u32) -> u32) {
        let position = self.type_position(set);
        if let Some(blocks) = self.rules.min_blocks.get_mut(position) {
            *blocks = change(*blocks);
        }
    }

    /// Returns the shared blocks of a set that the pool keeps for its minimum: those of movable allocations as far as they
    /// go, the rest of the set of pinned ones.
    fn least_blocks(&self, set: usize) -> u32 {
        let (minimum, pinned) = (self.minimum(set), self.type_position(set));
        let movable = self.other_set(pinned);
        let of_movable = movable.map_or(0, |movable| self.sets[movable].statistics.blocks.min(minimum));
        if set == pinned { minimum - of_movable } else { of_movable }
    }

    /// Returns the position of the memory type of a set in the pool.
    fn type_position(&self, set: usize) -> usize {
        if self.rules.separate_movable { set % (self.sets.len() / 2) } else { set }
    }

    /// Returns the tick of the pool's clock.
    pub(super) fn now(&self) -> u64 {
        self.clock.now
    }
}
