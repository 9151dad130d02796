//! Which shard a thread uses, and how many threads use each.
//!
//! ```text
//!   shard       0     1     2     3    …   63
//!   residents   5     1     1     0         0      threads that contended in the allocator and chose it
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
//! Each allocator counts its own residents. Were those of all counted together, sixteen threads of one allocator beside
//! fourteen that sleep, of another one, would be evenly spread over sixteen shards as soon as each had two residents:
//! perhaps two of the sixteen in one shard, waiting for each other, and a sleeper alone in the next.
//!
//! A thread has one number for all allocators. Where it contended in several, it is a resident of each, and moves in all
//! of them: it goes by the sums of their counts, so that a move for the one does not crowd a shard of the other, from
//! which the thread would come back.
//!
//! The numbers are hints: whatever they say, every lock is taken and no memory is lost.
//!
//! [`Shards`](crate::sync::shards::Shards) number threads in another way: each gets the next number when it first comes, and
//! keeps it. That is no way here, where a shard has blocks of its own: a program of 16 threads that never meet would hold 16
//! times as many.

use core::cell::{Cell, RefCell};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use super::shards::MOST_SHARDS;

const SHARDS: usize = MOST_SHARDS as usize;

/// By shard.
type Counts = [AtomicU32; SHARDS];

thread_local! {
    /// The shard that this thread uses, in all pools of all allocators; in one with fewer shards, the remainder counts.
    static SHARD: Cell<u32> = const { Cell::new(0) };
    /// How often this thread found its shard locked lately, weighted.
    static CONTENTION: Cell<u32> = const { Cell::new(0) };
    static RESIDENCE: RefCell<Residence> = const { RefCell::new(Residence::new()) };
}

/// How a request found the lock of its thread's shard, and the contention that it adds. A request that found it unlocked
/// subtracts 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contended {
    /// Locked, as it is for less than 100 ns.
    Briefly = 8,
    /// Locked for longer than a thread spins, so that it has to sleep; or again, shortly after it was locked the last time, so
    /// that the thread stays away from it. Either takes as long as some hundred requests.
    ForLong = 512,
}

/// The contention from which a thread moves: one in every eighth request for long, or two or three sleeps within a few
/// hundred requests.
const MOVE_AT: u32 = 1024;

/// Where the thread counts as a resident.
struct Residence {
    shard: usize,
    /// The counts of the allocators that count it there.
    of: Vec<Weak<Counts>>,
}

impl Residence {
    const fn new() -> Self {
        Self { shard: 0, of: Vec::new() }
    }

    /// Counts the thread in an allocator, if it is not counted there yet.
    fn enter(&mut self, counts: &Arc<Counts>) {
        if self.of.is_empty() {
            self.shard = SHARD.get() as usize;
        }
        if !self.of.iter().any(|other| core::ptr::eq(other.as_ptr(), Arc::as_ptr(counts))) {
            // Here, since it is as rare as new allocators: those that are gone need no count.
            self.of.retain(|other| other.strong_count() != 0);
            counts[self.shard].fetch_add(1, Relaxed);
            self.of.push(Arc::downgrade(counts));
        }
    }

    /// Counts the thread in another shard, but for the allocator of `counted`, where that is done.
    fn move_to(&mut self, shard: usize, counted: &Arc<Counts>) {
        for counts in self.of.iter().filter_map(Weak::upgrade) {
            counts[self.shard].fetch_sub(1, Relaxed);
            if !Arc::ptr_eq(&counts, counted) {
                counts[shard].fetch_add(1, Relaxed);
            }
        }
        self.shard = shard;
    }

    /// Counts the thread nowhere.
    fn leave(&mut self) {
        for counts in self.of.drain(..).filter_map(|counts| counts.upgrade()) {
            counts[self.shard].fetch_sub(1, Relaxed);
        }
    }

    /// Returns the residents of each shard, in all allocators that count this thread together; and their number.
    fn sums(&self) -> ([u32; SHARDS], u32) {
        let mut sums = ([0; SHARDS], 0);
        for counts in self.of.iter().filter_map(Weak::upgrade) {
            sums.0.iter_mut().zip(counts.iter()).for_each(|(sum, count)| *sum += count.load(Relaxed));
            sums.1 += 1;
        }
        sums
    }
}

impl Drop for Residence {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Makes the calling thread allocate as the thread of this number from now on: from this
/// [part](crate::memory::AllocatorDesc::threads) of each pool. Returns the number that it had before. All threads begin with 0.
///
/// A thread finds a part for itself where others use its own at the same time, so a program need not call this. One that
/// knows better may: of two threads that take turns, or of one that replays what several did. Of a number above 63 the
/// remainder of the division by 64 counts; and of one beyond the parts of a pool, that of the division by their number.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// use allotment::memory::blocks::allocate_as_thread;
///
/// let mut desc = AllocatorDesc::default();
/// desc.threads = 2;
/// let allocator = Allocator::new(device, desc)?;
/// let first = allocator.allocate(&Requirements::new(1000), &MemoryUsage::GpuOnly.into())?;
/// let before = allocate_as_thread(1);
/// let second = allocator.allocate(&Requirements::new(1000), &MemoryUsage::GpuOnly.into())?;
/// allocate_as_thread(before);
/// assert_eq!(allocator.statistics().blocks, 2, "one of each part");
/// # allocator.free(first)?;
/// # allocator.free(second)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn allocate_as_thread(thread: u32) -> u32 {
    CONTENTION.set(0);
    // It becomes a resident of the new one when it contends there.
    with_residence(Residence::leave);
    SHARD.replace(thread % MOST_SHARDS)
}

