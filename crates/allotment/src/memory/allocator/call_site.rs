//! Stores where in the program allocations are made.

use core::panic::Location;

use crate::choices::call_site::{CallSite, CallSites};
use crate::device::Device;
use crate::memory::allocator::Allocator;
use crate::memory::token::AllocationId;

impl<D: Device> Allocator<D> {
    /// Stores where the program made an allocation, if the allocator is to.
    #[inline]
    #[track_caller]
    pub(in crate::memory) fn note_call_site(&self, allocation: AllocationId) {
        if self.desc().call_sites != CallSites::None {
            self.store_call_site(allocation, Location::caller());
        }
    }

    #[cold]
    fn store_call_site(&self, allocation: AllocationId, location: &'static Location<'static>) {
        // Captured before the pool's lock is taken: it takes microseconds.
        let call_site = Some(CallSite::capture(self.desc().call_sites, location));
        if self.is_placed(allocation) {
            return self.note_call_site_of_placed(allocation, call_site);
        }
        // Nothing is stored for an allocation that another thread has freed meanwhile, by a reset of its pool.
        if let Ok(slot) = self.slot_of(allocation) {
            slot.note_call_site(allocation.record, allocation.generation, call_site);
        }
    }
}
