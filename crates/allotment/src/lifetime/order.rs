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

/// Orders of a turn: those of a shard that alternates between tied and other things, which differ in theirs. With 56 bits
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

    /// The order of what is retired now into a shard whose last order was this.
    #[inline]
    pub(super) fn order(&self, last: u64) -> u64 {
        // Nobody else takes a turn that is this shard's, so an order of the last turn says whose it is.
        if last.wrapping_sub(self.last.load(Relaxed)) < OF_A_TURN { last } else { self.next() }
    }

    /// Two orders that differ from what the shard has had, the lower one.
    #[inline]
    pub(super) fn pair(&self, last: u64) -> u64 {
        let order = self.order(last);
        if order % OF_A_TURN < OF_A_TURN - 2 { order + 1 } else { self.next() }
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
        self.spans.push((span, self.len));
        self.len += span.count;
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
        let mut last = turns.order(0);
        for _ in 0..1000 {
            let tied = turns.pair(last);
            assert!(tied > last && turns.order(tied + 1) == tied + 1);
            last = tied + 1;
        }
    }
}
