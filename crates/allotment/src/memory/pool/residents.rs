//! Which shard a thread uses, and how many threads use each.
//!
//! ```text
//!   shard       0     1     2     3    …   63
//!   residents   5     1     1     0         0      threads that contended and chose it, of all allocators together
//!               ▲                 ▲
//!             a thread that finds 0 locked again and again moves to 3
//! ```
//!
//! All threads begin at shard 0, and one that never meets another stays there. A thread that contends becomes a resident
//! of its shard, and moves only to a shard that has at least two residents fewer: so each move brings the threads closer
//! to an even distribution, and where there are more threads than shards they come to rest as well. (A rule that looks at
//! locks alone never ends there: every shard is locked now and then, so the threads wander, and what they allocated is in
//! all shards.) A thread that ends is a resident no more, and the next one that contends gets its shard, with what
//! memory it has.
//!
//! The numbers are hints: whatever they say, every lock is taken and no memory is lost.

use core::cell::Cell;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::shards::MOST_SHARDS;

const SHARDS: usize = MOST_SHARDS as usize;

/// By shard. Shared, but touched only by threads that contend.
static RESIDENTS: [AtomicU32; SHARDS] = [const { AtomicU32::new(0) }; SHARDS];

thread_local! {
    /// The shard that this thread uses, in all pools of all allocators; in one with fewer shards, the remainder counts.
    static SHARD: Cell<u32> = const { Cell::new(0) };
    /// How often this thread found its shard locked lately, weighted.
    static CONTENTION: Cell<u32> = const { Cell::new(0) };
    static RESIDENCE: Residence = const { Residence(Cell::new(None)) };
}

/// How a request found the lock of its thread's shard, and the contention that it adds. A request that found it unlocked
/// subtracts 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contended {
    /// Locked, as it is for less than 100 ns.
    Briefly = 8,
    /// Locked for longer than a thread spins: it has to sleep, which takes as long as some hundred requests.
    ForLong = 512,
}

/// The contention from which a thread moves: one in every eighth request for long, or two or three sleeps within a few
/// hundred requests.
const MOVE_AT: u32 = 1024;

/// Where the thread counts as a resident.
struct Residence(Cell<Option<usize>>);

impl Residence {
    /// Counts the thread in a shard, and no longer where it was.
    fn set(&self, shard: Option<usize>) {
        if let Some(before) = self.0.replace(shard) {
            RESIDENTS[before].fetch_sub(1, Relaxed);
        }
    }
}

impl Drop for Residence {
    fn drop(&mut self) {
        self.set(None);
    }
}

/// Makes the calling thread use this [copy](crate::memory::AllocatorDesc::shards) of each pool from now on, and returns the one that it
/// used before. All threads begin with 0.
///
/// A thread finds a copy for itself where others use its own at the same time, so a program need not call this. One that
/// knows better may: of two threads that take turns, or of one that replays what several did. Of a number above 63 the
/// remainder of the division by 64 counts; and of one beyond the copies of a pool, that of the division by their number.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// use allotment::memory::use_shard;
///
/// let mut desc = AllocatorDesc::default();
/// desc.shards = 2;
/// let allocator = Allocator::new(device, desc)?;
/// let first = allocator.allocate(&Requirements::new(1000), &MemoryUsage::GpuOnly.into())?;
/// let before = use_shard(1);
/// let second = allocator.allocate(&Requirements::new(1000), &MemoryUsage::GpuOnly.into())?;
/// use_shard(before);
/// assert_eq!(allocator.statistics().blocks, 2, "one of each copy");
/// # allocator.free(first)?;
/// # allocator.free(second)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn use_shard(shard: u32) -> u32 {
    CONTENTION.set(0);
    // It becomes a resident of the new one when it contends there.
    let _ = RESIDENCE.try_with(|residence| residence.set(None));
    SHARD.replace(shard % MOST_SHARDS)
}

/// Returns the shard that this thread uses; in a pool with fewer shards, the remainder counts.
#[inline]
pub(in crate::memory) fn own_shard() -> u32 {
    SHARD.get()
}

/// Notes that a request did not find its shard locked.
#[inline]
pub(super) fn note_uncontended() {
    let contention = CONTENTION.get();
    if contention != 0 {
        CONTENTION.set(contention - 1);
    }
}

/// Notes that a request found its shard locked. Returns true if that happened often enough lately to move.
#[cold]
pub(super) fn note_contended(how: Contended) -> bool {
    let _ = RESIDENCE.try_with(|residence| {
        if residence.0.get().is_none() {
            let shard = SHARD.get() as usize % SHARDS;
            RESIDENTS[shard].fetch_add(1, Relaxed);
            residence.0.set(Some(shard));
        }
    });
    let contention = CONTENTION.get() + how as u32;
    let moves = contention >= MOVE_AT;
    // Whether it finds a better shard or not, it looks for the next one only after some more contention: a look reads
    // all counts.
    CONTENTION.set(if moves { MOVE_AT / 2 } else { contention });
    moves
}

