//! Heaps of descriptors: as large as the runtime says, and none where it refuses.

use allotment::device::d3d12::{DescriptorHeap, Device};
use allotment::device::{
    DescriptionError, DescriptionLimit, DescriptorDevice as _, DescriptorHeapDesc, DescriptorHeapType,
    DescriptorHeapVisibility, DeviceError, Filter, SamplerDesc, ShaderVisibleHeapType,
};
use windows::Win32::Foundation::{E_INVALIDARG, E_OUTOFMEMORY};
use windows::Win32::Graphics::Dxgi::DXGI_ERROR_DEVICE_REMOVED;

use crate::rig::{self, Config, assert_clean};
use crate::runtime::faults::Kind;

fn heap(
    device: &Device,
    usage: DescriptorHeapVisibility,
    capacity: u32,
) -> Result<DescriptorHeap, DeviceError> {
    // SAFETY: the runtime has the memory of heaps.
    unsafe { device.create_descriptor_heap(&DescriptorHeapDesc { usage, capacity }, None) }
}

fn usages() -> impl Iterator<Item = DescriptorHeapVisibility> {
    let staging = DescriptorHeapType::ALL.into_iter().map(DescriptorHeapVisibility::CpuOnly);
    staging.chain(ShaderVisibleHeapType::ALL.into_iter().map(DescriptorHeapVisibility::ShaderVisible))
}

#[test]
fn a_heap_that_the_runtime_refuses_is_an_error_and_leaves_nothing_behind() {
    for config in [Config::oldest(), Config::newest()] {
        let Some(runtime) = rig::runtime(config) else { return };
        let device = rig::device(&runtime, |desc| desc).unwrap();
        for usage in usages() {
            for (code, error) in [
                (E_OUTOFMEMORY, DeviceError::OutOfDeviceMemory),
                (DXGI_ERROR_DEVICE_REMOVED, DeviceError::Lost),
                (E_INVALIDARG, DeviceError::Other { code: E_INVALIDARG.0 }),
            ] {
                runtime.refuse(Kind::CreateDescriptorHeap, 1, code);
                assert_eq!(heap(&device, usage, 16).unwrap_err(), error, "{usage:?}");
                assert!(runtime.refuse_nothing());
                assert_eq!(runtime.live().descriptor_heaps, 0);
            }
            let heap = heap(&device, usage, 16).unwrap();
            assert_eq!(runtime.live().descriptor_heaps, 1);
            // SAFETY: nothing uses it.
            unsafe { device.destroy_descriptor_heap(heap) };
            assert_eq!(runtime.live().descriptor_heaps, 0);
        }
        drop(device);
        assert_clean(&runtime);
    }
}

#[test]
fn heaps_are_as_large_as_the_runtime_says_and_on_old_ones_as_they_always_were() {
    let samplers = |count| Config { descriptors: Some([1 << 20, count]), ..Config::newest() };
    for (config, views, most) in [
        (Config::oldest(), 1_000_000, 2048),
        (samplers(4000), 1 << 20, 4000),
        // As software devices report, which have no dedicated video memory.
        (samplers(u32::MAX), 1 << 20, 1 << 16),
    ] {
        let Some(runtime) = rig::runtime(config) else { return };
        let device = rig::device(&runtime, |desc| desc).unwrap();
        let limits = device.descriptor_limits();
        assert_eq!((limits.resources.max_capacity, limits.samplers.max_capacity), (views, most));
        for (kind, most) in [(ShaderVisibleHeapType::Resource, views), (ShaderVisibleHeapType::Sampler, most)]
        {
            let refused = heap(&device, DescriptorHeapVisibility::ShaderVisible(kind), most + 1);
            let limit = DescriptionLimit::DescriptorHeapCapacity;
            let (requested, most) = (u64::from(most) + 1, most.into());
            let why = DescriptionError::AboveLimit { limit, requested, most };
            assert_eq!(refused.unwrap_err(), why.into(), "{kind:?}");
        }
        drop(device);
        assert_clean(&runtime);
    }
}

#[test]
fn an_anisotropic_filter_takes_the_nearest_mip_level_where_the_runtime_has_one() {
    let desc = SamplerDesc { max_anisotropy: 8, mip_filter: Filter::Nearest, ..SamplerDesc::default() };
    for (config, can) in [(Config::oldest(), false), (Config::newest(), true)] {
        let Some(runtime) = rig::runtime(config) else { return };
        let device = rig::device(&runtime, |desc| desc).unwrap();
        assert_eq!(device.create_sampler(&desc).is_ok(), can);
        drop(device);
        assert_clean(&runtime);
    }
}
