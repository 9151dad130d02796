//! A queue of objects of any type that are dropped once the GPU no longer uses them.
//!
//! ```text
//!   types   [ Buffer: ReleaseQueue<Buffer> ][ Image: ReleaseQueue<Image> ][ Arc<Mesh>: … ][ ] … ─► next page
//! ```
//!
//! There is a queue for each type, found by its `TypeId`. So objects are not boxed, the destructors of one type run
//! in one loop, and objects may have any size. Compared with a [`ReleaseQueue`], retiring costs one more comparison
//! for each type that was retired earlier than this one.
//!
//! Objects of one type that become ready together are dropped in the order in which they were retired, by any
//! thread; objects of different types are dropped one type after another. Objects that depend on a drop order
//! belong in one struct.

use core::any::{Any, TypeId};
use core::fmt;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::time::Duration;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;

use super::orphan::{Ending, Orphan, Patience, finish};
use super::owned::Owned;
use super::recording::Recording;
use super::registry::RecordingId;
use super::release_queue::{DropTogether, ReleaseQueue};
use super::statistics::{Reclaimed, ReleaseStatistics};
use super::tracker::{Reached, SubmissionTracker};
use crate::device::TimelinePoint;
use crate::log::event;
use crate::sync::checked::{AtomicBool, fence};
use crate::sync::spread::Spread;

/// The number of types that most programs retire is lower.
const TYPES_A_PAGE: usize = 16;

/// Drops objects once the GPU no longer uses them. `Send + Sync`; a clone refers to the same queue.
///
/// Call [`reclaim`](Self::reclaim) regularly, for example once a frame. Dropping the last clone waits for the GPU
/// for at most five seconds, and drops the objects that are free by then. The tracker adopts those that are in use
/// for longer, and those that are retired afterwards: it drops them when recordings are closed, when a
/// [poll](SubmissionTracker::poll) finds that queues have completed, or at its own end.
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

/// A deletion queue that does not wait for the GPU when this is dropped last, for a layer that wants what the GPU has
/// finished with of single types.
#[derive(Clone, Debug)]
pub(crate) struct WeakDeletionQueue(Weak<Home>);

impl WeakDeletionQueue {
    /// Drops the objects of these types that the GPU has finished with. Never waits, and runs no destructor of another
    /// type. Returns `None` once the last clone of the queue was dropped.
    pub(crate) fn reclaim_types(&self, types: &[TypeId]) -> Option<Reclaimed> {
        let home = self.0.upgrade().filter(|home| !home.closed.load(Relaxed))?;
        let is_wanted = |of| types.contains(&of);
        let (mut ahead, mut any) = (false, false);
        home.each_of(is_wanted, |queue| {
            ahead |= queue.seal();
            any |= queue.has_sealed();
        });
        let mut reclaimed = Reclaimed::default();
        // The usual case: nothing has to be asked of the driver.
        if any {
            let reached = home.tracker.poll_progress(ahead);
            home.each_of(is_wanted, |queue| reclaimed += queue.drop_ready(&reached));
        }
        Some(reclaimed)
    }

    /// Returns whether both are of one queue.
    pub(crate) fn ptr_eq(&self, other: &Self) -> bool {
        self.0.ptr_eq(&other.0)
    }

    /// Returns whether the last clone of the queue may still be alive.
    pub(crate) fn is_open(&self) -> bool {
        self.0.upgrade().is_some_and(|home| !home.closed.load(Relaxed))
    }
}

/// Shared by all clones. After it is dropped no thread calls [`DeletionQueue::reclaim`] any more.
#[derive(Debug)]
struct Handle {
    home: Arc<Home>,
    /// For owners: a single count would be written by all threads that create and drop them.
    owners: Spread<Home>,
    tracker: SubmissionTracker,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.home.closed.store(true, Relaxed);
        // Pairs with the fence of a thread that takes a shard for the first time (`sync::shards`): either the owner that
        // retires an object there sees `closed`, or `finish` below sees the shard. Without it both could miss the other's store.
        fence(SeqCst);
        finish(&self.home);
    }
}

/// The queues of all types. Outlives the last [`DeletionQueue`] as long as there are owners.
pub(super) struct Home {
    tracker: SubmissionTracker,
    types: Page,
    /// The last handle is gone: objects are reclaimed only by owners that retire and by recordings that close.
    closed: AtomicBool,
    ending: Ending,
}

/// The queues of up to 16 types, in the order in which the types were first retired or said to be dropped together, without gaps.
#[derive(Default)]
struct Page {
    queues: [OnceLock<TypeQueue>; TYPES_A_PAGE],
    next: OnceLock<Box<Page>>,
}

