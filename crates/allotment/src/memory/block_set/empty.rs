//! Empty blocks: which serve another request, and which can be freed.

use allotment_suballoc::Request;

use super::search::Standing;
use super::{BlockSet, Role, new_ranges};
use crate::device::{Device, OwnedMemory, Priority};

/// An empty memory object.
#[derive(Clone, Copy, Debug)]
pub(in crate::memory) struct Idle {
    pub(in crate::memory) size: u64,
    /// Ticks since it became empty.
    pub(in crate::memory) age: u64,
    pub(in crate::memory) role: Role,
}

/// Which spare memory objects serve a request that shall have one of its own.
#[derive(Clone, Copy, Debug)]
pub(in crate::memory) struct Spare {
    /// Frames shall not wait for the driver, whatever lies idle.
    pub(in crate::memory) in_frames: bool,
    /// Those that the device was told this of, where it takes no other priority later.
    pub(in crate::memory) priority: Option<Priority>,
}

/// A spare memory object may be larger than what it is reused for by this part of the size.
const SPARE_WASTE_DIVISOR: u64 = 8;

/// A spare memory object becomes a shared block up to so many times the size that the next block would
/// have. Larger ones stay spare: their next owner would have to get memory of that size anew.
const SHARED_SPARE_FACTOR: u64 = 2;

impl<D: Device> BlockSet<D> {
    /// The spare memory object that fits `size` best, unless too much of it would lie idle: an eighth of the
    /// size, or, where having none at all would make a frame wait for the driver, as much as the size.
    pub(super) fn best_spare(&self, size: u64, spare: Spare) -> Option<u32> {
        let waste = if spare.in_frames { size } else { size / SPARE_WASTE_DIVISOR };
        let fitting = self.spares(spare.priority).filter_map(|index| {
            let room = self.block(index)?.memory.size();
            (room >= size && room - size <= waste).then_some((room, index))
        });
        fitting.min().map(|(_, index)| index)
    }

    /// Spare memory objects, of this priority where it is given.
    pub(super) fn spares(&self, priority: Option<Priority>) -> impl Iterator<Item = u32> + '_ {
        let alike = move |memory: &OwnedMemory<D>| priority.is_none_or(|only| only == memory.priority());
        let of = move |&index: &u32| self.block(index).is_some_and(|block| alike(&block.memory));
        self.spare.iter().copied().filter(of)
    }

    /// The smallest spare memory object that holds the request and may be shared, where the next block
    /// would have `block_size` bytes; of this priority where it is given.
    pub(super) fn shareable_spare(
        &self,
        request: &Request,
        block_size: u64,
        priority: Option<Priority>,
    ) -> Option<u32> {
        let least = self.least_block(request.size);
        let fitting = self.spares(priority).filter_map(|index| {
            let room = self.block(index)?.memory.size();
            (room >= least && room / SHARED_SPARE_FACTOR <= block_size).then_some((room, index))
        });
        fitting.min().map(|(_, index)| index)
    }

    /// Makes a spare memory object a block that allocations share, so that none has to be got for this
    /// request. False when there is none.
    pub(in crate::memory) fn share_spare(
        &mut self,
        request: &Request,
        block_size: u64,
        priority: Option<Priority>,
    ) -> bool {
        let Some(index) = self.shareable_spare(request, block_size, priority) else { return false };
        let algorithm = self.algorithm;
        let Some(block) = self.blocks.get_mut(index as usize).and_then(Option::as_mut) else {
            return false;
        };
        block.ranges = new_ranges(block.memory.size(), algorithm);
        block.role = Role::Shared;
        self.spare.retain(|&spare| spare != index);
        self.order.push(Standing::of(index, &block.ranges));
        self.statistics.dedicated -= 1;
        self.statistics.blocks += 1;
        true
    }

    /// An empty memory object that would serve a request as well in another set.
    pub(in crate::memory) fn lendable(
        &self,
        request: &Request,
        spare: Option<Spare>,
        in_blocks: bool,
    ) -> Option<u32> {
        spare.and_then(|spare| self.best_spare(request.size, spare)).or_else(|| {
            let least = self.least_block(request.size);
            let empty = self.blocks().filter(|(_, block)| {
                in_blocks && block.live == 0 && block.role == Role::Shared && block.memory.size() >= least
            });
            empty.min_by_key(|(_, block)| block.memory.size()).map(|(index, _)| index)
        })
    }

    /// Takes out what is [lendable](Self::lendable), and says what it was for. None of its ranges may wait in
    /// the quick lists.
    pub(in crate::memory) fn lend(&mut self, index: u32) -> Option<(OwnedMemory<D>, Role)> {
        let role = self.block(index)?.role;
        Some((self.remove(index)?, role))
    }

    /// The first empty block that `unwanted` says yes to; with `keep_shared`, the first that is not shared.
    pub(in crate::memory) fn find_empty(
        &self,
        now: u64,
        keep_shared: bool,
        unwanted: impl Fn(&Idle) -> bool,
    ) -> Option<u32> {
        if self.empty_blocks == 0 {
            return None;
        }
        let found = self.blocks().find(|(_, block)| {
            let kept = keep_shared && block.role == Role::Shared;
            !kept
                && block.empty_since.is_some_and(|since| {
                    let age = now.saturating_sub(since);
                    unwanted(&Idle { size: block.memory.size(), age, role: block.role })
                })
        });
        found.map(|(index, _)| index)
    }

    /// Bytes of the memory objects in which nothing is allocated, when `keep` shared blocks at least stay.
    pub(in crate::memory) fn surrenderable(&self, keep: u32) -> u64 {
        let mut may_go = self.statistics.blocks.saturating_sub(keep);
        let mut bytes = 0;
        for (_, block) in self.blocks().filter(|(_, block)| block.empty_since.is_some()) {
            if block.role == Role::Shared {
                let Some(left) = may_go.checked_sub(1) else { continue };
                may_go = left;
            }
            bytes += block.memory.size();
        }
        bytes
    }
}
