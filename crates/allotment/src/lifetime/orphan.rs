//! What has something to drop still, and nobody who looks after it: the end of a queue while recordings are open.
//!
//! It is kept by the tracker, and looked at whenever a recording closes, until nothing is left. So tearing a program
//! down in any order loses nothing; but closing a recording then runs destructors, and waits for the GPU.

use core::mem;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::time::Duration;
use std::sync::Arc;

use super::tracker::SubmissionTracker;
use crate::sync::checked::{AtomicBool, AtomicUsize};

/// How long the end of something waits for the GPU.
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
    /// A queue did not come on in [`LAST_WAIT`]; it is not waited for again.
    hung: AtomicBool,
}

/// Drops what is left of an orphan, now or when recordings close.
pub(super) fn finish(orphan: &Arc<impl Orphan + 'static>) {
    finish_any(&(Arc::clone(orphan) as Arc<dyn Orphan>));
}

pub(super) fn finish_any(orphan: &Arc<dyn Orphan>) {
    /// Whatever a destructor does.
    struct Over<'a>(&'a Ending);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.turns.store(0, Release);
        }
    }

    let ending = orphan.ending();
    // A destructor that retires something comes here again, and so may another thread: who is here already looks
    // once more when he is through.
    if ending.turns.fetch_add(1, AcqRel) > 0 {
        return;
    }
    let over = Over(ending);
    loop {
        let turns = ending.turns.load(Acquire);
        finish_once(orphan);
        if ending.turns.compare_exchange(turns, 0, AcqRel, Acquire).is_ok() {
            mem::forget(over);
            return;
        }
    }
}

fn finish_once(orphan: &Arc<dyn Orphan>) {
    let (tracker, ending) = (orphan.tracker(), orphan.ending());
    loop {
        let held = !tracker.nothing_is_open();
        let hung = ending.hung.load(Relaxed);
        if orphan.drain(if hung { Duration::ZERO } else { LAST_WAIT }) == 0 {
            return;
        }
        if !held {
            // A queue does not come on. Leaked rather than pulled from under it.
            if !ending.hung.swap(true, Relaxed) {
                mem::forget(Arc::clone(orphan));
            }
            return;
        }
        tracker.adopt(orphan);
        // Whoever closes the last recording after this finds it.
        if !tracker.nothing_is_open() || !tracker.disown(orphan) {
            return;
        }
    }
}