struct TypeQueue {
    of: TypeId,
    /// The [`ReleaseQueue`] of that type.
    queue: Box<dyn Any + Send + Sync>,
    /// Returns the queue as [`AnyQueue`], for callers that do not know the type.
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

    /// Returns the queue if it is for this type.
    #[inline]
    fn get<T: Send + 'static>(&self) -> Option<&ReleaseQueue<T>> {
        // `downcast_ref` calls through a vtable; a comparison of ids skips that for the queues of other types.
        if self.of == TypeId::of::<T>() { self.queue.downcast_ref() } else { None }
    }
}

/// A [`ReleaseQueue`] without its type.
trait AnyQueue: Send + Sync {
    fn seal(&self) -> bool;
    fn has_sealed(&self) -> bool;
    fn drop_ready(&self, reached: &Reached) -> Reclaimed;
    fn drain(&self, timeout: Duration) -> ReleaseStatistics;
    fn statistics(&self) -> ReleaseStatistics;
    fn pending(&self) -> Option<usize>;
    fn trim(&self);
}

impl<T: Send + 'static> AnyQueue for ReleaseQueue<T> {
    fn seal(&self) -> bool {
        self.seal()
    }

    fn has_sealed(&self) -> bool {
        self.has_sealed()
    }

    fn drop_ready(&self, reached: &Reached) -> Reclaimed {
        self.drop_ready(reached)
    }

    fn drain(&self, timeout: Duration) -> ReleaseStatistics {
        self.drain(timeout, drop)
    }

    fn statistics(&self) -> ReleaseStatistics {
        self.statistics()
    }

    fn pending(&self) -> Option<usize> {
        self.pending()
    }

    fn trim(&self) {
        self.trim();
    }
}

impl DeletionQueue {
    /// Creates a queue for objects that recordings of `tracker` may use.
    #[must_use]
    pub fn new(tracker: &SubmissionTracker) -> Self {
        let (types, closed) = (Page::default(), AtomicBool::new(false));
        let ending = Ending::default();
        // Uncounted: the home may become an orphan of the tracker, and a counted handle in it would keep the
        // tracker alive forever.
        let home = Arc::new(Home { tracker: tracker.uncounted(), types, closed, ending });
        let owners = Spread::new(&home);
        Self { handle: Arc::new(Handle { home, owners, tracker: tracker.clone() }) }
    }

    /// Returns a handle that keeps nothing alive.
    pub(crate) fn downgrade(&self) -> WeakDeletionQueue {
        WeakDeletionQueue(Arc::downgrade(self.home()))
    }

    fn home(&self) -> &Arc<Home> {
        &self.handle.home
    }

    /// Returns the tracker that decides when objects may be dropped.
    #[must_use]
    pub fn tracker(&self) -> &SubmissionTracker {
        &self.handle.tracker
    }

