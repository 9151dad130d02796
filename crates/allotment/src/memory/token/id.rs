//! The handles of allocations, and their ids.

/// Owning handle of an allocation: 16 bytes, move-only.
///
/// Dropping it frees nothing: pass it to [`Allocator::free`](crate::Allocator::free). A handle that was dropped instead is
/// reported by name when the allocator is dropped. [`Allocator::location`](crate::Allocator::location) returns the location of
/// the memory.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// let mesh = allocator.allocate(&Requirements::new(1000), &MemoryUsage::GpuOnly.with_name("mesh"))?;
/// assert_eq!(size_of_val(&mesh), 16);
/// let owner = mesh; // moved, never copied: memory cannot be freed twice
/// allocator.free(owner)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "VmaAllocation")]
#[derive(Debug, PartialEq, Eq)]
#[must_use = "memory is freed by passing its handle to `Allocator::free`"]
pub struct Allocation {
    pub(in crate::memory) allocator: u32,
    pub(in crate::memory) pool: u32,
    pub(in crate::memory) record: u32,
    pub(in crate::memory) generation: u32,
}

impl Allocation {
    /// Returns an id of the allocation. An id can be copied and kept; the allocator detects a stale one.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let mesh = allocator.allocate(&Requirements::new(1000), &MemoryUsage::GpuOnly.with_name("mesh"))?;
    /// let id = mesh.id();
    /// allocator.free(mesh)?;
    /// assert!(allocator.reports().info(id).is_err(), "stale, and never the id of another allocation");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn id(&self) -> AllocationId {
        let Self { allocator, pool, record, generation } = *self;
        AllocationId { allocator, pool, record, generation }
    }
}

/// Identifies an allocation without owning it; see [`Allocation::id`].
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// use std::collections::HashMap;
///
/// let mesh = allocator.allocate(&Requirements::new(1000), &MemoryUsage::GpuOnly.into())?;
/// let owners = HashMap::from([(mesh.id(), "the bridge")]); // a table beside the tokens
/// assert_eq!(owners[&mesh.id()], "the bridge");
/// # allocator.free(mesh)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AllocationId {
    pub(in crate::memory) allocator: u32,
    pub(in crate::memory) pool: u32,
    pub(in crate::memory) record: u32,
    pub(in crate::memory) generation: u32,
}
