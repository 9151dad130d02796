//! All pools of an allocator: their slots, and what lies below them, the memory of the device.
//!
//! What a pool does by itself, or with the device's heaps, is a method of [`Pools`] or of a slot. What more than that takes
//! part in (resources that wait for the GPU, offers to owners, reports) is the [`Allocator`](crate::Allocator)'s.

use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use allotment_suballoc::Alignment;

use super::active::{ActivePools, Turn};
use super::allocator_desc::AllocatorDesc;
use super::empty::{FrameEnd, TakesUnwanted};
use super::growth_ahead::BlockGrowth;
use super::left_frees::Inboxes;
use super::maintenance::ToDo;
use super::residents::Residents;
use super::served::{POOLS_PER_GROUP, POOLS_PER_TYPE, Served};
use super::{BlockPlan, PlanSizes, Pool, PoolSlot, PoolSlots, PoolState, RecordInUse, RoundedRequest, Rules};
use crate::choices::blocks::BlockSize;
use crate::device::{
    Device, Mapping, MemoryProperties, MemoryTypeIndex, OwnedMemory, Priority, ResourceKind,
};
use crate::events::EventLog;
use crate::memory::block_set::{BlockSet, UsableBlocks};
use crate::memory::driver::Terms;
use crate::memory::driver::{Heaps, heap_of};
use crate::memory::mover::{MOVER_GROUPS, MoverId};
use crate::memory::request::{AllocationRequest, Remembered};
use crate::memory::request::{MAX_POOL_TYPES, MOST_SHARDS, PoolShards};
use crate::memory::time::{Moment, Time};
use crate::memory::token::Allocation;
use crate::memory::token::MemoryObjects;
use crate::memory::{AllocationError, BudgetPolicy, Name};
use crate::sync::locked;

/// The largest granularity that is met by rounding optimal images up to it, which costs half of it an image. Above it,
/// linear and optimal resources use separate blocks instead.
const ROUNDED_GRANULARITY: u64 = 4096;

/// All pools of an allocator, and the device's memory below them.
#[derive(Debug)]
pub(crate) struct Pools<D: Device> {
    pub(super) device: D,
    /// The number of the allocator.
    pub(super) id: u32,
    pub(super) heaps: Heaps,
    pub(super) slots: PoolSlots<D>,
    /// Number of slots: the shards of the default pools, and of the most custom pools that existed at once.
    pub(super) slot_count: AtomicU32,
    /// Shards of default pools from here on were never needed. Those of default pools are created when they are needed.
    pub(super) used_shards: AtomicU32,
    /// The groups of movers of which a default pool was made, a bit each. Written before `used_shards`.
    pub(super) used_groups: AtomicU32,
    /// How many threads use each shard.
    pub(super) residents: Residents,
    /// Slots of custom pools that were destroyed, to be reused by pools of as many shards. Not the list of a
    /// [`Slab`](crate::slab::Slab), since threads read slots without a lock.
    pub(super) vacant_slots: Mutex<Vec<PoolShards>>,
    /// What pools do unless their own description says otherwise, and the allocator's other settings.
    pub(super) desc: AllocatorDesc,
    /// The number of shards of a default pool.
    pub(super) shards_of_defaults: u32,
    /// Optimal images are placed in separate blocks.
    pub(super) separate_optimal: bool,
    pub(super) time: Time,
    pub(super) to_do: ToDo<D>,
    /// The shards in which frees may wait.
    pub(super) inboxes: Inboxes,
    /// The pools that the ends of frames visit.
    pub(super) active: Arc<ActivePools>,
    pub(super) events: EventLog,
}

/// The pools one by one, in which what threads left has been freed. There is no other way to all of them: so whoever counts them,
/// lists them or frees their blocks finds nothing that its caller has freed.
pub(in crate::memory) struct Settled<'a, D: Device>(&'a Pools<D>);

