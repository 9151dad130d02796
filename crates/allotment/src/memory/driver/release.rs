//! The path of empty blocks back to the driver: one memory object at a time, with no lock held.
//!
//! Each driver call may take milliseconds, so the pool's lock is released for each, and a frame end makes one at most.

use crate::device::{Device, MemoryHeapIndex, OwnedMemory};
use crate::events::Event;
use crate::memory::allocator::Allocator;
use crate::memory::block_set::BlockSet;
use crate::memory::pool::{PoolSlot, PoolState};
use crate::sync::locked;
use crate::table::Ahead;

impl<D: Device> Allocator<D> {
    /// Marks the end of a frame, which advances the clock of the empty-block policy. Visits the pools that were used lately or
    /// have an empty block; others cost nothing, however many there are.
    ///
    /// Frees at most one block, so that no frame pays for the memory of a whole level; later frames free the others.
    /// [`trim`](Self::trim) frees all at once.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// use allotment::memory::EmptyBlockPolicy;
    ///
    /// let level = allocator.allocate(&Requirements::new(200 << 20), &MemoryUsage::GpuOnly.into())?;
    /// allocator.free(level)?;
    /// for _frame in 0..=EmptyBlockPolicy::default().frames {
    ///     allocator.end_frame();
    /// }
    /// assert_eq!(allocator.statistics().block_bytes, 0, "empty for long enough");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(never)]
    #[doc(alias("vmaSetCurrentFrameIndex", "set_current_frame_index"))]
    pub fn end_frame(&self) {
        let mut unwanted = None;
        let grows_ahead = self.grows_ahead();
        // First: from here on a thread that reads the clock counts no real time beside this frame.
        let passed = self.time.note_frame();
        self.emit_frame_end(passed);
        self.cancel_expired_parts();
        self.active.count_frame();
        passed.into_iter().for_each(|now| self.active.note_moment(now));
        self.active.each(|index| {
            let Some(slot) = self.pools.get(index) else { return };
            let mut guard = locked(&slot.state);
            let Some(state) = guard.as_mut() else { return };
            state.count_frames();
            passed.into_iter().for_each(|now| state.use_of_shard.look(now.tick));
            let mut may_have_more = state.has_empty_blocks();
            // The maintenance thread makes the driver calls, if there is one.
            if grows_ahead && may_have_more {
                self.to_do.ring();
            } else if unwanted.is_none() && may_have_more {
                unwanted = state.take_unwanted();
                may_have_more = unwanted.is_some();
                state.store_counters(slot);
            }
            state.rest_if_settled(may_have_more);
        });
        if let Some(memory) = unwanted {
            self.waiting(|| self.heaps.free(&self.device, memory));
        }
    }

    /// Frees all empty blocks, except the [`min_blocks`](crate::memory::PoolDesc::min_blocks) of pools, and the host memory
    /// that the allocator has for more allocations than there are. Call it at level changes and on low-memory warnings.
    /// Returns true if any block was freed.
    ///
    /// The host memory is 128 bytes for each allocation of a pool's peak. It is freed up to the newest allocation that lives,
    /// so most is where a level was freed as a whole. A pool that was [reset](Self::reset_pool) while it had allocations keeps
    /// 32 bytes for each of its peak, since their handles may be in use.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let level = allocator.allocate(&Requirements::new(200 << 20), &MemoryUsage::GpuOnly.into())?;
    /// allocator.free(level)?;
    /// assert_eq!(allocator.statistics().block_bytes, 200 << 20, "kept for the next request");
    /// assert!(allocator.trim());
    /// assert_eq!(allocator.statistics().block_bytes, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(never)]
    pub fn trim(&self) -> bool {
        // First, since a block whose last ranges wait for requests is empty as well. Whoever reads the events sees it in this
        // order, and can repeat it.
        for slot in self.slots() {
            locked(&slot.state).as_mut().into_iter().for_each(|state| state.flush_quick_lists_and_say_so());
        }
        let any = self.release_empty(None, None);
        self.shrink_tables();
        if self.events.is_read() {
            self.events.push_always(|_| Event::Trimmed);
        }
        any
    }

