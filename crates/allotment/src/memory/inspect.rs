//! What there is: sums, blocks, heaps and calls.

use allotment_suballoc::Statistics as RangeStatistics;

use super::allocator::{Allocator, POOLS_PER_TYPE};
use super::block_set::Role;
use super::heaps::{DriverCallStatistics, MemoryHeapReport};
use super::pool::Pool;
use super::statistics::{DetailedStatistics, Statistics};
use super::{AllocationError, Name};
use crate::device::{Device, MemoryHeapIndex, MemoryTypeIndex};
use crate::sync::locked;

/// A memory object that an allocator has; see [`Allocator::blocks`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BlockInfo<D: Device> {
    /// The driver's memory object. It belongs to the allocator.
    pub memory: D::Memory,
    /// Which memory type it is of.
    pub memory_type: MemoryTypeIndex,
    /// The heap that it is taken from.
    pub heap: MemoryHeapIndex,
    /// The name of its pool; of a default pool, what it is for.
    pub pool: Name,
    /// True when it has room for one allocation only.
    pub dedicated: bool,
    /// How its bytes are used.
    pub ranges: RangeStatistics,
}

/// What the live allocations of one category add up to; see [`Allocator::categories`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CategoryStatistics {
    /// The category; empty for those without one.
    pub category: &'static str,
    /// How many there are.
    pub allocations: u32,
    /// Bytes in them, as asked for.
    pub bytes: u64,
}

impl<D: Device> Allocator<D> {
    /// What is in use in all pools, from counters: no lock is taken.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.slots().flat_map(|slot| &slot.counters).map(|counters| counters.load()).sum()
    }

    /// What is in use by [category](super::AllocationDesc::category), the largest first. O(allocations),
    /// locking one pool after the other.
    ///
    /// ```
    /// use allotment::device::simulated::{SimulatedGpu, Profile};
    /// use allotment::{AllocationDesc, Allocator, AllocatorDesc, MemoryUsage, Requirements};
    ///
    /// let device = SimulatedGpu::new(Profile::named("integrated").unwrap());
    /// let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let tile = AllocationDesc::new(Requirements::new(4096), MemoryUsage::GpuOnly).with_category("terrain");
    /// let tiles = [allocator.allocate(&tile)?, allocator.allocate(&tile)?];
    /// let terrain = &allocator.categories()[0];
    /// assert_eq!((terrain.category, terrain.allocations, terrain.bytes), ("terrain", 2, 8192));
    /// # tiles.into_iter().for_each(|tile| allocator.free(tile).unwrap());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn categories(&self) -> Vec<CategoryStatistics> {
        let mut totals: Vec<CategoryStatistics> = Vec::new();
        for leak in self.leaks() {
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

    /// All memory objects that the allocator has now, in no particular order. O(blocks), locking one pool
    /// after the other.
    #[must_use]
    pub fn blocks(&self) -> Vec<BlockInfo<D>> {
        let mut blocks = Vec::new();
        for (index, slot) in self.indexed_slots() {
            let mut guard = locked(&slot.state);
            let Some(state) = guard.as_mut() else { continue };
            state.flush_quick_lists();
            for set in &state.sets {
                blocks.extend(set.blocks().map(|(_, block)| BlockInfo {
                    memory: block.memory.handle(),
                    memory_type: set.memory_type,
                    heap: set.heap,
                    pool: state.rules.name.clone().unwrap_or(self.default_pool_name(index)),
                    dedicated: block.role != Role::Shared,
                    ranges: block.ranges.statistics(),
                }));
            }
        }
        blocks
    }

    fn default_pool_name(&self, index: u32) -> Name {
        if index >= self.default_pool_count() {
            return Name::Static("custom");
        }
        Name::Static(match (index % POOLS_PER_TYPE, self.separate_optimal) {
            (0, true) => "long-lived, linear",
            (1, _) => "long-lived, optimal",
            (2, true) => "short-lived, linear",
            (3, _) => "short-lived, optimal",
            (0, false) => "long-lived",
            _ => "short-lived",
        })
    }

    /// What is in use in one custom pool, from counters.
    ///
    /// # Errors
    ///
    /// [`AllocationError::ForeignPool`] when the pool is from another allocator.
    pub fn pool_statistics(&self, pool: &Pool) -> Result<Statistics, AllocationError> {
        let slot = self.pools.get(pool.index).filter(|_| pool.allocator == self.id);
        let slot = slot.ok_or(AllocationError::ForeignPool)?;
        Ok(slot.counters.iter().map(|counters| counters.load()).sum())
    }

    /// What a walk over everything finds out about each memory type. O(regions), locking one pool after
    /// the other.
    #[must_use]
    pub fn detailed_statistics(&self) -> Vec<DetailedStatistics> {
        let types = self.device.properties().memory_types.len();
        let mut detailed = vec![DetailedStatistics::default(); types];
        for slot in self.slots() {
            let mut guard = locked(&slot.state);
            let Some(state) = guard.as_mut() else { continue };
            state.flush_quick_lists();
            for (i, set) in state.sets.iter().enumerate() {
                detailed[set.memory_type.get()].add(&state.detailed(i));
            }
        }
        detailed
    }

    /// What is known of each heap, with the driver's figures as they were told last.
    #[must_use]
    pub fn memory_heap_reports(&self) -> Vec<MemoryHeapReport> {
        (0..self.heaps.count()).map(|i| self.heaps.report(MemoryHeapIndex(i as u8))).collect()
    }

    /// Asks the driver for its budgets now. It is asked by itself now and then; some drivers take
    /// milliseconds to answer.
    pub fn refresh_budgets(&self) {
        self.heaps.refresh(&self.device);
    }

    /// Which calls were made to the driver so far.
    #[must_use]
    pub fn device_calls(&self) -> DriverCallStatistics {
        self.heaps.calls()
    }
}
