//! Lists of free cells, one for each order, with a word that says which of them are not empty.
//!
//! ```text
//!   orders   …0 1 0 1 0             bit o set ⇔ the list of order o is not empty
//!   heads    [ –, 7, –, 3, – … ]    node 7 ⇄ node 9 ⇄ …, linked by the nodes' `link`
//! ```
//!
//! One scan of the word finds the first list that is not empty from an order on. A cell is pushed at the front of its list
//! and can be removed from any position. Every operation is O(1).
//!
//! # Invariants
//!
//! 1. A list contains free regions only, each free region of the chain once, and its links go both ways.
//! 2. The bit of a list is set exactly if the list is not empty.
//!
//! Debug builds check 1 for the neighbours at each push and removal, in O(1).

#[cfg(all(test, debug_assertions))]
mod tests;

use super::chain::Chain;
use crate::MAX_SIZE;
use crate::algorithm::NONE;

/// Orders 0 to 48, so that one word has a bit for each.
const ORDERS: usize = MAX_SIZE.ilog2() as usize + 1;

/// `link[PREV]` and `link[NEXT]` of a free node.
const PREV: usize = 0;
const NEXT: usize = 1;

#[derive(Clone, Debug)]
pub(super) struct FreeLists {
    /// Bit `o` is set exactly if the list of order `o` is not empty.
    orders: u64,
    /// The first node of each list, or [`NONE`].
    heads: [u32; ORDERS],
}

impl FreeLists {
    pub(super) const fn new() -> Self {
        Self { orders: 0, heads: [NONE; ORDERS] }
    }

    /// Adds the free cell `index` at the front of a list.
    pub(super) fn push(&mut self, chain: &mut Chain, order: usize, index: u32) {
        debug_assert!(chain.node(index).is_free(), "only free regions are listed");
        // The front: the cell freed last is allocated next, while its memory may still be in a cache, and an insertion
        // sorted by address would not be O(1).
        let head = core::mem::replace(&mut self.heads[order], index);
        debug_assert_ne!(head, index, "a region is listed once");
        chain.set_link(index, PREV, NONE);
        chain.set_link(index, NEXT, head);
        if head != NONE {
            debug_assert!(chain.node(head).is_free(), "a list contains free regions only");
            debug_assert_eq!(chain.node(head).link[PREV], NONE, "nothing precedes the head of a list");
            chain.set_link(head, PREV, index);
        }
        self.orders |= 1 << order;
    }

    /// Removes the free cell `index` from its list, from any position.
    pub(super) fn remove(&mut self, chain: &mut Chain, order: usize, index: u32) {
        let [prev, next] = chain.node(index).link;
        debug_assert!(chain.node(index).is_free(), "only free regions are listed");
        debug_assert!(
            if prev == NONE { self.heads[order] == index } else { chain.node(prev).link[NEXT] == index },
            "the region before links back, and the first region is the head of its list"
        );
        debug_assert!(next == NONE || chain.node(next).link[PREV] == index, "the region after links back");
        if next != NONE {
            chain.set_link(next, PREV, prev);
        }
        if prev != NONE {
            // The head stays, so the list is not empty and no bit changes.
            chain.set_link(prev, NEXT, next);
            return;
        }
        // Without a branch: whether a list becomes empty is as good as random.
        self.heads[order] = next;
        self.orders &= !(u64::from(next == NONE) << order);
    }

    /// Returns the first order that has a free cell, from `order` on.
    pub(super) fn first_from(&self, order: usize) -> Option<usize> {
        // Smaller orders share the word and are masked out. A size has at most order 48, and the caller goes on from the last
        // one that had a cell, so the shift is below 64.
        let later = self.orders & (u64::MAX << order);
        (later != 0).then_some(later.trailing_zeros() as usize)
    }

    /// Returns the last order that has a free cell.
    pub(super) fn last(&self) -> Option<u32> {
        self.orders.checked_ilog2()
    }

    /// Returns an iterator over the nodes of one list, from its front.
    pub(super) fn iter<'a>(&self, chain: &'a Chain, order: usize) -> impl Iterator<Item = u32> + use<'a> {
        let listed = |index: u32| (index != NONE).then_some(index);
        core::iter::successors(listed(self.heads[order]), move |&index| listed(chain.node(index).link[NEXT]))
    }

    /// Panics unless each free region of the chain is in the list of its order, once.
    pub(super) fn check_invariants(&self, chain: &Chain) {
        let mut listed = 0;
        for (order, &head) in self.heads.iter().enumerate() {
            assert_eq!(self.orders >> order & 1 == 1, head != NONE, "a list's bit is set if it is not empty");
            let mut prev = NONE;
            for index in self.iter(chain, order) {
                let node = chain.node(index);
                assert!(node.is_free(), "only free regions are listed");
                assert_eq!(node.link[PREV], prev, "the links go both ways");
                assert_eq!(node.size, 1 << order, "a region is in the list of its size");
                prev = index;
                listed += 1;
            }
        }
        assert_eq!(listed, chain.tally().free_count, "every free region is listed");
    }
}
