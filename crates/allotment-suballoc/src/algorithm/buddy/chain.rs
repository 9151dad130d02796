//! The chain: every region of a buddy block in address order.
//!
//! ```text
//!   first                                                        last
//!     │                                                            │
//!     ▼                                                            ▼
//!   ┌──────┐   ┌──────┬─────────┐   ┌──────┐   ┌────────────────────┐
//!   │ used │ ⇄ │ used │ padding │ ⇄ │ free │ ⇄ │ used               │
//!   └──────┘   └──────┴─────────┘   └──────┘   └────────────────────┘
//!   0                                                             size
//! ```
//!
//! Nodes live in one vector and link to each other by index. A vacant node is kept for the next split, so a
//! block that has reached its peak allocates no more host memory.
//!
//! # Invariants
//!
//! 1. The regions tile `0..size`: the first begins at 0, and each following region begins where the one before
//!    it ends.
//! 2. A padding region has an owner, a used region, and the two link to each other ([`Node::link`]).
//! 3. The [`Tally`] equals the result of a walk over the chain.
//! 4. No region is empty.
//!
//! Debug builds check 1 for the regions around each link and unlink, in O(1) ([`Chain::debug_assert_linked`]),
//! and the state of each region that changes. Tests and fuzzers check all of it, in O(regions).
//!
//! # Cost
//!
//! Every operation is O(1) except the walk that checks the invariants. A node takes 40 bytes.

#[cfg(all(test, debug_assertions))]
mod tests;

use alloc::vec::Vec;

use crate::algorithm::{NONE, State, Tally};

/// The maximum number of nodes that one operation adds: growing a block adds up to two cells per order.
const MOST_NEW_NODES: usize = 128;

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) offset: u64,
    pub(super) size: u64,
    /// The neighbour at the lower address, or [`NONE`].
    pub(super) before: u32,
    /// The neighbour at the higher address, or [`NONE`].
    pub(super) after: u32,
    /// Free: the neighbours in its free list. Used: its padding. Padding: its owner.
    /// Vacant: the next vacant node.
    pub(super) link: [u32; 2],
    /// The serial number of the node's latest allocation, shifted left by two bits, and its [`State`].
    tag: u64,
}

impl Node {
    pub(super) fn state(&self) -> State {
        match self.tag & 3 {
            0 => State::Vacant,
            1 => State::Free,
            2 => State::Used,
            _ => State::Padding,
        }
    }

    pub(super) fn serial(&self) -> u64 {
        self.tag >> 2
    }

    pub(super) fn end(&self) -> u64 {
        self.offset + self.size
    }

    pub(super) fn is_free(&self) -> bool {
        self.state() == State::Free
    }
}

#[derive(Clone, Debug)]
pub(super) struct Chain {
    nodes: Vec<Node>,
    first: u32,
    last: u32,
    /// The first vacant node. Vacant nodes are linked by `link[0]`. Not a slab of a common type: a vacant node keeps its
    /// serial number, which makes old handles stale.
    vacant: u32,
    size: u64,
    /// The serial number of the latest allocation.
    serial: u64,
    tally: Tally,
}

impl Chain {
    /// Creates a chain of one free region, which is node 0.
    pub(super) fn new(size: u64) -> Self {
        let (nodes, tally) = (Vec::new(), Tally::default());
        let mut chain = Self { nodes, first: 0, last: 0, vacant: NONE, size, serial: 0, tally };
        chain.take_node(0, size, NONE, NONE);
        chain
    }

    /// Makes the block one free region again, which is node 0. The serial numbers go on, so no handle from before matches.
    pub(super) fn clear(&mut self) {
        self.nodes.clear();
        (self.first, self.last, self.vacant) = (0, 0, NONE);
        self.tally = Tally::default();
        self.take_node(0, self.size, NONE, NONE);
    }

    pub(super) fn node(&self, index: u32) -> &Node {
        &self.nodes[index as usize]
    }

    fn node_mut(&mut self, index: u32) -> &mut Node {
        &mut self.nodes[index as usize]
    }

    /// Returns `true` if the node at `index` is used and its latest allocation has this serial number.
    pub(super) fn used(&self, index: u32, serial: u64) -> bool {
        // Serial number and state share one word, so one comparison covers both: the hot path of every handle
        // check.
        let wanted = (serial << 2) | State::Used as u64;
        self.nodes.get(index as usize).is_some_and(|node| node.tag == wanted)
    }

    pub(super) fn first(&self) -> u32 {
        self.first
    }

