//! A priority queue of items for each section: pairing heaps in two arrays.
//!
//! The smallest rank is the root; each item links its first child and its next sibling. An item is in one queue at most. Inserting
//! is O(1), removing the first O(log n) amortized (Fredman, Sedgewick, Sleator and Tarjan, 1986), and items that come in
//! descending order cost O(1) to remove as well.

use alloc::vec::Vec;

pub(super) const NONE: u32 = u32::MAX;

#[derive(Clone, Debug, Default)]
pub(super) struct Queues {
    /// For each section, the first of its queue, or `NONE`.
    first: Vec<u32>,
    /// For each rank, its first child and its next sibling.
    links: Vec<(u32, u32)>,
}

impl Queues {
    pub(super) fn reset(&mut self, sections: usize, items: usize) {
        self.first.clear();
        self.first.resize(sections, NONE);
        self.links.clear();
        self.links.resize(items, (NONE, NONE));
    }

    /// Returns the smallest rank of the queue, or `NONE`.
    pub(super) fn first(&self, section: u32) -> u32 {
        self.first[section as usize]
    }

    pub(super) fn insert(&mut self, section: u32, rank: u32) {
        self.links[rank as usize] = (NONE, NONE);
        let first = self.first[section as usize];
        self.first[section as usize] = if first == NONE { rank } else { self.join(first, rank) };
    }

    /// Removes the smallest rank of a queue that is not empty.
    pub(super) fn remove_first(&mut self, section: u32) {
        let first = self.first[section as usize];
        let mut child = self.links[first as usize].0;
        // Joins the children in pairs, and then the pairs from the last to the first.
        let mut pairs = NONE;
        while child != NONE {
            let second = self.links[child as usize].1;
            if second == NONE {
                self.links[child as usize].1 = pairs;
                pairs = child;
                break;
            }
            let next = self.links[second as usize].1;
            let pair = self.join(child, second);
            self.links[pair as usize].1 = pairs;
            pairs = pair;
            child = next;
        }
        let mut root = NONE;
        while pairs != NONE {
            let next = self.links[pairs as usize].1;
            self.links[pairs as usize].1 = NONE;
            root = if root == NONE { pairs } else { self.join(root, pairs) };
            pairs = next;
        }
        self.first[section as usize] = root;
    }

    /// Makes the larger of two roots the first child of the smaller one, and returns that.
    fn join(&mut self, a: u32, b: u32) -> u32 {
        let (parent, child) = if a < b { (a, b) } else { (b, a) };
        self.links[child as usize].1 = self.links[parent as usize].0;
        self.links[parent as usize].0 = child;
        parent
    }
}
