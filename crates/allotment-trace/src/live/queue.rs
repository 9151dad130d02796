//! The chunks that wait for one viewer.
//!
//! The bound is on the bytes of events. When a viewer is too slow, its events are dropped, and it gets the whole state once
//! it has read all that is left in the queue. A state in the queue stays: a viewer that is always too slow sees whole
//! states one after another, never none.

use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes for viewers, shared by their queues.
#[derive(Clone, Debug)]
pub(super) struct Outgoing {
    pub(super) bytes: Arc<[u8]>,
    /// How many events the program has had up to the end of these bytes.
    pub(super) until: u64,
    /// Part of a whole state, or what stands before the first one.
    pub(super) is_state: bool,
}

#[cfg(any(test, fuzzing))]
impl Outgoing {
    fn is_restart(&self) -> bool {
        self.bytes.get(4) == Some(&crate::file::chunk_kind::RESTART)
    }
}

#[derive(Debug)]
pub(super) struct Queue {
    waiting: VecDeque<Outgoing>,
    /// Bytes of the first one that the viewer has.
    sent: usize,
    /// Bytes of events that wait.
    bytes: usize,
    limit: usize,
    /// Up to where the viewer knows what happened, once it has read what waits. `None` before it knows anything.
    until: Option<u64>,
    /// Up to where the viewer knows it now.
    sent_until: Option<u64>,
    /// Events were dropped: no more are added before the next state.
    lags: bool,
    /// The end has been added.
    ended: bool,
}

impl Queue {
    /// Creates the queue of a viewer that knows nothing, with what it gets first.
    pub(super) fn new(limit: usize, first: impl IntoIterator<Item = Outgoing>) -> Self {
        let waiting = first.into_iter().collect();
        Self { waiting, sent: 0, bytes: 0, limit, until: None, sent_until: None, lags: true, ended: false }
    }

    /// Returns true if nothing waits.
    fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns true if the viewer has not been given any state.
    pub(super) const fn is_new(&self) -> bool {
        self.until.is_none()
    }

    /// Returns true if the viewer has got all, the end too.
    pub(super) fn is_over(&self) -> bool {
        self.ended && self.is_empty()
    }

    /// Returns true if the viewer needs a state, and has read all that it can before it.
    pub(super) fn wants_state(&self) -> bool {
        self.lags && (self.is_new() || self.is_empty())
    }

    /// Returns how many events a viewer misses that gets the state after `now` events.
    pub(super) fn missed(&self, now: u64) -> u64 {
        self.until.map_or(0, |until| now.saturating_sub(until))
    }

    /// Adds a whole state after `now` events.
    pub(super) fn add_state(&mut self, state: impl IntoIterator<Item = Outgoing>, now: u64) {
        self.waiting.extend(state);
        (self.until, self.lags) = (Some(now), false);
    }

    /// Adds the end, unless the viewer has to get a state first.
    pub(super) fn add_end(&mut self, end: &Outgoing) {
        if !self.lags && !self.ended {
            self.ended = true;
            self.waiting.push_back(end.clone());
        }
    }

    /// Returns true if a chunk of events or texts can be added.
    pub(super) fn has_room(&self, chunk: &Outgoing) -> bool {
        // For one at least, so that a limit below the size of a chunk lets some through.
        self.bytes == 0 || self.bytes + chunk.bytes.len() <= self.limit
    }

    /// Adds a chunk of events or texts. Drops those that wait if there are too many.
    pub(super) fn add(&mut self, chunk: &Outgoing) {
        if self.lags {
            return;
        }
        if !self.has_room(chunk) {
            return self.drop_events();
        }
        self.bytes += chunk.bytes.len();
        self.until = Some(chunk.until);
        self.waiting.push_back(chunk.clone());
    }

    fn drop_events(&mut self) {
        self.lags = true;
        // States are before events: none is added while events wait. The viewer has the beginning of the first, and would
        // take what follows it for the rest.
        let begun = usize::from(self.sent != 0);
        let states = self.waiting.iter().take_while(|waiting| waiting.is_state).count();
        let kept = states.max(begun);
        self.waiting.truncate(kept);
        self.until = self.waiting.back().map(|last| last.until).or(self.sent_until);
        self.bytes = self.waiting.iter().skip(states).map(|waiting| waiting.bytes.len()).sum();
    }

    /// Returns the bytes that are sent next.
    pub(super) fn next(&self) -> Option<&[u8]> {
        self.waiting.front().and_then(|first| first.bytes.get(self.sent..))
    }

    /// Notes that the viewer has `count` bytes of the next ones.
    pub(super) fn sent(&mut self, count: usize) {
        self.sent += count;
        let is_whole = self.waiting.front().is_some_and(|first| first.bytes.len() <= self.sent);
        if let Some(first) = is_whole.then(|| self.waiting.pop_front()).flatten() {
            self.sent = 0;
            self.sent_until = Some(first.until);
            if !first.is_state {
                self.bytes -= first.bytes.len();
            }
        }
    }
}

#[cfg(any(test, fuzzing))]
impl Queue {
    /// Panics if more waits than may: events up to the limit, or one chunk; and one state.
    pub(super) fn check_bounds(&self) {
        let of = |is_state| self.waiting.iter().filter(move |waiting| waiting.is_state == is_state);
        let bytes: usize = of(false).map(|waiting| waiting.bytes.len()).sum();
        assert_eq!(self.bytes, bytes);
        assert!(bytes <= self.limit || of(false).count() == 1, "{bytes} bytes of events wait");
        let restarts = of(true).filter(|waiting| waiting.is_restart()).count();
        assert!(restarts <= 1, "{restarts} states wait");
    }
}
