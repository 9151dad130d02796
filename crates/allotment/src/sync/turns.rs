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
//! Where threads do nothing but take the lock for nanoseconds, the fairest order is the slowest: each time that the lock goes
//! to another thread, so does all that it guards, line by line, for as long as that thread finds lines that the other one
//! wrote. Two threads that took turns after each operation did a fifth of what one does, and four a tenth; so does a plain
//! mutex.
//!
//! ```text
//!   turns of one operation     A·B·A·B·A·B·          · the data goes from one cache to the other
//!   long turns                 AAAAAAAA·BBBBBBBB·
//! ```
//!
//! So a thread that [finds](TurnMutex::spin) the lock taken stays away from it for microseconds, and the one that has it works
//! on meanwhile. Each time that it finds it taken again soon, it stays away for twice as long, up to two milliseconds for each
//! thread that waits: how long a turn must be depends on how much the lock guards, and on the processor. A thread that finds it
//! taken for the first time in a while tries again at once, and as those that contend stay away from it, it soon has its turn.
//! Measured in `docs/measurements/2026-11-28-turns.md`.

use core::cell::Cell;
use core::hint::spin_loop;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Instant;

/// Rounds of [`spin_loop`], each of 10 to 50 ns, before the tries of a thread that wants the lock now.
const TRIES: [u32; 5] = [0, 2, 8, 32, 64];

/// How long a thread stays away that did not contend lately, and the most for each thread that waits.
const PAUSES: [Duration; 2] = [Duration::from_micros(5), Duration::from_millis(2)];

/// What of a pause the thread spins, about as long as it takes the system to wake one: then it sleeps. A piece of a report is
/// shorter.
const SPUN: Duration = Duration::from_micros(80);

/// The most threads that a pause is for.
const MOST_WAITING: u32 = 8;

/// Pauses, each with its tries, before a thread sleeps until it is woken, which may take long where others go on.
const ROUNDS: u32 = 4;

/// A thread contended lately if no longer ago than so many times its last pause.
const LATELY: u32 = 40;

/// When a thread last found a lock taken, and how long it stayed away from it at a time.
#[derive(Clone, Copy)]
struct Contention {
    at: Instant,
    pause: Duration,
}

thread_local! {
    static CONTENTION: Cell<Option<Contention>> = const { Cell::new(None) };
}

/// Returns what the calling thread did when it found a lock taken, if that was lately.
fn contention() -> Option<Contention> {
    CONTENTION.get().filter(|before| before.at.elapsed() < before.pause * LATELY)
}

/// Returns true if the calling thread found a lock taken lately, so that the next [`TurnMutex::spin`] takes longer.
pub(crate) fn contended_lately() -> bool {
    contention().is_some()
}

/// The longest time that [`TurnMutex::pass`] waits: a thread may be stopped before it takes its turn.
const LONGEST_PASS: Duration = Duration::from_millis(1);

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct TurnMutex<T> {
    mutex: Mutex<T>,
    /// Threads that want it and stay away, or sleep until it is unlocked. Relaxed, like the next two: all are hints.
    waiting: AtomicU32,
    /// Threads that waited, and went on.
    served: AtomicU32,
    /// Calls of [`pass`](Self::pass), each of which ends the pauses of those that wait.
    passes: AtomicU32,
    /// For pauses that are slept.
    asleep: Mutex<()>,
    passed: Condvar,
}

