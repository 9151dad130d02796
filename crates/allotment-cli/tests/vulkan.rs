//! The command on a real driver, under the validation layer: any message fails the command.
//!
//! `ALLOTMENT_VULKAN` names the device by a part of its name, `ALLOTMENT_VALIDATION=off` does without the
//! layer. Without a device or the layer these tests say that they were skipped, and fail where
//! `ALLOTMENT_REQUIRE` holds `vulkan`.

#![cfg(feature = "vulkan")]
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use common::{allotment, complaint, folder, json, on_vulkan, recorded, validated, vulkan_is_here};
use serde_json::Value;

#[test]
fn the_race_is_replayed_with_real_buffers_and_images_and_every_byte_verified() {
    if !vulkan_is_here("the_race_is_replayed_with_real_buffers_and_images_and_every_byte_verified") {
        return;
    }
    let folder = folder();
    let summary = json(&allotment(&folder, &validated(&["replay", "--json"])));
    assert_eq!((&summary["device"], &summary["profile"]), (&"vulkan".into(), &Value::Null));
    assert_eq!((&summary["allocations"], &summary["frees"]), (&858.into(), &587.into()));
    let name = summary["device_name"].as_str().unwrap();
    let page = std::fs::read_to_string(folder.path().join("allotment-report.html")).unwrap();
    assert!(!name.is_empty() && page.contains(name));

    let number = |value: &Value| value.as_u64().unwrap();
    let images = &summary["images"];
    // Most are BC3, which a driver need not have.
    assert_eq!(number(&images["made"]) + number(&images["as_buffers"]), 307);
    assert_eq!(summary["bytes_verified"], summary["bytes_uploaded"]);
    assert!(number(&summary["bytes_verified"]) > 0);
    assert!(number(&summary["peak_reserved_bytes"]) >= number(&summary["peak_live_bytes"]));
    assert!(number(&summary["device_calls"]["max_in_a_steady_frame"]) <= 1);
    // What the CPU can reach is verified whatever it is, and lavapipe has nothing else.
    if name.contains("llvmpipe") {
        assert_eq!((number(&images["made"]), number(&images["verified"])), (307, 307));
        assert_eq!(number(&images["bytes_not_verified"]), 0);
        // It is where the sizes were recorded. Other versions of it may round images otherwise.
        assert!(number(&summary["bytes_verified"]).abs_diff(194_314_512) < 307 * 4096);
    }
}

/// Replays a trace of buffers with the ends of each verified: all of them would be hundreds of gigabytes.
fn ends_are_verified(test: &str, trace: &str, allocations: u64) {
    if !vulkan_is_here(test) {
        return;
    }
    let path = recorded(trace);
    let args = validated(&["replay", path.to_str().unwrap(), "--bytes", "ends", "--json"]);
    let summary = json(&allotment(&folder(), &args));
    assert_eq!(summary["allocations"], allocations);
    assert_eq!(summary["bytes_verified"], summary["bytes_uploaded"]);
    assert!(summary["bytes_verified"].as_u64().unwrap() > 100 << 20);
    assert_eq!(summary["images"]["made"], 0);
}

#[test]
fn training_resnet50_is_replayed_with_real_buffers() {
    ends_are_verified("training_resnet50_is_replayed_with_real_buffers", "resnet50-train", 10_671);
}

#[test]
fn training_gpt2_is_replayed_with_real_buffers() {
    ends_are_verified("training_gpt2_is_replayed_with_real_buffers", "gpt2-train", 10_216);
}

#[test]
fn inference_is_replayed_with_real_buffers() {
    ends_are_verified("inference_is_replayed_with_real_buffers", "fasterrcnn-infer", 3_435);
}

#[test]
fn the_summary_names_the_device() {
    if !vulkan_is_here("the_summary_names_the_device") {
        return;
    }
    let folder = folder();
    let name = json(&allotment(&folder, &on_vulkan(&["info", "--json"])));
    let output = allotment(&folder, &on_vulkan(&["replay", "--bytes", "none"]));
    let text = String::from_utf8(output.stdout).unwrap();
    let first = text.lines().next().unwrap();
    let expected = format!("supertuxkart-race on {}, through Vulkan", name["device_name"].as_str().unwrap());
    assert_eq!(first, expected);
    assert!(text.contains("Images made"), "{text}");
}

#[test]
fn a_device_that_is_not_there_is_told_with_those_that_are() {
    if !vulkan_is_here("a_device_that_is_not_there_is_told_with_those_that_are") {
        return;
    }
    let folder = folder();
    for command in ["replay", "info"] {
        let output = allotment(&folder, &[command, "--device", "vulkan", "--gpu", "voodoo 9"]);
        assert_eq!(output.status.code(), Some(2), "{command}");
        let line = complaint(&output);
        assert!(line.contains("no Vulkan device named \"voodoo 9\", only "), "{line}");
    }
}

#[test]
fn without_a_driver_the_command_says_what_to_install() {
    let folder = folder();
    for command in ["replay", "info"] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_allotment"))
            .args([command, "--device", "vulkan"])
            // Where the loader looks for drivers, by the name of today and of before.
            .env("VK_DRIVER_FILES", "nowhere.json")
            .env("VK_ICD_FILENAMES", "nowhere.json")
            .current_dir(&folder)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{command}");
        let line = complaint(&output);
        assert!(line.contains("install") && line.contains("--device host"), "{line}");
    }
}

#[test]
fn options_of_one_device_are_refused_on_the_other() {
    let folder = folder();
    for args in [
        &["replay", "--validate"][..],
        &["replay", "--gpu", "llvmpipe"],
        &["info", "--gpu", "llvmpipe"],
        &["replay", "--device", "vulkan", "--profile", "mobile"],
        &["info", "--device", "vulkan", "--profile", "mobile"],
    ] {
        let output = allotment(&folder, args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(complaint(&output).contains(" is for --device "), "{args:?}");
    }
}
