//! The one switch between the standard library's atomics and those of a model checker (loom), for `lifetime`.
//!
//! Built with `--cfg allotment_loom` (see `.ci/loom`), code on top of these types is run in every order that the memory model
//! allows.

#[cfg(allotment_loom)]
pub(crate) use loom::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, fence},
    sync::{Mutex, MutexGuard},
    thread::yield_now,
};
#[cfg(not(allotment_loom))]
pub(crate) use {
    core::hint::spin_loop,
    core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, fence},
    std::sync::{Mutex, MutexGuard},
    std::thread::yield_now,
};

use std::sync::{PoisonError, TryLockError};

/// Locks a mutex; see [`locked`](super::locked).
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks a mutex that is not locked; as [`locked`], also a poisoned one.
pub(crate) fn try_locked<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// A cell whose accesses the model checker records.
#[cfg(not(allotment_loom))]
#[derive(Debug, Default)]
pub(crate) struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

#[cfg(not(allotment_loom))]
impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(core::cell::UnsafeCell::new(value))
    }

    #[inline]
    pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    #[inline]
    pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}

#[cfg(allotment_loom)]
pub(crate) use loom::cell::UnsafeCell;
