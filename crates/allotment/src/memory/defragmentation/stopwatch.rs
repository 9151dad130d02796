//! How long something may take.

use core::time::Duration;
use std::time::Instant;

/// Tells when time is up. Looking at it is cheap: it looks at the clock now and then.
#[derive(Debug)]
pub(super) struct Stopwatch {
    /// `None` where there is all the time in the world.
    end: Option<Instant>,
    looks: u32,
    over: bool,
}

/// How many looks a look at the clock is: a look costs 25 ns, and what is done between two of them a tenth of a
/// microsecond or so.
const LOOKS: u32 = 16;

/// What is done between two looks at the clock hardly takes longer: a batch of records or of places.
const EARLY: Duration = Duration::from_micros(60);

impl Stopwatch {
    /// Time is up a little early, since what is being done then takes some time as well.
    pub(super) fn new(time: Duration) -> Self {
        let early = (time / 4).min(EARLY);
        Self { end: Instant::now().checked_add(time - early), looks: 0, over: false }
    }

    /// True once time is up. For who did a small thing since the last call.
    #[inline]
    pub(super) fn is_over(&mut self) -> bool {
        self.looks += 1;
        if self.looks % LOOKS == 0 { self.is_over_now() } else { self.over }
    }

    /// The same for who did more.
    pub(super) fn is_over_now(&mut self) -> bool {
        self.over |= self.end.is_some_and(|end| Instant::now() >= end);
        self.over
    }
}