    pub(super) fn last(&self) -> u32 {
        self.last
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    pub(super) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Returns the number of nodes including vacant ones: an upper bound of every index.
    pub(super) fn capacity(&self) -> usize {
        self.nodes.len()
    }

    /// Allocates host memory for further nodes.
    pub(super) fn reserve(&mut self, nodes: usize) {
        self.nodes.reserve(nodes);
    }

    /// Frees host memory behind the last node that is not vacant. O(nodes).
    pub(super) fn shrink(&mut self) {
        // What a node knew of its old allocations goes with it: serial numbers are those of the chain, so no handle of them
        // matches a new node.
        let used =
            self.nodes.iter().rposition(|node| node.state() != State::Vacant).map_or(0, |last| last + 1);
        self.nodes.truncate(used);
        self.nodes.shrink_to_fit();
        self.vacant = NONE;
        for index in (0..used as u32).rev() {
            if self.node(index).state() == State::Vacant {
                let next = core::mem::replace(&mut self.vacant, index);
                self.set_link(index, 0, next);
            }
        }
    }

    /// Returns `true` if the indices could run out during one more operation.
    pub(super) fn is_full(&self) -> bool {
        // Checked before an operation, so that none fails half way: an operation adds a bounded number of nodes.
        self.nodes.len() > NONE as usize - MOST_NEW_NODES
    }

    pub(super) fn set_link(&mut self, index: u32, which: usize, to: u32) {
        self.node_mut(index).link[which] = to;
    }

    /// Marks the free region at `index` as used and gives it a new serial number.
    pub(super) fn mark_used(&mut self, index: u32) {
        debug_assert_eq!(self.node(index).state(), State::Free, "only a free region is allocated");
        // One number for the whole block and not one for each node: so a node that was freed for its host memory can come again
        // without a handle that matches it.
        self.serial += 1;
        self.node_mut(index).tag = self.serial << 2 | State::Free as u64;
        self.change_state(index, State::Used, [NONE, NONE]);
    }

    pub(super) fn mark_free(&mut self, index: u32) {
        debug_assert_eq!(self.node(index).state(), State::Used, "only an allocated region is freed");
        self.change_state(index, State::Free, [NONE, NONE]);
    }

    /// Marks the free region at `index` as the padding of the used region `owner`.
    pub(super) fn mark_padding(&mut self, index: u32, owner: u32) {
        debug_assert_eq!(self.node(index).state(), State::Free, "padding is cut from free space");
        debug_assert_eq!(self.node(owner).state(), State::Used, "padding belongs to a used region");
        self.change_state(index, State::Padding, [owner, NONE]);
        self.set_link(owner, 0, index);
    }

    fn change_state(&mut self, index: u32, state: State, link: [u32; 2]) {
        self.change(index, |node| {
            // The serial number stays in every state: a stale handle then still differs in the state bits, and the next
            // allocation of the node takes a new number.
            node.tag = node.serial() << 2 | state as u64;
            node.link = link;
        });
    }

    /// Changes the state or a border of a region.
    fn change(&mut self, index: u32, change: impl FnOnce(&mut Node)) {
        let node = &mut self.nodes[index as usize];
        // The tally counts by state and size, so the node leaves it as it was and enters as it is now.
        self.tally.remove(node.state(), node.size);
        change(node);
        self.tally.add(node.state(), node.size);
    }

    /// Splits the first `size` units off the free region `index`, as a new free region before it.
    pub(super) fn split_front(&mut self, index: u32, size: u64) -> u32 {
        debug_assert!(0 < size && size <= self.node(index).size, "a part is cut from within its region");
        //   │        index        │   ──►   │ new │     index     │
        let Node { offset, before, .. } = *self.node(index);
        // `index` keeps the rest: the caller has its index, and the node of a region that is already linked need not move.
        self.move_start(index, offset + size);
        self.take_node(offset, size, before, index)
    }

    /// Splits the last `size` units off the free or used region `index`, as a new free region after it.
    pub(super) fn split_back(&mut self, index: u32, size: u64) -> u32 {
        debug_assert!(0 < size && size <= self.node(index).size, "a part is cut from within its region");
        //   │        index        │   ──►   │     index     │ new │
        let Node { after, .. } = *self.node(index);
        let end = self.node(index).end();
        self.move_end(index, end - size);
        self.take_node(end - size, size, index, after)
    }

    /// Appends `size` units as a new free region at the end.
    pub(super) fn append(&mut self, size: u64) -> u32 {
        let offset = self.size;
        self.size += size;
        self.take_node(offset, size, self.last, NONE)
    }

    /// Merges the region after `index`, whatever its state, into `index`; its node becomes vacant.
    pub(super) fn absorb_after(&mut self, index: u32) {
        debug_assert_ne!(self.node(index).after, NONE, "there is a region to absorb");
        //   │ index │   after   │   ──►   │       index       │
        let after = self.node(index).after;
        let end = self.node(after).end();
        // The neighbour is unlinked before the border moves, so the tally never counts a unit twice.
        self.release_node(after);
        self.move_end(index, end);
        self.debug_assert_linked(index);
    }

    /// Merges the region before `index`, whatever its state, into `index`; its node becomes vacant.
    pub(super) fn absorb_before(&mut self, index: u32) {
        debug_assert_ne!(self.node(index).before, NONE, "there is a region to absorb");
        //   │ before │   index   │   ──►   │       index        │
        let before = self.node(index).before;
        let start = self.node(before).offset;
        self.release_node(before);
        self.move_start(index, start);
        self.debug_assert_linked(index);
    }

    fn move_start(&mut self, index: u32, start: u64) {
        self.change(index, |node| (node.offset, node.size) = (start, node.end() - start));
    }

    fn move_end(&mut self, index: u32, end: u64) {
        self.change(index, |node| node.size = end - node.offset);
    }

    /// Links a free region between two neighbours, reusing a vacant node if there is one.
    fn take_node(&mut self, offset: u64, size: u64, before: u32, after: u32) -> u32 {
        debug_assert!(before == NONE || self.node(before).after == after, "the neighbours are adjacent");
        debug_assert!(after == NONE || self.node(after).before == before, "the neighbours are adjacent");
        let index = if self.vacant == NONE {
            // `is_full` was checked before the operation, so the length fits into 32 bits.
            let index = self.nodes.len() as u32;
            let tag = State::Free as u64;
            self.nodes.push(Node { offset, size, before, after, link: [NONE, NONE], tag });
            index
        } else {
            // The node released last is reused first: its cache line is the most likely to be warm.
            let index = self.vacant;
            let node = &mut self.nodes[index as usize];
            debug_assert_eq!(node.state(), State::Vacant, "only vacant nodes are reused");
            self.vacant = node.link[0];
            // The serial number of the old allocation stays until `mark_used` replaces it.
            let tag = (node.serial() << 2) | State::Free as u64;
            *node = Node { offset, size, before, after, link: [NONE, NONE], tag };
            index
        };
        self.tally.add(State::Free, size);
        match before {
            NONE => self.first = index,
            before => self.node_mut(before).after = index,
        }
        match after {
            NONE => self.last = index,
            after => self.node_mut(after).before = index,
        }
        self.debug_assert_linked(index);
        index
    }

    /// Unlinks a node from its neighbours and adds it to the vacant nodes. The caller closes the hole that the region
    /// leaves in `0..size`.
    fn release_node(&mut self, index: u32) {
        self.debug_assert_linked(index);
        debug_assert_ne!(self.node(index).state(), State::Vacant, "a node is released once");
        let Node { before, after, .. } = *self.node(index);
        match before {
            NONE => self.first = after,
            before => self.node_mut(before).after = after,
        }
        match after {
            NONE => self.last = before,
            after => self.node_mut(after).before = before,
        }
        self.change_state(index, State::Vacant, [self.vacant, NONE]);
        self.vacant = index;
    }

    /// Panics, in debug builds only, unless both neighbours of `index` link back to it and touch it: the condition
    /// before each unlink and after each link. O(1).
    fn debug_assert_linked(&self, index: u32) {
        if !cfg!(debug_assertions) {
            return;
        }
        let node = self.node(index);
        if node.before == NONE {
            debug_assert_eq!((self.first, node.offset), (index, 0), "the first region begins the block");
        } else {
            let before = self.node(node.before);
            debug_assert_eq!(before.after, index, "the region before links back");
            debug_assert_eq!(before.end(), node.offset, "the region before ends where this one begins");
        }
        if node.after == NONE {
            debug_assert_eq!((self.last, node.end()), (index, self.size), "the last region ends the block");
        } else {
            let after = self.node(node.after);
            debug_assert_eq!(after.before, index, "the region after links back");
            debug_assert_eq!(after.offset, node.end(), "the region after begins where this one ends");
        }
    }

    /// Panics unless the invariants at the top of this file hold. O(regions).
    pub(super) fn check_invariants(&self) {
        let mut counted = Tally::default();
        let mut linked = 0;
        let (mut expected, mut before) = (0, NONE);
        let mut index = self.first;
        while index != NONE {
            let node = self.node(index);
            assert_eq!(node.offset, expected, "the regions tile the block");
            assert_eq!(node.before, before, "the links go both ways");
            counted.add(node.state(), node.size);
            match node.state() {
                State::Vacant => panic!("the chain links a vacant node"),
                State::Free => {}
                State::Used => {
                    assert_ne!(node.size, 0, "a used region is not empty");
                    let padding = node.link[0];
                    assert!(padding == NONE || self.node(padding).link[0] == index);
                }
                State::Padding => {
                    assert_ne!(node.size, 0, "a padding region is not empty");
                    let owner = self.node(node.link[0]);
                    assert_eq!(owner.state(), State::Used, "padding has a living owner");
                    assert_eq!(owner.link[0], index, "the owner knows its padding");
                }
            }
            linked += 1;
            expected = node.end();
            before = index;
            index = node.after;
        }
        assert_eq!(expected, self.size, "the regions reach the end of the block");
        assert_eq!(before, self.last);
        assert_eq!(counted, self.tally, "the tally equals a walk");

        let mut vacant = self.vacant;
        while vacant != NONE {
            assert_eq!(self.node(vacant).state(), State::Vacant);
            linked += 1;
            vacant = self.node(vacant).link[0];
        }
        assert_eq!(linked, self.nodes.len(), "no node is lost");
    }
}
