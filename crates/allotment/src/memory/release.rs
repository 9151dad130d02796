//! Memory on its way back to the driver, one object at a time, with no lock held.

use super::allocator::Allocator;
use super::block_set::BlockSet;
use super::pool::{PoolSlot, PoolState};
use crate::device::{Device, MemoryHeapIndex, OwnedMemory};
use crate::sync::locked;

impl<D: Device> Allocator<D> {
    /// Says that a frame is over: the clock by which empty blocks are given back. Cheap where there are
    /// none.
    ///
    /// Gives at most one block back, so that no frame pays for a whole level's memory; the others go in
    /// the frames after it. [`trim`](Self::trim) gives all back at once.
    pub fn end_frame(&self) {
        let mut unwanted = None;
        let kept_up = self.is_kept_up();
        self.time.note_frame();
        for slot in self.slots().filter(|slot| slot.has_memory()) {
            let mut guard = locked(&slot.state);
            let Some(state) = guard.as_mut() else { continue };
            state.end_frame();
            if kept_up && state.has_empty_blocks() {
                self.to_do.ring();
            } else if unwanted.is_none() && state.has_empty_blocks() {
                unwanted = state.take_unwanted();
                state.store_counters(slot);
            }
        }
        if let Some(memory) = unwanted {
            self.waiting(|| self.heaps.free(&self.device, memory));
        }
    }

    /// Gives all empty blocks back to the driver, except those that pools were asked to keep at least.
    /// For level changes and low-memory warnings. True when there was one.
    pub fn trim(&self) -> bool {
        self.release_empty(None)
    }

    /// Gives back all empty blocks of one heap, or of all. True when there was one.
    pub(super) fn release_empty(&self, heap: Option<MemoryHeapIndex>) -> bool {
        let mut any = self.return_memory() != 0;
        for slot in self.slots() {
            let of_heap = |state: &PoolState<D>| {
                state.sets.iter().any(|set| set.empty_blocks != 0 && heap.is_none_or(|heap| set.heap == heap))
            };
            if locked(&slot.state).as_ref().is_some_and(of_heap) {
                any |= self.release_from(slot, |state| state.take_empty(heap, |_| true));
            }
        }
        any
    }

    /// Gives to the driver what `take` takes out, one by one, the lock dropped for each.
    pub(super) fn release_from(
        &self,
        slot: &PoolSlot<D>,
        take: impl Fn(&mut PoolState<D>) -> Option<OwnedMemory<D>>,
    ) -> bool {
        let mut any = false;
        while self.release_one(slot, &take) {
            any = true;
        }
        any
    }

    /// Gives to the driver what `take` takes out. False when that is nothing.
    pub(super) fn release_one(
        &self,
        slot: &PoolSlot<D>,
        take: impl FnOnce(&mut PoolState<D>) -> Option<OwnedMemory<D>>,
    ) -> bool {
        let mut guard = locked(&slot.state);
        let Some(state) = guard.as_mut() else { return false };
        let memory = take(state);
        state.store_counters(slot);
        drop(guard);
        let Some(memory) = memory else { return false };
        self.heaps.free(&self.device, memory);
        true
    }

    /// Gives everything that a pool had to the driver.
    pub(super) fn give_back(&self, state: PoolState<D>) {
        self.free_all(state.sets.into_iter().flat_map(BlockSet::into_memory));
    }

    pub(super) fn free_all(&self, memory: impl IntoIterator<Item = OwnedMemory<D>>) {
        memory.into_iter().for_each(|memory| self.heaps.free(&self.device, memory));
    }
}
