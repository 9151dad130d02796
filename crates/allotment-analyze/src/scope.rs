//! Which blocks an analysis is about.

use allotment::device::MemoryTypeIndex;

use crate::cursor::Cursor;
use crate::timeline::{BlockIndex, PoolIndex, Timeline};

/// Which blocks an analysis is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// All.
    All,
    /// Those of a heap, by its index. The header of the recording says which memory types are of which heap.
    Heap(u8),
    /// Those of a memory type.
    MemoryType(MemoryTypeIndex),
    /// Those of a pool.
    Pool(PoolIndex),
    /// One block.
    Block(BlockIndex),
}

impl Scope {
    /// Returns true if a block is one of them.
    #[must_use]
    pub fn contains(self, timeline: &Timeline<'_>, block: BlockIndex) -> bool {
        match self {
            Self::All => true,
            Self::Heap(heap) => timeline.heap_of(timeline.block_info(block).memory_type) == Some(heap),
            Self::MemoryType(memory_type) => timeline.block_info(block).memory_type == memory_type,
            Self::Pool(pool) => timeline.block_info(block).pool == Some(pool),
            Self::Block(only) => only == block,
        }
    }

    /// Returns the blocks of the scope that exist where a cursor is, in the order in which they were allocated.
    pub fn blocks(self, cursor: &Cursor<'_, '_>) -> impl Iterator<Item = BlockIndex> {
        let timeline = cursor.timeline();
        cursor.blocks().into_iter().filter(move |&block| self.contains(timeline, block))
    }
}
