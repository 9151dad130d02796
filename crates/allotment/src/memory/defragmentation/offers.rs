//! Moves of mapped buffers, which are offered to their owners: an owner accepts when it is done with the old address.
//!
//! ```text
//!   run       close ── reserve places for all ── hand over: the mapped buffers of the block are a part of its own
//!   owner     uses the old place ─────────────────────────────── take ── copies the bytes ── end: the new place
//!                                                                 └── or put back, where the GPU may still write
//! ```
//!
//! An offer is a place that is reserved, and nothing else: nothing was created or copied for it, and no access is refused.
//! So the owner goes on using the old place, and an offer that is not accepted costs only the room. It is withdrawn after
//! as long as any mover may stay away, when the owner drops the buffer, and when a request reopens the block.

use std::sync::PoisonError;

use super::evacuation::{Evacuation, Reserved};
use super::movers::{Mover, Movers};
use super::pass::Move;
use super::run::{Ended, Outcome};
use super::survey::Arena;
use super::{DefragmentationStatistics, Released};
use crate::device::Device;
use crate::memory::allocator::{Allocation, AllocationId, Allocator};
use crate::sync::locked;

/// The part of a block that an offer belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PartKey {
    arena: Arena,
    block: u32,
    closing: u64,
}

impl PartKey {
    fn of(part: &Evacuation) -> Self {
        Self { arena: part.arena, block: part.block, closing: part.closing }
    }
}

/// An offer that an owner is about to accept. Writes to the allocation by its handle are refused until it ends. Dropped,
/// the allocation stays, and the offer with it.
pub(in crate::memory) struct Offer<'a, D: Device> {
    allocator: &'a Allocator<D>,
    owners: Mover,
    part: PartKey,
    /// `None` once it has ended.
    one: Option<Move<D>>,
    copied: u64,
    refused: bool,
}

/// An offer that was accepted.
pub(in crate::memory) struct OfferEnded<D: Device> {
    pub(in crate::memory) moved: Move<D>,
    pub(in crate::memory) statistics: DefragmentationStatistics,
}

impl Movers {
    /// Returns true if a move is offered for an allocation.
    pub(in crate::memory) fn has_offer(&self, owners: Mover, id: AllocationId) -> bool {
        let offers = |part: &Evacuation| part.reserved.iter().any(|reserved| reserved.from == id);
        self.has_parts() && locked(&self.list).entry(owners.key).is_some_and(|it| it.parts.iter().any(offers))
    }

    /// Takes the offer of an allocation.
    fn take_offered(&self, owners: Mover, id: AllocationId) -> Option<(PartKey, Reserved)> {
        if !self.has_parts() {
            return None;
        }
        let mut list = locked(&self.list);
        list.entry(owners.key)?.parts.iter_mut().find_map(|part| {
            let at = part.reserved.iter().position(|reserved| reserved.from == id)?;
            // A part that is empty but for offers in the hands of owners is not at its end.
            part.in_flight += 1;
            Some((PartKey::of(part), part.reserved.remove(at)?))
        })
    }

    /// Ends what [`take_offered`](Self::take_offered) began: with `back`, the offer stands again. Returns the part where
    /// this was its last offer; or else the offer, where the part was taken back meanwhile.
    fn end_offered(
        &self,
        owners: Mover,
        key: PartKey,
        back: Option<Reserved>,
    ) -> (Option<Evacuation>, Option<Reserved>) {
        let mut list = locked(&self.list);
        let Some(parts) = list.entry(owners.key).map(|entry| &mut entry.parts) else { return (None, back) };
        let Some(at) = parts.iter().position(|part| PartKey::of(part) == key) else { return (None, back) };
        let part = &mut parts[at];
        part.in_flight -= 1;
        part.reserved.extend(back);
        if part.in_flight != 0 || !part.reserved.is_empty() {
            return (None, None);
        }
        let ended = parts.remove(at);
        self.note_taken(1);
        (ended, None)
    }
}

