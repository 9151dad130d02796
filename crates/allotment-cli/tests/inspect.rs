//! The commands that inspect recordings, as processes.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use std::fs;
use std::process::Output;

use allotment::device::{MemoryTypeIndex, ResourceKind};
use allotment::{Algorithm, Alignment};
use allotment_analyze::{Cursor, Grouping, Leaks, Timeline};
use allotment_trace::recording::{
    Allocated, AllocationKey, BlockId, BlockKind, BoundResource, DescriptorKind, Event, ObjectId, Placement,
    PoolId, Recording, StallKind, TextId,
};
use common::{allotment, allotment_within, error_line, folder, json, recorded};
use serde_json::Value;
use tempfile::TempDir;

/// Three resources in one block, of which one is freed in the second frame.
const SMALL: &str = "op,id,size,alignment,kind,name\n\
                     a,1,1048576,256,buffer,128\n\
                     a,2,1048576,256,buffer,128\n\
                     m,,,,,\n\
                     a,3,524288,256,buffer,64\n\
                     f,1,,,,\n\
                     m,,,,,\n";

fn written(folder: &TempDir, name: &str, text: &[u8]) -> String {
    let path = folder.path().join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn race() -> String {
    recorded("supertuxkart-race").to_str().unwrap().to_owned()
}

/// Records a replay of the race, without the replay's own staging buffers.
fn recording_of_the_race(folder: &TempDir) -> String {
    let args = ["replay", "--bytes", "none", "--json", "--trace", "race.altr"];
    json(&allotment(folder, &args));
    folder.path().join("race.altr").to_str().unwrap().to_owned()
}

#[test]
fn a_recording_of_a_replay_shows_what_the_trace_itself_shows() {
    let folder = folder();
    let recording = recording_of_the_race(&folder);
    let [of_file, of_trace] =
        [&recording, &race()].map(|file| json(&allotment(&folder, &["stats", file, "--json"])));
    for key in ["frames", "refused", "lost", "contradictions"] {
        assert_eq!(of_file[key], of_trace[key], "{key}");
    }
    for key in ["blocks", "dedicated_blocks", "empty_blocks", "allocations", "bytes", "holes", "largest_hole"]
    {
        assert_eq!(of_file["all"][key], of_trace["all"][key], "{key}");
    }
    for key in ["peak_blocks", "peak_used"] {
        assert_eq!(of_file[key]["bytes"], of_trace[key]["bytes"], "{key}");
        assert_eq!(of_file[key]["at"]["frame"], of_trace[key]["at"]["frame"], "{key}");
    }
    // The counts of the trace, by another program: 858 allocations, 587 frees.
    assert_eq!((&of_file["all"]["allocations"], &of_file["frames"]), (&271.into(), &3460.into()));
    assert_eq!(of_file["contradictions"], 0);
}

#[test]
fn stats_have_the_peaks_that_replay_measures() {
    let folder = folder();
    let replayed = json(&allotment(&folder, &["replay", "--bytes", "none", "--json"]));
    let stats = json(&allotment(&folder, &["stats", &race(), "--json"]));
    assert_eq!(stats["peak_blocks"]["bytes"], replayed["peak_reserved_bytes"]);
    assert_eq!(stats["peak_used"]["bytes"], replayed["peak_live_bytes"]);
    let at_peak = json(&allotment(&folder, &["stats", &race(), "--at", "peak", "--json"]));
    assert_eq!(at_peak["all"]["bytes"]["size"], replayed["peak_reserved_bytes"]);
    assert_eq!(at_peak["at"], stats["peak_blocks"]["at"]);
}

#[test]
fn each_byte_of_a_block_is_counted_once_and_drawn_once() {
    let folder = folder();
    for algorithm in ["tlsf", "buddy"] {
        for at in ["peak", "frame:25", "end"] {
            let args = ["map", &race(), "--algorithm", algorithm, "--at", at, "--json"];
            let map = json(&allotment(&folder, &args));
            let number = |value: &Value| value.as_u64().unwrap();
            let mut sum = 0;
            for block in map["blocks"].as_array().unwrap() {
                let (bytes, mut end) = (&block["bytes"], 0);
                let parts = ["used", "pending", "reserved", "rounding", "free"];
                assert_eq!(
                    parts.iter().map(|part| number(&bytes[part])).sum::<u64>(),
                    number(&bytes["size"])
                );
                for range in block["ranges"].as_array().unwrap() {
                    assert_eq!(number(&range["offset"]), end, "{block}");
                    end += number(&range["size"]);
                }
                assert_eq!(end, number(&bytes["size"]));
                sum += end;
            }
            assert_eq!(sum, number(&map["all"]["bytes"]["size"]));
            assert!(sum > 0);
        }
    }
}

#[test]
fn lines_of_the_map_have_the_width_that_was_asked_for_and_no_colour_in_a_pipe() {
    let folder = folder();
    for width in [60, 80, 200] {
        let map = text(&allotment(&folder, &["map", &race(), "--at", "peak", "--width", &width.to_string()]));
        let lines: Vec<_> = map.lines().filter(|line| line.contains('|')).collect();
        assert!(lines.len() > 3, "{map}");
        for line in &lines {
            assert!(line.chars().count() <= width, "{width}: {line}");
        }
        assert!(!map.contains('\u{1b}'));
    }
}

/// A recording of allocations that have long names, and are made in files far down.
fn long_names() -> Recording {
    let mut recording = Recording::default();
    let pool = PoolId(0);
    let name = TextId::NONE;
    recording.events.push(Event::PoolCreated { pool, name, algorithm: Some(Algorithm::Tlsf), custom: true });
    let (block, memory_type, kind) = (BlockId(0), MemoryTypeIndex(0), BlockKind::Shared);
    recording.events.push(Event::BlockAllocated { block, pool, memory_type, kind, size: 1 << 20 });
    for number in 0..4u64 {
        let layer = format!("transformer.decoder.layers.{number}.self_attention.out_projection.weight");
        let site =
            format!("/home/dev/model/src/layers/attention/of_the_decoder/projection_{number}.rs:1234:5");
        recording.texts.extend([layer, site]);
        let name = TextId(recording.texts.len() as u32 - 1);
        recording.events.push(Event::Allocated(Allocated {
            allocation: AllocationKey(number),
            block,
            offset: number * 4096,
            requested: 4096,
            occupied: 4096,
            user_data: 0,
            name,
            category: TextId::NONE,
            alignment: Alignment::new(256).unwrap(),
            usage: None,
            kind: ResourceKind::Buffer,
            placement: Placement::ExistingBlock,
            second_choice: false,
            movable: false,
        }));
        let site = TextId(recording.texts.len() as u32);
        recording.events.push(Event::CallSite { allocation: AllocationKey(number), site });
        recording.events.push(Event::FrameEnd { number });
    }
    recording
}

#[test]
fn no_line_is_wider_than_the_columns_that_were_asked_for_and_the_ends_of_names_stay() {
    let folder = folder();
    let mut file = Vec::new();
    long_names().write(&mut file).unwrap();
    let path = written(&folder, "long.altr", &file);
    for columns in [60, 80, 120] {
        for arguments in [
            &["stats", &path][..],
            &["stats", &race()],
            &["map", &path],
            &["map", &race(), "--at", "peak"],
            &["leaks", &path],
            &["leaks", &path, "--by", "name"],
            &["leaks", &race()],
            &["diff", &path, "--from", "0"],
            &["lifetimes"],
            &["lifetimes", &path, "--rule", "growth", "--at", "1", "--and", "9"],
            &["check", &race(), "--max-leaks", "5000", "--max-fragmentation", "1"],
            &["advise", &race()],
        ] {
            let lines = text(&allotment_within(&folder, arguments, columns));
            // The first line has the name of the file, which is as long as it is.
            for line in lines.lines().filter(|line| !line.contains(" at ")) {
                let width = line.chars().count();
                assert!(width <= usize::from(columns), "{arguments:?} at {columns}: {width}: {line}");
            }
        }
        let leaks = text(&allotment_within(&folder, &["leaks", &path], columns));
        for number in 0..4 {
            assert!(leaks.contains(&format!("_{number}.rs:1234")), "{columns}: {leaks}");
        }
    }
}

#[test]
fn each_command_that_writes_a_file_has_one_option_for_it_with_one_help() {
    let folder = folder();
    for command in ["replay", "defragment", "attach", "export", "whatif", "alias", "report"] {
        let help = text(&allotment(&folder, &[command, "--help"]));
        assert!(help.contains("-o, --output <FILE>"), "{command}: {help}");
        // One sentence for all files, also for those that are written besides.
        let is_file = |line: &&str| line.trim_start().starts_with('-') && line.contains("<FILE>");
        let files = help.lines().filter(is_file).count();
        let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words.matches("an older file is replaced").count(), files, "{command}: {help}");
        let has_page = ["replay", "defragment", "report"].contains(&command);
        assert_eq!(help.contains("[alias: --report]"), has_page, "{command}: {help}");
    }
}

