//! What the allocator tells about itself, for windows, logs and tests: heaps, pools, blocks, allocations, and a dump of all.

mod dump;
#[doc(hidden)]
pub mod dump_schema;
mod inspect;
mod listing;

use core::fmt;

// What programs read.
pub use self::inspect::{BlockInfo, CategoryStatistics};
pub use self::listing::ListedAllocation;
pub use super::descriptors::LeakedDescriptors;
pub use super::driver::{DriverCallStatistics, MemoryHeapReport, StallStatistics};
pub use super::leak_report::{Leak, LeakHandler, LeakMoment, LeakReport};
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

impl<'a, D: Device> Reports<'a, D> {
    /// Returns the allocator, in which all has happened that threads were told of.
    fn allocator(&self) -> &'a Allocator<D> {
        self.allocator.take_left_frees();
        self.allocator
    }

    /// Returns how often and how long callers waited for the driver's memory calls. With a
    /// [`MaintenanceThread`](crate::memory::MaintenanceThread) there should be few such stalls.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let (mesh, options) = (Requirements::new(1000), MemoryUsage::GpuOnly.into());
    /// let first = allocator.allocate(&mesh, &options)?; // waits for the driver
    /// let second = allocator.allocate(&mesh, &options)?; // fits into the same block
    /// assert_eq!(allocator.reports().stalls().count, 1);
    /// # drop(allocator.free_many([first, second]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn stalls(&self) -> StallStatistics {
        self.allocator().stalls.statistics()
    }

    /// Returns all live allocations, largest first: the report that dropping the allocator now would make. Consistent, and
    /// locks, as [`allocations`](Self::allocations).
    ///
    /// ```
    /// use allotment::device::simulated::{SimulatedGpu, Profile};
    /// use allotment::memory::reports::LeakHandler;
    /// use allotment::{Allocator, AllocatorDesc, MemoryUsage, Requirements};
    ///
    /// let device = SimulatedGpu::new(Profile::named("integrated").unwrap());
    /// let mut desc = AllocatorDesc::default();
    /// desc.on_leak = LeakHandler::Ignore;
    /// let allocator = Allocator::new(device, desc)?;
    /// let options = MemoryUsage::GpuOnly.with_name("shadow map");
    /// drop(allocator.allocate(&Requirements::new(64), &options)?);
    /// let leak = allocator.reports().leaks()[0].to_string();
    /// assert!(leak.starts_with("\"shadow map\": 64 bytes of memory type 0"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(never)]
    #[doc(alias = "report_memory_leaks")]
    #[must_use]
    pub fn leaks(&self) -> Vec<Leak> {
        self.allocator.leaks_where(|_| true)
    }
}
