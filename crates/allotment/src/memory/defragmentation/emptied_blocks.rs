//! What defragmentation does with the blocks that it emptied.

/// What becomes of a block that was emptied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EmptiedBlocks {
    /// The block is freed with the last allocation in it, unless its pool must keep it.
    #[default]
    Free,
    /// The pool's [`EmptyBlockPolicy`](crate::memory::EmptyBlockPolicy) decides, as for any other empty block: for an
    /// application that defragments all the time and wants no frame to wait for the driver.
    KeepByPolicy,
}
