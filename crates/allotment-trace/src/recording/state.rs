//! The state that events lead to: applied one after another, they give what exists at each moment.

use core::fmt;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{
    Allocated, AllocationKey, BlockId, BlockKind, BoundResource, DeletionQueueKind, DescriptorKind, Event,
    ObjectId, PoolId, RequestedOptions, RingKind, StackId, TextId,
};
use allotment::Algorithm;
use allotment::device::MemoryTypeIndex;

/// When something happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// How many events came before.
    pub event: u64,
    /// How many frames had ended.
    pub frame: u64,
    /// Nanoseconds since the recording began, as the last time before says.
    pub nanoseconds: u64,
}

/// A table by ids, or by texts.
///
/// Its hashes take a nanosecond, since a state is applied millions of times. They begin with a number that is another
/// in each process: who makes a file cannot choose ids that collide. (A plain multiplicative hash would be as fast, and
/// a hostile file could make each look-up take as long as there are entries.)
pub type IdMap<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// The state of the allocator, and of the objects around it, at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Now.
    pub now: Moment,
    /// The pools.
    pub pools: BTreeMap<PoolId, Pool>,
    /// The blocks.
    pub blocks: IdMap<BlockId, Block>,
    /// The allocations.
    pub allocations: IdMap<AllocationKey, Live>,
    /// The resources that are bound to allocations which several share.
    pub bound: IdMap<AllocationKey, Bound>,
    /// The allocations that resources are bound to: these, by offset.
    pub memories: IdMap<AllocationKey, BTreeSet<(u64, AllocationKey)>>,
    /// The last budget of each heap, by its index.
    pub budgets: BTreeMap<u8, Budget>,
    /// The descriptor heaps.
    pub descriptor_heaps: BTreeMap<ObjectId, DescriptorHeap>,
    /// The rings.
    pub rings: BTreeMap<ObjectId, Ring>,
    /// The deletion queues.
    pub deletion_queues: BTreeMap<ObjectId, DeletionQueue>,
    /// The last submitted and the last completed value of each queue, by its index.
    pub queues: BTreeMap<u8, (u64, u64)>,
}

/// A pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Its name.
    pub name: TextId,
    /// How it suballocates its blocks.
    pub algorithm: Option<Algorithm>,
    /// It is one of the program's own.
    pub custom: bool,
    /// What it serves, and the rules of one of the program's own pools, as the events said that followed its creation.
    pub description: Vec<Event>,
}

impl Pool {
    /// Adds what an event says of the pool; it replaces what an earlier one of its kind said, so that a file cannot add
    /// many.
    pub fn describe(&mut self, event: &Event) {
        self.description.retain(|known| core::mem::discriminant(known) != core::mem::discriminant(event));
        self.description.push(*event);
    }
}

/// A block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The pool that has it.
    pub pool: PoolId,
    /// Its memory type.
    pub memory_type: MemoryTypeIndex,
    /// What it is for.
    pub kind: BlockKind,
    /// Bytes.
    pub size: u64,
    /// Its allocations, by offset.
    pub allocations: BTreeSet<(u64, AllocationKey)>,
    /// When it was allocated.
    pub allocated: Moment,
    /// When it became empty, while it is.
    pub empty_since: Option<Moment>,
}

/// An allocation that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Live {
    /// As it is now: a move changes its block and offset, a new label its texts.
    pub is: Allocated,
    /// Where the program made it.
    pub call_site: TextId,
    /// The calls that led there.
    pub stack: StackId,
    /// When it was allocated.
    pub allocated: Moment,
    /// When the program released it, while the GPU may still use it.
    pub free_requested: Option<Moment>,
    /// How many mappings of the CPU exist.
    pub maps: u32,
    /// It is the destination or the old range of a move, and no allocation of the program's.
    pub reservation: bool,
    /// What the program asked for.
    pub options: RequestedOptions,
}

/// A resource that is bound to an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// As it is now: an activation changes which resources are active, a new label its name.
    pub is: BoundResource,
    /// When it was bound.
    pub bound: Moment,
}

