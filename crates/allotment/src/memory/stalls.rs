//! How often a request had to wait for the driver, and for how long.
//!
//! What a background thread does ahead of need is not waited for, and not counted here.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::time::Instant;

use super::allocator::Allocator;
use crate::device::Device;

/// Waits of callers for the driver's memory, since the allocator was created: in requests, in frees that
/// gave memory back, at the ends of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StallStatistics {
    /// How many.
    pub count: u64,
    /// How long all of them took.
    pub total: Duration,
    /// How long the longest took.
    pub longest: Duration,
}

/// The counters behind [`StallStatistics`].
#[derive(Debug, Default)]
pub(super) struct Waits {
    count: AtomicU64,
    nanoseconds: AtomicU64,
    longest: AtomicU64,
}

impl Waits {
    fn add(&self, waited: Duration) {
        // 584 years fit.
        let waited = waited.as_nanos() as u64;
        self.count.fetch_add(1, Relaxed);
        self.nanoseconds.fetch_add(waited, Relaxed);
        self.longest.fetch_max(waited, Relaxed);
    }
}

impl<D: Device> Allocator<D> {
    /// How often and how long callers waited for the driver's memory. With a [`MaintenanceThread`](super::MaintenanceThread)
    /// there should be few such waits.
    #[must_use]
    pub fn stalls(&self) -> StallStatistics {
        let Waits { count, nanoseconds, longest } = &self.waits;
        StallStatistics {
            count: count.load(Relaxed),
            total: Duration::from_nanos(nanoseconds.load(Relaxed)),
            longest: Duration::from_nanos(longest.load(Relaxed)),
        }
    }

    /// Does what a caller waits for, and counts it.
    pub(super) fn waiting<T>(&self, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let done = work();
        self.waits.add(began.elapsed());
        done
    }
}
