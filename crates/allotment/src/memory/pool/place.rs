//! Step 4 of a request (`allocator/allocate.rs`): placement in the blocks that exist; and step 8, placement in a new one.

use allotment_suballoc::{Alignment, AllocateError, FitStrategy, Request, StackSide};

use super::records::Entered;
use super::{PoolSlot, PoolState, RecordInUse, RoundedRequest};
use crate::device::{Device, OwnedMemory, Priority, PrioritySupport};
use crate::events::Placement;
use crate::memory::block_set::{Effort, Role, Sizes, SpareCriteria, UsableBlocks};
use crate::memory::request::AllocationRequest;
use crate::memory::{AllocationError, ShortName};

/// An empty memory object on its way from one shard of a pool to another.
#[derive(Debug)]
pub(crate) struct LentBlock<D: Device> {
    pub(super) memory: OwnedMemory<D>,
    pub(super) role: Role,
    /// It is one of the pool's `min_blocks`, of which the other shard now keeps one more.
    pub(super) of_minimum: bool,
}

impl<D: Device> PoolState<D> {
    /// Places a request in the blocks that exist. Returns the index of its record, or `None` where no block has room.
    ///
    /// In this order, from the cheapest source of room to the one that disturbs most:
    ///
    /// - a spare dedicated block of about the size, for a request that wants a dedicated block; else the free ranges
    ///   of the shared blocks;
    /// - the shared blocks, for a request that wants a dedicated block and [may share](Self::may_share_block);
    /// - a spare dedicated block that is [not too large](RoundedRequest::largest_spare) to become a shared one;
    /// - what the quick lists hold, joined with its free neighbours;
    /// - a block that defragmentation is emptying, which is opened again;
    /// - an empty block of the [other set](Self::other_set), which becomes one of this set.
    pub(super) fn place_in_existing(
        &mut self,
        slot: &PoolSlot<D>,
        set: usize,
        rounded: &RoundedRequest,
        request: &AllocationRequest<'_>,
    ) -> Result<Option<u32>, AllocationError> {
        self.wake();
        self.use_of_shard.count_request();
        // Such memory is allocated for this request alone, so no existing block can serve it.
        if rounded.role == Role::DedicatedToAllocation {
            return Ok(None);
        }
        if matches!(request.options.strategy, FitStrategy::LeastMemory | FitStrategy::LowestOffset) {
            // Ranges in the quick lists are not joined with their neighbours, so the best place may be hidden there. An
            // event says so, since the request may be placed in another pool in the end.
            self.flush_quick_lists_and_say_so();
        }
        let record = self.next_record(slot)?;
        let RoundedRequest { request: range, sizes, role, usable, .. } = *rounded;
        // Before blocks are freed for it: an empty block whose size comes back now is not in the way.
        self.sets[set].history.note_request(range.size);
        let (spare, in_blocks) =
            (self.spare_criteria(rounded, self.clock.has_frames), self.may_share_block(rounded));
        let shared_priority = self.required_priority(self.rules.priority);
        let mut placed = self.sets[set].place(&range, spare, usable, sizes).map_err(allocation_error)?;
        if placed.is_none() && role != Role::Shared && in_blocks {
            placed = self.sets[set].place(&range, None, usable, sizes).map_err(allocation_error)?;
        }
        // A spare block that is empty anyway costs no driver call; it is shared before a new block is allocated.
        if placed.is_none() && self.share_spare(set, rounded, shared_priority) {
            placed = self.sets[set].place(&range, None, usable, sizes).map_err(allocation_error)?;
        }
        if placed.is_none() && in_blocks && self.sets[set].quick.len() != 0 {
            // Quick lists may change where an allocation is placed, never whether: joined with their neighbours, the
            // ranges may have room for this request. The lists are empty afterwards, so this recurses once. An event
            // says so, since of a request that is refused no other would.
            self.flush_quick_lists_and_say_so();
            return self.place_in_existing(slot, set, rounded, request);
        }
        if placed.is_none() && in_blocks && self.sets[set].reopen_for(&range, usable) {
            // To allocate a block while another is being emptied would undo what defragmentation gains.
            return self.place_in_existing(slot, set, rounded, request);
        }
        let Some(placed) = placed else {
            return self.place_in_block_of_other_set(slot, set, rounded, request);
        };
        let placement =
            if placed.range.dedicated { Placement::DedicatedBlock } else { Placement::ExistingBlock };
        Ok(Some(self.publish(slot, set, record, placed, (rounded, placement), request)))
    }

