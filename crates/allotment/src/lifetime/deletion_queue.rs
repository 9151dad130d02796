//! Anything at all, kept until the GPU is done with it, and then dropped.
//!
//! ```text
//!   types   [ Buffer: ReleaseQueue<Buffer> ][ Image: ReleaseQueue<Image> ][ Arc<Mesh>: … ][ ] … ─► next page
//! ```
//!
//! There is a queue for each type, found by the type's number. So nothing is put into boxes, destructors of one
//! type run in one loop, and things may be of any size. What it costs beside that of a
//! [`ReleaseQueue`] is the search: a comparison for each type that was retired before this one.
//!
//! Things of one type that go together are dropped in the order in which they were retired, by whichever threads; of
//! several types, one type after the other. What must be dropped in an order belongs in one struct.

use core::any::{Any, TypeId};
use core::fmt;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::time::Duration;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use super::orphan::{Ending, Orphan, Patience, finish};
use super::owned::Owned;
use super::recording::Recording;
use super::registry::RecordingId;
use super::release_queue::ReleaseQueue;
use super::statistics::{Reclaimed, ReleaseStatistics};
use super::tracker::{Reached, SubmissionTracker};
use crate::device::TimelinePoint;
use crate::sync::checked::{AtomicBool, fence};

/// More types than most programs retire.
const TYPES_A_PAGE: usize = 16;

/// Drops things when the GPU is done with them. A clone is the same one; all threads may use it.
///
/// Call [`reclaim`](Self::reclaim) now and then, once a frame say. When the last clone goes it waits for the
/// GPU, for five seconds at most, and drops what is left. What is in use longer, and what is dropped or retired after
/// that, the tracker looks after: it goes as soon as recordings are closed or queues are
/// [seen](SubmissionTracker::poll) to have completed it, or with the tracker.
///
/// ```
/// use allotment::device::QueueIndex;
/// use allotment::lifetime::{DeletionQueue, ManualTimelines, SubmissionTracker};
///
/// let timelines = ManualTimelines::new(1);
/// let tracker = SubmissionTracker::new(timelines.clone())?;
/// let deferred = DeletionQueue::new(&tracker);
///
/// let mesh = deferred.own(String::from("anything that has a destructor"));
/// let recording = tracker.record("a frame");
/// drop(mesh);
/// deferred.reclaim();
/// assert_eq!(deferred.statistics().pending, 1, "the recording may use it");
/// drop(recording);
/// assert_eq!(deferred.reclaim().count, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct DeletionQueue {
    handle: Arc<Handle>,
}

/// When this goes, nobody calls [`DeletionQueue::reclaim`] any more.
#[derive(Debug)]
struct Handle {
    home: Arc<Home>,
    tracker: SubmissionTracker,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.home.closed.store(true, Relaxed);
        // Either an owner that retires something sees this, or what it has retired is seen below.
        fence(SeqCst);
        finish(&self.home);
    }
}

/// Where things are kept. Outlives the last [`DeletionQueue`] while there are owners.
pub(super) struct Home {
    tracker: SubmissionTracker,
    types: Page,
    /// Nobody reclaims any more but who retires, and recordings that close.
    closed: AtomicBool,
    ending: Ending,
}

/// Queues in the order in which their types were met, without gaps.
#[derive(Default)]
struct Page {
    queues: [OnceLock<TypeQueue>; TYPES_A_PAGE],
    next: OnceLock<Box<Page>>,
}

struct TypeQueue {
    of: TypeId,
    /// A [`ReleaseQueue`] of that type.
    queue: Box<dyn Any + Send + Sync>,
    /// The same, for who does not know the type.
    unnamed: fn(&(dyn Any + Send + Sync)) -> Option<&dyn AnyQueue>,
}

