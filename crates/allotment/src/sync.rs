//! What the layers share about locks and tables.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex. No user code ever runs under one of ours, so a poisoned one can only stem from a
/// mistake of this crate that has been reported already; its data is used as it is.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
