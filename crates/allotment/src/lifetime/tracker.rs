//! Tracks open recordings; the progress of the queues is in `tracker/progress.rs`, the moments at which resources may
//! move in `tracker/quiet.rs`.
//!
//! ```text
//!   clock ─────0────1────2────3────4──────►        advances by one with each recording that is opened
//!              │    │    └─ c ────│──  open
//!              │    └─ b ──┘      │
//!              └─ a ──────────────┘
//!                        ▲ retired here: stamped 3, so a, b and c may use the object
//! ```
//!
//! A retired object is stamped with the clock. It is *sealed* once the number of the oldest open recording is not
//! below the stamp: then every recording that was open at that moment is submitted or discarded. From then on the
//! object waits for everything that was submitted to the queues by that time; see
//! [`ReleaseQueue`](super::ReleaseQueue).

mod progress;
mod quiet;

use core::error::Error;
use core::fmt;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU64 as PlainU64, AtomicUsize as PlainUsize};
use core::time::Duration;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use super::orphan::{LastWaits, Orphan, Patience, finish_any};
use super::recording::Recording;
use super::registry::{Holds, OpenRecording, RecordingId, RecordingStatus, Registry};
use super::statistics::TrackerStatistics;
use super::timeline_points::TimelinePoints;
use super::timelines::{Sealed, Timelines};
use crate::device::{DescriptionError, DescriptionLimit, Device};
use crate::sync::checked::{AtomicBool, AtomicU64, Mutex, locked};

pub(super) use progress::Reached;

/// Tracks which recordings are open and how far each queue has come. One per device; a clone is the same tracker.
///
/// ```
/// use allotment::device::simulated::{SimulatedGpu, Profile};
/// use allotment::device::{QueueDevice as _, QueueIndex, Submission};
/// use allotment::lifetime::SubmissionTracker;
///
/// let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// let tracker = SubmissionTracker::new(device.clone())?;
///
/// let recording = tracker.record("shadows");
/// // … commands are recorded, on any thread, over any number of frames …
/// let work = Submission::default();
/// // SAFETY: the submission is empty.
/// let done = recording.submit(QueueIndex(0), |queue| unsafe { device.submit(queue, &work) })?;
/// assert_eq!(done.value.0, 1, "the first submission to the queue");
/// tracker.wait_idle(std::time::Duration::from_secs(1))?;
/// assert!(tracker.is_reached(done));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SubmissionTracker {
    shared: Arc<Shared>,
    /// It is included in `handles`: the tracker does not end before it is dropped.
    counted: bool,
}

struct Shared {
    timelines: Box<dyn Timelines>,
    queues: usize,
    /// The number of the next recording. Written under the registry's lock.
    clock: AtomicU64,
    /// The number of the oldest open recording with [`Holds::Everything`], or the clock if there is none. Never
    /// decreases. Written under the registry's lock, after the submission of the recording is known.
    oldest_open: AtomicU64,
    /// The values that queues were last seen to have completed.
    completed: [AtomicU64; TimelinePoints::MAX_QUEUES],
    lost: AtomicBool,
    registry: Mutex<Registry>,
    /// Locked shared while a recording is opened, exclusively while moved resources get their new handles; before
    /// `registry`. Not a lock of the model checker, since `registry` orders what the recordings do.
    opening: RwLock<()>,
    /// Dropped queues with objects left; see [`Orphan`].
    orphans: Mutex<Vec<Arc<dyn Orphan>>>,
    has_orphans: AtomicBool,
    last_waits: LastWaits,
    /// Counted handles. Without any, no thread polls any more. Not an atomic of the model checker: the lock of
    /// `orphans` synchronizes with the thread that brings it to 0.
    handles: PlainUsize,
    /// The time at which the tracker was created.
    epoch: Instant,
    /// Nanoseconds since then, as of the last reading. Not an atomic of the model checker: it is for statistics
    /// only.
    now: PlainU64,
}

/// An object's owner waits for the work of another tracker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WrongTracker;

/// A tracker tracks another device than the one that its recordings would be submitted to: neither knows of the other's work.
/// Create both for one device.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// use allotment::lifetime::{DeletionQueue, SubmissionTracker, WrongDevice};
/// use allotment::memory::OwningAllocator;
///
/// let device = || SimulatedGpu::new(Profile::named("integrated").unwrap());
/// let allocator = std::sync::Arc::new(Allocator::new(device(), AllocatorDesc::default())?);
/// let tracker = SubmissionTracker::new(device())?; // of another one
/// assert_eq!(OwningAllocator::new(&allocator, &DeletionQueue::new(&tracker)).err(), Some(WrongDevice));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongDevice;

