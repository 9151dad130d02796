//! Cells of powers of two that split into halves and merge with their other half, their buddy.
//!
//! A cell of size 2^k stands at a multiple of 2^k, so the place of its buddy differs in one bit:
//!
//! ```text
//!   order 3  │               8               │
//!   order 2  │       4       │       4       │     buddy(offset, size) = offset ^ size
//!   order 1  │   2   │   2   │   2   │   2   │
//!   order 0  │ 1 │ 1 │ 1 │ 1 │ 1 │ 1 │ 1 │ 1 │
//! ```
//!
//! A request takes the smallest cell that holds it; the rest of the cell is padding, a third of what is
//! asked for on average where sizes are not powers of two (Russell, 1977). A block whose size is no
//! power of two begins as the few largest cells that tile it.
//!
//! # Cost
//!
//! O(log size) splits or merges. Where an alignment is larger than the cell, a bounded number of small
//! cells is looked at before a larger one is split. The lowest cell below a limit is found by looking at
//! every free cell that is large enough.

use super::free_lists::FreeLists;
use super::{Algorithm, Policy};
use crate::chain::{Chain, NONE, State};
use crate::{Alignment, AllocateError, GrowError, MAX_SIZE, Request, Side};

/// Orders 0 to 48.
const ORDERS: usize = MAX_SIZE.ilog2() as usize + 1;

/// How many cells of an order are looked at for one that happens to be aligned.
const LOOK: usize = 16;

/// Invariants: every free region is a cell (its size a power of two, its offset a multiple of it) and
/// stands in the list of its order; a used region and its padding make up a cell; no two free buddies
/// stand side by side.
#[derive(Clone, Debug)]
pub(crate) struct Buddy {
    lists: FreeLists,
}

fn order_of(cell: u64) -> usize {
    cell.ilog2() as usize
}

/// The size of the smallest cell that holds `size` units.
fn cell_for(size: u64) -> u64 {
    size.next_power_of_two()
}

/// The first of the largest cells that tile `size` units from `offset`.
fn first_cell(offset: u64, size: u64) -> u64 {
    let largest = 1 << size.ilog2();
    if offset == 0 { largest } else { largest.min(1 << offset.trailing_zeros()) }
}

impl Buddy {
    pub(crate) fn new(chain: &mut Chain) -> Self {
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

    fn insert(&mut self, chain: &mut Chain, index: u32) {
        self.lists.push(chain, order_of(chain.node(index).size), index);
    }

    fn remove(&mut self, chain: &mut Chain, index: u32) {
        self.lists.remove(chain, order_of(chain.node(index).size), index);
    }

    /// Merges the free cell `index` with its buddy as often as that is free too, and lists the result.
    fn settle(&mut self, chain: &mut Chain, index: u32) {
        loop {
            let (offset, size) = (chain.node(index).offset, chain.node(index).size);
            let buddy = offset ^ size;
            let neighbour = if buddy < offset { chain.node(index).before } else { chain.node(index).after };
            if neighbour == NONE || !is_free_cell(chain, neighbour, buddy, size) {
                return self.insert(chain, index);
            }
            self.remove(chain, neighbour);
            if buddy < offset {
                chain.absorb_before(index);
            } else {
                chain.absorb_after(index);
            }
        }
    }

    /// A free cell for the request: what a bounded look passed over is looked at before it is refused.
    fn search(&self, chain: &Chain, request: &Request) -> Option<u32> {
        let cell = cell_for(request.size);
        self.find_among(chain, cell, request.alignment, LOOK)
            .or_else(|| self.find_among(chain, cell, request.alignment, usize::MAX))
    }

    /// A free cell of at least `cell` units at a multiple of `alignment`. Small orders are looked at in
    /// part; a cell of the alignment's own order is aligned by nature.
    fn find_among(&self, chain: &Chain, cell: u64, alignment: Alignment, look: usize) -> Option<u32> {
        let aligned_by_nature = alignment.log2() as usize;
        let mut order = self.lists.first_from(order_of(cell))?;
        while order < aligned_by_nature {
            let mut candidates = self.lists.iter(chain, order).take(look);
            if let Some(index) = candidates.find(|&index| alignment.is_aligned(chain.node(index).offset)) {
                return Some(index);
            }
            order = self.lists.first_from(order + 1)?;
        }
        self.lists.iter(chain, order).next()
    }

    /// Makes the front of the free cell `index` a used region of `size` units, the rest its padding.
    fn occupy(chain: &mut Chain, index: u32, size: u64) {
        let rest = chain.node(index).size - size;
        let padding = (rest != 0).then(|| chain.split_back(index, rest));
        chain.mark_used_with(index, padding);
    }

    /// The size of the cell that a used region and its padding make up.
    fn cell_of(chain: &Chain, index: u32) -> u64 {
        let padding = chain.node(index).link[0];
        chain.node(index).size + if padding == NONE { 0 } else { chain.node(padding).size }
    }

    /// The largest cell that the used cell `index` could become by taking free buddies behind it.
    fn reachable(chain: &Chain, index: u32, wanted: u64) -> u64 {
        let offset = chain.node(index).offset;
        let mut cell = Self::cell_of(chain, index);
        let mut last = match chain.node(index).link[0] {
            NONE => index,
            padding => padding,
        };
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
        // A range stands at the front of its cell, whatever cell that is split from.
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
        while chain.node(index).size > cell {
            let half = chain.node(index).size / 2;
            let upper = chain.split_back(index, half);
            self.insert(chain, upper);
        }
        Self::occupy(chain, index, request.size);
        index
    }

    fn free(&mut self, chain: &mut Chain, index: u32) {
        let has_padding = chain.node(index).link[0] != NONE;
        chain.mark_free(index);
        if has_padding {
            chain.absorb_after(index);
        }
        self.settle(chain, index);
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
        // The region takes the whole cell, buddies that it needs among them, gives the halves that it
        // does not need back, and pads what is left.
        if chain.node(index).link[0] != NONE {
            chain.absorb_after(index);
            chain.set_link(index, 0, NONE);
        }
        while chain.node(index).size < wanted {
            let after = chain.node(index).after;
            self.remove(chain, after);
            chain.absorb_after(index);
        }
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
        let end = chain.size() + size;
        while chain.size() < end {
            let cell = first_cell(chain.size(), end - chain.size());
            let index = chain.append(cell);
            self.settle(chain, index);
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
