//! A queue of plain handles that are handed back once the GPU no longer uses them.
//!
//! ```text
//!   retire ──► shards, stamped ──► sealed, with a point on each queue ──► ready ──► dropped
//!                            recordings close                  queues reach them    without a lock
//!   retire_with, retire_after ──► tied ───────────────────────────────────▲
//! ```
//!
//! The article "Managing Resource Lifetimes" (Diligent Engine) stamps a released object with the number of the next
//! command list, and requires the application to have submitted the last command that uses it. Here the application
//! promises nothing: a retired item waits until every recording that was open at that moment is submitted or
//! discarded, and only then for each queue to complete what was submitted to it by then. An idle queue delays
//! nothing.
//!
//! # Order
//!
//! Items that are ready together are handed out in the order in which they were retired, by any thread and any
//! `retire` method: an item that was retired after another, by the same thread or by one that synchronized with it,
//! comes later; see `order.rs`. So a child that is retired before its parent is released before it. A tied item may
//! become ready before items that were retired earlier; it is then released earlier.
//!
//! # Cost
//!
//! Retiring costs an exchange, a store and a push, and one more exchange if another thread was the last to retire.
//! Reclaiming with nothing ready costs a lock, a look at each shard, and a driver call for each queue with work in
//! flight, however many items wait; tied items that still wait are in `waiting.rs`. None of it allocates once the highest
//! number of pending items was reached, and the highest number of points and recordings that tied ones waited for;
//! [`trim`](ReleaseQueue::trim) frees that capacity. An item takes its own size, and a run of items with the same stamp,
//! uninterrupted by other threads, takes 40 bytes.

mod drain;

use core::fmt;
use core::mem;
use core::time::Duration;
use std::collections::VecDeque;
use std::collections::vec_deque::Drain;
use std::sync::{Arc, OnceLock};

use super::order::{Places, Span, Turns};
use super::orphan::{Ending, Orphan, Patience, finish};
use super::registry::{RecordingId, RecordingStatus};
use super::shard::{Run, Shard, Tie, Tied, make_room, move_front};
use super::statistics::{Reclaimed, ReleaseStatistics};
use super::timeline_points::TimelinePoints;
use super::tracker::{Reached, SubmissionTracker};
use super::waiting::{Outcome, Waiting};
use crate::device::TimelinePoint;
use crate::sync::checked::{Mutex, locked, try_locked};
use crate::sync::shards::Shards;

/// Initial capacity for sealed runs, and for newly tied items: three frames in flight, each sealed a few times or with a few
/// items, and some. Their number grows with the delay of the queues, which may be late for the first time after an
/// hour. 2 KiB for the runs.
const RUNS: usize = 16;

/// Capacity that a shard reserves for tied items, if as many are known to be waiting. An owner that reclaims only
/// when no object is free releases as many between two reclaims as there are, once the queues are fast.
const TIED: usize = 64;

/// Keeps items until the GPU has finished with them. `Send + Sync`; any thread may retire and reclaim.
///
/// Destructors that run within [`reclaim`](Self::reclaim) may retire further items, also into the same queue; a
/// later call releases them.
///
/// ```
/// use allotment::device::QueueIndex;
/// use allotment::lifetime::{ManualTimelines, ReleaseQueue, SubmissionTracker};
///
/// let timelines = ManualTimelines::new(1);
/// let tracker = SubmissionTracker::new(timelines.clone())?;
/// let released = ReleaseQueue::new(&tracker);
///
/// let recording = tracker.record("a frame");
/// // … a command that uses texture 7 is recorded; then the texture is no longer needed …
/// released.retire(7);
/// assert_eq!(released.reclaim(drop).count, 0, "the recording is open");
///
/// let queue = QueueIndex(0);
/// let done = recording.submit(queue, |_| Ok::<_, ()>(timelines.submit(queue))).unwrap();
/// assert_eq!(released.reclaim(drop).count, 0, "the queue uses it");
/// timelines.complete(queue, done.value);
/// assert_eq!(released.reclaim(|texture| assert_eq!(texture, 7)).count, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ReleaseQueue<T: Send + 'static> {
    tracker: SubmissionTracker,
    shards: Shards<Shard<T>>,
    turns: Turns,
    sealed: Mutex<Sealed<T>>,
    /// How items that are ready together are dropped, where their type gains by that.
    drop_together: OnceLock<DropTogether<T>>,
}

