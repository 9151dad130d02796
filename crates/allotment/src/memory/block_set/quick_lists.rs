//! Quick lists: ranges that were freed a moment ago, kept as they are for the next request of about their size.
//!
//! Joining a freed range with its neighbours, only to split the same range again for the next request, is most of the
//! work of a general allocator. Here a freed range first waits in a short list of its size class, with its record, and
//! a request that fits takes it from there: no search, no split, no join. This is deferred coalescing, as in Weinstock
//! and Wulf's Quick Fit ("An efficient algorithm for heap storage allocation", 1988) and the fast bins of malloc.
//!
//! ```text
//!   class    0   1   …   121        122        …   272
//!   lists    –   –       [r7 r19]   [r2]            –     at most 8 records each, newest last
//!   idle     0   0       1          0               0     as many were in the list all the time since the last look
//!                         ▲
//!                       looked at next
//! ```
//!
//! A waiting range is free for all purposes: it counts as free, it does not keep a block from being empty, and all
//! lists are flushed into the blocks before a request is refused, before a block is allocated for one, and before the
//! regions are walked. So the lists change where an allocation is placed, never whether.
//!
//! A class is a sixteenth of a power of two. A request takes a range of its own class that is not smaller, or else
//! any of the class above: at most an eighth of the range is lost to rounding, and a range that is too small for the
//! requests of its own class serves those of the class below. Ranges that are small beside their alignment wait in [lists of their
//! own](super::aligned_lists). In random churn the lists cost 4 to 16 % of reserved memory, for
//! a third of the instructions (`docs/measurements/2026-11-28-quick-lists.md`). 4 bytes a class up to the largest in which a range
//! ever waited, and 64 for each in which one did: a program has few sizes, and maybe a thousand pools.
//!
//! A range that waits for long keeps its free neighbours from being joined with it. So for some ticks each one class is looked
//! at, in turn, and gives up the ranges that no request needed since the last look: as many as there were at least, all
//! the time. A program that goes on as before keeps the ranges that it reuses. (Bonwick and Adams trim magazines by the
//! same measure in "Magazines and Vmem", 2001.)

use super::aligned_lists::{AlignedLists, is_of_aligned_lists};
use crate::memory::request::LARGEST_WAITING;
use allotment_suballoc::{Alignment, SizeClasses};

/// 16 for each power of two. Sizes below 16 bytes, whose sixteenth is less than a byte, have a class each.
type Classes = SizeClasses<4>;

/// Ranges in a class: as many as a cache line holds.
pub(crate) const DEPTH: usize = 8;

/// Ranges that wait in a pool, or in a shard of it, in all of its block sets together.
///
/// All of them may have to be joined before a request is refused, while other threads wait for the lock: 512 take 50 to
/// 100 µs; and up to 256 more in the aligned lists of each set. A steady program has fewer, as far as it was measured: 110 to 550
/// where sizes are random, 30 where there are six.
pub(crate) const MOST_WAITING: usize = 512;

/// As a class that was looked at, the first of the aligned lists: behind all others.
const FIRST_ALIGNED: usize = usize::MAX / 2;

/// Of so few lists, each is looked at for the next class that has ranges, and not the counts of all classes between two.
const FEW: usize = 8;

/// A waiting range: its record in the upper 32 bits, below it the size, and the number of trailing zeros of its offset
/// in the lowest [`ALIGNMENT_BITS`].
///
/// Eight bytes, so that a class fits a cache line and a request reads no record before it has found its range.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting(u64);

/// Six bits hold the number of trailing zeros of an offset, as offsets are below 2^48.
const ALIGNMENT_BITS: u32 = 6;

impl Waiting {
    fn new(record: u32, offset: u64, size: u64) -> Self {
        let zeros = u64::from(offset.trailing_zeros().min((1 << ALIGNMENT_BITS) - 1));
        Self(u64::from(record) << 32 | size << ALIGNMENT_BITS | zeros)
    }

