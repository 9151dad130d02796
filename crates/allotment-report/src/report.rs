//! The report of a recording: walks its events, asks the analysis for tables and advice, and writes the page.

use std::io::{self, Write};

use allotment_analyze::{AdviceThresholds, Cursor, Grouping, Leaks, Timeline, advice};
use allotment_trace::recording::{Recording, State};

use crate::lives::Lives;
use crate::page;
use crate::payload::Content;
use crate::planned::Planned;
use crate::shared::Shared;

/// Writes the page of a recording. The title is shown at its top.
///
/// An event that contradicts those before it changes nothing; the page says how many there were. Sizes, offsets and times
/// above 2^53 − 1 are shown as that number. It needs about 400 bytes for each allocation of the recording.
///
/// The plans that the page shows, with all lifetimes known, are the same ones each time. They take some milliseconds, or a few
/// seconds where a million allocations are hard to plan.
///
/// # Errors
///
/// Those of `out`.
pub fn write_report(title: &str, recording: &Recording, out: impl Write) -> io::Result<()> {
    // The model says which events are consistent.
    let (mut lives, mut state) = (Lives::default(), State::default());
    for event in &recording.events {
        match state.apply(event) {
            Ok(()) => lives.accepted(event, state.now.frame),
            Err(_) => lives.contradicted(),
        }
    }
    lives.sort_ranges();
    let timeline = Timeline::new(recording);
    let end = Cursor::at(&timeline, timeline.end());
    let grouping = Grouping::CallSite;
    let content = Content {
        title,
        recording,
        timeline: &timeline,
        lives,
        leaks: Leaks::at(&end, grouping).table(&timeline, grouping),
        planned: Planned::of(&timeline),
        shared: Shared::of(&timeline),
        advice: advice(&end, &AdviceThresholds::default()).iter().map(|it| it.sentence(&timeline)).collect(),
    };
    page::write(&content, out)
}
