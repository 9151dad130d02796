//! Step 2 in a pool: placement in the blocks that exist, and step 5, placement in a new one.

use allotment_suballoc::{AllocateError, Strategy};

use super::{Fitted, PoolSlot, PoolState};
use crate::device::{Device, OwnedMemory, Priority, PrioritySupport};
use crate::memory::block_set::{Role, Spare};
use crate::memory::{AllocationDesc, AllocationError, ShortName};

impl<D: Device> PoolState<D> {
    /// Serves a request from what is there. Returns the index of its record.
    pub(in crate::memory) fn place(
        &mut self,
        slot: &PoolSlot<D>,
        set: usize,
        fitted: &Fitted,
        desc: &AllocationDesc,
    ) -> Result<Option<u32>, AllocationError> {
        if fitted.tied {
            return Ok(None);
        }
        if matches!(desc.strategy, Strategy::LeastMemory | Strategy::LowestOffset) {
            // Who asks for the best place means all of them.
            self.empty_quick_lists(set);
        }
        let record = self.next_record(slot)?;
        let Fitted { request, sizes, own_memory, .. } = *fitted;
        let (spare, in_blocks) =
            (self.spare_for(fitted, self.clock.has_frames), self.takes_blocks(own_memory));
        let shared_priority = self.only(self.rules.priority);
        let blocks = &mut self.sets[set];
        let mut spot = blocks.place(&request, spare, sizes, record).map_err(of_ranges)?;
        if spot.is_none() && !own_memory && blocks.share_spare(&request, fitted.block_size, shared_priority) {
            spot = blocks.place(&request, None, sizes, record).map_err(of_ranges)?;
        }
        if spot.is_none() && own_memory && in_blocks {
            spot = blocks.place(&request, None, sizes, record).map_err(of_ranges)?;
        }
        if spot.is_none() && in_blocks && self.sets[set].quick.len() != 0 {
            // What waits for its size may make room for this one when it is joined with its neighbours.
            self.empty_quick_lists(set);
            return self.place(slot, set, fitted, desc);
        }
        if spot.is_none() && in_blocks && self.sets[set].reopen_for(&request) {
            // Rather than get a block while another is being emptied.
            return self.place(slot, set, fitted, desc);
        }
        Ok(spot.map(|spot| self.publish(slot, set, record, spot, fitted, desc)))
    }

    /// Takes in new memory and serves a request from it. Where that cannot be, the memory comes back.
    pub(in crate::memory) fn place_in_new(
        &mut self,
        slot: &PoolSlot<D>,
        set: usize,
        memory: OwnedMemory<D>,
        role: Role,
        fitted: &Fitted,
        desc: &AllocationDesc,
    ) -> Result<u32, (AllocationError, Option<OwnedMemory<D>>)> {
        let record = match self.next_record(slot) {
            Ok(record) => record,
            Err(error) => return Err((error, Some(memory))),
        };
        let now = self.clock.now;
        let block = self.sets[set].add(memory, role, now);
        let spot = self.sets[set].place_in(block, &fitted.request, fitted.sizes, record);
        match spot {
            Ok(Some(spot)) => Ok(self.publish(slot, set, record, spot, fitted, desc)),
            refused => {
                let memory = self.sets[set].remove(block);
                let error = match refused {
                    Err(error) => of_ranges(error),
                    // The plan made the block large enough.
                    _ => AllocationError::TooLargeForBlock {
                        requested: fitted.sizes.requested,
                        block_size: memory.as_ref().map_or(0, OwnedMemory::size),
                        name: ShortName::NONE,
                    },
                };
                Err((error, memory))
            }
        }
    }

    /// Takes in memory of the pool's first type, for whoever comes.
    pub(in crate::memory) fn add_empty(&mut self, slot: &PoolSlot<D>, memory: OwnedMemory<D>, role: Role) {
        self.sets[0].add(memory, role, self.clock.now);
        slot.counters[0].store(&self.sets[0].statistics);
    }

    /// Whether a request, of memory of its own perhaps, may use the room in blocks: what was got ahead of
    /// need, or is there in frames that shall not wait, is there already; memory of its own is not.
    pub(in crate::memory) fn takes_blocks(&self, own_memory: bool) -> bool {
        !own_memory || self.rules.ahead.is_some() || self.clock.has_frames || self.holds_reserve()
    }

    /// True when [`place`](Self::place) would find room.
    pub(in crate::memory) fn would_place(&self, set: usize, fitted: &Fitted) -> bool {
        let Fitted { request, own_memory, block_size, tied, .. } = *fitted;
        let in_blocks = self.takes_blocks(own_memory);
        let (spare, shared) = (self.spare_for(fitted, self.clock.has_frames), self.only(self.rules.priority));
        !tied && self.sets[set].would_place(&request, spare, in_blocks, block_size, shared)
    }

    /// What [`lend`](Self::lend) would take out. `in_blocks` says that the request may share a block.
    pub(in crate::memory) fn lendable(&self, fitted: &Fitted, in_blocks: bool) -> Option<u32> {
        if fitted.tied || !self.has_empty_blocks() {
            return None;
        }
        let in_blocks = in_blocks || self.holds_reserve();
        self.sets[0].lendable(&fitted.request, self.spare_for(fitted, true), in_blocks)
    }

    /// Takes out an empty memory object in which a request would find room, for another shard.
    pub(in crate::memory) fn lend(
        &mut self,
        slot: &PoolSlot<D>,
        fitted: &Fitted,
        in_blocks: bool,
    ) -> Option<(OwnedMemory<D>, Role)> {
        let index = self.lendable(fitted, in_blocks)?;
        self.empty_quick_lists(0);
        let lent = self.sets[0].lend(index);
        self.store_counters(slot);
        lent
    }

    /// Which spare memory objects serve a request, where it shall have one.
    pub(super) fn spare_for(&self, fitted: &Fitted, in_frames: bool) -> Option<Spare> {
        fitted.own_memory.then(|| Spare { in_frames, priority: self.only(fitted.priority) })
    }

    /// The only priority that memory may have been allocated with to serve what wants `priority`; `None` where any does,
    /// since the device is told of a change, or does not care.
    pub(super) fn only(&self, priority: Priority) -> Option<Priority> {
        (self.rules.priorities == PrioritySupport::WhenAllocated).then_some(priority)
    }
}

/// What the ranges refuse for another reason than room. Sizes and alignments passed the door.
fn of_ranges(error: AllocateError) -> AllocationError {
    match error {
        AllocateError::OneSided { .. } => AllocationError::UpperSide,
        AllocateError::ZeroSize => AllocationError::ZeroSize,
        AllocateError::TooLarge { size } => {
            AllocationError::TooLarge { size, limit: allotment_suballoc::MAX_SIZE }
        }
        _ => AllocationError::TooManyAllocations { limit: u32::MAX },
    }
}
