//! A pool of reusable objects that waits for the GPU.

use core::sync::atomic::Ordering::Relaxed;

use super::registry::RecordingId;
use super::release_queue::ReleaseQueue;
use super::statistics::ReleaseStatistics;
use super::tracker::SubmissionTracker;
use crate::device::TimelinePoint;
use crate::sync::checked::{AtomicU64, Mutex, locked};

/// Initial capacity of the free list, if the pool may keep as many. It grows on demand.
const USUAL: usize = 16;

/// A pool of reusable objects: hands out released objects again once the GPU has finished with them. `Send + Sync`.
///
/// The pool keeps at most a given number of free objects; further ones are dropped, with no lock held. So there are
/// at most as many objects as were in use at once, plus the free ones.
///
/// ```
/// use allotment::lifetime::{ManualTimelines, Recycler, SubmissionTracker};
///
/// let tracker = SubmissionTracker::new(ManualTimelines::new(1))?;
/// let lists = Recycler::new(&tracker, 4);
/// let recording = tracker.record("a frame");
/// let list = lists.acquire().unwrap_or_else(|| Vec::<u32>::with_capacity(100));
/// lists.release_with(recording.id(), list);
/// assert!(lists.acquire().is_none(), "the recording uses it");
/// drop(recording);
/// assert_eq!(lists.acquire().unwrap().capacity(), 100);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Recycler<T: Send + 'static> {
    retired: ReleaseQueue<T>,
    free: Mutex<Vec<T>>,
    most: usize,
    dropped: AtomicU64,
}

/// Statistics of a [`Recycler`].
///
/// ```
/// # use allotment::{device::{DeviceError, QueueIndex, TimelinePoint, TimelineValue}, lifetime::*};
/// # let timelines = ManualTimelines::new(2);
/// # let tracker = SubmissionTracker::new(timelines.clone())?;
/// let lists = Recycler::new(&tracker, 4);
/// lists.release_unused(Vec::<u32>::with_capacity(100));
/// let recording = tracker.record("a frame");
/// lists.release_with(recording.id(), Vec::with_capacity(100));
/// let now = lists.statistics();
/// assert_eq!((now.free, now.retired.pending, now.dropped), (1, 1, 0));
/// # drop(recording);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecyclerStatistics {
    /// Free objects, available at once.
    pub free: usize,
    /// Released objects that may still be in use.
    pub retired: ReleaseStatistics,
    /// Objects dropped because enough were free.
    pub dropped: u64,
}

impl<T: Send + 'static> Recycler<T> {
    /// Creates a pool that keeps at most `most` free objects. Capacity grows with use: an unreached limit costs
    /// nothing.
    #[must_use]
    pub fn new(tracker: &SubmissionTracker, most: usize) -> Self {
        let free = Mutex::new(Vec::with_capacity(most.min(USUAL)));
        Self { retired: ReleaseQueue::new(tracker), free, most, dropped: AtomicU64::new(0) }
    }

    /// Acquires a free object, the most recently freed first. `None` if every object may be in use.
    pub fn acquire(&self) -> Option<T> {
        // The free list first: a pop is one lock, while a reclaim may call the driver for each busy queue.
        let free = locked(&self.free).pop();
        free.or_else(|| {
            self.collect();
            locked(&self.free).pop()
        })
    }

    /// Releases an object that any open recording may use.
    pub fn release(&self, item: T) {
        self.retired.retire(item);
    }

    /// Releases an object that only this recording uses. The recording may be closed already.
    pub fn release_with(&self, recording: RecordingId, item: T) {
        self.retired.retire_with(recording, item);
    }

    /// Releases an object that the GPU does not use after this point on a queue's timeline.
    ///
    /// ```
    /// # use allotment::{device::{DeviceError, QueueIndex, TimelinePoint, TimelineValue}, lifetime::*};
    /// # let timelines = ManualTimelines::new(2);
    /// # let tracker = SubmissionTracker::new(timelines.clone())?;
    /// let lists = Recycler::new(&tracker, 4);
    /// let point = TimelinePoint { queue: QueueIndex(0), value: timelines.submit(QueueIndex(0)) };
    /// lists.release_after(point, Vec::<u32>::with_capacity(100));
    /// assert!(lists.acquire().is_none());
    /// timelines.complete(QueueIndex(0), point.value);
    /// assert!(lists.acquire().is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn release_after(&self, point: TimelinePoint, item: T) {
        self.retired.retire_after(point, item);
    }

    /// Releases an object that the GPU does not use.
    pub fn release_unused(&self, item: T) {
        let surplus = self.keep(item);
        // Dropped here, after `keep` has unlocked the list: a destructor may use this pool.
        drop(surplus);
    }

    /// Moves objects that the GPU has finished with to the free list. [`acquire`](Self::acquire) does so itself
    /// when no object is free.
    pub fn collect(&self) {
        // `keep` returns objects beyond the limit, which are dropped here without the lock.
        self.retired.reclaim_here(|item| drop(self.keep(item)));
    }

    /// Adds an object to the free list, or returns it if the list is full.
    fn keep(&self, item: T) -> Option<T> {
        let mut free = locked(&self.free);
        if free.len() < self.most {
            free.push(item);
            return None;
        }
        self.dropped.fetch_add(1, Relaxed);
        Some(item)
    }

    /// Drops all free objects.
    pub fn trim(&self) {
        self.collect();
        // A new list, rather than an emptied one, gives up the capacity of a burst; destructors run without the
        // lock.
        let room = Vec::with_capacity(self.most.min(USUAL));
        let free = core::mem::replace(&mut *locked(&self.free), room);
        drop(free);
    }

    /// Returns the pool's statistics.
    #[must_use]
    pub fn statistics(&self) -> RecyclerStatistics {
        RecyclerStatistics {
            free: locked(&self.free).len(),
            retired: self.retired.statistics(),
            dropped: self.dropped.load(Relaxed),
        }
    }
}
