//! The allocator: who owns which bytes of device memory.
//!
//! ```text
//!   Allocator
//!   ├── heaps            the gate to the driver: budgets, limits, counts, on every path
//!   ├── pool slots       a lock each; default pools first, custom ones after
//!   │   ├── records      what tokens stand for; read without a lock
//!   │   └── state        under the lock
//!   │       └── block set, one a memory type
//!   │           └── blocks: driver memory, and a VirtualBlock that says what of it is handed out
//!   └── ranking          which memory types serve an memory usage, and why
//! ```
//!
//! # How a request is served
//!
//! 1. Its size is checked, once.
//! 2. The memory types that suit are ranked (`choice.rs`); the pool of the first is asked.
//! 3. Under the pool's lock: is there room in a block? Large requests look for spare memory of about
//!    their size instead.
//! 4. If not, the lock is dropped and the driver asked for a block, through the gate (`heaps.rs`). While one
//!    thread does so, others who want the same wait for it rather than get a block each.
//! 5. If that fails, empty blocks that were kept are given back and it is tried once more; then smaller
//!    blocks, memory of its own, and the next memory type.
//!
//! # Cost
//!
//! Steps 1–3, and a free, are one lock, one search and no heap allocation once the pool has seen its
//! peak: under 100 ns. A place is read without a lock. Host memory: 64 bytes a record, 128 a detail, and
//! 40 a region.

mod access;
mod allocate;
mod allocator;
mod batch;
mod block_set;
mod candidates;
mod custom_pools;
#[cfg(all(feature = "d3d12", windows))]
mod d3d12;
mod dedicated;
mod defragmentation;
mod desc;
mod dump;
mod empty_blocks;
mod error;
mod free;
mod growth;
mod heaps;
mod inspect;
mod leaks;
mod maintenance;
mod mapped;
mod movable;
mod moves;
mod new_block;
mod owners;
mod pool;
mod preview;
mod quick_lists;
mod record;
mod release;
mod resource;
mod shards;
mod stalls;
mod statistics;
mod time;
mod transfer;
#[cfg(feature = "vulkan")]
mod vulkan;

pub use access::{AllocationInfo, Place};
pub use allocator::{Allocation, AllocationId, Allocator, AllocatorDesc};
pub use candidates::{MemoryTypeCandidate, Suitability};
pub use defragmentation::{
    Defragmentation, DefragmentationDesc, DefragmentationError, DefragmentationPlan,
    DefragmentationStatistics, DefragmentationStrategy, EmptiedBlocks, Move, NextPass, Pass, PassLimits,
    PlannedBlock,
};
pub use desc::{AllocationDesc, BudgetPolicy, Dedicated, Lifetime, MemoryUsage, Movability, Name, NewBlocks};
pub use empty_blocks::EmptyBlockPolicy;
pub use error::{
    AccessError, AllocationError, CreateAllocatorError, CreatePoolError, DestroyPoolError, Foreign, ShortName,
};
pub use growth::BlockSizes;
pub use heaps::{DriverCallStatistics, MemoryHeapReport};
pub use inspect::{BlockInfo, CategoryStatistics};
pub use leaks::{Leak, LeakHandler, LeakReport};
pub use maintenance::{BlockGrowth, MaintenanceReport, MaintenanceThread, Watermark};
pub use mapped::MappedBuffer;
pub use movable::{
    DefragmentationStep, Movable, MovableBuffer, MovableError, MovableImage, MovableSet, MovableSetDesc,
    MoveError, StepOutcome,
};
pub use owners::{
    OwnedAllocation, OwnedBuffer, OwnedImage, OwningAllocator, Unique, UniqueAllocation, UniqueBuffer,
    UniqueImage,
};
pub use pool::{BlockSize, MAX_POOL_TYPES, Pool, PoolDesc};
pub use preview::AllocationPreview;
pub use resource::{Buffer, Image, Resource, ResourceError};
pub use stalls::StallStatistics;
pub use statistics::{DetailedStatistics, Statistics};
pub use time::{ManualTime, TimeSource};
pub use transfer::{Transfer, TransferError};
