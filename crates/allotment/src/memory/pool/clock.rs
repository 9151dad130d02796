//! The passing of time, which the pools are told.

use crate::device::{Device, OwnedMemory};
use crate::memory::pool::PoolSlot;
use crate::memory::pool::pools::Pools;
use crate::memory::time::Moment;
use crate::sync::locked;

impl<D: Device> Pools<D> {
    /// Advances the clocks of all pools to `now`. Returns the blocks that were empty for too long, to be freed with no lock held;
    /// none where maintenance frees them, which is requested instead.
    pub(crate) fn pass_time(&self, now: Moment) -> Vec<OwnedMemory<D>> {
        let mut unwanted = Vec::new();
        self.active.note_moment(now);
        self.active.each(|index| {
            let Some(slot) = self.slots.get(index) else { return };
            let mut guard = locked(&slot.state);
            let Some(state) = guard.as_mut() else { return };
            if state.reserved() != 0 {
                state.pass_time(now);
            }
            let mut may_have_more = state.has_empty_blocks();
            if may_have_more && self.grows_ahead() {
                self.to_do.ring();
            } else if may_have_more {
                // Collected, and freed by the caller after the locks: the driver may take milliseconds.
                unwanted.extend(core::iter::from_fn(|| state.take_unwanted()));
                may_have_more = false;
                state.store_counters(slot);
            }
            state.rest_if_settled(may_have_more);
        });
        unwanted
    }
}

impl<D: Device> PoolSlot<D> {
    /// Advances the clock of the pool. Returns true if time has passed.
    pub(crate) fn pass_time(&self, now: Moment) -> bool {
        locked(&self.state).as_mut().is_some_and(|state| state.pass_time(now))
    }
}
