//! Units along a drawing of a recording: events, frames or seconds.

use crate::timeline::Timeline;

/// The unit of an axis of time. A value of the axis is a number of its unit since the recording began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TimeAxis {
    /// Events: every event has the same width.
    #[default]
    Events,
    /// Frames: every frame has the same width, however much happened in it.
    Frames,
    /// Seconds.
    Seconds,
}

impl TimeAxis {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Events, Self::Frames, Self::Seconds];

    /// Returns the word for it: `events`, `frames`, `seconds`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Frames => "frames",
            Self::Seconds => "seconds",
        }
    }

    /// Returns true if a recording says enough for the axis.
    #[must_use]
    pub fn suits(self, timeline: &Timeline<'_>) -> bool {
        match self {
            Self::Events => true,
            Self::Frames => timeline.frame_count() > 1,
            Self::Seconds => timeline.moment(timeline.end()).nanoseconds > 0,
        }
    }

    /// Returns the value of the end of a recording: at least a little more than 0.
    #[must_use]
    pub fn length(self, timeline: &Timeline<'_>) -> f64 {
        let length = self.value(timeline, timeline.end());
        if length > 0.0 { length } else { 1.0 }
    }

    /// Returns the value of a position: between the ends of two frames, or between two times, in proportion to the
    /// events.
    ///
    /// ```
    /// use allotment_analyze::{TimeAxis, Timeline};
    /// use allotment_trace::recording::{Event, Recording, TextId};
    ///
    /// let mark = Event::Mark { text: TextId::NONE };
    /// let events = vec![mark, mark, mark, Event::FrameEnd { number: 0 }, mark, Event::FrameEnd { number: 1 }];
    /// let recording = Recording { events, ..Recording::default() };
    /// let timeline = Timeline::new(&recording);
    /// assert_eq!(TimeAxis::Frames.value(&timeline, 4), 1.0);
    /// assert_eq!(TimeAxis::Frames.value(&timeline, 5), 1.5);
    /// assert_eq!(TimeAxis::Frames.position(&timeline, 1.5), 5);
    /// ```
    #[must_use]
    pub fn value(self, timeline: &Timeline<'_>, position: u64) -> f64 {
        let position = position.min(timeline.end());
        if self == Self::Events {
            return position as f64;
        }
        let (before, after) = self.around(timeline, position);
        let width = after.0 - before.0;
        let share = if width == 0 { 0.0 } else { (position - before.0) as f64 / width as f64 };
        before.1 + share * (after.1 - before.1).max(0.0)
    }

    /// Returns the position that is nearest to a value: the inverse of [`value`](Self::value).
    #[must_use]
    pub fn position(self, timeline: &Timeline<'_>, value: f64) -> u64 {
        // Values grow with positions, so halving finds the first whose value is not below.
        let (mut low, mut high) = (0, timeline.end());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.value(timeline, middle) < value {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let below = low.saturating_sub(1);
        let distance = |position| (self.value(timeline, position) - value).abs();
        if distance(below) < distance(low) { below } else { low }
    }

    /// The known points around a position, each as a position and a value.
    fn around(self, timeline: &Timeline<'_>, position: u64) -> ((u64, f64), (u64, f64)) {
        let end = timeline.end();
        match self {
            Self::Events => ((0, 0.0), (end, end as f64)),
            Self::Frames => {
                // The event at the position of a frame ends it, so the next frame begins one later.
                let begin = |frame: u64| match frame.checked_sub(1) {
                    Some(before) => (timeline.position_of_frame(before) + 1).min(end),
                    None => 0,
                };
                let frame = timeline.moment(position).frame;
                let after = frame + u64::from(begin(frame) < end);
                ((begin(frame), frame as f64), (begin(frame + 1), after as f64))
            }
            Self::Seconds => {
                let (before, after) = timeline.times_around(position);
                let seconds = |(position, nanoseconds): (u64, u64)| (position, nanoseconds as f64 / 1e9);
                (seconds(before), seconds(after))
            }
        }
    }
}
