//! The memory objects of one memory type in one pool, and the ranges allocated in them.
//!
//! This layer knows neither locks nor drivers nor budgets: memory objects come in as arguments and leave as results.
//!
//! ```text
//!   blocks        #0 shared   #1 shared   #2 dedicated   #3 shared, closed   #4 dedicated, empty
//!   order         [#1 #0]                 fullest first; the search for room goes through it
//!   closed        [#3]                    being emptied by defragmentation; nothing new is placed there
//!   empty         #4 …                    linked, the longest empty first; the dedicated ones among them are cached for a
//!                                         request of about their size
//!   quick         records of freed ranges of #0 and #1
//! ```
//!
//! | file | concern |
//! |---|---|
//! | `search.rs`, `order.rs` | which block has room for a request |
//! | `live.rs` | what is counted when an allocation begins and ends |
//! | `empty.rs` | empty blocks: reused, shared, lent or freed |
//! | `quick_lists.rs`, `aligned_lists.rs` | freed ranges that wait for the next request of about their size, or of their alignment |
//! | `history.rs` | which large sizes came back |
//! | `relocate.rs` | closed blocks and the moves out of them |

mod aligned_lists;
mod emptied_blocks;
mod empty;
mod history;
mod invariants;
mod live;
mod order;
mod quick_lists;
mod relocate;
mod search;

use core::ptr::NonNull;
use std::sync::Arc;

use allotment_suballoc::{Algorithm, Alignment, Handle, VirtualBlock};

use super::statistics::Statistics;
use super::token::{MemoryObject, MemoryObjects, RegisteredObject};
use crate::device::{Device, MemoryHandle, MemoryHeapIndex, MemoryTypeIndex, OwnedMemory, Priority};
use crate::memory::request::MOST_SHARDS;
use crate::slab::Slab;

// Beside the types below: empty blocks, and what becomes of them.
pub use self::emptied_blocks::EmptiedBlocks;
pub(super) use self::empty::{EmptyBlock, SpareCriteria};

// How long a search for room may take.
pub(super) use self::search::Effort;

// Freed ranges that wait for a request of their size, and the large sizes that came back.
pub(super) use self::aligned_lists::{is_aligned_coarsely, is_of_aligned_lists, round_up};
pub(super) use self::history::SizeHistory;
pub(super) use self::quick_lists::{DEPTH, MOST_WAITING, QuickLists};

use self::empty::{EmptyBlocks, EmptyLink};
use self::order::BlockOrder;
use self::search::BlockSummary;

/// Counts blocks that were looked at or moved, in tests: the work of a call must not grow with the blocks of a pool, or only
/// as fast as these.
#[inline]
fn note_visits(_count: usize) {
    #[cfg(test)]
    VISITS.set(VISITS.get() + _count);
}

#[cfg(test)]
thread_local! {
    static VISITS: core::cell::Cell<usize> = const { core::cell::Cell::new(0) };
}

/// The kind of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Many allocations share the block.
    Shared,
    /// The block has the size of one large allocation. Freed, it is cached (`spare`) for another of about the same
    /// size.
    Dedicated,
    /// The block is dedicated to one allocation for good and freed with it: for a resource that the API knows to be its
    /// only one, and for [`Dedicated::Always`](super::Dedicated::Always).
    DedicatedToAllocation,
}

/// One memory object. Its ranges do not say whose they are: the record of an allocation names its range.
///
/// In this order, with what each allocation and free reads and writes at the beginning: of a thousand pools that are used in turn,
/// none is in a cache.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Block<D: Device> {
    /// Live allocations. Those whose ranges wait in the quick lists do not count.
    live: u32,
    /// Since when the block is empty, and its neighbours among the empty ones. Invariant: `Some` exactly where `live` is 0.
    empty: Option<EmptyLink>,
    /// `Some` while defragmentation empties the block: nothing new is placed in it.
    closed: Option<Closing>,
    is_tlsf: bool,
    pub(super) role: Role,
    /// The bytes that the block calls padding, as the set has [counted](BlockSet::count_padding) them; with TLSF none.
    padding: u64,
    pub(super) memory: OwnedMemory<D>,
    /// What the records of its allocations name.
    object: RegisteredObject,
    pub(super) ranges: VirtualBlock<()>,
    /// The run that is going to close the block, by its key: no other run does, and none places a move in it. 0 for none.
    claim: u64,
    /// The run for which the block is kept though it may be empty, by its key, and the closing before that.
    held: Option<(u64, u64)>,
}

