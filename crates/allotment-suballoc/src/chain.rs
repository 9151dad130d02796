//! The chain: every region of a block in address order, whatever the algorithm.
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
//! Nodes live in one vector and name each other by index; a vacant node is kept for the next split, so
//! that a block that has seen its peak allocates no more host memory.
//!
//! # Invariants
//!
//! 1. The regions tile `0..size`: the first begins at 0, each next one where the one before ends.
//! 2. A padding region has an owner, a used region, which names it back ([`Node::link`]).
//! 3. The [`Tally`] equals what a walk over the chain would count.
//! 4. No used or padding region is empty. An empty free region exists only as the linear gap.
//!
//! # Cost
//!
//! Every operation is O(1) but for the walk of the invariants. A node takes 40 bytes.

use alloc::vec::Vec;

/// The index that names no node.
pub(crate) const NONE: u32 = u32::MAX;

/// `link[1]` of a used node of which a move is open: what moves, and the place that is reserved for it. The
/// algorithms whose ranges move have no mark of their own.
pub(crate) const MOVING: u32 = 0;

/// The most nodes that one operation of any algorithm can add: a buddy block that grows gets up to two
/// cells an order.
const MOST_NEW_NODES: usize = 128;

/// What a region is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// No region: a node that waits for the next split.
    Vacant = 0,
    Free = 1,
    Used = 2,
    /// Lost to alignment or rounding while its owner lives.
    Padding = 3,
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) offset: u64,
    pub(crate) size: u64,
    /// The neighbour at the lower address, or [`NONE`].
    pub(crate) before: u32,
    /// The neighbour at the higher address, or [`NONE`].
    pub(crate) after: u32,
    /// Free: neighbours in the algorithm's free list. Used: its padding, and a mark of the algorithm or
    /// [`MOVING`]. Padding: its owner. Vacant: the next vacant node.
    pub(crate) link: [u32; 2],
    /// The serial number of the node's latest use, shifted up by two bits, and its [`State`].
    tag: u64,
}

impl Node {
    pub(crate) fn state(&self) -> State {
        match self.tag & 3 {
            0 => State::Vacant,
            1 => State::Free,
            2 => State::Used,
            _ => State::Padding,
        }
    }

    pub(crate) fn serial(&self) -> u64 {
        self.tag >> 2
    }

    pub(crate) fn end(&self) -> u64 {
        self.offset + self.size
    }

    pub(crate) fn is_free(&self) -> bool {
        self.state() == State::Free
    }
}

/// What the regions of each state sum up to; kept by every change of state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) used_count: u32,
    /// Free regions, the empty gap of the linear algorithm not counted.
    pub(crate) free_count: u32,
    pub(crate) used: u64,
    pub(crate) padding: u64,
    pub(crate) free: u64,
}

impl Tally {
    fn add(&mut self, state: State, size: u64) {
        match state {
            State::Vacant => {}
            State::Free => {
                self.free += size;
                self.free_count += u32::from(size != 0);
            }
            State::Used => {
                self.used += size;
                self.used_count += 1;
            }
            State::Padding => self.padding += size,
        }
    }

