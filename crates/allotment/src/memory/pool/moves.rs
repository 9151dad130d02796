//! How a move begins and ends: steps of a pool, under its lock. Where its place is reserved: `reserve.rs`.
//!
//! ```text
//!   reserve    handle ──► A            B ◄── reserved          two live allocations
//!   exchange   handle ──► B            A ◄── reserved          each names the other's range
//! ```
//!
//! A place that is reserved for a move is an allocation like any other: no other request gets it, statistics count it,
//! and its handle frees it. When the bytes are copied, the two allocations exchange their ranges. The owner's handle
//! stays valid all the time and names the new place from then on. The reserved allocation names the old place, and is
//! freed once nothing uses that place any more.

use std::sync::{MutexGuard, PoisonError, RwLockWriteGuard};

use super::{Detail, DetailState, Freed, HeldRange, PoolSlot, PoolState, TwoShards};
use crate::device::{Device, ResourceKind};
use crate::events::Event;
use crate::memory::mover::MoverId;
use crate::memory::time::Moment;
use crate::memory::token::{RawPlace, Record, Traits};
use crate::memory::{Movability, Name};
use crate::sync::locked;

/// How a move ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MoveEnd {
    Moved,
    /// The owner freed the allocation meanwhile. `holds_its_place`: its old place must be freed now.
    Freed {
        holds_its_place: bool,
    },
    Stays,
}

/// Returns the generation by which the old place of an allocation is known that was freed while it was being moved.
pub(crate) fn after_retirement(generation: u32) -> u32 {
    // The free raised the generation by one and left the range to the record, so this is the only token of the range.
    generation.wrapping_add(1)
}

/// What a move says of its allocation, read when it begins.
#[derive(Clone, Debug)]
pub(crate) struct BegunMove {
    pub(crate) place: RawPlace,
    pub(crate) kind: ResourceKind,
    pub(crate) contents: Movability,
    pub(crate) user_data: u64,
}

/// Whether a move can begin.
pub(crate) enum MayBegin {
    /// With so many bytes.
    Yes(u64),
    /// It was mapped or pinned since its place was reserved.
    No,
    /// It was freed.
    Gone,
}

/// The beginning of some moves of a shard's allocations: no thread accesses one by its handle meanwhile.
pub(crate) struct BeginningMoves<'a, D: Device> {
    slot: &'a PoolSlot<D>,
    guard: MutexGuard<'a, Option<PoolState<D>>>,
    /// Declared last, so released last.
    _alone: RwLockWriteGuard<'a, ()>,
}

impl<D: Device> PoolSlot<D> {
    /// Keeps the threads out that access an allocation by its handle, until the guard is dropped. Taken before the pool's lock.
    pub(crate) fn keep_accesses_out(&self) -> RwLockWriteGuard<'_, ()> {
        self.changes.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the place of an allocation, or of one that holds a place for a move.
    pub(crate) fn place_of(&self, record: u32) -> Option<RawPlace> {
        Some(self.records.get(record)?.read(&self.objects))
    }

    /// Sets whether defragmentation may move an allocation, and by which mover. One that is pinned already stays so.
    pub(crate) fn allow_moves(
        &self,
        (record, generation): (u32, u32),
        movability: Movability,
        mover: MoverId,
    ) {
        let movable = movability != Movability::Pinned;
        // After a reset of the pool the record may belong to another allocation, which the generation tells.
        _ = self.with_live(record, generation, |state, entry| {
            if movable || entry.is_movable() {
                state.detail_mut(record)?.set_movability(movability);
                entry.set_movable(movable, mover);
                state.events.of_allocation(record, |allocation| Event::Movable { allocation, movable });
            }
            Some(())
        });
    }

    /// Begins some moves. `None` where there is no pool.
    pub(crate) fn begin_moves(&self) -> Option<BeginningMoves<'_, D>> {
        // `changes` before the state, as at the end of a pass (`finish`).
        // A thread that writes through a handle holds `changes` for reading. So it has either ended before, or finds the
        // allocation marked as moving.
        let _alone = self.keep_accesses_out();
        let guard = locked(&self.state);
        guard.is_some().then_some(BeginningMoves { slot: self, guard, _alone })
    }
}

