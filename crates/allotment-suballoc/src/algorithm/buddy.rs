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

use super::Algorithm;
use super::chained::Policy;
use super::free_lists::FreeLists;
use crate::chain::{Chain, NONE, State};
use crate::{Alignment, AllocateError, GrowError, MAX_SIZE, Request, Side};

/// Orders 0 to 48.
const ORDERS: usize = MAX_SIZE.ilog2() as usize + 1;

/// The number of cells of an order that are searched for one that happens to be aligned.
const LOOK: usize = 16;

/// Invariants: every free region is a cell (its size a power of two, its offset a multiple of it) and
/// is in the list of its order; a used region and its padding make up a cell; no two buddies are both free.
#[derive(Clone, Debug)]
pub(crate) struct Buddy {
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
    fn insert(&mut self, chain: &mut Chain, index: u32) {
        self.lists.push(chain, order_of(chain.node(index).size), index);
    }

    fn remove(&mut self, chain: &mut Chain, index: u32) {
        self.lists.remove(chain, order_of(chain.node(index).size), index);
    }

    /// Merges the free cell `index`, which no list contains, with its buddy as long as that is free too, and lists the
    /// result.
    fn merge_with_buddies(&mut self, chain: &mut Chain, index: u32) {
        loop {
            let (offset, size) = (chain.node(index).offset, chain.node(index).size);
            debug_assert!(size.is_power_of_two() && offset & (size - 1) == 0, "a free region is a cell");
            let buddy = offset ^ size;
            // Buddies are adjacent, so the chain has the buddy's node: no lookup by offset is needed.
            let neighbour = if buddy < offset { chain.node(index).before } else { chain.node(index).after };
            if neighbour == NONE || !is_free_cell(chain, neighbour, buddy, size) {
                return self.insert(chain, index);
            }
            self.remove(chain, neighbour);
            // The merged cell may have a free buddy in turn, one order up: at most one round per order.
            if buddy < offset {
                chain.absorb_before(index);
            } else {
                chain.absorb_after(index);
            }
        }
    }

    /// Returns a free cell for the request. Cells that a bounded search passed over are searched in full before the
    /// request is refused.
    fn search(&self, chain: &Chain, request: &Request) -> Option<u32> {
        let cell = cell_for(request.size);
        self.find_among(chain, cell, request.alignment, LOOK)
            .or_else(|| self.find_among(chain, cell, request.alignment, usize::MAX))
    }

    /// Returns a free cell of at least `cell` units at a multiple of `alignment`, from the first `look` cells of each
    /// order below the alignment's.
    fn find_among(&self, chain: &Chain, cell: u64, alignment: Alignment, look: usize) -> Option<u32> {
        let always_aligned = alignment.log2() as usize;
        let mut order = self.lists.first_from(order_of(cell))?;
        // From the alignment's own order on, every cell is at a multiple of its size and so of the alignment. Smaller
        // cells are aligned only by chance, and one is worth a short search: a larger cell would have to be split.
        while order < always_aligned {
            let mut candidates = self.lists.iter(chain, order).take(look);
            if let Some(index) = candidates.find(|&index| alignment.is_aligned(chain.node(index).offset)) {
                return Some(index);
            }
            order = self.lists.first_from(order + 1)?;
        }
        self.lists.iter(chain, order).next()
    }

    /// Marks the first `size` units of the free cell `index` as used, the rest as padding.
    fn occupy(chain: &mut Chain, index: u32, size: u64) {
        // The padding is a region of its own, so that the range keeps the requested size in all statistics.
        let rest = chain.node(index).size - size;
        let padding = (rest != 0).then(|| chain.split_back(index, rest));
        chain.mark_used_with(index, padding);
    }

    /// Returns the size of the cell that a used region and its padding make up.
    fn cell_of(chain: &Chain, index: u32) -> u64 {
        let padding = chain.node(index).link[0];
        chain.node(index).size + if padding == NONE { 0 } else { chain.node(padding).size }
    }

    /// Returns the largest cell, up to `wanted` units, that the used cell `index` can become by absorbing free buddies
    /// behind it.
    fn reachable(chain: &Chain, index: u32, wanted: u64) -> u64 {
        let offset = chain.node(index).offset;
        let mut cell = Self::cell_of(chain, index);
        let mut last = match chain.node(index).link[0] {
            NONE => index,
            padding => padding,
        };
        // A range cannot move, so its cell can absorb its buddy only as long as it is the lower one of the two: as long
        // as the bit of its size is clear in its offset.
        while cell < wanted && offset & cell == 0 {
            let after = chain.node(last).after;
            if after == NONE || !is_free_cell(chain, after, offset + cell, cell) {
                break;
            }
            last = after;
            cell *= 2;
        }
        cell
    }
}

fn is_free_cell(chain: &Chain, index: u32, offset: u64, size: u64) -> bool {
    let node = chain.node(index);
    node.is_free() && node.offset == offset && node.size == size
}

impl Policy for Buddy {
    fn new(chain: &mut Chain) -> Self {
        let mut buddy = Self { lists: FreeLists::new(ORDERS) };
        let rest = chain.first();
        loop {
            let node = chain.node(rest);
            let cell = first_cell(node.offset, node.size);
            if cell == node.size {
                buddy.insert(chain, rest);
                return buddy;
            }
            let front = chain.split_front(rest, cell);
            buddy.insert(chain, front);
        }
    }

    fn allocate(&mut self, chain: &mut Chain, request: &Request) -> Result<Option<u32>, AllocateError> {
        if request.side == Side::Upper {
            return Err(AllocateError::OneSided { algorithm: Algorithm::Buddy });
        }
        let found = self.search(chain, request);
        Ok(found.map(|index| self.take(chain, index, request)))
    }

