//! A gate that threads pass together.

use core::sync::atomic::{
    AtomicUsize,
    Ordering::{AcqRel, Acquire, Release},
};
use core::time::Duration;
use std::thread;
use std::time::Instant;

/// Lets threads through when all of them are there, awake: to be woken would take one of them longer than the
/// other. They meet again and again until they do so quickly: then each has a processor of its own, and none
/// sits behind the other, which waits for it. Threads that are more than the processors meet once.
pub(crate) struct Gate {
    wanted: usize,
    /// More than there are processors: who waits leaves its own to the others.
    crowd: bool,
    /// Of all rounds.
    there: AtomicUsize,
    /// The round after which all go.
    last: AtomicUsize,
}

/// How often in a row threads meet, within what time, before they go; and when they go whatever happens, since
/// others may have the processors.
const MEETINGS: u32 = 64;
const QUICKLY: Duration = Duration::from_micros(50);
const PATIENCE: Duration = Duration::from_millis(50);

impl Gate {
    pub(crate) fn of(wanted: usize) -> Self {
        let crowd = wanted > processors();
        Self { wanted, crowd, there: AtomicUsize::new(0), last: AtomicUsize::new(usize::MAX) }
    }

    /// One of all threads leads, which is to say when they go.
    pub(crate) fn pass(&self, leads: bool) {
        let begin = Instant::now();
        let (mut since, mut meetings) = (begin, 0);
        for round in 1.. {
            if leads && (meetings == MEETINGS || self.crowd) {
                let now = Instant::now();
                if now - since < QUICKLY || now - begin > PATIENCE || self.wanted == 1 || self.crowd {
                    self.last.store(round, Release);
                }
                (since, meetings) = (now, 0);
            }
            meetings += 1;
            self.there.fetch_add(1, AcqRel);
            while self.there.load(Acquire) < self.wanted * round {
                if self.crowd { thread::yield_now() } else { core::hint::spin_loop() }
            }
            if self.last.load(Acquire) <= round {
                return;
            }
        }
    }

    /// Lets everybody through: one of them will not come.
    pub(crate) fn open(&self) {
        self.last.store(0, Release);
        self.there.fetch_add(usize::MAX / 2, AcqRel);
    }
}

/// How many threads can run at once.
pub(crate) fn processors() -> usize {
    thread::available_parallelism().map_or(1, core::num::NonZero::get)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_passes_before_all_are_there_however_many_processors_there_are() {
        for wanted in [1, 2, 3 * processors() + 1] {
            let (gate, came) = (Gate::of(wanted), AtomicUsize::new(0));
            thread::scope(|scope| {
                for i in 0..wanted {
                    let (gate, came) = (&gate, &came);
                    scope.spawn(move || {
                        came.fetch_add(1, AcqRel);
                        gate.pass(i == 0);
                        assert_eq!(came.load(Acquire), wanted);
                    });
                }
            });
        }
    }
}
