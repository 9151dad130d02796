//! Cells of powers of two that split into halves, and merge with their other half, their buddy.
//!
//! The offset of a cell of size 2^k is a multiple of 2^k, so the offset of its buddy differs in one bit:
//!
//! ```text
//!   order 3  │               8               │
//!   order 2  │       4       │       4       │     buddy(offset, size) = offset ^ size
//!   order 1  │   2   │   2   │   2   │   2   │
//!   order 0  │ 1 │ 1 │ 1 │ 1 │ 1 │ 1 │ 1 │ 1 │
//! ```
//!
//! A request takes the smallest cell that holds it; the rest of the cell is padding, a third of the
//! requested size on average for sizes that are not powers of two (Russell, 1977). A block whose size is
//! not a power of two begins as the few largest cells that tile it.
//!
//! # An example
//!
//! A block of 16 units, requests for 3 and for 5 units, then the free of the first:
//!
//! ```text
//!   allocate 3   │ A A A -│░░░░ 4 ░░░│░░░░░░░░ 8 ░░░░░░░░│   16 splits into 8 + 8, the lower 8 into 4 + 4
//!   allocate 5   │ A A A -│░░░░ 4 ░░░│ B B B B B - - - │   the free cell of 8 fits without a split
//!   free A       │░░░░░░░░ 8 ░░░░░░░░│ B B B B B - - - │   0..4 merges with its buddy 4..8
//! ```
//!
//! `A` uses 3 units of the cell 0..4 and pads one. Freed, it absorbs its padding; the buddy of 0..4 is at
//! 0 ^ 4 = 4, free and as large, so both become 0..8. The buddy of that is at 0 ^ 8 = 8 and used, so the
//! merge ends there.
//!
//! # Cost
//!
//! O(log size) splits or merges. If the alignment is larger than the cell, a bounded number of small
//! cells is searched before a larger one is split. The lowest cell below a limit is found by a search of
//! every free cell that is large enough.

mod chain;
mod free_lists;
mod ranges;

use super::{NONE, Taken};
use crate::{Alignment, Request};
use chain::{Chain, Node};
use free_lists::FreeLists;

/// The number of cells of an order that are searched for one that happens to be aligned.
const LOOK: usize = 16;

/// Invariants: every free region is a cell (its size a power of two, its offset a multiple of it) and
/// is in the list of its order; a used region and its padding make up a cell; no two buddies are both free.
#[derive(Clone, Debug)]
pub(crate) struct Buddy {
    chain: Chain,
    lists: FreeLists,
}

fn order_of(cell: u64) -> usize {
    cell.ilog2() as usize
}

/// Returns the size of the smallest cell that holds `size` units.
fn cell_for(size: u64) -> u64 {
    size.next_power_of_two()
}

/// Returns the first of the largest cells that tile `size` units from `offset`.
fn first_cell(offset: u64, size: u64) -> u64 {
    let largest = 1 << size.ilog2();
    // A cell's offset is a multiple of its size, so the lowest set bit of the offset bounds the size. Offset 0 is a
    // multiple of everything and has no such bit.
    if offset == 0 { largest } else { largest.min(1 << offset.trailing_zeros()) }
}

impl Buddy {
    pub(crate) fn new(size: u64) -> Self {
        let mut buddy = Self { chain: Chain::new(size), lists: FreeLists::new() };
        buddy.tile();
        buddy
    }

    /// Divides a chain of one free region into cells, and lists them.
    fn tile(&mut self) {
        self.lists = FreeLists::new();
        let rest = self.chain.first();
        // 13 units:   │░░░░░░░░ 8 ░░░░░░░░│░░░ 4 ░░░│ 1 │
        // The rest keeps its node, so that each round cuts the next cell off its front.
        loop {
            let Node { offset, size, .. } = *self.chain.node(rest);
            let cell = first_cell(offset, size);
            if cell == size {
                return self.insert(rest);
            }
            let front = self.chain.split_front(rest, cell);
            self.insert(front);
        }
    }

    fn insert(&mut self, index: u32) {
        let order = order_of(self.chain.node(index).size);
        self.lists.push(&mut self.chain, order, index);
    }

    fn remove(&mut self, index: u32) {
        let order = order_of(self.chain.node(index).size);
        self.lists.remove(&mut self.chain, order, index);
    }

    /// Merges the free cell `index`, which no list contains, with its buddy as long as that is free too, and lists the
    /// result.
    fn merge_with_buddies(&mut self, index: u32) {
        loop {
            let Node { offset, size, before, after, .. } = *self.chain.node(index);
            debug_assert!(size.is_power_of_two() && offset & (size - 1) == 0, "a free region is a cell");
            let buddy = offset ^ size;
            // Buddies are adjacent, so the chain has the buddy's node: no lookup by offset is needed.
            let neighbour = if buddy < offset { before } else { after };
            // A neighbour at the buddy's offset may be a smaller cell, a part of the buddy: the rest of that is used.
            if neighbour == NONE || !self.is_free_cell(neighbour, buddy, size) {
                return self.insert(index);
            }
            self.remove(neighbour);
            // The merged cell may have a free buddy in turn, one order up: at most one round per order.
            if buddy < offset {
                //   │ buddy │ index │  ──►  │     index     │
                self.chain.absorb_before(index);
            } else {
                //   │ index │ buddy │  ──►  │     index     │
                self.chain.absorb_after(index);
            }
        }
    }