    /// Places an [ordinary](AllocationRequest::is_ordinary) request in a shared block that has room, of all that there are.
    /// `None`, with nothing changed, where the request is too large to share a block in any case, or
    /// [`place_in_existing`](Self::place_in_existing) has to look further.
    pub(super) fn place_in_shared(
        &mut self,
        slot: &PoolSlot<D>,
        set: usize,
        (size, alignment): (u64, Alignment),
        request: &AllocationRequest<'_>,
    ) -> Option<RecordInUse> {
        // What this leaves out decides nothing for such requests: which role they have, which spare blocks may serve them.
        if !self.shares_blocks(set, size) {
            return None;
        }
        self.wake();
        let record = self.next_record(slot).ok()?;
        let sizes = Sizes { requested: request.requirements.size, occupied: size };
        let range = Request { size, alignment, strategy: request.options.strategy, side: StackSide::Lower };
        let blocks = &mut self.sets[set];
        blocks.history.note_request(size);
        let mut effort = Effort::SMALL;
        let placed = blocks.place_in_shared(&range, UsableBlocks::ALL, sizes, &mut effort).ok().flatten();
        let Some(placed) = placed else {
            // As there: the lists are empty afterwards, so this recurses once. Only where no spare block comes before them, and
            // none was passed over that may have room.
            if effort.has_passed() || blocks.empty_blocks != 0 || blocks.quick.len() == 0 {
                return None;
            }
            self.flush_quick_lists_and_say_so();
            return self.place_in_shared(slot, set, (size, alignment), request);
        };
        let entered = Entered {
            alignment,
            sizes,
            dedicated_to_resource: false,
            priority: self.rules.priority,
            placement: Placement::ExistingBlock,
        };
        Some(self.enter(slot, set, record, placed, &entered, request))
    }

    /// Places a request in an empty block of the other set, which is moved to this one: cheaper than a block of the
    /// driver's, and where the pool has all its blocks, the only way to keep movable and pinned allocations apart.
    fn place_in_block_of_other_set(
        &mut self,
        slot: &PoolSlot<D>,
        set: usize,
        rounded: &RoundedRequest,
        request: &AllocationRequest<'_>,
    ) -> Result<Option<u32>, AllocationError> {
        let Some(other) = self.other_set(set) else { return Ok(None) };
        let in_blocks = self.may_share_block(rounded);
        let Some(lent) = self.lend(slot, other, rounded, in_blocks) else { return Ok(None) };
        // It is lent within the pool's own minimum.
        self.change_minimum(set, |blocks| blocks + u32::from(lent.of_minimum));
        let placed = self.place_in_new_block(slot, set, lent.memory, (lent.role, true), rounded, request);
        self.store_counters(slot);
        placed.map(Some).map_err(|(error, memory)| {
            // Refused after all, for want of a record: the block goes back, so that nothing has changed.
            memory.into_iter().for_each(|memory| self.add_empty(slot, other, memory, lent.role));
            error
        })
    }

    /// Adds a memory object that is new in this pool and places a request in it. On error the memory object is returned.
    pub(super) fn place_in_new_block(
        &mut self,
        slot: &PoolSlot<D>,
        set: usize,
        memory: OwnedMemory<D>,
        (role, lent): (Role, bool),
        rounded: &RoundedRequest,
        request: &AllocationRequest<'_>,
    ) -> Result<u32, (AllocationError, Option<OwnedMemory<D>>)> {
        let record = match self.next_record(slot) {
            Ok(record) => record,
            Err(error) => return Err((error, Some(memory))),
        };
        let block = self.add_block(set, memory, role);
        let placement = match role {
            _ if lent => Placement::LentBlock,
            Role::Shared => Placement::NewBlock,
            Role::Dedicated => Placement::DedicatedBlock,
            Role::DedicatedToAllocation => Placement::DedicatedToResource,
        };
        // As in a spare block: one that was lent may be larger than the request, whose allocation begins at its start.
        let side = if role == Role::Shared { rounded.request.side } else { StackSide::Lower };
        let range = Request { side, ..rounded.request };
        let placed = self.sets[set].place_in_block(block, &range, rounded.sizes);
        match placed {
            Ok(Some(placed)) => Ok(self.publish(slot, set, record, placed, (rounded, placement), request)),
            refused => {
                let memory = self.remove_block(set, block);
                let error = match refused {
                    Err(error) => allocation_error(error),
                    // Not reached by a plan, which asks for blocks that are large enough.
                    _ => AllocationError::TooLargeForBlock {
                        requested: rounded.sizes.requested,
                        block_size: memory.as_ref().map_or(0, OwnedMemory::size),
                        name: ShortName::NONE,
                    },
                };
                Err((error, memory))
            }
        }
    }