#[test]
fn leaks_are_grouped_and_can_begin_later() {
    let folder = folder();
    let leaks = json(&allotment(&folder, &["leaks", &race(), "--json"]));
    assert_eq!(leaks["count"], 271);
    let groups = leaks["groups"].as_array().unwrap();
    assert_eq!(groups.iter().map(|group| group["count"].as_u64().unwrap()).sum::<u64>(), 271);
    let later = json(&allotment(&folder, &["leaks", &race(), "--since", "frame:25", "--json"]));
    assert!(later["count"].as_u64() < leaks["count"].as_u64());
    let by_category = json(&allotment(&folder, &["leaks", &race(), "--by", "category", "--json"]));
    assert!(by_category["groups"].as_array().unwrap().iter().any(|group| group["group"] == "image"));
    let before = text(&allotment(&folder, &["leaks", &race(), "--at", "0"]));
    assert!(before.ends_with("No unreleased allocations.\n"), "{before}");
}

#[test]
fn a_difference_of_two_moments_has_what_was_allocated_and_freed_between() {
    let folder = folder();
    let path = written(&folder, "small.csv", SMALL.as_bytes());
    let diff = json(&allotment(&folder, &["diff", &path, "--from", "frame:0", "--json"]));
    assert_eq!((&diff["only_a"]["count"], &diff["only_a"]["bytes"]), (&1.into(), &1_048_576.into()));
    assert_eq!((&diff["only_b"]["count"], &diff["only_b"]["bytes"]), (&1.into(), &524_288.into()));
    assert_eq!((&diff["both"]["count"], &diff["grown"]), (&1.into(), &(-524_288).into()));
    let same = json(&allotment(&folder, &["diff", &path, &path, "--json"]));
    assert_eq!(
        (&same["grown"], &same["only_a"]["count"], &same["both"]["count"]),
        (&0.into(), &0.into(), &2.into())
    );
}

#[test]
fn leaks_print_as_expected() {
    let folder = folder();
    let path = written(&folder, "small.csv", SMALL.as_bytes());
    let expected = "small.csv at event 11, frame 2\n\
        2 unreleased allocations, 1.50 MiB.\n\
        \n  Count     Bytes  Share  First frame  Last frame  Per frame  Call site or name\n      \
        1  1.00 MiB   67 %            0           0       1.00  vertex buffer\n      \
        1   512 KiB   33 %            1           1       1.00  index buffer\n";
    assert_eq!(text(&allotment(&folder, &["leaks", &path])), expected);
}

#[test]
fn lifetimes_list_the_rules_without_one() {
    let folder = folder();
    let list = text(&allotment(&folder, &["lifetimes"]));
    assert_eq!(list.lines().count(), 15, "{list}");
    let line = |name: &str| list.lines().find(|line| line.split_whitespace().next() == Some(name)).unwrap();
    let words: Vec<_> = line("short-living").split_whitespace().collect();
    assert_eq!(words[1..].join(" "), "2 Which allocations were made and freed between A and B?");
    let rules = json(&allotment(&folder, &["lifetimes", "--json"]));
    let rules = rules["rules"].as_array().unwrap();
    assert_eq!(rules.len(), 14);
    assert_eq!((&rules[13]["rule"], &rules[13]["moments"]), (&"specific-lifetime".into(), &4.into()));
    let help = text(&allotment(&folder, &["lifetimes", "--help"]));
    assert!(rules.iter().all(|rule| help.contains(rule["question"].as_str().unwrap())), "{help}");
}

#[test]
fn lifetimes_print_as_expected() {
    let folder = folder();
    let path = written(&folder, "small.csv", SMALL.as_bytes());
    let args = ["lifetimes", &path, "--rule", "growth-and-decline", "--at", "frame:0", "--and", "end"];
    let expected = "small.csv, rule growth-and-decline\n\
        Which allocations were made between A and B, and exist at B; \
        and which existed at A, and were freed by B?\n  \
        A: event 7, frame 0\n  \
        B: event 11, frame 2\n\
        1 allocation, 512 KiB.\n\
        \n  Count    Bytes  Share  First frame  Last frame  Per frame  Call site or name\n      \
        1  512 KiB  100 %            1           1       1.00  index buffer\n\
        \n1 declined allocation, 1.00 MiB.\n\
        \n  Count     Bytes  Share  First frame  Last frame  Per frame  Call site or name\n      \
        1  1.00 MiB  100 %            0           0       1.00  vertex buffer\n";
    assert_eq!(text(&allotment(&folder, &args)), expected);
    let args = ["lifetimes", &path, "--rule", "before", "--at", "0"];
    let none = text(&allotment(&folder, &args));
    assert!(none.ends_with("0 allocations, 0 B.\n"), "{none}");
}

#[test]
fn lifetimes_of_a_rule_are_those_that_leaks_and_a_difference_have() {
    let folder = folder();
    let race = race();
    let run = |args: &[&str]| {
        json(&allotment(&folder, &[&["lifetimes", &race, "--json", "--rule"], args].concat()))
    };
    // No free of the race is deferred, so what exists is what was not released.
    let (active, leaks) =
        (run(&["active", "--at", "end"]), json(&allotment(&folder, &["leaks", &race, "--json"])));
    for key in ["count", "bytes", "groups"] {
        assert_eq!(active[key], leaks[key], "{key}");
    }
    let diff =
        json(&allotment(&folder, &["diff", &race, "--from", "frame:20", "--to", "frame:30", "--json"]));
    let moments = ["--at", "frame:20", "--and", "frame:30"];
    let both = run(&[&["growth-and-decline"], &moments[..]].concat());
    for (found, expected) in [(&both, "only_b"), (&both["declined"], "only_a")] {
        assert!(found["count"].as_u64() > Some(0), "{expected}");
        for key in ["count", "bytes"] {
            assert_eq!(found[key], diff[expected][key], "{expected}: {key}");
        }
    }
    let growth = run(&[&["growth", "--by", "category"], &moments[..]].concat());
    assert_eq!((&growth["count"], growth.get("declined")), (&both["count"], None));
    assert!(growth["groups"].as_array().unwrap().iter().any(|group| group["group"] == "image"));
    let long = run(&[&["long-living"], &moments[..]].concat());
    assert_eq!(long["count"], diff["both"]["count"]);
    let four = ["specific-lifetime", "--at", "0", "--and", "frame:20", "--and", "frame:20", "--and", "end"];
    let decline = run(&["decline", "--at", "frame:20", "--and", "end"]);
    assert_eq!(run(&four)["count"], decline["count"]);
}

/// The call site of [`recording_with_names`], as a compiler on somebody's machine wrote it.
const SITE: &str = "/home/me/game/crates/render/src/shadow.rs:30:32";

/// A recording with three allocations of one call site, of two names; a mark after the first and one after the last; and
/// stalls of two kinds.
fn recording_with_names() -> Vec<u8> {
    let texts = ["shadow map", "blur", SITE, "loaded", "level 2"].map(str::to_owned).to_vec();
    let [map, blur, site, loaded, level] = [1, 2, 3, 4, 5].map(TextId);
    let pool = PoolId(0);
    let mut events = vec![Event::PoolCreated {
        pool,
        name: TextId::NONE,
        algorithm: Some(Algorithm::Tlsf),
        custom: false,
    }];
    let (memory_type, kind) = (MemoryTypeIndex(0), BlockKind::Shared);
    events.push(Event::BlockAllocated { block: BlockId(0), pool, memory_type, kind, size: 1 << 20 });
    for (key, name) in [(0, blur), (1, map), (2, map)] {
        events.push(Event::Allocated(Allocated {
            allocation: AllocationKey(key),
            block: BlockId(0),
            offset: key * 4096,
            requested: 4096,
            occupied: 4096,
            user_data: 0,
            name,
            category: TextId::NONE,
            alignment: Alignment::ONE,
            usage: None,
            kind: ResourceKind::Buffer,
            placement: Placement::ExistingBlock,
            second_choice: false,
            movable: false,
        }));
        events.push(Event::CallSite { allocation: AllocationKey(key), site });
        if name == blur {
            events.extend([Event::Mark { text: loaded }, Event::FrameEnd { number: 0 }]);
        }
    }
    events.push(Event::Mark { text: level });
    events.push(Event::Stalled { kind: StallKind::DriverCall, nanoseconds: 1000 });
    events.extend([Event::Stalled { kind: StallKind::FramesInFlight, nanoseconds: 1000 }; 5]);
    let recording = Recording { texts, events, ..Recording::default() };
    let mut file = Vec::new();
    recording.write(&mut file).unwrap();
    file
}