impl<D: Device> Allocator<D> {
    /// Takes the move that is offered for an allocation. `None` where there is none any more.
    pub(in crate::memory) fn take_offer(&self, owners: Mover, id: AllocationId) -> Option<Offer<'_, D>> {
        let (part, reserved) = self.movers.take_offered(owners, id)?;
        let copied = reserved.copied;
        let reachable = self.map_as_before(reserved.from, &reserved.to);
        let begun = if reachable { self.begin_offered(part, reserved) } else { Err(reserved) };
        match begun {
            Ok(one) => Some(Offer { allocator: self, owners, part, one: Some(one), copied, refused: false }),
            Err(reserved) => {
                self.give_up(owners, part, reserved);
                None
            }
        }
    }

    /// Marks the allocation as being moved, where its move would still free the block.
    fn begin_offered(&self, part: PartKey, reserved: Reserved) -> Result<Move<D>, Reserved> {
        let from = reserved.from;
        let slots = self.pools.get(from.pool).zip(self.pools.get(reserved.to.pool));
        let Some((slot, to_slot)) = slots else { return Err(reserved) };
        // A thread that writes by the handle holds `changes` for reading: none is in the middle of it.
        let _alone = slot.changes.write().unwrap_or_else(PoisonError::into_inner);
        let Some(mut shards) = self.lock_two(from.pool, part.arena.pool) else { return Err(reserved) };
        let (home, _) = shards.other();
        let block = home.sets[usize::from(part.arena.set)].block(part.block);
        let is_kept = block.is_some_and(|block| block.is_kept_by(part.closing));
        let record = slot.records.get(from.record).filter(|it| it.generation() == from.generation);
        // Memory that is mapped by its handle stays, and so does a block that a request reopened.
        let may_move = is_kept && record.is_some_and(|record| record.maps() == 0 && record.is_movable());
        let Some(record) = record.filter(|_| may_move) else { return Err(reserved) };
        record.set_moving(true);
        let (state, _) = shards.one();
        Ok(Move::new((state, slot), to_slot, 0, from, reserved.to))
    }

    /// Withdraws the offer of an allocation whose owner is gone, if there is one. `leaves`: the allocation leaves the block
    /// by being freed. Returns whether a block was emptied.
    pub(in crate::memory) fn withdraw_offer(
        &self,
        owners: Mover,
        id: AllocationId,
        leaves: bool,
    ) -> DefragmentationStatistics {
        let none = DefragmentationStatistics::default();
        let Some((part, reserved)) = self.movers.take_offered(owners, id) else { return none };
        if !leaves {
            self.give_up(owners, part, reserved);
            return none;
        }
        // So the rest of the block can go still.
        self.note_offered(id, false);
        self.free_own(reserved.to);
        self.end_part(owners, part)
    }

    /// Gives up a block that an allocation does not leave.
    fn give_up(&self, owners: Mover, part: PartKey, reserved: Reserved) {
        self.note_offered(reserved.from, false);
        self.free_own(reserved.to);
        _ = self.movers.end_offered(owners, part, None);
        // Not planned again for some time.
        self.movers.note_refused(owners, reserved.from, true);
        self.cancel_parts(self.movers.take_parts(|other| PartKey::of(other) == part));
        let PartKey { arena, block, closing } = part;
        let Some(slot) = self.pools.get(arena.pool) else { return };
        if let Some(state) = locked(&slot.state).as_mut() {
            state.sets[usize::from(arena.set)].reopen_closing(block, closing);
        }
    }

    /// Notes whether a place is reserved for an allocation. Returns false if that was freed.
    fn note_offered(&self, id: AllocationId, offered: bool) -> bool {
        let Some(slot) = self.pools.get(id.pool) else { return false };
        let mut guard = locked(&slot.state);
        let live = slot.records.get(id.record).is_some_and(|record| record.generation() == id.generation);
        let Some(state) = guard.as_mut().filter(|_| live) else { return false };
        state.note_moving(slot, id.record, offered);
        true
    }

    /// Ends a part if it has no other offer. Returns whether the block was emptied.
    fn end_part(&self, owners: Mover, key: PartKey) -> DefragmentationStatistics {
        let mut sums = DefragmentationStatistics::default();
        let (Some(mut part), _) = self.movers.end_offered(owners, key, None) else { return sums };
        let Some(slot) = self.pools.get(part.arena.pool) else { return sums };
        let guard = locked(&slot.state);
        let goes = guard.as_ref().is_none_or(|it| part.is_closed(it) || part.is_empty_or_freed(it));
        drop(guard);
        if part.is_last_part() && goes {
            (sums.blocks_emptied, sums.bytes_emptied) = (1, part.size);
        }
        sums
    }
}

impl<D: Device> Offer<'_, D> {
    /// Returns the move.
    pub(in crate::memory) fn one(&self) -> &Move<D> {
        match &self.one {
            Some(one) => one,
            None => unreachable!("only `accept` and `drop` take it"),
        }
    }

    /// Withdraws the offer when this is dropped: the buffer cannot move, so the block stays.
    pub(in crate::memory) fn refuse(&mut self) {
        self.refused = true;
    }

    /// Ends the move: the allocation is in its new place. `leave` gets the place that is no longer used. `None` where the
    /// allocation was pinned meanwhile.
    pub(in crate::memory) fn accept(
        mut self,
        leave: impl FnOnce(Released, Allocation),
    ) -> Option<OfferEnded<D>> {
        let mut one = self.one.take()?;
        let Ended { outcome, copied, .. } = one.end_alone(self.allocator);
        let moved = outcome == Outcome::Moved;
        let mut statistics = self.allocator.end_part(self.owners, self.part);
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
        let reserved = Reserved { from, to, mover: self.owners.id, copied: self.copied };
        if self.refused || !self.allocator.note_offered(from, true) {
            return self.allocator.give_up(self.owners, self.part, reserved);
        }
        let (_, left) = self.allocator.movers.end_offered(self.owners, self.part, Some(reserved));
        // The part was taken back meanwhile, and its block reopened.
        if let Some(left) = left {
            self.allocator.note_offered(from, false);
            self.allocator.free_own(left.to);
        }
    }
}