/// The budget of a heap, as the driver last told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Bytes that the process uses.
    pub usage: u64,
    /// Bytes that it should not exceed.
    pub budget: u64,
}

/// A descriptor heap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescriptorHeap {
    /// What it holds.
    pub kind: DescriptorKind,
    /// Descriptors that it has room for.
    pub capacity: u32,
    /// Its name.
    pub name: TextId,
    /// The allocated ranges: the count by the first slot.
    pub ranges: BTreeMap<u32, u32>,
}

/// A ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ring {
    /// What it is for.
    pub kind: RingKind,
    /// Bytes.
    pub capacity: u64,
    /// Its name.
    pub name: TextId,
    /// Bytes that are in use.
    pub used: u64,
}

/// A deletion queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeletionQueue {
    /// What it holds.
    pub kind: DeletionQueueKind,
    /// Objects that wait for the GPU.
    pub waiting: u32,
}

const NOT_ALLOCATED: &str = "it names an allocation that does not exist";

/// An event contradicts the events before it. The state is as it was before the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inconsistent {
    /// How many events came before.
    pub event: u64,
    /// The contradiction.
    pub reason: &'static str,
}

impl fmt::Display for Inconsistent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "event {} contradicts the events before it: {}", self.event, self.reason)
    }
}

impl core::error::Error for Inconsistent {}

impl State {
    /// Applies the next event.
    ///
    /// # Errors
    ///
    /// [`Inconsistent`], with the state unchanged but for the count of events, so that a reader may go on.
    pub fn apply(&mut self, event: &Event) -> Result<(), Inconsistent> {
        let now = self.now;
        self.now.event = now.event.saturating_add(1);
        self.change(event, now).map_err(|reason| Inconsistent { event: now.event, reason })
    }