#[test]
fn the_map_draws_a_lane_for_each_resource_that_shares_an_allocation() {
    let folder = folder();
    let (mut recording, _) = Recording::read(&*recording_with_names()).unwrap();
    let resource = |number: u64, size, active| BoundResource {
        resource: AllocationKey(100 + number),
        memory: AllocationKey(1),
        offset: 1024 * number,
        size,
        name: TextId(1 + number as u32),
        call_site: TextId::NONE,
        kind: ResourceKind::OptimalImage,
        active,
    };
    let [first, second] = [resource(0, 2048, true), resource(1, 3072, false)];
    let (resource, by) = (first.resource, second.resource);
    let before_bound = recording.events.len();
    recording.events.extend([
        Event::Bound(first),
        Event::Bound(second),
        Event::Displaced { resource, by },
        Event::Activated { resource: by },
        Event::Labelled { allocation: by, name: TextId(1), category: TextId::NONE, user_data: 0 },
    ]);
    let renamed = recording.events.len() - 1;
    let mut file = Vec::new();
    recording.write(&mut file).unwrap();
    let path = written(&folder, "shared.altr", &file);
    let map = text(&allotment(&folder, &["map", &path, "--width", "63"]));
    let lanes: Vec<_> =
        map.lines().skip_while(|line| !line.starts_with("Memory that resources share")).collect();
    assert_eq!(
        lanes[2..],
        [
            "  shadow map, 4.00 KiB at 4.00 KiB of block 0: 2 resources of 5.00 KiB, 1.00 KiB saved",
            "  |░░░░░░░░·······|    2.00 KiB  inactive  shadow map",
            "  |···████████████|    3.00 KiB  active    shadow map",
        ]
    );
    assert_eq!(lanes[0], "Memory that resources share: █ active   ░ its bytes are another one's");
    let map = json(&allotment(&folder, &["map", &path, "--at", &renamed.to_string(), "--json"]));
    let shared = &map["shared"][0];
    let figures =
        ["allocation", "size", "resource_bytes", "saved_bytes"].map(|key| shared[key].as_u64().unwrap());
    assert_eq!(figures, [1, 4096, 5120, 1024]);
    let resources = shared["resources"].as_array().unwrap();
    let active =
        resources.iter().map(|one| (one["name"].as_str().unwrap(), one["active"].as_bool().unwrap()));
    assert_eq!(active.collect::<Vec<_>>(), [("shadow map", false), ("blur", true)]);
    // Before they were bound there is nothing to draw.
    let before = json(&allotment(&folder, &["map", &path, "--at", "0", "--json"]));
    assert!(before.get("shared").is_none(), "{before}");

    // None is ever active where a plan gives them their bytes within each frame.
    recording.events.truncate(before_bound);
    recording.events.push(Event::Bound(BoundResource { active: false, ..second }));
    let mut file = Vec::new();
    recording.write(&mut file).unwrap();
    let path = written(&folder, "planned.altr", &file);
    let map = text(&allotment(&folder, &["map", &path, "--width", "63"]));
    let (_, lanes) = map.split_once("Memory that resources share: ").unwrap();
    let lines: Vec<_> = lanes.lines().collect();
    assert_eq!(
        lines,
        [
            "▓ has its bytes for some passes of each frame",
            "",
            "  shadow map, 4.00 KiB at 4.00 KiB of block 0: 1 resource of 3.00 KiB, 0 B saved",
            "  |···▓▓▓▓▓▓▓▓▓▓▓▓|    3.00 KiB  planned   blur",
        ]
    );
}

#[test]
fn groups_by_call_site_show_the_commonest_name_and_the_readable_end_of_the_path() {
    let folder = folder();
    let path = written(&folder, "names.altr", &recording_with_names());
    let leaks = text(&allotment(&folder, &["leaks", &path]));
    let last = |text: &str| text.lines().last().unwrap().to_owned();
    assert!(last(&leaks).ends_with("render/src/shadow.rs:30  shadow map and 1 other"), "{leaks}");
    let diff = text(&allotment(&folder, &["diff", &path]));
    assert!(last(&diff).ends_with("render/src/shadow.rs:30  shadow map and 1 other"), "{diff}");
    // A name that only repeats the group takes no column.
    let by_name = text(&allotment(&folder, &["leaks", &path, "--by", "name"]));
    assert!(by_name.matches("Name").count() == 1 && last(&by_name).ends_with("  blur"), "{by_name}");
    for command in ["leaks", "diff"] {
        let groups = &json(&allotment(&folder, &[command, &path, "--json"]))["groups"];
        assert_eq!((&groups[0]["group"], &groups[0]["name"]), (&SITE.into(), &"shadow map".into()));
        assert_eq!(groups[0]["other_names"], 1);
    }
}

#[test]
fn leaks_have_the_headings_and_rows_of_the_analysis() {
    let folder = folder();
    let path = written(&folder, "names.altr", &recording_with_names());
    let (recording, _) = Recording::open(&path).unwrap();
    let timeline = Timeline::new(&recording);
    let leaks = Leaks::at(&Cursor::at(&timeline, timeline.end()), Grouping::CallSite);
    let table = leaks.table(&timeline, Grouping::CallSite);
    // The command shows texts behind the numbers.
    let (numbers, texts): (Vec<_>, Vec<_>) =
        (0..table.columns.len()).partition(|&column| table.columns[column].is_number);
    let line = |cell: &dyn Fn(usize) -> String| {
        let cells: Vec<_> = numbers.iter().chain(&texts).map(|&column| cell(column)).collect();
        cells.join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let mut expected = table.summary.clone();
    expected.extend([String::new(), line(&|column| table.columns[column].heading.to_owned())]);
    expected.extend(table.rows.iter().map(|row| line(&|column| row.cells[column].text())));
    let shown = text(&allotment(&folder, &["leaks", &path]));
    let shown: Vec<_> =
        shown.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(shown, expected);
}

#[test]
fn a_mark_is_a_moment_and_stats_list_them() {
    let folder = folder();
    let path = written(&folder, "names.altr", &recording_with_names());
    let stats = json(&allotment(&folder, &["stats", &path, "--at", "mark:loaded", "--json"]));
    assert_eq!((&stats["all"]["allocations"], &stats["at"]["event"]), (&1.into(), &5.into()));
    assert_eq!(stats["marks"][1]["text"], "level 2");
    assert_eq!(stats["marks"][0]["at"], stats["at"]);
    let stats = text(&allotment(&folder, &["stats", &path]));
    let expected = "\n  Mark     Event  Frame\n  loaded       5      0\n  level 2     11      1\n";
    assert!(stats.ends_with(expected), "{stats}");
    let output = allotment(&folder, &["map", &path, "--at", "mark:menu"]);
    assert_eq!(output.status.code(), Some(2));
    let error = error_line(&output);
    assert!(error.contains("no mark \"menu\": the recording has \"loaded\", \"level 2\""), "{error}");
}

#[test]
fn a_difference_backwards_in_one_recording_is_refused() {
    let folder = folder();
    let path = written(&folder, "small.csv", SMALL.as_bytes());
    let output = allotment(&folder, &["diff", &path, "--from", "end", "--to", "frame:0"]);
    assert_eq!(output.status.code(), Some(2));
    let error = error_line(&output);
    assert!(error.contains("--to, event 7, frame 0, is before --from, event 11, frame 2"), "{error}");
    // Two recordings have no order.
    text(&allotment(&folder, &["diff", &path, &path, "--from", "end", "--to", "frame:0"]));
}

#[test]
fn stalls_are_counted_without_waits_for_frames_in_flight_or_by_kind() {
    let folder = folder();
    let path = written(&folder, "names.altr", &recording_with_names());
    let measured = |limits: &[&str]| {
        let limits = limits.iter().flat_map(|limit| ["--max-stalls", limit]);
        let args = ["check", &path, "--json"].into_iter().chain(limits).collect::<Vec<_>>();
        let check: Value = serde_json::from_slice(&allotment(&folder, &args).stdout).unwrap();
        let rules = check["rules"].as_array().unwrap().iter();
        let numbers = rules.skip(1).map(|rule| rule["measured"].as_u64().unwrap()).collect::<Vec<_>>();
        (check["ok"].as_bool().unwrap(), numbers)
    };
    assert_eq!(measured(&["1"]), (true, vec![1]));
    assert_eq!(measured(&["0"]), (false, vec![1]));
    assert_eq!(measured(&["driver-call=1", "frames-in-flight=4", "gpu=0"]), (false, vec![1, 5, 0]));
    let help = text(&allotment(&folder, &["check", "--help"]));
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("for the driver or for the GPU, but not for frames in flight"), "{help}");
    assert_eq!(allotment(&folder, &["check", &path, "--max-stalls", "locks=1"]).status.code(), Some(2));
}

