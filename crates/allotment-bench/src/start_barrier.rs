//! A barrier that threads leave at the same time.

use core::sync::atomic::{
    AtomicUsize,
    Ordering::{AcqRel, Acquire, Release},
};
use core::time::Duration;
use std::thread;
use std::time::Instant;

/// Releases threads once all have arrived and are awake: waking up would delay one of them. They meet repeatedly
/// until they do so quickly: then each has a processor of its own, and none is scheduled behind one that waits for
/// it. If there are more threads than processors, they meet once.
pub(crate) struct StartBarrier {
    wanted: usize,
    /// There are more threads than processors: waiting threads yield.
    crowd: bool,
    /// Arrivals over all rounds.
    there: AtomicUsize,
    /// The round after which all threads leave.
    last: AtomicUsize,
}

/// Consecutive quick meetings required, the time limit of a quick one, and the time after which threads leave
/// anyway, since other programs may use the processors.
const MEETINGS: u32 = 64;
const QUICKLY: Duration = Duration::from_micros(50);
const PATIENCE: Duration = Duration::from_millis(50);

impl StartBarrier {
    pub(crate) fn of(wanted: usize) -> Self {
        let crowd = wanted > processors();
        Self { wanted, crowd, there: AtomicUsize::new(0), last: AtomicUsize::new(usize::MAX) }
    }

    /// Waits for all threads. One of them leads: it decides when they leave.
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

    /// Releases all threads: one of them will not arrive.
    pub(crate) fn open(&self) {
        self.last.store(0, Release);
        self.there.fetch_add(usize::MAX / 2, AcqRel);
    }
}

/// Returns how many threads can run at once.
pub(crate) fn processors() -> usize {
    thread::available_parallelism().map_or(1, core::num::NonZero::get)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_passes_before_all_are_there_however_many_processors_there_are() {
        for wanted in [1, 2, 3 * processors() + 1] {
            let (gate, came) = (StartBarrier::of(wanted), AtomicUsize::new(0));
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
