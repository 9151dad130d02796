//! The peer: a range allocator behind a mutex, as engines keep one for each heap of descriptors. Diligent Engine's
//! managers are of this kind; theirs keeps two trees, this one is our own TLSF, which is the faster.

use std::sync::{Mutex, MutexGuard, PoisonError};

use allotment_suballoc::{Algorithm, Handle, Request, VirtualBlock};

pub(super) struct LockedRanges(Mutex<VirtualBlock<()>>);

impl LockedRanges {
    pub(super) const NAME: &'static str = "mutex + TLSF ranges";

    pub(super) fn new(capacity: u32) -> Self {
        let Ok(block) = VirtualBlock::new(capacity.into(), Algorithm::Tlsf) else {
            unreachable!("there are some")
        };
        Self(Mutex::new(block))
    }

    fn locked(&self) -> MutexGuard<'_, VirtualBlock<()>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A range and where it begins.
    #[inline]
    pub(super) fn allocate(&self, count: u32) -> (Handle, u32) {
        let Ok(taken) = self.locked().allocate(Request::new(count.into()), ()) else {
            unreachable!("there are more than anybody wants")
        };
        (taken.handle, taken.offset as u32)
    }

    #[inline]
    pub(super) fn free(&self, range: Handle) {
        let freed = self.locked().free(range);
        debug_assert!(freed.is_ok(), "it is given back once");
    }

    /// With the lock taken once.
    pub(super) fn free_all(&self, ranges: &mut Vec<Handle>) {
        let mut block = self.locked();
        for range in ranges.drain(..) {
            let freed = block.free(range);
            debug_assert!(freed.is_ok(), "it is given back once");
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.locked().is_empty()
    }
}