    /// Wraps a value in an owner that retires it when dropped.
    ///
    /// ```
    /// # use allotment::{device::{DeviceError, QueueIndex, TimelinePoint, TimelineValue}, lifetime::*};
    /// # let timelines = ManualTimelines::new(2);
    /// # let tracker = SubmissionTracker::new(timelines.clone())?;
    /// # let deferred = DeletionQueue::new(&tracker);
    /// let mesh = deferred.own(String::from("a mesh"));
    /// drop(mesh); // on any thread, at any time
    /// assert_eq!(deferred.reclaim().count, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn own<T: Send + 'static>(&self, value: T) -> Owned<T> {
        self.own_sized(value, 0)
    }

    /// Like [`own`](Self::own), with the size of the resource in bytes, for statistics only.
    pub fn own_sized<T: Send + 'static>(&self, value: T, bytes: u64) -> Owned<T> {
        Owned::new(value, bytes, self.handle.owners.reference())
    }

    /// Drops `item` once every recording that is open now is submitted or discarded, and each queue has completed
    /// everything that was submitted to it by then.
    ///
    /// ```
    /// # use allotment::{device::{DeviceError, QueueIndex, TimelinePoint, TimelineValue}, lifetime::*};
    /// # let timelines = ManualTimelines::new(2);
    /// # let tracker = SubmissionTracker::new(timelines.clone())?;
    /// # let deferred = DeletionQueue::new(&tracker);
    /// let recording = tracker.record("a frame");
    /// deferred.retire(String::from("a swapchain's images")); // when the window was resized
    /// assert_eq!(deferred.reclaim().count, 0);
    /// drop(recording);
    /// assert_eq!(deferred.reclaim().count, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn retire<T: Send + 'static>(&self, item: T) {
        self.home().queue::<T>().retire(item);
    }

    /// Like [`retire`](Self::retire), with the size of the resource in bytes, for statistics only.
    pub fn retire_sized<T: Send + 'static>(&self, item: T, bytes: u64) {
        self.home().queue::<T>().retire_sized(item, bytes);
    }

    /// Drops `item`, which only this recording uses, once the recording is discarded, or submitted and completed.
    /// The recording may be closed already.
    pub fn retire_with<T: Send + 'static>(&self, recording: RecordingId, item: T) {
        self.home().queue::<T>().retire_with(recording, item);
    }

    /// Drops `item`, which the GPU does not use after this point on a queue's timeline, once the point is reached.
    /// The point may belong to a later submission.
    ///
    /// ```
    /// # use allotment::{device::{DeviceError, QueueIndex, TimelinePoint, TimelineValue}, lifetime::*};
    /// # let timelines = ManualTimelines::new(2);
    /// # let tracker = SubmissionTracker::new(timelines.clone())?;
    /// # let deferred = DeletionQueue::new(&tracker);
    /// let recording = tracker.record("a copy");
    /// let copied = recording.submit(QueueIndex(0), |queue| Ok::<_, DeviceError>(timelines.submit(queue)))?;
    /// deferred.retire_after(copied, vec![0; 1024]); // its source, which nothing else uses
    /// timelines.complete(QueueIndex(0), copied.value);
    /// assert_eq!(deferred.reclaim().count, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn retire_after<T: Send + 'static>(&self, point: TimelinePoint, item: T) {
        self.home().queue::<T>().retire_after(point, item);
    }

    /// Keeps `shared` alive until the recording is discarded, or submitted and completed. An
    /// [explicit](SubmissionTracker::record_explicit) recording needs this for each object that it uses.
    ///
    /// ```
    /// # use allotment::{device::{DeviceError, QueueIndex, TimelinePoint, TimelineValue}, lifetime::*};
    /// # let timelines = ManualTimelines::new(2);
    /// # let tracker = SubmissionTracker::new(timelines.clone())?;
    /// # let deferred = DeletionQueue::new(&tracker);
    /// let texture = std::sync::Arc::new(String::from("a texture"));
    /// let bundle = tracker.record_explicit("a list that stays for the whole level");
    /// deferred.keep(&bundle, &texture);
    /// drop(texture);
    /// assert_eq!(deferred.reclaim().count, 0, "the list uses it");
    /// drop(bundle);
    /// assert_eq!(deferred.reclaim().count, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn keep<T: Send + Sync + 'static>(&self, recording: &Recording, shared: &Arc<T>) {
        self.retire_with(recording.id(), Arc::clone(shared));
    }

    /// Drops the objects that the GPU has finished with. Objects that their destructors retire are dropped by a
    /// later call.
    ///
    /// Costs a lock and a look at each shard for each type, and a driver call for each queue with work in flight.
    pub fn reclaim(&self) -> Reclaimed {
        let home = self.home();
        // Seal the queues of all types first, so that the driver is called once for all of them.
        let mut ahead = false;
        home.each(|queue| ahead |= queue.seal());
        let reached = home.tracker.poll_progress(ahead);
        let mut reclaimed = Reclaimed::default();
        home.each(|queue| reclaimed += queue.drop_ready(&reached));
        if reclaimed.count != 0 {
            event!(
                TRACE,
                "lifetime",
                count = reclaimed.count,
                bytes = reclaimed.bytes,
                "destroyed retired objects"
            );
        }
        home.tracker.reclaim_orphans(Patience::None);
        reclaimed
    }

    /// Waits until everything is dropped, including objects that destructors retire. Gives up after `timeout`, or
    /// when the remaining objects wait for an open recording. Returns the remaining objects;
    /// [`SubmissionTracker::statistics`] names the recording that holds them.
    ///
    /// ```
    /// # use allotment::{device::{DeviceError, QueueIndex, TimelinePoint, TimelineValue}, lifetime::*};
    /// # let timelines = ManualTimelines::new(2);
    /// # let tracker = SubmissionTracker::new(timelines.clone())?;
    /// # let deferred = DeletionQueue::new(&tracker);
    /// use core::time::Duration;
    ///
    /// let recording = tracker.record("forgotten");
    /// deferred.retire(String::from("a mesh"));
    /// let left = deferred.drain(Duration::from_secs(1)); // gives up at once: no wait helps
    /// assert_eq!(left.pending, 1);
    /// assert_eq!(tracker.statistics().longest_open.map(|open| open.label), Some("forgotten"));
    /// # drop(recording);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn drain(&self, timeout: Duration) -> ReleaseStatistics {
        self.home().drain(timeout)
    }

    /// Sets how objects of a type are dropped that are ready together, if that was not set before.
    pub(crate) fn drop_together<T: Send + 'static>(&self, how: DropTogether<T>) {
        self.home().queue::<T>().set_drop_together(how);
    }

    /// Returns the pending objects and bytes. Visits every object run.
    #[must_use]
    pub fn statistics(&self) -> ReleaseStatistics {
        self.home().statistics()
    }

    /// Returns the number of pending objects; `None` while another thread reclaims some. Waits for no thread, and visits no
    /// object.
    pub(crate) fn pending(&self) -> Option<usize> {
        let mut pending = Some(0);
        self.home().each(|queue| pending = pending.zip(queue.pending()).map(|(sum, more)| sum + more));
        pending
    }

    /// Frees spare capacity that a burst has left.
    pub fn trim(&self) {
        self.home().each(|queue| queue.trim());
    }
}