    fn remove(&mut self, state: State, size: u64) {
        match state {
            State::Vacant => {}
            State::Free => {
                self.free -= size;
                self.free_count -= u32::from(size != 0);
            }
            State::Used => {
                self.used -= size;
                self.used_count -= 1;
            }
            State::Padding => self.padding -= size,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Chain {
    nodes: Vec<Node>,
    first: u32,
    last: u32,
    /// Head of the list of vacant nodes, linked by `link[0]`.
    vacant: u32,
    size: u64,
    /// The serial number of the latest allocation.
    serial: u64,
    tally: Tally,
}

impl Chain {
    /// A chain of one free region, which is node 0.
    pub(crate) fn new(size: u64) -> Self {
        let mut chain = Self {
            nodes: Vec::new(),
            first: 0,
            last: 0,
            vacant: NONE,
            size,
            serial: 0,
            tally: Tally::default(),
        };
        chain.take_node(0, size, NONE, NONE);
        chain
    }

    pub(crate) fn node(&self, index: u32) -> &Node {
        &self.nodes[index as usize]
    }

    fn node_mut(&mut self, index: u32) -> &mut Node {
        &mut self.nodes[index as usize]
    }

    /// The node at `index` as long as it stands for the use that `serial` means.
    pub(crate) fn used(&self, index: u32, serial: u64) -> Option<&Node> {
        let wanted = (serial << 2) | State::Used as u64;
        self.nodes.get(index as usize).filter(|node| node.tag == wanted)
    }

    pub(crate) fn first(&self) -> u32 {
        self.first
    }

    pub(crate) fn last(&self) -> u32 {
        self.last
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// The serial number of the latest allocation.
    pub(crate) fn serial(&self) -> u64 {
        self.serial
    }

    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// How many nodes there are, vacant ones counted: an upper bound of every index.
    pub(crate) fn capacity(&self) -> usize {
        self.nodes.len()
    }

    /// True when the indices would not last for one more operation.
    pub(crate) fn is_full(&self) -> bool {
        self.nodes.len() > NONE as usize - MOST_NEW_NODES
    }

    pub(crate) fn set_link(&mut self, index: u32, which: usize, to: u32) {
        self.node_mut(index).link[which] = to;
    }

    /// Units of the free region right behind `index`; 0 where it is not free.
    pub(crate) fn free_after(&self, index: u32) -> u64 {
        let after = self.node(index).after;
        if after != NONE && self.node(after).is_free() { self.node(after).size } else { 0 }
    }

    /// Makes the region at `index` used and gives it a new serial number.
    pub(crate) fn mark_used(&mut self, index: u32) {
        self.serial += 1;
        let tag = (self.serial << 2) | State::Used as u64;
        self.change_state(index, tag, [NONE, NONE]);
    }

    /// Makes the region at `index` used, and the region beside it its padding, where there is one.
    pub(crate) fn mark_used_with(&mut self, index: u32, padding: Option<u32>) {
        self.mark_used(index);
        if let Some(padding) = padding {
            self.mark_padding(padding, index);
        }
    }

    pub(crate) fn mark_free(&mut self, index: u32) {
        let tag = (self.node(index).serial() << 2) | State::Free as u64;
        self.change_state(index, tag, [NONE, NONE]);
    }

    /// Makes the region at `index` the padding of the used region `owner`.
    pub(crate) fn mark_padding(&mut self, index: u32, owner: u32) {
        let tag = (self.node(index).serial() << 2) | State::Padding as u64;
        self.change_state(index, tag, [owner, NONE]);
        self.set_link(owner, 0, index);
    }

    fn change_state(&mut self, index: u32, tag: u64, link: [u32; 2]) {
        let node = &mut self.nodes[index as usize];
        self.tally.remove(node.state(), node.size);
        node.tag = tag;
        node.link = link;
        self.tally.add(node.state(), node.size);
    }

    /// Cuts the first `size` units of the free region `index` off into a new free region before it.
    pub(crate) fn split_front(&mut self, index: u32, size: u64) -> u32 {
        let Node { offset, before, .. } = *self.node(index);
        self.move_start(index, offset + size);
        self.take_node(offset, size, before, index)
    }

    /// Cuts the last `size` units of the free or used region `index` off into a new free region after it.
    pub(crate) fn split_back(&mut self, index: u32, size: u64) -> u32 {
        let Node { after, .. } = *self.node(index);
        let end = self.node(index).end();
        self.move_end(index, end - size);
        self.take_node(end - size, size, index, after)
    }

    /// Appends `size` units as a new free region at the end.
    pub(crate) fn append(&mut self, size: u64) -> u32 {
        let offset = self.size;
        self.size += size;
        self.take_node(offset, size, self.last, NONE)
    }

    /// Joins the region after `index`, of whatever state, to `index`; its node becomes vacant.
    pub(crate) fn absorb_after(&mut self, index: u32) {
        let after = self.node(index).after;
        let end = self.node(after).end();
        self.release_node(after);
        self.move_end(index, end);
    }

    /// Joins the region before `index`, of whatever state, to `index`; its node becomes vacant.
    pub(crate) fn absorb_before(&mut self, index: u32) {
        let before = self.node(index).before;
        let start = self.node(before).offset;
        self.release_node(before);
        self.move_start(index, start);
    }

    /// Moves the border between `index` and the region after it up by `size` units.
    pub(crate) fn push_border(&mut self, index: u32, size: u64) {
        let border = self.node(index).end() + size;
        let after = self.node(index).after;
        self.move_start(after, border);
        self.move_end(index, border);
    }

    /// Takes an empty region out of the chain; its node becomes vacant.
    pub(crate) fn remove_empty(&mut self, index: u32) {
        debug_assert_eq!(self.node(index).size, 0, "only an empty region leaves no hole behind");
        self.release_node(index);
    }

    fn move_start(&mut self, index: u32, start: u64) {
        let node = &mut self.nodes[index as usize];
        self.tally.remove(node.state(), node.size);
        node.size = node.end() - start;
        node.offset = start;
        self.tally.add(node.state(), node.size);
    }

    fn move_end(&mut self, index: u32, end: u64) {
        let node = &mut self.nodes[index as usize];
        self.tally.remove(node.state(), node.size);
        node.size = end - node.offset;
        self.tally.add(node.state(), node.size);
    }

    /// Links a free region between two neighbours, in a vacant node where there is one.
    fn take_node(&mut self, offset: u64, size: u64, before: u32, after: u32) -> u32 {
        let index = if self.vacant == NONE {
            // `is_full` was asked at the door, so the length fits.
            let index = self.nodes.len() as u32;
            let tag = State::Free as u64;
            self.nodes.push(Node { offset, size, before, after, link: [NONE, NONE], tag });
            index
        } else {
            let index = self.vacant;
            let node = &mut self.nodes[index as usize];
            self.vacant = node.link[0];
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
        index
    }

    fn release_node(&mut self, index: u32) {
        let Node { before, after, .. } = *self.node(index);
        match before {
            NONE => self.first = after,
            before => self.node_mut(before).after = after,
        }
        match after {
            NONE => self.last = before,
            after => self.node_mut(after).before = before,
        }
        let tag = (self.node(index).serial() << 2) | State::Vacant as u64;
        self.change_state(index, tag, [self.vacant, NONE]);
        self.vacant = index;
    }

    /// Panics unless the invariants at the top of this file hold. O(regions).
    pub(crate) fn check_invariants(&self) {
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
                State::Vacant => panic!("a vacant node stands in the chain"),
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
