//! The HTML pages: of a recording, and of a defragmentation.

pub(crate) mod defragmentation;

use allotment_report::write_report;
use allotment_trace::recording::Recording;

use crate::failure::Failure;

/// Returns the page of a recording.
///
/// The page opens at the moment with the most bytes in use: at its end, a program has mostly freed what is of interest.
pub(crate) fn page(title: &str, recording: &Recording) -> Result<Vec<u8>, Failure> {
    let mut page = Vec::new();
    write_report(title, recording, &mut page).map_err(|error| Failure::Unexpected(error.to_string()))?;
    Ok(page)
}
