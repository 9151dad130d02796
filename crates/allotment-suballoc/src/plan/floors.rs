//! The heights of all sections: a segment tree that raises a range, and finds the highest section of a range.
//!
//! ```text
//!   each node   highest  of the sections below it
//!               raised   to which all sections below it were raised at once; nodes below do not know
//!
//!                    ┌────────9,0────────┐         sections 0..2 were raised to 9, then 2..4 to 4: the first
//!               ┌───9,9───┐         ┌───4,4───┐    and the last leaf of a range learn of it, those between do not
//!              9,0       9,0       4,0       4,0
//! ```
//!
//! A range is only raised to more than each of its heights. Both calls take O(log sections), whatever the width of the range. A
//! node takes 24 bytes, and there are at most four nodes a section.
//!
//! # Invariants
//!
//! 1. A node is at least as high as its children.
//! 2. `highest_at` is below the node, and is that high.

use alloc::vec::Vec;

#[derive(Clone, Copy, Debug, Default)]
struct Node {
    highest: u64,
    raised: u64,
    highest_at: u32,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Floors {
    /// A heap in an array: the children of node `i` are `2 * i` and `2 * i + 1`, the root is 1.
    nodes: Vec<Node>,
    /// The index of the leaf of section 0: a power of two.
    first_leaf: usize,
}

impl Floors {
    /// Sets all of `sections` heights to 0. Allocates only if there were never as many sections.
    pub(super) fn reset(&mut self, sections: usize) {
        self.first_leaf = sections.max(1).next_power_of_two();
        self.nodes.clear();
        self.nodes.resize(2 * self.first_leaf, Node::default());
    }

    /// Raises the sections `from..to` to `height`. The range is not empty.
    pub(super) fn raise(&mut self, from: u32, to: u32, height: u64) {
        let (mut left, mut right) = (self.first_leaf + from as usize, self.first_leaf + to as usize);
        // Heights only grow, so a node above needs no look at its other child. This comes before the nodes are raised, since it
        // ends at the first one that is high enough.
        self.raise_above(left, from, height);
        self.raise_above(right - 1, to - 1, height);
        let mut level = 0;
        while left < right {
            if left & 1 == 1 {
                self.raise_node(left, level, height);
                left += 1;
            }
            if right & 1 == 1 {
                right -= 1;
                self.raise_node(right, level, height);
            }
            left /= 2;
            right /= 2;
            level += 1;
        }
    }

    fn raise_node(&mut self, node: usize, level: u32, height: u64) {
        // The first leaf below it. There are at most 2^32 leaves.
        let at = ((node << level) - self.first_leaf) as u32;
        self.nodes[node] = Node { highest: height, raised: height, highest_at: at };
    }

    fn raise_above(&mut self, leaf: usize, at: u32, height: u64) {
        let mut node = leaf / 2;
        // All above the first that is high enough are: invariant 1.
        while node > 0 && self.nodes[node].highest < height {
            self.nodes[node].highest = height;
            self.nodes[node].highest_at = at;
            node /= 2;
        }
    }

    /// Returns the height of the highest of the sections `from..to`, and that section. The range is not empty.
    pub(super) fn highest(&self, from: u32, to: u32) -> (u64, u32) {
        let (mut left, mut right) = (self.first_leaf + from as usize, self.first_leaf + to as usize);
        let (mut above_left, mut above_right) = (left / 2, (right - 1) / 2);
        let (mut highest, mut at) = (0, from);
        while left < right {
            if left & 1 == 1 {
                let node = &self.nodes[left];
                if node.highest > highest {
                    (highest, at) = (node.highest, node.highest_at);
                }
                left += 1;
            }
            if right & 1 == 1 {
                right -= 1;
                let node = &self.nodes[right];
                if node.highest > highest {
                    (highest, at) = (node.highest, node.highest_at);
                }
            }
            left /= 2;
            right /= 2;
        }
        // What was raised above the nodes of the range: their parents are parents of the first or of the last leaf.
        while above_left > 0 {
            if self.nodes[above_left].raised > highest {
                (highest, at) = (self.nodes[above_left].raised, from);
            }
            if self.nodes[above_right].raised > highest {
                (highest, at) = (self.nodes[above_right].raised, to - 1);
            }
            above_left /= 2;
            above_right /= 2;
        }
        (highest, at)
    }

    /// Returns the height of one section.
    pub(super) fn height(&self, section: u32) -> u64 {
        let mut node = self.first_leaf + section as usize;
        // Of a leaf, `highest` is its own height where nothing above it was raised to more.
        let mut height = self.nodes[node].highest;
        while node > 1 {
            node /= 2;
            height = height.max(self.nodes[node].raised);
        }
        height
    }

    /// Returns the height of the highest of several ranges, and that section.
    pub(super) fn highest_of(&self, ranges: &[(u32, u32)]) -> (u64, u32) {
        let highest = ranges.iter().map(|&(from, to)| self.highest(from, to));
        // Not `max`: of several as high ones, the first.
        highest.reduce(|best, next| if next.0 > best.0 { next } else { best }).unwrap_or((0, 0))
    }
}
