//! Which run moves an allocation.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::memory::mover::{FreeMoverIds, MoverId};

/// A mover that may have a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::memory) struct Mover {
    pub(in crate::memory) id: MoverId,
    /// By which blocks know that its run has claimed them. No other mover of the allocator ever had it: 64 bits, of which
    /// a run takes one, last for ever. Never 0.
    pub(in crate::memory) key: u64,
}

/// By whom an allocation is moved, as a run sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MovedBy {
    /// The run.
    Own,
    /// Its owner, to whom the run offers a place.
    Owner,
    /// Another mover, if any.
    Other,
}

impl Mover {
    /// Returns by whom an allocation with this mover is moved.
    pub(super) fn moves(self, id: MoverId) -> MovedBy {
        if id == self.id {
            MovedBy::Own
        } else if self.id.is_defragmenter() && id == self.id.owners() {
            MovedBy::Owner
        } else {
            MovedBy::Other
        }
    }
}

/// The movers of an allocator.
#[derive(Debug, Default)]
pub(in crate::memory) struct Movers {
    pub(in crate::memory) ids: FreeMoverIds,
    last_key: AtomicU64,
}

impl Movers {
    /// Returns a mover with a key of its own.
    pub(in crate::memory) fn with_key(&self, id: MoverId) -> Mover {
        // Relaxed: it only has to be unique.
        Mover { id, key: 1 + self.last_key.fetch_add(1, Ordering::Relaxed) }
    }
}
