//! The quick path: freed ranges that serve the next request of about their size, without search, split or join.

use core::num::NonZeroU32;

use allotment_suballoc::{Alignment, Reach};

use super::{Detail, DetailState, PoolSlot, PoolState};
use crate::device::Device;
use crate::events::{Event, Placement};
use crate::memory::Name;
use crate::memory::block_set::{DEPTH, MOST_WAITING, QuickLists, Sizes, is_of_aligned_lists};
use crate::memory::request::AllocationRequest;
use crate::memory::time::Moment;
use crate::memory::token::Record;
use crate::sync::locked;

/// Ranges that are joined with their neighbours together: enough that the processor waits for the memory of many at
/// once, few enough that the first is still in its caches when the last was read.
const TOGETHER: usize = 32;

/// A record and its generation, in one word.
///
/// As a pair they would be returned through memory: written in two halves, and read back as a whole at once, for which the
/// processor waits until both halves are in the cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordInUse(u64);

impl RecordInUse {
    /// That of the last record that a table can have.
    pub(super) const LARGEST_WORD: u64 = (u32::MAX as u64 - 1) << 32 | u32::MAX as u64;

    #[inline]
    pub(crate) fn new(record: u32, generation: u32) -> Self {
        Self(u64::from(record) << 32 | u64::from(generation))
    }

    #[inline]
    pub(super) fn of_word(word: u64) -> Self {
        Self(word)
    }

    #[inline]
    pub(super) fn word(self) -> u64 {
        self.0
    }

    #[inline]
    pub(super) fn record(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline]
    pub(super) fn generation(self) -> u32 {
        self.0 as u32
    }
}

/// Where a request was placed: its shard and its record. An `Option` of it is returned in two registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QuickPlace {
    in_use: RecordInUse,
    /// One more than the index of the shard's slot.
    slot: NonZeroU32,
}

impl QuickPlace {
    #[inline]
    pub(super) fn new(pool: u32, in_use: RecordInUse) -> Self {
        // Never saturates: the table of slots ends before the last of all 32-bit indices.
        Self { in_use, slot: NonZeroU32::MIN.saturating_add(pool) }
    }

    /// Returns the index of the shard's slot.
    #[inline]
    pub(crate) fn pool(self) -> u32 {
        self.slot.get() - 1
    }

    #[inline]
    pub(crate) fn in_use(self) -> RecordInUse {
        self.in_use
    }
}

/// Returns true if a range may wait beside so many others of its pool, of which those in the aligned lists of its set are counted apart:
/// neither kind takes the places of the other.
#[inline]
fn may_wait_beside(waiting: usize, lists: &QuickLists, sizes: Sizes, alignment: Alignment) -> bool {
    waiting < MOST_WAITING
        || is_of_aligned_lists(sizes.occupied, alignment)
        || waiting - lists.aligned_len() < MOST_WAITING
}

impl<D: Device> PoolSlot<D> {
    /// Returns all waiting ranges to their blocks. A reader of the events is told.
    pub(crate) fn flush(&self) {
        locked(&self.state).iter_mut().for_each(PoolState::flush_quick_lists_and_say_so);
    }
}

impl<D: Device> PoolState<D> {
    /// Places an [ordinary](AllocationOptions::is_ordinary) request in a range that was freed a moment ago. Nearly all
    /// small requests of a steady program are placed here. The range has the [rounded](Self::rounded_size) size at least.
    /// Returns its record.
    pub(super) fn place_quickly(
        &mut self,
        slot: &PoolSlot<D>,
        set: usize,
        (size, alignment): (u64, Alignment),
        request: &AllocationRequest<'_>,
    ) -> Option<RecordInUse> {
        self.use_of_shard.count_request();
        let blocks = self.sets.get_mut(set)?;
        let (record, occupied) = blocks.quick.take(size, alignment)?;
        self.waiting -= 1;
        let requested = request.requirements.size;
        let detail = self.details.get_mut(record)?;
        debug_assert!(detail.is_waiting(), "only ranges that wait are in a quick list");
        let entry = slot.records.get(record)?;
        // The range keeps its record, which names its memory, offset and address already. The free made the ids of the
        // last allocation stale.
        entry.refit(requested, request.moves.now());
        let labelled = request.options.is_labelled();
        detail.occupied = occupied;
        detail.reuse(request.requirements.kind, alignment, request.moves.at_once, labelled);
        let was_empty = blocks.occupy(detail.block, Sizes { requested, occupied });
        slot.counters[set].store_live(&blocks.statistics);
        if was_empty {
            // The bytes in use are counted in blocks, so they grow only with the first allocation of one.
            self.wake();
            self.clock.used(self.used());
        }
        // Labels are a cache line apart; most allocations have none.
        if labelled {
            self.set_label(record, request.options);
        }
        self.emit_allocated(slot, record, request, Placement::ReusedRange);
        Some(RecordInUse::new(record, entry.generation()))
    }

