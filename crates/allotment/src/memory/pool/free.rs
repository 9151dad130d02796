//! The way back: an allocation is freed, the ticks that frees and frame ends count, and the reset of a pool.

use super::clock::TICKS_PER_LOOK;
use super::{PoolSlot, PoolState, RecordInUse};
use crate::device::{Device, OwnedMemory};
use crate::events::Event;
use crate::memory::Name;
use crate::memory::block_set::{BlockRange, Role, Sizes};
use crate::memory::time::Moment;
use crate::sync::locked;

/// An allocation that has ended, whose range is still allocated in its block.
#[derive(Debug)]
#[must_use = "the range is to be freed"]
pub(crate) struct EndedAllocation {
    record: u32,
    set: u8,
    range: BlockRange,
    sizes: Sizes,
    name: Option<Name>,
}

impl EndedAllocation {
    /// Returns the shard that has the range.
    pub(super) fn home(&self) -> u8 {
        self.range.home
    }

    /// Returns the same with another range, which is to be freed in its place.
    pub(super) fn with_range(self, range: BlockRange, sizes: Sizes) -> Self {
        Self { range, sizes, ..self }
    }
}

/// The work that a free leaves to its caller, for after the lock is released.
#[derive(Debug)]
pub(crate) struct Freed<D: Device> {
    /// Memory to return to the driver.
    pub(crate) memory: Option<OwnedMemory<D>>,
    /// [`PoolState::take_unwanted`] may find more such memory.
    pub(crate) more: bool,
    /// The debug name, to be dropped: its last owner frees host memory.
    pub(crate) name: Option<Name>,
}

/// What a free leaves to its caller, who holds no lock.
#[derive(Debug)]
pub(crate) enum AfterFree<D: Device> {
    Nothing,
    /// The slot has no pool: the allocation is of one that is gone, or is [placed](crate::memory::allocator::Placed).
    NoPool,
    /// The debug name is to be dropped.
    Name(Option<Name>),
    /// The range is in a block of another shard, whose slot is named, and is to be freed there.
    Elsewhere(u32, EndedAllocation),
    /// The time is that of the free, where it was read.
    Freed(Freed<D>, Option<Moment>),
}

impl<D: Device> PoolSlot<D> {
    /// Frees an allocation of a slot that is locked. One that a reset of the pool has freed is left alone. `now` reads the
    /// clock.
    #[inline]
    pub(crate) fn free(
        &self,
        state: Option<&mut PoolState<D>>,
        in_use: RecordInUse,
        now: impl Fn() -> Moment,
    ) -> AfterFree<D> {
        let record = in_use.record();
        let (Some(state), Some(entry)) = (state, self.records.get(record)) else {
            return AfterFree::NoPool;
        };
        if entry.generation() != in_use.generation() {
            return AfterFree::Nothing;
        }
        match state.free_quickly(self, entry, record) {
            Some(false) => AfterFree::Nothing,
            Some(true) => AfterFree::Name(state.take_label(record)),
            None => self.free_with_more_to_do(state, record, now),
        }
    }

    /// Frees an allocation where more is to be done: that of a block which becomes empty, one that is being moved, and others.
    // Not inlined: the quick way would keep in memory what this leaves no registers for.
    #[cold]
    fn free_with_more_to_do(
        &self,
        state: &mut PoolState<D>,
        record: u32,
        now: impl Fn() -> Moment,
    ) -> AfterFree<D> {
        // Defragmentation copies the allocation, so its range is freed when the copy has ended.
        if let Some(name) = state.free_later(self, record) {
            return AfterFree::Name(name);
        }
        if let Some((name, now)) = state.free_last_quickly(self, record, &now) {
            return AfterFree::Freed(Freed { memory: None, more: false, name }, now);
        }
        let Some(ended) = state.end(self, record) else { return AfterFree::Nothing };
        if u32::from(ended.home()) != state.shard {
            state.emit_freed_elsewhere(record);
            return AfterFree::Elsewhere(state.shards.index(ended.home()), ended);
        }
        let now = state.pass_time_before(&ended, now);
        AfterFree::Freed(state.free(self, ended), now)
    }

    /// Frees the range of an allocation of another shard, which has ended there; `None` where there is no pool.
    pub(crate) fn free_elsewhere(
        &self,
        ended: EndedAllocation,
        now: impl FnOnce() -> Moment,
    ) -> Option<(Freed<D>, Option<Moment>)> {
        let mut guard = locked(&self.state);
        let state = guard.as_mut()?;
        let now = state.pass_time_before(&ended, now);
        Some((state.free_elsewhere(self, ended), now))
    }
}

impl<D: Device> PoolState<D> {
    /// Advances the clock of the pool before a free, where it is due. Returns the time, where `now` was asked for it.
    fn pass_time_before(&mut self, ended: &EndedAllocation, now: impl FnOnce() -> Moment) -> Option<Moment> {
        let now = self.should_read_clock(ended).then(now);
        // Before a block becomes empty: else it would count as empty since the last time that the clock was read.
        if let Some(now) = now {
            self.pass_time(now);
        }
        now
    }

