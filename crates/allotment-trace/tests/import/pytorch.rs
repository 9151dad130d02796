//! PyTorch snapshots, made by `data/make_snapshots.py`.

use std::collections::BTreeMap;

use allotment_trace::import::{self, ImportErrorKind, Position};
use allotment_trace::recording::{Event, Placement, Recording, StackId, State};

use super::{applied, data, left_out};

fn open(name: &str) -> Recording {
    import::open(data(name)).unwrap()
}

/// What exists: for each address the requested bytes, and whether it was released.
fn live(state: &State) -> BTreeMap<u64, (u64, bool)> {
    let found = state.allocations.values();
    found.map(|live| (live.is.user_data, (live.is.requested, live.free_requested.is_some()))).collect()
}

/// The state before the first event of the history.
fn at_the_beginning(recording: &Recording) -> State {
    let is_before = |event: &&Event| {
        matches!(
            event,
            Event::PoolCreated { .. }
                | Event::BlockAllocated { .. }
                | Event::FreeRequested { .. }
                | Event::CallSite { .. }
                | Event::Stack { .. }
        ) || matches!(event, Event::Allocated(is) if is.placement == Placement::Existing)
    };
    let mut state = State::default();
    for event in recording.events.iter().take_while(is_before) {
        state.apply(event).unwrap();
    }
    state
}

#[test]
fn a_whole_history_leads_from_nothing_to_the_final_state() {
    let recording = open("snapshot.pickle");
    assert_eq!(left_out(&recording), [""; 0]);
    assert!(
        !recording
            .events
            .iter()
            .any(|event| matches!(event, Event::Allocated(is) if is.placement == Placement::Existing))
    );
    let state = applied(&recording);
    // The final state alone gives the same.
    let alone = applied(&open("snapshot-protocol-4.pickle"));
    assert_eq!(live(&state), live(&alone));
    let occupied = |state: &State| state.allocations.values().map(|live| live.is.occupied).sum::<u64>();
    assert_eq!(occupied(&state), occupied(&alone));
    let sizes = |state: &State| {
        let mut sizes: Vec<_> = state.blocks.values().map(|block| block.size).collect();
        sizes.sort_unstable();
        sizes
    };
    assert_eq!(sizes(&state), sizes(&alone));
}

#[test]
fn all_protocols_say_the_same() {
    let recording = open("snapshot-protocol-2.pickle");
    assert_eq!(left_out(&recording), [""; 0]);
    for protocol in 3..=5 {
        assert_eq!(recording, open(&format!("snapshot-protocol-{protocol}.pickle")), "protocol {protocol}");
    }
}

#[test]
fn where_the_ring_lost_the_beginning_the_state_before_it_is_found_backwards() {
    let recording = open("snapshot-ring.pickle");
    assert_eq!(left_out(&recording), [""; 0]);
    let expected: Vec<(u64, u64, bool)> =
        serde_json::from_str(&std::fs::read_to_string(data("snapshot-ring.json")).unwrap()).unwrap();
    let expected: BTreeMap<_, _> =
        expected.into_iter().map(|(at, size, released)| (at, (size, released))).collect();
    let begun = at_the_beginning(&recording);
    assert!(expected.len() > 10);
    assert_eq!(live(&begun), expected);
    assert_eq!(live(&applied(&recording)), live(&applied(&open("snapshot.pickle"))));
}

#[test]
fn the_state_of_a_ring_is_that_of_the_whole_history_at_each_common_event() {
    let (whole, ring) = (open("snapshot.pickle"), open("snapshot-ring.pickle"));
    // Both end alike, so that the states are compared from the end: after the last n events of the kinds that change
    // what is live.
    let states = |recording: &Recording| {
        let mut state = State::default();
        let mut states = Vec::new();
        for event in &recording.events {
            state.apply(event).unwrap();
            if matches!(event, Event::Allocated(_) | Event::FreeRequested { .. } | Event::Freed { .. }) {
                states.push(live(&state));
            }
        }
        states
    };
    let (whole, ring) = (states(&whole), states(&ring));
    // The ring kept 400 entries of one device and all of the other, which are earlier; most change what is live.
    let common = 350;
    assert!(ring.len() > common && whole.len() > ring.len());
    for (i, (a, b)) in whole.iter().rev().zip(ring.iter().rev()).take(common).enumerate() {
        assert_eq!(a, b, "{i} events before the end");
    }
}

