//! The allocator and its parts. Its operations are in the files beside this one.

mod access;
mod ahead;
mod allocate;
mod batch;
mod by_place;
mod call_site;
mod custom_pools;
mod free;
mod from_pool;
mod ladder;
mod leaks;
mod maintenance;
mod maintenance_thread;
mod mapping;
mod movability;
mod new_block;
mod offers;
mod placed;
mod placed_events;
mod preview;
mod release;
mod subscribe;

use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::device::{Device, MemoryHeapIndex};
use crate::events::EventLog;
use crate::memory::descriptors::DescriptorHeaps;
use crate::memory::driver::{Heaps, Stalls};
use crate::memory::mover::Movers;
use crate::memory::pool::{AllocatorDesc, PoolSlot, PoolState, Pools, check_pool};
use crate::memory::request::Ranking;
use crate::memory::statistics::Statistics;
use crate::memory::time::Time;
use crate::memory::writers::Writers;
use crate::memory::{CreateAllocatorError, MemoryUsage};

// For programs, which have them from `memory`.
pub use self::maintenance::MaintenanceReport;
pub use self::maintenance_thread::MaintenanceThread;
pub use self::preview::AllocationPreview;

// What the parts above ask of the allocator besides its methods.
pub(super) use self::access::check_place;
pub(crate) use self::access::check_range;
pub(super) use self::free::FreesTogether;
pub(super) use self::ladder::{IdleBlocks, Reclaimable, TypesOfResources};
pub(super) use self::leaks::make_known;
pub(crate) use self::leaks::report_left_by_gpu;
pub(super) use self::offers::{Offers, Reserved};
pub use self::placed::Activation;
pub(super) use self::placed::{Placed, Placement, Tenancy};

use self::leaks::report_leaks;

/// Allocates and frees device memory. `Send + Sync`; every method takes `&self`.
///
/// ```
/// use allotment::device::simulated::{SimulatedGpu, Profile};
/// use allotment::{Allocator, AllocatorDesc, MemoryUsage, Requirements};
///
/// let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// let texture = allocator.allocate(
///     &Requirements::new(1 << 20),
///     &MemoryUsage::GpuOnly.with_name("albedo"),
/// )?;
/// assert_eq!(allocator.statistics().allocation_bytes, 1 << 20);
/// allocator.free(texture)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("VmaAllocator", "vmaDestroyAllocator"))]
#[derive(Debug)]
pub struct Allocator<D: Device> {
    /// The pools, and the device's memory below them.
    pub(super) pools: Pools<D>,
    /// The ranked memory types of each memory usage, for requests without extra properties. Precomputed, since nearly
    /// all requests are such.
    rankings: [Ranking; MemoryUsage::ALL.len()],
    /// A defragmentation of the default pools, with passes, is running.
    pub(super) defragmented: AtomicBool,
    /// Who moves allocations.
    pub(super) movers: Movers,
    /// Places that owners of mapped buffers may accept.
    pub(super) offers: Offers,
    /// Held by the thread that maps memory which could not be mapped when it was allocated.
    mapping: Mutex<()>,
    pub(super) stalls: Stalls,
    /// Where its resources wait for the GPU.
    pub(super) reclaimable: Reclaimable,
    /// Whose descriptors leak reports show.
    descriptor_heaps: DescriptorHeaps,
    /// Who copies to its resources.
    writers: Arc<Writers>,
    /// The resources that are placed in memory which they share.
    placed: Placed,
    /// Held by the thread that announces the state to a reader: that of pools first, and then what is placed in their memory.
    announcing: Mutex<()>,
}

/// Returns a number that no allocator of this process had before; `None` when there are none left.
fn next_id(next: &AtomicU32) -> Option<u32> {
    // Never reused: a handle of a dropped allocator must not match a new one.
    // Relaxed, since the number only has to be unique.
    next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |id| id.checked_add(1)).ok()
}

