//! A snapshot of all blocks and the allocations in them.

use std::collections::{BTreeMap, HashMap};

use allotment::device::MemoryHandle;
use allotment::memory::Movability;
use allotment::memory::defragmentation::layout::{BlockLayout, LayoutAllocation, LayoutArena, LayoutBlock};
use allotment::{Algorithm, Alignment};
use allotment_trace::ResourceIndex;

use super::playback::{Living, Playback};
use crate::failure::Failure;
use crate::replay::unexpected;
use crate::target::Target;

/// All blocks and allocations at one moment.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) blocks: Vec<Block>,
    /// In the order of allocation.
    pub(crate) standing: Vec<Standing>,
}

/// A memory object.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    memory: u64,
    pub(crate) memory_type: u8,
    pub(crate) pool: String,
    pub(crate) size: u64,
    pub(crate) dedicated: bool,
}

/// An allocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    pub(crate) resource: ResourceIndex,
    pub(crate) category: &'static str,
    pub(crate) memory: u64,
    pub(crate) offset: u64,
    /// Requested bytes.
    pub(crate) requested: u64,
    /// Occupied bytes.
    pub(crate) occupied: u64,
    /// Cannot be moved: it has dedicated memory that its device requires.
    pub(super) pinned: bool,
}

impl Layout {
    pub(super) fn of<T: Target>(playback: &Playback<'_, T>) -> Result<Self, Failure> {
        let mut blocks: Vec<_> = playback
            .allocator
            .reports()
            .blocks()
            .into_iter()
            .map(|block| Block {
                memory: block.memory.to_raw(),
                memory_type: block.memory_type.0,
                pool: block.pool.to_string(),
                size: block.ranges.size,
                dedicated: block.dedicated,
            })
            .collect();
        blocks.sort_by(|a, b| {
            let key = |block: &Block| (block.memory_type, block.dedicated, block.memory);
            a.pool.cmp(&b.pool).then(key(a).cmp(&key(b)))
        });
        let mut standing = Vec::new();
        for Living { index, live, .. } in playback.with_lifetime() {
            let info = playback.allocator.info(live.allocation()).map_err(unexpected)?;
            standing.push(Standing {
                resource: index,
                category: info.category,
                memory: info.memory.to_raw(),
                offset: info.offset,
                requested: info.size,
                occupied: info.occupied,
                pinned: info.movability == Movability::Pinned,
            });
        }
        Ok(Self { blocks, standing })
    }

    pub(crate) fn block_bytes(&self) -> u64 {
        self.blocks.iter().map(|block| block.size).sum()
    }

    pub(crate) fn live_bytes(&self) -> u64 {
        self.standing.iter().map(|standing| standing.requested).sum()
    }

    /// Returns the blocks as an analysis takes them that asks for sizes alone: where a range could begin it does not say.
    pub(super) fn sizes(&self) -> BlockLayout {
        let mut layout = BlockLayout::default();
        let mut arenas = BTreeMap::new();
        for block in &self.blocks {
            let arena = *arenas.entry((&block.pool, block.memory_type)).or_insert_with(|| {
                layout.arenas.push(LayoutArena { algorithm: Algorithm::Tlsf, least_blocks: 0 });
                layout.arenas.len() as u32 - 1
            });
            layout.blocks.push(LayoutBlock { arena, size: block.size, shared: !block.dedicated });
        }
        let by_memory = self.by_memory();
        let standing = self.standing.iter().filter_map(|standing| {
            Some(LayoutAllocation {
                block: *by_memory.get(&standing.memory)? as u32,
                offset: standing.offset,
                occupied: standing.occupied,
                size: standing.requested,
                alignment: Alignment::ONE,
                movability: if standing.pinned { Movability::Pinned } else { Movability::Copied },
            })
        });
        layout.allocations.extend(standing);
        layout
    }

    /// Returns the block index for each memory object.
    pub(crate) fn by_memory(&self) -> HashMap<u64, usize> {
        self.blocks.iter().enumerate().map(|(index, block)| (block.memory, index)).collect()
    }

    pub(crate) fn has(&self, block: &Block) -> bool {
        self.blocks.iter().any(|other| other.memory == block.memory)
    }
}