impl<D: Device> Block<D> {
    /// Returns true if no allocation is live in it.
    pub(super) fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Returns the index of its memory among the [`MemoryObjects`].
    pub(super) fn object(&self) -> u32 {
        self.object.index()
    }

    /// Returns the address of its first byte, if it is mapped.
    pub(super) fn address(&self) -> Option<NonNull<u8>> {
        self.object.address()
    }

    /// Returns true if the CPU could access the block, but it is not mapped.
    pub(super) fn is_unmapped(&self) -> bool {
        self.memory.is_host_visible() && self.address().is_none()
    }

    /// Returns the number of live allocations.
    pub(super) fn live(&self) -> u32 {
        self.live
    }

    /// Returns true if the block is in the order in which blocks are searched: dedicated and closed ones are not.
    #[inline]
    fn is_listed(&self) -> bool {
        self.role == Role::Shared && self.closed.is_none()
    }

    /// Returns true while defragmentation empties the block.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.is_some()
    }

    /// Returns true where another run than `run` empties the block or is going to, or an earlier one has.
    pub(super) fn is_of_another_run(&self, run: u64) -> bool {
        self.is_closed() || (self.claim != 0 && self.claim != run)
    }

    /// Returns true while the block is closed by the call of [`BlockSet::close`] that returned this number.
    pub(super) fn is_closed_by(&self, closing: u64) -> bool {
        self.closed.is_some_and(|closed| closed.number == closing)
    }

    /// Returns true while it is closed so, or [held](BlockSet::hold) since then.
    pub(super) fn is_kept_by(&self, closing: u64) -> bool {
        self.is_closed_by(closing) || self.held.is_some_and(|(_, held)| held == closing)
    }
}

/// Which blocks may serve a request, by whether they are mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UsableBlocks {
    /// Those that need no mapping are searched first.
    pub(super) mapped_first: bool,
    /// Of blocks that are not mapped, those with fewer bytes may.
    pub(super) unmapped_below: u64,
}

impl UsableBlocks {
    /// Whether the CPU accesses the allocation does not matter, or nobody knows.
    pub(super) const ALL: Self = Self { mapped_first: false, unmapped_below: u64::MAX };
    /// Those alone that are mapped, or that the CPU cannot access anyway.
    pub(super) const MAPPED: Self = Self { mapped_first: false, unmapped_below: 0 };

    pub(super) fn contain<D: Device>(self, block: &Block<D>) -> bool {
        self.unmapped_below == u64::MAX || block.memory.size() < self.unmapped_below || !block.is_unmapped()
    }
}

/// How a block was closed.
#[derive(Clone, Copy, Debug)]
struct Closing {
    /// Which one of the set's closings it is: a block may be reopened, and closed again by another run.
    number: u64,
    release: EmptiedBlocks,
    /// The run that needs the block also once it is empty, by its key; 0 for none.
    hold: u64,
}

/// The range of an allocation in its block. Where it begins, the record of the allocation tells.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockRange {
    /// The shard that has the block. Not that of the allocation's record where [shards were joined](super::JoinThreads).
    pub(super) home: u8,
    /// The block is no shared one: the allocation has it alone.
    pub(super) dedicated: bool,
    pub(super) block: u32,
    pub(super) handle: Handle,
}

/// A range, and where it begins in its block.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlacedRange {
    pub(super) range: BlockRange,
    pub(super) offset: u64,
}

/// The bytes that an allocation asked for, and those that its range has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) requested: u64,
    pub(super) occupied: u64,
}

