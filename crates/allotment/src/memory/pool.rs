//! Pools: a lock, block sets by memory type, the records of what is allocated, and their rules.
//!
//! A default pool serves one memory type for one lifetime and one side of the granularity; a custom pool
//! serves what its user wants. They are the same thing with other rules.

use std::sync::{Condvar, Mutex, Once, RwLock};

use allotment_suballoc::{Algorithm, Alignment, AllocateError, Request, Side, Strategy};

use super::block_set::{BlockSet, Idle, Role, Sizes, Spare, Spot};
use super::empty_blocks::{Clock, EmptyBlockPolicy};
use super::growth::BlockSizes;
use super::maintenance::{Flow, Watermark};
use super::record::{RawPlace, Record};
use super::statistics::{Counters, DetailedStatistics, Statistics};
use super::time::Moment;
use super::{AllocationDesc, AllocationError, BudgetPolicy, Dedicated, Movability, Name, ShortName};
use crate::device::{
    DedicatedNeed, Device, MemoryHandle, MemoryHeapIndex, MemoryTypeIndex, OwnedMemory, Priority,
    PrioritySupport, ResourceKind,
};
use crate::sync::locked;
use crate::table::AppendTable;

/// The most memory types that one pool can take from.
pub const MAX_POOL_TYPES: usize = 4;

/// Names a custom pool. Neither cloned nor copied; destroying the pool takes it.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a pool that is dropped can be neither used nor destroyed"]
pub struct Pool {
    pub(super) allocator: u32,
    pub(super) index: u32,
}

/// How large the blocks of a pool are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockSize {
    /// As large as what is in use suggests; what is large for a block gets memory of its own.
    Growing(BlockSizes),
    /// All of so many bytes; nothing gets memory of its own.
    Fixed(u64),
}

/// A custom pool that is wanted.
///
/// ```
/// use allotment::device::MemoryTypeIndex;
/// use allotment::memory::BlockSize;
/// use allotment::{Algorithm, PoolDesc};
///
/// let mut desc = PoolDesc::new([MemoryTypeIndex(1)]);
/// desc.algorithm = Algorithm::Linear;
/// desc.sizing = Some(BlockSize::Fixed(1 << 20));
/// desc.max_blocks = 1;
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PoolDesc {
    /// Where its blocks come from, in the order in which they are tried; one to four.
    pub memory_types: Vec<MemoryTypeIndex>,
    /// How it finds room in its blocks.
    pub algorithm: Algorithm,
    /// How large its blocks are; `None` for growing as the allocator's own pools do
    /// ([`AllocatorDesc::block_sizes`](super::AllocatorDesc::block_sizes)).
    pub sizing: Option<BlockSize>,
    /// Blocks of the first memory type that it begins with and never goes below.
    pub min_blocks: u32,
    /// Memory objects that it may have in all.
    pub max_blocks: u32,
    /// What every place in it is a multiple of.
    pub alignment: Alignment,
    /// Do not keep linear and optimal resources apart: the user knows that only one of them comes here.
    pub ignore_granularity: bool,
    /// When its empty blocks are given back.
    pub empty_blocks: EmptyBlockPolicy,
    /// Whether its blocks mind the heap's budget, whatever a single request says.
    pub budget: BudgetPolicy,
    /// Whether its blocks go early or late when there is too little.
    pub priority: Priority,
    /// For people.
    pub name: Option<Name>,
}

impl PoolDesc {
    /// A pool over these memory types with defaults for everything else.
    #[must_use]
    pub fn new(memory_types: impl IntoIterator<Item = MemoryTypeIndex>) -> Self {
        Self {
            memory_types: memory_types.into_iter().collect(),
            algorithm: Algorithm::Tlsf,
            sizing: None,
            min_blocks: 0,
            max_blocks: u32::MAX,
            alignment: Alignment::ONE,
            ignore_granularity: false,
            empty_blocks: EmptyBlockPolicy::default(),
            budget: BudgetPolicy::AllowOverBudget,
            priority: Priority::NORMAL,
            name: None,
        }
    }
}

/// The rules of a pool, custom or default.
#[derive(Debug)]
pub(super) struct Rules<D: Device> {
    pub(super) algorithm: Algorithm,
    pub(super) sizing: BlockSize,
    pub(super) min_blocks: u32,
    pub(super) max_blocks: u32,
    pub(super) alignment: Alignment,
    /// What optimal resources are rounded up to, so that they share no page with linear ones.
    pub(super) granularity: Alignment,
    pub(super) empty_blocks: EmptyBlockPolicy,
    pub(super) budget: BudgetPolicy,
    /// Of the blocks that allocations share.
    pub(super) priority: Priority,
    /// When the device takes priorities.
    pub(super) priorities: PrioritySupport,
    pub(super) options: Option<D::MemoryOptions>,
    /// How much room there shall be ahead of need, where somebody sees to that.
    pub(super) ahead: Option<Watermark>,
    pub(super) name: Option<Name>,
}

/// One pool, or the place for one.
/// On cache lines of its own, so that threads in different pools do not slow each other down.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct PoolSlot<D: Device> {
    pub(super) state: Mutex<Option<PoolState<D>>>,
    /// Of default pools: that the state was made.
    pub(super) made: Once,
    /// Unique while somebody touches memory by a token that may get another place; alone, while some do, or the pool is
    /// reset. Taken before `state`.
    pub(super) changes: RwLock<()>,
    /// A thread has got memory for the pool, or has not.
    pub(super) grown: Condvar,
    pub(super) records: AppendTable<Record>,
    pub(super) counters: [Counters; MAX_POOL_TYPES],
}

