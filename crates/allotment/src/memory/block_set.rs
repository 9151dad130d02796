//! The memory objects of one memory type in one pool, and the ranges handed out of them.
//!
//! Knows nothing of locks, drivers or budgets: memory comes in as an argument and goes out as a result.

use allotment_suballoc::{
    Algorithm, Alignment, AllocateError, DetailedStatistics as RangeStatistics, Handle, RegionKind, Request,
    SizeRange, Strategy, VirtualBlock,
};

use super::quick_lists::{LARGEST_WAITING, QuickLists};
use super::statistics::{DetailedStatistics, Statistics};
use crate::device::{Device, MemoryHeapIndex, MemoryTypeIndex, OwnedMemory, Priority};

/// What a memory object is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Many allocations share it.
    Shared,
    /// Made to measure for one large allocation; when that is gone, another of about the same size may
    /// have it.
    Own,
    /// Made together with one resource; goes with it.
    Tied,
}

/// One memory object. `T` in its ranges is the index of the allocation's record.
#[derive(Debug)]
pub(super) struct Block<D: Device> {
    pub(super) memory: OwnedMemory<D>,
    pub(super) ranges: VirtualBlock<u32>,
    pub(super) role: Role,
    /// Allocations that are live in it. Those whose ranges wait in the quick lists are not.
    live: u32,
    /// The tick since which none is. Invariant: `Some` exactly where `live` is 0.
    empty_since: Option<u64>,
    /// Nothing new is placed in it, as it is being emptied.
    closed: Option<EmptiedBlocks>,
}

impl<D: Device> Block<D> {
    /// True when no allocation is live in it.
    pub(super) fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Allocations that are live in it.
    pub(super) fn live(&self) -> u32 {
        self.live
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.is_some()
    }
}

/// What becomes of a block that was emptied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EmptiedBlocks {
    /// The block is freed with the last allocation in it, unless its pool must keep it.
    #[default]
    Free,
    /// The pool's [`EmptyBlockPolicy`](super::EmptyBlockPolicy) decides, as for any other empty block: for an
    /// application that defragments all the time and wants no frame to wait for the driver.
    KeepByPolicy,
}

/// An empty memory object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Idle {
    pub(super) size: u64,
    /// Ticks since it became empty.
    pub(super) age: u64,
    pub(super) role: Role,
}

/// Which spare memory objects serve a request that shall have one of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spare {
    /// Frames shall not wait for the driver, whatever lies idle.
    pub(super) in_frames: bool,
    /// Those that the device was told this of, where it takes no other priority later.
    pub(super) priority: Option<Priority>,
}

/// Where an allocation stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    pub(super) block: u32,
    pub(super) handle: Handle,
    pub(super) offset: u64,
}

/// How many bytes an allocation asked for, and how many it takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) requested: u64,
    pub(super) occupied: u64,
}

/// A spare memory object may be larger than what it is reused for by this part of the size.
const SPARE_WASTE_DIVISOR: u64 = 8;

/// A spare memory object becomes a shared block up to so many times the size that the next block would
/// have. Larger ones stay spare: their next owner would have to get memory of that size anew.
const SHARED_SPARE_FACTOR: u64 = 2;

/// Requests up to this take the first block that has room, the fullest first. Larger ones, for which a
/// search of all blocks is little beside what is done with the memory, take the block where they fit most
/// closely: half a percent to a percent less memory at the peaks of the recorded training traces.
const FIRST_FIT: u64 = 256 << 10;

/// Free ranges of a block that are searched for the closest fit while others wait for the lock: less than a microsecond.
const FEW: u32 = 256;

/// Blocks that are tried then when the one that was planned has no room any more.
const TRIED: u32 = 16;

/// What a search for room reads of a shared block, side by side with the others'.
#[derive(Clone, Copy, Debug)]
struct Standing {
    block: u32,
    free: u64,
    /// No request for more finds room; for less, perhaps.
    largest_free_at_most: u64,
}

impl Standing {
    fn of(block: u32, ranges: &VirtualBlock<u32>) -> Self {
        let free = ranges.statistics().free;
        Self { block, free, largest_free_at_most: ranges.largest_free_at_most() }
    }
}

