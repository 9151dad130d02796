//! Statistics of pending and released objects.

use core::ops::AddAssign;
use core::time::Duration;

/// Objects that were released.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reclaimed {
    /// Number of objects.
    pub count: u64,
    /// Their bytes, as given by the retiring threads.
    pub bytes: u64,
}

impl AddAssign for Reclaimed {
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
        self.bytes += other.bytes;
    }
}

/// Statistics of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReleaseStatistics {
    /// Objects retired and not yet released.
    pub pending: u64,
    /// Their bytes, as given by the retiring threads.
    pub bytes: u64,
    /// Time since the oldest of them was retired, up to the time between two calls of the tracker.
    pub oldest: Option<Duration>,
    /// Objects released so far.
    pub reclaimed: Reclaimed,
}

impl AddAssign for ReleaseStatistics {
    fn add_assign(&mut self, other: Self) {
        self.pending += other.pending;
        self.bytes += other.bytes;
        self.oldest = self.oldest.max(other.oldest);
        self.reclaimed += other.reclaimed;
    }
}
