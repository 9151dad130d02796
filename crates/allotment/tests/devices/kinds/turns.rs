//! One after the other, for tests of a kind of device that cannot be used by several at once.

use std::sync::{Condvar, Mutex};

/// A thread that waits for a turn.
pub(super) struct Turns {
    taken: Mutex<bool>,
    given_up: Condvar,
}

/// A turn, which lasts until this is dropped, by whichever thread.
pub(super) struct Turn(&'static Turns);

impl Turns {
    pub(super) const fn new() -> Self {
        Self { taken: Mutex::new(false), given_up: Condvar::new() }
    }

    pub(super) fn take(&'static self) -> Turn {
        let mut taken = self.given_up.wait_while(self.taken.lock().unwrap(), |taken| *taken).unwrap();
        *taken = true;
        Turn(self)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *self.0.taken.lock().unwrap() = false;
        self.0.given_up.notify_one();
    }
}
