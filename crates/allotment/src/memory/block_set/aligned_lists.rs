//! Aligned lists: freed ranges that are aligned much more coarsely than they are large, kept for requests of that alignment.
//!
//! A block of 4 MiB has 64 places for a request of 4 KiB that is aligned to 64 KiB. What is between two of them is free for other
//! requests; but a small request that takes a freed place itself, which fits it as well as any other, leaves the next aligned
//! request none, and a block is allocated though nearly all others are free:
//!
//! ```text
//!            0          64K         128K        192K
//!   fine     │A sss ░░░░│A ss ░░░░░░│A s ░░░░░░░│            three places in 192 KiB
//!   A freed  │A sss ░░░░│░ ss ░░░░░░│A s ░░░░░░░│            the place waits in its list, and small ones go elsewhere
//!   else     │A sss ░░░░│s ss ░░░░░░│A s ░░░░░░░│            the next A is in the next 64 KiB
//! ```
//!
//! So such places wait here, and serve aligned requests only. They are [rounded](round_up) to a sixteenth of the alignment, so
//! that one serves the next request whatever its exact size: but not where a request may be refused that the exact size would fit,
//! whose range then waits in a quick list. They are free for all purposes, as all [waiting
//! ranges](super::quick_lists) are: flushed before a request is refused or a block allocated, and given up where none needs them.
//!
//! Nothing is kept in a pool without such requests: drivers ask for sizes that are multiples of the alignment where that is
//! coarse, so most pools have none.

use allotment_suballoc::Alignment;

/// The least alignment that is coarse. Below it, what lies between two places is little.
const COARSE: u64 = 4096;

/// The largest that is: no device asks for more, and the parts of such an alignment would be large beside many blocks.
const COARSEST: u64 = 1 << 20;

/// The parts of an alignment, of which a range has one to [`MOST_PARTS`].
const PARTS: u64 = 16;

/// A larger range leaves too little beside it for others to share.
const MOST_PARTS: u64 = PARTS / 2;

/// Ranges that wait in the aligned lists of a block set at most. They have to be joined with their neighbours before a request is
/// refused, as the ranges of the quick lists.
const MOST_ALIGNED: usize = 256;

/// Returns true if a range is small beside its alignment.
#[inline]
pub(crate) fn is_aligned_coarsely(size: u64, alignment: Alignment) -> bool {
    let alignment = alignment.get();
    (COARSE..=COARSEST).contains(&alignment) && size <= alignment / PARTS * MOST_PARTS
}

/// Returns true if a range waits in an aligned list, and serves a request of such a size: its size is a [rounded](round_up) one.
#[inline]
pub(crate) fn is_of_aligned_lists(size: u64, alignment: Alignment) -> bool {
    is_aligned_coarsely(size, alignment) && size == round_up(size, alignment)
}

/// Returns the bytes of the range for a request that is small beside its alignment.
pub(crate) fn round_up(size: u64, alignment: Alignment) -> u64 {
    size.next_multiple_of(alignment.get() / PARTS)
}

/// The waiting ranges of an alignment and a size.
#[derive(Debug)]
struct List {
    /// The exponent of the alignment, and the parts of it that the ranges have.
    key: (u32, u64),
    /// The newest last.
    records: Vec<u32>,
    /// The fewest since the list was looked at. Invariant: at most as many as there are.
    idle: usize,
}

/// The lists of a block set.
#[derive(Debug, Default)]
pub(super) struct AlignedLists {
    /// In the order of their keys. At most eight for each alignment.
    lists: Vec<List>,
    len: usize,
}

