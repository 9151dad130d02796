//! The allocator itself: requests in, tokens out.

use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use allotment_suballoc::{Algorithm, Alignment, MAX_SIZE, Statistics as RangeStatistics};

use super::block_set::{BlockSet, Role};
use super::choice::{Choice, Ranking, judge};
use super::growth::BlockSizes;
use super::heaps::{DeviceCalls, HeapReport, Heaps, heap_of};
use super::leaks::{LeakHandler, report_leaks};
use super::pool::{
    BlockSizing, Fitted, Freed, MAX_POOL_TYPES, Plan, Pool, PoolDesc, PoolSlot, PoolState, Rules,
};
use super::retention::Retention;
use super::statistics::{DetailedStatistics, Statistics};
use super::{
    AllocationDesc, AllocationError, BudgetWish, CreateAllocatorError, CreatePoolError, DestroyPoolError,
    Foreign, Growth, Intent, Lifetime, Name, ResourceKind,
};
use crate::device::{Device, HeapIndex, MemoryProperties, MemoryTypeIndex, MemoryTypeMask, OwnedMemory};
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
    pub retention: Retention,
    /// Bytes that the allocator may have of a heap; of the others, what the driver gives.
    pub heap_limits: Vec<(HeapIndex, u64)>,
    /// Memory types that may be used at all.
    pub memory_types: MemoryTypeMask,
    /// Who is told of allocations that are live when the allocator goes.
    pub on_leak: LeakHandler,
}

impl Default for AllocatorDesc {
    fn default() -> Self {
        Self {
            algorithm: Algorithm::Tlsf,
            block_sizes: BlockSizes::default(),
            retention: Retention::default(),
            heap_limits: Vec::new(),
            memory_types: MemoryTypeMask::ALL,
            on_leak: LeakHandler::default(),
        }
    }
}

/// Stands for memory that its holder owns. 16 bytes; moved, never copied.
///
/// Dropping it frees nothing: give it to [`Allocator::free`]. One that is lost is reported by name when
/// the allocator goes. Where the memory is, [`Allocator::place`] says.
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

/// What a request would do; see [`Allocator::would_grow`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Forecast {
    /// There is room in memory that the allocator has already.
    Fits {
        /// Of this type.
        memory_type: MemoryTypeIndex,
    },
    /// The driver would be asked for memory.
    Grows {
        /// Of this type.
        memory_type: MemoryTypeIndex,
        /// From this heap.
        heap: HeapIndex,
        /// So many bytes.
        bytes: u64,
    },
}

/// A memory object that an allocator has; see [`Allocator::blocks`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BlockInfo<D: Device> {
    /// The driver's memory object. It belongs to the allocator.
    pub memory: D::Memory,
    /// Which memory type it is of.
    pub memory_type: MemoryTypeIndex,
    /// The heap that it is taken from.
    pub heap: HeapIndex,
    /// The name of its pool; of a default pool, what it is for.
    pub pool: Name,
    /// True when it has room for one allocation only.
    pub dedicated: bool,
    /// How its bytes are used.
    pub ranges: RangeStatistics,
}

/// Hands out device memory and takes it back. `Send + Sync`; every method takes `&self`.
///
/// ```
/// use allotment::device::host::{HostDevice, Profile};
/// use allotment::{AllocationDesc, Allocator, AllocatorDesc, Intent, Requirements};
///
/// let device = HostDevice::new(Profile::named("discrete-large-bar").unwrap());
/// let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// let texture = allocator.allocate(
///     &AllocationDesc::new(Requirements::new(1 << 20), Intent::Device).named("albedo"),
/// )?;
/// assert_eq!(allocator.statistics().allocation_bytes, 1 << 20);
/// allocator.free(texture)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Allocator<D: Device> {
    device: D,
    id: u32,
    pub(super) heaps: Heaps,
    pub(super) pools: AppendTable<PoolSlot<D>>,
    /// How many slots there are: default pools, and the most custom pools there have been at once.
    slot_count: AtomicU32,
    /// Slots of custom pools that were destroyed.
    vacant_slots: Mutex<Vec<u32>>,
    desc: AllocatorDesc,
    /// By intent: memory types for requests without wishes of their own.
    rankings: [Ranking; Intent::ALL.len()],
    /// Optimal images stand in blocks of their own.
    separate_optimal: bool,
}

/// Default pools a memory type: two lifetimes, linear and optimal.
const POOLS_PER_TYPE: u32 = 4;

