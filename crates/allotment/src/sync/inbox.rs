//! A list of words that any thread adds to without a lock, and that one thread at a time takes out.
//!
//! ```text
//!   words      [ – ][ – ][ 7 ][ 9 ][   ][ 4 ][ – ][ – ]        – no word    (blank) reserved, and written in a moment
//!                         ▲                   ▲
//!                       taken               added              both only count up; a place is the remainder
//! ```
//!
//! A thread that adds reserves the place at `added` and then writes its word there. The one that takes goes from `taken` to
//! `added`. A place that is reserved and not written yet holds nobody up: the words behind it are taken, their places are
//! marked, and `taken` stays in front of it.
//!
//! # Cost
//!
//! An addition is an exchange, a load and a store, in a cache line of eight words that other additions share; the thread that
//! takes reads each line once. 2 KiB.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::checked::{AtomicU32, AtomicU64};

/// Words that fit.
#[cfg(not(allotment_loom))]
pub(crate) const CAPACITY: u32 = 256;
#[cfg(allotment_loom)]
pub(crate) const CAPACITY: u32 = 2;

const _: () = assert!(CAPACITY.is_power_of_two(), "the counts wrap around at a multiple");

/// In a place without a word.
const EMPTY: u64 = u64::MAX;

/// In a place whose word was taken, behind one that was not written yet.
const TAKEN: u64 = u64::MAX - 1;

/// The largest word that can be added.
pub(crate) const LARGEST: u64 = TAKEN - 1;

/// A count in a pair of cache lines of its own, which many processors prefetch together.
#[derive(Debug)]
#[repr(align(128))]
struct Count(AtomicU32);

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Inbox {
    /// Written by threads that add. Invariant: `taken` or at most [`CAPACITY`] more.
    added: Count,
    /// Written by the thread that takes.
    taken: Count,
    words: [AtomicU64; CAPACITY as usize],
}

impl Inbox {
    pub(crate) fn new() -> Self {
        let count = || Count(AtomicU32::new(0));
        Self { added: count(), taken: count(), words: core::array::from_fn(|_| AtomicU64::new(EMPTY)) }
    }

    /// Adds a word, of [`LARGEST`] at most. Returns how many there are with it; `None` where there is no room.
    #[inline]
    pub(crate) fn add(&self, word: u64) -> Option<u32> {
        debug_assert!(word <= LARGEST, "the two above are marks");
        loop {
            // In this order: what was taken had been added, so this thread finds no fewer added. Acquire: the place was made
            // empty before it was counted.
            let taken = self.taken.0.load(Acquire);
            let added = self.added.0.load(Relaxed);
            let there = added.wrapping_sub(taken);
            if there >= CAPACITY {
                return None;
            }
            let next = added.wrapping_add(1);
            if self.added.0.compare_exchange_weak(added, next, Relaxed, Relaxed).is_ok() {
                // Release: whoever takes the word sees what was done before it was added.
                self.place(added).store(word, Release);
                return Some(there + 1);
            }
        }
    }

    /// Returns true where all words were taken that were added before, as far as this thread knows.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        // Acquire: this thread sees what was done with the words.
        self.taken.0.load(Acquire) == self.added.0.load(Relaxed)
    }

    /// Calls `each` with the words in their order, until it returns false: that word stays. What is added meanwhile may wait
    /// for the next call. The caller ensures that one thread takes at a time.
    pub(crate) fn take(&self, mut each: impl FnMut(u64) -> bool) {
        let mut taking = Taking { inbox: self, taken: self.taken.0.load(Relaxed) };
        let added = self.added.0.load(Relaxed);
        let (mut at, mut all) = (taking.taken, true);
        while at != added {
            let place = self.place(at);
            at = at.wrapping_add(1);
            let word = place.load(Acquire);
            if word == EMPTY {
                all = false;
                continue;
            }
            if word != TAKEN && !each(word) {
                break;
            }
            place.store(if all { EMPTY } else { TAKEN }, Relaxed);
            taking.taken = if all { at } else { taking.taken };
        }
    }

    #[inline]
    fn place(&self, at: u32) -> &AtomicU64 {
        &self.words[(at % CAPACITY) as usize]
    }
}

/// Words that are being taken. Counts them when it is dropped, also where a caller's closure panicked: their places are empty.
struct Taking<'a> {
    inbox: &'a Inbox,
    taken: u32,
}

