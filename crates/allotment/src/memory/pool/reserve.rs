//! Reserves places: for allocations that are to move, and for a request in the room that was made for it.
//!
//! ```text
//!   planned        in a block, or else in any that stays                    runs that empty blocks
//!   at an offset   behind a range, in a block that is closed for the run    runs that make room for a request
//!   in a block     wherever it has room                                     what a run puts aside for a while
//! ```

use allotment_suballoc::{Handle, Request};

use super::survey::SurveyedAllocation;
use super::{PoolSlot, PoolState, RoundedRequest, TwoShards};
use crate::device::{Device, OwnedMemory, Priority, Requirements, ResourceKind};
use crate::events::Placement;
use crate::memory::block_set::{BlockSet, PlacedRange, Role, Sizes, UsableBlocks};
use crate::memory::request::AllocationRequest;
use crate::memory::token::Record;
use crate::memory::{EmptiedBlocks, MemoryUsage, Movability};

/// Where a place is reserved for an allocation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NewPlace {
    /// In this block, or else in another one that stays.
    Planned(Option<u32>),
    /// At an offset of a block, which may be closed: directly behind the range `after`, or at the start of the block where
    /// that is `None`.
    At { block: u32, offset: u64, after: Option<Handle> },
    /// Anywhere in a block, which may be closed.
    InBlock(u32),
}

/// A place that is reserved for an allocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReservedPlace {
    pub(crate) record: u32,
    pub(crate) generation: u32,
    pub(crate) block: Option<u32>,
    /// Bytes that the move copies.
    pub(crate) copied: u64,
}

impl<D: Device> PoolState<D> {
    /// Places a request at an offset of a block, as [`TwoShards::reserve_place_at`] places a move.
    pub(super) fn place_request_at(
        &mut self,
        slot: &PoolSlot<D>,
        set: usize,
        (block, offset, after): (u32, u64, Option<Handle>),
        rounded: &RoundedRequest,
        request: &AllocationRequest<'_>,
    ) -> Option<u32> {
        let record = self.next_record(slot).ok()?;
        let place = (block, offset, after);
        let placed = self.sets[set].place_at(place, &rounded.request, rounded.sizes)?;
        let placement = Placement::ExistingBlock;
        Some(self.publish(slot, set, record, placed, (rounded, placement), request))
    }

    /// Reserves a place for an allocation, which may be one of another shard.
    fn reserve(
        &mut self,
        slot: &PoolSlot<D>,
        found: &SurveyedAllocation,
        (kind, requested): (ResourceKind, u64),
        place: impl FnOnce(&mut BlockSet<D>, &Request, Sizes) -> Option<PlacedRange>,
    ) -> Option<u32> {
        let set = usize::from(found.set);
        // Before the range: without a record there is nothing to undo.
        let destination = self.next_record(slot).ok()?;
        let range = Request::new(found.size).aligned(found.alignment);
        let sizes = Sizes { requested, occupied: found.size };
        let placed = place(&mut self.sets[set], &range, sizes)?;
        // No request has asked for it. What a request settles first (a new block, dedicated memory, a mapped one) is
        // ruled out here: a move that needed another block would gain none.
        let fitted = RoundedRequest {
            request: range,
            sizes,
            block_size: 0,
            role: Role::Shared,
            prefers_dedicated: false,
            largest_spare: 0,
            dedicated_to_resource: false,
            priority: Priority::NORMAL,
            scarce: false,
            at_last: false,
            usable: UsableBlocks::ALL,
        };
        let requirements = Requirements::new(requested).with_kind(kind);
        let options = MemoryUsage::GpuOnly.with_name("defragmentation destination");
        self.publish(
            slot,
            set,
            destination,
            placed,
            (&fitted, Placement::Destination),
            &AllocationRequest::new(&requirements, &options),
        );
        Some(destination)
    }
}

/// The shard of an allocation's record, and the shard where a place is reserved for it.
impl<D: Device> TwoShards<'_, D> {
    /// Reserves a place for an allocation, and marks it as being moved. `None` where there is none, and where the allocation
    /// was freed, is pinned, or has a place reserved already.
    pub(crate) fn reserve_place(
        &mut self,
        (record, generation): (u32, u32),
        place: NewPlace,
    ) -> Option<ReservedPlace> {
        // Its owner may have freed it a moment ago.
        let (_, slot) = self.one();
        if !slot.has_generation(record, generation) {
            return None;
        }
        let reserved = match place {
            NewPlace::Planned(planned) => {
                self.reserve(record, |set, range, sizes| set.place_relocated(planned, range, sizes))
            }
            NewPlace::At { block, offset, after } => {
                self.reserve(record, |set, range, sizes| set.place_at((block, offset, after), range, sizes))
            }
            NewPlace::InBlock(block) => self
                .reserve(record, |set, range, sizes| set.place_in_block(block, range, sizes).ok().flatten()),
        }?;
        let (state, slot) = self.one();
        let copied = state.detail(record).is_some_and(|detail| detail.movability() == Movability::Copied);
        let copied = slot.records.get(record).filter(|_| copied).map_or(0, Record::size);
        let (state, slot) = self.other();
        let generation = slot.records.get(reserved).map_or(0, Record::generation);
        let block = state.detail(reserved).map(|detail| detail.block);
        Some(ReservedPlace { record: reserved, generation, block, copied })
    }

    /// Reserves a place in a new block for a run alone, which `memory` becomes. The block is closed, so that nothing else is
    /// placed in it. Returns the place, and the closing. Where there is none, `memory` is as it was.
    pub(crate) fn reserve_in_new_block(
        &mut self,
        allocation: (u32, u32),
        (set, run): (usize, u64),
        memory: &mut Option<OwnedMemory<D>>,
    ) -> Option<(ReservedPlace, Option<u64>)> {
        let (state, _) = self.other();
        let added = state.add_block(set, memory.take()?, Role::Shared);
        let reserved = self.reserve_place(allocation, NewPlace::InBlock(added));
        let (state, slot) = self.other();
        let closing = if reserved.is_some() {
            let set = &mut state.sets[set];
            set.claim(added, run).then(|| set.close(added, run, EmptiedBlocks::Free)).flatten()
        } else {
            *memory = state.remove_block(set, added);
            None
        };
        state.store_counters(slot);
        Some((reserved?, closing))
    }

    fn reserve(
        &mut self,
        record: u32,
        place: impl FnOnce(&mut BlockSet<D>, &Request, Sizes) -> Option<PlacedRange>,
    ) -> Option<u32> {
        let (state, slot) = self.one();
        // A survey of one record, under the lock: what the plan knows is some passes old.
        let found = state.survey_allocation(slot, record);
        let found = found.filter(|found| found.movability != Movability::Pinned)?;
        let needs = (state.detail(record)?.kind(), slot.records.get(record)?.size());
        let (state, slot) = self.other();
        let reserved = state.reserve(slot, &found, needs, place)?;
        let reservation = state.events.allocation(reserved);
        let (state, slot) = self.one();
        state.emit_reserved(reservation, record);
        // Last, when nothing can fail any more. Both shards are locked since the look above, so no thread has freed or
        // pinned the allocation in between, nor reserved another place for it.
        state.note_moving(slot, record, true);
        Some(reserved)
    }
}
