//! Runs the command as a process, and checks its output and exit code.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use common::{allotment, error_line, folder, json, recorded};
use serde_json::Value;
use tempfile::TempDir;

fn written(folder: &TempDir, text: &[u8]) -> String {
    let path = folder.path().join("trace.csv");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn without_arguments_it_replays_the_race_verifies_every_byte_and_writes_a_report() {
    let folder = folder();
    let output = allotment(&folder, &[""; 0]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<Vec<&str>> =
        text.lines().map(|line| line.trim().split("  ").map(str::trim).collect()).collect();
    let value = |label: &str| {
        let row = rows.iter().find(|row| row[0] == label);
        *row.unwrap_or_else(|| panic!("no row {label}: {text}")).last().unwrap()
    };
    assert_eq!((value("Allocations"), value("Frames")), ("858", "3,460"));
    assert_eq!(value("Bytes verified"), value("Bytes uploaded"));
    assert_eq!(value("… of bytes uploaded"), "100.0 %");
    let page = std::fs::read_to_string(folder.path().join("allotment-report.html")).unwrap();
    assert!(
        page.starts_with("<!doctype html>") && page.contains(r#"id="data">"#),
        "it is the page of a recording"
    );
    assert!(!page.contains("http:") && !page.contains("https:"), "nothing is asked for from outside");
}

#[test]
fn the_replay_tells_machines_what_it_tells_people() {
    let folder = folder();
    let summary = json(&allotment(&folder, &["replay", "--json", "--report", "page.html"]));
    assert_eq!(summary["device"], "simulated");
    assert_eq!(summary["frames"], 3460);
    assert_eq!(summary["allocations"], 858);
    assert_eq!(summary["frees"], 587);
    // The sum of the sizes in the trace, computed by another program.
    assert_eq!(summary["bytes_uploaded"], 194_314_512);
    assert_eq!(summary["bytes_verified"], summary["bytes_uploaded"]);
    assert_eq!(summary["peak_live_bytes"], 83_018_652);
    let number = |key: &str| summary[key].as_u64().unwrap();
    assert!(number("peak_reserved_bytes") >= number("peak_live_bytes"));
    let calls = &summary["device_calls"];
    assert!(calls["total"].as_u64().unwrap() > 0);
    assert!(calls["max_in_a_steady_frame"].as_u64().unwrap() <= 1, "{calls}");
    for part in ["padding", "rounding", "free"] {
        assert!(summary["at_peak"][part].is_u64(), "{part}");
    }
    let ns = &summary["ns_per_op"];
    assert!(ns["p50"].as_u64() <= ns["p99"].as_u64() && ns["p99"].as_u64() <= ns["max"].as_u64());
    assert_eq!(summary["report"], "page.html");
    assert!(folder.path().join("page.html").exists());
}

#[test]
fn every_profile_and_every_algorithm_replays_the_race_without_losing_a_byte() {
    let folder = folder();
    let profiles = json(&allotment(&folder, &["profiles", "--json"]));
    let profiles = profiles["profiles"].as_array().unwrap();
    assert!(profiles.len() >= 8);
    // Each profile with one algorithm: all thirty pairs take as long as all other tests of this file.
    for (profile, algorithm) in profiles.iter().zip(["tlsf", "buddy", "linear"].into_iter().cycle()) {
        let name = profile["name"].as_str().unwrap();
        let args = ["replay", "--json", "--profile", name, "--algorithm", algorithm];
        let summary = json(&allotment(&folder, &args));
        assert_eq!(summary["bytes_verified"], 194_314_512, "{name} {algorithm}");
        assert_eq!(summary["profile"], name);
    }
}

#[test]
fn a_fixed_block_size_is_obeyed() {
    let folder = folder();
    let summary = json(&allotment(&folder, &["replay", "--json", "--block-size", "64M"]));
    let blocks = summary["peak_blocks"]["shared"].as_u64().unwrap();
    assert_eq!(summary["peak_reserved_bytes"], blocks * (64 << 20));
}

#[test]
fn the_dump_is_the_state_at_the_peak() {
    let folder = folder();
    let summary = json(&allotment(&folder, &["replay", "--json", "--dump", "dump.json"]));
    let dump: Value =
        serde_json::from_slice(&std::fs::read(folder.path().join("dump.json")).unwrap()).unwrap();
    // The dump includes the two staging buffers of the replay, the summary does not.
    let staging = 2 * (8 << 20);
    let reserved = summary["peak_reserved_bytes"].as_u64().unwrap();
    assert_eq!(dump["Total"]["BlockBytes"].as_u64().unwrap(), reserved + staging);
}

#[test]
fn tlsf_reserves_no_more_than_the_best_of_the_others_and_one_block_on_every_trace() {
    let folder = folder();
    for trace in ["supertuxkart-race", "resnet50-train", "gpt2-train", "fasterrcnn-infer"] {
        let path = recorded(trace);
        let compared = json(&allotment(&folder, &["compare", path.to_str().unwrap(), "--json"]));
        let rows = compared["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 15);
        assert!(rows.iter().all(|row| row["ns_per_op"]["p50"].is_u64() && row["failed"].is_u64()));
        for tlsf in rows.iter().filter(|row| row["algorithm"] == "tlsf") {
            assert_eq!(tlsf["failed"], 0, "{trace}");
            let same = |row: &&Value| {
                ["sizing", "block_size", "empty_blocks"].iter().all(|&key| row[key] == tlsf[key])
            };
            let others =
                rows.iter().filter(same).filter(|row| row["algorithm"] != "tlsf" && row["failed"] == 0);
            let best = others.map(|row| row["peak_reserved_bytes"].as_u64().unwrap()).min().unwrap();
            let reserved = tlsf["peak_reserved_bytes"].as_u64().unwrap();
            let block = tlsf["block_size"].as_u64().unwrap();
            assert!(reserved <= best + block, "{trace}, {}: {reserved} against {best}", tlsf["sizing"]);
        }
    }
}

#[test]
fn ways_to_grow_can_be_compared() {
    let path = recorded("supertuxkart-race");
    let compared = json(&allotment(&folder(), &["compare", path.to_str().unwrap(), "--growth", "--json"]));
    assert_eq!(compared["rows"].as_array().unwrap().len(), 12);
}

#[test]
fn bad_usage_ends_with_code_2() {
    let folder = folder();
    for args in [
        &["replay", "--algorithm", "slab"][..],
        &["replay", "--block-size", "3"],
        &["replay", "--block-size", "12X"],
        &["replay", "--profile", "voodoo"],
        &["replay", "--device", "abacus"],
        &["info", "--profile", "voodoo"],
        &["info", "--device", "abacus"],
        &["compare", "--profile", "voodoo"],
        &["dance"],
        &["--frobnicate"],
    ] {
        let output = allotment(&folder, args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(!output.stderr.is_empty() && output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn options_of_one_device_are_refused_on_the_other() {
    let folder = folder();
    for args in [
        &["replay", "--validate"][..],
        &["replay", "--gpu", "llvmpipe"],
        &["info", "--gpu", "llvmpipe"],
        &["compare", "--gpu", "llvmpipe"],
        &["compare", "--device", "vulkan", "--profile", "mobile"],
        &["defragment", "--gpu", "llvmpipe"],
        &["defragment", "--device", "vulkan", "--profile", "mobile"],
        &["replay", "--device", "vulkan", "--profile", "mobile"],
        &["info", "--device", "vulkan", "--profile", "mobile"],
        &["replay", "--device", "d3d12", "--profile", "mobile"],
        &["info", "--device", "d3d12", "--profile", "mobile"],
    ] {
        let output = allotment(&folder, args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(error_line(&output).contains(" is for --device "), "{args:?}");
    }
}

#[test]
fn a_driver_that_the_command_does_not_have_is_told_with_what_helps() {
    let mut lacking = Vec::new();
    if cfg!(not(windows)) {
        lacking.push(("d3d12", "Direct3D 12 needs Windows: use --device vulkan or --device simulated"));
    } else if cfg!(not(feature = "d3d12")) {
        lacking.push(("d3d12", "built without Direct3D 12: build it with --features d3d12"));
    }
    if cfg!(not(feature = "vulkan")) {
        lacking.push(("vulkan", "built without Vulkan: build it with --features vulkan"));
    }
    for (device, expected) in lacking {
        for args in [
            &["replay", "--device", device][..],
            &["replay", "--device", device, "--validate", "--gpu", "any"],
            &["info", "--device", device],
            &["compare", "--device", device],
        ] {
            let output = allotment(&folder(), args);
            assert_eq!(output.status.code(), Some(1), "{args:?}");
            let line = error_line(&output);
            assert!(line.contains(expected), "{line}");
        }
    }
}

#[test]
fn a_malformed_trace_gets_one_line_with_its_line_number() {
    let header = "op,id,size,alignment,kind,name\n";
    for (lines, number) in [
        ("a,1,12x,16,buffer,1\n", "line 2"),
        ("a,1,64,16,buffer,1\nf,2,,,,\n", "line 3"),
        ("a,1,64,16,buffer,1\nf,1,,,,\nf,1,,,,\n", "line 4"),
        ("a,1,64,16,buffer,1\nm,,,,,\na,1,64,16,buffer,1\n", "line 4"),
        ("a,1,64,3,buffer,1\n", "line 2"),
        ("a,1,0,16,buffer,1\n", "line 2"),
        ("z,1,64,16,buffer,1\n", "line 2"),
    ] {
        let folder = folder();
        let path = written(&folder, format!("{header}{lines}").as_bytes());
        let output = allotment(&folder, &["replay", &path]);
        assert_eq!(output.status.code(), Some(1), "{lines}");
        let line = error_line(&output);
        assert!(line.contains(number), "{lines}: {line}");
    }
}

#[test]
fn a_truncated_or_missing_trace_gets_one_line() {
    let folder = folder();
    let whole = std::fs::read(recorded("supertuxkart-race")).unwrap();
    let path = written(&folder, &whole[..whole.len() / 2]);
    for args in [&["replay", path.as_str()][..], &["compare", &path], &["replay", "nowhere.csv.gz"]] {
        let output = allotment(&folder, args);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        error_line(&output);
    }
}

#[test]
fn an_allocation_that_no_device_can_serve_is_told_with_its_line() {
    let folder = folder();
    let path = written(&folder, b"op,id,size,alignment,kind,name\na,7,281474976710656,16,image,huge\n");
    let line = error_line(&allotment(&folder, &["replay", &path]));
    assert!(line.contains("line 2: resource 7"), "{line}");
}

#[test]
fn a_report_that_cannot_be_written_is_a_failure() {
    let output = allotment(&folder(), &["replay", "--json", "--report", "no/such/folder/page.html"]);
    assert_eq!(output.status.code(), Some(1));
    error_line(&output);
}

#[test]
fn waste_is_the_same_share_wherever_it_is_told() {
    let folder = folder();
    let compared = json(&allotment(&folder, &["compare", "--json"]));
    assert_eq!((&compared["trace"], &compared["device"]), (&"supertuxkart-race".into(), &"simulated".into()));
    let replayed = json(&allotment(&folder, &["replay", "--json"]));
    let rows = compared["rows"].as_array().unwrap();
    let same = |row: &&Value| row["algorithm"] == "tlsf" && row["empty_blocks"] == "kept";
    let row = rows.iter().find(same).unwrap();
    let number = |key: &str| row[key].as_u64().unwrap();
    let (live, reserved) = (number("peak_live_bytes"), number("peak_reserved_bytes"));
    assert_eq!((number("waste_bytes"), &row["waste_bytes"]), (reserved - live, &replayed["waste_bytes"]));
    let share = format!("{:.1} %", (reserved - live) as f64 * 100.0 / reserved as f64);
    let text = |args: &[&str]| String::from_utf8(allotment(&folder, args).stdout).unwrap();
    let (table, figures) = (text(&["compare"]), text(&["replay"]));
    let line = |text: &str, start: &str| {
        text.lines().find(|line| line.trim().starts_with(start)).unwrap().to_owned()
    };
    assert!(line(&table, "tlsf").contains(&share), "{share}: {table}");
    assert!(line(&figures, "Waste").contains(&format!("({share})")), "{share}: {figures}");
    for command in ["compare", "replay"] {
        assert!(text(&[command, "--help"]).contains("as a share of peak reserved"), "the help says so");
    }
}

#[test]
fn where_nobody_looks_there_is_no_progress() {
    let folder = folder();
    for args in [&["replay"][..], &["compare", "--growth"], &["defragment"]] {
        let output = allotment(&folder, args);
        assert!(output.status.success() && output.stderr.is_empty(), "{args:?}: {output:?}");
    }
}

#[test]
fn a_file_that_is_no_trace_is_told_by_what_it_seems_to_be() {
    let folder = folder();
    let path = written(&folder, format!("{{\"Total\": [{}]}}", "1, ".repeat(50_000)).as_bytes());
    for command in ["replay", "compare", "defragment"] {
        let line = error_line(&allotment(&folder, &[command, &path]));
        assert!(
            line.contains("this looks like JSON; a trace is csv") && line.contains("op,id,size"),
            "{line}"
        );
    }
}

#[test]
fn no_trace_of_valid_lines_makes_the_command_panic() {
    let most = 1_u64 << 48;
    for lines in [
        "".to_owned(),
        "m,,,,,\nm,,,,,\n".to_owned(),
        format!("a,{},64,1,buffer,128\n", u64::MAX),
        format!("a,{0},64,1,buffer,128\nf,{0},,,,\nm,,,,,\n", u64::MAX),
        format!("a,0,1,{most},buffer,{}\n", u32::MAX),
        format!("a,0,{most},1,image,VK_FORMAT_R8_UNORM 4294967295x4294967295x4294967295\n"),
        (0..40_000).map(|id| format!("a,{id},{most},1,buffer,\n")).collect(),
    ] {
        let folder = folder();
        let path = written(&folder, format!("op,id,size,alignment,kind,name\n{lines}").as_bytes());
        for args in [
            &["replay", &path][..],
            &["replay", &path, "--algorithm", "buddy", "--block-size", "1"],
            &["replay", &path, "--algorithm", "linear", "--dump", "dump.json"],
            &["compare", &path],
            &["compare", &path, "--growth", "--json"],
            &["defragment", &path],
            &["defragment", &path, "--strategy", "full", "--at", "0"],
        ] {
            let output = allotment(&folder, args);
            match output.status.code() {
                Some(0) => assert!(output.stderr.is_empty(), "{args:?}: {output:?}"),
                Some(1) => assert!(error_line(&output).contains("line 2: resource 0: "), "{args:?}"),
                _ => panic!("{args:?}, {}: {output:?}", lines.chars().take(100).collect::<String>()),
            }
        }
    }
}

#[test]
fn each_shell_gets_completions_with_every_command_in_them() {
    let folder = folder();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = allotment(&folder, &["completions", shell]);
        assert!(output.status.success(), "{shell}: {output:?}");
        let script = String::from_utf8(output.stdout).unwrap();
        for command in ["replay", "whatif", "profiles", "man"] {
            assert!(script.contains(command), "{shell}: {command}");
        }
    }
    let unknown = allotment(&folder, &["completions", "ksh"]);
    assert_eq!(unknown.status.code(), Some(2));
}

#[test]
fn the_manual_has_a_page_for_all_and_for_each_command() {
    let folder = folder();
    let page = |args: &[&str]| {
        let output = allotment(&folder, args);
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let whole = page(&["man"]);
    assert!(whole.contains(".TH allotment 1") && whole.contains("whatif"), "{whole}");
    let replay = page(&["man", "replay"]);
    assert!(replay.contains(".TH allotment-replay 1") && replay.contains("json"), "{replay}");
    let unknown = allotment(&folder, &["man", "dance"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(error_line(&unknown).contains("no command dance"));
}
