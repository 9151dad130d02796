//! One change of state, as a small copyable value.

use core::fmt;

use super::codes::{
    BlockKind, DeletionQueueKind, DescriptorKind, Placement, RefusalReason, RingKind, StallKind,
};
use crate::choices::blocks::{BlockSize, EmptyBlockPolicy};
use crate::choices::{BudgetPolicy, Dedicated, ExpectedLifetime, MemoryUsage, NewBlocks};
use crate::device::{
    DedicatedNeed, MemoryHeapIndex, MemoryProperties, MemoryTypeIndex, MemoryTypeMask, QueueIndex,
    ResourceKind,
};
use allotment_suballoc::{Algorithm, Alignment, FitStrategy, StackSide};

/// Names a pool among those that exist: unique until its [`Event::PoolDestroyed`], and then used again.
///
/// The default pools are pools as well: one for each memory type, lifetime, mover and shard, and on some devices one more for
/// optimal images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId(pub u32);

/// Names a block among those that exist: unique until its [`Event::BlockFreed`], and then used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub u64);

/// The pool and the block in it, as `4:0`; an id below 2^32 alone, as those of other tools are.
impl fmt::Display for BlockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0 >> 32, self.0 as u32) {
            (0, block) => write!(f, "{block}"),
            (pool, block) => write!(f, "{pool}:{block}"),
        }
    }
}

/// Names an allocation among those that exist: unique until its [`Event::Freed`], and then used again.
///
/// A reader that keeps a table by key removes the entry when the allocation is freed, since a later one may have its
/// key:
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// use allotment::events::{AllocationKey, Event, EventBatch, SubscriptionDesc};
/// use std::collections::HashMap;
///
/// let mut events = allocator.subscribe(&SubscriptionDesc::default())?;
/// let mut live: HashMap<AllocationKey, u64> = HashMap::new();
/// let first = allocator.allocate(&Requirements::new(1000), &MemoryUsage::GpuOnly.into())?;
/// let second = allocator.allocate(&Requirements::new(500), &MemoryUsage::GpuOnly.into())?;
/// allocator.free(first)?;
///
/// let mut batch = EventBatch::new();
/// events.read(&mut batch);
/// for event in batch.events() {
///     match *event {
///         Event::Allocated(is) => drop(live.insert(is.allocation, is.requested)),
///         Event::Freed { allocation } => drop(live.remove(&allocation)),
///         _ => {}
///     }
/// }
/// assert_eq!(live.values().sum::<u64>(), 500);
/// # allocator.free(second)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AllocationKey(pub u64);

/// Names a descriptor heap, a ring or a deletion queue among those that exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub u32);

/// A text of the events: of an [`EventBatch`](super::EventBatch), or of the recording that they are in. 0 is no text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TextId(pub u32);

impl TextId {
    /// No text.
    pub const NONE: Self = Self(0);

    /// Returns true where there is no text.
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
}

/// A call stack of the events: of an [`EventBatch`](super::EventBatch), or of the recording that they are in. 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StackId(pub u32);

impl StackId {
    /// No stack.
    pub const NONE: Self = Self(0);

    /// Returns true where there is no stack.
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
}

/// An allocation as it begins. Part of [`Event::Allocated`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocated {
    /// The allocation.
    pub allocation: AllocationKey,
    /// The block that it is in.
    pub block: BlockId,
    /// Bytes from the start of the block.
    pub offset: u64,
    /// Bytes, as the program requested.
    pub requested: u64,
    /// Bytes of the block that no other allocation can have meanwhile: at least `requested`.
    pub occupied: u64,
    /// The program's own number.
    pub user_data: u64,
    /// The debug name.
    pub name: TextId,
    /// The category.
    pub category: TextId,
    /// The alignment of the offset.
    pub alignment: Alignment,
    /// What the memory is for; `None` where the event does not say.
    pub usage: Option<MemoryUsage>,
    /// The kind of resource.
    pub kind: ResourceKind,
    /// Why the allocation is where it is.
    pub placement: Placement,
    /// Another memory type suits the request better, and could not be used.
    pub second_choice: bool,
    /// Defragmentation may move the allocation.
    pub movable: bool,
}

