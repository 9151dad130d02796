//! Frames and times of positions, and positions of frames and times.

use allotment_trace::recording::{Event, Moment};

use super::Timeline;

impl Timeline<'_> {
    /// Returns the moment of a position: the frames that had ended, and the time that was last told. A position
    /// beyond the end is the end.
    #[must_use]
    pub fn moment(&self, position: u64) -> Moment {
        let position = self.clamp(position);
        let frame = before(&self.frames, position) as u64;
        let time = before(&self.times, position).checked_sub(1).map(|index| self.event(self.times[index]));
        let nanoseconds = match time {
            Some(&Event::Time { nanoseconds }) => nanoseconds,
            _ => 0,
        };
        Moment { event: u64::from(position), frame, nanoseconds }
    }

    /// Returns how many frames ended in the recording.
    #[must_use]
    pub fn frame_count(&self) -> u64 {
        self.frames.len() as u64
    }

    /// Returns the position just before the event that ended a frame, counted from 0: the frame with all that
    /// happened in it. The end for a frame that did not end.
    #[must_use]
    pub fn position_of_frame(&self, frame: u64) -> u64 {
        usize::try_from(frame)
            .ok()
            .and_then(|frame| self.frames.get(frame))
            .map_or(self.end(), |&event| u64::from(event))
    }

    /// Returns the last position at which no more than some nanoseconds had passed since the recording began. In a
    /// recording whose times go back, the answer is one such position.
    #[must_use]
    pub fn position_of_time(&self, nanoseconds: u64) -> u64 {
        let later = self.times.partition_point(|&event| match self.event(event) {
            Event::Time { nanoseconds: time } => *time <= nanoseconds,
            _ => true,
        });
        self.times.get(later).map_or(self.end(), |&event| u64::from(event))
    }

    /// Returns the last time that was told before a position and the first one after, each with the position behind its
    /// event. Before the first time is 0 at the beginning; after the last one is the same time at the end.
    pub(crate) fn times_around(&self, position: u64) -> ((u64, u64), (u64, u64)) {
        let known = |event: u32| match *self.event(event) {
            Event::Time { nanoseconds } => (u64::from(event) + 1, nanoseconds),
            _ => (u64::from(event) + 1, 0),
        };
        let after = before(&self.times, self.clamp(position));
        let last = after.checked_sub(1).map_or((0, 0), |index| known(self.times[index]));
        let next = self.times.get(after).map_or((self.end(), last.1), |&event| known(event));
        (last, next)
    }

    /// Returns the positions of the events that lost what was known, since the reader was too slow.
    pub fn losses(&self) -> impl ExactSizeIterator<Item = u64> {
        self.losses.iter().map(|&event| u64::from(event))
    }

    /// Returns the positions of the refused requests: `Event::Refused`.
    pub fn refusals(&self) -> impl ExactSizeIterator<Item = u64> {
        self.refusals.iter().map(|&event| u64::from(event))
    }

    /// Returns the positions of the stalls: `Event::Stalled`.
    pub fn stalls(&self) -> impl ExactSizeIterator<Item = u64> {
        self.stalls.iter().map(|&event| u64::from(event))
    }

    /// Returns the positions of the marks: `Event::Mark`.
    pub fn marks(&self) -> impl ExactSizeIterator<Item = u64> {
        self.marks.iter().map(|&event| u64::from(event))
    }

    /// Returns true if an event lost what was known.
    pub(crate) fn is_loss(&self, event: u64) -> bool {
        self.losses.binary_search_by_key(&event, |&loss| u64::from(loss)).is_ok()
    }

    pub(crate) fn clamp(&self, position: u64) -> u32 {
        position.min(self.end()) as u32
    }
}

/// Returns how many of some events, in their order, come before a position.
pub(super) fn before(events: &[u32], position: u32) -> usize {
    events.partition_point(|&event| event < position)
}

/// Returns the last of some events, in their order, that comes before a position.
pub(super) fn last_before(events: &[u32], position: u32) -> Option<u32> {
    before(events, position).checked_sub(1).map(|index| events[index])
}
