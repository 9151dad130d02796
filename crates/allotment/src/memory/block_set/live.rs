//! Live allocations: what is counted when one begins and ends in a block, and ranges that wait in quick lists.

use allotment_suballoc::{Algorithm, Alignment, Reach};

use super::order::BlockOrder;
use super::{Block, BlockRange, BlockSet, Sizes};
use crate::device::Device;
use crate::memory::request::LARGEST_WAITING;

impl<D: Device> Block<D> {
    /// Counts a new allocation. Returns true if the block was empty.
    #[inline]
    pub(super) fn occupy(&mut self) -> bool {
        self.live += 1;
        self.empty.is_some()
    }

    /// Frees a range.
    // Always, since it is nearly all that a free does in its block set.
    #[inline(always)]
    fn release(&mut self, block_range: &BlockRange, order: &mut BlockOrder) {
        // The handle names an allocated range: each block_range is freed once.
        let freed = self.ranges.free(block_range.handle);
        debug_assert!(freed.is_ok(), "a range is freed once");
        if self.is_listed() {
            order.update(block_range.block, self.ranges.free_and_largest());
        }
    }
}

impl<D: Device> BlockSet<D> {
    /// Counts a new allocation in a block. Returns true if the block was empty.
    pub(crate) fn occupy(&mut self, index: u32, sizes: Sizes) -> bool {
        self.count_begin(sizes);
        let Some(block) = self.blocks.get_mut(index) else { return false };
        let was_empty = block.occupy();
        if was_empty {
            self.note_in_use(index);
        }
        was_empty
    }

    /// Counts the end of an allocation in a block. Returns true if the block is empty now.
    pub(super) fn vacate(&mut self, index: u32, sizes: Sizes, now: u64) -> bool {
        self.count_end(sizes);
        let Some(block) = self.blocks.get_mut(index) else { return false };
        block.live -= 1;
        self.history.note_freed(sizes.occupied);
        let emptied = block.live == 0;
        if emptied {
            // A spare block may be larger than the allocation that it held.
            self.history.note_freed(block.memory.size());
            self.note_empty(index, now);
        }
        emptied
    }

    /// Frees an allocation. Returns true if its block is empty now.
    pub(crate) fn free(&mut self, block_range: &BlockRange, sizes: Sizes, now: u64) -> bool {
        self.release(block_range);
        self.vacate(block_range.block, sizes, now)
    }

    /// Frees a range in its block, which joins it with its free neighbours.
    pub(crate) fn release(&mut self, block_range: &BlockRange) {
        let Some(block) = self.blocks.get_mut(block_range.block) else { return };
        block.release(block_range, &mut self.order);
        if !block.is_tlsf {
            self.count_padding(block_range.block);
        }
    }

    /// Frees an allocation whose block has others, so that nothing else is to be done. Returns false, with nothing changed,
    /// for the last one of a block.
    pub(crate) fn free_one_of_several(&mut self, block_range: &BlockRange, sizes: Sizes) -> bool {
        let Some(block) = self.blocks.get_mut(block_range.block).filter(|block| block.live > 1) else {
            return false;
        };
        block.live -= 1;
        block.release(block_range, &mut self.order);
        if !block.is_tlsf {
            self.count_padding(block_range.block);
        }
        self.count_end(sizes);
        self.history.note_freed(sizes.occupied);
        true
    }

    /// Counts the beginning of an allocation, but for what its block counts.
    #[inline]
    pub(super) fn count_begin(&mut self, sizes: Sizes) {
        self.statistics.allocations += 1;
        self.statistics.allocation_bytes += sizes.requested;
        self.statistics.rounding += sizes.occupied - sizes.requested;
    }

    /// Counts the end of an allocation, but for what its block counts.
    #[inline]
    fn count_end(&mut self, sizes: Sizes) {
        self.statistics.allocations -= 1;
        self.statistics.allocation_bytes -= sizes.requested;
        self.statistics.rounding -= sizes.occupied - sizes.requested;
    }

    /// Reads a part of what [`release`](Self::release) is going to read. Returns some of it.
    pub(crate) fn read_around(&self, block_range: &BlockRange, reach: Reach) -> u64 {
        self.block(block_range.block).map_or(0, |block| block.ranges.read_around(block_range.handle, reach))
    }

    /// Returns true if the range of an allocation may wait in the quick lists when it is freed.
    pub(crate) fn may_wait(&self, block_range: &BlockRange, sizes: Sizes) -> bool {
        // Only in TLSF blocks, where joining and splitting is most of the work. In a linear block a waiting range would
        // hold up the stack or the ring that it is part of, and a dedicated block is reused as a whole.
        // Never in the lists of another shard: they name records of their own.
        // Nor where each request has memory of its own, unless it asks for a shared block: the next one may not ask for that.
        self.algorithm == Algorithm::Tlsf
            && self.always_shared != 0
            && sizes.occupied <= LARGEST_WAITING
            && !block_range.dedicated
            && block_range.home == self.home
    }

    /// Puts the range of a freed allocation, named by its block and offset, into the quick lists instead of freeing it.
    /// Returns false, with nothing changed, if the list is full, the block is closed, or it would be empty.
    pub(crate) fn keep_in_quick_list(
        &mut self,
        record: u32,
        (index, offset): (u32, u64),
        sizes: Sizes,
        alignment: Alignment,
    ) -> bool {
        let Some(block) = self.blocks.get_mut(index) else { return false };
        // The free of a block's last allocation takes the full path, which notes that the block is empty; and no range of
        // a closed block may wait. The push is last, since it changes the lists.
        if block.live == 1
            || block.is_closed()
            || !self.quick.push(record, offset, (sizes.occupied, alignment))
        {
            return false;
        }
        // As in `vacate`, whose branch for an empty block is not needed here. A waiting range counts as free.
        block.live -= 1;
        self.count_end(sizes);
        true
    }

    /// Returns true if one allocation is left in a block that is the only open one.
    pub(crate) fn is_last_of_only_block(&self, index: u32) -> bool {
        self.order.is_alone(index) && self.block(index).is_some_and(|block| block.live == 1)
    }

    /// Does what [`keep_in_quick_list`](Self::keep_in_quick_list) does, for the last allocation of an open block, which is empty
    /// from `now` on. Returns false, with nothing changed, if the list is full.
    pub(crate) fn keep_last_in_quick_list(
        &mut self,
        record: u32,
        (index, offset): (u32, u64),
        (sizes, alignment): (Sizes, Alignment),
        now: u64,
    ) -> bool {
        self.quick.push(record, offset, (sizes.occupied, alignment)) && self.vacate(index, sizes, now)
    }

    /// Counts what a block calls padding, after its ranges have changed: that of a buddy block is rounding to whole cells.
    #[inline(never)]
    pub(super) fn count_padding(&mut self, index: u32) {
        let Some(block) = self.blocks.get_mut(index) else { return };
        // The block knows best how much alignment cost.
        let now = block.ranges.statistics().padding;
        let before = core::mem::replace(&mut block.padding, now);
        let counter = match self.algorithm {
            Algorithm::Buddy => &mut self.statistics.rounding,
            _ => &mut self.statistics.padding,
        };
        *counter = *counter - before + now;
    }
}
