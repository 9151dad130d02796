//! What a defragmentation would do at a moment: the moves that the library's own planner makes.
//!
//! ```text
//!   cursor ──layout──▶ BlockLayout ──plan of the library──▶ moves ──▶ blocks before and after, figures, a verdict
//! ```
//!
//! The planner gets the blocks as the recording has them, wherever that comes from: no allocator has to be in the same
//! state. Worked example: two blocks of 64 MiB with 40 and 10 MiB of movable allocations. The plan moves the 10 MiB, one
//! block becomes free, and the preview says so before a byte is copied.

mod layout;
mod least;
mod preview;
mod verdict;

pub use least::LeastBlocks;
pub use preview::{BlockFate, DefragmentationPreview, PreviewOptions, PreviewedBlock, PreviewedMove};
pub use verdict::DefragmentationVerdict;
