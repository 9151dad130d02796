//! The time limit of a pass.

use core::time::Duration;
use std::time::Instant;

/// Decides which of many small pieces of work are followed by a reading of the clock.
///
/// ```text
///   pieces of 100 ns      ▏ ▎ ▍ ▌       ▌       ▌       every 16th
///   pieces of 2 µs        ▏▏▏▏▏▏▏▏▏▏▏▏▏▏▏▏▏▏▏▏▏▏▏       every one
/// ```
///
/// The first piece is followed by one, so work whose time is over from the beginning pauses wherever it can.
#[derive(Debug)]
pub(super) struct Readings {
    /// Pieces between two readings, and those until the next.
    pieces: u32,
    left: u32,
    last: Instant,
}

/// Pieces between two readings at most. A step of a plan may begin with tiny pieces, and go on with larger ones.
const MOST_PIECES: u32 = 16;

/// Between two readings there is at least this time, if the pieces allow it: a reading costs 25 ns.
const SOON: Duration = Duration::from_micros(2);

/// And at most this time: what a pass with a limit of 100 µs is late for it is not felt.
const LATE: Duration = Duration::from_micros(5);

impl Readings {
    pub(super) fn new() -> Self {
        Self { pieces: 1, left: 1, last: Instant::now() }
    }

    /// Returns true after a piece that is followed by a reading.
    #[inline]
    pub(super) fn are_due(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        self.left == 0
    }

    /// Reads the clock. Returns the time, and that since the reading before.
    pub(super) fn read(&mut self) -> (Instant, Duration) {
        let now = Instant::now();
        let since = now.saturating_duration_since(self.last);
        self.adapt(since);
        (self.last, self.left) = (now, self.pieces);
        (now, since)
    }

    fn adapt(&mut self, since: Duration) {
        // Doubled and halved, so that it follows within a few readings where tiny pieces are followed by large ones.
        // Between the two times it stays as it is, or it would go up and down with each reading.
        if since > LATE {
            self.pieces = (self.pieces / 2).max(1);
        } else if since < SOON {
            self.pieces = (self.pieces * 2).min(MOST_PIECES);
        }
    }
}

/// Measures whether the time of a pass is over. Cheap to ask: only some of the calls read the clock.
#[derive(Debug)]
pub(super) struct Stopwatch {
    /// A little before the limit; `None` for no limit.
    end: Option<Instant>,
    readings: Readings,
    /// The longest time between two readings: another piece of work may take as long.
    longest: Duration,
    /// The part of the time that is kept for the work in progress at its end.
    early: Duration,
    over: bool,
}

/// The work between two readings hardly takes longer: a batch of records or of places.
const MARGIN: Duration = Duration::from_micros(60);

impl Stopwatch {
    /// Starts a stopwatch that ends a little early, since the work in progress at the end takes time as well.
    pub(super) fn new(time: Duration) -> Self {
        // At most half of the time, or nothing would be left of one that is shorter than the margin.
        let early = (time / 2).min(MARGIN);
        let readings = Readings::new();
        // `Duration::MAX` exceeds what an `Instant` can hold, and means no limit.
        let end = readings.last.checked_add(time - early);
        Self { end, readings, longest: Duration::ZERO, early, over: false }
    }

    /// Returns when the time is over, if ever.
    pub(super) fn end(&self) -> Option<Instant> {
        self.end
    }

    /// Returns true once the time is over. Call it after each small piece of work.
    #[inline]
    pub(super) fn is_over(&mut self) -> bool {
        // Between two readings this is a comparison and a subtraction, so that it may be asked after work of some 100
        // ns.
        // Without a limit the clock is never read.
        if self.end.is_some() && self.readings.are_due() { self.is_over_now() } else { self.over }
    }

    /// Returns true once the time is over. Always reads the clock: call it after a larger piece of work.
    pub(super) fn is_over_now(&mut self) -> bool {
        // Once over, it stays over: a pass never resumes work after a cheap call said that its time was up.
        if let Some(end) = self.end {
            let (now, since) = self.readings.read();
            self.longest = self.longest.max(since);
            //   ├───────────── time ─────────────┤ limit
            //                          ├─ early ─┤
            //                   ├ more ┤               where one piece took longer than `early`, at most as much again
            // Where the pieces of work turn out to be longer than the margin, it stops the earlier.
            let more = self.longest.saturating_sub(self.early).min(self.early);
            self.over |= now + more >= end;
        }
        self.over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_no_time_is_over_at_the_first_piece() {
        let mut time = Stopwatch::new(Duration::ZERO);
        assert!(time.is_over());
        assert!(time.is_over(), "and stays over");
    }

    #[test]
    fn the_clock_is_read_after_each_piece_where_they_are_long() {
        let mut readings = Readings::new();
        (0..10).for_each(|_| readings.adapt(Duration::ZERO));
        assert_eq!(readings.pieces, MOST_PIECES);
        (0..10).for_each(|_| readings.adapt(2 * LATE));
        assert_eq!(readings.pieces, 1);
    }
}
