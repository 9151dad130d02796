//! Creates, resets and destroys custom pools.

use core::sync::atomic::Ordering;
use std::sync::PoisonError;

use allotment_suballoc::{Algorithm, Alignment, MAX_SIZE};

use crate::choices::blocks::BlockSize;
use crate::device::{Device, Mapping, MemoryDesc, MemoryTypeIndex, OwnedMemory};
use crate::memory::allocator::Allocator;
use crate::memory::allocator::ladder::IdleBlocks;
use crate::memory::allocator::new_block::NO_ATTEMPT;
use crate::memory::block_set::{BlockSet, Role};
use crate::memory::pool::shards::MOST_CUSTOM_SHARDS;
use crate::memory::pool::{Pool, PoolDesc, PoolSlot, PoolState, Rules};
use crate::memory::request::{MAX_POOL_TYPES, PoolShards};
use crate::memory::statistics::Statistics;
use crate::memory::{AllocationError, CreatePoolError, DestroyPoolError, ShortName};
use crate::sync::locked;

impl<D: Device> PoolSlot<D> {
    /// Returns the algorithm of the pool's blocks; `None` where there is no pool.
    pub(in crate::memory) fn algorithm(&self) -> Option<Algorithm> {
        locked(&self.state).as_ref().map(|state| state.rules.algorithm)
    }

    /// Marks the pool as one whose allocations a run with passes may move. Returns false where another run has, or there is no
    /// pool.
    pub(in crate::memory) fn begin_passes(&self, mover: u64) -> bool {
        let mut guard = locked(&self.state);
        let Some(state) = guard.as_mut().filter(|state| state.defragmented == 0) else { return false };
        state.defragmented = mover;
        true
    }

