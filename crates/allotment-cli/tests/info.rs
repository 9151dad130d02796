//! Runs `allotment info` as a process.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

#[cfg(all(feature = "d3d12", windows))]
use common::drivers::D3D12;
#[cfg(feature = "vulkan")]
use common::drivers::VULKAN;
use common::{allotment, folder, json};
use serde_json::Value;

const USAGES: [&str; 6] = ["gpu-only", "upload", "readback", "device-upload", "transient", "device-mapped"];

/// Returns the row of a memory usage and a resource.
fn row<'a>(info: &'a Value, memory_usage: &str, resource: &str) -> &'a Value {
    let rows = info["memory_usages"].as_array().unwrap();
    let row = rows.iter().find(|row| row["memory_usage"] == memory_usage && row["resource"] == resource);
    row.unwrap_or_else(|| panic!("no row {memory_usage}, {resource}: {info}"))
}

/// Checks the output for any device.
fn check(info: &Value) {
    let (heaps, types) = (info["heaps"].as_array().unwrap(), info["memory_types"].as_array().unwrap());
    assert!(!heaps.is_empty() && !types.is_empty());
    for heap in heaps {
        assert!(heap["budget"].as_u64().unwrap() <= heap["size"].as_u64().unwrap(), "{heap}");
        assert!(heap["usage"].is_u64() && heap["device_local"].is_boolean());
    }
    assert!(types.iter().all(|row| row["heap"].as_u64().unwrap() < heaps.len() as u64));
    for limit in [
        "buffer_image_granularity",
        "non_coherent_atom_size",
        "max_allocation_count",
        "max_allocation_size",
        "image_copy_offset_alignment",
        "image_copy_row_alignment",
        "buffer_offset_alignment",
    ] {
        assert!(info["limits"][limit].as_u64().unwrap() >= 1, "{limit}");
    }
    assert!(!info["queues"].as_array().unwrap().is_empty());
    for memory_usage in USAGES {
        for resource in ["buffer", "optimal image"] {
            let row = row(info, memory_usage, resource);
            let candidates = row["types"].as_array().unwrap();
            assert_eq!(candidates.len(), types.len(), "every type is judged");
            assert!(candidates.iter().all(|candidate| !candidate["why"].as_str().unwrap().is_empty()));
            let tried: Vec<&Value> =
                candidates.iter().take_while(|candidate| candidate["suits"] == true).collect();
            assert!(
                candidates[tried.len()..].iter().all(|candidate| candidate["suits"] == false),
                "tried ones first"
            );
            assert!(
                tried.windows(2).all(|pair| pair[0]["cost"].as_u64() <= pair[1]["cost"].as_u64()),
                "cheapest first"
            );
            let first = tried.first().map_or(&Value::Null, |first| &first["memory_type"]);
            assert_eq!(&row["chosen"], first);
        }
    }
    for memory_usage in ["gpu-only", "upload", "readback"] {
        assert!(row(info, memory_usage, "buffer")["chosen"].is_u64(), "{memory_usage} is served everywhere");
    }
}

#[test]
fn every_profile_says_what_it_has_and_what_it_would_choose() {
    let folder = folder();
    let profiles = json(&allotment(&folder, &["profiles", "--json"]));
    for profile in profiles["profiles"].as_array().unwrap() {
        let name = profile["name"].as_str().unwrap();
        let info = json(&allotment(&folder, &["info", "--profile", name, "--json"]));
        assert_eq!((&info["device"], &info["profile"]), (&"simulated".into(), &profile["name"]));
        assert_eq!(info["memory_types"], profile["memory_types"]);
        check(&info);
    }
}

#[test]
fn where_a_resource_cannot_stand_is_the_devices_word() {
    let info = json(&allotment(&folder(), &["info", "--profile", "mobile", "--json"]));
    // Lazily allocated memory is for attachments, so no buffer can use it.
    assert_eq!(row(&info, "transient", "optimal image")["chosen"], 2);
    assert_eq!(row(&info, "transient", "buffer")["chosen"], 0);
    let lazy = &row(&info, "gpu-only", "optimal image")["types"][2];
    assert_eq!((&lazy["memory_type"], &lazy["suits"]), (&2.into(), &false.into()));
    assert_eq!(lazy["why"], "is lazily-allocated, which a request must require explicitly");
}

#[test]
fn a_person_is_told_the_same_in_words() {
    let output = allotment(&folder(), &["info"]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    for line in [
        "  heap 0     8.00 GiB device-local, budget 7.20 GiB, 0 B (0.0 %) in use",
        "  type 3   heap 0: device-local, host-visible, host-coherent",
        "  max memory allocations             4,096",
        "  device-upload",
        "      1.  type 3: suitable",
        "      –   type 0: lacks required host-visible",
    ] {
        assert!(text.lines().any(|other| other == line), "no line \"{line}\":\n{text}");
    }
}

#[cfg(feature = "vulkan")]
#[test]
fn a_vulkan_device_says_as_much() {
    let Some(vulkan) = VULKAN.here("a_vulkan_device_says_as_much") else { return };
    check(&vulkan.info());
}

#[cfg(all(feature = "d3d12", windows))]
#[test]
fn a_direct3d_12_device_says_as_much() {
    let Some(d3d12) = D3D12.here("a_direct3d_12_device_says_as_much") else { return };
    let info = d3d12.info();
    check(&info);
    // Queues only read memory that the CPU uploads through.
    let upload = row(&info, "upload", "buffer")["chosen"].as_u64().unwrap();
    let properties = info["memory_types"][upload as usize]["properties"].as_array().unwrap();
    assert!(properties.contains(&"device-read-only".into()), "{properties:?}");
}
