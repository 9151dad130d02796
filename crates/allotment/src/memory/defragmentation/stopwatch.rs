//! The time limit of a pass.

use core::time::Duration;
use std::time::Instant;

/// Measures whether the time of a pass is over. Cheap to ask: only some of the calls read the clock.
#[derive(Debug)]
pub(super) struct Stopwatch {
    /// A little before the limit; `None` for no limit.
    end: Option<Instant>,
    /// The latest reading, and the longest time between two: another piece of work may take as long.
    last: Instant,
    longest: Duration,
    /// The part of the time that is kept for the work in progress at its end.
    early: Duration,
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
        let early = (time / 2).min(MARGIN);
        let last = Instant::now();
        // `Duration::MAX` exceeds what an `Instant` can hold, and means no limit.
        let end = last.checked_add(time - early);
        Self { end, last, longest: Duration::ZERO, early, calls: 0, over: false }
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
        if let Some(end) = self.end {
            let now = Instant::now();
            self.longest = self.longest.max(now.saturating_duration_since(self.last));
            self.last = now;
            // Where the pieces of work turn out to be longer than the margin, it stops the earlier.
            let more = self.longest.saturating_sub(self.early).min(self.early);
            self.over |= now + more >= end;
        }
        self.over
    }
}
