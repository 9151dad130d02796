//! Growing ahead of need, so that no frame waits for the driver.
//!
//! A driver takes milliseconds to hand out a block of device memory and up to four frames to hand out one
//! of host memory. So somebody who has the time gets the next block before it is wanted, and gives back
//! what nobody wants: a thread of the caller that calls [`Allocator::maintain`] now and then, or the
//! ready-made [`MaintenanceThread`].
//!
//! ```text
//!   room in blocks of a pool, in one piece each
//!        │╲        ╭─ the keeper brings a block
//!        │ ╲      │╲
//!        │  ╲     │ ╲
//!   ─ ─ ─│─ ─╲─ ─ │─ ╲─ ─ ─  the watermark: half a block, or what four busy frames have needed
//!        │    ╲___│        ╲
//!        └──────────────────────▶ time
//! ```
//!
//! With [`BlockGrowth::Ahead`], requests that would get memory of their own use the blocks' room first, for
//! that is there already; nothing is given back in a free or at the end of a frame, only noted; and what
//! is got ahead never exceeds a heap's budget. What a pool has never been asked for is not foreseen: the
//! first request of a pool waits, unless [`Allocator::reserve`] was called before.

use core::fmt;
use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::io;
use std::panic::catch_unwind;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::allocator::Allocator;
use super::block_set::Role;
use super::pool::{PendingBlock, PoolSlot, PoolState};
use super::{AllocationDesc, AllocationError, BudgetPolicy};
use crate::device::{Device, MemoryDesc, MemoryTypeIndex, OwnedMemory};
use crate::sync::locked;

/// Who gets memory from the driver and gives it back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlockGrowth {
    /// The thread that needs a block allocates it.
    #[default]
    OnDemand,
    /// The thread that calls [`Allocator::maintain`] allocates blocks ahead of demand. A request waits for the
    /// driver only where that thread came too late.
    Ahead(Watermark),
}

/// How much room a default pool shall have ahead of need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Watermark {
    /// At least so many bytes.
    pub bytes: u64,
    /// At least the size of the pool's next block divided by this; 0 for nothing.
    pub block_divisor: u64,
    /// At least what so many of the busiest frames of late have needed.
    pub frames: u64,
}

impl Default for Watermark {
    /// Half a block, and four frames: as long as the slowest block took on a real driver, 62 ms.
    fn default() -> Self {
        Self { bytes: 0, block_divisor: 2, frames: 4 }
    }
}

impl Watermark {
    /// Bytes of room that are wanted where the next block has `block_size` and a busy frame needed `flow`.
    /// What frames needed counts up to twice the largest block: one frame that loaded a level says nothing of
    /// the next.
    pub(super) fn room(&self, block_size: u64, flow: u64, largest: u64) -> u64 {
        let of_block = block_size.checked_div(self.block_divisor).unwrap_or(0);
        let of_frames = flow.saturating_mul(self.frames).min(largest.saturating_mul(2));
        self.bytes.max(of_block).max(of_frames)
    }
}

/// Bytes that requests took out of blocks in this frame, and in the busiest frame of late.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flow {
    now: u64,
    busiest: u64,
}

impl Flow {
    pub(super) fn add(&mut self, bytes: u64) {
        self.now = self.now.saturating_add(bytes);
    }

    pub(super) fn tick(&mut self) {
        // Forgotten within some thirty frames.
        self.busiest = self.now.max(self.busiest - self.busiest / 8);
        self.now = 0;
    }

    pub(super) fn busiest(&self) -> u64 {
        self.busiest.max(self.now)
    }
}

/// What one call of [`Allocator::maintain`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MaintenanceReport {
    /// Blocks that were got.
    pub blocks: u32,
    /// Bytes of these.
    pub bytes: u64,
    /// Memory objects that were given back.
    pub returned: u32,
}

/// What waits for block growth.
#[derive(Debug)]
pub(super) struct ToDo<D: Device> {
    due: AtomicBool,
    /// Guards nothing but the sleep of who waits.
    bell: Mutex<()>,
    rung: Condvar,
    returned: Mutex<Vec<OwnedMemory<D>>>,
}

impl<D: Device> Default for ToDo<D> {
    fn default() -> Self {
        Self {
            due: AtomicBool::new(false),
            bell: Mutex::default(),
            rung: Condvar::new(),
            returned: Mutex::default(),
        }
    }
}

