//! The search for room: which block a request is placed in.
//!
//! Worked example: three shared blocks of 16 MiB have 1, 5 and 9 MiB free, in this order. A request for 64 KiB tries
//! the first block, then the others. A request for 4 MiB skips the first, whose largest free range cannot have more
//! than 1 MiB, without touching the block; of the two others it takes the one whose free range of at least 4 MiB is
//! smallest.

use allotment_suballoc::{Algorithm, AllocateError, Allocation, Request, Side, VirtualBlock};

use super::{BlockRange, BlockSet, PlacedRange, Role, Sizes, SpareCriteria};
use crate::device::{Device, Priority};

/// Requests up to this size take the first block that has room, the fullest first.
///
/// Larger ones, for which a search of all blocks costs little beside the use of the memory, take the block where they
/// fit most closely: that saves half a percent to a percent of memory at the peaks of the recorded training traces.
const FIRST_FIT: u64 = 256 << 10;

/// The part of a shared block that a search for room reads, contiguous in memory with those of the other blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockSummary {
    pub(super) block: u32,
    pub(super) free: u64,
    /// An upper bound: a larger request finds no room, a smaller one may find some.
    pub(super) largest_free_at_most: u64,
}

impl BlockSummary {
    pub(super) fn of(block: u32, ranges: &VirtualBlock<()>) -> Self {
        let free = ranges.statistics().free;
        Self { block, free, largest_free_at_most: ranges.largest_free_at_most() }
    }
}

impl<D: Device> BlockSet<D> {
    /// Places a request in an existing block: with [`SpareCriteria`] in a spare dedicated one, else in a shared one.
    pub(in crate::memory) fn place(
        &mut self,
        request: &Request,
        spare: Option<SpareCriteria>,
        sizes: Sizes,
    ) -> Result<Option<PlacedRange>, AllocateError> {
        if let Some(spare) = spare {
            let Some(index) = self.best_spare(request.size, spare) else { return Ok(None) };
            // A spare block may be larger than the request. Its one allocation still begins at offset 0, on whichever
            // side of a shared block it would have been placed.
            let at_start = Request { side: Side::Lower, ..*request };
            return self.place_in_block(index, &at_start, sizes);
        }
        if request.size > FIRST_FIT && self.algorithm == Algorithm::Tlsf {
            return match self.closest_fit(request) {
                Some(index) => self.place_in_block(index, request, sizes),
                None => Ok(None),
            };
        }
        // The fullest first, so that the emptiest blocks become empty and can be freed.
        for at in 0..self.order.len() {
            let BlockSummary { block, largest_free_at_most, .. } = self.order[at];
            if request.size <= largest_free_at_most {
                if let Some(placed) = self.place_in_block(block, request, sizes)? {
                    return Ok(Some(placed));
                }
            }
        }
        Ok(None)
    }

    /// Returns the block in which the request fits most closely.
    pub(super) fn closest_fit(&self, request: &Request) -> Option<u32> {
        let candidates = self.order.iter().filter(|summary| request.size <= summary.largest_free_at_most);
        let fitting = candidates.filter_map(|&BlockSummary { block, .. }| {
            Some((self.block(block)?.ranges.room_for(request)?, block))
        });
        fitting.min_by_key(|&(room, _)| room).map(|(_, index)| index)
    }

    /// Places a request in one block. Returns `None` where the block has no room.
    pub(in crate::memory) fn place_in_block(
        &mut self,
        index: u32,
        request: &Request,
        sizes: Sizes,
    ) -> Result<Option<PlacedRange>, AllocateError> {
        self.place_with(index, sizes, |ranges| ranges.allocate_if_it_fits(*request, ()))
    }

