//! The invariants between the parts of a pool, which hold whenever its lock is free.

use std::collections::HashMap;

use allotment_suballoc::Handle;

use super::{Detail, PoolSlot, PoolState};
use crate::device::{Device, MemoryHandle};
use crate::memory::statistics::Statistics;
use crate::memory::token::{MemoryObject, Record};
use crate::sync::locked;

/// Checks all shards of a pool, for tests. Returns the bytes of their blocks.
///
/// # Panics
///
/// Panics if an invariant does not hold.
pub(crate) fn check_pool<D: Device>(shards: &[&PoolSlot<D>]) -> u64 {
    let mut ranges = NamedRanges::default();
    // Together, in the order of their indices: an allocation may be in a block of another shard.
    let guards: Vec<_> = shards.iter().map(|slot| locked(&slot.state)).collect();
    let states = || shards.iter().zip(&guards).filter_map(|(slot, guard)| Some((slot, guard.as_ref()?)));
    states().for_each(|(slot, state)| state.check_records(slot, &mut ranges));
    states().for_each(|(slot, state)| state.check_blocks(slot, &mut ranges));
    ranges.check_all_found();
    states().map(|(_, state)| state.statistics().block_bytes).sum()
}

/// The ranges that the records of a pool's shards name, by shard, block set and block.
#[derive(Debug, Default)]
struct NamedRanges(HashMap<(u8, u8, u32), Named>);

#[derive(Debug, Default)]
struct Named {
    live: Statistics,
    waiting_bytes: u64,
    /// The offset of each, and the index of its memory object.
    ranges: HashMap<Handle, (u64, u32)>,
}

impl<D: Device> PoolState<D> {
    /// Checks the records of a shard, for tests, and adds the ranges that they name. Takes time linear in the number of
    /// allocations.
    ///
    /// # Panics
    ///
    /// Panics if an invariant does not hold.
    fn check_records(&self, slot: &PoolSlot<D>, ranges: &mut NamedRanges) {
        for (record, detail) in self.details.iter() {
            let (range, waiting) = (detail.range(), detail.is_waiting());
            let named = ranges.0.entry((range.home, detail.set, range.block)).or_default();
            let place = slot.records.get(record).expect("a live record exists").read(&slot.objects);
            let twice = named.ranges.insert(range.handle, (place.offset, place.object));
            assert!(twice.is_none(), "a range is named by one record");
            assert!(waiting || place.size <= detail.occupied, "a range holds what was requested");
            let here = u32::from(range.home) == self.shard;
            assert!(
                here || !(waiting || detail.may_wait()),
                "the quick lists have ranges of their own shard only"
            );
            if waiting {
                named.waiting_bytes += detail.occupied;
            } else {
                named.live.allocations += 1;
                named.live.allocation_bytes += place.size;
            }
        }
        for (i, set) in self.sets.iter().enumerate() {
            set.quick.check_invariants();
            for record in set.quick.records() {
                let detail = self.details.get(record).expect("a waiting range has a detail");
                assert!(detail.is_waiting() && usize::from(detail.set) == i);
            }
        }
        for record in 0..self.records() {
            let labelled = self.detail(record).is_some_and(Detail::is_labelled);
            assert!(labelled || self.label(record).is_empty(), "only live allocations have labels");
        }
        assert_eq!(self.waiting, self.sets.iter().map(|set| set.quick.len()).sum::<usize>());
        let spent = |record| slot.records.get(record).is_none_or(Record::is_spent);
        let unused = (0..self.records()).filter(|&record| self.details.get(record).is_none());
        let vacant = self.details.check_invariants();
        assert_eq!(unused.filter(|&record| !spent(record)).count(), vacant.len());
        assert!(!vacant.into_iter().any(spent), "a spent record is not used again");
    }

    /// Checks the blocks of a shard against the records of all shards of its pool.
    ///
    /// # Panics
    ///
    /// Panics if an invariant does not hold.
    fn check_blocks(&self, slot: &PoolSlot<D>, ranges: &mut NamedRanges) {
        for (i, set) in self.sets.iter().enumerate() {
            set.check_invariants();
            assert_eq!(slot.counters[i].load(), set.statistics, "the counters are up to date");
            let (mut requested, mut waiting, mut free) = (0, 0, 0);
            for (index, block) in set.blocks() {
                let named = ranges.0.remove(&(self.shard as u8, i as u8, index)).unwrap_or_default();
                assert_eq!(named.live.allocations, block.live());
                let ranges = block.ranges.statistics().allocation_count as usize;
                assert_eq!(ranges, named.ranges.len(), "each range has a record");
                for (handle, (offset, object)) in named.ranges {
                    let range = block.ranges.get(handle).expect("a record names a range");
                    assert_eq!((range.offset, block.object()), (offset, object));
                }
                let MemoryObject { memory, size, .. } = slot.objects.get(block.object());
                let own = (block.memory.handle().to_raw(), block.memory.size());
                assert_eq!((memory, size), own, "records name the memory of their block");
                requested += named.live.allocation_bytes;
                waiting += named.waiting_bytes;
                free += block.ranges.statistics().free;
            }
            assert_eq!(requested, set.statistics.allocation_bytes);
            assert_eq!(free + waiting, set.statistics.free());
        }
        for set in 0..self.sets.len() {
            assert!(self.blocks_of_type(set) >= self.minimum(set), "no block of the minimum was freed");
        }
    }
}

impl NamedRanges {
    /// Checks that each range was in a block.
    ///
    /// # Panics
    ///
    /// Panics if an invariant does not hold.
    fn check_all_found(&self) {
        assert!(self.0.is_empty(), "records name blocks that do not exist: {:?}", self.0);
    }
}
