//! The memory objects of one memory type in one pool, and the ranges handed out of them.
//!
//! Knows nothing of locks, drivers or budgets: memory comes in as an argument and goes out as a result.

mod empty;
mod invariants;
mod live;
mod relocate;
mod search;

use allotment_suballoc::{
    Algorithm, Alignment, DetailedStatistics as RangeStatistics, Handle, RegionKind, SizeRange, VirtualBlock,
};

use super::EmptiedBlocks;
use super::quick_lists::QuickLists;
use super::statistics::{DetailedStatistics, Statistics};
use crate::device::{Device, MemoryHeapIndex, MemoryTypeIndex, OwnedMemory, Priority};

pub(super) use empty::{Idle, Spare};
use search::Standing;

/// What a memory object is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Many allocations share it.
    Shared,
    /// Made to measure for one large allocation; when that is gone, another of about the same size may
    /// have it.
    Own,
    /// Made together with one resource; goes with it.
    Tied,
}

/// One memory object. `T` in its ranges is the index of the allocation's record.
#[derive(Debug)]
pub(super) struct Block<D: Device> {
    pub(super) memory: OwnedMemory<D>,
    pub(super) ranges: VirtualBlock<u32>,
    pub(super) role: Role,
    /// Allocations that are live in it. Those whose ranges wait in the quick lists are not.
    live: u32,
    /// The tick since which none is. Invariant: `Some` exactly where `live` is 0.
    empty_since: Option<u64>,
    /// Nothing new is placed in it, as it is being emptied.
    closed: Option<EmptiedBlocks>,
}

impl<D: Device> Block<D> {
    /// True when no allocation is live in it.
    pub(super) fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Allocations that are live in it.
    pub(super) fn live(&self) -> u32 {
        self.live
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.is_some()
    }
}

/// Where an allocation stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    pub(super) block: u32,
    pub(super) handle: Handle,
    pub(super) offset: u64,
}

/// How many bytes an allocation asked for, and how many it takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) requested: u64,
    pub(super) occupied: u64,
}

#[derive(Debug)]
pub(super) struct BlockSet<D: Device> {
    pub(super) memory_type: MemoryTypeIndex,
    pub(super) heap: MemoryHeapIndex,
    /// The non-coherent atom where the memory is mapped and not coherent, else 1.
    pub(super) atom: Alignment,
    algorithm: Algorithm,
    /// By index; an index is never used for another block while a spot names it.
    blocks: Vec<Option<Block<D>>>,
    vacant: Vec<u32>,
    /// Shared blocks that are not closed, the fullest first or nearly so: each operation moves the block that it
    /// changed by one place at most.
    order: Vec<Standing>,
    /// Blocks that are being emptied, shared ones and others.
    closed: Vec<u32>,
    /// Empty blocks of [`Role::Own`].
    spare: Vec<u32>,
    /// Freed ranges that wait for a request of their size.
    pub(super) quick: QuickLists,
    pub(super) statistics: Statistics,
    pub(super) empty_blocks: u32,
    /// Bytes of these.
    pub(super) empty_bytes: u64,
    /// A thread is getting a shared block from the driver; others wait for it rather than do the same.
    pub(super) growing: bool,
}

/// The ranges of memory of a size that passed the door.
fn new_ranges(size: u64, algorithm: Algorithm) -> VirtualBlock<u32> {
    // Its handles stay in this set's spots.
    match VirtualBlock::unnumbered(size, algorithm) {
        Ok(ranges) => ranges,
        Err(error) => unreachable!("the driver was asked for memory of a size that nobody wants: {error}"),
    }
}

impl<D: Device> BlockSet<D> {
    pub(super) fn new(
        memory_type: MemoryTypeIndex,
        heap: MemoryHeapIndex,
        atom: Alignment,
        algorithm: Algorithm,
    ) -> Self {
        Self {
            memory_type,
            heap,
            atom,
            algorithm,
            blocks: Vec::new(),
            vacant: Vec::new(),
            order: Vec::new(),
            closed: Vec::new(),
            spare: Vec::new(),
            quick: QuickLists::default(),
            statistics: Statistics::default(),
            empty_blocks: 0,
            empty_bytes: 0,
            growing: false,
        }
    }

