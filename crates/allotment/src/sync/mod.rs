//! Locks and atomics that several layers share.
//!
//! ```text
//!   mod        locking a mutex
//!   checked    atomics, cells and mutexes that a model checker can replace
//!   try_lock   a lock that never blocks
//!   shards     several instances of one structure, so that threads do not contend
//! ```

pub(crate) mod checked;
pub(crate) mod shards;
mod try_lock;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) use try_lock::{TryLock, TryLockGuard};

/// Locks a mutex. User code never runs while one of this crate's mutexes is locked, so a poisoned one means that a
/// bug of this crate has panicked already; its data is used as it is.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