impl TypeQueue {
    fn new<T: Send + 'static>(tracker: &SubmissionTracker) -> Self {
        Self {
            of: TypeId::of::<T>(),
            queue: Box::new(ReleaseQueue::<T>::within(tracker)),
            unnamed: |queue| Some(queue.downcast_ref::<ReleaseQueue<T>>()?),
        }
    }

    /// The queue, if it is for this type.
    #[inline]
    fn get<T: Send + 'static>(&self) -> Option<&ReleaseQueue<T>> {
        // Most that are passed by are told apart without a call.
        if self.of == TypeId::of::<T>() { self.queue.downcast_ref() } else { None }
    }
}

/// A [`ReleaseQueue`] of a type that is not known here.
trait AnyQueue: Send + Sync {
    fn seal(&self) -> bool;
    fn hand_out(&self, reached: &Reached) -> Reclaimed;
    fn drain(&self, timeout: Duration) -> ReleaseStatistics;
    fn statistics(&self) -> ReleaseStatistics;
    fn trim(&self);
}

impl<T: Send + 'static> AnyQueue for ReleaseQueue<T> {
    fn seal(&self) -> bool {
        self.seal()
    }

    fn hand_out(&self, reached: &Reached) -> Reclaimed {
        self.hand_out(reached, drop)
    }

    fn drain(&self, timeout: Duration) -> ReleaseStatistics {
        self.drain(timeout, drop)
    }

    fn statistics(&self) -> ReleaseStatistics {
        self.statistics()
    }

    fn trim(&self) {
        self.trim();
    }
}

impl DeletionQueue {
    /// Keeps things that the recordings which `tracker` knows of may use.
    #[must_use]
    pub fn new(tracker: &SubmissionTracker) -> Self {
        let (types, closed) = (Page::default(), AtomicBool::new(false));
        let ending = Ending::default();
        // The home may become an orphan of the tracker, which must be able to end then.
        let home = Arc::new(Home { tracker: tracker.uncounted(), types, closed, ending });
        Self { handle: Arc::new(Handle { home, tracker: tracker.clone() }) }
    }

    fn home(&self) -> &Arc<Home> {
        &self.handle.home
    }

    /// The tracker that says when things may go.
    #[must_use]
    pub fn tracker(&self) -> &SubmissionTracker {
        &self.handle.tracker
    }

    /// Owns something that is retired by being dropped.
    pub fn own<T: Send + 'static>(&self, value: T) -> Owned<T> {
        self.own_sized(value, 0)
    }

    /// As [`own`](Self::own), for something that stands for so many bytes. They are only counted.
    pub fn own_sized<T: Send + 'static>(&self, value: T, bytes: u64) -> Owned<T> {
        Owned::new(value, bytes, Arc::clone(self.home()))
    }

    /// Drops `item` when every recording that is open now is submitted or discarded, and each queue has
    /// completed what it had been given by then.
    pub fn retire<T: Send + 'static>(&self, item: T) {
        self.home().queue::<T>().retire(item);
    }

    /// As [`retire`](Self::retire), for something that stands for so many bytes. They are only counted.
    pub fn retire_sized<T: Send + 'static>(&self, item: T, bytes: u64) {
        self.home().queue::<T>().retire_sized(item, bytes);
    }

    /// Drops `item`, which one recording uses and nobody else, when that is discarded, or submitted and
    /// completed. It may be closed already.
    pub fn retire_with<T: Send + 'static>(&self, recording: RecordingId, item: T) {
        self.home().queue::<T>().retire_with(recording, item);
    }

    /// Drops `item`, which nobody uses after a point on a queue's timeline, when that is reached. The point
    /// may be one that is submitted later.
    pub fn retire_after<T: Send + 'static>(&self, point: TimelinePoint, item: T) {
        self.home().queue::<T>().retire_after(point, item);
    }

    /// Keeps `shared` alive for as long as a recording, and what it is submitted as, may use it. A recording
    /// that [owns](SubmissionTracker::record_explicit) what it uses is told of all of it in this way.
    pub fn keep<T: Send + Sync + 'static>(&self, recording: &Recording, shared: &Arc<T>) {
        self.retire_with(recording.id(), Arc::clone(shared));
    }

    /// Drops what the GPU is done with. What that retires goes with a later call.
    ///
    /// For each type, a lock and a look at each shard; and a driver call for each queue that has work in
    /// flight.
    pub fn reclaim(&self) -> Reclaimed {
        let home = self.home();
        // All of them, so that drivers are asked once for all types.
        let ahead = home.queues().fold(false, |ahead, queue| queue.seal() | ahead);
        let reached = home.tracker.look(ahead);
        let mut reclaimed = Reclaimed::default();
        home.queues().for_each(|queue| reclaimed += queue.hand_out(&reached));
        home.tracker.look_after_orphans(Patience::None);
        reclaimed
    }

    /// Waits until everything is dropped, what that retires included, at most for `timeout`, or until what is
    /// left waits for a recording that is open. Returns what is left;
    /// [`SubmissionTracker::statistics`] says which recording holds it.
    pub fn drain(&self, timeout: Duration) -> ReleaseStatistics {
        self.home().drain(timeout)
    }

    /// What is pending. Walks everything.
    #[must_use]
    pub fn statistics(&self) -> ReleaseStatistics {
        self.home().statistics()
    }

    /// Gives the room back that a burst has left.
    pub fn trim(&self) {
        self.home().queues().for_each(AnyQueue::trim);
    }
}

