//! How many bytes of a block each class has while allocations come and go that may overlap.
//!
//! A tree over the offsets at which ranges begin or end. For each rank of class it knows how many bytes are covered by
//! ranges of that rank or a higher one; the difference of two ranks is what the lower one adds. A change costs log n.

use crate::segments::Class;

/// The ranks, from the class that matters most. Free bytes are what no range covers.
const RANKS: [Class; 4] = [Class::Used, Class::Pending, Class::Reserved, Class::Rounding];

/// A node of the tree, for one rank.
#[derive(Clone, Copy, Debug, Default)]
struct Node {
    /// Ranges that cover all of the node, and not all of its parent.
    whole: u32,
    /// Bytes of the node that are covered.
    covered: u64,
}

/// The covered bytes of a block whose ranges may overlap.
#[derive(Debug)]
pub(crate) struct Coverage {
    /// Where ranges begin and end, in order: leaf `n` is from the `n`th to the next.
    edges: Vec<u64>,
    /// Node 1 is the root; the children of `n` are `2n` and `2n + 1`.
    nodes: Vec<[Node; RANKS.len()]>,
}

impl Coverage {
    /// Creates it without ranges. Later ones begin and end at some of the edges.
    pub(crate) fn new(mut edges: Vec<u64>) -> Self {
        edges.sort_unstable();
        edges.dedup();
        let leaves = edges.len().saturating_sub(1).next_power_of_two();
        Self { edges, nodes: vec![Default::default(); 2 * leaves] }
    }

    /// Removes all ranges.
    pub(crate) fn clear(&mut self) {
        self.nodes.fill(Default::default());
    }

    /// Adds or removes a range.
    pub(crate) fn change(&mut self, start: u64, end: u64, class: Class, add: bool) {
        let Some(rank) = RANKS.iter().position(|&rank| rank == class) else { return };
        let first = self.edges.partition_point(|&edge| edge < start);
        let last = self.edges.partition_point(|&edge| edge < end);
        if first < last {
            self.change_node(1, 0, self.nodes.len() / 2, first..last, rank, add);
        }
    }

    /// Returns the bytes of a class.
    pub(crate) fn bytes(&self, class: Class) -> u64 {
        let Some(rank) = RANKS.iter().position(|&rank| rank == class) else { return 0 };
        let higher = rank.checked_sub(1).map_or(0, |higher| self.nodes[1][higher].covered);
        self.nodes[1][rank].covered - higher
    }

    fn change_node(
        &mut self,
        node: usize,
        from: usize,
        count: usize,
        leaves: core::ops::Range<usize>,
        rank: usize,
        add: bool,
    ) {
        if leaves.start <= from && from + count <= leaves.end {
            for rank in &mut self.nodes[node][rank..] {
                if add { rank.whole += 1 } else { rank.whole = rank.whole.saturating_sub(1) }
            }
        } else {
            let half = count / 2;
            if leaves.start < from + half {
                self.change_node(2 * node, from, half, leaves.clone(), rank, add);
            }
            if leaves.end > from + half {
                self.change_node(2 * node + 1, from + half, half, leaves, rank, add);
            }
        }
        for rank in rank..RANKS.len() {
            let covered = if self.nodes[node][rank].whole > 0 {
                self.edge(from + count) - self.edge(from)
            } else if count > 1 {
                self.nodes[2 * node][rank].covered + self.nodes[2 * node + 1][rank].covered
            } else {
                0
            };
            self.nodes[node][rank].covered = covered;
        }
    }

    /// The offset at which a leaf begins. Leaves behind the last edge have no bytes.
    fn edge(&self, leaf: usize) -> u64 {
        self.edges.get(leaf).or(self.edges.last()).copied().unwrap_or(0)
    }
}
