//! Lists of free regions, with a two-level bitmap of the lists that are not empty.
//!
//! ```text
//!   groups   …0 1 0 1                       bit g set ⇔ some list of group g is not empty
//!                 │ └─ lists[0]  …0 0 1 0   bit l set ⇔ list 32·g + l is not empty
//!                 └─── lists[2]  …1 0 0 0
//!   heads    [ –, 7, –, …, 3 ]              node 7 ⇄ node 9 ⇄ …, linked by the nodes' `link`
//! ```
//!
//! Two scans of a word find the first list that is not empty from a given list on. A region is pushed at
//! the front of its list and can be removed from any position. Every operation is O(1); a list takes
//! 4.1 bytes.
//!
//! # Invariants
//!
//! 1. A list contains free regions only, each free region of the chain once, and its links go both ways.
//! 2. The bit of a list is set exactly if the list is not empty; the bit of a group exactly if one of its
//!    lists is not empty.
//!
//! Debug builds check 1 for the neighbours and 2 for the list at each push and removal, in O(1).

use alloc::vec::Vec;

use crate::chain::{Chain, NONE};

/// 32 lists per group: with 64 groups that is more than the 1,409 classes of [`MAX_SIZE`](crate::MAX_SIZE)
/// need, and a group is one power of two.
pub(super) const LISTS_PER_GROUP: usize = 32;

/// `link[PREV]` and `link[NEXT]` of a free node.
const PREV: usize = 0;
const NEXT: usize = 1;

#[derive(Clone, Debug)]
pub(super) struct FreeLists {
    /// Bit `g` is set exactly if `lists[g]` is not 0. At most 64 groups, so at most 2,048 lists.
    groups: u64,
    /// Bit `l` of word `g` is set exactly if list `32 * g + l` is not empty.
    lists: Vec<u32>,
    /// The first node of each list, or [`NONE`].
    heads: Vec<u32>,
}

impl FreeLists {
    pub(super) fn new(count: usize) -> Self {
        let mut lists = Self { groups: 0, lists: Vec::new(), heads: Vec::new() };
        lists.extend(count);
        lists
    }

    /// Adds empty lists until there are at least `count`. Existing lists stay as they are.
    pub(super) fn extend(&mut self, count: usize) {
        // Whole groups only, so that no lookup of a head needs a check beyond that of its group.
        let groups = count.div_ceil(LISTS_PER_GROUP).max(self.lists.len());
        debug_assert!(groups <= 64, "a word holds one bit per group");
        self.lists.resize(groups, 0);
        self.heads.resize(groups * LISTS_PER_GROUP, NONE);
    }

    /// Adds the free region `index` at the front of a list.
    pub(super) fn push(&mut self, chain: &mut Chain, list: usize, index: u32) {
        debug_assert!(chain.node(index).is_free(), "only free regions are listed");
        self.debug_assert_bits(list);
        // The front, as in the published algorithm: the region freed last is allocated next, while its
        // memory may still be in a cache, and an insertion sorted by size or address would not be O(1).
        let head = self.heads[list];
        debug_assert_ne!(head, index, "a region is listed once");
        chain.set_link(index, PREV, NONE);
        chain.set_link(index, NEXT, head);
        if head == NONE {
            // Only the first region of a list can change a bit.
            self.lists[list / LISTS_PER_GROUP] |= 1 << (list % LISTS_PER_GROUP);
            self.groups |= 1 << (list / LISTS_PER_GROUP);
        } else {
            debug_assert!(chain.node(head).is_free(), "a list contains free regions only");
            debug_assert_eq!(chain.node(head).link[PREV], NONE, "nothing precedes the head of a list");
            chain.set_link(head, PREV, index);
        }
        self.heads[list] = index;
        self.debug_assert_bits(list);
    }

    /// Removes the free region `index` from its list, from any position.
    pub(super) fn remove(&mut self, chain: &mut Chain, list: usize, index: u32) {
        let [prev, next] = chain.node(index).link;
        debug_assert!(chain.node(index).is_free(), "only free regions are listed");
        debug_assert!(
            if prev == NONE { self.heads[list] == index } else { chain.node(prev).link[NEXT] == index },
            "the region before links back, and the first region is the head of its list"
        );
        debug_assert!(next == NONE || chain.node(next).link[PREV] == index, "the region after links back");
        self.debug_assert_bits(list);
        if next != NONE {
            chain.set_link(next, PREV, prev);
        }
        if prev != NONE {
            // The head stays, so the list is not empty and no bit changes.
            chain.set_link(prev, NEXT, next);
            return;
        }
        self.heads[list] = next;
        if next == NONE {
            let group = list / LISTS_PER_GROUP;
            self.lists[group] &= !(1 << (list % LISTS_PER_GROUP));
            // The group's bit covers all of its lists, so it is cleared with the last of them only.
            if self.lists[group] == 0 {
                self.groups &= !(1 << group);
            }
        }
        self.debug_assert_bits(list);
    }

