//! What the allocator tells about itself: statistics, dumps, leaks, and where allocations were made.

mod call_site;
pub(crate) mod descriptors;
mod dump;
#[doc(hidden)]
pub mod dump_schema;
mod inspect;
mod leaks;
mod listing;
mod stalls;
mod subscribe;

use core::fmt;

// What programs read.
pub use self::descriptors::LeakedDescriptors;
pub use self::inspect::{BlockInfo, CategoryStatistics};
pub use self::leaks::{Leak, LeakHandler, LeakMoment, LeakReport};
pub use self::listing::ListedAllocation;
pub use self::stalls::StallStatistics;
pub use super::driver::{DriverCallStatistics, MemoryHeapReport};
pub use super::statistics::{DetailedStatistics, Statistics};
pub use crate::choices::call_site::{CallSite, CallSites};

// What the allocator reports of itself, and of the descriptor heaps that say where their descriptors were made.
pub(super) use self::descriptors::DescriptorHeaps;
pub(crate) use self::descriptors::{DescriptorSites, HasDescriptors};
pub(crate) use self::leaks::report_left_by_gpu;
pub(super) use self::leaks::{make_known, report_leaks};
pub(super) use self::stalls::Stalls;

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