impl<D: Device> Default for PoolSlot<D> {
    fn default() -> Self {
        Self {
            state: Mutex::new(None),
            made: Once::new(),
            changes: RwLock::new(()),
            grown: Condvar::new(),
            records: AppendTable::new(),
            counters: Default::default(),
        }
    }
}

impl<D: Device> PoolSlot<D> {
    /// Whether the pool has memory objects, as of a moment ago.
    pub(super) fn has_memory(&self) -> bool {
        self.counters.iter().any(Counters::have_memory)
    }
}

/// What the lock of a pool guards.
#[derive(Debug)]
pub(super) struct PoolState<D: Device> {
    pub(super) rules: Rules<D>,
    pub(super) sets: Vec<BlockSet<D>>,
    /// Beside the records, by the same index; `None` where nothing is allocated.
    details: Vec<Option<Detail>>,
    /// By the same index. Invariant: empty where the detail does not say that there is one.
    labels: Vec<Label>,
    /// Records that stand for nothing. Invariant: none is spent.
    vacant: Vec<u32>,
    clock: Clock,
    /// The tick at which the quick lists were emptied last.
    emptied: u64,
    /// Memory objects that threads are getting for the pool now.
    pub(super) pending: u32,
    /// What requests take out of blocks, frame by frame.
    pub(super) flow: Flow,
    /// Until this tick nothing is given back, since somebody reserved it, for large requests too.
    pub(super) reserved_until: u64,
    /// The tick at which block growth was refused a block. It asks again in the next.
    pub(super) refused_ahead: Option<u64>,
    /// Somebody is defragmenting it.
    pub(super) defragmented: bool,
    /// Memory that was given another use a moment ago, and the priority that the device is to be told of it, by whoever
    /// has the lock now, when it is released.
    pub(super) untold: Option<(D::Memory, Priority)>,
}

/// What nobody needs in a hurry about an allocation.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct Detail {
    pub(super) set: u8,
    pub(super) spot: Spot,
    pub(super) sizes: Sizes,
    pub(super) kind: ResourceKind,
    /// It has a [`Label`].
    labelled: bool,
    /// A buffer or an image of the allocator's own stands there, which safe code may copy to and from.
    pub(super) has_resource: bool,
    /// It was freed; its range waits in the quick lists, and nothing but its spot and size means anything.
    waiting: bool,
    /// Its range may wait there.
    pub(super) may_wait: bool,
    /// What its place must be a multiple of, its pool's wishes included.
    pub(super) alignment: Alignment,
    pub(super) movability: Movability,
    pub(super) travel: Travel,
}

// A cache line. There is one for each allocation that there has been at once.
const _: () = assert!(size_of::<Option<Detail>>() == 64, "details are as large as they may be");

/// Whether an allocation is on its way to another place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Travel {
    /// It is where it is.
    #[default]
    Rests,
    /// Another place is reserved for it, or its bytes are on their way to where it is now.
    Moves,
    /// Its owner freed it while it was being moved: it stands where it does until that ends.
    Left,
}

/// What a person or a program calls an allocation. Apart from the rest, since most have none.
#[derive(Clone, Debug, Default)]
pub(super) struct Label {
    pub(super) name: Option<Name>,
    pub(super) user_data: u64,
    pub(super) category: &'static str,
}

impl Label {
    fn of(desc: &AllocationDesc) -> Self {
        Self { name: desc.name.clone(), user_data: desc.user_data, category: desc.category }
    }
}

/// What an allocation's record says beside its place, which only whoever writes the place knows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marks {
    /// Its memory was made together with its resource.
    pub(super) exclusive: bool,
    /// Only a set moves it.
    pub(super) of_a_set: bool,
    /// A pass moved it away from the resource that was bound to it.
    pub(super) moved: bool,
}

/// What the driver is to be asked for: sizes to try in turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) role: Role,
    sizes: [u64; 4],
    count: usize,
    /// Ask for memory of exactly the request's size when none of the sizes can be had.
    own_memory_at_last: bool,
}

impl Plan {
    fn exactly(role: Role, size: u64) -> Self {
        Self { role, sizes: [size, 0, 0, 0], count: 1, own_memory_at_last: false }
    }

    pub(super) fn sizes(&self) -> impl Iterator<Item = u64> + '_ {
        self.sizes[..self.count].iter().copied()
    }

    /// What to ask for in turn, and as what, where a block should have no more than `room` bytes. What
    /// has no room is passed over for a smaller one, not for none.
    pub(super) fn candidates(
        &self,
        room: u64,
        fitted: &Fitted,
    ) -> impl Iterator<Item = (u64, Role)> + use<'_> {
        let least = self.sizes().last().unwrap_or(0);
        let own = fitted.request.size;
        let at_last = (self.own_memory_at_last && own < least).then_some((own, Role::Own));
        let blocks = self.sizes().filter(move |&size| size <= room || size == least);
        blocks.map(|size| (size, self.role)).chain(at_last)
    }
}

/// Where new memory comes from, and on what terms.
#[derive(Debug)]
pub(super) struct Source<D: Device> {
    pub(super) memory_type: MemoryTypeIndex,
    pub(super) wish: BudgetPolicy,
    /// Of a block that allocations share.
    pub(super) priority: Priority,
    /// Of memory of its own.
    pub(super) own_priority: Priority,
    pub(super) options: Option<D::MemoryOptions>,
    /// Of the pool.
    pub(super) name: Option<Name>,
}

/// Memory that a thread gets for a pool while it does not hold the pool's lock.
///
/// Other threads wait for it. So its end is noted however it comes: where the device panics, as well.
#[derive(Debug)]
#[must_use = "dropped, it takes the pool's lock"]
pub(super) struct Getting<'a, D: Device> {
    slot: &'a PoolSlot<D>,
    set: usize,
    /// Threads that want a shared block of the set wait for this one.
    shared: bool,
}

