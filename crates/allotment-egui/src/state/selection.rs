//! What is selected.

use allotment_analyze::{AllocationIndex, BlockIndex};

/// What is selected, in every pane at once.
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
