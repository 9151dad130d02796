//! Allocations and blocks as they were at a position.

use allotment::device::MemoryTypeIndex;
use allotment_trace::recording::{
    BlockId, BlockKind, Event, Live, Moment, RequestedOptions, StackId, TextId,
};

use super::moments::last_before;
use super::rows::{event_number, exists};
use super::{AllocationIndex, BlockIndex, NONE, PoolIndex, Timeline};

/// Where an allocation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The block.
    pub block: BlockIndex,
    /// Bytes from the start of the block.
    pub offset: u64,
    /// Bytes of the block that no other allocation can have.
    pub occupied: u64,
}

/// Whether an allocation's bytes are used, wait for the GPU, or are reserved for a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// A reservation of defragmentation: the destination or the old range of a move.
    Reserved,
    /// The program released it, and the GPU may still use it.
    Pending,
    /// The program uses it.
    Used,
}

/// When an allocation began and ended, as numbers of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// The event that allocated it.
    pub allocated: u64,
    /// The event that requested its release.
    pub free_requested: Option<u64>,
    /// The event that freed it, or after which nothing was known of it.
    pub freed: Option<u64>,
}

/// A block: what does not change while it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockInfo {
    /// The id that events know it by.
    pub id: BlockId,
    /// The pool that has it. `None` where no event created the pool.
    pub pool: Option<PoolIndex>,
    /// Its memory type.
    pub memory_type: MemoryTypeIndex,
    /// Whether allocations share it.
    pub kind: BlockKind,
    /// The event that allocated it.
    pub allocated: u64,
    /// The event that freed it.
    pub freed: Option<u64>,
    /// Two of its allocations had bytes in common at some moment.
    pub aliased: bool,
}