impl<'a, D: Device> Getting<'a, D> {
    /// Notes that the calling thread, which has the pool's lock and lets go of it next, gets memory.
    pub(super) fn begin(slot: &'a PoolSlot<D>, state: &mut PoolState<D>, set: usize, shared: bool) -> Self {
        state.sets[set].growing |= shared;
        state.pending += 1;
        Self { slot, set, shared }
    }

    /// Notes that this is over, for the thread that has the pool's lock, and wakes those that wait. They go on when the
    /// lock is free.
    pub(super) fn end(self, state: Option<&mut PoolState<D>>) {
        self.note_end(state);
        core::mem::forget(self);
    }

    pub(super) fn slot(&self) -> &'a PoolSlot<D> {
        self.slot
    }

    pub(super) fn set(&self) -> usize {
        self.set
    }

    fn note_end(&self, state: Option<&mut PoolState<D>>) {
        if let Some(state) = state {
            state.pending -= 1;
            state.sets[self.set].growing &= !self.shared;
        }
        self.slot.grown.notify_all();
    }
}

impl<D: Device> Drop for Getting<'_, D> {
    /// The device panicked.
    fn drop(&mut self) {
        self.note_end(locked(&self.slot.state).as_mut());
    }
}

/// A request as one block set sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fitted {
    pub(super) request: Request,
    pub(super) sizes: Sizes,
    /// Bytes of the block that the set would get next.
    pub(super) block_size: u64,
    /// It shall have a memory object of its own.
    pub(super) own_memory: bool,
    /// Nobody shall ever share or inherit that.
    pub(super) tied: bool,
    /// Nor may anything else stand in it, since it is made together with its resource.
    pub(super) exclusive: bool,
    /// Of memory of its own.
    pub(super) priority: Priority,
}

impl<D: Device> PoolState<D> {
    pub(super) fn new(rules: Rules<D>, sets: Vec<BlockSet<D>>) -> Self {
        Self {
            rules,
            sets,
            details: Vec::new(),
            labels: Vec::new(),
            vacant: Vec::new(),
            clock: Clock::default(),
            emptied: 0,
            pending: 0,
            flow: Flow::default(),
            reserved_until: 0,
            refused_ahead: None,
            defragmented: false,
            untold: None,
        }
    }

    /// Rounds a request up to what the pool and its memory want.
    ///
    /// `scarce` says whether memory objects are.
    pub(super) fn fit(
        &self,
        set: usize,
        desc: &AllocationDesc,
        heap_size: u64,
        scarce: bool,
    ) -> Result<Fitted, AllocationError> {
        let needs = &desc.requirements;
        if desc.side == Side::Upper && self.rules.algorithm != Algorithm::Linear {
            return Err(AllocationError::UpperSide);
        }
        let (occupied, alignment) = self.rounded(set, desc);
        let tied = desc.dedicated == Dedicated::Always || needs.dedicated == DedicatedNeed::Required;
        let block_size = match self.rules.sizing {
            // One block less or more matters now, not the waste inside it.
            BlockSize::Growing(sizes) if scarce => sizes.largest_in(heap_size),
            _ => self.next_block_size(set, heap_size),
        };
        let own_memory = match self.rules.sizing {
            BlockSize::Fixed(_) if tied => return Err(AllocationError::DedicatedInFixedPool),
            BlockSize::Fixed(_) => false,
            BlockSize::Growing(_) if desc.dedicated == Dedicated::Never => {
                if needs.dedicated == DedicatedNeed::Required {
                    return Err(AllocationError::DedicatedRequired);
                }
                false
            }
            BlockSize::Growing(sizes) => {
                let large =
                    if scarce { occupied > block_size } else { sizes.is_own_memory(occupied, block_size) };
                tied || needs.dedicated == DedicatedNeed::Preferred || large
            }
        };
        let request = Request { size: occupied, alignment, strategy: desc.strategy, side: desc.side };
        let sizes = Sizes { requested: needs.size, occupied };
        let priority = desc.priority;
        Ok(Fitted { request, sizes, block_size, own_memory, tied, exclusive: false, priority })
    }

    /// The size and alignment of what a request gets.
    fn rounded(&self, set: usize, desc: &AllocationDesc) -> (u64, Alignment) {
        let needs = &desc.requirements;
        let unit = self.unit(set, desc.kind);
        // The size passed the door, so that rounding it up stays far below 2^64.
        (unit.align_up(needs.size), needs.alignment.max(self.rules.alignment).max(unit))
    }

    /// What the sizes of resources of a kind are rounded up to.
    pub(super) fn unit(&self, set: usize, kind: ResourceKind) -> Alignment {
        let granularity = if kind.is_optimal() { self.rules.granularity } else { Alignment::ONE };
        granularity.max(self.sets[set].atom)
    }

    pub(super) fn next_block_size(&self, set: usize, heap_size: u64) -> u64 {
        match self.rules.sizing {
            BlockSize::Fixed(size) => size,
            BlockSize::Growing(sizes) => sizes.next(self.sets[set].statistics.block_bytes, heap_size),
        }
    }

    /// Bytes of the largest block that the pool may have.
    pub(super) fn largest_block_size(&self, heap_size: u64) -> u64 {
        match self.rules.sizing {
            BlockSize::Fixed(size) => size,
            BlockSize::Growing(sizes) => sizes.largest_in(heap_size),
        }
    }

