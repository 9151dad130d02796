//! The value that a render target will mostly be cleared to.

use allotment::MemoryUsage;
use allotment::device::d3d12::ResourceInfo;
use allotment::memory::Dedicated;
use allotment::memory::d3d12::AllocatorExt as _;
use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::*;

use crate::rig::{Config, Rig, both_ways, depth, info, target, wish};
use crate::runtime::calls::{Begins, Call};

fn green(info: ResourceInfo<'_>) -> ResourceInfo<'_> {
    info.with_clear_color(DXGI_FORMAT_R8G8B8A8_UNORM, [0.0, 1.0, 0.0, 0.5])
}

fn configs() -> [Config; 4] {
    [Config::oldest(), Config::usual(), Config::newest(), Config::newest().integrated()]
}

#[test]
fn a_clear_value_reaches_the_runtime_for_placed_and_committed_render_targets() {
    for config in configs() {
        let Some(rig) = Rig::new(config) else { return };
        for desc in both_ways(&wish(MemoryUsage::GpuOnly)) {
            let info = info(target(64, 64)).with_initial_state(D3D12_RESOURCE_STATE_RENDER_TARGET);
            let info = green(info);
            let made = rig.create_resource(&info, &desc).unwrap();
            let calls = rig.runtime.calls();
            let placed = calls.iter().any(|call| matches!(call, Call::Placed { .. }));
            assert_eq!(placed, desc.dedicated == Dedicated::Never);
            let told = calls.iter().find_map(Call::resource).unwrap();
            assert_eq!(told.clear_value, Some((DXGI_FORMAT_R8G8B8A8_UNORM, [0.0, 1.0, 0.0, 0.5])));
            assert_eq!(told.begins, Begins::State(D3D12_RESOURCE_STATE_RENDER_TARGET));
            rig.destroy([made]);
        }
    }
}

#[test]
fn a_clear_value_reaches_the_runtime_for_targets_that_begin_in_a_layout() {
    let Some(rig) = Rig::new(Config::usual()) else { return };
    let formats = [DXGI_FORMAT_R8G8B8A8_UNORM_SRGB];
    for desc in both_ways(&wish(MemoryUsage::GpuOnly)) {
        let info = info(target(64, 64))
            .with_initial_layout(D3D12_BARRIER_LAYOUT_RENDER_TARGET)
            .with_castable_formats(&formats);
        let made = rig.create_resource(&green(info), &desc).unwrap();
        let calls = rig.runtime.calls();
        let told = calls.iter().find_map(Call::resource).unwrap();
        assert_eq!(told.clear_value, Some((DXGI_FORMAT_R8G8B8A8_UNORM, [0.0, 1.0, 0.0, 0.5])));
        assert_eq!(told.begins, Begins::Layout(D3D12_BARRIER_LAYOUT_RENDER_TARGET));
        assert_eq!(told.castable, formats);
        rig.destroy([made]);
    }
}

#[test]
fn a_clear_value_reaches_the_runtime_for_a_target_over_memory_that_others_share() {
    let Some(rig) = Rig::new(Config::usual()) else { return };
    let info = green(info(target(64, 64)));
    let first = rig.create_resource(&info, &wish(MemoryUsage::GpuOnly)).unwrap();
    rig.runtime.calls();
    let second = rig.create_aliasing_resource(first.allocation(), 0, &info).unwrap();
    let calls = rig.runtime.calls();
    let told = calls.iter().find_map(Call::resource).unwrap();
    assert_eq!(told.clear_value, Some((DXGI_FORMAT_R8G8B8A8_UNORM, [0.0, 1.0, 0.0, 0.5])));
    drop(second);
    rig.destroy([first]);
}

#[test]
fn a_depth_buffer_is_cleared_to_depth_and_stencil() {
    let Some(rig) = Rig::new(Config::usual()) else { return };
    for desc in both_ways(&wish(MemoryUsage::GpuOnly)) {
        let info = info(depth(64, 64)).with_clear_depth(DXGI_FORMAT_D32_FLOAT, 1.0, 7);
        let made = rig.create_resource(&info, &desc).unwrap();
        let calls = rig.runtime.calls();
        let (format, color) = calls.iter().find_map(Call::resource).unwrap().clear_value.unwrap();
        assert_eq!(format, DXGI_FORMAT_D32_FLOAT);
        assert_eq!((color[0], color[1].to_bits() as u8), (1.0, 7));
        rig.destroy([made]);
    }
}

#[test]
fn nothing_is_cleared_to_what_nobody_asked_for() {
    let Some(rig) = Rig::new(Config::usual()) else { return };
    for desc in both_ways(&wish(MemoryUsage::GpuOnly)) {
        let made = rig.create_resource(&info(target(64, 64)), &desc).unwrap();
        assert_eq!(rig.runtime.calls().iter().find_map(Call::resource).unwrap().clear_value, None);
        rig.destroy([made]);
    }
}
