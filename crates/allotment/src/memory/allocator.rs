//! The allocator itself: what it is made of, and the tokens that it gives out. What it does is in the
//! files beside this one.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};

use allotment_suballoc::{Algorithm, Alignment};

use super::block_set::BlockSet;
use super::candidates::Ranking;
use super::empty_blocks::EmptyBlockPolicy;
use super::growth::BlockSizes;
use super::heaps::Heaps;
use super::leaks::{LeakHandler, report_leaks};
use super::maintenance::{BlockGrowth, ToDo};
use super::pool::{BlockSize, PoolSlot, PoolState, Rules};
use super::shards::{MOST_SHARDS, default_shards};
use super::stalls::Waits;
use super::time::{Time, TimeSource};
use super::{BudgetPolicy, CreateAllocatorError, Lifetime, MemoryUsage};
use crate::device::{Device, MemoryHeapIndex, MemoryTypeIndex, MemoryTypeMask, Priority};
use crate::sync::locked;
use crate::table::AppendTable;

/// Granularities up to this are met by rounding optimal images up to it, which costs half of it an
/// image; above it linear and optimal resources get blocks of their own instead.
const ROUNDED_GRANULARITY: u64 = 4096;

/// How an allocator is made.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AllocatorDesc {
    /// How default pools find room in their blocks.
    pub algorithm: Algorithm,
    /// How large their blocks are, and what is too large for them.
    pub block_sizes: BlockSizes,
    /// When their empty blocks are given back.
    pub empty_blocks: EmptyBlockPolicy,
    /// Who gets memory from the driver and gives it back.
    pub block_growth: BlockGrowth,
    /// Bytes that the allocator may have of a heap; of the others, what the driver gives.
    pub heap_limits: Vec<(MemoryHeapIndex, u64)>,
    /// Into how many copies a default pool may split, so that threads that allocate at the same time do
    /// not wait for each other: 1 to 16. Unless said otherwise, as many as threads can run at once, up to
    /// eight. A thread that is alone uses one.
    pub shards: u32,
    /// Memory types that may be used at all.
    pub memory_types: MemoryTypeMask,
    /// Where it takes the time from that counts while nobody tells it of frames.
    pub time: TimeSource,
    /// Who is told of allocations that are live when the allocator goes.
    pub on_leak: LeakHandler,
}

impl Default for AllocatorDesc {
    fn default() -> Self {
        Self {
            algorithm: Algorithm::Tlsf,
            block_sizes: BlockSizes::default(),
            empty_blocks: EmptyBlockPolicy::default(),
            block_growth: BlockGrowth::default(),
            heap_limits: Vec::new(),
            shards: default_shards(),
            memory_types: MemoryTypeMask::ALL,
            time: TimeSource::default(),
            on_leak: LeakHandler::default(),
        }
    }
}

/// Stands for memory that its holder owns. 16 bytes; moved, never copied.
///
/// Dropping it frees nothing: give it to [`Allocator::free`]. One that is lost is reported by name when
/// the allocator goes. [`Allocator::location`] returns where the memory is.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "memory is freed by giving its token to `Allocator::free`"]
pub struct Allocation {
    pub(super) allocator: u32,
    pub(super) pool: u32,
    pub(super) record: u32,
    pub(super) generation: u32,
}

impl Allocation {
    /// A name for the allocation that can be copied and kept, and is noticed when it is stale.
    #[must_use]
    pub fn id(&self) -> AllocationId {
        let Self { allocator, pool, record, generation } = *self;
        AllocationId { allocator, pool, record, generation }
    }
}

/// Names an allocation without owning it; see [`Allocation::id`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AllocationId {
    pub(super) allocator: u32,
    pub(super) pool: u32,
    pub(super) record: u32,
    pub(super) generation: u32,
}

