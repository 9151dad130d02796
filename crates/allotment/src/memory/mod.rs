//! The allocator: suballocation of device memory.
//!
//! ```text
//!   Allocator
//!   ├── heaps            every allocation from the driver: budgets, limits, counts
//!   ├── pool slots       a lock each; default pools first, custom pools after
//!   │   ├── records      location of each allocation; read without a lock
//!   │   └── state        under the lock
//!   │       └── block set, one per memory type
//!   │           └── blocks: driver memory, and a VirtualBlock that says which ranges are allocated
//!   └── ranking          the memory types for each memory usage, best first
//! ```
//!
//! # How a request is served
//!
//! The idea, its sources and what was tried: `docs/design/request.md`. The steps, with their numbers and an example:
//! `request/allocate.rs`.
//!
//! - The allocator ranks the suitable memory types (`request/candidates.rs`) and tries the pool of the best one.
//! - Under the pool's lock it looks for a free range in a block. For a large request it looks for a cached dedicated
//!   memory object of about the same size instead.
//! - If there is none, it releases the lock and allocates a block from the driver (`driver/heaps.rs`). While one
//!   thread does so, other threads that need a block of the same pool wait for it rather than allocate a block each.
//! - Before it does, it destroys what the GPU has finished with. If the driver or a budget refuses, it frees the empty
//!   blocks that it kept and tries once more; then it tries smaller blocks, the next memory type, and last a dedicated
//!   allocation (`driver/ladder.rs`). A refusal is remembered until something changes.
//!
//! # Cost
//!
//! A request that finds a free range, and a free, take one lock, one search and no heap allocation once the pool has
//! seen its peak: together some 90 ns where a freed range waited for the request, and some 300 where a block is searched
//! (`docs/measurements/2026-11-28-general-path.md`). The location of an allocation is read without a lock. Host memory: 32 bytes a record, 32 a
//! detail, 64 a label, and 40 a region.

mod allocator;
mod block_set;
mod defragmentation;
mod driver;
mod mover;
mod pool;
pub(crate) mod relocation;
mod reports;
mod request;
mod resource;
mod token;

/// What an allocator of a [`d3d12::Device`](crate::device::d3d12::Device) does besides.
#[cfg(all(feature = "d3d12", windows))]
pub mod d3d12 {
    pub use super::resource::existing::d3d12::AllocatorExt;
}
/// What an allocator of a [`vulkan::Device`](crate::device::vulkan::Device) does besides.
#[cfg(feature = "vulkan")]
pub mod vulkan {
    pub use super::resource::existing::vulkan::AllocatorExt;
}

pub use crate::choices::blocks::{BlockSize, BlockSizes, EmptyBlockPolicy};
pub use crate::choices::call_site::{CallSite, CallSites};
pub use crate::choices::name::{LIBRARY_CATEGORY, Name};
pub use crate::choices::{BudgetPolicy, Dedicated, ExpectedLifetime, MemoryUsage, Movability, NewBlocks};
pub use allocator::{Allocation, AllocationId, Allocator, AllocatorDesc};
pub use allotment_suballoc::{FitStrategy, StackSide};
pub use defragmentation::{
    AllocatorRef, BlockLayout, Defragmentation, DefragmentationDesc, DefragmentationError,
    DefragmentationPlan, DefragmentationStatistics, DefragmentationStrategy, EmptiedBlocks, EndedPass,
    ImpossibleLayout, JoinThreads, LayoutAllocation, LayoutArena, LayoutBlock, LayoutMove, Move, NextPass,
    NotThisMove, Pass, PassLimits, PlannedBlock, RequestDefragmentation, RoomError,
};
pub use driver::heaps::{DriverCallStatistics, MemoryHeapReport};
pub use pool::growth_ahead::{BlockGrowth, Watermark};
pub use pool::maintenance::MaintenanceReport;
pub use pool::maintenance_thread::MaintenanceThread;
pub use pool::residents::allocate_as_thread;
pub use pool::time::{ManualTime, TimeSource};
pub use pool::{CreatePoolError, DestroyPoolError, MAX_POOL_TYPES, Pool, PoolDesc};
pub(crate) use relocation::Front;
pub use relocation::{
    AcceptedMove, DefragmentationStep, Defragmenter, DefragmenterDesc, MakingRoom, MoveError, StepOutcome,
};
pub use reports::Reports;
pub use reports::descriptors::LeakedDescriptors;
pub(crate) use reports::descriptors::{DescriptorSites, HasDescriptors};
#[doc(hidden)]
pub use reports::dump_schema;
pub use reports::inspect::{BlockInfo, CategoryStatistics};
pub(crate) use reports::leaks::report_left_by_gpu;
pub use reports::leaks::{Leak, LeakHandler, LeakMoment, LeakReport};
pub use reports::listing::ListedAllocation;
pub use reports::stalls::StallStatistics;
pub use reports::statistics::{DetailedStatistics, Statistics};
pub use request::candidates::{MemoryTypeCandidate, Suitability};
pub use request::desc::AllocationOptions;
pub use request::error::{AccessError, AllocationError, CreateAllocatorError, WrongAllocator};
pub use request::name_table::NameTable;
pub use request::preview::AllocationPreview;
pub use request::short_name::ShortName;
pub(crate) use request::short_name::name_in_error;
pub use resource::{
    Buffer, BufferOrImage, Buffers, Image, Images, MappedBuffer, OwnedAllocation, OwningAllocator, RawBuffer,
    RawImage, RawResource, Resource, ResourceError, Transfer, TransferError, Unique, UniqueAllocation,
    UniqueBuffer, UniqueImage, WithMemoryOptions,
};
pub(crate) use token::access::check_range;
pub use token::location::{AllocationInfo, MemoryLocation};