impl Timeline<'_> {
    /// Returns when an allocation began and ended.
    #[must_use]
    pub fn lifetime(&self, allocation: AllocationIndex) -> Lifetime {
        let row = &self.allocations[allocation.0 as usize];
        Lifetime {
            allocated: u64::from(row.allocated),
            free_requested: event_number(row.free_requested),
            freed: event_number(row.freed),
        }
    }

    /// Returns when each allocation of the recording began and ended, in the order in which they were allocated.
    pub fn lifetimes(&self) -> impl ExactSizeIterator<Item = (AllocationIndex, Lifetime)> {
        self.allocations().map(|allocation| (allocation, self.lifetime(allocation)))
    }

    /// Returns true if an allocation exists at a position.
    #[must_use]
    pub fn allocation_exists(&self, allocation: AllocationIndex, position: u64) -> bool {
        let row = &self.allocations[allocation.0 as usize];
        exists(row.allocated, row.freed, self.clamp(position))
    }

    /// Returns the bytes that the program requested for an allocation.
    #[must_use]
    pub fn requested(&self, allocation: AllocationIndex) -> u64 {
        self.allocated(allocation.0).map_or(0, |is| is.requested)
    }

    /// Returns where an allocation is at a position; before its first event, where it begins.
    #[must_use]
    pub fn place_at(&self, allocation: AllocationIndex, position: u64) -> Place {
        self.place(allocation.0, self.clamp(position))
    }

    pub(crate) fn place(&self, row: u32, position: u32) -> Place {
        let is = &self.allocations[row as usize];
        let mut place = self.allocated(row).map_or(
            Place { block: BlockIndex(is.block), offset: 0, occupied: 0 },
            |event| Place { block: BlockIndex(is.block), offset: event.offset, occupied: event.occupied },
        );
        if is.first_move != NONE {
            let moves = &self.moves[is.first_move as usize..];
            let before = moves.partition_point(|to| (to.allocation, to.event) < (row, position));
            if let Some(to) = before.checked_sub(1).map(|last| moves[last]) {
                place = Place { block: BlockIndex(to.block), offset: to.offset, occupied: to.occupied };
            }
        }
        place
    }

    /// Returns the events that moved an allocation, with the place that it had from there on.
    pub fn moves_of(&self, allocation: AllocationIndex) -> impl Iterator<Item = (u64, Place)> {
        let first = self.allocations[allocation.0 as usize].first_move;
        let moves = self.moves.get(first as usize..).unwrap_or_default().iter();
        moves.take_while(move |to| to.allocation == allocation.0).map(|to| {
            let place = Place { block: BlockIndex(to.block), offset: to.offset, occupied: to.occupied };
            (u64::from(to.event), place)
        })
    }

    /// Returns what an allocation's bytes are needed for at a position at which it exists.
    #[must_use]
    pub fn status_at(&self, allocation: AllocationIndex, position: u64) -> Status {
        self.status(allocation.0, self.clamp(position))
    }

    pub(crate) fn status(&self, row: u32, position: u32) -> Status {
        if !self.reserved.is_empty() && self.reserved.get(&row).is_some_and(|&event| event < position) {
            Status::Reserved
        } else if self.allocations[row as usize].free_requested < position {
            Status::Pending
        } else {
            Status::Used
        }
    }

    /// Returns an allocation as it is at a position. `None` where it does not exist then.
    #[must_use]
    pub fn allocation_at(&self, allocation: AllocationIndex, position: u64) -> Option<Live> {
        if !self.allocation_exists(allocation, position) {
            return None;
        }
        let position = self.clamp(position);
        let row = &self.allocations[allocation.0 as usize];
        let mut is = *self.allocated(allocation.0)?;
        let place = self.place(allocation.0, position);
        (is.block, is.offset, is.occupied) = (self.block_info(place.block).id, place.offset, place.occupied);
        let free_requested = event_number(row.free_requested).filter(|&event| event < u64::from(position));
        let mut live = Live {
            is,
            call_site: TextId::NONE,
            stack: StackId::NONE,
            allocated: self.moment(u64::from(row.allocated)),
            free_requested: free_requested.map(|event| self.moment(event)),
            maps: 0,
            reservation: self.reserved.get(&allocation.0).is_some_and(|&event| event < position),
            options: RequestedOptions::default(),
        };
        for &change in self.changes.of(allocation.0).iter().take_while(|&&change| change < position) {
            match *self.event(change) {
                Event::CallSite { site, .. } => live.call_site = site,
                Event::Stack { stack, .. } => live.stack = stack,
                Event::Labelled { name, category, user_data, .. } => {
                    (live.is.name, live.is.category, live.is.user_data) = (name, category, user_data);
                }
                Event::Movable { movable, .. } => live.is.movable = movable,
                Event::Mapped { count, .. } => live.maps = count,
                Event::Requested { options, .. } => live.options = options,
                _ => {}
            }
        }
        Some(live)
    }

    /// Returns the last name, category and call site that a recording has of an allocation.
    #[must_use]
    pub fn texts(&self, allocation: AllocationIndex) -> Texts {
        let is = self.allocated(allocation.0);
        let mut texts = is.map_or(Texts::default(), |is| Texts {
            name: is.name,
            category: is.category,
            call_site: TextId::NONE,
        });
        for &change in self.changes.of(allocation.0) {
            match *self.event(change) {
                Event::CallSite { site, .. } => texts.call_site = site,
                Event::Labelled { name, category, .. } => (texts.name, texts.category) = (name, category),
                _ => {}
            }
        }
        texts
    }

    /// Returns the calls that led to an allocation; [`StackId::NONE`] where they are not known.
    #[must_use]
    pub fn stack(&self, allocation: AllocationIndex) -> StackId {
        let stack = |&change: &u32| match *self.event(change) {
            Event::Stack { stack, .. } => Some(stack),
            _ => None,
        };
        self.changes.of(allocation.0).iter().rev().find_map(stack).unwrap_or(StackId::NONE)
    }

    /// Returns what does not change of a block.
    #[must_use]
    pub fn block_info(&self, block: BlockIndex) -> BlockInfo {
        let row = &self.blocks[block.0 as usize];
        let (allocated, freed) = (u64::from(row.allocated), event_number(row.freed));
        let pool = (row.pool != NONE).then_some(PoolIndex(row.pool));
        let aliased = row.aliased;
        match *self.event(row.allocated) {
            Event::BlockAllocated { block: id, memory_type, kind, .. } => {
                BlockInfo { id, pool, memory_type, kind, allocated, freed, aliased }
            }
            // The row of a block is made from such an event only.
            _ => BlockInfo {
                id: BlockId(0),
                pool,
                memory_type: MemoryTypeIndex(0),
                kind: BlockKind::Shared,
                allocated,
                freed,
                aliased,
            },
        }
    }

    /// Returns the bytes of a block at a position: those that it was allocated with, until an event resizes it. Before
    /// its first event and after its last one, the nearest size that it had.
    #[must_use]
    pub fn block_size_at(&self, block: BlockIndex, position: u64) -> u64 {
        let resized = last_before(self.resized.of(block.0), self.clamp(position));
        match *self.event(resized.unwrap_or(self.blocks[block.0 as usize].allocated)) {
            Event::BlockAllocated { size, .. } | Event::BlockResized { size, .. } => size,
            _ => 0,
        }
    }

    /// Returns true if a block exists at a position.
    #[must_use]
    pub fn block_exists(&self, block: BlockIndex, position: u64) -> bool {
        let row = &self.blocks[block.0 as usize];
        exists(row.allocated, row.freed, self.clamp(position))
    }

    /// Returns what a block is for at a position: a cached dedicated block may become a shared one.
    #[must_use]
    pub fn block_kind_at(&self, block: BlockIndex, position: u64) -> BlockKind {
        let shared = self.blocks[block.0 as usize].shared;
        if shared < self.clamp(position) { BlockKind::Shared } else { self.block_info(block).kind }
    }

    /// Returns when a block last became empty before a position. Whether it still is, its allocations say.
    #[must_use]
    pub fn block_emptied(&self, block: BlockIndex, position: u64) -> Moment {
        let emptied = last_before(self.emptied.of(block.0), self.clamp(position));
        self.moment(u64::from(emptied.unwrap_or(self.blocks[block.0 as usize].allocated)))
    }

    /// Returns the heap of a memory type, as the header says; `None` where it does not.
    #[must_use]
    pub fn heap_of(&self, memory_type: MemoryTypeIndex) -> Option<u8> {
        self.recording.header.memory_types.get(memory_type.get()).map(|known| known.heap)
    }
}

/// The texts of an allocation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    /// Its name.
    pub name: TextId,
    /// Its category.
    pub category: TextId,
    /// Where the program made it.
    pub call_site: TextId,
}