/// Hands out device memory and takes it back. `Send + Sync`; every method takes `&self`.
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
#[derive(Debug)]
pub struct Allocator<D: Device> {
    pub(super) device: D,
    pub(super) id: u32,
    pub(super) heaps: Heaps,
    pub(super) pools: AppendTable<PoolSlot<D>>,
    /// How many slots there are: default pools, and the most custom pools there have been at once.
    pub(super) slot_count: AtomicU32,
    /// Copies of the default pools, made when they are needed.
    pub(super) shards: u32,
    /// Slots of custom pools that were destroyed.
    pub(super) vacant_slots: Mutex<Vec<u32>>,
    pub(super) desc: AllocatorDesc,
    /// By memory usage: memory types for requests without wishes of their own.
    pub(super) rankings: [Ranking; MemoryUsage::ALL.len()],
    /// Optimal images stand in blocks of their own.
    pub(super) separate_optimal: bool,
    /// Somebody is defragmenting the default pools.
    pub(super) defragmented: AtomicBool,
    pub(super) waits: Waits,
    pub(super) time: Time,
    pub(super) to_do: ToDo<D>,
}

/// Default pools a memory type: two lifetimes, linear and optimal.
pub(super) const POOLS_PER_TYPE: u32 = 4;

pub(super) fn default_pool(memory_type: MemoryTypeIndex, lifetime: Lifetime, optimal: bool) -> u32 {
    let short = u32::from(lifetime == Lifetime::Short);
    u32::from(memory_type.0) * POOLS_PER_TYPE + short * 2 + u32::from(optimal)
}

/// A number that no allocator has or had; `None` when there are no more.
fn next_id(next: &AtomicU32) -> Option<u32> {
    next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |id| id.checked_add(1)).ok()
}