impl Home {
    pub(super) fn tracker(&self) -> &SubmissionTracker {
        &self.tracker
    }

    /// Returns the queue for objects of a type, creating it if needed.
    #[inline(never)]
    fn queue<T: Send + 'static>(&self) -> &ReleaseQueue<T> {
        let mut page = &self.types;
        loop {
            for slot in &page.queues {
                // The first empty slot gets the new queue. If another thread fills the slot with another type
                // first, the search goes on behind it.
                let found = slot.get_or_init(|| TypeQueue::new::<T>(&self.tracker));
                if let Some(queue) = found.get() {
                    return queue;
                }
            }
            // Pages are linked and never move, so that references to queues stay valid without a lock.
            page = page.next.get_or_init(Box::default);
        }
    }

    /// Visits the queues of all types, with those of types that come meanwhile.
    #[inline]
    fn each(&self, visit: impl FnMut(&dyn AnyQueue)) {
        self.each_of(|_| true, visit);
    }

    /// Visits the queues of the types that are wanted.
    // A loop, since an iterator over pages and their queues was not inlined where a frame reclaims.
    #[inline]
    fn each_of(&self, wanted: impl Fn(TypeId) -> bool, mut visit: impl FnMut(&dyn AnyQueue)) {
        let mut next = Some(&self.types);
        while let Some(page) = next {
            for place in &page.queues {
                let Some(found) = place.get() else { return };
                if wanted(found.of) {
                    (found.unnamed)(&*found.queue).into_iter().for_each(&mut visit);
                }
            }
            next = page.next.get().map(|next| &**next);
        }
    }

    /// Retires the value of an [`Owned`].
    #[inline(never)]
    pub(super) fn retire_owned<T: Send + 'static>(self: &Arc<Self>, item: T, bytes: u64) {
        self.queue::<T>().retire_sized(item, bytes);
        self.finish_if_closed();
    }

    pub(super) fn retire_owned_with<T: Send + 'static>(
        self: &Arc<Self>,
        recording: RecordingId,
        item: T,
        bytes: u64,
    ) {
        self.queue::<T>().retire_with_sized(recording, item, bytes);
        self.finish_if_closed();
    }

    /// Drops what can be dropped if the last handle is gone. Called after an owner retired a value.
    #[inline]
    fn finish_if_closed(self: &Arc<Self>) {
        // With no fence, which would take as long as the exchange of a lock. `finish`, in `Handle::drop`, locks each shard that
        // was ever taken, and the owner has just had the lock of one:
        //
        //   owner    locks the shard, adds the object, unlocks it, reads `closed`
        //   handle   writes `closed`, locks the shard, looks, unlocks it
        //
        // If the owner was first, the handle sees the object; else the owner sees `closed`, by the lock that it took from the
        // handle. For a shard that was never taken see `Handle::drop`; whoever takes one for the first time comes here, too, so
        // an owner that finds it taken already, and misses `closed`, is found by that look.
        if self.closed.load(Relaxed) {
            finish(self);
        }
    }

    fn statistics(&self) -> ReleaseStatistics {
        let mut statistics = ReleaseStatistics::default();
        self.each(|queue| statistics += queue.statistics());
        statistics
    }

    fn drain(&self, timeout: Duration) -> ReleaseStatistics {
        let began = Instant::now();
        // Repeat while something is released: each round may make objects of other types pending.
        loop {
            let before = self.statistics();
            self.each(|queue| {
                queue.drain(timeout.saturating_sub(began.elapsed()));
            });
            let left = self.statistics();
            // A destructor may have retired an object of a type that this round had drained before.
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
