//! Creates, resets and destroys custom pools.

use crate::device::{Device, Mapping, MemoryDesc, OwnedMemory};
use crate::memory::allocator::Allocator;
use crate::memory::allocator::ladder::{IdleBlocks, MayHelp};
use crate::memory::allocator::new_block::NO_ATTEMPT;
use crate::memory::pool::{FirstBlock, NewPool, Pool, PoolDesc, PoolState};
use crate::memory::{AllocationError, CreatePoolError, DestroyPoolError, ShortName};

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
    /// assert_eq!(allocator.reports().pool_statistics(&pool)?.allocations, 1);
    /// # allocator.free(tile)?;
    /// # allocator.destroy_pool(pool).unwrap();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`CreatePoolError`]; nothing has changed.
    #[inline(never)]
    #[doc(alias("vmaCreatePool", "CreatePool"))]
    pub fn create_pool(&self, desc: PoolDesc) -> Result<Pool, CreatePoolError> {
        self.create_pool_of(desc, None)
    }

    pub(in crate::memory) fn create_pool_of(
        &self,
        desc: PoolDesc,
        options: Option<D::MemoryOptions>,
    ) -> Result<Pool, CreatePoolError> {
        let mut new = self.pools.new_pool(&desc, options.as_ref())?;
        let name = ShortName::of(desc.name.as_ref());
        for _ in 0..desc.min_blocks {
            match self.first_block(&new, desc.memory_types.len(), options.as_ref()) {
                Ok((set, memory)) => new.add_block(set, memory),
                Err(error) => {
                    self.free_all(new.into_blocks());
                    return Err(CreatePoolError::FirstBlocks(error.of(name)));
                }
            }
        }
        match self.pools.install_pool(new) {
            Ok(shards) => {
                let rules = (desc.separate_movable, self.pools.dedicated_of(&desc));
                Ok(Pool::new(self.id(), shards, &desc.memory_types, rules, name))
            }
            Err((blocks, limit)) => {
                self.free_all(blocks);
                Err(CreatePoolError::FirstBlocks(AllocationError::TooManyAllocations { limit, name }))
            }
        }
    }

    /// Allocates one of the first blocks of a pool, where the ladder would put its requests: of the first of its memory types
    /// of which one can be had. Returns its set as well. The error is that of the first type.
    fn first_block(
        &self,
        new: &NewPool<D>,
        types: usize,
        options: Option<&D::MemoryOptions>,
    ) -> Result<(usize, OwnedMemory<D>), AllocationError> {
        let mut refused = None;
        for set in 0..types {
            let FirstBlock { memory_type, size, priority, budget } = new.first_block(set);
            let memory = MemoryDesc::new(memory_type, size).with_priority(priority).with_options(options);
            let terms = (budget, Mapping::OnDemand);
            match self.waiting(|| self.object_of_driver(&memory, terms, IdleBlocks::Free)) {
                Ok(memory) => return Ok((set, memory)),
                Err(error) if error.falls_through() => refused = refused.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
        // A pool has a memory type.
        Err(refused.unwrap_or(NO_ATTEMPT))
    }

    /// Frees all allocations of a pool at once; the pool's empty-block policy decides which blocks it keeps. Ranges
    /// that a pass of a [defragmentation](crate::memory::defragmentation::Defragmentation) has reserved become free too, or
    /// one of a
    /// [`RequestDefragmentation`](crate::memory::defragmentation::RequestDefragmentation) for a request of any pool: no copy
    /// into them may be running.
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
    /// assert_eq!(allocator.reports().pool_statistics(&pool)?.allocations, 0);
    /// assert!(allocator.location(&scratch[0]).is_err(), "stale");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`AllocationError::WrongPool`] when the pool is from another allocator; [`AllocationError::ResourcesInPool`]
    /// while a buffer or an image that was created in it lives. Nothing has changed then.
    #[inline(never)]
    pub fn reset_pool(&self, pool: &Pool) -> Result<(), AllocationError> {
        if pool.allocator() == self.id() {
            // Records of what was freed need not be kept.
            self.take_left_frees_of_shards(pool.shards());
        }
        let may_help = |refused: &AllocationError| match refused {
            AllocationError::ResourcesInPool { .. } => MayHelp::Frees,
            _ => MayHelp::Nothing,
        };
        let memory = self.or_refuse(may_help, || self.pools.reset(pool))?;
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
    #[inline(never)]
    #[doc(alias = "vmaDestroyPool")]
    pub fn destroy_pool(&self, mut pool: Pool) -> Result<(), DestroyPoolError> {
        if pool.allocator() != self.id() {
            return Err(DestroyPoolError::WrongAllocator(pool));
        }
        let unused = || {
            // Every request and every run in the pool holds or borrows a clone, so without one none is under way. Counted
            // before anything else: a thread that makes a shard and an allocation and drops its clone in between is found by both.
            let clones = pool.other_clones();
            let settled = self.settled();
            let slots: Vec<_> = settled.slots_of(&pool).into_iter().flatten().map(|(_, slot)| slot).collect();
            // Places that are offered would count as allocations.
            self.withdraw_offers_in(pool.shards());
            let allocations = slots.iter().map(|slot| slot.allocations()).sum();
            if (clones, allocations) == (0, 0) { Ok(slots) } else { Err((clones, allocations)) }
        };
        let slots = match self.or_refuse(|_| MayHelp::Frees, unused) {
            Ok(slots) => slots,
            Err((clones, 0)) => return Err(DestroyPoolError::Cloned { pool, clones }),
            Err((_, allocations)) => return Err(DestroyPoolError::InUse { pool, allocations }),
        };
        for slot in slots {
            let destroyed = loop {
                // Only maintenance has no clone. The block that it is allocating must not reach the next pool of this place.
                match slot.destroy() {
                    Ok(state) => break state,
                    Err(awaited) => self.waiting(|| slot.wait_for_block(awaited)),
                }
            };
            self.free_all(destroyed.into_iter().flat_map(PoolState::into_memory));
        }
        // Last: another pool may use the slots at once.
        self.pools.vacate(pool.shards());
        Ok(())
    }
}