    /// What to ask the driver for, so that a request that found no room finds some.
    pub(super) fn plan(
        &self,
        set: usize,
        fitted: &Fitted,
        desc: &AllocationDesc,
        heap_size: u64,
    ) -> Result<Plan, AllocationError> {
        // What no block can hold is refused for that, however many blocks there are.
        let plan = self.plan_sizes(set, fitted, desc, heap_size)?;
        let count = self.sets.iter().map(BlockSet::count).sum::<u32>() + self.pending;
        if count >= self.rules.max_blocks {
            let (free, largest_free) = self.sets[set].room();
            let (requested, max_blocks) = (fitted.sizes.requested, self.rules.max_blocks);
            return Err(AllocationError::PoolFull {
                requested,
                max_blocks,
                free,
                largest_free,
                name: ShortName::NONE,
            });
        }
        Ok(plan)
    }

    fn plan_sizes(
        &self,
        set: usize,
        fitted: &Fitted,
        desc: &AllocationDesc,
        heap_size: u64,
    ) -> Result<Plan, AllocationError> {
        let requested = fitted.sizes.requested;
        if fitted.own_memory {
            let role = if fitted.tied { Role::Tied } else { Role::Own };
            return Ok(Plan::exactly(role, fitted.request.size));
        }
        let least = self.sets[set].least_block(fitted.request.size);
        let BlockSize::Growing(sizes) = self.rules.sizing else {
            let block_size = self.next_block_size(set, heap_size);
            if least > block_size {
                return Err(AllocationError::TooLargeForBlock {
                    requested,
                    block_size,
                    name: ShortName::NONE,
                });
            }
            return Ok(Plan::exactly(Role::Shared, block_size));
        };
        let block_size = sizes.largest_in(heap_size);
        let own_memory_at_last = desc.dedicated != Dedicated::Never;
        if least > block_size {
            if own_memory_at_last {
                return Ok(Plan::exactly(Role::Own, fitted.request.size));
            }
            return Err(AllocationError::TooLargeForBlock { requested, block_size, name: ShortName::NONE });
        }
        // What is wanted, then less and less of it, where the driver or the budget has not so much.
        let fitting = match self.rules.algorithm {
            Algorithm::Buddy => least,
            _ => least.next_multiple_of(sizes.smallest).min(block_size),
        };
        let wanted = fitted.block_size.max(fitting);
        let mut plan = Plan { role: Role::Shared, sizes: [0; 4], count: 0, own_memory_at_last };
        for shift in 0..4 {
            let size = wanted >> shift;
            if size >= least {
                plan.sizes[plan.count] = size;
                plan.count += 1;
            }
        }
        Ok(plan)
    }

    /// Where the memory comes from that a plan asks for.
    pub(super) fn source(&self, set: usize, desc: &AllocationDesc) -> Source<D> {
        let strict = self.rules.budget == BudgetPolicy::WithinBudget;
        Source {
            memory_type: self.sets[set].memory_type,
            wish: if strict { BudgetPolicy::WithinBudget } else { desc.budget },
            priority: self.rules.priority,
            own_priority: desc.priority,
            options: self.rules.options.clone(),
            name: self.rules.name.clone(),
        }
    }

    /// Where a block comes from that is got ahead of need.
    pub(super) fn source_ahead(&self, wish: BudgetPolicy) -> Source<D> {
        let memory_type = self.sets[0].memory_type;
        let Rules { priority, options, name, .. } = &self.rules;
        let (priority, options, name) = (*priority, options.clone(), name.clone());
        Source { memory_type, wish, priority, own_priority: priority, options, name }
    }

    /// The only priority that memory may have been allocated with to serve what wants `priority`; `None` where any does,
    /// since the device is told of a change, or does not care.
    fn only(&self, priority: Priority) -> Option<Priority> {
        (self.rules.priorities == PrioritySupport::WhenAllocated).then_some(priority)
    }

    /// Which spare memory objects serve a request, where it shall have one.
    fn spare_for(&self, fitted: &Fitted, in_frames: bool) -> Option<Spare> {
        fitted.own_memory.then(|| Spare { in_frames, priority: self.only(fitted.priority) })
    }

    /// Serves a request from what is there. Returns the index of its record.
    pub(super) fn place(
        &mut self,
        slot: &PoolSlot<D>,
        set: usize,
        fitted: &Fitted,
        desc: &AllocationDesc,
    ) -> Result<Option<u32>, AllocationError> {
        if fitted.tied {
            return Ok(None);
        }
        if matches!(desc.strategy, Strategy::LeastMemory | Strategy::LowestOffset) {
            // Who asks for the best place means all of them.
            self.empty_quick_lists(set);
        }
        let record = self.next_record(slot)?;
        let Fitted { request, sizes, own_memory, .. } = *fitted;
        let (spare, in_blocks) =
            (self.spare_for(fitted, self.clock.has_frames), self.takes_blocks(own_memory));
        let shared_priority = self.only(self.rules.priority);
        let blocks = &mut self.sets[set];
        let mut spot = blocks.place(&request, spare, sizes, record).map_err(of_ranges)?;
        if spot.is_none() && !own_memory && blocks.share_spare(&request, fitted.block_size, shared_priority) {
            spot = blocks.place(&request, None, sizes, record).map_err(of_ranges)?;
        }
        if spot.is_none() && own_memory && in_blocks {
            spot = blocks.place(&request, None, sizes, record).map_err(of_ranges)?;
        }
        if spot.is_none() && in_blocks && self.sets[set].quick.len() != 0 {
            // What waits for its size may make room for this one when it is joined with its neighbours.
            self.empty_quick_lists(set);
            return self.place(slot, set, fitted, desc);
        }
        if spot.is_none() && in_blocks && self.sets[set].reopen_for(&request) {
            // Rather than get a block while another is being emptied.
            return self.place(slot, set, fitted, desc);
        }
        Ok(spot.map(|spot| self.publish(slot, set, record, spot, fitted, desc)))
    }

