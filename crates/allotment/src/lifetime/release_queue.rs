//! Things that are not used any more, but perhaps by the GPU.
//!
//! ```text
//!   retire ──► shards, stamped ──► sealed, with a point on each queue ──► ready ──► dropped
//!                            recordings close                  queues reach them    without a lock
//!   retire_with, retire_after ──► tied ───────────────────────────────────▲
//! ```
//!
//! The article "Managing Resource Lifetimes" (Diligent Engine) stamps what is released with the number of the
//! next command list, and has the application promise that the last command that uses it was submitted. Here
//! nobody promises anything: what is retired waits until every recording that was open at that moment is
//! submitted or discarded, and only then for the queues, each to reach what it had been given by then. A queue
//! that has nothing to do is not waited for.
//!
//! # Order
//!
//! Things that are ready together, in whichever way and by whichever threads they were retired, are handed out in the
//! order in which they were retired: what was retired after something else, by the same thread or by one that was told
//! of it, comes after it; see `order.rs`. So a child that is retired before its parent goes before it. What is tied may be
//! ready before what was retired before it, and goes then.
//!
//! # Cost
//!
//! Retiring is an exchange, a store and a push, and one more exchange where another thread was the last to retire;
//! reclaiming, with nothing to do, a lock and a look at each
//! shard, and a driver call for each queue that has work in flight. Of all that, nothing allocates once there
//! was as much pending as there ever will be: [`trim`](ReleaseQueue::trim) gives that room back. An item
//! takes its own size, and runs of the same stamp that no other thread comes between 40 bytes.

use core::fmt;
use core::mem;
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use super::order::{Places, Span, Turns};
use super::orphan::{Ending, LAST_WAIT, Orphan, Patience, finish};
use super::registry::{RecordingId, RecordingStatus};
use super::shard::{Run, Shard, Tie, Tied, make_room, move_front};
use super::statistics::{Reclaimed, ReleaseStatistics};
use super::timeline_points::TimelinePoints;
use super::tracker::{Reached, SubmissionTracker};
use super::wait_for::WaitFor;
use crate::device::{DeviceError, TimelinePoint};
use crate::sync::checked::{Mutex, locked};
use crate::sync::shards::Shards;

/// Runs that there is room for once there is one: three frames in flight, sealed a few times each, and some. There are
/// more of them the later queues are. 2 KiB.
const RUNS: usize = 16;

/// Tied things that a shard has room for, where as many are known to wait. Who looks only when nothing is free gives
/// back as many between two looks as there are, once queues are quick.
const TIED: usize = 64;

/// Keeps things until the GPU is done with them. `Send + Sync`; any thread retires, any thread reclaims.
///
/// What is dropped within [`reclaim`](Self::reclaim) may retire other things, here too: they go with one of
/// the next calls.
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
/// // … a command that uses texture 7 is recorded, and then nobody wants it any more …
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
}

/// What waits for queues only.
struct Sealed<T> {
    /// In the order in which they were sealed, so that what their runs wait for grows from run to run.
    items: VecDeque<T>,
    runs: VecDeque<Run<TimelinePoints>>,
    /// The orders of the items. Their counts add up to as many.
    spans: VecDeque<Span>,
    tied: Vec<Tied<T>>,
    /// Room for `tied`, and for what is ready.
    still_tied: Vec<Tied<T>>,
    ready: VecDeque<T>,
    /// Room for the orders of these.
    places: Places,
    /// Of the shards.
    arrived: Vec<Run<()>>,
    /// Something was tied to a point that no queue had been given yet, when anybody last looked. Who polls
    /// what is in flight would never hear that the device is gone.
    ahead: bool,
    reclaimed: Reclaimed,
}

/// What becomes of something that is tied.
#[derive(Clone, Copy)]
enum Suitability {
    /// It waits on, for this.
    Waits(Tie),
    Ready,
    /// Its recording was submitted so long ago that nobody knows where: it waits for all queues.
    Unknown,
}