/// The blocks of one memory type in one pool.
///
/// In this order, with what each allocation and free reads and writes at the beginning: of a thousand pools that are used in turn,
/// none is in a cache.
#[derive(Debug)]
#[repr(C)]
pub(super) struct BlockSet<D: Device> {
    /// Freed ranges that wait for a request of about their size.
    pub(super) quick: QuickLists,
    pub(super) statistics: Statistics,
    /// By index. An index is not reused while a [`BlockRange`] names it.
    blocks: Slab<Block<D>>,
    /// What sizes and offsets are multiples of: the non-coherent atom where the memory needs flushes, else 1. Says
    /// nothing about whether it needs them, since an atom may be one byte.
    pub(super) flush_multiple: Alignment,
    /// Requests up to this size, which want no dedicated memory, always share blocks.
    pub(super) always_shared: u64,
    /// Bytes of the empty blocks.
    pub(super) empty_bytes: u64,
    pub(super) empty_blocks: u32,
    /// The shard that has the blocks.
    home: u8,
    algorithm: Algorithm,
    /// Which large sizes came back.
    pub(super) history: SizeHistory,
    pub(super) memory_type: MemoryTypeIndex,
    pub(super) heap: MemoryHeapIndex,
    /// The bytes of that heap, or the part that the allocator may have.
    pub(super) heap_size: u64,
    /// The memory objects of the allocator.
    objects: Arc<MemoryObjects>,
    /// Shared blocks that are not closed, the fullest first or nearly so.
    order: BlockOrder,
    /// Blocks that defragmentation is emptying, shared and dedicated.
    closed: Vec<u32>,
    /// The number of the latest closing.
    closings: u64,
    /// The ends of the list of empty blocks.
    empty: EmptyBlocks,
    /// The pool has had more than a few allocations at once: its blocks have host memory for many.
    has_many: bool,
    /// A thread is allocating a shared block; other threads wait for it, as it usually has room for all of them.
    pub(super) growing: bool,
}

/// Ranges, used or free, for which a shared block has host memory from its beginning: 11 KiB; in a pool that ever had more than a
/// few allocations, as a thousand pools may have one each. Which of its blocks a pool
/// fills depends on when the GPU is done with others, so without this a frame might get memory from the heap long after all
/// frames were alike.
const FIRST_RANGES: usize = 64;

/// Creates the ranges of a memory object. Its size was checked when the request came in.
fn new_ranges(size: u64, algorithm: Algorithm) -> VirtualBlock<()> {
    // Unnumbered, since the handles never leave this set: no caller can present a stale one.
    match VirtualBlock::unnumbered(size, algorithm) {
        Ok(ranges) => ranges,
        Err(error) => unreachable!("a block has a valid size: {error}"),
    }
}

impl<D: Device> BlockSet<D> {
    pub(super) fn new(
        shard: u32,
        memory_type: MemoryTypeIndex,
        (heap, heap_size): (MemoryHeapIndex, u64),
        flush_multiple: Alignment,
        algorithm: Algorithm,
        objects: &Arc<MemoryObjects>,
    ) -> Self {
        debug_assert!(shard < MOST_SHARDS, "a shard fits a byte");
        Self {
            home: shard as u8,
            memory_type,
            heap,
            heap_size,
            always_shared: 0,
            flush_multiple,
            algorithm,
            objects: Arc::clone(objects),
            blocks: Slab::new(),
            order: BlockOrder::default(),
            closed: Vec::new(),
            closings: 0,
            empty: EmptyBlocks::default(),
            has_many: false,
            quick: QuickLists::default(),
            statistics: Statistics::default(),
            empty_blocks: 0,
            empty_bytes: 0,
            history: SizeHistory::default(),
            growing: false,
        }
    }

    /// Creates the set of the same memory type in another shard of the pool.
    pub(super) fn new_sibling(&self, shard: u32) -> Self {
        let (heap, objects) = ((self.heap, self.heap_size), &self.objects);
        Self::new(shard, self.memory_type, heap, self.flush_multiple, self.algorithm, objects)
    }

    /// Returns a block.
    pub(super) fn block(&self, index: u32) -> Option<&Block<D>> {
        self.blocks.get(index)
    }

    /// Returns a bound that the indices of all blocks are below.
    pub(super) fn bound(&self) -> u32 {
        self.blocks.bound()
    }