    /// Panics, in debug builds only, unless the bits of a list and of its group agree with its head.
    fn debug_assert_bits(&self, list: usize) {
        if !cfg!(debug_assertions) {
            return;
        }
        let (group, bit) = (list / LISTS_PER_GROUP, list % LISTS_PER_GROUP);
        let is_set = self.lists[group] >> bit & 1 == 1;
        debug_assert_eq!(is_set, self.heads[list] != NONE, "a list's bit is set if it is not empty");
        let is_set = self.groups >> group & 1 == 1;
        debug_assert_eq!(
            is_set,
            self.lists[group] != 0,
            "a group's bit is set if one of its lists is not empty"
        );
    }

    /// Returns the first list that is not empty, from list `from` on.
    pub(super) fn first_from(&self, from: usize) -> Option<usize> {
        let group = from / LISTS_PER_GROUP;
        // Lists below `from` share the word and are masked out; a class beyond the last has no group.
        let here = *self.lists.get(group)? & (u32::MAX << (from % LISTS_PER_GROUP));
        if here != 0 {
            return Some(group * LISTS_PER_GROUP + here.trailing_zeros() as usize);
        }
        // Two shifts, since group 63 would need a shift by 64, which overflows.
        let later = self.groups & ((u64::MAX << group) << 1);
        if later == 0 {
            return None;
        }
        let group = later.trailing_zeros() as usize;
        debug_assert_ne!(self.lists[group], 0, "the bit of a group that has no list");
        Some(group * LISTS_PER_GROUP + self.lists[group].trailing_zeros() as usize)
    }

    /// Returns the last list that is not empty.
    pub(super) fn last(&self) -> Option<usize> {
        let group = self.groups.checked_ilog2()? as usize;
        debug_assert_ne!(self.lists[group], 0, "the bit of a group that has no list");
        Some(group * LISTS_PER_GROUP + self.lists[group].ilog2() as usize)
    }

    /// Returns an iterator over the nodes of one list, from its front.
    pub(super) fn iter<'a>(&'a self, chain: &'a Chain, list: usize) -> impl Iterator<Item = u32> + 'a {
        let mut index = self.heads.get(list).copied().unwrap_or(NONE);
        core::iter::from_fn(move || {
            if index == NONE {
                return None;
            }
            let here = index;
            index = chain.node(here).link[NEXT];
            Some(here)
        })
    }

    /// Panics unless each free region of the chain is in the list that `list_of` returns for its size, once.
    pub(super) fn check_invariants(&self, chain: &Chain, list_of: impl Fn(u64) -> usize) {
        let mut listed = 0;
        for list in 0..self.heads.len() {
            let bit = self.lists[list / LISTS_PER_GROUP] >> (list % LISTS_PER_GROUP) & 1 == 1;
            assert_eq!(bit, self.heads[list] != NONE, "a list's bit is set if it is not empty");
            let mut prev = NONE;
            for index in self.iter(chain, list) {
                let node = chain.node(index);
                assert!(node.is_free(), "only free regions are listed");
                assert_eq!(node.link[PREV], prev, "the links go both ways");
                assert_eq!(list_of(node.size), list, "a region is in the list of its size");
                prev = index;
                listed += 1;
            }
        }
        for (group, lists) in self.lists.iter().enumerate() {
            assert_eq!(
                self.groups >> group & 1 == 1,
                *lists != 0,
                "a group's bit is set if one of its lists is not empty"
            );
        }
        assert_eq!(listed, chain.tally().free_count, "every free region is listed");
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;

    /// A chain of three free regions, of which the lists contain the first two, in list 3.
    fn lists_of_two() -> (Chain, FreeLists, [u32; 3]) {
        let mut chain = Chain::new(30);
        let regions = [chain.split_front(0, 10), chain.split_front(0, 10), 0];
        let mut lists = FreeLists::new(32);
        for &region in &regions[..2] {
            lists.push(&mut chain, 3, region);
        }
        (chain, lists, regions)
    }

    #[test]
    #[should_panic(expected = "the region after links back")]
    fn a_broken_link_of_a_free_list_is_caught_when_its_region_is_removed() {
        let (mut chain, mut lists, [first, second, other]) = lists_of_two();
        chain.set_link(first, PREV, other);
        lists.remove(&mut chain, 3, second);
    }

    #[test]
    #[should_panic(expected = "the first region is the head of its list")]
    fn a_region_that_is_in_no_list_is_caught_when_it_is_removed() {
        let (mut chain, mut lists, [_, _, other]) = lists_of_two();
        lists.remove(&mut chain, 3, other);
    }

    #[test]
    #[should_panic(expected = "a region is listed once")]
    fn a_region_that_is_listed_twice_is_caught() {
        let (mut chain, mut lists, [_, second, _]) = lists_of_two();
        lists.push(&mut chain, 3, second);
    }
}