/// A resource as it is bound to a part of an allocation. Part of [`Event::Bound`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundResource {
    /// The resource. Its key is one that no allocation has.
    pub resource: AllocationKey,
    /// The allocation whose memory it is bound to.
    pub memory: AllocationKey,
    /// Bytes from the start of that allocation.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// The debug name.
    pub name: TextId,
    /// Where the program made it, as `file:line:column`.
    pub call_site: TextId,
    /// The kind of resource.
    pub kind: ResourceKind,
    /// Its bytes are its own. Else they are those of a resource that overlaps it.
    pub active: bool,
}

/// What a request asked for, beside its size, alignment and usage. Part of [`Event::Requested`].
///
/// ```
/// use allotment::events::RequestedOptions;
///
/// let ordinary = RequestedOptions::default();
/// assert!(!ordinary.skips_quick_lists, "an event is written only for a request that differs from this");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestedOptions {
    /// Whether the program wanted dedicated memory.
    pub dedicated: Dedicated,
    /// Whether the resource wanted dedicated memory.
    pub need: DedicatedNeed,
    /// Whether the request could allocate a block.
    pub new_blocks: NewBlocks,
    /// Whether the request could take its heap over the budget.
    pub budget: BudgetPolicy,
    /// How a free range was chosen within a block.
    pub strategy: FitStrategy,
    /// From which end of a linear block.
    pub side: StackSide,
    /// The request did not look for a range that had just been freed: it named memory properties, another thread held
    /// the pool's lock, or the pool is another copy than the one that the thread uses.
    pub skips_quick_lists: bool,
    /// The memory was allocated together with its resource, or with options of the API.
    pub with_resource: bool,
    /// The properties that a memory type must have.
    pub required: MemoryProperties,
    /// The properties that a memory type should have.
    pub preferred: MemoryProperties,
    /// The properties that a memory type should not have.
    pub avoided: MemoryProperties,
    /// Of a usage that another heap can serve, too: memory was allocated for it when no other heap was left to be tried, so
    /// that its policy alone decided about the budget. Else such memory is within the budget.
    pub last_heap: bool,
}

/// What a refused request asked for. Part of [`Event::RefusedRequest`].
///
/// A request that was placed says this by where it is: its pool has the memory type, the shard and the lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedRequest {
    /// Bytes.
    pub size: u64,
    /// The least alignment.
    pub alignment: Alignment,
    /// The kind of resource.
    pub kind: ResourceKind,
    /// The memory types that suit the resource, and that the options allow.
    pub memory_types: MemoryTypeMask,
    /// What the memory was for.
    pub usage: MemoryUsage,
    /// How long it was to live.
    pub lifetime: ExpectedLifetime,
    /// Who was to move it, as in [`Event::PoolServes`].
    pub movers: u8,
    /// The pool of the program's own that it named: the first of its copies.
    pub pool: Option<PoolId>,
    /// The copy of each pool that the thread used.
    pub shard: u32,
    /// What else it asked for.
    pub options: RequestedOptions,
}

