//! Custom pools: the sizes and flags of their heaps.

use allotment::device::Priority;
use allotment::device::d3d12::MemoryOptions;
use allotment::memory::blocks::{BlockSize, BlockSizes, EmptyBlockPolicy};
use allotment::memory::d3d12::AllocatorExt as _;
use allotment::{Alignment, AllocationOptions, MemoryUsage, PoolDesc, Requirements};
use windows::Win32::Graphics::Direct3D12::*;

use crate::rig::{Config, KIB, MIB, Rig, info, target, wish};
use crate::runtime::calls::Call;

fn heap_sizes(calls: &[Call]) -> Vec<u64> {
    let size = |call: &Call| match call {
        Call::Heap(desc) => Some(desc.SizeInBytes),
        _ => None,
    };
    calls.iter().filter_map(size).collect()
}

fn in_64_kib(size: u64) -> Requirements {
    Requirements::new(size).with_alignment(Alignment::new(64 * KIB).unwrap())
}

fn gpu_only() -> AllocationOptions {
    MemoryUsage::GpuOnly.into()
}

#[test]
fn heaps_of_the_default_pools_are_as_large_as_the_allocator_was_told() {
    for size in [MIB, 8 * MIB, 64 * MIB] {
        let Some(rig) = Rig::with(
            Config::usual(),
            |desc| desc,
            |desc| {
                desc.block_sizes = BlockSizes::fixed(size);
            },
        ) else {
            return;
        };
        rig.free(rig.allocate(&in_64_kib(64 * KIB), &gpu_only()).unwrap()).unwrap();
        assert_eq!(heap_sizes(&rig.runtime.calls()), [size]);
    }
}

#[test]
fn heaps_of_a_custom_pool_are_as_large_as_the_pool_was_told() {
    let Some(rig) = Rig::new(Config::usual()) else { return };
    let [default] = rig.types(|heap| heap.Type == D3D12_HEAP_TYPE_DEFAULT)[..] else { panic!() };
    let mut growing = BlockSizes::fixed(2 * MIB);
    growing.largest = 32 * MIB;
    for (sizing, expected) in [
        (BlockSize::Fixed(384 * KIB), 384 * KIB),
        (BlockSize::Fixed(24 * MIB), 24 * MIB),
        (BlockSize::Growing(growing), 2 * MIB),
    ] {
        let mut desc = PoolDesc::new([default]);
        (desc.sizing, desc.empty_blocks) = (Some(sizing), EmptyBlockPolicy::NONE);
        desc.min_blocks = 1;
        let pool = rig.create_pool(desc).unwrap();
        let kept: Vec<_> = (0..4)
            .map(|_| rig.allocate(&in_64_kib(expected / 2), &gpu_only().with_pool(&pool)).unwrap())
            .collect();
        let sizes = heap_sizes(&rig.runtime.calls());
        assert_eq!(sizes, [expected; 2], "{sizing:?}");
        kept.into_iter().for_each(|allocation| rig.free(allocation).unwrap());
        rig.destroy_pool(pool).unwrap();
    }
}

#[test]
fn a_pool_s_options_and_priority_reach_each_of_its_heaps() {
    let Some(rig) = Rig::new(Config::usual()) else { return };
    let [default] = rig.types(|heap| heap.Type == D3D12_HEAP_TYPE_DEFAULT)[..] else { panic!() };
    let mut desc = PoolDesc::new([default]);
    desc.sizing = Some(BlockSize::Fixed(MIB));
    desc.min_blocks = 1;
    desc.priority = Priority::new(0.0);
    let options = MemoryOptions::new().with_heap_flags(D3D12_HEAP_FLAG_SHARED);
    let pool = rig.with_memory_options(&options).create_pool(desc).unwrap();
    let kept: Vec<_> =
        (0..3).map(|_| rig.allocate(&in_64_kib(MIB), &gpu_only().with_pool(&pool)).unwrap()).collect();
    let calls = rig.runtime.calls();
    let shared = calls.iter().filter_map(Call::memory);
    assert_eq!(shared.filter(|(_, flags)| flags.contains(D3D12_HEAP_FLAG_SHARED)).count(), 3);
    let low =
        |call: &&Call| matches!(call, Call::Priority(said) if said[0].1 == D3D12_RESIDENCY_PRIORITY_MINIMUM);
    assert_eq!(calls.iter().filter(low).count(), 3);
    kept.into_iter().for_each(|allocation| rig.free(allocation).unwrap());
    rig.destroy_pool(pool).unwrap();
}

#[test]
fn resources_alias_in_a_custom_pool() {
    let Some(rig) = Rig::new(Config::usual()) else { return };
    let [default] = rig.types(|heap| heap.Type == D3D12_HEAP_TYPE_DEFAULT)[..] else { panic!() };
    let mut desc = PoolDesc::new([default]);
    desc.sizing = Some(BlockSize::Fixed(8 * MIB));
    let pool = rig.create_pool(desc).unwrap();
    let memory = rig.allocate(&in_64_kib(4 * MIB), &gpu_only().with_pool(&pool)).unwrap();
    let first = rig.create_aliasing_resource(&memory, 0, &info(target(512, 512))).unwrap();
    let second = rig.create_aliasing_resource(&memory, 64 * KIB, &info(target(256, 256))).unwrap();
    // Beyond the end, and at no multiple of its alignment.
    assert!(rig.create_aliasing_resource(&memory, 4 * MIB, &info(target(256, 256))).is_err());
    assert!(rig.create_aliasing_resource(&memory, 4 * KIB, &info(target(256, 256))).is_err());
    drop((first, second));
    rig.free(memory).unwrap();
    rig.destroy_pool(pool).unwrap();
    // A resource that is the allocator's own goes elsewhere.
    rig.destroy([rig.create_resource(&info(target(512, 512)), &wish(MemoryUsage::GpuOnly)).unwrap()]);
}
