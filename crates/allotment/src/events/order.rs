//! In which order what several lists have happened.
//!
//! There is one number, which is even. All lists read it, and only what concerns several of them changes it:
//!
//! ```text
//!   number    2 ───────────► 4 ─────────────────────► 6
//!   list 0    run 2: a b c   run 4: e f               run 6: i
//!   list 1    run 2: k       run 3: D   run 4: g h    run 5: J    run 6: l
//!
//!   read as   a b c k D e f g h J i l
//! ```
//!
//! - Most of what is given to a list *belongs* to something that gave it all before to the same list. It goes on in the list's
//!   run, or begins one with the number as it is. That costs a load, however many threads there are.
//! - What everything else is ordered by (`D`, `J`) takes the next odd number for a run of its own, and makes the number the even
//!   one after it: a fetch-and-add.
//!
//! So such a thing comes after all that happened before it, and before all that happened after it, in whatever way the threads
//! agreed on that: who comes later reads no smaller number. Of two other things, the order is right if the same thread
//! gave both, or they belong to the same; else they are told in any order between two of those that everything is ordered by.

use core::sync::atomic::Ordering::Relaxed;

use crate::sync::checked::AtomicU64;

/// The number, on cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Order(AtomicU64);

impl Order {
    pub(crate) fn new() -> Self {
        // From 2: a list without a run has 0.
        Self(AtomicU64::new(2))
    }

    /// Returns the number of the run that begins with what a list is given now; `None` if it goes on in its last one, `own`. A
    /// `turn` is what everything else is ordered by.
    ///
    /// The list's lock is held from before until it was given that.
    #[inline]
    pub(crate) fn begins(&self, own: u64, turn: bool) -> Option<u64> {
        // Relaxed: the number guards no data, and whoever comes later reads no earlier value.
        match self.0.load(Relaxed) {
            _ if turn => Some(self.turn()),
            number if number == own => None,
            number => Some(number),
        }
    }

    /// Lets each list begin a run with what it is given next.
    pub(crate) fn advance(&self) {
        self.0.fetch_add(2, Relaxed);
    }

    #[cold]
    fn turn(&self) -> u64 {
        self.0.fetch_add(2, Relaxed) + 1
    }
}
