//! What is open, what was submitted, and what is done.
//!
//! ```text
//!   clock ─────0────1────2────3────4──────►        one more with each recording that is opened
//!              │    │    └─ c ────│──  open
//!              │    └─ b ──┘      │
//!              └─ a ──────────────┘
//!                        ▲ retired here: stamped 3, so a, b and c may use it
//! ```
//!
//! Who retires something reads the clock. It is *sealed* when the oldest recording that is open has a number
//! not below that stamp: then all that were open at that moment are submitted or discarded. What queues had
//! been given by then is what has to be waited for; see [`ReleaseQueue`](super::ReleaseQueue).

use core::error::Error;
use core::fmt;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32 as PlainU32, AtomicU64 as PlainU64, AtomicUsize as PlainUsize};
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use super::orphan::{Orphan, Patience, finish_any};
use super::recording::Recording;
use super::registry::{Holds, OpenRecording, RecordingId, RecordingStatus, Registry};
use super::timeline_points::{MAX_QUEUES, TimelinePoints};
use super::timelines::{Progress, Sealed, Timeline, Timelines};
use crate::device::{Device, DeviceError, QueueIndex, TimelinePoint, TimelineValue};
use crate::sync::checked::{AtomicBool, AtomicU64, Mutex, locked};

/// There are more queues than can be kept track of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyQueues {
    /// How many there are; [`MAX_QUEUES`] can be.
    pub found: usize,
}

impl fmt::Display for TooManyQueues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} queues are more than the {MAX_QUEUES} that can be kept track of", self.found)
    }
}

impl Error for TooManyQueues {}

/// How recordings and queues are getting on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrackerStatistics {
    /// Recordings that are open and hold back what is retired.
    pub open: u64,
    /// Recordings that are open and keep what they use themselves.
    pub open_owning: u64,
    /// Recordings that were submitted so far.
    pub submitted: u64,
    /// Recordings that were discarded so far.
    pub discarded: u64,
    /// The one that is open for longest: nothing that was retired since goes before it is closed.
    pub longest_open: Option<OpenRecording>,
}

/// Knows which recordings are open and how far each queue is. A clone is the same tracker. One for a device.
///
/// ```
/// use allotment::device::simulated::{SimulatedGpu, Profile};
/// use allotment::device::{Device, QueueIndex, Submission};
/// use allotment::lifetime::SubmissionTracker;
///
/// let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// let tracker = SubmissionTracker::new(device.clone())?;
///
/// let recording = tracker.record("shadows");
/// // … commands are recorded, by whichever thread, over as many frames as it takes …
/// let work = Submission::default();
/// // SAFETY: there is nothing in it.
/// let done = recording.submit(QueueIndex(0), |queue| unsafe { device.submit(queue, &work) })?;
/// assert_eq!(done.value.0, 1, "the first submission to the queue");
/// tracker.wait_idle(std::time::Duration::from_secs(1))?;
/// assert!(tracker.is_reached(done));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SubmissionTracker {
    shared: Arc<Shared>,
    /// It is among those that `handles` counts: the tracker has not ended before it is dropped.
    counted: bool,
}

struct Shared {
    timelines: Box<dyn Timelines>,
    queues: usize,
    /// The number of the next recording. Written under the registry's lock.
    clock: AtomicU64,
    /// The number of the oldest open recording that holds something, or the clock where there is none. Never
    /// goes back. Written under the registry's lock, after what the recording was submitted as is known.
    oldest_open: AtomicU64,
    /// What queues were last seen to have completed.
    completed: [AtomicU64; MAX_QUEUES],
    lost: AtomicBool,
    registry: Mutex<Registry>,
    /// What nobody else looks after any more; see [`Orphan`].
    orphans: Mutex<Vec<Arc<dyn Orphan>>>,
    has_orphans: AtomicBool,
    /// Handles that are counted. Without any, nobody polls any more. Not the model checker's: what has to be seen by
    /// whoever brings it to 0 is seen by the lock of `orphans`.
    handles: PlainUsize,
    /// When the tracker was made.
    epoch: Instant,
    /// Nanoseconds since then, as of the last time that anybody looked. Not the model checker's: it is for
    /// people.
    now: PlainU64,
}