/// A change of state of the library.
///
/// Events are in the order in which the changes happened. All are `Copy` and hold numbers only: texts are in the batch
/// or the recording that an event is part of.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// use allotment::events::{Event, EventBatch, SubscriptionDesc};
///
/// let mut events = allocator.subscribe(&SubscriptionDesc::default())?;
/// let mesh = allocator.allocate(&Requirements::new(1000), &MemoryUsage::GpuOnly.with_name("mesh"))?;
/// let mut batch = EventBatch::new();
/// events.read(&mut batch);
/// for event in batch.events() {
///     match *event {
///         Event::BlockAllocated { block, size, .. } => println!("block {block} has {size} bytes"),
///         Event::Allocated(is) => println!("{} bytes at {} of block {}", is.requested, is.offset, is.block),
///         _ => {} // of events that a reader does not know, and those that it does not need
///     }
/// }
/// # assert!(batch.events().iter().any(|event| matches!(event, Event::Allocated(is) if is.requested == 1000)));
/// # allocator.free(mesh)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Time passed: the events up to the next `Time` happened between the two.
    Time {
        /// Nanoseconds since the first event of the recording.
        nanoseconds: u64,
    },
    /// A frame ended.
    FrameEnd {
        /// How many frames ended before.
        number: u64,
    },
    /// The program marked a moment.
    Mark {
        /// What it said.
        text: TextId,
    },
    /// Events were lost, because their reader was too slow. Nothing that was known of pools, blocks, allocations and
    /// descriptor heaps holds any more; the whole state follows.
    Lost,
    /// A pool was created.
    PoolCreated {
        /// The pool.
        pool: PoolId,
        /// Its name; none for default pools.
        name: TextId,
        /// How it suballocates its blocks. `None` where it is not known: of pools of another library.
        algorithm: Option<Algorithm>,
        /// It is one of the program's own pools.
        custom: bool,
    },
    /// What a pool serves. Follows its [`PoolCreated`](Self::PoolCreated).
    PoolServes {
        /// The pool.
        pool: PoolId,
        /// The first of the copies into which the pool is split, which threads use apart from each other.
        first: PoolId,
        /// Which of the copies this is; 0 is the first.
        shard: u32,
        /// The memory types of its blocks.
        memory_types: MemoryTypeMask,
        /// The one of them that is tried first.
        first_type: MemoryTypeIndex,
        /// The lifetime of its allocations. Of the program's own pools, which serve all lifetimes, it says nothing.
        lifetime: ExpectedLifetime,
        /// It serves optimal images alone.
        optimal_images: bool,
        /// Whose allocations it serves: 0 for those that stay, 1 for those that passes of a defragmentation move, more for
        /// those of a [`Defragmenter`](crate::memory::Defragmenter). Of the program's own pools, which serve all, it says
        /// nothing.
        movers: u8,
    },
    /// The sizes and the number of the blocks of one of the program's own pools.
    PoolSized {
        /// The pool.
        pool: PoolId,
        /// The sizes of its blocks, in bytes.
        sizing: BlockSize,
        /// The blocks that it never has less of.
        min_blocks: u32,
        /// The most blocks that it may have; `u32::MAX` for no maximum.
        max_blocks: u32,
    },
    /// The other rules of one of the program's own pools.
    PoolRules {
        /// The pool.
        pool: PoolId,
        /// When it frees its empty blocks.
        empty_blocks: EmptyBlockPolicy,
        /// The least alignment of its allocations.
        alignment: Alignment,
        /// Whether its requests may take a heap over the budget.
        budget: BudgetPolicy,
        /// Linear and optimal resources are not kept apart.
        ignores_granularity: bool,
        /// Movable and pinned allocations are kept apart.
        separate_movable: bool,
    },
    /// The program freed all allocations of a pool at once: the next events say which.
    PoolReset {
        /// The pool, or one of its copies.
        pool: PoolId,
    },
    /// The freed ranges of a pool that waited for reuse were joined with their free neighbours, because the program
    /// looked at the blocks, or because a request found no room.
    Joined {
        /// The pool.
        pool: PoolId,
    },
    /// The allocator looked at its clock: at the end of a frame, or where the time that has passed may count.
    TimePassed {
        /// Sixtieths of a second since the allocator was created.
        sixtieths: u64,
    },
    /// The program freed all empty blocks: the events before say which.
    Trimmed,
    /// Maintenance allocated or freed blocks, or found that time had passed: the events before say which.
    Maintained,
    /// The program reserved room in a pool: the next events say which blocks it took.
    RoomReserved {
        /// The pool.
        pool: PoolId,
        /// The memory type.
        memory_type: MemoryTypeIndex,
        /// Bytes of a request that the room is for.
        requested: u64,
        /// Bytes of room.
        bytes: u64,
    },
    /// What a request asked for, where that is not the default. Follows its [`Allocated`](Self::Allocated).
    Requested {
        /// The allocation that it got.
        allocation: AllocationKey,
        /// What it asked for.
        options: RequestedOptions,
    },
    /// A pool was destroyed; its blocks were freed before.
    PoolDestroyed {
        /// The pool.
        pool: PoolId,
    },
    /// The driver allocated a block, or a pool got one from another pool.
    BlockAllocated {
        /// The block.
        block: BlockId,
        /// The pool that has it.
        pool: PoolId,
        /// Its memory type.
        memory_type: MemoryTypeIndex,
        /// What it is for.
        kind: BlockKind,
        /// Bytes.
        size: u64,
    },
    /// A block left its pool: to the driver, or to another pool.
    BlockFreed {
        /// The block.
        block: BlockId,
    },
    /// A cached dedicated block became one that allocations share.
    BlockShared {
        /// The block.
        block: BlockId,
    },
    /// Memory was allocated.
    Allocated(Allocated),
    /// A block got another size at the same place: memory was mapped at its end, or taken from there. No block of
    /// this library does; those of other allocators do, such as PyTorch's expandable segments.
    BlockResized {
        /// The block.
        block: BlockId,
        /// Bytes from now on. All its allocations end before.
        size: u64,
    },
    /// The call site of an allocation became known.
    CallSite {
        /// The allocation.
        allocation: AllocationKey,
        /// `file:line:column`.
        site: TextId,
    },
    /// The calls that led to an allocation became known, where [`CallSites::Backtrace`](crate::memory::reports::CallSites) asks
    /// for them. Follows its [`CallSite`](Self::CallSite).
    Stack {
        /// The allocation.
        allocation: AllocationKey,
        /// The whole call stack.
        stack: StackId,
    },
    /// An allocation got another name, category or number; or a bound resource did, of which readers of recordings take the name
    /// alone, as [`Bound`](Self::Bound) has no more.
    Labelled {
        /// The allocation, or the resource that was [`Bound`](Self::Bound).
        allocation: AllocationKey,
        /// Its name from now on.
        name: TextId,
        /// Its category from now on.
        category: TextId,
        /// The program's own number from now on.
        user_data: u64,
    },
    /// Whether defragmentation may move an allocation changed.
    Movable {
        /// The allocation.
        allocation: AllocationKey,
        /// It may from here on.
        movable: bool,
    },
    /// The program released an allocation, which is freed once the GPU has finished with it.
    FreeRequested {
        /// The allocation.
        allocation: AllocationKey,
    },
    /// An allocation was freed: its range can be allocated again.
    Freed {
        /// The allocation.
        allocation: AllocationKey,
    },
    /// Defragmentation exchanged the ranges of two allocations: of one that moves, and of a reserved destination.
    Exchanged {
        /// The allocation that moved.
        allocation: AllocationKey,
        /// The reservation, which has the old range now.
        reservation: AllocationKey,
    },
    /// A range became the destination of a move: a reservation is no allocation of the program's.
    Reserved {
        /// The reservation, an allocation from here on.
        reservation: AllocationKey,
        /// The allocation that moves there.
        allocation: AllocationKey,
    },
    /// The CPU mapped or unmapped an allocation.
    Mapped {
        /// The allocation.
        allocation: AllocationKey,
        /// How many mappings there are from here on.
        count: u32,
    },
    /// A resource was bound to a part of an allocation, [`Memory`](crate::memory::Memory) that several share. Those that
    /// [`create_aliasing_buffer`](crate::Allocator::create_aliasing_buffer) creates are not among them: the program destroys
    /// them by itself.
    Bound(BoundResource),
    /// A resource was destroyed that was [`Bound`](Self::Bound). What overlapped it stays inactive until it is activated.
    Unbound {
        /// The resource, whose key may be used again.
        resource: AllocationKey,
    },
    /// A bound resource lost its bytes to another one, whose [`Activated`](Self::Activated) follows.
    Displaced {
        /// The resource, inactive from here on.
        resource: AllocationKey,
        /// Whose activation it was.
        by: AllocationKey,
    },
    /// A bound resource that was inactive was given its bytes. What overlapped it is inactive.
    Activated {
        /// The resource.
        resource: AllocationKey,
    },
    /// The driver was asked for the budget of a heap.
    Budget {
        /// The heap.
        heap: MemoryHeapIndex,
        /// Bytes that the process uses, as the driver counts.
        usage: u64,
        /// Bytes that the process should not exceed.
        budget: u64,
    },
    /// A request was refused.
    Refused {
        /// Why.
        reason: RefusalReason,
        /// Bytes that were requested.
        requested: u64,
        /// Bytes that there were: free bytes, a limit or a budget, as the reason says.
        available: u64,
        /// The largest free range, where the reason is about free ranges.
        largest_free: u64,
        /// The name of the request.
        name: TextId,
    },
    /// What a refused request asked for. Follows its [`Refused`](Self::Refused).
    RefusedRequest(RefusedRequest),
    /// A thread waited in the library.
    Stalled {
        /// What for.
        kind: StallKind,
        /// For how long.
        nanoseconds: u64,
    },
    /// Commands were submitted to a queue.
    Submitted {
        /// The queue.
        queue: QueueIndex,
        /// The value that the queue's timeline reaches with them.
        value: u64,
    },
    /// A queue's timeline reached a value.
    Completed {
        /// The queue.
        queue: QueueIndex,
        /// The value.
        value: u64,
    },
    /// A descriptor heap was created: one of the driver's. A shader-visible heap that grows or is compacted becomes
    /// another one, and a CPU descriptor heap has one for each of its pages.
    DescriptorHeapCreated {
        /// The heap.
        heap: ObjectId,
        /// Its type, and whether shaders see it.
        kind: DescriptorKind,
        /// Descriptors that it holds.
        capacity: u32,
        /// Its name.
        name: TextId,
    },
    /// A descriptor heap was destroyed.
    DescriptorHeapDestroyed {
        /// The heap.
        heap: ObjectId,
    },
    /// Adjacent slots of a descriptor heap were allocated, and are freed together: a slot, a table, chunks of a recording.
    DescriptorsAllocated {
        /// The heap.
        heap: ObjectId,
        /// The first slot.
        first: u32,
        /// How many.
        count: u32,
    },
    /// Slots of a descriptor heap were freed: they can be allocated again. The GPU has finished with them, or they moved to
    /// the heap that replaces this one.
    DescriptorsFreed {
        /// The heap.
        heap: ObjectId,
        /// The first slot.
        first: u32,
        /// How many.
        count: u32,
    },
    /// A ring was created, or grew.
    RingCreated {
        /// The ring.
        ring: ObjectId,
        /// What it is for.
        kind: RingKind,
        /// Bytes.
        capacity: u64,
        /// Its name.
        name: TextId,
    },
    /// The bytes in use of a ring changed.
    RingUsed {
        /// The ring.
        ring: ObjectId,
        /// Bytes that are allocated, or that the GPU still reads.
        used: u64,
    },
    /// A ring was destroyed.
    RingDestroyed {
        /// The ring.
        ring: ObjectId,
    },
    /// The number of objects in a deletion queue changed.
    DeletionQueue {
        /// The queue.
        queue: ObjectId,
        /// What it holds.
        kind: DeletionQueueKind,
        /// Objects that wait for the GPU.
        waiting: u32,
    },
}

