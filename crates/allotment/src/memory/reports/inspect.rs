//! Inspection of an allocator: statistics, blocks, heaps and driver calls.

use allotment_suballoc::Statistics as RangeStatistics;

use super::Reports;
use crate::device::{Device, MemoryHeapIndex, MemoryTypeIndex};
use crate::memory::block_set::{Block, Role};
use crate::memory::driver::{DriverCallStatistics, MemoryHeapReport};
use crate::memory::pool::{Pool, PoolState};
use crate::memory::statistics::{DetailedStatistics, Statistics};
use crate::memory::{AllocationError, Name};

/// A memory object of an allocator; see [`Reports::blocks`].
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// let texture = allocator.allocate(&Requirements::new(64 << 20), &MemoryUsage::GpuOnly.into())?;
/// let block = allocator.reports().blocks().remove(0);
/// println!("{:?} of {}: {} bytes free", block.memory, block.pool, block.ranges.free);
/// assert!(block.dedicated);
/// # allocator.free(texture)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "MemoryBlockReport")]
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BlockInfo<D: Device> {
    /// The driver's memory object. The allocator owns it.
    pub memory: D::Memory,
    /// The memory type of the object.
    pub memory_type: MemoryTypeIndex,
    /// The heap of that memory type.
    pub heap: MemoryHeapIndex,
    /// The name of the pool that the object belongs to; of a default pool, the resources that it serves.
    #[doc(alias("vmaGetPoolName", "GetName"))]
    pub pool: Name,
    /// True when the object has room for one allocation only.
    pub dedicated: bool,
    /// How the bytes of the object are used.
    pub ranges: RangeStatistics,
}

/// The sums of the live allocations of one category; see [`Reports::categories`].
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// let options = |category| MemoryUsage::GpuOnly.with_name("texture").with_category(category);
/// let ui = allocator.allocate(&Requirements::new(1000), &options("ui"))?;
/// let terrain = allocator.allocate(&Requirements::new(9000), &options("terrain"))?;
/// for sum in allocator.reports().categories() {
///     println!("{:10} {:6} bytes in {}", sum.category, sum.bytes, sum.allocations); // terrain first
/// }
/// # drop(allocator.free_many([ui, terrain]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CategoryStatistics {
    /// The category; empty for allocations without one.
    pub category: &'static str,
    /// Number of allocations.
    pub allocations: u32,
    /// Bytes of these allocations, as requested.
    pub bytes: u64,
}

