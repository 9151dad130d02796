//! What threads retired and nobody has sealed yet: a part of a [`RetireQueue`](super::RetireQueue).
//!
//! ```text
//!   items   a b c d e f g         in the order in which they came
//!   runs    [3: a b][7: c d e]    as many items with the same stamp
//!   last    [8: f g]              the run that grows
//! ```

use std::collections::VecDeque;

use crate::device::TimelinePoint;

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

/// What something waits for that does not wait for everybody.
#[derive(Clone, Copy, Debug)]
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
    pub(super) bytes: u64,
    pub(super) since: u64,
    pub(super) item: T,
}

/// Items in the order in which they came, and runs of them.
#[derive(Debug)]
pub(super) struct Shard<T> {
    items: VecDeque<T>,
    /// Their counts, with that of `last`, add up to the number of items. Marks grow from run to run.
    runs: VecDeque<Run<u64>>,
    last: Run<u64>,
    pub(super) tied: Vec<Tied<T>>,
}

impl<T> Shard<T> {
    pub(super) fn new() -> Self {
        Self { items: VecDeque::new(), runs: VecDeque::new(), last: Run::default(), tied: Vec::new() }
    }

    #[inline]
    pub(super) fn push(&mut self, stamp: u64, bytes: u64, now: impl FnOnce() -> u64, item: T) {
        // Somebody with a later stamp may have been faster; to wait for that one's recordings is safe.
        if stamp > self.last.mark || self.last.count == 0 {
            self.begin_run(stamp, now());
        }
        self.last.count += 1;
        self.last.bytes += bytes;
        self.items.push_back(item);
    }

    #[cold]
    fn begin_run(&mut self, stamp: u64, now: u64) {
        if self.last.count > 0 {
            self.runs.push_back(self.last);
        }
        self.last = Run { mark: stamp.max(self.last.mark), count: 0, bytes: 0, since: now };
    }

    /// Takes the items with stamps up to `horizon` out. Returns how many there are, and about them.
    pub(super) fn take_sealed(&mut self, horizon: u64, to: &mut VecDeque<T>) -> Option<Run<()>> {
        let mut sealed: Option<Run<()>> = None;
        let mut add = |run: &Run<u64>| {
            let sealed = sealed.get_or_insert(Run { mark: (), count: 0, bytes: 0, since: run.since });
            sealed.count += run.count;
            sealed.bytes += run.bytes;
        };
        while let Some(run) = self.runs.front().filter(|run| run.mark <= horizon) {
            add(run);
            self.runs.pop_front();
        }
        if self.runs.is_empty() && self.last.count > 0 && self.last.mark <= horizon {
            add(&self.last);
            self.last.count = 0;
            self.last.bytes = 0;
        }
        if let Some(sealed) = &sealed {
            move_front(&mut self.items, sealed.count, to);
        }
        sealed
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty() && self.tied.is_empty()
    }

    /// All runs.
    pub(super) fn runs(&self) -> impl Iterator<Item = &Run<u64>> {
        let last = (self.last.count > 0).then_some(&self.last);
        self.runs.iter().chain(last)
    }

    pub(super) fn check_invariants(&self) {
        assert_eq!(self.runs().map(|run| run.count).sum::<usize>(), self.items.len());
        assert!(self.runs().zip(self.runs().skip(1)).all(|(a, b)| a.mark < b.mark), "stamps grow");
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
