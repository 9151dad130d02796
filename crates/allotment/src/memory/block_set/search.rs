//! The search for room: which block serves a request.

use allotment_suballoc::{Algorithm, AllocateError, Request, VirtualBlock};

use super::{BlockSet, Role, Sizes, Spare, Spot};
use crate::device::{Device, Priority};

/// Requests up to this take the first block that has room, the fullest first. Larger ones, for which a
/// search of all blocks is little beside what is done with the memory, take the block where they fit most
/// closely: half a percent to a percent less memory at the peaks of the recorded training traces.
const FIRST_FIT: u64 = 256 << 10;

/// What a search for room reads of a shared block, side by side with the others'.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    pub(super) block: u32,
    pub(super) free: u64,
    /// No request for more finds room; for less, perhaps.
    pub(super) largest_free_at_most: u64,
}

impl Standing {
    pub(super) fn of(block: u32, ranges: &VirtualBlock<u32>) -> Self {
        let free = ranges.statistics().free;
        Self { block, free, largest_free_at_most: ranges.largest_free_at_most() }
    }
}

impl<D: Device> BlockSet<D> {
    /// Serves a request from what is there: with a [`Spare`], from memory of its own.
    pub(in crate::memory) fn place(
        &mut self,
        request: &Request,
        spare: Option<Spare>,
        sizes: Sizes,
        record: u32,
    ) -> Result<Option<Spot>, AllocateError> {
        if let Some(spare) = spare {
            let Some(index) = self.best_spare(request.size, spare) else { return Ok(None) };
            return self.place_in(index, request, sizes, record);
        }
        if request.size > FIRST_FIT && self.algorithm == Algorithm::Tlsf {
            return match self.tightest(request) {
                Some(index) => self.place_in(index, request, sizes, record),
                None => Ok(None),
            };
        }
        for at in 0..self.order.len() {
            let Standing { block, largest_free_at_most, .. } = self.order[at];
            if request.size <= largest_free_at_most {
                if let Some(spot) = self.place_in(block, request, sizes, record)? {
                    return Ok(Some(spot));
                }
            }
        }
        Ok(None)
    }

    /// The block in which the request fits most closely.
    pub(super) fn tightest(&self, request: &Request) -> Option<u32> {
        let candidates = self.order.iter().filter(|standing| request.size <= standing.largest_free_at_most);
        let fitting = candidates.filter_map(|&Standing { block, .. }| {
            Some((self.block(block)?.ranges.room_for(request)?, block))
        });
        fitting.min_by_key(|&(room, _)| room).map(|(_, index)| index)
    }

    /// Serves a request from one block.
    pub(in crate::memory) fn place_in(
        &mut self,
        index: u32,
        request: &Request,
        sizes: Sizes,
        record: u32,
    ) -> Result<Option<Spot>, AllocateError> {
        let Some(block) = self.blocks.get_mut(index as usize).and_then(Option::as_mut) else {
            return Ok(None);
        };
        let padding = block.ranges.statistics().padding;
        let range = match block.ranges.allocate(*request, record) {
            Ok(range) => range,
            Err(refused) => match refused.error {
                // A ring has no upper side to give from, another block may have.
                AllocateError::NoSpace { .. } | AllocateError::RingInUse => return Ok(None),
                error => return Err(error),
            },
        };
        let padding = block.ranges.statistics().padding - padding;
        *self.lost() += padding;
        self.occupy(index, sizes);
        self.stands_anew(index);
        Ok(Some(Spot { block: index, handle: range.handle, offset: range.offset }))
    }

    /// True when [`place`](Self::place) would find room.
    pub(in crate::memory) fn would_place(
        &self,
        request: &Request,
        spare: Option<Spare>,
        in_blocks: bool,
        block_size: u64,
        priority: Option<Priority>,
    ) -> bool {
        if spare.is_some_and(|spare| self.best_spare(request.size, spare).is_some()) {
            return true;
        }
        if !in_blocks {
            return false;
        }
        if spare.is_none() && self.shareable_spare(request, block_size, priority).is_some() {
            return true;
        }
        // A block that is being emptied stays where somebody needs it.
        let shared = self.order.iter().map(|standing| standing.block).chain(self.closed_shared());
        shared.into_iter().any(|index| self.block(index).is_some_and(|block| block.ranges.would_fit(request)))
    }

    /// Notes how a shared block stands now, and moves it by a place where it stands wrong.
    pub(super) fn stands_anew(&mut self, block: u32) {
        let Some(at) = self.order.iter().position(|standing| standing.block == block) else { return };
        let Some(ranges) = self.block(block).map(|block| &block.ranges) else { return };
        let standing = Standing::of(block, ranges);
        self.order[at] = standing;
        if at > 0 && self.order[at - 1].free > standing.free {
            self.order.swap(at - 1, at);
        } else if self.order.get(at + 1).is_some_and(|next| next.free < standing.free) {
            self.order.swap(at, at + 1);
        }
    }

    /// Free bytes of the shared blocks, and the largest range among them.
    pub(in crate::memory) fn room(&self) -> (u64, u64) {
        let blocks = self.order.iter().filter_map(|standing| self.block(standing.block));
        blocks.fold((0, 0), |(free, largest), block| {
            (free + block.ranges.statistics().free, largest.max(block.ranges.largest_free()))
        })
    }

    /// Bytes of its memory object that nothing else gets while an allocation lives, from its first one on.
    pub(in crate::memory) fn taken(&self, spot: &Spot, sizes: Sizes) -> u64 {
        match self.block(spot.block) {
            Some(block) if block.role != Role::Shared => block.memory.size(),
            // Of buddies, a whole cell.
            _ => self.least_block(sizes.occupied),
        }
    }

    /// Bytes of the least block that serves a request of `size`, which stands at offset 0 of it.
    pub(in crate::memory) fn least_block(&self, size: u64) -> u64 {
        match self.algorithm {
            Algorithm::Buddy => size.next_power_of_two(),
            _ => size,
        }
    }
}