#[test]
fn call_sites_are_of_the_program_and_not_of_torch() {
    let recording = open("snapshot.pickle");
    let sites: std::collections::BTreeSet<_> = recording
        .events
        .iter()
        .filter_map(|event| match event {
            Event::CallSite { site, .. } => recording.text(*site),
            _ => None,
        })
        .collect();
    assert_eq!(Vec::from_iter(sites), ["model/train.py:130", "model/train.py:41", "model/train.py:77"]);
    assert!(recording.texts.iter().any(|text| text == "forward"));
    assert!(recording.texts.iter().any(|text| text == "warm-up"));
    let refused = recording.events.iter().find_map(|event| match *event {
        Event::Refused { requested, available, .. } => Some((requested, available)),
        _ => None,
    });
    assert_eq!(refused, Some((99_000_000_000, 123_456)));
}

#[test]
fn an_expandable_segment_is_one_block_that_grows_and_shrinks() {
    let recording = open("snapshot-expandable.pickle");
    assert_eq!(left_out(&recording), [""; 0]);
    let sizes: Vec<_> = recording
        .events
        .iter()
        .filter_map(|event| match *event {
            Event::BlockAllocated { size, .. } | Event::BlockResized { size, .. } => Some(size >> 20),
            _ => None,
        })
        .collect();
    assert_eq!(sizes, [20, 40, 60, 40]);
    let state = applied(&recording);
    assert_eq!((state.blocks.len(), state.allocations.len()), (1, 2));
}

fn text(text: &str) -> Vec<u8> {
    [&[0x8c, text.len() as u8], text.as_bytes()].concat()
}

fn error(parts: &[&[u8]]) -> import::ImportError {
    import::read([b"\x80\x04", parts.concat().as_slice()].concat().as_slice()).unwrap_err()
}

#[test]
fn pickles_that_name_code_or_are_no_snapshots_are_refused_by_byte() {
    let found = error(&[b"cos\nsystem\n(X\x02\0\0\0lstR."]);
    assert!(matches!(found.kind(), ImportErrorKind::PickleCode));
    assert_eq!(found.position(), Some(Position::Byte(2)));
    assert!(matches!(error(&[b"K\x01."]).kind(), ImportErrorKind::NotASnapshot { .. }));
    assert!(matches!(error(&[b"K\x01"]).kind(), ImportErrorKind::PickleTruncated));
    assert!(matches!(error(&[b"\xff"]).kind(), ImportErrorKind::PickleOpcode { opcode: 0xff }));
    assert!(matches!(error(&[b"(0"]).kind(), ImportErrorKind::PickleCorrupt { .. }));
    let found = error(&[b"}", &text("segments"), b"]}as."]);
    assert_eq!(found.to_string(), "the pickle is no memory snapshot: a segment has no address or no size");
}

#[test]
fn a_list_that_contains_itself_is_read() {
    // A list in the memo, appended to itself, as the segments.
    let found = error(&[b"}", &text("segments"), b"]q\0h\0as."]);
    assert!(matches!(found.kind(), ImportErrorKind::NotASnapshot { .. }));
}

/// Found by half an hour of fuzzing: a history that unmaps memory from under an allocation of no bytes.
#[test]
fn an_allocation_of_no_bytes_beyond_what_is_mapped_is_left_out() {
    let recording = open("no-bytes-beyond-a-segment.pickle");
    applied(&recording);
    assert!(left_out(&recording).contains(&"import: memory was allocated beyond its segment"));
}