    #[inline]
    fn record(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline]
    fn size(self) -> u64 {
        u64::from(self.0 as u32 >> ALIGNMENT_BITS)
    }

    #[inline]
    fn is_aligned(self, zeros: u32) -> bool {
        self.0 as u32 & ((1 << ALIGNMENT_BITS) - 1) >= zeros
    }
}

/// The waiting ranges of one block set.
#[derive(Debug, Default)]
pub(crate) struct QuickLists {
    /// By class, up to the largest that ever had a range.
    counts: Vec<Count>,
    /// The lists of the classes that had a range, in the order of their first ones.
    waiting: Vec<[Waiting; DEPTH]>,
    /// Of all lists.
    len: usize,
    /// The class that was looked at last, or [`FIRST_ALIGNED`] and the position of an aligned list.
    looked_at: usize,
    /// The class of each list. A look reads the counts of these alone.
    classes: Vec<u16>,
    /// The ranges that are small beside their alignment; `None` where there was none.
    aligned: Option<Box<AlignedLists>>,
}

/// How many ranges are in a class, and where.
#[derive(Clone, Copy, Debug)]
struct Count {
    now: u8,
    /// The fewest since the class was looked at. Invariant: at most `now`.
    idle: u8,
    /// Which of `waiting` has them, or [`Self::NO_LIST`].
    list: u16,
}

impl Count {
    const NO_LIST: u16 = u16::MAX;

    #[inline]
    fn take_one(&mut self) {
        self.now -= 1;
        self.idle = self.idle.min(self.now);
    }
}

impl QuickLists {
    /// Adds a freed range. Returns false if it is too large or its list is full.
    #[inline]
    pub(super) fn push(&mut self, record: u32, offset: u64, (size, alignment): (u64, Alignment)) -> bool {
        if size > LARGEST_WAITING {
            return false;
        }
        if is_of_aligned_lists(size, alignment) {
            return self.push_aligned(record, (size, alignment));
        }
        let class = Classes::class_of(size);
        if self.counts.get(class).is_none_or(|count| count.list == Count::NO_LIST) {
            self.make_list(class);
        }
        let count = &mut self.counts[class];
        let list = &mut self.waiting[usize::from(count.list)];
        debug_assert!(
            list[..usize::from(count.now)].iter().all(|range| range.record() != record),
            "a range waits once"
        );
        // A full list refuses the range, which is then joined with its neighbours: longer lists would keep more free
        // memory apart.
        let Some(place) = list.get_mut(usize::from(count.now)) else { return false };
        *place = Waiting::new(record, offset, size);
        count.now += 1;
        self.len += 1;
        true
    }

    #[cold]
    fn push_aligned(&mut self, record: u32, (size, alignment): (u64, Alignment)) -> bool {
        let waits = self.aligned.get_or_insert_default().push(record, size, alignment);
        self.len += usize::from(waits);
        waits
    }

    #[cold]
    fn take_aligned(&mut self, size: u64, alignment: Alignment) -> Option<(u32, u64)> {
        let taken = self.aligned.as_mut()?.take(size, alignment)?;
        self.len -= 1;
        Some(taken)
    }

    /// Makes the list of a class.
    #[cold]
    fn make_list(&mut self, class: usize) {
        if self.counts.len() <= class {
            // A few classes more than needed, so that one size after the other does not grow it by one.
            let len = (class + 1).next_multiple_of(16);
            self.counts.reserve_exact(len - self.counts.len());
            self.counts.resize(len, Count { now: 0, idle: 0, list: Count::NO_LIST });
        }
        // At most one for each class, of which there are some hundreds.
        self.counts[class].list = self.waiting.len() as u16;
        self.waiting.push([Waiting::default(); DEPTH]);
        self.classes.push(class as u16);
    }

    /// Frees the lists, if none has a range.
    pub(super) fn shrink(&mut self) {
        if self.len == 0 {
            *self = Self::default();
        }
    }

