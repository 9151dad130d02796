//! The peer: a range allocator behind a mutex, one for each descriptor heap, as many engines have. Diligent
//! Engine's managers work this way; theirs keep two trees, this one uses our TLSF, which is faster.

use std::sync::{Mutex, MutexGuard, PoisonError};

use allotment_suballoc::{Algorithm, Handle, Request, VirtualBlock};

pub(super) struct LockedRanges(Mutex<VirtualBlock<()>>);

impl LockedRanges {
    pub(super) const NAME: &'static str = "mutex + TLSF ranges";

    pub(super) fn new(capacity: u32) -> Self {
        let Ok(block) = VirtualBlock::new(capacity.into(), Algorithm::Tlsf) else {
            unreachable!("the size is not zero")
        };
        Self(Mutex::new(block))
    }

    fn locked(&self) -> MutexGuard<'_, VirtualBlock<()>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Allocates a range, and returns its offset.
    #[inline]
    pub(super) fn allocate(&self, count: u32) -> (Handle, u32) {
        let Ok(taken) = self.locked().allocate(Request::new(count.into()), ()) else {
            unreachable!("the space is large enough")
        };
        (taken.handle, taken.offset as u32)
    }

    #[inline]
    pub(super) fn free(&self, range: Handle) {
        let freed = self.locked().free(range);
        debug_assert!(freed.is_ok(), "it is freed once");
    }

    /// Frees all ranges under one lock.
    pub(super) fn free_all(&self, ranges: &mut Vec<Handle>) {
        let mut block = self.locked();
        for range in ranges.drain(..) {
            let freed = block.free(range);
            debug_assert!(freed.is_ok(), "it is freed once");
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.locked().is_empty()
    }
}
