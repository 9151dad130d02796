//! The way back: an allocation is freed, the ticks that frees and frame ends count, and the reset of a pool.

use super::quick_path::FLUSH_TICKS;
use super::{Detail, PoolSlot, PoolState};
use crate::device::{Device, OwnedMemory};
use crate::events::Event;
use crate::memory::Name;
use crate::memory::block_set::Role;
use crate::memory::pool::time::Moment;
use crate::memory::token::record::Record;

/// The work that a free leaves to its caller, for after the lock is released.
#[derive(Debug)]
pub(in crate::memory) struct Freed<D: Device> {
    /// Memory to return to the driver.
    pub(in crate::memory) memory: Option<OwnedMemory<D>>,
    /// [`PoolState::take_unwanted`] may find more such memory.
    pub(in crate::memory) more: bool,
    /// The debug name, to be dropped: its last owner frees host memory.
    pub(in crate::memory) name: Option<Name>,
}

impl<D: Device> PoolState<D> {
    /// Frees an allocation. The caller drops the result, or returns it to the driver, after it has released the lock.
    pub(in crate::memory) fn free(&mut self, slot: &PoolSlot<D>, record: u32) -> Freed<D> {
        let nothing = Freed { memory: None, more: false, name: None };
        let Some(detail) = self.detail(record) else { return nothing };
        let (set, block_range, sizes) = (usize::from(detail.set), detail.block_range, detail.sizes);
        let name = self.remove_record(slot, record);
        let emptied = self.sets[set].free(&block_range, sizes, self.clock.now);
        self.emit_freed(record);
        self.freed_in(slot, (set, block_range.block), emptied, name)
    }

    /// Removes the record of an allocation whose range is about to be freed: no token of this allocation is valid once
    /// another one has the range. Returns its name.
    pub(in crate::memory) fn remove_record(&mut self, slot: &PoolSlot<D>, record: u32) -> Option<Name> {
        let entry = slot.records.get(record);
        entry.into_iter().for_each(Record::retire);
        let name = core::mem::take(&mut self.labels[record as usize]).name;
        if entry.is_some_and(|entry| !entry.is_spent()) {
            self.details.remove(record);
        } else {
            self.details.remove_for_good(record);
        }
        name
    }

    /// Counts a free in a block, and takes out the memory that is to be freed because of it.
    pub(in crate::memory) fn freed_in(
        &mut self,
        slot: &PoolSlot<D>,
        (set, block): (usize, u32),
        emptied: bool,
        name: Option<Name>,
    ) -> Freed<D> {
        let ticked = self.clock.freed(&self.rules.empty_blocks, || {
            self.sets.iter().map(|set| set.statistics.block_bytes - set.empty_bytes).sum()
        });
        if ticked {
            self.on_tick(1);
        }
        // No other request may use such memory, so there is no reason to cache it.
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

    /// Frees all allocations. The caller returns the result to the driver after it has released the lock.
    pub(in crate::memory) fn reset(&mut self, slot: &PoolSlot<D>) -> Vec<OwnedMemory<D>> {
        let mut memory = Vec::new();
        self.emit_of_pool(|pool| Event::PoolReset { pool });
        for record in 0..self.records() {
            memory.extend(self.free(slot, record).memory);
        }
        self.flush_quick_lists();
        memory.extend(core::iter::from_fn(|| self.take_unwanted()));
        self.store_counters(slot);
        memory
    }

    /// Returns true if a free should read the time first.
    ///
    /// A free takes less than 100 ns, so most frees do not: those that tick, and some of those that empty a block.
    pub(in crate::memory) fn should_read_clock(&mut self, record: u32) -> bool {
        let Some(Detail { set, block_range, .. }) = self.detail(record) else { return false };
        let block = self.sets[usize::from(*set)].block(block_range.block);
        let empties = block.is_some_and(|block| block.live() == 1);
        self.clock.is_about_to_tick() || (empties && self.clock.looks_at_emptied())
    }

    /// Counts the real time up to `now`, unless the application counts frames. Returns true if any passed
    /// since the last call, whether it counts or not.
    pub(in crate::memory) fn pass_time(&mut self, now: Moment) -> bool {
        let used = self.used();
        let behind = self.clock.is_behind(now);
        if behind {
            self.emit_of_pool(|_| Event::TimePassed { sixtieths: now.tick });
        }
        let passed = self.clock.pass(now, &self.rules.empty_blocks, used);
        if passed != 0 {
            self.on_tick(passed);
        }
        behind
    }

    /// Counts the end of a frame.
    pub(in crate::memory) fn end_frame(&mut self) {
        let used = self.used();
        self.clock.end_frame(&self.rules.empty_blocks, used);
        self.on_tick(1);
    }

    /// Does the work that is due after some ticks.
    pub(super) fn on_tick(&mut self, ticks: u64) {
        // After 64 ticks nearly nothing is left of the busiest frame, so a long pause need not cost a long loop.
        (0..ticks.min(64)).for_each(|_| self.flow.tick());
        // A range that waits keeps its free neighbours from being joined with it.
        if self.clock.now - self.flushed_at >= FLUSH_TICKS {
            self.flush_quick_lists();
        }
    }
}
