//! A shard of a [`ReleaseQueue`](super::ReleaseQueue): objects that threads retired and that are not sealed yet.
//!
//! ```text
//!   items   a b c d e f g         in the order in which they were retired
//!   runs    [3: a b][7: c d e]    consecutive items with the same stamp and the same order
//!   last    [8: f g]              the run that is growing
//!   tied    x y                   an order each, between those of the runs
//! ```

use std::collections::VecDeque;

use crate::device::TimelinePoint;

use super::order::{Span, Turns, above};
use super::registry::RecordingId;

/// Consecutive items that are released together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Run<M> {
    /// The condition for their release.
    pub(super) mark: M,
    pub(super) count: usize,
    /// Their bytes, as given by the retiring threads.
    pub(super) bytes: u64,
    /// The time at which the first of them was retired, from the tracker's coarse clock.
    pub(super) since: u64,
}

/// When an item was retired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    /// The tracker's clock at that moment.
    stamp: u64,
    /// Its order among all retired items; see `order.rs`.
    order: u64,
}

impl Mark {
    fn is_within(self, horizon: u64, closed: u64) -> bool {
        self.stamp <= horizon && self.order <= closed
    }
}

/// What a tied item waits for, instead of all recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tie {
    /// The submission of a recording.
    Recording(RecordingId),
    /// A point on a timeline.
    Point(TimelinePoint),
}

/// An item that waits for one recording or point.
#[derive(Debug)]
pub(super) struct Tied<T> {
    pub(super) tie: Tie,
    pub(super) order: u64,
    pub(super) bytes: u64,
    pub(super) since: u64,
    pub(super) item: T,
}

/// Retired items in order, and their runs.
#[derive(Debug)]
pub(super) struct Shard<T> {
    items: VecDeque<T>,
    /// Their counts and that of `last` add up to the number of items. Stamps and orders grow from run to run.
    runs: VecDeque<Run<Mark>>,
    last: Run<Mark>,
    /// Sorted by order.
    pub(super) tied: Vec<Tied<T>>,
    /// The order of the growing run, or the lowest order that the next item may have.
    order: u64,
    /// The next item may join `last`: no item was tied after it.
    grows: bool,
}

impl<T> Shard<T> {
    pub(super) fn new() -> Self {
        let (items, runs) = (VecDeque::new(), VecDeque::new());
        Self { items, runs, last: Run::default(), tied: Vec::new(), order: 0, grows: false }
    }

    /// Adds an item. `stamp` was read while the shard's lock was held, so stamps grow.
    #[inline(always)]
    pub(super) fn push(&mut self, turns: &Turns, stamp: u64, bytes: u64, now: impl FnOnce() -> u64, item: T) {
        // Joining the last run costs three comparisons; this is the path of most calls.
        if !self.grows || stamp != self.last.mark.stamp || !turns.is_of_last(self.order) {
            self.begin_run(turns, stamp, now());
        }
        self.last.count += 1;
        self.last.bytes += bytes;
        self.items.push_back(item);
    }

    #[cold]
    fn begin_run(&mut self, turns: &Turns, stamp: u64, now: u64) {
        // A new turn only if another shard has taken one since: a single retiring thread never writes the shared
        // counter.
        self.order = turns.order(self.order);
        let mark = Mark { stamp, order: self.order };
        // An empty run is left behind by `take_sealed`; it is overwritten.
        if self.last.count > 0 {
            let before = self.last.mark;
            debug_assert!(
                before.stamp <= mark.stamp && before.order <= mark.order && before != mark,
                "stamps and orders grow from run to run"
            );
            self.runs.push_back(self.last);
        }
        self.last = Run { mark, count: 0, bytes: 0, since: now };
        self.grows = true;
    }

    #[inline]
    pub(super) fn tie(&mut self, turns: &Turns, tie: Tie, bytes: u64, since: u64, item: T) {
        let mut order = turns.order(self.order);
        // A tied item needs an order of its own: it may be released earlier than its neighbours, and `arrange` puts
        // it back between them.
        if order == self.last.mark.order {
            order = turns.order_above(order);
        }
        // Items that follow have higher orders.
        self.order = above(order);
        self.grows = false;
        debug_assert!(
            self.tied.last().is_none_or(|last| last.order < order),
            "tied items are sorted by order"
        );
        self.tied.push(Tied { tie, order, bytes, since, item });
    }

    /// Removes the items with stamps up to `horizon` and orders up to `closed`. Returns their number, bytes and
    /// time.
    #[inline]
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
        // Stamps and orders grow from run to run, so the sealed runs are at the front.
        while let Some(run) = self.runs.front().filter(|run| run.mark.is_within(horizon, closed)) {
            add(run);
            self.runs.pop_front();
        }
        // The growing run stays in place and is emptied: this keeps its fields for the next push.
        if self.runs.is_empty() && self.last.count > 0 && self.last.mark.is_within(horizon, closed) {
            add(&self.last);
            self.last.count = 0;
            self.last.bytes = 0;
            self.grows = false;
        }
        if let Some(sealed) = &sealed {
            debug_assert!(sealed.count <= self.items.len(), "the runs count the items");
            move_front(&mut self.items, sealed.count, to);
        }
        sealed
    }

    /// Removes the tied items with orders up to `closed`.
    pub(super) fn take_tied(&mut self, closed: u64, to: &mut Vec<Tied<T>>) {
        match self.tied.last() {
            // All of them in nearly every call: `append` moves them in one copy.
            Some(last) if last.order <= closed => to.append(&mut self.tied),
            _ => to.extend(self.tied.drain(..self.tied.partition_point(|tied| tied.order <= closed))),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty() && self.tied.is_empty()
    }

    /// Returns the number of items.
    pub(super) fn len(&self) -> usize {
        self.items.len() + self.tied.len()
    }

    /// Returns all runs.
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

    /// Frees spare capacity.
    pub(super) fn trim(&mut self) {
        self.items.shrink_to_fit();
        self.runs.shrink_to_fit();
        self.tied.shrink_to_fit();
    }

    /// Removes all items, whatever they wait for.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = T> + use<T> {
        self.runs.clear();
        self.last = Run::default();
        self.grows = false;
        // Tied items last: their relative order does not matter, as the caller leaks all of them.
        let tied = core::mem::take(&mut self.tied).into_iter().map(|tied| tied.item);
        core::mem::take(&mut self.items).into_iter().chain(tied)
    }
}

/// Moves the first `count` items to the end of `to`. If all items move, `to` is empty, and `from` has at least as
/// much capacity, the two queues are swapped instead, without touching the items. Afterwards `to` has at least the
/// capacity of `from`, and neither has less than before: which of the two paths runs depends on how late the GPU
/// is, and neither may cause an allocation later.
pub(super) fn move_front<T>(from: &mut VecDeque<T>, count: usize, to: &mut VecDeque<T>) {
    if count == 0 {
        return;
    }
    if count == from.len() && to.is_empty() && from.capacity() >= to.capacity() {
        core::mem::swap(from, to);
        make_room(from, to.capacity());
        return;
    }
    // Reserve the whole capacity at once, rather than in steps as the queue gets later.
    make_room(to, from.capacity());
    if count < from.len() {
        to.extend(from.drain(..count));
    } else {
        to.append(from);
    }
}

/// Grows the capacity to at least `room` items.
pub(super) fn make_room<T>(items: &mut VecDeque<T>, room: usize) {
    if items.capacity() < room {
        items.reserve_exact(room - items.len());
    }
}
