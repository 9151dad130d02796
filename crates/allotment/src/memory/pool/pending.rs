//! Step 7 of a request (`allocator/allocate.rs`): a thread allocates memory from the driver, and others wait for it.

use super::{PoolSlot, PoolState};
use crate::device::Device;
use crate::sync::locked;

/// A memory object that a thread allocates for a pool, while it does not hold the pool's lock.
///
/// Other threads wait for it ([`PoolSlot::grown`]), so they are woken however the attempt ends, also when the device
/// panics.
#[derive(Debug)]
#[must_use = "dropped, it takes the pool's lock"]
pub(crate) struct PendingBlock<'a, D: Device> {
    slot: &'a PoolSlot<D>,
    set: usize,
    /// It is a shared block: other threads that need one in this set wait for it.
    shared: bool,
}

impl<'a, D: Device> PendingBlock<'a, D> {
    /// Notes that the calling thread, which holds the pool's lock and releases it next, allocates memory.
    pub(super) fn begin(slot: &'a PoolSlot<D>, state: &mut PoolState<D>, set: usize, shared: bool) -> Self {
        // Dedicated memory serves no other thread, so none waits for it; it counts against `max_blocks` all the same.
        state.sets[set].growing |= shared;
        state.pending += 1;
        Self { slot, set, shared }
    }

    /// Notes that the attempt is over, for the thread that holds the pool's lock, and wakes the waiting threads. They
    /// continue when the lock is released.
    pub(super) fn end(self, state: Option<&mut PoolState<D>>) {
        // Not dropped, even by a panic in here: `drop` would take the lock that the caller holds.
        core::mem::ManuallyDrop::new(self).note_end(state);
    }

    /// Returns the pool that the memory is for.
    pub(super) fn slot(&self) -> &'a PoolSlot<D> {
        self.slot
    }

    /// Returns the index of the block set that the memory is for.
    pub(super) fn set(&self) -> usize {
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

impl<D: Device> Drop for PendingBlock<'_, D> {
    /// Reached only by unwinding from a device that panicked.
    fn drop(&mut self) {
        self.note_end(locked(&self.slot.state).as_mut());
    }
}