impl<D: Device> Allocator<D> {
    /// An allocator over a device. Gets no memory yet.
    ///
    /// # Errors
    ///
    /// [`CreateAllocatorError`] when the block sizes contradict each other or the device itself, or the process has
    /// created 2^32 - 1 allocators.
    pub fn new(device: D, desc: AllocatorDesc) -> Result<Self, CreateAllocatorError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let properties = device.properties();
        let heap_exists = |heap: MemoryHeapIndex| heap.get() < properties.heaps.len();
        if properties.memory_types.len() > 32
            || properties.heaps.len() > 16
            || !properties.memory_types.iter().all(|memory_type| heap_exists(memory_type.heap))
        {
            return Err(CreateAllocatorError::DeviceProperties);
        }
        if !desc.block_sizes.is_valid() {
            let BlockSizes { smallest, largest, .. } = desc.block_sizes;
            return Err(CreateAllocatorError::BlockSizes { smallest, largest });
        }
        let limits = properties.limits;
        let separate_optimal = limits.buffer_image_granularity.get() > ROUNDED_GRANULARITY;
        let types = properties.memory_types.len() as u32;
        let shards = desc.shards.clamp(1, MOST_SHARDS);
        let heaps = Heaps::new(&device, &desc.heap_limits);
        let rankings = Ranking::of_intents(properties, desc.memory_types);
        Ok(Self {
            heaps,
            pools: AppendTable::new(),
            slot_count: AtomicU32::new(types * POOLS_PER_TYPE * shards),
            shards,
            vacant_slots: Mutex::default(),
            id: next_id(&NEXT).ok_or(CreateAllocatorError::TooManyAllocators)?,
            separate_optimal,
            rankings,
            defragmented: AtomicBool::new(false),
            waits: Waits::default(),
            time: Time::new(desc.time.clone()),
            to_do: ToDo::default(),
            desc,
            device,
        })
    }

    /// The default pool that has this place among those of a shard.
    pub(super) fn new_default_pool(&self, place: u32) -> Option<PoolState<D>> {
        let memory_type = MemoryTypeIndex((place / POOLS_PER_TYPE) as u8);
        let properties = self.device.properties();
        let found = properties.memory_type(memory_type)?;
        let optimal_only = self.separate_optimal && place % 2 == 1;
        let granularity = properties.limits.buffer_image_granularity;
        let rules = Rules {
            algorithm: self.desc.algorithm,
            sizing: BlockSize::Growing(self.desc.block_sizes),
            min_blocks: 0,
            max_blocks: u32::MAX,
            alignment: Alignment::ONE,
            // Apart from linear ones, optimal images need no distance from each other.
            granularity: if optimal_only { Alignment::ONE } else { granularity },
            empty_blocks: self.desc.empty_blocks,
            budget: BudgetPolicy::AllowOverBudget,
            priority: Priority::NORMAL,
            priorities: self.device.priority_support(),
            options: None,
            ahead: match self.desc.block_growth {
                BlockGrowth::Ahead(watermark) => Some(watermark),
                BlockGrowth::OnDemand => None,
            },
            name: None,
        };
        let set = BlockSet::new(memory_type, found.heap, self.atom_of(memory_type), self.desc.algorithm);
        Some(PoolState::new(rules, vec![set]))
    }

    /// The device that the allocator was made over.
    pub fn device(&self) -> &D {
        &self.device
    }

    pub(super) fn id(&self) -> u32 {
        self.id
    }

    pub(super) fn desc(&self) -> &AllocatorDesc {
        &self.desc
    }

    /// All pool slots that exist, default ones first.
    pub(super) fn slots(&self) -> impl Iterator<Item = &PoolSlot<D>> {
        self.indexed_slots().map(|(_, slot)| slot)
    }

    /// All pool slots that exist, with their indices.
    pub(super) fn indexed_slots(&self) -> impl Iterator<Item = (u32, &PoolSlot<D>)> {
        let count = self.slot_count.load(Ordering::Acquire);
        (0..count).filter_map(|index| Some((index, self.pools.get(index)?)))
    }

    /// The slots of custom pools, with their indices.
    pub(super) fn custom_slots(&self) -> impl Iterator<Item = (u32, &PoolSlot<D>)> {
        self.indexed_slots().skip_while(|(index, _)| *index < self.default_pool_count())
    }

    /// The slots of default pools.
    pub(super) fn default_slots(&self) -> impl Iterator<Item = &PoolSlot<D>> {
        let default = self.indexed_slots().take_while(|(index, _)| *index < self.default_pool_count());
        default.map(|(_, slot)| slot)
    }

    /// The number of default pools that each shard has.
    pub(super) fn pools_per_shard(&self) -> u32 {
        self.device.properties().memory_types.len() as u32 * POOLS_PER_TYPE
    }

    /// The number of pools in which memory of the device's types is allocated by memory usage: those of shard 0
    /// first, in the order of memory types.
    pub(super) fn default_pool_count(&self) -> u32 {
        self.pools_per_shard() * self.shards
    }

    /// Walks everything and panics unless every structure agrees with every other. Hidden, and no part of the stable
    /// interface: it is public because the tests, benches and fuzz targets, which are other crates, call it after each
    /// step, and behind no feature so that they check the same build that users have.
    ///
    /// # Panics
    ///
    /// When it finds a mistake of this crate.
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        let mut bytes = 0;
        for slot in self.slots() {
            let guard: MutexGuard<'_, _> = locked(&slot.state);
            if let Some(state) = guard.as_ref() {
                state.check_invariants(slot);
                bytes += state.statistics().block_bytes;
            }
        }
        bytes += self.bytes_to_return();
        let reserved: u64 = self.memory_heap_reports().iter().map(|report| report.reserved).sum();
        assert_eq!(bytes, reserved, "what the gate let in is in the pools");
    }
}

impl<D: Device> Drop for Allocator<D> {
    fn drop(&mut self) {
        // The leak handler is the caller's code. Where it panics, the memory is given back all the same.
        let _last = GivesBack(self);
        report_leaks(self);
    }
}

/// Gives everything that an allocator has to the driver when it is dropped.
struct GivesBack<'a, D: Device>(&'a Allocator<D>);

impl<D: Device> Drop for GivesBack<'_, D> {
    fn drop(&mut self) {
        let Self(allocator) = self;
        allocator.return_memory();
        let slots: Vec<_> = allocator.slots().map(|slot| locked(&slot.state).take()).collect();
        slots.into_iter().flatten().for_each(|state| allocator.give_back(state));
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
