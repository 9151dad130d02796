//! Step 4 in a pool: a thread allocates memory from the driver, and others wait for it.

use super::{PoolSlot, PoolState};
use crate::device::Device;
use crate::sync::locked;

/// Memory that a thread gets for a pool while it does not hold the pool's lock.
///
/// Other threads wait for it. So its end is noted however it comes: where the device panics, as well.
#[derive(Debug)]
#[must_use = "dropped, it takes the pool's lock"]
pub(in crate::memory) struct Getting<'a, D: Device> {
    slot: &'a PoolSlot<D>,
    set: usize,
    /// Threads that want a shared block of the set wait for this one.
    shared: bool,
}

impl<'a, D: Device> Getting<'a, D> {
    /// Notes that the calling thread, which has the pool's lock and lets go of it next, gets memory.
    pub(in crate::memory) fn begin(
        slot: &'a PoolSlot<D>,
        state: &mut PoolState<D>,
        set: usize,
        shared: bool,
    ) -> Self {
        state.sets[set].growing |= shared;
        state.pending += 1;
        Self { slot, set, shared }
    }

    /// Notes that this is over, for the thread that has the pool's lock, and wakes those that wait. They go on when the
    /// lock is free.
    pub(in crate::memory) fn end(self, state: Option<&mut PoolState<D>>) {
        self.note_end(state);
        core::mem::forget(self);
    }

    pub(in crate::memory) fn slot(&self) -> &'a PoolSlot<D> {
        self.slot
    }

    pub(in crate::memory) fn set(&self) -> usize {
        self.set
    }

    fn note_end(&self, state: Option<&mut PoolState<D>>) {
        if let Some(state) = state {
            state.pending -= 1;
            state.sets[self.set].growing &= !self.shared;
        }
        self.slot.grown.notify_all();
    }
}

impl<D: Device> Drop for Getting<'_, D> {
    /// The device panicked.
    fn drop(&mut self) {
        self.note_end(locked(&self.slot.state).as_mut());
    }
}
