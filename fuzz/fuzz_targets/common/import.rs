//! What holds of any file that is imported.

use allotment_trace::import::{self, Limits};
use allotment_trace::recording::State;

/// Imports bytes. Whatever is read applies to a state, and an error is one line.
pub fn check(bytes: &[u8]) {
    let mut limits = Limits::default();
    limits.memory_bytes = 64 << 20;
    limits.text_bytes = 16 << 20;
    limits.work = 1 << 20;
    match import::read_within(bytes, &limits) {
        Ok(recording) => {
            let mut state = State::default();
            for event in &recording.events {
                state.apply(event).expect("an imported event suits those before");
            }
        }
        Err(error) => assert!(!error.to_string().contains('\n')),
    }
}