/// Returns the shard that this thread uses; in a pool with fewer shards, the remainder counts.
#[inline]
pub(super) fn own_shard() -> u32 {
    SHARD.get()
}

/// Returns the shard that this thread uses in a pool with `count` shards.
#[inline]
pub(super) fn own_shard_of(count: u32) -> u32 {
    let own = own_shard();
    // A division takes as long as ten other instructions, and threads seldom have numbers beyond the shards.
    if own < count { own } else { own % count }
}

/// Notes that a request did not find its shard locked.
#[inline]
pub(super) fn note_uncontended() {
    let contention = CONTENTION.get();
    if contention != 0 {
        CONTENTION.set(contention - 1);
    }
}

/// Calls `f` with the thread's residence, unless the thread is ending.
fn with_residence<R>(f: impl FnOnce(&mut Residence) -> R) -> Option<R> {
    RESIDENCE.try_with(|residence| f(&mut residence.borrow_mut())).ok()
}

/// How many threads use each shard of an allocator's pools. Shared, but touched only by threads that contend.
#[derive(Clone, Debug)]
pub(super) struct Residents(Arc<Counts>);

impl Default for Residents {
    fn default() -> Self {
        Self(Arc::new([const { AtomicU32::new(0) }; SHARDS]))
    }
}

impl Residents {
    /// Notes that a request found its shard locked. Returns true if that happened often enough lately to move.
    #[cold]
    pub(super) fn note_contended(&self, how: Contended) -> bool {
        with_residence(|residence| residence.enter(&self.0));
        let contention = CONTENTION.get() + how as u32;
        let moves = contention >= MOVE_AT;
        // Whether it finds a better shard or not, it looks for the next one only after some more contention: a look
        // reads all counts.
        CONTENTION.set(if moves { MOVE_AT / 2 } else { contention });
        moves
    }

    /// Moves the thread to the shard of a pool with `count` shards that has the fewest residents, if that spreads the
    /// threads more evenly. `cost` tells what it costs to use a shard, of those with equally few residents; `None` for
    /// a shard that must not be used.
    #[cold]
    pub(super) fn move_to_better(&self, count: u32, cost: impl Fn(u32) -> Option<u32>) {
        with_residence(|residence| self.move_residence(residence, count as usize, cost));
    }

    fn move_residence(&self, residence: &mut Residence, count: usize, cost: impl Fn(u32) -> Option<u32>) {
        residence.enter(&self.0);
        // Another thread may take the same shard meanwhile; then the counts have changed, and the search begins again.
        for _ in 0..4 {
            let seen = self.0.each_ref().map(|residents| residents.load(Relaxed));
            let (residents, own) = residence.sums();
            // By shard of the pool: several of all numbers mean the same one where it has fewer.
            let mut crowd = [0; SHARDS];
            residents.iter().enumerate().for_each(|(shard, residents)| crowd[shard % count] += residents);
            // The thread is counted once in each allocator: two residents fewer, where there is one.
            let better = (0..count).filter(|&at| crowd[at] + own < crowd[residence.shard % count]);
            let best = better.filter_map(|at| Some((crowd[at], cost(at as u32)?, at))).min();
            let Some((.., at)) = best else { return };
            // Of the numbers that mean this shard here, the one that fewest threads use in pools with more shards.
            let numbers = (at..SHARDS).step_by(count);
            let Some(number) = numbers.min_by_key(|&number| residents[number]) else { return };
            let before = seen[number];
            if self.0[number].compare_exchange(before, before + 1, Relaxed, Relaxed).is_ok() {
                residence.move_to(number, &self.0);
                SHARD.set(number as u32);
                // In a new shard the thread's history says nothing.
                CONTENTION.set(0);
                return;
            }
        }
    }

    /// Makes the thread use a shard, and count as one that moves from there when it finds it locked once more.
    #[cfg(test)]
    pub(crate) fn on_the_verge_of_moving(&self, shard: u32) {
        allocate_as_thread(shard);
        self.note_contended(Contended::Briefly);
        CONTENTION.set(MOVE_AT - 1);
    }

