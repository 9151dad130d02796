//! The time limit of a pass.

use core::time::Duration;
use std::time::Instant;

/// Measures whether the time of a pass is over. Cheap to ask: only some of the calls read the clock.
#[derive(Debug)]
pub(super) struct Stopwatch {
    /// `None` for no limit.
    end: Option<Instant>,
    calls: u32,
    over: bool,
}

/// Calls per reading of the clock: a reading costs 25 ns, and the work between two calls takes about a tenth of a
/// microsecond.
const CALLS_PER_READING: u32 = 16;

/// The work between two readings hardly takes longer: a batch of records or of places.
const MARGIN: Duration = Duration::from_micros(60);

impl Stopwatch {
    /// Starts a stopwatch that ends a little early, since the work in progress at the end takes time as well.
    pub(super) fn new(time: Duration) -> Self {
        let early = (time / 4).min(MARGIN);
        // `Duration::MAX` exceeds what an `Instant` can hold, and means no limit.
        Self { end: Instant::now().checked_add(time - early), calls: 0, over: false }
    }

    /// Returns when the time is over, if ever.
    pub(super) fn end(&self) -> Option<Instant> {
        self.end
    }

    /// Returns true once the time is over. Call it after each small piece of work.
    #[inline]
    pub(super) fn is_over(&mut self) -> bool {
        self.calls += 1;
        if self.calls % CALLS_PER_READING == 0 { self.is_over_now() } else { self.over }
    }

    /// Returns true once the time is over. Always reads the clock: call it after a larger piece of work.
    pub(super) fn is_over_now(&mut self) -> bool {
        // Once over, it stays over: a pass never resumes work after a cheap call said that its time was up.
        self.over |= self.end.is_some_and(|end| Instant::now() >= end);
        self.over
    }
}