impl<'a, D: Device> Settled<'a, D> {
    /// Returns all pool slots that exist, default pools first.
    pub(in crate::memory) fn slots(&self) -> impl Iterator<Item = &'a PoolSlot<D>> + use<'a, D> {
        self.indexed_slots().map(|(_, slot)| slot)
    }

    /// Returns all pool slots that exist, with their indices.
    pub(in crate::memory) fn indexed_slots(
        &self,
    ) -> impl Iterator<Item = (u32, &'a PoolSlot<D>)> + use<'a, D> {
        let pools = self.0;
        // Default pools of shards that no thread used have an index each, and no slot.
        let default = 0..pools.used_shards.load(Ordering::Acquire) * pools.pools_per_shard();
        let used = pools.used_groups.load(Ordering::Relaxed);
        let groups = default.step_by(POOLS_PER_GROUP as usize);
        let groups = groups.filter(move |&first| used >> Served::by(first).1.movers & 1 != 0);
        let with_slot = |index| Some((index, pools.slots.get(index)?));
        groups
            .flat_map(|first| first..first + POOLS_PER_GROUP)
            .filter_map(with_slot)
            .chain(self.custom_slots())
    }

    /// Returns the slots of custom pools, with their indices.
    pub(in crate::memory) fn custom_slots(
        &self,
    ) -> impl Iterator<Item = (u32, &'a PoolSlot<D>)> + use<'a, D> {
        let pools = self.0;
        // A slot is counted before it is created, so an index without a slot is skipped.
        let count = pools.slot_count.load(Ordering::Acquire);
        let custom = pools.default_pool_count()..count;
        custom.filter_map(|index| Some((index, pools.slots.get(index)?)))
    }

    /// Returns the slots of the default pools of a memory type.
    pub(in crate::memory) fn default_slots(
        &self,
        memory_type: MemoryTypeIndex,
    ) -> impl Iterator<Item = &'a PoolSlot<D>> + use<'a, D> {
        let pools = self.0;
        let default = self.indexed_slots().take_while(|(index, _)| *index < pools.default_pool_count());
        let is_of_type = move |index: u32| Served::by(index % pools.pools_per_shard()).0 == memory_type;
        default.filter(move |&(index, _)| is_of_type(index)).map(|(_, slot)| slot)
    }

    /// Returns the slots of a custom pool, with their indices.
    pub(in crate::memory) fn slots_of(
        &self,
        pool: &Pool,
    ) -> Result<impl Iterator<Item = (u32, &'a PoolSlot<D>)> + use<'a, D>, AllocationError> {
        self.0.slots_of(pool)
    }
}

impl<D: Device> Pools<D> {
    pub(crate) fn new(
        device: D,
        id: u32,
        (heaps, time, events): (Heaps, Time, EventLog),
        desc: AllocatorDesc,
    ) -> Self {
        let properties = device.properties();
        // 0 would leave no pool to allocate from.
        let shards_of_defaults = desc.threads.clamp(1, MOST_SHARDS);
        // The default pools have fixed indices, so a request finds its pool without a search.
        let default = properties.memory_types.len() as u32 * POOLS_PER_TYPE * shards_of_defaults;
        // Decided once: the pool of a resource depends on it.
        let separate_optimal = properties.limits.buffer_image_granularity.get() > ROUNDED_GRANULARITY;
        Self {
            heaps,
            slots: PoolSlots::new(),
            slot_count: AtomicU32::new(default),
            used_shards: AtomicU32::new(0),
            used_groups: AtomicU32::new(0),
            residents: Residents::default(),
            vacant_slots: Mutex::default(),
            id,
            separate_optimal,
            time,
            to_do: ToDo::default(),
            inboxes: Inboxes::default(),
            active: Arc::default(),
            events,
            desc,
            shards_of_defaults,
            device,
        }
    }

    #[inline]
    pub(crate) fn device(&self) -> &D {
        &self.device
    }

    #[inline]
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    #[inline]
    pub(crate) fn heaps(&self) -> &Heaps {
        &self.heaps
    }

    /// Returns the description that the allocator was created with.
    pub(crate) fn desc(&self) -> &AllocatorDesc {
        &self.desc
    }

    #[inline]
    pub(crate) fn events(&self) -> &EventLog {
        &self.events
    }

    /// Returns the memory objects of all pools.
    #[inline]
    pub(crate) fn objects(&self) -> &Arc<MemoryObjects> {
        self.slots.objects()
    }

    /// Returns the slot at an index; `None` where there never was one.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&PoolSlot<D>> {
        self.slots.get(index)
    }

    /// Returns the number of slots, those that were never created included.
    pub(crate) fn slot_count(&self) -> u32 {
        self.slot_count.load(Ordering::Acquire)
    }

    /// Returns true when maintenance allocates and frees blocks, rather than the threads that make requests.
    pub(crate) fn grows_ahead(&self) -> bool {
        matches!(self.desc.block_growth, BlockGrowth::Ahead(_))
    }

    /// Reads the clock, which takes 25 ns.
    #[inline]
    pub(crate) fn now(&self) -> Moment {
        self.time.now()
    }

    /// Returns true for one caller in each tick that counts: the one who lets [the time pass](Self::pass_time) in all pools.
    pub(crate) fn is_time_due(&self, now: Moment) -> bool {
        self.time.is_due(now)
    }

    /// Notes the end of a frame. From here on a thread that reads the clock counts no real time beside it. Returns when it is,
    /// if time has passed since the last one.
    pub(crate) fn note_frame(&self) -> Option<Moment> {
        self.time.note_frame()
    }

    /// Counts the end of a frame in the pools. Returns a block that was empty for too long, to be freed with no lock held: one
    /// of all pools at most, and none where maintenance frees them, which is requested instead.
    pub(crate) fn end_frame(&self, passed: Option<Moment>) -> Option<OwnedMemory<D>> {
        let mut unwanted = None;
        let grows_ahead = self.grows_ahead();
        self.active.count_frame();
        // Frames count from here on, though none did when the clock was read before the first one.
        passed.into_iter().for_each(|now| self.active.note_moment(Moment { in_frames: true, ..now }));
        let is_read = self.events.is_read();
        self.active.each(self.turn(), |index, in_turn| {
            // One block goes in a frame. The others that are due stay so, and what passes meanwhile is counted by the next visit.
            if unwanted.is_some() && !grows_ahead && !in_turn && !is_read {
                return;
            }
            let Some(slot) = self.slots.get(index) else { return };
            let takes =
                if grows_ahead || unwanted.is_some() { TakesUnwanted::No } else { TakesUnwanted::Yes };
            match slot.end_frame(takes) {
                FrameEnd::Took(memory) => unwanted = Some(memory),
                FrameEnd::HasEmpty if grows_ahead => self.request_maintenance(),
                FrameEnd::HasEmpty | FrameEnd::NothingIsEmpty => {}
            }
        });
        unwanted
    }

    /// Calls `visit` with the pools in which maintenance may have something to do at `now`, with no lock held. Those at rest
    /// have all the room that they want, and no block to free.
    pub(crate) fn each_to_maintain(&self, now: Moment, mut visit: impl FnMut(&PoolSlot<D>)) {
        self.active.note_moment(now);
        self.active.each(Turn::ALL, |index, _| {
            self.slots.get(index).filter(|slot| slot.has_memory()).into_iter().for_each(&mut visit);
        });
    }

    /// Advances the clocks of all pools to `now`. Returns the blocks that were empty for too long, to be freed with no lock
    /// held; none where maintenance frees them, which is requested instead.
    pub(crate) fn pass_time(&self, now: Moment) -> Vec<OwnedMemory<D>> {
        let mut unwanted = Vec::new();
        self.active.note_moment(now);
        self.active.each(self.turn(), |index, _| {
            let Some(slot) = self.slots.get(index) else { return };
            let mut guard = locked(&slot.state);
            let Some(state) = guard.as_mut() else { return };
            if state.reserved() != 0 {
                state.pass_time(now);
            }
            let mut may_have_more = state.has_empty_blocks();
            if may_have_more && self.grows_ahead() {
                self.request_maintenance();
            } else if may_have_more {
                // Collected, and freed by the caller after the locks: the driver may take milliseconds.
                unwanted.extend(core::iter::from_fn(|| state.take_unwanted()));
                may_have_more = false;
                state.store_counters(slot);
            }
            state.end_visit(may_have_more);
        });
        unwanted
    }

    /// Returns whose turn it is: that of all pools while events are read. See [`active`](super::active).
    fn turn(&self) -> Turn {
        let turn = self.active.take_turn();
        if self.events.is_read() { Turn::ALL } else { turn }
    }

    /// Creates the default pool at an index.
    pub(super) fn new_default_pool(&self, index: u32) -> Option<PoolState<D>> {
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
            min_blocks: [0; MAX_POOL_TYPES],
            max_blocks: u32::MAX,
            alignment: Alignment::ONE,
            // In a pool of optimal images alone no linear resource is near, so no granularity is needed between them.
            granularity: if optimal_only { Alignment::ONE } else { granularity },
            // They have pools of their own.
            separate_movable: false,
            empty_blocks: self.desc.empty_blocks,
            dedicated: self.desc.dedicated,
            // Each request states its own policy; the pool of a memory type has none.
            budget: BudgetPolicy::AllowOverBudget,
            priority: Priority::NORMAL,
            priorities: self.device.priority_support(),
            options: None,
            ahead: self.desc.block_growth.watermark(),
            name: None,
        };
        let (multiple, objects) = (self.flush_multiple(memory_type), self.slots.objects());
        let heap = (found.heap, self.heaps.heap_size(found.heap));
        let set = BlockSet::new(shard, memory_type, heap, multiple, self.desc.algorithm, objects);
        let shards = self.shards_of_default(place);
        Some(PoolState::new(rules, (shards, shard), vec![set], &self.active, &self.events))
    }

    /// Returns all pools, after `take` was called with each slot in which frees wait.
    // Inlined: where no thread left any, this is one load.
    #[inline]
    pub(in crate::memory) fn settled(&self, take: impl FnMut(&PoolSlot<D>)) -> Settled<'_, D> {
        if self.may_have_left_frees() {
            self.with_left_frees().for_each(take);
        }
        Settled(self)
    }