    /// Frees an allocation, where that empties no block and no tick is due: its range waits in the quick lists, or is joined
    /// with its neighbours. Returns whether it had a label, which is [taken](Self::take_label) next; `None`, with nothing
    /// changed, where the free needs the full path.
    pub(super) fn free_quickly(&mut self, slot: &PoolSlot<D>, entry: &Record, record: u32) -> Option<bool> {
        // Here and not on the full path: whether the pool was at rest must not decide where the range goes, or a replay, whose
        // clock is read at other times, would place the next requests elsewhere.
        self.wake();
        let detail = self.details.get_mut(record)?;
        let set = usize::from(detail.set);
        let blocks = self.sets.get_mut(set)?;
        // A range that waits already is not freed twice. One that is being moved belongs to its move until that ends, and a
        // record in its last use must not serve another allocation.
        if detail.state() != DetailState::Settled || entry.is_last_use() || self.clock.is_about_to_tick() {
            return None;
        }
        // Read before the state is written beside it: the processor cannot pass a written byte on to a read of two, and would
        // wait until it is in the cache.
        let (labelled, sizes, alignment) =
            (detail.is_labelled(), detail.sizes(entry.size()), detail.alignment());
        // Beyond a number of waiting ranges, the time to join all of them would be too long a time to hold the lock.
        // `keep_in_quick_list` is last, since it changes the lists.
        if detail.may_wait()
            && may_wait_beside(self.waiting, &blocks.quick, sizes, alignment)
            && blocks.keep_in_quick_list(record, (detail.block, entry.offset()), sizes, alignment)
        {
            self.waiting += 1;
            detail.set_state(DetailState::Waiting);
            slot.counters[set].store_live(&blocks.statistics);
        } else {
            let range = detail.range();
            if u32::from(range.home) != self.shard || !blocks.free_one_of_several(&range, sizes) {
                return None;
            }
            slot.counters[set].store_ranges(&blocks.statistics);
            self.details.remove(record);
        }
        self.clock.count_free();
        entry.retire();
        self.emit_freed(record);
        Some(labelled)
    }

    /// Frees the last allocation of a pool's only block, where nothing follows from that: its range waits as others do, and
    /// the next request of its size needs no search. `now` reads the clock, where that is due. `None`, with nothing changed but
    /// the time, where the free needs the full path.
    ///
    /// With several blocks it does not wait: the next request is to go to the fullest of them.
    pub(super) fn free_last_quickly(
        &mut self,
        slot: &PoolSlot<D>,
        record: u32,
        now: impl FnOnce() -> Moment,
    ) -> Option<(Option<Name>, Option<Moment>)> {
        let entry = slot.records.get(record)?;
        let detail = self.detail(record)?;
        let set = usize::from(detail.set);
        let waits = detail.may_wait()
            && detail.state() == DetailState::Settled
            && self.waiting < MOST_WAITING
            && self.sets[set].is_last_of_only_block(detail.block)
            && !entry.is_last_use()
            && !self.clock.is_about_to_tick()
            && self.keeps_emptied();
        if !waits {
            return None;
        }
        let now = self.clock.looks_at_emptied().then(now);
        // Before the block becomes empty, as on the full path.
        now.into_iter().for_each(|now| _ = self.pass_time(now));
        let detail = self.details.get_mut(record)?;
        let (labelled, block) = (detail.is_labelled(), detail.block);
        let sizes = (detail.sizes(entry.size()), detail.alignment());
        let place = (block, entry.offset());
        if !self.sets[set].keep_last_in_quick_list(record, place, sizes, self.clock.now) {
            return None;
        }
        self.waiting += 1;
        detail.set_state(DetailState::Waiting);
        slot.counters[set].store_live(&self.sets[set].statistics);
        self.clock.count_free();
        self.watch_emptied();
        entry.retire();
        self.emit_freed(record);
        Some((if labelled { self.take_label(record) } else { None }, now))
    }

