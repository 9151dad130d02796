//! Counts the driver calls that callers had to wait for, and their duration.
//!
//! Calls that a background thread makes ahead of demand delay no caller and are not counted.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;

/// Time that callers lost in the driver's memory calls since the allocator was created: in requests, in frees that
/// freed a block, at the ends of frames.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// let mesh = allocator.allocate(&Requirements::new(1000), &MemoryUsage::GpuOnly.into())?;
/// let stalls = allocator.reports().stalls();
/// println!("{} stalls, {:?} in all, {:?} at most", stalls.count, stalls.total, stalls.longest);
/// # allocator.free(mesh)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StallStatistics {
    /// Number of stalls.
    pub count: u64,
    /// Total duration of all stalls.
    pub total: Duration,
    /// Duration of the longest stall.
    pub longest: Duration,
}

/// The counters behind [`StallStatistics`].
#[derive(Debug, Default)]
pub(crate) struct Stalls {
    count: AtomicU64,
    nanoseconds: AtomicU64,
    longest: AtomicU64,
}

impl Stalls {
    pub(crate) fn add(&self, waited: Duration) {
        // A u64 of nanoseconds holds 584 years.
        let waited = waited.as_nanos() as u64;
        // Relaxed: the three figures are statistics, and may be read between two of these stores.
        self.count.fetch_add(1, Relaxed);
        self.nanoseconds.fetch_add(waited, Relaxed);
        self.longest.fetch_max(waited, Relaxed);
    }

    pub(crate) fn statistics(&self) -> StallStatistics {
        let Self { count, nanoseconds, longest } = self;
        StallStatistics {
            count: count.load(Relaxed),
            total: Duration::from_nanos(nanoseconds.load(Relaxed)),
            longest: Duration::from_nanos(longest.load(Relaxed)),
        }
    }
}
