//! What is counted when an allocation begins and ends in a block.

use allotment_suballoc::Algorithm;

use super::{BlockSet, Role, Sizes, Spot};
use crate::device::Device;
use crate::memory::quick_lists::LARGEST_WAITING;

impl<D: Device> BlockSet<D> {
    /// Counts an allocation in a block. True when the block was empty.
    pub(in crate::memory) fn occupy(&mut self, index: u32, sizes: Sizes) -> bool {
        self.statistics.allocations += 1;
        self.statistics.allocation_bytes += sizes.requested;
        self.statistics.rounding += sizes.occupied - sizes.requested;
        let Some(block) = self.blocks.get_mut(index as usize).and_then(Option::as_mut) else { return false };
        block.live += 1;
        let was_empty = block.empty_since.take().is_some();
        if was_empty {
            self.empty_blocks -= 1;
            self.empty_bytes -= block.memory.size();
            self.spare.retain(|&spare| spare != index);
        }
        was_empty
    }

    /// Counts an allocation in a block no more. True when the block is empty now.
    pub(super) fn vacate(&mut self, index: u32, sizes: Sizes, now: u64) -> bool {
        self.statistics.allocations -= 1;
        self.statistics.allocation_bytes -= sizes.requested;
        self.statistics.rounding -= sizes.occupied - sizes.requested;
        let Some(block) = self.blocks.get_mut(index as usize).and_then(Option::as_mut) else { return false };
        block.live -= 1;
        let emptied = block.live == 0;
        if emptied {
            block.empty_since = Some(now);
            self.empty_blocks += 1;
            self.empty_bytes += block.memory.size();
            if block.role == Role::Own {
                self.spare.push(index);
            }
        }
        emptied
    }

    /// Takes an allocation back. True when its block is empty now.
    pub(in crate::memory) fn free(&mut self, spot: &Spot, sizes: Sizes, now: u64) -> bool {
        self.release(spot);
        self.vacate(spot.block, sizes, now)
    }

    /// Gives a range back to the ranges of its block.
    pub(in crate::memory) fn release(&mut self, spot: &Spot) {
        let Some(block) = self.blocks.get_mut(spot.block as usize).and_then(Option::as_mut) else { return };
        let padding = block.ranges.statistics().padding;
        // The handle is of a range that was handed out and not given back.
        let freed = block.ranges.free(spot.handle);
        debug_assert!(freed.is_ok(), "a range is given back once");
        let padding = padding - block.ranges.statistics().padding;
        *self.lost() -= padding;
        self.stands_anew(spot.block);
    }

    /// True where the range of an allocation may wait for a request of its size once it is freed.
    pub(in crate::memory) fn may_wait(&self, spot: &Spot, sizes: Sizes) -> bool {
        self.algorithm == Algorithm::Tlsf
            && sizes.occupied <= LARGEST_WAITING
            && self.block(spot.block).is_some_and(|block| block.role == Role::Shared)
    }

    /// Lets the range of an allocation wait, in place of giving it back. False, and nothing has changed,
    /// when its list is full or its block would be empty.
    pub(in crate::memory) fn park(&mut self, record: u32, spot: &Spot, sizes: Sizes) -> bool {
        let Some(block) = self.blocks.get_mut(spot.block as usize).and_then(Option::as_mut) else {
            return false;
        };
        if block.live == 1 || block.is_closed() || !self.quick.push(record, spot.offset, sizes.occupied) {
            return false;
        }
        block.live -= 1;
        self.statistics.allocations -= 1;
        self.statistics.allocation_bytes -= sizes.requested;
        self.statistics.rounding -= sizes.occupied - sizes.requested;
        true
    }

    /// What a block calls padding: of a buddy block it is rounding.
    pub(super) fn lost(&mut self) -> &mut u64 {
        match self.algorithm {
            Algorithm::Buddy => &mut self.statistics.rounding,
            _ => &mut self.statistics.padding,
        }
    }
}
