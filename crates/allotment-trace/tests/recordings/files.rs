//! Whole files.

use std::fs;
use std::io::Cursor;

use allotment_trace::recording::{
    DamageKind, Event, ReadError, ReadOptions, Recording, RecordingReader, RecordingWriter, StackId, TextId,
    WriterDesc,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::events::{any_event, header, likely_event, texts, with_stacks};

/// Writes a recording with a chunk of its own for each `chunk` events.
pub(crate) fn file(recording: &Recording, chunk: usize, desc: &WriterDesc) -> Vec<u8> {
    let mut writer = RecordingWriter::new(Vec::new(), &recording.header, desc).unwrap();
    for (index, text) in recording.texts.iter().enumerate() {
        assert_eq!(writer.text(text), TextId(index as u32 + 1));
    }
    for (index, frame) in recording.stacks.frames().iter().enumerate() {
        assert_eq!(writer.stack(*frame), StackId(index as u32 + 1));
    }
    for events in recording.events.chunks(chunk) {
        events.iter().for_each(|event| writer.event(event).unwrap());
        writer.flush().unwrap();
    }
    let (file, summary) = writer.finish().unwrap();
    let expected = (recording.events.len(), recording.texts.len(), file.len());
    assert_eq!((summary.events as usize, summary.texts as usize, summary.bytes as usize), expected);
    file
}

/// Reads all events of a file with the reader that seeks.
pub(crate) fn read_by_chunks(file: &[u8]) -> (RecordingReader<Cursor<&[u8]>>, Vec<Event>) {
    let mut reader = RecordingReader::new(Cursor::new(file)).unwrap();
    reader.begin().unwrap();
    let mut events = Vec::new();
    while reader.read_events(&mut events).unwrap() {}
    (reader, events)
}

proptest! {
    #[test]
    fn any_events_are_read_as_they_were_written(
        events in proptest::collection::vec(any_event(9), 0..400),
        chunk in 1_usize..300,
        snapshots in any::<bool>(),
    ) {
        let recording = Recording { header: header(), texts: texts(9), events, ..with_stacks(9) };
        let desc = WriterDesc::default().with_snapshot_every(if snapshots { 64 } else { 0 });
        let file = file(&recording, chunk, &desc);
        prop_assert_eq!(Recording::read(&*file).unwrap(), (recording.clone(), None));
        let (reader, events) = read_by_chunks(&file);
        prop_assert_eq!(events, recording.events);
        prop_assert_eq!(reader.texts(), &*recording.texts);
        prop_assert_eq!(reader.stacks(), &recording.stacks);
        prop_assert_eq!(reader.header(), &recording.header);
        prop_assert_eq!(reader.damage(), None);
    }

    #[test]
    fn a_recording_that_was_read_is_written_again(events in proptest::collection::vec(any_event(9), 0..100)) {
        let recording = Recording { header: header(), texts: texts(9), events, ..with_stacks(9) };
        let mut file = Vec::new();
        recording.write(&mut file).unwrap();
        prop_assert_eq!(Recording::read(&*file).unwrap().0, recording);
    }
}

/// A chunk of a file: 4 KiB, and the last event, and the texts before it.
const CHUNK: usize = 4096 + 600;

#[test]
fn what_is_cut_off_a_file_costs_no_more_than_four_kibibytes_before_the_cut() {
    let mut runner = TestRunner::deterministic();
    let events: Vec<_> =
        (0..20_000).map(|_| likely_event(9).new_tree(&mut runner).unwrap().current()).collect();
    let recording = Recording { header: header(), texts: texts(9), events, ..with_stacks(9) };
    let mut file = Vec::new();
    recording.write(&mut file).unwrap();
    for place in 1..200 {
        let cut = file.len() * place / 200;
        let (read, damage) = Recording::read(&file[..cut]).unwrap();
        let whole = damage.unwrap().offset as usize;
        assert!(cut - whole <= CHUNK, "{} bytes before byte {cut} are lost", cut - whole);
        assert!(read.events == recording.events[..read.events.len()]);
    }
}

/// As a recorder does ten times a second.
#[test]
fn a_file_that_is_written_in_place_has_all_events_each_time_and_grows_no_larger() {
    let mut runner = TestRunner::deterministic();
    let mut event = || any_event(9).new_tree(&mut runner).unwrap().current();
    let desc = WriterDesc::default().with_snapshot_every(5000);
    let [mut often, mut once] =
        [(); 2].map(|()| RecordingWriter::new(Cursor::new(Vec::new()), &header(), &desc).unwrap());
    let path = std::env::temp_dir().join(format!("allotment-in-place-{}.altr", std::process::id()));
    let mut seen = RecordingWriter::new(fs::File::create(&path).unwrap(), &header(), &desc).unwrap();
    let mut written = Vec::new();
    for step in 0..1500_usize {
        let text = format!("text {}", step / 7);
        let event = event();
        written.push(event);
        often.text(&text);
        often.event(&event).unwrap();
        once.text(&text);
        once.event(&event).unwrap();
        seen.text(&text);
        seen.event(&event).unwrap();
        often.flush_in_place().unwrap();
        if step % 50 == 0 {
            seen.flush_in_place().unwrap();
            let (recording, damage) = Recording::open(&path).unwrap();
            assert_eq!(damage.map(|damage| damage.what), Some(DamageKind::Truncated));
            assert_eq!(recording.events, written);
            assert_eq!(recording.texts.len(), step / 7 + 1);
        }
    }
    seen.finish().unwrap();
    let [often, once] = [often, once].map(|writer| writer.finish().unwrap().0.into_inner());
    assert!(often == once && fs::read(&path).unwrap() == once);
    fs::remove_file(&path).unwrap();
}

#[test]
fn texts_may_be_long_and_many() {
    let mut writer = RecordingWriter::new(Vec::new(), &header(), &WriterDesc::default()).unwrap();
    // An é is two bytes, one of which would be beyond the limit.
    let long = format!("x{}", "é".repeat(5000));
    let cut = writer.text(&long);
    assert_eq!(writer.text(&long), cut, "it has one number, cut or not");
    let mut numbers = Vec::new();
    for number in 0..200_000 {
        numbers.push(writer.text(&format!("a name of about forty bytes, number {number}")));
    }
    for &text in numbers.iter().chain([&cut]) {
        writer.event(&Event::Mark { text }).unwrap();
    }
    let file = writer.finish().unwrap().0;
    let (recording, damage) = Recording::read(&*file).unwrap();
    assert_eq!(damage, None);
    assert_eq!(recording.text(cut).unwrap().len(), 4095);
    assert_eq!(recording.text(numbers[123_456]), Some("a name of about forty bytes, number 123456"));
    assert_eq!(read_by_chunks(&file).0.texts(), recording.texts);

    let few = ReadOptions::default().with_max_text_bytes(1 << 20);
    let (recording, damage) = Recording::read_with(&*file, &few).unwrap();
    assert!(matches!(damage.unwrap().what, DamageKind::TooMuch { limit: 1_048_576, .. }), "{damage:?}");
    assert!(recording.texts.len() < 30_000);
}

#[test]
fn no_more_events_are_read_than_the_options_say() {
    let events = vec![Event::Lost; 1000];
    let recording = Recording { events, ..Recording::default() };
    let file = file(&recording, 300, &WriterDesc::default());
    let options = ReadOptions::default().with_max_events(700);
    let (read, damage) = Recording::read_with(&*file, &options).unwrap();
    assert_eq!(read.events.len(), 700);
    let damage = damage.unwrap();
    assert_eq!(damage.what, DamageKind::TooMuch { of: "events", limit: 700 });
    assert!(damage.to_string().contains("more than 700 events"), "{damage}");
    assert_eq!(Recording::read_with(&*file, &options.with_max_events(1000)).unwrap(), (recording, None));
}

#[test]
fn a_file_of_another_format_or_version_is_refused() {
    let file = file(&Recording::default(), 1, &WriterDesc::default());
    for bytes in [&b""[..], b"PK\x03\x04", &file[..7]] {
        let error = Recording::read(bytes).unwrap_err();
        assert!(matches!(error, ReadError::NotARecording), "{error}");
    }
    let mut later = file.clone();
    later[8] = 2;
    let error = Recording::read(&*later).unwrap_err();
    assert!(matches!(error, ReadError::Version { found: 2 }), "{error}");
    assert!(error.to_string().contains("reads version 1: update it"), "{error}");
    let error = RecordingReader::new(Cursor::new(&later)).unwrap_err();
    assert!(matches!(error, ReadError::Version { found: 2 }), "{error}");
}

#[test]
fn a_transfer_in_text_mode_is_noticed() {
    let file = file(&Recording::default(), 1, &WriterDesc::default());
    let text: Vec<u8> = file.iter().copied().filter(|&byte| byte != b'\r').collect();
    assert!(matches!(Recording::read(&*text), Err(ReadError::NotARecording)));
}