// A thread writes one for each change while it holds the lock of a pool.
const _: () = assert!(size_of::<Event>() <= 72, "an event is about a cache line");

impl Event {
    /// Replaces each text of the event.
    #[must_use]
    pub fn map_texts(mut self, mut replaced: impl FnMut(TextId) -> TextId) -> Self {
        let mut replace = |text: &mut TextId| {
            if !text.is_none() {
                *text = replaced(*text);
            }
        };
        match &mut self {
            Self::Allocated(Allocated { name, category, .. }) | Self::Labelled { name, category, .. } => {
                replace(name);
                replace(category);
            }
            Self::Bound(BoundResource { name, call_site, .. }) => {
                replace(name);
                replace(call_site);
            }
            Self::Mark { text: name }
            | Self::PoolCreated { name, .. }
            | Self::CallSite { site: name, .. }
            | Self::Refused { name, .. }
            | Self::DescriptorHeapCreated { name, .. }
            | Self::RingCreated { name, .. } => replace(name),
            _ => {}
        }
        self
    }

    /// Replaces the stack of the event, if it has one.
    #[must_use]
    pub fn map_stack(mut self, replaced: impl FnOnce(StackId) -> StackId) -> Self {
        if let Self::Stack { stack, .. } = &mut self {
            if !stack.is_none() {
                *stack = replaced(*stack);
            }
        }
        self
    }
}