    /// Takes out a range that fits a request. Returns its record and its size.
    #[inline]
    pub(crate) fn take(&mut self, size: u64, alignment: Alignment) -> Option<(u32, u64)> {
        if self.len == 0 || size > LARGEST_WAITING {
            return None;
        }
        if is_of_aligned_lists(size, alignment) {
            if let Some(taken) = self.take_aligned(size, alignment) {
                return Some(taken);
            }
        }
        let class = Classes::class_of(size);
        // An alignment is a power of two, so comparing trailing zeros tells whether an offset is aligned; no record is
        // read.
        let zeros = alignment.get().trailing_zeros();
        for class in [class, class + 1] {
            let Count { now, list, .. } = *self.counts.get(class)?;
            if now == 0 {
                continue;
            }
            let (count, list) = (usize::from(now), &mut self.waiting[usize::from(list)]);
            let fits = |range: &Waiting| range.size() >= size && range.is_aligned(zeros);
            // The newest first: its memory and its record are the likeliest to be in a cache.
            if let Some(at) = list[..count].iter().rposition(fits) {
                let found = list[at];
                debug_assert_eq!(
                    Classes::class_of(found.size()),
                    class,
                    "a range waits in the list of its class"
                );
                // The newest fills the gap, so that none has to be shifted.
                list[at] = list[count - 1];
                self.counts[class].take_one();
                self.len -= 1;
                return Some((found.record(), found.size()));
            }
        }
        None
    }

    /// Takes out as many ranges as `records` has room for, or all. Returns how many.
    pub(crate) fn pop(&mut self, records: &mut [u32]) -> usize {
        let mut popped = 0;
        // The largest class first: its ranges are the likeliest to make room for a request that found none.
        let mut class = self.counts.len();
        while self.len != 0 && popped != records.len() {
            class = match self.counts[..class].iter().rposition(|count| count.now != 0) {
                Some(class) => class,
                None => break,
            };
            while self.counts[class].now != 0 && popped != records.len() {
                self.counts[class].take_one();
                self.len -= 1;
                let Count { now, list, .. } = self.counts[class];
                records[popped] = self.waiting[usize::from(list)][usize::from(now)].record();
                popped += 1;
            }
        }
        while self.len != 0 && popped != records.len() {
            let Some(record) = self.aligned.as_mut().and_then(|lists| lists.pop()) else {
                unreachable!("`len` is the sum of the counts")
            };
            self.len -= 1;
            records[popped] = record;
            popped += 1;
        }
        if self.len == 0 {
            // As in lists that are new: what follows does not depend on what was before.
            self.looked_at = 0;
        }
        popped
    }

    /// Looks at the next class that has ranges. Takes out those that no request needed since the last look, and returns
    /// how many.
    pub(crate) fn pop_idle(&mut self, records: &mut [u32; DEPTH]) -> usize {
        if self.len == 0 {
            return 0;
        }
        let Some(class) = self.next_in_use() else { unreachable!("`len` is the sum of the counts") };
        self.looked_at = class;
        if class >= FIRST_ALIGNED {
            let lists = self.aligned.as_mut();
            let popped = lists.map_or(0, |lists| lists.pop_idle(class - FIRST_ALIGNED, records));
            self.len -= popped;
            if popped == DEPTH {
                // There may be more, so the next look is at the same list.
                self.looked_at = class - 1;
            }
            return popped;
        }
        let Count { now, idle, list: at } = self.counts[class];
        let list = &mut self.waiting[usize::from(at)];
        // The oldest: requests take the newest first.
        list[..usize::from(idle)].iter().zip(records).for_each(|(range, record)| *record = range.record());
        list.copy_within(usize::from(idle)..usize::from(now), 0);
        self.counts[class] = Count { now: now - idle, idle: now - idle, list: at };
        self.len -= usize::from(idle);
        usize::from(idle)
    }

