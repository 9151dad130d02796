//! Imports of other tools' files, each read as a recording and applied to a state.

#![allow(clippy::unwrap_used, reason = "all of this is test code, also outside of #[test]")]

mod dumps;
mod gfxr;
mod hostile;
mod pytorch;
mod vma_versions;

use allotment_trace::recording::{Recording, State};

/// Applies all events, each of which must suit the ones before.
fn applied(recording: &Recording) -> State {
    let mut state = State::default();
    for event in &recording.events {
        state.apply(event).unwrap();
    }
    state
}

/// Returns what the importer left out, by its marks.
fn left_out(recording: &Recording) -> Vec<&str> {
    recording.texts.iter().map(String::as_str).filter(|text| text.starts_with("import: ")).collect()
}

fn trace(name: &str) -> String {
    format!("{}/../../../traces/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn data(name: &str) -> String {
    format!("{}/data/{name}", env!("CARGO_MANIFEST_DIR"))
}
