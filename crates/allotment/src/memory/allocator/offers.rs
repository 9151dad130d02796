//! Places that are offered to the owners of mapped buffers, and how they are withdrawn. How they are made and accepted:
//! `defragmentation/offered_moves.rs`.
//!
//! The list of offers has a lock of its own, which is taken last: no other lock is taken while it is held.

use core::sync::atomic::{AtomicU32, Ordering};
use std::collections::VecDeque;
use std::sync::Mutex;

use crate::device::Device;
use crate::memory::Movability;
use crate::memory::allocator::Allocator;
use crate::memory::mover::{Mover, MoverId};
use crate::memory::pool::{ClosedBlock, ReservedPlace};
use crate::memory::request::PoolShards;
use crate::memory::token::{Allocation, AllocationId};
use crate::sync::locked;

#[derive(Debug)]
pub(crate) struct Reserved {
    pub(crate) from: AllocationId,
    pub(crate) to: Allocation,
    /// Bytes that the move copies.
    pub(crate) copied: u64,
}

impl Reserved {
    /// Returns the place that is reserved for an allocation in the pool at an index.
    pub(crate) fn new(from: AllocationId, pool: u32, place: &ReservedPlace) -> Self {
        let &ReservedPlace { record, generation, copied, .. } = place;
        Self { from, to: Allocation { allocator: from.allocator, pool, record, generation }, copied }
    }
}

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
    /// The tick up to which the offers stand.
    until: u64,
    closed: ClosedBlock,
    /// What is offered.
    reserved: VecDeque<Reserved>,
    /// Offers that owners have taken, and have not ended.
    in_flight: u32,
}

impl Offers {
    /// Adds the offers of a block, which stand up to the tick `until`.
    pub(crate) fn add(&self, closed: ClosedBlock, reserved: VecDeque<Reserved>, by: Mover, until: u64) {
        let mut list = locked(&self.list);
        list.blocks.push(OfferedBlock { by, until, closed, reserved, in_flight: 0 });
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
        let offers = |offered: &OfferedBlock| offered.reserved.iter().any(|one| one.from == id);
        !self.are_none() && locked(&self.list).blocks.iter().any(offers)
    }

    /// Takes the offer of an allocation.
    pub(crate) fn take(&self, id: AllocationId) -> Option<(ClosedBlock, Reserved)> {
        if self.are_none() {
            return None;
        }
        locked(&self.list).blocks.iter_mut().find_map(|offered| {
            let at = offered.reserved.iter().position(|reserved| reserved.from == id)?;
            // A block that is empty but for offers in the hands of owners is not at its end.
            offered.in_flight += 1;
            Some((offered.closed, offered.reserved.remove(at)?))
        })
    }

    /// Ends what [`take`](Self::take) began: with `back`, the offer stands again. Returns the block where this was its
    /// last offer; or else the offer, where the block was taken back meanwhile.
    fn end_one(
        &self,
        closed: ClosedBlock,
        back: Option<Reserved>,
    ) -> (Option<OfferedBlock>, Option<Reserved>) {
        let mut list = locked(&self.list);
        let is_it = |offered: &OfferedBlock| offered.closed == closed;
        let Some(at) = list.blocks.iter().position(is_it) else { return (None, back) };
        let offered = &mut list.blocks[at];
        offered.in_flight -= 1;
        offered.reserved.extend(back);
        if offered.in_flight != 0 || !offered.reserved.is_empty() {
            return (None, None);
        }
        let ended = list.blocks.swap_remove(at);
        self.note_count(&list);
        (Some(ended), None)
    }

    /// Ends what [`take`](Self::take) began. Returns true if it was the last offer of its block.
    pub(crate) fn end(&self, closed: ClosedBlock) -> bool {
        self.end_one(closed, None).0.is_some()
    }

    /// Lets an offer stand again. Returns it where its block was taken back meanwhile.
    pub(crate) fn put_back(&self, closed: ClosedBlock, offer: Reserved) -> Option<Reserved> {
        self.end_one(closed, Some(offer)).1
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
    /// Withdraws the offers in blocks of a pool.
    pub(super) fn withdraw_offers_in(&self, pools: PoolShards) {
        self.cancel_offers(self.offers.take_back(|offered| pools.contain(offered.closed.pool)));
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
        let now = self.pools.now().tick;
        let old = self.offers.take_back(|offered| now > offered.until);
        let late = old.iter().flat_map(|it| &it.reserved).map(|reserved| reserved.from);
        let late: Vec<_> = late.collect();
        self.offers.note_kept(&old);
        self.cancel_offers(old);
        late.into_iter().for_each(|id| self.pin_until_looked_at(id));
    }

    /// Frees places that were offered, and reopens the blocks.
    fn cancel_offers(&self, offered: Vec<OfferedBlock>) {
        for OfferedBlock { closed, reserved, .. } in offered {
            for Reserved { from, .. } in &reserved {
                self.note_reserved(*from, false);
            }
            self.pools.reopen(&closed);
            // Last, since a free locks the pool.
            reserved.into_iter().for_each(|Reserved { to, .. }| self.free_own(to));
        }
    }

    /// Pins a mapped buffer: no step offers a move before its owner looks for one again.
    fn pin_until_looked_at(&self, id: AllocationId) {
        self.allow_moves_of(id, Movability::Pinned, MoverId::PASSES);
    }

    /// Gives up a block that an allocation does not leave.
    pub(in crate::memory) fn give_up(&self, closed: ClosedBlock, reserved: Reserved) {
        self.note_reserved(reserved.from, false);
        self.free_own(reserved.to);
        let (ended, _) = self.offers.end_one(closed, None);
        // Not planned again before its owner looks for a move.
        self.pin_until_looked_at(reserved.from);
        let rest = self.offers.take_back(|offered| offered.closed == closed);
        self.offers.note_kept(ended.iter().chain(&rest));
        self.cancel_offers(rest);
        self.pools.reopen(&closed);
    }
}