impl AlignedLists {
    /// Returns the number of waiting ranges.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    fn key(size: u64, alignment: Alignment) -> (u32, u64) {
        (alignment.log2(), size.div_ceil(alignment.get() / PARTS))
    }

    /// Adds a freed range, whose size was [rounded](round_up). Returns false if many wait.
    pub(super) fn push(&mut self, record: u32, size: u64, alignment: Alignment) -> bool {
        debug_assert_eq!(size, round_up(size, alignment));
        if self.len >= MOST_ALIGNED {
            return false;
        }
        let key = Self::key(size, alignment);
        let at = match self.lists.binary_search_by_key(&key, |list| list.key) {
            Ok(at) => at,
            Err(at) => {
                self.lists.insert(at, List { key, records: Vec::new(), idle: 0 });
                at
            }
        };
        let list = &mut self.lists[at];
        debug_assert!(!list.records.contains(&record), "a range waits once");
        list.records.push(record);
        self.len += 1;
        true
    }

    /// Takes out a range for a request whose size was [rounded](round_up): of its size, or else with one part more, so that no more
    /// than a sixteenth of the alignment is lost. Returns its record and its size.
    pub(super) fn take(&mut self, size: u64, alignment: Alignment) -> Option<(u32, u64)> {
        debug_assert_eq!(size, round_up(size, alignment));
        let (zeros, parts) = Self::key(size, alignment);
        let from = self.lists.partition_point(|list| list.key < (zeros, parts));
        let near = self.lists[from..].iter_mut().take_while(|list| list.key <= (zeros, parts + 1));
        let list = near.into_iter().find(|list| !list.records.is_empty())?;
        let record = list.records.pop()?;
        list.idle = list.idle.min(list.records.len());
        self.len -= 1;
        Some((record, list.key.1 * (alignment.get() / PARTS)))
    }

    /// Takes out one range of any list. Returns its record.
    pub(super) fn pop(&mut self) -> Option<u32> {
        let list = self.lists.iter_mut().rfind(|list| !list.records.is_empty())?;
        let record = list.records.pop();
        list.idle = list.idle.min(list.records.len());
        self.len -= 1;
        record
    }

    /// Takes out ranges of a list that no request needed since it was looked at last, the oldest first, as many as `records` has
    /// room for. Returns how many.
    pub(super) fn pop_idle(&mut self, at: usize, records: &mut [u32]) -> usize {
        let Some(list) = self.lists.get_mut(at) else { return 0 };
        let popped = list.idle.min(records.len());
        list.records.drain(..popped).zip(records).for_each(|(record, to)| *to = record);
        // Where there was no room for all of them, the next look takes the others.
        let rest = list.idle - popped;
        list.idle = if rest > 0 { rest } else { list.records.len() };
        self.len -= popped;
        popped
    }

    /// Iterates over the positions of the lists that have ranges, in their order.
    pub(super) fn in_use(&self) -> impl Iterator<Item = usize> {
        let lists = self.lists.iter().enumerate();
        lists.filter(|(_, list)| !list.records.is_empty()).map(|(at, _)| at)
    }

    /// Iterates over the records of all waiting ranges, for tests.
    pub(super) fn records(&self) -> impl Iterator<Item = u32> {
        self.lists.iter().flat_map(|list| list.records.iter().copied())
    }

    /// Checks the invariants, for tests.
    ///
    /// # Panics
    ///
    /// Panics if one does not hold.
    pub(super) fn check_invariants(&self) {
        assert!(self.lists.is_sorted_by(|one, two| one.key < two.key), "a list has a key of its own");
        assert!(self.lists.iter().all(|list| list.idle <= list.records.len()));
        assert!(self.lists.iter().all(|list| (1..=MOST_PARTS).contains(&list.key.1)));
        assert_eq!(self.len, self.records().count(), "all waiting ranges are counted");
        assert!(self.len <= MOST_ALIGNED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aligned(to: u64) -> Alignment {
        Alignment::new(to).unwrap()
    }

    #[test]
    fn only_what_is_small_beside_a_coarse_alignment_waits_there() {
        let coarse = |size, to| is_aligned_coarsely(size, aligned(to));
        assert!(coarse(1, 4096) && coarse(2048, 4096) && !coarse(2049, 4096));
        assert!(!coarse(1, 2048) && !coarse(1, 1 << 21), "not coarse, and more than coarse");
        assert!(coarse(32 << 10, 64 << 10) && !coarse(48 << 10, 64 << 10), "much is left beside it");
        assert_eq!(round_up(5000, aligned(64 << 10)), 8192);
    }

    #[test]
    fn a_place_serves_requests_of_its_alignment_whose_size_it_has() {
        let mut lists = AlignedLists::default();
        let page = aligned(64 << 10);
        assert!(lists.push(1, 8192, page) && lists.push(2, 4096, page));
        assert_eq!(lists.take(4096, aligned(32 << 10)), None, "of another alignment");
        assert_eq!(lists.take(12288, page), None, "too large");
        assert_eq!(lists.take(4096, page), Some((2, 4096)), "the smallest");
        assert_eq!(lists.take(4096, page), Some((1, 8192)), "with a part more");
        assert_eq!((lists.take(4096, page), lists.records().count()), (None, 0));
        assert!(lists.push(3, 32768, page));
        assert_eq!(lists.take(4096, page), None, "too much of it would be lost");
        lists.check_invariants();
    }

    #[test]
    fn what_no_request_needed_since_the_last_look_is_given_up() {
        let mut lists = AlignedLists::default();
        let page = aligned(4096);
        (0..5).for_each(|record| assert!(lists.push(record, 256, page)));
        let mut records = [9; 2];
        let look = |lists: &mut AlignedLists, records: &mut [u32; 2]| lists.pop_idle(0, records);
        assert_eq!(look(&mut lists, &mut records), 0, "new since the last look, as all of them are");
        assert_eq!(lists.take(256, page), Some((4, 256)));
        assert!(lists.push(5, 256, page));
        assert_eq!(
            (look(&mut lists, &mut records), records),
            (2, [0, 1]),
            "the oldest, as many as there is room for"
        );
        lists.check_invariants();
        assert_eq!((look(&mut lists, &mut records), records), (2, [2, 3]));
        assert_eq!((lists.pop(), lists.pop(), lists.records().count()), (Some(5), None, 0));
    }

    #[test]
    fn so_many_wait_at_most() {
        let mut lists = AlignedLists::default();
        let waits = |record| lists.push(record, 4096, aligned(64 << 10));
        assert_eq!((0..MOST_ALIGNED as u32 + 9).map(waits).filter(|&waits| waits).count(), MOST_ALIGNED);
    }
}
