//! What the layers share about locks.
//!
//! ```text
//!   mod        a mutex, locked
//!   checked    atomics, cells and mutexes that a model checker can take the place of
//!   try_lock   a lock that nobody waits for
//!   shards     the same thing several times over, so that threads do not meet
//! ```

pub(crate) mod checked;
pub(crate) mod shards;
mod try_lock;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex. No user code ever runs under one of ours, so a poisoned one can only stem from a
/// mistake of this crate that has been reported already; its data is used as it is.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
