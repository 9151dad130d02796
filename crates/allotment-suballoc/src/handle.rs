//! The name of a live range.

use core::num::NonZeroU64;
use core::sync::atomic::{AtomicU32, Ordering};

/// Names one live range of one [`VirtualBlock`](crate::VirtualBlock). 16 bytes, as is `Option<Handle>`.
///
/// A handle says which block it belongs to and which use of the slot it means. When the range has been
/// freed the handle is stale, and every call that is given it answers with
/// [`HandleError`](crate::HandleError), even after the space was handed out again. Serial numbers are
/// 62 bits wide and do not wrap in practice; block numbers repeat after 2^32 blocks in one process.
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
    pub(crate) fn unique() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // Only the number itself matters, so no other memory has to be ordered with it.
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}
