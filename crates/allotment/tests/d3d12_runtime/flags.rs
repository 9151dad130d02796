//! The flags that heaps and committed resources are created with: not zeroed, shared, and so on.

use allotment::device::d3d12::{DeviceDesc, MemoryOptions, Zeroing};
use allotment::memory::d3d12::AllocatorExt as _;
use allotment::{MemoryUsage, Requirements};
use windows::Win32::Graphics::Direct3D12::*;

use crate::rig::{Config, KIB, Rig, both_ways, buffer, info, target, texture, wish};
use crate::runtime::calls::Call;
use crate::runtime::checks::CLASS;

const NOT_ZEROED: D3D12_HEAP_FLAGS = D3D12_HEAP_FLAG_CREATE_NOT_ZEROED;

/// The flags of all heaps and committed resources, without those that say which resources a heap takes.
fn flags(calls: &[Call]) -> Vec<D3D12_HEAP_FLAGS> {
    let beside = |(_, flags): (_, D3D12_HEAP_FLAGS)| D3D12_HEAP_FLAGS(flags.0 & !CLASS);
    calls.iter().filter_map(Call::memory).map(beside).collect()
}

/// Makes resources of all kinds for all memory usages, placed and committed.
fn flags_of_all_kinds(rig: &Rig) -> Vec<D3D12_HEAP_FLAGS> {
    let mut kept = Vec::new();
    for memory_usage in MemoryUsage::ALL {
        for desc in both_ways(&wish(memory_usage)) {
            kept.push(rig.create_resource(&info(buffer(1000)), &desc).unwrap());
        }
    }
    for described in [texture(64, 64), target(64, 64)] {
        for desc in both_ways(&wish(MemoryUsage::GpuOnly)) {
            kept.push(rig.create_resource(&info(described), &desc).unwrap());
        }
    }
    let flags = flags(&rig.runtime.calls());
    rig.destroy(kept);
    assert!(flags.len() >= 10, "{flags:?}");
    flags
}

#[test]
fn memory_is_not_zeroed_where_the_runtime_knows_of_that() {
    for config in [Config::usual(), Config::newest(), Config::usual().integrated()] {
        let Some(rig) = Rig::new(config) else { return };
        assert!(flags_of_all_kinds(&rig).iter().all(|&flags| flags == NOT_ZEROED));
    }
}

#[test]
fn memory_is_zeroed_for_who_asks_for_it() {
    let zeroed = |desc: DeviceDesc| desc.with_zeroing(Zeroing::Always);
    let Some(rig) = Rig::with(Config::newest(), zeroed, |_| {}) else { return };
    assert!(flags_of_all_kinds(&rig).iter().all(|&flags| flags == D3D12_HEAP_FLAG_NONE));
}

#[test]
fn an_old_runtime_never_hears_of_memory_that_is_not_zeroed() {
    for config in [Config::oldest(), Config { not_zeroed: false, ..Config::newest() }] {
        let Some(rig) = Rig::new(config) else { return };
        assert!(flags_of_all_kinds(&rig).iter().all(|&flags| flags == D3D12_HEAP_FLAG_NONE));
    }
}

#[test]
fn options_reach_committed_resources_and_heaps() {
    for config in [Config::oldest(), Config::usual()] {
        let Some(rig) = Rig::new(config) else { return };
        let shared = D3D12_HEAP_FLAG_SHARED | D3D12_HEAP_FLAG_ALLOW_SHADER_ATOMICS;
        let options = MemoryOptions::new().with_heap_flags(shared);
        assert_eq!(options.heap_flags(), shared);
        for described in [buffer(1000), texture(64, 64), target(64, 64)] {
            let desc = wish(MemoryUsage::GpuOnly);
            let made = rig.with_memory_options(&options).create_resource(&info(described), &desc).unwrap();
            let calls = rig.runtime.calls();
            assert!(matches!(calls[..], [Call::Committed { .. }]), "{calls:?}");
            assert!(flags(&calls).iter().all(|flags| flags.contains(shared)));
            rig.destroy([made]);
        }
        let (desc, requirements) = (wish(MemoryUsage::GpuOnly), Requirements::new(64 * KIB));
        let allocation = rig.with_memory_options(&options).allocate(&requirements, &desc).unwrap();
        let calls = rig.runtime.calls();
        assert!(matches!(calls[..], [Call::Heap(_)]), "{calls:?}");
        assert!(flags(&calls).iter().all(|flags| flags.contains(shared)));
        rig.free(allocation).unwrap();
    }
}

#[test]
fn options_do_not_change_which_resources_a_heap_takes() {
    let options = MemoryOptions::new().with_heap_flags(D3D12_HEAP_FLAG_SHARED);
    for config in [Config::oldest(), Config::usual()] {
        let Some(rig) = Rig::new(config) else { return };
        let (desc, requirements) = (wish(MemoryUsage::GpuOnly), Requirements::new(64 * KIB));
        let [plain, optional] = [None, Some(&options)].map(|options| {
            let allocation = match options {
                Some(options) => rig.with_memory_options(options).allocate(&requirements, &desc),
                None => rig.allocate(&requirements, &desc),
            };
            rig.free(allocation.unwrap()).unwrap();
            rig.runtime.calls().iter().find_map(Call::memory).unwrap().1.0 & CLASS
        });
        assert_eq!(plain, optional);
        let made = rig.with_memory_options(&options).create_resource(&info(buffer(1000)), &desc).unwrap();
        let (_, flags) = rig.runtime.calls().iter().find_map(Call::memory).unwrap();
        assert_eq!(flags.0 & CLASS, 0, "a committed resource says itself what it is");
        rig.destroy([made]);
    }
}

#[test]
fn options_that_say_what_the_library_decides_are_refused_before_the_runtime_is_called() {
    let Some(rig) = Rig::new(Config::usual()) else { return };
    for flags in [D3D12_HEAP_FLAGS(CLASS), D3D12_HEAP_FLAG_DENY_BUFFERS, D3D12_HEAP_FLAG_CREATE_NOT_RESIDENT]
    {
        let options = MemoryOptions::new().with_heap_flags(flags | D3D12_HEAP_FLAG_SHARED);
        let desc = wish(MemoryUsage::GpuOnly);
        let memory = rig.with_memory_options(&options).allocate(&Requirements::new(64 * KIB), &desc);
        let resource = rig.with_memory_options(&options).create_resource(&info(buffer(1000)), &desc);
        let texts = [memory.unwrap_err().to_string(), resource.unwrap_err().to_string()];
        let named = format!("heap flags {:#x}", flags.0);
        assert!(texts.iter().all(|text| text.contains(&named)), "{texts:?}");
        assert!(rig.runtime.calls().is_empty());
    }
}
