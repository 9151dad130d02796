//! The invariants between the parts of a pool, which hold whenever its lock is free.

use super::{PoolSlot, PoolState};
use crate::device::Device;
use crate::memory::token::record::Record;

impl<D: Device> PoolState<D> {
    /// Checks the invariants, for tests. Takes time linear in the number of allocations.
    ///
    /// # Panics
    ///
    /// Panics if an invariant does not hold.
    pub(in crate::memory) fn check_invariants(&self, slot: &PoolSlot<D>) {
        for (i, set) in self.sets.iter().enumerate() {
            set.check_invariants();
            let of_set = || self.live().map(|(_, detail)| detail).filter(move |d| usize::from(d.set) == i);
            assert_eq!(of_set().count(), set.statistics.allocations as usize);
            let requested: u64 = of_set().map(|detail| detail.sizes.requested).sum();
            assert_eq!(requested, set.statistics.allocation_bytes);
            assert_eq!(slot.counters[i].load(), set.statistics, "the counters are up to date");
            let mut waiting = 0;
            for record in set.quick.records() {
                let detail = self.details.get(record).expect("a waiting range has a detail");
                assert!(detail.waiting && usize::from(detail.set) == i);
                waiting += detail.sizes.occupied;
            }
            let free: u64 = set.blocks().map(|(_, block)| block.ranges.statistics().free).sum();
            assert_eq!(free + waiting, set.statistics.free());
            for (block, record) in set.records() {
                let detail = self.details.get(record).expect("a range has a detail");
                assert_eq!(detail.block_range.block, block);
                let place = slot.records.get(record).expect("a live record exists").read();
                assert_eq!(place.offset, detail.block_range.offset);
                assert!(detail.waiting || place.size == detail.sizes.requested);
            }
        }
        assert!(self.first_blocks() >= self.rules.min_blocks, "no block of the minimum was freed");
        let spent = |record| slot.records.get(record).is_none_or(Record::is_spent);
        let unused = (0..self.records()).filter(|&record| self.details.get(record).is_none());
        let vacant = self.details.check_invariants();
        assert_eq!(unused.filter(|&record| !spent(record)).count(), vacant.len());
        assert!(!vacant.into_iter().any(spent), "a spent record is not used again");
    }
}
