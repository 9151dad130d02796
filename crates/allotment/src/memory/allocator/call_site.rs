//! Stores where in the program allocations are made.

use core::panic::Location;

use crate::choices::call_site::{CallSite, CallSites};
use crate::device::Device;
use crate::memory::allocator::Allocator;
use crate::memory::token::AllocationId;

impl<D: Device> Allocator<D> {
    /// Returns where the program makes a resource, if the allocator is to store it.
    #[inline]
    #[track_caller]
    pub(in crate::memory) fn capture_call_site(&self) -> Option<CallSite> {
        let call_sites = self.desc().call_sites;
        let caller = Location::caller();
        (call_sites != CallSites::None).then(|| CallSite::capture(call_sites, caller))
    }

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
        // Nothing is stored for an allocation that another thread has freed meanwhile, by a reset of its pool.
        if let Ok(slot) = self.slot_of(allocation) {
            slot.note_call_site(allocation.record, allocation.generation, call_site);
        }
    }
}