impl SubmissionTracker {
    /// A tracker over the timelines of a device, which need not have begun at 0.
    ///
    /// # Errors
    ///
    /// [`TooManyQueues`].
    pub fn new(timelines: impl Timelines) -> Result<Self, TooManyQueues> {
        // Not the model checker's: a number is a number.
        static NEXT: PlainU32 = PlainU32::new(0);
        let queues = timelines.queue_count();
        if queues > MAX_QUEUES {
            return Err(TooManyQueues { found: queues });
        }
        let shared = Shared {
            timelines: Box::new(timelines),
            queues,
            clock: AtomicU64::new(0),
            oldest_open: AtomicU64::new(0),
            completed: core::array::from_fn(|_| AtomicU64::new(0)),
            lost: AtomicBool::new(false),
            registry: Mutex::new(Registry::new(NEXT.fetch_add(1, Relaxed))),
            orphans: Mutex::new(Vec::new()),
            has_orphans: AtomicBool::new(false),
            handles: PlainUsize::new(1),
            epoch: Instant::now(),
            now: PlainU64::new(0),
        };
        Ok(Self { shared: Arc::new(shared), counted: true })
    }

    /// A handle that does not keep the tracker from ending: for recordings, whose close looks at orphans itself, and for
    /// what orphans are made of. Its clones are handles as any other.
    pub(super) fn uncounted(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), counted: false }
    }

    /// Whether the tracker was made over this very device, or a clone of it.
    #[must_use]
    pub fn tracks<D: Device>(&self, device: &D) -> bool {
        self.shared.timelines.device_id(Sealed) == Some(device.id())
    }

    /// Whether this is the same tracker as another.
    #[must_use]
    pub fn ptr_eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Opens a recording, under a name for people. Whatever is retired while it is open stays until it is
    /// submitted and completed, or dropped.
    ///
    /// A lock and a look at the clock, as for closing it: both take some 130 ns.
    pub fn record(&self, label: &'static str) -> Recording {
        self.open(label, Holds::Everything)
    }

    /// Opens a recording that holds nothing back but what it is told to [keep](super::DeletionQueue::keep): for
    /// recordings that stay open for long.
    pub fn record_explicit(&self, label: &'static str) -> Recording {
        self.open(label, Holds::Nothing)
    }

    fn open(&self, label: &'static str, holds: Holds) -> Recording {
        let opened = self.look_at_the_clock();
        let mut registry = locked(&self.shared.registry);
        let number = self.shared.clock.load(Relaxed);
        let id = registry.open(number, label, holds, opened);
        self.shared.clock.store(number + 1, Release);
        self.publish_oldest(&registry);
        drop(registry);
        Recording::new(self.uncounted(), id, holds == Holds::Nothing)
    }

    pub(super) fn close(&self, id: RecordingId, fate: RecordingStatus) {
        self.look_at_the_clock();
        let mut registry = locked(&self.shared.registry);
        registry.close(id, fate);
        self.publish_oldest(&registry);
        drop(registry);
        // Whoever adopts one looks at what is open afterwards, under the lock that was just held.
        self.look_after_orphans(Patience::Once);
        self.end_without_handles();
    }

    /// Drops what can be dropped of what nobody else looks after any more. Runs destructors: no lock is held.
    pub(super) fn look_after_orphans(&self, patience: Patience) {
        /// Those that are still to be looked at, whatever a destructor does.
        struct Rest<'a>(&'a SubmissionTracker, Vec<Arc<dyn Orphan>>);
        impl Drop for Rest<'_> {
            fn drop(&mut self) {
                self.1.drain(..).for_each(|orphan| self.0.adopt(&orphan));
            }
        }

        if !self.shared.has_orphans.load(Relaxed) || !self.shared.has_orphans.swap(false, Acquire) {
            return;
        }
        let mut rest = Rest(self, core::mem::take(&mut *locked(&self.shared.orphans)));
        // The oldest first, as their things were retired.
        rest.1.reverse();
        while let Some(orphan) = rest.1.pop() {
            finish_any(&orphan, patience);
        }
    }

    /// The tracker's end, where there is no handle any more: nobody polls after this but recordings that are closed.
    /// What queues come on with is waited for.
    pub(super) fn end_without_handles(&self) {
        // Whoever adopts an orphan without a handle calls this afterwards, and whoever drops the last handle looks for
        // orphans afterwards; of these two, the second that locks the orphans sees what the first did.
        if self.shared.has_orphans.load(Acquire) && self.shared.handles.load(Acquire) == 0 {
            self.look_after_orphans(Patience::WhileItComesOn);
        }
    }

    fn publish_oldest(&self, registry: &Registry) {
        let oldest = registry.oldest().unwrap_or_else(|| self.shared.clock.load(Relaxed));
        self.shared.oldest_open.store(oldest, Release);
    }

    /// What became of a recording.
    #[must_use]
    pub fn fate(&self, id: RecordingId) -> RecordingStatus {
        locked(&self.shared.registry).fate(id)
    }

    /// What became of several recordings, with one lock. The closure runs under it.
    pub(super) fn with_fates<R>(&self, f: impl FnOnce(&dyn Fn(RecordingId) -> RecordingStatus) -> R) -> R {
        let registry = locked(&self.shared.registry);
        f(&|id| registry.fate(id))
    }

    /// What is retired now is stamped with this.
    ///
    /// Whoever opened a recording that may use the thing has told the retiring thread of it in some way, or it
    /// would be a race without us; so that thread sees the clock as that opening left it, or later.
    #[inline]
    pub(super) fn stamp(&self) -> u64 {
        self.shared.clock.load(Relaxed)
    }

    /// What has a stamp up to this is sealed.
    pub(super) fn horizon(&self) -> u64 {
        if cfg!(allotment_rule_off = "recordings") {
            return u64::MAX;
        }
        self.shared.oldest_open.load(Acquire)
    }

    /// What queues were given so far.
    #[must_use]
    pub fn submitted(&self) -> TimelinePoints {
        if cfg!(allotment_rule_off = "completion") {
            return TimelinePoints::EMPTY;
        }
        self.queues().map(|queue| self.submitted_point(queue)).collect()
    }

    fn queues(&self) -> impl Iterator<Item = QueueIndex> + use<> {
        // There are at most MAX_QUEUES.
        (0..self.shared.queues as u8).map(QueueIndex)
    }

    fn submitted_point(&self, queue: QueueIndex) -> TimelinePoint {
        TimelinePoint { queue, value: self.shared.timelines.submitted(queue) }
    }

    /// Looks how far queues are that were not seen to be done. A driver call for each of them; none where
    /// nothing is in flight.
    ///
    /// What was left of a queue that ended while it waited for the GPU, or for recordings, is dropped here when that is
    /// over.
    pub fn poll(&self) {
        self.poll_in_flight();
        self.look_after_orphans(Patience::None);
    }

    /// As [`poll`](Self::poll), without the orphans.
    pub(super) fn poll_in_flight(&self) {
        self.look_at_the_clock();
        for queue in self.queues() {
            if self.seen(queue) < self.submitted_point(queue).value.0 {
                self.look_at(queue);
            }
        }
    }

    /// As `poll_in_flight`, and looks at queues with nothing in flight too.
    fn poll_all(&self) {
        self.look_at_the_clock();
        self.queues().for_each(|queue| {
            self.look_at(queue);
        });
    }

    /// True for a point that the queue was not given yet.
    pub(super) fn is_ahead(&self, point: TimelinePoint) -> bool {
        self.submitted_point(point.queue).value < point.value
    }

    /// What queues were last seen to have completed.
    pub(super) fn completed(&self) -> TimelinePoints {
        self.queues().map(|queue| TimelinePoint { queue, value: TimelineValue(self.seen(queue)) }).collect()
    }

    /// True while a queue was not seen to have completed all that it was given.
    pub(super) fn is_in_flight(&self) -> bool {
        !self.is_lost() && !self.submitted().is_within(&self.completed())
    }

    /// The value that a queue was last seen to have completed.
    fn seen(&self, queue: QueueIndex) -> u64 {
        self.shared.completed.get(usize::from(queue.0)).map_or(0, |value| value.load(Acquire))
    }

    fn look_at(&self, queue: QueueIndex) -> u64 {
        let Some(seen) = self.shared.completed.get(usize::from(queue.0)) else { return 0 };
        match self.shared.timelines.completed(queue) {
            Progress::Reached(TimelineValue(value)) => raise(seen, value),
            Progress::Lost => {
                self.shared.lost.store(true, Release);
                u64::MAX
            }
        }
    }

    /// Looks how far queues are, also those with nothing in flight where something waits for what is `ahead` of them.
    pub(super) fn look(&self, ahead: bool) -> Reached {
        if ahead {
            self.poll_all();
        } else {
            self.poll_in_flight();
        }
        self.reached()
    }

    /// What was last seen to be completed: everything, on a lost device.
    fn reached(&self) -> Reached {
        if self.is_lost() {
            return Reached::Everything;
        }
        Reached::Up(self.completed())
    }

    /// Whether the queue is done with everything up to a point. On a lost device everything is over.
    #[must_use]
    pub fn is_reached(&self, point: TimelinePoint) -> bool {
        self.is_lost()
            || self.seen(point.queue) >= point.value.0
            || self.look_at(point.queue) >= point.value.0
    }

    /// Whether all queues are done with everything up to these points, as [`is_reached`](Self::is_reached).
    #[must_use]
    pub fn are_reached(&self, points: &TimelinePoints) -> bool {
        points.points().all(|point| self.is_reached(point))
    }

    /// Whether the device was seen to be gone.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.shared.lost.load(Acquire)
    }

    /// The timeline of a queue, asking the driver.
    #[must_use]
    pub fn timeline(&self, queue: QueueIndex) -> Timeline {
        let submitted = self.shared.timelines.submitted(queue);
        self.look_at(queue);
        Timeline { submitted, completed: TimelineValue(self.seen(queue)), lost: self.is_lost() }
    }

    /// Waits for a point, at most for `timeout`.
    ///
    /// # Errors
    ///
    /// [`DeviceError::TimedOut`] where the time is up first; [`DeviceError::Lost`] where it will never be reached: then
    /// nothing is in flight either.
    pub fn wait(&self, point: TimelinePoint, timeout: Duration) -> Result<(), DeviceError> {
        if self.is_lost() {
            return Err(DeviceError::Lost);
        }
        if self.seen(point.queue) >= point.value.0 {
            return Ok(());
        }
        let waited = self.shared.timelines.wait(point, timeout);
        match waited {
            Ok(()) => {
                if let Some(seen) = self.shared.completed.get(usize::from(point.queue.0)) {
                    raise(seen, point.value.0);
                }
            }
            Err(DeviceError::Lost) => self.shared.lost.store(true, Release),
            Err(_) => {}
        }
        waited
    }

    /// Waits for all of several points, at most for `timeout`.
    ///
    /// # Errors
    ///
    /// As for [`wait`](Self::wait).
    pub fn wait_all(&self, points: &TimelinePoints, timeout: Duration) -> Result<(), DeviceError> {
        let began = Instant::now();
        for point in points.points() {
            let waited = self.wait(point, timeout.saturating_sub(began.elapsed()));
            // What was left of the time for the last of them says little.
            waited.map_err(|error| match error {
                DeviceError::TimedOut { point, .. } => DeviceError::TimedOut { point, timeout },
                error => error,
            })?;
        }
        Ok(())
    }

    /// Waits for everything that was submitted by now.
    ///
    /// # Errors
    ///
    /// As for [`wait`](Self::wait).
    pub fn wait_idle(&self, timeout: Duration) -> Result<(), DeviceError> {
        self.wait_all(&self.submitted(), timeout)
    }

    /// How recordings are getting on.
    #[must_use]
    pub fn statistics(&self) -> TrackerStatistics {
        let registry = locked(&self.shared.registry);
        TrackerStatistics {
            open: registry.open,
            open_owning: registry.open_owning,
            submitted: registry.submitted,
            discarded: registry.discarded,
            longest_open: registry.longest_open(),
        }
    }

    /// All recordings that are open, owning ones included, the oldest first: what to look at when something does not go.
    #[must_use]
    pub fn open_recordings(&self) -> Vec<OpenRecording> {
        let mut open: Vec<_> = locked(&self.shared.registry).all_open().collect();
        open.sort_by_key(|recording| core::cmp::Reverse(recording.age));
        open
    }

    /// True where nothing that is retired now waits for a recording.
    pub(super) fn nothing_is_open(&self) -> bool {
        let registry = locked(&self.shared.registry);
        registry.open + registry.open_owning == 0
    }

    /// Looks after something until nothing of it is left.
    pub(super) fn adopt(&self, orphan: &Arc<dyn Orphan>) {
        let mut orphans = locked(&self.shared.orphans);
        if !orphans.iter().any(|other| ptr_eq(other, orphan)) {
            orphans.push(Arc::clone(orphan));
        }
        // Under the lock, or who takes one out could be overtaken by who puts one in.
        self.shared.has_orphans.store(true, Release);
        drop(orphans);
    }

    /// Takes an orphan back. False where somebody else looks after it already.
    pub(super) fn disown(&self, orphan: &Arc<dyn Orphan>) -> bool {
        let mut orphans = locked(&self.shared.orphans);
        let found = orphans.iter().position(|other| ptr_eq(other, orphan));
        let found = found.map(|found| orphans.swap_remove(found));
        drop(orphans);
        found.is_some()
    }

    fn look_at_the_clock(&self) -> Instant {
        let now = Instant::now();
        let since_epoch = now.saturating_duration_since(self.shared.epoch);
        let nanoseconds = u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX);
        self.shared.now.store(nanoseconds, Relaxed);
        now
    }

    /// Nanoseconds since the tracker was made, as of the last time that anybody opened or closed a recording
    /// or polled.
    #[inline]
    pub(super) fn coarse_now(&self) -> u64 {
        self.shared.now.load(Relaxed)
    }

    /// How long ago something was, that [`coarse_now`](Self::coarse_now) was noted with.
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
    /// The last handle waits for the GPU where something is left of queues that ended before, as long as it comes on.
    fn drop(&mut self) {
        if self.counted && self.shared.handles.fetch_sub(1, AcqRel) == 1 {
            self.end_without_handles();
        }
    }
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

/// Raises what a queue was seen to have completed. Returns what it is now, which others may have raised further: what
/// the queue did until then is seen by whoever gets it. (Not by `fetch_max`, of which `ThreadSanitizer` knows nothing.)
fn raise(seen: &AtomicU64, value: u64) -> u64 {
    let mut now = seen.load(Acquire);
    while now < value {
        match seen.compare_exchange(now, value, AcqRel, Acquire) {
            Ok(_) => return value,
            Err(others) => now = others,
        }
    }
    now
}

/// What queues were seen to be done with.
pub(super) enum Reached {
    Up(TimelinePoints),
    /// The device is gone.
    Everything,
}

impl Reached {
    /// A point of a queue that does not exist is never reached.
    pub(super) fn covers_point(&self, point: TimelinePoint) -> bool {
        let known = usize::from(point.queue.0) < MAX_QUEUES;
        known && self.covers(&point.into()) || matches!(self, Self::Everything)
    }

    pub(super) fn covers(&self, points: &TimelinePoints) -> bool {
        match self {
            Self::Up(reached) => points.is_within(reached),
            Self::Everything => true,
        }
    }
}