    /// Returns the first class with ranges behind that which was looked at last, or else of all.
    fn next_in_use(&self) -> Option<usize> {
        if self.classes.len() <= FEW {
            return self.in_use().min_by_key(|&class| (class <= self.looked_at, class));
        }
        let first = |from: usize| {
            let counts = self.counts.get(from..).unwrap_or_default();
            let class = counts.iter().position(|count| count.now != 0).map(|at| from + at);
            class.or_else(|| self.aligned_in_use().find(|&at| at >= from))
        };
        first(self.looked_at + 1).or_else(|| first(0))
    }

    /// Returns how many classes have ranges, up to `most`.
    pub(crate) fn classes_in_use(&self, most: u64) -> u64 {
        self.in_use().zip(0..most).count() as u64
    }

    /// Iterates over the classes that have ranges, in no order.
    fn in_use(&self) -> impl Iterator<Item = usize> {
        let classes = self.classes.iter().map(|&class| usize::from(class));
        classes.filter(|&class| self.counts[class].now != 0).chain(self.aligned_in_use())
    }

    /// Iterates over the aligned lists that have ranges, as [`looked_at`](Self::looked_at) names them, in their order.
    fn aligned_in_use(&self) -> impl Iterator<Item = usize> {
        self.aligned.iter().flat_map(|lists| lists.in_use()).map(|at| FIRST_ALIGNED + at)
    }

    /// Returns the number of waiting ranges.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns how many of them wait in the aligned lists.
    #[inline]
    pub(crate) fn aligned_len(&self) -> usize {
        self.aligned.as_ref().map_or(0, |lists| lists.len())
    }

