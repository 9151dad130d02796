//! Several instances of one structure, each behind a lock that never blocks.
//!
//! ```text
//!   [ 0 ][ 1 ][ 2 ][ 3 ]        at least one cache line each
//!     ▲    ▲
//!     A    B                    a thread has a preferred shard, and takes the next one if that is taken
//! ```
//!
//! Any thread may push into any shard, so collecting visits all shards: for structures that are written often and
//! collected seldom.

use core::cell::Cell;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::time::Duration;

use super::checked::{AtomicUsize, fence, spin_loop, yield_now};
use super::try_lock::{TryLock, TryLockGuard};

/// More would not reduce contention: fewer threads than this push at the same time.
const MOST_SHARDS: usize = 16;

/// Rounds over all shards before the thread yields the processor to the holders of the locks.
const PATIENCE: u32 = 64;

thread_local! {
    /// The shard that the thread tries first, from 1; 0 if not assigned yet.
    ///
    /// Not the thread's shard in the allocator's pools (`memory/pool/residents.rs`), which is 0 until the thread has met
    /// others there often. A shard here costs a few cache lines and no memory of the device, so each thread has its own
    /// from the first call on; were all at 0 to begin with, each would write the lines of the others until it moves, and
    /// threads that meet here only never would.
    static PREFERRED: Cell<usize> = const { Cell::new(0) };

    /// The shard that the thread tries first where shards are [settled](Shards::settled).
    static SETTLED: Cell<usize> = const { Cell::new(0) };
}

/// A shard on cache lines of its own. 128 bytes, since processors prefetch the neighbouring 64-byte line.
#[derive(Debug)]
#[repr(align(128))]
struct CachePadded<T>(TryLock<T>);

/// Shards of `T`; their number is a power of two.
#[derive(Debug)]
pub(crate) struct Shards<T> {
    shards: Box<[CachePadded<T>]>,
    /// Shards from here on were never taken.
    used: AtomicUsize,
}

impl<T> Shards<T> {
    /// Creates as many shards as threads can run at once, at most 16.
    pub(crate) fn new(make: impl Fn() -> T) -> Self {
        Self::with_count(most_threads(), make)
    }

    /// Creates `count` shards, a power of two.
    pub(crate) fn with_count(count: usize, make: impl Fn() -> T) -> Self {
        debug_assert!(count.is_power_of_two());
        let shards = (0..count).map(|_| CachePadded(TryLock::new(make()))).collect();
        Self { shards, used: AtomicUsize::new(0) }
    }

    /// Creates as many shards as [`new`](Self::new) does, of their indices, all [used](Self::all_used).
    pub(crate) fn numbered(make: impl FnMut(usize) -> T) -> Self {
        let shards = (0..most_threads()).map(make).map(|value| CachePadded(TryLock::new(value))).collect();
        Self { shards, used: AtomicUsize::new(0) }.all_used()
    }

    /// Marks all shards as taken before, so that whoever visits each of them misses none that a thread takes for the
    /// first time meanwhile.
    pub(crate) fn all_used(self) -> Self {
        self.used.store(self.shards.len(), Relaxed);
        self
    }

