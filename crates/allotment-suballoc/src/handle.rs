//! Handles of live ranges.

use core::num::NonZeroU64;
use core::sync::atomic::{AtomicU32, Ordering};

/// A handle of one live range of one [`VirtualBlock`](crate::VirtualBlock). 16 bytes, as is `Option<Handle>`.
///
/// A handle identifies its block and one allocation of it. When the range has been freed the handle is stale:
/// every call that receives it returns [`HandleError`](crate::HandleError), even after the space was allocated
/// again. Buddy and linear blocks number their allocations with 62 bits or more, which do not wrap in practice; TLSF numbers
/// those of each region, and never uses a region again that has run out of numbers. The number of a block is never used
/// again: after 2^32 - 1 blocks, [`VirtualBlock::new`](crate::VirtualBlock::new) returns an error.
#[doc(alias("VmaVirtualAllocation", "VirtualAllocation"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle {
    /// The number of the allocation, which the region at `index` carries as well.
    pub(crate) serial: NonZeroU64,
    pub(crate) index: u32,
    pub(crate) block: BlockId,
}

/// The number of a block, unique within the process, so that a handle passed to the wrong block is detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct BlockId(u32);

impl BlockId {
    /// Shared by all blocks that were created without a number of their own.
    pub(crate) const UNNUMBERED: Self = Self(u32::MAX);

    /// Returns a number that no other block of the process has or had; `None` if all are used up.
    pub(crate) fn unique() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Self::next_of(&NEXT)
    }

    fn next_of(next: &AtomicU32) -> Option<Self> {
        let another = |number| (number != Self::UNNUMBERED.0).then(|| number + 1);
        // The number alone matters and no other memory is published with it, so no ordering is needed.
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