    fn find(&self, chain: &Chain, request: &Request) -> Option<u32> {
        if request.side == Side::Lower { self.search(chain, request) } else { None }
    }

    fn find_below(&self, chain: &Chain, request: &Request, limit: u64) -> Option<u32> {
        // A range begins at the front of its cell, and `take` splits off upper halves, so the offset of the free cell is
        // that of the range. Its padding has to end below the limit as well.
        let cell = cell_for(request.size);
        let orders = core::iter::successors(self.lists.first_from(order_of(cell)), |&order| {
            self.lists.first_from(order + 1)
        });
        orders
            .flat_map(|order| self.lists.iter(chain, order))
            .filter(|&index| {
                let offset = chain.node(index).offset;
                request.alignment.is_aligned(offset) && offset + cell <= limit
            })
            .min_by_key(|&index| chain.node(index).offset)
    }

    fn take(&mut self, chain: &mut Chain, index: u32, request: &Request) -> u32 {
        let cell = cell_for(request.size);
        self.remove(chain, index);
        debug_assert!(chain.node(index).size >= cell, "the search found a cell that is large enough");
        // Each upper half is free while its buddy, the lower half, is about to be used, so none can merge.
        while chain.node(index).size > cell {
            let half = chain.node(index).size / 2;
            let upper = chain.split_back(index, half);
            self.insert(chain, upper);
        }
        Self::occupy(chain, index, request.size);
        index
    }

    fn take_at(&mut self, chain: &mut Chain, index: u32, offset: u64, size: u64) -> Option<u32> {
        let cell = cell_for(size);
        let node = chain.node(index);
        // A cell begins at a multiple of its size, and lies in a free one whole or not at all.
        if offset & (cell - 1) != 0 || node.size < cell {
            return None;
        }
        self.remove(chain, index);
        // Of each half, the one that does not contain the cell is free while the other is about to be used.
        while chain.node(index).size > cell {
            let half = chain.node(index).size / 2;
            let other = if offset < chain.node(index).offset + half {
                chain.split_back(index, half)
            } else {
                chain.split_front(index, half)
            };
            self.insert(chain, other);
        }
        Self::occupy(chain, index, size);
        Some(index)
    }

    fn free(&mut self, chain: &mut Chain, index: u32) {
        let has_padding = chain.node(index).link[0] != NONE;
        chain.mark_free(index);
        if has_padding {
            // Without the padding, the region is not a cell and has no buddy.
            chain.absorb_after(index);
        }
        self.merge_with_buddies(chain, index);
    }

    fn resize(&mut self, chain: &mut Chain, index: u32, size: u64) -> Result<(), u64> {
        if size == chain.node(index).size {
            return Ok(());
        }
        let wanted = cell_for(size);
        let reachable = Self::reachable(chain, index, wanted);
        if reachable < wanted {
            return Err(reachable);
        }
        // The region first takes its whole cell, padding included, so that what follows deals with cells only. Then it
        // absorbs the buddies that it needs or frees the halves that it does not, and pads the rest.
        if chain.node(index).link[0] != NONE {
            chain.absorb_after(index);
            chain.set_link(index, 0, NONE);
        }
        while chain.node(index).size < wanted {
            let after = chain.node(index).after;
            debug_assert_eq!(chain.node(after).size, chain.node(index).size, "the buddy is as large");
            self.remove(chain, after);
            chain.absorb_after(index);
        }
        // The lower half stays used, so the upper halves are listed without a merge.
        while chain.node(index).size > wanted {
            let half = chain.node(index).size / 2;
            let upper = chain.split_back(index, half);
            self.insert(chain, upper);
        }
        if wanted > size {
            let padding = chain.split_back(index, wanted - size);
            chain.mark_padding(padding, index);
        }
        Ok(())
    }

    fn grow(&mut self, chain: &mut Chain, size: u64) -> Result<(), GrowError> {
        // The new units are appended as the largest cells that fit their offsets. A cell may complete a pair with the
        // last free cell of the old end, and the pair another one.
        let end = chain.size() + size;
        while chain.size() < end {
            let cell = first_cell(chain.size(), end - chain.size());
            let index = chain.append(cell);
            self.merge_with_buddies(chain, index);
        }
        Ok(())
    }

    fn largest_free(&self, chain: &Chain) -> u64 {
        self.largest_free_at_most(chain)
    }

    fn largest_free_at_most(&self, _chain: &Chain) -> u64 {
        self.lists.last().map_or(0, |order| 1 << order)
    }

    fn check_invariants(&self, chain: &Chain) {
        self.lists.check_invariants(chain, order_of);
        let mut index = chain.first();
        while index != NONE {
            let node = chain.node(index);
            match node.state() {
                State::Free => {
                    assert!(node.size.is_power_of_two() && node.offset & (node.size - 1) == 0);
                    let after = node.after;
                    let buddy = node.offset ^ node.size;
                    assert!(
                        after == NONE || buddy < node.offset || !is_free_cell(chain, after, buddy, node.size),
                        "free buddies are merged"
                    );
                }
                State::Used => {
                    let cell = Self::cell_of(chain, index);
                    assert!(cell.is_power_of_two() && node.offset & (cell - 1) == 0);
                    assert_eq!(cell, cell_for(node.size), "a cell is the smallest that holds its range");
                    let padding = node.link[0];
                    assert!(padding == NONE || padding == node.after, "padding follows its owner");
                }
                _ => {}
            }
            index = node.after;
        }
    }
}
