//! What threads retired and nobody has sealed yet: a part of a [`ReleaseQueue`](super::ReleaseQueue).
//!
//! ```text
//!   items   a b c d e f g         in the order in which they came
//!   runs    [3: a b][7: c d e]    as many items with the same stamp, and the same order
//!   last    [8: f g]              the run that grows
//!   tied    x y                   an order each, between those of runs
//! ```

use std::collections::VecDeque;

use crate::device::TimelinePoint;

use super::order::{Span, Turns, above};
use super::registry::RecordingId;

/// Items that go together, and what is known of them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Run<M> {
    /// When they may go.
    pub(super) mark: M,
    pub(super) count: usize,
    /// Bytes that they stand for, by the word of who retired them.
    pub(super) bytes: u64,
    /// When the first of them was retired, by the tracker's coarse clock.
    pub(super) since: u64,
}

/// What is known of things that were retired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    /// The clock, as it was then.
    stamp: u64,
    /// Among all that was retired.
    order: u64,
}

impl Mark {
    fn is_within(self, horizon: u64, closed: u64) -> bool {
        self.stamp <= horizon && self.order <= closed
    }
}

/// What something waits for that does not wait for everybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tie {
    /// A recording, and its submission.
    Recording(RecordingId),
    /// A point.
    Point(TimelinePoint),
}

/// Something that is tied.
#[derive(Debug)]
pub(super) struct Tied<T> {
    pub(super) tie: Tie,
    pub(super) order: u64,
    pub(super) bytes: u64,
    pub(super) since: u64,
    pub(super) item: T,
}

/// Items in the order in which they came, and runs of them.
#[derive(Debug)]
pub(super) struct Shard<T> {
    items: VecDeque<T>,
    /// Their counts, with that of `last`, add up to the number of items. Stamps and orders grow from run to run.
    runs: VecDeque<Run<Mark>>,
    last: Run<Mark>,
    /// Their orders grow.
    pub(super) tied: Vec<Tied<T>>,
    /// The order of the run that grows, or one that the next thing may have.
    order: u64,
    /// There is a last run, and nothing came after it.
    grows: bool,
}

impl<T> Shard<T> {
    pub(super) fn new() -> Self {
        let (items, runs) = (VecDeque::new(), VecDeque::new());
        Self { items, runs, last: Run::default(), tied: Vec::new(), order: 0, grows: false }
    }

    /// The stamp is one that was read with the lock held, so that stamps grow.
    #[inline]
    pub(super) fn push(&mut self, turns: &Turns, stamp: u64, bytes: u64, now: impl FnOnce() -> u64, item: T) {
        // What grows the last run takes three comparisons.
        if !self.grows || stamp != self.last.mark.stamp || !turns.is_of_last(self.order) {
            self.begin_run(turns, stamp, now());
        }
        self.last.count += 1;
        self.last.bytes += bytes;
        self.items.push_back(item);
    }

    #[cold]
    fn begin_run(&mut self, turns: &Turns, stamp: u64, now: u64) {
        self.order = turns.order(self.order);
        let mark = Mark { stamp, order: self.order };
        if self.last.count > 0 {
            self.runs.push_back(self.last);
        }
        self.last = Run { mark, count: 0, bytes: 0, since: now };
        self.grows = true;
    }

    pub(super) fn tie(&mut self, turns: &Turns, tie: Tie, bytes: u64, since: u64, item: T) {
        let mut order = turns.order(self.order);
        if order == self.last.mark.order {
            order = turns.order_above(order);
        }
        // What follows comes after it.
        self.order = above(order);
        self.grows = false;
        self.tied.push(Tied { tie, order, bytes, since, item });
    }

    /// Takes the items with stamps up to `horizon` and orders up to `closed` out. Returns how many there are, and about
    /// them.
    pub(super) fn take_sealed(
        &mut self,
        horizon: u64,
        closed: u64,
        to: &mut VecDeque<T>,
        spans: &mut VecDeque<Span>,
    ) -> Option<Run<()>> {
        let mut sealed: Option<Run<()>> = None;
        let mut add = |run: &Run<Mark>| {
            let (order, count) = (run.mark.order, run.count);
            match spans.back_mut().filter(|last| last.order == order && sealed.is_some()) {
                Some(last) => last.count += count,
                None => spans.push_back(Span { order, count }),
            }
            let sealed = sealed.get_or_insert(Run { mark: (), count: 0, bytes: 0, since: run.since });
            sealed.count += count;
            sealed.bytes += run.bytes;
        };
        while let Some(run) = self.runs.front().filter(|run| run.mark.is_within(horizon, closed)) {
            add(run);
            self.runs.pop_front();
        }
        if self.runs.is_empty() && self.last.count > 0 && self.last.mark.is_within(horizon, closed) {
            add(&self.last);
            self.last.count = 0;
            self.last.bytes = 0;
            self.grows = false;
        }
        if let Some(sealed) = &sealed {
            move_front(&mut self.items, sealed.count, to);
        }
        sealed
    }

    /// Takes what is tied with orders up to `closed` out.
    pub(super) fn take_tied(&mut self, closed: u64, to: &mut Vec<Tied<T>>) {
        match self.tied.last() {
            Some(last) if last.order <= closed => to.append(&mut self.tied),
            _ => to.extend(self.tied.drain(..self.tied.partition_point(|tied| tied.order <= closed))),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty() && self.tied.is_empty()
    }

    /// All runs.
    pub(super) fn runs(&self) -> impl Iterator<Item = &Run<Mark>> {
        let last = (self.last.count > 0).then_some(&self.last);
        self.runs.iter().chain(last)
    }

    pub(super) fn check_invariants(&self) {
        assert_eq!(self.runs().map(|run| run.count).sum::<usize>(), self.items.len());
        let mut pairs = self.runs().map(|run| run.mark).zip(self.runs().skip(1).map(|run| run.mark));
        let grow = |(a, b): (Mark, Mark)| a.stamp <= b.stamp && a.order <= b.order && a != b;
        assert!(pairs.all(grow), "stamps and orders grow");
        assert!(self.tied.is_sorted_by_key(|tied| tied.order));
    }

    /// Gives room back.
    pub(super) fn trim(&mut self) {
        self.items.shrink_to_fit();
        self.runs.shrink_to_fit();
        self.tied.shrink_to_fit();
    }

    /// Takes everything out, whatever it waits for.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = T> + use<T> {
        self.runs.clear();
        self.last = Run::default();
        self.grows = false;
        let tied = core::mem::take(&mut self.tied).into_iter().map(|tied| tied.item);
        core::mem::take(&mut self.items).into_iter().chain(tied)
    }
}

/// Moves the first `count` items to the end of another queue, without touching each where all of them move, nothing
/// stands there, and there is no less room here. That queue has no less room than this one afterwards, and neither has
/// less than it had: which way things go is a matter of how late queues are, and a change must not cost anything.
pub(super) fn move_front<T>(from: &mut VecDeque<T>, count: usize, to: &mut VecDeque<T>) {
    if count == 0 {
        return;
    }
    if count == from.len() && to.is_empty() && from.capacity() >= to.capacity() {
        core::mem::swap(from, to);
        make_room(from, to.capacity());
        return;
    }
    make_room(to, from.capacity());
    if count < from.len() {
        to.extend(from.drain(..count));
    } else {
        to.append(from);
    }
}

/// Sees to room for so many items, those that are there included.
pub(super) fn make_room<T>(items: &mut VecDeque<T>, room: usize) {
    if items.capacity() < room {
        items.reserve_exact(room - items.len());
    }
}