    /// Removes the mark of a run. Where room was made, the pool may have been destroyed, and another one be in its place.
    pub(in crate::memory) fn end_passes(&self, mover: u64) {
        let mut guard = locked(&self.state);
        let marked = guard.as_mut().filter(|state| state.defragmented == mover);
        marked.into_iter().for_each(|state| state.defragmented = 0);
    }
}

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
        self.check_pool(&desc)?;
        let mut states: Vec<_> =
            (0..self.shards_for(&desc)).map(|shard| self.new_shard(&desc, shard, options.as_ref())).collect();
        // Before the slot is taken: if a block is refused, the blocks are all that has to be given back.
        let mut blocks = Vec::new();
        let name = ShortName::of(desc.name.as_ref());
        for _ in 0..desc.min_blocks {
            match self.first_block(&states[0], desc.memory_types.len(), options.as_ref()) {
                Ok(block) => blocks.push(block),
                Err(error) => {
                    self.free_all(blocks.into_iter().map(|(_, memory)| memory));
                    return Err(CreatePoolError::FirstBlocks(error.of(name)));
                }
            }
        }
        // The slot of a destroyed pool first. Its records keep their generations, so tokens of that pool stay stale.
        let shards = self.take_slots(states.len() as u32);
        let slots = shards.indices().map(|index| self.pools.get_or_make(index));
        let Some(slots) = slots.collect::<Option<Vec<_>>>() else {
            self.free_all(blocks.into_iter().map(|(_, memory)| memory));
            let limit = AllocationError::TooManyAllocations { limit: shards.first, name };
            return Err(CreatePoolError::FirstBlocks(limit));
        };
        for (set, memory) in blocks {
            states[0].change_minimum(set, |blocks| blocks + 1);
            states[0].add_empty(slots[0], set, memory, Role::Shared);
        }
        // Last: from here on walks over all pools find the pool, with all its blocks.
        for (mut state, index) in states.into_iter().zip(shards.indices()) {
            state.shards = shards;
            self.install(index, state);
        }
        Ok(Pool::new(
            self.id,
            shards,
            &desc.memory_types,
            desc.separate_movable,
            ShortName::of(desc.name.as_ref()),
        ))
    }

    /// Allocates one of the first blocks of a pool, where the ladder would put its requests: of the first of its memory types
    /// of which one can be had. Returns its set as well. The error is that of the first type.
    fn first_block(
        &self,
        state: &PoolState<D>,
        types: usize,
        options: Option<&D::MemoryOptions>,
    ) -> Result<(usize, OwnedMemory<D>), AllocationError> {
        let mut refused = None;
        for set in 0..types {
            let size = state.next_block_size(set);
            let memory = MemoryDesc::new(state.sets[set].memory_type, size)
                .with_priority(state.rules.priority)
                .with_options(options);
            let terms = (state.rules.budget, Mapping::OnDemand);
            match self.waiting(|| self.object_of_driver(&memory, terms, IdleBlocks::Free)) {
                Ok(memory) => return Ok((set, memory)),
                Err(error) if error.falls_through() => refused = refused.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
        // A pool has a memory type.
        Err(refused.unwrap_or(NO_ATTEMPT))
    }

    /// Returns the number of shards of a pool; see `shards.rs`.
    fn shards_for(&self, desc: &PoolDesc) -> u32 {
        let whole = desc.max_blocks != u32::MAX || desc.algorithm == Algorithm::Linear;
        if whole { 1 } else { self.shards.min(MOST_CUSTOM_SHARDS) }
    }

    /// Returns vacant slots for the shards of a pool, one after the other.
    fn take_slots(&self, count: u32) -> PoolShards {
        let mut vacant = locked(&self.vacant_slots);
        let reused = vacant.iter().rposition(|shards| shards.count == count).map(|at| vacant.swap_remove(at));
        drop(vacant);
        reused.unwrap_or_else(|| {
            // A count that is full stays so, and names slots beyond the table: never those of another pool.
            let more = |slots: u32| Some(slots.saturating_add(count));
            let (Ok(first) | Err(first)) =
                self.slot_count.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
            PoolShards { first, stride: 1, count }
        })
    }

    /// Creates a shard of a pool, without blocks. The description is [checked](Self::check_pool).
    fn new_shard(&self, desc: &PoolDesc, shard: u32, options: Option<&D::MemoryOptions>) -> PoolState<D> {
        let properties = self.device.properties();
        let granularity = properties.limits.buffer_image_granularity;
        let rules = Rules {
            algorithm: desc.algorithm,
            sizing: self.sizing_of(desc),
            // The blocks of the minimum are allocated in shard 0, of whichever types can be had.
            min_blocks: vec![0; desc.memory_types.len()],
            max_blocks: desc.max_blocks,
            alignment: desc.alignment,
            granularity: if desc.ignore_granularity { Alignment::ONE } else { granularity },
            separate_movable: desc.separate_movable,
            empty_blocks: desc.empty_blocks,
            budget: desc.budget,
            priority: desc.priority,
            priorities: self.device.priority_support(),
            options: options.cloned(),
            ahead: desc.block_growth.unwrap_or(self.desc.block_growth).watermark(),
            name: desc.name.clone(),
        };
        let times = if desc.separate_movable { 2 } else { 1 };
        let types = core::iter::repeat_n(&desc.memory_types, times).flatten();
        let sets = types.filter_map(|&memory_type| {
            let heap = properties.memory_type(memory_type)?.heap;
            let (multiple, objects) = (self.flush_multiple(memory_type), self.pools.objects());
            let heap = (heap, self.heaps.heap_size(heap));
            Some(BlockSet::new(shard, memory_type, heap, multiple, desc.algorithm, objects))
        });
        // Its slots are taken later.
        let shards = PoolShards { first: 0, stride: 1, count: 1 };
        PoolState::new(rules, (shards, shard), sets.collect(), &self.active, &self.events)
    }

    fn sizing_of(&self, desc: &PoolDesc) -> BlockSize {
        // A pool of several types has one policy: that of the type it prefers.
        let first = desc.memory_types.first();
        let sizes = first.map_or(self.desc.block_sizes, |&first| self.desc.block_sizes_of(first));
        desc.sizing.unwrap_or(BlockSize::Growing(sizes))
    }

    fn check_pool(&self, desc: &PoolDesc) -> Result<(), CreatePoolError> {
        let properties = self.device.properties();
        let name = ShortName::of(desc.name.as_ref());
        let count = desc.memory_types.len();
        let usable = |&index: &MemoryTypeIndex| {
            properties.memory_type(index).is_some() && self.desc.memory_types.contains(index)
        };
        if count == 0 || count > MAX_POOL_TYPES {
            return Err(CreatePoolError::MemoryTypes { count, name });
        }
        if let Some(&memory_type) = desc.memory_types.iter().find(|memory_type| !usable(memory_type)) {
            return Err(CreatePoolError::NoMemoryType { memory_type, name });
        }
        let limit = properties.limits.max_allocation_size.min(MAX_SIZE);
        match self.sizing_of(desc) {
            // A pool that could never allocate a block is refused here rather than at its first request.
            BlockSize::Fixed(size) if size == 0 || size > limit => {
                return Err(CreatePoolError::BlockSize { size, name });
            }
            BlockSize::Growing(sizes) if !sizes.is_valid() => {
                return Err(CreatePoolError::BlockSize { size: sizes.largest, name });
            }
            _ => {}
        }
        if desc.min_blocks > desc.max_blocks || desc.max_blocks == 0 {
            return Err(CreatePoolError::BlockCounts { min: desc.min_blocks, max: desc.max_blocks, name });
        }
        Ok(())
    }

    /// Returns the slots of a custom pool's shards, in the order of their indices.
    pub(in crate::memory) fn slots_of(
        &self,
        pool: &Pool,
    ) -> Result<impl Iterator<Item = &PoolSlot<D>> + use<'_, D>, AllocationError> {
        // The index of a pool of another allocator would name a wrong pool here.
        if pool.allocator() != self.id {
            return Err(AllocationError::WrongPool { name: pool.name() });
        }
        Ok(pool.shards().indices().filter_map(|index| self.pools.get(index)))
    }

    /// Frees all allocations of a pool at once; the pool's empty-block policy decides which blocks it keeps. Ranges
    /// that a pass of a [defragmentation](crate::memory::Defragmentation) has reserved become free too, or one of a
    /// [`RequestDefragmentation`](crate::memory::RequestDefragmentation) for a request of any pool: no copy into them may be running.
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
        // In arrays: a program that resets a pool in each frame takes nothing from the heap for it.
        let mut shards = self.slots_of(pool)?;
        let slots: [_; MOST_CUSTOM_SHARDS as usize] = core::array::from_fn(|_| shards.next());
        // No thread accesses bytes of the pool while their memory is freed. `changes` before `state`, as everywhere:
        // threads that hold the first for reading take the second. Both of all shards, or a resource could be created
        // in one while another is reset. All code that holds two locks of a kind takes them in the same order.
        let alone = slots.map(|slot| Some(slot?.changes.write().unwrap_or_else(PoisonError::into_inner)));
        let mut guards = slots.map(|slot| Some(locked(&slot?.state)));
        let count =
            guards.iter().flatten().filter_map(|guard| guard.as_ref()).map(PoolState::resources).sum();
        if count != 0 {
            // Copies that safe code submitted may use their memory, and reset does not wait for the GPU.
            return Err(AllocationError::ResourcesInPool { count, name: pool.name() });
        }
        let now = self.time.now();
        let (mut memory, mut elsewhere) = (Vec::new(), Vec::new());
        for (slot, guard) in slots.into_iter().flatten().zip(guards.iter_mut().flatten()) {
            for state in guard.iter_mut() {
                // Before the blocks become empty: they would count as empty since the clock was last read.
                state.pass_time(now);
                state.reset(slot, &mut memory, &mut elsewhere);
            }
        }
        for ended in elsewhere {
            let home = usize::from(ended.home());
            if let (Some(slot), Some(Some(state))) = (slots[home], guards[home].as_deref_mut()) {
                memory.extend(state.free_elsewhere(slot, ended).memory);
            }
        }
        for (slot, guard) in slots.into_iter().flatten().zip(guards.iter_mut().flatten()) {
            guard.iter_mut().for_each(|state| state.end_reset(slot, &mut memory));
        }
        drop(guards);
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
    #[inline(never)]
    #[doc(alias = "vmaDestroyPool")]
    pub fn destroy_pool(&self, mut pool: Pool) -> Result<(), DestroyPoolError> {
        let Ok(slots) = self.slots_of(&pool) else { return Err(DestroyPoolError::WrongAllocator(pool)) };
        // Every request and every run in the pool holds or borrows a clone, so without one none is under way. Counted
        // before the allocations: a thread that makes one and drops its clone in between is found by its allocation.
        let clones = pool.other_clones();
        let slots: Vec<_> = slots.collect();
        // Places that are offered would count as allocations.
        self.withdraw_offers_in(pool.shards());
        let allocations_of = |slot: &&PoolSlot<D>| {
            let guard = locked(&slot.state);
            guard.as_ref().map_or(0, |state| state.statistics().allocations)
        };
        let allocations = slots.iter().map(allocations_of).sum();
        if allocations != 0 {
            return Err(DestroyPoolError::InUse { pool, allocations });
        }
        if clones != 0 {
            return Err(DestroyPoolError::Cloned { pool, clones });
        }
        for slot in slots {
            let mut guard = locked(&slot.state);
            // Only maintenance has no clone. The block that it is allocating must not reach the next pool of this place.
            while guard.as_ref().is_some_and(|state| state.pending != 0) {
                guard = self.waiting(|| slot.grown.wait(guard).unwrap_or_else(PoisonError::into_inner));
            }
            guard.iter_mut().for_each(PoolState::emit_destroyed);
            let state = guard.take();
            // Statistics read the counters without the lock, and the slot has no pool from here on.
            slot.counters.iter().for_each(|counters| counters.store(&Statistics::default()));
            drop(guard);
            state.into_iter().for_each(|state| self.give_back(state));
        }
        // Last: another pool may use the slots at once.
        locked(&self.vacant_slots).push(pool.shards());
        Ok(())
    }
}