fn default_pool(memory_type: MemoryTypeIndex, lifetime: Lifetime, optimal: bool) -> u32 {
    let short = u32::from(lifetime == Lifetime::Short);
    u32::from(memory_type.0) * POOLS_PER_TYPE + short * 2 + u32::from(optimal)
}

impl<D: Device> Allocator<D> {
    /// An allocator over a device. Gets no memory yet.
    ///
    /// # Errors
    ///
    /// [`CreateAllocatorError`] when the block sizes contradict each other or the device itself.
    pub fn new(device: D, desc: AllocatorDesc) -> Result<Self, CreateAllocatorError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let properties = device.properties();
        let heap_exists = |heap: HeapIndex| heap.get() < properties.heaps.len();
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
        let heaps = Heaps::new(&device, &desc.heap_limits);
        let rankings = Ranking::of_intents(properties, desc.memory_types);
        let allocator = Self {
            heaps,
            pools: AppendTable::new(),
            slot_count: AtomicU32::new(types * POOLS_PER_TYPE),
            vacant_slots: Mutex::default(),
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            separate_optimal,
            rankings,
            desc,
            device,
        };
        allocator.make_default_pools();
        Ok(allocator)
    }

    fn make_default_pools(&self) {
        let limits = self.device.properties().limits;
        for (memory_type, found) in self.device.properties().indexed_types() {
            for pool in 0..POOLS_PER_TYPE {
                let optimal_only = self.separate_optimal && pool % 2 == 1;
                let rules = Rules {
                    algorithm: self.desc.algorithm,
                    sizing: BlockSizing::Growing(self.desc.block_sizes),
                    min_blocks: 0,
                    max_blocks: u32::MAX,
                    alignment: Alignment::ONE,
                    // Apart from linear ones, optimal images need no distance from each other.
                    granularity: if optimal_only { Alignment::ONE } else { limits.buffer_image_granularity },
                    retention: self.desc.retention,
                    budget: BudgetWish::Exceed,
                    name: None,
                };
                let set = BlockSet::new(memory_type, found.heap, self.desc.algorithm);
                let index = u32::from(memory_type.0) * POOLS_PER_TYPE + pool;
                if let Some(slot) = self.pools.get_or_make(index) {
                    *locked(&slot.state) = Some(PoolState::new(rules, vec![set]));
                }
            }
        }
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

    /// Allocates memory from the default pools.
    ///
    /// # Errors
    ///
    /// [`AllocationError`]; nothing has changed. Where several memory types were tried, it is what the
    /// first of them, the one that suits best, refused with.
    pub fn allocate(&self, desc: &AllocationDesc) -> Result<Allocation, AllocationError> {
        let ranking = self.ranking(desc)?;
        let mut first = None;
        for memory_type in ranking.types(desc.requirements.memory_types) {
            match self.allocate_from(self.default_pool_for(memory_type, desc), 0, desc) {
                Err(error) if error.falls_through() => first = first.or(Some(error)),
                result => return result,
            }
        }
        Err(first.unwrap_or_else(|| no_memory_type(desc)))
    }

    /// Allocates memory from a custom pool. The pool's memory types are tried in its order; the intent
    /// has no say.
    ///
    /// # Errors
    ///
    /// [`AllocationError`]; nothing has changed.
    ///
    /// ```
    /// use allotment::device::MemoryTypeIndex;
    /// use allotment::device::host::{HostDevice, Profile};
    /// use allotment::memory::BlockSizing;
    /// use allotment::{
    ///     AllocationDesc, AllocationError, Allocator, AllocatorDesc, Intent, PoolDesc, Requirements,
    /// };
    ///
    /// let device = HostDevice::new(Profile::named("discrete-large-bar").unwrap());
    /// let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let mut desc = PoolDesc::new([MemoryTypeIndex(0)]);
    /// (desc.sizing, desc.max_blocks) = (BlockSizing::Fixed(1 << 20), 1);
    /// let pool = allocator.create_pool(desc)?;
    ///
    /// let half = AllocationDesc::new(Requirements::new(600 << 10), Intent::Device);
    /// let first = allocator.allocate_in(&pool, &half)?;
    /// let refused = allocator.allocate_in(&pool, &half);
    /// assert!(matches!(refused, Err(AllocationError::PoolFull { max_blocks: 1, .. })));
    /// allocator.free(first)?;
    /// allocator.destroy_pool(pool)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn allocate_in(&self, pool: &Pool, desc: &AllocationDesc) -> Result<Allocation, AllocationError> {
        check_size(desc)?;
        if pool.allocator != self.id {
            return Err(AllocationError::ForeignPool);
        }
        let types = self.pool_types(pool.index);
        let mut first = None;
        let mut eligible = 0;
        for (set, memory_type) in types.into_iter().flatten().enumerate() {
            if !desc.requirements.memory_types.contains(memory_type) {
                continue;
            }
            eligible += 1;
            match self.allocate_from(pool.index, set, desc) {
                Err(error) if error.falls_through() => first = first.or(Some(error)),
                result => return result,
            }
        }
        debug_assert!(first.is_some() || eligible == 0);
        Err(first.unwrap_or_else(|| no_memory_type(desc)))
    }

    fn pool_types(&self, index: u32) -> [Option<MemoryTypeIndex>; MAX_POOL_TYPES] {
        let mut types = [None; MAX_POOL_TYPES];
        if let Some(slot) = self.pools.get(index) {
            let state = locked(&slot.state);
            for (entry, set) in types.iter_mut().zip(state.iter().flat_map(|state| &state.sets)) {
                *entry = Some(set.memory_type);
            }
        }
        types
    }

    /// Checks what is wanted at the door, and ranks the memory types that may serve it.
    pub(super) fn ranking(&self, desc: &AllocationDesc) -> Result<Ranking, AllocationError> {
        check_size(desc)?;
        let wishes = desc.required | desc.preferred | desc.avoided;
        if wishes.is_empty() {
            return Ok(self.rankings[desc.intent as usize]);
        }
        Ok(Ranking::new(self.device.properties(), desc, self.desc.memory_types))
    }

    pub(super) fn default_pool_for(&self, memory_type: MemoryTypeIndex, desc: &AllocationDesc) -> u32 {
        // What may be linear by turns stays among the linear ones, on pages of its own.
        let optimal = self.separate_optimal && desc.kind == ResourceKind::OptimalImage;
        default_pool(memory_type, desc.lifetime, optimal)
    }

    /// What is thought of each memory type for a request: those that would be tried, in that order, then
    /// the others with the reason.
    ///
    /// ```
    /// use allotment::device::host::{HostDevice, Profile};
    /// use allotment::{AllocationDesc, Allocator, AllocatorDesc, Intent, Requirements};
    ///
    /// let device = HostDevice::new(Profile::named("discrete-large-bar").unwrap());
    /// let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let desc = AllocationDesc::new(Requirements::new(256), Intent::Readback);
    /// let reasons: Vec<String> = allocator.explain(&desc).iter().map(|c| c.to_string()).collect();
    /// assert_eq!(
    ///     reasons[0],
    ///     "type 2 (host-visible, host-coherent, host-cached; heap 1): exactly what is wanted"
    /// );
    /// assert_eq!(reasons[3], "type 0 (device-local; heap 0): must be host-visible and is not");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn explain(&self, desc: &AllocationDesc) -> Vec<Choice> {
        let mut choices: Vec<_> =
            judge(self.device.properties(), desc, self.desc.memory_types).collect();
        choices.sort_by_key(|choice| match choice.verdict {
            super::Verdict::Suits { cost, .. } => cost,
            _ => u32::MAX,
        });
        choices
    }

    /// Serves a request from one memory type of one pool.
    fn allocate_from(
        &self,
        pool: u32,
        set: usize,
        desc: &AllocationDesc,
    ) -> Result<Allocation, AllocationError> {
        let slot = self.pools.get(pool).ok_or(AllocationError::ForeignPool)?;
        let mut guard = locked(&slot.state);
        loop {
            let state = guard.as_mut().ok_or(AllocationError::ForeignPool)?;
            let fitted = self.fit(state, set, desc)?;
            if let Some(record) = state.place(slot, set, &fitted, desc)? {
                return Ok(self.token(pool, record, slot));
            }
            if desc.growth == Growth::Forbidden {
                let (free, largest_free) = state.sets[set].room();
                let requested = fitted.sizes.requested;
                return Err(AllocationError::WouldGrow { requested, free, largest_free });
            }
            let heap_size = self.heaps.heap_size(state.sets[set].heap);
            let plan = match state.plan(set, &fitted, desc, heap_size) {
                Ok(plan) => plan,
                Err(error) => {
                    let full = matches!(error, AllocationError::PoolFull { .. });
                    // A block that is kept for nobody must not stand in the way of one that is wanted.
                    let idle = if full { state.take_empty(None, |_, _| true) } else { None };
                    if let Some(memory) = idle {
                        state.store_counters(slot);
                        drop(guard);
                        self.heaps.free(&self.device, memory);
                        guard = locked(&slot.state);
                    } else if full && state.pending != 0 {
                        // What another thread is getting may have room, or not come.
                        guard = slot.grown.wait(guard).unwrap_or_else(PoisonError::into_inner);
                    } else {
                        return Err(error);
                    }
                    continue;
                }
            };
            let shared = plan.role == Role::Shared;
            if shared && state.sets[set].growing {
                // Another thread is getting a block; perhaps it has room for both.
                guard = slot.grown.wait(guard).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.sets[set].growing |= shared;
            state.pending += 1;
            let memory_type = state.sets[set].memory_type;
            let wish = stricter(state.rules.budget, desc.budget);
            drop(guard);
            let wanted = plan.sizes().next().unwrap_or(0);
            self.release_from(slot, |state| state.take_stale(wanted));
            let got = self.get_memory(memory_type, &plan, &fitted, wish);
            return self.settle(slot, pool, set, shared, got, &fitted, desc);
        }
    }

    fn fit(
        &self,
        state: &PoolState<D>,
        set: usize,
        desc: &AllocationDesc,
    ) -> Result<Fitted, AllocationError> {
        let BlockSet { memory_type, heap, .. } = state.sets[set];
        let heap_size = self.heaps.heap_size(heap);
        let scarce = self.heaps.objects_are_scarce(&self.device);
        state.fit(set, desc, self.atom_of(memory_type), heap_size, scarce)
    }

    /// The non-coherent atom where memory of this type needs flushes, else 1.
    pub(super) fn atom_of(&self, memory_type: MemoryTypeIndex) -> Alignment {
        let properties = self.device.properties();
        let has = properties.memory_type(memory_type).map(|found| found.properties);
        let coherent = MemoryProperties::HOST_COHERENT;
        let visible = MemoryProperties::HOST_VISIBLE;
        if has.is_some_and(|has| has.contains(visible) && !has.contains(coherent)) {
            properties.limits.non_coherent_atom_size
        } else {
            Alignment::ONE
        }
    }

    /// Gets what the plan wants from the driver, in place of empty blocks if need be. Called with no lock
    /// held.
    fn get_memory(
        &self,
        memory_type: MemoryTypeIndex,
        plan: &Plan,
        fitted: &Fitted,
        wish: BudgetWish,
    ) -> Result<(OwnedMemory<D>, Role), AllocationError> {
        self.ask_for(memory_type, plan, fitted, wish).or_else(|refused| {
            if self.make_room(memory_type, refused) {
                self.ask_for(memory_type, plan, fitted, wish)
            } else {
                Err(refused)
            }
        })
    }

    /// Asks the driver for one size after the other.
    fn ask_for(
        &self,
        memory_type: MemoryTypeIndex,
        plan: &Plan,
        fitted: &Fitted,
        wish: BudgetWish,
    ) -> Result<(OwnedMemory<D>, Role), AllocationError> {
        let heap = heap_of(&self.device, memory_type)?;
        let mut refused = AllocationError::ZeroSize;
        for (size, role) in plan.candidates(self.heaps.room_for_block(&self.device, heap), fitted) {
            match self.heaps.allocate(&self.device, memory_type, size, wish) {
                Ok(memory) => return Ok((memory, role)),
                Err(error) if error.falls_through() => refused = error,
                Err(error) => return Err(error),
            }
        }
        Err(refused)
    }

    /// Gives empty blocks back where that may help against a refusal. True when there was one.
    pub(super) fn make_room(&self, memory_type: MemoryTypeIndex, refused: AllocationError) -> bool {
        let Ok(heap) = heap_of(&self.device, memory_type) else { return false };
        // Blocks that are given back in vain would be missed by the next memory type of the heap.
        let helps = match refused {
            AllocationError::TooManyAllocations { .. } => return self.release_empty(None),
            AllocationError::OverBudget { requested, usage, budget, .. } => {
                usage + requested <= budget.saturating_add(self.empty_bytes(heap))
            }
            AllocationError::HeapLimit { requested, reserved, limit, .. } => {
                reserved + requested <= limit.saturating_add(self.empty_bytes(heap))
            }
            refused => refused.falls_through(),
        };
        helps && self.release_empty(Some(heap))
    }

    /// Bytes of a heap that [`release_empty`](Self::release_empty) would give back.
    fn empty_bytes(&self, heap: HeapIndex) -> u64 {
        let of_slot = |slot: &PoolSlot<D>| {
            let guard = locked(&slot.state);
            guard.as_ref().map_or(0, |state| state.empty_bytes(heap))
        };
        self.slots().map(of_slot).sum()
    }

    /// Takes in what the driver gave, or passes on what it said.
    #[expect(
        clippy::too_many_arguments,
        reason = "the second half of one function, cut where the lock was dropped"
    )]
    fn settle(
        &self,
        slot: &PoolSlot<D>,
        pool: u32,
        set: usize,
        shared: bool,
        got: Result<(OwnedMemory<D>, Role), AllocationError>,
        fitted: &Fitted,
        desc: &AllocationDesc,
    ) -> Result<Allocation, AllocationError> {
        let mut guard = locked(&slot.state);
        if let Some(state) = guard.as_mut() {
            state.pending -= 1;
            state.sets[set].growing &= !shared;
        }
        slot.grown.notify_all();
        let (memory, role) = got?;
        let placed = match guard.as_mut() {
            Some(state) => state.place_in_new(slot, set, memory, role, fitted, desc),
            None => Err((AllocationError::ForeignPool, Some(memory))),
        };
        // The generation is read before a reset can change it.
        let placed = placed.map(|record| self.token(pool, record, slot));
        drop(guard);
        match placed {
            Ok(token) => Ok(token),
            Err((error, memory)) => {
                if let Some(memory) = memory {
                    self.heaps.free(&self.device, memory);
                }
                Err(error)
            }
        }
    }

    /// Takes in memory that was made together with a resource, for that resource alone.
    pub(super) fn adopt(
        &self,
        pool: u32,
        memory: OwnedMemory<D>,
        desc: &AllocationDesc,
    ) -> Result<Allocation, AllocationError> {
        let slot = self.pools.get(pool).ok_or(AllocationError::ForeignPool)?;
        let fitted = {
            let mut guard = locked(&slot.state);
            let state = guard.as_mut().ok_or(AllocationError::ForeignPool)?;
            let mut fitted = self.fit(state, 0, desc)?;
            state.pending += 1;
            // The memory is exactly as large as the resource, so nothing is rounded.
            fitted.request.size = memory.size();
            fitted.sizes.occupied = memory.size();
            fitted
        };
        self.settle(slot, pool, 0, false, Ok((memory, Role::Tied)), &fitted, desc)
    }

    fn token(&self, pool: u32, record: u32, slot: &PoolSlot<D>) -> Allocation {
        let generation = slot.records.get(record).map_or(0, |record| record.generation());
        Allocation { allocator: self.id, pool, record, generation }
    }

    /// Takes memory back. What stood in it must no longer be in use by the device.
    ///
    /// # Errors
    ///
    /// [`Foreign`] when the token is from another allocator; it comes back with the error.
    pub fn free(&self, allocation: Allocation) -> Result<(), Foreign> {
        if allocation.allocator != self.id {
            return Err(Foreign(allocation));
        }
        let Some(slot) = self.pools.get(allocation.pool) else { return Err(Foreign(allocation)) };
        let mut guard = locked(&slot.state);
        let Some(state) = guard.as_mut() else { return Ok(()) };
        if slot.records.get(allocation.record).map(|record| record.generation())
            != Some(allocation.generation)
        {
            // The pool was reset: the memory is free already.
            return Ok(());
        }
        let Freed { memory, more } = state.free(slot, allocation.record);
        drop(guard);
        if let Some(memory) = memory {
            self.heaps.free(&self.device, memory);
            if more {
                self.release_from(slot, PoolState::take_unwanted);
            }
        }
        Ok(())
    }

    /// What serving a request would do now: use what is there, or ask the driver for how much.
    ///
    /// Between the answer and the request, other threads may change both. A request that is refused gives
    /// empty blocks back and tries once more; the answer does not count on the room that this makes.
    ///
    /// # Errors
    ///
    /// What [`allocate`](Self::allocate) would be refused with by the allocator's own rules; what the
    /// driver would say, only asking it tells.
    pub fn would_grow(&self, desc: &AllocationDesc) -> Result<Forecast, AllocationError> {
        let mut first = None;
        for memory_type in self.ranking(desc)?.types(desc.requirements.memory_types) {
            match self.forecast(self.default_pool_for(memory_type, desc), 0, desc) {
                Err(error) if error.falls_through() => first = first.or(Some(error)),
                result => return result,
            }
        }
        Err(first.unwrap_or_else(|| no_memory_type(desc)))
    }

    fn forecast(&self, pool: u32, set: usize, desc: &AllocationDesc) -> Result<Forecast, AllocationError> {
        let slot = self.pools.get(pool).ok_or(AllocationError::ForeignPool)?;
        let guard = locked(&slot.state);
        let state = guard.as_ref().ok_or(AllocationError::ForeignPool)?;
        let fitted = self.fit(state, set, desc)?;
        let BlockSet { memory_type, heap, .. } = state.sets[set];
        if !fitted.tied && state.sets[set].would_place(&fitted.request, fitted.own_memory, fitted.block_size)
        {
            return Ok(Forecast::Fits { memory_type });
        }
        if desc.growth == Growth::Forbidden {
            let (free, largest_free) = state.sets[set].room();
            let requested = fitted.sizes.requested;
            return Err(AllocationError::WouldGrow { requested, free, largest_free });
        }
        let plan = state.plan(set, &fitted, desc, self.heaps.heap_size(heap))?;
        let wish = stricter(state.rules.budget, desc.budget);
        drop(guard);

        let mut refused = AllocationError::ZeroSize;
        for (bytes, _) in plan.candidates(self.heaps.room_for_block(&self.device, heap), &fitted) {
            // A charge that is dropped is refunded.
            match self.heaps.charge(&self.device, memory_type, bytes, wish) {
                Ok(_) => return Ok(Forecast::Grows { memory_type, heap, bytes }),
                Err(error) if error.falls_through() => refused = error,
                Err(error) => return Err(error),
            }
        }
        Err(refused)
    }

    /// Says that a frame is over: the clock by which empty blocks are given back. Cheap where there are
    /// none.
    ///
    /// Gives at most one block back, so that no frame pays for a whole level's memory; the others go in
    /// the frames after it. [`trim`](Self::trim) gives all back at once.
    pub fn end_frame(&self) {
        let mut unwanted = None;
        for slot in self.slots() {
            let mut guard = locked(&slot.state);
            let Some(state) = guard.as_mut() else { continue };
            state.end_frame();
            if unwanted.is_none() && state.has_empty_blocks() {
                unwanted = state.take_unwanted();
                state.store_counters(slot);
            }
        }
        if let Some(memory) = unwanted {
            self.heaps.free(&self.device, memory);
        }
    }

    /// Gives all empty blocks back to the driver, except those that pools were asked to keep at least.
    /// For level changes and low-memory warnings. True when there was one.
    pub fn trim(&self) -> bool {
        self.release_empty(None)
    }

    /// Gives back all empty blocks of one heap, or of all. True when there was one.
    fn release_empty(&self, heap: Option<HeapIndex>) -> bool {
        let mut any = false;
        for slot in self.slots() {
            let of_heap = |state: &PoolState<D>| {
                state.sets.iter().any(|set| set.empty_blocks != 0 && heap.is_none_or(|heap| set.heap == heap))
            };
            if locked(&slot.state).as_ref().is_some_and(of_heap) {
                any |= self.release_from(slot, |state| state.take_empty(heap, |_, _| true));
            }
        }
        any
    }

    /// Gives to the driver what `take` takes out, one by one, the lock dropped for each.
    fn release_from(
        &self,
        slot: &PoolSlot<D>,
        take: impl Fn(&mut PoolState<D>) -> Option<OwnedMemory<D>>,
    ) -> bool {
        let mut any = false;
        loop {
            let mut guard = locked(&slot.state);
            let Some(state) = guard.as_mut() else { return any };
            let memory = take(state);
            state.store_counters(slot);
            drop(guard);
            let Some(memory) = memory else { return any };
            self.heaps.free(&self.device, memory);
            any = true;
        }
    }

    /// All pool slots that exist, default ones first.
    pub(super) fn slots(&self) -> impl Iterator<Item = &PoolSlot<D>> {
        let count = self.slot_count.load(Ordering::Acquire);
        (0..count).filter_map(|index| self.pools.get(index))
    }

    /// The number of pools in which memory of the device's types is allocated by intent.
    pub(super) fn default_pool_count(&self) -> u32 {
        self.device.properties().memory_types.len() as u32 * POOLS_PER_TYPE
    }

    /// Makes a custom pool, with the blocks that it begins with.
    ///
    /// # Errors
    ///
    /// [`CreatePoolError`]; nothing has changed.
    pub fn create_pool(&self, desc: PoolDesc) -> Result<Pool, CreatePoolError> {
        let rules = self.check_pool(&desc)?;
        let properties = self.device.properties();
        let sets = desc.memory_types.iter().filter_map(|&memory_type| {
            let heap = properties.memory_type(memory_type)?.heap;
            Some(BlockSet::new(memory_type, heap, desc.algorithm))
        });
        let mut state = PoolState::new(rules, sets.collect());

        let first_type = desc.memory_types[0];
        let block_size = match desc.sizing {
            BlockSizing::Fixed(size) => size,
            BlockSizing::Growing(sizes) => sizes.next(0, self.heaps.heap_size(state.sets[0].heap)),
        };
        let mut blocks = Vec::new();
        for _ in 0..desc.min_blocks {
            match self.heaps.allocate(&self.device, first_type, block_size, desc.budget) {
                Ok(memory) => blocks.push(memory),
                Err(error) => {
                    blocks.into_iter().for_each(|memory| self.heaps.free(&self.device, memory));
                    return Err(CreatePoolError::FirstBlocks(error));
                }
            }
        }
        let vacant = locked(&self.vacant_slots).pop();
        let index = vacant.unwrap_or_else(|| self.slot_count.fetch_add(1, Ordering::AcqRel));
        let Some(slot) = self.pools.get_or_make(index) else {
            blocks.into_iter().for_each(|memory| self.heaps.free(&self.device, memory));
            let limit = AllocationError::TooManyAllocations { limit: index };
            return Err(CreatePoolError::FirstBlocks(limit));
        };
        blocks.into_iter().for_each(|memory| state.add_empty(slot, memory));
        *locked(&slot.state) = Some(state);
        Ok(Pool { allocator: self.id, index })
    }

    fn check_pool(&self, desc: &PoolDesc) -> Result<Rules, CreatePoolError> {
        let properties = self.device.properties();
        let count = desc.memory_types.len();
        let usable = |&index: &MemoryTypeIndex| {
            properties.memory_type(index).is_some() && self.desc.memory_types.contains(index)
        };
        let exist = desc.memory_types.iter().all(usable);
        if count == 0 || count > MAX_POOL_TYPES || !exist {
            return Err(CreatePoolError::MemoryTypes { count });
        }
        let limit = properties.limits.max_allocation_size.min(MAX_SIZE);
        match desc.sizing {
            BlockSizing::Fixed(size) if size == 0 || size > limit => {
                return Err(CreatePoolError::BlockSize { size });
            }
            BlockSizing::Growing(sizes) if !sizes.is_valid() => {
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
            sizing: desc.sizing,
            min_blocks: desc.min_blocks,
            max_blocks: desc.max_blocks,
            alignment: desc.alignment,
            granularity: if desc.ignore_granularity { Alignment::ONE } else { granularity },
            retention: desc.retention,
            budget: desc.budget,
            name: desc.name.clone(),
        })
    }

    /// Frees everything in a pool at once; its empty blocks are given back by its own rules.
    ///
    /// The tokens of what was in it stand for nothing any more; giving them to [`free`](Self::free) later
    /// is allowed and does nothing.
    ///
    /// # Errors
    ///
    /// [`AllocationError::ForeignPool`] when the pool is from another allocator.
    pub fn reset_pool(&self, pool: &Pool) -> Result<(), AllocationError> {
        let slot = self.pools.get(pool.index).filter(|_| pool.allocator == self.id);
        let slot = slot.ok_or(AllocationError::ForeignPool)?;
        let _alone = slot.resets.write().unwrap_or_else(PoisonError::into_inner);
        let mut guard = locked(&slot.state);
        let memory = guard.as_mut().ok_or(AllocationError::ForeignPool)?.reset(slot);
        drop(guard);
        memory.into_iter().for_each(|memory| self.heaps.free(&self.device, memory));
        Ok(())
    }

    /// Destroys a pool and gives its blocks back.
    ///
    /// # Errors
    ///
    /// [`DestroyPoolError`] when allocations are live in it or it is from another allocator. It comes back
    /// with the error.
    pub fn destroy_pool(&self, pool: Pool) -> Result<(), DestroyPoolError> {
        if pool.allocator != self.id {
            return Err(DestroyPoolError::Foreign(pool));
        }
        let Some(slot) = self.pools.get(pool.index) else { return Err(DestroyPoolError::Foreign(pool)) };
        let mut guard = locked(&slot.state);
        let allocations = guard.as_ref().map_or(0, |state| state.statistics().allocations);
        if allocations != 0 {
            return Err(DestroyPoolError::InUse { pool, allocations });
        }
        let state = guard.take();
        slot.counters.iter().for_each(|counters| counters.store(&Statistics::default()));
        drop(guard);
        state.into_iter().for_each(|state| self.give_back(state));
        locked(&self.vacant_slots).push(pool.index);
        Ok(())
    }

    /// Gives everything that a pool had to the driver.
    fn give_back(&self, state: PoolState<D>) {
        for set in state.sets {
            for memory in set.into_memory() {
                self.heaps.free(&self.device, memory);
            }
        }
    }

    /// What is in use in all pools, from counters: no lock is taken.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.slots().flat_map(|slot| &slot.counters).map(|counters| counters.load()).sum()
    }

    /// All memory objects that the allocator has now, in no particular order. O(blocks), locking one pool
    /// after the other.
    #[must_use]
    pub fn blocks(&self) -> Vec<BlockInfo<D>> {
        let mut blocks = Vec::new();
        for (index, slot) in self.slots().enumerate() {
            let guard = locked(&slot.state);
            let Some(state) = guard.as_ref() else { continue };
            for set in &state.sets {
                blocks.extend(set.blocks().map(|(_, block)| BlockInfo {
                    memory: block.memory.handle(),
                    memory_type: set.memory_type,
                    heap: set.heap,
                    pool: state.rules.name.clone().unwrap_or(self.default_pool_name(index as u32)),
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
            let guard = locked(&slot.state);
            let Some(state) = guard.as_ref() else { continue };
            for (i, set) in state.sets.iter().enumerate() {
                detailed[set.memory_type.get()].add(&state.detailed(i));
            }
        }
        detailed
    }

    /// What is known of each heap, with the driver's figures as they were told last.
    #[must_use]
    pub fn heap_reports(&self) -> Vec<HeapReport> {
        (0..self.heaps.count()).map(|i| self.heaps.report(HeapIndex(i as u8))).collect()
    }

    /// Asks the driver for its budgets now. It is asked by itself now and then; some drivers take
    /// milliseconds to answer.
    pub fn refresh_budgets(&self) {
        self.heaps.refresh(&self.device);
    }

    /// Which calls were made to the driver so far.
    #[must_use]
    pub fn device_calls(&self) -> DeviceCalls {
        self.heaps.calls()
    }

    /// For tests: walks everything and panics unless every structure agrees with every other.
    ///
    /// # Panics
    ///
    /// When it finds a mistake of this crate.
    pub fn check_invariants(&self) {
        let mut bytes = 0;
        for slot in self.slots() {
            let guard: MutexGuard<'_, _> = locked(&slot.state);
            if let Some(state) = guard.as_ref() {
                state.check_invariants(slot);
                bytes += state.statistics().block_bytes;
            }
        }
        let reserved: u64 = self.heap_reports().iter().map(|report| report.reserved).sum();
        assert_eq!(bytes, reserved, "what the gate let in is in the pools");
    }
}

impl<D: Device> Drop for Allocator<D> {
    fn drop(&mut self) {
        report_leaks(self);
        let slots: Vec<_> = self.slots().map(|slot| locked(&slot.state).take()).collect();
        slots.into_iter().flatten().for_each(|state| self.give_back(state));
    }
}

/// The door: past it, no sum of sizes and offsets can overflow.
fn check_size(desc: &AllocationDesc) -> Result<(), AllocationError> {
    match desc.requirements.size {
        0 => Err(AllocationError::ZeroSize),
        size if size > MAX_SIZE => Err(AllocationError::TooLarge { size, limit: MAX_SIZE }),
        _ => Ok(()),
    }
}

pub(super) fn no_memory_type(desc: &AllocationDesc) -> AllocationError {
    AllocationError::NoMemoryType { allowed: desc.requirements.memory_types, intent: desc.intent }
}

fn stricter(a: BudgetWish, b: BudgetWish) -> BudgetWish {
    if a == BudgetWish::Within { a } else { b }
}
