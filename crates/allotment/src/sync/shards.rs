//! The same thing several times over, each behind a lock that nobody waits for.
//!
//! ```text
//!   [ 0 ][ 1 ][ 2 ][ 3 ]        a cache line each, at least
//!     ▲    ▲
//!     A    B                    a thread has a shard of its own, and takes the next one where it is taken
//! ```
//!
//! What is put in by whoever comes must be collected from all shards, so it is for what is put in often and
//! collected seldom.

use core::cell::Cell;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use super::checked::{AtomicUsize, spin_loop, yield_now};
use super::try_lock::{TryLock, TryLockGuard};

/// More would not meet less: fewer threads than that run at once.
const MOST_SHARDS: usize = 16;

/// Tries at all shards before the processor is left to whoever has one.
const PATIENCE: u32 = 64;

thread_local! {
    /// Which shard the thread begins at, from 1; 0 until it is known.
    static OWN: Cell<usize> = const { Cell::new(0) };
}

/// What stands in a cache line of its own, and in that which the processor fetches with it.
#[derive(Debug)]
#[repr(align(128))]
struct Apart<T>(TryLock<T>);

/// Shards of `T`. A power of two of them.
#[derive(Debug)]
pub(crate) struct Shards<T> {
    shards: Box<[Apart<T>]>,
    /// Shards from here on were never taken.
    used: AtomicUsize,
}

impl<T> Shards<T> {
    /// As many as threads can run at once.
    pub(crate) fn new(make: impl Fn() -> T) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, core::num::NonZero::get);
        Self::with_count(threads.min(MOST_SHARDS).next_power_of_two(), make)
    }

    /// `count` is a power of two.
    pub(crate) fn with_count(count: usize, make: impl Fn() -> T) -> Self {
        debug_assert!(count.is_power_of_two());
        let shards = (0..count).map(|_| Apart(TryLock::new(make()))).collect();
        Self { shards, used: AtomicUsize::new(0) }
    }

    /// As if all had been taken before, for models of what comes later.
    #[cfg(loom)]
    pub(crate) fn all_used(self) -> Self {
        self.used.store(self.shards.len(), Relaxed);
        self
    }

    /// One of them: the thread's own, or the next that nobody has.
    #[inline]
    pub(crate) fn any(&self) -> TryLockGuard<'_, T> {
        let own = own() & (self.shards.len() - 1);
        let known = self.shards.get(own).filter(|_| own < self.used.load(Relaxed));
        known.and_then(|shard| shard.0.try_lock()).unwrap_or_else(|| self.any_other(own))
    }

    #[cold]
    fn any_other(&self, own: usize) -> TryLockGuard<'_, T> {
        let mut tries = 0;
        loop {
            for i in 0..self.shards.len() {
                let at = (own + i) & (self.shards.len() - 1);
                if let Some(guard) = self.shards[at].0.try_lock() {
                    // Before anything is put in, so that who collects after that does not miss it.
                    self.used.fetch_max(at + 1, Relaxed);
                    return guard;
                }
            }
            tries += 1;
            if tries % PATIENCE == 0 { yield_now() } else { spin_loop() }
        }
    }

    /// All that were ever taken, one after the other.
    pub(crate) fn each(&self) -> impl Iterator<Item = TryLockGuard<'_, T>> {
        self.shards[..self.used.load(Relaxed)].iter().map(|shard| {
            let mut tries = 0;
            loop {
                // Looking disturbs whoever has it less than trying does; but a model checker may show an old value
                // for ever to who only looks.
                if cfg!(loom) || !shard.0.is_taken() {
                    if let Some(guard) = shard.0.try_lock() {
                        return guard;
                    }
                }
                tries += 1;
                // Under a model checker somebody else must come on, or this goes round for ever.
                if cfg!(loom) || tries % PATIENCE == 0 { yield_now() } else { spin_loop() }
            }
        })
    }
}

/// The number of this thread.
#[inline]
fn own() -> usize {
    // A thread that is ending has no number any more.
    match OWN.try_with(Cell::get) {
        Ok(0) => next_own(),
        Ok(own) => own - 1,
        Err(_) => 0,
    }
}

#[cold]
fn next_own() -> usize {
    // Not the model checker's: it is about where things stand, not about what is right.
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let own = NEXT.fetch_add(1, Relaxed) as usize;
    let _ = OWN.try_with(|cell| cell.set(own));
    own - 1
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn who_finds_the_own_shard_taken_gets_another() {
        let shards = Shards::with_count(4, || 0);
        let first = shards.any();
        let mut second = shards.any();
        *second = 7;
        drop(first);
        drop(second);
        let mut found: Vec<i32> = shards.each().map(|shard| *shard).collect();
        found.sort_unstable();
        assert_eq!(found.last(), Some(&7));
    }

    #[test]
    fn nothing_is_lost_among_threads_that_put_in_and_one_that_collects() {
        let shards = Shards::with_count(2, || 0_u64);
        let mut collected = 0;
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..4).map(|_| scope.spawn(|| (0..10_000).for_each(|_| *shards.any() += 1))).collect();
            while !threads.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                collected += shards.each().map(|mut shard| core::mem::take(&mut *shard)).sum::<u64>();
            }
        });
        collected += shards.each().map(|mut shard| core::mem::take(&mut *shard)).sum::<u64>();
        assert_eq!(collected, 40_000);
    }
}
