//! What has something to drop still when its owner goes: the end of a queue while recordings are open, or while the
//! GPU is far behind.
//!
//! The tracker adopts it, and looks at it again whenever a recording is closed, whenever
//! [`poll`](SubmissionTracker::poll) or `reclaim` is called, and when the last handle of the tracker is dropped, until
//! nothing is left. So tearing a program down in any order loses nothing; but closing a recording then runs
//! destructors, and waits for the GPU once. Only what a queue never completes is leaked.

use core::mem;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::time::Duration;
use std::sync::Arc;

use super::tracker::SubmissionTracker;
use crate::sync::checked::{AtomicBool, AtomicUsize};

/// How long the end of something waits for a GPU that does not come on.
pub(super) const LAST_WAIT: Duration = Duration::from_secs(5);

/// Something whose owner is gone.
pub(super) trait Orphan: Send + Sync {
    /// Who keeps it.
    fn tracker(&self) -> &SubmissionTracker;

    /// Drops what can be dropped, waiting for queues at most for `timeout`. Returns how much is left.
    fn drain(&self, timeout: Duration) -> u64;

    /// How its end is getting on.
    fn ending(&self) -> &Ending;
}

/// How the end of something is getting on.
#[derive(Debug, Default)]
pub(super) struct Ending {
    /// How often somebody wanted to finish it since the one began who does; 0 while nobody does.
    turns: AtomicUsize,
    /// A queue did not come on in [`LAST_WAIT`]; it is waited for again only when the tracker ends.
    hung: AtomicBool,
}

impl Ending {
    /// Of something whose queues were waited for already, for so long.
    pub(super) fn waited_for(waited: Duration) -> Self {
        Self { turns: AtomicUsize::new(0), hung: AtomicBool::new(waited >= LAST_WAIT) }
    }
}

/// How long whoever looks at an orphan waits for queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// Not at all.
    None,
    /// For [`LAST_WAIT`], and not again where that was too short.
    Once,
    /// For as long as a queue completes something within [`LAST_WAIT`].
    WhileItComesOn,
}

/// Drops what is left of an orphan, now or when the tracker looks at it again.
pub(super) fn finish(orphan: &Arc<impl Orphan + 'static>) {
    finish_any(&(Arc::clone(orphan) as Arc<dyn Orphan>), Patience::Once);
    // Whoever calls this may have no handle of the tracker, and be the last that ever calls.
    orphan.tracker().end_without_handles();
}

pub(super) fn finish_any(orphan: &Arc<dyn Orphan>, patience: Patience) {
    /// Whatever a destructor does: where it panics, the rest is looked at later.
    struct Over<'a>(&'a Arc<dyn Orphan>);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.tracker().adopt(self.0);
            self.0.ending().turns.store(0, Release);
        }
    }

    let ending = orphan.ending();
    // A destructor that retires something comes here again, and so may another thread: who is here already looks
    // once more when he is through.
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
            Patience::WhileItComesOn => outlast(orphan),
        };
        if left == 0 {
            // A turn before this one may have left it there.
            tracker.disown(orphan);
            return;
        }
        if !held && patience == Patience::Once {
            ending.hung.store(true, Relaxed);
        }
        tracker.adopt(orphan);
        // Whoever closes the last recording after this finds it. Where none was open before the look either, what is
        // left waits for queues, which tell nobody: the next poll looks.
        if !held || !tracker.nothing_is_open() || !tracker.disown(orphan) {
            return;
        }
    }
}

/// Waits for as long as queues come on.
fn outlast(orphan: &Arc<dyn Orphan>) -> u64 {
    let tracker = orphan.tracker();
    let mut left = orphan.drain(Duration::ZERO);
    while left > 0 && tracker.is_in_flight() {
        let before = tracker.completed();
        left = orphan.drain(LAST_WAIT);
        tracker.poll_in_flight();
        if tracker.completed() == before {
            break;
        }
    }
    left
}