#[derive(Debug)]
pub(super) struct BlockSet<D: Device> {
    pub(super) memory_type: MemoryTypeIndex,
    pub(super) heap: MemoryHeapIndex,
    /// The non-coherent atom where the memory is mapped and not coherent, else 1.
    pub(super) atom: Alignment,
    algorithm: Algorithm,
    /// By index; an index is never used for another block while a spot names it.
    blocks: Vec<Option<Block<D>>>,
    vacant: Vec<u32>,
    /// Shared blocks that are not closed, the fullest first or nearly so: each operation moves the block that it
    /// changed by one place at most.
    order: Vec<Standing>,
    /// Blocks that are being emptied, shared ones and others.
    closed: Vec<u32>,
    /// Empty blocks of [`Role::Own`].
    spare: Vec<u32>,
    /// Freed ranges that wait for a request of their size.
    pub(super) quick: QuickLists,
    pub(super) statistics: Statistics,
    pub(super) empty_blocks: u32,
    /// Bytes of these.
    pub(super) empty_bytes: u64,
    /// A thread is getting a shared block from the driver; others wait for it rather than do the same.
    pub(super) growing: bool,
}

/// The ranges of memory of a size that passed the door.
fn new_ranges(size: u64, algorithm: Algorithm) -> VirtualBlock<u32> {
    // Its handles stay in this set's spots.
    match VirtualBlock::unnumbered(size, algorithm) {
        Ok(ranges) => ranges,
        Err(error) => unreachable!("the driver was asked for memory of a size that nobody wants: {error}"),
    }
}

impl<D: Device> BlockSet<D> {
    pub(super) fn new(
        memory_type: MemoryTypeIndex,
        heap: MemoryHeapIndex,
        atom: Alignment,
        algorithm: Algorithm,
    ) -> Self {
        Self {
            memory_type,
            heap,
            atom,
            algorithm,
            blocks: Vec::new(),
            vacant: Vec::new(),
            order: Vec::new(),
            closed: Vec::new(),
            spare: Vec::new(),
            quick: QuickLists::default(),
            statistics: Statistics::default(),
            empty_blocks: 0,
            empty_bytes: 0,
            growing: false,
        }
    }

    pub(super) fn block(&self, index: u32) -> Option<&Block<D>> {
        self.blocks.get(index as usize)?.as_ref()
    }

