//! Moments of a recording, as the command line names them.

use core::fmt;
use core::str::FromStr;

use allotment_analyze::{Peaks, Scope, Timeline};
use allotment_trace::recording::Moment;

use crate::failure::Failure;
use crate::units::count;

/// A moment: after some events, with all of a frame, when the blocks had the most bytes, or at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum When {
    Event(u64),
    Frame(u64),
    Peak,
    #[default]
    End,
}

/// The help of each option that takes a moment.
pub(crate) const HELP: &str = "A moment is a number of events, `frame:N` (frame N with all that happened in it, from 0), \
                               `peak` (the blocks first have their most bytes) or `end`.";

impl When {
    /// Returns how many events come before the moment, or a usage error for one that the recording does not reach.
    pub(super) fn position(self, timeline: &Timeline<'_>) -> Result<u64, Failure> {
        match self {
            Self::Event(event) if event > timeline.end() => Err(Failure::Usage(format!(
                "there is no event {event}: the recording has {}",
                timeline.end()
            ))),
            Self::Event(event) => Ok(event),
            // What follows the last end of a frame is a frame as well.
            Self::Frame(frame) if frame > timeline.frame_count() => Err(Failure::Usage(format!(
                "there is no frame {frame}: in the recording {} frames ended",
                timeline.frame_count()
            ))),
            Self::Frame(frame) => Ok(timeline.position_of_frame(frame)),
            Self::Peak => Ok(Peaks::of(timeline, Scope::All).blocks.moment.event),
            Self::End => Ok(timeline.end()),
        }
    }
}

impl FromStr for When {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse().map_err(|_| format!("\"{text}\" is not a whole number"));
        match (text, text.strip_prefix("frame:")) {
            ("peak", _) => Ok(Self::Peak),
            ("end", _) => Ok(Self::End),
            (_, Some(frame)) => number(frame).map(Self::Frame),
            _ => text
                .parse()
                .map(Self::Event)
                .map_err(|_| "expected a number of events, frame:N, peak or end".to_owned()),
        }
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Event(event) => write!(f, "{event}"),
            Self::Frame(frame) => write!(f, "frame:{frame}"),
            Self::Peak => f.write_str("peak"),
            Self::End => f.write_str("end"),
        }
    }
}

/// Returns the words for a moment: `event 1,200, frame 7`.
pub(super) fn words(moment: Moment) -> String {
    format!("event {}, frame {}", count(moment.event), count(moment.frame))
}

#[cfg(test)]
mod tests {
    use allotment_trace::recording::{Event, Recording};

    use super::*;

    #[test]
    fn moments_are_read_as_they_are_written() {
        for when in [When::Event(12), When::Frame(0), When::Peak, When::End] {
            assert_eq!(when.to_string().parse(), Ok(when));
        }
        for wrong in ["", "frame:", "frame:x", "-1", "start", "frame: 3", "99999999999999999999"] {
            assert!(wrong.parse::<When>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_moment_that_the_recording_does_not_reach_is_an_error() {
        let events = (0..3).map(|number| Event::FrameEnd { number }).collect();
        let recording = Recording { events, ..Recording::default() };
        let timeline = Timeline::new(&recording);
        let position = |when: When| when.position(&timeline).ok();
        assert_eq!(position(When::Event(3)), Some(3));
        assert_eq!(position(When::Event(4)), None);
        assert_eq!(position(When::Frame(1)), Some(1));
        assert_eq!(position(When::Frame(3)), Some(3), "what follows the last frame's end");
        assert_eq!(position(When::Frame(4)), None);
        assert_eq!(position(When::End), Some(3));
    }
}
