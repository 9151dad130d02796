//! Exports of generated recordings: each is read back by something else than what wrote it, and has the totals of the
//! state.

#![allow(clippy::unwrap_used, reason = "all of this is test code, also outside of #[test]")]

mod common;
mod export {
    pub(crate) mod vma;
}

use allotment_trace::export::{Export, Format};
use allotment_trace::recording::{Recording, State};

/// The state after all events.
pub(crate) fn state(recording: &Recording) -> State {
    let mut state = State::default();
    recording.events.iter().for_each(|event| state.apply(event).unwrap());
    state
}

pub(crate) fn exported(recording: &Recording, format: Format) -> String {
    let mut out = Vec::new();
    Export::of(recording).write(format, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}