    /// All memory objects with their indices.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (u32, &Block<D>)> {
        self.blocks.iter().enumerate().filter_map(|(i, block)| Some((i as u32, block.as_ref()?)))
    }

    pub(super) fn count(&self) -> u32 {
        self.statistics.blocks + self.statistics.dedicated
    }

    /// The spare memory object that fits `size` best, unless too much of it would lie idle: an eighth of the
    /// size, or, where having none at all would make a frame wait for the driver, as much as the size.
    fn best_spare(&self, size: u64, spare: Spare) -> Option<u32> {
        let waste = if spare.in_frames { size } else { size / SPARE_WASTE_DIVISOR };
        let fitting = self.spares(spare.priority).filter_map(|index| {
            let room = self.block(index)?.memory.size();
            (room >= size && room - size <= waste).then_some((room, index))
        });
        fitting.min().map(|(_, index)| index)
    }

    /// Spare memory objects, of this priority where it is given.
    fn spares(&self, priority: Option<Priority>) -> impl Iterator<Item = u32> + '_ {
        let alike = move |memory: &OwnedMemory<D>| priority.is_none_or(|only| only == memory.priority());
        let of = move |&index: &u32| self.block(index).is_some_and(|block| alike(&block.memory));
        self.spare.iter().copied().filter(of)
    }

    /// The smallest spare memory object that holds the request and may be shared, where the next block
    /// would have `block_size` bytes; of this priority where it is given.
    fn shareable_spare(&self, request: &Request, block_size: u64, priority: Option<Priority>) -> Option<u32> {
        let least = self.least_block(request.size);
        let fitting = self.spares(priority).filter_map(|index| {
            let room = self.block(index)?.memory.size();
            (room >= least && room / SHARED_SPARE_FACTOR <= block_size).then_some((room, index))
        });
        fitting.min().map(|(_, index)| index)
    }

    /// Makes a spare memory object a block that allocations share, so that none has to be got for this
    /// request. False when there is none.
    pub(super) fn share_spare(
        &mut self,
        request: &Request,
        block_size: u64,
        priority: Option<Priority>,
    ) -> bool {
        let Some(index) = self.shareable_spare(request, block_size, priority) else { return false };
        let algorithm = self.algorithm;
        let Some(block) = self.blocks.get_mut(index as usize).and_then(Option::as_mut) else {
            return false;
        };
        block.ranges = new_ranges(block.memory.size(), algorithm);
        block.role = Role::Shared;
        self.spare.retain(|&spare| spare != index);
        self.order.push(Standing::of(index, &block.ranges));
        self.statistics.dedicated -= 1;
        self.statistics.blocks += 1;
        true
    }

    /// Serves a request from what is there: with a [`Spare`], from memory of its own.
    pub(super) fn place(
        &mut self,
        request: &Request,
        spare: Option<Spare>,
        sizes: Sizes,
        record: u32,
    ) -> Result<Option<Spot>, AllocateError> {
        if let Some(spare) = spare {
            let Some(index) = self.best_spare(request.size, spare) else { return Ok(None) };
            return self.place_in(index, request, sizes, record);
        }
        if request.size > FIRST_FIT && self.algorithm == Algorithm::Tlsf {
            return match self.tightest(request) {
                Some(index) => self.place_in(index, request, sizes, record),
                None => Ok(None),
            };
        }
        for at in 0..self.order.len() {
            let Standing { block, largest_free_at_most, .. } = self.order[at];
            if request.size <= largest_free_at_most {
                if let Some(spot) = self.place_in(block, request, sizes, record)? {
                    return Ok(Some(spot));
                }
            }
        }
        Ok(None)
    }

    /// The block in which the request fits most closely.
    fn tightest(&self, request: &Request) -> Option<u32> {
        let candidates = self.order.iter().filter(|standing| request.size <= standing.largest_free_at_most);
        let fitting = candidates.filter_map(|&Standing { block, .. }| {
            Some((self.block(block)?.ranges.room_for(request)?, block))
        });
        fitting.min_by_key(|&(room, _)| room).map(|(_, index)| index)
    }

    /// Bytes of its memory object that nothing else gets while an allocation lives, from its first one on.
    pub(super) fn taken(&self, spot: &Spot, sizes: Sizes) -> u64 {
        match self.block(spot.block) {
            Some(block) if block.role != Role::Shared => block.memory.size(),
            // Of buddies, a whole cell.
            _ => self.least_block(sizes.occupied),
        }
    }

    /// Serves a request from one block.
    pub(super) fn place_in(
        &mut self,
        index: u32,
        request: &Request,
        sizes: Sizes,
        record: u32,
    ) -> Result<Option<Spot>, AllocateError> {
        let Some(block) = self.blocks.get_mut(index as usize).and_then(Option::as_mut) else {
            return Ok(None);
        };
        let padding = block.ranges.statistics().padding;
        let range = match block.ranges.allocate(*request, record) {
            Ok(range) => range,
            Err(refused) => match refused.error {
                // A ring has no upper side to give from, another block may have.
                AllocateError::NoSpace { .. } | AllocateError::RingInUse => return Ok(None),
                error => return Err(error),
            },
        };
        let padding = block.ranges.statistics().padding - padding;
        *self.lost() += padding;
        self.occupy(index, sizes);
        self.stands_anew(index);
        Ok(Some(Spot { block: index, handle: range.handle, offset: range.offset }))
    }

    /// What a block calls padding: of a buddy block it is rounding.
    fn lost(&mut self) -> &mut u64 {
        match self.algorithm {
            Algorithm::Buddy => &mut self.statistics.rounding,
            _ => &mut self.statistics.padding,
        }
    }

    /// Counts an allocation in a block. True when the block was empty.
    pub(super) fn occupy(&mut self, index: u32, sizes: Sizes) -> bool {
        self.statistics.allocations += 1;
        self.statistics.allocation_bytes += sizes.requested;
        self.statistics.rounding += sizes.occupied - sizes.requested;
        let Some(block) = self.blocks.get_mut(index as usize).and_then(Option::as_mut) else { return false };
        block.live += 1;
        let was_empty = block.empty_since.take().is_some();
        if was_empty {
            self.empty_blocks -= 1;
            self.empty_bytes -= block.memory.size();
            self.spare.retain(|&spare| spare != index);
        }
        was_empty
    }

    /// Counts an allocation in a block no more. True when the block is empty now.
    fn vacate(&mut self, index: u32, sizes: Sizes, now: u64) -> bool {
        self.statistics.allocations -= 1;
        self.statistics.allocation_bytes -= sizes.requested;
        self.statistics.rounding -= sizes.occupied - sizes.requested;
        let Some(block) = self.blocks.get_mut(index as usize).and_then(Option::as_mut) else { return false };
        block.live -= 1;
        let emptied = block.live == 0;
        if emptied {
            block.empty_since = Some(now);
            self.empty_blocks += 1;
            self.empty_bytes += block.memory.size();
            if block.role == Role::Own {
                self.spare.push(index);
            }
        }
        emptied
    }

    /// Takes an allocation back. True when its block is empty now.
    pub(super) fn free(&mut self, spot: &Spot, sizes: Sizes, now: u64) -> bool {
        self.release(spot);
        self.vacate(spot.block, sizes, now)
    }

    /// Gives a range back to the ranges of its block.
    pub(super) fn release(&mut self, spot: &Spot) {
        let Some(block) = self.blocks.get_mut(spot.block as usize).and_then(Option::as_mut) else { return };
        let padding = block.ranges.statistics().padding;
        // The handle is of a range that was handed out and not given back.
        let freed = block.ranges.free(spot.handle);
        debug_assert!(freed.is_ok(), "a range is given back once");
        let padding = padding - block.ranges.statistics().padding;
        *self.lost() -= padding;
        self.stands_anew(spot.block);
    }

    /// True where the range of an allocation may wait for a request of its size once it is freed.
    pub(super) fn may_wait(&self, spot: &Spot, sizes: Sizes) -> bool {
        self.algorithm == Algorithm::Tlsf
            && sizes.occupied <= LARGEST_WAITING
            && self.block(spot.block).is_some_and(|block| block.role == Role::Shared)
    }

    /// Lets the range of an allocation wait, in place of giving it back. False, and nothing has changed,
    /// when its list is full or its block would be empty.
    pub(super) fn park(&mut self, record: u32, spot: &Spot, sizes: Sizes) -> bool {
        let Some(block) = self.blocks.get_mut(spot.block as usize).and_then(Option::as_mut) else {
            return false;
        };
        if block.live == 1 || block.is_closed() || !self.quick.push(record, spot.offset, sizes.occupied) {
            return false;
        }
        block.live -= 1;
        self.statistics.allocations -= 1;
        self.statistics.allocation_bytes -= sizes.requested;
        self.statistics.rounding -= sizes.occupied - sizes.requested;
        true
    }

    /// Notes how a shared block stands now, and moves it by a place where it stands wrong.
    fn stands_anew(&mut self, block: u32) {
        let Some(at) = self.order.iter().position(|standing| standing.block == block) else { return };
        let Some(ranges) = self.block(block).map(|block| &block.ranges) else { return };
        let standing = Standing::of(block, ranges);
        self.order[at] = standing;
        if at > 0 && self.order[at - 1].free > standing.free {
            self.order.swap(at - 1, at);
        } else if self.order.get(at + 1).is_some_and(|next| next.free < standing.free) {
            self.order.swap(at, at + 1);
        }
    }

    /// Takes in a memory object, empty since `now`. Returns its index.
    pub(super) fn add(&mut self, memory: OwnedMemory<D>, role: Role, now: u64) -> u32 {
        let size = memory.size();
        // A block made to measure has one range, for which the simplest algorithm does.
        let algorithm = if role == Role::Shared { self.algorithm } else { Algorithm::Linear };
        let ranges = new_ranges(size, algorithm);
        // It becomes known under its index.
        let mut standing = Standing::of(0, &ranges);
        let block = Block { memory, ranges, role, live: 0, empty_since: Some(now), closed: None };
        let index = self.vacant.pop().unwrap_or_else(|| {
            self.blocks.push(None);
            // The device has at most u32::MAX memory objects.
            self.blocks.len() as u32 - 1
        });
        self.blocks[index as usize] = Some(block);
        standing.block = index;
        self.empty_blocks += 1;
        self.empty_bytes += size;
        self.statistics.block_bytes += size;
        match role {
            Role::Shared => {
                self.order.push(standing);
                self.statistics.blocks += 1;
            }
            Role::Own | Role::Tied => {
                self.statistics.dedicated += 1;
                if role == Role::Own {
                    self.spare.push(index);
                }
            }
        }
        index
    }

    /// Takes an empty memory object out. None of its ranges may wait in the quick lists.
    pub(super) fn remove(&mut self, index: u32) -> Option<OwnedMemory<D>> {
        let block = self.blocks.get_mut(index as usize)?.take_if(|block| block.ranges.is_empty())?;
        self.vacant.push(index);
        self.order.retain(|other| other.block != index);
        self.closed.retain(|&other| other != index);
        self.spare.retain(|&other| other != index);
        self.empty_blocks -= 1;
        self.empty_bytes -= block.memory.size();
        self.statistics.block_bytes -= block.memory.size();
        match block.role {
            Role::Shared => self.statistics.blocks -= 1,
            Role::Own | Role::Tied => self.statistics.dedicated -= 1,
        }
        Some(block.memory)
    }

    /// An empty memory object that would serve a request as well in another set.
    pub(super) fn lendable(&self, request: &Request, spare: Option<Spare>, in_blocks: bool) -> Option<u32> {
        spare.and_then(|spare| self.best_spare(request.size, spare)).or_else(|| {
            let least = self.least_block(request.size);
            let empty = self.blocks().filter(|(_, block)| {
                in_blocks && block.live == 0 && block.role == Role::Shared && block.memory.size() >= least
            });
            empty.min_by_key(|(_, block)| block.memory.size()).map(|(index, _)| index)
        })
    }

    /// Takes out what is [lendable](Self::lendable), and says what it was for. None of its ranges may wait in
    /// the quick lists.
    pub(super) fn lend(&mut self, index: u32) -> Option<(OwnedMemory<D>, Role)> {
        let role = self.block(index)?.role;
        Some((self.remove(index)?, role))
    }

    /// Bytes of the least block that serves a request of `size`, which stands at offset 0 of it.
    pub(super) fn least_block(&self, size: u64) -> u64 {
        match self.algorithm {
            Algorithm::Buddy => size.next_power_of_two(),
            _ => size,
        }
    }

    /// The first empty block that `unwanted` says yes to; with `keep_shared`, the first that is not shared.
    pub(super) fn find_empty(
        &self,
        now: u64,
        keep_shared: bool,
        unwanted: impl Fn(&Idle) -> bool,
    ) -> Option<u32> {
        if self.empty_blocks == 0 {
            return None;
        }
        let found = self.blocks().find(|(_, block)| {
            let kept = keep_shared && block.role == Role::Shared;
            !kept
                && block.empty_since.is_some_and(|since| {
                    let age = now.saturating_sub(since);
                    unwanted(&Idle { size: block.memory.size(), age, role: block.role })
                })
        });
        found.map(|(index, _)| index)
    }

    /// Bytes of the memory objects in which nothing is allocated, when `keep` shared blocks at least stay.
    pub(super) fn surrenderable(&self, keep: u32) -> u64 {
        let mut may_go = self.statistics.blocks.saturating_sub(keep);
        let mut bytes = 0;
        for (_, block) in self.blocks().filter(|(_, block)| block.empty_since.is_some()) {
            if block.role == Role::Shared {
                let Some(left) = may_go.checked_sub(1) else { continue };
                may_go = left;
            }
            bytes += block.memory.size();
        }
        bytes
    }

    /// All memory, for giving it back, whatever is allocated in it.
    pub(super) fn into_memory(self) -> impl Iterator<Item = OwnedMemory<D>> {
        self.blocks.into_iter().flatten().map(|block| block.memory)
    }

    /// True when [`place`](Self::place) would find room.
    pub(super) fn would_place(
        &self,
        request: &Request,
        spare: Option<Spare>,
        in_blocks: bool,
        block_size: u64,
        priority: Option<Priority>,
    ) -> bool {
        if spare.is_some_and(|spare| self.best_spare(request.size, spare).is_some()) {
            return true;
        }
        if !in_blocks {
            return false;
        }
        if spare.is_none() && self.shareable_spare(request, block_size, priority).is_some() {
            return true;
        }
        // A block that is being emptied stays where somebody needs it.
        let shared = self.order.iter().map(|standing| standing.block).chain(self.closed_shared());
        shared.into_iter().any(|index| self.block(index).is_some_and(|block| block.ranges.would_fit(request)))
    }

    fn closed_shared(&self) -> impl Iterator<Item = u32> + '_ {
        let shared = |&index: &u32| self.block(index).is_some_and(|block| block.role == Role::Shared);
        self.closed.iter().copied().filter(shared)
    }

    /// Places nothing new in a block any more. None of its ranges may wait in the quick lists. False where there is
    /// no such block, or it is closed already.
    pub(super) fn close(&mut self, index: u32, release: EmptiedBlocks) -> bool {
        let Some(block) = self.blocks.get_mut(index as usize).and_then(Option::as_mut) else { return false };
        if block.is_closed() {
            return false;
        }
        block.closed = Some(release);
        self.order.retain(|other| other.block != index);
        self.closed.push(index);
        true
    }

    /// Makes a closed block as it was before.
    pub(super) fn reopen(&mut self, index: u32) {
        let Some(block) = self.blocks.get_mut(index as usize).and_then(Option::as_mut) else { return };
        if block.closed.take().is_some() {
            self.closed.retain(|&other| other != index);
            if block.role == Role::Shared {
                self.order.push(Standing::of(index, &block.ranges));
            }
        }
    }

    /// Makes a closed block that has room for a request as it was before. False where there is none.
    pub(super) fn reopen_for(&mut self, request: &Request) -> bool {
        let fits = |index: &u32| self.block(*index).is_some_and(|block| block.ranges.would_fit(request));
        let found = self.closed_shared().find(fits);
        found.into_iter().for_each(|index| self.reopen(index));
        found.is_some()
    }

    /// What becomes of a closed block once it is empty.
    pub(super) fn release_of(&self, index: u32) -> Option<EmptiedBlocks> {
        self.block(index)?.closed
    }

    /// Serves a request from the block that was planned for it, or where that has no room any more from one of the next
    /// few, the fullest first, among those that `allowed` says yes to. Never from an empty or a closed one.
    pub(super) fn place_for_good(
        &mut self,
        planned: Option<u32>,
        allowed: impl Fn(u32) -> bool,
        request: &Request,
        sizes: Sizes,
        record: u32,
    ) -> Option<Spot> {
        let open = |index: &u32| self.order.iter().any(|standing| standing.block == *index);
        if let Some(index) = planned.filter(open).filter(|&index| self.may_take(index, &allowed)) {
            // As it was planned, unless the search for the closest fit would take long.
            let few =
                self.block(index).is_some_and(|block| block.ranges.statistics().free_range_count <= FEW);
            let strategy = if few { Strategy::LeastMemory } else { request.strategy };
            let request = request.with_strategy(strategy);
            if let Ok(Some(spot)) = self.place_in(index, &request, sizes, record) {
                return Some(spot);
            }
        }
        let mut tried = 0;
        for at in 0..self.order.len() {
            let Standing { block, largest_free_at_most, .. } = self.order[at];
            if request.size > largest_free_at_most || !self.may_take(block, &allowed) {
                continue;
            }
            if let Ok(Some(spot)) = self.place_in(block, request, sizes, record) {
                return Some(spot);
            }
            tried += 1;
            if tried == TRIED {
                break;
            }
        }
        None
    }

    fn may_take(&self, index: u32, allowed: &impl Fn(u32) -> bool) -> bool {
        allowed(index) && self.block(index).is_some_and(|block| !block.is_empty())
    }

    /// Makes the two records of two live allocations of this set name each other's ranges.
    pub(super) fn exchange(&mut self, one: (&Spot, u32), other: (&Spot, u32)) {
        for (spot, record) in [(one.0, other.1), (other.0, one.1)] {
            let block = self.blocks.get_mut(spot.block as usize).and_then(Option::as_mut);
            let data = block.and_then(|block| block.ranges.data_mut(spot.handle).ok());
            debug_assert!(data.is_some(), "both are live");
            data.into_iter().for_each(|data| *data = record);
        }
    }

    /// Free bytes of the shared blocks, and the largest range among them.
    pub(super) fn room(&self) -> (u64, u64) {
        let blocks = self.order.iter().filter_map(|standing| self.block(standing.block));
        blocks.fold((0, 0), |(free, largest), block| {
            (free + block.ranges.statistics().free, largest.max(block.ranges.largest_free()))
        })
    }

    /// Sums and extremes from a walk over all regions.
    pub(super) fn detailed(&self) -> DetailedStatistics {
        let mut detailed = DetailedStatistics {
            brief: self.statistics,
            empty_blocks: self.empty_blocks,
            ..DetailedStatistics::default()
        };
        for (_, block) in self.blocks() {
            let RangeStatistics { brief, free_size, .. } = block.ranges.detailed_statistics();
            detailed.free_ranges += brief.free_range_count;
            if let Some(SizeRange { min, max }) = free_size {
                let widened = SizeRange::including(detailed.free_size, min);
                detailed.free_size = Some(SizeRange::including(Some(widened), max));
            }
        }
        detailed
    }

    /// For tests: everything agrees with everything.
    pub(super) fn check_invariants(&self) {
        let mut counted = Statistics::default();
        let mut ranges = 0;
        let (mut empty, mut empty_bytes) = (0, 0);
        for (index, block) in self.blocks() {
            block.ranges.check_invariants();
            assert_eq!(block.ranges.size(), block.memory.size());
            assert_eq!(block.empty_since.is_some(), block.live == 0);
            let empty_here = block.live == 0;
            empty += u32::from(empty_here);
            empty_bytes += if empty_here { block.memory.size() } else { 0 };
            let standing = self.order.iter().find(|standing| standing.block == index);
            assert_eq!(standing.is_some(), block.role == Role::Shared && !block.is_closed());
            assert_eq!(self.closed.contains(&index), block.is_closed());
            assert!(!(block.is_closed() && block.is_empty()), "what is empty is not being emptied");
            if let Some(standing) = standing {
                assert_eq!(standing.free, block.ranges.statistics().free);
                assert_eq!(standing.largest_free_at_most, block.ranges.largest_free_at_most());
            }
            let spare = block.role == Role::Own && block.live == 0;
            assert_eq!(self.spare.contains(&index), spare);
            counted.block_bytes += block.memory.size();
            counted.allocations += block.live;
            ranges += block.ranges.statistics().allocation_count as usize;
            match block.role {
                Role::Shared => counted.blocks += 1,
                _ => counted.dedicated += 1,
            }
        }
        assert_eq!((empty, empty_bytes), (self.empty_blocks, self.empty_bytes));
        assert_eq!(ranges, counted.allocations as usize + self.quick.len(), "a range is live or waits");
        assert_eq!(counted.block_bytes, self.statistics.block_bytes);
        assert_eq!(counted.allocations, self.statistics.allocations);
        assert_eq!((counted.blocks, counted.dedicated), (self.statistics.blocks, self.statistics.dedicated));
    }

    /// Notes the priority that the device is about to be told of a block. The block's memory, where that is another than
    /// it was told before.
    pub(super) fn note_priority(
        &mut self,
        index: u32,
        of: impl FnOnce(Role) -> Priority,
    ) -> Option<(D::Memory, Priority)> {
        let block = self.blocks.get_mut(index as usize)?.as_mut()?;
        let priority = of(block.role);
        if block.memory.priority() == priority {
            return None;
        }
        block.memory.note_priority(priority);
        Some((block.memory.handle(), priority))
    }

    /// The records of all live allocations.
    pub(super) fn records(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.blocks().flat_map(|(index, block)| {
            block.ranges.regions().filter_map(move |region| match region.kind {
                RegionKind::Used { data, .. } => Some((index, *data)),
                _ => None,
            })
        })
    }
}
