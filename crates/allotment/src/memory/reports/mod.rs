//! What the allocator tells about itself: statistics, dumps, leaks, and where allocations were made.

pub(in crate::memory) mod call_site;
pub(crate) mod descriptors;
pub(in crate::memory) mod dump;
#[doc(hidden)]
pub mod dump_schema;
pub(in crate::memory) mod inspect;
pub(in crate::memory) mod leaks;
pub(in crate::memory) mod listing;
pub(in crate::memory) mod stalls;
pub(in crate::memory) mod subscribe;

use core::fmt;

pub use self::descriptors::LeakedDescriptors;
pub use self::inspect::{BlockInfo, CategoryStatistics};
pub use self::leaks::{Leak, LeakHandler, LeakMoment, LeakReport};
pub use self::listing::ListedAllocation;
pub use self::stalls::StallStatistics;
pub use super::driver::heaps::{DriverCallStatistics, MemoryHeapReport};
pub use super::statistics::{DetailedStatistics, Statistics};
pub use crate::choices::call_site::{CallSite, CallSites};

use super::allocator::Allocator;
use crate::device::Device;

/// What an [`Allocator`] tells about itself beside its [`statistics`](Allocator::statistics): by heap, pool, block, category
/// and allocation, for windows, logs and tests. [`Allocator::reports`] returns it.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// let mesh = allocator.allocate(&Requirements::new(1000), &MemoryUsage::GpuOnly.with_name("mesh"))?;
/// let reports = allocator.reports();
/// for heap in reports.memory_heaps() {
///     println!("{} of {} bytes", heap.usage, heap.budget);
/// }
/// assert_eq!((reports.blocks().len(), reports.allocations().len()), (1, 1));
/// # allocator.free(mesh)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Reports<'a, D: Device> {
    allocator: &'a Allocator<D>,
}

impl<D: Device> Allocator<D> {
    /// Returns what the allocator tells about itself.
    #[must_use]
    pub fn reports(&self) -> Reports<'_, D> {
        Reports { allocator: self }
    }
}

impl<D: Device> Clone for Reports<'_, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D: Device> Copy for Reports<'_, D> {}

impl<D: Device> fmt::Debug for Reports<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reports").finish_non_exhaustive()
    }
}
