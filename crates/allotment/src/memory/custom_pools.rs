//! Creates, resets and destroys custom pools.

use core::sync::atomic::Ordering;
use std::sync::PoisonError;

use allotment_suballoc::{Alignment, MAX_SIZE};

use super::allocator::Allocator;
use super::block_set::{BlockSet, Role};
use super::pool::{BlockSize, MAX_POOL_TYPES, Pool, PoolDesc, PoolSlot, PoolState, Rules};
use super::statistics::Statistics;
use super::{AllocationError, CreatePoolError, DestroyPoolError};
use crate::device::{Device, MemoryDesc, MemoryTypeIndex};
use crate::sync::locked;

impl<D: Device> Allocator<D> {
    /// Creates a custom pool with its minimum of blocks.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let best = allocator.explain(&Requirements::new(1 << 20), &MemoryUsage::GpuOnly.into())[0].memory_type;
    /// let mut desc = PoolDesc::new([best]);
    /// (desc.name, desc.max_blocks) = (Some("streaming".into()), 4);
    /// let pool = allocator.create_pool(desc)?;
    /// let tile = allocator.allocate(&Requirements::new(1 << 20), &MemoryUsage::GpuOnly.with_pool(&pool))?;
    /// assert_eq!(allocator.pool_statistics(&pool)?.allocations, 1);
    /// # allocator.free(tile)?;
    /// # allocator.destroy_pool(pool).unwrap();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`CreatePoolError`]; nothing has changed.
    pub fn create_pool(&self, desc: PoolDesc) -> Result<Pool, CreatePoolError> {
        self.create_pool_of(desc, None)
    }

    /// Creates a custom pool as [`create_pool`](Self::create_pool), whose blocks are allocated with options of the API,
    /// such as export.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// # let best = allocator.explain(&Requirements::new(1024), &MemoryUsage::GpuOnly.into())[0].memory_type;
    /// let export = (); // on Vulkan, `MemoryOptions` with the handle types to export; the simulated GPU has none
    /// let pool = allocator.create_pool_with(PoolDesc::new([best]), export)?;
    /// let shared = allocator.allocate(&Requirements::new(1 << 20), &MemoryUsage::GpuOnly.with_pool(&pool))?;
    /// allocator.free(shared)?;
    /// allocator.destroy_pool(pool)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`create_pool`](Self::create_pool).
    pub fn create_pool_with(
        &self,
        desc: PoolDesc,
        options: D::MemoryOptions,
    ) -> Result<Pool, CreatePoolError> {
        self.create_pool_of(desc, Some(options))
    }

    fn create_pool_of(
        &self,
        desc: PoolDesc,
        options: Option<D::MemoryOptions>,
    ) -> Result<Pool, CreatePoolError> {
        let rules = self.check_pool(&desc, options)?;
        let properties = self.device.properties();
        let sets = desc.memory_types.iter().filter_map(|&memory_type| {
            let heap = properties.memory_type(memory_type)?.heap;
            Some(BlockSet::new(memory_type, heap, self.atom_of(memory_type), desc.algorithm))
        });
        let mut state = PoolState::new(rules, sets.collect());

        let first_type = desc.memory_types[0];
        let block_size = match state.rules.sizing {
            BlockSize::Fixed(size) => size,
            BlockSize::Growing(sizes) => sizes.next(0, self.heaps.heap_size(state.sets[0].heap)),
        };
        // Before the slot is taken: if a block is refused, the blocks are all that has to be given back.
        let mut blocks = Vec::new();
        for _ in 0..desc.min_blocks {
            let memory = MemoryDesc::new(first_type, block_size)
                .with_priority(desc.priority)
                .with_options(state.rules.options.as_ref());
            match self.heaps.allocate(&self.device, &memory, desc.budget) {
                Ok(memory) => blocks.push(memory),
                Err(error) => {
                    self.free_all(blocks);
                    return Err(CreatePoolError::FirstBlocks(error));
                }
            }
        }
        // The slot of a destroyed pool first. Its records keep their generations, so tokens of that pool stay stale.
        let vacant = locked(&self.vacant_slots).pop();
        let index = vacant.unwrap_or_else(|| self.slot_count.fetch_add(1, Ordering::AcqRel));
        let Some(slot) = self.pools.get_or_make(index) else {
            self.free_all(blocks);
            let limit = AllocationError::TooManyAllocations { limit: index };
            return Err(CreatePoolError::FirstBlocks(limit));
        };
        blocks.into_iter().for_each(|memory| state.add_empty(slot, memory, Role::Shared));
        // Last: from here on walks over all pools find the pool, with all its blocks.
        *locked(&slot.state) = Some(state);
        Ok(Pool::new(self.id, index))
    }

