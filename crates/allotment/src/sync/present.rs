//! A value that is read often and replaced seldom: threads that use it keep it from being replaced, each without writing
//! what the others read.
//!
//! ```text
//!   shards   [ value ][ value ][ value ][ value ]      a thread that uses it locks one of them
//!                ▲        ▲                             a replacement locks all of them, and gives each the next value
//!                A        B
//! ```
//!
//! A `RwLock` counts its readers in one place, which costs each of them two exchanges, and more where several threads
//! read at once. A shard costs one ([`Shards`]). Its lock spins, and a replacement may take milliseconds: so during one,
//! threads sleep at the `gate` before they come to a shard.

use core::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

use super::checked::{AtomicBool, Mutex, MutexGuard, locked};
use super::shards::Shards;
use super::try_lock::TryLockGuard;

/// The present value; `None` after it was taken away.
pub(crate) struct Present<T> {
    /// The same in each, except while all are locked.
    shards: Shards<Option<Arc<T>>>,
    /// Locked during a replacement.
    gate: Mutex<()>,
    /// The gate is locked. A hint: who does not see it yet waits for the shard.
    is_closed: AtomicBool,
}

/// The present value, which is not replaced as long as this exists. A thread has one at a time: where there is one
/// shard, a second one would wait for the first.
pub(crate) type PresentGuard<'a, T> = TryLockGuard<'a, Option<Arc<T>>>;

/// Access to the present value that no other thread has.
pub(crate) struct Exclusive<'a, T> {
    /// All of them; at least one.
    shards: Vec<PresentGuard<'a, T>>,
    is_closed: &'a AtomicBool,
    _gate: MutexGuard<'a, ()>,
}

impl<T> Present<T> {
    pub(crate) fn new(value: T) -> Self {
        let value = Arc::new(value);
        Self::over(Shards::new(|| Some(Arc::clone(&value))))
    }

    /// Creates a value with `count` shards, a power of two.
    #[cfg(allotment_loom)]
    #[allow(dead_code, reason = "the models include this file, and the library has no use for it")]
    pub(crate) fn with_count(count: usize, value: T) -> Self {
        let value = Arc::new(value);
        Self::over(Shards::with_count(count, || Some(Arc::clone(&value))))
    }

    fn over(shards: Shards<Option<Arc<T>>>) -> Self {
        // All of them, since a replacement must miss none.
        Self { shards: shards.all_used(), gate: Mutex::new(()), is_closed: AtomicBool::new(false) }
    }

    #[inline]
    pub(crate) fn read(&self) -> PresentGuard<'_, T> {
        if self.is_closed.load(Relaxed) {
            self.wait();
        }
        self.shards.any()
    }

    /// Sleeps until no replacement is under way.
    #[cold]
    fn wait(&self) {
        drop(locked(&self.gate));
    }

    /// Waits for all threads that [read](Self::read), and keeps others from it.
    pub(crate) fn exclusive(&self) -> Exclusive<'_, T> {
        let gate = locked(&self.gate);
        self.is_closed.store(true, Relaxed);
        Exclusive { shards: self.shards.each().collect(), is_closed: &self.is_closed, _gate: gate }
    }
}

impl<T> Exclusive<'_, T> {
    pub(crate) fn get(&self) -> Option<&Arc<T>> {
        self.shards.first()?.as_ref()
    }

    /// Makes another value the present one. Returns the one before, which nothing else refers to.
    pub(crate) fn replace(&mut self, next: Option<T>) -> Option<T> {
        let next = next.map(Arc::new);
        let before = self.shards.iter_mut().map(|shard| core::mem::replace(&mut **shard, next.clone()));
        // The last reference is the one that is left.
        before.last().flatten().and_then(Arc::into_inner)
    }
}

impl<T> Drop for Exclusive<'_, T> {
    fn drop(&mut self) {
        // Before the gate: who comes from there finds the shards free.
        self.shards.clear();
        self.is_closed.store(false, Relaxed);
    }
}

#[cfg(test)]
#[cfg(not(allotment_loom))]
mod tests {
    use core::sync::atomic::AtomicU32;
    use core::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn the_value_before_is_given_to_who_replaces_it() {
        let present = Present::new(1);
        assert_eq!(present.exclusive().replace(Some(2)), Some(1));
        assert_eq!(present.read().as_deref(), Some(&2));
        assert_eq!(present.exclusive().replace(None), Some(2));
        assert!(present.read().is_none() && present.exclusive().get().is_none());
    }

    #[test]
    fn who_uses_the_value_never_meets_who_replaces_it() {
        let present = Present::new(AtomicU32::new(0));
        std::thread::scope(|scope| {
            let use_it = || {
                for _ in 0..10_000 {
                    let guard = present.read();
                    let value = guard.as_ref().unwrap();
                    value.fetch_add(1, Relaxed);
                    assert!(value.load(Relaxed) < 1 << 31, "it is marked as replaced");
                    value.fetch_sub(1, Relaxed);
                }
            };
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(use_it)).collect();
            while !threads.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                let mut exclusive = present.exclusive();
                let users = exclusive.get().unwrap().fetch_add(1 << 31, Relaxed);
                assert_eq!(users, 0);
                exclusive.replace(Some(AtomicU32::new(0)));
            }
        });
    }
}
