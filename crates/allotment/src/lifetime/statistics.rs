//! Statistics of pending and released objects, and of recordings.

use core::ops::AddAssign;
use core::time::Duration;

use super::OpenRecording;

/// Objects that were released.
///
/// ```
/// # use allotment::{device::{DeviceError, QueueIndex, TimelinePoint, TimelineValue}, lifetime::*};
/// # let timelines = ManualTimelines::new(2);
/// # let tracker = SubmissionTracker::new(timelines.clone())?;
/// # let deferred = DeletionQueue::new(&tracker);
/// deferred.retire_sized("a mesh", 4096);
/// let mut sums = Reclaimed::default();
/// sums += deferred.reclaim();
/// assert_eq!((sums.count, sums.bytes), (1, 4096));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
///
/// ```
/// # use allotment::{device::{DeviceError, QueueIndex, TimelinePoint, TimelineValue}, lifetime::*};
/// # let timelines = ManualTimelines::new(2);
/// # let tracker = SubmissionTracker::new(timelines.clone())?;
/// # let deferred = DeletionQueue::new(&tracker);
/// let recording = tracker.record("a frame");
/// deferred.retire_sized("a mesh", 4096);
/// let waiting = deferred.statistics();
/// assert_eq!((waiting.pending, waiting.bytes), (1, 4096));
/// println!("the oldest has waited for {:?}", waiting.oldest);
/// # drop(recording);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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

/// Statistics of recordings.
///
/// ```
/// # use allotment::{device::{DeviceError, QueueIndex, TimelinePoint, TimelineValue}, lifetime::*};
/// # let timelines = ManualTimelines::new(2);
/// # let tracker = SubmissionTracker::new(timelines.clone())?;
/// let recording = tracker.record("a frame");
/// drop(tracker.record("nothing to draw"));
/// let now = tracker.statistics();
/// assert_eq!((now.open, now.submitted, now.discarded), (1, 0, 1));
/// assert_eq!(now.longest_open.map(|open| open.label), Some("a frame"));
/// # drop(recording);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrackerStatistics {
    /// Open recordings that retired objects wait for.
    pub open: u64,
    /// Open [explicit](super::SubmissionTracker::record_explicit) recordings.
    pub open_explicit: u64,
    /// Recordings submitted so far.
    pub submitted: u64,
    /// Recordings discarded so far.
    pub discarded: u64,
    /// The recording that has been open for longest: objects retired since are dropped only after it is closed.
    pub longest_open: Option<OpenRecording>,
}