impl<D: Device> BeginningMoves<'_, D> {
    /// Returns whether the move of an allocation can begin.
    pub(crate) fn may_begin(&self, record: u32, generation: u32) -> MayBegin {
        match self.slot.records.get(record).filter(|it| it.generation() == generation) {
            None => MayBegin::Gone,
            // From here on until the pass ends it cannot be mapped. Before, its place was reserved without any mark, so the
            // owner may have mapped or pinned it.
            Some(record) if record.maps() != 0 || !record.is_movable() => MayBegin::No,
            Some(record) => MayBegin::Yes(record.size()),
        }
    }

    /// Begins the move of an allocation, which [may begin](Self::may_begin).
    pub(crate) fn begin(&mut self, record: u32) -> BegunMove {
        let (Some(entry), Some(state)) = (self.slot.records.get(record), self.guard.as_ref()) else {
            unreachable!("a live allocation has a record, and its shard a state")
        };
        entry.set_moving(true);
        let detail = state.detail(record);
        BegunMove {
            place: entry.read(&self.slot.objects),
            kind: detail.map_or_else(ResourceKind::default, Detail::kind),
            contents: detail.map_or(Movability::Copied, Detail::movability),
            user_data: state.label(record).user_data,
        }
    }
}

impl<D: Device> PoolState<D> {
    /// Marks an allocation as having a place reserved for it, or not.
    pub(super) fn note_moving(&mut self, slot: &PoolSlot<D>, record: u32, moving: bool) {
        // Two marks, for two questions. The detail says whether a place is reserved, so that no second run moves it;
        // the record says whether a queue may be copying, which threads with a handle read without the lock:
        //                    detail    record
        //   reserved         Moving    –           the owner reads, writes, maps, and frees it at once
        //   handed out       Moving    moving      the owner reads it; if it frees it, the ranges stay until the end
        //   copy in flight   Moving    arriving    in its new place, which the CPU must not read yet
        //   ended            Settled   –
        if let Some(detail) = self.detail_mut(record) {
            detail.set_state(if moving { DetailState::Moving } else { DetailState::Settled });
        }
        if !moving {
            slot.records.get(record).into_iter().for_each(|entry| entry.set_moving(false));
        }
    }

    /// Frees an allocation whose bytes are being copied to a new place: its handle is stale at once, its range is not
    /// reused until the move ends. Returns its name, to be dropped after the lock; `None` when it is not being moved.
    pub(super) fn free_later(&mut self, slot: &PoolSlot<D>, record: u32) -> Option<Option<Name>> {
        let detail = self.detail_mut(record).filter(|detail| detail.state() == DetailState::Moving)?;
        let entry = slot.records.get(record)?;
        let place = entry.read(&slot.objects);
        // Before the move is handed out, and after it ended, nothing reads the range: it can be freed at once.
        if !place.traits.has(Traits::MOVING) || place.traits.has(Traits::ARRIVING) {
            return None;
        }
        // Two things that a free does at once are taken apart: the handle dies now; the range is freed at the end of
        // the move, since a queue may be reading it
        // (`what_is_freed_while_it_is_copied_keeps_both_places_until_the_pass_ends`).
        // Brittle: `Move::source_left` names the range by the generation that is one higher than the handle's, so
        // `retire` must raise it here, and nothing else before the end of the move.
        detail.set_state(DetailState::Freed);
        detail.set_has_resource(false);
        entry.retire();
        self.events.of_allocation(record, |allocation| Event::FreeRequested { allocation });
        Some(self.label_mut(record).and_then(|label| label.name.take()))
    }

    /// Records the end of a move. Returns true when the allocation was freed meanwhile, so that its old place must be
    /// freed now.
    pub(super) fn is_left(&mut self, slot: &PoolSlot<D>, record: u32) -> bool {
        let left = self.detail(record).is_some_and(|detail| detail.state() == DetailState::Freed);
        if left {
            self.note_moving(slot, record, false);
        }
        left
    }

    /// Returns the range that an allocation holds.
    fn held(&self, slot: &PoolSlot<D>, record: u32) -> Option<HeldRange> {
        let detail = self.detail(record)?;
        let place = slot.records.get(record)?.read(&slot.objects);
        Some(HeldRange { range: detail.range(), sizes: detail.sizes(place.size), place })
    }

    /// Gives an allocation the range of another one of its size. `of` returns its traits from those that it has.
    fn hold(&mut self, slot: &PoolSlot<D>, record: u32, held: &HeldRange, of: impl FnOnce(Traits) -> Traits) {
        let Some(entry) = slot.records.get(record) else { return };
        let Some(set) = self.detail(record).map(|detail| usize::from(detail.set)) else { return };
        debug_assert_eq!(
            entry.size(),
            held.sizes.requested,
            "the two have the same size, so the record keeps its own"
        );
        // Asked anew for each range: dedicated memory and blocks of other shards keep nothing in the quick lists.
        let may_wait = self.sets[set].may_wait(&held.range, held.sizes);
        if let Some(detail) = self.detail_mut(record) {
            detail.hold(held.range, held.sizes.occupied, may_wait);
        }
        let own = entry.read(&slot.objects);
        let traits = of(own.traits.with(Traits::MOVING | Traits::ARRIVING, false));
        entry.rewrite(&RawPlace { size: own.size, traits, ..held.place });
    }
}

