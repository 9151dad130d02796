//! What the creation, the reset and the destruction of a custom pool ask of its shards.

use core::sync::atomic::Ordering;
use std::sync::PoisonError;

use allotment_suballoc::{Algorithm, Alignment, MAX_SIZE};

use crate::choices::blocks::BlockSize;
use crate::device::{Device, MemoryTypeIndex, OwnedMemory, Priority};
use crate::memory::block_set::{BlockSet, Role};
use crate::memory::pool::pools::Pools;
use crate::memory::pool::requests::AwaitedBlock;
use crate::memory::pool::shards::MOST_CUSTOM_SHARDS;
use crate::memory::pool::{Pool, PoolDesc, PoolSlot, PoolState, Rules};
use crate::memory::request::{MAX_POOL_TYPES, PoolShards};
use crate::memory::statistics::Statistics;
use crate::memory::{AllocationError, BudgetPolicy, CreatePoolError, ShortName};
use crate::sync::locked;

/// A pool that is being created.
#[derive(Debug)]
pub(crate) struct NewPool<D: Device> {
    shards: Vec<PoolState<D>>,
    /// Each with its set. Kept apart until the pool has its slots: if a block is refused, they are all that has to be freed.
    blocks: Vec<(usize, OwnedMemory<D>)>,
}

/// How one of the first blocks of a pool is allocated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FirstBlock {
    pub(crate) memory_type: MemoryTypeIndex,
    pub(crate) size: u64,
    pub(crate) priority: Priority,
    pub(crate) budget: BudgetPolicy,
}

impl<D: Device> NewPool<D> {
    /// Returns how a block of a set is allocated.
    pub(crate) fn first_block(&self, set: usize) -> FirstBlock {
        let first = &self.shards[0];
        FirstBlock {
            memory_type: first.sets[set].memory_type,
            size: first.next_block_size(set),
            priority: first.rules.priority,
            budget: first.rules.budget,
        }
    }

    pub(crate) fn add_block(&mut self, set: usize, memory: OwnedMemory<D>) {
        self.blocks.push((set, memory));
    }

    pub(crate) fn into_blocks(self) -> Vec<OwnedMemory<D>> {
        self.blocks.into_iter().map(|(_, memory)| memory).collect()
    }
}

impl<D: Device> PoolState<D> {
    /// Returns all memory of a pool that is gone.
    pub(crate) fn into_memory(self) -> impl Iterator<Item = OwnedMemory<D>> {
        self.sets.into_iter().flat_map(BlockSet::into_memory)
    }
}

impl<D: Device> PoolSlot<D> {
    /// Returns the number of allocations.
    pub(crate) fn allocations(&self) -> u32 {
        locked(&self.state).as_ref().map_or(0, |state| state.statistics().allocations)
    }

    /// Takes the pool out of the slot, to be destroyed. Refused while a thread allocates a block for it, which has to be waited
    /// for.
    pub(crate) fn destroy(&self) -> Result<Option<PoolState<D>>, AwaitedBlock> {
        let mut guard = locked(&self.state);
        if guard.as_ref().is_some_and(|state| state.pending != 0) {
            return Err(AwaitedBlock::Any);
        }
        guard.iter_mut().for_each(PoolState::emit_destroyed);
        guard.iter_mut().for_each(PoolState::end_active);
        let state = guard.take();
        // Statistics read the counters without the lock, and the slot has no pool from here on.
        self.counters.iter().for_each(|counters| counters.store(&Statistics::default()));
        Ok(state)
    }

    /// Returns the algorithm of the pool's blocks; `None` where there is no pool.
    pub(crate) fn algorithm(&self) -> Option<Algorithm> {
        locked(&self.state).as_ref().map(|state| state.rules.algorithm)
    }

    /// Marks the pool as one whose allocations a run with passes may move. Returns false where another run has, or there is no
    /// pool.
    pub(crate) fn begin_passes(&self, mover: u64) -> bool {
        let mut guard = locked(&self.state);
        let Some(state) = guard.as_mut().filter(|state| state.defragmented == 0) else { return false };
        state.defragmented = mover;
        true
    }

    /// Removes the mark of a run. Where room was made, the pool may have been destroyed, and another one be in its place.
    pub(crate) fn end_passes(&self, mover: u64) {
        let mut guard = locked(&self.state);
        let marked = guard.as_mut().filter(|state| state.defragmented == mover);
        marked.into_iter().for_each(|state| state.defragmented = 0);
    }
}

impl<D: Device> Pools<D> {
    /// Takes a slot for good, in which no pool will be: for the records of placed resources. `None` where there are no more.
    pub(crate) fn take_slot_of_placed(&self) -> Option<u32> {
        let PoolShards { first, .. } = self.take_slots(1);
        let slot = self.slots.get_or_make(first)?;
        // They are written under another lock than the slot's, and a trim finds no pool here that would say which are live.
        slot.records.keep();
        Some(first)
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

    /// Makes a pool, to which its first blocks are to be added.
    pub(crate) fn new_pool(
        &self,
        desc: &PoolDesc,
        options: Option<&D::MemoryOptions>,
    ) -> Result<NewPool<D>, CreatePoolError> {
        self.check_pool(desc)?;
        let shards = (0..self.shards_for(desc)).map(|shard| self.new_shard(desc, shard, options));
        Ok(NewPool { shards: shards.collect(), blocks: Vec::new() })
    }

    /// Puts a new pool into slots, where requests find it. Where there are too many, returns its
    /// blocks, and how many there may be.
    pub(crate) fn install_pool(&self, new: NewPool<D>) -> Result<PoolShards, (Vec<OwnedMemory<D>>, u32)> {
        // The slot of a destroyed pool first. Its records keep their generations, so tokens of that pool stay stale.
        let shards = self.take_slots(new.shards.len() as u32);
        let slots = shards.indices().map(|index| self.slots.get_or_make(index));
        let Some(slots) = slots.collect::<Option<Vec<_>>>() else {
            return Err((new.into_blocks(), shards.first));
        };
        let NewPool { shards: mut states, blocks } = new;
        for (set, memory) in blocks {
            states[0].change_minimum(set, |blocks| blocks + 1);
            states[0].add_empty(slots[0], set, memory, Role::Shared);
        }
        // Last: from here on walks over all pools find the pool, with all its blocks.
        for (mut state, index) in states.into_iter().zip(shards.indices()) {
            state.shards = shards;
            self.install(index, state);
        }
        Ok(shards)
    }

    /// Frees all allocations of a pool at once. Returns the blocks that the pool does not keep.
    pub(crate) fn reset(&self, pool: &Pool) -> Result<Vec<OwnedMemory<D>>, AllocationError> {
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
        Ok(memory)
    }

    /// Lets another pool use the slots of one that was destroyed.
    pub(crate) fn vacate(&self, shards: PoolShards) {
        locked(&self.vacant_slots).push(shards);
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
            let (multiple, objects) = (self.flush_multiple(memory_type), self.slots.objects());
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
    pub(crate) fn slots_of(
        &self,
        pool: &Pool,
    ) -> Result<impl Iterator<Item = &PoolSlot<D>> + use<'_, D>, AllocationError> {
        // The index of a pool of another allocator would name a wrong pool here.
        if pool.allocator() != self.id {
            return Err(AllocationError::WrongPool { name: pool.name() });
        }
        Ok(pool.shards().indices().filter_map(|index| self.slots.get(index)))
    }
}
