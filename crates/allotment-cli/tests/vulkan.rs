//! The command on Vulkan; `common/drivers.rs` documents the choice of the device.

#![cfg(feature = "vulkan")]
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use common::drivers::{VULKAN, number};
#[cfg(not(windows))]
use common::{error_line, folder};

#[test]
fn the_race_is_replayed_with_real_buffers_and_images_and_every_byte_verified() {
    let test = "the_race_is_replayed_with_real_buffers_and_images_and_every_byte_verified";
    let Some(vulkan) = VULKAN.here(test) else { return };
    let summary = vulkan.race();
    // All host-visible memory is verified, and lavapipe has no other.
    if summary["device_name"].as_str().unwrap().contains("llvmpipe") {
        let images = &summary["images"];
        assert_eq!((number(&images["made"]), number(&images["verified"])), (307, 307));
        assert_eq!(number(&images["bytes_not_verified"]), 0);
        // The sizes were recorded on this driver version. Other versions may round images differently.
        assert!(number(&summary["bytes_verified"]).abs_diff(194_314_512) < 307 * 4096);
    }
}

common::drivers::suite!(VULKAN);

// On Windows drivers are registered in the registry, and not every loader reads the environment.
#[cfg(not(windows))]
#[test]
fn without_a_driver_the_command_says_what_to_install() {
    let folder = folder();
    for command in ["replay", "info", "compare", "defragment"] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_allotment-under-test"))
            .args([command, "--device", "vulkan"])
            // The loader's search path for drivers, under its current and its former name.
            .env("VK_DRIVER_FILES", "nowhere.json")
            .env("VK_ICD_FILENAMES", "nowhere.json")
            .current_dir(&folder)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{command}");
        let line = error_line(&output);
        assert!(line.contains("install") && line.contains("--device simulated"), "{line}");
    }
}
