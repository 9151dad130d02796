//! The page of `allotment defragment` in a browser. Without Chromium the tests say that they were skipped; with
//! `ALLOTMENT_REQUIRE=chromium` they fail. `ALLOTMENT_CHROMIUM` is the program.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use std::io::Write;
use std::process::Command;

use common::defragmentation_page::{data, page, with_data};
use common::{allotment, folder};
use tempfile::TempDir;

fn chromium() -> Option<String> {
    let candidates = std::env::var("ALLOTMENT_CHROMIUM").ok().into_iter();
    candidates
        .chain(["chromium", "chromium-browser", "google-chrome"].map(str::to_owned))
        .find(|program| Command::new(program).arg("--version").output().is_ok_and(|it| it.status.success()))
}

/// Returns the elements of the page after its script has run. `None` without Chromium.
fn drawn(test: &str, folder: &TempDir, page: &str) -> Option<String> {
    let Some(program) = chromium() else {
        let required = std::env::var("ALLOTMENT_REQUIRE").unwrap_or_default();
        assert!(!required.split(',').any(|one| one.trim() == "chromium"), "Chromium is required");
        // Not `eprintln!`, whose output is hidden for tests that pass.
        let _ = writeln!(std::io::stderr(), "{test}: skipped: Chromium is not installed");
        return None;
    };
    let path = folder.path().join("page.html");
    std::fs::write(&path, page).unwrap();
    let output = Command::new(program)
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .arg(format!("file://{}", path.display()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn moves_within_a_block_are_drawn_apart_from_moves_between_blocks() {
    let test = "moves_within_a_block_are_drawn_apart_from_moves_between_blocks";
    let folder = folder();
    assert!(allotment(&folder, &["defragment", "--at", "25"]).status.success());
    let page = page(&folder);
    let between = r#"<path class="ribbon""#;
    let within = r#"stroke="var(--within)""#;

    let Some(text) = drawn(test, &folder, &page) else { return };
    assert!(text.contains(between), "{text}");
    assert!(!text.contains(within) && text.contains(r#"id="moves-within" hidden"#), "{text}");

    // A run frees whole blocks, so its moves are between blocks: one within a block has to be made up.
    let mut data = data(&page);
    let allocations = &mut data["allocations"];
    let moved = allocations["pass"].as_array().unwrap().iter().position(|pass| pass == 0).unwrap();
    allocations["to_block"][moved] = allocations["block"][moved].clone();
    allocations["to_offset"][moved] = 0.into();
    let block = allocations["block"][moved].clone();
    let text = drawn(test, &folder, &with_data(&page, &data)).unwrap();
    assert!(text.contains(between) && text.contains(within), "{text}");
    assert!(!text.contains(r#"id="moves-within" hidden"#), "{text}");
    let (_, after) = text.split_once(r#"id="moves-within""#).unwrap();
    // The first request there is for 1.3 MiB, so the block has room for two of these.
    let label = format!("block {block}, 3 MiB: 1 allocation");
    assert!(after.contains(&label) && after.contains("moved within it"), "{label}: {after}");
}
