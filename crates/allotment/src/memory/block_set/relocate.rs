//! Blocks that defragmentation empties (closed blocks), and the moves of ranges out of them.
//!
//! Several runs may empty blocks of a set at the same time. A run *claims* the blocks of its plan first, so that no
//! other run empties them, nor fills them with moves. When it comes to a block, it closes it. Each closing has a number,
//! by which a run, and the owners to whom it offered places, see whether the block is still closed by it.

use allotment_suballoc::{FitStrategy, Handle, Request, VirtualBlock};

use super::search::BlockSummary;
use super::{Block, BlockRange, BlockSet, Closing, PlacedRange, Role, Sizes, UsableBlocks};
use crate::device::Device;
use crate::memory::EmptiedBlocks;

/// Up to this many free ranges in a block are searched for the closest fit while other threads wait for the lock: less
/// than a microsecond.
const FEW_FREE_RANGES: u32 = 256;

/// How many blocks are tried when the planned one has no room any more, while other threads wait for the lock.
const MAX_TRIED: u32 = 16;

impl<D: Device> BlockSet<D> {
    /// Claims a block for a run. Returns false if there is no such block, it is closed, or another run has claimed it.
    pub(crate) fn claim(&mut self, index: u32, run: u64) -> bool {
        let Some(block) = self.blocks.get_mut(index) else { return false };
        let free = !block.is_of_another_run(run);
        if free {
            block.claim = run;
        }
        free
    }

    /// Ends the claim of a run to a block, if it has one.
    pub(crate) fn disclaim(&mut self, index: u32, run: u64) {
        let block = self.blocks.get_mut(index).filter(|block| block.claim == run);
        block.into_iter().for_each(|block| block.claim = 0);
    }

    /// Closes a block: nothing new is placed in it. None of its ranges may wait in the quick lists. Returns the number
    /// of the closing; `None` unless the run has a claim to the block, which this ends.
    pub(crate) fn close(&mut self, index: u32, run: u64, release: EmptiedBlocks) -> Option<u64> {
        let block = self.blocks.get_mut(index).filter(|block| block.claim == run)?;
        debug_assert!(!block.is_closed(), "a claimed block is open");
        // 0 is the number of no closing. 64 bits do not run out.
        self.closings += 1;
        block.claim = 0;
        // Out of `order`, so that the search for room does not have to skip it.
        block.closed = Some(Closing { number: self.closings, release, hold: 0 });
        self.order.remove(index);
        debug_assert!(!self.closed.contains(&index), "an open block is in no list of closed ones");
        self.closed.push(index);
        Some(self.closings)
    }

    /// Keeps a block that is closed by a closing for a run, also once it is empty: moves are planned into it.
    pub(crate) fn hold(&mut self, index: u32, closing: u64, run: u64) {
        let block = self.blocks.get_mut(index).filter(|block| block.is_closed_by(closing));
        let closing = block.and_then(|block| block.closed.as_mut());
        closing.into_iter().for_each(|closing| closing.hold = run);
    }

    /// Ends what [`hold`](Self::hold) began.
    pub(crate) fn end_hold(&mut self, index: u32, run: u64) {
        let block =
            self.blocks.get_mut(index).filter(|block| block.held.is_some_and(|(held, _)| held == run));
        block.into_iter().for_each(|block| block.held = None);
    }

    /// Opens a closed block again.
    pub(crate) fn reopen(&mut self, index: u32) {
        let Some(block) = self.blocks.get_mut(index) else { return };
        if let Some(closing) = block.closed.take() {
            block.held = (closing.hold != 0).then_some((closing.hold, closing.number));
            self.closed.retain(|&other| other != index);
            // Dedicated blocks are never searched. At the end of the list, the position moves with the next operations.
            if block.role == Role::Shared {
                self.order.push(BlockSummary::of(index, &block.ranges));
            }
        }
    }

