//! What a pool does under its lock so that allocations can get other places.
//!
//! ```text
//!   reserve    token ──► A            B ◄── reserved          two live allocations
//!   exchange   token ──► B            A ◄── reserved          each names the other's range
//! ```
//!
//! A place that is reserved for a move is an allocation like any other: nobody else gets it, statistics count it, and
//! it is given back by its token. When the bytes are there, the two exchange their ranges. The owner's token is good
//! all the time and tells the new place from then on; the other one stands for the old place, and is freed when nobody
//! uses that any more.

use allotment_suballoc::{Algorithm, Alignment, Request};

use super::EmptiedBlocks;
use super::allocator::{Allocation, Allocator};
use super::block_set::{Role, Sizes};
use super::pool::{Marks, PoolSlot, PoolState, RoundedRequest, Travel};
use super::record::Record;
use super::{AllocationDesc, MemoryUsage, Movability, Name};
use crate::device::{Device, Priority, Requirements, ResourceKind};
use crate::sync::locked;

/// What somebody who plans moves knows of an allocation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    pub(super) record: u32,
    pub(super) generation: u32,
    pub(super) set: u8,
    pub(super) block: u32,
    pub(super) offset: u64,
    /// Bytes of its block that its range takes now.
    pub(super) taken: u64,
    /// Bytes that another place for it has.
    pub(super) size: u64,
    /// Bytes of a block that such a place takes, and what that is a multiple of: of buddies, a whole cell.
    pub(super) needed: u64,
    pub(super) needed_alignment: Alignment,
    /// What the place must be a multiple of.
    pub(super) alignment: Alignment,
    /// Pinned, too, where it is mapped or being moved.
    pub(super) movability: Movability,
    /// Only a set of movable resources moves it.
    pub(super) of_a_set: bool,
}

/// How many waiting ranges are given back at once, so that the lock is held for microseconds.
const AT_ONCE: usize = 16;

impl<D: Device> PoolState<D> {
    /// What stands where, of up to `count` records from `first` on.
    pub(super) fn standings(
        &self,
        slot: &PoolSlot<D>,
        first: u32,
        count: u32,
        mut each: impl FnMut(Standing),
    ) {
        for record in first..self.records().min(first.saturating_add(count)) {
            if let Some(standing) = self.standing(slot, record) {
                each(standing);
            }
        }
    }

    fn standing(&self, slot: &PoolSlot<D>, record: u32) -> Option<Standing> {
        let detail = self.detail(record)?;
        let entry = slot.records.get(record)?;
        let set = usize::from(detail.set);
        let free_to_move = detail.travel == Travel::Rests && entry.maps() == 0;
        let size = self.size_elsewhere(set, detail.kind, detail.sizes.requested);
        let needed = self.sets[set].least_block(size);
        // The door lets no size through of which the next power of two is too large.
        let cell = Alignment::new(needed).ok().filter(|_| self.rules.algorithm == Algorithm::Buddy);
        let shared = self.sets[set].block(detail.spot.block).is_some_and(|block| block.role == Role::Shared);
        let occupied = detail.sizes.occupied;
        Some(Standing {
            record,
            generation: entry.generation(),
            set: detail.set,
            block: detail.spot.block,
            offset: detail.spot.offset,
            taken: if shared { self.sets[set].least_block(occupied) } else { occupied },
            size,
            needed,
            needed_alignment: cell.map_or(detail.alignment, |cell| cell.max(detail.alignment)),
            alignment: detail.alignment,
            movability: if free_to_move { detail.movability } else { Movability::Pinned },
            of_a_set: entry.is_of_a_set(),
        })
    }

    /// Bytes that a place takes which is made for so many.
    fn size_elsewhere(&self, set: usize, kind: ResourceKind, requested: u64) -> u64 {
        self.size_multiple(set, kind).align_up(requested)
    }

    /// Places nothing new in a block any more. `None` where that takes another call, since there is much to give back
    /// first, unless that is to be done `at_once`; else whether it is closed now by this call.
    pub(super) fn close(
        &mut self,
        set: usize,
        block: u32,
        release: EmptiedBlocks,
        at_once: bool,
    ) -> Option<bool> {
        let waiting = self.sets[set].quick.len();
        let count = if at_once { usize::MAX } else { AT_ONCE };
        self.flush_quick_list_up_to(set, count);
        if waiting > count {
            return None;
        }
        // What waits in none of the lists waits in no block.
        let empty = self.sets[set].block(block).is_none_or(|block| block.is_empty());
        Some(!empty && self.sets[set].close(block, release))
    }

    /// Makes a closed block as it was before.
    pub(super) fn reopen(&mut self, set: usize, block: u32) {
        self.sets[set].reopen(block);
    }

    /// Whether a closed block that is empty now goes back to the driver. Where it stays it is open again.
    pub(super) fn gives_up(&mut self, set: usize, block: u32) -> bool {
        let Some(release) = self.sets[set].release_of(block) else { return false };
        let shared = self.sets[set].block(block).is_some_and(|block| block.role == Role::Shared);
        let at_least = set == 0 && shared && self.sets[0].statistics.blocks <= self.rules.min_blocks;
        let goes = release == EmptiedBlocks::Free && !at_least && !self.holds_reserve();
        if !goes {
            self.sets[set].reopen(block);
        }
        goes
    }