    /// Locks a shard: the thread's preferred one, or the next that is free.
    #[inline]
    pub(crate) fn any(&self) -> TryLockGuard<'_, T> {
        let preferred = preferred() & (self.shards.len() - 1);
        self.known(preferred).unwrap_or_else(|| self.any_other(preferred).1)
    }

    /// Locks a shard as [`any`](Self::any) does. Returns also whether it is another one than the thread's preferred one.
    #[inline]
    pub(crate) fn any_or_other(&self) -> (TryLockGuard<'_, T>, bool) {
        let preferred = preferred() & (self.shards.len() - 1);
        match self.known(preferred) {
            Some(guard) => (guard, false),
            None => {
                let (at, guard) = self.any_other(preferred);
                (guard, at != preferred)
            }
        }
    }

    /// Locks a shard: the first one, until the thread has found it taken; then the next, and so on. For shards that cost much
    /// each: threads that never meet share one.
    #[inline]
    pub(crate) fn settled(&self) -> TryLockGuard<'_, T> {
        // The thread-local is gone while its thread ends.
        let settled = SETTLED.try_with(Cell::get).unwrap_or(0) & (self.shards.len() - 1);
        self.known(settled).unwrap_or_else(|| self.settle(settled))
    }

    #[cold]
    fn settle(&self, from: usize) -> TryLockGuard<'_, T> {
        let (at, guard) = self.any_other(from);
        let _ = SETTLED.try_with(|cell| cell.set(at));
        guard
    }

    /// Locks a shard that was taken before, if it is free.
    #[inline]
    fn known(&self, at: usize) -> Option<TryLockGuard<'_, T>> {
        // Beyond `used` a shard must be announced first, which the slow path does.
        let known = self.shards.get(at).filter(|_| at < self.used.load(Relaxed));
        known.and_then(|shard| shard.0.try_lock())
    }

    /// Locks the preferred shard, or the next that is free. Returns which.
    #[cold]
    fn any_other(&self, preferred: usize) -> (usize, TryLockGuard<'_, T>) {
        let mut tries = 0_u32;
        loop {
            for i in 0..self.shards.len() {
                let at = (preferred + i) & (self.shards.len() - 1);
                if let Some(guard) = self.shards[at].0.try_lock() {
                    // Stored before the first push, so that a thread which collects afterwards does not miss this
                    // shard.
                    self.used.fetch_max(at + 1, Relaxed);
                    // For a collecting thread that says before that it is the last one, with a fence between: either it finds
                    // the shard, or this thread hears of it after its push.
                    fence(SeqCst);
                    return (at, guard);
                }
            }
            tries += 1;
            pause(tries);
        }
    }

    /// Locks all shards that were ever taken, one after the other.
    pub(crate) fn each(&self) -> impl Iterator<Item = TryLockGuard<'_, T>> {
        self.shards[..self.used.load(Relaxed)].iter().map(|shard| {
            let mut tries = 0_u32;
            loop {
                // A load disturbs the holder less than an exchange does; but the model checker may show an old
                // value forever to a thread that only loads.
                if cfg!(allotment_loom) || !shard.0.is_taken() {
                    if let Some(guard) = shard.0.try_lock() {
                        return guard;
                    }
                }
                tries += 1;
                // The model checker must be told to run another thread, or this loop does not end.
                if cfg!(allotment_loom) { yield_now() } else { pause(tries) }
            }
        })
    }
}

/// Waits a moment for the holder of a lock.
fn pause(tries: u32) {
    match tries {
        _ if tries % PATIENCE != 0 => spin_loop(),
        _ if tries < 16 * PATIENCE || cfg!(allotment_loom) => yield_now(),
        // The holder does not run. If this thread has a higher priority, yielding alone may not let it.
        _ => std::thread::sleep(Duration::from_micros(50)),
    }
}

/// Returns how many threads can run at once, at most 16, as a power of two.
pub(super) fn most_threads() -> usize {
    // One if the parallelism is unknown: correct, and merely slower under contention.
    let threads = std::thread::available_parallelism().map_or(1, core::num::NonZero::get);
    threads.min(MOST_SHARDS).next_power_of_two()
}

/// Returns the index of the thread's preferred shard.
#[inline]
pub(super) fn preferred() -> usize {
    // The thread-local is gone while its thread ends.
    match PREFERRED.try_with(Cell::get) {
        Ok(0) => next_preferred(),
        Ok(preferred) => preferred - 1,
        Err(_) => 0,
    }
}

#[cold]
fn next_preferred() -> usize {
    // Not an atomic of the model checker: it affects contention, not correctness.
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let preferred = NEXT.fetch_add(1, Relaxed) as usize;
    let _ = PREFERRED.try_with(|cell| cell.set(preferred));
    preferred - 1
}

#[cfg(test)]
#[cfg(not(allotment_loom))]
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
    fn a_thread_stays_at_the_first_shard_until_it_finds_another_thread_there() {
        // A thread of its own, since the shard at which a thread has settled is the thread's.
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let shards = Shards::with_count(4, || 0);
                (0..3).for_each(|_| *shards.settled() += 1);
                let first = shards.settled();
                *shards.settled() += 10; // as another thread would find it
                drop(first);
                *shards.settled() += 100;
                let found: Vec<i32> = shards.each().map(|shard| *shard).collect();
                assert_eq!(found, [3, 110]);
            });
        });
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
