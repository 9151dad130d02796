//! The regions of a block in address order: a ring of small nodes.
//!
//! ```text
//!   END ⇄ [0..40 used] ⇄ [40..200 free] ⇄ [200..300 used] ⇄ [300..1024 free] ⇄ END
//! ```
//!
//! A node stores where its region begins; the region ends where the next one begins. The first and the last region link
//! to [`END`], a node of no region at the end of the block, so no link is ever missing and no code asks whether there is
//! a neighbour. `END` says that it is used, so nothing merges with it.
//!
//! A node takes 16 bytes (24 in a block of 2^32 units or more), four to a cache line: a free reads three of them.
//!
//! # Generations
//!
//! A handle contains the generation of its node, and matches while the node is used in that generation. The generation
//! is one higher whenever a range is freed. The last one is never followed by the first: a node that has come to it is
//! never used again ([`Nodes::exchange`]). That costs 16 bytes for each 2^31 ranges. Where vacant nodes are freed
//! ([`Nodes::shrink`]), those that come after them begin with a generation that none of them had.
//!
//! # Invariants
//!
//! 1. The regions tile the block: the first begins at 0, each ends where the next one begins, the last at the block's end.
//! 2. Links go both ways.
//! 3. A tag with the bit [`USED`] contains the generation of the handle. The tag of a free region says where it is
//!    listed: in a stack, or nowhere, at the block's end ([`LAST`]). The generation of its next range is kept there. The tag of a
//!    vacant node is that generation, and `before` is [`NONE`].

use alloc::vec::Vec;

use super::width::Width;
use crate::algorithm::NONE;
use crate::growth;

/// The node at the end of every block, which has no region.
pub(super) const END: u32 = 0;

/// The bit of a tag that says that the region is used.
pub(super) const USED: u32 = 1 << 31;

/// The tag of the free region that ends where the block ends.
// No slot: `is_full` refuses a request long before there are so many chunks.
pub(super) const LAST: u32 = USED - 1;

/// The generation of a new node, where none was freed. Not 0, so that no handle is 0.
pub(super) const FIRST_GENERATION: u32 = 1;

/// The last generation of a node. Few in this crate's own tests and in fuzzers, so that nodes come to it there.
const LAST_GENERATION: u32 = if cfg!(any(test, fuzzing)) { 40 } else { USED - 2 };

/// Nodes with a higher generation are not freed: so each new node has at least half of all generations.
const HIGHEST_FREED: u32 = LAST_GENERATION / 2;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Node<W> {
    pub(super) offset: W,
    pub(super) before: u32,
    pub(super) after: u32,
    pub(super) tag: u32,
}

impl<W> Node<W> {
    #[inline]
    pub(super) fn is_free(&self) -> bool {
        self.tag & USED == 0
    }
}

#[derive(Clone, Debug)]
pub(super) struct Nodes<W> {
    nodes: Vec<Node<W>>,
    /// The first vacant node, or [`END`]. Vacant nodes are linked by `after`. The one that became vacant last is used
    /// first: it is the most likely to be in a cache.
    vacant: u32,
    /// The generation of a new node.
    new_generation: u32,
}

impl<W: Width> Nodes<W> {
    /// Creates the node of one free region of `size` units, which is 1, and [`END`].
    pub(super) fn new(size: u64) -> Self {
        let mut nodes = Self { nodes: Vec::new(), vacant: END, new_generation: FIRST_GENERATION };
        nodes.reset(size);
        nodes
    }

    /// Makes the block one free region again. The caller sees to it that no older handle matches a new node.
    pub(super) fn reset(&mut self, size: u64) {
        self.vacant = END;
        self.new_generation = FIRST_GENERATION;
        self.nodes.clear();
        //   END (offset 1024, used) ⇄ node 1 (offset 0, LAST) ⇄ END
        self.nodes.push(Node { offset: W::narrow(size), before: 1, after: 1, tag: USED });
        self.nodes.push(Node { offset: W::default(), before: END, after: END, tag: LAST });
    }

    #[inline]
    pub(super) fn at(&self, index: u32) -> Node<W> {
        self.nodes[index as usize]
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<Node<W>> {
        self.nodes.get(index as usize).copied()
    }

    #[inline]
    pub(super) fn at_mut(&mut self, index: u32) -> &mut Node<W> {
        &mut self.nodes[index as usize]
    }

    /// Returns all nodes, for several accesses in a row: their number is read once.
    #[inline(always)]
    pub(super) fn all_mut(&mut self) -> &mut [Node<W>] {
        &mut self.nodes
    }

    /// Returns where a region begins.
    #[inline]
    pub(super) fn offset(&self, index: u32) -> u64 {
        self.nodes[index as usize].offset.wide()
    }

    /// Returns where a region ends.
    #[inline]
    pub(super) fn end(&self, index: u32) -> u64 {
        self.offset(self.nodes[index as usize].after)
    }

    pub(super) fn is_vacant(&self, index: u32) -> bool {
        self.nodes[index as usize].before == NONE
    }

    /// Returns the number of nodes, vacant ones and [`END`] included: more than any index.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn reserve(&mut self, nodes: usize) {
        self.nodes.reserve(nodes);
    }

