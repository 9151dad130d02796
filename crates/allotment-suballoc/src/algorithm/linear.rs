//! A stack, two stacks that grow towards each other, or a ring, depending on how the block is used.
//!
//! Ranges are allocated from one free region, the *gap*: ascending from its start (the lower side) or
//! descending from its end (the upper side). A freed region that touches the gap is merged into it,
//! together with the holes behind it:
//!
//! ```text
//!   stack          │ A │ B │ C │░░░░░ gap ░░░░░░░░░│    free C: its region is merged into the gap
//!   double stack   │ A │ B │░░░░░ gap ░░░░░│ Y │ X │    lower A, B; upper X, Y
//!   ring           │ D │ E │░ gap ░│ B │ C │  hole │    wrapped: free B, the oldest, and the gap grows
//! ```
//!
//! When the gap at the end of the block is too small and the start of the block is free, the gap moves
//! there: the stack has become a ring. That happens only while the upper side is empty. A hole that does
//! not touch the gap is not used until it does.
//!
//! # An example
//!
//! A ring of 100 units, with `A` and `B` of 40 units each:
//!
//! ```text
//!               0                40               80      100
//!   before      │       A        │       B        │░ gap ░│
//!   free A      │      hole      │       B        │░ gap ░│    `B` separates the hole from the gap
//!   allocate 30 │     C     │gap │       B        │ hole  │    20 units are too few: the gap moves to the hole
//!   free B      │     C     │░░░░░░░░░░░ gap ░░░░░░░░░░░░░│    `B` touches the gap and the old gap, so all merge
//! ```
//!
//! # Invariants
//!
//! 1. The gap is a free region of the chain, and remains one even if it is empty, to mark its position.
//! 2. No two free regions are neighbours.
//! 3. `uppers` counts the used regions that were allocated from the upper side; they all lie above the gap.
//!
//! # Cost
//!
//! O(1) for every operation. A free finds its neighbours by the chain, so there is no search as in designs
//! that keep the ranges in sorted vectors.

use super::chained::Policy;
use crate::chain::{Chain, NONE, Resize, State};
use crate::{AllocateError, GrowError, Request, Side};

/// The mark in `link[1]` of a used node that was allocated from the upper side; [`NONE`] on the lower side.
const UPPER: u32 = 1;

#[derive(Clone, Debug)]
pub(crate) struct Linear {
    gap: u32,
    uppers: u32,
}

impl Linear {
    /// Returns the hole to which the gap can move: one at the start of the block, while the gap is at its end.
    fn wrapped_gap(&self, chain: &Chain) -> Option<u32> {
        // The gap is the last region only if the upper side is empty, so a double stack never wraps. A gap that has
        // wrapped already is not at the end, so it does not move a second time before it has reached the end again.
        let first = chain.first();
        (first != self.gap && chain.last() == self.gap && chain.node(first).is_free()).then_some(first)
    }

    /// Returns the gap that serves a request on the lower side.
    fn find_lower(&self, chain: &Chain, request: &Request) -> Option<u32> {
        let fits = |&gap: &u32| {
            let node = chain.node(gap);
            request.alignment.align_up(node.offset) + request.size <= node.end()
        };
        // The present gap first: a stack wraps only when it has to, since wrapping makes the upper side unusable.
        Some(self.gap).filter(fits).or_else(|| self.wrapped_gap(chain).filter(fits))
    }

    /// Returns the offset at which a request on the upper side is placed.
    fn find_upper(&self, chain: &Chain, request: &Request) -> Option<u64> {
        let node = chain.node(self.gap);
        let start = request.alignment.align_down(node.end().checked_sub(request.size)?);
        (start >= node.offset).then_some(start)
    }

    fn allocate_upper(&mut self, chain: &mut Chain, request: &Request) -> Option<u32> {
        let start = self.find_upper(chain, request)?;
        // Padding lies behind the range, between it and the previous upper range. It is cut first, so that the gap's end
        // is the range's end.
        let padding = chain.node(self.gap).end() - (start + request.size);
        let padding = (padding != 0).then(|| chain.split_back(self.gap, padding));
        let index = chain.split_back(self.gap, request.size);
        chain.mark_used_with(index, padding);
        chain.set_link(index, 1, UPPER);
        self.uppers += 1;
        Some(index)
    }

    /// Returns `true` if the gap has wrapped to the start, so that the space before the end is not one stack.
    fn is_ring(&self, chain: &Chain) -> bool {
        self.uppers == 0 && chain.last() != self.gap
    }

    /// Merges the free region `index` with all free regions that it touches. The gap keeps its node.
    fn merge_with_free_neighbours(&mut self, chain: &mut Chain, mut index: u32) {
        debug_assert!(chain.node(index).is_free(), "only free regions merge");
        // A loop, because a freed range and its padding are two free regions, and a third may lie beyond them. The merged
        // region takes the gap's node wherever the gap takes part, so that `self.gap` need not change.
        loop {
            let before = chain.node(index).before;
            if before == NONE || !chain.node(before).is_free() {
                break;
            }
            if before == self.gap {
                chain.absorb_after(before);
                index = before;
            } else {
                chain.absorb_before(index);
            }
        }
        loop {
            let after = chain.node(index).after;
            if after == NONE || !chain.node(after).is_free() {
                break;
            }
            if after == self.gap {
                chain.absorb_before(after);
                index = after;
            } else {
                chain.absorb_after(index);
            }
        }
        debug_assert!(chain.node(self.gap).is_free(), "the gap is a free region");
    }
}

