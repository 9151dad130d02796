//! Moves of mapped buffers, which are offered to their owners: an owner accepts when it is done with the old address.
//!
//! ```text
//!   run       close ── reserve places for all ── offer them
//!   owner     uses the old place ─────────────────────────────── take ── copies the bytes ── end: the new place
//!                                                                 └── or put back, where the GPU may still write
//! ```
//!
//! An offer is a place that is reserved, and nothing else: nothing was created or copied for it, and no access is refused.
//! So the owner goes on using the old place, and an offer that is not accepted costs only the room. It is withdrawn after a
//! second ([`OFFERED_FOR`]), when the owner drops the buffer, and when a request reopens the block. Then the buffers are
//! pinned until their owners look at them again.
//!
//! The list of offers, and how they are withdrawn: `allocator/offers.rs`.

use std::collections::VecDeque;

use super::pass::Move;
use super::run::Ended;
use super::{DefragmentationStatistics, Released};
use crate::device::Device;
use crate::memory::allocator::{Allocator, Reserved};
use crate::memory::mover::Mover;
use crate::memory::pool::{AfterClosing, ClosedBlock, MayBegin, MoveEnd, PoolSlot};
use crate::memory::token::{Allocation, AllocationId};

/// How long an offer stands, in ticks (sixtieths of a second): an owner that looks once a frame has had 60 looks.
const OFFERED_FOR: u64 = 60;

/// An offer that an owner is about to accept. Writes to the allocation by its handle are refused until it ends. Dropped,
/// the allocation stays, and the offer with it.
pub(crate) struct Offer<'a, D: Device> {
    allocator: &'a Allocator<D>,
    closed: ClosedBlock,
    /// `None` once it has ended.
    one: Option<Move<D>>,
    copied: u64,
    refused: bool,
}

/// An offer that was accepted.
pub(crate) struct OfferEnded<D: Device> {
    pub(crate) moved: Move<D>,
    pub(crate) statistics: DefragmentationStatistics,
}

impl<D: Device> Allocator<D> {
    /// Offers the reserved places of a block to the owners of its allocations. Returns whether all of these were gone, and the
    /// block with them.
    pub(super) fn offer(
        &self,
        (closed, reserved): (ClosedBlock, VecDeque<Reserved>),
        by: Mover,
    ) -> DefragmentationStatistics {
        let offered: Vec<_> = reserved.iter().map(|reserved| reserved.from).collect();
        self.offers.add(closed, reserved, by, self.pools.now().tick + OFFERED_FOR);
        // Only now: an owner that goes from here on finds its offer, and withdraws it itself.
        let mut sums = DefragmentationStatistics::default();
        for id in offered {
            let slot = self.slot_of(id).ok();
            match slot.and_then(|slot| slot.movable_and_moving(id.record, id.generation)) {
                Some((true, _)) => {}
                Some((false, _)) => sums = sums + self.withdraw_offer(id, false),
                None => sums = sums + self.withdraw_offer(id, true),
            }
        }
        sums
    }

