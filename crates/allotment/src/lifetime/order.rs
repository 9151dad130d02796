//! The order in which objects were retired, across all shards.
//!
//! ```text
//!   shard 0   256 256 256 257 258         768 768
//!   shard 1                       512 512          1024      an order for each object; equal ones are neighbours
//!   turns          256            512     768      1024      a thread that finds another shard's turn takes the next
//! ```
//!
//! A shard takes a turn, and gives an order, with its lock held. If one object is retired after another, on any
//! thread, the second has a higher order, or follows the first in the same shard. Objects that are retired
//! concurrently have orders in some sequence. So a program that retires on one thread only reads one number that no
//! thread writes; only threads that alternate pay for an exchange.
//!
//! The collecting thread reads the [last turn](Turns::closed) first, then visits the shards one by one, and takes
//! only objects with an order up to that turn. Every object that was retired before one of these is then visible:
//! either it was pushed before a turn later than its own was taken, which the collecting thread has seen; or it is
//! in the same shard, further to the front.

use std::collections::VecDeque;

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use crate::sync::checked::AtomicU64;

/// Orders of a turn: each tied object has one of its own, and so has each run of untied objects. With 56 bits left,
/// a turn each nanosecond would last for two years.
const OF_A_TURN: u64 = 1 << 8;

/// The current turn. On cache lines of its own, since other fields are only read.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Turns {
    /// The first order of the last turn that was taken.
    last: AtomicU64,
}

impl Turns {
    pub(super) fn new() -> Self {
        Self { last: AtomicU64::new(OF_A_TURN) }
    }

    /// Returns whether an order belongs to the last turn. A shard that passes its own order has that turn, since no
    /// other shard uses the orders of its turns.
    #[inline]
    pub(super) fn is_of_last(&self, order: u64) -> bool {
        // An order below the turn wraps to a large number, so one comparison checks both ends.
        order.wrapping_sub(self.last.load(Relaxed)) < OF_A_TURN
    }

    /// Returns the order of an object that is retired now into a shard whose last order is `last`.
    #[inline]
    pub(super) fn order(&self, last: u64) -> u64 {
        if self.is_of_last(last) { last } else { self.next() }
    }

    /// Returns the order of an object that is retired now into a shard in which an object has the order `last`
    /// already.
    #[inline]
    pub(super) fn order_above(&self, last: u64) -> u64 {
        self.order(above(last))
    }

    #[cold]
    fn next(&self) -> u64 {
        self.last.fetch_add(OF_A_TURN, AcqRel) + OF_A_TURN
    }

    /// Returns the highest order of the last turn. An object with a higher order may have been retired after one
    /// that the collecting thread does not see yet.
    pub(super) fn closed(&self) -> u64 {
        self.last.load(Acquire) + (OF_A_TURN - 1)
    }
}

/// Returns the lowest order above `order` that may belong to the same turn. At the end of a turn it returns 0, an
/// order of no turn, so that the shard takes another turn: the next number may be the first of another shard's.
#[inline]
pub(super) fn above(order: u64) -> u64 {
    if order % OF_A_TURN == OF_A_TURN - 1 { 0 } else { order + 1 }
}

/// Consecutive objects with the same order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) order: u64,
    pub(super) count: usize,
}

/// The orders of a list of objects, for [`arrange`](Self::arrange).
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Spans with the index of their first object. Together they cover the list.
    spans: Vec<(Span, usize)>,
    len: usize,
    /// The order of the last object pushed, if it was pushed by [`push_single`](Self::push_single).
    single: Option<u64>,
    /// For each index, the index of the object that belongs there.
    sources: Vec<usize>,
}

impl Places {
    /// Reserves room for `more` spans. How many are pushed depends on how late the queues are, so the room is reserved
    /// for the worst case: a later call must not allocate.
    pub(super) fn reserve(&mut self, more: usize) {
        self.spans.reserve(more);
    }