    fn change(&mut self, event: &Event, now: Moment) -> Result<(), &'static str> {
        match *event {
            Event::Time { nanoseconds } => self.now.nanoseconds = nanoseconds,
            // More than one more, where a recording begins in the middle.
            Event::FrameEnd { number } => self.now.frame = number.max(now.frame).saturating_add(1),
            Event::Lost => {
                self.pools.clear();
                self.blocks.clear();
                self.allocations.clear();
                self.bound.clear();
                self.memories.clear();
                self.descriptor_heaps.clear();
            }
            Event::PoolCreated { pool, name, algorithm, custom } => {
                self.pools.insert(pool, Pool { name, algorithm, custom, description: Vec::new() });
            }
            Event::PoolServes { pool, .. }
            | Event::PoolSized { pool, .. }
            | Event::PoolRules { pool, .. } => {
                self.describe(pool, event)?;
            }
            Event::PoolDestroyed { pool } => {
                self.pools.remove(&pool).ok_or("it destroys a pool that does not exist")?;
            }
            Event::BlockAllocated { block, pool, memory_type, kind, size } => {
                if self.blocks.contains_key(&block) {
                    return Err("it allocates a block that exists");
                }
                let (allocations, empty_since) = (BTreeSet::new(), Some(now));
                let new = Block { pool, memory_type, kind, size, allocations, allocated: now, empty_since };
                self.blocks.insert(block, new);
            }
            Event::BlockFreed { block } => {
                let found = self.blocks.get(&block).ok_or("it frees a block that does not exist")?;
                if !found.allocations.is_empty() {
                    return Err("it frees a block that has allocations");
                }
                self.blocks.remove(&block);
            }
            Event::BlockShared { block } => {
                let missing = "it shares a block that does not exist";
                self.blocks.get_mut(&block).ok_or(missing)?.kind = BlockKind::Shared;
            }
            Event::BlockResized { block, size } => self.resize(block, size)?,
            Event::Allocated(is) => self.allocate(is, now)?,
            Event::Requested { allocation, options } => self.live_mut(allocation)?.options = options,
            Event::CallSite { allocation, site } => self.live_mut(allocation)?.call_site = site,
            Event::Stack { allocation, stack } => self.live_mut(allocation)?.stack = stack,
            Event::Labelled { allocation, name, category, user_data } => {
                match self.allocations.get_mut(&allocation) {
                    Some(Live { is, .. }) => {
                        (is.name, is.category, is.user_data) = (name, category, user_data);
                    }
                    // A bound resource has no category and no number.
                    None => self.bound.get_mut(&allocation).ok_or(NOT_ALLOCATED)?.is.name = name,
                }
            }
            Event::Movable { allocation, movable } => self.live_mut(allocation)?.is.movable = movable,
            Event::FreeRequested { allocation } => {
                self.live_mut(allocation)?.free_requested.get_or_insert(now);
            }
            Event::Freed { allocation } => self.free(allocation, now)?,
            Event::Exchanged { allocation, reservation } => self.exchange(allocation, reservation)?,
            Event::Reserved { reservation, .. } => self.live_mut(reservation)?.reservation = true,
            Event::Mapped { allocation, count } => self.live_mut(allocation)?.maps = count,
            Event::Bound(is) => self.bind(is, now)?,
            Event::Unbound { resource } => self.unbind(resource)?,
            Event::Activated { resource } => self.bound_mut(resource)?.active = true,
            Event::Displaced { resource, by } => {
                self.bound_mut(by)?;
                self.bound_mut(resource)?.active = false;
            }
            Event::Budget { heap, usage, budget } => {
                self.budgets.insert(heap.0, Budget { usage, budget });
            }
            Event::Submitted { queue, value } => self.queues.entry(queue.0).or_default().0 = value,
            Event::Completed { queue, value } => self.queues.entry(queue.0).or_default().1 = value,
            Event::DescriptorHeapCreated { heap, kind, capacity, name } => {
                let ranges = BTreeMap::new();
                self.descriptor_heaps.insert(heap, DescriptorHeap { kind, capacity, name, ranges });
            }
            Event::DescriptorHeapDestroyed { heap } => {
                self.descriptor_heaps
                    .remove(&heap)
                    .ok_or("it destroys a descriptor heap that does not exist")?;
            }
            Event::DescriptorsAllocated { heap, first, count } => {
                self.descriptor_heap_mut(heap)?.ranges.insert(first, count);
            }
            Event::DescriptorsFreed { heap, first, .. } => {
                let ranges = &mut self.descriptor_heap_mut(heap)?.ranges;
                ranges.remove(&first).ok_or("it frees descriptors that are not allocated")?;
            }
            Event::RingCreated { ring, kind, capacity, name } => {
                self.rings.insert(ring, Ring { kind, capacity, name, used: 0 });
            }
            Event::RingUsed { ring, used } => {
                self.rings.get_mut(&ring).ok_or("it names a ring that does not exist")?.used = used;
            }
            Event::RingDestroyed { ring } => {
                self.rings.remove(&ring).ok_or("it destroys a ring that does not exist")?;
            }
            Event::DeletionQueue { queue, kind, waiting } => {
                self.deletion_queues.insert(queue, DeletionQueue { kind, waiting });
            }
            _ => {}
        }
        Ok(())
    }

    fn describe(&mut self, pool: PoolId, event: &Event) -> Result<(), &'static str> {
        self.pools.get_mut(&pool).ok_or("it describes a pool that does not exist")?.describe(event);
        Ok(())
    }

    fn resize(&mut self, block: BlockId, size: u64) -> Result<(), &'static str> {
        let found = self.blocks.get_mut(&block).ok_or("it resizes a block that does not exist")?;
        if size < found.size {
            // Allocations may overlap, so that the last one need not be the one that ends last.
            let ends = found.allocations.iter().filter_map(|(_, key)| self.allocations.get(key));
            if ends.map(|live| live.is.offset + live.is.occupied).any(|end| end > size) {
                return Err("it takes memory from a block that an allocation has");
            }
        }
        found.size = size;
        Ok(())
    }

    fn allocate(&mut self, is: Allocated, now: Moment) -> Result<(), &'static str> {
        if self.allocations.contains_key(&is.allocation) {
            return Err("it allocates an allocation that exists");
        }
        if is.requested > is.occupied {
            return Err("an allocation occupies less than was requested");
        }
        self.insert(is, now)
    }

    /// Adds an allocation that may occupy less than was requested: one that was moved, in a snapshot.
    pub(super) fn insert(&mut self, is: Allocated, now: Moment) -> Result<(), &'static str> {
        let block = self.blocks.get_mut(&is.block).ok_or("it allocates in a block that does not exist")?;
        if is.offset.checked_add(is.occupied).is_none_or(|end| end > block.size) {
            return Err("an allocation reaches beyond its block");
        }
        block.allocations.insert((is.offset, is.allocation));
        block.empty_since = None;
        let call_site = TextId::NONE;
        let live = Live {
            is,
            call_site,
            stack: StackId::NONE,
            allocated: now,
            free_requested: None,
            maps: 0,
            reservation: false,
            options: RequestedOptions::default(),
        };
        self.allocations.insert(is.allocation, live);
        Ok(())
    }

    fn bind(&mut self, is: BoundResource, now: Moment) -> Result<(), &'static str> {
        if self.bound.contains_key(&is.resource) {
            return Err("it binds a resource that exists");
        }
        let memory =
            self.allocations.get(&is.memory).ok_or("it binds to an allocation that does not exist")?;
        if is.offset.checked_add(is.size).is_none_or(|end| end > memory.is.requested) {
            return Err("a resource reaches beyond its memory");
        }
        self.memories.entry(is.memory).or_default().insert((is.offset, is.resource));
        self.bound.insert(is.resource, Bound { is, bound: now });
        Ok(())
    }

    fn unbind(&mut self, resource: AllocationKey) -> Result<(), &'static str> {
        let Bound { is, .. } =
            self.bound.remove(&resource).ok_or("it destroys a resource that is not bound")?;
        if let Some(others) = self.memories.get_mut(&is.memory) {
            others.remove(&(is.offset, resource));
            if others.is_empty() {
                self.memories.remove(&is.memory);
            }
        }
        Ok(())
    }

    fn bound_mut(&mut self, resource: AllocationKey) -> Result<&mut BoundResource, &'static str> {
        let bound = self.bound.get_mut(&resource).ok_or("it names a resource that is not bound")?;
        Ok(&mut bound.is)
    }

    fn free(&mut self, allocation: AllocationKey, now: Moment) -> Result<(), &'static str> {
        if self.memories.contains_key(&allocation) {
            return Err("it frees an allocation that resources are bound to");
        }
        let live =
            self.allocations.remove(&allocation).ok_or("it frees an allocation that does not exist")?;
        if let Some(block) = self.blocks.get_mut(&live.is.block) {
            block.allocations.remove(&(live.is.offset, allocation));
            if block.allocations.is_empty() {
                block.empty_since = Some(now);
            }
        }
        Ok(())
    }

    fn exchange(&mut self, one: AllocationKey, other: AllocationKey) -> Result<(), &'static str> {
        let missing = "it moves an allocation that does not exist";
        let a = self.allocations.get(&one).ok_or(missing)?.is;
        let b = self.allocations.get(&other).ok_or(missing)?.is;
        for (key, was, will) in [(one, a, b), (other, b, a)] {
            if let Some(block) = self.blocks.get_mut(&was.block) {
                block.allocations.remove(&(was.offset, key));
            }
            if let Some(block) = self.blocks.get_mut(&will.block) {
                block.allocations.insert((will.offset, key));
            }
            if let Some(live) = self.allocations.get_mut(&key) {
                (live.is.block, live.is.offset, live.is.occupied) = (will.block, will.offset, will.occupied);
            }
        }
        Ok(())
    }

    fn live_mut(&mut self, allocation: AllocationKey) -> Result<&mut Live, &'static str> {
        self.allocations.get_mut(&allocation).ok_or(NOT_ALLOCATED)
    }

    fn descriptor_heap_mut(&mut self, heap: ObjectId) -> Result<&mut DescriptorHeap, &'static str> {
        self.descriptor_heaps.get_mut(&heap).ok_or("it names a descriptor heap that does not exist")
    }
}
