//! Resources that begin in a layout, and may be seen in several formats: on runtimes that have that, and on
//! those that do not.

use allotment::MemoryUsage;
use allotment::device::d3d12::ResourceInfo;
use allotment::device::{DescriptionError, DeviceError};
use allotment::memory::ResourceError;
use allotment::memory::d3d12::AllocatorExt as _;
use allotment::memory::reports::Statistics;
use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::*;

use crate::rig::{Config, Rig, both_ways, buffer, info, target, texture, wish};
use crate::runtime::Interfaces;
use crate::runtime::calls::{Begins, Call};

const SRGB: [DXGI_FORMAT; 2] = [DXGI_FORMAT_R8G8B8A8_UNORM_SRGB, DXGI_FORMAT_R8G8B8A8_UINT];

/// Refused, placed and committed, without a trace.
fn assert_refused(rig: &Rig, info: &ResourceInfo<'_>, why: DeviceError) {
    for desc in both_ways(&wish(MemoryUsage::GpuOnly)) {
        match rig.create_resource(info, &desc) {
            Err(ResourceError::Device { source, .. }) if source == why => {}
            Err(ResourceError::Allocation(allotment::AllocationError::Device { source, .. }))
                if source == why => {}
            other => panic!("{other:?} by {desc:?}"),
        }
        assert_eq!(rig.statistics(), Statistics::default());
        assert_eq!(rig.runtime.live(), Default::default());
    }
}

#[test]
fn a_layout_and_castable_formats_reach_the_runtime() {
    for config in [Config::usual(), Config::newest()] {
        let Some(rig) = Rig::new(config) else { return };
        for described in [texture(64, 64), target(300, 200)] {
            for desc in both_ways(&wish(MemoryUsage::GpuOnly)) {
                let layout = D3D12_BARRIER_LAYOUT_COPY_DEST;
                let info = info(described).with_initial_layout(layout).with_castable_formats(&SRGB);
                let made = rig.create_resource(&info, &desc).unwrap();
                let calls = rig.runtime.calls();
                let told = calls.iter().find_map(Call::resource).unwrap();
                assert_eq!((told.begins, &told.castable[..]), (Begins::Layout(layout), &SRGB[..]));
                rig.destroy([made]);
            }
        }
    }
}

#[test]
fn buffers_without_a_layout_may_be_in_any_heap() {
    let Some(rig) = Rig::new(Config::newest()) else { return };
    for memory_usage in MemoryUsage::ALL {
        for desc in both_ways(&wish(memory_usage)) {
            let info = info(buffer(1000)).with_initial_layout(D3D12_BARRIER_LAYOUT_UNDEFINED);
            let made = rig.create_resource(&info, &desc).unwrap();
            rig.destroy([made]);
        }
    }
}

#[test]
fn a_layout_is_refused_where_there_are_none() {
    let without_barriers = Config { enhanced_barriers: false, ..Config::usual() };
    let without_interface = Config { interfaces: Interfaces::First, ..Config::usual() };
    for config in [Config::oldest(), without_barriers, without_interface] {
        let Some(rig) = Rig::new(config) else { return };
        let layout = D3D12_BARRIER_LAYOUT_COPY_DEST;
        assert_refused(&rig, &info(texture(64, 64)).with_initial_layout(layout), DeviceError::Unsupported);
    }
}

#[test]
fn castable_formats_are_refused_without_a_layout_or_an_interface_for_them() {
    let without_interface = Config { interfaces: Interfaces::First, ..Config::usual() };
    for config in [Config::oldest(), without_interface, Config::usual()] {
        let Some(rig) = Rig::new(config) else { return };
        let why = DescriptionError::CastableFormats.into();
        assert_refused(&rig, &info(texture(64, 64)).with_castable_formats(&SRGB), why);
    }
}