    /// Opens a block again if it is still closed by a closing.
    pub(crate) fn reopen_closing(&mut self, index: u32, closing: u64) {
        if self.block(index).is_some_and(|block| block.is_closed_by(closing)) {
            self.reopen(index);
        }
    }

    /// Opens a closed block that has room for a request. Returns false if there is none.
    pub(crate) fn reopen_for(&mut self, request: &Request, usable: UsableBlocks) -> bool {
        // Whether it fits does not depend on the strategy.
        let request = &request.with_strategy(FitStrategy::Balanced);
        let fits = |block: &Block<D>| usable.contain(block) && block.ranges.would_fit(request);
        let fits = |index: &u32| self.block(*index).is_some_and(fits);
        let found = self.closed_shared().find(fits);
        found.into_iter().for_each(|index| self.reopen(index));
        found.is_some()
    }

    /// Returns whether a closed block is freed once it is empty; `None` for an open block.
    pub(crate) fn release_of(&self, index: u32) -> Option<EmptiedBlocks> {
        Some(self.block(index)?.closed?.release)
    }

    /// Iterates over the closed blocks that are shared.
    pub(super) fn closed_shared(&self) -> impl Iterator<Item = u32> + '_ {
        let shared = |&index: &u32| self.block(index).is_some_and(|block| block.role == Role::Shared);
        self.closed.iter().copied().filter(shared)
    }

    /// Places the copy of an allocation in the block that was planned for it; where that has no room any more, in one
    /// of the first few, the fullest first. Never in an empty block, nor in one that a run empties or is going to.
    pub(crate) fn place_relocated(
        &mut self,
        planned: Option<u32>,
        request: &Request,
        sizes: Sizes,
    ) -> Option<PlacedRange> {
        let open = |index: &u32| self.order.contains(*index);
        if let Some(index) = planned.filter(open).filter(|&index| self.may_take(index)) {
            // The plan assumes the closest fit. With many free ranges that search would take long under the lock.
            let few = self
                .block(index)
                .is_some_and(|block| block.ranges.statistics().free_range_count <= FEW_FREE_RANGES);
            let strategy = if few { FitStrategy::LeastMemory } else { request.strategy };
            let request = request.with_strategy(strategy);
            if let Ok(Some(placed)) = self.place_in_block(index, &request, sizes) {
                return Some(placed);
            }
        }
        let (mut tried, mut from) = (0, 0);
        while let Some((at, block)) = self.order.with_room(request.size, from) {
            from = at + 1;
            // Not counted as a try: this reads only the block's count.
            if !self.may_take(block) {
                continue;
            }
            // A refusal for another reason than room is one of this block; the move is dropped if all refuse.
            if let Ok(Some(placed)) = self.place_in_block(block, request, sizes) {
                return Some(placed);
            }
            tried += 1;
            if tried == MAX_TRIED {
                break;
            }
        }
        None
    }

    /// Places a range at an offset of a block, closed or not: in the free bytes directly behind the range `after`, or at
    /// the start of the block where that is `None`. Returns `None` where they are not free.
    pub(crate) fn place_at(
        &mut self,
        (index, offset, after): (u32, u64, Option<Handle>),
        request: &Request,
        sizes: Sizes,
    ) -> Option<PlacedRange> {
        let place = |ranges: &mut VirtualBlock<()>| {
            ranges.allocate_at(*request, offset, after, ()).map(Some).map_err(|refused| refused.error)
        };
        self.place_with(index, sizes, place).ok().flatten()
    }

    /// Returns true if a block is a destination of moves.
    pub(super) fn may_take(&self, index: u32) -> bool {
        // An empty block is better freed than filled again.
        self.block(index).is_some_and(|block| !block.is_empty() && block.claim == 0)
    }

    /// Returns the size of a range; `None` where there is no such range.
    pub(crate) fn size_of_range(&self, block_range: &BlockRange) -> Option<u64> {
        Some(self.block(block_range.block)?.ranges.get(block_range.handle).ok()?.size)
    }
}
