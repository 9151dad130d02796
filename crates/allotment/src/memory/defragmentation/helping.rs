//! The parts of a run in blocks that runs of other movers empty.

use super::desc::Spent;
use super::evacuation::{EvacuationState, HandedOut};
use super::movers::Terms;
use super::pass::Move;
use super::run::Run;
use crate::device::Device;
use crate::memory::allocator::Allocator;

impl Run {
    /// Returns true if there are parts to move, or to cancel.
    pub(super) fn has_parts<D: Device>(&self, allocator: &Allocator<D>) -> bool {
        self.helping.is_some() || self.cancelling.is_some() || allocator.movers.has_parts_for(self.mover)
    }

    /// Hands out moves of the parts that other runs handed over. Returns `None` when there are none, and else whether
    /// the pass has room for more moves.
    pub(super) fn help<D: Device>(
        &mut self,
        allocator: &Allocator<D>,
        found: &mut Vec<Move<D>>,
        spent: &mut Spent,
    ) -> Option<bool> {
        if self.helping.is_none() {
            self.evacuations.push(allocator.movers.take_part(self.mover)?);
            self.helping = Some(self.evacuations.len() - 1);
        }
        let index = self.helping?;
        let part = &mut self.evacuations[index];
        let Some(slot) = allocator.pools.get(part.arena.pool) else {
            self.helping = None;
            return Some(true);
        };
        match part.hand_out(allocator, slot, index, found, &self.desc.limits, spent) {
            HandedOut::Some => {}
            HandedOut::Limit => return Some(false),
            HandedOut::All => {
                part.state = EvacuationState::HandedOut;
                self.helping = None;
                self.count_emptied(allocator, index);
            }
            HandedOut::Refused => {
                self.helping = None;
                self.keep_block(index);
            }
        }
        Some(true)
    }

    /// Notes that the run's mover is at work, so that other runs plan with it.
    pub(super) fn note_call<D: Device>(&mut self, allocator: &Allocator<D>) {
        let uncopied = self.evacuations.iter().map(|evacuation| evacuation.uncopied).sum();
        let bytes_left = self.bytes_left.saturating_sub(uncopied);
        let terms = Terms { strategy: self.desc.strategy, largest: self.desc.limits.bytes, bytes_left };
        // Parts that the mover lost since it stayed away: their blocks were reopened.
        self.statistics.blocks_kept +=
            allocator.movers.note_call(self.mover, terms, allocator.time.now().tick);
    }
}