/// Drops items, in their order. Those that it leaves, should it panic, are dropped one by one.
pub(crate) type DropTogether<T> = fn(&mut Drain<'_, T>);

/// Items that wait only for queues.
struct Sealed<T> {
    /// In the order in which they were sealed, so the points of their runs grow from run to run.
    items: VecDeque<T>,
    runs: VecDeque<Run<TimelinePoints>>,
    /// The orders of the items. Their counts add up to the number of items.
    spans: VecDeque<Span>,
    /// Tied items that were not looked at yet.
    tied: Vec<Tied<T>>,
    /// The other tied items.
    waiting: Waiting<T>,
    /// Scratch space for ready items, kept to avoid allocations.
    ready: VecDeque<T>,
    /// The orders of the ready items.
    places: Places,
    /// Runs that a seal has taken from the shards.
    arrived: Vec<Run<()>>,
    /// An item was tied to a point that was not submitted yet, when last checked. A poll of the queues with work in
    /// flight would never find that the device is lost.
    ahead: bool,
    reclaimed: Reclaimed,
}

/// The state of a tied item.
#[derive(Clone, Copy)]
enum TieState {
    /// It waits, for this.
    Waits(Tie),
    /// Its recording belongs to another tracker.
    Never,
    Ready,
    /// The status of its recording is no longer kept: it waits for all queues.
    Unknown,
}

impl<T> Sealed<T> {
    fn new() -> Self {
        Self {
            items: VecDeque::new(),
            runs: VecDeque::new(),
            spans: VecDeque::new(),
            tied: Vec::new(),
            waiting: Waiting::new(),
            ready: VecDeque::new(),
            places: Places::default(),
            arrived: Vec::new(),
            ahead: false,
            reclaimed: Reclaimed::default(),
        }
    }
}

impl<T: Send + 'static> ReleaseQueue<T> {
    /// Creates a queue for items that recordings of `tracker` may use.
    #[must_use]
    pub fn new(tracker: &SubmissionTracker) -> Self {
        Self::over(tracker.clone(), Shards::new(Shard::new))
    }

    /// Creates a queue that does not keep the tracker alive.
    pub(super) fn within(tracker: &SubmissionTracker) -> Self {
        Self::over(tracker.uncounted(), Shards::new(Shard::new))
    }

    /// Creates a queue with this number of shards, a power of two, for tests.
    #[cfg(allotment_loom)]
    #[doc(hidden)]
    #[must_use]
    pub fn with_shards(tracker: &SubmissionTracker, shards: usize) -> Self {
        Self::over(tracker.clone(), Shards::with_count(shards, Shard::new).all_used())
    }

    fn over(tracker: SubmissionTracker, shards: Shards<Shard<T>>) -> Self {
        let drop_together = OnceLock::new();
        Self { tracker, shards, turns: Turns::new(), sealed: Mutex::new(Sealed::new()), drop_together }
    }

    /// Returns the tracker that decides when items may be released.
    #[must_use]
    pub fn tracker(&self) -> &SubmissionTracker {
        &self.tracker
    }

    /// Keeps `item` until every recording that is open now is submitted or discarded, and each queue has completed
    /// everything that was submitted to it by then.
    #[inline]
    pub fn retire(&self, item: T) {
        self.retire_sized(item, 0);
    }

    /// Like [`retire`](Self::retire), with the size of the resource in bytes, for statistics only.
    // Always: an item that is passed through memory is written field by field and then read in larger pieces, for which
    // the processor waits until all of it has arrived.
    #[inline(always)]
    pub fn retire_sized(&self, item: T, bytes: u64) {
        let mut shard = self.shards.any();
        // The stamp is read under the shard's lock, so that stamps grow within a shard.
        shard.push(&self.turns, self.tracker.stamp(), bytes, || self.tracker.coarse_now(), item);
    }

    /// Keeps `item`, which only this recording uses, until the recording is discarded, or submitted and completed.
    /// The recording may be closed already.
    pub fn retire_with(&self, recording: RecordingId, item: T) {
        self.tie(Tie::Recording(recording), item, 0);
    }

    /// Keeps `item`, which the GPU does not use after this point on a queue's timeline, until the point is reached.
    /// The point may belong to a later submission.
    pub fn retire_after(&self, point: TimelinePoint, item: T) {
        self.tie(Tie::Point(point), item, 0);
    }

    /// Like [`retire_with`](Self::retire_with), with the size of the resource in bytes, for statistics only.
    pub fn retire_with_sized(&self, recording: RecordingId, item: T, bytes: u64) {
        self.tie(Tie::Recording(recording), item, bytes);
    }

    fn tie(&self, tie: Tie, item: T, bytes: u64) {
        let since = self.tracker.coarse_now();
        self.shards.any().tie(&self.turns, tie, bytes, since, item);
    }

    /// Passes every item that the GPU has finished with to `each`, in the order in which they were retired, with no
    /// lock held.
    ///
    /// If several threads reclaim at the same time, each passes on the items that it took. If `each` panics, the
    /// rest of the ready items is dropped, each once.
    pub fn reclaim(&self, each: impl FnMut(T)) -> Reclaimed {
        let reclaimed = self.reclaim_here(each);
        self.tracker.reclaim_orphans(Patience::None);
        reclaimed
    }

    /// Like [`reclaim`](Self::reclaim), for callers that may hold a lock: runs no destructor outside of `each`.
    pub(crate) fn reclaim_here(&self, each: impl FnMut(T)) -> Reclaimed {
        let ahead = self.seal();
        // The driver is called with no lock held.
        self.hand_out(&self.tracker.poll_progress(ahead), each)
    }

    /// Sets how items are dropped that are ready together, if that was not set before.
    pub(super) fn set_drop_together(&self, how: DropTogether<T>) {
        let _ = self.drop_together.set(how);
    }

    /// Drops the items that the GPU has finished with, the second half of [`reclaim`](Self::reclaim).
    pub(super) fn drop_ready(&self, reached: &Reached) -> Reclaimed {
        self.hand_out_together(reached, |ready| match self.drop_together.get() {
            Some(how) => how(ready),
            None => ready.for_each(drop),
        })
    }

    /// The second half of [`reclaim`](Self::reclaim), once the progress of the queues is known.
    fn hand_out(&self, reached: &Reached, each: impl FnMut(T)) -> Reclaimed {
        self.hand_out_together(reached, |ready| ready.for_each(each))
    }

    #[inline]
    fn hand_out_together(&self, reached: &Reached, all: impl FnOnce(&mut Drain<'_, T>)) -> Reclaimed {
        // Taken out first: `all` runs without the lock, and may retire into this queue.
        let (mut ready, reclaimed) = self.take_ready(reached);
        if reclaimed.count > 0 {
            all(&mut ready.drain(..));
        }
        let mut sealed = locked(&self.sealed);
        if ready.capacity() > sealed.ready.capacity() {
            // Another thread may have returned a buffer meanwhile: keep the larger one. Both are empty.
            mem::swap(&mut sealed.ready, &mut ready);
        }
        drop(sealed);
        reclaimed
    }

    /// Records the current submissions for every item that no open recording can use. Returns true if an item waits
    /// for a point that was not submitted yet.
    pub(super) fn seal(&self) -> bool {
        let mut guard = locked(&self.sealed);
        let sealed = &mut *guard;
        let horizon = self.tracker.horizon();
        // Shards are visited one after the other: an item that is retired after this read waits for the next seal.
        let closed = self.turns.closed();
        for mut shard in self.shards.each() {
            let came = shard.take_sealed(horizon, closed, &mut sealed.items, &mut sealed.spans);
            sealed.arrived.extend(came);
            if !shard.tied.is_empty() {
                // Keep the capacity in the shard: an owner that reclaims late ties as many items again before the
                // next seal.
                let waiting = sealed.waiting.capacity().max(RUNS);
                // Exactly, or this list and that of waiting items, which grows in steps, would outgrow each other in turn.
                sealed.tied.reserve_exact(waiting.saturating_sub(sealed.tied.len()));
                shard.take_tied(closed, &mut sealed.tied);
                shard.tied.reserve(sealed.tied.capacity().min(TIED));
            }
        }
        if sealed.arrived.is_empty() {
            return sealed.ahead;
        }
        // On first use only; queues that never hold anything cost nothing.
        if sealed.runs.capacity() == 0 {
            sealed.runs.reserve(RUNS);
        }
        // Read after the horizon: submissions of all recordings below the horizon are included.
        let points = self.tracker.submitted();
        // Items sealed by one call, and by calls without a submission in between, share a run.
        for Run { mark: (), count, bytes, since } in sealed.arrived.drain(..) {
            match sealed.runs.back_mut().filter(|last| last.mark == points) {
                Some(last) => {
                    last.count += count;
                    last.bytes += bytes;
                }
                None => sealed.runs.push_back(Run { mark: points, count, bytes, since }),
            }
        }
        sealed.ahead
    }

    /// Returns whether items wait only for queues, or for a point or a recording of their own.
    pub(super) fn has_sealed(&self) -> bool {
        let sealed = locked(&self.sealed);
        !sealed.runs.is_empty() || !sealed.tied.is_empty() || sealed.waiting.len() != 0
    }

    /// Removes the ready items.
    fn take_ready(&self, reached: &Reached) -> (VecDeque<T>, Reclaimed) {
        let mut guard = locked(&self.sealed);
        let sealed = &mut *guard;
        let mut ready = mem::take(&mut sealed.ready);
        let mut reclaimed = Reclaimed::default();
        // Any part of the pending items may be ready at once, and as many may be pending as the lists have room for,
        // depending on how late a queue is: reserve for all, so that a later call never allocates.
        let all_tied = sealed.waiting.len() + sealed.tied.len();
        sealed.waiting.reserve(all_tied.max(sealed.tied.capacity()), self.tracker.queue_count());
        let room = sealed.items.capacity() + sealed.waiting.capacity();
        sealed.places.reserve(sealed.spans.capacity() + sealed.waiting.capacity());
        // Spans and single orders are pushed together: at most one per span and one per tied item.
        if all_tied > 0 {
            // A tied item may be ready before items that were retired earlier, for the first time in any frame.
            sealed.places.reserve_sort(room);
            self.untie(sealed, reached, &mut ready, &mut reclaimed);
        }
        let mut count = 0;
        while let Some(run) = sealed.runs.front().filter(|run| reached.covers(&run.mark)) {
            // Points grow from run to run: the first run that is not reached ends the search.
            count += run.count;
            reclaimed.bytes += run.bytes;
            sealed.runs.pop_front();
        }
        reclaimed.count += count as u64;
        // Released by their own tie, they may precede untied items: one buffer takes both, and `arrange` sorts.
        if !ready.is_empty() {
            make_room(&mut ready, room);
        }
        move_front(&mut sealed.items, count, &mut ready);
        // The orders of the items move with them; a span is split where its items are only partly ready.
        while count > 0 {
            let Some(first) = sealed.spans.front_mut() else { break };
            let here = Span { count: count.min(first.count), ..*first };
            sealed.places.push(here);
            count -= here.count;
            first.count -= here.count;
            if first.count == 0 {
                sealed.spans.pop_front();
            }
        }
        sealed.places.arrange(&mut ready);
        sealed.reclaimed += reclaimed;
        (ready, reclaimed)
    }

    /// Moves tied items on according to the status of their recordings and points.
    fn untie(
        &self,
        sealed: &mut Sealed<T>,
        reached: &Reached,
        ready: &mut VecDeque<T>,
        reclaimed: &mut Reclaimed,
    ) {
        let Sealed { tied, waiting, items, runs, spans, places, ahead, .. } = sealed;
        let to = &mut Outcome { ready, places, reclaimed };
        // Read once per reclaim at most, and after the statuses: an unknown recording was submitted before.
        let mut points = None;
        // Treated like items sealed now: all submissions so far include those of the recording.
        let mut unknown = |Run { mark: (), count, bytes, since },
                           taken: &mut dyn Iterator<Item = (u64, T)>| {
            let points = *points.get_or_insert_with(|| self.tracker.submitted());
            runs.push_back(Run { mark: points, count, bytes, since });
            for (order, item) in taken {
                spans.push_back(Span { order, count: 1 });
                items.push_back(item);
            }
        };
        // Items that wait for points only, and of which none is new, need no status, and no lock.
        if waiting.has_recordings() || !tied.is_empty() {
            self.tracker.with_statuses(|statuses| {
                waiting.look_at_recordings(statuses, to, &mut unknown);
                let judge = |tie| {
                    let point = match tie {
                        Tie::Point(point) => point,
                        Tie::Recording(recording) => match statuses.of(recording) {
                            RecordingStatus::Submitted(point) => point,
                            RecordingStatus::Open => return TieState::Waits(tie),
                            RecordingStatus::WrongTracker => return TieState::Never,
                            RecordingStatus::Discarded => return TieState::Ready,
                            RecordingStatus::Unknown => return TieState::Unknown,
                        },
                    };
                    if reached.covers_point(point) {
                        return TieState::Ready;
                    }
                    // From here on only the point matters: the status of the recording may be forgotten later.
                    TieState::Waits(Tie::Point(point))
                };
                // Items of one recording are usually retired in a row: reuse the last result for an equal tie.
                let mut last: Option<(Tie, TieState)> = None;
                for tied in tied.drain(..) {
                    let state = match last {
                        Some((tie, state)) if tie == tied.tie => state,
                        _ => judge(tied.tie),
                    };
                    last = Some((tied.tie, state));
                    match state {
                        TieState::Waits(tie) => waiting.add(Tied { tie, ..tied }),
                        TieState::Never => waiting.add_for_good(tied),
                        TieState::Ready => {
                            *to.reclaimed += Reclaimed { count: 1, bytes: tied.bytes };
                            to.push(tied.order, tied.item);
                        }
                        TieState::Unknown => {
                            let run = Run { mark: (), count: 1, bytes: tied.bytes, since: tied.since };
                            unknown(run, &mut core::iter::once((tied.order, tied.item)));
                        }
                    }
                }
            });
        }
        waiting.take_reached(reached, to);
        *ahead = waiting.highest().any(|point| self.tracker.is_ahead(point));
    }

    /// Returns the number of items that fit without an allocation: the most that were pending when some were
    /// released.
    pub(crate) fn room(&self) -> usize {
        locked(&self.sealed).ready.capacity()
    }

    /// Returns the pending items and bytes. Visits every run with locks held.
    #[must_use]
    pub fn statistics(&self) -> ReleaseStatistics {
        let mut statistics = ReleaseStatistics::default();
        let mut oldest: Option<u64> = None;
        let mut add = |count: usize, bytes, since| {
            statistics.pending += count as u64;
            statistics.bytes += bytes;
            oldest = Some(oldest.map_or(since, |oldest| oldest.min(since)));
        };
        let sealed = locked(&self.sealed);
        sealed.runs.iter().for_each(|run| add(run.count, run.bytes, run.since));
        sealed.tied.iter().for_each(|tied| add(1, tied.bytes, tied.since));
        sealed.waiting.runs().for_each(|run| add(run.count, run.bytes, run.since));
        for shard in self.shards.each() {
            shard.runs().for_each(|run| add(run.count, run.bytes, run.since));
            shard.tied.iter().for_each(|tied| add(1, tied.bytes, tied.since));
        }
        statistics.reclaimed = sealed.reclaimed;
        statistics.oldest = oldest.map(|since| self.tracker.age(since));
        statistics
    }

    /// Returns the number of pending items; `None` while another thread reclaims some. Waits for no thread, and visits no
    /// item.
    pub(super) fn pending(&self) -> Option<usize> {
        let sealed = try_locked(&self.sealed)?;
        let here = sealed.items.len() + sealed.tied.len() + sealed.waiting.len();
        Some(here + self.shards.each().map(|shard| shard.len()).sum::<usize>())
    }

    /// Frees spare capacity that a burst has left.
    pub fn trim(&self) {
        let mut sealed = locked(&self.sealed);
        let Sealed { items, runs, spans, tied, waiting, ready, places, arrived, .. } = &mut *sealed;
        spans.shrink_to_fit();
        places.trim();
        items.shrink_to_fit();
        runs.shrink_to_fit();
        tied.shrink_to_fit();
        waiting.trim();
        ready.shrink_to_fit();
        arrived.shrink_to_fit();
        for mut shard in self.shards.each() {
            shard.trim();
        }
    }

    /// For tests: checks that redundant state agrees.
    ///
    /// # Panics
    ///
    /// Panics if it does not, which is a bug of this crate.
    // Hidden: public for tests alone, which are other crates, and no part of the stable interface.
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        let sealed = locked(&self.sealed);
        assert_eq!(sealed.runs.iter().map(|run| run.count).sum::<usize>(), sealed.items.len());
        assert_eq!(sealed.spans.iter().map(|span| span.count).sum::<usize>(), sealed.items.len());
        assert!(sealed.places.is_empty());
        let mut pairs = sealed.runs.iter().zip(sealed.runs.iter().skip(1));
        assert!(pairs.all(|(a, b)| a.mark.is_within(&b.mark)), "points grow from run to run");
        assert!(sealed.arrived.is_empty() && sealed.ready.is_empty());
        sealed.waiting.check_invariants();
        self.shards.each().for_each(|shard| shard.check_invariants());
    }
}