    /// Reserves a place for an allocation, which must be live and movable, in `planned` or else in a block that
    /// `allowed` says yes to, and notes that it is being moved. Returns the record of the reserved place. `None` where
    /// there is no room.
    pub(super) fn reserve_place(
        &mut self,
        slot: &PoolSlot<D>,
        record: u32,
        planned: Option<u32>,
        allowed: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let found = self.standing(slot, record).filter(|found| found.movability != Movability::Pinned)?;
        let set = usize::from(found.set);
        let (kind, requested) = self.detail(record).map(|detail| (detail.kind, detail.sizes.requested))?;
        let destination = self.next_record(slot).ok()?;
        let request = Request::new(found.size).aligned(found.alignment);
        let sizes = Sizes { requested, occupied: found.size };
        let spot = self.sets[set].place_relocated(planned, allowed, &request, sizes, destination)?;
        let fitted = RoundedRequest {
            request,
            sizes,
            block_size: 0,
            role: Role::Shared,
            dedicated_to_resource: false,
            priority: Priority::NORMAL,
        };
        let desc = AllocationDesc {
            kind,
            name: Some(Name::Static("a place in a defragmentation")),
            ..AllocationDesc::new(Requirements::new(requested), MemoryUsage::GpuOnly)
        };
        self.publish(slot, set, destination, spot, &fitted, &desc);
        self.note_moving(slot, record, true);
        Some(destination)
    }

    /// Notes whether an allocation has a place reserved for it.
    pub(super) fn note_moving(&mut self, slot: &PoolSlot<D>, record: u32, moving: bool) {
        if let Some(detail) = self.detail_mut(record) {
            detail.travel = if moving { Travel::Moves } else { Travel::Rests };
        }
        if !moving {
            slot.records.get(record).into_iter().for_each(|entry| entry.set_moving(false));
        }
    }

    /// Takes an allocation back whose bytes are on their way to another place: nobody has it any more, and its range is
    /// nobody else's until the move ends. `None` where it is not being moved; else its name, to be dropped after the
    /// lock.
    pub(super) fn free_later(&mut self, slot: &PoolSlot<D>, record: u32) -> Option<Option<Name>> {
        let detail = self.detail_mut(record).filter(|detail| detail.travel == Travel::Moves)?;
        let entry = slot.records.get(record)?;
        let place = entry.read();
        // What is only reserved for can go, and what is arriving is where it is: its move has ended.
        if !place.moving || place.arriving {
            return None;
        }
        (detail.travel, detail.has_resource) = (Travel::Left, false);
        entry.retire();
        Some(self.label_mut(record).and_then(|label| label.name.take()))
    }

    /// Notes that the move of an allocation ended that was freed meanwhile. True where it was, and can be freed.
    pub(super) fn is_left(&mut self, slot: &PoolSlot<D>, record: u32) -> bool {
        let left = self.detail(record).is_some_and(|detail| detail.travel == Travel::Left);
        if left {
            self.note_moving(slot, record, false);
        }
        left
    }

    /// Lets two allocations that were made for the same exchange their places: `record` is moved then, and
    /// `reserved` stands for where it was. `arriving` says that nobody finds its bytes there yet.
    pub(super) fn exchange(&mut self, slot: &PoolSlot<D>, record: u32, reserved: u32, arriving: bool) {
        let (Some(one), Some(other)) = (self.detail(record).cloned(), self.detail(reserved).cloned()) else {
            return;
        };
        debug_assert_eq!((one.set, one.sizes.requested), (other.set, other.sizes.requested));
        let set = usize::from(one.set);
        self.sets[set].exchange((&one.spot, record), (&other.spot, reserved));
        let was = slot.records.get(record).map(Record::read);
        let [dedicated_to_resource, of_a_set] = was.map_or([false; 2], |was| [was.exclusive, was.of_a_set]);
        // A set binds its resource anew and keeps the old one until the GPU is done with it. After a pass the old place
        // may be freed at once, while the resource is still bound to it.
        let here = Marks { dedicated_to_resource: false, of_a_set, moved: !of_a_set };
        let there = Marks { dedicated_to_resource, ..Marks::default() };
        for (record, place, marks) in [(record, other, here), (reserved, one, there)] {
            let may_wait = self.sets[set].may_wait(&place.spot, place.sizes);
            if let Some(detail) = self.detail_mut(record) {
                (detail.spot, detail.sizes) = (place.spot, place.sizes);
                (detail.travel, detail.may_wait) = (Travel::Rests, may_wait);
            }
            self.write_place(slot, record, marks);
        }
        if arriving {
            self.detail_mut(record).into_iter().for_each(|detail| detail.travel = Travel::Moves);
            slot.records.get(record).into_iter().for_each(Record::set_arriving);
        }
    }
}

impl<D: Device> Allocator<D> {
    /// Allows defragmentation to move an allocation, by passes or, `of_a_set`, by its set alone.
    ///
    /// An allocation is pinned until its resource is bound, and until whoever moves it knows the resource. Said in one
    /// step under the pool's lock, since between the two another thread's passes would take it for theirs.
    pub(super) fn allow_moves(&self, allocation: &Allocation, movability: Movability, of_a_set: bool) {
        let Some(slot) = self.pools.get(allocation.pool) else { return };
        let Some(record) = slot.records.get(allocation.record) else { return };
        if movability == Movability::Pinned && !record.read().movable {
            // It is pinned already, and only the owner of the token changes that.
            return;
        }
        let mut guard = locked(&slot.state);
        // A reset of the pool may have given the record to somebody else.
        if record.generation() != allocation.generation {
            return;
        }
        if let Some(detail) = guard.as_mut().and_then(|state| state.detail_mut(allocation.record)) {
            detail.movability = movability;
            record.set_movable(movability != Movability::Pinned, of_a_set);
        }
    }

    /// Keeps an allocation where it is from now on. A pass that is about to move it leaves it where it is.
    ///
    /// For allocations whose owner cannot be told of another place, or frees them while the GPU may still use this one.
    pub(super) fn pin(&self, allocation: &Allocation) {
        self.allow_moves(allocation, Movability::Pinned, false);
    }
}
