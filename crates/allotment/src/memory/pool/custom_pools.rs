//! What the creation, the reset and the destruction of a custom pool ask of its shards.

use core::sync::atomic::Ordering;
use std::sync::PoisonError;

use allotment_suballoc::{Algorithm, Alignment, MAX_SIZE};

use crate::choices::blocks::BlockSize;
use crate::device::{Device, MemoryTypeIndex, OwnedMemory, Priority};
use crate::events::EventLog;
use crate::memory::block_set::{BlockSet, Role};
use crate::memory::pool::pools::Pools;
use crate::memory::pool::requests::AwaitedBlock;
use crate::memory::pool::shards::MOST_CUSTOM_SHARDS;
use crate::memory::pool::{Pool, PoolDesc, PoolSlot, PoolState, Rules};
use crate::memory::request::{MAX_POOL_TYPES, PoolShards};
use crate::memory::statistics::Statistics;
use crate::memory::{AllocationError, BudgetPolicy, CreatePoolError, Dedicated, ShortName};
use crate::sync::locked;

/// Pools whose first shards have slots side by side: an operation in one of a thousand pools reads the place of its slot, and a
/// cache line has four. Few, since a walk over all pools passes the places of all shards.
pub(super) const SLOTS_TOGETHER: u32 = 8;

/// A pool that is being created.
#[derive(Debug)]
pub(crate) struct NewPool<D: Device> {
    /// Its shard 0. The others are made when a thread needs them.
    first: PoolState<D>,
    /// The most shards that it will have.
    count: u32,
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
        let first = &self.first;
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
    /// Creates another shard of the same pool, without blocks.
    fn new_sibling(&self, shard: u32, log: &EventLog) -> Self {
        let sets = self.sets.iter().map(|set| set.new_sibling(shard)).collect();
        Self::new(self.rules.of_sibling(), (self.shards, shard), sets, &self.active, log)
    }

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
        self.note_pool(false);
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

    /// Returns vacant slots for the shards of a pool.
    ///
    /// ```text
    ///   shard 0 of 8 pools   shard 1 of these   shard 2 …
    ///   [0 1 2 3 4 5 6 7]    [– – – 3 – – – –]  [– – – …        most pools have no other shard than the first
    /// ```
    fn take_slots(&self, count: u32) -> PoolShards {
        let mut vacant = locked(&self.vacant_slots);
        if let Some(at) = vacant.iter().rposition(|shards| shards.count == count) {
            return vacant.swap_remove(at);
        }
        // A count that is full stays so, and names slots beyond the table: never those of another pool.
        let more = |slots: u32| Some(slots.saturating_add(count.saturating_mul(SLOTS_TOGETHER)));
        let (Ok(first) | Err(first)) =
            self.slot_count.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        let shards = |at: u32| PoolShards { first: first.saturating_add(at), stride: SLOTS_TOGETHER, count };
        // The last one is taken first.
        let others = (1..SLOTS_TOGETHER).rev().map(shards);
        vacant.extend(others.filter(|&shards| self.slots.hold(shards)));
        shards(0)
    }

    /// Makes a pool, to which its first blocks are to be added.
    pub(crate) fn new_pool(
        &self,
        desc: &PoolDesc,
        options: Option<&D::MemoryOptions>,
    ) -> Result<NewPool<D>, CreatePoolError> {
        self.check_pool(desc)?;
        let first = self.new_shard(desc, options);
        Ok(NewPool { first, count: self.shards_for(desc), blocks: Vec::new() })
    }

    /// Puts a new pool into slots, where requests find it. Where there are too many, returns its
    /// blocks, and how many there may be.
    pub(crate) fn install_pool(&self, new: NewPool<D>) -> Result<PoolShards, (Vec<OwnedMemory<D>>, u32)> {
        // The slot of a destroyed pool first. Its records keep their generations, so tokens of that pool stay stale.
        let shards = self.take_slots(new.count);
        let slot = self.slots.get_or_make(shards.first).filter(|_| self.slots.hold(shards));
        let Some(slot) = slot else { return Err((new.into_blocks(), shards.first)) };
        let NewPool { mut first, blocks, .. } = new;
        for (set, memory) in blocks {
            first.change_minimum(set, |blocks| blocks + 1);
            first.add_empty(slot, set, memory, Role::Shared);
        }
        first.shards = shards;
        // Last: from here on walks over all pools find the pool, with all its blocks.
        self.install(shards.first, first);
        Ok(shards)
    }

    /// Makes a shard of a custom pool that no thread has used. Another thread may make it at the same time: then its shard stays.
    #[cold]
    pub(super) fn make_custom_shard(&self, shards: PoolShards, index: u32) -> Option<&PoolSlot<D>> {
        let slot = self.slots.get_or_make(index)?;
        // No lock of another shard is held: `install` may take those of all.
        let first = self.slots.get(shards.first)?;
        let shard = (index - shards.first) / shards.stride;
        let new = locked(&first.state).as_ref()?.new_sibling(shard, &self.events);
        self.install(index, new);
        Some(slot)
    }