impl<T> TurnMutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self {
            mutex: Mutex::new(value),
            waiting: AtomicU32::new(0),
            served: AtomicU32::new(0),
            passes: AtomicU32::new(0),
            asleep: Mutex::new(()),
            passed: Condvar::new(),
        }
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

    /// Tries to lock it for some tens of microseconds, or some milliseconds where the thread contends again and again.
    #[cold]
    pub(super) fn spin(&self) -> Option<MutexGuard<'_, T>> {
        let [shortest, longest] = PAUSES;
        let before = contention();
        let pause = before.map_or(shortest, |before| (before.pause * 2).min(longest));
        let found = self.counted(|| {
            // Before each try: who passes after it ends the pause.
            let mut passes = self.passes.load(Relaxed);
            let soon = if before.is_none() { self.try_now() } else { self.try_lock() };
            soon.or_else(|| {
                (0..ROUNDS).find_map(|_| {
                    self.stay_away(pause, passes);
                    passes = self.passes.load(Relaxed);
                    self.try_now()
                })
            })
        });
        // From the end of the wait on, however long it took.
        CONTENTION.set(Some(Contention { at: Instant::now(), pause }));
        found
    }

    /// Tries to lock it for about a microsecond: one that is taken again and again is not always taken.
    fn try_now(&self) -> Option<MutexGuard<'_, T>> {
        TRIES.into_iter().find_map(|rounds| {
            (0..rounds).for_each(|_| spin_loop());
            self.try_lock()
        })
    }

    /// Waits for a pause, and as long for each other thread that does, or until a thread has passed since `passes` was read.
    fn stay_away(&self, pause: Duration, passes: u32) {
        let pause = pause * self.waiting.load(Relaxed).clamp(1, MOST_WAITING);
        let stays = || self.passes.load(Relaxed) == passes;
        let began = Instant::now();
        // Not a look at the lock: each would take the line that the holder writes out of its cache.
        while stays() && began.elapsed() < pause.min(SPUN) {
            (0..8).for_each(|_| spin_loop());
        }
        if pause > SPUN {
            let asleep = self.asleep.lock().unwrap_or_else(PoisonError::into_inner);
            drop(self.passed.wait_timeout_while(asleep, pause - SPUN, |()| stays()));
        } else {
            // The holder may be a thread that is not running.
            std::thread::yield_now();
        }
    }

    /// Locks it, after a while away from it where it is taken.
    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, T> {
        self.try_lock().unwrap_or_else(|| self.spin().unwrap_or_else(|| self.sleep()))
    }

    /// Locks it for a look, or for a piece of something long, and [passes](Self::pass) then.
    pub(crate) fn look<R>(&self, at: impl FnOnce(&mut T) -> R) -> R {
        let mut guard = self.lock_for_a_piece();
        let result = at(&mut guard);
        drop(guard);
        self.pass();
        result
    }

    /// Locks it as soon as it is unlocked, for a piece after which the caller [passes](Self::pass).
    pub(crate) fn lock_for_a_piece(&self) -> MutexGuard<'_, T> {
        self.try_lock().unwrap_or_else(|| self.sleep())
    }

    /// Sleeps until it is unlocked, and locks it.
    #[cold]
    fn sleep(&self) -> MutexGuard<'_, T> {
        self.counted(|| self.mutex.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Counts the calling thread among those that wait.
    fn counted<R>(&self, wait: impl FnOnce() -> R) -> R {
        self.waiting.fetch_add(1, Relaxed);
        let result = wait();
        self.served.fetch_add(1, Relaxed);
        self.waiting.fetch_sub(1, Relaxed);
        result
    }

    /// Lets the threads that wait now have the lock before the caller takes it again. The caller does not have it.
    pub(crate) fn pass(&self) {
        let (served, waiting) = (self.served.load(Relaxed), self.waiting.load(Relaxed));
        if waiting == 0 {
            return;
        }
        self.passes.fetch_add(1, Relaxed);
        // Who looks at the number before it sleeps holds this.
        drop(self.asleep.lock());
        self.passed.notify_all();
        let began = Instant::now();
        let is_waiting = || {
            let were_served = self.served.load(Relaxed).wrapping_sub(served);
            were_served < waiting && self.waiting.load(Relaxed) != 0
        };
        while is_waiting() && began.elapsed() < LONGEST_PASS {
            // Those that sleep are woken by the system, one after the other: that takes tens of microseconds each.
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread::{scope, spawn, yield_now};

    use super::*;

    #[test]
    fn who_waits_has_the_lock_before_the_one_that_passes_has_it_again() {
        let lock = TurnMutex::new(0_u32);
        for round in 0..40 {
            let served = lock.served.load(Relaxed);
            scope(|scope| {
                let guard = lock.lock();
                scope.spawn(|| {
                    // Asleep, or away from it for a while.
                    *if round % 2 == 0 { lock.lock_for_a_piece() } else { lock.lock() } += 1;
                });
                while lock.waiting.load(Relaxed) == 0 {
                    yield_now();
                }
                drop(guard);
                // Until it was served, however long the system takes: the bound of one call is not what is tested.
                while lock.served.load(Relaxed) == served {
                    lock.pass();
                }
                while *lock.lock() != round + 1 {
                    lock.pass();
                }
            });
            assert_eq!(lock.waiting.load(Relaxed), 0);
        }
    }

    #[test]
    fn a_pass_ends_a_pause_that_is_slept() {
        // Long enough that a test which waits for its end is seen to hang.
        let pause = Duration::from_secs(3600);
        let lock = TurnMutex::new(());
        let guard = lock.lock();
        scope(|scope| {
            let waits = scope.spawn(|| lock.counted(|| lock.stay_away(pause, lock.passes.load(Relaxed))));
            while lock.waiting.load(Relaxed) == 0 {
                yield_now();
            }
            drop(guard);
            while !waits.is_finished() {
                lock.pass();
            }
            waits.join().unwrap();
        });
    }

    #[test]
    fn who_finds_it_taken_again_and_again_stays_away_for_longer_each_time() {
        // A thread of its own: what other tests of this thread met is not looked at.
        let pauses = spawn(|| {
            let lock = TurnMutex::new(());
            let guard = lock.lock();
            let mut pauses = Vec::new();
            for _ in 0..12 {
                let (began, before) = (Instant::now(), contention());
                assert!(lock.spin().is_none(), "it is taken");
                let pause = CONTENTION.get().unwrap().pause;
                assert!(began.elapsed() >= pause * ROUNDS);
                // Where the system stopped the thread for so long that it is no longer lately, it begins anew.
                let expected = before.map_or(PAUSES[0], |before| (before.pause * 2).min(PAUSES[1]));
                assert!(pause == expected || pause == PAUSES[0]);
                pauses.push(pause);
            }
            drop(guard);
            pauses
        });
        assert_eq!(pauses.join().unwrap()[0], PAUSES[0]);
    }

    #[test]
    fn where_nobody_waits_nothing_is_passed() {
        let lock = TurnMutex::new(());
        lock.pass();
        let guard = lock.lock();
        lock.pass();
        drop(guard);
        assert_eq!((lock.served.load(Relaxed), lock.passes.load(Relaxed)), (0, 0));
    }
}
