//! The short path: freed ranges that serve the next request of about their size.

use super::{Label, PoolSlot, PoolState, Travel};
use crate::device::Device;
use crate::memory::block_set::Sizes;
use crate::memory::record::Record;
use crate::memory::{AllocationDesc, Movability, Name};

/// After so many ticks what waits in the quick lists is given back to its blocks.
pub(super) const SETTLE_TICKS: u64 = 512;

impl<D: Device> PoolState<D> {
    /// Serves an [ordinary](AllocationDesc::is_ordinary) request from a range that was freed a moment ago:
    /// the short path, which nearly all small requests of a steady program take. Returns its record and
    /// generation.
    pub(in crate::memory) fn place_quickly(
        &mut self,
        slot: &PoolSlot<D>,
        set: usize,
        desc: &AllocationDesc,
    ) -> Option<(u32, u32)> {
        let (size, alignment) = self.rounded(set, desc);
        let blocks = self.sets.get_mut(set)?;
        let (record, occupied) = blocks.quick.take(size, alignment)?;
        let requested = desc.requirements.size;
        let detail = self.details.get_mut(record as usize)?.as_mut()?;
        let entry = slot.records.get(record)?;
        entry.refit(requested, desc.movability != Movability::Pinned);
        detail.sizes = Sizes { requested, occupied };
        detail.kind = desc.kind;
        (detail.alignment, detail.movability) = (alignment, desc.movability);
        (detail.waiting, detail.has_resource) = (false, false);
        detail.labelled = desc.is_labelled();
        if detail.labelled {
            self.labels[record as usize] = Label::of(desc);
        }
        let was_empty = blocks.occupy(detail.spot.block, detail.sizes);
        slot.counters[set].store_live(&blocks.statistics);
        if was_empty {
            self.clock.used(self.used());
        }
        Some((record, entry.generation()))
    }

    /// Takes an allocation back whose range may wait in the quick lists: the short path, where no block is
    /// emptied and no tick is due. `None` when it is not for this path; else its name, to be dropped after
    /// the lock.
    pub(in crate::memory) fn free_quickly(
        &mut self,
        slot: &PoolSlot<D>,
        entry: &Record,
        record: u32,
    ) -> Option<Option<Name>> {
        let detail = self.details.get_mut(record as usize)?.as_mut().filter(|detail| detail.may_wait)?;
        let set = usize::from(detail.set);
        let blocks = self.sets.get_mut(set)?;
        if detail.waiting
            || detail.travel != Travel::Rests
            || entry.is_last_use()
            || self.clock.is_about_to_tick()
            || !blocks.park(record, &detail.spot, detail.sizes)
        {
            return None;
        }
        self.clock.count_free();
        detail.waiting = true;
        entry.retire();
        slot.counters[set].store_live(&blocks.statistics);
        Some(if detail.labelled { core::mem::take(&mut self.labels[record as usize]).name } else { None })
    }

    /// Gives all waiting ranges of a set back to its blocks.
    pub(super) fn empty_quick_lists(&mut self, set: usize) {
        self.empty_quick_lists_by(set, usize::MAX);
    }

    /// Gives so many of them back.
    pub(in crate::memory) fn empty_quick_lists_by(&mut self, set: usize, count: usize) {
        for _ in 0..count {
            let Some(record) = self.sets[set].quick.pop() else { break };
            if let Some(detail) = self.details[record as usize].take() {
                self.sets[set].release(&detail.spot);
                self.vacant.push(record);
            }
        }
    }

    /// Gives all waiting ranges back to their blocks, so that a walk over the regions tells how things
    /// are.
    pub(in crate::memory) fn settle(&mut self) {
        for set in 0..self.sets.len() {
            self.empty_quick_lists(set);
        }
        self.emptied = self.clock.now;
    }
}