impl fmt::Display for WrongDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the tracker tracks another device than the allocator's, create both for one device")
    }
}

impl Error for WrongDevice {}

/// The statuses of recordings at one moment.
pub(super) struct Statuses<'a>(&'a Registry);

impl Statuses<'_> {
    pub(super) fn of(&self, id: RecordingId) -> RecordingStatus {
        self.0.status(id)
    }

    /// Returns how many recordings were closed so far.
    pub(super) fn closed(&self) -> u64 {
        self.0.submitted + self.0.discarded
    }
}

impl SubmissionTracker {
    /// Creates a tracker for the timelines of a device. They need not begin at 0.
    ///
    /// # Errors
    ///
    /// [`DescriptionError::AboveLimit`] where the device has more queues than [`TimelinePoints::MAX_QUEUES`].
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// use allotment::device::{DescriptionError, DescriptionLimit};
    /// use allotment::lifetime::SubmissionTracker;
    ///
    /// let mut profile = Profile::named("discrete-large-bar").ok_or("a profile")?;
    /// profile.queues = vec![profile.queues[0]; 17];
    /// let refused = SubmissionTracker::new(SimulatedGpu::new(profile)).err();
    /// let limit = DescriptionLimit::TrackedQueues;
    /// assert_eq!(refused, Some(DescriptionError::AboveLimit { limit, requested: 17, most: 16 }));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(timelines: impl Timelines) -> Result<Self, DescriptionError> {
        // Not an atomic of the model checker: only uniqueness matters. 64 bits, so that no number comes twice: a recording
        // of another tracker would be taken for one of this.
        static NEXT: PlainU64 = PlainU64::new(0);
        let queues = timelines.queue_count();
        DescriptionLimit::TrackedQueues.check(queues as u64, TimelinePoints::MAX_QUEUES as u64)?;
        let shared = Shared {
            timelines: Box::new(timelines),
            queues,
            clock: AtomicU64::new(0),
            oldest_open: AtomicU64::new(0),
            completed: core::array::from_fn(|_| AtomicU64::new(0)),
            lost: AtomicBool::new(false),
            registry: Mutex::new(Registry::new(NEXT.fetch_add(1, Relaxed))),
            opening: RwLock::new(()),
            orphans: Mutex::new(Vec::new()),
            has_orphans: AtomicBool::new(false),
            last_waits: LastWaits::default(),
            handles: PlainUsize::new(1),
            epoch: Instant::now(),
            now: PlainU64::new(0),
        };
        Ok(Self { shared: Arc::new(shared), counted: true })
    }

    /// Returns a handle that does not keep the tracker from ending: for recordings, which look at orphans when
    /// closed, and for orphans themselves. Its clones are counted.
    pub(super) fn uncounted(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), counted: false }
    }

    /// Returns whether the tracker was created for this device or a clone of it.
    #[must_use]
    pub fn tracks<D: Device>(&self, device: &D) -> bool {
        self.shared.timelines.device_id(Sealed) == Some(device.id())
    }

    /// Checks that what is destroyed or reused by the work of this tracker is used by that device, and no other: the one check
    /// of every call that takes a tracker and a device or an allocator. Timelines of the application's own are of any
    /// device: what it submits by `unsafe` calls, it tells them itself.
    pub(crate) fn check_device<D: Device>(&self, device: &D) -> Result<(), WrongDevice> {
        let known = self.shared.timelines.device_id(Sealed);
        if known.is_none_or(|id| id == device.id()) { Ok(()) } else { Err(WrongDevice) }
    }

    /// Returns whether both are handles of the same tracker.
    #[must_use]
    pub fn ptr_eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Checks that an object whose owner waits for the work of the tracker `of` is one that this tracker's recordings may
    /// use: the one check of every call that takes a resource or a recording and uses it with another part.
    ///
    /// Not by device: two trackers may be over one device, as those of two `Gpu`s, and neither knows of the other's open
    /// recordings. What one of them moves or destroys, work of the other may still read.
    pub(crate) fn check_same(&self, of: &Self) -> Result<(), WrongTracker> {
        if self.ptr_eq(of) { Ok(()) } else { Err(WrongTracker) }
    }

    /// Opens a recording with a debug name. Objects that are retired while it is open are kept until it is
    /// submitted and completed, or dropped.
    ///
    /// Costs a lock and a reading of the clock, and so does closing it: each takes about 130 ns.
    pub fn record(&self, label: &'static str) -> Recording {
        self.open(label, Holds::Everything)
    }

    /// Opens a recording that delays only the objects that it [keeps](super::DeletionQueue::keep): for recordings
    /// that stay open for long.
    pub fn record_explicit(&self, label: &'static str) -> Recording {
        self.open(label, Holds::Nothing)
    }

    fn open(&self, label: &'static str, holds: Holds) -> Recording {
        let opened = self.read_clock();
        let _opening = self.shared.opening.read().unwrap_or_else(PoisonError::into_inner);
        let mut registry = locked(&self.shared.registry);
        let number = self.shared.clock.load(Relaxed);
        let id = registry.open(number, label, holds, opened);
        // Objects that are retired from now on are stamped above this number, and so wait for this recording.
        // Objects stamped before cannot be used by it.
        self.shared.clock.store(number + 1, Release);
        self.publish_oldest(&registry);
        drop(registry);
        Recording::new(self.uncounted(), id, holds == Holds::Nothing)
    }

    pub(super) fn close(&self, id: RecordingId, status: RecordingStatus) {
        // Coarse time advances here and when polling, so that retiring an object need not read the clock.
        self.read_clock();
        let submitted = match status {
            RecordingStatus::Submitted(point) => point.into(),
            RecordingStatus::Discarded => TimelinePoints::EMPTY,
            // It was submitted at some time before now. Asked before the lock is taken: it may be a driver call.
            _ => self.submitted(),
        };
        let mut registry = locked(&self.shared.registry);
        registry.close(id, status, &submitted);
        self.publish_oldest(&registry);
        drop(registry);
    }

    /// Looks at orphans after a recording was closed: a thread that adopts one checks afterwards, under the lock that closing
    /// takes, what is open. Runs destructors, and may wait for the GPU: no lock is held.
    pub(crate) fn visit_orphans(&self) {
        self.reclaim_orphans(Patience::Once);
        self.end_without_handles();
    }

    /// Drops what can be dropped of the orphans. Runs destructors: no lock is held.
    pub(super) fn reclaim_orphans(&self, patience: Patience) {
        /// The orphans not yet visited. Adopts them again if a destructor panics.
        struct Rest<'a>(&'a SubmissionTracker, Vec<Arc<dyn Orphan>>);
        impl Drop for Rest<'_> {
            fn drop(&mut self) {
                for orphan in self.1.drain(..) {
                    self.0.adopt(&orphan);
                }
            }
        }

        // The load keeps the common case, no orphans, free of a write to a shared cache line.
        if !self.shared.has_orphans.load(Relaxed) || !self.shared.has_orphans.swap(false, Acquire) {
            return;
        }
        let mut rest = Rest(self, core::mem::take(&mut *locked(&self.shared.orphans)));
        // Take the whole list: destructors run without the lock, and may adopt or disown orphans themselves.
        // The oldest first, in the order in which their objects were retired.
        rest.1.reverse();
        while let Some(orphan) = rest.1.pop() {
            finish_any(&orphan, patience);
        }
    }

    /// The end of the tracker, if no handle is left: from now on only recordings that close poll. Waits for queues
    /// as long as they make progress.
    pub(super) fn end_without_handles(&self) {
        // A thread that adopts an orphan without holding a handle calls this afterwards, and the thread that drops
        // the last handle looks for orphans afterwards. Of these two, the second that locks the orphans sees the
        // store of the first.
        if self.shared.has_orphans.load(Acquire) && self.shared.handles.load(Acquire) == 0 {
            self.reclaim_orphans(Patience::WhileProgressing);
        }
    }

    pub(super) fn last_waits(&self) -> &LastWaits {
        &self.shared.last_waits
    }

    fn publish_oldest(&self, registry: &Registry) {
        // Without an open recording everything retired so far is sealed: stamps are at most the clock.
        let oldest = registry.oldest().unwrap_or_else(|| self.shared.clock.load(Relaxed));
        self.shared.oldest_open.store(oldest, Release);
    }

    /// Returns the status of a recording.
    #[must_use]
    pub fn status(&self, id: RecordingId) -> RecordingStatus {
        locked(&self.shared.registry).status(id)
    }

    /// Calls `f` with the statuses of recordings. The registry is locked during the call.
    pub(super) fn with_statuses<R>(&self, f: impl FnOnce(&Statuses<'_>) -> R) -> R {
        f(&Statuses(&locked(&self.shared.registry)))
    }

    /// Returns the stamp of objects that are retired now.
    ///
    /// Another thread that opened a recording which may use the object has synchronized with the retiring thread,
    /// or the program has a data race of its own. So the retiring thread sees the clock as that opening left it, or
    /// later.
    #[inline]
    pub(super) fn stamp(&self) -> u64 {
        self.shared.clock.load(Relaxed)
    }

    /// Returns the highest stamp that is sealed.
    pub(super) fn horizon(&self) -> u64 {
        if rule_is_off("recordings") {
            return u64::MAX;
        }
        self.shared.oldest_open.load(Acquire)
    }

    /// Returns statistics of recordings.
    #[must_use]
    pub fn statistics(&self) -> TrackerStatistics {
        let registry = locked(&self.shared.registry);
        TrackerStatistics {
            open: registry.open,
            open_explicit: registry.open_explicit,
            submitted: registry.submitted,
            discarded: registry.discarded,
            longest_open: registry.longest_open(),
        }
    }

    /// Returns all open recordings, explicit ones included, oldest first: the place to look if objects are not
    /// released.
    #[must_use]
    pub fn open_recordings(&self) -> Vec<OpenRecording> {
        let mut open: Vec<_> = locked(&self.shared.registry).all_open().collect();
        open.sort_by_key(|recording| core::cmp::Reverse(recording.age));
        open
    }

    /// Returns true if no recording is open.
    pub(crate) fn nothing_is_open(&self) -> bool {
        let registry = locked(&self.shared.registry);
        registry.open + registry.open_explicit == 0
    }

    /// Adds an orphan to those that the tracker looks at. Returns whether it was not there yet.
    pub(super) fn adopt(&self, orphan: &Arc<dyn Orphan>) -> bool {
        let mut orphans = locked(&self.shared.orphans);
        let is_new = !orphans.iter().any(|other| ptr_eq(other, orphan));
        if is_new {
            orphans.push(Arc::clone(orphan));
        }
        // Stored under the lock; otherwise a thread that removes an orphan could overtake a thread that adds one.
        self.shared.has_orphans.store(true, Release);
        drop(orphans);
        is_new
    }

    /// Removes an orphan. False if another thread has already taken it.
    pub(super) fn disown(&self, orphan: &Arc<dyn Orphan>) -> bool {
        let mut orphans = locked(&self.shared.orphans);
        let found = orphans.iter().position(|other| ptr_eq(other, orphan));
        let found = found.map(|found| orphans.swap_remove(found));
        drop(orphans);
        found.is_some()
    }

    fn read_clock(&self) -> Instant {
        let now = Instant::now();
        let since_epoch = now.saturating_duration_since(self.shared.epoch);
        let nanoseconds = u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX);
        self.shared.now.store(nanoseconds, Relaxed);
        now
    }

    /// Returns nanoseconds since the tracker was created, as of the last time that a recording was opened or
    /// closed, or that the tracker polled.
    #[inline]
    // Retiring reads this instead of the clock: `Instant::now` would cost more than the retirement itself.
    pub(super) fn coarse_now(&self) -> u64 {
        self.shared.now.load(Relaxed)
    }

    /// Returns the time since `since`, a value of [`coarse_now`](Self::coarse_now).
    pub(super) fn age(&self, since: u64) -> Duration {
        self.shared.epoch.elapsed().saturating_sub(Duration::from_nanos(since))
    }
}

