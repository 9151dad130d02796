//! The name of a live range.

use core::num::NonZeroU64;
use core::sync::atomic::{AtomicU32, Ordering};

/// Names one live range of one [`VirtualBlock`](crate::VirtualBlock). 16 bytes, as is `Option<Handle>`.
///
/// A handle says which block it belongs to and which use of the slot it means. When the range has been
/// freed the handle is stale, and every call that is given it answers with
/// [`HandleError`](crate::HandleError), even after the space was handed out again. Serial numbers are
/// 62 bits wide and do not wrap in practice. A block's number is never used again: after 2^32 - 1 blocks,
/// [`VirtualBlock::new`](crate::VirtualBlock::new) refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle {
    /// Counts the allocations of the block from 1; the node at `index` carries the same number.
    pub(crate) serial: NonZeroU64,
    pub(crate) index: u32,
    pub(crate) block: BlockId,
}

/// Tells the blocks of a process apart, so that a handle given to the wrong one is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct BlockId(u32);

impl BlockId {
    /// Of all blocks whose handles nobody gives to another block.
    pub(crate) const UNNUMBERED: Self = Self(u32::MAX);

    /// A number that no other block of the process has or had; `None` when there are no more.
    pub(crate) fn unique() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Self::next_of(&NEXT)
    }

    fn next_of(next: &AtomicU32) -> Option<Self> {
        let another = |number| (number != Self::UNNUMBERED.0).then(|| number + 1);
        // Only the number itself matters, so no other memory has to be ordered with it.
        next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, another).ok().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_has_come_to_its_end_does_not_begin_again() {
        let next = AtomicU32::new(u32::MAX - 2);
        assert_eq!(BlockId::next_of(&next), Some(BlockId(u32::MAX - 2)));
        assert_eq!(BlockId::next_of(&next), Some(BlockId(u32::MAX - 1)));
        for _ in 0..3 {
            assert_eq!(BlockId::next_of(&next), None, "the last number is that of blocks without one");
        }
    }
}