    /// Serves an [ordinary](AllocationDesc::is_ordinary) request from a range that was freed a moment ago:
    /// the short path, which nearly all small requests of a steady program take. Returns its record and
    /// generation.
    pub(super) fn place_quickly(
        &mut self,
        slot: &PoolSlot<D>,
        set: usize,
        desc: &AllocationDesc,
    ) -> Option<(u32, u32)> {
        let (size, alignment) = self.rounded(set, desc);
        let blocks = self.sets.get_mut(set)?;
        let (record, occupied) = blocks.quick.take(size, alignment)?;
        let requested = desc.requirements.size;
        let detail = self.details.get_mut(record as usize)?.as_mut()?;
        let entry = slot.records.get(record)?;
        entry.refit(requested, desc.movability != Movability::Pinned);
        detail.sizes = Sizes { requested, occupied };
        detail.kind = desc.kind;
        (detail.alignment, detail.movability) = (alignment, desc.movability);
        (detail.waiting, detail.has_resource) = (false, false);
        detail.labelled = desc.is_labelled();
        if detail.labelled {
            self.labels[record as usize] = Label::of(desc);
        }
        let was_empty = blocks.occupy(detail.spot.block, detail.sizes);
        slot.counters[set].store_live(&blocks.statistics);
        if was_empty {
            self.clock.used(self.used());
        }
        Some((record, entry.generation()))
    }

    /// Takes an allocation back whose range may wait in the quick lists: the short path, where no block is
    /// emptied and no tick is due. `None` when it is not for this path; else its name, to be dropped after
    /// the lock.
    pub(super) fn free_quickly(
        &mut self,
        slot: &PoolSlot<D>,
        entry: &Record,
        record: u32,
    ) -> Option<Option<Name>> {
        let detail = self.details.get_mut(record as usize)?.as_mut().filter(|detail| detail.may_wait)?;
        let set = usize::from(detail.set);
        let blocks = self.sets.get_mut(set)?;
        if detail.waiting
            || detail.travel != Travel::Rests
            || entry.is_last_use()
            || self.clock.is_about_to_tick()
            || !blocks.park(record, &detail.spot, detail.sizes)
        {
            return None;
        }
        self.clock.count_free();
        detail.waiting = true;
        entry.retire();
        slot.counters[set].store_live(&blocks.statistics);
        Some(if detail.labelled { core::mem::take(&mut self.labels[record as usize]).name } else { None })
    }

    /// Gives all waiting ranges of a set back to its blocks.
    fn empty_quick_lists(&mut self, set: usize) {
        self.empty_quick_lists_by(set, usize::MAX);
    }

    /// Gives so many of them back.
    pub(super) fn empty_quick_lists_by(&mut self, set: usize, count: usize) {
        for _ in 0..count {
            let Some(record) = self.sets[set].quick.pop() else { break };
            if let Some(detail) = self.details[record as usize].take() {
                self.sets[set].release(&detail.spot);
                self.vacant.push(record);
            }
        }
    }

    /// Gives all waiting ranges back to their blocks, so that a walk over the regions tells how things
    /// are.
    pub(super) fn settle(&mut self) {
        for set in 0..self.sets.len() {
            self.empty_quick_lists(set);
        }
        self.emptied = self.clock.now;
    }

    /// Takes in new memory and serves a request from it. Where that cannot be, the memory comes back.
    pub(super) fn place_in_new(
        &mut self,
        slot: &PoolSlot<D>,
        set: usize,
        memory: OwnedMemory<D>,
        role: Role,
        fitted: &Fitted,
        desc: &AllocationDesc,
    ) -> Result<u32, (AllocationError, Option<OwnedMemory<D>>)> {
        let record = match self.next_record(slot) {
            Ok(record) => record,
            Err(error) => return Err((error, Some(memory))),
        };
        let now = self.clock.now;
        let block = self.sets[set].add(memory, role, now);
        let spot = self.sets[set].place_in(block, &fitted.request, fitted.sizes, record);
        match spot {
            Ok(Some(spot)) => Ok(self.publish(slot, set, record, spot, fitted, desc)),
            refused => {
                let memory = self.sets[set].remove(block);
                let error = match refused {
                    Err(error) => of_ranges(error),
                    // The plan made the block large enough.
                    _ => AllocationError::TooLargeForBlock {
                        requested: fitted.sizes.requested,
                        block_size: memory.as_ref().map_or(0, OwnedMemory::size),
                        name: ShortName::NONE,
                    },
                };
                Err((error, memory))
            }
        }
    }

    /// Takes in memory of the pool's first type, for whoever comes.
    pub(super) fn add_empty(&mut self, slot: &PoolSlot<D>, memory: OwnedMemory<D>, role: Role) {
        self.sets[0].add(memory, role, self.clock.now);
        slot.counters[0].store(&self.sets[0].statistics);
    }

    /// Whether a request, of memory of its own perhaps, may use the room in blocks: what was got ahead of
    /// need, or is there in frames that shall not wait, is there already; memory of its own is not.
    pub(super) fn takes_blocks(&self, own_memory: bool) -> bool {
        !own_memory || self.rules.ahead.is_some() || self.clock.has_frames || self.holds_reserve()
    }

    /// Whether somebody's reservation still holds.
    pub(super) fn holds_reserve(&self) -> bool {
        self.clock.now < self.reserved_until
    }

    /// Makes sure that nothing of the pool is given back for a while, for somebody's reservation.
    pub(super) fn hold_reserve(&mut self) {
        self.reserved_until = self.clock.now + u64::from(self.rules.empty_blocks.frames.max(1));
    }

    /// What [`lend`](Self::lend) would take out. `in_blocks` says that the request may share a block.
    pub(super) fn lendable(&self, fitted: &Fitted, in_blocks: bool) -> Option<u32> {
        if fitted.tied || !self.has_empty_blocks() {
            return None;
        }
        let in_blocks = in_blocks || self.holds_reserve();
        self.sets[0].lendable(&fitted.request, self.spare_for(fitted, true), in_blocks)
    }

