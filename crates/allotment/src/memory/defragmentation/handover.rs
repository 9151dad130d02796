//! A block that several movers empty: each gets its part of the moves.
//!
//! ```text
//!   run of A    close ── reserve places for all ──┬── hand out the moves of A ──────────────► A's part has ended
//!   movers                                        └── part of B ──┐
//!   run of B                                          take it ────┴── hand out those of B ──► B's part has ended
//! ```
//!
//! No mover copies a byte before there are places for all allocations of the block, and each of the other movers is
//! there to take its part. A part is an evacuation whose places are reserved already, so its mover hands it out, and
//! cancels it, like one of its own. When one cancels, the block is reopened; the others see that before their next
//! move, and leave the rest where it is. The mover whose part ends last counts the block as emptied.
//!
//! The order in which the movers work is free. A run of passes may end before a `Defragmenter` takes its part in its
//! next step, and the other way round.

use core::sync::atomic::{AtomicU32, Ordering};
use std::collections::VecDeque;
use std::sync::Arc;

use super::evacuation::{Current, Evacuation, EvacuationState, Phase, Step};
use super::movers::{Mover, MoverId};
use crate::device::Device;
use crate::memory::Movability;
use crate::memory::allocator::Allocator;
use crate::memory::pool::shards::PoolShards;

impl Evacuation {
    /// Hands the other movers their parts of the block, whose places are all reserved. The block stays if one of them
    /// is not there, or does not agree.
    pub(super) fn hand_over<D: Device>(
        &mut self,
        allocator: &Allocator<D>,
        mover: Mover,
        now: &mut Current,
    ) -> Step {
        now.phase = Phase::HandingOut;
        if self.reserved.iter().all(|reserved| reserved.mover == mover.id) {
            // The usual case: one mover.
            return Step::Continue;
        }
        let cost = self.uncopied;
        let mut parts: Vec<(MoverId, Self)> = Vec::new();
        let mut own = VecDeque::new();
        for reserved in self.reserved.drain(..) {
            if reserved.mover == mover.id {
                own.push_back(reserved);
                continue;
            }
            let at = parts.iter().position(|(id, _)| *id == reserved.mover).unwrap_or_else(|| {
                parts.push((reserved.mover, Self::new(self.arena, self.block, self.size, 0)));
                parts.len() - 1
            });
            let part = &mut parts[at].1;
            part.uncopied += reserved.copied;
            part.reserved.push_back(reserved);
        }
        self.reserved = own;
        let movers_left = Arc::new(AtomicU32::new(1 + parts.len() as u32));
        for (_, part) in &mut parts {
            (part.closing, part.movers_left) = (self.closing, Some(Arc::clone(&movers_left)));
        }
        let copied: u64 = parts.iter().map(|(_, part)| part.uncopied).sum();
        match allocator.movers.hand_over(parts, cost, allocator.time.now().tick) {
            Ok(()) => {
                (self.uncopied, self.movers_left) = (cost.saturating_sub(copied), Some(movers_left));
                Step::Continue
            }
            Err(parts) => {
                // Not a byte was copied. The places are freed with those of the run itself.
                self.reserved.extend(parts.into_iter().flat_map(|(_, part)| part.reserved));
                Step::KeepBlock
            }
        }
    }

    /// Returns true if both are parts of one evacuation.
    pub(super) fn empties_with(&self, other: &Self) -> bool {
        (self.arena, self.block, self.closing) == (other.arena, other.block, other.closing)
    }

    /// Takes back the parts that other movers have not taken yet, to be cancelled with this one.
    pub(super) fn take_back_parts<D: Device>(&mut self, allocator: &Allocator<D>) {
        if self.movers_left.is_some() {
            let parts = allocator.movers.take_parts(|part| part.empties_with(self));
            self.reserved.extend(parts.into_iter().flat_map(|part| part.reserved));
        }
    }

    /// Counts the mover's part as ended. Returns true for the last one.
    pub(super) fn is_last_part(&mut self) -> bool {
        // Relaxed: only the count matters.
        self.movers_left.take().is_none_or(|left| left.fetch_sub(1, Ordering::Relaxed) == 1)
    }
}

impl<D: Device> Allocator<D> {
    /// Cancels parts that no mover is going to move: frees their places, and reopens their blocks.
    pub(super) fn cancel_parts(&self, parts: impl IntoIterator<Item = Evacuation>) {
        for mut part in parts {
            debug_assert_eq!(part.state, EvacuationState::InProgress, "no mover has taken it");
            if let Some(slot) = self.pools.get(part.arena.pool) {
                part.cancel(self, slot);
            }
        }
    }

    /// Cancels the parts of blocks that movers were handed, and stay away from.
    pub(in crate::memory) fn cancel_expired_parts(&self) {
        if self.movers.has_parts() {
            let mut unaccepted = Vec::new();
            self.cancel_parts(self.movers.take_expired(self.time.now().tick, &mut unaccepted));
            // Until their owners look at them again.
            unaccepted
                .into_iter()
                .for_each(|id| self.allow_moves_of(id, Movability::Pinned, MoverId::PASSES));
        }
    }

    /// Cancels the parts of blocks of a pool that were handed over and not taken.
    pub(in crate::memory) fn cancel_parts_in(&self, pools: PoolShards) {
        self.cancel_parts(self.movers.take_parts(|part| pools.contain(part.arena.pool)));
    }

    /// Removes a mover that does not come back.
    pub(in crate::memory) fn remove_mover(&self, mover: Mover) {
        self.cancel_parts(self.movers.remove(mover));
    }

    /// Notes that a mover stops working until its next call.
    pub(in crate::memory) fn stop_mover(&self, mover: Mover) {
        self.cancel_parts(self.movers.note_stop(mover));
    }
}