impl<T> Sealed<T> {
    fn new() -> Self {
        Self {
            items: VecDeque::new(),
            runs: VecDeque::new(),
            spans: VecDeque::new(),
            tied: Vec::new(),
            still_tied: Vec::new(),
            ready: VecDeque::new(),
            places: Places::default(),
            arrived: Vec::new(),
            ahead: false,
            reclaimed: Reclaimed::default(),
        }
    }
}

impl<T: Send + 'static> ReleaseQueue<T> {
    /// A queue whose things may be used by the recordings that `tracker` knows of.
    #[must_use]
    pub fn new(tracker: &SubmissionTracker) -> Self {
        Self::over(tracker.clone(), Shards::new(Shard::new))
    }

    /// A queue that does not keep the tracker from ending.
    pub(super) fn within(tracker: &SubmissionTracker) -> Self {
        Self::over(tracker.uncounted(), Shards::new(Shard::new))
    }

    /// With so many shards, a power of two, for tests.
    #[cfg(loom)]
    #[doc(hidden)]
    #[must_use]
    pub fn with_shards(tracker: &SubmissionTracker, shards: usize) -> Self {
        Self::over(tracker.clone(), Shards::with_count(shards, Shard::new).all_used())
    }

    fn over(tracker: SubmissionTracker, shards: Shards<Shard<T>>) -> Self {
        Self { tracker, shards, turns: Turns::new(), sealed: Mutex::new(Sealed::new()) }
    }

    /// The tracker that says when things may go.
    #[must_use]
    pub fn tracker(&self) -> &SubmissionTracker {
        &self.tracker
    }

    /// Keeps `item` until every recording that is open now is submitted or discarded, and each queue has
    /// completed what it had been given by then.
    #[inline]
    pub fn retire(&self, item: T) {
        self.retire_sized(item, 0);
    }

    /// As [`retire`](Self::retire), for something that stands for so many bytes. They are only counted.
    #[inline]
    pub fn retire_sized(&self, item: T, bytes: u64) {
        let mut shard = self.shards.any();
        shard.push(&self.turns, self.tracker.stamp(), bytes, || self.tracker.coarse_now(), item);
    }

    /// Keeps `item`, which one recording uses and nobody else, until that is discarded, or submitted and
    /// completed. It may be closed already.
    pub fn retire_with(&self, recording: RecordingId, item: T) {
        self.tie(Tie::Recording(recording), item, 0);
    }

    /// Keeps `item`, which nobody uses after a point on a queue's timeline, until that is reached. The point
    /// may be one that is submitted later.
    pub fn retire_after(&self, point: TimelinePoint, item: T) {
        self.tie(Tie::Point(point), item, 0);
    }

    /// As [`retire_with`](Self::retire_with), for something that stands for so many bytes.
    pub fn retire_with_sized(&self, recording: RecordingId, item: T, bytes: u64) {
        self.tie(Tie::Recording(recording), item, bytes);
    }

    fn tie(&self, tie: Tie, item: T, bytes: u64) {
        let since = self.tracker.coarse_now();
        self.shards.any().tie(&self.turns, tie, bytes, since, item);
    }

    /// Hands everything that the GPU is done with to `each`, in the order in which it was retired, with no lock held.
    ///
    /// Of threads that reclaim at the same time, each hands out what it took.
    ///
    /// Should `each` panic, the rest of what was ready is dropped, each thing once.
    pub fn reclaim(&self, each: impl FnMut(T)) -> Reclaimed {
        let reclaimed = self.reclaim_here(each);
        self.tracker.look_after_orphans(Patience::None);
        reclaimed
    }

    /// As [`reclaim`](Self::reclaim), for who may hold a lock: runs no destructors but those of `each`.
    pub(crate) fn reclaim_here(&self, each: impl FnMut(T)) -> Reclaimed {
        let ahead = self.seal();
        // Drivers are asked with no lock held.
        self.hand_out(&self.tracker.look(ahead), each)
    }

    /// What [`reclaim`](Self::reclaim) does when it knows how far queues are.
    pub(super) fn hand_out(&self, reached: &Reached, each: impl FnMut(T)) -> Reclaimed {
        let (mut ready, reclaimed) = self.take_ready(reached);
        if reclaimed.count > 0 {
            ready.drain(..).for_each(each);
        }
        let mut sealed = locked(&self.sealed);
        if ready.capacity() > sealed.ready.capacity() {
            // The smaller one has nothing in it either.
            mem::swap(&mut sealed.ready, &mut ready);
        }
        drop(sealed);
        reclaimed
    }

    /// Notes what queues were given by now for all that no open recording uses. True where something waits for
    /// more than that.
    pub(super) fn seal(&self) -> bool {
        let mut guard = locked(&self.sealed);
        let sealed = &mut *guard;
        let horizon = self.tracker.horizon();
        // Shards are looked at one after the other: what was retired after this waits for the next look.
        let closed = self.turns.closed();
        for mut shard in self.shards.each() {
            let came = shard.take_sealed(horizon, closed, &mut sealed.items, &mut sealed.spans);
            sealed.arrived.extend(came);
            if !shard.tied.is_empty() {
                shard.take_tied(closed, &mut sealed.tied);
                shard.tied.reserve(sealed.tied.len().min(TIED));
            }
        }
        if sealed.arrived.is_empty() {
            return sealed.ahead;
        }
        if sealed.runs.capacity() == 0 {
            sealed.runs.reserve(RUNS);
        }
        // Read after the horizon: whatever recordings below it were submitted as is in there.
        let points = self.tracker.submitted();
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

    /// Takes what is ready out.
    fn take_ready(&self, reached: &Reached) -> (VecDeque<T>, Reclaimed) {
        let mut guard = locked(&self.sealed);
        let sealed = &mut *guard;
        let mut ready = mem::take(&mut sealed.ready);
        let mut reclaimed = Reclaimed::default();
        // Of all that is pending, much or little may be ready at once: which, is not known before a queue is late.
        let room = sealed.items.capacity() + sealed.tied.len();
        sealed.places.reserve(sealed.spans.len() + sealed.tied.len());
        if !sealed.tied.is_empty() {
            self.untie(sealed, reached, &mut ready, &mut reclaimed);
        }
        let mut count = 0;
        while let Some(run) = sealed.runs.front().filter(|run| reached.covers(&run.mark)) {
            count += run.count;
            reclaimed.bytes += run.bytes;
            sealed.runs.pop_front();
        }
        reclaimed.count += count as u64;
        if !ready.is_empty() {
            make_room(&mut ready, room);
        }
        move_front(&mut sealed.items, count, &mut ready);
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

    /// Looks what became of what tied things wait for.
    fn untie(
        &self,
        sealed: &mut Sealed<T>,
        reached: &Reached,
        ready: &mut VecDeque<T>,
        reclaimed: &mut Reclaimed,
    ) {
        let Sealed { tied, still_tied, items, runs, spans, places, ahead, .. } = sealed;
        *ahead = false;
        // All of them may have to wait on.
        still_tied.reserve(tied.len());
        // Asked for once a reclaim at most, and after the fates: what is unknown was submitted before.
        let mut points = None;
        self.tracker.with_fates(|fate| {
            let mut judge = |tie| {
                let point = match tie {
                    Tie::Point(point) => point,
                    Tie::Recording(recording) => match fate(recording) {
                        RecordingStatus::Submitted(point) => point,
                        RecordingStatus::Open | RecordingStatus::Foreign => return Suitability::Waits(tie),
                        RecordingStatus::Discarded => return Suitability::Ready,
                        RecordingStatus::Unknown => return Suitability::Unknown,
                    },
                };
                if reached.covers_point(point) {
                    return Suitability::Ready;
                }
                *ahead |= self.tracker.is_ahead(point);
                Suitability::Waits(Tie::Point(point))
            };
            // Most have the same tie as those before them.
            let mut last: Option<(Tie, Suitability)> = None;
            for tied in tied.drain(..) {
                let verdict = match last {
                    Some((tie, verdict)) if tie == tied.tie => verdict,
                    _ => judge(tied.tie),
                };
                last = Some((tied.tie, verdict));
                match verdict {
                    Suitability::Waits(tie) => still_tied.push(Tied { tie, ..tied }),
                    Suitability::Ready => {
                        *reclaimed += Reclaimed { count: 1, bytes: tied.bytes };
                        places.push_alone(tied.order);
                        ready.push_back(tied.item);
                    }
                    Suitability::Unknown => {
                        let points = *points.get_or_insert_with(|| self.tracker.submitted());
                        runs.push_back(Run { mark: points, count: 1, bytes: tied.bytes, since: tied.since });
                        spans.push_back(Span { order: tied.order, count: 1 });
                        items.push_back(tied.item);
                    }
                }
            }
        });
        mem::swap(tied, still_tied);
    }

    /// Things that there is room to hand out at once: as many as were ever pending when some came back.
    pub(crate) fn room(&self) -> usize {
        locked(&self.sealed).ready.capacity()
    }

    /// What is pending. Walks everything, behind locks that are held for that long.
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
        for shard in self.shards.each() {
            shard.runs().for_each(|run| add(run.count, run.bytes, run.since));
            shard.tied.iter().for_each(|tied| add(1, tied.bytes, tied.since));
        }
        statistics.reclaimed = sealed.reclaimed;
        statistics.oldest = oldest.map(|since| self.tracker.age(since));
        statistics
    }

    /// Waits until everything is handed to `each`, what that retires here included, at most for `timeout`, or
    /// until what is left waits for a recording that is open. Returns what is left.
    pub fn drain(&self, timeout: Duration, mut each: impl FnMut(T)) -> ReleaseStatistics {
        let began = Instant::now();
        let mut looked_twice = false;
        loop {
            let came = self.reclaim_here(&mut each).count > 0;
            let left = self.statistics();
            let rest = timeout.saturating_sub(began.elapsed());
            if left.pending == 0 || rest.is_zero() {
                return left;
            }
            if came {
                // It may have retired something.
                looked_twice = false;
                continue;
            }
            let points = self.awaited();
            if points.is_empty() {
                // Recordings hold it, or nothing ever lets it go; unless the last was closed since we looked.
                if looked_twice || !self.tracker.nothing_is_open() {
                    return left;
                }
                looked_twice = true;
            } else {
                match self.tracker.wait_all(&points, rest) {
                    // The next look says what came of it.
                    Ok(()) | Err(DeviceError::Lost) => {}
                    Err(_) => return left,
                }
            }
        }
    }

    /// What has to happen before the first of what is here comes back: a point, or recordings that must be closed.
    /// `None` where nothing is here, or a [`reclaim`](Self::reclaim) brings some of it back now.
    #[must_use]
    pub fn wait_for(&self) -> Option<WaitFor> {
        self.seal();
        let sealed = locked(&self.sealed);
        // Whether something waits for a recording, and whether something waits for nothing any more.
        let mut open = self.shards.each().any(|shard| !shard.is_empty());
        let mut ready = false;
        let mut first: Option<TimelinePoint> = None;
        let mut add = |points: &mut dyn Iterator<Item = TimelinePoint>| {
            let mut reached = true;
            for point in points.filter(|&point| !self.tracker.is_reached(point)) {
                reached = false;
                if first.is_none_or(|first| point.queue == first.queue && point.value < first.value) {
                    first = Some(point);
                }
            }
            ready |= reached;
        };
        if let Some(run) = sealed.runs.front() {
            add(&mut run.mark.points());
        }
        for tied in &sealed.tied {
            match tied.tie {
                Tie::Point(point) => add(&mut core::iter::once(point)),
                Tie::Recording(recording) => match self.tracker.fate(recording) {
                    RecordingStatus::Submitted(point) => add(&mut core::iter::once(point)),
                    RecordingStatus::Open | RecordingStatus::Foreign => open = true,
                    // They come back with the next reclaim, or are known to wait for points then.
                    RecordingStatus::Discarded | RecordingStatus::Unknown => add(&mut core::iter::empty()),
                },
            }
        }
        match first {
            _ if ready => None,
            Some(point) => Some(WaitFor::Point(point)),
            None => open.then_some(WaitFor::Submission),
        }
    }

    /// What sealed and tied things wait for.
    fn awaited(&self) -> TimelinePoints {
        let sealed = locked(&self.sealed);
        let mut points: TimelinePoints = sealed.runs.iter().flat_map(|run| run.mark.points()).collect();
        for tied in &sealed.tied {
            if let Tie::Point(point) = tied.tie {
                points.insert(point);
            }
        }
        points
    }

    /// Gives the room back that a burst has left.
    pub fn trim(&self) {
        let mut sealed = locked(&self.sealed);
        let Sealed { items, runs, spans, tied, still_tied, ready, places, arrived, .. } = &mut *sealed;
        spans.shrink_to_fit();
        places.trim();
        items.shrink_to_fit();
        runs.shrink_to_fit();
        tied.shrink_to_fit();
        still_tied.shrink_to_fit();
        ready.shrink_to_fit();
        arrived.shrink_to_fit();
        for mut shard in self.shards.each() {
            shard.trim();
        }
    }

    /// For tests: panics unless everything that is kept twice agrees.
    ///
    /// # Panics
    ///
    /// When it finds a mistake of this crate.
    // Hidden: public for tests alone, which are other crates, and no part of the stable interface.
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        let sealed = locked(&self.sealed);
        assert_eq!(sealed.runs.iter().map(|run| run.count).sum::<usize>(), sealed.items.len());
        assert_eq!(sealed.spans.iter().map(|span| span.count).sum::<usize>(), sealed.items.len());
        assert!(sealed.places.is_empty());
        let mut pairs = sealed.runs.iter().zip(sealed.runs.iter().skip(1));
        assert!(pairs.all(|(a, b)| a.mark.is_within(&b.mark)), "what comes later waits for as much, or more");
        assert!(sealed.arrived.is_empty() && sealed.still_tied.is_empty() && sealed.ready.is_empty());
        self.shards.each().for_each(|shard| shard.check_invariants());
    }
}