    /// Frees all allocations of a pool at once. Returns the blocks that the pool does not keep.
    pub(crate) fn reset(&self, pool: &Pool) -> Result<Vec<OwnedMemory<D>>, AllocationError> {
        // In arrays: a program that resets a pool in each frame takes nothing from the heap for it. By shard, some of which no
        // thread may have used.
        _ = self.slots_of(pool)?;
        let slots_now = || -> [_; MOST_CUSTOM_SHARDS as usize] {
            let mut shards = pool.shards().indices();
            core::array::from_fn(|_| shards.next().and_then(|index| self.slots.get(index)))
        };
        let (slots, alone, mut guards) = loop {
            let slots = slots_now();
            // No thread accesses bytes of the pool while their memory is freed. `changes` before `state`, as everywhere:
            // threads that hold the first for reading take the second. Both of all shards, or a resource could be created
            // in one while another is reset. All code that holds two locks of a kind takes them in the same order.
            let alone = slots.map(|slot| Some(slot?.changes.write().unwrap_or_else(PoisonError::into_inner)));
            let guards = slots.map(|slot| Some(locked(&slot?.state)));
            // A shard that was made during a wait for a lock may have got a block with allocations that were there before the call.
            // From here on none gets any, since a thread makes one under the lock of the first.
            if slots.iter().flatten().count() == slots_now().iter().flatten().count() {
                break (slots, alone, guards);
            }
        };
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

    /// Creates shard 0 of a pool, without blocks. The description is [checked](Self::check_pool).
    fn new_shard(&self, desc: &PoolDesc, options: Option<&D::MemoryOptions>) -> PoolState<D> {
        let properties = self.device.properties();
        let granularity = properties.limits.buffer_image_granularity;
        let rules = Rules {
            algorithm: desc.algorithm,
            sizing: self.sizing_of(desc),
            // The blocks of the minimum are allocated in shard 0, of whichever types can be had.
            min_blocks: [0; MAX_POOL_TYPES],
            max_blocks: desc.max_blocks,
            alignment: desc.alignment,
            granularity: if desc.ignore_granularity { Alignment::ONE } else { granularity },
            separate_movable: desc.separate_movable,
            empty_blocks: desc.empty_blocks,
            dedicated: self.dedicated_of(desc),
            budget: desc.budget,
            priority: desc.priority,
            priorities: self.device.priority_support(),
            options: options.cloned(),
            ahead: desc.block_growth.unwrap_or(self.desc.block_growth).watermark(),
            name: desc.name.clone(),
        };
        let times = if desc.separate_movable { 2 } else { 1 };
        let types = core::iter::repeat_n(&desc.memory_types, times).flatten();
        // Of the exact size: a filter tells none, and a vector of an unknown size begins with four.
        let mut sets = Vec::with_capacity(desc.memory_types.len() * times);
        sets.extend(types.filter_map(|&memory_type| {
            let heap = properties.memory_type(memory_type)?.heap;
            let (multiple, objects) = (self.flush_multiple(memory_type), self.slots.objects());
            let heap = (heap, self.heaps.heap_size(heap));
            Some(BlockSet::new(0, memory_type, heap, multiple, desc.algorithm, objects))
        }));
        // Its slots are taken later.
        let shards = PoolShards { first: 0, stride: 1, count: 1 };
        PoolState::new(rules, (shards, 0), sets, &self.active, &self.events)
    }

    fn sizing_of(&self, desc: &PoolDesc) -> BlockSize {
        // A pool of several types has one policy: that of the type it prefers.
        let first = desc.memory_types.first();
        let sizes = first.map_or(self.desc.block_sizes, |&first| self.desc.block_sizes_of(first));
        desc.sizing.unwrap_or(BlockSize::Growing(sizes))
    }

    /// Returns what [`Dedicated::Automatic`] means in a pool.
    pub(crate) fn dedicated_of(&self, desc: &PoolDesc) -> Dedicated {
        match (desc.dedicated, self.sizing_of(desc)) {
            // The allocator's wish is for pools that can have memory objects of any size.
            (Dedicated::Automatic, BlockSize::Growing(_)) => self.desc.dedicated,
            (own, _) => own,
        }
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

    /// Returns the slots of a custom pool's shards that were ever used, with their indices, in this order.
    pub(super) fn slots_of(
        &self,
        pool: &Pool,
    ) -> Result<impl Iterator<Item = (u32, &PoolSlot<D>)> + use<'_, D>, AllocationError> {
        // The index of a pool of another allocator would name a wrong pool here.
        if pool.allocator() != self.id {
            return Err(AllocationError::WrongPool { name: pool.name() });
        }
        Ok(pool.shards().indices().filter_map(|index| Some((index, self.slots.get(index)?))))
    }
}