#[test]
fn the_error_for_a_file_of_no_known_format_names_all_that_can_be_read() {
    let folder = folder();
    let path = written(&folder, "main.rs", b"fn main() {}\n");
    let output = allotment(&folder, &["stats", &path]);
    assert_eq!(output.status.code(), Some(2));
    let error = error_line(&output);
    for format in ["main.rs: ", "recording (.altr)", "VMA", "D3D12MA", "gfxrecon", "PyTorch", "CSV trace"] {
        assert!(error.contains(format), "{format}: {error}");
    }
}

/// A recording of two descriptor heaps: one with ranges from 0 to 64 and from 96 to 128, of 256 slots, of which the
/// first was freed for a moment; and one that was destroyed.
fn recording_of_descriptor_heaps() -> Vec<u8> {
    let (kept, gone) = (ObjectId(1), ObjectId(2));
    let created = |heap, kind, capacity, name| Event::DescriptorHeapCreated { heap, kind, capacity, name };
    let allocated = |first, count| Event::DescriptorsAllocated { heap: kept, first, count };
    let events = vec![
        created(kept, DescriptorKind::ShaderVisibleResources, 256, TextId(1)),
        created(gone, DescriptorKind::RenderTargets, 16, TextId::NONE),
        allocated(0, 64),
        allocated(64, 32),
        allocated(96, 32),
        Event::FrameEnd { number: 0 },
        Event::DescriptorHeapDestroyed { heap: gone },
        Event::DescriptorsFreed { heap: kept, first: 64, count: 32 },
        Event::FrameEnd { number: 1 },
    ];
    let recording = Recording { texts: vec!["resources".to_owned()], events, ..Recording::default() };
    let mut file = Vec::new();
    recording.write(&mut file).unwrap();
    file
}

#[test]
fn stats_have_the_descriptor_heaps_of_the_moment_and_no_key_where_there_are_none() {
    let folder = folder();
    let path = written(&folder, "descriptors.altr", &recording_of_descriptor_heaps());
    let stats = json(&allotment(&folder, &["stats", &path, "--json"]));
    let heaps = stats["descriptor_heaps"].as_array().unwrap();
    assert_eq!(heaps.len(), 1, "the other is destroyed");
    let expected = [("capacity", 256), ("allocated", 96), ("ranges", 2), ("longest_free", 128)];
    for (key, value) in expected {
        assert_eq!(heaps[0][key], value, "{key}");
    }
    assert_eq!(
        (&heaps[0]["name"], &heaps[0]["kind"]),
        (&"resources".into(), &"shader-visible resources".into())
    );
    assert_eq!((&heaps[0]["peak"]["allocated"], &heaps[0]["peak"]["at"]["event"]), (&128.into(), &5.into()));
    let before = json(&allotment(&folder, &["stats", &path, "--at", "frame:0", "--json"]));
    assert_eq!(before["descriptor_heaps"].as_array().unwrap().len(), 2);
    let begin = json(&allotment(&folder, &["stats", &path, "--at", "0", "--json"]));
    assert_eq!(begin["descriptor_heaps"], Value::Array(Vec::new()));
    let race = json(&allotment(&folder, &["stats", &race(), "--json"]));
    assert!(race.get("descriptor_heaps").is_none());
}

#[test]
fn descriptor_heaps_print_as_expected() {
    let folder = folder();
    let path = written(&folder, "descriptors.altr", &recording_of_descriptor_heaps());
    let stats = text(&allotment(&folder, &["stats", &path, "--at", "frame:0"]));
    let expected = "\n  \
        Slots  Allocated  Share  Ranges  Longest free run  Fragmentation  Peak  Peak frame  Descriptor heap  Type\n    \
          256        128   50 %       3               128           0.00   128           0  resources        shader-visible resources\n     \
           16          0    0 %       0                16           0.00     0           0  (no name)        render targets\n";
    assert!(stats.ends_with(expected), "{stats}");
    let race = text(&allotment(&folder, &["stats", &race()]));
    assert!(!race.contains("Descriptor heap"), "{race}");
}

#[test]
fn rules_that_hold_end_with_code_0_and_others_with_code_1() {
    let folder = folder();
    let path = written(&folder, "small.csv", SMALL.as_bytes());
    let rules = ["--max-leaks", "2", "--max-peak", "64MiB", "--max-fragmentation", "1", "--max-stalls", "0"];
    let good = allotment(&folder, &[&["check", &path][..], &rules].concat());
    let report = text(&good);
    assert_eq!(report.lines().filter(|line| line.trim_start().starts_with("ok ")).count(), 5, "{report}");
    assert!(good.stderr.is_empty());

    let bad =
        allotment(&folder, &["check", &path, "--max-leaks", "1", "--max-peak", "1M", "--max-stalls", "0"]);
    assert_eq!(bad.status.code(), Some(1));
    let report = String::from_utf8(bad.stdout).unwrap();
    assert_eq!(report.matches("FAILED").count(), 2, "{report}");
    assert_eq!(String::from_utf8(bad.stderr).unwrap(), "allotment: 2 of 4 rules failed\n");

    let bad = allotment(&folder, &["check", &path, "--max-leaks", "1", "--json"]);
    assert_eq!(bad.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&bad.stdout).unwrap();
    assert_eq!((&report["ok"], &report["rules"][1]["measured"]), (&false.into(), &2.into()));
}

