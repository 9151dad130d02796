//! The selected object.

use allotment_analyze::{AllocationIndex, BlockIndex};

/// The selected object. All panes have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// An allocation.
    Allocation(AllocationIndex),
    /// A free range of a block.
    Free {
        /// The block.
        block: BlockIndex,
        /// The first byte.
        start: u64,
        /// The byte behind the last.
        end: u64,
    },
    /// A block.
    Block(BlockIndex),
}
