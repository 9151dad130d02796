//! The resources in one memory, in the order of their lengths and starts, so that those are found that overlap one.
//!
//! ```text
//!   64 .. 127 bytes     [==]    [==]  [==]              looked at: starts from 127 before the bytes to their end
//!   4096 .. 8191        [==================]            starts from 8191 before
//! ```
//!
//! Sorted by starts alone, one resource over all of the memory would make each search go through all others: a start may lie as
//! far before the bytes as the longest resource is long. So there is an order for each power of two of lengths.
//!
//! # Cost
//!
//! With n resources, k of which overlap, all calls take O(log n) for each power of two that occurs, at most 48, and a search O(k)
//! beside that where resources of one order do not pile up on each other.

use core::iter::successors;
use core::ops::Range;
use std::collections::BTreeSet;

/// The records of resources: the binary logarithm of the length, the start, and the record.
#[derive(Debug, Default)]
pub(super) struct ByPlace(BTreeSet<(u32, u64, u32)>);

fn order_of(bytes: &Range<u64>) -> u32 {
    // A resource has at least a byte.
    (bytes.end - bytes.start).checked_ilog2().unwrap_or(0)
}

impl ByPlace {
    pub(super) fn insert(&mut self, bytes: &Range<u64>, record: u32) {
        self.0.insert((order_of(bytes), bytes.start, record));
    }

    pub(super) fn remove(&mut self, bytes: &Range<u64>, record: u32) {
        self.0.remove(&(order_of(bytes), bytes.start, record));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over the records of all resources that have one of these bytes, and of some that begin or end near them.
    pub(super) fn near(&self, bytes: Range<u64>) -> impl Iterator<Item = u32> + '_ {
        let next = |from: u32| self.0.range((from, 0, 0)..).next().map(|&(order, ..)| order);
        successors(next(0), move |&order| next(order + 1)).flat_map(move |order| {
            let longest = u64::MAX >> (63 - order);
            let first = bytes.start.saturating_sub(longest);
            self.0.range((order, first, 0)..(order, bytes.end, 0)).map(|&(.., record)| record)
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn all_that_overlap_are_found_and_each_once(
            resources in prop::collection::vec((0..2000_u64, 1..600_u64), 0..60),
            removed in prop::collection::vec(any::<bool>(), 60),
            (start, length) in (0..2500_u64, 1..900_u64),
        ) {
            let mut by_place = ByPlace::default();
            let all: Vec<_> = resources.iter().map(|&(start, length)| start..start + length).collect();
            for (bytes, record) in all.iter().zip(0..) {
                by_place.insert(bytes, record);
            }
            for (bytes, record) in all.iter().zip(0..).filter(|&(_, record)| removed[record as usize]) {
                by_place.remove(bytes, record);
            }
            let is_left = |record: u32| !removed[record as usize];
            prop_assert_eq!(by_place.is_empty(), !(0..all.len() as u32).any(is_left));
            let searched = start..start + length;
            let mut near: Vec<_> = by_place.near(searched.clone()).collect();
            near.sort_unstable();
            prop_assert!(near.windows(2).all(|two| two[0] < two[1]), "each once");
            prop_assert!(near.iter().all(|&record| is_left(record)));
            for (bytes, record) in all.iter().zip(0..) {
                let overlaps = bytes.start < searched.end && searched.start < bytes.end;
                if overlaps && is_left(record) {
                    prop_assert!(near.contains(&record), "{bytes:?}");
                }
            }
        }
    }

    #[test]
    fn one_is_found_by_its_first_byte_and_by_its_last_one_alone() {
        for length in 1..70 {
            let mut by_place = ByPlace::default();
            by_place.insert(&(100..100 + length), 7);
            let is_found = |bytes: Range<u64>| by_place.near(bytes).eq([7]);
            assert!(is_found(90..101) && is_found(99 + length..200), "of {length} bytes");
        }
    }

    #[test]
    fn small_ones_are_found_quickly_beside_one_over_all() {
        let mut by_place = ByPlace::default();
        by_place.insert(&(0..1 << 20), 0);
        (1..1001).for_each(|at| by_place.insert(&(u64::from(at) * 256..u64::from(at) * 256 + 256), at));
        // The one over all, itself and its neighbours.
        assert!(by_place.near(500 * 256..501 * 256).count() <= 4);
    }
}