#[test]
fn bad_input_ends_with_code_2() {
    let folder = folder();
    let path = written(&folder, "small.csv", SMALL.as_bytes());
    let text_file = written(&folder, "novel.txt", b"It was a dark and stormy night.\n");
    let header_cut = written(&folder, "cut.altr", b"\x89ALT\r\n\x1a\n\x01\0");
    for args in [
        &["check", path.as_str(), "--accept", "everything"][..],
        &["check", &path, "--max-peak", "12X"],
        &["check", &path, "--max-fragmentation", "1.5"],
        &["check", "nowhere.altr", "--max-leaks", "0"],
        &["check", &text_file, "--max-leaks", "0"],
        &["stats", &header_cut],
        &["stats", &path, "--at", "frame:3"],
        &["stats", &path, "--at", "99999"],
        &["stats", &path, "--at", "noon"],
        &["lifetimes", &path, "--rule", "eternal", "--at", "0"],
        &["lifetimes", &path, "--rule", "growth"],
        &["lifetimes", &path, "--rule", "growth", "--at", "0"],
        &["lifetimes", &path, "--rule", "active", "--at", "0", "--and", "end"],
        &["lifetimes", &path, "--rule", "growth", "--at", "end", "--and", "0"],
        &["lifetimes", "--rule", "active", "--at", "0"],
        &["lifetimes", &path, "--at", "0"],
        &["stats", &path, "--at", "mark:"],
        &["map", &path, "--profile", "voodoo"],
        &["map", &path, "--width", "5"],
        &["leaks", "nowhere.csv"],
        &["export", &path, "--format", "png"],
        &["export", &path, "--format", "csv", "--output", &path],
    ] {
        let output = allotment(&folder, args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
        assert!(!output.stderr.is_empty() && output.stdout.is_empty(), "{args:?}");
    }
    assert_eq!(fs::read(&path).unwrap(), SMALL.as_bytes(), "the input is as it was");
}

#[test]
fn of_a_recording_that_was_cut_what_is_left_is_used_and_each_output_says_so() {
    let folder = folder();
    let whole = fs::read(recording_of_the_race(&folder)).unwrap();
    let cut = written(&folder, "cut.altr", &whole[..whole.len() - 40]);
    let stats = json(&allotment(&folder, &["stats", &cut, "--json"]));
    assert!(stats["events"].is_u64());
    for command in ["stats", "map", "leaks", "diff", "advise", "whatif", "report", "alias"] {
        let text = text(&allotment(&folder, &[command, &cut]));
        assert_eq!(
            text.matches("not read: damaged: the recording is cut short at byte").count(),
            1,
            "{text}"
        );
        let json = json(&allotment(&folder, &[command, &cut, "--json"]));
        assert_eq!(json["unread"].as_array().unwrap().len(), 1, "{json}");
        assert_eq!((&json["unread"][0]["kind"], &json["unread"][0]["count"]), (&"damaged".into(), &1.into()));
    }
    let rule = ["lifetimes", &cut, "--rule", "active", "--at", "0"];
    let lifetimes = text(&allotment(&folder, &rule));
    assert!(lifetimes.contains("not read: damaged"), "{lifetimes}");
    // Where standard output is the file itself.
    let export = allotment(&folder, &["export", &cut, "--format", "csv"]);
    assert!(String::from_utf8(export.stderr).unwrap().starts_with("allotment: not read: damaged: "));
}

/// The figures of half a file say nothing.
#[test]
fn a_check_fails_on_what_was_not_read_unless_it_is_accepted() {
    let folder = folder();
    let whole = fs::read(recording_of_the_race(&folder)).unwrap();
    let cut = written(&folder, "cut.altr", &whole[..whole.len() - 40]);
    let empty = written(&folder, "empty.jsonl", b"{\"header\":{\"gfxrecon-version\":\"1.0\"}}\n");
    for (file, kind) in [(&cut, "damaged"), (&empty, "nothing")] {
        let check = allotment(&folder, &["check", file, "--max-leaks", "999999", "--json"]);
        let report: Value = serde_json::from_slice(&check.stdout).unwrap();
        assert_eq!((check.status.code(), &report["ok"]), (Some(1), &false.into()), "{report}");
        assert_eq!(report["unread"][0]["kind"], kind);
        let other = allotment(&folder, &["check", file, "--accept", "encoding"]);
        assert_eq!(other.status.code(), Some(1));
        for accept in [kind, "all"] {
            let good = allotment(&folder, &["check", file, "--accept", accept]);
            assert!(text(&good).contains("1 that are accepted"), "{good:?}");
        }
    }
    text(&allotment(&folder, &["check", &recording_of_the_race(&folder)]));
}

#[test]
fn each_format_is_exported_and_the_dump_can_be_inspected_again() {
    let folder = folder();
    let recording = recording_of_the_race(&folder);
    let stats = json(&allotment(&folder, &["stats", &recording, "--json"]));
    for format in ["vma", "chrome", "firefox", "csv", "traffic"] {
        let args = ["export", &recording, "--format", format, "--output", "out.file", "--json"];
        let export = json(&allotment(&folder, &args));
        let written = fs::read(folder.path().join("out.file")).unwrap();
        assert_eq!(export["bytes"], written.len(), "{format}");
        let piped = allotment(&folder, &["export", &recording, "--format", format]);
        assert!(piped.status.success() && piped.stdout == written, "{format}");
        if !["csv", "traffic"].contains(&format) {
            serde_json::from_slice::<Value>(&written).unwrap();
        }
    }
    // The CSV trace gives the allocations of the recording again.
    let again = json(&allotment(&folder, &["stats", "out.file", "--json"]));
    assert_eq!(again["all"]["allocations"], stats["all"]["allocations"]);
    allotment(&folder, &["export", &recording, "--format", "vma", "--output", "dump.json"]);
    let again = json(&allotment(&folder, &["stats", "dump.json", "--json"]));
    for key in ["blocks", "allocations"] {
        assert_eq!(again["all"][key], stats["all"][key], "{key}");
    }
    assert_eq!(again["all"]["bytes"]["size"], stats["all"]["bytes"]["size"]);
}

#[test]
fn a_recorded_replay_is_a_recording_that_can_be_read_whole() {
    let folder = folder();
    let path = recording_of_the_race(&folder);
    let (recording, damage) = Recording::open(path).unwrap();
    assert_eq!(damage, None);
    assert!(recording.header.settings.iter().any(|(name, value)| name == "algorithm" && value == "tlsf"));
    let out = allotment(&folder, &["replay", "--report", "same.html", "--trace", "same.html"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(error_line(&out).contains("--report and --trace are the same file"));
}

/// Names of the sub-commands, as `--help` lists them.
fn commands() -> Vec<String> {
    let help = text(&allotment(&folder(), &["--help"]));
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = lines.take_while(|line| !line.is_empty()).filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[test]
fn the_help_of_each_command_says_which_files_it_reads() {
    for command in ["stats", "map", "leaks", "lifetimes", "diff", "export", "advise", "report", "check"] {
        assert!(commands().iter().any(|name| name == command), "{command}");
        let help = text(&allotment(&folder(), &[command, "--help"]));
        for file in ["A recording;", "GFXReconstruct", "PyTorch", "a CSV trace"] {
            assert!(help.contains(file), "{command}: {help}");
        }
    }
}

#[test]
fn the_guide_lists_every_command() {
    let guide = include_str!("../../../docs/guide/the-command.md");
    let rows: String = guide.lines().filter(|line| line.starts_with("| `")).collect();
    for command in commands() {
        assert!(rows.contains(&format!("`{command}`")), "docs/guide/the-command.md has no row for {command}");
    }
}

#[test]
fn what_if_reproduces_a_recording_and_shows_what_other_blocks_change() {
    let folder = folder();
    let recording = recording_of_the_race(&folder);
    let same = json(&allotment(&folder, &["whatif", &recording, "--json"]));
    assert_eq!(same["at_the_same_place"], same["requests"]);
    assert_eq!(same["refused"], 0);
    for figure in ["at_peak", "allocated_blocks"] {
        assert_eq!(same["recorded"][figure], same["what_if"][figure], "{figure}");
    }

    let args =
        ["whatif", &recording, "--block-size", "64M", "--algorithm", "buddy", "-o", "other.altr", "--json"];
    let other = json(&allotment(&folder, &args));
    let settings: Vec<_> = other["changed"].as_array().unwrap().iter().map(|it| &it["setting"]).collect();
    assert_eq!(settings, ["algorithm", "smallest block", "largest block"]);
    assert_eq!(other["recorded"]["peak_used"]["bytes"], other["what_if"]["peak_used"]["bytes"]);
    assert_ne!(other["recorded"]["peak_blocks"]["bytes"], other["what_if"]["peak_blocks"]["bytes"]);
    // The recording that it writes is one as any other.
    let stats = json(&allotment(&folder, &["stats", "other.altr", "--json"]));
    assert_eq!(stats["peak_blocks"]["bytes"], other["what_if"]["peak_blocks"]["bytes"]);
    assert_eq!(stats["contradictions"], 0);
}

/// A rectangle of 64 time steps and 1000 bytes, cut into pieces again and again: a plan of 1000 bytes exists.
fn cut_rectangle() -> Vec<(u64, u64, u64)> {
    let mut pieces = vec![(0_u64, 64_u64, 1000_u64)];
    let mut number = 7_u64;
    for _ in 0..60 {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let drawn = number >> 33;
        let at = (drawn % pieces.len() as u64) as usize;
        let (lower, upper, size) = pieces[at];
        if drawn % 2 == 0 && upper - lower > 1 {
            let middle = lower + 1 + drawn / 100 % (upper - lower - 1);
            pieces[at] = (lower, middle, size);
            pieces.push((middle, upper, size));
        } else if size > 1 {
            let part = 1 + drawn / 100 % (size - 1);
            pieces[at] = (lower, upper, part);
            pieces.push((lower, upper, size - part));
        }
    }
    pieces
}

#[test]
fn a_benchmark_is_planned_within_a_capacity_and_its_offsets_overlap_nowhere() {
    let folder = folder();
    let pieces = cut_rectangle();
    let lines =
        pieces.iter().enumerate().map(|(id, (lower, upper, size))| format!("{size},{id},{upper},{lower}\n"));
    let file =
        written(&folder, "cut.csv", format!("size,id,upper,lower\n{}", lines.collect::<String>()).as_bytes());
    let planned = json(&allotment(&folder, &["alias", &file, "--seconds", "1", "-o", "plan.csv", "--json"]));
    let peak = planned["peak_bytes"].as_u64().unwrap();
    assert_eq!((&planned["lower_bound_bytes"], &planned["items"]), (&1000.into(), &(pieces.len()).into()));
    assert!((1000..1200).contains(&peak), "{planned}");
    assert_eq!(planned["proved"] == "optimal", peak == 1000, "{planned}");
    assert_eq!(planned["optimal"], peak == 1000, "{planned}");
    assert_eq!(planned["ratio"].as_f64(), Some(peak as f64 / 1000.0), "{planned}");
    let plan = fs::read_to_string(folder.path().join("plan.csv")).unwrap();
    let rows: Vec<Vec<u64>> = plan
        .lines()
        .skip(1)
        .map(|line| line.split(',').map(|field| field.parse().unwrap()).collect())
        .collect();
    assert_eq!(rows.len(), pieces.len());
    for (at, a) in rows.iter().enumerate() {
        let (lower, upper, size) = pieces[a[0] as usize];
        assert_eq!(a[1..4], [lower, upper, size]);
        assert!(a[4] + a[3] <= peak, "{a:?}");
        for b in &rows[at + 1..] {
            let are_apart = a[2] <= b[1] || b[2] <= a[1] || a[4] + a[3] <= b[4] || b[4] + b[3] <= a[4];
            assert!(are_apart, "{a:?} and {b:?}");
        }
    }
    // One byte less than is alive at once.
    let args = ["alias", &file, "--seconds", "0", "--capacity", "999", "--json"];
    let refused = allotment(&folder, &args);
    assert_eq!(refused.status.code(), Some(1));
    let shown: Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert!(shown["not_placed"].as_u64() > Some(0) && shown["peak_bytes"].as_u64() <= Some(999), "{shown}");
    assert_eq!((&shown["optimal"], &shown["ratio"]), (&false.into(), &Value::Null));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("have no place within the capacity"), "{said}");
}

#[test]
fn a_benchmark_may_have_many_columns_in_quotes_and_its_ids_too() {
    let folder = folder();
    let others = (0..200).map(|at| format!("\"column, {at}\",")).collect::<String>();
    let empty = ",".repeat(200);
    let text = format!(
        "\u{feff}{others} \"ID\" ,\"lower\",upper,size\r\n{empty}\"conv, \"\"3\"\"\",0,2,\"5\"\r\n{empty}b,1,3,7\r\n"
    );
    let file = written(&folder, "wide.csv", text.as_bytes());
    let planned = json(&allotment(&folder, &["alias", &file, "-o", "plan.csv", "--json"]));
    assert_eq!((&planned["peak_bytes"], &planned["items"]), (&12.into(), &2.into()));
    let plan = fs::read_to_string(folder.path().join("plan.csv")).unwrap();
    assert!(plan.contains("\"conv, \"\"3\"\"\",0,2,5,"), "{plan}");
    // What is written is read.
    let again = json(&allotment(&folder, &["alias", "plan.csv", "--json"]));
    assert_eq!((&again["peak_bytes"], &again["items"]), (&12.into(), &2.into()));
}

#[test]
fn the_plan_and_the_picture_are_not_written_to_one_file() {
    let folder = folder();
    let file = written(&folder, "one.csv", b"id,lower,upper,size\na,0,1,5\n");
    written(&folder, "both", b"as it was");
    let refused = allotment(&folder, &["alias", &file, "-o", "both", "--picture", "./both"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(error_line(&refused).contains("cannot have both the plan and the picture"));
    let refused = allotment(&folder, &["alias", &file, "-o", "/dev/stdout", "--picture", "/dev/stdout"]);
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(fs::read_to_string(folder.path().join("both")).unwrap(), "as it was");
}

#[test]
fn a_name_with_control_characters_is_part_of_a_picture_that_xml_allows() {
    let folder = folder();
    let file = written(&folder, "odd.csv", b"id,lower,upper,size\na\x1b[31m<&\x00b,0,9,5\n");
    text(&allotment(&folder, &["alias", &file, "--picture", "plan.svg"]));
    let picture = fs::read_to_string(folder.path().join("plan.svg")).unwrap();
    assert!(!picture.contains(|character: char| character.is_control() && character != '\n'), "{picture}");
    assert!(picture.contains("a\u{fffd}[31m&lt;&amp;\u{fffd}b"), "{picture}");
}

/// A pipe can be read once only, and its beginning says what it is.
#[test]
#[cfg(unix)]
fn what_comes_through_a_pipe_is_read_once() {
    let folder = folder();
    let piped = |command: &str| {
        let mut all = std::process::Command::new("sh");
        all.current_dir(folder.path()).args(["-c", command, env!("CARGO_BIN_EXE_allotment-under-test")]);
        json(&all.output().unwrap())
    };
    written(&folder, "one.csv", b"id,lower,upper,size\na,0,1,5\nb,1,2,5\n");
    let planned = piped("cat one.csv | \"$0\" alias /dev/stdin --json");
    assert_eq!(planned["peak_bytes"], 5);
    // A trace is of the last format that is tried.
    written(&folder, "small.csv", SMALL.as_bytes());
    let planned = piped("cat small.csv | \"$0\" alias /dev/stdin --json");
    assert_eq!(planned["items"], 3);
    let recording = recording_of_the_race(&folder);
    let stats = piped(&format!("cat {recording} | \"$0\" stats /dev/stdin --json"));
    assert_eq!(stats["frames"], 3460);
}

#[test]
#[cfg(unix)]
fn a_line_is_standard_input_wherever_a_file_is_read() {
    let folder = folder();
    let recording = recording_of_the_race(&folder);
    written(&folder, "small.csv", SMALL.as_bytes());
    let piped = |command: &str| {
        let mut all = std::process::Command::new("sh");
        all.current_dir(folder.path()).args(["-c", command, env!("CARGO_BIN_EXE_allotment-under-test")]);
        all.output().unwrap()
    };
    for command in [
        "stats",
        "map",
        "leaks",
        "advise",
        "whatif",
        "check",
        "calls",
        "report -o page.html",
        "export --format csv",
    ] {
        let output = piped(&format!("cat {recording} | \"$0\" {command} -"));
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        // Some of these find something, which is another status; none of them fails to read.
        assert!(!error.contains("cannot read") && !error.contains("standard input"), "{command}: {error}");
        assert!(!output.stdout.is_empty() || command.starts_with("report"), "{command}: {error}");
    }
    for files in [format!("- {recording}"), format!("{recording} -")] {
        let output = piped(&format!("cat {recording} | \"$0\" diff {files}"));
        assert!(output.status.success(), "{files}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let output = piped(&format!("cat {recording} | \"$0\" diff - -"));
    assert!(String::from_utf8_lossy(&output.stderr).contains("of two files, one may be `-`"));
    let output = piped("cat small.csv | \"$0\" replay --trace -");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_recording_is_planned_by_memory_type_with_fewer_bytes_than_its_blocks_had() {
    let folder = folder();
    let recording = recording_of_the_race(&folder);
    let planned = json(&allotment(&folder, &["alias", &recording, "--seconds", "1", "--json"]));
    let stats = json(&allotment(&folder, &["stats", &recording, "--json"]));
    let peak = planned["peak_bytes"].as_u64().unwrap();
    assert!(peak < stats["peak_blocks"]["bytes"].as_u64().unwrap(), "{planned}");
    assert!(peak * 100 <= planned["lower_bound_bytes"].as_u64().unwrap() * 101, "{planned}");
    let types = planned["memory_types"].as_array().unwrap();
    let sum = |key: &str| types.iter().map(|it| it[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!((sum("peak_bytes"), sum("allocations")), (peak, planned["items"].as_u64().unwrap()));
    assert!(types.len() > 1 && sum("recorded_peak_bytes") >= stats["peak_blocks"]["bytes"].as_u64().unwrap());
}

#[test]
fn a_line_of_a_benchmark_that_makes_no_sense_is_named() {
    let folder = folder();
    for (line, said) in [
        ("a,3,3,10", "line 3: upper, 3, is not above lower, 3"),
        ("a,0,1,0", "line 3: the size is 0"),
        ("a,0,1", "line 3: there is no field 4"),
        ("a,0,x,1", "line 3: upper: \"x\" is not a whole number"),
        ("a,0,1,999999999999999", "exceeds the limit"),
    ] {
        let file =
            written(&folder, "wrong.csv", format!("id,lower,upper,size\nok,0,1,5\n{line}\n").as_bytes());
        let refused = allotment(&folder, &["alias", &file]);
        assert_eq!(refused.status.code(), Some(2), "{line}");
        assert!(error_line(&refused).contains(said), "{}", error_line(&refused));
    }
}

/// A snapshot of PyTorch with stacks of Python and C++.
fn with_stacks() -> String {
    format!("{}/../../allotment-trace/tests/data/snapshot-calls.pickle", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn calls_are_a_tree_of_what_each_allocated() {
    let folder = folder();
    let run = |args: &[&str]| text(&allotment(&folder, &[&["calls", &with_stacks()], args].concat()));
    let shown = run(&[]);
    let lines: Vec<_> =
        shown.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(
        lines[2..],
        [
            "Bytes Share Count Call",
            "640 KiB 100.0 % 4 all",
            "256 KiB 40.0 % 1 torch::unwind::unwind",
            "192 KiB 30.0 % 1 stack",
            "192 KiB 30.0 % 1 zeros",
            "128 KiB 20.0 % 1 BmmBackward0",
            "128 KiB 20.0 % 1 bmm",
            "64.0 KiB 10.0 % 1 <module> train.py:28",
            "64.0 KiB 10.0 % 1 forward train.py:9",
            "64.0 KiB 10.0 % 1 linear torch/nn/functional.py:12",
            "64.0 KiB 10.0 % 1 addmm",
        ]
    );
    assert!(run(&["--depth", "1"]).lines().count() == 8, "the tree is cut");
    assert!(run(&["--all"]).contains("torch::autograd::Engine::thread_main"));
    assert!(run(&["--inverted"]).contains("  addmm\n"), "the innermost call is at the left");

    // Each question, as lines that tools draw flame graphs of: the bytes of all are those of the JSON output.
    for question in [&["--at", "end"][..], &["--peak"], &["--since", "3", "--until", "6"], &["--leaked"]] {
        let folded = run(&[question, &["--folded"]].concat());
        let sum: u64 =
            folded.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum();
        let whole: Value = serde_json::from_str(&run(&[question, &["--json"]].concat())).unwrap();
        assert_eq!(whole["bytes"], sum, "{question:?}");
        assert!(whole["calls"].as_array().unwrap().iter().all(|call| call["count"].as_u64() > Some(0)));
    }
    assert!(
        run(&["--folded"]).contains(
            "<module> train.py:28;forward train.py:9;linear torch/nn/functional.py:12;addmm 65536\n"
        )
    );
    let leaks = json(&allotment(&folder, &["leaks", &with_stacks(), "--json"]));
    let groups: Vec<_> = leaks["groups"].as_array().unwrap().iter().map(|group| &group["group"]).collect();
    assert_eq!(groups, ["torch::unwind::unwind", "stack", "BmmBackward0", "train.py:9"]);
    let wrong = allotment(&folder, &["calls", &with_stacks(), "--since", "5", "--until", "3"]);
    assert_eq!(wrong.status.code(), Some(2));
}

/// A dump says nothing about before and after.
#[test]
fn of_a_dump_no_event_no_frame_and_no_peak_is_told() {
    let folder = folder();
    let dump = "dump.json";
    text(&allotment(&folder, &["export", &recording_of_the_race(&folder), "--format", "vma", "-o", dump]));
    for command in ["stats", "map", "advise"] {
        let text = text(&allotment(&folder, &[command, dump]));
        assert!(text.contains(" at the moment of the dump"), "{text}");
        let of_history = [" at event", "frame 0", "Peak", "Refused", "TLSF", "trim()"];
        assert!(!of_history.iter().any(|words| text.contains(words)), "{text}");
    }
    let stats = json(&allotment(&folder, &["stats", dump, "--json"]));
    for unknown in ["at", "events", "peak_blocks", "peak_used", "refused"] {
        assert_eq!(stats[unknown], Value::Null, "{unknown}");
    }
    assert!(stats["all"]["allocations"].as_u64().unwrap() > 0);
}

#[test]
fn a_command_that_needs_a_history_refuses_a_dump_of_one_moment_in_a_sentence() {
    let folder = folder();
    let dump = "dump.json";
    text(&allotment(&folder, &["export", &recording_of_the_race(&folder), "--format", "vma", "-o", dump]));
    let refused: [&[&str]; 15] = [
        &["export", dump, "--format", "traffic", "-o", "traffic.csv"],
        &["export", dump, "--format", "chrome", "-o", "chrome.json"],
        &["lifetimes", dump, "--rule", "active", "--at", "0"],
        &["leaks", dump],
        &["whatif", dump],
        &["alias", dump],
        &["calls", dump, "--since", "0"],
        &["calls", dump, "--peak"],
        &["calls", dump, "--leaked"],
        &["diff", dump],
        &["diff", dump, dump, "--from", "3"],
        &["stats", dump, "--at", "peak"],
        &["map", dump, "--at", "3"],
        &["export", dump, "--format", "vma", "--at", "3"],
        &["check", dump, "--max-fragmentation", "1", "--at", "frame:0"],
    ];
    for command in refused {
        let output = allotment(&folder, command);
        assert_eq!(output.status.code(), Some(2), "{command:?}: {output:?}");
        assert!(error_line(&output).contains("is a dump of one moment"), "{command:?}: {output:?}");
    }
    // What is about the moment itself stays, and two dumps are compared.
    for command in [&["calls", dump][..], &["diff", dump, dump], &["map", dump, "--at", "end"]] {
        text(&allotment(&folder, command));
    }
}

#[test]
fn a_rule_that_a_dump_of_one_moment_cannot_answer_fails() {
    let folder = folder();
    let dump = "dump.json";
    text(&allotment(&folder, &["export", &recording_of_the_race(&folder), "--format", "vma", "-o", dump]));
    text(&allotment(&folder, &["check", dump, "--max-fragmentation", "1"]));
    for rule in ["--max-leaks", "--max-peak", "--max-stalls"] {
        let output = allotment(&folder, &["check", dump, rule, "1000000000", "--json"]);
        assert_eq!(output.status.code(), Some(1), "{rule}: {output:?}");
        let check: Value = serde_json::from_slice(&output.stdout).unwrap();
        let checked = &check["rules"][1];
        assert_eq!((&checked["ok"], &checked["measured"]), (&false.into(), &Value::Null), "{rule}");
        let output = allotment(&folder, &["check", dump, rule, "1000000000"]);
        assert!(
            String::from_utf8_lossy(&output.stdout).contains("the file is a dump of one moment"),
            "{rule}"
        );
    }
    // That nothing grew since a run of which the peaks are known is not shown by one moment.
    let old = recording_of_the_race(&folder);
    let growth =
        ["check", dump, "--against", &old, "--max-growth", "500%", "--trend", "trend.jsonl", "--json"];
    let output = allotment(&folder, &growth);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let check: Value = serde_json::from_slice(&output.stdout).unwrap();
    let of_growth = check["rules"].as_array().unwrap().iter();
    let of_growth: Vec<_> =
        of_growth.filter(|rule| rule["rule"].as_str().unwrap().starts_with("growth")).collect();
    assert!(of_growth.len() >= 3 && of_growth.iter().all(|rule| rule["ok"] == false), "{check}");
    let line: Value =
        serde_json::from_str(&fs::read_to_string(folder.path().join("trend.jsonl")).unwrap()).unwrap();
    assert_eq!((&line["leaks"], &line["peak_blocks"]), (&Value::Null, &Value::Null), "{line}");
    // A table of the moment does not say when it began.
    let csv = text(&allotment(&folder, &["export", dump, "--format", "csv"]));
    let row = csv.lines().nth(1).unwrap();
    assert!(row.ends_with(",,,,,,,alive,,,"), "{row}");
}

/// A trace of a program that has some buffers of each kind of two, and makes one more in every frame.
fn run_with(meshes: u32, bytes_of_a_mesh: u32, icons: u32, a_frame: u32) -> String {
    let mut trace = "op,id,size,alignment,kind,name\n".to_owned();
    let mut id = 0;
    let mut made = |trace: &mut String, size: u32, name: &str| {
        id += 1;
        trace.push_str(&format!("a,{id},{size},256,buffer,{name}\n"));
        id
    };
    for _ in 0..meshes {
        made(&mut trace, bytes_of_a_mesh, "mesh");
    }
    for _ in 0..icons {
        made(&mut trace, 256, "icon");
    }
    for _ in 0..8 {
        for _ in 0..a_frame {
            let temporary = made(&mut trace, 512, "temporary");
            trace.push_str(&format!("f,{temporary},,,,\n"));
        }
        trace.push_str("m,,,,,\n");
    }
    trace
}

#[test]
fn a_check_against_an_earlier_run_fails_on_the_group_that_grew_and_not_on_a_small_one() {
    let folder = folder();
    let old = written(&folder, "old.csv", run_with(16, 1 << 20, 4, 1).as_bytes());
    let check = |name: &str, run: String, more: &[&str]| {
        let new = written(&folder, name, run.as_bytes());
        let args = ["check", &new, "--against", &old, "--max-growth", "5%", "--by", "name", "--json"];
        let output = allotment(&folder, &[&args[..], more].concat());
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        let failed: Vec<_> =
            json["rules"].as_array().unwrap().iter().filter(|rule| rule["ok"] == false).collect();
        let rules: Vec<_> = failed.iter().map(|rule| rule["rule"].as_str().unwrap().to_owned()).collect();
        let groups = json["growth"]["groups"].as_array().unwrap().iter().filter(|group| group["ok"] == false);
        let groups: Vec<_> = groups.map(|group| group["group"].as_str().unwrap().to_owned()).collect();
        (output.status.code(), rules, groups)
    };
    let none = || (Some(0), Vec::<String>::new(), Vec::<String>::new());
    // Nothing changed; the icons, 0.006 % of all, doubled; the meshes shrank.
    for run in [run_with(16, 1 << 20, 4, 1), run_with(16, 1 << 20, 8, 1), run_with(9, 1 << 20, 4, 1)] {
        assert_eq!(check("new.csv", run, &[]), none());
    }
    let icons = check("new.csv", run_with(16, 1 << 20, 8, 1), &["--min", "100"]);
    assert_eq!(icons, (Some(1), vec!["growth-of-groups".to_owned()], vec!["icon".to_owned()]));
    let (code, rules, groups) = check("new.csv", run_with(18, 1 << 20, 4, 1), &[]);
    assert_eq!((code, groups), (Some(1), vec!["mesh".to_owned()]));
    assert!(rules.contains(&"growth-of-allocations".to_owned()), "{rules:?}");
    // As many bytes at once, and more work a frame.
    let (code, rules, groups) = check("new.csv", run_with(16, 1 << 20, 4, 3), &[]);
    assert_eq!((code, groups), (Some(1), vec!["temporary".to_owned()]));
    assert_eq!(rules, ["growth-per-frame", "growth-of-groups"]);

    // Without a bound it compares, and nothing fails.
    let args = ["check", &race(), "--against", &old, "--by", "prefix"];
    let compared = text(&allotment(&folder, &args));
    assert!(
        compared.contains("new ") && compared.contains("gone ") && compared.contains("icon"),
        "{compared}"
    );
    for wrong in [
        &["--max-growth", "5%"][..],
        &["--against", "nowhere.altr"],
        &["--against", &old, "--max-growth", "-5%"],
        &["--against", &old, "--max-growth", "5 apples"],
        &["--against", &old, "--min", "1M"],
        &["--commit", "abc"],
    ] {
        let output = allotment(&folder, &[&["check", old.as_str()][..], wrong].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn what_was_not_read_of_the_earlier_run_fails_a_check_as_well() {
    let folder = folder();
    let recording = recording_of_the_race(&folder);
    let whole = fs::read(&recording).unwrap();
    let cut = written(&folder, "cut.altr", &whole[..whole.len() - 100]);
    let args = ["check", &recording, "--against", &cut, "--json"];
    let output = allotment(&folder, &args);
    let check: Value = serde_json::from_slice(&output.stdout).unwrap();
    let [new, old] = [0, 1].map(|rule| &check["rules"][rule]);
    assert_eq!(
        (&new["ok"], &old["rule"], &old["ok"]),
        (&true.into(), &"unread-against".into(), &false.into())
    );
    assert!(check["unread"][0]["text"].as_str().unwrap().starts_with("OLD: "), "{check}");
    text(&allotment(&folder, &[&args[..], &["--accept", "all"]].concat()));
}

#[test]
fn a_trend_gets_a_line_a_run_and_its_damaged_lines_stay() {
    let folder = folder();
    let path = written(&folder, "small.csv", SMALL.as_bytes());
    let trend = folder.path().join("trend.jsonl");
    let run = |more: &[&str]| {
        let args = ["check", &path, "--trend", "trend.jsonl", "--commit", "1a2b", "--label", "a \"b\"\nc"];
        allotment(&folder, &[&args[..], more].concat())
    };
    text(&run(&[]));
    assert_eq!(run(&["--max-leaks", "0"]).status.code(), Some(1));
    // A line that another program was cut in, without an end.
    let two = fs::read_to_string(&trend).unwrap();
    fs::write(&trend, format!("{two}{{\"time\":17")).unwrap();
    let third = run(&[]);
    text(&third);
    let told = String::from_utf8(third.stderr).unwrap();
    assert!(told.contains("trend.jsonl: line 3 is damaged, and stays as it is"), "{told}");
    let all = fs::read_to_string(&trend).unwrap();
    assert!(all.starts_with(&two));
    let lines: Vec<_> = all.lines().collect();
    assert_eq!((lines.len(), lines[2]), (4, "{\"time\":17"));
    let [first, second, last] = [0, 1, 3].map(|line| serde_json::from_str::<Value>(lines[line]).unwrap());
    assert_eq!((&first["commit"], &first["label"]), (&"1a2b".into(), &"a \"b\"\nc".into()));
    assert_eq!(
        (&first["ok"], &second["ok"], &second["failed"][0]),
        (&true.into(), &false.into(), &"max-leaks".into())
    );
    assert_eq!(
        (&last["leaks"], &last["peak_requested"], &last["frames"]),
        (&2.into(), &2_621_440.into(), &2.into())
    );
    assert!(first["time"].as_u64().unwrap() > 1_700_000_000);

    // What is no trend stays as it is.
    let novel = written(&folder, "novel.txt", b"It was a dark and stormy night.\n");
    let refused = allotment(&folder, &["check", &path, "--trend", &novel]);
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(fs::read(&novel).unwrap(), b"It was a dark and stormy night.\n");
    // Also where its lines are JSON.
    let capture = written(&folder, "capture.jsonl", b"{\"header\":{\"gfxrecon-version\":\"1\"}}\n");
    assert_eq!(allotment(&folder, &["check", &path, "--trend", &capture]).status.code(), Some(2));
    assert_eq!(fs::read(&capture).unwrap(), b"{\"header\":{\"gfxrecon-version\":\"1\"}}\n");
}

#[test]
fn a_check_overwrites_no_file_that_it_reads() {
    let folder = folder();
    let path = written(&folder, "small.csv", SMALL.as_bytes());
    let old = written(&folder, "old.csv", SMALL.as_bytes());
    text(&allotment(&folder, &["check", &path, "--trend", "trend.jsonl"]));
    let trend = fs::read(folder.path().join("trend.jsonl")).unwrap();
    for outputs in [
        ["--markdown", &path, "--accept", "all"],
        ["--markdown", &old, "--against", &old],
        ["--trend", &path, "--against", &old],
        ["--trend", &old, "--against", &old],
        ["--trend", "trend.jsonl", "--markdown", "./trend.jsonl"],
        ["--trend", "new.jsonl", "--markdown", "new.jsonl"],
    ] {
        let refused = allotment(&folder, &[&["check", &path], &outputs[..]].concat());
        assert_eq!(refused.status.code(), Some(2), "{outputs:?}: {refused:?}");
        assert_eq!(fs::read(&path).unwrap(), SMALL.as_bytes(), "{outputs:?}");
        assert_eq!(fs::read(&old).unwrap(), SMALL.as_bytes(), "{outputs:?}");
        assert_eq!(fs::read(folder.path().join("trend.jsonl")).unwrap(), trend, "{outputs:?}");
    }
}

#[test]
fn a_check_as_markdown_has_the_rules_and_groups_and_no_name_leaves_its_cell() {
    let folder = folder();
    let mut recording = long_names();
    recording.texts = recording.texts.iter().map(|text| format!("a|b `c` <b>\n{text}")).collect();
    let mut file = Vec::new();
    recording.write(&mut file).unwrap();
    let new = written(&folder, "a|b.altr", &file);
    let old = written(&folder, "old.csv", SMALL.as_bytes());
    let args = ["check", &new, "--against", &old, "--max-growth", "1K", "--markdown", "summary.md"];
    let output = allotment(&folder, &args);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let page = fs::read_to_string(folder.path().join("summary.md")).unwrap();
    assert!(page.starts_with("### GPU memory: **"), "{page}");
    assert!(page.contains("| ❌ | growth-of-groups |") && page.contains("Groups that shrank: "), "{page}");
    // Each row of a table has as many cells as its heading.
    let mut columns = None;
    for line in page.lines() {
        let cells = line.matches('|').count();
        assert_eq!(cells, if line.starts_with('|') { *columns.get_or_insert(cells) } else { 0 }, "{line}");
        columns = columns.filter(|_| line.starts_with('|'));
        assert!(!line.contains('`') && !line.contains("<b>"), "{line}");
    }
}

/// Blocks of several pools: two of one name, and two custom ones without a name.
fn pools_alike() -> Recording {
    let mut recording = Recording { texts: vec!["textures".to_owned()], ..Recording::default() };
    for (pool, name) in [(0, 1), (1, 1), (2, 0), (3, 0)] {
        let (pool, name, algorithm) = (PoolId(pool), TextId(name), Some(Algorithm::Tlsf));
        recording.events.push(Event::PoolCreated { pool, name, algorithm, custom: true });
        for block in 0..pool.0 + 1 {
            let (block, kind) = (BlockId(u64::from(pool.0 * 10 + block)), BlockKind::Shared);
            let (memory_type, size) = (MemoryTypeIndex(0), 1 << (20 + pool.0));
            recording.events.push(Event::BlockAllocated { block, pool, memory_type, kind, size });
        }
    }
    recording
}

#[test]
fn pools_of_one_name_and_pools_without_a_name_are_told_apart_and_blocks_are_sorted_by_waste() {
    let folder = folder();
    let mut file = Vec::new();
    pools_alike().write(&mut file).unwrap();
    let path = written(&folder, "pools.altr", &file);
    let stats = json(&allotment(&folder, &["stats", &path, "--json"]));
    let pools: Vec<_> = stats["pools"].as_array().unwrap().iter().collect();
    let names: Vec<_> = pools.iter().map(|pool| pool["pool"].as_str().unwrap()).collect();
    let expected = [
        "pool 2 (4.00 mib blocks, memory type 0), tlsf",
        "pool 3 (8.00 mib blocks, memory type 0), tlsf",
        "textures (pool 0), tlsf",
        "textures (pool 1), tlsf",
    ];
    assert_eq!(names.iter().map(|name| name.to_lowercase()).collect::<Vec<_>>(), expected, "{stats}");
    let map = text(&allotment(&folder, &["map", &path, "--sort", "waste", "--most", "5"]));
    let sizes: Vec<_> =
        map.lines().filter_map(|line| Some(line.split_once('|')?.0.trim().to_owned())).collect();
    assert_eq!(sizes.len(), 5, "{map}");
    assert!(
        sizes[..4].iter().all(|line| line.ends_with("8.00 MiB")) && sizes[4].ends_with("4.00 MiB"),
        "{map}"
    );
    assert!(map.contains("… and 5 other blocks") && map.contains("Empty blocks 10 of 10, 49.0 MiB"), "{map}");
    let oldest = text(&allotment(&folder, &["map", &path, "--sort", "age", "--most", "1"]));
    assert!(oldest.lines().any(|line| line.contains("1.00 MiB  |")), "{oldest}");
}
