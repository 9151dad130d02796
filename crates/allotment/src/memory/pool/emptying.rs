//! What runs that empty blocks ask of a pool: to claim a block, to close it, to see what became of it, to open it again.
//!
//! Each verb holds the pool's lock for a moment. Between two of them other threads allocate and free, so a run asks anew for
//! what it relies on.
//!
//! ```text
//!   claim ──► close ──► (places are reserved, moves are handed out) ──► look: closed still, or empty ──► emptied
//!     │         └─ empty, or another block by now                        └─ in use again ──► it stays
//!     └──► disclaim                                    reopen ◄── given up
//! ```

use super::shards::PoolShards;
use super::{Detail, PoolSlot, PoolState, Source, TwoShards};
use crate::device::Device;
use crate::memory::block_set::{PlacedRange, Role};
use crate::memory::pool::pools::Pools;
use crate::memory::token::AllocationId;
use crate::memory::{BudgetPolicy, EmptiedBlocks};
use crate::sync::locked;

/// A block of a pool: its set, and its index there.
pub(crate) type BlockOfSet = (usize, u32);

/// A closing of a block, by which a run asks for the block later on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClosedBlock {
    /// The shard, and the set and index of the block there.
    pub(crate) pool: u32,
    pub(crate) block: BlockOfSet,
    /// The number of the closing. The index alone may by now be that of a new block, or of this one after a request has
    /// reopened it and another run has closed it again.
    pub(crate) closing: u64,
    /// Bytes of the block.
    pub(crate) size: u64,
}

/// Attempts to close a block in small batches. A thread that frees all the time can add ranges to the quick lists as
/// fast as they are merged; after these attempts all of them are merged at once.
const MAX_CLOSE_ATTEMPTS: u32 = 256;

/// Ranges of the quick lists that are merged per call, so that the lock is held for microseconds.
const AT_ONCE: usize = 16;

/// Result of an attempt to close a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Close {
    /// It is closed now, by this closing.
    Closed(u64),
    /// Another call must go on, since there are many ranges to merge first.
    NotYet,
    /// The block is empty, or was freed.
    Empty,
    /// The run has no claim to it any more.
    NotClaimed,
}

/// How a block is closed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CloseHow {
    /// What becomes of the block once it is empty.
    pub(crate) release: EmptiedBlocks,
    /// The run needs the block also once it is empty: it may fill it again.
    pub(crate) hold: bool,
}

/// What became of a block since a run closed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterClosing {
    /// It is closed still, or held for the run.
    Closed,
    /// All its allocations were freed, perhaps with the block itself.
    Empty,
    /// A request reopened it, and it has allocations.
    InUse,
}

impl<D: Device> Pools<D> {
    /// Returns what became of a block since a closing; `None` where its pool is gone.
    pub(crate) fn after_closing(&self, closed: &ClosedBlock) -> Option<AfterClosing> {
        let &ClosedBlock { pool, block: (set, block), closing, .. } = closed;
        let guard = locked(&self.slots.get(pool)?.state);
        Some(match guard.as_ref()?.sets[set].block(block) {
            Some(block) if block.is_kept_by(closing) => AfterClosing::Closed,
            Some(block) if !block.is_empty() => AfterClosing::InUse,
            Some(_) | None => AfterClosing::Empty,
        })
    }

    /// Opens a block again if it is still closed by a closing.
    pub(crate) fn reopen(&self, closed: &ClosedBlock) {
        let &ClosedBlock { pool, block: (set, block), closing, .. } = closed;
        let Some(slot) = self.slots.get(pool) else { return };
        if let Some(state) = locked(&slot.state).as_mut() {
            state.sets[set].reopen_closing(block, closing);
        }
    }
}

impl<D: Device> PoolSlot<D> {
    /// Claims a block for a run. Returns false if there is none, or another run has claimed or closed it.
    pub(crate) fn claim(&self, (set, block): BlockOfSet, run: u64) -> bool {
        locked(&self.state).as_mut().is_some_and(|state| state.sets[set].claim(block, run))
    }

    /// Ends the claim of a run to a block, if it has one.
    pub(crate) fn disclaim(&self, (set, block): BlockOfSet, run: u64) {
        if let Some(state) = locked(&self.state).as_mut() {
            state.sets[set].disclaim(block, run);
        }
    }

    /// Closes a block that a run has claimed: nothing new is placed in it from now on. Returns the number of its allocations
    /// as well. See [`PoolState::close`]. Counts the attempts. `None` where there is no pool.
    pub(crate) fn close(
        &self,
        (set, block): BlockOfSet,
        run: u64,
        how: CloseHow,
        attempts: &mut u32,
    ) -> Option<(Close, u32)> {
        // None of the block's ranges may wait in a quick list when it is closed: they count as used, so a block with
        // nothing else would not be seen to be empty. They are merged before, a few at a time:
        //   block    [a ▓ b ▓ ▓ ░]      ▓ freed, in a quick list      ► NotYet, some more merged, …
        //            [a ░ b ░ ░ ░]                                    ► Closed
        *attempts += 1;
        let at_once = *attempts > MAX_CLOSE_ATTEMPTS;
        let mut guard = locked(&self.state);
        let state = guard.as_mut()?;
        let closed = state.close(set, (block, run), how.release, at_once);
        if let (Close::Closed(closing), true) = (closed, how.hold) {
            state.sets[set].hold(block, closing, run);
        }
        // Under the lock of the closing: a count from before could miss an allocation that comes in between.
        let live = state.sets[set].block(block).map_or(0, |block| block.live());
        state.store_counters(self);
        Some((closed, live))
    }

