//! Frees: a token in, its range back to the pool.

use super::Foreign;
use super::allocator::{Allocation, Allocator};
use super::pool::{Freed, PoolState};
use crate::device::Device;
use crate::sync::locked;

impl<D: Device> Allocator<D> {
    /// Takes memory back. What stood in it must no longer be in use by the device.
    ///
    /// # Errors
    ///
    /// [`Foreign`] when the token is from another allocator; it comes back with the error.
    pub fn free(&self, allocation: Allocation) -> Result<(), Foreign> {
        if allocation.allocator != self.id {
            return Err(Foreign(allocation));
        }
        let Some(slot) = self.pools.get(allocation.pool) else { return Err(Foreign(allocation)) };
        let mut guard = locked(&slot.state);
        let (Some(state), Some(entry)) = (guard.as_mut(), slot.records.get(allocation.record)) else {
            return Ok(());
        };
        if entry.generation() != allocation.generation {
            // The pool was reset: the memory is free already.
            return Ok(());
        }
        if let Some(name) = state.free_quickly(slot, entry, allocation.record) {
            drop(guard);
            drop(name);
            return Ok(());
        }
        if let Some(name) = state.free_later(slot, allocation.record) {
            drop(guard);
            drop(name);
            return Ok(());
        }
        let now = state.should_read_clock(allocation.record).then(|| self.time.now());
        // Before a block becomes empty, so that it is not taken to have been empty since the last look.
        now.into_iter().for_each(|now| state.pass_time(now));
        let Freed { memory, more, name } = state.free(slot, allocation.record);
        drop(guard);
        drop(name);
        match memory {
            Some(memory) if self.is_kept_up() => self.to_do.give_back(memory),
            Some(memory) => self.waiting(|| {
                self.heaps.free(&self.device, memory);
                if more {
                    self.release_from(slot, PoolState::take_unwanted);
                }
            }),
            None => {}
        }
        let unwanted = now.map_or(Vec::new(), |now| self.pass_time(now));
        if !unwanted.is_empty() {
            self.waiting(|| self.free_all(unwanted));
        }
        Ok(())
    }
}
