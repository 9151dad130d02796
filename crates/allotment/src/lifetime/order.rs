//! In which order things were retired, whichever shards they stand in.
//!
//! ```text
//!   shard 0   256 256 256 257 258         768 768
//!   shard 1                       512 512          1024      an order for each thing; equal ones stand side by side
//!   turns          256            512     768      1024      who finds that another shard had the last turn takes one
//! ```
//!
//! A turn is taken, and an order given, with the shard's lock held. Where one thing is retired after another, by whichever
//! thread, the second has a higher order or stands behind the first in the same shard; things that are retired at the
//! same time have orders in some sequence. So a single thread reads one number that nobody writes, and only threads that
//! take turns pay for an exchange.
//!
//! Who collects reads the [last turn](Turns::closed) first, then looks at one shard after the other, and takes only what
//! has an order up to that turn. Whatever was retired before something of that is there then: it was put in before a
//! later turn was taken than its own, which who collects has seen; or it stands in the same shard, before it.

use std::collections::VecDeque;

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use crate::sync::checked::AtomicU64;

/// Orders of a turn: each tied thing has one of its own, and so has each run of others. With 56 bits
/// left, a turn each nanosecond would last for two years.
const OF_A_TURN: u64 = 1 << 8;

/// Whose turn it is. Apart from what threads only read.
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

    /// Whether an order is of the last turn. A shard that asks it of its own order has that turn, since nobody else takes
    /// one that is its.
    #[inline]
    pub(super) fn is_of_last(&self, order: u64) -> bool {
        order.wrapping_sub(self.last.load(Relaxed)) < OF_A_TURN
    }

    /// The order of what is retired now into a shard whose last order was this.
    #[inline]
    pub(super) fn order(&self, last: u64) -> u64 {
        if self.is_of_last(last) { last } else { self.next() }
    }

    /// The order of what is retired now into a shard in which something has the order `last` already.
    #[inline]
    pub(super) fn order_above(&self, last: u64) -> u64 {
        self.order(above(last))
    }

    #[cold]
    fn next(&self) -> u64 {
        self.last.fetch_add(OF_A_TURN, AcqRel) + OF_A_TURN
    }

    /// The highest order of the last turn. What has a higher one may have been retired after something that is not there
    /// yet for who looks at shards now.
    pub(super) fn closed(&self) -> u64 {
        self.last.load(Acquire) + (OF_A_TURN - 1)
    }
}

/// The lowest order above another one that may be of the same turn. Where there is none, one that is of no turn, so that
/// the shard takes another turn: the next number may be the first of another shard's.
#[inline]
pub(super) fn above(order: u64) -> u64 {
    if order % OF_A_TURN == OF_A_TURN - 1 { 0 } else { order + 1 }
}

/// Things with the same order, one behind the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) order: u64,
    pub(super) count: usize,
}

/// What stands where, for [`arrange`].
#[derive(Debug, Default)]
pub(super) struct Places {
    /// With where each begins. Together they are all.
    spans: Vec<(Span, usize)>,
    len: usize,
    /// The order of what was noted last, where it has that alone.
    alone: Option<u64>,
    /// For each place, that of what belongs there.
    sources: Vec<usize>,
}

impl Places {
    /// Sees to room for so many more notes: how many of them come, is a matter of how late queues are.
    pub(super) fn reserve(&mut self, more: usize) {
        self.spans.reserve(more);
    }

    /// Notes what stands behind what was noted before.
    pub(super) fn push(&mut self, span: Span) {
        self.alone = None;
        self.spans.push((span, self.len));
        self.len += span.count;
    }

    /// The same of one thing that nothing shares its order with. Orders that follow each other without a gap are noted
    /// together, since nothing belongs between.
    pub(super) fn push_alone(&mut self, order: u64) {
        match self.spans.last_mut().filter(|_| self.alone.is_some_and(|last| last + 1 == order)) {
            Some((span, _)) => {
                span.count += 1;
                self.len += 1;
            }
            None => self.push(Span { order, count: 1 }),
        }
        self.alone = Some(order);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    pub(super) fn trim(&mut self) {
        self.spans.shrink_to_fit();
        self.sources.shrink_to_fit();
    }

    /// Puts what was noted in order, and forgets it.
    pub(super) fn arrange<T>(&mut self, items: &mut VecDeque<T>) {
        debug_assert_eq!(self.len, items.len());
        let Self { spans, sources, .. } = self;
        if !spans.is_sorted_by_key(|(span, _)| span.order) {
            spans.sort_unstable_by_key(|&(span, start)| (span.order, start));
            sources.reserve(items.capacity());
            sources.extend(spans.iter().flat_map(|&(span, start)| start..start + span.count));
            for first in 0..sources.len() {
                // Round the circle of places that begins here, until it is closed.
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
        self.alone = None;
    }
}

#[cfg(test)]
#[cfg(not(loom))]
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
            assert_eq!(next, last + 1, "nobody else takes a turn");
            next
        });
        // Whoever has the turn after this one has the next number.
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
            places.push_alone(order);
        }
        places.push(Span { order: 4, count: 1 });
        assert_eq!(places.spans.len(), 3);
        places.arrange(&mut items);
        assert_eq!(items.iter().collect::<String>(), "abcdefg");
    }
}
