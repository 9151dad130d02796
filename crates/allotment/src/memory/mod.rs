//! The allocator: suballocation of device memory.
//!
//! ```text
//!   Allocator
//!   ├── ranking              the memory types for each memory usage, best first
//!   └── pools
//!       ├── heaps            every allocation from the driver: budgets, limits, counts
//!       └── slots            a lock each; default pools first, custom pools after
//!           ├── records      location of each allocation; read without a lock
//!           └── state        under the lock
//!               └── block set, one per memory type
//!                   └── blocks: driver memory, and a VirtualBlock that says which ranges are allocated
//! ```
//!
//! # How a request is served
//!
//! The idea, its sources and what was tried: `docs/design/request.md`. The steps, with their numbers and an example:
//! `allocator/allocate.rs`.
//!
//! - The allocator ranks the suitable memory types (`request/candidates.rs`) and tries the pool of the best one.
//! - Under the pool's lock it looks for a free range in a block. For a large request it looks for a cached dedicated
//!   memory object of about the same size instead.
//! - If there is none, it releases the lock and allocates a block from the driver (`driver/heaps.rs`). While one
//!   thread does so, other threads that need a block of the same pool wait for it rather than allocate a block each.
//! - Before it does, it destroys what the GPU has finished with. If the driver or a budget refuses, it frees the empty
//!   blocks that it kept and tries once more; then it tries smaller blocks, the next memory type, and last a dedicated
//!   allocation (`allocator/ladder.rs`). A refusal is remembered until something changes.
//!
//! # Cost
//!
//! A request that finds a free range, and a free, take one lock, one search and no heap allocation once the pool has
//! seen its peak: together some 90 ns where a freed range waited for the request, and some 200 where a block is searched
//! (`docs/measurements/2026-11-28-general-path.md`). The location of an allocation is read without a lock. Host memory: 32
//! bytes a record, 32 a detail, 64 a label, and 40 a region.

mod allocator;
mod block_set;
pub mod defragmentation;
mod descriptors;
mod driver;
mod leak_report;
mod mover;
mod pool;
pub mod reports;
mod request;
pub(crate) mod resource;
mod statistics;
mod time;
mod token;
mod writers;

/// Block sizes, growth and empty blocks, and the thread that takes care of them.
pub mod blocks {
    pub use super::allocator::{MaintenanceReport, MaintenanceThread};
    pub use super::pool::{BlockGrowth, Watermark, allocate_as_thread};
    pub use super::time::{ManualTime, TimeSource};
    pub use crate::choices::blocks::{BlockSize, BlockSizes, EmptyBlockPolicy};
}
/// What an allocator of a [`d3d12::Device`](crate::device::d3d12::Device) does besides.
#[cfg(all(feature = "d3d12", windows))]
pub mod d3d12 {
    pub use super::resource::d3d12::AllocatorExt;
}
/// Buffers, images and plain allocations as type parameters, which few programs name.
pub mod kinds {
    pub use super::resource::{Allocations, BufferOrImage, Buffers, Images};
}
/// Names of allocations and pools.
pub mod names {
    pub use super::request::{CutName, NameTable, OtherName, ShortName};
    pub use crate::choices::name::Name;
}
/// What a request would do, and in which memory types.
pub mod preview {
    pub use super::allocator::AllocationPreview;
    pub use super::request::{MemoryTypeCandidate, Suitability};
}
/// What an allocator of a [`vulkan::Device`](crate::device::vulkan::Device) does besides.
#[cfg(feature = "vulkan")]
pub mod vulkan {
    pub use super::resource::vulkan::AllocatorExt;
}

// Beside the modules above, for programs: what most of them name.
pub use crate::choices::{BudgetPolicy, Dedicated, ExpectedLifetime, MemoryUsage, Movability, NewBlocks};
pub use allocator::{Activation, Allocator};
pub use allotment_suballoc::{FitStrategy, StackSide};
pub use pool::{AllocatorDesc, CreatePoolError, DestroyPoolError, PoolDesc};
pub use request::AllocationOptions;
pub use request::Pool;
pub use request::{AccessError, AllocationError, CreateAllocatorError, WrongAllocator};
pub use resource::{
    Buffer, BufferPiece, BufferPieces, ExpandableBuffer, ExpandableStatistics, GroupError, Image,
    MappedBuffer, Memory, OwnedAllocation, OwningAllocator, PieceStatistics, RawBuffer, RawImage,
    RawResource, Resource, ResourceError, Transfer, TransferError, Unique, WithMemoryOptions,
};
pub use token::{Allocation, AllocationId, AllocationInfo, MemoryLocation};

// What the crate itself names here, beside that.
pub(crate) use self::blocks::{BlockGrowth, BlockSizes, MaintenanceThread};
pub(crate) use self::defragmentation::{
    AcceptedMove, DefragmentationDesc, DefragmentationError, DefragmentationStatistics, DefragmentationStep,
    Defragmenter, DefragmenterDesc, EmptiedBlocks, MakingRoom, Move, Pass, PassLimits, RoomError,
};
pub(crate) use self::names::{Name, OtherName, ShortName};
pub(crate) use self::preview::Suitability;
pub(crate) use self::reports::{CallSite, DetailedStatistics, LeakedDescriptors};
pub(crate) use allocator::report_left_by_gpu;
pub(crate) use descriptors::{DescriptorSites, HasDescriptors};
#[doc(hidden)]
pub use reports::dump_schema;
pub(crate) use request::name_in_error;
pub(crate) use resource::RoomOfGpu;
pub(crate) use writers::{OtherWriter, ReadMark, WriteMark, WriterId};