    fn check_pool(
        &self,
        desc: &PoolDesc,
        options: Option<D::MemoryOptions>,
    ) -> Result<Rules<D>, CreatePoolError> {
        let properties = self.device.properties();
        let count = desc.memory_types.len();
        let usable = |&index: &MemoryTypeIndex| {
            properties.memory_type(index).is_some() && self.desc.memory_types.contains(index)
        };
        if count == 0 || count > MAX_POOL_TYPES {
            return Err(CreatePoolError::MemoryTypes { count });
        }
        if let Some(&memory_type) = desc.memory_types.iter().find(|memory_type| !usable(memory_type)) {
            return Err(CreatePoolError::NoMemoryType { memory_type });
        }
        let limit = properties.limits.max_allocation_size.min(MAX_SIZE);
        let sizing = desc.sizing.unwrap_or(BlockSize::Growing(self.desc.block_sizes));
        match sizing {
            // A pool that could never allocate a block is refused here rather than at its first request.
            BlockSize::Fixed(size) if size == 0 || size > limit => {
                return Err(CreatePoolError::BlockSize { size });
            }
            BlockSize::Growing(sizes) if !sizes.is_valid() => {
                return Err(CreatePoolError::BlockSize { size: sizes.largest });
            }
            _ => {}
        }
        if desc.min_blocks > desc.max_blocks || desc.max_blocks == 0 {
            return Err(CreatePoolError::BlockCounts { min: desc.min_blocks, max: desc.max_blocks });
        }
        let granularity = properties.limits.buffer_image_granularity;
        Ok(Rules {
            algorithm: desc.algorithm,
            sizing,
            min_blocks: desc.min_blocks,
            max_blocks: desc.max_blocks,
            alignment: desc.alignment,
            granularity: if desc.ignore_granularity { Alignment::ONE } else { granularity },
            empty_blocks: desc.empty_blocks,
            budget: desc.budget,
            priority: desc.priority,
            priorities: self.device.priority_support(),
            options,
            ahead: desc.block_growth.unwrap_or(self.desc.block_growth).watermark(),
            name: desc.name.clone(),
        })
    }

    /// Returns where the state of a custom pool is.
    pub(super) fn slot_of(&self, pool: &Pool) -> Result<&PoolSlot<D>, AllocationError> {
        let slot = self.pools.get(pool.index()).filter(|_| pool.allocator() == self.id);
        slot.ok_or(AllocationError::WrongPool)
    }

    /// Frees all allocations of a pool at once; the pool's empty-block policy decides which blocks it keeps. Ranges
    /// that a pass of a [defragmentation](super::Defragmentation) has reserved become free too: no copy into them may
    /// be running.
    ///
    /// The tokens of the pool's allocations are stale from now on; giving them to [`free`](Self::free) later
    /// is allowed and does nothing.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// # let best = allocator.explain(&Requirements::new(1024), &MemoryUsage::Upload.into())[0].memory_type;
    /// let pool = allocator.create_pool(PoolDesc::new([best]))?;
    /// let options = MemoryUsage::Upload.with_pool(&pool);
    /// let scratch = allocator.allocate_many(&Requirements::new(1024), &options, 100)?;
    /// allocator.reset_pool(&pool)?;
    /// assert_eq!(allocator.pool_statistics(&pool)?.allocations, 0);
    /// assert!(allocator.location(&scratch[0]).is_err(), "stale");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`AllocationError::WrongPool`] when the pool is from another allocator;
    /// [`AllocationError::ResourcesInPool`] while a buffer or an image that was created in it lives. Nothing has changed
    /// then.
    pub fn reset_pool(&self, pool: &Pool) -> Result<(), AllocationError> {
        let slot = self.slot_of(pool)?;
        // No thread is accessing bytes of the pool while their memory is freed. Before the pool's lock, as everywhere:
        // threads that hold `changes` for reading take that lock.
        let alone = slot.changes.write().unwrap_or_else(PoisonError::into_inner);
        let mut guard = locked(&slot.state);
        let state = guard.as_mut().ok_or(AllocationError::WrongPool)?;
        let count = state.resources();
        if count != 0 {
            // Copies that safe code submitted may use their memory, and reset does not wait for the GPU.
            return Err(AllocationError::ResourcesInPool { count });
        }
        // Before the blocks become empty: they would count as empty since the clock was last read.
        state.pass_time(self.time.now());
        let memory = state.reset(slot);
        drop(guard);
        // From here on other threads find the tokens stale.
        drop(alone);
        self.free_all(memory);
        Ok(())
    }

    /// Destroys a pool and frees its blocks.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// # let best = allocator.explain(&Requirements::new(1024), &MemoryUsage::GpuOnly.into())[0].memory_type;
    /// use allotment::memory::DestroyPoolError;
    ///
    /// let pool = allocator.create_pool(PoolDesc::new([best]))?;
    /// let tile = allocator.allocate(&Requirements::new(1024), &MemoryUsage::GpuOnly.with_pool(&pool))?;
    /// let Err(DestroyPoolError::InUse { pool, allocations: 1 }) = allocator.destroy_pool(pool) else { panic!() };
    /// allocator.free(tile)?;
    /// allocator.destroy_pool(pool)?; // the error returned it
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`DestroyPoolError`] when allocations are live in the pool, other clones of it exist, or it is from another
    /// allocator. The error returns the pool.
    pub fn destroy_pool(&self, mut pool: Pool) -> Result<(), DestroyPoolError> {
        let Some(slot) = self.pools.get(pool.index()).filter(|_| pool.allocator() == self.id) else {
            return Err(DestroyPoolError::WrongAllocator(pool));
        };
        let mut guard = locked(&slot.state);
        let allocations = guard.as_ref().map_or(0, |state| state.statistics().allocations);
        if allocations != 0 {
            return Err(DestroyPoolError::InUse { pool, allocations });
        }
        // Every request and every run in the pool holds or borrows a clone, so without one none is under way.
        match pool.other_clones() {
            0 => {}
            clones => return Err(DestroyPoolError::Cloned { pool, clones }),
        }
        // Only maintenance has no clone. The block that it is allocating must not reach the next pool of this place.
        while guard.as_ref().is_some_and(|state| state.pending != 0) {
            guard = self.waiting(|| slot.grown.wait(guard).unwrap_or_else(PoisonError::into_inner));
        }
        let state = guard.take();
        // Statistics read the counters without the lock, and the slot has no pool from here on.
        slot.counters.iter().for_each(|counters| counters.store(&Statistics::default()));
        drop(guard);
        state.into_iter().for_each(|state| self.give_back(state));
        // Last: another pool may use the slot at once.
        locked(&self.vacant_slots).push(pool.index());
        Ok(())
    }
}