    /// Opens a block that was closed to be held, and ends that.
    pub(crate) fn end_hold(&self, (set, block): BlockOfSet, closing: u64, run: u64) {
        if let Some(state) = locked(&self.state).as_mut() {
            state.sets[set].reopen_closing(block, closing);
            state.sets[set].end_hold(block, run);
            state.store_counters(self);
        }
    }

    /// Returns where a block comes from that a run needs for itself, and its size where it holds `bytes`.
    pub(crate) fn source_for_run(&self, set: usize, bytes: u64) -> Option<(Source<D>, u64)> {
        let guard = locked(&self.state);
        let state = guard.as_ref()?;
        // Within the budget, whatever the pool says: what is wanted is room, not more memory. A buddy block has a power of two.
        Some((state.source_ahead(set, BudgetPolicy::WithinBudget), state.sets[set].least_block(bytes)))
    }

    /// Returns true while a record of the pool has this generation.
    pub(crate) fn is_live(&self, record: u32, generation: u32) -> bool {
        let _guard = locked(&self.state);
        self.has_generation(record, generation)
    }

    /// Returns the same where the pool is locked: the record of one that is gone may be freed.
    pub(super) fn has_generation(&self, record: u32, generation: u32) -> bool {
        self.records.get(record).is_some_and(|entry| entry.generation() == generation)
    }

    /// Returns the range of an allocation, with the slot and the set of its block.
    pub(crate) fn range_of(&self, record: u32, generation: u32) -> Option<(u32, u8, PlacedRange)> {
        let guard = locked(&self.state);
        let state = guard.as_ref().filter(|_| self.has_generation(record, generation))?;
        let detail = state.detail(record)?;
        let placed = PlacedRange { range: detail.range(), offset: self.records.get(record)?.offset() };
        Some((state.shards.index(detail.home), detail.set, placed))
    }

    /// Notes whether a place is reserved for an allocation of the pool. Returns false if that was freed.
    pub(crate) fn note_reserved(&self, id: AllocationId, reserved: bool) -> bool {
        let mut guard = locked(&self.state);
        // The record may belong to another allocation by now.
        let live = self.has_generation(id.record, id.generation);
        let Some(state) = guard.as_mut().filter(|_| live) else { return false };
        state.note_moving(self, id.record, reserved);
        true
    }

    /// Returns true where an allocation of the pool's records is live in a block, which may be of another shard: `home` is the
    /// slot of that.
    pub(crate) fn has_in_block(
        &self,
        (record, generation): (u32, u32),
        home: u32,
        (set, block): BlockOfSet,
    ) -> bool {
        let guard = locked(&self.state);
        let state = guard.as_ref();
        state.is_some_and(|state| state.has_in_block(self, (record, generation), home, (set, block)))
    }

    /// Returns the shards of the pool.
    pub(crate) fn shards(&self) -> Option<PoolShards> {
        locked(&self.state).as_ref().map(|state| state.shards)
    }

    /// Returns how many requests the shard has served.
    pub(crate) fn requests(&self) -> Option<u32> {
        locked(&self.state).as_ref().map(|state| state.use_of_shard.requests())
    }
}

impl<D: Device> PoolState<D> {
    /// Closes a block that a run has claimed: places nothing new in it. With `at_once`, merges all ranges that wait
    /// first, however many they are.
    fn close(
        &mut self,
        set: usize,
        (block, run): (u32, u64),
        release: EmptiedBlocks,
        at_once: bool,
    ) -> Close {
        let waiting = self.sets[set].quick.len();
        let count = if at_once { usize::MAX } else { AT_ONCE };
        self.flush_quick_list_up_to(set, count);
        if waiting > count {
            return Close::NotYet;
        }
        // A range in a quick list counts as used. With the lists empty, a block without allocations shows as empty.
        let empty = self.sets[set].block(block).is_none_or(|block| block.is_empty());
        if empty {
            // The claim would keep moves out of a block that nobody empties any more.
            self.sets[set].disclaim(block, run);
            return Close::Empty;
        }
        self.sets[set].close(block, run, release).map_or(Close::NotClaimed, Close::Closed)
    }

    /// Returns whether a closed block that is empty now is freed to the driver. A block that is kept is reopened.
    pub(super) fn frees_when_emptied(&mut self, set: usize, block: u32) -> bool {
        let Some(release) = self.sets[set].release_of(block) else { return false };
        let shared = self.sets[set].block(block).is_some_and(|block| block.role == Role::Shared);
        // A pool never falls below its minimum, nor frees a block that `reserve` has just allocated.
        let at_least = shared && self.is_minimum(set);
        let goes = release == EmptiedBlocks::Free && !at_least && !self.holds_reserve();
        // Unless a request is in need of it, nothing else would open it: the run counts it as emptied, and looks at it
        // no more.
        if !goes {
            self.sets[set].reopen(block);
        }
        goes
    }

    /// Returns true where an allocation is live, and in a block of the shard in slot `home`.
    pub(super) fn has_in_block(
        &self,
        slot: &PoolSlot<D>,
        (record, generation): (u32, u32),
        home: u32,
        block: BlockOfSet,
    ) -> bool {
        // Live is not enough, since a move keeps the record and its generation: one that another run has moved is live
        // somewhere else.
        let is_live = slot.records.get(record).is_some_and(|record| record.generation() == generation);
        let here = |detail: &Detail| {
            let range = detail.range();
            (self.shards.index(range.home), (usize::from(detail.set), range.block)) == (home, block)
        };
        is_live && self.detail(record).is_some_and(here)
    }
}

impl<D: Device> TwoShards<'_, D> {
    /// Returns true where an allocation of the first shard is live in a block of the shard in slot `home`.
    pub(crate) fn has_in_block(&mut self, allocation: (u32, u32), home: u32, block: BlockOfSet) -> bool {
        let (state, slot) = self.one();
        state.has_in_block(slot, allocation, home, block)
    }
}
