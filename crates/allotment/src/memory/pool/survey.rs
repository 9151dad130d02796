//! What a survey sees of a pool: the blocks of a set, and the allocations in them. It looks at some records per lock, so what
//! it has seen may change at once; each step of a run looks again.

use std::collections::VecDeque;

use allotment_suballoc::{Algorithm, Alignment};

use super::emptying::BlockOfSet;
use super::{DetailState, PoolSlot, PoolState};
use crate::device::{Device, ResourceKind};
use crate::memory::Movability;
use crate::memory::block_set::Role;
use crate::memory::mover::MoverId;
use crate::memory::statistics::{Counters, Statistics};
use crate::memory::token::AllocationId;
use crate::sync::locked;

/// An allocation as a survey of its pool sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SurveyedAllocation {
    /// The shard of its record.
    pub(crate) pool: u32,
    pub(crate) record: u32,
    pub(crate) generation: u32,
    pub(crate) set: u8,
    /// The shard that has the block, and the block.
    pub(crate) home: u8,
    pub(crate) block: u32,
    pub(crate) offset: u64,
    /// Bytes of the block that its range takes now.
    pub(crate) taken: u64,
    /// Bytes that a new place for it would have.
    pub(crate) size: u64,
    /// Bytes of a block that the new place takes, and their alignment: with the buddy algorithm, a whole cell.
    pub(crate) needed: u64,
    pub(crate) needed_alignment: Alignment,
    /// The alignment of the resource.
    pub(crate) alignment: Alignment,
    /// [`Movability::Pinned`] also while the allocation is mapped or being moved.
    pub(crate) movability: Movability,
    /// Which mover moves it.
    pub(crate) mover: MoverId,
}

impl SurveyedAllocation {
    /// Returns the id of the allocation, by its allocator.
    pub(crate) fn id(&self, allocator: u32) -> AllocationId {
        AllocationId { allocator, pool: self.pool, record: self.record, generation: self.generation }
    }
}

/// A block as a survey sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockSeen {
    pub(crate) index: u32,
    pub(crate) size: u64,
    pub(crate) shared: bool,
    /// Another run is emptying it, or is going to; or an earlier one has, and its old places are not free yet.
    pub(crate) of_another_run: bool,
}

/// A block set of a shard as a survey sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SetSeen {
    /// The requests that the shard has served.
    pub(crate) requests: u32,
    /// No thread allocates in the shard at present.
    pub(crate) is_idle: bool,
    /// The shared blocks that the set keeps.
    pub(crate) least_blocks: u32,
    /// Bytes that must stay free for coming requests.
    pub(crate) ahead: u64,
}

impl<D: Device> PoolSlot<D> {
    /// Returns a block set and its blocks, for the run with a key. `None` where there is no set of this number.
    pub(crate) fn survey_blocks(&self, set: u8, run: u64, tick: u64) -> Option<(SetSeen, Vec<BlockSeen>)> {
        let at = usize::from(set);
        let there = self.counters.get(at).map_or(Statistics::default(), Counters::load);
        // The counters are read without the lock. They may be a little old; then the vector grows under it.
        let mut blocks = Vec::with_capacity((there.blocks + there.dedicated) as usize);
        let mut guard = locked(&self.state);
        let state = guard.as_mut()?;
        blocks.extend(state.sets.get(at)?.blocks().map(|(index, block)| BlockSeen {
            index,
            size: block.memory.size(),
            shared: block.role == Role::Shared,
            of_another_run: block.is_of_another_run(run),
        }));
        // The pool's watermark concerns its first memory type only.
        let first = state.first_sets().any(|first| first == at);
        let seen = SetSeen {
            requests: state.use_of_shard.requests(),
            is_idle: state.use_of_shard.is_idle(tick),
            least_blocks: state.least_blocks(at),
            ahead: if first { state.room_to_keep() } else { 0 },
        };
        Some((seen, blocks))
    }

    /// Adds the allocations among up to `count` records from `first` on to `seen`. Returns true when there are more records.
    pub(crate) fn survey_records(&self, first: u32, count: u32, seen: &mut Vec<SurveyedAllocation>) -> bool {
        self.state.look(|state| {
            let Some(state) = state.as_ref() else { return false };
            state.survey_allocations(self, first, count, |allocation| seen.push(allocation));
            first.saturating_add(count) < state.records()
        })
    }

    /// Adds the allocations of a block of the shard in slot `home` to `seen`, of `count` records from `first` on. Returns the
    /// number of records; 0 where there is no pool.
    pub(crate) fn find_in_block(
        &self,
        (first, count): (u32, u32),
        home: u32,
        (set, block): BlockOfSet,
        seen: &mut VecDeque<SurveyedAllocation>,
    ) -> u32 {
        locked(&self.state).as_ref().map_or(0, |state| {
            state.survey_allocations(self, first, count, |allocation| {
                let its_home = state.shards.index(allocation.home);
                if (its_home, usize::from(allocation.set), allocation.block) == (home, set, block) {
                    seen.push_back(allocation);
                }
            });
            state.records()
        })
    }
}

impl<D: Device> PoolState<D> {
    /// Calls `each` for the allocations among up to `count` records from `first` on.
    pub(super) fn survey_allocations(
        &self,
        slot: &PoolSlot<D>,
        first: u32,
        count: u32,
        mut each: impl FnMut(SurveyedAllocation),
    ) {
        for record in first..self.records().min(first.saturating_add(count)) {
            if let Some(allocation) = self.survey_allocation(slot, record) {
                each(allocation);
            }
        }
    }

    pub(super) fn survey_allocation(&self, slot: &PoolSlot<D>, record: u32) -> Option<SurveyedAllocation> {
        let detail = self.detail(record)?;
        let entry = slot.records.get(record)?;
        let set = usize::from(detail.set);
        // A mapped allocation has a pointer to it outside, which a move would leave dangling.
        let free_to_move = detail.state() == DetailState::Settled && entry.maps() == 0;
        let size = self.size_elsewhere(set, detail.kind(), entry.size());
        let (needed, needed_alignment) = self.range_of(set, size, detail.alignment());
        // The range as it is, and the range that a request of today would get in its stead: dedicated memory may be
        // larger than its resource needs elsewhere.
        let (range, occupied) = (detail.range(), detail.occupied);
        Some(SurveyedAllocation {
            pool: self.shards.index(self.shard as u8),
            record,
            generation: entry.generation(),
            set: detail.set,
            home: range.home,
            block: range.block,
            offset: entry.offset(),
            // Dedicated memory is one range, and no cell of a buddy block.
            taken: if range.dedicated { occupied } else { self.sets[set].least_block(occupied) },
            size,
            needed,
            needed_alignment,
            alignment: detail.alignment(),
            movability: if free_to_move { detail.movability() } else { Movability::Pinned },
            mover: entry.mover(),
        })
    }

    /// Returns the bytes of a block that a range of `size` takes, and their alignment: with the buddy algorithm, a whole
    /// cell.
    pub(super) fn range_of(&self, set: usize, size: u64, alignment: Alignment) -> (u64, Alignment) {
        let needed = self.sets[set].least_block(size);
        // The power of two cannot overflow: larger sizes were refused when the allocation was requested.
        let cell = Alignment::new(needed).ok().filter(|_| self.rules.algorithm == Algorithm::Buddy);
        (needed, cell.map_or(alignment, |cell| cell.max(alignment)))
    }

    /// Returns the size of a new place for an allocation of `requested` bytes.
    fn size_elsewhere(&self, set: usize, kind: ResourceKind, requested: u64) -> u64 {
        self.size_multiple(set, kind).align_up(requested)
    }
}