/// Moves the thread to the shard of a pool with `count` shards that has the fewest residents, if that spreads the
/// threads more evenly. `cost` tells what it costs to use a shard, of those with equally few residents; `None` for a
/// shard that must not be used.
#[cold]
pub(super) fn move_to_better(count: u32, cost: impl Fn(u32) -> Option<u32>) {
    let Ok(Some(here)) = RESIDENCE.try_with(|residence| residence.0.get()) else { return };
    let count = count as usize;
    // Another thread may take the same shard meanwhile; then the counts have changed, and the search begins again.
    for _ in 0..4 {
        let residents = RESIDENTS.each_ref().map(|residents| residents.load(Relaxed));
        // By shard of the pool: several of all numbers mean the same one where it has fewer.
        let mut crowd = [0; SHARDS];
        residents.iter().enumerate().for_each(|(shard, residents)| crowd[shard % count] += residents);
        let better = (0..count).filter(|&at| crowd[at] + 1 < crowd[here % count]);
        let best = better.filter_map(|at| Some((crowd[at], cost(at as u32)?, at))).min();
        let Some((.., at)) = best else { return };
        // Of the numbers that mean this shard here, the one that fewest threads use in pools with more shards.
        let numbers = (at..SHARDS).step_by(count);
        let Some(number) = numbers.min_by_key(|&number| residents[number]) else { return };
        let residents = residents[number];
        if RESIDENTS[number].compare_exchange(residents, residents + 1, Relaxed, Relaxed).is_ok() {
            let _ = RESIDENCE.try_with(|residence| residence.set(Some(number)));
            SHARD.set(number as u32);
            // In a new shard the thread's history says nothing.
            CONTENTION.set(0);
            return;
        }
    }
}

/// The numbers of residents are those of the process: tests that depend on them do not run at the same time.
#[cfg(test)]
static ONE_TEST: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// As many residents of shard 0 as no test has threads, for a test.
#[cfg(test)]
pub(in crate::memory) struct Crowd {
    _one: std::sync::MutexGuard<'static, ()>,
}

#[cfg(test)]
impl Crowd {
    const SIZE: u32 = 1000;

    pub(in crate::memory) fn new() -> Self {
        let one = crate::sync::locked(&ONE_TEST);
        RESIDENTS[0].fetch_add(Self::SIZE, Relaxed);
        Self { _one: one }
    }
}

#[cfg(test)]
impl Drop for Crowd {
    fn drop(&mut self) {
        RESIDENTS[0].fetch_sub(Self::SIZE, Relaxed);
    }
}

/// Makes the thread use a shard, and count as one that moves from there when it finds it locked once more.
#[cfg(test)]
pub(in crate::memory) fn on_the_verge_of_moving(shard: u32) {
    use_shard(shard);
    note_contended(Contended::Briefly);
    CONTENTION.set(MOVE_AT - 1);
}

#[cfg(test)]
mod tests {
    use std::sync::{Barrier, Mutex};
    use std::thread::scope;

    use super::*;
    use crate::sync::locked;

    /// Lets threads contend one after the other, all alive, until none moves any more. Returns the shard of each.
    fn settle(threads: usize, shards: u32) -> Vec<u32> {
        let _one = locked(&ONE_TEST);
        let places: Vec<_> = (0..threads).map(|_| Mutex::new(0)).collect();
        let gate = Barrier::new(threads);
        scope(|scope| {
            for place in &places {
                let gate = &gate;
                scope.spawn(move || {
                    note_contended(Contended::Briefly);
                    // All are residents of shard 0 from here on.
                    gate.wait();
                    for _ in 0..200 {
                        move_to_better(shards, Some);
                        std::thread::yield_now();
                    }
                    *locked(place) = own_shard() % shards;
                    gate.wait();
                });
            }
        });
        places.iter().map(|place| *locked(place)).collect()
    }

    #[test]
    fn threads_spread_evenly_over_the_shards_also_where_there_are_more_threads() {
        for (threads, shards) in [(5, 16), (16, 5), (12, 3), (40, 16)] {
            let places = settle(threads, shards);
            let of = |shard| places.iter().filter(|&&at| at == shard).count();
            let most = (0..shards).map(of).max().unwrap();
            // Other tests' threads may be residents meanwhile, so one more is possible.
            assert!(most <= threads.div_ceil(shards as usize) + 1, "{places:?}");
        }
    }

    #[test]
    fn a_thread_that_ends_is_a_resident_no_more() {
        let _one = locked(&ONE_TEST);
        let last = SHARDS - 1;
        scope(|scope| {
            let work = || {
                use_shard(last as u32);
                note_contended(Contended::Briefly);
                RESIDENTS[last].load(Relaxed)
            };
            assert_eq!(scope.spawn(work).join().unwrap(), 1);
        });
        assert_eq!(RESIDENTS[last].load(Relaxed), 0);
    }

    #[test]
    fn a_thread_whose_shard_no_other_uses_stays_there_however_often_it_is_locked() {
        let _one = locked(&ONE_TEST);
        scope(|scope| {
            scope.spawn(|| {
                use_shard(SHARDS as u32 - 2);
                for _ in 0..MOVE_AT {
                    if note_contended(Contended::Briefly) {
                        move_to_better(MOST_SHARDS, Some);
                    }
                }
                assert_eq!(own_shard(), SHARDS as u32 - 2, "a thread that frees there is no reason to move");
            });
        });
    }
}