    /// Iterates over the records of all waiting ranges, for tests.
    pub(crate) fn records(&self) -> impl Iterator<Item = u32> + '_ {
        let filled = self.counts.iter().filter(|count| count.now != 0);
        let list = |count: &Count| &self.waiting[usize::from(count.list)][..usize::from(count.now)];
        let aligned = self.aligned.iter().flat_map(|lists| lists.records());
        filled.flat_map(list).map(|range| range.record()).chain(aligned)
    }

    /// Checks the invariants, for tests.
    ///
    /// # Panics
    ///
    /// Panics if one does not hold.
    pub(crate) fn check_invariants(&self) {
        assert!(self.counts.iter().all(|count| count.idle <= count.now));
        let lists = self.counts.iter().filter(|count| count.list != Count::NO_LIST).count();
        assert_eq!(lists, self.waiting.len(), "each list is of one class");
        assert_eq!(lists, self.classes.len(), "each list has its class");
        let of = |(at, &class): (usize, &u16)| usize::from(self.counts[usize::from(class)].list) == at;
        assert!(self.classes.iter().enumerate().all(of), "which is that of its place");
        assert_eq!(self.len, self.records().count(), "all waiting ranges are counted");
        self.aligned.iter().for_each(|lists| lists.check_invariants());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiting_range_serves_what_fits_and_is_aligned() {
        let mut lists = QuickLists::default();
        assert!(lists.push(7, 256, (1000, Alignment::ONE)));
        let aligned = |to| Alignment::new(to).unwrap();
        assert_eq!(lists.take(1001, Alignment::ONE), None, "too small");
        assert_eq!(lists.take(850, Alignment::ONE), None, "two classes above");
        assert_eq!(lists.take(1000, aligned(512)), None, "not aligned");
        assert_eq!(lists.take(995, aligned(256)), Some((7, 1000)), "of the same class");
        assert_eq!(lists.take(995, Alignment::ONE), None, "taken");
        assert!(lists.push(8, 0, (1000, Alignment::ONE)));
        assert_eq!(lists.take(970, aligned(2048)), Some((8, 1000)), "of the class above");
        assert_eq!((lists.len(), lists.pop(&mut [0; 4])), (0, 0));
    }

    #[test]
    fn a_place_of_a_coarse_alignment_waits_for_requests_of_that_alone_and_goes_with_the_others() {
        let mut lists = QuickLists::default();
        let page = Alignment::new(64 << 10).unwrap();
        assert!(lists.push(1, 0, (4096, page)) && lists.push(2, 4096, (4096, Alignment::ONE)));
        assert_eq!(lists.take(4096, Alignment::ONE), Some((2, 4096)));
        assert_eq!(lists.take(4096, Alignment::ONE), None, "the place is for others");
        assert_eq!(lists.take(300, page), None, "a size that was not rounded");
        assert_eq!(lists.take(4096, page), Some((1, 4096)));
        assert!(lists.push(2, 4096, (4096, Alignment::ONE)));
        assert!((3..6).all(|record| lists.push(record, 0, (4096, page))));
        lists.check_invariants();
        let mut records = [0; DEPTH];
        assert_eq!((lists.classes_in_use(9), lists.pop_idle(&mut records)), (2, 0), "new");
        assert_eq!(lists.pop_idle(&mut records), 0, "of the other list, too");
        assert_eq!((lists.pop_idle(&mut records), records[0]), (1, 2));
        assert_eq!((lists.pop_idle(&mut records), &records[..3], lists.len()), (3, &[3, 4, 5][..], 0));
        assert!(lists.push(2, 4096, (4096, Alignment::ONE)) && lists.push(1, 0, (4096, page)));
        assert_eq!((lists.pop(&mut records), &records[..2], lists.len()), (2, &[2, 1][..], 0));
        lists.check_invariants();
    }

    #[test]
    fn a_list_that_is_full_and_a_range_that_is_large_are_refused() {
        let mut lists = QuickLists::default();
        for record in 0..DEPTH as u32 {
            assert!(lists.push(record, 0, (64, Alignment::ONE)));
        }
        assert!(!lists.push(99, 0, (64, Alignment::ONE)));
        assert!(!lists.push(99, 0, (LARGEST_WAITING + 1, Alignment::ONE)));
        assert!(lists.push(50, 0, (LARGEST_WAITING, Alignment::ONE)));
        let mut records = [0; 4];
        assert_eq!((lists.pop(&mut records), records), (4, [50, 7, 6, 5]), "the largest first");
        let mut records = [99; 8];
        assert_eq!((lists.pop(&mut records), records), (5, [4, 3, 2, 1, 0, 99, 99, 99]));
    }

    #[test]
    fn what_no_request_needed_since_the_last_look_is_given_up_and_the_rest_stays() {
        let mut lists = QuickLists::default();
        let look = |lists: &mut QuickLists| {
            let mut records = [0; DEPTH];
            let popped = lists.pop_idle(&mut records);
            lists.check_invariants();
            records[..popped].to_vec()
        };
        assert_eq!(look(&mut lists), [0; 0], "there is none");
        (0..5).for_each(|record| assert!(lists.push(record, 0, (64, Alignment::ONE))));
        assert!(lists.push(5, 0, (4096, Alignment::ONE)));
        assert_eq!(look(&mut lists), [0; 0], "new since the last look, as all of them are");
        assert_eq!(look(&mut lists), [0; 0], "of the other class, too");
        assert_eq!(lists.take(64, Alignment::ONE), Some((4, 64)));
        assert_eq!(lists.take(64, Alignment::ONE), Some((3, 64)));
        assert!(lists.push(6, 0, (64, Alignment::ONE)));
        assert_eq!(look(&mut lists), [0, 1, 2], "two of five were needed; the oldest go");
        assert_eq!(look(&mut lists), [5]);
        assert_eq!(look(&mut lists), [6]);
        assert_eq!((look(&mut lists), lists.len()), (Vec::new(), 0));
    }

    #[test]
    fn what_is_lost_to_rounding_is_at_most_an_eighth() {
        // From 512 on a class is at least 32 sizes wide, so each is tried.
        for wanted in (1..512).chain((512..5000).step_by(17)) {
            for waiting in wanted..wanted + wanted / 4 + 4 {
                let mut lists = QuickLists::default();
                assert!(lists.push(1, 0, (waiting, Alignment::ONE)));
                if let Some((_, size)) = lists.take(wanted, Alignment::ONE) {
                    let lost = size - wanted;
                    assert!(lost <= 1.max(size / 8), "{lost} of {size} for {wanted}");
                }
            }
        }
    }
}
