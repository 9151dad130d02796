//! Lists of free regions with a bitmap over them that says which are not empty.
//!
//! ```text
//!   groups   …0 1 0 1                       bit g set ⇔ some list of group g is not empty
//!                 │ └─ lists[0]  …0 0 1 0   bit l set ⇔ list 32·g + l is not empty
//!                 └─── lists[2]  …1 0 0 0
//!   heads    [ –, 7, –, …, 3 ]              node 7 ⇄ node 9 ⇄ …, linked by the nodes' `link`
//! ```
//!
//! Finding the first list that is not empty from some list on takes two scans of a word. A region is
//! pushed at the front of its list; it can be taken out from anywhere. All in O(1); 4.1 bytes a list.

use alloc::vec::Vec;

use crate::chain::{Chain, NONE};

const LISTS_PER_GROUP: usize = 32;

/// `link[PREV]` and `link[NEXT]` of a free node.
const PREV: usize = 0;
const NEXT: usize = 1;

#[derive(Clone, Debug)]
pub(super) struct FreeLists {
    /// Bit `g` is set exactly when `lists[g]` is not 0. At most 64 groups, so at most 2,048 lists.
    groups: u64,
    /// Bit `l` of word `g` is set exactly when list `32 * g + l` is not empty.
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

    /// Makes room for `count` lists in all; those that are there stay as they are.
    pub(super) fn extend(&mut self, count: usize) {
        let groups = count.div_ceil(LISTS_PER_GROUP).max(self.lists.len());
        debug_assert!(groups <= 64, "a word holds one bit a group");
        self.lists.resize(groups, 0);
        self.heads.resize(groups * LISTS_PER_GROUP, NONE);
    }

    pub(super) fn push(&mut self, chain: &mut Chain, list: usize, index: u32) {
        let head = self.heads[list];
        chain.set_link(index, PREV, NONE);
        chain.set_link(index, NEXT, head);
        if head == NONE {
            self.lists[list / LISTS_PER_GROUP] |= 1 << (list % LISTS_PER_GROUP);
            self.groups |= 1 << (list / LISTS_PER_GROUP);
        } else {
            chain.set_link(head, PREV, index);
        }
        self.heads[list] = index;
    }

    pub(super) fn remove(&mut self, chain: &mut Chain, list: usize, index: u32) {
        let [prev, next] = chain.node(index).link;
        if next != NONE {
            chain.set_link(next, PREV, prev);
        }
        if prev != NONE {
            chain.set_link(prev, NEXT, next);
            return;
        }
        self.heads[list] = next;
        if next == NONE {
            let group = list / LISTS_PER_GROUP;
            self.lists[group] &= !(1 << (list % LISTS_PER_GROUP));
            if self.lists[group] == 0 {
                self.groups &= !(1 << group);
            }
        }
    }

    /// The first list that is not empty, from list `from` on.
    pub(super) fn first_from(&self, from: usize) -> Option<usize> {
        let group = from / LISTS_PER_GROUP;
        let here = *self.lists.get(group)? & (u32::MAX << (from % LISTS_PER_GROUP));
        if here != 0 {
            return Some(group * LISTS_PER_GROUP + here.trailing_zeros() as usize);
        }
        // Two shifts, since a shift by 64 is no shift.
        let later = self.groups & ((u64::MAX << group) << 1);
        if later == 0 {
            return None;
        }
        let group = later.trailing_zeros() as usize;
        Some(group * LISTS_PER_GROUP + self.lists[group].trailing_zeros() as usize)
    }

    /// The last list that is not empty.
    pub(super) fn last(&self) -> Option<usize> {
        let group = self.groups.checked_ilog2()? as usize;
        Some(group * LISTS_PER_GROUP + self.lists[group].ilog2() as usize)
    }

    /// The nodes of one list, from its front.
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

    /// Panics unless the free regions of the chain stand in the lists that `list_of` names, once each.
    pub(super) fn check_invariants(&self, chain: &Chain, list_of: impl Fn(u64) -> usize) {
        let mut listed = 0;
        for list in 0..self.heads.len() {
            let bit = self.lists[list / LISTS_PER_GROUP] >> (list % LISTS_PER_GROUP) & 1 == 1;
            assert_eq!(bit, self.heads[list] != NONE, "the bit of a list says whether it is empty");
            let mut prev = NONE;
            for index in self.iter(chain, list) {
                let node = chain.node(index);
                assert!(node.is_free(), "only free regions are listed");
                assert_eq!(node.link[PREV], prev, "the links go both ways");
                assert_eq!(list_of(node.size), list, "a region stands in the list of its size");
                prev = index;
                listed += 1;
            }
        }
        for (group, lists) in self.lists.iter().enumerate() {
            assert_eq!(self.groups >> group & 1 == 1, *lists != 0, "the bit of a group agrees");
        }
        assert_eq!(listed, chain.tally().free_count, "every free region is listed");
    }
}
