//! Host memory that a pool has for more allocations than there are: how a trim takes it out.
//!
//! The tables of a pool have an entry for each allocation of its peak, 128 bytes in all. Their ends are taken out up to the
//! last entry in use, so one allocation that lives may keep much of them; where none lives, all goes. The memory is
//! returned to the host after the lock, which takes longer than a free may wait.

use super::{PoolSlot, PoolState};
use crate::device::Device;
use crate::sync::locked;
use crate::table::Ahead;

impl<D: Device> PoolSlot<D> {
    /// Takes out what the pool's tables have for allocations of an earlier peak.
    #[must_use = "dropping it takes long, and is done without the lock"]
    pub(crate) fn shrink(&self) -> impl Sized + use<D> {
        match locked(&self.state).as_mut() {
            Some(state) => (Some(state.shrink(self)), None),
            // SAFETY: the lock is held until the end of the statement, and a slot without a pool has no live allocation; but
            // that of the placed resources, whose records are all kept.
            None => (None, Some(unsafe { self.records.free_unused(0, &mut Ahead::new()) })),
        }
    }
}

impl<D: Device> PoolState<D> {
    /// Takes out what the pool's tables have for allocations of an earlier peak, to be dropped once the lock is released.
    /// O(allocations of the peak), where there is much to take out.
    #[must_use = "dropping it takes longer than the pool's lock should be held"]
    fn shrink(&mut self, slot: &PoolSlot<D>) -> impl Sized + use<D> {
        // A range that waits has a record, perhaps the last one.
        self.flush_quick_lists_and_say_so();
        self.sets.iter_mut().for_each(|set| set.shrink());
        let details = self.details.shrink();
        let used = self.details.bound();
        let labels = self.labels.split_off(used as usize);
        // SAFETY: the caller holds the lock, or it would have no `&mut PoolState`; each live allocation has a detail.
        let records = unsafe { slot.records.free_unused(used, &mut self.next_records) };
        (details, labels, records)
    }
}