    /// Empties the label of an allocation that was freed quickly. Returns its name, to be dropped after the lock.
    #[cold]
    pub(super) fn take_label(&mut self, record: u32) -> Option<Name> {
        core::mem::take(&mut self.labels[record as usize]).name
    }

    /// Returns all waiting ranges of a set to its blocks.
    pub(super) fn flush_quick_list(&mut self, set: usize) {
        self.flush_quick_list_up_to(set, usize::MAX);
    }

    /// Returns up to `count` waiting ranges of a set to its blocks.
    pub(super) fn flush_quick_list_up_to(&mut self, set: usize, count: usize) {
        let mut left = count;
        while left != 0 {
            let mut records = [0; TOGETHER];
            let popped = self.sets[set].quick.pop(&mut records[..left.min(TOGETHER)]);
            if popped == 0 {
                break;
            }
            self.join_with_neighbours(set, &records[..popped]);
            left -= popped;
        }
    }

    /// Looks at so many classes of waiting ranges of each set, and returns what no request needed to the blocks.
    pub(super) fn flush_idle_ranges(&mut self, looks: u64) {
        if looks == 0 {
            return;
        }
        for set in 0..self.sets.len() {
            // Each class once: of a second look everything would seem idle.
            for _ in 0..self.sets[set].quick.classes_in_use(looks) {
                let mut records = [0; DEPTH];
                let popped = self.sets[set].quick.pop_idle(&mut records);
                self.join_with_neighbours(set, &records[..popped]);
            }
        }
    }

    /// Returns ranges to the blocks of a set, which are in none of its quick lists any more.
    fn join_with_neighbours(&mut self, set: usize, records: &[u32]) {
        self.waiting -= records.len();
        self.read_ahead(set, records);
        for &record in records {
            // Not spent: `free_quickly` lets no record wait that is in its last use.
            if let Some(detail) = self.details.remove(record) {
                debug_assert!(detail.is_waiting(), "only ranges that wait are in a quick list");
                self.sets[set].release(&detail.range());
            }
        }
    }

    /// Reads what the join of these ranges with their neighbours is going to read. Of many ranges little of it is in a
    /// cache, and the join of one is too long for the processor to begin the next meanwhile; here it waits for many
    /// loads at once.
    fn read_ahead(&self, set: usize, records: &[u32]) {
        let ranges = records.iter().filter_map(|&record| self.details.get(record));
        let ranges = ranges.map(Detail::range);
        let mut sum = ranges.clone().fold(0, |sum, range| sum ^ u64::from(range.block));
        for reach in Reach::ALL {
            sum ^= ranges.clone().fold(0, |sum, range| sum ^ self.sets[set].read_around(&range, reach));
        }
        // So that the loads stay, whose results nobody needs.
        core::hint::black_box(sum);
    }

    /// Returns the waiting ranges of all sets to their blocks, for a walk over the regions, a preview, or a request that
    /// finds no room. A reader of the events is told: it shows where no allocation and no free does.
    pub(super) fn flush_quick_lists_and_say_so(&mut self) {
        if self.sets.iter().any(|set| set.quick.len() != 0) {
            self.emit_of_pool(|pool| Event::Joined { pool });
            self.flush_quick_lists();
        }
    }

    /// Returns the waiting ranges of all sets to their blocks.
    pub(super) fn flush_quick_lists(&mut self) {
        for set in 0..self.sets.len() {
            self.flush_quick_list(set);
        }
    }
}

#[cfg(test)]
#[cfg(feature = "simulated")]
mod tests;
