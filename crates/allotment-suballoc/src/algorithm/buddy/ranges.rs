//! What a block asks of its algorithm.

use super::chain::Node;
use super::{Buddy, cell_for, first_cell, order_of};
use crate::algorithm::{NONE, Place, Ranges, State, Taken, Tally};
use crate::read_ahead::Reach;
use crate::{Algorithm, AllocateError, GrowError, Request, StackSide};

impl Ranges for Buddy {
    fn allocate(&mut self, request: &Request) -> Result<Option<Taken>, AllocateError> {
        if request.side == StackSide::Upper {
            return Err(AllocateError::OneSided { algorithm: Algorithm::Buddy });
        }
        let found = self.search(request);
        Ok(found.map(|index| self.take(index, request)))
    }

    fn room_for(&self, request: &Request) -> Option<u64> {
        let found = if request.side == StackSide::Lower { self.search(request) } else { None };
        found.map(|found| self.chain.node(found).size)
    }

    fn find_below(&mut self, request: &Request, limit: u64) -> Option<u32> {
        // The lists are in no order, so every free cell that is large enough is looked at: this is for moves, not for requests.
        // A range begins at the front of its cell, and `take` splits off upper halves, so the offset of the free cell is
        // that of the range. Its padding has to end below the limit as well.
        let cell = cell_for(request.size);
        let orders = core::iter::successors(self.lists.first_from(order_of(cell)), |&order| {
            self.lists.first_from(order + 1)
        });
        orders
            .flat_map(|order| self.lists.iter(&self.chain, order))
            .filter(|&index| {
                let offset = self.chain.node(index).offset;
                request.alignment.is_aligned(offset) && offset + cell <= limit
            })
            .min_by_key(|&index| self.chain.node(index).offset)
    }

    fn take(&mut self, index: u32, request: &Request) -> Taken {
        self.occupy(index, self.chain.node(index).offset, request.size)
    }

    fn take_at(&mut self, index: u32, offset: u64, size: u64) -> Option<Taken> {
        let cell = cell_for(size);
        // A cell begins at a multiple of its size, and lies in a free one whole or not at all.
        let is_cell = offset & (cell - 1) == 0 && self.chain.node(index).size >= cell;
        is_cell.then(|| self.occupy(index, offset, size))
    }

    fn free(&mut self, index: u32) {
        //   │ range │ pad │░ buddy ░│   ──►   │    cell    │░ buddy ░│   ──►   │░░░░░░ cell ░░░░░░│
        let has_padding = self.chain.node(index).link[0] != NONE;
        self.chain.mark_free(index);
        if has_padding {
            // Without the padding, the region is not a cell and has no buddy.
            self.chain.absorb_after(index);
        }
        self.merge_with_buddies(index);
    }

    fn resize(&mut self, index: u32, size: u64) -> Result<(), u64> {
        let Node { offset, size: old, link: [padding, _], .. } = *self.chain.node(index);
        if size == old {
            return Ok(());
        }
        // From 5 to 12 units, and from 12 to 3:
        //   │ range 5 │ pad 3 │░░░░░ 8 ░░░░░│   ──►   │    range 12    │ pad 4 │
        //   │    range 12    │ pad 4 │        ──►   │ range 3 │pad│░░ 4 ░░│░░░░░ 8 ░░░░░│
        // Refused before anything changes: cells that were absorbed by then would have to be cut again.
        let wanted = cell_for(size);
        let reachable = self.reachable(index, wanted);
        if reachable < wanted {
            return Err(reachable);
        }
        // The region first takes its whole cell, padding included, so that what follows deals with cells only. Then it
        // absorbs the buddies that it needs or frees the halves that it does not, and pads the rest.
        if padding != NONE {
            self.chain.absorb_after(index);
            self.chain.set_link(index, 0, NONE);
        }
        while self.chain.node(index).size < wanted {
            let after = self.chain.node(index).after;
            debug_assert_eq!(
                self.chain.node(after).size,
                self.chain.node(index).size,
                "the buddy is as large"
            );
            self.remove(after);
            self.chain.absorb_after(index);
        }
        self.cut(index, offset, wanted);
        self.pad(index, size);
        Ok(())
    }

    fn grow(&mut self, more: u64) -> Result<(), GrowError> {
        // The new units are appended as the largest cells that fit their offsets. A cell may complete a pair with the
        // last free cell of the old end, and the pair another one.
        let end = self.chain.size() + more;
        while self.chain.size() < end {
            let cell = first_cell(self.chain.size(), end - self.chain.size());
            let index = self.chain.append(cell);
            self.merge_with_buddies(index);
        }
        Ok(())
    }

    fn clear(&mut self) -> bool {
        self.chain.clear();
        self.tile();
        true
    }

    fn largest_free(&self) -> u64 {
        self.lists.last().map_or(0, |order| 1 << order)
    }

    fn largest_free_at_most(&self) -> u64 {
        self.largest_free()
    }

    fn used(&self, index: u32, serial: u64) -> bool {
        self.chain.used(index, serial)
    }

    fn serial(&self, index: u32) -> u64 {
        self.chain.node(index).serial()
    }

    fn place(&self, index: u32) -> Place {
        let node = self.chain.node(index);
        let Node { offset, size, before, after, .. } = *node;
        Place { offset, size, state: node.state(), before, after }
    }

    fn first(&self) -> u32 {
        self.chain.first()
    }

    fn last(&self) -> u32 {
        self.chain.last()
    }

    fn tally(&self) -> Tally {
        *self.chain.tally()
    }

    fn size(&self) -> u64 {
        self.chain.size()
    }

    fn capacity(&self) -> usize {
        self.chain.capacity()
    }

    fn capacity_with(&self, ranges: usize) -> usize {
        // The padding behind a range is a region of its own.
        self.capacity() + 2 * ranges
    }

    fn is_full(&self) -> bool {
        self.chain.is_full()
    }

    fn reserve(&mut self, regions: usize) {
        // As above.
        self.chain.reserve(2 * regions);
    }

    fn shrink(&mut self) {
        // An empty block has one node for each cell that tiles it; which ones these are is a matter of what was freed last.
        if self.chain.tally().used_count == 0 {
            self.clear();
        }
        self.chain.shrink();
    }

    fn read_around(&self, index: u32, reach: Reach) -> u64 {
        let node = self.chain.node(index);
        let listed = |index: &u32| *index != NONE;
        let neighbours = [node.before, node.after].into_iter().filter(listed);
        let neighbours = neighbours.map(|index| self.chain.node(index));
        match reach {
            Reach::Range => node.size,
            Reach::Neighbours => neighbours.fold(0, |sum, neighbour| sum ^ neighbour.size),
            Reach::Lists => {
                let beside = neighbours.filter(|neighbour| neighbour.is_free()).flat_map(|free| free.link);
                beside.filter(listed).fold(0, |sum, index| sum ^ self.chain.node(index).size)
            }
        }
    }

    fn check_invariants(&self) {
        self.chain.check_invariants();
        self.lists.check_invariants(&self.chain);
        let mut index = self.chain.first();
        while index != NONE {
            let node = self.chain.node(index);
            match node.state() {
                State::Free => {
                    assert!(node.size.is_power_of_two() && node.offset & (node.size - 1) == 0);
                    let after = node.after;
                    let buddy = node.offset ^ node.size;
                    assert!(
                        after == NONE || buddy < node.offset || !self.is_free_cell(after, buddy, node.size),
                        "free buddies are merged"
                    );
                }
                State::Used => {
                    let cell = self.cell_of(index);
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