impl Home {
    pub(super) fn tracker(&self) -> &SubmissionTracker {
        &self.tracker
    }

    /// The queue for things of a type.
    fn queue<T: Send + 'static>(&self) -> &ReleaseQueue<T> {
        let mut page = &self.types;
        loop {
            for slot in &page.queues {
                // Made now where this is the first gap; unless another type is faster, which is then passed by.
                let found = slot.get_or_init(|| TypeQueue::new::<T>(&self.tracker));
                if let Some(queue) = found.get() {
                    return queue;
                }
            }
            page = page.next.get_or_init(Box::default);
        }
    }

    fn queues(&self) -> impl Iterator<Item = &dyn AnyQueue> {
        let pages = core::iter::successors(Some(&self.types), |page| page.next.get().map(|next| &**next));
        pages.flat_map(|page| &page.queues).map_while(|slot| {
            let found = slot.get()?;
            (found.unnamed)(&*found.queue)
        })
    }

    /// Keeps what an [`Owned`] had.
    pub(super) fn take_back<T: Send + 'static>(self: &Arc<Self>, item: T, bytes: u64) {
        self.queue::<T>().retire_sized(item, bytes);
        self.finish_if_closed();
    }

    pub(super) fn take_back_with<T: Send + 'static>(
        self: &Arc<Self>,
        recording: RecordingId,
        item: T,
        bytes: u64,
    ) {
        self.queue::<T>().retire_with_sized(recording, item, bytes);
        self.finish_if_closed();
    }

    /// Called after something was retired by an owner.
    fn finish_if_closed(self: &Arc<Self>) {
        // Or who closes and who retires could miss each other, each being slow to be seen.
        fence(SeqCst);
        if self.closed.load(Relaxed) {
            finish(self);
        }
    }

    fn statistics(&self) -> ReleaseStatistics {
        let mut statistics = ReleaseStatistics::default();
        self.queues().for_each(|queue| statistics += queue.statistics());
        statistics
    }

    fn drain(&self, timeout: Duration) -> ReleaseStatistics {
        let began = Instant::now();
        loop {
            let before = self.statistics();
            self.queues().for_each(|queue| {
                queue.drain(timeout.saturating_sub(began.elapsed()));
            });
            let left = self.statistics();
            // What one type's destructors retire may be of a type that had its turn.
            let moved = left.reclaimed.count > before.reclaimed.count;
            if left.pending == 0 || !moved || began.elapsed() >= timeout {
                return left;
            }
        }
    }
}

impl Orphan for Home {
    fn tracker(&self) -> &SubmissionTracker {
        &self.tracker
    }

    fn drain(&self, timeout: Duration) -> u64 {
        self.drain(timeout).pending
    }

    fn ending(&self) -> &Ending {
        &self.ending
    }
}

impl fmt::Debug for Home {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Home").field("statistics", &self.statistics()).finish_non_exhaustive()
    }
}