    /// Returns a free cell for the request. Cells that a bounded search passed over are searched in full before the
    /// request is refused.
    fn search(&self, request: &Request) -> Option<u32> {
        let cell = cell_for(request.size);
        self.find_among(cell, request.alignment, LOOK)
            .or_else(|| self.find_among(cell, request.alignment, usize::MAX))
    }

    /// Returns a free cell of at least `cell` units at a multiple of `alignment`, from the first `look` cells of each
    /// order below the alignment's.
    fn find_among(&self, cell: u64, alignment: Alignment, look: usize) -> Option<u32> {
        let always_aligned = alignment.log2() as usize;
        let mut order = self.lists.first_from(order_of(cell))?;
        // From the alignment's own order on, every cell is at a multiple of its size and so of the alignment. Smaller
        // cells are aligned only by chance, and one is worth a short search: a larger cell would have to be split.
        while order < always_aligned {
            let mut candidates = self.lists.iter(&self.chain, order).take(look);
            if let Some(index) = candidates.find(|&index| alignment.is_aligned(self.chain.node(index).offset))
            {
                return Some(index);
            }
            order = self.lists.first_from(order + 1)?;
        }
        self.lists.iter(&self.chain, order).next()
    }

    /// Takes the free cell `index` out of its list, and marks `size` units at `offset` in it as used: the front of a cell.
    fn occupy(&mut self, index: u32, offset: u64, size: u64) -> Taken {
        self.remove(index);
        let cell = cell_for(size);
        debug_assert!(self.chain.node(index).size >= cell, "the search found a cell that is large enough");
        self.cut(index, offset, cell);
        self.chain.mark_used(index);
        self.pad(index, size);
        Taken { index, serial: self.chain.node(index).serial(), offset }
    }

    /// Cuts the used cell `index` short at `size` units, and makes the rest its padding.
    fn pad(&mut self, index: u32, size: u64) {
        // The padding is a region of its own, so that the range keeps the requested size in all statistics.
        let rest = self.chain.node(index).size - size;
        if rest != 0 {
            let padding = self.chain.split_back(index, rest);
            self.chain.mark_padding(padding, index);
        }
    }

    /// Halves a region until it is the cell of `cell` units at `offset`, and lists the other halves.
    fn cut(&mut self, index: u32, offset: u64, cell: u64) {
        // For 2 units at offset 4 of 16:
        //   │               16               │
        //   │       8        │░░░░░ 8 ░░░░░░░│    the lower half contains the offset, the upper one is listed
        //   │░░░ 4 ░░│  4    │░░░░░ 8 ░░░░░░░│    the upper half contains it
        //   │░░░ 4 ░░│ 2 │░2░│░░░░░ 8 ░░░░░░░│
        // A half that is listed has no free buddy: its buddy contains the cell, which is used or about to be.
        while self.chain.node(index).size > cell {
            let Node { offset: start, size, .. } = *self.chain.node(index);
            let half = size / 2;
            let is_lower = offset < start + half;
            let other = if is_lower {
                self.chain.split_back(index, half)
            } else {
                self.chain.split_front(index, half)
            };
            self.insert(other);
        }
    }

    /// Returns the size of the cell that a used region and its padding make up.
    fn cell_of(&self, index: u32) -> u64 {
        let Node { size, link: [padding, _], .. } = *self.chain.node(index);
        size + if padding == NONE { 0 } else { self.chain.node(padding).size }
    }

    /// Returns the largest cell, up to `wanted` units, that the used cell `index` can become by absorbing free buddies
    /// behind it.
    fn reachable(&self, index: u32, wanted: u64) -> u64 {
        let Node { offset, link: [padding, _], .. } = *self.chain.node(index);
        let mut cell = self.cell_of(index);
        let mut last = if padding == NONE { index } else { padding };
        // A range cannot move, so its cell can absorb its buddy only as long as it is the lower one of the two: as long
        // as the bit of its size is clear in its offset.
        while cell < wanted && offset & cell == 0 {
            let after = self.chain.node(last).after;
            if after == NONE || !self.is_free_cell(after, offset + cell, cell) {
                break;
            }
            last = after;
            cell *= 2;
        }
        cell
    }

    fn is_free_cell(&self, index: u32, offset: u64, size: u64) -> bool {
        let node = self.chain.node(index);
        node.is_free() && node.offset == offset && node.size == size
    }
}
