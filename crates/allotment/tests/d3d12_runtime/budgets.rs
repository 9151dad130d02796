//! Budgets: one figure a segment group, by whichever call memory is allocated.

use core::time::Duration;

use allotment::device::d3d12::DeviceDesc;
use allotment::device::{BufferDevice as _, MemoryDevice as _, MemoryHeapIndex, MemoryTypeIndex};
use allotment::memory::blocks::{BlockSize, BlockSizes};
use allotment::memory::d3d12::AllocatorExt as _;
use allotment::memory::{BudgetPolicy, CreatePoolError, Dedicated, ResourceError};
use allotment::{Alignment, AllocationError, MemoryUsage, PoolDesc, Requirements};
use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::DXGI_ERROR_NOT_CURRENTLY_AVAILABLE;

use crate::rig::{Config, KIB, MIB, Rig, both_ways, buffer, info, wish, wish_in};
use crate::runtime::faults::Kind;

pub(crate) fn custom(page: D3D12_CPU_PAGE_PROPERTY, pool: D3D12_MEMORY_POOL) -> D3D12_HEAP_PROPERTIES {
    D3D12_HEAP_PROPERTIES {
        Type: D3D12_HEAP_TYPE_CUSTOM,
        CPUPageProperty: page,
        MemoryPoolPreference: pool,
        CreationNodeMask: 1,
        VisibleNodeMask: 1,
    }
}

/// Heaps of both pools beside the device's own.
fn with_custom_heaps(desc: DeviceDesc) -> DeviceDesc {
    desc.with_custom_heap(custom(D3D12_CPU_PAGE_PROPERTY_NOT_AVAILABLE, D3D12_MEMORY_POOL_L0))
        .with_custom_heap(custom(D3D12_CPU_PAGE_PROPERTY_WRITE_BACK, D3D12_MEMORY_POOL_L0))
        .with_custom_heap(custom(D3D12_CPU_PAGE_PROPERTY_NOT_AVAILABLE, D3D12_MEMORY_POOL_L1))
}

fn with_system_heaps(desc: DeviceDesc) -> DeviceDesc {
    desc.with_custom_heap(custom(D3D12_CPU_PAGE_PROPERTY_NOT_AVAILABLE, D3D12_MEMORY_POOL_L0))
        .with_custom_heap(custom(D3D12_CPU_PAGE_PROPERTY_WRITE_BACK, D3D12_MEMORY_POOL_L0))
}

fn rigs() -> Option<Vec<Rig>> {
    let cards = [Config::oldest(), Config::usual(), Config::newest()];
    let mut rigs = Vec::new();
    for config in cards {
        rigs.push(Rig::with(config, with_custom_heaps, |_| {})?);
    }
    rigs.push(Rig::with(Config::newest().integrated(), with_system_heaps, |_| {})?);
    Some(rigs)
}

/// The types that take buffers, with what each is of.
fn buffer_types(rig: &Rig) -> Vec<(MemoryTypeIndex, MemoryHeapIndex)> {
    let properties = rig.device().properties();
    let takes = rig.device().buffer_requirements(&info(buffer(1000))).unwrap().memory_types;
    let types = properties.indexed_types().filter(|(index, _)| takes.contains(*index));
    types.map(|(index, memory_type)| (index, memory_type.heap)).collect()
}

/// Returns the refusal, its heap and its figures.
fn figures(error: &AllocationError) -> (MemoryHeapIndex, u64, u64) {
    match *error {
        AllocationError::OverBudget { heap, usage, budget, .. } => (heap, usage, budget),
        other => panic!("refused for another reason: {other:?}"),
    }
}

fn pool_of(memory_type: MemoryTypeIndex, sizing: BlockSize) -> PoolDesc {
    let mut desc = PoolDesc::new([memory_type]);
    desc.sizing = Some(sizing);
    desc
}