    /// Takes out an empty memory object in which a request would find room, for another shard.
    pub(super) fn lend(
        &mut self,
        slot: &PoolSlot<D>,
        fitted: &Fitted,
        in_blocks: bool,
    ) -> Option<(OwnedMemory<D>, Role)> {
        let index = self.lendable(fitted, in_blocks)?;
        self.empty_quick_lists(0);
        let lent = self.sets[0].lend(index);
        self.store_counters(slot);
        lent
    }

    /// True when [`place`](Self::place) would find room.
    pub(super) fn would_place(&self, set: usize, fitted: &Fitted) -> bool {
        let Fitted { request, own_memory, block_size, tied, .. } = *fitted;
        let in_blocks = self.takes_blocks(own_memory);
        let (spare, shared) = (self.spare_for(fitted, self.clock.has_frames), self.only(self.rules.priority));
        !tied && self.sets[set].would_place(&request, spare, in_blocks, block_size, shared)
    }

    pub(super) fn next_record(&mut self, slot: &PoolSlot<D>) -> Result<u32, AllocationError> {
        if let Some(&index) = self.vacant.last() {
            return Ok(index);
        }
        loop {
            let index = self.details.len() as u32;
            let entry = slot.records.get_or_make(index);
            if !entry.ok_or(AllocationError::TooManyAllocations { limit: index })?.is_spent() {
                return Ok(index);
            }
            // By a pool that was here before: records outlive pools, as tokens do.
            self.details.push(None);
            self.labels.push(Label::default());
        }
    }

    /// Makes the allocation known under the record that [`next_record`](Self::next_record) named.
    pub(super) fn publish(
        &mut self,
        slot: &PoolSlot<D>,
        set: usize,
        record: u32,
        spot: Spot,
        fitted: &Fitted,
        desc: &AllocationDesc,
    ) -> u32 {
        let Fitted { sizes, exclusive, tied, .. } = *fitted;
        // Who wants memory of its own, whatever stands in it, does not want to share a block later.
        let stays = tied && !exclusive;
        let detail = Detail {
            set: set as u8,
            spot,
            sizes,
            kind: desc.kind,
            labelled: desc.is_labelled(),
            has_resource: false,
            waiting: false,
            may_wait: self.sets[set].may_wait(&spot, sizes),
            alignment: fitted.request.alignment,
            movability: if stays { Movability::Pinned } else { desc.movability },
            travel: Travel::Rests,
        };
        if self.vacant.pop().is_none() {
            self.details.push(None);
            self.labels.push(Label::default());
            // So that freeing never has to get host memory.
            self.vacant.reserve(self.details.len());
        }
        self.details[record as usize] = Some(detail);
        self.labels[record as usize] = Label::of(desc);
        self.write_place(slot, record, Marks { exclusive, ..Marks::default() });
        if self.rules.priorities == PrioritySupport::AnyTime {
            let shared = self.rules.priority;
            let of = |role| if role == Role::Shared { shared } else { fitted.priority };
            self.untold = self.sets[set].note_priority(spot.block, of);
        }
        self.flow.add(sizes.occupied);
        self.clock.used(self.used());
        slot.counters[set].store(&self.sets[set].statistics);
        record
    }

    /// Tells whoever reads the record where its allocation is.
    pub(super) fn write_place(&self, slot: &PoolSlot<D>, record: u32, marks: Marks) {
        let Some(detail) = self.detail(record) else { return };
        let blocks = &self.sets[usize::from(detail.set)];
        let Marks { exclusive, of_a_set, moved } = marks;
        if let (Some(entry), Some(block)) = (slot.records.get(record), blocks.block(detail.spot.block)) {
            entry.write(&RawPlace {
                memory: block.memory.handle().to_raw(),
                offset: detail.spot.offset,
                size: detail.sizes.requested,
                memory_size: block.memory.size(),
                address: block.memory.address(detail.spot.offset),
                memory_type: blocks.memory_type,
                exclusive,
                movable: detail.movability != Movability::Pinned,
                moving: false,
                arriving: false,
                of_a_set,
                moved,
            });
        }
    }

    /// Bytes of the blocks that are in use: all but the empty ones. (Of the allocations would be less by
    /// what lies between them, and a block that is needed because of that would look like surplus.)
    fn used(&self) -> u64 {
        self.sets.iter().map(|set| set.statistics.block_bytes - set.empty_bytes).sum()
    }

    fn reserved(&self) -> u64 {
        self.sets.iter().map(|set| set.statistics.block_bytes).sum()
    }

    /// Takes an allocation back. What it returns is to be dropped or given to the driver after the lock.
    pub(super) fn free(&mut self, slot: &PoolSlot<D>, record: u32) -> Freed<D> {
        let nothing = Freed { memory: None, more: false, name: None };
        let Some(entry) = self.details.get_mut(record as usize) else { return nothing };
        let Some(detail) = entry.as_mut().filter(|detail| !detail.waiting) else { return nothing };
        if let Some(entry) = slot.records.get(record) {
            entry.retire();
        }
        let (set, spot, now) = (usize::from(detail.set), detail.spot, self.clock.now);
        let sizes = detail.sizes;
        let name = core::mem::take(&mut self.labels[record as usize]).name;
        *entry = None;
        if slot.records.get(record).is_some_and(|entry| !entry.is_spent()) {
            self.vacant.push(record);
        }
        let emptied = self.sets[set].free(&spot, sizes, now);
        let ticked = self.clock.freed(&self.rules.empty_blocks, || {
            self.sets.iter().map(|set| set.statistics.block_bytes - set.empty_bytes).sum()
        });
        if ticked {
            self.ticked(1);
        }
        let tied = self.sets[set].block(spot.block).is_some_and(|block| block.role == Role::Tied);
        let emptied_for_good = emptied && self.gives_up(set, spot.block);
        let memory = if tied || emptied_for_good {
            self.sets[set].remove(spot.block)
        } else if (emptied || ticked) && self.rules.ahead.is_none() {
            self.take_unwanted()
        } else {
            None
        };
        // The empty block may be of another set.
        self.store_counters(slot);
        let more = memory.is_some() && !tied && !emptied_for_good;
        Freed { memory, more, name }
    }