    /// Returns the number of default pools per shard.
    pub(crate) fn pools_per_shard(&self) -> u32 {
        self.device.properties().memory_types.len() as u32 * POOLS_PER_TYPE
    }

    /// Returns the number of default pools of all shards. Those of shard 0 come first, in the order of memory types.
    pub(crate) fn default_pool_count(&self) -> u32 {
        self.pools_per_shard() * self.shards_of_defaults
    }

    /// Returns the shards of the default pool for a request.
    pub(crate) fn default_pool_for(
        &self,
        memory_type: MemoryTypeIndex,
        request: &AllocationRequest<'_>,
    ) -> PoolShards {
        // Resources of an unknown kind are placed among the linear ones, rounded up to whole pages.
        let optimal = self.separate_optimal && request.requirements.kind == ResourceKind::OptimalImage;
        let (lifetime, movers) = (request.options.lifetime, MoverId::group(request.moves.mover));
        self.shards_of_default(Served { lifetime, optimal, movers }.pool(memory_type))
    }

    /// Returns the shards of the default pool whose shard 0 is in a slot.
    pub(crate) fn shards_of_default(&self, first: u32) -> PoolShards {
        PoolShards { first, stride: self.pools_per_shard(), count: self.shards_of_defaults }
    }

    /// Iterates over the shards of the default pools that serve the same for the other groups of movers.
    pub(crate) fn default_pools_of_others(
        &self,
        memory_type: MemoryTypeIndex,
        request: &AllocationRequest<'_>,
    ) -> impl Iterator<Item = PoolShards> + use<'_, D> {
        let (own, group) = (self.default_pool_for(memory_type, request), MoverId::group(request.moves.mover));
        let (first, others) = (own.first, (0..MOVER_GROUPS).filter(move |&other| other != group.into()));
        // The groups of a memory type follow each other, at one distance.
        let at = move |other: u32| first + other * POOLS_PER_GROUP - u32::from(group) * POOLS_PER_GROUP;
        others.map(move |other| PoolShards { first: at(other), ..own })
    }

    /// Returns true if the CPU's accesses to memory of this type need flushes and invalidates.
    pub(crate) fn needs_flush(&self, memory_type: MemoryTypeIndex) -> bool {
        let found = self.device.properties().memory_type(memory_type);
        found.is_some_and(|found| found.properties.needs_flush())
    }

    /// Returns what offsets and sizes in memory of this type are multiples of, so that no flush touches two
    /// allocations. A size only: 1 also where memory needs flushes and its atoms are single bytes.
    pub(crate) fn flush_multiple(&self, memory_type: MemoryTypeIndex) -> Alignment {
        if self.needs_flush(memory_type) {
            self.device.properties().limits.non_coherent_atom_size
        } else {
            Alignment::ONE
        }
    }

    /// Creates the token of an allocation.
    #[inline]
    pub(crate) fn token_of(&self, pool: u32, in_use: RecordInUse) -> Allocation {
        let (record, generation) = (in_use.record(), in_use.generation());
        Allocation { allocator: self.id, pool, record, generation }
    }

    /// Returns true if the CPU can map memory of this type.
    pub(crate) fn is_host_visible(&self, memory_type: MemoryTypeIndex) -> bool {
        let found = self.device.properties().memory_type(memory_type);
        found.is_some_and(|found| found.properties.contains(MemoryProperties::HOST_VISIBLE))
    }

    /// Returns which blocks of a memory type may serve a request.
    pub(crate) fn usable_blocks(
        &self,
        memory_type: MemoryTypeIndex,
        request: &AllocationRequest<'_>,
    ) -> UsableBlocks {
        let any = self.slots.objects().has_unmapped()
            && request.mapping() == Mapping::Required
            && self.is_host_visible(memory_type);
        if !any {
            return UsableBlocks::ALL;
        }
        let refused = || {
            let refused = self.heaps.unmappable_from(&self.device, memory_type);
            refused.inspect(|_| request.note_answered())
        };
        let unmapped_below = match request.remembered {
            _ if request.mapped_blocks_only => 0,
            Remembered::Holds => refused().unwrap_or(u64::MAX),
            Remembered::AskAgain => u64::MAX,
        };
        UsableBlocks { mapped_first: true, unmapped_below }
    }

    /// Returns the refusal of all sizes of a plan, where each of them was refused before and nothing has changed since.
    /// Costs no driver call.
    pub(super) fn known_refusal(
        &self,
        plan: &BlockPlan,
        (sizes, rounded): (PlanSizes, &RoundedRequest),
        (memory_type, terms): (MemoryTypeIndex, Terms),
    ) -> Option<AllocationError> {
        let heap = heap_of(&self.device, memory_type).ok()?;
        // An idle block would be freed for the request.
        if self.slots.objects().idle_in(heap.get()) != 0 || self.heaps.refused_none(memory_type) {
            return None;
        }
        let mut refused = None;
        for (size, _) in plan.attempts(sizes, self.heaps.room_for_block(&self.device, heap), rounded) {
            refused = Some(self.heaps.refused_before(&self.device, memory_type, size, terms)?);
        }
        refused
    }

    /// Returns the name of a default pool.
    pub(crate) fn default_pool_name(&self, index: u32) -> Name {
        if index >= self.default_pool_count() {
            return Name::Static("custom");
        }
        let (_, served) = Served::by(index % self.pools_per_shard());
        Name::Static(served.name(self.separate_optimal))
    }
}
