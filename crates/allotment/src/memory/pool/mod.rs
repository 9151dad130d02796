//! Pools: a lock, block sets by memory type, the records of what is allocated, and their rules.
//!
//! A default pool serves one memory type for one lifetime and one side of the granularity; a custom pool
//! serves what its user wants. They are the same thing with other rules.

mod desc;
mod empty;
mod free;
mod invariants;
mod pending;
mod place;
mod plan;
mod quick;
mod records;
mod round;
mod statistics;

use std::sync::{Condvar, Mutex, Once, RwLock};

use allotment_suballoc::{Algorithm, Alignment};

use super::block_set::BlockSet;
use super::empty_blocks::{Clock, EmptyBlockPolicy};
use super::maintenance::{Flow, Watermark};
use super::record::Record;
use super::statistics::Counters;
use super::{BudgetPolicy, Name};
use crate::device::{Device, Priority, PrioritySupport};
use crate::table::AppendTable;

pub use desc::{BlockSize, MAX_POOL_TYPES, Pool, PoolDesc};
pub(super) use free::Freed;
pub(super) use pending::Getting;
pub(super) use plan::{Plan, Source};
pub(super) use records::{Detail, Label, Marks, Travel};
pub(super) use round::Fitted;

/// The rules of a pool, custom or default.
#[derive(Debug)]
pub(super) struct Rules<D: Device> {
    pub(super) algorithm: Algorithm,
    pub(super) sizing: BlockSize,
    pub(super) min_blocks: u32,
    pub(super) max_blocks: u32,
    pub(super) alignment: Alignment,
    /// What optimal resources are rounded up to, so that they share no page with linear ones.
    pub(super) granularity: Alignment,
    pub(super) empty_blocks: EmptyBlockPolicy,
    pub(super) budget: BudgetPolicy,
    /// Of the blocks that allocations share.
    pub(super) priority: Priority,
    /// When the device takes priorities.
    pub(super) priorities: PrioritySupport,
    pub(super) options: Option<D::MemoryOptions>,
    /// How much room there shall be ahead of need, where somebody sees to that.
    pub(super) ahead: Option<Watermark>,
    pub(super) name: Option<Name>,
}

/// One pool, or the place for one.
/// On cache lines of its own, so that threads in different pools do not slow each other down.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct PoolSlot<D: Device> {
    pub(super) state: Mutex<Option<PoolState<D>>>,
    /// Of default pools: that the state was made.
    pub(super) made: Once,
    /// Unique while somebody touches memory by a token that may get another place; alone, while some do, or the pool is
    /// reset. Taken before `state`.
    pub(super) changes: RwLock<()>,
    /// A thread has got memory for the pool, or has not.
    pub(super) grown: Condvar,
    pub(super) records: AppendTable<Record>,
    pub(super) counters: [Counters; MAX_POOL_TYPES],
}

impl<D: Device> Default for PoolSlot<D> {
    fn default() -> Self {
        Self {
            state: Mutex::new(None),
            made: Once::new(),
            changes: RwLock::new(()),
            grown: Condvar::new(),
            records: AppendTable::new(),
            counters: Default::default(),
        }
    }
}

impl<D: Device> PoolSlot<D> {
    /// Whether the pool has memory objects, as of a moment ago.
    pub(super) fn has_memory(&self) -> bool {
        self.counters.iter().any(Counters::have_memory)
    }
}

/// What the lock of a pool guards.
#[derive(Debug)]
pub(super) struct PoolState<D: Device> {
    pub(super) rules: Rules<D>,
    pub(super) sets: Vec<BlockSet<D>>,
    /// Beside the records, by the same index; `None` where nothing is allocated.
    details: Vec<Option<Detail>>,
    /// By the same index. Invariant: empty where the detail does not say that there is one.
    labels: Vec<Label>,
    /// Records that stand for nothing. Invariant: none is spent.
    vacant: Vec<u32>,
    clock: Clock,
    /// The tick at which the quick lists were emptied last.
    emptied: u64,
    /// Memory objects that threads are getting for the pool now.
    pub(super) pending: u32,
    /// What requests take out of blocks, frame by frame.
    pub(super) flow: Flow,
    /// Until this tick nothing is given back, since somebody reserved it, for large requests too.
    pub(super) reserved_until: u64,
    /// The tick at which block growth was refused a block. It asks again in the next.
    pub(super) refused_ahead: Option<u64>,
    /// Somebody is defragmenting it.
    pub(super) defragmented: bool,
    /// Memory that was given another use a moment ago, and the priority that the device is to be told of it, by whoever
    /// has the lock now, when it is released.
    pub(super) untold: Option<(D::Memory, Priority)>,
}

impl<D: Device> PoolState<D> {
    pub(super) fn new(rules: Rules<D>, sets: Vec<BlockSet<D>>) -> Self {
        Self {
            rules,
            sets,
            details: Vec::new(),
            labels: Vec::new(),
            vacant: Vec::new(),
            clock: Clock::default(),
            emptied: 0,
            pending: 0,
            flow: Flow::default(),
            reserved_until: 0,
            refused_ahead: None,
            defragmented: false,
            untold: None,
        }
    }

    /// The tick of the pool's clock.
    pub(super) fn now(&self) -> u64 {
        self.clock.now
    }
}