/// The shard of an allocation's record, and the shard where a place is reserved for it.
impl<D: Device> TwoShards<'_, D> {
    /// Decides how the move of an allocation ends, and ends it unless it is to [move](MoveEnd::Moved) now: then the allocation
    /// and its reserved place are both live. `stays`: its owner wants it to stay.
    pub(crate) fn end_move(
        &mut self,
        (record, generation): (u32, u32),
        reserved: Option<(u32, u32)>,
        stays: bool,
    ) -> MoveEnd {
        // Between the hand-out and this moment the owner could free the allocation or pin it, and the pool could be
        // reset. For each of them both ranges were left where they were, and it is decided here who has them now:
        //                          the allocation        its old place             its new place
        //   as planned             moves                 released                  its own
        //   ignored, pinned        stays                 its own                   released
        //   freed by its owner     is gone               released                  released
        //   pool reset             is gone               gone, perhaps another's   gone
        // A reset of the pool frees both allocations.
        let (_, slot) = self.other();
        let reserved = reserved.is_some_and(|(record, generation)| slot.has_generation(record, generation));
        let (state, slot) = self.one();
        // The generation tells whether the owner freed the allocation while the pass was open.
        if !slot.has_generation(record, generation) {
            // After a reset of the pool the record may belong to another allocation.
            let stands = slot.has_generation(record, after_retirement(generation));
            return MoveEnd::Freed { holds_its_place: stands && state.is_left(slot, record) };
        }
        // The owner may have pinned the allocation while it was being moved.
        let pinned = state.detail(record).is_none_or(|detail| detail.movability() == Movability::Pinned);
        // The mark stays on for now: `exchange` clears it, or sets that of a copy that is in flight.
        if reserved && !stays && !pinned {
            return MoveEnd::Moved;
        }
        state.note_moving(slot, record, false);
        MoveEnd::Stays
    }

    /// Exchanges the ranges of two allocations of the same size: `record` is moved then, and `reserved` names the old
    /// range. `arriving` says that the copy to the new range has not completed.
    ///
    /// Neither range is touched, so their shards need not be locked, which may be others than those of the records.
    pub(crate) fn exchange(&mut self, record: u32, reserved: u32, arriving: bool) {
        // The basic idea is simple: two allocations swap what they name.
        //            record ──► A      reserved ──► B
        //   held     old = A           new = B             both are read before either is written
        //   hold     record ──► B      reserved ──► A
        // No range is allocated, freed or resized. So no block has to be locked, no size or count changes, and once
        // both are read, nothing can fail: the early returns below come before the first write, and have to stay there.
        let (state, slot) = self.one();
        let Some(old) = state.held(slot, record) else { return };
        state.announce_before_exchange(slot, record);
        let has_resource = state.detail(record).is_some_and(Detail::has_resource);
        let (state, slot) = self.other();
        let Some(new) = state.held(slot, reserved) else { return };
        state.announce_before_exchange(slot, reserved);
        let of_a_defragmenter = old.place.traits.mover() != MoverId::PASSES;
        let dedicated_to_resource = old.place.traits.has(Traits::DEDICATED_TO_RESOURCE);
        // What belongs to the memory goes with the range (memory object, offset, address); what belongs to the resource
        // stays with the record, but for what is set here.
        state.hold(slot, reserved, &old, |traits| {
            traits
                .with(Traits::DEDICATED_TO_RESOURCE, dedicated_to_resource)
                .with_mover(MoverId::PASSES)
                .with(Traits::MOVED, false)
        });
        // The old resource is bound to the old range until the GPU is done with it: the pool is not reset before.
        let old_resource_stays = of_a_defragmenter && has_resource;
        if old_resource_stays {
            state.detail_mut(reserved).into_iter().for_each(|detail| detail.set_has_resource(true));
        }
        let reservation = state.events.allocation(reserved);
        let (state, slot) = self.one();
        // A `Defragmenter` binds a new resource and keeps the old one until the GPU is done with it. After a pass of the
        // caller's the old range may be free at once, while the caller's resource is still bound to it: the mark makes
        // the allocator refuse to touch memory through that resource.
        state.hold(slot, record, &new, |traits| {
            traits.with(Traits::DEDICATED_TO_RESOURCE, false).with(Traits::MOVED, !of_a_defragmenter)
        });
        state.emit_exchanged(record, reservation);
        if arriving {
            // Set after `hold`, which has cleared both marks.
            // Until the copy completes the allocation must not be moved again, nor read or written by the CPU.
            state.detail_mut(record).into_iter().for_each(|detail| detail.set_state(DetailState::Moving));
            slot.records.get(record).into_iter().for_each(Record::set_arriving);
        }
    }

    /// Reads what the end of some moves is going to read and write, each an allocation and its reserved place. Of many
    /// allocations none of it is in a cache, and the work on one move is too long for the processor to begin the next
    /// meanwhile; here it waits for many loads at once. Of moves that a reset of the pool ended, nothing may be left.
    pub(crate) fn read_ahead(&mut self, moves: impl Iterator<Item = (u32, u32)> + Clone) {
        let (state, slot) = self.one();
        let mut sum = moves.clone().fold(0, |sum, (record, _)| sum ^ state.read(slot, record));
        sum ^= moves.clone().fold(0, |sum, (record, _)| sum ^ state.read_range(record));
        let (state, slot) = self.other();
        sum ^= moves.clone().fold(0, |sum, (_, reserved)| sum ^ state.read(slot, reserved));
        sum ^= moves.fold(0, |sum, (_, reserved)| sum ^ state.read_label(reserved));
        // So that the loads stay, whose results nobody needs.
        core::hint::black_box(sum);
    }

    /// Moves an allocation to the place that `reserved` has, and frees its old place, which nothing uses any more: in
    /// effect [`exchange`](Self::exchange), and then a free of `reserved`, whose record need not name the old place first.
    /// Returns what the free leaves for after the locks, the shard that had the old place, and the time, if it was read.
    /// `None`, with nothing changed, where that shard is neither of these.
    pub(crate) fn move_to(
        &mut self,
        record: u32,
        reserved: u32,
        now: impl FnOnce() -> Moment,
    ) -> Option<(Freed<D>, u32, Option<Moment>)> {
        // The same as an exchange and a free, without naming A by a record in between, of which nothing would be left:
        //            record ──► A      reserved ──► B
        //   end      record ──► A                   B      has no record: nothing may return from here …
        //   hold     record ──► B                          … to here, or B would never be freed
        //   free                A
        // So all that can be missing is looked up first: the two records, and the shard that has A.
        let (state, slot) = self.one();
        let old = state.held(slot, record)?;
        let home = state.shards.index(old.range.home);
        self.locked(home)?;
        debug_assert_eq!(
            old.place.traits.mover(),
            MoverId::PASSES,
            "a `Defragmenter` keeps the old place until the GPU is done with it"
        );
        let (state, slot) = self.other();
        let new = state.held(slot, reserved)?;
        state.announce_before_exchange(slot, reserved);
        let reservation = state.events.allocation(reserved);
        let ended = state.end(slot, reserved)?;
        let (state, slot) = self.one();
        state.announce_before_exchange(slot, record);
        // As in `exchange`: the caller's resource may still be bound to the old place.
        state.hold(slot, record, &new, |traits| {
            traits.with(Traits::DEDICATED_TO_RESOURCE, false).with(Traits::MOVED, true)
        });
        state.emit_exchanged(record, reservation);
        let (state, _) = self.other();
        state.emit_freed_elsewhere(reserved);
        // The record that ended had B; the range to free is A. The sizes are A's as well, which as dedicated memory may
        // be larger than B.
        let ended = ended.with_range(old.range, old.sizes);
        let (state, slot) = self.locked(home)?;
        // As every free does, before a block becomes empty.
        let now = state.should_read_clock(&ended).then(now);
        now.into_iter().for_each(|now| _ = state.pass_time(now));
        Some((state.free_elsewhere(slot, ended), home, now))
    }
}

impl<D: Device> PoolState<D> {
    /// Loads what is known of an allocation.
    fn read(&self, slot: &PoolSlot<D>, record: u32) -> u32 {
        let generation = slot.records.get(record).map_or(0, Record::generation);
        generation ^ self.detail(record).map_or(0, |detail| detail.block)
    }

    /// Loads the range of an allocation, where its block is one of this shard.
    fn read_range(&self, record: u32) -> u32 {
        let own = self.detail(record).filter(|detail| u32::from(detail.home) == self.shard);
        own.and_then(|detail| self.sets[usize::from(detail.set)].size_of_range(&detail.range())).unwrap_or(0)
            as u32
    }
}
