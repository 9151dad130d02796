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
//! second, when the owner drops the buffer, and when a request reopens the block. Then the buffers are pinned until their
//! owners look at them again.
//!
//! The list of offers has a lock of its own, which is taken last: no other lock is taken while it is held.

use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Mutex;

use super::evacuation::{Evacuation, Reserved};
use super::pass::Move;
use super::run::Ended;
use super::survey::Arena;
use super::{DefragmentationStatistics, Released};
use crate::device::Device;
use crate::memory::Movability;
use crate::memory::allocator::Allocator;
use crate::memory::mover::{Mover, MoverId};
use crate::memory::pool::PoolSlot;
use crate::memory::pool::emptying::AfterClosing;
use crate::memory::pool::moves::{MayBegin, MoveEnd};
use crate::memory::request::PoolShards;
use crate::memory::token::{Allocation, AllocationId};
use crate::sync::locked;

/// Ticks (sixtieths of a second) for which an offer stands.
const OFFERED_FOR: u64 = 60;

/// The blocks whose allocations are offered new places.
#[derive(Debug, Default)]
pub(crate) struct Offers {
    list: Mutex<List>,
    /// The number of blocks, which is read without the lock.
    count: AtomicU32,
}

#[derive(Debug, Default)]
struct List {
    blocks: Vec<OfferedBlock>,
    /// By whom blocks were closed that stay, since owners did not accept; once for each block.
    kept: Vec<Mover>,
}

#[derive(Debug)]
struct OfferedBlock {
    /// The `Defragmenter` whose run closed the block.
    by: Mover,
    /// The tick of the offer.
    since: u64,
    /// Its reserved places are what is offered.
    evacuation: Evacuation,
}

/// A closing of a block that offers belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ClosedBlock {
    arena: Arena,
    block: u32,
    closing: u64,
}

impl ClosedBlock {
    fn of(evacuation: &Evacuation) -> Self {
        Self { arena: evacuation.arena, block: evacuation.block, closing: evacuation.closing }
    }
}

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

impl Offers {
    fn add(&self, evacuation: Evacuation, by: Mover, since: u64) {
        let mut list = locked(&self.list);
        list.blocks.push(OfferedBlock { by, since, evacuation });
        self.note_count(&list);
    }

    /// Relaxed: an offer that comes at this moment is found by the next look.
    fn note_count(&self, list: &List) {
        self.count.store(list.blocks.len() as u32, Ordering::Relaxed);
    }

    fn are_none(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Returns true if a move is offered for an allocation.
    pub(crate) fn has(&self, id: AllocationId) -> bool {
        let offers = |offered: &OfferedBlock| offered.evacuation.reserved.iter().any(|one| one.from == id);
        !self.are_none() && locked(&self.list).blocks.iter().any(offers)
    }

    /// Takes the offer of an allocation.
    fn take(&self, id: AllocationId) -> Option<(ClosedBlock, Reserved)> {
        if self.are_none() {
            return None;
        }
        locked(&self.list).blocks.iter_mut().find_map(|OfferedBlock { evacuation, .. }| {
            let at = evacuation.reserved.iter().position(|reserved| reserved.from == id)?;
            // A block that is empty but for offers in the hands of owners is not at its end.
            evacuation.in_flight += 1;
            Some((ClosedBlock::of(evacuation), evacuation.reserved.remove(at)?))
        })
    }

    /// Ends what [`take`](Self::take) began: with `back`, the offer stands again. Returns the evacuation where this was its
    /// last offer; or else the offer, where the block was taken back meanwhile.
    fn end(&self, closed: ClosedBlock, back: Option<Reserved>) -> (Option<OfferedBlock>, Option<Reserved>) {
        let mut list = locked(&self.list);
        let is_it = |offered: &OfferedBlock| ClosedBlock::of(&offered.evacuation) == closed;
        let Some(at) = list.blocks.iter().position(is_it) else { return (None, back) };
        let evacuation = &mut list.blocks[at].evacuation;
        evacuation.in_flight -= 1;
        evacuation.reserved.extend(back);
        if evacuation.in_flight != 0 || !evacuation.reserved.is_empty() {
            return (None, None);
        }
        let ended = list.blocks.swap_remove(at);
        self.note_count(&list);
        (Some(ended), None)
    }

    /// Returns the number of blocks that stay since owners did not accept the offers of a `Defragmenter`, since the last call.
    pub(crate) fn take_kept(&self, by: Mover) -> u32 {
        let kept = &mut locked(&self.list).kept;
        let before = kept.len();
        kept.retain(|other| *other != by);
        (before - kept.len()) as u32
    }

    fn note_kept<'a>(&self, blocks: impl IntoIterator<Item = &'a OfferedBlock>) {
        locked(&self.list).kept.extend(blocks.into_iter().map(|offered| offered.by));
    }

    /// Takes the offers of some blocks back, to be cancelled.
    fn take_back(&self, of: impl Fn(&OfferedBlock) -> bool) -> Vec<OfferedBlock> {
        if self.are_none() {
            return Vec::new();
        }
        let mut list = locked(&self.list);
        let (back, stay) = core::mem::take(&mut list.blocks).into_iter().partition(of);
        list.blocks = stay;
        self.note_count(&list);
        back
    }
}