    /// Reserves room to sort as many objects.
    pub(super) fn reserve_sort(&mut self, objects: usize) {
        self.sources.reserve(objects);
    }

    /// Adds a span behind those before.
    pub(super) fn push(&mut self, span: Span) {
        self.single = None;
        self.spans.push((span, self.len));
        self.len += span.count;
    }

    /// Adds one object with an order that no other object has. Consecutive orders without a gap share a span, since
    /// no other object belongs between them.
    pub(super) fn push_single(&mut self, order: u64) {
        match self.spans.last_mut().filter(|_| self.single.is_some_and(|last| last + 1 == order)) {
            Some((span, _)) => {
                span.count += 1;
                self.len += 1;
            }
            None => self.push(Span { order, count: 1 }),
        }
        self.single = Some(order);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    pub(super) fn trim(&mut self) {
        self.spans.shrink_to_fit();
        self.sources.shrink_to_fit();
    }

    /// Sorts the objects by order, and removes all spans.
    pub(super) fn arrange<T>(&mut self, items: &mut VecDeque<T>) {
        debug_assert_eq!(self.len, items.len());
        let Self { spans, sources, .. } = self;
        // One thread retires in order, so the usual list is sorted already; the check is cheap, a sort is not.
        if !spans.is_sorted_by_key(|(span, _)| span.order) {
            // By index second: objects of one order keep the sequence in which they were pushed, without a stable
            // sort, which would allocate.
            spans.sort_unstable_by_key(|&(span, start)| (span.order, start));
            sources.reserve(items.capacity());
            sources.extend(spans.iter().flat_map(|&(span, start)| start..start + span.count));
            for first in 0..sources.len() {
                // Follow the cycle of indices that begins here, so that each object is swapped at most once.
                let mut at = first;
                while sources[at] != first {
                    let from = sources[at];
                    items.swap(at, from);
                    sources[at] = at;
                    at = from;
                }
                sources[at] = at;
            }
            sources.clear();
        }
        spans.clear();
        self.len = 0;
        self.single = None;
    }
}

#[cfg(test)]
#[cfg(not(allotment_loom))]
mod tests {
    use super::*;

    #[test]
    fn what_was_retired_into_several_shards_is_put_in_order() {
        let mut places = Places::default();
        let mut items: VecDeque<_> = "dehabcfgij".chars().collect();
        for (order, count) in [(4, 2), (8, 1), (1, 3), (6, 2), (9, 2)] {
            places.push(Span { order, count });
        }
        places.arrange(&mut items);
        assert_eq!(items.iter().collect::<String>(), "abcdefghij");
        assert!(places.is_empty());
    }

    #[test]
    fn a_shard_keeps_its_turn_until_another_takes_one() {
        let turns = Turns::new();
        let first = turns.order(0);
        assert_eq!(turns.order(first), first);
        let second = turns.order(0);
        assert!(second > first && turns.closed() >= second && turns.closed() < turns.order(first));
    }

    #[test]
    fn orders_of_a_turn_that_are_used_up_are_followed_by_those_of_another() {
        let turns = Turns::new();
        let first = turns.order(0);
        let last = (0..1000).fold(first, |last, _| {
            let next = turns.order_above(last);
            assert_eq!(next, last + 1, "no other shard takes a turn");
            next
        });
        // The shard with the next turn has the next number.
        let used_up = last | (OF_A_TURN - 1);
        let other = turns.order(0);
        assert_eq!(other, used_up + 1);
        assert!(turns.order_above(used_up) > other);
    }

    #[test]
    fn things_whose_orders_follow_each_other_are_noted_together() {
        let mut places = Places::default();
        let mut items: VecDeque<_> = "efgabcd".chars().collect();
        for order in [7, 8, 9, 1, 2, 3] {
            places.push_single(order);
        }
        places.push(Span { order: 4, count: 1 });
        assert_eq!(places.spans.len(), 3);
        places.arrange(&mut items);
        assert_eq!(items.iter().collect::<String>(), "abcdefg");
    }
}
