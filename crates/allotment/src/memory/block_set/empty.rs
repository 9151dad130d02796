//! Empty blocks: which of them another request reuses, shares or borrows, and which can be freed.

use allotment_suballoc::Request;

use super::search::BlockSummary;
use super::{BlockSet, FIRST_RANGES, Role, new_ranges};
use crate::device::{Device, OwnedMemory, Priority};

/// An empty block, as the empty-block policy sees it.
#[derive(Clone, Copy, Debug)]
pub(in crate::memory) struct EmptyBlock {
    pub(in crate::memory) size: u64,
    /// Ticks since it became empty.
    pub(in crate::memory) age: u64,
    pub(in crate::memory) role: Role,
    /// About its size was requested again lately after it had been freed.
    pub(in crate::memory) came_back: bool,
}

/// Which spare blocks may serve a request that wants a dedicated one.
#[derive(Clone, Copy, Debug)]
pub(in crate::memory) struct SpareCriteria {
    /// The application counts frames: idle bytes are better than a frame that waits for the driver.
    pub(in crate::memory) in_frames: bool,
    /// Only blocks that were allocated with this priority, where the device accepts no other one later.
    pub(in crate::memory) priority: Option<Priority>,
}

/// A spare block may be larger than the request that reuses it by the request's size divided by this.
const SPARE_WASTE_DIVISOR: u64 = 8;

/// The same where the application counts frames, and a driver call may fall into one.
const SPARE_WASTE_DIVISOR_IN_FRAMES: u64 = 2;

/// A pool wastes little while less than this part of the bytes in use is in holes.
const LITTLE_WASTE_DIVISOR: u64 = 16;

impl<D: Device> BlockSet<D> {
    /// Returns the spare block that fits `size` best, unless more than an eighth of the size would be idle; or more
    /// than half of it, where a frame would wait for the driver instead.
    pub(super) fn best_spare(&self, size: u64, spare: SpareCriteria) -> Option<u32> {
        let divisor = if spare.in_frames { SPARE_WASTE_DIVISOR_IN_FRAMES } else { SPARE_WASTE_DIVISOR };
        let waste = size / divisor;
        let fitting = self.spares(spare.priority).filter_map(|index| {
            let room = self.block(index)?.memory.size();
            (room >= size && room - size <= waste).then_some((room, index))
        });
        // The smallest that fits, so that the larger ones are left for larger requests.
        fitting.min().map(|(_, index)| index)
    }

    /// Iterates over the spare blocks, or those of one priority.
    pub(super) fn spares(&self, priority: Option<Priority>) -> impl Iterator<Item = u32> + '_ {
        let alike = move |memory: &OwnedMemory<D>| priority.is_none_or(|only| only == memory.priority());
        let of = move |&index: &u32| self.block(index).is_some_and(|block| alike(&block.memory));
        self.spare.iter().copied().filter(of)
    }

    /// Returns the smallest spare block of at most `most` bytes that has room for the request; of one priority, if given.
    pub(super) fn shareable_spare(
        &self,
        request: &Request,
        most: u64,
        priority: Option<Priority>,
    ) -> Option<u32> {
        let least = self.least_block(request.size);
        let fitting = self.spares(priority).filter_map(|index| {
            let room = self.block(index)?.memory.size();
            (room >= least && room <= most).then_some((room, index))
        });
        fitting.min().map(|(_, index)| index)
    }

    /// Turns a spare block of at most `most` bytes into a shared one, so that this request needs no new block. Returns its
    /// index; `None` if there is none.
    pub(in crate::memory) fn share_spare(
        &mut self,
        request: &Request,
        most: u64,
        priority: Option<Priority>,
    ) -> Option<u32> {
        let index = self.shareable_spare(request, most, priority)?;
        let algorithm = self.algorithm;
        let block = self.blocks.get_mut(index)?;
        // A dedicated block has linear ranges; a shared one has those of the pool's algorithm.
        block.ranges = new_ranges(block.memory.size(), algorithm);
        block.ranges.reserve(FIRST_RANGES);
        debug_assert!(
            block.role == Role::Dedicated && block.live == 0,
            "a spare block is dedicated and empty"
        );
        block.role = Role::Shared;
        self.spare.retain(|&spare| spare != index);
        self.order.push(BlockSummary::of(index, &block.ranges));
        self.statistics.dedicated -= 1;
        self.statistics.blocks += 1;
        Some(index)
    }

    /// Returns an empty block that would serve a request in another shard.
    pub(in crate::memory) fn lendable(
        &self,
        request: &Request,
        spare: Option<SpareCriteria>,
        in_blocks: bool,
    ) -> Option<u32> {
        spare.and_then(|spare| self.best_spare(request.size, spare)).or_else(|| {
            // The smallest, so that a small request does not take away what a large one here would need.
            let least = self.least_block(request.size);
            let empty = self.blocks().filter(|(_, block)| {
                let shared = block.role == Role::Shared && block.held.is_none();
                in_blocks && block.live == 0 && shared && block.memory.size() >= least
            });
            empty.min_by_key(|(_, block)| block.memory.size()).map(|(index, _)| index)
        })
    }

    /// Returns true while little of the bytes in use is wasted in holes and ends of blocks; false while none is in use.
    pub(in crate::memory) fn wastes_little(&self) -> bool {
        let used = self.statistics.block_bytes - self.empty_bytes;
        let occupied = self.statistics.allocation_bytes + self.statistics.rounding + self.statistics.padding;
        used.saturating_sub(occupied) < used / LITTLE_WASTE_DIVISOR
    }

    /// Returns the empty block with the least `rank` among those for which `unwanted` returns true; the first of equal
    /// ones. With `keep_shared`, only a dedicated one.
    pub(in crate::memory) fn find_empty<R: Ord>(
        &self,
        now: u64,
        keep_shared: bool,
        unwanted: impl Fn(&EmptyBlock) -> bool,
        rank: impl Fn(&EmptyBlock) -> R,
    ) -> Option<u32> {
        // The usual case, at each frame end and each free that empties nothing.
        if self.empty_blocks == 0 {
            return None;
        }
        let found = self.blocks().filter_map(|(index, block)| {
            let kept = (keep_shared && block.role == Role::Shared) || block.held.is_some();
            let age = block.empty_since.filter(|_| !kept).map(|since| now.saturating_sub(since))?;
            let (size, role) = (block.memory.size(), block.role);
            let empty = EmptyBlock { size, age, role, came_back: self.history.came_back(size) };
            unwanted(&empty).then(|| (rank(&empty), index))
        });
        found.min().map(|(_, index)| index)
    }

    /// Returns the bytes of the empty blocks, of which at least `keep` shared blocks stay.
    pub(in crate::memory) fn freeable_bytes(&self, keep: u32) -> u64 {
        let mut may_go = self.statistics.blocks.saturating_sub(keep);
        let mut bytes = 0;
        for (_, block) in
            self.blocks().filter(|(_, block)| block.empty_since.is_some() && block.held.is_none())
        {
            if block.role == Role::Shared {
                let Some(left) = may_go.checked_sub(1) else { continue };
                may_go = left;
            }
            bytes += block.memory.size();
        }
        bytes
    }
}