impl<D: Device> ToDo<D> {
    /// Says that there is something to do. One load where that was said already.
    pub(super) fn ring(&self) {
        if !self.due.load(Relaxed) && !self.due.swap(true, Relaxed) {
            // Taken so that nobody falls asleep between looking and sleeping.
            drop(locked(&self.bell));
            self.rung.notify_all();
        }
    }

    /// Takes memory that is to be given to the driver.
    pub(super) fn give_back(&self, memory: OwnedMemory<D>) {
        locked(&self.returned).push(memory);
        self.ring();
    }
}

impl<D: Device> Allocator<D> {
    /// Whether block growth is somebody else's than the caller's.
    pub(super) fn is_kept_up(&self) -> bool {
        matches!(self.desc.block_growth, BlockGrowth::Ahead(_))
    }

    /// Gets the blocks that are wanted next and gives back the memory that nobody wants, in all pools. Takes
    /// as long as the driver does; no lock is held meanwhile. For a thread that may wait. Several threads
    /// may do it at once.
    ///
    /// ```
    /// use allotment::device::simulated::{SimulatedGpu, Profile};
    /// use allotment::memory::{BlockGrowth, Watermark};
    /// use allotment::{AllocationDesc, Allocator, AllocatorDesc, MemoryUsage, Requirements};
    ///
    /// let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// let mut desc = AllocatorDesc::default();
    /// desc.block growth = BlockGrowth::Ahead(Watermark::default());
    /// let allocator = Allocator::new(device, desc)?;
    ///
    /// // The first block is got by whoever needs it; the next one is got ahead.
    /// let tile = AllocationDesc::new(Requirements::new(3 << 20), MemoryUsage::GpuOnly);
    /// let first = allocator.allocate(&tile)?;
    /// assert_eq!(allocator.stalls().count, 1);
    /// assert!(allocator.maintain().blocks > 0);
    /// let second = allocator.allocate(&tile)?;
    /// assert_eq!(allocator.stalls().count, 1, "nobody waited for the second");
    /// # allocator.free(first)?;
    /// # allocator.free(second)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn maintain(&self) -> MaintenanceReport {
        self.to_do.due.store(false, Relaxed);
        let mut done = MaintenanceReport { returned: self.return_memory(), ..MaintenanceReport::default() };
        let now = self.time.now();
        for slot in self.slots().filter(|slot| slot.has_memory()) {
            locked(&slot.state).iter_mut().for_each(|state| state.pass_time(now));
            while let Some(bytes) = self.grow_ahead(slot) {
                done.blocks += 1;
                done.bytes += bytes;
            }
            while self.release_one(slot, PoolState::take_unwanted) {
                done.returned += 1;
            }
        }
        done
    }

    /// Waits until [`maintain`](Self::maintain) has something to do, at most for `timeout`. True when it has.
    pub fn wait_for_upkeep(&self, timeout: Duration) -> bool {
        let bell = locked(&self.to_do.bell);
        let quiet = |(): &mut ()| !self.to_do.due.load(Relaxed);
        let waited = self.to_do.rung.wait_timeout_while(bell, timeout, quiet);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        self.to_do.due.load(Relaxed)
    }

    /// Bytes of what was left for block growth to give back.
    pub(super) fn bytes_to_return(&self) -> u64 {
        locked(&self.to_do.returned).iter().map(OwnedMemory::size).sum()
    }

    /// Gives to the driver what was left for block growth. Returns how many memory objects that were.
    pub(super) fn return_memory(&self) -> u32 {
        let memory = core::mem::take(&mut *locked(&self.to_do.returned));
        let count = memory.len() as u32;
        self.free_all(memory);
        count
    }

    /// Gets one block for a pool that has less room than its watermark. Returns its bytes; `None` when none
    /// is wanted or to be had.
    fn grow_ahead(&self, slot: &PoolSlot<D>) -> Option<u64> {
        let mut guard = locked(&slot.state);
        let state = guard.as_mut()?;
        let heap_size = self.heaps.heap_size(state.sets[0].heap);
        let size = state.block_wanted_ahead(heap_size)?;
        drop(guard);
        // Memory that nobody asked for must not push other programs' out, whatever they took meanwhile.
        self.heaps.refresh(&self.device);
        match self.grow_by(slot, size, BudgetPolicy::WithinBudget) {
            Ok(got) => Some(got),
            Err(_) => {
                if let Some(state) = locked(&slot.state).as_mut() {
                    state.refused_ahead = Some(state.now());
                }
                None
            }
        }
    }

    /// Gets a block for the first memory type of a pool. Returns its bytes.
    fn grow_by(&self, slot: &PoolSlot<D>, size: u64, wish: BudgetPolicy) -> Result<u64, AllocationError> {
        let mut guard = locked(&slot.state);
        let state = guard.as_mut().ok_or(AllocationError::ForeignPool)?;
        let source = state.source_ahead(wish);
        // Threads that find no room meanwhile wait for this block.
        let first = !state.sets[0].growing;
        let getting = PendingBlock::begin(slot, state, 0, first);
        drop(guard);
        let memory = MemoryDesc::new(source.memory_type, size)
            .with_priority(source.priority)
            .with_options(source.options.as_ref());
        let got = self.heaps.allocate(&self.device, &memory, wish);
        let got = got.inspect(|memory| self.name_block(memory, &source));

        let mut guard = locked(&slot.state);
        let mut refused = None;
        getting.end(guard.as_mut());
        let result = match (guard.as_mut(), got) {
            (Some(state), got) => got.map(|memory| {
                state.pass_time(self.time.now());
                state.add_empty(slot, memory, Role::Shared);
            }),
            // The pool is gone.
            (None, got) => {
                refused = got.ok();
                Err(AllocationError::ForeignPool)
            }
        };
        drop(guard);
        refused.into_iter().for_each(|memory| self.heaps.free(&self.device, memory));
        result.map(|()| size)
    }

    /// Gives back what lies empty in the heap of a memory type, in all pools but one. True when there was any.
    fn release_others(&self, but: &PoolSlot<D>, memory_type: MemoryTypeIndex) -> bool {
        let heap = self.device.properties().memory_type(memory_type).map(|found| found.heap);
        let mut any = self.return_memory() != 0;
        for slot in self.slots().filter(|slot| !core::ptr::eq(*slot, but)) {
            any |= self.release_from(slot, |state| state.take_empty(heap, |_| true));
        }
        any
    }

    /// Makes sure that requests like `desc` find room for so many bytes in all, in blocks of the memory type
    /// that suits them best: for the start of a level, where waiting for the driver is no harm. Returns how
    /// many bytes were got from the driver for that.
    ///
    /// For [`EmptyBlockPolicy::ticks`](super::EmptyBlockPolicy::ticks) from then on, the pool gives nothing back by itself, and
    /// large requests use the blocks too.
    ///
    /// # Errors
    ///
    /// [`AllocationError`] where not all of it could be had; what was got stays.
    ///
    /// ```
    /// use allotment::device::simulated::{SimulatedGpu, Profile};
    /// use allotment::{AllocationDesc, Allocator, AllocatorDesc, MemoryUsage, Requirements};
    ///
    /// let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let mesh = AllocationDesc::new(Requirements::new(1 << 20), MemoryUsage::GpuOnly);
    /// assert!(allocator.reserve(&mesh, 100 << 20)? >= 100 << 20);
    /// let calls = allocator.device_calls();
    /// let meshes: Vec<_> = (0..100).map(|_| allocator.allocate(&mesh)).collect::<Result<_, _>>()?;
    /// assert_eq!(allocator.device_calls(), calls);
    /// # meshes.into_iter().for_each(|mesh| allocator.free(mesh).unwrap());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reserve(&self, desc: &AllocationDesc, bytes: u64) -> Result<u64, AllocationError> {
        let mut types =
            self.ranking(desc)?.types(desc.requirements.memory_types).collect::<Vec<_>>().into_iter();
        let memory_type = types.next().ok_or_else(|| self.no_memory_type(desc))?;
        let slot = self.shard(self.own_shard(self.default_pool_for(memory_type, desc)))?;
        let mut got = 0;
        loop {
            let mut guard = locked(&slot.state);
            let state = guard.as_mut().ok_or(AllocationError::ForeignPool)?;
            let heap_size = self.heaps.heap_size(state.sets[0].heap);
            state.pass_time(self.time.now());
            let Some(size) = state.block_wanted_for(bytes, heap_size) else { return Ok(got) };
            drop(guard);
            let grown = self.grow_by(slot, size, desc.budget);
            got += grown.or_else(|refused| {
                if self.release_others(slot, memory_type) {
                    self.grow_by(slot, size, desc.budget)
                } else {
                    Err(refused)
                }
            })?;
        }
    }
}