    /// Adds an empty block, for any later request.
    pub(super) fn add_empty(&mut self, slot: &PoolSlot<D>, set: usize, memory: OwnedMemory<D>, role: Role) {
        self.add_block(set, memory, role);
        self.watch();
        slot.counters[set].store(&self.sets[set].statistics);
    }

    /// Returns true when [`place_in_existing`](Self::place_in_existing) would find room.
    pub(super) fn would_place(&self, set: usize, rounded: &RoundedRequest) -> bool {
        let RoundedRequest { request, role, largest_spare, usable, .. } = *rounded;
        if role == Role::DedicatedToAllocation {
            return false;
        }
        let in_blocks = self.may_share_block(rounded);
        let spare = self.spare_criteria(rounded, self.clock.has_frames);
        let shared = self.required_priority(self.rules.priority);
        self.sets[set].would_place(&request, spare, in_blocks, usable, (largest_spare, shared))
            || self.other_set(set).is_some_and(|other| self.lendable(other, rounded, in_blocks).is_some())
    }

    /// Returns the empty block that [`lend`](Self::lend) would take out. `in_blocks` says that the request may share
    /// a block.
    pub(super) fn lendable(&self, set: usize, rounded: &RoundedRequest, in_blocks: bool) -> Option<u32> {
        if rounded.role == Role::DedicatedToAllocation || self.sets[set].empty_blocks == 0 {
            return None;
        }
        // A reservation in any shard was made for large requests too.
        let in_blocks = in_blocks || self.holds_reserve();
        // As if in frames: even a poor fit is better than the driver call that the other shard would make instead.
        let spare = self.spare_criteria(rounded, true);
        self.sets[set].lendable(&rounded.request, spare, in_blocks, rounded.usable)
    }

    /// Takes out an empty memory object that has room for a request, for another shard.
    pub(super) fn lend(
        &mut self,
        slot: &PoolSlot<D>,
        set: usize,
        rounded: &RoundedRequest,
        in_blocks: bool,
    ) -> Option<LentBlock<D>> {
        let index = self.lendable(set, rounded, in_blocks)?;
        // A block may only be removed when no quick list names a range of it.
        self.flush_quick_list(set);
        let shared = self.sets[set].block(index).is_some_and(|block| block.role == Role::Shared);
        // Without it this shard would keep a block less than its part of the pool's minimum.
        let of_minimum = shared && self.is_minimum(set);
        let role = self.sets[set].block(index)?.role;
        let memory = self.remove_block(set, index)?;
        self.change_minimum(set, |blocks| blocks - u32::from(of_minimum));
        self.store_counters(slot);
        Some(LentBlock { memory, role, of_minimum })
    }

    /// Returns true where the shared blocks of a memory type are no more than the pool's minimum.
    pub(super) fn is_minimum(&self, set: usize) -> bool {
        // The minimum counts shared blocks of the memory types with which the pool was created.
        let minimum = self.minimum(set);
        minimum != 0 && self.blocks_of_type(set) <= minimum
    }

    /// Returns which spare memory objects may serve a request, if it wants a dedicated one.
    fn spare_criteria(&self, rounded: &RoundedRequest, in_frames: bool) -> Option<SpareCriteria> {
        (rounded.role != Role::Shared)
            .then(|| SpareCriteria { in_frames, priority: self.required_priority(rounded.priority) })
    }

    /// Returns the priority that existing memory must have been allocated with to serve a request of `priority`; `None`
    /// where any memory does, since the device takes a change later or ignores priorities.
    fn required_priority(&self, priority: Priority) -> Option<Priority> {
        (self.rules.priorities == PrioritySupport::WhenAllocated).then_some(priority)
    }
}

/// Translates the refusals of a block that have another reason than room.
fn allocation_error(error: AllocateError) -> AllocationError {
    match error {
        AllocateError::OneSided { .. } => AllocationError::UpperSide { name: ShortName::NONE },
        AllocateError::ZeroSize => AllocationError::ZeroSize { name: ShortName::NONE },
        AllocateError::TooLarge { size } => {
            AllocationError::TooLarge { size, limit: allotment_suballoc::MAX_SIZE, name: ShortName::NONE }
        }
        _ => AllocationError::TooManyAllocations { limit: u32::MAX, name: ShortName::NONE },
    }
}