    /// Ends an allocation: its handle is stale from now on, and its record free. Its range is the caller's, who frees it
    /// in the shard that [has it](EndedAllocation::home).
    pub(super) fn end(&mut self, slot: &PoolSlot<D>, record: u32) -> Option<EndedAllocation> {
        let detail = self.detail(record)?;
        let entry = slot.records.get(record)?;
        let (set, range, sizes, labelled) =
            (detail.set, detail.range(), detail.sizes(entry.size()), detail.is_labelled());
        // Before the range is freed, so that no token of this allocation is valid once another one has the range.
        entry.retire();
        let name = if labelled { self.take_label(record) } else { None };
        if entry.is_spent() {
            self.details.remove_for_good(record);
        } else {
            self.details.remove(record);
        }
        Some(EndedAllocation { record, set, range, sizes, name })
    }

    /// Frees an allocation that has ended, and its range. The caller drops the result, or returns it to the driver, after
    /// it has released the lock.
    fn free(&mut self, slot: &PoolSlot<D>, ended: EndedAllocation) -> Freed<D> {
        let record = ended.record;
        self.free_range(slot, ended, |state| state.emit_freed(record))
    }

    /// Frees the range of an allocation of another shard, which has ended there.
    pub(super) fn free_elsewhere(&mut self, slot: &PoolSlot<D>, ended: EndedAllocation) -> Freed<D> {
        self.free_range(slot, ended, |_| {})
    }

    fn free_range(
        &mut self,
        slot: &PoolSlot<D>,
        EndedAllocation { set, range, sizes, name, .. }: EndedAllocation,
        emit: impl FnOnce(&mut Self),
    ) -> Freed<D> {
        debug_assert_eq!(u32::from(range.home), self.shard, "the block is one of this shard");
        self.wake();
        let set = usize::from(set);
        let emptied = self.sets[set].free(&range, sizes, self.clock.now);
        emit(self);
        let ticked = self.clock.freed(&self.rules.empty_blocks, || {
            self.sets.iter().map(|set| set.statistics.block_bytes - set.empty_bytes).sum()
        });
        if ticked {
            self.on_tick_of_frees(1);
            self.look_later(TICKS_PER_LOOK);
            self.look_now();
        }
        if emptied {
            self.watch_emptied();
        }
        // No other request may use such memory, so there is no reason to cache it.
        let block = range.block;
        let dedicated_to_this =
            self.sets[set].block(block).is_some_and(|block| block.role == Role::DedicatedToAllocation);
        // Defragmentation moved the block's allocations away to free it.
        let defragmented = emptied && self.frees_when_emptied(set, block);
        let memory = if dedicated_to_this || defragmented {
            self.remove_block(set, block)
        } else if (emptied || ticked) && self.rules.ahead.is_none() {
            // One block here, the others by the caller with the lock released for each, so that no thread waits for
            // several driver calls. With a maintenance thread, that thread looks for them.
            self.take_unwanted()
        } else {
            None
        };
        // All sets, since the empty block may be of another one than the allocation.
        self.store_counters(slot);
        let more = memory.is_some() && !dedicated_to_this && !defragmented;
        Freed { memory, more, name }
    }

    /// Frees all allocations. The caller returns the memory to the driver after it has released the lock; and frees
    /// what is `elsewhere`, in blocks of other shards, before it ends the reset of any shard.
    pub(super) fn reset(
        &mut self,
        slot: &PoolSlot<D>,
        memory: &mut Vec<OwnedMemory<D>>,
        elsewhere: &mut Vec<EndedAllocation>,
    ) {
        self.emit_of_pool(|pool| Event::PoolReset { pool });
        // The handles of what ends here may be in use, now and later.
        if self.live().next().is_some() {
            slot.records.keep();
        }
        for record in 0..self.records() {
            let Some(ended) = self.end(slot, record) else { continue };
            if u32::from(ended.home()) == self.shard {
                memory.extend(self.free(slot, ended).memory);
            } else {
                self.emit_freed_elsewhere(record);
                elsewhere.push(ended);
            }
        }
    }

    /// Ends what [`reset`](Self::reset) began.
    pub(super) fn end_reset(&mut self, slot: &PoolSlot<D>, memory: &mut Vec<OwnedMemory<D>>) {
        self.flush_quick_lists();
        memory.extend(core::iter::from_fn(|| self.take_unwanted()));
        self.store_counters(slot);
    }

    /// Returns true if a free should read the time first.
    ///
    /// A free takes less than 100 ns, so most frees do not: those that tick, and some of those that empty a block.
    pub(super) fn should_read_clock(&mut self, ended: &EndedAllocation) -> bool {
        let block = self.sets[usize::from(ended.set)].block(ended.range.block);
        let empties = block.is_some_and(|block| block.live() == 1);
        self.clock.is_about_to_tick() || (empties && self.clock.looks_at_emptied())
    }
}
