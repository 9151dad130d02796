//! The allocator: its parts, its description, and the handles of its allocations. Its operations are in the files
//! beside this one.

pub(in crate::memory) mod access;
pub(in crate::memory) mod allocate;
pub(in crate::memory) mod batch;
pub(in crate::memory) mod free;
pub(in crate::memory) mod ladder;
pub(in crate::memory) mod mapping;
pub(in crate::memory) mod new_block;
pub(in crate::memory) mod preview;
pub(in crate::memory) mod release;

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use allotment_suballoc::{Algorithm, Alignment};

use crate::choices::blocks::{BlockSize, BlockSizes, EmptyBlockPolicy};
use crate::choices::call_site::CallSites;
use crate::device::{Device, DeviceProperties, MemoryHeapIndex, MemoryTypeIndex, MemoryTypeMask, Priority};
use crate::events::EventLog;
use crate::memory::allocator::ladder::Reclaimable;
use crate::memory::block_set::BlockSet;
use crate::memory::defragmentation::Offers;
use crate::memory::driver::Heaps;
use crate::memory::mover::Movers;
use crate::memory::pool::active::ActivePools;
use crate::memory::pool::growth_ahead::BlockGrowth;
use crate::memory::pool::invariants::check_pool;
use crate::memory::pool::maintenance::ToDo;
use crate::memory::pool::residents::Residents;
use crate::memory::pool::served::{POOLS_PER_GROUP, POOLS_PER_TYPE, Served};
use crate::memory::pool::shards::default_shards;
use crate::memory::pool::{PoolSlot, PoolSlots, PoolState, Rules};
use crate::memory::reports::{DescriptorHeaps, LeakHandler, Stalls, report_leaks};
use crate::memory::request::{MOST_SHARDS, PoolShards, Ranking};
use crate::memory::time::{Time, TimeSource};
use crate::memory::{BudgetPolicy, CreateAllocatorError, MemoryUsage};

/// The largest granularity that is met by rounding optimal images up to it, which costs half of it an image. Above it,
/// linear and optimal resources use separate blocks instead.
const ROUNDED_GRANULARITY: u64 = 4096;

/// Description of an allocator.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("integrated").unwrap());
/// use allotment::{AllocationError, device::MemoryHeapIndex};
///
/// let mut desc = AllocatorDesc::default();
/// desc.heap_limits = vec![(MemoryHeapIndex(0), 64 << 20)]; // bytes: the program's share of the heap
/// let allocator = Allocator::new(device, desc)?;
/// let refused = allocator.allocate(&Requirements::new(100 << 20), &MemoryUsage::GpuOnly.into());
/// assert!(matches!(refused, Err(AllocationError::HeapLimit { reserved: 0, limit: 0x400_0000, .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias(
    "VmaAllocatorCreateInfo",
    "ALLOCATOR_DESC",
    "AllocatorCreateInfo",
    "AllocatorCreateDesc",
    "AllocatorDebugSettings"
))]
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AllocatorDesc {
    /// The algorithm with which default pools suballocate their blocks.
    pub algorithm: Algorithm,
    /// Block sizes of the default pools, and the size from which a request gets a dedicated allocation.
    pub block_sizes: BlockSizes,
    /// Block sizes of single memory types, in place of [`block_sizes`](Self::block_sizes): smaller ones for memory that
    /// is only staged through, say. Of two entries for one type the first counts.
    #[doc(alias = "with_max_host_memblock_size")]
    pub block_sizes_of_types: Vec<(MemoryTypeIndex, BlockSizes)>,
    /// When default pools free their empty blocks.
    pub empty_blocks: EmptyBlockPolicy,
    /// Which thread allocates blocks from the driver and frees them.
    pub block_growth: BlockGrowth,
    /// Bytes that the allocator may allocate from a heap. A heap that is not listed is limited by the driver alone.
    pub heap_limits: Vec<(MemoryHeapIndex, u64)>,
    /// For how many threads a pool has a part each, so that those that allocate at the same time do not wait for each
    /// other's lock: 1 to 64, of a custom pool 1 to 16. Defaults to four times the number of threads that can run at
    /// once, at most 64. A thread that allocates alone uses one part, and parts that no thread uses cost nothing. Some
    /// custom pools have [one part](super::PoolDesc#threads) alone.
    pub threads: u32,
    /// Memory types that the allocator may use.
    pub memory_types: MemoryTypeMask,
    /// The clock of a program that does not call [`end_frame`](Allocator::end_frame).
    pub time: TimeSource,
    /// Destination of the leak report when the allocator is dropped.
    #[doc(alias = "log_leaks_on_shutdown")]
    pub on_leak: LeakHandler,
    /// Whether the allocator stores where allocations are made, for leak reports: in builds with debug assertions the
    /// line that called the library, in others nothing.
    pub call_sites: CallSites,
}

