//! Locks and atomics that several layers share.
//!
//! ```text
//!   mod        locking a mutex
//!   checked    atomics, cells and mutexes that a model checker can replace
//!   try_lock   a lock that never blocks
//!   shards     several instances of one structure, so that threads do not contend
//!   inbox      words that threads leave to one that takes them, without a lock
//!   first_thread   a value that the first thread which comes has alone
//!   prefetch   asking for a cache line before it is written
//!   spread     references to one value, with a count for each thread
//!   present    a value that is read often and replaced seldom
//!   sequence   a few words that are read together without a lock
//!   turns      a mutex whose long holders let others in between
//! ```

pub(crate) mod checked;
pub(crate) mod first_thread;
pub(crate) mod inbox;
pub(crate) mod prefetch;
pub(crate) mod present;
pub(crate) mod sequence;
pub(crate) mod shards;
pub(crate) mod spread;
mod try_lock;
mod turns;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

pub(crate) use try_lock::TryLockGuard;
pub(crate) use turns::{TurnMutex, contended_lately};

/// What [`locked`] locks.
pub(crate) trait Lock {
    type Value;

    /// Locks it, also where a thread panicked meanwhile.
    fn acquire(&self) -> MutexGuard<'_, Self::Value>;

    /// Locks it if it is not locked.
    fn try_acquire(&self) -> Option<MutexGuard<'_, Self::Value>>;
}

impl<T> Lock for Mutex<T> {
    type Value = T;

    #[inline]
    fn acquire(&self) -> MutexGuard<'_, T> {
        self.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn try_acquire(&self) -> Option<MutexGuard<'_, T>> {
        match self.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl<T> Lock for TurnMutex<T> {
    type Value = T;

    #[inline]
    fn acquire(&self) -> MutexGuard<'_, T> {
        self.lock()
    }

    #[inline]
    fn try_acquire(&self) -> Option<MutexGuard<'_, T>> {
        self.try_lock()
    }
}

impl<L: Lock> Lock for Arc<L> {
    type Value = L::Value;

    #[inline]
    fn acquire(&self) -> MutexGuard<'_, L::Value> {
        (**self).acquire()
    }

    #[inline]
    fn try_acquire(&self) -> Option<MutexGuard<'_, L::Value>> {
        (**self).try_acquire()
    }
}

/// Locks a mutex. User code never runs while one of this crate's mutexes is locked, so a poisoned one means that a
/// bug of this crate has panicked already; its data is used as it is.
#[inline]
pub(crate) fn locked<L: Lock>(mutex: &L) -> MutexGuard<'_, L::Value> {
    mutex.acquire()
}

/// Locks a mutex that is not locked; as [`locked`], also a poisoned one.
#[inline]
pub(crate) fn try_locked<L: Lock>(mutex: &L) -> Option<MutexGuard<'_, L::Value>> {
    mutex.try_acquire()
}

/// Locks a mutex that is unlocked within some microseconds.
#[cold]
pub(crate) fn spin_locked<T>(mutex: &TurnMutex<T>) -> Option<MutexGuard<'_, T>> {
    mutex.spin()
}