impl<D: Device> Allocator<D> {
    /// Offers the reserved places of a block to the owners of its allocations. Returns whether all of these were gone, and the
    /// block with them.
    pub(super) fn offer(&self, evacuation: Evacuation, by: Mover) -> DefragmentationStatistics {
        let offered: Vec<_> = evacuation.reserved.iter().map(|reserved| reserved.from).collect();
        self.offers.add(evacuation, by, self.time.now().tick);
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

    /// Withdraws the offers in blocks of a pool.
    pub(in crate::memory) fn withdraw_offers_in(&self, pools: PoolShards) {
        self.cancel_offers(self.offers.take_back(|offered| pools.contain(offered.evacuation.arena.pool)));
    }

    /// Withdraws the offers of a `Defragmenter`.
    pub(in crate::memory) fn withdraw_offers_by(&self, by: Mover) {
        self.cancel_offers(self.offers.take_back(|offered| offered.by == by));
    }

    /// Withdraws the offers that stand for too long. Their owners do not look at them, so these buffers are pinned until they
    /// do.
    pub(in crate::memory) fn withdraw_old_offers(&self) {
        if self.offers.are_none() {
            return;
        }
        let now = self.time.now().tick;
        let old = self.offers.take_back(|offered| now.saturating_sub(offered.since) > OFFERED_FOR);
        let late = old.iter().flat_map(|it| &it.evacuation.reserved).map(|reserved| reserved.from);
        let late: Vec<_> = late.collect();
        self.offers.note_kept(&old);
        self.cancel_offers(old);
        late.into_iter().for_each(|id| self.pin_until_looked_at(id));
    }

    /// Frees places that were offered, and reopens the blocks.
    fn cancel_offers(&self, offered: Vec<OfferedBlock>) {
        for OfferedBlock { mut evacuation, .. } in offered {
            if let Some(slot) = self.pools.get(evacuation.arena.pool) {
                evacuation.cancel(self, slot);
            }
        }
    }

    /// Pins a mapped buffer: no step offers a move before its owner looks for one again.
    fn pin_until_looked_at(&self, id: AllocationId) {
        self.allow_moves_of(id, Movability::Pinned, MoverId::PASSES);
    }

    /// Takes the move that is offered for an allocation. `None` where there is none any more.
    pub(in crate::memory) fn take_offer(&self, id: AllocationId) -> Option<Offer<'_, D>> {
        let (closed, reserved) = self.offers.take(id)?;
        let copied = reserved.copied;
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
        let home = self.pools.get(closed.arena.pool);
        let after =
            home.and_then(|slot| slot.after_closing((closed.arena.set.into(), closed.block), closed.closing));
        // A block that a request reopened stays, and so does memory that is mapped by its handle.
        if after != Some(AfterClosing::Closed) {
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
        self.note_offered(id, false);
        self.free_own(reserved.to);
        self.end_offer(closed)
    }

    /// Gives up a block that an allocation does not leave.
    fn give_up(&self, closed: ClosedBlock, reserved: Reserved) {
        self.note_offered(reserved.from, false);
        self.free_own(reserved.to);
        let (ended, _) = self.offers.end(closed, None);
        // Not planned again before its owner looks for a move.
        self.pin_until_looked_at(reserved.from);
        let rest = self.offers.take_back(|offered| ClosedBlock::of(&offered.evacuation) == closed);
        self.offers.note_kept(ended.iter().chain(&rest));
        self.cancel_offers(rest);
        let ClosedBlock { arena, block, closing } = closed;
        let slot = self.pools.get(arena.pool);
        slot.into_iter().for_each(|slot| slot.reopen((arena.set.into(), block), closing));
    }

    /// Notes whether a place is reserved for an allocation. Returns false if that was freed.
    fn note_offered(&self, id: AllocationId, offered: bool) -> bool {
        self.pools.get(id.pool).is_some_and(|slot| slot.note_reserved(id, offered))
    }

    /// Ends an offer that was accepted or is not needed. Returns whether that emptied the block.
    fn end_offer(&self, closed: ClosedBlock) -> DefragmentationStatistics {
        let mut sums = DefragmentationStatistics::default();
        let (Some(OfferedBlock { evacuation, .. }), _) = self.offers.end(closed, None) else { return sums };
        if evacuation.after_closing(self) != Some(AfterClosing::InUse) {
            (sums.blocks_emptied, sums.bytes_emptied) = (1, evacuation.size);
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
        one.stay();
        one.end_alone(self.allocator);
        let from = one.id();
        let Some(to) = one.take_reserved() else { return };
        let reserved = Reserved { from, to, copied: self.copied };
        if self.refused || !self.allocator.note_offered(from, true) {
            return self.allocator.give_up(self.closed, reserved);
        }
        let (_, left) = self.allocator.offers.end(self.closed, Some(reserved));
        // The block was taken back meanwhile, and reopened.
        if let Some(left) = left {
            self.allocator.note_offered(from, false);
            self.allocator.free_own(left.to);
        }
    }
}