    /// Places a range in one block, where `allocate` takes it. Returns `None` where the block has no room.
    pub(super) fn place_with(
        &mut self,
        index: u32,
        sizes: Sizes,
        allocate: impl FnOnce(&mut VirtualBlock<()>) -> Result<Option<Allocation>, AllocateError>,
    ) -> Result<Option<PlacedRange>, AllocateError> {
        let Some(block) = self.blocks.get_mut(index) else { return Ok(None) };
        let padding = block.ranges.statistics().padding;
        let range = match allocate(&mut block.ranges) {
            Ok(Some(range)) => range,
            // A linear block in use as a ring has no upper side; another block may have one.
            Ok(None) | Err(AllocateError::RingInUse) => return Ok(None),
            Err(error) => return Err(error),
        };
        // The difference, since the block knows best how much alignment cost.
        let padding = block.ranges.statistics().padding - padding;
        let dedicated = block.role != Role::Shared;
        *self.padding_counter() += padding;
        self.occupy(index, sizes);
        self.update_order(index);
        let (home, handle, offset) = (self.home, range.handle, range.offset);
        let range = BlockRange { home, dedicated, block: index, handle };
        Ok(Some(PlacedRange { range, offset }))
    }

    /// Returns true if [`place`](Self::place) would find room, in the order in which a pool tries the blocks.
    pub(in crate::memory) fn would_place(
        &self,
        request: &Request,
        spare: Option<SpareCriteria>,
        in_blocks: bool,
        most_spare: u64,
        priority: Option<Priority>,
    ) -> bool {
        // In the order of `place_in_existing`, with which a preview has to agree.
        if spare.is_some_and(|spare| self.best_spare(request.size, spare).is_some()) {
            return true;
        }
        if !in_blocks {
            return false;
        }
        if self.shareable_spare(request, most_spare, priority).is_some() {
            return true;
        }
        // A closed block counts, since a request that needs it opens it again.
        let shared = self.order.iter().map(|summary| summary.block).chain(self.closed_shared());
        shared.into_iter().any(|index| self.block(index).is_some_and(|block| block.ranges.would_fit(request)))
    }

    /// Updates the summary of a shared block, and moves it by one position if it is out of order.
    pub(super) fn update_order(&mut self, block: u32) {
        let (index, order) = (block, &mut self.order);
        let Some(block) = self.blocks.get_mut(index) else { return };
        // Dedicated and closed blocks are not in the list, and a look through all of it costs as much as a free.
        if block.role != Role::Shared || block.is_closed() {
            return;
        }
        let is_here = |at: &usize| order.get(*at).is_some_and(|summary| summary.block == index);
        // Changes of its neighbours move a block by one position each, so it is seldom far from where it was.
        let near =
            [block.order_at, block.order_at.wrapping_sub(1), block.order_at + 1].into_iter().find(is_here);
        let anywhere = || order.iter().position(|summary| summary.block == index);
        let Some(at) = near.or_else(anywhere) else { return };
        let summary = BlockSummary::of(index, &block.ranges);
        order[at] = summary;
        // One position is enough: the order only says where to look first, and each operation mends it a little.
        block.order_at = if at > 0 && order[at - 1].free > summary.free {
            order.swap(at - 1, at);
            at - 1
        } else if order.get(at + 1).is_some_and(|next| next.free < summary.free) {
            order.swap(at, at + 1);
            at + 1
        } else {
            at
        };
    }

    /// Returns the free bytes of the shared blocks, and the bytes of the largest free range among them.
    pub(in crate::memory) fn room(&self) -> (u64, u64) {
        // Open shared blocks only, for this goes into errors: a request that was refused could not use the others.
        let blocks = self.order.iter().filter_map(|summary| self.block(summary.block));
        blocks.fold((0, 0), |(free, largest), block| {
            (free + block.ranges.statistics().free, largest.max(block.ranges.largest_free()))
        })
    }

    /// Returns the bytes of a memory object of `memory_size`, from an allocation's first byte on, that no other allocation
    /// can get.
    pub(in crate::memory) fn bytes_taken(
        &self,
        block_range: &BlockRange,
        occupied: u64,
        memory_size: u64,
    ) -> u64 {
        // Nothing else can be placed in dedicated memory, so the allocation takes all of it. A buddy block allocates a
        // whole cell, a power of two.
        if block_range.dedicated { memory_size } else { self.least_block(occupied) }
    }

    /// Returns the bytes of the smallest block that can serve a request of `size`, which then starts at offset 0.
    pub(in crate::memory) fn least_block(&self, size: u64) -> u64 {
        match self.algorithm {
            Algorithm::Buddy => size.next_power_of_two(),
            _ => size,
        }
    }
}
