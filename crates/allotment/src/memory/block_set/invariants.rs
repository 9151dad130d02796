//! The invariants between the blocks of a set, its lists and its counts.

use super::{BlockSet, Role};
use crate::device::Device;
use crate::memory::statistics::Statistics;

impl<D: Device> BlockSet<D> {
    /// Checks the invariants, for tests.
    ///
    /// # Panics
    ///
    /// Panics if an invariant does not hold.
    pub(crate) fn check_invariants(&self) {
        self.blocks.check_invariants();
        self.order.check_invariants();
        self.check_empty();
        let mut counted = Statistics::default();
        let mut ranges = 0;
        let (mut empty, mut empty_bytes) = (0, 0);
        for (index, block) in self.blocks() {
            block.ranges.check_invariants();
            assert_eq!(block.ranges.size(), block.memory.size());
            assert_eq!(block.empty.is_some(), block.live == 0);
            let empty_here = block.live == 0;
            empty += u32::from(empty_here);
            empty_bytes += if empty_here { block.memory.size() } else { 0 };
            let summary = self.order.get(index);
            assert_eq!(summary.is_some(), block.role == Role::Shared && !block.is_closed());
            assert_eq!(self.closed.contains(&index), block.is_closed());
            assert!(!(block.is_closed() && block.is_empty()), "a closed block has live allocations");
            assert!(!(block.is_closed() && block.claim != 0), "to close a block ends the claim to it");
            if let Some(summary) = summary {
                assert_eq!(summary.free, block.ranges.statistics().free);
                assert_eq!(summary.largest_free_at_most, block.ranges.free_and_largest().1);
                assert!(summary.knows(block), "the sizes are forgotten when the block changes");
            }
            counted.block_bytes += block.memory.size();
            counted.allocations += block.live;
            ranges += block.ranges.statistics().allocation_count as usize;
            match block.role {
                Role::Shared => counted.blocks += 1,
                _ => counted.dedicated += 1,
            }
        }
        assert_eq!((empty, empty_bytes), (self.empty_blocks, self.empty_bytes));
        assert_eq!(
            ranges,
            counted.allocations as usize + self.quick.len(),
            "a range is live or waits in a quick list"
        );
        assert_eq!(counted.block_bytes, self.statistics.block_bytes);
        assert_eq!(counted.allocations, self.statistics.allocations);
        assert_eq!((counted.blocks, counted.dedicated), (self.statistics.blocks, self.statistics.dedicated));
    }
}
