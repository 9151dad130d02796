//! Exports of generated recordings: each is read back by something else than what wrote it, and has the totals of the
//! state.

#![allow(clippy::unwrap_used, reason = "all of this is test code, also outside of #[test]")]

#[path = "../../allotment/tests/common/amount.rs"]
mod amount;
mod common;
#[allow(dead_code, reason = "not all of it is used here")]
mod schema;
mod export {
    pub(crate) mod chrome;
    pub(crate) mod csv;
    pub(crate) mod firefox;
    pub(crate) mod round_trip;
    pub(crate) mod vma;
}

use allotment_trace::export::{Export, Format};
use allotment_trace::recording::{Recording, State};
use common::recordings::{Shape, recording};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

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

#[test]
fn every_format_is_found_by_its_name_and_writes_something_for_an_empty_recording() {
    for format in Format::ALL {
        assert_eq!(format.name().parse(), Ok(format));
        assert!(!exported(&Recording::default(), format).is_empty());
    }
    let error = "bmp".parse::<Format>().unwrap_err().to_string();
    assert_eq!(error, "no such format; there are vma, chrome, firefox, allocations-csv, traffic-csv");
}

/// Takes some bytes, and then no more.
struct Full(usize);

impl std::io::Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let count = bytes.len().min(self.0);
        self.0 -= count;
        if count == 0 { Err(std::io::ErrorKind::StorageFull.into()) } else { Ok(count) }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn an_error_of_the_output_is_returned_wherever_it_happens() {
    let recording = recording(9, Shape { steps: 40, ..Shape::default() });
    for format in Format::ALL {
        let length = exported(&recording, format).len();
        for room in (0..length).step_by(7) {
            let error = Export::of(&recording).write(format, &mut Full(room)).unwrap_err();
            assert_eq!(
                error.kind(),
                std::io::ErrorKind::StorageFull,
                "{format} after {room} of {length} bytes"
            );
        }
        Export::of(&recording).write(format, &mut Full(length)).unwrap();
    }
}

proptest! {
    /// Recordings from damaged files: events without those that they need.
    #[test]
    fn events_that_contradict_each_other_never_panic(
        seed: u64,
        aliasing: bool,
        keep in vec(any::<bool>(), 400),
        swaps in vec((any::<Index>(), any::<Index>()), 0..40),
    ) {
        let mut damaged = recording(seed, Shape { aliasing, lost: true, ..Shape::default() });
        let mut kept = keep.into_iter().cycle();
        damaged.events.retain(|_| kept.next().unwrap());
        for (a, b) in swaps.into_iter().filter(|_| !damaged.events.is_empty()).collect::<Vec<_>>() {
            let (a, b) = (a.index(damaged.events.len()), b.index(damaged.events.len()));
            damaged.events.swap(a, b);
        }
        damaged.texts.truncate(5);
        damaged.header.memory_types.truncate(1);
        for format in Format::ALL {
            let text = exported(&damaged, format);
            if format.extension() == "json" {
                serde_json::from_str::<serde_json::Value>(&text).unwrap();
            }
            if format == Format::TrafficCsv {
                allotment_trace::Trace::read(text.as_bytes()).unwrap();
            }
        }
    }
}
