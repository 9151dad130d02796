//! Moments of a recording, as the command line names them.

use core::fmt;
use core::str::FromStr;

use allotment_analyze::{Peaks, Scope, Timeline};
use allotment_trace::recording::{Event, Moment};

use super::table::shown;
use crate::failure::Failure;

/// A moment: after some events, with all of a frame, at a mark of the program, when the blocks had the most bytes, or at
/// the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum When {
    Event(u64),
    Frame(u64),
    Mark(String),
    Peak,
    #[default]
    End,
}

/// The help of each option that takes a moment.
pub(crate) const HELP: &str = "A moment is a number of events, `frame:N` (frame N with all that happened in it, from 0), \
                               `mark:TEXT` (the first mark with that text), `peak` (the blocks first have their most bytes) or `end`.";

impl When {
    /// Returns how many events come before the moment, or a usage error for one that the recording does not reach.
    pub(super) fn position(&self, timeline: &Timeline<'_>) -> Result<u64, Failure> {
        if !timeline.has_history() && *self != Self::End {
            return Err(Failure::Usage(format!(
                "there is no moment {self}: the file is a dump of one moment, which is called end"
            )));
        }
        match *self {
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
            Self::Mark(ref text) => {
                let mark = marks(timeline).find(|mark| mark.0 == text);
                mark.map(|(_, moment)| moment.event).ok_or_else(|| no_mark(text, timeline))
            }
            Self::Peak => Ok(Peaks::of(timeline, Scope::All).blocks.moment.event),
            Self::End => Ok(timeline.end()),
        }
    }
}

impl FromStr for When {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse().map_err(|_| format!("\"{text}\" is not a whole number"));
        match (text, text.split_once(':')) {
            ("peak", _) => Ok(Self::Peak),
            ("end", _) => Ok(Self::End),
            (_, Some(("frame", frame))) => number(frame).map(Self::Frame),
            (_, Some(("mark", mark))) if !mark.is_empty() => Ok(Self::Mark(mark.to_owned())),
            _ => text
                .parse()
                .map(Self::Event)
                .map_err(|_| "expected a number of events, frame:N, mark:TEXT, peak or end".to_owned()),
        }
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Event(event) => write!(f, "{event}"),
            Self::Frame(frame) => write!(f, "frame:{frame}"),
            Self::Mark(text) => write!(f, "mark:{text}"),
            Self::Peak => f.write_str("peak"),
            Self::End => f.write_str("end"),
        }
    }
}

/// Returns the marks of a recording, with the moments just after them.
pub(super) fn marks<'a>(timeline: &Timeline<'a>) -> impl Iterator<Item = (&'a str, Moment)> {
    timeline.marks().filter_map(|event| match timeline.recording().events[event as usize] {
        Event::Mark { text } => {
            Some((timeline.recording().text(text).unwrap_or(""), timeline.moment(event + 1)))
        }
        _ => None,
    })
}

/// Returns the error for a mark that the recording lacks, which lists those that it has.
fn no_mark(text: &str, timeline: &Timeline<'_>) -> Failure {
    /// Some: the line of an error is read whole.
    const MOST: usize = 20;
    let mut known = Vec::new();
    for (mark, _) in marks(timeline) {
        if !known.contains(&mark) {
            known.push(mark);
        }
    }
    let text = shown(text);
    if known.is_empty() {
        return Failure::Usage(format!("there is no mark \"{text}\": the recording has no marks"));
    }
    let rest = known.len().saturating_sub(MOST);
    known.truncate(MOST);
    let mut list = known.iter().map(|mark| format!("\"{}\"", shown(mark))).collect::<Vec<_>>().join(", ");
    if rest > 0 {
        list.push_str(&format!(" and {rest} others"));
    }
    Failure::Usage(format!("there is no mark \"{text}\": the recording has {list}"))
}

/// Returns the words for a moment.
pub(super) fn words(timeline: &Timeline<'_>, moment: Moment) -> String {
    timeline.when(moment)
}

#[cfg(test)]
mod tests {
    use allotment_trace::recording::{Recording, TextId};

    use super::*;

    #[test]
    fn moments_are_read_as_they_are_written() {
        let mark = When::Mark("frame: a: b".to_owned());
        for when in [When::Event(12), When::Frame(0), mark, When::Peak, When::End] {
            assert_eq!(when.to_string().parse(), Ok(when));
        }
        for wrong in
            ["", "frame:", "frame:x", "-1", "start", "frame: 3", "mark:", "mark", "99999999999999999999"]
        {
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

    #[test]
    fn a_mark_is_the_moment_after_the_first_one_with_that_text_and_an_error_lists_those_there_are() {
        let mark = |id| Event::Mark { text: TextId(id) };
        let events = vec![mark(1), Event::FrameEnd { number: 0 }, mark(2), mark(1), mark(2)];
        let texts = vec!["level 1".to_owned(), "level 2".to_owned()];
        let recording = Recording { events, texts, ..Recording::default() };
        let timeline = Timeline::new(&recording);
        let at = |text: &str| When::Mark(text.to_owned()).position(&timeline);
        assert_eq!((at("level 1").ok(), at("level 2").ok()), (Some(1), Some(3)));
        let error = at("level 3").map_err(|error| error.to_string());
        let expected = "there is no mark \"level 3\": the recording has \"level 1\", \"level 2\"";
        assert_eq!(error, Err(expected.to_owned()));
        let empty = Recording::default();
        let error =
            When::Mark("x".to_owned()).position(&Timeline::new(&empty)).map_err(|error| error.to_string());
        assert_eq!(error, Err("there is no mark \"x\": the recording has no marks".to_owned()));
    }
}
