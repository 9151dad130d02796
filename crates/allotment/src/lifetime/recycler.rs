//! Things that are used again when the GPU is done with them.

use core::sync::atomic::Ordering::Relaxed;

use super::registry::RecordingId;
use super::release_queue::ReleaseQueue;
use super::statistics::ReleaseStatistics;
use super::tracker::SubmissionTracker;
use crate::device::TimelinePoint;
use crate::sync::checked::{AtomicU64, Mutex, locked};

/// Things that there is room for at first, where as many are kept. Room for more is made when they come.
const USUAL: usize = 16;

/// Hands out again what was given back and is not in use any more. `Send + Sync`.
///
/// At most a given number of things is kept for nothing; what comes back beyond that is dropped, with no lock
/// held. So there are at most as many as were in use at once, and those.
///
/// ```
/// use allotment::lifetime::{ManualTimelines, Recycler, SubmissionTracker};
///
/// let tracker = SubmissionTracker::new(ManualTimelines::new(1))?;
/// let lists = Recycler::new(&tracker, 4);
/// let recording = tracker.record("a frame");
/// let list = lists.take().unwrap_or_else(|| Vec::<u32>::with_capacity(100));
/// lists.put_with(recording.id(), list);
/// assert!(lists.take().is_none(), "the recording uses it");
/// drop(recording);
/// assert_eq!(lists.take().unwrap().capacity(), 100);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Recycler<T: Send + 'static> {
    retired: ReleaseQueue<T>,
    free: Mutex<Vec<T>>,
    most: usize,
    dropped: AtomicU64,
}

/// What a recycler has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecyclerStatistics {
    /// Things that can be had at once.
    pub free: usize,
    /// Things that were given back and may still be in use.
    pub retired: ReleaseStatistics,
    /// Things that were dropped since more were free than are kept.
    pub dropped: u64,
}

impl<T: Send + 'static> Recycler<T> {
    /// Keeps at most `most` things for nothing. Room is made for those that there are: a bound that is never met costs
    /// nothing.
    #[must_use]
    pub fn new(tracker: &SubmissionTracker, most: usize) -> Self {
        let free = Mutex::new(Vec::with_capacity(most.min(USUAL)));
        Self { retired: ReleaseQueue::new(tracker), free, most, dropped: AtomicU64::new(0) }
    }

    /// Something that nobody uses, the last that became free first.
    pub fn take(&self) -> Option<T> {
        let free = locked(&self.free).pop();
        free.or_else(|| {
            self.collect();
            locked(&self.free).pop()
        })
    }

    /// Gives something back that recordings may use which are open now.
    pub fn put(&self, item: T) {
        self.retired.retire(item);
    }

    /// Gives something back that one recording uses and nobody else. It may be closed already.
    pub fn put_with(&self, recording: RecordingId, item: T) {
        self.retired.retire_with(recording, item);
    }

    /// Gives something back that nobody uses after a point on a queue's timeline.
    pub fn put_after(&self, point: TimelinePoint, item: T) {
        self.retired.retire_after(point, item);
    }

    /// Gives something back that nobody uses.
    pub fn put_unused(&self, item: T) {
        let surplus = self.keep(item);
        drop(surplus);
    }

    /// Looks what has become free. [`take`](Self::take) does so by itself when nothing else is left.
    pub fn collect(&self) {
        self.retired.reclaim_here(|item| drop(self.keep(item)));
    }

    /// Keeps something, or hands it back where there is enough.
    fn keep(&self, item: T) -> Option<T> {
        let mut free = locked(&self.free);
        if free.len() < self.most {
            free.push(item);
            return None;
        }
        self.dropped.fetch_add(1, Relaxed);
        Some(item)
    }

    /// Drops everything that is free.
    pub fn trim(&self) {
        self.collect();
        let room = Vec::with_capacity(self.most.min(USUAL));
        let free = core::mem::replace(&mut *locked(&self.free), room);
        drop(free);
    }

    /// What there is.
    #[must_use]
    pub fn statistics(&self) -> RecyclerStatistics {
        RecyclerStatistics {
            free: locked(&self.free).len(),
            retired: self.retired.statistics(),
            dropped: self.dropped.load(Relaxed),
        }
    }
}
