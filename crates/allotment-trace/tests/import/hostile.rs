//! Damaged and hostile files: cut at each byte, with each bit flipped, and made to exceed each limit.

use std::fs;
use std::io::Write;

use allotment_trace::import::{self, Format, ImportErrorKind, Limits, Position};
use allotment_trace::recording::State;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::{data, trace};

/// A limit of memory at which a hostile file is refused soon.
fn small() -> Limits {
    let mut limits = Limits::default();
    (limits.text_bytes, limits.line_bytes, limits.document_bytes) = (1 << 22, 1 << 16, 1 << 22);
    limits.memory_bytes = 1 << 25;
    limits.work = 1 << 23;
    limits
}

/// Imports what may be damaged. Whatever is read applies to a state.
fn try_import(bytes: &[u8]) -> Result<(), String> {
    match import::read_within(bytes, &small()) {
        Ok(recording) => {
            let mut state = State::default();
            for event in &recording.events {
                state.apply(event).unwrap();
            }
            Ok(())
        }
        Err(error) => {
            let text = error.to_string();
            assert!(!text.is_empty() && !text.contains('\n') && text.len() < 1000, "{text}");
            // A position is never beyond the file.
            assert!(
                !matches!(error.position(), Some(Position::Byte(byte)) if byte > bytes.len() as u64),
                "{text}"
            );
            Err(text)
        }
    }
}

/// The first lines of the race that allocate and map.
fn some_lines() -> Vec<u8> {
    let mut text = String::new();
    let file = fs::File::open(trace("supertuxkart-race.gfxr.jsonl.gz")).unwrap();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(file), &mut text).unwrap();
    let wanted = ["gfxrecon", "\"vkGetPhys", "\"vkAlloc", "\"vkBind", "\"vkCreateB", "\"vkMap", "\"vkQueueS"];
    let lines = text.lines().filter(|line| line.len() < 800);
    let lines = lines.filter(|line| wanted.iter().any(|part| line.contains(part))).take(14);
    lines.map(|line| format!("{line}\n")).collect::<String>().into_bytes()
}