impl Drop for Taking<'_> {
    fn drop(&mut self) {
        // Release, and last: who finds that a word was taken sees what was done with it.
        self.inbox.taken.0.store(self.taken, Release);
    }
}

#[cfg(test)]
#[cfg(not(allotment_loom))]
mod tests {
    use core::sync::atomic::AtomicUsize;
    use std::sync::Mutex;

    use super::*;

    fn all(inbox: &Inbox) -> Vec<u64> {
        let mut words = Vec::new();
        inbox.take(|word| {
            words.push(word);
            true
        });
        words
    }

    #[test]
    fn words_are_taken_in_their_order_and_what_is_not_wanted_stays() {
        let inbox = Inbox::new();
        assert!(inbox.is_empty());
        // Around the end of the places, twice.
        for round in 0..2 * u64::from(CAPACITY) {
            assert_eq!([1, 2, 3].map(|word| inbox.add(round + word)), [Some(1), Some(2), Some(3)]);
            assert!(!inbox.is_empty());
            let mut seen = Vec::new();
            inbox.take(|word| {
                seen.push(word);
                word != round + 2
            });
            assert_eq!(seen, [round + 1, round + 2]);
            assert_eq!(all(&inbox), [round + 2, round + 3]);
            assert!(inbox.is_empty());
        }
    }

    #[test]
    fn a_full_one_refuses_a_word() {
        let inbox = Inbox::new();
        assert!((0..u64::from(CAPACITY)).all(|word| inbox.add(word).is_some()));
        assert_eq!(inbox.add(7), None);
        assert_eq!(all(&inbox), (0..u64::from(CAPACITY)).collect::<Vec<_>>());
        assert_eq!(inbox.add(LARGEST), Some(1));
    }

    #[test]
    fn a_place_that_is_not_written_yet_holds_nobody_up() {
        let inbox = Inbox::new();
        let reserve = || inbox.added.0.fetch_add(1, Relaxed);
        inbox.add(1);
        let (first, second) = (reserve(), reserve());
        inbox.add(2);
        assert_eq!(all(&inbox), [1, 2]);
        assert!(!inbox.is_empty());
        inbox.place(second).store(4, Release);
        inbox.add(5);
        assert_eq!(all(&inbox), [4, 5]);
        inbox.place(first).store(3, Release);
        assert_eq!(all(&inbox), [3]);
        assert!(inbox.is_empty());
        assert!(inbox.words.iter().all(|word| word.load(Relaxed) == EMPTY));
    }

    #[test]
    fn words_behind_a_panic_stay_and_no_place_is_lost() {
        let inbox = Inbox::new();
        (1..=3).for_each(|word| _ = inbox.add(word));
        let taken = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
            inbox.take(|word| {
                assert!(word != 2, "the second panics");
                true
            });
        }));
        assert!(taken.is_err());
        assert_eq!(all(&inbox), [2, 3]);
        assert!(inbox.is_empty());
        assert!((0..u64::from(CAPACITY)).all(|word| inbox.add(word).is_some()));
    }

    #[test]
    fn each_word_of_several_threads_is_taken_once() {
        const EACH: u64 = 20_000;
        let (inbox, taker, left) =
            (Inbox::new(), Mutex::new(vec![0_u8; 2 * EACH as usize]), AtomicUsize::new(2));
        let take = || {
            let mut seen = taker.lock().unwrap();
            inbox.take(|word| {
                seen[word as usize] += 1;
                word % 7 != 0 || seen[word as usize] > 1
            });
        };
        std::thread::scope(|scope| {
            for first in [0, EACH] {
                let (inbox, left, take) = (&inbox, &left, &take);
                scope.spawn(move || {
                    for word in first..first + EACH {
                        while inbox.add(word).is_none() {
                            take();
                        }
                    }
                    left.fetch_sub(1, Release);
                });
            }
            while left.load(Acquire) != 0 {
                take();
            }
        });
        take();
        (0..2 * EACH).for_each(|_| take());
        assert!(inbox.is_empty());
        let seen = taker.into_inner().unwrap();
        let times = |(word, &times): (usize, &u8)| times == if word % 7 == 0 { 2 } else { 1 };
        assert!(seen.iter().enumerate().all(times), "what was not wanted at first came once more");
    }
}
