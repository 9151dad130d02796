//! What is pending, and what has gone.

use core::ops::AddAssign;
use core::time::Duration;

/// What was reclaimed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reclaimed {
    /// Things.
    pub count: u64,
    /// Bytes that they stood for, by the word of who retired them.
    pub bytes: u64,
}

impl AddAssign for Reclaimed {
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
        self.bytes += other.bytes;
    }
}

/// What is pending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReleaseStatistics {
    /// Things that were retired and are not reclaimed.
    pub pending: u64,
    /// Bytes that they stand for, by the word of who retired them.
    pub bytes: u64,
    /// How long the oldest of them is pending, give or take the time between two calls of the tracker.
    pub oldest: Option<Duration>,
    /// What was reclaimed so far.
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