impl<D: Device> Reports<'_, D> {
    /// What is in use by [category](crate::memory::AllocationOptions::category), the largest first. O(allocations).
    /// Consistent, and locks, as [`allocations`](Self::allocations).
    ///
    /// ```
    /// use allotment::device::simulated::{SimulatedGpu, Profile};
    /// use allotment::{AllocationOptions, Allocator, AllocatorDesc, MemoryUsage, Requirements};
    ///
    /// let device = SimulatedGpu::new(Profile::named("integrated").unwrap());
    /// let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let options = AllocationOptions::new(MemoryUsage::GpuOnly).with_category("terrain");
    /// let tile = Requirements::new(4096);
    /// let tiles = [allocator.allocate(&tile, &options)?, allocator.allocate(&tile, &options)?];
    /// let terrain = &allocator.reports().categories()[0];
    /// assert_eq!((terrain.category, terrain.allocations, terrain.bytes), ("terrain", 2, 8192));
    /// # tiles.into_iter().for_each(|tile| allocator.free(tile).unwrap());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(never)]
    #[must_use]
    pub fn categories(&self) -> Vec<CategoryStatistics> {
        let mut totals: Vec<CategoryStatistics> = Vec::new();
        for leak in self.leaks() {
            // A linear search: programs have few categories.
            match totals.iter_mut().find(|total| total.category == leak.category) {
                Some(total) => {
                    total.allocations += 1;
                    total.bytes += leak.size;
                }
                None => {
                    totals.push(CategoryStatistics {
                        category: leak.category,
                        allocations: 1,
                        bytes: leak.size,
                    });
                }
            }
        }
        totals.sort_by_key(|total| core::cmp::Reverse(total.bytes));
        totals
    }

    /// Returns all memory objects that the allocator has now, in no particular order. O(blocks). Consistent, and locks, as
    /// [`allocations`](Self::allocations).
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let mesh = allocator.allocate(&Requirements::new(1000), &MemoryUsage::GpuOnly.into())?;
    /// for block in allocator.reports().blocks() {
    ///     println!("memory type {} of heap {}, pool {}", block.memory_type, block.heap, block.pool);
    /// }
    /// assert_eq!(allocator.reports().blocks().len(), 1);
    /// # allocator.free(mesh)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(never)]
    #[must_use]
    pub fn blocks(&self) -> Vec<BlockInfo<D>> {
        let mut blocks = Vec::new();
        for (index, slot) in self.allocator.settled().indexed_slots() {
            let default_name = self.allocator.pools.default_pool_name(index);
            let info = |state: &PoolState<D>, set: usize, _, block: &Block<D>| BlockInfo {
                memory: block.memory.handle(),
                memory_type: state.sets[set].memory_type,
                heap: state.sets[set].heap,
                pool: state.rules.name.as_ref().unwrap_or(&default_name).clone(),
                dedicated: block.role != Role::Shared,
                ranges: block.ranges.statistics(),
            };
            slot.each_block(info, |block| blocks.push(block));
        }
        blocks
    }

    /// Returns the memory in use in one custom pool. Reads counters and takes no lock.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// # let best = allocator.explain(&Requirements::new(1024), &MemoryUsage::GpuOnly.into())[0].memory_type;
    /// let pool = allocator.create_pool(PoolDesc::new([best]))?;
    /// let tile = allocator.allocate(&Requirements::new(1000), &MemoryUsage::GpuOnly.with_pool(&pool))?;
    /// assert_eq!(allocator.reports().pool_statistics(&pool)?.allocation_bytes, 1000);
    /// # allocator.free(tile)?;
    /// # allocator.destroy_pool(pool)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`AllocationError::WrongPool`] when the pool is from another allocator.
    #[doc(alias("vmaGetPoolStatistics", "GetStatistics"))]
    pub fn pool_statistics(&self, pool: &Pool) -> Result<Statistics, AllocationError> {
        let counters = self.allocator.settled().slots_of(pool)?.flat_map(|(_, slot)| slot.counters.iter());
        Ok(counters.map(|counters| counters.load()).sum())
    }

    /// Walks all regions and returns the sums for each memory type. O(regions).
    ///
    /// Exact where no other thread changes a pool meanwhile; else the counts, the sums and the extremes may be of different
    /// moments of the call. Locks one pool after the other, for some hundred regions at a time: other threads wait for less
    /// than 200 µs.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let meshes = allocator.allocate_many(&Requirements::new(1000), &MemoryUsage::GpuOnly.into(), 3)?;
    /// let by_type = allocator.reports().detailed_statistics();
    /// let used = by_type.iter().find(|sums| sums.brief.allocations > 0).ok_or("one type")?;
    /// assert_eq!((used.brief.allocations, used.empty_blocks), (3, 0));
    /// # drop(allocator.free_many(meshes));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(never)]
    #[doc(alias("vmaCalculateStatistics", "calculate_statistics"))]
    #[must_use]
    pub fn detailed_statistics(&self) -> Vec<DetailedStatistics> {
        let types = self.allocator.device().properties().memory_types.len();
        let mut detailed = vec![DetailedStatistics::default(); types];
        for slot in self.allocator.settled().slots() {
            slot.add_detailed(|memory_type, found| detailed[memory_type.get()].add(&found));
        }
        detailed
    }

    /// Walks all regions of one custom pool and returns the sums over its memory types. O(regions). Consistent, and locks,
    /// as [`detailed_statistics`](Self::detailed_statistics).
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// # let best = allocator.explain(&Requirements::new(1024), &MemoryUsage::GpuOnly.into())[0].memory_type;
    /// let pool = allocator.create_pool(PoolDesc::new([best]))?;
    /// let tile = allocator.allocate(&Requirements::new(1 << 20), &MemoryUsage::GpuOnly.with_pool(&pool))?;
    /// let sums = allocator.reports().detailed_pool_statistics(&pool)?;
    /// println!("{} free ranges, {:.0} % fragmented", sums.free_ranges, sums.fragmentation() * 100.0);
    /// # allocator.free(tile)?;
    /// # allocator.destroy_pool(pool)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`AllocationError::WrongPool`] when the pool is from another allocator.
    #[doc(alias("vmaCalculatePoolStatistics", "CalculateStatistics"))]
    pub fn detailed_pool_statistics(&self, pool: &Pool) -> Result<DetailedStatistics, AllocationError> {
        let mut detailed = DetailedStatistics::default();
        for (_, slot) in self.allocator.settled().slots_of(pool)? {
            slot.add_detailed(|_, found| detailed.add(&found));
        }
        Ok(detailed)
    }

    /// Returns a report for each heap, with the driver's figures as of the last query.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let mesh = allocator.allocate(&Requirements::new(1000), &MemoryUsage::GpuOnly.into())?;
    /// let video = allocator.reports().memory_heaps()[0];
    /// assert_eq!((video.reserved, video.peak_reserved), (4 << 20, 4 << 20)); // one block
    /// println!("{} bytes are left in the budget", video.budget.saturating_sub(video.usage));
    /// # allocator.free(mesh)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(never)]
    #[doc(alias("vmaGetHeapBudgets", "get_heap_budgets", "GetBudget"))]
    #[must_use]
    pub fn memory_heaps(&self) -> Vec<MemoryHeapReport> {
        (0..self.allocator().heaps().count())
            .map(|i| self.allocator.heaps().report(MemoryHeapIndex(i as u8)))
            .collect()
    }

    /// Returns the number of driver calls made so far.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let before = allocator.reports().device_calls().memory();
    /// let mesh = allocator.allocate(&Requirements::new(1000), &MemoryUsage::GpuOnly.into())?;
    /// let again = allocator.allocate(&Requirements::new(1000), &MemoryUsage::GpuOnly.into())?;
    /// assert_eq!(allocator.reports().device_calls().memory() - before, 1, "one block for both");
    /// # drop(allocator.free_many([mesh, again]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn device_calls(&self) -> DriverCallStatistics {
        self.allocator().heaps().calls()
    }
}
