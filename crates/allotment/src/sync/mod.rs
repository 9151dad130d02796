//! Locks and atomics that several layers share.
//!
//! ```text
//!   mod        locking a mutex
//!   checked    atomics, cells and mutexes that a model checker can replace
//!   try_lock   a lock that never blocks
//!   shards     several instances of one structure, so that threads do not contend
//!   spread     references to one value, with a count for each thread
//!   present    a value that is read often and replaced seldom
//!   sequence   a few words that are read together without a lock
//! ```

pub(crate) mod checked;
pub(crate) mod present;
pub(crate) mod sequence;
pub(crate) mod shards;
pub(crate) mod spread;
mod try_lock;

use core::hint::spin_loop;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

pub(crate) use try_lock::{TryLock, TryLockGuard};

/// Locks a mutex. User code never runs while one of this crate's mutexes is locked, so a poisoned one means that a
/// bug of this crate has panicked already; its data is used as it is.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks a mutex that is not locked; as [`locked`], also a poisoned one.
#[inline]
pub(crate) fn try_locked<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// The pauses of [`spin_locked`], in rounds of [`spin_loop`], each of 10 to 50 ns: all together take about as long as
/// the system calls of a sleep. Long ones, since a holder that takes the same lock again and again works faster while
/// no other thread does: its data stays in its cache.
const PAUSES: [u32; 6] = [2, 8, 32, 64, 64, 64];

/// Locks a mutex whose holder usually keeps it for less than a microsecond.
///
/// A `Mutex` spins as well, but not once a thread sleeps: from then on each thread that finds it locked goes to sleep at
/// once, and unlocks make system calls, for as long as threads keep coming. With twice as many threads as mutexes that
/// cost 3.4 µs an operation of 80 ns. Here a thread spins whether others sleep or not.
#[inline]
pub(crate) fn locked_soon<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    try_locked(mutex).unwrap_or_else(|| spin_locked(mutex).unwrap_or_else(|| locked(mutex)))
}

/// Locks a mutex that is unlocked within some microseconds.
#[cold]
pub(crate) fn spin_locked<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    PAUSES.into_iter().find_map(|pause| {
        (0..pause).for_each(|_| spin_loop());
        try_locked(mutex)
    })
}
