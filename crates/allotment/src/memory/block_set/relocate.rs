//! Blocks that defragmentation empties, and the ranges that it moves.

use allotment_suballoc::{Request, Strategy};

use super::search::Standing;
use super::{BlockSet, Role, Sizes, Spot};
use crate::device::Device;
use crate::memory::EmptiedBlocks;

/// Free ranges of a block that are searched for the closest fit while others wait for the lock: less than a microsecond.
const FEW: u32 = 256;

/// Blocks that are tried then when the one that was planned has no room any more.
const TRIED: u32 = 16;

impl<D: Device> BlockSet<D> {
    /// Places nothing new in a block any more. None of its ranges may wait in the quick lists. False where there is
    /// no such block, or it is closed already.
    pub(in crate::memory) fn close(&mut self, index: u32, release: EmptiedBlocks) -> bool {
        let Some(block) = self.blocks.get_mut(index as usize).and_then(Option::as_mut) else { return false };
        if block.is_closed() {
            return false;
        }
        block.closed = Some(release);
        self.order.retain(|other| other.block != index);
        self.closed.push(index);
        true
    }

    /// Makes a closed block as it was before.
    pub(in crate::memory) fn reopen(&mut self, index: u32) {
        let Some(block) = self.blocks.get_mut(index as usize).and_then(Option::as_mut) else { return };
        if block.closed.take().is_some() {
            self.closed.retain(|&other| other != index);
            if block.role == Role::Shared {
                self.order.push(Standing::of(index, &block.ranges));
            }
        }
    }

    /// Makes a closed block that has room for a request as it was before. False where there is none.
    pub(in crate::memory) fn reopen_for(&mut self, request: &Request) -> bool {
        let fits = |index: &u32| self.block(*index).is_some_and(|block| block.ranges.would_fit(request));
        let found = self.closed_shared().find(fits);
        found.into_iter().for_each(|index| self.reopen(index));
        found.is_some()
    }

    /// What becomes of a closed block once it is empty.
    pub(in crate::memory) fn release_of(&self, index: u32) -> Option<EmptiedBlocks> {
        self.block(index)?.closed
    }

    pub(super) fn closed_shared(&self) -> impl Iterator<Item = u32> + '_ {
        let shared = |&index: &u32| self.block(index).is_some_and(|block| block.role == Role::Shared);
        self.closed.iter().copied().filter(shared)
    }

    /// Serves a request from the block that was planned for it, or where that has no room any more from one of the next
    /// few, the fullest first, among those that `allowed` says yes to. Never from an empty or a closed one.
    pub(in crate::memory) fn place_for_good(
        &mut self,
        planned: Option<u32>,
        allowed: impl Fn(u32) -> bool,
        request: &Request,
        sizes: Sizes,
        record: u32,
    ) -> Option<Spot> {
        let open = |index: &u32| self.order.iter().any(|standing| standing.block == *index);
        if let Some(index) = planned.filter(open).filter(|&index| self.may_take(index, &allowed)) {
            // As it was planned, unless the search for the closest fit would take long.
            let few =
                self.block(index).is_some_and(|block| block.ranges.statistics().free_range_count <= FEW);
            let strategy = if few { Strategy::LeastMemory } else { request.strategy };
            let request = request.with_strategy(strategy);
            if let Ok(Some(spot)) = self.place_in(index, &request, sizes, record) {
                return Some(spot);
            }
        }
        let mut tried = 0;
        for at in 0..self.order.len() {
            let Standing { block, largest_free_at_most, .. } = self.order[at];
            if request.size > largest_free_at_most || !self.may_take(block, &allowed) {
                continue;
            }
            if let Ok(Some(spot)) = self.place_in(block, request, sizes, record) {
                return Some(spot);
            }
            tried += 1;
            if tried == TRIED {
                break;
            }
        }
        None
    }

    pub(super) fn may_take(&self, index: u32, allowed: &impl Fn(u32) -> bool) -> bool {
        allowed(index) && self.block(index).is_some_and(|block| !block.is_empty())
    }

    /// Makes the two records of two live allocations of this set name each other's ranges.
    pub(in crate::memory) fn exchange(&mut self, one: (&Spot, u32), other: (&Spot, u32)) {
        for (spot, record) in [(one.0, other.1), (other.0, one.1)] {
            let block = self.blocks.get_mut(spot.block as usize).and_then(Option::as_mut);
            let data = block.and_then(|block| block.ranges.data_mut(spot.handle).ok());
            debug_assert!(data.is_some(), "both are live");
            data.into_iter().for_each(|data| *data = record);
        }
    }
}
