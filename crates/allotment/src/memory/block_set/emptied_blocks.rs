//! What defragmentation does with the blocks that it emptied.

/// What becomes of a block that was emptied.
///
/// ```
/// use allotment::memory::defragmentation::{DefragmentationDesc, DefragmentationStrategy, EmptiedBlocks};
///
/// // In every frame: what a step emptied may be needed again in the next second.
/// let all_the_time = DefragmentationDesc::new(DefragmentationStrategy::Fast)
///     .with_emptied_blocks(EmptiedBlocks::KeepByPolicy);
/// // Once, after a level: give it back.
/// let after_a_level = DefragmentationDesc::new(DefragmentationStrategy::Full);
/// assert_eq!(after_a_level.emptied_blocks, EmptiedBlocks::Free);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EmptiedBlocks {
    /// The block is freed with the last allocation in it, unless its pool must keep it.
    #[default]
    Free,
    /// The pool's [`EmptyBlockPolicy`](crate::memory::blocks::EmptyBlockPolicy) decides, as for any other empty block: for an
    /// application that defragments all the time and wants no frame to wait for the driver.
    KeepByPolicy,
}