    /// Takes the move that is offered for an allocation. `None` where there is none any more.
    pub(in crate::memory) fn take_offer(&self, id: AllocationId) -> Option<Offer<'_, D>> {
        let (closed, reserved) = self.offers.take(id)?;
        let copied = reserved.copied;
        // A driver call perhaps, so before any lock. The offer is off the list by now: no other thread begins the same move.
        let reachable = self.map_as_before(reserved.from, &reserved.to);
        let begun = if reachable { self.begin_offered(closed, reserved) } else { Err(reserved) };
        match begun {
            Ok(one) => Some(Offer { allocator: self, closed, one: Some(one), copied, refused: false }),
            Err(reserved) => {
                self.give_up(closed, reserved);
                None
            }
        }
    }

    /// Marks the allocation as being moved, where its move would still free the block.
    fn begin_offered(&self, closed: ClosedBlock, reserved: Reserved) -> Result<Move<D>, Reserved> {
        let from = reserved.from;
        // A block that a request reopened stays, and so does memory that is mapped by its handle.
        if self.pools.after_closing(&closed) != Some(AfterClosing::Closed) {
            return Err(reserved);
        }
        let to = self.pools.get(reserved.to.pool).and_then(|slot| slot.place_of(reserved.to.record));
        let Some(to) = to else { return Err(reserved) };
        let Some(mut moves) = self.pools.get(from.pool).and_then(PoolSlot::begin_moves) else {
            return Err(reserved);
        };
        match moves.may_begin(from.record, from.generation) {
            MayBegin::Yes(_) => Ok(Move::new(&moves.begin(from.record), &to, 0, from, reserved.to)),
            MayBegin::No | MayBegin::Gone => Err(reserved),
        }
    }

    /// Withdraws the offer of an allocation whose owner is gone, if there is one. `leaves`: the allocation leaves the block
    /// by being freed. Returns whether a block was emptied.
    pub(in crate::memory) fn withdraw_offer(
        &self,
        id: AllocationId,
        leaves: bool,
    ) -> DefragmentationStatistics {
        let none = DefragmentationStatistics::default();
        let Some((closed, reserved)) = self.offers.take(id) else { return none };
        if !leaves {
            self.give_up(closed, reserved);
            return none;
        }
        // So the rest of the block can go still.
        self.note_reserved(id, false);
        self.free_own(reserved.to);
        self.end_offer(closed)
    }

    /// Ends an offer that was accepted or is not needed. Returns whether that emptied the block.
    fn end_offer(&self, closed: ClosedBlock) -> DefragmentationStatistics {
        let mut sums = DefragmentationStatistics::default();
        // The last offer of a block ends it, as the last move of a pass does. With `Closed`, old places are in it still, which
        // the owners free once their GPU work has ended: the block counts as emptied, and is freed with the last of them.
        if self.offers.end(closed) && self.pools.after_closing(&closed) != Some(AfterClosing::InUse) {
            (sums.blocks_emptied, sums.bytes_emptied) = (1, closed.size);
        }
        sums
    }
}

impl<D: Device> Offer<'_, D> {
    /// Returns the move.
    pub(crate) fn one(&self) -> &Move<D> {
        match &self.one {
            Some(one) => one,
            None => unreachable!("only `accept` and `drop` take it"),
        }
    }

    /// Withdraws the offer when this is dropped: the buffer cannot move, so the block stays.
    pub(crate) fn refuse(&mut self) {
        self.refused = true;
    }

    /// Ends the move: the allocation is in its new place. `leave` gets the place that is no longer used. `None` where the
    /// allocation was pinned meanwhile.
    pub(crate) fn accept(mut self, leave: impl FnOnce(Released, Allocation)) -> Option<OfferEnded<D>> {
        let mut one = self.one.take()?;
        let Ended { outcome, copied, .. } = one.end_alone(self.allocator);
        let moved = outcome == MoveEnd::Moved;
        let mut statistics = self.allocator.end_offer(self.closed);
        if moved {
            (statistics.moves, statistics.bytes_moved) = (1, copied);
        }
        let released = if moved { Released::Source } else { Released::Destination };
        if let Some(place) = one.take_reserved() {
            leave(released, place);
        }
        moved.then_some(OfferEnded { moved: one, statistics })
    }
}

impl<D: Device> Drop for Offer<'_, D> {
    fn drop(&mut self) {
        let Some(mut one) = self.one.take() else { return };
        // The bytes are where they were.
        // The move is ended as one that stays, which lets the owner write again, and its place is offered anew below.
        one.stay();
        one.end_alone(self.allocator);
        let from = one.id();
        let Some(to) = one.take_reserved() else { return };
        let reserved = Reserved { from, to, copied: self.copied };
        if self.refused || !self.allocator.note_reserved(from, true) {
            return self.allocator.give_up(self.closed, reserved);
        }
        // The block was taken back meanwhile, and reopened.
        if let Some(left) = self.allocator.offers.put_back(self.closed, reserved) {
            self.allocator.note_reserved(from, false);
            self.allocator.free_own(left.to);
        }
    }
}