impl Default for AllocatorDesc {
    fn default() -> Self {
        Self {
            algorithm: Algorithm::Tlsf,
            block_sizes: BlockSizes::default(),
            block_sizes_of_types: Vec::new(),
            empty_blocks: EmptyBlockPolicy::default(),
            block_growth: BlockGrowth::default(),
            heap_limits: Vec::new(),
            threads: default_shards(),
            memory_types: MemoryTypeMask::ALL,
            time: TimeSource::default(),
            on_leak: LeakHandler::default(),
            call_sites: CallSites::default(),
        }
    }
}

impl AllocatorDesc {
    /// Returns the block sizes of a memory type: its [own](Self::block_sizes_of_types) if it has some, else
    /// [`block_sizes`](Self::block_sizes).
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// use allotment::device::{MemoryDevice as _, MemoryProperties};
    /// use allotment::memory::blocks::BlockSizes;
    ///
    /// let mut desc = AllocatorDesc::default();
    /// for (index, memory_type) in device.properties().indexed_types() {
    ///     if memory_type.properties.contains(MemoryProperties::HOST_VISIBLE) {
    ///         desc.block_sizes_of_types.push((index, BlockSizes::fixed(8 << 20)));
    ///     }
    /// }
    /// let allocator = Allocator::new(device, desc)?;
    /// let staging = allocator.allocate(&Requirements::new(1000), &MemoryUsage::Upload.into())?;
    /// assert_eq!(allocator.statistics().block_bytes, 8 << 20);
    /// # let used = allocator.info(&staging)?.memory_type;
    /// # assert_eq!(allocator.desc().block_sizes_of(used).largest, 8 << 20);
    /// # allocator.free(staging)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn block_sizes_of(&self, memory_type: MemoryTypeIndex) -> BlockSizes {
        let own = self.block_sizes_of_types.iter().find(|(index, _)| *index == memory_type);
        own.map_or(self.block_sizes, |&(_, sizes)| sizes)
    }

    fn check_block_sizes(&self, properties: &DeviceProperties) -> Result<(), CreateAllocatorError> {
        for &(memory_type, _) in &self.block_sizes_of_types {
            if properties.memory_type(memory_type).is_none() {
                return Err(CreateAllocatorError::NoSuchMemoryType { memory_type });
            }
        }
        let of_types = self.block_sizes_of_types.iter().map(|(_, sizes)| sizes);
        match [&self.block_sizes].into_iter().chain(of_types).find(|sizes| !sizes.is_valid()) {
            Some(&BlockSizes { smallest, largest, .. }) => {
                Err(CreateAllocatorError::BlockSizes { smallest, largest })
            }
            None => Ok(()),
        }
    }
}

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
    pub(in crate::memory) device: D,
    pub(in crate::memory) id: u32,
    pub(in crate::memory) heaps: Heaps,
    pub(in crate::memory) pools: PoolSlots<D>,
    /// Number of slots: the shards of the default pools, and of the most custom pools that existed at once.
    pub(in crate::memory) slot_count: AtomicU32,
    /// The most shards of a pool. Those of default pools are created when they are needed.
    pub(in crate::memory) shards: u32,
    /// Shards of default pools from here on were never needed.
    pub(in crate::memory) used_shards: AtomicU32,
    /// The groups of movers of which a default pool was made, a bit each. Written before `used_shards`.
    pub(in crate::memory) used_groups: AtomicU32,
    /// How many threads use each shard.
    pub(in crate::memory) residents: Residents,
    /// Slots of custom pools that were destroyed, to be reused by pools of as many shards. Not the list of a
    /// [`Slab`](crate::slab::Slab), since threads read slots without a lock.
    pub(in crate::memory) vacant_slots: Mutex<Vec<PoolShards>>,
    pub(in crate::memory) desc: AllocatorDesc,
    /// The ranked memory types of each memory usage, for requests without extra properties. Precomputed, since nearly
    /// all requests are such.
    pub(in crate::memory) rankings: [Ranking; MemoryUsage::ALL.len()],
    /// Optimal images are placed in separate blocks.
    pub(in crate::memory) separate_optimal: bool,
    /// A defragmentation of the default pools, with passes, is running.
    pub(in crate::memory) defragmented: AtomicBool,
    /// Who moves allocations.
    pub(in crate::memory) movers: Movers,
    /// Places that owners of mapped buffers may accept.
    pub(in crate::memory) offers: Offers,
    /// Held by the thread that maps memory which could not be mapped when it was allocated.
    pub(in crate::memory) mapping: Mutex<()>,
    pub(in crate::memory) stalls: Stalls,
    pub(in crate::memory) time: Time,
    pub(in crate::memory) to_do: ToDo<D>,
    /// Where its resources wait for the GPU.
    pub(in crate::memory) reclaimable: Reclaimable,
    /// The pools that the ends of frames visit.
    pub(in crate::memory) active: Arc<ActivePools>,
    pub(in crate::memory) events: EventLog,
    /// Whose descriptors leak reports show.
    pub(in crate::memory) descriptor_heaps: DescriptorHeaps,
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
        // Checked once, so that the block sizes computed from them later neither overflow nor divide by zero.
        desc.check_block_sizes(properties)?;
        let limits = properties.limits;
        // Decided once: the pool of a resource depends on it.
        let separate_optimal = limits.buffer_image_granularity.get() > ROUNDED_GRANULARITY;
        let types = properties.memory_types.len() as u32;
        // 0 would leave no pool to allocate from.
        let shards = desc.threads.clamp(1, MOST_SHARDS);
        let events = EventLog::default();
        let heaps = Heaps::new(&device, &desc.heap_limits, desc.time.clone(), events.clone());
        let rankings = Ranking::for_memory_usages(properties, desc.memory_types);
        Ok(Self {
            heaps,
            pools: PoolSlots::new(),
            // The default pools have fixed indices, so a request finds its pool without a search.
            slot_count: AtomicU32::new(types * POOLS_PER_TYPE * shards),
            shards,
            used_shards: AtomicU32::new(0),
            used_groups: AtomicU32::new(0),
            residents: Residents::default(),
            vacant_slots: Mutex::default(),
            id: next_id(&NEXT).ok_or(CreateAllocatorError::TooManyAllocators)?,
            separate_optimal,
            rankings,
            defragmented: AtomicBool::new(false),
            movers: Movers::default(),
            offers: Offers::default(),
            mapping: Mutex::default(),
            stalls: Stalls::default(),
            time: Time::new(desc.time.clone()),
            to_do: ToDo::default(),
            reclaimable: Reclaimable::default(),
            active: Arc::default(),
            descriptor_heaps: DescriptorHeaps::default(),
            events,
            desc,
            device,
        })
    }

    /// Returns the descriptor heaps.
    pub(crate) fn descriptor_heaps(&self) -> &DescriptorHeaps {
        &self.descriptor_heaps
    }

    /// Creates the default pool at an index.
    pub(in crate::memory) fn new_default_pool(&self, index: u32) -> Option<PoolState<D>> {
        let (shard, place) = (index / self.pools_per_shard(), index % self.pools_per_shard());
        let (memory_type, served) = Served::by(place);
        let properties = self.device.properties();
        let found = properties.memory_type(memory_type)?;
        let optimal_only = self.separate_optimal && served.optimal;
        let granularity = properties.limits.buffer_image_granularity;
        let rules = Rules {
            algorithm: self.desc.algorithm,
            sizing: BlockSize::Growing(self.desc.block_sizes_of(memory_type)),
            // No block before the first request: a device has more memory types than a program uses.
            min_blocks: Vec::new(),
            max_blocks: u32::MAX,
            alignment: Alignment::ONE,
            // In a pool of optimal images alone no linear resource is near, so no granularity is needed between them.
            granularity: if optimal_only { Alignment::ONE } else { granularity },
            // They have pools of their own.
            separate_movable: false,
            empty_blocks: self.desc.empty_blocks,
            // Each request states its own policy; the pool of a memory type has none.
            budget: BudgetPolicy::AllowOverBudget,
            priority: Priority::NORMAL,
            priorities: self.device.priority_support(),
            options: None,
            ahead: self.desc.block_growth.watermark(),
            name: None,
        };
        let (multiple, objects) = (self.flush_multiple(memory_type), self.pools.objects());
        let heap = (found.heap, self.heaps.heap_size(found.heap));
        let set = BlockSet::new(shard, memory_type, heap, multiple, self.desc.algorithm, objects);
        let shards = PoolShards { first: place, stride: self.pools_per_shard(), count: self.shards };
        Some(PoolState::new(rules, (shards, shard), vec![set], &self.active, &self.events))
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
        &self.device
    }

    /// Returns the log that the allocator and what works with it write their events to.
    pub(crate) fn events(&self) -> &EventLog {
        &self.events
    }

    pub(in crate::memory) fn id(&self) -> u32 {
        self.id
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
        &self.desc
    }

    /// Returns all pool slots that exist, default pools first.
    pub(in crate::memory) fn slots(&self) -> impl Iterator<Item = &PoolSlot<D>> {
        self.indexed_slots().map(|(_, slot)| slot)
    }

    /// Returns all pool slots that exist, with their indices.
    pub(in crate::memory) fn indexed_slots(&self) -> impl Iterator<Item = (u32, &PoolSlot<D>)> {
        // Default pools of shards that no thread used have an index each, and no slot.
        let default = 0..self.used_shards.load(Ordering::Acquire) * self.pools_per_shard();
        let used = self.used_groups.load(Ordering::Relaxed);
        let groups = default.step_by(POOLS_PER_GROUP as usize);
        let groups = groups.filter(move |&first| used >> Served::by(first).1.movers & 1 != 0);
        let with_slot = |index| Some((index, self.pools.get(index)?));
        groups
            .flat_map(|first| first..first + POOLS_PER_GROUP)
            .filter_map(with_slot)
            .chain(self.custom_slots())
    }

    /// Returns the slots of custom pools, with their indices.
    pub(in crate::memory) fn custom_slots(&self) -> impl Iterator<Item = (u32, &PoolSlot<D>)> {
        // A slot is counted before it is created, so an index without a slot is skipped.
        let count = self.slot_count.load(Ordering::Acquire);
        let custom = self.default_pool_count()..count;
        custom.filter_map(|index| Some((index, self.pools.get(index)?)))
    }

    /// Returns the slots of the default pools of a memory type.
    pub(in crate::memory) fn default_slots(
        &self,
        memory_type: MemoryTypeIndex,
    ) -> impl Iterator<Item = &PoolSlot<D>> {
        let default = self.indexed_slots().take_while(|(index, _)| *index < self.default_pool_count());
        let is_of_type = move |index: u32| Served::by(index % self.pools_per_shard()).0 == memory_type;
        default.filter(move |&(index, _)| is_of_type(index)).map(|(_, slot)| slot)
    }

    /// Returns the number of default pools per shard.
    pub(in crate::memory) fn pools_per_shard(&self) -> u32 {
        self.device.properties().memory_types.len() as u32 * POOLS_PER_TYPE
    }

    /// Returns the number of default pools of all shards. Those of shard 0 come first, in the order of memory types.
    pub(in crate::memory) fn default_pool_count(&self) -> u32 {
        self.pools_per_shard() * self.shards
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
        let mut bytes = 0;
        for index in 0..self.slot_count.load(Ordering::Acquire) {
            let Some(shards) = self.shards_from(index) else { continue };
            let slots: Vec<_> = shards.indices().filter_map(|index| self.pools.get(index)).collect();
            bytes += check_pool(&slots);
        }
        bytes += self.bytes_to_return();
        let reserved: u64 = self.reports().memory_heaps().iter().map(|report| report.reserved).sum();
        assert_eq!(bytes, reserved, "the pools hold all memory that was allocated from the driver");
    }
}

impl<D: Device> Drop for Allocator<D> {
    #[inline(never)]
    fn drop(&mut self) {
        // The leak handler is the caller's code. If it panics, the guard still frees the memory.
        let _last = GivesBack(self);
        report_leaks(self);
        self.events.close();
    }
}

/// Frees all memory of an allocator to the driver when it is dropped.
struct GivesBack<'a, D: Device>(&'a Allocator<D>);

impl<D: Device> Drop for GivesBack<'_, D> {
    fn drop(&mut self) {
        let Self(allocator) = self;
        // Memory that waits for maintenance has left its pool, so the pools below no longer have it.
        allocator.return_memory();
        // Taken out of all locks first: freeing calls the driver.
        let pools: Vec<_> = allocator.slots().map(PoolSlot::take_pool).collect();
        pools.into_iter().flatten().for_each(|state| allocator.give_back(state));
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