    /// Iterates over all blocks with their indices.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (u32, &Block<D>)> {
        self.blocks.iter()
    }

    /// Returns true if the block that is searched first is mapped.
    pub(super) fn is_mapped(&self) -> bool {
        let first = self.order.iter().next().and_then(|summary| self.block(summary.block));
        first.is_some_and(|block| block.address().is_some())
    }

    /// Returns the number of blocks.
    pub(super) fn count(&self) -> u32 {
        self.statistics.blocks + self.statistics.dedicated
    }

    /// Adds a memory object, empty since `now`. Returns its index.
    pub(super) fn add(&mut self, memory: OwnedMemory<D>, role: Role, now: u64) -> u32 {
        let size = memory.size();
        // A dedicated block holds one range, for which the simplest algorithm is enough.
        let algorithm = if role == Role::Shared { self.algorithm } else { Algorithm::Linear };
        let mut ranges = new_ranges(size, algorithm);
        if role == Role::Shared && self.has_many {
            ranges.reserve(FIRST_RANGES);
        }
        let summary = BlockSummary::of(self.blocks.next_index(), &ranges);
        if memory.is_host_visible() && memory.address().is_none() {
            self.objects.note_unmapped();
        }
        let object = MemoryObject { memory: memory.handle().to_raw(), size, address: memory.address() };
        let block = Block {
            memory,
            object: self.objects.register(object),
            ranges,
            role,
            is_tlsf: algorithm == Algorithm::Tlsf,
            padding: 0,
            live: 0,
            empty: None,
            closed: None,
            claim: 0,
            held: None,
        };
        let index = self.blocks.insert(block);
        // Until the request is placed in it.
        self.note_empty(index, now);
        self.statistics.block_bytes += size;
        match role {
            Role::Shared => {
                // An empty block belongs behind all that are in use.
                self.order.push(summary);
                self.statistics.blocks += 1;
            }
            Role::Dedicated | Role::DedicatedToAllocation => self.statistics.dedicated += 1,
        }
        index
    }

    /// Removes an empty block and returns its memory. None of its ranges may wait in the quick lists.
    pub(super) fn remove(&mut self, index: u32) -> Option<OwnedMemory<D>> {
        let memory = self.remove_unordered(index)?;
        self.order.remove(index);
        Some(memory)
    }

    /// Does what [`remove`](Self::remove) does, but for the order of search: [`BlockOrder::remove_all`] must follow.
    fn remove_unordered(&mut self, index: u32) -> Option<OwnedMemory<D>> {
        // Not `live == 0`: a range that waits in a quick list is still allocated in the block.
        self.block(index).filter(|block| block.ranges.is_empty())?;
        self.note_in_use(index);
        let mut block = self.blocks.remove(index)?;
        block.memory.note_address(block.object.address());
        debug_assert_eq!(block.live, 0, "a live allocation has a range");
        if block.is_closed() {
            self.closed.retain(|&other| other != index);
        }
        self.statistics.block_bytes -= block.memory.size();
        match block.role {
            Role::Shared => self.statistics.blocks -= 1,
            Role::Dedicated | Role::DedicatedToAllocation => self.statistics.dedicated -= 1,
        }
        Some(block.memory)
    }

    /// Allocates host memory for many ranges in each shared block, those to come included.
    pub(super) fn expect_many(&mut self) {
        if !core::mem::replace(&mut self.has_many, true) {
            for index in self.order.iter().map(|summary| summary.block).chain(self.closed.iter().copied()) {
                let shared = self.blocks.get_mut(index).filter(|block| block.role == Role::Shared);
                shared.into_iter().for_each(|block| block.ranges.reserve(FIRST_RANGES));
            }
        }
    }

    /// Frees host memory that the set has for more blocks than there are, and its blocks for more ranges.
    pub(super) fn shrink(&mut self) {
        drop(self.blocks.shrink());
        for index in self.order.iter().map(|summary| summary.block) {
            // Most are as they were, and a look is enough.
            if let Some(block) =
                self.blocks.get_mut(index).filter(|block| block.ranges.is_far_below_its_peak())
            {
                block.ranges.shrink_to_fit();
                if self.has_many {
                    block.ranges.reserve(FIRST_RANGES);
                }
            }
        }
        self.order.shrink_to_fit();
        self.closed.shrink_to_fit();
        self.quick.shrink();
    }

    /// Returns all memory objects, whatever is allocated in them, to be freed.
    pub(super) fn into_memory(self) -> impl Iterator<Item = OwnedMemory<D>> {
        self.objects.remove_idle(self.heap.get(), self.empty_blocks);
        self.blocks.into_values().map(|block| block.memory)
    }

    /// Notes the priority of a block. Returns its memory and the priority if that has changed; the caller then passes
    /// it to the device.
    pub(super) fn note_priority(
        &mut self,
        index: u32,
        of: impl FnOnce(Role) -> Priority,
    ) -> Option<(D::Memory, Priority)> {
        let block = self.blocks.get_mut(index)?;
        let priority = of(block.role);
        if block.memory.priority() == priority {
            return None;
        }
        block.memory.note_priority(priority);
        Some((block.memory.handle(), priority))
    }
}

#[cfg(test)]
#[cfg(feature = "simulated")]
mod tests;
