//! A lock that nobody waits for: who finds it taken goes elsewhere.
//!
//! One atomic exchange to take it and one store to give it back, where a mutex needs two exchanges, since
//! nobody sleeps who would have to be woken.

use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::checked::{AtomicBool, UnsafeCell};

/// A value that one thread at a time may look at.
pub(crate) struct TryLock<T> {
    taken: AtomicBool,
    /// Touched only between taking the lock and giving it back.
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by one thread at a time, as a value that is sent from one to the next would be.
unsafe impl<T: Send> Sync for TryLock<T> {}

/// Has the lock until it is dropped.
pub(crate) struct TryLockGuard<'a, T> {
    lock: &'a TryLock<T>,
    /// It lends as a mutable reference does, and may go to other threads as one may.
    lends: PhantomData<&'a mut T>,
}

impl<T> TryLock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// The value, unless somebody has it.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<TryLockGuard<'_, T>> {
        // Not a plain exchange: that would write in vain too, and the model checker takes such a write for one that
        // may come after the lock is given back.
        let taken = self.taken.compare_exchange(false, true, Acquire, Relaxed);
        taken.is_ok().then(|| TryLockGuard { lock: self, lends: PhantomData })
    }

    /// Whether it looks as if somebody had it.
    pub(crate) fn is_taken(&self) -> bool {
        self.taken.load(Relaxed)
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
