//! Dumps that each version of VMA and of D3D12MA wrote of one program, made by `data/vma_dumps.cpp` and
//! `data/d3d12ma_dumps.cpp`, against an independent count.

use std::fs;

use allotment::Algorithm;
use allotment_trace::import::{self, ImportErrorKind};
use allotment_trace::recording::{Api, BlockKind, Event, Extent, Library, Recording, State, UnreadKind};
use serde_json::Value;

use super::{applied, data};

const VERSIONS: [&str; 11] = [
    "2.0.0",
    "2.1.0",
    "2.1.0-margin",
    "2.2.0",
    "2.3.0",
    "3.0.0",
    "3.0.1",
    "3.1.0",
    "3.2.0",
    "3.3.0",
    "3.3.0-margin",
];

/// What a dump adds up to: memory objects and their bytes, allocations and theirs, and free bytes.
#[derive(Debug, Default, PartialEq)]
struct Count {
    blocks: u64,
    block_bytes: u64,
    allocations: u64,
    allocation_bytes: u64,
    free_bytes: u64,
}

/// Counts a dump, wherever its blocks are in it.
fn count(value: &Value, key: &str, sum: &mut Count) {
    let number = |value: &Value, key: &str| value[key].as_u64().unwrap();
    match value {
        Value::Object(members) if members.contains_key("Suballocations") => {
            (sum.blocks, sum.block_bytes) = (sum.blocks + 1, sum.block_bytes + number(value, "TotalBytes"));
            for range in value["Suballocations"].as_array().unwrap() {
                if range["Type"] == "FREE" {
                    sum.free_bytes += number(range, "Size");
                } else {
                    sum.allocations += 1;
                    sum.allocation_bytes += number(range, "Size");
                }
            }
        }
        Value::Object(members) if members.contains_key("Size") && key == "DedicatedAllocations" => {
            let size = number(value, "Size");
            (sum.blocks, sum.block_bytes) = (sum.blocks + 1, sum.block_bytes + size);
            (sum.allocations, sum.allocation_bytes) = (sum.allocations + 1, sum.allocation_bytes + size);
        }
        Value::Object(members) => members.iter().for_each(|(own, value)| {
            // In VMA 2, the memory types are between.
            count(value, if key == "DedicatedAllocations" { key } else { own }, sum);
        }),
        Value::Array(list) => list.iter().for_each(|value| count(value, key, sum)),
        _ => {}
    }
}

fn counted(state: &State) -> Count {
    let mut sum = Count::default();
    for block in state.blocks.values() {
        (sum.blocks, sum.block_bytes) = (sum.blocks + 1, sum.block_bytes + block.size);
    }
    for live in state.allocations.values() {
        sum.allocations += 1;
        sum.allocation_bytes += live.is.requested;
    }
    sum.free_bytes = sum.block_bytes - sum.allocation_bytes;
    sum
}

/// The text of a dump as JSON that any reader takes: what VMA 2.0 and 3.0.0 write wrongly is put right by hand.
fn mended(version: &str) -> String {
    let bytes = fs::read(data(&format!("vma-{version}.json"))).unwrap();
    // Each byte a character: Latin-1.
    let text: String = bytes.into_iter().map(char::from).collect();
    match version {
        "2.0.0" => text.replace(r"back \ tab", r"back \\ tab"),
        "3.0.0" => text.replace(", \n        \" - \": \"", " - ").replace("\"\", \n", "\", \n"),
        _ => text,
    }
}

/// VMA before 3.1 leaves out what is beyond ASCII.
fn is_ascii(version: &str) -> bool {
    version.starts_with('2') || version.starts_with("3.0")
}

