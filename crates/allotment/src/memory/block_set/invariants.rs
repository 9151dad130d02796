//! What holds between the blocks of a set and its counts.

use super::{BlockSet, Role};
use crate::device::Device;
use crate::memory::statistics::Statistics;

impl<D: Device> BlockSet<D> {
    /// For tests: everything agrees with everything.
    pub(in crate::memory) fn check_invariants(&self) {
        let mut counted = Statistics::default();
        let mut ranges = 0;
        let (mut empty, mut empty_bytes) = (0, 0);
        for (index, block) in self.blocks() {
            block.ranges.check_invariants();
            assert_eq!(block.ranges.size(), block.memory.size());
            assert_eq!(block.empty_since.is_some(), block.live == 0);
            let empty_here = block.live == 0;
            empty += u32::from(empty_here);
            empty_bytes += if empty_here { block.memory.size() } else { 0 };
            let standing = self.order.iter().find(|standing| standing.block == index);
            assert_eq!(standing.is_some(), block.role == Role::Shared && !block.is_closed());
            assert_eq!(self.closed.contains(&index), block.is_closed());
            assert!(!(block.is_closed() && block.is_empty()), "what is empty is not being emptied");
            if let Some(standing) = standing {
                assert_eq!(standing.free, block.ranges.statistics().free);
                assert_eq!(standing.largest_free_at_most, block.ranges.largest_free_at_most());
            }
            let spare = block.role == Role::Own && block.live == 0;
            assert_eq!(self.spare.contains(&index), spare);
            counted.block_bytes += block.memory.size();
            counted.allocations += block.live;
            ranges += block.ranges.statistics().allocation_count as usize;
            match block.role {
                Role::Shared => counted.blocks += 1,
                _ => counted.dedicated += 1,
            }
        }
        assert_eq!((empty, empty_bytes), (self.empty_blocks, self.empty_bytes));
        assert_eq!(ranges, counted.allocations as usize + self.quick.len(), "a range is live or waits");
        assert_eq!(counted.block_bytes, self.statistics.block_bytes);
        assert_eq!(counted.allocations, self.statistics.allocations);
        assert_eq!((counted.blocks, counted.dedicated), (self.statistics.blocks, self.statistics.dedicated));
    }
}
