//! A lock that never blocks: a thread that finds it taken uses another one.
//!
//! Costs one atomic exchange to lock and one store to unlock. A mutex needs two exchanges, since unlocking must
//! find out whether a thread sleeps and has to be woken.

use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::checked::{AtomicBool, UnsafeCell};

/// A value that one thread at a time may access.
pub(crate) struct TryLock<T> {
    taken: AtomicBool,
    /// Accessed only while the lock is held.
    value: UnsafeCell<T>,
}

// SAFETY: one thread at a time reaches the value, as if it were sent from one thread to the next.
unsafe impl<T: Send> Sync for TryLock<T> {}

/// Holds the lock until it is dropped.
pub(crate) struct TryLockGuard<'a, T> {
    lock: &'a TryLock<T>,
    /// Lends the value as a mutable reference does, with the same `Send` and `Sync`.
    lends: PhantomData<&'a mut T>,
}

impl<T> TryLock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Locks the value, or returns `None` if it is locked.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<TryLockGuard<'_, T>> {
        // Not a plain exchange: that would also write on failure, and the model checker lets such a write take
        // effect after the lock is released.
        let taken = self.taken.compare_exchange(false, true, Acquire, Relaxed);
        taken.is_ok().then(|| TryLockGuard { lock: self, lends: PhantomData })
    }

    /// Returns whether the value seems to be locked.
    pub(crate) fn is_taken(&self) -> bool {
        self.taken.load(Relaxed)
    }
}

impl<T: Default> Default for TryLock<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> Deref for TryLockGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.lock.value.with(|value| {
            // SAFETY: the guard has the lock, and lends the value no longer than it lives.
            unsafe { &*value }
        })
    }
}

impl<T> DerefMut for TryLockGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.lock.value.with_mut(|value| {
            // SAFETY: the guard has the lock, is borrowed as a whole, and lends the value no longer than that.
            unsafe { &mut *value }
        })
    }
}

impl<T> Drop for TryLockGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.taken.store(false, Release);
    }
}

impl<T> fmt::Debug for TryLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TryLock").finish_non_exhaustive()
    }
}
