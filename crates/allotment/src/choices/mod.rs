//! What callers name and choose: small values that the events, the allocator and files share.
//!
//! ```text
//!   mod         what the options of an allocation choose between; the first of each is the default
//!   name        debug names
//!   call_site   where in the program an allocation was made
//!   blocks      the sizes of blocks, and which empty ones are kept
//! ```

pub(crate) mod blocks;
pub(crate) mod call_site;
pub(crate) mod name;

use core::fmt;

pub(crate) use name::Name;

/// What memory is for. The allocator chooses a memory type by it; [`Allocator::explain`] says why.
///
/// [`Allocator::explain`]: crate::memory::Allocator::explain
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// let info = gpu.create_buffer(&BufferDesc::new(256), &MemoryUsage::Upload.into())?.info();
/// assert!(info.mapped_ptr.is_some(), "the CPU writes it");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("VmaMemoryUsage", "MemoryLocation", "VMA_MEMORY_USAGE_AUTO"))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MemoryUsage {
    /// The GPU reads and writes the memory and the CPU never does: textures, render targets, static meshes. Not mapped,
    /// also where it could be, until the CPU accesses it nevertheless.
    #[doc(alias("VMA_MEMORY_USAGE_GPU_ONLY", "VMA_MEMORY_USAGE_AUTO_PREFER_DEVICE"))]
    #[default]
    GpuOnly,
    /// The CPU writes the memory once, in order, and the GPU reads it once: staging. The memory type may be
    /// one that queues cannot write to.
    #[doc(alias("VMA_MEMORY_USAGE_CPU_ONLY", "VMA_ALLOCATION_CREATE_HOST_ACCESS_SEQUENTIAL_WRITE_BIT"))]
    Upload,
    /// The GPU writes the memory and the CPU reads it: screenshots, query results. The memory type may be one
    /// that queues can only copy into.
    #[doc(alias("VMA_MEMORY_USAGE_GPU_TO_CPU", "VMA_ALLOCATION_CREATE_HOST_ACCESS_RANDOM_BIT", "GpuToCpu"))]
    Readback,
    /// The CPU writes the memory often and the GPU reads it often: constants, dynamic vertices. Selects
    /// device-local memory that the CPU can map, where the GPU has some; else device-local memory that is not
    /// mapped, and the caller stages its writes. A mapped type may be one that queues cannot write to.
    #[doc(alias = "VMA_ALLOCATION_CREATE_HOST_ACCESS_ALLOW_TRANSFER_INSTEAD_BIT")]
    DeviceUpload,
    /// An attachment that never leaves the tile: lazily allocated memory, where the GPU has some.
    #[doc(alias = "VMA_MEMORY_USAGE_GPU_LAZILY_ALLOCATED")]
    Transient,
    /// The CPU must reach the memory, and the GPU reads it often: for code that writes through a pointer and has no way
    /// to stage. Selects device-local memory that the CPU can map, where the GPU has some; else memory of the host, which
    /// the GPU reads over the bus. The memory type may be one that queues cannot write to.
    #[doc(alias("VMA_MEMORY_USAGE_CPU_TO_GPU", "CpuToGpu"))]
    DeviceMapped,
}

impl MemoryUsage {
    /// All usages, in the order of their declaration.
    pub const ALL: [Self; 6] = [
        Self::GpuOnly,
        Self::Upload,
        Self::Readback,
        Self::DeviceUpload,
        Self::Transient,
        Self::DeviceMapped,
    ];

    /// Returns true where memory of another heap serves the usage nearly as well, so that its first heap is not taken over
    /// the budget for it. Hidden, and no part of the stable interface: it is public for the replay of recordings, which is
    /// another crate.
    #[doc(hidden)]
    #[must_use]
    pub fn has_other_heaps(self) -> bool {
        matches!(self, Self::DeviceUpload | Self::DeviceMapped)
    }
}

impl fmt::Display for MemoryUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::GpuOnly => "gpu-only",
            Self::Upload => "upload",
            Self::Readback => "readback",
            Self::DeviceUpload => "device-upload",
            Self::Transient => "transient",
            Self::DeviceMapped => "device-mapped",
        })
    }
}

/// How long an allocation will live. Long-lived and short-lived allocations do not share blocks, so that one leaked
/// small buffer does not keep a block of 256 MiB alive.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// use allotment::memory::ExpectedLifetime;
///
/// let options = MemoryUsage::GpuOnly.with_name("scratch").with_lifetime(ExpectedLifetime::Short);
/// let scratch = allocator.allocate(&Requirements::new(1 << 20), &options)?;
/// let mesh = allocator.allocate(&Requirements::new(1 << 20), &MemoryUsage::GpuOnly.with_name("mesh"))?;
/// assert_eq!(allocator.statistics().blocks, 2, "each in a block of its kind");
/// # drop(allocator.free_many([scratch, mesh]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ExpectedLifetime {
    /// Many frames.
    #[default]
    Long,
    /// A few frames.
    Short,
}

