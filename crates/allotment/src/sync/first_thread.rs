//! A value that the first thread which comes has alone, without a lock.
//!
//! ```text
//!   thread   0 ── the first that comes ──► its number, for good
//!   value    lent to that thread alone; all others get none, and use what they share
//! ```
//!
//! For what one thread does often and others seldom. Lending costs a few plain loads and stores; the first time an exchange.

use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU64};

use super::checked::UnsafeCell;

thread_local! {
    /// The number of the thread, from 1; 0 if it has none yet.
    static NUMBER: Cell<u64> = const { Cell::new(0) };
}

/// Returns the number of the calling thread, which no other thread ever has. `None` while the thread ends.
#[inline]
fn number() -> Option<u64> {
    match NUMBER.try_with(Cell::get) {
        Ok(0) => next_number(),
        found => found.ok(),
    }
}

#[cold]
fn next_number() -> Option<u64> {
    // 64 bits do not run out.
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Relaxed);
    NUMBER.try_with(|cell| cell.set(number)).ok()?;
    Some(number)
}

/// A value for one thread. See the [module](self).
pub(crate) struct FirstThread<T> {
    /// The number of the thread that has the value; 0 while none has.
    thread: AtomicU64,
    /// The thread has it now. Accessed by that thread alone.
    is_lent: AtomicBool,
    /// Accessed by that thread alone, and by whoever has this exclusively.
    value: UnsafeCell<T>,
}

// SAFETY: of the threads that share this, one reaches the value, as if it were sent to it.
unsafe impl<T: Send> Sync for FirstThread<T> {}

/// Lends the value until it is dropped.
pub(crate) struct Lent<'a, T> {
    of: &'a FirstThread<T>,
    /// Of one thread: not `Send`.
    lends: PhantomData<*mut T>,
}

impl<T> FirstThread<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { thread: AtomicU64::new(0), is_lent: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Lends the value to the thread that was the first to call this. `None` for all others, and where the thread has it
    /// already.
    #[inline]
    pub(crate) fn lend(&self) -> Option<Lent<'_, T>> {
        let me = number()?;
        let thread = self.thread.load(Relaxed);
        // `Relaxed`: the value is as it was created, which happened before this was shared.
        if thread != me && (thread != 0 || self.thread.compare_exchange(0, me, Relaxed, Relaxed).is_err()) {
            return None;
        }
        if self.is_lent.load(Relaxed) {
            return None;
        }
        self.is_lent.store(true, Relaxed);
        Some(Lent { of: self, lends: PhantomData })
    }

    /// Returns the value, whose thread cannot have it now.
    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.value.with_mut(|value| {
            // SAFETY: borrowed exclusively for as long as the reference lives; who has it lent borrows `self`.
            unsafe { &mut *value }
        })
    }
}

impl<T> Deref for Lent<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.of.value.with(|value| {
            // SAFETY: lent once at a time, to one thread, which this does not leave.
            unsafe { &*value }
        })
    }
}

impl<T> DerefMut for Lent<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.of.value.with_mut(|value| {
            // SAFETY: as in `deref`, and this is borrowed exclusively.
            unsafe { &mut *value }
        })
    }
}

impl<T> Drop for Lent<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.of.is_lent.store(false, Relaxed);
    }
}

impl<T> fmt::Debug for FirstThread<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FirstThread").finish_non_exhaustive()
    }
}

#[cfg(test)]
#[cfg(not(allotment_loom))]
mod tests {
    use super::*;

    #[test]
    fn one_of_many_threads_has_the_value_and_one_call_at_a_time() {
        let value = FirstThread::new(0_u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let had: u64 = (0..1000)
                        .filter_map(|_| value.lend())
                        .map(|mut lent| {
                            assert!(value.lend().is_none(), "it is lent once at a time");
                            *lent += 1;
                            1
                        })
                        .sum();
                    assert!(had == 0 || had == 1000, "a thread has it always or never: {had}");
                });
            }
        });
        let mut value = value;
        assert_eq!(*value.get_mut(), 1000);
    }

    #[test]
    fn a_thread_after_the_one_that_had_it_does_not_get_it() {
        let mut value = FirstThread::new(1);
        std::thread::scope(|scope| {
            scope.spawn(|| *value.lend().unwrap() += 1);
        });
        assert!(value.lend().is_none());
        assert_eq!(*value.get_mut(), 2);
    }
}
