//! Empty blocks: which of them another request reuses, shares or borrows, and which can be freed.

use allotment_suballoc::Request;

use super::search::BlockSummary;
use super::{Block, BlockSet, FIRST_RANGES, Role, UsableBlocks, new_ranges, note_visits};
use crate::device::{Device, OwnedMemory, Priority};

/// An empty block, as the empty-block policy sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EmptyBlock {
    pub(crate) size: u64,
    /// Ticks since it became empty.
    pub(crate) age: u64,
    pub(crate) role: Role,
    /// About its size was requested again lately after it had been freed.
    pub(crate) came_back: bool,
}

/// The link of a block that has no neighbour.
const NONE: u32 = u32::MAX;

/// The list of the empty blocks of a set, the longest empty first: nobody who looks for one visits those in use.
#[derive(Debug)]
pub(super) struct EmptyBlocks {
    oldest: u32,
    newest: u32,
}

impl Default for EmptyBlocks {
    fn default() -> Self {
        Self { oldest: NONE, newest: NONE }
    }
}

/// The place of an empty block in that list.
#[derive(Clone, Copy, Debug)]
pub(super) struct EmptyLink {
    /// The tick at which the last allocation was freed.
    since: u64,
    before: u32,
    after: u32,
}

/// Which spare blocks may serve a request that wants a dedicated one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpareCriteria {
    /// The application counts frames: idle bytes are better than a frame that waits for the driver.
    pub(crate) in_frames: bool,
    /// Only blocks that were allocated with this priority, where the device accepts no other one later.
    pub(crate) priority: Option<Priority>,
}

/// A spare block may be larger than the request that reuses it by the request's size divided by this.
const SPARE_WASTE_DIVISOR: u64 = 8;

/// The same where the application counts frames, and a driver call may fall into one.
const SPARE_WASTE_DIVISOR_IN_FRAMES: u64 = 2;

/// A pool wastes little while less than this part of the bytes in use is in holes.
const LITTLE_WASTE_DIVISOR: u64 = 16;

impl<D: Device> BlockSet<D> {
    /// Notes that a block is empty from `now` on.
    pub(super) fn note_empty(&mut self, index: u32, now: u64) {
        let Some(block) = self.blocks.get_mut(index) else { return };
        debug_assert!(block.empty.is_none(), "a block becomes empty once");
        block.empty = Some(EmptyLink { since: now, before: self.empty.newest, after: NONE });
        self.empty_blocks += 1;
        self.empty_bytes += block.memory.size();
        self.objects.add_idle(self.heap.get());
        match self.link(self.empty.newest) {
            Some(before) => before.after = index,
            None => self.empty.oldest = index,
        }
        self.empty.newest = index;
    }

    /// Notes that a block is not empty any more, or is about to be removed.
    pub(super) fn note_in_use(&mut self, index: u32) {
        let Some(block) = self.blocks.get_mut(index) else { return };
        let Some(EmptyLink { before, after, .. }) = block.empty.take() else { return };
        self.empty_blocks -= 1;
        self.empty_bytes -= block.memory.size();
        self.objects.remove_idle(self.heap.get(), 1);
        match self.link(before) {
            Some(link) => link.after = after,
            None => self.empty.oldest = after,
        }
        match self.link(after) {
            Some(link) => link.before = before,
            None => self.empty.newest = before,
        }
    }

    fn link(&mut self, index: u32) -> Option<&mut EmptyLink> {
        self.blocks.get_mut(index)?.empty.as_mut()
    }

    /// Iterates over the empty blocks, the longest empty first.
    fn empties(&self) -> impl Iterator<Item = (u32, &Block<D>)> {
        let get = |index| {
            note_visits(1);
            Some((index, self.block(index)?))
        };
        core::iter::successors(get(self.empty.oldest), move |(_, block)| get(block.empty?.after))
    }

    /// Iterates over the ticks since each empty block became empty.
    pub(crate) fn empty_ages(&self, now: u64) -> impl Iterator<Item = u64> {
        self.empties().filter_map(move |(_, block)| Some(now.saturating_sub(block.empty?.since)))
    }

    /// Returns the ticks since the last block that is empty became so; `None` where none is empty.
    pub(crate) fn empty_for(&self, now: u64) -> Option<u64> {
        Some(now.saturating_sub(self.block(self.empty.newest)?.empty?.since))
    }

    /// Checks the list of empty blocks, for tests.
    ///
    /// # Panics
    ///
    /// Panics if an invariant does not hold.
    pub(super) fn check_empty(&self) {
        let mut before = NONE;
        let mut since = 0;
        for (index, block) in self.empties() {
            let link = block.empty.expect("a listed block is empty");
            assert!(link.before == before && link.since >= since, "each is linked, in the order of time");
            (before, since) = (index, link.since);
        }
        assert_eq!(before, self.empty.newest);
        assert_eq!(self.empties().count(), self.empty_blocks as usize, "each empty block is listed");
    }

    /// Returns the spare block that fits `size` best, unless more than an eighth of the size would be idle; or more
    /// than half of it, where a frame would wait for the driver instead.
    pub(super) fn best_spare(&self, size: u64, spare: SpareCriteria, usable: UsableBlocks) -> Option<u32> {
        let divisor = if spare.in_frames { SPARE_WASTE_DIVISOR_IN_FRAMES } else { SPARE_WASTE_DIVISOR };
        let waste = size / divisor;
        let fitting = self.spares(spare.priority, usable).filter_map(|index| {
            let room = self.block(index)?.memory.size();
            (room >= size && room - size <= waste).then_some((room, index))
        });
        // The smallest that fits, so that the larger ones are left for larger requests.
        fitting.min().map(|(_, index)| index)
    }