fn samples() -> [(&'static str, Vec<u8>); 8] {
    [
        ("gpu-allocator", super::dumps::REPORT.as_bytes().to_vec()),
        ("gfxr", super::gfxr::direct3d12().concat().into_bytes()),
        ("gfxr", some_lines()),
        ("vma", fs::read(data("vma.json")).unwrap()),
        ("vma 2", fs::read(data("vma-2.3.0-small.json")).unwrap()),
        ("virtual", fs::read(data("vma-3.3.0-virtual.json")).unwrap()),
        ("d3d12ma", fs::read(data("d3d12ma.json")).unwrap()),
        ("pytorch", fs::read(data("snapshot-expandable.pickle")).unwrap()),
    ]
}

#[test]
fn files_that_are_cut_at_any_byte_are_an_error_or_a_shorter_recording() {
    for (name, bytes) in samples() {
        try_import(&bytes).unwrap();
        for end in 0..bytes.len() {
            let cut = try_import(&bytes[..end]);
            // A document that is cut is never read; lines are, up to the last whole one.
            let whitespace_only_is_lost = bytes[end..].iter().all(u8::is_ascii_whitespace);
            assert!(name == "gfxr" || whitespace_only_is_lost || cut.is_err(), "{name} cut at {end}");
        }
    }
}

#[test]
fn no_flipped_bit_makes_an_importer_panic_or_an_event_contradict_others() {
    for (_, mut bytes) in samples() {
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            let _ = try_import(&bytes);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn hardly_a_changed_byte_of_a_capture_is_unnoticed() {
    // Captures state nothing twice, but handles: numbers, names and flags are what they are, and of most calls nothing is
    // read, so that one is not missed whose name changed.
    for (api, mut bytes) in [("Direct3D 12", super::gfxr::direct3d12()), ("Vulkan", super::gfxr::vulkan())]
        .map(|(api, lines)| (api, lines.concat().into_bytes()))
    {
        let whole = import::read(&*bytes).unwrap();
        assert_eq!(whole.unread, [], "{api}");
        let mut unnoticed = 0;
        for at in 0..bytes.len() {
            bytes[at] ^= 1;
            let read = import::read(&*bytes);
            bytes[at] ^= 1;
            unnoticed += usize::from(read.is_ok_and(|read| read.unread.is_empty() && read != whole));
        }
        println!("{api}: {unnoticed} of {} bytes", bytes.len());
        assert!(unnoticed < bytes.len() / 9, "{api}: {unnoticed} of {}", bytes.len());
    }
}

#[test]
fn bytes_that_are_repeated_swapped_or_extreme_make_no_importer_panic() {
    for (_, bytes) in samples() {
        for at in (0..bytes.len()).step_by(3) {
            for with in [
                &b""[..],
                b"0",
                b"18446744073709551615",
                b"9223372036854775807",
                b"\"",
                b"null",
                b"]",
                b"\xff\xff\xff\x7f",
            ] {
                for removed in [0, 1, 4, 17] {
                    let rest = &bytes[usize::min(at + removed, bytes.len())..];
                    let _ = try_import(&[&bytes[..at], with, rest].concat());
                }
            }
        }
    }
}

fn kind(bytes: &[u8]) -> ImportErrorKind {
    kind_within(bytes, &small())
}

fn kind_within(bytes: &[u8], limits: &Limits) -> ImportErrorKind {
    match import::read_within(bytes, limits) {
        Ok(recording) => panic!("{} events", recording.events.len()),
        // The kind has no copy: its text tells which one it is.
        Err(error) => match error.kind() {
            ImportErrorKind::TooMuchMemory { limit } => ImportErrorKind::TooMuchMemory { limit: *limit },
            ImportErrorKind::TooLarge { limit } => ImportErrorKind::TooLarge { limit: *limit },
            ImportErrorKind::LineTooLong { limit } => ImportErrorKind::LineTooLong { limit: *limit },
            ImportErrorKind::TooMuchWork { limit } => ImportErrorKind::TooMuchWork { limit: *limit },
            _ => panic!("{error}"),
        },
    }
}

#[test]
fn each_limit_is_an_error_that_names_it() {
    let line = |text: &str| format!("{{\"vkFunc\":{{\"name\":\"{text}\"}}}}\n");
    let long = line(&"x".repeat(1 << 16));
    assert!(matches!(kind(long.as_bytes()), ImportErrorKind::LineTooLong { limit: 0x10000 }));
    let much = line("vkQueuePresentKHR").repeat(200_000);
    assert!(matches!(kind(much.as_bytes()), ImportErrorKind::TooLarge { limit: 0x40_0000 }));
    let mut limits = small();
    limits.text_bytes = u64::MAX;
    let many = line("vkQueuePresentKHR").repeat(300_000);
    let error = import::read_within(many.as_bytes(), &limits).unwrap_err();
    assert!(matches!(error.kind(), ImportErrorKind::TooMuchMemory { limit: 0x200_0000 }), "{error}");
    assert!(matches!(error.position(), Some(Position::Line(_))));
    let dump = format!("{{\"General\":{{\"API\":\"{}", "x".repeat(1 << 22));
    assert!(matches!(kind(dump.as_bytes()), ImportErrorKind::TooLarge { limit: 0x40_0000 }));
    // Empty lists, one a byte; marks; texts whose length is a lie; a list of which each item is the list before.
    let lists = [&b"\x80\x04"[..], &[b']'; 2_000_000]].concat();
    assert!(matches!(kind(&lists), ImportErrorKind::TooMuchMemory { .. }));
    let marks = [&b"\x80\x04"[..], &[b'('; 3_000_000]].concat();
    assert!(matches!(kind(&marks), ImportErrorKind::TooMuchMemory { .. }));
    let lie = b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7f";
    assert!(matches!(kind(lie), ImportErrorKind::TooMuchMemory { .. }));
}

#[test]
fn values_that_refer_to_each_other_many_times_are_refused_at_the_limit() {
    // 2,000 segments that are the same one, which has 2,000 blocks that are the same one.
    let text = |text: &str| [&[0x8c, text.len() as u8], text.as_bytes()].concat();
    let times = |value: &[u8]| [b"](", value.repeat(2000).as_slice(), b"e"].concat();
    let block =
        [&b"}("[..], &text("size"), b"K\0", &text("state"), &text("active_allocated"), b"uq\0"].concat();
    let segment = [
        &b"}("[..],
        &text("address"),
        b"K\0",
        &text("total_size"),
        b"K\0",
        &text("blocks"),
        &times(b"h\0"),
        b"uq\x01",
    ]
    .concat();
    let pickle =
        [&b"\x80\x04"[..], &block, b"0", &segment, b"0}", &text("segments"), &times(b"h\x01"), b"s."]
            .concat();
    assert!(matches!(kind(&pickle), ImportErrorKind::TooMuchMemory { .. }));
}

/// The same bytes, compressed.
fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut compressed = GzEncoder::new(Vec::new(), Compression::best());
    compressed.write_all(bytes).unwrap();
    compressed.finish().unwrap()
}

fn pickled(text: &str) -> Vec<u8> {
    [&[0x8c, text.len() as u8], text.as_bytes()].concat()
}

fn pickled_list(items: &[u8]) -> Vec<u8> {
    [b"](", items, b"e"].concat()
}

/// A pickle that sets some names and then has the given entries.
fn snapshot(values: &[&[u8]], segments: &[u8], trace: &[u8]) -> Vec<u8> {
    let mut pickle = b"\x80\x04".to_vec();
    for (index, value) in (0_u8..).zip(values) {
        pickle.extend([*value, &[b'q', index, b'0']].concat());
    }
    let segments = [pickled("segments"), pickled_list(segments), b"s".to_vec()].concat();
    let traces = [pickled("device_traces"), pickled_list(&pickled_list(trace)), b"s".to_vec()].concat();
    [pickle, b"}".to_vec(), segments, traces, b".".to_vec()].concat()
}

/// Pickles in which a few values are reached in very many ways, and none of which is kept.
fn pickles_of_few_values() -> Vec<(&'static str, Vec<u8>)> {
    const TIMES: usize = 30_000;
    let times = |value: &[u8]| value.repeat(TIMES);
    let number = |value: u32| [&b"J"[..], &value.to_le_bytes()].concat();
    let dict = |entries: &[(&str, Vec<u8>)]| {
        let entries = entries.iter().map(|(key, value)| [pickled(key), value.clone()].concat());
        [&b"}("[..], &entries.collect::<Vec<_>>().concat(), b"u"].concat()
    };
    let inactive = dict(&[("size", number(1)), ("state", pickled("inactive"))]);
    let blocks = pickled_list(&times(b"h\0"));
    let of_blocks = dict(&[("address", number(0)), ("total_size", number(1)), ("blocks", b"h\x01".to_vec())]);
    // Keys that are none, which are compared all the same.
    let many_keys: Vec<_> = (0..60).map(|key| (format!("{key:03}"), number(0))).collect();
    let many_keys: Vec<_> = many_keys.iter().map(|(key, value)| (key.as_str(), value.clone())).collect();
    let wide = dict(&[many_keys, vec![("action", pickled("snapshot")), ("size", number(0))]].concat());
    // A segment that is mapped and unmapped again and again under many allocations.
    let mapping = |action: &str, size: u32| {
        dict(&[
            ("action", pickled(action)),
            ("addr", number(0)),
            ("size", number(size)),
            ("device", number(0)),
        ])
    };
    let under_all: Vec<u8> = (0..4000_u32)
        .map(|at| dict(&[("action", pickled("alloc")), ("addr", number(at * 512)), ("size", number(512))]))
        .collect::<Vec<_>>()
        .concat();
    let unmap = dict(&[
        ("action", pickled("segment_unmap")),
        ("addr", number(4000 * 512)),
        ("size", number(1 << 20)),
    ]);
    let map_above =
        dict(&[("action", pickled("segment_map")), ("addr", number(4000 * 512)), ("size", number(1 << 20))]);
    let again = b"h\0h\x01".repeat(10_000);
    vec![
        ("a list of segments that have a list of blocks", {
            snapshot(&[&inactive, &blocks, &of_blocks], &times(b"h\x02"), b"")
        }),
        ("entries with many keys", snapshot(&[&wide], b"", &times(b"h\0"))),
        (
            "memory that is mapped and unmapped under many allocations",
            snapshot(
                &[&map_above, &unmap],
                b"",
                &[mapping("segment_map", 4000 * 512), under_all, again].concat(),
            ),
        ),
    ]
}

#[test]
fn a_small_file_of_much_work_is_refused() {
    let mut limits = small();
    limits.work = 1 << 20;
    for (what, pickle) in pickles_of_few_values() {
        let kind = kind_within(&compressed(&pickle), &limits);
        assert!(matches!(kind, ImportErrorKind::TooMuchWork { .. }), "{what}: {kind}");
    }
    let call =
        |name: &str, args: &str| format!("{{\"vkFunc\":{{\"name\":\"{name}\",\"args\":{{{args}}}}}}}\n");
    (limits.text_bytes, limits.line_bytes, limits.memory_bytes) = (1 << 30, 1 << 24, 1 << 30);
    let chain = |depth: usize| {
        let link = "{\"sType\":\"VK_STRUCTURE_TYPE_X\",\"pNext\":";
        format!("{}null,\"rest\":\"{}\"{}", link.repeat(depth), "x".repeat(4 << 20), "}".repeat(depth))
    };
    let buffer = call("vkCreateBuffer", "\"pCreateInfo\":{\"size\":1,\"usage\":1},\"pBuffer\":1");
    let memory = call(
        "vkAllocateMemory",
        "\"pAllocateInfo\":{\"allocationSize\":1,\"memoryTypeIndex\":0,\"pNext\":null},\"pMemory\":2",
    );
    let bind = call("vkBindBufferMemory", "\"buffer\":1,\"memory\":2,\"memoryOffset\":0");
    let free = call("vkFreeMemory", "\"memory\":2");
    for (what, text) in [
        ("lines of nothing", format!("{}{}", call("vkQueuePresentKHR", ""), "\n".repeat(8 << 20))),
        (
            "a long chain of structures",
            call(
                "vkAllocateMemory",
                &format!(
                    "\"pAllocateInfo\":{{\"allocationSize\":1,\"memoryTypeIndex\":0,\"pNext\":{}}},\"pMemory\":2",
                    chain(30)
                ),
            ),
        ),
        ("a resource that is bound again and again", [buffer, memory, bind.repeat(20_000), free].concat()),
    ] {
        let stored = compressed(text.as_bytes());
        let error = import::read_within(stored.as_slice(), &limits).unwrap_err();
        assert!(matches!(error.kind(), ImportErrorKind::TooMuchWork { .. }), "{what}: {error}");
        assert!(matches!(error.position(), Some(Position::Line(_))), "{what}: {error}");
    }
}

#[test]
fn work_that_a_file_has_bytes_for_is_done_by_default() {
    // The real files are far below the limit: they are read with hardly any steps beside those of their bytes.
    let mut limits = Limits::default();
    limits.work = 1 << 12;
    for path in [
        trace("supertuxkart-race.gfxr.jsonl.gz"),
        data("vma.json"),
        data("d3d12ma.json"),
        data("snapshot.pickle"),
        data("snapshot-ring.pickle"),
        data("snapshot-expandable.pickle"),
    ] {
        let stored = fs::read(&path).unwrap();
        import::read_within(stored.as_slice(), &limits).unwrap_or_else(|error| panic!("{path}: {error}"));
        if !path.ends_with(".gz") {
            import::read_within(compressed(&stored).as_slice(), &limits)
                .unwrap_or_else(|error| panic!("{path}, compressed: {error}"));
        }
    }
}

#[test]
fn nested_lists_of_any_depth_are_refused_without_recursion() {
    for opening in ["[", "{\"a\":"] {
        let deep = opening.repeat(100_000);
        let line = format!("{{\"vkFunc\":{{\"name\":\"vkCreateBuffer\",\"args\":{deep}");
        import::read(line.as_bytes()).unwrap_err();
        let dump = format!("{{\"General\":{{\"API\":\"Vulkan\",\"x\":{deep}");
        import::read(dump.as_bytes()).unwrap_err();
    }
    let mut pickle = b"\x80\x04".to_vec();
    pickle.extend(core::iter::repeat_n(b']', 10_000));
    pickle.extend(core::iter::repeat_n(b'a', 9_999));
    pickle.push(b'.');
    import::read(pickle.as_slice()).unwrap_err();
}

#[test]
fn a_small_file_that_decompresses_endlessly_is_refused() {
    let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
    bomb.write_all(b"{\"vkFunc\":null}\n").unwrap();
    for _ in 0..64 {
        bomb.write_all(&[b'\n'; 1 << 20]).unwrap();
    }
    let bomb = bomb.finish().unwrap();
    assert!(bomb.len() < 100_000);
    assert!(matches!(kind(&bomb), ImportErrorKind::TooLarge { .. }));
}

#[test]
fn formats_are_detected_by_their_first_bytes() {
    let start = |path: String| fs::read(path).unwrap();
    assert_eq!(import::detect(&start(data("vma.json"))), Some(Format::MemoryDump));
    assert_eq!(import::detect(&start(data("d3d12ma.json"))), Some(Format::MemoryDump));
    assert_eq!(import::detect(&start(data("snapshot-protocol-2.pickle"))), Some(Format::PyTorch));
    assert_eq!(import::detect(&some_lines()), Some(Format::GfxReconstruct));
    assert_eq!(import::detect(b"op,id,size,alignment,kind,name\n"), Some(Format::Trace));
    assert_eq!(import::detect(b"{}"), None);
    assert_eq!(import::detect(b""), None);
    let message = |bytes: &[u8]| import::read(bytes).unwrap_err().to_string();
    assert!(message(b"op,id,size,alignment,kind,name\n").contains("replay"));
    assert!(message(b"[\n{\"header\":{\"gfxrecon-version\":\"1\"}}]").contains("--format jsonl"));
    assert!(message(b"").contains("empty"));
    assert!(message(b"\xff\xfe{\0").contains("UTF-8"));
    assert!(message(b"PK\x03\x04").contains("gfxrecon-convert"));
    let missing = import::open("no such folder/no such file").unwrap_err();
    assert_eq!(missing.to_string(), "no such folder/no such file: cannot read the file: no such file");
}
