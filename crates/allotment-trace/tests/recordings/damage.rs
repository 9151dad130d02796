//! Files that were cut, changed, or made by somebody who wishes harm.

use std::io::Cursor;

use allotment_trace::recording::{
    AllocationKey, DamageKind, Event, Extent, Header, Library, MAX_CHUNK_BYTES, ReadError, ReadOptions,
    Recording, RecordingReader, StackId, Stacks, Unread, UnreadKind, WriterDesc,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::events::{any_event, header, likely_event, texts, with_stacks};
use crate::files::file;

/// A file of some chunks of each kind.
fn small() -> (Recording, Vec<u8>) {
    let mut runner = TestRunner::deterministic();
    let mut events: Vec<_> =
        (0..60).map(|_| likely_event(3).new_tree(&mut runner).unwrap().current()).collect();
    events.extend((0..10).map(|_| any_event(3).new_tree(&mut runner).unwrap().current()));
    let recording = Recording { header: header(), texts: texts(3), events, ..with_stacks(3) };
    let file = file(&recording, 9, &WriterDesc::default().with_snapshot_every(100));
    (recording, file)
}

/// Reads a file in both ways. Panics unless what is read was written.
fn read(file: &[u8], written: &Recording) -> Result<usize, ReadError> {
    let (recording, damage) = Recording::read(file)?;
    assert_eq!(recording.events, written.events[..recording.events.len()]);
    assert_eq!(recording.texts, written.texts[..recording.texts.len()]);
    assert_eq!(recording.header, written.header);
    let frames = recording.stacks.frames();
    assert_eq!(frames, &written.stacks.frames()[..frames.len()]);
    assert!(damage.is_some() || recording == *written);

    let mut reader = RecordingReader::new(Cursor::new(file))?;
    reader.begin()?;
    let mut events = Vec::new();
    while reader.read_events(&mut events)? {}
    // A reader that seeks does not look at what nobody asked for: a later snapshot, a part of the header.
    assert_eq!(events, written.events[..events.len()]);
    assert!(reader.damage().is_some() || events == written.events);
    for snapshot in 0..reader.snapshots().len() {
        let _ = reader.begin_at(snapshot)?;
    }
    Ok(recording.events.len())
}

#[test]
fn a_file_that_is_cut_anywhere_reads_up_to_the_cut() {
    let (written, file) = small();
    let mut before = 0;
    for cut in 0..file.len() {
        match read(&file[..cut], &written) {
            Ok(events) => {
                assert!(events >= before, "a longer file has fewer events");
                before = events;
                let damage = Recording::read(&file[..cut]).unwrap().1.unwrap();
                assert_eq!(damage.what, DamageKind::Truncated);
                assert!(damage.offset <= cut as u64);
                assert!(damage.to_string().starts_with("the recording is cut short at byte"));
            }
            Err(ReadError::NotARecording) => assert!(cut < 12, "{cut}"),
            Err(ReadError::Header(damage)) => assert_eq!((damage.what, before), (DamageKind::Truncated, 0)),
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(before, written.events.len(), "all but the index was there");
    assert_eq!(read(&file, &written).unwrap(), written.events.len());
}

#[test]
fn any_flipped_bit_is_noticed() {
    let (written, mut file) = small();
    for bit in 0..file.len() * 8 {
        file[bit / 8] ^= 1 << (bit % 8);
        match read(&file, &written) {
            Ok(_) => {
                let damage = Recording::read(&*file).unwrap().1.unwrap();
                // A flipped length moves the end of the chunk, which the checksum covers.
                let noticed =
                    matches!(damage.what, DamageKind::Checksum | DamageKind::Truncated | DamageKind::TooLong);
                assert!(noticed && damage.offset <= bit as u64 / 8, "bit {bit}: {damage:?}");
            }
            Err(ReadError::NotARecording | ReadError::Version { .. } | ReadError::Header(_)) => {}
            Err(error) => panic!("bit {bit}: {error}"),
        }
        file[bit / 8] ^= 1 << (bit % 8);
    }
}

/// Builds a chunk, as the format's description says.
fn chunk(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_le_bytes();
    let mut covered = length.to_vec();
    covered.push(kind);
    covered.extend(payload);
    [&length[..], &[kind], &crc32fast::hash(&covered).to_le_bytes(), payload].concat()
}

/// The bytes before the first chunk after the header.
fn beginning() -> Vec<u8> {
    let empty = file(&Recording::default(), 1, &WriterDesc::default());
    let header = u32::from_le_bytes(empty[12..16].try_into().unwrap()) as usize;
    empty[..12 + 9 + header].to_vec()
}

const TEXTS: u8 = 2;
const EVENTS: u8 = 3;
const SNAPSHOT: u8 = 4;
const INDEX: u8 = 5;
const END: u8 = 6;
const STACKS: u8 = 9;

/// The end of a file of some events, without an index.
fn end(events: u64) -> Vec<u8> {
    chunk(END, &[[0; 8], events.to_le_bytes()].concat())
}

/// The events of a file of chunks after an ordinary header.
fn events_of(chunks: &[Vec<u8>]) -> (Vec<Event>, Option<DamageKind>) {
    let file = [beginning(), chunks.concat()].concat();
    let (recording, damage) = Recording::read(&*file).unwrap();
    let mut reader = RecordingReader::new(Cursor::new(&file)).unwrap();
    reader.begin().unwrap();
    let mut events = Vec::new();
    while reader.read_events(&mut events).unwrap() {}
    for snapshot in 0..reader.snapshots().len() {
        let _ = reader.begin_at(snapshot).unwrap();
    }
    assert_eq!(events, recording.events);
    (recording.events, damage.map(|damage| damage.what))
}

#[test]
fn chunks_and_records_of_unknown_kinds_are_skipped() {
    // A moment of zeros, three records: a frame's end, one of kind 200 with three bytes, the next frame's end.
    let events = chunk(EVENTS, &[0, 0, 0, 3, 2, 0, 200, 3, 9, 9, 9, 2, 0]);
    let more = chunk(EVENTS, &[3, 0, 0, 3, 2, 0, 200, 3, 9, 9, 9, 2, 0]);
    let chunks = [chunk(77, b"news"), events, chunk(255, b""), more, end(6)];
    let read = events_of(&chunks);
    let frames = [0, 1, 0, 1].map(|number| Event::FrameEnd { number });
    assert_eq!(read, (frames.to_vec(), None));
    // They are told of: two chunks, and two records.
    let file = [beginning(), chunks.concat()].concat();
    let unread = Recording::read(&*file).unwrap().0.unread;
    let counts = unread.iter().map(|it| (it.kind, it.count));
    assert!(counts.eq([(UnreadKind::NotUnderstood, 2); 2]), "{unread:?}");
    // Nothing follows the end, or it is told of.
    let beyond = [end(0), chunk(EVENTS, &[0, 0, 0, 1, 4]), end(1)];
    assert_eq!(events_of(&beyond), (vec![], None));
    let file = [beginning(), beyond.concat()].concat();
    let unread = Recording::read(&*file).unwrap().0.unread;
    assert_eq!(unread[0].kind, UnreadKind::NotUnderstood);
}

/// Pools could not always keep movable allocations apart.
#[test]
fn the_rules_of_a_pool_of_an_older_writer_end_early() {
    let record = [35, 7, 7, 0, 0, 0, 0, 0, 1];
    for (later, separate) in [(&[][..], false), (&[0][..], false), (&[1][..], true)] {
        let mut payload = [&[0, 0, 0, 1][..], &record, later].concat();
        payload[5] += later.len() as u8;
        let (events, what) = events_of(&[chunk(EVENTS, &payload), end(1)]);
        let [Event::PoolRules { ignores_granularity: true, separate_movable, .. }] = events[..] else {
            panic!("{events:?}")
        };
        assert_eq!((separate_movable, what), (separate, None));
    }
}

#[test]
fn the_example_of_the_format_description_is_right() {
    let payload = [0, 0, 0, 3, 0x02, 0x00, 0x0d, 0x81, 0x01, 0x07, 0x06, 0x0d, 0x04];
    let (events, what) = events_of(&[chunk(EVENTS, &payload), end(3)]);
    let freed = |lower| Event::Freed { allocation: AllocationKey((7_u64 << 32) + lower) };
    assert_eq!((events, what), (vec![Event::FrameEnd { number: 0 }, freed(3), freed(4)], None));
}

/// The chunks of a file after its header.
fn chunks_of(file: &[u8]) -> Vec<Vec<u8>> {
    let mut rest = &file[beginning_of(file).len()..];
    let mut chunks = Vec::new();
    while !rest.is_empty() {
        let length = u32::from_le_bytes(rest[..4].try_into().unwrap()) as usize;
        let (one, others) = rest.split_at(9 + length);
        chunks.push(one.to_vec());
        rest = others;
    }
    chunks
}

fn beginning_of(file: &[u8]) -> &[u8] {
    &file[..12 + 9 + u32::from_le_bytes(file[12..16].try_into().unwrap()) as usize]
}

/// Each chunk has its own checksum, which does not tell that another is missing.
#[test]
fn a_chunk_of_events_that_was_taken_out_is_missed() {
    let (_, file) = small();
    let chunks = chunks_of(&file);
    assert!(chunks.len() > 10);
    for missing in (0..chunks.len()).filter(|&n| matches!(chunks[n][4], EVENTS | END)) {
        let others: Vec<_> = (0..chunks.len()).filter(|&n| n != missing).map(|n| &*chunks[n]).collect();
        let cut = [beginning_of(&file), &others.concat()].concat();
        let (recording, damage) = Recording::read(&*cut).unwrap();
        assert!(damage.is_some(), "chunk {missing}");
        assert_eq!(recording.unread[0].kind, UnreadKind::Damaged);
    }
}

/// What an importer did not read is not forgotten when its recording is saved.
#[test]
fn what_was_not_read_is_written_and_read_again() {
    let unread = UnreadKind::ALL.map(|kind| Unread { kind, count: 1 << 40, text: format!("{kind}, é") });
    let header = Header { library: Library::Vma, extent: Extent::Moment, ..header() };
    let recording = Recording { header, unread: unread.to_vec(), ..Recording::default() };
    let mut file = Vec::new();
    recording.write(&mut file).unwrap();
    assert_eq!(Recording::read(&*file).unwrap(), (recording, None));
}

#[test]
fn a_file_from_before_libraries_were_named_is_of_this_one_if_it_says_so() {
    for (producer, library) in [("allotment 0.1.0", Library::Allotment), ("another", Library::Unknown)] {
        let header = Header { producer: producer.to_owned(), library, ..Header::default() };
        let recording = Recording { header, ..Recording::default() };
        let mut file = Vec::new();
        recording.write(&mut file).unwrap();
        // It is not written where a reader assumes it: the header ends with the number of its settings.
        let written = beginning_of(&file);
        assert_eq!(written.len(), 12 + 9 + 1 + (1 + producer.len()) + 2 + 6);
        assert_eq!(Recording::read(&*file).unwrap().0.header.library, library);
    }
}

#[test]
fn a_chunk_whose_contents_make_no_sense_is_damage() {
    let hostile: &[&[u8]] = &[
        // Nothing; a number without an end; one of more than 64 bits.
        &[],
        &[0xff; 5],
        &[0xff; 12],
        // A record of an unknown kind that is longer than the chunk.
        &[0, 0, 0, 1, 99, 200, 1],
        // An allocation whose pool, block or shape is in an empty slot.
        &[0, 0, 0, 1, 9, 2],
        &[0, 0, 0, 1, 9, 129, 1, 0, 0, 3],
        &[0, 0, 0, 1, 9, 129, 1, 0, 0, 64, 2, 5],
        // An alignment of 2^60; flags of another version.
        &[0, 0, 0, 1, 9, 129, 1, 0, 0, 64, 2, 64, 60, 0, 0, 0, 0],
        &[0, 0, 0, 1, 9, 129, 1, 0, 0, 64, 2, 64, 8, 0, 0, 128, 0],
        // A descriptor heap whose number has more than 32 bits.
        &[0, 0, 0, 1, 24, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
    ];
    for payload in hostile {
        let (events, what) = events_of(&[chunk(EVENTS, &[0, 0, 0, 1, 4]), chunk(EVENTS, payload)]);
        assert_eq!(events[0], Event::Lost);
        assert!(matches!(what, Some(DamageKind::Contents(_))), "{payload:?}: {what:?}");
    }
    for payload in [&[][..], &[5, 1, b'a'], &[1, 1, 0xff], &[1, 0xff, 0xff, 0xff, 0x7f, b'a']] {
        let (_, what) = events_of(&[chunk(TEXTS, payload)]);
        assert!(matches!(what, Some(DamageKind::Contents(_))), "{payload:?}: {what:?}");
    }
}

#[test]
fn stacks_that_make_no_sense_are_damage() {
    let hostile: &[&[u8]] = &[
        // Nothing; calls are missing before; a call that is cut.
        &[],
        &[2, 0, 2, 0],
        &[1, 0, 2],
        // A caller before the first call; a text of more than 32 bits; one below 0.
        &[1, 0, 2, 0, 2, 2, 0],
        &[1, 0, 0x80, 0x80, 0x80, 0x80, 0x20, 0],
        &[1, 0, 1, 0],
    ];
    let good = chunk(STACKS, &[1, 0, 2, 4, 1, 2, 0]);
    let (recording, damage) = Recording::read(&*[beginning(), good, chunk(END, &[0; 16])].concat()).unwrap();
    assert_eq!((recording.stacks.len(), recording.stacks.depth(StackId(2)), damage), (2, 2, None));
    for payload in hostile {
        let (_, what) = events_of(&[chunk(STACKS, payload)]);
        assert!(matches!(what, Some(DamageKind::Contents(_))), "{payload:?}: {what:?}");
    }
    // Each call calls itself, for ever.
    let mut endless = vec![1];
    endless.extend([1, 0, 0].repeat(Stacks::MAX_DEPTH + 1));
    endless[1] = 0;
    let file = [beginning(), chunk(STACKS, &endless)].concat();
    let (recording, damage) = Recording::read(&*file).unwrap();
    assert_eq!(recording.stacks.len(), Stacks::MAX_DEPTH);
    assert!(matches!(damage.unwrap().what, DamageKind::Contents(_)));
}

#[test]
fn a_snapshot_that_contradicts_itself_is_damage() {
    let snapshots: &[&[u8]] = &[
        // No first part.
        &[2, 0, 0, 0, 0],
        // A block that is freed and does not exist.
        &[3, 0, 0, 0, 0, 8, 0],
        // An unknown block that is empty.
        &[3, 0, 0, 0, 0, 65, 1, 7],
        // Moments at the end of time are no overflow, and a record of an unknown kind is skipped.
        &[3, 0, 0, 0, 0, 64, 3, 1, 1, 1, 2, 0, 99, 0, 17, 0],
    ];
    for payload in snapshots {
        let file = [beginning(), chunk(SNAPSHOT, payload)].concat();
        let damage = Recording::read(&*file).unwrap().1.unwrap();
        assert!(matches!(damage.what, DamageKind::Contents(_)), "{payload:?}: {damage:?}");
        let mut reader = RecordingReader::new(Cursor::new(&file)).unwrap();
        if !reader.snapshots().is_empty() {
            reader.begin_at(0).unwrap();
            assert_eq!(reader.damage(), Some(damage));
        }
    }
}

#[test]
fn a_length_of_four_gigabytes_allocates_nothing() {
    let mut file = beginning();
    file.extend([0xff, 0xff, 0xff, 0xff, EVENTS, 0, 0, 0, 0]);
    let damage = Recording::read(&*file).unwrap().1.unwrap();
    assert_eq!(damage.what, DamageKind::TooLong);
    // The longest that is allowed, of a file that has not so much.
    let mut file = beginning();
    file.extend(MAX_CHUNK_BYTES.to_le_bytes());
    file.extend([EVENTS, 0, 0, 0, 0]);
    assert_eq!(Recording::read(&*file).unwrap().1.unwrap().what, DamageKind::Truncated);
    // A chunk that says it has 2^60 events.
    let many = [0, 0, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10, 4];
    let (_, damage) = Recording::read(&*[beginning(), chunk(EVENTS, &many), end(1)].concat()).unwrap();
    assert!(matches!(damage.unwrap().what, DamageKind::Contents(_)), "{damage:?}");
}

#[test]
fn an_index_that_lies_leads_to_damage_and_no_further() {
    let (written, small) = small();
    for offset in [0_u64, 1, 12, 500, small.len() as u64, u64::MAX] {
        // One entry, of events at any offset; then an end that points at the index.
        let mut payload = vec![EVENTS];
        let mut coded = offset.wrapping_shl(1);
        while coded >= 0x80 {
            payload.push(coded as u8 | 0x80);
            coded >>= 7;
        }
        payload.extend([coded as u8, 0, 0, 0, 1]);
        let mut file = small.clone();
        let at = file.len() as u64;
        file.extend(chunk(INDEX, &payload));
        file.extend(chunk(END, &[at.to_le_bytes(), [0; 8]].concat()));
        let mut reader = RecordingReader::new(Cursor::new(&file)).unwrap();
        let mut events = Vec::new();
        assert!(!reader.read_events(&mut events).unwrap() || written.events.contains(&events[0]));
    }
}

proptest! {
    /// Bytes that pass the checksum, as those of somebody who wishes harm do.
    #[test]
    fn any_contents_are_read_without_a_panic(
        chunks in proptest::collection::vec(
            (1_u8..10, proptest::collection::vec(prop_oneof![any::<u8>(), 0_u8..70], 0..200)), 1..6),
        first in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..60)),
    ) {
        let mut bytes = beginning();
        if let Some(header) = first {
            bytes.truncate(12);
            bytes.extend(chunk(1, &header));
        }
        for (kind, payload) in chunks {
            bytes.extend(chunk(kind, &payload));
        }
        let options = ReadOptions::default().with_max_events(1000);
        let _ = Recording::read_with(&*bytes, &options);
        if let Ok(mut reader) = RecordingReader::with_options(Cursor::new(&bytes), &options) {
            let mut events = Vec::new();
            while reader.read_events(&mut events).unwrap() {}
            for snapshot in 0..reader.snapshots().len() {
                let state = reader.begin_at(snapshot).unwrap();
                let _ = state.to_events();
            }
        }
    }
}