#[test]
fn whole_stacks_are_kept_and_the_call_that_says_what_it_is_becomes_the_call_site() {
    let recording = open("snapshot-calls.pickle");
    assert_eq!(left_out(&recording), [""; 0]);
    let state = applied(&recording);
    let mut found: Vec<_> = state.allocations.values().collect();
    found.sort_by_key(|live| live.is.user_data);
    let text = |text| recording.text(text).unwrap_or_default();
    let shown: Vec<_> = found
        .iter()
        .map(|live| (text(live.call_site), text(live.is.name), recording.stacks.depth(live.stack)))
        .collect();
    assert_eq!(
        shown,
        [
            // The program's own line, and what it called.
            ("train.py:9", "linear", 13),
            // The backward pass has none: the node of the operator.
            ("BmmBackward0", "BmmBackward0", 13),
            // The outermost operator; and where all is machinery, the innermost call.
            ("stack", "stack", 8),
            ("torch::unwind::unwind", "torch::unwind::unwind", 2),
        ]
    );
    let calls: Vec<_> = recording.stacks.calls(found[0].stack).collect();
    assert_eq!(text(calls[0].function), "torch::unwind::unwind()");
    assert_eq!((text(calls[6].function), text(calls[6].place)), ("linear", "torch/nn/functional.py:12"));
    assert_eq!((text(calls[12].function), calls[12].parent), ("_start", StackId::NONE));
    // The six calls that the first three stacks begin with are inside of other calls, so each has its own; the ends are shared.
    assert!(recording.stacks.len() < 13 + 13 + 8 + 2);
}

#[test]
fn nothing_of_a_snapshot_is_unread_and_what_contradicts_its_own_sums_is_told() {
    for name in ["snapshot", "snapshot-ring", "snapshot-expandable", "snapshot-protocol-2", "snapshot-calls"]
    {
        assert_eq!(open(&format!("{name}.pickle")).unread, [], "{name}");
    }
    let bytes = std::fs::read(data("snapshot-protocol-4.pickle")).unwrap();
    let with = |found: &str, other: &str| {
        let at = bytes.windows(found.len()).position(|window| window == found.as_bytes()).unwrap();
        let mut changed = bytes.clone();
        changed[at..at + found.len()].copy_from_slice(other.as_bytes());
        import::read(&*changed).unwrap().unread
    };
    for (found, other, said) in [
        ("active_size", "active_sizf", "`active_sizf` of a segment is a key that is not known"),
        ("inactive", "inactivf", "inactivf: a state of blocks that is not known"),
        ("active_allocated", "active_alloc@ted", "a state of blocks that is not known"),
        ("free_completed", "free_completeD", "free_completeD: actions of a kind that is not known"),
        ("time_us", "time_u5", "`time_u5` of an entry of the history is a key that is not known"),
        ("small", "smaxl", "`segment_type` of a segment is neither small nor large"),
    ] {
        let unread = with(found, other);
        assert!(unread.iter().any(|unread| unread.text.contains(said)), "{said}: {unread:?}");
    }
}

/// What a recording says of memory: without names, calls and times, which no snapshot states twice.
fn memory(recording: &Recording) -> Vec<Event> {
    let mut events = recording.events.clone();
    events
        .retain(|event| !matches!(event, Event::CallSite { .. } | Event::Stack { .. } | Event::Time { .. }));
    for event in &mut events {
        match event {
            Event::Allocated(allocated) => (allocated.name, allocated.category) = Default::default(),
            Event::PoolCreated { name: text, .. } | Event::Mark { text } => *text = Default::default(),
            _ => {}
        }
    }
    events
}

#[test]
fn hardly_a_changed_byte_of_a_snapshot_changes_memory_unnoticed() {
    for name in ["snapshot-expandable", "snapshot-protocol-4"] {
        let mut bytes = std::fs::read(data(&format!("{name}.pickle"))).unwrap();
        let whole = memory(&import::read(&*bytes).unwrap());
        let mut unnoticed = Vec::new();
        for at in 0..bytes.len() {
            bytes[at] ^= 1;
            let read = import::read(&*bytes);
            bytes[at] ^= 1;
            if read.is_ok_and(|read| read.unread.is_empty() && memory(&read) != whole) {
                unnoticed.push(at);
            }
        }
        // Numbers of streams and devices, what is expandable, the order of two devices' events, and the size and the address
        // of what only one entry of the history is about.
        println!("{name}: {} of {} bytes", unnoticed.len(), bytes.len());
        assert!(unnoticed.len() < bytes.len() / 32, "{name}: {unnoticed:?}");
    }
}