    /// Frees the host memory that tables have for more allocations than there are.
    fn shrink_tables(&self) {
        for slot in self.slots() {
            let mut guard = locked(&slot.state);
            match guard.as_mut() {
                Some(state) => {
                    let unused = state.shrink(slot);
                    drop(guard);
                    drop(unused);
                }
                None => {
                    // SAFETY: the lock is held, and a slot without a pool has no live allocation.
                    let unused = unsafe { slot.records.free_unused(0, &mut Ahead::new()) };
                    drop(guard);
                    drop(unused);
                }
            }
        }
    }

    /// Frees all empty blocks of one heap, or of all heaps, in all pools but one. Returns true if any was freed.
    pub(in crate::memory) fn release_empty(
        &self,
        heap: Option<MemoryHeapIndex>,
        but: Option<&PoolSlot<D>>,
    ) -> bool {
        // First the memory that already left its pool and waits for the maintenance thread.
        let mut any = self.return_memory() != 0;
        for slot in self.slots().filter(|slot| !but.is_some_and(|but| core::ptr::eq(*slot, but))) {
            let of_heap = |state: &PoolState<D>| {
                state.sets.iter().any(|set| set.empty_blocks != 0 && heap.is_none_or(|heap| set.heap == heap))
            };
            // Most pools have no empty block; for these a look is enough, and no counters are stored.
            if locked(&slot.state).as_ref().is_some_and(of_heap) {
                any |= self.release_empty_of(slot, heap);
            }
        }
        any
    }

    /// Frees all empty blocks of a pool, of one heap or of all heaps, some at a time. Returns true if any was freed.
    pub(in crate::memory) fn release_empty_of(
        &self,
        slot: &PoolSlot<D>,
        heap: Option<MemoryHeapIndex>,
    ) -> bool {
        let mut any = false;
        loop {
            let mut guard = locked(&slot.state);
            let Some(state) = guard.as_mut() else { return any };
            let memory = state.take_all_empty(heap);
            state.store_counters(slot);
            // Before the driver calls: other threads allocate from the pool meanwhile.
            drop(guard);
            if memory.is_empty() {
                return any;
            }
            any = true;
            self.free_all(memory);
        }
    }

    /// Frees the blocks that `take` takes out of a pool, one by one, with the lock released for each. Returns true if
    /// any was freed.
    pub(in crate::memory) fn release_from(
        &self,
        slot: &PoolSlot<D>,
        take: impl Fn(&mut PoolState<D>) -> Option<OwnedMemory<D>>,
    ) -> bool {
        let mut any = false;
        // `take` decides anew each time, since other threads may have used an empty block or freed one meanwhile.
        while self.release_one(slot, &take) {
            any = true;
        }
        any
    }

    /// Frees the block that `take` takes out of a pool. Returns false if there is none.
    pub(in crate::memory) fn release_one(
        &self,
        slot: &PoolSlot<D>,
        take: impl FnOnce(&mut PoolState<D>) -> Option<OwnedMemory<D>>,
    ) -> bool {
        let mut guard = locked(&slot.state);
        let Some(state) = guard.as_mut() else { return false };
        let memory = take(state);
        state.store_counters(slot);
        // Before the driver call: other threads allocate from the pool meanwhile.
        drop(guard);
        let Some(memory) = memory else { return false };
        self.heaps.free(&self.device, memory);
        true
    }

    /// Frees all memory of a pool that is destroyed.
    pub(in crate::memory) fn give_back(&self, state: PoolState<D>) {
        self.free_all(state.sets.into_iter().flat_map(BlockSet::into_memory));
    }

    /// Frees memory objects that belong to no pool.
    pub(in crate::memory) fn free_all(&self, memory: impl IntoIterator<Item = OwnedMemory<D>>) {
        memory.into_iter().for_each(|memory| self.heaps.free(&self.device, memory));
    }
}