/// Whether [defragmentation](crate::memory::defragmentation::Defragmentation) may move an allocation.
///
/// The owner of a movable allocation queries its [location](crate::memory::Allocator::location) again after each pass,
/// and does not write to it while a pass is open. Mapped memory ([`Allocator::map`](crate::memory::Allocator::map)) is
/// not moved while it is mapped.
///
/// In the default pools, movable allocations have blocks of their own, so that no pinned one keeps a block from being
/// emptied; so have the resources of [`Defragmenter`](crate::memory::Defragmenter)s. Where no block can be had, they share. In
/// a custom pool they share, unless
/// [`PoolDesc::separate_movable`](crate::PoolDesc::separate_movable) is set: a block with one pinned allocation is never
/// emptied.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// use allotment::memory::Movability;
///
/// let options = MemoryUsage::GpuOnly.with_name("G-buffer").with_movability(Movability::Recreated);
/// let target = allocator.allocate(&Requirements::new(1 << 20), &options)?;
/// assert_eq!(allocator.info(&target)?.movability, Movability::Recreated);
/// # allocator.free(target)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Movability {
    /// Never moved, so addresses of it may be cached.
    #[default]
    Pinned,
    /// May be moved; the mover copies its bytes.
    Copied,
    /// May be moved without its bytes: the owner writes them again, as with render targets and caches. That
    /// costs no copy, so such allocations are moved before others.
    Recreated,
}

/// Whether an allocation gets dedicated memory.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// use allotment::memory::Dedicated;
///
/// let options = MemoryUsage::GpuOnly.with_name("swapped out alone").with_dedicated(Dedicated::Always);
/// let target = allocator.allocate(&Requirements::new(1000), &options)?;
/// assert_eq!((allocator.statistics().dedicated, allocator.statistics().blocks), (1, 0));
/// # allocator.free(target)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("AllocationScheme", "ResourceType"))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dedicated {
    /// When the resource requires it, or when the allocation is large for a block.
    #[doc(alias = "GpuAllocatorManaged")]
    #[default]
    Automatic,
    /// Always.
    #[doc(alias("VMA_ALLOCATION_CREATE_DEDICATED_MEMORY_BIT", "ALLOCATION_FLAG_COMMITTED"))]
    Always,
    /// Never: the request is served from a block or refused.
    Never,
}

/// Whether a request may allocate a new block from the driver.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// use allotment::{AllocationError, memory::NewBlocks};
///
/// // A prefetch that must not wait for the driver.
/// let options = MemoryUsage::GpuOnly.with_name("prefetch").with_new_blocks(NewBlocks::NeverAllocate);
/// let refused = allocator.allocate(&Requirements::new(1000), &options);
/// assert!(matches!(refused, Err(AllocationError::WouldGrow { requested: 1000, free: 0, .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum NewBlocks {
    /// A request may allocate a block from the driver.
    #[default]
    Allowed,
    /// A request uses existing blocks only, as `VMA_ALLOCATION_CREATE_NEVER_ALLOCATE_BIT` says.
    #[doc(alias("VMA_ALLOCATION_CREATE_NEVER_ALLOCATE_BIT", "ALLOCATION_FLAG_NEVER_ALLOCATE"))]
    NeverAllocate,
}

/// Whether a request may take its heap over the budget.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("integrated").unwrap());
/// use allotment::device::MemoryHeapIndex;
/// use allotment::{AllocationError, memory::BudgetPolicy};
///
/// device.set_budget(MemoryHeapIndex(0), 16 << 20); // bytes: other programs use the rest
/// let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// let options = MemoryUsage::GpuOnly.with_name("detail mip").with_budget(BudgetPolicy::WithinBudget);
/// let refused = allocator.allocate(&Requirements::new(100 << 20), &options);
/// assert!(matches!(refused, Err(AllocationError::OverBudget { .. })), "the program keeps the coarser mip");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BudgetPolicy {
    /// Allocates although the heap goes over its budget. The operating system may then move memory out.
    #[default]
    AllowOverBudget,
    /// Refuses a request that would take the heap over its budget, however it would be served.
    #[doc(alias("VMA_ALLOCATION_CREATE_WITHIN_BUDGET_BIT", "ALLOCATION_FLAG_WITHIN_BUDGET"))]
    WithinBudget,
}