    /// Counts as many residents of shard 0 as no test has threads.
    #[cfg(test)]
    pub(crate) fn crowd(&self) {
        self.0[0].fetch_add(1000, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Barrier, Mutex};
    use std::thread::scope;

    use super::*;
    use crate::sync::locked;

    /// Lets threads contend, all alive, until none moves any more. Calls `then` with the shard of each, while they are
    /// still residents. Of two equally good shards, the one with the lower cost is chosen.
    fn settle(
        residents: &Residents,
        threads: usize,
        (shards, cost): (u32, impl Fn(u32) -> u32 + Sync),
        then: impl FnOnce(Vec<u32>),
    ) {
        let places: Vec<_> = (0..threads).map(|_| Mutex::new(0)).collect();
        let gate = Barrier::new(threads + 1);
        scope(|scope| {
            for place in &places {
                let (gate, cost) = (&gate, &cost);
                scope.spawn(move || {
                    residents.note_contended(Contended::Briefly);
                    // All are residents of shard 0 from here on.
                    gate.wait();
                    for _ in 0..200 {
                        residents.move_to_better(shards, |shard| Some(cost(shard)));
                        std::thread::yield_now();
                    }
                    *locked(place) = own_shard() % shards;
                    gate.wait();
                    gate.wait();
                });
            }
            gate.wait();
            gate.wait();
            // Also where `then` panics: a failed assertion must not leave the threads waiting.
            let _opened = Opened(&gate);
            then(places.iter().map(|place| *locked(place)).collect());
        });
    }

    /// Comes to a barrier when it is dropped.
    struct Opened<'a>(&'a Barrier);

    impl Drop for Opened<'_> {
        fn drop(&mut self) {
            self.0.wait();
        }
    }

    /// Returns the most threads that are in one shard.
    fn most(places: &[u32]) -> usize {
        places.iter().map(|at| places.iter().filter(|other| *other == at).count()).max().unwrap()
    }

    #[test]
    fn threads_spread_evenly_over_the_shards_also_where_there_are_more_threads() {
        for (threads, shards) in [(5, 16), (16, 16), (16, 5), (12, 3), (40, 16)] {
            settle(&Residents::default(), threads, (shards, |shard| shard), |places| {
                assert_eq!(most(&places), threads.div_ceil(shards as usize), "{places:?}");
            });
        }
    }

    #[test]
    fn threads_of_another_allocator_take_no_shard_from_those_of_this_one() {
        settle(&Residents::default(), 7, (16, |shard| shard), |_| {
            // They take the shards that the others left first, and like these best also for a second thread.
            settle(&Residents::default(), 16, (16, |shard| 16 - shard), |places| {
                assert_eq!(most(&places), 1, "{places:?}");
            });
        });
    }

    #[test]
    fn a_thread_of_two_allocators_moves_to_a_shard_that_is_free_in_both() {
        let [first, second] = [(); 2].map(|()| Residents::default());
        // Three others, one in each shard.
        second.0[0].store(1, Relaxed);
        first.0[1].store(1, Relaxed);
        second.0[2].store(1, Relaxed);
        // Joined, so that the thread-local values are gone as well.
        scope(|scope| {
            let work = || {
                first.note_contended(Contended::Briefly);
                second.note_contended(Contended::Briefly);
                second.move_to_better(16, Some);
                assert_eq!(own_shard(), 3);
                first.move_to_better(16, Some);
                assert_eq!(own_shard(), 3);
                let counted = [&first, &second].map(|residents| residents.0[3].load(Relaxed));
                assert_eq!(counted, [1, 1]);
            };
            scope.spawn(work).join().unwrap();
        });
        let left = [first, second].map(|residents| residents.0.each_ref().map(|at| at.load(Relaxed)));
        assert_eq!(left.map(|counts| counts[..4].to_vec()), [[0, 1, 0, 0], [1, 0, 1, 0]]);
    }

    #[test]
    fn a_thread_that_ends_is_a_resident_no_more() {
        let residents = Residents::default();
        let last = SHARDS - 1;
        scope(|scope| {
            let work = || {
                allocate_as_thread(last as u32);
                residents.note_contended(Contended::Briefly);
                residents.0[last].load(Relaxed)
            };
            assert_eq!(scope.spawn(work).join().unwrap(), 1);
        });
        assert_eq!(residents.0[last].load(Relaxed), 0);
    }

    #[test]
    fn a_thread_forgets_the_allocators_that_are_gone() {
        scope(|scope| {
            scope.spawn(|| {
                for _ in 0..100 {
                    Residents::default().note_contended(Contended::Briefly);
                }
                assert_eq!(with_residence(|residence| residence.of.len()), Some(1));
            });
        });
    }

    #[test]
    fn a_thread_whose_shard_no_other_uses_stays_there_however_often_it_is_locked() {
        scope(|scope| {
            scope.spawn(|| {
                let residents = Residents::default();
                allocate_as_thread(SHARDS as u32 - 2);
                for _ in 0..MOVE_AT {
                    if residents.note_contended(Contended::Briefly) {
                        residents.move_to_better(MOST_SHARDS, Some);
                    }
                }
                assert_eq!(own_shard(), SHARDS as u32 - 2, "a thread that frees there is no reason to move");
            });
        });
    }
}
