//! Frees, and the ticks that they and the ends of frames count.

use super::quick::SETTLE_TICKS;
use super::{Detail, PoolSlot, PoolState};
use crate::device::{Device, OwnedMemory};
use crate::memory::Name;
use crate::memory::block_set::Role;
use crate::memory::time::Moment;

/// What a free leaves to do without the lock.
#[derive(Debug)]
pub(in crate::memory) struct Freed<D: Device> {
    /// To be given back to the driver.
    pub(in crate::memory) memory: Option<OwnedMemory<D>>,
    /// There may be more of it.
    pub(in crate::memory) more: bool,
    /// To be dropped.
    pub(in crate::memory) name: Option<Name>,
}

impl<D: Device> PoolState<D> {
    /// Takes an allocation back. What it returns is to be dropped or given to the driver after the lock.
    pub(in crate::memory) fn free(&mut self, slot: &PoolSlot<D>, record: u32) -> Freed<D> {
        let nothing = Freed { memory: None, more: false, name: None };
        let Some(entry) = self.details.get_mut(record as usize) else { return nothing };
        let Some(detail) = entry.as_mut().filter(|detail| !detail.waiting) else { return nothing };
        if let Some(entry) = slot.records.get(record) {
            entry.retire();
        }
        let (set, spot, now) = (usize::from(detail.set), detail.spot, self.clock.now);
        let sizes = detail.sizes;
        let name = core::mem::take(&mut self.labels[record as usize]).name;
        *entry = None;
        if slot.records.get(record).is_some_and(|entry| !entry.is_spent()) {
            self.vacant.push(record);
        }
        let emptied = self.sets[set].free(&spot, sizes, now);
        let ticked = self.clock.freed(&self.rules.empty_blocks, || {
            self.sets.iter().map(|set| set.statistics.block_bytes - set.empty_bytes).sum()
        });
        if ticked {
            self.ticked(1);
        }
        let tied = self.sets[set].block(spot.block).is_some_and(|block| block.role == Role::Tied);
        let emptied_for_good = emptied && self.gives_up(set, spot.block);
        let memory = if tied || emptied_for_good {
            self.sets[set].remove(spot.block)
        } else if (emptied || ticked) && self.rules.ahead.is_none() {
            self.take_unwanted()
        } else {
            None
        };
        // The empty block may be of another set.
        self.store_counters(slot);
        let more = memory.is_some() && !tied && !emptied_for_good;
        Freed { memory, more, name }
    }

    /// Takes all allocations back. What it returns is to be given to the driver, after the lock.
    pub(in crate::memory) fn reset(&mut self, slot: &PoolSlot<D>) -> Vec<OwnedMemory<D>> {
        let mut memory = Vec::new();
        for record in 0..self.details.len() as u32 {
            memory.extend(self.free(slot, record).memory);
        }
        self.settle();
        memory.extend(core::iter::from_fn(|| self.take_unwanted()));
        self.store_counters(slot);
        memory
    }

    /// Whether a free should look at the time first.
    pub(in crate::memory) fn looks_at_time(&mut self, record: u32) -> bool {
        let Some(Detail { set, spot, .. }) = self.detail(record) else { return false };
        let block = self.sets[usize::from(*set)].block(spot.block);
        let empties = block.is_some_and(|block| block.live() == 1);
        self.clock.is_about_to_tick() || (empties && self.clock.looks_at_emptied())
    }

    /// Lets real time pass up to `now`, where that counts.
    pub(in crate::memory) fn pass_time(&mut self, now: Moment) {
        let used = self.used();
        match self.clock.pass(now, &self.rules.empty_blocks, used) {
            0 => {}
            passed => self.ticked(passed),
        }
    }

    pub(in crate::memory) fn end_frame(&mut self) {
        let used = self.used();
        self.clock.end_frame(&self.rules.empty_blocks, used);
        self.ticked(1);
    }

    /// What is to be done now and then.
    pub(super) fn ticked(&mut self, ticks: u64) {
        // After so many without requests the busiest one is forgotten.
        (0..ticks.min(64)).for_each(|_| self.flow.tick());
        // A range that has waited for long keeps its neighbours from being joined.
        if self.clock.now - self.emptied >= SETTLE_TICKS {
            self.settle();
        }
    }
}