    /// Iterates over the spare blocks that may serve a request, or those of one priority.
    fn spares(&self, priority: Option<Priority>, usable: UsableBlocks) -> impl Iterator<Item = u32> + '_ {
        let alike = move |memory: &OwnedMemory<D>| priority.is_none_or(|only| only == memory.priority());
        // Not one of `Role::DedicatedToAllocation`, which the pool frees at once.
        let spare =
            self.empties().filter(move |(_, block)| block.role == Role::Dedicated && usable.contain(block));
        spare.filter(move |(_, block)| alike(&block.memory)).map(|(index, _)| index)
    }

    /// Returns the smallest spare block of at most `most` bytes that has room for the request; of one priority, if given.
    pub(super) fn shareable_spare(
        &self,
        request: &Request,
        most: u64,
        priority: Option<Priority>,
        usable: UsableBlocks,
    ) -> Option<u32> {
        let least = self.least_block(request.size);
        let fitting = self.spares(priority, usable).filter_map(|index| {
            let room = self.block(index)?.memory.size();
            (room >= least && room <= most).then_some((room, index))
        });
        fitting.min().map(|(_, index)| index)
    }

    /// Turns a spare block of at most `most` bytes into a shared one, so that this request needs no new block. Returns its
    /// index; `None` if there is none.
    pub(crate) fn share_spare(
        &mut self,
        request: &Request,
        most: u64,
        priority: Option<Priority>,
        usable: UsableBlocks,
    ) -> Option<u32> {
        let index = self.shareable_spare(request, most, priority, usable)?;
        let algorithm = self.algorithm;
        let block = self.blocks.get_mut(index)?;
        // A dedicated block has linear ranges; a shared one has those of the pool's algorithm.
        block.ranges = new_ranges(block.memory.size(), algorithm);
        if self.has_many {
            block.ranges.reserve(FIRST_RANGES);
        }
        debug_assert!(
            block.role == Role::Dedicated && block.live == 0,
            "a spare block is dedicated and empty"
        );
        block.role = Role::Shared;
        self.order.push(BlockSummary::of(index, &block.ranges));
        self.statistics.dedicated -= 1;
        self.statistics.blocks += 1;
        Some(index)
    }

    /// Returns an empty block that would serve a request in another shard.
    pub(crate) fn lendable(
        &self,
        request: &Request,
        spare: Option<SpareCriteria>,
        in_blocks: bool,
        usable: UsableBlocks,
    ) -> Option<u32> {
        spare.and_then(|spare| self.best_spare(request.size, spare, usable)).or_else(|| {
            // The smallest, so that a small request does not take away what a large one here would need.
            let least = self.least_block(request.size);
            let empty = self.empties().filter(|(_, block)| {
                let shared = block.role == Role::Shared && block.held.is_none();
                in_blocks && shared && block.memory.size() >= least && usable.contain(block)
            });
            empty.min_by_key(|(index, block)| (block.memory.size(), *index)).map(|(index, _)| index)
        })
    }

    /// Returns true while little of the bytes in use is wasted in holes and ends of blocks; false while none is in use.
    pub(crate) fn wastes_little(&self) -> bool {
        let used = self.statistics.block_bytes - self.empty_bytes;
        let occupied = self.statistics.allocation_bytes + self.statistics.rounding + self.statistics.padding;
        used.saturating_sub(occupied) < used / LITTLE_WASTE_DIVISOR
    }

    /// Iterates over the blocks that have been empty for `least_age` ticks and for which `unwanted` returns true, the longest
    /// empty first. With `keep_shared`, only over dedicated ones. Looks at no block that is younger but the first.
    pub(crate) fn unwanted(
        &self,
        now: u64,
        least_age: u64,
        keep_shared: bool,
        unwanted: impl Fn(&EmptyBlock) -> bool,
    ) -> impl Iterator<Item = (u32, EmptyBlock)> {
        let is_old = move |block: &Block<D>| {
            block.empty.is_some_and(|link| now.saturating_sub(link.since) >= least_age)
        };
        let old = self.empties().take_while(move |(_, block)| is_old(block));
        let empty = old.filter_map(move |(index, block)| {
            let kept = (keep_shared && block.role == Role::Shared) || block.held.is_some();
            let age = block.empty.filter(|_| !kept).map(|link| now.saturating_sub(link.since))?;
            let (size, role) = (block.memory.size(), block.role);
            Some((index, EmptyBlock { size, age, role, came_back: self.history.came_back(size) }))
        });
        empty.filter(move |(_, empty)| unwanted(empty))
    }

    /// Removes empty blocks and returns their memory. None of their ranges may wait in the quick lists.
    pub(crate) fn remove_all(&mut self, blocks: &[u32]) -> Vec<(u32, OwnedMemory<D>)> {
        let removed = blocks.iter().filter_map(|&index| Some((index, self.remove_unordered(index)?)));
        let removed: Vec<_> = removed.collect();
        let indices: Vec<u32> = removed.iter().map(|(index, _)| *index).collect();
        self.order.remove_all(&indices);
        removed
    }

    /// Returns the bytes of the empty blocks, of which at least `keep` shared blocks stay.
    pub(crate) fn freeable_bytes(&self, keep: u32) -> u64 {
        let mut may_go = self.statistics.blocks.saturating_sub(keep);
        let mut bytes = 0;
        for (_, block) in self.empties().filter(|(_, block)| block.held.is_none()) {
            if block.role == Role::Shared {
                let Some(left) = may_go.checked_sub(1) else { continue };
                may_go = left;
            }
            bytes += block.memory.size();
        }
        bytes
    }
}