    /// Takes a vacant node, or a new one, and returns its generation with it. The caller writes all of it.
    #[inline(always)]
    pub(super) fn take(&mut self) -> (u32, u32) {
        // The vacant node keeps the generation of its next range as its tag, so that it need not be looked up elsewhere.
        let index = self.vacant;
        if index == END {
            return self.take_new();
        }
        let node = self.at(index);
        self.vacant = node.after;
        (index, node.tag)
    }

    #[cold]
    fn take_new(&mut self) -> (u32, u32) {
        // The block checked before the operation that there are indices left.
        let index = self.nodes.len() as u32;
        growth::push(&mut self.nodes, Node::default());
        (index, self.new_generation)
    }

    /// Frees the vacant nodes at the end. O(nodes).
    pub(super) fn shrink(&mut self) {
        // Handles outlive nodes, so a new node must not begin with a generation that a freed one had. The new ones begin with the
        // highest of those that go; one that is close to the last generation does not go, or a new node would have few left.
        let nodes = self.nodes.iter().rev();
        // One that has come to its last generation is vacant for ever, or old handles would match the next one there.
        let may_go =
            |node: &&Node<W>| node.before == NONE && (FIRST_GENERATION..=HIGHEST_FREED).contains(&node.tag);
        let (mut freed, mut highest) = (0, self.new_generation);
        for node in nodes.take_while(may_go) {
            // The tag is the generation of the node's next range, so no handle has it.
            (freed, highest) = (freed + 1, highest.max(node.tag));
        }
        self.new_generation = highest;
        self.nodes.truncate(self.nodes.len() - freed);
        self.nodes.shrink_to_fit();
        // The list may lead through nodes that went. Made again from the end, it begins with the lowest: so the regions to come
        // take low indices, and more can be freed next time.
        self.vacant = END;
        for index in (1..self.nodes.len() as u32).rev() {
            let Node { before, tag, .. } = self.at(index);
            if before == NONE && tag != 0 {
                let after = core::mem::replace(&mut self.vacant, index);
                self.at_mut(index).after = after;
            }
        }
    }

    /// Keeps a node without a region for the next split. `generation` is that of the node's next range.
    #[inline]
    pub(super) fn vacate(&mut self, index: u32, generation: u32) {
        debug_assert!((FIRST_GENERATION..=LAST_GENERATION).contains(&generation));
        let after = self.vacant;
        *self.at_mut(index) = Node { offset: W::default(), before: NONE, after, tag: generation };
        self.vacant = index;
    }

    /// Returns the node that a used region has once it is freed, and the generation of its next range.
    #[inline]
    pub(super) fn next_generation(&mut self, index: u32) -> (u32, u32) {
        // Raised when the range is freed and not when the next one is allocated: the old handle is stale from here on, in
        // whatever list the node is.
        let generation = self.at(index).tag & !USED;
        if generation == LAST_GENERATION { self.exchange(index) } else { (index, generation + 1) }
    }

    /// Gives a region another node, since its own has no further generation.
    #[cold]
    fn exchange(&mut self, index: u32) -> (u32, u32) {
        //   before ⇄ index ⇄ after   ──►   before ⇄ new ⇄ after      and `index` is in no list, for ever
        let old = self.at(index);
        // No range had this generation of this node yet.
        let (new, generation) = self.take();
        *self.at_mut(new) = Node { tag: USED | generation, ..old };
        self.at_mut(old.before).after = new;
        self.at_mut(old.after).before = new;
        // Not in the list of vacant nodes, so nothing ever uses it again.
        *self.at_mut(index) = Node { offset: W::default(), before: NONE, after: END, tag: 0 };
        (new, generation)
    }

    /// Returns the same regions with offsets of another width.
    pub(super) fn with_width<V: Width>(self) -> Nodes<V> {
        let wider = |node: Node<W>| {
            let Node { offset, before, after, tag } = node;
            Node { offset: V::narrow(offset.wide()), before, after, tag }
        };
        let Self { nodes, vacant, new_generation } = self;
        Nodes { nodes: nodes.into_iter().map(wider).collect(), vacant, new_generation }
    }

    /// Panics unless the invariants hold. O(nodes).
    pub(super) fn check_invariants(&self, size: u64) {
        let end = self.at(END);
        assert_eq!((end.offset.wide(), end.tag), (size, USED), "the node at the end");
        // A walk along the ring, then one along the vacant nodes: together they must meet every node but those that ran out of
        // generations.
        let (mut expected, mut before, mut linked) = (0, END, 1);
        let mut index = end.after;
        while index != END {
            let node = self.at(index);
            assert_eq!(node.before, before, "links go both ways");
            assert!(
                linked == 1 && node.offset.wide() == 0 || node.offset.wide() > expected,
                "no region is empty"
            );
            expected = node.offset.wide();
            linked += 1;
            before = index;
            index = node.after;
        }
        assert_eq!(end.before, before, "links go both ways");
        assert!(expected < size, "the last region is not empty");
        let mut vacant = self.vacant;
        while vacant != END {
            assert!(self.is_vacant(vacant));
            linked += 1;
            vacant = self.at(vacant).after;
        }
        let exhausted = self.nodes.iter().filter(|node| node.before == NONE && node.tag == 0).count();
        assert_eq!(linked + exhausted, self.nodes.len(), "no node is lost");
    }
}
