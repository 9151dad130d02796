//! A block from its first byte to its last: which bytes are free, and which allocations have the others.

use core::iter::Peekable;
use std::collections::btree_set;

use super::{AllocationKey, Block, Live, State};

/// A part of a block: free, or of allocations that share bytes with each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span<'a> {
    /// Bytes from the start of the block.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// The allocations, by offset. None where the span is free; several where allocations alias.
    pub allocations: Vec<&'a Live>,
}

impl Span<'_> {
    /// Returns true where no allocation has the bytes.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.allocations.is_empty()
    }
}

/// The spans of a block, by offset: together they are the whole block. Neighbours are never both free.
///
/// O(allocations of the block). Allocations of no bytes are in no span.
#[derive(Clone, Debug)]
pub struct Spans<'a> {
    state: &'a State,
    rest: Peekable<btree_set::Iter<'a, (u64, AllocationKey)>>,
    /// The spans before it have been returned.
    offset: u64,
    size: u64,
}

impl State {
    /// Returns the spans of a block of this state.
    #[must_use]
    pub fn spans<'a>(&'a self, block: &'a Block) -> Spans<'a> {
        Spans { state: self, rest: block.allocations.iter().peekable(), offset: 0, size: block.size }
    }
}

impl<'a> Spans<'a> {
    /// Returns the next allocation that begins before `end`, and where it ends.
    fn next_before(&mut self, end: u64) -> Option<(u64, &'a Live)> {
        while let Some((_, key)) = self.rest.next_if(|(offset, _)| *offset < end) {
            if let Some(live) = self.state.allocations.get(key).filter(|live| live.is.occupied > 0) {
                // An exchange in a recording that contradicts itself may lead beyond the block.
                return Some((live.is.offset.saturating_add(live.is.occupied).min(self.size), live));
            }
        }
        None
    }

    /// Returns where the next allocation begins, or the end of the block.
    fn next_begin(&mut self) -> u64 {
        while let Some((offset, key)) = self.rest.peek() {
            if self.state.allocations.get(key).is_some_and(|live| live.is.occupied > 0) {
                return (*offset).min(self.size);
            }
            self.rest.next();
        }
        self.size
    }
}

impl<'a> Iterator for Spans<'a> {
    type Item = Span<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let offset = self.offset;
        let mut end = self.next_begin();
        let mut allocations = Vec::new();
        if end <= offset {
            // The first takes its bytes, and each that begins within them joins it.
            end = offset.saturating_add(1).min(self.size);
            while let Some((until, live)) = self.next_before(end) {
                end = end.max(until);
                allocations.push(live);
            }
        }
        if end <= offset {
            return None;
        }
        self.offset = end;
        Some(Span { offset, size: end - offset, allocations })
    }
}
