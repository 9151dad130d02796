//! A stack, two stacks that grow towards each other, or a ring, whichever way the block is used.
//!
//! One free region, the *gap*, is where ranges are taken from: ascending from its start (the lower
//! side), descending from its end (the upper side). A freed region that touches the gap joins it,
//! together with the holes behind it, and that is all there is to it:
//!
//! ```text
//!   stack          │ A │ B │ C │░░░░░ gap ░░░░░░░░░│    free C, and the gap takes it back
//!   double stack   │ A │ B │░░░░░ gap ░░░░░│ Y │ X │    lower A, B; upper X, Y
//!   ring           │ D │ E │░ gap ░│ B │ C │  hole │    wrapped: free B, the oldest, and the gap grows
//! ```
//!
//! When the gap at the end of the block is too small and the start of the block is free, the gap moves
//! there: the stack has become a ring. That happens only when nothing is on the upper side. A hole that
//! does not touch the gap waits until it does.
//!
//! # Invariants
//!
//! 1. The gap is a free region of the chain, and stays one even when it is empty, to mark its place.
//! 2. No two free regions are neighbours.
//! 3. `uppers` counts the used regions that were taken from the upper side; they all lie above the gap.
//!
//! # Cost
//!
//! O(1) for everything. A free finds its neighbours by the chain, so there is no search as in designs
//! that keep the ranges in sorted vectors.

use super::Policy;
use crate::chain::{Chain, NONE, State};
use crate::{AllocateError, GrowError, Request, Side};

/// `link[1]` of a used node that was taken from the upper side; [`NONE`] on the lower side.
const UPPER: u32 = 1;

#[derive(Clone, Debug)]
pub(crate) struct Linear {
    gap: u32,
    uppers: u32,
}

impl Linear {
    pub(crate) fn new(chain: &mut Chain) -> Self {
        Self { gap: chain.first(), uppers: 0 }
    }

    /// Where the gap could move: a hole at the start of the block, while the gap is at its end.
    fn wrapped_gap(&self, chain: &Chain) -> Option<u32> {
        let first = chain.first();
        (first != self.gap && chain.last() == self.gap && chain.node(first).is_free()).then_some(first)
    }

    /// In which gap a request on the lower side would stand.
    fn find_lower(&self, chain: &Chain, request: &Request) -> Option<u32> {
        let fits = |&gap: &u32| {
            let node = chain.node(gap);
            request.alignment.align_up(node.offset) + request.size <= node.end()
        };
        Some(self.gap).filter(fits).or_else(|| self.wrapped_gap(chain).filter(fits))
    }

    /// Where a request on the upper side would stand.
    fn find_upper(&self, chain: &Chain, request: &Request) -> Option<u64> {
        let node = chain.node(self.gap);
        let start = request.alignment.align_down(node.end().checked_sub(request.size)?);
        (start >= node.offset).then_some(start)
    }

    fn allocate_upper(&mut self, chain: &mut Chain, request: &Request) -> Option<u32> {
        let start = self.find_upper(chain, request)?;
        let padding = chain.node(self.gap).end() - (start + request.size);
        let padding = (padding != 0).then(|| chain.split_back(self.gap, padding));
        let index = chain.split_back(self.gap, request.size);
        chain.mark_used_with(index, padding);
        chain.set_link(index, 1, UPPER);
        self.uppers += 1;
        Some(index)
    }

    /// True when the gap was moved to the start, and so the space before the end is not one stack.
    fn is_ring(&self, chain: &Chain) -> bool {
        self.uppers == 0 && chain.last() != self.gap
    }

    /// Joins the free region `index` with all free regions that it touches; the gap stays the gap.
    fn settle(&mut self, chain: &mut Chain, mut index: u32) {
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
    }
}

impl Policy for Linear {
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

    /// For the lower side: the front of the gap, which moves to the start of the block where it must.
    fn take(&mut self, chain: &mut Chain, gap: u32, request: &Request) -> u32 {
        let old = core::mem::replace(&mut self.gap, gap);
        if old != gap && chain.node(old).size == 0 {
            chain.remove_empty(old);
        }
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
            self.uppers -= 1;
        }
        chain.mark_free(index);
        if padding != NONE {
            // Settled by itself, since a range that was cut short no longer touches its padding.
            chain.mark_free(padding);
            self.settle(chain, padding);
            if chain.node(index).state() == State::Vacant {
                return;
            }
        }
        self.settle(chain, index);
    }

    fn resize(&mut self, chain: &mut Chain, index: u32, size: u64) -> Result<(), u64> {
        let current = chain.node(index).size;
        if size <= current {
            if size < current {
                let rest = chain.split_back(index, current - size);
                self.settle(chain, rest);
            }
            return Ok(());
        }
        let (more, room) = (size - current, chain.free_after(index));
        if more > room {
            return Err(current + room);
        }
        if more == room && chain.node(index).after != self.gap {
            chain.absorb_after(index);
        } else {
            chain.push_border(index, more);
        }
        Ok(())
    }

    fn grow(&mut self, chain: &mut Chain, size: u64) -> Result<(), GrowError> {
        if self.uppers != 0 {
            return Err(GrowError::UpperInUse { ranges: self.uppers });
        }
        let index = chain.append(size);
        self.settle(chain, index);
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
