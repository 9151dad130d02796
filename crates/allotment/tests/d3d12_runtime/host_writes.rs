//! Memory for textures that the CPU writes: where there is some, and what is in other memory nevertheless.

use allotment::device::d3d12::{DeviceDesc, MemoryOptions, ResourceInfo};
use allotment::device::{ImageDesc, ImageDevice as _};
use allotment::memory::RawResource;
use allotment::memory::d3d12::AllocatorExt as _;
use allotment::{AllocatorDesc, MemoryUsage};
use windows::Win32::Foundation::{E_INVALIDARG, E_OUTOFMEMORY};
use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::DXGI_FORMAT_R8G8B8A8_UNORM;

use crate::rig::{
    Config, Rig, assert_clean, both_ways, buffer, device, info, runtime, target, texture, wish,
};
use crate::runtime::calls::Call;
use crate::runtime::faults::Kind;

const WRITE_BACK: D3D12_CPU_PAGE_PROPERTY = D3D12_CPU_PAGE_PROPERTY_WRITE_BACK;

fn asked(config: Config) -> Option<Rig> {
    Rig::with(config, DeviceDesc::with_host_written_textures, |_: &mut AllocatorDesc| {})
}

fn written() -> ResourceInfo<'static> {
    ImageDesc::new(64, 64, DXGI_FORMAT_R8G8B8A8_UNORM.0.unsigned_abs()).into()
}

/// The page properties of the heaps that a resource is in, placed and committed.
fn pages(rig: &Rig, info: &ResourceInfo<'_>) -> [D3D12_CPU_PAGE_PROPERTY; 2] {
    both_ways(&wish(MemoryUsage::GpuOnly)).map(|desc| {
        let made: RawResource<ID3D12Resource> = rig.create_resource(info, &desc).unwrap();
        let heap = rig.heap_of(&made);
        rig.destroy([made]);
        heap.CPUPageProperty
    })
}

#[test]
fn there_is_memory_for_them_where_caches_are_shared_and_it_was_asked_for() {
    for (config, expected) in [
        (Config::usual().coherent(), 1),
        (Config::newest().coherent(), 1),
        (Config::oldest().coherent(), 1),
        (Config::usual().integrated(), 0),
        (Config::newest(), 0),
    ] {
        let Some(rig) = asked(config) else { return };
        let config = &rig.runtime.config;
        assert_eq!(rig.types(|heap| heap.CPUPageProperty == WRITE_BACK).len(), expected, "{config:?}");
        let page = if expected == 1 { WRITE_BACK } else { D3D12_CPU_PAGE_PROPERTY_UNKNOWN };
        assert_eq!(pages(&rig, &written()), [page; 2], "{config:?}");
        for other in [buffer(1000), target(64, 64), texture(64, 64)] {
            let standard = [D3D12_CPU_PAGE_PROPERTY_UNKNOWN; 2];
            assert_eq!(pages(&rig, &info(other)), standard, "{config:?}");
        }
    }
    let Some(rig) = Rig::new(Config::usual().coherent()) else { return };
    assert_eq!(pages(&rig, &written()), [D3D12_CPU_PAGE_PROPERTY_UNKNOWN; 2], "it was not asked for");
}

#[test]
fn a_runtime_that_makes_no_such_texture_has_no_memory_for_them() {
    for code in [E_INVALIDARG, E_OUTOFMEMORY] {
        let Some(runtime) = runtime(Config::usual().coherent()) else { return };
        runtime.refuse(Kind::CreateCommittedResource, 1, code);
        let device = device(&runtime, DeviceDesc::with_host_written_textures).unwrap();
        let heap = device.heap_properties(allotment::device::MemoryTypeIndex(0)).unwrap();
        assert_eq!(heap.Type, D3D12_HEAP_TYPE_DEFAULT);
        drop(device);
        assert_clean(&runtime);
    }
}

#[test]
fn they_are_in_other_memory_where_theirs_is_full() {
    let Some(rig) = asked(Config::usual().coherent()) else { return };
    rig.runtime.set_full(&[D3D12_HEAP_TYPE_CUSTOM]);
    assert_eq!(pages(&rig, &written()), [D3D12_CPU_PAGE_PROPERTY_UNKNOWN; 2]);
}

#[test]
fn what_is_shared_is_in_memory_that_the_cpu_does_not_reach() {
    let Some(rig) = asked(Config::usual().coherent()) else { return };
    let options = MemoryOptions::new().with_heap_flags(D3D12_HEAP_FLAG_SHARED);
    let made =
        rig.with_memory_options(&options).create_resource(&written(), &wish(MemoryUsage::GpuOnly)).unwrap();
    let requirements = rig.device().image_requirements(&written()).unwrap();
    let memory =
        rig.with_memory_options(&options).allocate(&requirements, &wish(MemoryUsage::GpuOnly)).unwrap();
    let heaps: Vec<_> = rig.runtime.calls().iter().filter_map(Call::memory).collect();
    assert_eq!(heaps.len(), 2);
    assert!(heaps.iter().all(|(heap, _)| heap.Type == D3D12_HEAP_TYPE_DEFAULT), "{heaps:?}");
    rig.free(memory).unwrap();
    rig.destroy([made]);
}
