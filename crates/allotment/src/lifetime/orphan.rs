//! Objects that cannot be destroyed yet when their queue is dropped: because recordings are open, or because the
//! GPU is far behind.
//!
//! The tracker adopts them as *orphans*. It looks at them again whenever a recording is closed, whenever
//! [`poll`](SubmissionTracker::poll) or `reclaim` is called, and when the tracker's last handle is dropped, until
//! none is left. So a program may be torn down in any order without a leak; but closing a recording then runs
//! destructors, and waits for the GPU once. Only objects that wait for a point that no queue ever completes are
//! leaked.

use core::mem;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use super::tracker::SubmissionTracker;
use crate::log::event;
use crate::sync::checked::{AtomicBool, AtomicUsize};

/// How long destructors wait for a GPU, all that end together: the queues, rings and pools of a program whose GPU hangs
/// are dropped one after the other, and each would wait as long.
pub(super) const LAST_WAIT: Duration = Duration::from_secs(5);

/// The time that destructors have waited for the queues of a tracker, of [`LAST_WAIT`].
///
/// Counted from the last time that queues completed something between two waits: what a program drops while it runs has
/// the whole time again. Plain atomics, not those of the model checker: the numbers bound waits and guard nothing.
#[derive(Debug, Default)]
pub(super) struct LastWaits {
    /// Nanoseconds.
    spent: AtomicU64,
    /// How much the queues had completed after the last of these waits.
    completed: AtomicU64,
}

impl LastWaits {
    /// Returns what is left of [`LAST_WAIT`] where the queues have completed so much.
    fn left(&self, completed: u64) -> Duration {
        // Two threads that end at once each have what the other leaves: both waits run at the same time.
        if self.completed.load(Relaxed) != completed {
            return LAST_WAIT;
        }
        LAST_WAIT.saturating_sub(Duration::from_nanos(self.spent.load(Relaxed)))
    }

    /// Notes that a wait of which `left` was left took `waited`.
    fn note(&self, left: Duration, waited: Duration, completed: u64) {
        let spent = LAST_WAIT.saturating_sub(left.saturating_sub(waited));
        self.spent.store(u64::try_from(spent.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        self.completed.store(completed, Relaxed);
    }
}

impl SubmissionTracker {
    /// Calls `drain` with no time, and if that leaves something, with what is left of [`LAST_WAIT`]. Returns what it
    /// leaves.
    pub(super) fn drain_last(&self, drain: impl Fn(Duration) -> u64) -> u64 {
        // Also tells how far the queues are.
        let pending = drain(Duration::ZERO);
        let left = self.last_waits().left(self.completed().sum());
        if pending == 0 || left.is_zero() {
            return pending;
        }
        let began = Instant::now();
        let pending = drain(left);
        self.last_waits().note(left, began.elapsed(), self.completed().sum());
        pending
    }
}

/// A queue whose owner was dropped.
pub(super) trait Orphan: Send + Sync {
    /// Returns the tracker that adopts it.
    fn tracker(&self) -> &SubmissionTracker;

    /// Drops all objects that may be dropped, waiting for the GPU for at most `timeout`. Returns how many are left.
    fn drain(&self, timeout: Duration) -> u64;

    /// Returns the state of its destruction.
    fn ending(&self) -> &Ending;
}

/// The state of an orphan's destruction.
#[derive(Debug, Default)]
pub(super) struct Ending {
    /// Calls to [`finish_any`] since the running one began, including it; 0 if none is running.
    turns: AtomicUsize,
    /// Its queues were waited for in vain; the next wait is when the tracker ends.
    hung: AtomicBool,
}

/// How long a look at an orphan waits for the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// No wait.
    None,
    /// For what is left of [`LAST_WAIT`], once: not again if that was too short.
    Once,
    /// As long as a queue completes a submission within what is left of [`LAST_WAIT`], which is all of it then.
    WhileProgressing,
}

/// Drops the remaining objects of an orphan, now or when the tracker looks at it again.
pub(super) fn finish(orphan: &Arc<impl Orphan + 'static>) {
    finish_any(&(Arc::clone(orphan) as Arc<dyn Orphan>), Patience::Once);
    // The calling thread may hold no handle of the tracker, and may be the last thread that ever calls.
    orphan.tracker().end_without_handles();
}

pub(super) fn finish_any(orphan: &Arc<dyn Orphan>, patience: Patience) {
    /// Runs however a destructor ends: after a panic, the rest is looked at later.
    struct Over<'a>(&'a Arc<dyn Orphan>);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.tracker().adopt(self.0);
            self.0.ending().turns.store(0, Release);
        }
    }

    let ending = orphan.ending();
    // A destructor that retires an object comes here again, and so may another thread. The call that is running
    // already looks once more before it returns, so that no caller waits and no object is missed.
    if ending.turns.fetch_add(1, AcqRel) > 0 {
        return;
    }
    let over = Over(orphan);
    loop {
        let turns = ending.turns.load(Acquire);
        finish_once(orphan, patience);
        if ending.turns.compare_exchange(turns, 0, AcqRel, Acquire).is_ok() {
            mem::forget(over);
            return;
        }
    }
}

fn finish_once(orphan: &Arc<dyn Orphan>, patience: Patience) {
    let (tracker, ending) = (orphan.tracker(), orphan.ending());
    loop {
        let held = !tracker.nothing_is_open();
        let left = match patience {
            Patience::Once if !ending.hung.load(Relaxed) => tracker.drain_last(|wait| orphan.drain(wait)),
            Patience::None | Patience::Once => orphan.drain(Duration::ZERO),
            Patience::WhileProgressing => drain_while_progressing(orphan),
        };
        if left == 0 {
            // An earlier turn may have made the tracker adopt it.
            tracker.disown(orphan);
            return;
        }
        if !held && patience == Patience::Once {
            // No recording was open, so the wait was too short: a hung GPU must not delay the close of each later
            // recording again.
            ending.hung.store(true, Relaxed);
        }
        if tracker.adopt(orphan) {
            event!(WARN, "lifetime", objects = left, held, "objects outlive their deletion queue");
        }
        // The thread that closes the last recording after this point finds the orphan. If no recording was open
        // before the look either, the objects wait for queues, and no queue notifies the tracker: the next poll
        // looks.
        if !held || !tracker.nothing_is_open() || !tracker.disown(orphan) {
            return;
        }
    }
}

/// Waits as long as the GPU makes progress.
fn drain_while_progressing(orphan: &Arc<dyn Orphan>) -> u64 {
    let tracker = orphan.tracker();
    let mut left = orphan.drain(Duration::ZERO);
    while left > 0 && tracker.is_in_flight() {
        let before = tracker.completed();
        left = tracker.drain_last(|wait| orphan.drain(wait));
        tracker.poll_in_flight();
        // No queue completed anything within `LAST_WAIT`: the GPU hangs, and a longer wait would hang the program.
        if tracker.completed() == before {
            break;
        }
    }
    left
}