fn open(name: &str) -> Recording {
    import::open(data(&format!("vma-{name}.json"))).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_totals_of_each_version_of_vma_are_those_of_an_independent_count() {
    for version in VERSIONS {
        let recording = open(version);
        let value: Value =
            serde_json::from_str(&mended(version)).unwrap_or_else(|error| panic!("{version}: {error}"));
        let mut expected = Count::default();
        count(&value, "", &mut expected);
        let state = applied(&recording);
        assert_eq!(counted(&state), expected, "{version}");
        assert!(expected.allocations >= 35 && expected.blocks >= 8, "{version}: {expected:?}");
        let header = &recording.header;
        assert_eq!((header.api, header.library, header.extent), (Api::Vulkan, Library::Vma, Extent::Moment));
        assert_eq!((header.heaps.len(), header.memory_types.len()), (1, 1), "{version}");
        let dedicated = state.blocks.values().filter(|block| block.kind == BlockKind::Dedicated).count();
        assert!((2..=3).contains(&dedicated), "{version}: {dedicated}");
    }
}

#[test]
fn the_totals_of_versions_of_d3d12ma_are_those_of_an_independent_count() {
    for version in ["2.0.1", "3.0.1", "3.2.0"] {
        let name = format!("d3d12ma-{version}.json");
        let bytes = fs::read(data(&name)).unwrap();
        let text: Vec<u16> = bytes.chunks(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
        let text = String::from_utf16(&text).unwrap();
        let mut expected = Count::default();
        count(&serde_json::from_str(text.trim_start_matches('\u{feff}')).unwrap(), "", &mut expected);
        let recording = import::open(data(&name)).unwrap();
        let state = applied(&recording);
        assert_eq!(counted(&state), expected, "{version}");
        assert_eq!(expected.allocations, 13, "{version}");
        // The statistics of custom pools are also those of their heap type.
        assert_eq!(recording.unread, [], "{version}");
        let header = &recording.header;
        assert_eq!((header.api, header.library), (Api::Direct3D12, Library::D3d12MemoryAllocator));
        let named = |name: &str| recording.texts.iter().any(|text| text == name);
        assert!(
            named("farge æøå \"q\" \\") && named("ring") && named("in the ring"),
            "{:?}",
            recording.texts
        );
    }
}

#[test]
fn nothing_of_a_dump_is_unread_but_what_its_version_writes_wrongly() {
    for version in VERSIONS {
        let unread = open(version).unread;
        let kinds: Vec<_> = unread.iter().map(|found| (found.kind, found.count)).collect();
        let expected: &[(UnreadKind, u64)] = match version {
            "2.0.0" => &[(UnreadKind::Damaged, 4)],
            "3.0.0" => &[(UnreadKind::Damaged, 4)],
            _ if is_ascii(version) => &[],
            _ => &[(UnreadKind::Encoding, 3)],
        };
        assert_eq!(kinds, expected, "{version}: {unread:?}");
    }
    assert!(open("3.0.0").unread[0].text.contains("as VMA 3.0.0 writes them"));
}

#[test]
fn names_are_read_in_the_encoding_that_they_have() {
    for version in VERSIONS {
        let recording = open(version);
        let has = |name: &str| recording.texts.iter().any(|text| text == name);
        assert!(has("mesh 1") && has("quote \" back \\ tab \t end") && has("staging"), "{version}");
        assert!(has(if is_ascii(version) { "Bcher" } else { "Bücher" }), "{version}: {:?}", recording.texts);
        assert_eq!(has("木"), !is_ascii(version), "{version}");
    }
}

#[test]
fn custom_pools_have_their_names_and_the_algorithms_that_are_written() {
    for version in VERSIONS {
        let recording = open(version);
        let state = applied(&recording);
        let custom: Vec<_> = state.pools.values().filter(|pool| pool.custom).collect();
        let names: Vec<_> = custom.iter().filter_map(|pool| recording.text(pool.name)).collect();
        // The builds with margins are of the program without names; VMA has them since 2.3.
        let named = !version.contains("margin")
            && !version.starts_with("2.0")
            && !version.starts_with("2.1")
            && !version.starts_with("2.2");
        assert_eq!(names.contains(&"frames \"0\""), named, "{version}: {names:?}");
        let linear = recording
            .events
            .iter()
            .filter(|event| matches!(event, Event::PoolCreated { algorithm: Some(Algorithm::Linear), .. }));
        let expected = if version.starts_with("2.0") || version.starts_with('3') { 0 } else { 2 };
        assert_eq!(linear.count(), expected, "{version}");
    }
}

#[test]
fn a_dump_of_statistics_alone_says_what_they_are_and_how_to_write_one_with_allocations() {
    for (version, said) in [
        ("2.3.0", "17051973 bytes in 59 allocations, 19415040 bytes in 12 blocks"),
        ("3.3.0", "16846982 bytes in 49 allocations, 19099601 bytes in 11 blocks"),
    ] {
        let error = import::open(data(&format!("vma-{version}-brief.json"))).unwrap_err();
        assert!(matches!(error.kind(), ImportErrorKind::DumpWithoutDetails { .. }), "{error}");
        assert!(error.to_string().contains(said) && error.to_string().contains("VK_TRUE"), "{error}");
    }
    // Where nothing is allocated, VMA 2 writes no more.
    let empty = open("2.3.0-empty");
    assert_eq!((empty.events.len(), empty.header.heaps.len(), empty.unread.len()), (1, 1, 0));
}

#[test]
fn hardly_a_changed_byte_of_a_dump_is_unnoticed() {
    let pointers = |text: &str| text.matches("0xbeef").count() * 8;
    for version in ["2.3.0-small", "3.3.0-small"] {
        let mut bytes = fs::read(data(&format!("vma-{version}.json"))).unwrap();
        let text = String::from_utf8(bytes.clone()).unwrap();
        let whole = import::read(&*bytes).unwrap();
        assert_eq!(whole.unread, [], "{version}");
        let (mut unnoticed, mut places) = (Vec::new(), String::new());
        for at in 0..bytes.len() {
            bytes[at] ^= 1;
            let noticed = import::read(&*bytes).map_or(true, |read| !read.unread.is_empty() || read == whole);
            bytes[at] ^= 1;
            if !noticed {
                unnoticed.push(at);
                places.push(text.as_bytes()[at].into());
            }
        }
        // Characters of names and pointers, usage flags, frame numbers, sizes of heaps and budgets.
        assert!(
            unnoticed.len() < bytes.len() / 10 + pointers(&text),
            "{version}: {} of {}: {places}",
            unnoticed.len(),
            bytes.len()
        );
        println!("{version}: {} of {} bytes: {places}", unnoticed.len(), bytes.len());
    }
}