impl<D: Device> Allocator<D> {
    /// Creates an allocator for a device. Allocates no device memory yet.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// assert_eq!(allocator.statistics().block_bytes, 0, "the first request allocates the first block");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`CreateAllocatorError`] when block sizes contradict each other or are for a memory type that the device lacks, when
    /// the device contradicts itself, or when the process has created 2^32 - 1 allocators.
    #[inline(never)]
    #[doc(alias("vmaCreateAllocator", "CreateAllocator"))]
    pub fn new(device: D, desc: AllocatorDesc) -> Result<Self, CreateAllocatorError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let properties = device.properties();
        let heap_exists = |heap: MemoryHeapIndex| heap.get() < properties.heaps.len();
        // The ranking and the masks hold 32 types and 16 heaps, Vulkan's maximum.
        if properties.memory_types.len() > 32
            || properties.heaps.len() > 16
            || !properties.memory_types.iter().all(|memory_type| heap_exists(memory_type.heap))
        {
            return Err(CreateAllocatorError::DeviceProperties);
        }
        desc.check_block_sizes(properties)?;
        let id = next_id(&NEXT).ok_or(CreateAllocatorError::TooManyAllocators)?;
        let events = EventLog::default();
        let heaps = Heaps::new(&device, &desc.heap_limits, desc.time.clone(), events.clone());
        let time = Time::new(desc.time.clone());
        let placed = Placed::new(&events);
        let rankings = Ranking::for_memory_usages(properties, desc.memory_types);
        Ok(Self {
            pools: Pools::new(device, id, (heaps, time, events), desc),
            rankings,
            defragmented: AtomicBool::new(false),
            movers: Movers::default(),
            offers: Offers::default(),
            mapping: Mutex::default(),
            stalls: Stalls::default(),
            reclaimable: Reclaimable::default(),
            descriptor_heaps: DescriptorHeaps::default(),
            writers: Arc::default(),
            placed,
            announcing: Mutex::default(),
        })
    }

    /// Returns the descriptor heaps.
    pub(crate) fn writers(&self) -> &Arc<Writers> {
        &self.writers
    }

    pub(crate) fn descriptor_heaps(&self) -> &DescriptorHeaps {
        &self.descriptor_heaps
    }

    /// Returns the device of the allocator.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let limits = allocator.device().properties().limits;
    /// println!("at most {} memory objects of {} bytes", limits.max_allocation_count, limits.max_allocation_size);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("vmaGetAllocatorInfo", "VmaAllocatorInfo"))]
    pub fn device(&self) -> &D {
        self.pools.device()
    }

    /// Returns the log that the allocator and what works with it write their events to.
    pub(crate) fn events(&self) -> &EventLog {
        self.pools.events()
    }

    /// Returns what every allocation from the driver is counted in.
    pub(super) fn heaps(&self) -> &Heaps {
        self.pools.heaps()
    }

    pub(super) fn id(&self) -> u32 {
        self.pools.id()
    }

    /// Does work that its caller waits for, and counts the time as a stall: once, where such work is part of other such work.
    pub(super) fn waiting<T>(&self, work: impl FnOnce() -> T) -> T {
        if WAITS.replace(true) {
            return work();
        }
        let began = (Instant::now(), EndsWait);
        let done = work();
        let waited = began.0.elapsed();
        drop(began);
        self.stalls.add(waited);
        self.emit_stall(waited);
        done
    }

    /// Returns the description that the allocator was created with.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// assert_eq!(allocator.desc().block_sizes.smallest, 4 << 20, "bytes");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn desc(&self) -> &AllocatorDesc {
        self.pools.desc()
    }

    /// Returns the memory in use in all pools. Reads counters, and takes a lock only of a shard in which threads meet that free what
    /// others have allocated.
    ///
    /// The counters of each pool, and of each shard of the default pools, are read one after the other. What other threads
    /// allocate or free meanwhile may be counted or not; an allocation that a defragmentation moves to another shard meanwhile
    /// may be counted in both, or in neither.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let mesh = allocator.allocate(&Requirements::new(1000), &MemoryUsage::GpuOnly.into())?;
    /// let now = allocator.statistics();
    /// assert_eq!((now.allocations, now.allocation_bytes, now.blocks), (1, 1000, 1));
    /// # allocator.free(mesh)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(never)]
    #[doc(alias = "capacity")]
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.settled().slots().flat_map(|slot| slot.counters.iter()).map(|counters| counters.load()).sum()
    }

    /// Queries the driver's budgets now. The allocator does so by itself from time to time; some drivers take
    /// milliseconds to answer.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// # use allotment::device::MemoryHeapIndex;
    /// allocator.device().set_budget(MemoryHeapIndex(0), 1 << 30); // another program began
    /// allocator.refresh_budgets();
    /// assert_eq!(allocator.reports().memory_heaps()[0].budget, 1 << 30);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn refresh_budgets(&self) {
        self.heaps().refresh(self.device());
    }

    /// Walks all structures and panics unless they agree with each other. Hidden, and no part of the stable
    /// interface: it is public because the tests, benches and fuzz targets, which are other crates, call it after each
    /// step, and behind no feature so that they check the same build that users have. No other thread may free at the same
    /// time what was moved into another shard, which takes two steps.
    ///
    /// # Panics
    ///
    /// When it finds a bug of this crate.
    #[inline(never)]
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        self.take_left_frees();
        let mut bytes = 0;
        for index in 0..self.pools.slot_count() {
            let Some(shards) = self.pools.shards_from(index) else { continue };
            let slots: Vec<_> = shards.indices().filter_map(|index| self.pools.get(index)).collect();
            bytes += check_pool(&slots);
        }
        bytes += self.pools.bytes_left_to_maintenance();
        let heaps = (0..self.heaps().count()).map(|heap| MemoryHeapIndex(heap as u8));
        let reserved: u64 = heaps.map(|heap| self.heaps().report(heap).reserved).sum();
        assert_eq!(bytes, reserved, "the pools hold all memory that was allocated from the driver");
    }
}

thread_local! {
    /// This thread does work that is counted as a stall.
    static WAITS: Cell<bool> = const { Cell::new(false) };
}

/// Ends the work that is counted as a stall, also where it panics.
struct EndsWait;

impl Drop for EndsWait {
    fn drop(&mut self) {
        WAITS.set(false);
    }
}

impl<D: Device> Drop for Allocator<D> {
    #[inline(never)]
    fn drop(&mut self) {
        // The leak handler is the caller's code. If it panics, the guard still frees the memory.
        let _last = GivesBack(self);
        report_leaks(self);
        self.events().close();
    }
}

/// Frees all memory of an allocator to the driver when it is dropped.
struct GivesBack<'a, D: Device>(&'a Allocator<D>);

impl<D: Device> Drop for GivesBack<'_, D> {
    fn drop(&mut self) {
        let Self(allocator) = self;
        let settled = allocator.settled();
        // Memory that waits for maintenance has left its pool, so the pools below no longer have it.
        allocator.return_memory();
        // Taken out of all locks first: freeing calls the driver.
        let pools: Vec<_> = settled.slots().map(PoolSlot::take_pool).collect();
        allocator.free_all(pools.into_iter().flatten().flat_map(PoolState::into_memory));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allocators_number_is_never_used_again() {
        let next = AtomicU32::new(u32::MAX - 1);
        assert_eq!(next_id(&next), Some(u32::MAX - 1));
        assert_eq!((next_id(&next), next_id(&next)), (None, None));
    }
}