    pub(super) fn block(&self, index: u32) -> Option<&Block<D>> {
        self.blocks.get(index as usize)?.as_ref()
    }

    /// All memory objects with their indices.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (u32, &Block<D>)> {
        self.blocks.iter().enumerate().filter_map(|(i, block)| Some((i as u32, block.as_ref()?)))
    }

    pub(super) fn count(&self) -> u32 {
        self.statistics.blocks + self.statistics.dedicated
    }

    /// Takes in a memory object, empty since `now`. Returns its index.
    pub(super) fn add(&mut self, memory: OwnedMemory<D>, role: Role, now: u64) -> u32 {
        let size = memory.size();
        // A block made to measure has one range, for which the simplest algorithm does.
        let algorithm = if role == Role::Shared { self.algorithm } else { Algorithm::Linear };
        let ranges = new_ranges(size, algorithm);
        // It becomes known under its index.
        let mut standing = Standing::of(0, &ranges);
        let block = Block { memory, ranges, role, live: 0, empty_since: Some(now), closed: None };
        let index = self.vacant.pop().unwrap_or_else(|| {
            self.blocks.push(None);
            // The device has at most u32::MAX memory objects.
            self.blocks.len() as u32 - 1
        });
        self.blocks[index as usize] = Some(block);
        standing.block = index;
        self.empty_blocks += 1;
        self.empty_bytes += size;
        self.statistics.block_bytes += size;
        match role {
            Role::Shared => {
                self.order.push(standing);
                self.statistics.blocks += 1;
            }
            Role::Own | Role::Tied => {
                self.statistics.dedicated += 1;
                if role == Role::Own {
                    self.spare.push(index);
                }
            }
        }
        index
    }

    /// Takes an empty memory object out. None of its ranges may wait in the quick lists.
    pub(super) fn remove(&mut self, index: u32) -> Option<OwnedMemory<D>> {
        let block = self.blocks.get_mut(index as usize)?.take_if(|block| block.ranges.is_empty())?;
        self.vacant.push(index);
        self.order.retain(|other| other.block != index);
        self.closed.retain(|&other| other != index);
        self.spare.retain(|&other| other != index);
        self.empty_blocks -= 1;
        self.empty_bytes -= block.memory.size();
        self.statistics.block_bytes -= block.memory.size();
        match block.role {
            Role::Shared => self.statistics.blocks -= 1,
            Role::Own | Role::Tied => self.statistics.dedicated -= 1,
        }
        Some(block.memory)
    }

    /// All memory, for giving it back, whatever is allocated in it.
    pub(super) fn into_memory(self) -> impl Iterator<Item = OwnedMemory<D>> {
        self.blocks.into_iter().flatten().map(|block| block.memory)
    }

    /// Notes the priority that the device is about to be told of a block. The block's memory, where that is another than
    /// it was told before.
    pub(super) fn note_priority(
        &mut self,
        index: u32,
        of: impl FnOnce(Role) -> Priority,
    ) -> Option<(D::Memory, Priority)> {
        let block = self.blocks.get_mut(index as usize)?.as_mut()?;
        let priority = of(block.role);
        if block.memory.priority() == priority {
            return None;
        }
        block.memory.note_priority(priority);
        Some((block.memory.handle(), priority))
    }

    /// The records of all live allocations.
    pub(super) fn records(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.blocks().flat_map(|(index, block)| {
            block.ranges.regions().filter_map(move |region| match region.kind {
                RegionKind::Used { data, .. } => Some((index, *data)),
                _ => None,
            })
        })
    }

    /// Sums and extremes from a walk over all regions.
    pub(super) fn detailed(&self) -> DetailedStatistics {
        let mut detailed = DetailedStatistics {
            brief: self.statistics,
            empty_blocks: self.empty_blocks,
            ..DetailedStatistics::default()
        };
        for (_, block) in self.blocks() {
            let RangeStatistics { brief, free_size, .. } = block.ranges.detailed_statistics();
            detailed.free_ranges += brief.free_range_count;
            if let Some(SizeRange { min, max }) = free_size {
                let widened = SizeRange::including(detailed.free_size, min);
                detailed.free_size = Some(SizeRange::including(Some(widened), max));
            }
        }
        detailed
    }
}