#[test]
fn every_way_to_get_memory_keeps_to_the_same_budget() {
    let Some(rigs) = rigs() else { return };
    for rig in rigs {
        for (memory_type, heap) in buffer_types(&rig) {
            // Others have all but 100 KiB of this group, and nothing of the other.
            let mut budgets = [4 << 30; 2];
            budgets[heap.get()] = 64 * MIB + 100 * KIB;
            let mut elsewhere = [0; 2];
            elsewhere[heap.get()] = 64 * MIB;
            rig.set_budgets(budgets, elsewhere);
            let expected = (heap, 64 * MIB, budgets[heap.get()]);

            let mut refused = Vec::new();
            for desc in both_ways(&wish_in(memory_type).with_budget(BudgetPolicy::WithinBudget)) {
                match rig.create_resource(&info(buffer(MIB)), &desc) {
                    Err(ResourceError::Allocation(error)) => refused.push(error),
                    other => panic!("{other:?} by {desc:?}"),
                }
            }
            let requirements = Requirements::new(MIB).with_alignment(Alignment::new(64 * KIB).unwrap());
            for sizing in [BlockSize::Fixed(MIB), BlockSize::Growing(BlockSizes::fixed(4 * MIB))] {
                // Once because the request asks for it, once because the pool does.
                let pool = rig.create_pool(pool_of(memory_type, sizing)).unwrap();
                let mut desc = wish(MemoryUsage::GpuOnly).with_budget(BudgetPolicy::WithinBudget);
                refused.push(rig.allocate(&requirements, &desc.clone().with_pool(&pool)).unwrap_err());
                rig.destroy_pool(pool).unwrap();
                let mut strict = pool_of(memory_type, sizing);
                strict.budget = BudgetPolicy::WithinBudget;
                let pool = rig.create_pool(strict.clone()).unwrap();
                desc.budget = BudgetPolicy::AllowOverBudget;
                refused.push(rig.allocate(&requirements, &desc.clone().with_pool(&pool)).unwrap_err());
                rig.destroy_pool(pool).unwrap();
                // And before the first request: the pool's first block.
                strict.min_blocks = 1;
                match rig.create_pool(strict) {
                    Err(CreatePoolError::FirstBlocks(error)) => refused.push(error),
                    other => panic!("{other:?}"),
                }
            }
            for error in &refused {
                assert_eq!(figures(error), expected, "{:?}", rig.device().heap_properties(memory_type));
            }
            assert_eq!(refused.len(), 8);

            // A request that may exceed the budget is served all the same, and so is one within it.
            for desc in both_ways(&wish_in(memory_type)) {
                rig.destroy([rig.create_resource(&info(buffer(MIB)), &desc).unwrap()]);
            }
            let desc = wish_in(memory_type)
                .with_budget(BudgetPolicy::WithinBudget)
                .with_dedicated(Dedicated::Always);
            rig.destroy([rig.create_resource(&info(buffer(64 * KIB)), &desc).unwrap()]);
        }
    }
}

#[test]
fn memory_counts_in_the_segment_group_that_it_is_of() {
    let Some(rigs) = rigs() else { return };
    for rig in rigs {
        for (memory_type, heap) in buffer_types(&rig) {
            for desc in both_ways(&wish_in(memory_type)) {
                let made = rig.create_resource(&info(buffer(MIB)), &desc).unwrap();
                let bytes = rig.runtime.bytes();
                assert!(bytes[heap.get()] >= MIB && bytes[1 - heap.get()] == 0, "{bytes:?} for {heap:?}");
                for (report, bytes) in rig.reports().memory_heaps().iter().zip(bytes) {
                    assert_eq!(report.reserved, bytes);
                }
                assert_eq!(rig.device().heap_budget(heap).usage, bytes[heap.get()]);
                rig.destroy([made]);
            }
        }
    }
}

#[test]
fn a_budget_that_grows_lets_in_what_it_refused() {
    let Some(rig) = Rig::new(Config::usual()) else { return };
    let [default] = rig.types(|heap| heap.Type == D3D12_HEAP_TYPE_DEFAULT)[..] else { panic!() };
    rig.set_budgets([MIB, 1 << 30], [0; 2]);
    for desc in both_ways(&wish_in(default).with_budget(BudgetPolicy::WithinBudget)) {
        assert!(rig.create_resource(&info(buffer(2 * MIB)), &desc).is_err());
    }
    rig.runtime.set_budgets([1 << 30, 1 << 30], [0; 2]);
    // The device asks the system again once its last answer is a millisecond old; the allocator asks the
    // device by itself before it refuses.
    std::thread::sleep(Duration::from_millis(5));
    for desc in both_ways(&wish_in(default).with_budget(BudgetPolicy::WithinBudget)) {
        rig.destroy([rig.create_resource(&info(buffer(2 * MIB)), &desc).unwrap()]);
    }
}

#[test]
fn a_system_that_does_not_answer_leaves_an_estimate() {
    let Some(rig) = Rig::new(Config::usual()) else { return };
    rig.runtime.refuse_all(Kind::QueryVideoMemoryInfo, DXGI_ERROR_NOT_CURRENTLY_AVAILABLE);
    let made = rig.create_resource(&info(buffer(MIB)), &wish(MemoryUsage::GpuOnly)).unwrap();
    std::thread::sleep(Duration::from_millis(5));
    let told = rig.device().heap_budget(MemoryHeapIndex(0));
    let reserved = rig.reports().memory_heaps()[0].reserved;
    assert_eq!((told.usage, told.budget), (reserved, (8 << 30) / 5 * 4));
    rig.destroy([made]);
}
