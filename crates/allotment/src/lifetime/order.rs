//! The order in which objects were retired, across all shards.
//!
//! ```text
//!   shard 0   4096 4096 4096 4097 4098 ─┐            ┌──► 12288 12288
//!                                       ▼            │
//!   shard 1                         8448 8448 8448 ──┴───────────► 16640      an order for each object
//! ```
//!
//! Each shard has a turn, a number that no other shard ever has. Its objects have orders of that turn as long as it is
//! the highest of all turns; when an object finds a higher one, its shard begins a turn above all. So if one object is
//! retired after another, on any thread, the second has a higher order, or follows the first in the same shard: its
//! thread synchronized with that of the first, and so sees the first one's turn. Objects that are retired concurrently
//! have orders in some sequence. This is Lamport's clock ("Time, clocks, and the ordering of events in a distributed
//! system", 1978), which here advances only when shards alternate.
//!
//! A turn is written under its shard's lock and read by all others. So a thread that retires alone writes nothing that
//! others read, and no two threads write the same cache line.
//!
//! The collecting thread reads the [highest turn](Turns::closed) first, then visits the shards one by one, and takes
//! only objects with an order up to that turn. With an object it takes all that were retired before it. Those of the
//! same shard are further to the front. One of another shard has a lower turn, so it was there when its shard was visited:
//! after the visit it would have seen the highest turn, and be of a higher one, or of that one itself.
//!
//! # Cost
//!
//! An object costs a load for each shard in use. With `n` threads that retire all the time each load finds a line that
//! another processor has written, but the processor waits for all of them at once. For a counter that all write it would
//! wait until each of the others has had the line.

use std::collections::VecDeque;

use core::sync::atomic::Ordering::{AcqRel, Relaxed};

use super::tracker::rule_is_off;
use crate::sync::checked::{AtomicU64, AtomicUsize};
use crate::sync::shards::MOST_SHARDS;

/// Orders of a turn: each tied object has one of its own, and so has each run of untied objects.
const OF_A_TURN: u64 = 1 << 8;

/// Orders of one turn of each shard. With 52 bits left, a turn each 50 ns would last for seven years.
const OF_ALL: u64 = OF_A_TURN * MOST_SHARDS as u64;

/// The last turn of each shard, in the sequence in which shards were first used.
// On cache lines of its own, since other fields are only read.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Turns {
    /// How many shards are in use.
    used: AtomicUsize,
    last: Box<[Turn]>,
}

/// The first order of the last turn of a shard. On cache lines of its own: one shard writes it, all others read it.
#[derive(Debug)]
#[repr(align(128))]
struct Turn(AtomicU64);

/// The index of a shard's turn; none before its first object.
#[derive(Debug, Default)]
pub(super) struct Slot(Option<usize>);

impl Turns {
    /// Creates turns for as many shards.
    pub(super) fn new(shards: usize) -> Self {
        debug_assert!(shards <= MOST_SHARDS);
        Self { used: AtomicUsize::new(0), last: (0..shards).map(|_| Turn(AtomicU64::new(0))).collect() }
    }

    /// Returns whether several shards are in use.
    pub(super) fn are_shared(&self) -> bool {
        self.used.load(Relaxed) > 1
    }

    fn highest(&self) -> u64 {
        // Without a branch that depends on one, so that the processor waits for all loads at once.
        self.last
            .iter()
            .take(self.used.load(Relaxed))
            .fold(0, |highest, turn| highest.max(turn.0.load(Relaxed)))
    }

    /// Returns whether the turn of this order is the highest. The lock of its shard is held.
    #[inline]
    pub(super) fn is_of_last(&self, order: u64) -> bool {
        // A turn up to this order is the shard's own or a lower one.
        self.used.load(Relaxed) == 1 || self.highest() <= order || rule_is_off("turns")
    }

    /// Returns the order of an object that is retired now into a shard whose last order is `last`, 0 before the first one.
    /// The shard's lock is held.
    #[inline]
    pub(super) fn order(&self, slot: &mut Slot, last: u64) -> u64 {
        if last > 0 && self.is_of_last(last) { last } else { self.next(slot) }
    }

    /// Returns the order of an object that is retired now into a shard in which an object has the order `last`
    /// already. The shard's lock is held.
    #[inline]
    pub(super) fn order_above(&self, slot: &mut Slot, last: u64) -> u64 {
        self.order(slot, above(last))
    }

    #[cold]
    fn next(&self, slot: &mut Slot) -> u64 {
        // Either the collecting thread sees that the shard is in use, or this thread sees what that one has seen.
        let at = *slot.0.get_or_insert_with(|| self.used.fetch_add(1, AcqRel));
        let turn = (self.highest() / OF_ALL + 1) * OF_ALL + at as u64 * OF_A_TURN;
        // Relaxed: threads that retire afterwards see it as they see the object.
        self.last[at].0.store(turn, Relaxed);
        turn
    }

    /// Returns the highest order of the highest turn. An object with a higher order may have been retired after one
    /// that the collecting thread does not find.
    pub(super) fn closed(&self) -> u64 {
        let highest = self.highest();
        // After the loads above, and before the look for shards in use: the first object of a shard that is missed sees
        // the same turns, and begins one above. A load would not do that.
        self.used.fetch_add(0, AcqRel);
        highest + (OF_A_TURN - 1)
    }
}

/// Returns the lowest order above `order` that may belong to the same turn. At the end of a turn it returns 0, an
/// order of no turn, so that the shard begins another one: the next number may be the first of another shard's.
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
    fn a_shard_keeps_its_turn_until_another_begins_one() {
        let (turns, mut slots) = (Turns::new(2), [Slot::default(), Slot::default()]);
        let first = turns.order(&mut slots[0], 0);
        assert_eq!(turns.order(&mut slots[0], first), first);
        let second = turns.order(&mut slots[1], 0);
        let closed = turns.closed();
        assert!(first < second && second <= closed);
        let third = turns.order(&mut slots[0], first);
        assert!(closed < third, "what is retired after a seal is not of it");
        assert_eq!(turns.order(&mut slots[0], third), third);
        assert!(turns.order(&mut slots[1], second) > third);
    }

    #[test]
    fn no_two_shards_have_the_same_turn_even_if_neither_sees_the_other() {
        let orders = [0, 1].map(|at| {
            let turns = Turns::new(2);
            turns.used.store(2, Relaxed);
            turns.order(&mut Slot(Some(at)), 0)
        });
        assert_eq!(
            orders[0] + OF_A_TURN,
            orders[1],
            "the turn of the second is above all orders of the first"
        );
    }

    #[test]
    fn orders_of_a_turn_that_are_used_up_are_followed_by_those_of_another() {
        let (turns, mut slots) = (Turns::new(2), [Slot::default(), Slot::default()]);
        let first = turns.order(&mut slots[0], 0);
        let used_up = (1..OF_A_TURN).fold(first, |last, _| {
            let next = turns.order_above(&mut slots[0], last);
            assert_eq!(next, last + 1, "no other shard begins a turn");
            next
        });
        let alone = turns.order_above(&mut slots[0], used_up);
        assert_eq!(alone, first + OF_ALL);
        let other = turns.order(&mut slots[1], 0);
        assert!(other > alone && turns.order_above(&mut slots[0], alone) > other);
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
