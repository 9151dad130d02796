//! Runs `allotment defragment` as a process.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use common::defragmentation_page::{data, page};
use common::{allotment, error_line, folder, json, recorded};
use serde_json::Value;
use tempfile::TempDir;

/// Early in the race, when little is loaded, most of it in half-empty blocks.
const EARLY: &str = "25";

fn defragmented(folder: &TempDir, args: &[&str]) -> Value {
    json(&allotment(folder, &[&["defragment", "--json", "--at", EARLY], args].concat()))
}

fn number(of: &Value, key: &str) -> u64 {
    of[key].as_u64().unwrap_or_else(|| panic!("{key} in {of}"))
}

fn written(folder: &TempDir, lines: &str) -> String {
    let path = folder.path().join("trace.csv");
    std::fs::write(&path, format!("op,id,size,alignment,kind,name\n{lines}")).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn every_strategy_verifies_all_live_bytes_and_its_figures_agree() {
    let folder = folder();
    for (strategy, told) in
        [("fast", "fast"), ("full", "full"), ("bytes=512K", "bytes=524288"), ("bytes=0", "bytes=0")]
    {
        let summary = defragmented(&folder, &["--strategy", strategy]);
        assert_eq!((&summary["strategy"], &summary["trace"]), (&told.into(), &"supertuxkart-race".into()));
        assert_eq!(
            (&summary["unit"], &summary["at"], &summary["of"]),
            (&"frame".into(), &25.into(), &3460.into())
        );
        let number = |key| number(&summary, key);
        assert_eq!(number("bytes_verified"), number("live_bytes"), "{strategy}");
        assert!(number("live_bytes") <= number("block_bytes_after"), "{summary}");
        assert!(number("ideal_block_bytes") <= number("block_bytes_after"), "{summary}");
        assert!(number("live_bytes") <= number("ideal_block_bytes"), "{summary}");
        assert!(number("blocks_after") <= number("blocks_before"), "{summary}");
        assert!(number("block_bytes_after") <= number("block_bytes_before"), "{summary}");
        assert!(number("bytes_moved") <= number("live_bytes") && number("moves") <= number("allocations"));
        assert!(number("passes") <= number("moves"), "{summary}");
        assert_eq!((number("moves_ignored"), number("bytes_not_verified")), (0, 0), "{summary}");
        assert_eq!(number("blocks_kept"), 0, "no concurrent change kept a block: {summary}");
        assert!(summary["longest_pass_us"].as_f64().unwrap() > 0.0 && summary["plan_us"].is_f64());
        let ratio = number("bytes_moved") as f64 / number("lower_bound_bytes") as f64;
        assert!((summary["ratio"].as_f64().unwrap() - ratio).abs() < 1e-9, "{summary}");
        let given_back = number("block_bytes_before") - number("block_bytes_after");
        match strategy {
            "fast" => assert!(given_back >= 2 * number("bytes_moved") && given_back != 0, "{summary}"),
            "full" => assert_eq!(
                (given_back, number("bytes_moved")),
                (number("possible_bytes"), number("possible_bytes_moved"))
            ),
            "bytes=0" => assert_eq!((given_back, number("bytes_moved"), number("passes")), (0, 0, 0)),
            _ => assert!(number("bytes_moved") <= 512 << 10 && given_back != 0, "{summary}"),
        }
    }
}

#[test]
fn every_profile_moves_without_losing_a_byte() {
    let folder = folder();
    let profiles = json(&allotment(&folder, &["profiles", "--json"]));
    for profile in profiles["profiles"].as_array().unwrap() {
        let name = profile["name"].as_str().unwrap();
        let summary = defragmented(&folder, &["--strategy", "full", "--profile", name]);
        assert_eq!(summary["profile"], name);
        assert_eq!(number(&summary, "bytes_verified"), number(&summary, "live_bytes"), "{name}");
        assert!(number(&summary, "moves") > 0, "{summary}");
    }
}

#[test]
fn upload_and_readback_memory_moves_too_even_where_no_queue_may_copy_there() {
    let folder = folder();
    const UPLOAD: u32 = 1;
    const READBACK: u32 = 2;
    for usage in [UPLOAD, READBACK] {
        let mut lines = String::new();
        (0..40).for_each(|id| lines += &format!("a,{id},500000,256,buffer,{usage}\n"));
        (0..40).filter(|id| id % 8 != 0).for_each(|id| lines += &format!("f,{id},,,,\n"));
        let path = written(&folder, &lines);
        for profile in ["d3d12-tier-1", "d3d12-tier-2", "discrete-no-bar", "mobile"] {
            let args = ["defragment", &path, "--json", "--block-size", "4M", "--profile", profile];
            let summary = json(&allotment(&folder, &args));
            assert_eq!((number(&summary, "moves"), number(&summary, "blocks_after")), (4, 1), "{summary}");
            assert_eq!(number(&summary, "bytes_verified"), number(&summary, "live_bytes"), "{profile}");
        }
    }
}

#[test]
fn small_passes_come_to_the_same_as_one_large_one() {
    let folder = folder();
    let whole = defragmented(&folder, &[]);
    assert_eq!(number(&whole, "passes"), 1);
    for limit in [&["--pass-moves", "3"], &["--pass-bytes", "512K"]] {
        let parts = defragmented(&folder, limit);
        assert!(number(&parts, "passes") > 2, "{parts}");
        for key in ["blocks_after", "block_bytes_after", "bytes_moved", "moves", "bytes_verified"] {
            assert_eq!(parts[key], whole[key], "{key}, {limit:?}");
        }
    }
    let small = defragmented(&folder, &["--pass-bytes", "64K"]);
    assert!(number(&small, "blocks_after") > number(&whole, "blocks_after"), "what is larger stays: {small}");
    let hurried = defragmented(&folder, &["--pass-time-us", "0"]);
    assert_eq!(hurried["blocks_after"], whole["blocks_after"]);
}

#[test]
fn blocks_and_algorithms_can_be_chosen() {
    let folder = folder();
    let summary = defragmented(&folder, &["--algorithm", "buddy", "--block-size", "8M"]);
    assert_eq!(summary["algorithm"], "buddy");
    assert_eq!(number(&summary, "block_bytes_before"), number(&summary, "blocks_before") * (8 << 20));
}

#[test]
fn unless_told_otherwise_it_takes_the_moment_at_which_most_memory_lies_idle() {
    let folder = folder();
    let idle = |summary: &Value| number(summary, "block_bytes_before") - number(summary, "live_bytes");
    let chosen = json(&allotment(&folder, &["defragment", "--json"]));
    for at in ["1", "1000", "3460"] {
        let other = json(&allotment(&folder, &["defragment", "--json", "--at", at]));
        assert!(idle(&chosen) >= idle(&other), "{at}: {chosen} {other}");
    }
}

#[test]
fn of_a_trace_without_frames_events_are_counted() {
    let folder = folder();
    let mut lines = String::new();
    (0..40).for_each(|id| lines += &format!("a,{id},500000,256,buffer,128\n"));
    (0..40).filter(|id| id % 8 != 0).for_each(|id| lines += &format!("f,{id},,,,\n"));
    let path = written(&folder, &lines);
    let summary = json(&allotment(&folder, &["defragment", &path, "--json", "--block-size", "4M"]));
    assert_eq!((&summary["unit"], number(&summary, "at")), (&"event".into(), 75));
    assert_eq!((number(&summary, "blocks_before"), number(&summary, "blocks_after")), (5, 1));
    assert_eq!(number(&summary, "ideal_block_bytes"), 4 << 20);
    assert_eq!(
        (number(&summary, "bytes_moved"), number(&summary, "lower_bound_bytes")),
        (2_000_000, 2_000_000)
    );
}

#[test]
fn it_says_plainly_that_nothing_can_be_gained() {
    let folder = folder();
    let path = written(&folder, "a,1,64,16,buffer,128\n");
    for args in [&["defragment", &path][..], &["defragment", &path, "--at", "0"]] {
        let output = allotment(&folder, args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            text.contains("Nothing to gain: the blocks already have the least bytes possible."),
            "{text}"
        );
    }
    let output = allotment(&folder, &["defragment", "--at", EARLY, "--strategy", "bytes=0"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("Nothing gained") && text.contains("--strategy full would free"), "{text}");
}

#[test]
fn the_report_is_one_page_with_everything_in_it() {
    let folder = folder();
    let output = allotment(&folder, &["defragment", "--at", EARLY]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("allotment-defragmentation.html"), "{text}");
    let page = page(&folder);
    assert!(!page.contains("/*ALLOTMENT_REPORT_"), "style and data are in the page");
    let requests = page.replace("http://www.w3.org/2000/svg", "");
    assert!(
        !requests.contains("http:") && !requests.contains("https:") && !requests.contains("src="),
        "nothing is asked for from outside"
    );
    let data = data(&page);
    let (before, after) = (&data["allocations"]["block"], &data["allocations"]["to_block"]);
    let passes = data["allocations"]["pass"].as_array().unwrap();
    let moved = passes.iter().enumerate().filter(|(_, pass)| pass.as_i64() != Some(-1));
    // Whole blocks are emptied, so a moved allocation is in another block.
    assert!(moved.clone().count() > 0 && moved.clone().all(|(i, _)| before[i] != after[i]));
    let stays = |block: &Value| data["blocks"][block.as_u64().unwrap() as usize]["stays"] == true;
    assert!(after.as_array().unwrap().iter().all(stays), "nothing lies in a block that was given back");
    assert!(moved.clone().all(|(i, _)| !stays(&before[i])), "what moved has left its block for good");
}

#[test]
fn what_makes_no_sense_ends_with_code_2() {
    let folder = folder();
    for args in [
        &["defragment", "--strategy", "slow"][..],
        &["defragment", "--strategy", "bytes=many"],
        &["defragment", "--at", "-1"],
        &["defragment", "--at", "3461"],
        &["defragment", "--profile", "voodoo"],
        &["defragment", "--algorithm", "linear"],
        &["defragment", "--block-size", "3"],
        &["defragment", "--pass-moves", "0"],
        &["defragment", "--device", "vulkan", "--profile", "mobile"],
        &["defragment", "--validate"],
        &["defragment", "--gpu", "llvmpipe"],
        &["defragment", "--device", "abacus"],
    ] {
        let output = allotment(&folder, args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(!output.stderr.is_empty() && output.stdout.is_empty(), "{args:?}");
    }
    let beyond = error_line(&allotment(&folder, &["defragment", "--at", "3461"]));
    assert!(beyond.contains("--at 3461 is after the last frame of the trace, 3460"), "{beyond}");
}

#[test]
fn a_trace_that_cannot_be_read_gets_one_line() {
    let folder = folder();
    let whole = std::fs::read(recorded("supertuxkart-race")).unwrap();
    let path = folder.path().join("half.csv.gz");
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    for path in [path.to_str().unwrap(), "nowhere.csv.gz"] {
        let output = allotment(&folder, &["defragment", path]);
        assert_eq!(output.status.code(), Some(1), "{path}");
        error_line(&output);
    }
}

#[test]
fn the_help_lists_it() {
    let text = String::from_utf8(allotment(&folder(), &["--help"]).stdout).unwrap();
    assert!(text.contains("  defragment"), "{text}");
}

#[test]
fn the_device_is_the_simulated_one_unless_another_is_asked_for() {
    let folder = folder();
    for args in [&[][..], &["--device", "simulated"]] {
        let summary = defragmented(&folder, &[args, &["--profile", "mobile"]].concat());
        assert_eq!((&summary["device"], &summary["profile"]), (&"simulated".into(), &"mobile".into()));
    }
}

#[test]
fn the_ideal_and_the_bound_are_explained_in_the_help() {
    let text = String::from_utf8(allotment(&folder(), &["defragment", "--help"]).stdout).unwrap();
    assert!(text.contains("least possible block bytes") && text.contains("lower bound"), "{text}");
}

#[test]
fn with_blocks_of_different_sizes_the_ideal_is_in_bytes() {
    let folder = folder();
    // Blocks grow with use.
    let mut lines = String::new();
    (0..500).for_each(|id| lines += &format!("a,{id},900000,256,buffer,128\n"));
    (0..500).filter(|id| id % 6 != 0).for_each(|id| lines += &format!("f,{id},,,,\n"));
    let path = written(&folder, &lines);
    let summary = json(&allotment(&folder, &["defragment", &path, "--json", "--strategy", "full"]));
    let number = |key| number(&summary, key);
    let blocks = data(&page(&folder))["blocks"].as_array().unwrap().clone();
    assert!(blocks.iter().any(|block| block["size"] != blocks[0]["size"]), "{blocks:?}");
    assert!(number("live_bytes") <= number("ideal_block_bytes"), "{summary}");
    assert!(number("ideal_block_bytes") <= number("block_bytes_after"), "{summary}");
    assert!(number("block_bytes_after") < number("block_bytes_before"), "{summary}");
}