impl Policy for Linear {
    fn new(chain: &mut Chain) -> Self {
        Self { gap: chain.first(), uppers: 0 }
    }

    fn allocate(&mut self, chain: &mut Chain, request: &Request) -> Result<Option<u32>, AllocateError> {
        match request.side {
            Side::Lower => Ok(self.find_lower(chain, request).map(|gap| self.take(chain, gap, request))),
            Side::Upper if self.is_ring(chain) => Err(AllocateError::RingInUse),
            Side::Upper => Ok(self.allocate_upper(chain, request)),
        }
    }

    fn find(&self, chain: &Chain, request: &Request) -> Option<u32> {
        match request.side {
            Side::Lower => self.find_lower(chain, request),
            Side::Upper if self.is_ring(chain) => None,
            Side::Upper => self.find_upper(chain, request).map(|_| self.gap),
        }
    }

    fn find_below(&self, _chain: &Chain, _request: &Request, _limit: u64) -> Option<u32> {
        None
    }

    fn take_at(&mut self, _chain: &mut Chain, _index: u32, _offset: u64, _size: u64) -> Option<u32> {
        None
    }

    /// Takes the front of `gap`, for the lower side; `gap` becomes the block's gap if it is not yet.
    fn take(&mut self, chain: &mut Chain, gap: u32, request: &Request) -> u32 {
        let old = core::mem::replace(&mut self.gap, gap);
        debug_assert!(chain.node(gap).is_free(), "the gap is a free region");
        // The old gap becomes an ordinary hole, and only the gap may be empty.
        if old != gap && chain.node(old).size == 0 {
            chain.remove_empty(old);
        }
        // Unlike in TLSF, the units before an aligned offset become padding and not a free region: nothing could be
        // allocated there before the range is freed, so they would only count as free.
        let offset = chain.node(gap).offset;
        let padding = request.alignment.align_up(offset) - offset;
        let padding = (padding != 0).then(|| chain.split_front(gap, padding));
        let index = chain.split_front(gap, request.size);
        chain.mark_used_with(index, padding);
        index
    }

    fn free(&mut self, chain: &mut Chain, index: u32) {
        let [padding, side] = chain.node(index).link;
        if side == UPPER {
            debug_assert_ne!(self.uppers, 0, "each upper range was counted");
            self.uppers -= 1;
        }
        chain.mark_free(index);
        if padding != NONE {
            // Merged on its own: an upper range that was cut short no longer touches its padding.
            chain.mark_free(padding);
            self.merge_with_free_neighbours(chain, padding);
            // The padding may have absorbed the range, or the gap both; then nothing is left to merge.
            if chain.node(index).state() == State::Vacant {
                return;
            }
        }
        self.merge_with_free_neighbours(chain, index);
    }

    fn resize(&mut self, chain: &mut Chain, index: u32, size: u64) -> Result<(), u64> {
        match chain.begin_resize(index, size)? {
            Resize::Unchanged => {}
            Resize::Shrunk { rest } => self.merge_with_free_neighbours(chain, rest),
            // A hole that the range fills is absorbed, but the gap remains even if it is empty.
            Resize::Grow { more, room } if more == room && chain.node(index).after != self.gap => {
                chain.absorb_after(index);
            }
            Resize::Grow { more, .. } => chain.push_border(index, more),
        }
        Ok(())
    }

    fn grow(&mut self, chain: &mut Chain, size: u64) -> Result<(), GrowError> {
        if self.uppers != 0 {
            return Err(GrowError::UpperInUse { ranges: self.uppers });
        }
        let index = chain.append(size);
        self.merge_with_free_neighbours(chain, index);
        Ok(())
    }

    fn largest_free(&self, chain: &Chain) -> u64 {
        let wrapped = self.wrapped_gap(chain).map_or(0, |start| chain.node(start).size);
        chain.node(self.gap).size.max(wrapped)
    }

    fn largest_free_at_most(&self, chain: &Chain) -> u64 {
        self.largest_free(chain)
    }

    fn check_invariants(&self, chain: &Chain) {
        assert!(chain.node(self.gap).is_free(), "the gap is a free region");
        let (mut uppers, mut above_gap) = (0, false);
        let mut index = chain.first();
        while index != NONE {
            let node = chain.node(index);
            above_gap |= index == self.gap;
            if node.is_free() {
                assert!(node.size != 0 || index == self.gap, "only the gap may be empty");
                let after = node.after;
                assert!(after == NONE || !chain.node(after).is_free(), "no two free regions touch");
            }
            if node.state() == State::Used && node.link[1] == UPPER {
                assert!(above_gap, "upper ranges lie above the gap");
                uppers += 1;
            }
            index = node.after;
        }
        assert_eq!(uppers, self.uppers);
    }
}
