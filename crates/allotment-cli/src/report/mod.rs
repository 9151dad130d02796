//! The HTML pages: of a recording, and of a defragmentation.

pub(crate) mod defragmentation;

use allotment_analyze::{AdviceThresholds, Cursor, Timeline, advice};
use allotment_report::Report;
use allotment_trace::recording::Recording;

use crate::failure::Failure;

/// Returns the page of a recording, with the advice about it.
///
/// The page opens at the moment with the most bytes in use: at its end, a program has mostly freed what is of interest.
pub(crate) fn page(title: &str, recording: &Recording, timeline: &Timeline<'_>) -> Result<Vec<u8>, Failure> {
    let mut report = Report::new(title, &recording.header);
    recording.events.iter().for_each(|event| report.push(event));
    let cursor = Cursor::at(timeline, timeline.end());
    for advice in advice(&cursor, &AdviceThresholds::default()) {
        report.advise(&advice.to_string(), None);
    }
    let mut page = Vec::new();
    report.write(&recording.texts, &mut page).map_err(|error| Failure::Unexpected(error.to_string()))?;
    Ok(page)
}
