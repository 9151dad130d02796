//! Objects that cannot be destroyed yet when their queue is dropped: because recordings are open, or because the
//! GPU is far behind.
//!
//! The tracker adopts them as *orphans*. It looks at them again whenever a recording is closed, whenever
//! [`poll`](SubmissionTracker::poll) or `reclaim` is called, and when the tracker's last handle is dropped, until
//! none is left. So a program may be torn down in any order without a leak; but closing a recording then runs
//! destructors, and waits for the GPU once. Only objects that wait for a point that no queue ever completes are
//! leaked.

use core::mem;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::time::Duration;
use std::sync::Arc;

use super::tracker::SubmissionTracker;
use crate::log::event;
use crate::sync::checked::{AtomicBool, AtomicUsize};

/// How long the destruction of a queue waits for a GPU that makes no progress.
pub(super) const LAST_WAIT: Duration = Duration::from_secs(5);

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
    /// The GPU made no progress within [`LAST_WAIT`]; the next wait is when the tracker ends.
    hung: AtomicBool,
}

impl Ending {
    /// The state of an orphan whose queues were already waited for during `waited`.
    pub(super) fn waited_for(waited: Duration) -> Self {
        Self { turns: AtomicUsize::new(0), hung: AtomicBool::new(waited >= LAST_WAIT) }
    }
}

/// How long a look at an orphan waits for the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// No wait.
    None,
    /// For [`LAST_WAIT`], once: not again if that was too short.
    Once,
    /// As long as a queue completes a submission within [`LAST_WAIT`].
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
            Patience::Once if !ending.hung.load(Relaxed) => orphan.drain(LAST_WAIT),
            Patience::None | Patience::Once => orphan.drain(Duration::ZERO),
            Patience::WhileProgressing => drain_while_progressing(orphan),
        };
        if left == 0 {
            // An earlier turn may have made the tracker adopt it.
            tracker.disown(orphan);
            return;
        }
        if !held && patience == Patience::Once {
            // No recording was open, so five seconds of waiting were not enough: a hung GPU must not delay the
            // close of each later recording again.
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
        left = orphan.drain(LAST_WAIT);
        tracker.poll_in_flight();
        // No queue completed anything within `LAST_WAIT`: the GPU hangs, and a longer wait would hang the program.
        if tracker.completed() == before {
            break;
        }
    }
    left
}
