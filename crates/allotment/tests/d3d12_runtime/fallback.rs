//! Which heap type serves an memory usage, and which the next where that is full or over its budget.

use allotment::device::d3d12::DeviceDesc;
use allotment::memory::d3d12::AllocatorExt as _;
use allotment::memory::{BudgetPolicy, RawResource};
use allotment::{AllocationOptions, MemoryUsage};
use windows::Win32::Graphics::Direct3D12::*;

use crate::budgets::custom;
use crate::rig::{Config, MIB, Rig, both_ways, buffer, info, target, texture, wish};

const DEFAULT: D3D12_HEAP_TYPE = D3D12_HEAP_TYPE_DEFAULT;
const UPLOAD: D3D12_HEAP_TYPE = D3D12_HEAP_TYPE_UPLOAD;
const READBACK: D3D12_HEAP_TYPE = D3D12_HEAP_TYPE_READBACK;
const GPU_UPLOAD: D3D12_HEAP_TYPE = D3D12_HEAP_TYPE_GPU_UPLOAD;
const CUSTOM: D3D12_HEAP_TYPE = D3D12_HEAP_TYPE_CUSTOM;

/// Where a buffer goes, placed and committed; `None` where it goes nowhere.
fn served_from(rig: &Rig, desc: &AllocationOptions) -> Option<D3D12_HEAP_TYPE> {
    let [placed, committed] = both_ways(desc).map(|desc| {
        let made: RawResource<ID3D12Resource> = rig.create_resource(&info(buffer(MIB)), &desc).ok()?;
        let heap = rig.heap_of(&made).Type;
        rig.destroy([made]);
        Some(heap)
    });
    assert_eq!(placed, committed, "{desc:?}");
    placed
}

#[test]
fn each_intent_has_its_heap_type() {
    for (config, host_write, mapped) in [
        (Config::oldest(), DEFAULT, UPLOAD),
        (Config::usual(), DEFAULT, UPLOAD),
        (Config::newest(), GPU_UPLOAD, GPU_UPLOAD),
        // Upload heaps are in the device's memory there, and as fast.
        (Config::newest().integrated(), UPLOAD, UPLOAD),
    ] {
        let Some(rig) = Rig::new(config) else { return };
        let served = MemoryUsage::ALL.map(|memory_usage| served_from(&rig, &wish(memory_usage)).unwrap());
        let expected = [DEFAULT, UPLOAD, READBACK, host_write, DEFAULT, mapped];
        assert_eq!(served, expected, "{:?}", rig.runtime.config);
    }
}

#[test]
fn what_the_cpu_writes_often_goes_from_gpu_upload_to_default_to_upload() {
    let Some(rig) = Rig::new(Config::newest()) else { return };
    let often = wish(MemoryUsage::DeviceUpload);
    for (full, expected) in [
        (&[][..], Some(GPU_UPLOAD)),
        (&[GPU_UPLOAD], Some(DEFAULT)),
        (&[GPU_UPLOAD, DEFAULT], Some(UPLOAD)),
        (&[GPU_UPLOAD, DEFAULT, UPLOAD], None),
    ] {
        rig.runtime.set_full(full);
        assert_eq!(served_from(&rig, &often), expected, "{full:?} are full");
    }
    rig.runtime.set_full(&[]);
    // Over budget, device memory is left to requests that have no other memory type, even without a wish for that.
    rig.set_budgets([MIB / 2, 1 << 30], [0; 2]);
    assert_eq!(served_from(&rig, &often), Some(UPLOAD));
    assert_eq!(served_from(&rig, &wish(MemoryUsage::GpuOnly)), Some(DEFAULT));
}

#[test]
fn without_gpu_upload_heaps_what_the_cpu_writes_often_is_staged_or_read_from_upload() {
    let Some(rig) = Rig::new(Config::usual()) else { return };
    let often = wish(MemoryUsage::DeviceUpload);
    assert_eq!(served_from(&rig, &often), Some(DEFAULT));
    rig.runtime.set_full(&[DEFAULT]);
    assert_eq!(served_from(&rig, &often), Some(UPLOAD));
}

#[test]
fn what_is_staged_goes_to_gpu_upload_where_upload_is_full() {
    for (config, expected) in [(Config::newest(), Some(GPU_UPLOAD)), (Config::usual(), None)] {
        let Some(rig) = Rig::new(config) else { return };
        rig.runtime.set_full(&[UPLOAD]);
        assert_eq!(served_from(&rig, &wish(MemoryUsage::Upload)), expected);
    }
}

fn with_system_heap(desc: DeviceDesc) -> DeviceDesc {
    desc.with_custom_heap(custom(D3D12_CPU_PAGE_PROPERTY_NOT_AVAILABLE, D3D12_MEMORY_POOL_L0))
}

#[test]
fn textures_go_to_the_system_s_memory_where_the_adapter_s_is_full_or_over_budget() {
    for config in [Config::oldest(), Config::usual(), Config::newest()] {
        let device = wish(MemoryUsage::GpuOnly);
        let place = |rig: &Rig, desc: &AllocationOptions| {
            for described in [texture(512, 512), target(512, 512), buffer(MIB)] {
                for desc in both_ways(desc) {
                    let made = rig.create_resource(&info(described), &desc).unwrap();
                    let heap = rig.heap_of(&made);
                    rig.destroy([made]);
                    if heap.Type != DEFAULT {
                        assert_eq!((heap.Type, heap.MemoryPoolPreference), (CUSTOM, D3D12_MEMORY_POOL_L0));
                        return CUSTOM;
                    }
                }
            }
            DEFAULT
        };
        let Some(rig) = Rig::with(config.clone(), with_system_heap, |_| {}) else { return };
        assert_eq!(place(&rig, &device), DEFAULT);
        rig.runtime.set_full(&[DEFAULT]);
        assert_eq!(place(&rig, &device), CUSTOM);
        // Another allocator: this one remembers what was refused, and nothing that it can see has changed.
        let Some(rig) = Rig::with(config, with_system_heap, |_| {}) else { return };
        rig.set_budgets([MIB / 2, 1 << 30], [0; 2]);
        assert_eq!(place(&rig, &device.clone().with_budget(BudgetPolicy::WithinBudget)), CUSTOM);
        // A request that may exceed the budget stays in fast memory.
        assert_eq!(place(&rig, &device), DEFAULT);
    }
}

#[test]
fn what_queues_write_never_goes_to_upload_or_readback_heaps() {
    let Some(rig) = Rig::new(Config::usual()) else { return };
    let storage = D3D12_RESOURCE_DESC { Flags: D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS, ..buffer(MIB) };
    rig.runtime.set_full(&[DEFAULT]);
    for memory_usage in MemoryUsage::ALL {
        for desc in both_ways(&wish(memory_usage)) {
            assert!(rig.create_resource(&info(storage), &desc).is_err(), "{memory_usage}");
            assert!(rig.create_resource(&info(texture(64, 64)), &desc).is_err(), "{memory_usage}");
        }
    }
}