impl<D: Device> PoolState<D> {
    /// Bytes of the block that should be got ahead of need; `None` when there is room enough.
    fn block_wanted_ahead(&mut self, heap_size: u64) -> Option<u64> {
        let wanted = self.room_wanted(heap_size)?;
        let asks = !self.sets[0].growing && self.refused_ahead != Some(self.now());
        if !asks || self.room_up_to(wanted) >= wanted {
            return None;
        }
        // One large block rather than several, in which what the next frames bring may not fit.
        Some(self.ahead_block_size(wanted, heap_size))
    }

    /// Bytes of room that the watermark wants; `None` where there is none.
    pub(super) fn room_wanted(&self, heap_size: u64) -> Option<u64> {
        let watermark = self.rules.ahead?;
        let largest = self.largest_block_size(heap_size);
        Some(watermark.room(self.next_block_size(0, heap_size), self.flow.busiest(), largest))
    }

    /// Bytes of the next block that is to be reserved, where room for so many is wanted; `None` when there
    /// is.
    fn block_wanted_for(&mut self, bytes: u64, heap_size: u64) -> Option<u64> {
        self.flush_quick_lists();
        self.hold_reserve();
        let room = self.room_up_to(bytes);
        if room >= bytes {
            return None;
        }
        Some(self.ahead_block_size(bytes - room, heap_size))
    }

