//! A mutex that is locked for nanoseconds by many threads, and piece by piece by one that has much to read.
//!
//! ```text
//!   a report     ▇▇▇▇ pass ▇▇▇▇ pass ▇▇▇▇         some hundred records a piece
//!   a thread          ▇         ▇                 it slept; without `pass`, the report would have the lock again first
//! ```
//!
//! A [`Mutex`] goes to whoever asks first, and that is not the thread that has to wake up. A thread that holds it for long and
//! takes it again at once would keep all others from it. So it [passes](TurnMutex::pass) in between.
//!
//! # Threads that contend
//!
//! Where threads do nothing but take the lock for nanoseconds, the fairest order is the slowest: each time that the lock goes to
//! another thread, so does all that it guards, which takes as long as 20 operations. Two threads that took turns after each
//! operation did a third of what one does, and four a fifth.
//!
//! ```text
//!   turns of one operation     A·B·A·B·A·B·          · a microsecond, in which the data goes from one cache to the other
//!   turns of microseconds      AAAAAAAA·BBBBBBBB·
//! ```
//!
//! So a thread that [finds](TurnMutex::spin) the lock taken again and again stays away from it for microseconds, and the one
//! that has it works on meanwhile. One that finds it taken for the first time in a while tries again soon.

use core::cell::Cell;
use core::hint::spin_loop;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Instant;

/// Rounds of [`spin_loop`], each of 10 to 50 ns, before the first tries of a thread that did not contend lately.
const FIRST_PAUSES: [u32; 4] = [2, 8, 32, 64];

/// The pauses, in microseconds, before further tries, and before all tries of a thread that contended lately. Together about as
/// long as it takes the system to wake a thread that sleeps.
const LONG_PAUSES: [u64; 7] = [5, 5, 10, 10, 10, 20, 20];

/// A thread contended lately if the last time is no longer ago. Some turns of all threads that share a lock.
const LATELY: Duration = Duration::from_micros(200);

thread_local! {
    /// When the thread last found a lock taken.
    static CONTENDED: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Returns true if the calling thread found a lock taken lately, so that the next [`TurnMutex::spin`] takes long.
pub(crate) fn contended_lately() -> bool {
    CONTENDED.get().is_some_and(|before| before.elapsed() < LATELY)
}

/// The longest time that [`TurnMutex::pass`] waits: a thread may be stopped before it takes its turn.
const LONGEST_PASS: Duration = Duration::from_millis(1);

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct TurnMutex<T> {
    mutex: Mutex<T>,
    /// Threads that sleep until it is unlocked, or are about to. Relaxed, like the next: both are hints.
    sleeping: AtomicU32,
    /// Threads that slept, and then had it.
    served: AtomicU32,
}

impl<T> TurnMutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { mutex: Mutex::new(value), sleeping: AtomicU32::new(0), served: AtomicU32::new(0) }
    }

    /// Locks it if it is not locked.
    #[inline]
    pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.mutex.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Tries to lock it for some microseconds, or some tens where the thread contends again and again.
    pub(super) fn spin(&self) -> Option<MutexGuard<'_, T>> {
        let found = self.spin_after(contended_lately());
        // From the end of the wait on, however long it took.
        CONTENDED.set(Some(Instant::now()));
        found
    }

    fn spin_after(&self, contended_lately: bool) -> Option<MutexGuard<'_, T>> {
        let first: &[u32] = if contended_lately { &[] } else { &FIRST_PAUSES };
        let soon = first.iter().find_map(|&pause| {
            (0..pause).for_each(|_| spin_loop());
            self.try_lock()
        });
        soon.or_else(|| {
            LONG_PAUSES.into_iter().find_map(|pause| {
                // Not a look at the lock: each would take the line that the holder writes out of its cache.
                let began = Instant::now();
                while began.elapsed() < Duration::from_micros(pause) {
                    (0..8).for_each(|_| spin_loop());
                }
                let found = self.try_lock();
                if found.is_none() {
                    // The holder may be a thread that is not running.
                    std::thread::yield_now();
                }
                found
            })
        })
    }

    /// Sleeps until it is unlocked, and locks it.
    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, T> {
        self.try_lock().unwrap_or_else(|| self.sleep())
    }

    #[cold]
    fn sleep(&self) -> MutexGuard<'_, T> {
        self.sleeping.fetch_add(1, Relaxed);
        let guard = self.mutex.lock().unwrap_or_else(PoisonError::into_inner);
        self.served.fetch_add(1, Relaxed);
        self.sleeping.fetch_sub(1, Relaxed);
        guard
    }

    /// Lets the threads that sleep now have the lock before the caller takes it again. The caller does not have it.
    pub(crate) fn pass(&self) {
        let (served, sleeping) = (self.served.load(Relaxed), self.sleeping.load(Relaxed));
        if sleeping == 0 {
            return;
        }
        let began = Instant::now();
        let is_waiting = || {
            let were_served = self.served.load(Relaxed).wrapping_sub(served);
            were_served < sleeping && self.sleeping.load(Relaxed) != 0
        };
        while is_waiting() && began.elapsed() < LONGEST_PASS {
            // They are woken by the system, one after the other: that takes tens of microseconds each.
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread::scope;

    use super::*;

    #[test]
    fn who_sleeps_has_the_lock_before_the_one_that_passes_has_it_again() {
        let lock = TurnMutex::new(0_u32);
        for round in 0..20 {
            let served = lock.served.load(Relaxed);
            scope(|scope| {
                let guard = lock.lock();
                scope.spawn(|| *lock.lock() += 1);
                while lock.sleeping.load(Relaxed) == 0 {
                    std::thread::yield_now();
                }
                drop(guard);
                // Until it was served, however long the system takes: the bound of one call is not what is tested.
                while lock.served.load(Relaxed) == served {
                    lock.pass();
                }
                assert_eq!(*lock.lock(), round + 1);
            });
            assert_eq!(lock.sleeping.load(Relaxed), 0);
        }
    }

    #[test]
    fn who_contended_lately_stays_away_for_longer_than_one_operation_takes() {
        let lock = TurnMutex::new(());
        let guard = lock.lock();
        let spin = |lately| {
            let began = Instant::now();
            assert!(lock.spin_after(lately).is_none(), "it is taken");
            began.elapsed()
        };
        let all = Duration::from_micros(LONG_PAUSES.iter().sum());
        assert!(spin(false) >= all && spin(true) >= all);
        drop(guard);
        // The first try comes after the first pause.
        let began = Instant::now();
        assert!(lock.spin_after(true).is_some());
        assert!(began.elapsed() >= Duration::from_micros(LONG_PAUSES[0]));
    }

    #[test]
    fn where_nobody_sleeps_nothing_is_passed() {
        let lock = TurnMutex::new(());
        lock.pass();
        let guard = lock.lock();
        lock.pass();
        drop(guard);
        assert_eq!(lock.served.load(Relaxed), 0);
    }
}
