//! The path of empty blocks back to the driver: one memory object at a time, with no lock held.
//!
//! Each driver call may take milliseconds, so the pool's lock is released for each, and a frame end makes one at most.

use crate::device::{Device, MemoryHeapIndex, OwnedMemory};
use crate::events::Event;
use crate::memory::allocator::Allocator;
use crate::memory::pool::PoolSlot;
use crate::memory::time::Moment;

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
    /// use allotment::memory::blocks::EmptyBlockPolicy;
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
        self.take_left_frees();
        // First: from here on a thread that reads the clock counts no real time beside this frame.
        let passed = self.pools.note_frame();
        self.emit_frame_end(passed);
        self.withdraw_old_offers();
        // One block a frame; the maintenance thread makes the driver calls, if there is one.
        let unwanted = self.pools.end_frame(passed);
        if let Some(memory) = unwanted {
            self.waiting(|| self.heaps().free(self.device(), memory));
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
        for slot in self.settled().slots() {
            slot.flush();
        }
        let any = self.release_empty(None, None);
        self.shrink_tables();
        if self.events().is_read() {
            self.events().push_always(|_| Event::Trimmed);
        }
        any
    }

    /// Frees the host memory that tables have for more allocations than there are.
    fn shrink_tables(&self) {
        for slot in self.settled().slots() {
            drop(slot.shrink());
        }
    }

    /// Frees all empty blocks of one heap, or of all heaps, in all pools but one. Returns true if any was freed.
    pub(super) fn release_empty(&self, heap: Option<MemoryHeapIndex>, but: Option<&PoolSlot<D>>) -> bool {
        let settled = self.settled();
        // First the memory that already left its pool and waits for the maintenance thread.
        let mut any = self.return_memory() != 0;
        for slot in settled.slots().filter(|slot| !but.is_some_and(|but| core::ptr::eq(*slot, but))) {
            // Some at a time.
            loop {
                let memory = slot.take_empty(heap);
                if memory.is_empty() {
                    break;
                }
                any = true;
                self.free_all(memory);
            }
        }
        any
    }

    /// Frees the blocks that `take` takes out of a pool, one by one. Returns how many there were.
    pub(in crate::memory) fn release_each(&self, mut take: impl FnMut() -> Option<OwnedMemory<D>>) -> u32 {
        let mut count = 0;
        while let Some(memory) = take() {
            self.heaps().free(self.device(), memory);
            count += 1;
        }
        count
    }

    /// Advances the clocks of all pools to `now`, unless another call did so in this tick. Returns the blocks that were
    /// empty for too long, to be freed with no lock held; none where maintenance frees them, which is requested
    /// instead.
    pub(super) fn pass_time(&self, now: Moment) -> Vec<OwnedMemory<D>> {
        if !self.pools.is_time_due(now) {
            return Vec::new();
        }
        // A program without frames ends none, where it would be done.
        self.announce_if_asked();
        self.withdraw_old_offers();
        self.pools.pass_time(now)
    }

    /// Frees memory objects that belong to no pool.
    pub(super) fn free_all(&self, memory: impl IntoIterator<Item = OwnedMemory<D>>) {
        memory.into_iter().for_each(|memory| self.heaps().free(self.device(), memory));
    }
}