    pub(super) fn ahead_block_size(&self, wanted: u64, heap_size: u64) -> u64 {
        let next = self.next_block_size(0, heap_size);
        let wanted = wanted.checked_next_power_of_two().unwrap_or(u64::MAX);
        next.max(wanted.min(self.largest_block_size(heap_size)))
    }

    /// Room in shared blocks, in one piece each; counted no further than `enough`.
    pub(super) fn room_up_to(&self, enough: u64) -> u64 {
        let mut room = 0;
        for (_, block) in self.sets[0].blocks().filter(|(_, block)| block.role == Role::Shared) {
            if room >= enough {
                break;
            }
            room += block.ranges.largest_free();
        }
        room
    }
}

/// A thread that does an allocator's [block growth](Allocator::maintain) until it is dropped.
///
/// ```
/// use std::sync::Arc;
///
/// use allotment::device::simulated::{SimulatedGpu, Profile};
/// use allotment::memory::{MaintenanceThread, BlockGrowth, Watermark};
/// use allotment::{Allocator, AllocatorDesc};
///
/// let mut desc = AllocatorDesc::default();
/// desc.block growth = BlockGrowth::Ahead(Watermark::default());
/// let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// let allocator = Arc::new(Allocator::new(device, desc)?);
/// let keeper = MaintenanceThread::spawn(Arc::clone(&allocator))?;
/// // … frames …
/// drop(keeper);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MaintenanceThread<D: Device> {
    allocator: Arc<Allocator<D>>,
    shared: Arc<KeeperShared>,
    thread: Option<JoinHandle<()>>,
}

/// What a keeper and its thread share.
#[derive(Debug, Default)]
struct KeeperShared {
    stop: AtomicBool,
    panics: AtomicU64,
}

/// How long the keeper sleeps when nobody calls it.
const NAP: Duration = Duration::from_millis(250);

impl<D: Device> MaintenanceThread<D> {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// That of the system when it has no thread to give.
    pub fn spawn(allocator: Arc<Allocator<D>>) -> io::Result<Self> {
        let shared = Arc::new(KeeperShared::default());
        let work = {
            let (allocator, shared) = (Arc::clone(&allocator), Arc::clone(&shared));
            move || {
                while !shared.stop.load(Relaxed) {
                    allocator.wait_for_upkeep(NAP);
                    // A thread that died of a device's panic would let the allocator's memory pile up, unnoticed.
                    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| allocator.maintain())) {
                        shared.panics.fetch_add(1, Relaxed);
                        // What was thrown may panic when it is dropped.
                        core::mem::forget(panic);
                    }
                }
            }
        };
        let thread = std::thread::Builder::new().name("allotment keeper".into()).spawn(work)?;
        Ok(Self { allocator, shared, thread: Some(thread) })
    }

    /// Returns how often the [block growth](Allocator::maintain) panicked since the thread started: 0, unless the device does.
    /// The panic hook has reported each panic; the thread went on after it.
    #[must_use]
    pub fn panics(&self) -> u64 {
        self.shared.panics.load(Relaxed)
    }
}

impl<D: Device> Drop for MaintenanceThread<D> {
    /// Waits for what the thread is doing.
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        self.allocator.to_do.ring();
        if let Some(thread) = self.thread.take() {
            // The thread catches what panics.
            let _ = thread.join();
        }
    }
}

impl<D: Device> fmt::Debug for MaintenanceThread<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MaintenanceThread").field("panics", &self.panics()).finish_non_exhaustive()
    }
}