impl<T: Send + 'static> Drop for ReleaseQueue<T> {
    /// Waits for the GPU for at most five seconds, less what others of the tracker that ended just before have waited,
    /// and drops the items that it has finished with. Items that an open recording or a queue further behind may use are
    /// left to the tracker, which drops them when that is over.
    fn drop(&mut self) {
        // If a destructor panics, the remaining items are leaked: the GPU may use them.
        let guard = Leaked(self);
        let left = self.tracker.drain_last(|wait| self.drain(wait, drop).pending);
        mem::forget(guard);
        if left == 0 {
            return;
        }
        let queue = Self {
            tracker: self.tracker.uncounted(),
            turns: mem::replace(&mut self.turns, Turns::new()),
            shards: mem::replace(&mut self.shards, Shards::with_count(1, Shard::new)),
            sealed: Mutex::new(mem::replace(&mut *locked(&self.sealed), Sealed::new())),
            drop_together: mem::take(&mut self.drop_together),
        };
        finish(&Arc::new(Abandoned { queue, ending: Ending::default() }));
    }
}

/// The remaining items of a queue that was dropped while recordings were open or the GPU was behind.
struct Abandoned<T: Send + 'static> {
    queue: ReleaseQueue<T>,
    ending: Ending,
}

impl<T: Send + 'static> Orphan for Abandoned<T> {
    fn tracker(&self) -> &SubmissionTracker {
        &self.queue.tracker
    }

    fn drain(&self, timeout: Duration) -> u64 {
        self.queue.drain(timeout, drop).pending
    }

    fn ending(&self) -> &Ending {
        &self.ending
    }
}

/// Leaks all items of a queue when dropped.
struct Leaked<'a, T: Send + 'static>(&'a ReleaseQueue<T>);

impl<T: Send + 'static> Drop for Leaked<'_, T> {
    fn drop(&mut self) {
        let mut sealed = locked(&self.0.sealed);
        mem::take(&mut sealed.items).into_iter().for_each(mem::forget);
        mem::take(&mut sealed.tied).into_iter().for_each(mem::forget);
        sealed.waiting.take_all().for_each(mem::forget);
        for mut shard in self.0.shards.each() {
            shard.take_all().for_each(mem::forget);
        }
    }
}

impl<T: Send + 'static> fmt::Debug for ReleaseQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReleaseQueue").field("statistics", &self.statistics()).finish_non_exhaustive()
    }
}