impl<T: Send + 'static> Drop for ReleaseQueue<T> {
    /// Waits for the GPU, for five seconds at most, and drops what it is done with. What an open recording may use, or a
    /// queue that is further behind, is left to the tracker, which drops it when that is over.
    fn drop(&mut self) {
        // Whatever is left is leaked, should a destructor panic.
        let guard = Leaked(self);
        let began = Instant::now();
        let left = self.drain(LAST_WAIT, drop).pending;
        mem::forget(guard);
        if left == 0 {
            return;
        }
        let queue = Self {
            tracker: self.tracker.uncounted(),
            turns: mem::replace(&mut self.turns, Turns::new()),
            shards: mem::replace(&mut self.shards, Shards::with_count(1, Shard::new)),
            sealed: Mutex::new(mem::replace(&mut *locked(&self.sealed), Sealed::new())),
        };
        finish(&Arc::new(Abandoned { queue, ending: Ending::waited_for(began.elapsed()) }));
    }
}

/// What is left of a queue that was dropped while recordings were open that may use it, or the GPU was behind.
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

/// Leaks what is in a queue when it is dropped.
struct Leaked<'a, T: Send + 'static>(&'a ReleaseQueue<T>);

impl<T: Send + 'static> Drop for Leaked<'_, T> {
    fn drop(&mut self) {
        let mut sealed = locked(&self.0.sealed);
        mem::take(&mut sealed.items).into_iter().for_each(mem::forget);
        mem::take(&mut sealed.tied).into_iter().for_each(mem::forget);
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