impl Clone for SubmissionTracker {
    fn clone(&self) -> Self {
        self.shared.handles.fetch_add(1, Relaxed);
        Self { shared: Arc::clone(&self.shared), counted: true }
    }
}

impl Drop for SubmissionTracker {
    /// The last handle waits for the GPU if objects of dropped queues remain, as long as the GPU makes progress.
    fn drop(&mut self) {
        if self.counted && self.shared.handles.fetch_sub(1, AcqRel) == 1 {
            self.end_without_handles();
        }
    }
}

/// Whether a rule is broken, to see its tests fail: `.ci/rules-off`. In the builds that users make, none is.
#[cfg(not(allotment_rule_off))]
const fn rule_is_off(_: &str) -> bool {
    false
}

#[cfg(allotment_rule_off)]
fn rule_is_off(rule: &str) -> bool {
    static OFF: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    OFF.get_or_init(|| std::env::var("ALLOTMENT_RULE_OFF").ok()).as_deref() == Some(rule)
}

fn ptr_eq(one: &Arc<dyn Orphan>, other: &Arc<dyn Orphan>) -> bool {
    core::ptr::addr_eq(Arc::as_ptr(one), Arc::as_ptr(other))
}

impl fmt::Debug for SubmissionTracker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubmissionTracker")
            .field("submitted", &self.submitted())
            .field("statistics", &self.statistics())
            .finish_non_exhaustive()
    }
}