    /// Whether a free should look at the time first.
    pub(super) fn looks_at_time(&mut self, record: u32) -> bool {
        let Some(Detail { set, spot, .. }) = self.detail(record) else { return false };
        let block = self.sets[usize::from(*set)].block(spot.block);
        let empties = block.is_some_and(|block| block.live() == 1);
        self.clock.is_about_to_tick() || (empties && self.clock.looks_at_emptied())
    }

    /// Lets real time pass up to `now`, where that counts.
    pub(super) fn pass_time(&mut self, now: Moment) {
        let used = self.used();
        match self.clock.pass(now, &self.rules.empty_blocks, used) {
            0 => {}
            passed => self.ticked(passed),
        }
    }

    /// What is to be done now and then.
    fn ticked(&mut self, ticks: u64) {
        // After so many without requests the busiest one is forgotten.
        (0..ticks.min(64)).for_each(|_| self.flow.tick());
        // A range that has waited for long keeps its neighbours from being joined.
        if self.clock.now - self.emptied >= SETTLE_TICKS {
            self.settle();
        }
    }

    /// How many buffers and images of the allocator's own stand here.
    pub(super) fn resources(&self) -> u32 {
        self.live().filter(|(_, detail)| detail.has_resource).count() as u32
    }

    /// Takes all allocations back. What it returns is to be given to the driver, after the lock.
    pub(super) fn reset(&mut self, slot: &PoolSlot<D>) -> Vec<OwnedMemory<D>> {
        let mut memory = Vec::new();
        for record in 0..self.details.len() as u32 {
            memory.extend(self.free(slot, record).memory);
        }
        self.settle();
        memory.extend(core::iter::from_fn(|| self.take_unwanted()));
        self.store_counters(slot);
        memory
    }

    /// Takes out an empty block that the rules do not want to keep.
    pub(super) fn take_unwanted(&mut self) -> Option<OwnedMemory<D>> {
        if self.holds_reserve() {
            return None;
        }
        let ahead = self.room_to_keep();
        let needed = self.clock.needed();
        let idle = self.reserved().saturating_sub(needed).saturating_sub(ahead);
        let empty_blocks = self.rules.empty_blocks;
        let too_much = idle > empty_blocks.idle_bytes(needed);
        // Where frames are told, what this frame used is what the next one will.
        let stale = self.stale_ticks();
        let room = if ahead == 0 { u64::MAX } else { self.room_up_to(u64::MAX) };
        // What busier times got ahead and nobody has used for long: a block that is got now would be far smaller.
        let oversized = self.ahead_block_size(ahead, u64::MAX).saturating_mul(2);
        self.take_empty(None, |&Idle { size, age, role }| {
            let old = age >= u64::from(empty_blocks.frames);
            let surplus = too_much && size <= idle && age >= stale;
            // Only shared blocks are room that is kept ahead of need.
            let spared =
                role != Role::Shared || room.saturating_sub(size) >= ahead || (old && size > oversized);
            (old || surplus) && spared
        })
    }

    /// Room that is kept ahead of need, whatever the empty-block policy says.
    pub(super) fn room_to_keep(&self) -> u64 {
        // The heap's size bounds the next block; that of the largest block bounds it more.
        self.room_wanted(u64::MAX).unwrap_or(0)
    }

    /// True when block growth has something to do for the pool.
    pub(super) fn needs_upkeep(&self, heap_size: u64) -> bool {
        let short = |wanted| {
            let asks = !self.sets[0].growing && self.refused_ahead != Some(self.clock.now);
            asks && self.room_up_to(wanted) < wanted
        };
        self.room_wanted(heap_size).is_some_and(short)
    }

    /// After how long an empty block may be surplus.
    fn stale_ticks(&self) -> u64 {
        if self.clock.has_frames { STALE_TICKS } else { 0 }
    }

    /// Takes out an empty block that nobody has used for a while, where the pool is about to get memory
    /// beyond what it needed lately.
    pub(super) fn take_stale(&mut self, wanted: u64) -> Option<OwnedMemory<D>> {
        if self.holds_reserve() || self.reserved() + wanted <= self.clock.needed() {
            return None;
        }
        let stale = self.stale_ticks();
        self.take_empty(None, |idle| idle.age >= stale)
    }

    /// Takes out an empty block, of one heap or of any, that `unwanted` says yes to, as long as
    /// enough are left.
    pub(super) fn take_empty(
        &mut self,
        heap: Option<MemoryHeapIndex>,
        unwanted: impl Fn(&Idle) -> bool,
    ) -> Option<OwnedMemory<D>> {
        let now = self.clock.now;
        for (i, set) in self.sets.iter().enumerate() {
            if heap.is_some_and(|heap| set.heap != heap) {
                continue;
            }
            let keep_shared = i == 0 && set.statistics.blocks <= self.rules.min_blocks;
            if let Some(index) = set.find_empty(now, keep_shared, &unwanted) {
                // Ranges of it may be waiting.
                self.empty_quick_lists(i);
                return self.sets[i].remove(index);
            }
        }
        None
    }

