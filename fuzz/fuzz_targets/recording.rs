//! Any bytes are a recording: its readers give what is in them, or say what is wrong. The checksums are made right first,
//! or hardly any bytes would get beyond them.
#![no_main]

#[path = "common/checksums.rs"]
mod checksums;

use std::io::Cursor;

use allotment_trace::recording::{Event, ReadOptions, Recording, RecordingReader, State};
use checksums::with_right_checksums;

fn apply(state: &mut State, events: &[Event]) {
    for event in events {
        let _ = state.apply(event);
    }
}

fn read(bytes: &[u8]) {
    let options = ReadOptions::default().with_max_events(100_000).with_max_text_bytes(1 << 20);
    let Ok((recording, damage)) = Recording::read_with(bytes, &options) else { return };
    let mut state = State::default();
    apply(&mut state, &recording.events);
    let _ = state.to_events();

    // What was read is written and read again.
    let mut again = Vec::new();
    recording.write(&mut again).expect("a Vec takes all");
    let (read, none) = Recording::read_with(&*again, &options).expect("the library wrote it");
    assert!(none.is_none() && read.events.len() == recording.events.len(), "{damage:?} {none:?}");

    let Ok(mut reader) = RecordingReader::with_options(Cursor::new(bytes), &options) else { return };
    let mut events = Vec::new();
    for snapshot in 0..reader.snapshots().len().min(4) {
        let mut state = reader.begin_at(snapshot).expect("memory can be read");
        let _ = state.to_events();
        while events.len() < 100_000 && reader.read_events(&mut events).expect("memory can be read") {}
        apply(&mut state, &events);
        events.clear();
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    let mut bytes = bytes.to_vec();
    with_right_checksums(&mut bytes);
    read(&bytes);
});
