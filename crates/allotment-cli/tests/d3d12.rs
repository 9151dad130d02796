//! The command on Direct3D 12; `common/drivers.rs` documents the choice of the device.

#![cfg(all(feature = "d3d12", windows))]
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use common::drivers::{D3D12, number};
use common::{allotment, error_line, folder};

#[test]
fn the_race_is_replayed_with_real_buffers_and_textures_and_every_byte_verified() {
    let test = "the_race_is_replayed_with_real_buffers_and_textures_and_every_byte_verified";
    let Some(d3d12) = D3D12.here(test) else { return };
    let images = &d3d12.race()["images"];
    // Every device supports all formats of the race, and Direct3D 12 supports all shapes in it.
    assert_eq!(number(&images["made"]), 307);
    assert!(number(&images["verified"]) > 0);
}

common::drivers::suite!(D3D12);

#[test]
fn without_a_debug_layer_the_command_says_how_to_get_one() {
    if D3D12.here("without_a_debug_layer_the_command_says_how_to_get_one").is_none() {
        return;
    }
    let output = allotment(&folder(), &["replay", "--device", "d3d12", "--bytes", "none", "--validate"]);
    if !output.status.success() {
        let line = error_line(&output);
        assert!(line.contains("no debug layer: install Graphics Tools"), "{line}");
    }
}