    /// Bytes of a heap that can be taken out by [`take_empty`](Self::take_empty).
    pub(super) fn empty_bytes(&self, heap: MemoryHeapIndex) -> u64 {
        let of_heap = self.sets.iter().enumerate().filter(|(_, set)| set.heap == heap);
        of_heap.map(|(i, set)| set.surrenderable(if i == 0 { self.rules.min_blocks } else { 0 })).sum()
    }

    pub(super) fn store_counters(&self, slot: &PoolSlot<D>) {
        for (set, counters) in self.sets.iter().zip(&slot.counters) {
            counters.store(&set.statistics);
        }
    }

    pub(super) fn has_empty_blocks(&self) -> bool {
        self.sets.iter().any(|set| set.empty_blocks != 0)
    }

    /// The tick of the pool's clock.
    pub(super) fn now(&self) -> u64 {
        self.clock.now
    }

    pub(super) fn end_frame(&mut self) {
        let used = self.used();
        self.clock.end_frame(&self.rules.empty_blocks, used);
        self.ticked(1);
    }

    pub(super) fn statistics(&self) -> Statistics {
        self.sets.iter().map(|set| set.statistics).sum()
    }

    /// Sums and extremes of one memory type from a walk, after [`settle`](Self::settle).
    pub(super) fn detailed(&self, set: usize) -> DetailedStatistics {
        let mut detailed = self.sets[set].detailed();
        for detail in self.live().map(|(_, detail)| detail).filter(|detail| usize::from(detail.set) == set) {
            let size =
                allotment_suballoc::SizeRange::including(detailed.allocation_size, detail.sizes.requested);
            detailed.allocation_size = Some(size);
        }
        detailed
    }

    pub(super) fn detail(&self, record: u32) -> Option<&Detail> {
        self.details.get(record as usize)?.as_ref().filter(|detail| !detail.waiting)
    }

    pub(super) fn label(&self, record: u32) -> &Label {
        &self.labels[record as usize]
    }

    /// The label of a live allocation, for changing it.
    pub(super) fn label_mut(&mut self, record: u32) -> Option<&mut Label> {
        let detail = self.details.get_mut(record as usize)?.as_mut().filter(|detail| !detail.waiting)?;
        detail.labelled = true;
        self.labels.get_mut(record as usize)
    }

    pub(super) fn detail_mut(&mut self, record: u32) -> Option<&mut Detail> {
        self.details.get_mut(record as usize)?.as_mut().filter(|detail| !detail.waiting)
    }

    /// How many records there have been at once.
    pub(super) fn records(&self) -> u32 {
        self.details.len() as u32
    }

    /// The records of all live allocations.
    pub(super) fn live(&self) -> impl Iterator<Item = (u32, &Detail)> {
        let details = self.details.iter().enumerate();
        details.filter_map(|(i, detail)| Some((i as u32, detail.as_ref().filter(|detail| !detail.waiting)?)))
    }

    /// For tests: everything agrees with everything.
    pub(super) fn check_invariants(&self, slot: &PoolSlot<D>) {
        for (i, set) in self.sets.iter().enumerate() {
            set.check_invariants();
            let of_set = || self.live().map(|(_, detail)| detail).filter(move |d| usize::from(d.set) == i);
            assert_eq!(of_set().count(), set.statistics.allocations as usize);
            let requested: u64 = of_set().map(|detail| detail.sizes.requested).sum();
            assert_eq!(requested, set.statistics.allocation_bytes);
            assert_eq!(slot.counters[i].load(), set.statistics, "the counters are up to date");
            let mut waiting = 0;
            for record in set.quick.records() {
                let detail = self.details[record as usize].as_ref().expect("what waits has a detail");
                assert!(detail.waiting && usize::from(detail.set) == i);
                waiting += detail.sizes.occupied;
            }
            let free: u64 = set.blocks().map(|(_, block)| block.ranges.statistics().free).sum();
            assert_eq!(free + waiting, set.statistics.free());
            for (block, record) in set.records() {
                let detail = self.details[record as usize].as_ref().expect("a range has a detail");
                assert_eq!(detail.spot.block, block);
                let place = slot.records.get(record).expect("a live record exists").read();
                assert_eq!(place.offset, detail.spot.offset);
                assert!(detail.waiting || place.size == detail.sizes.requested);
            }
        }
        let spent = |record| slot.records.get(record).is_none_or(Record::is_spent);
        let unused = (0..).zip(&self.details).filter(|(_, detail)| detail.is_none());
        assert_eq!(unused.filter(|&(record, _)| !spent(record)).count(), self.vacant.len());
        assert!(!self.vacant.iter().any(|&record| spent(record)), "what is spent is not used again");
    }
}

/// An empty block that was not used for so many ticks is surplus, and goes before another one is got. What
/// resources of different sizes use by turns, every frame or every second one, is not stale.
const STALE_TICKS: u64 = 3;

/// After so many ticks what waits in the quick lists is given back to its blocks.
const SETTLE_TICKS: u64 = 512;

/// What a free leaves to do without the lock.
#[derive(Debug)]
pub(super) struct Freed<D: Device> {
    /// To be given back to the driver.
    pub(super) memory: Option<OwnedMemory<D>>,
    /// There may be more of it.
    pub(super) more: bool,
    /// To be dropped.
    pub(super) name: Option<Name>,
}

/// What the ranges refuse for another reason than room. Sizes and alignments passed the door.
fn of_ranges(error: AllocateError) -> AllocationError {
    match error {
        AllocateError::OneSided { .. } => AllocationError::UpperSide,
        AllocateError::ZeroSize => AllocationError::ZeroSize,
        AllocateError::TooLarge { size } => {
            AllocationError::TooLarge { size, limit: allotment_suballoc::MAX_SIZE }
        }
        _ => AllocationError::TooManyAllocations { limit: u32::MAX },
    }
}
