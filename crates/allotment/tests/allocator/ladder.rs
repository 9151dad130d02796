//! The ladder: what is tried before a request is refused or gets its second choice, in which order, and at the cost of
//! which driver calls.

use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::device::{
    BufferDesc, DeviceError, ImageDesc, MemoryDesc, MemoryDevice as _, MemoryHeap, MemoryHeapIndex,
    MemoryProperties as P, MemoryType, MemoryTypeIndex, QueueDevice as _, QueueIndex, Submission,
};
use allotment::gpu::{Gpu, GpuDesc};
use allotment::memory::blocks::{BlockSize, EmptyBlockPolicy, ManualTime, TimeSource};
use allotment::memory::preview::AllocationPreview;
use allotment::memory::{
    BudgetPolicy, BufferPieces, CreatePoolError, Dedicated, ExpandableBuffer, NewBlocks,
};
use allotment::{Alignment, Allocation, AllocationError, AllocatorDesc, MemoryUsage, PoolDesc, Requirements};

use crate::rig::{
    AllocateWanted as _, DEVICE_TYPE, DISCRETE, HEAP, KIB, MIB, Rig, fixed_pool, profile, small_blocks,
    wanted, wanted_in,
};

const GIB: u64 = 1 << 30;
const SMALL_BAR: &str = "discrete-small-bar";
const WINDOW: MemoryTypeIndex = MemoryTypeIndex(3);

fn heap(size: u64, device_local: bool) -> MemoryHeap {
    MemoryHeap { size, device_local }
}

fn of(heap: u8, properties: P) -> MemoryType {
    MemoryType { heap: MemoryHeapIndex(heap), properties }
}

/// A device with two heaps of device memory and one of host memory, each with one type.
fn two_device_heaps(first: u64) -> Profile {
    let mut odd = profile("discrete-no-bar");
    odd.heaps = vec![heap(first, true), heap(4 * GIB, true), heap(8 * GIB, false)];
    let host = P::HOST_VISIBLE.union(P::HOST_COHERENT);
    odd.memory_types = vec![of(0, P::DEVICE_LOCAL), of(1, P::DEVICE_LOCAL), of(2, host)];
    odd.limits.buffer_image_granularity = Alignment::ONE;
    odd
}

/// Lets another part of the program have memory, so that `left` bytes of the heap of `memory_type` are free. Returns
/// what to free.
fn fill(
    rig: &Rig,
    memory_type: MemoryTypeIndex,
    left: u64,
) -> Vec<<SimulatedGpu as allotment::device::MemoryDevice>::Memory> {
    let properties = rig.device.properties();
    let heap = properties.memory_types[usize::from(memory_type.0)].heap;
    let mut rest = properties.heaps[heap.get()].size - rig.taken(heap) - left;
    let mut others = Vec::new();
    while rest > 0 {
        let size = rest.min(4 * GIB - 1);
        others.push(rig.device.allocate_memory(&MemoryDesc::new(memory_type, size)).unwrap());
        rest -= size;
    }
    others
}

fn give_back(rig: &Rig, others: Vec<<SimulatedGpu as allotment::device::MemoryDevice>::Memory>) {
    for memory in others {
        // SAFETY: allocated by `fill`, and nothing uses it.
        unsafe { rig.device.free_memory(memory) };
    }
}

fn types_of(rig: &Rig, allocations: &[Allocation]) -> Vec<u8> {
    let mut types: Vec<u8> = allocations.iter().map(|allocation| rig.type_of(allocation).0).collect();
    types.dedup();
    types
}

#[test]
fn a_nearly_full_heap_costs_a_handful_of_objects_and_then_the_next_heap_serves() {
    for (left, size) in
        [(7 * MIB, KIB), (900 * KIB, KIB), (900 * KIB, 256), (500 * KIB, 256), (3 * MIB, 300 * KIB)]
    {
        let rig = Rig::with(two_device_heaps(256 * MIB), |_| {});
        let others = fill(&rig, DEVICE_TYPE, left);
        let objects = rig.objects();
        let desc = wanted(size, MemoryUsage::GpuOnly);
        let count = 8 * MIB / size + 2000;
        let got: Vec<_> = (0..count).map(|_| rig.allocate_wanted(&desc).unwrap()).collect();
        let types = types_of(&rig, &got);
        assert!(types == [0, 1] || types == [1], "{left} left, {size}: {types:?}");
        let of_second = rig.taken(MemoryHeapIndex(1)) / (4 * MIB) + 1;
        let made = u64::from(rig.objects() - objects);
        assert!(made <= 8 + of_second, "{left} left, {size}: {made} objects");
        let calls = rig.device.usage().allocate_calls;
        assert!(calls <= u64::from(rig.objects()) + 8, "{left} left, {size}: {calls} calls");
        rig.free_all(got);
        rig.trim();
        give_back(&rig, others);
    }
}

#[test]
fn at_the_limit_of_objects_a_block_of_another_memory_type_serves() {
    let mut few = two_device_heaps(64);
    few.limits.max_allocation_count = 3;
    let rig = Rig::with(few, |_| {});
    let desc = wanted(16, MemoryUsage::GpuOnly);
    let got: Vec<_> = (0..1000).map(|_| rig.allocate_wanted(&desc).unwrap()).collect();
    assert!(rig.objects() <= 2, "{} objects", rig.objects());
    rig.free_all(got);

    // All objects there may be; the second heap has a block with room.
    let rig = {
        let mut few = two_device_heaps(256 * MIB);
        few.limits.max_allocation_count = 4;
        Rig::with(few, |_| {})
    };
    let second = MemoryTypeIndex(1);
    let block = rig.allocate_wanted(&wanted_in(KIB, second)).unwrap();
    let alone = wanted_in(MIB, MemoryTypeIndex(2)).with_dedicated(Dedicated::Always);
    let mut got: Vec<_> = (0..3).map(|_| rig.allocate_wanted(&alone).unwrap()).collect();
    let served = rig.allocate_wanted(&wanted(KIB, MemoryUsage::GpuOnly)).unwrap();
    assert_eq!(rig.type_of(&served), second);
    assert_eq!(
        rig.allocate_wanted(&wanted(8 * MIB, MemoryUsage::GpuOnly)).unwrap_err(),
        AllocationError::TooManyAllocations { limit: 4, name: allotment::memory::names::ShortName::NONE }
    );
    got.extend([block, served]);
    rig.free_all(got);
}

#[test]
fn a_small_request_gets_an_object_of_its_own_only_after_all_memory_types_have_refused() {
    let rig = Rig::with(two_device_heaps(256 * MIB), |_| {});
    let others: Vec<_> = [(0, 300 * KIB), (1, 0), (2, 0)]
        .into_iter()
        .flat_map(|(memory_type, left)| fill(&rig, MemoryTypeIndex(memory_type), left))
        .collect();
    let got = rig.allocate_wanted(&wanted(KIB, MemoryUsage::GpuOnly)).expect("300 KiB are left");
    assert!(rig.is_dedicated(&got));
    assert_eq!((rig.type_of(&got), rig.block_size_of(&got)), (DEVICE_TYPE, KIB));
    rig.free(got).unwrap();
    rig.trim();
    give_back(&rig, others);
}

#[test]
fn a_pool_that_rules_dedicated_memory_out_gets_none_as_a_last_resort_either() {
    // No block can be had, and memory of the request's own: of a full heap, or of a device whose objects are small.
    let mut tiny = profile(DISCRETE);
    tiny.limits.max_allocation_size = 300 * KIB;
    let rigs = [
        (profile(DISCRETE), Some(300 * KIB), 100 * KIB),
        (tiny, None, 290 * KIB),
        // More than any block has.
        (profile(DISCRETE), None, 20 * MIB),
    ];
    for (device, left, size) in rigs {
        for of_allocator in [false, true] {
            let rig = Rig::with(device.clone(), |desc| {
                desc.block_sizes = small_blocks(4 * MIB, 4 * MIB);
                desc.dedicated = if of_allocator { Dedicated::Never } else { Dedicated::Automatic };
            });
            let others = left.map_or_else(Vec::new, |left| fill(&rig, DEVICE_TYPE, left));
            let mut desc = PoolDesc::new([DEVICE_TYPE]);
            desc.dedicated = if of_allocator { Dedicated::Automatic } else { Dedicated::Never };
            let pool = rig.create_pool(desc).unwrap();
            let objects = rig.objects();
            let mut wish = wanted_in(size, DEVICE_TYPE);
            rig.allocate_wanted_in(&pool, &wish).unwrap_err();
            let options = MemoryUsage::GpuOnly.with_pool(&pool);
            rig.allocate(&Requirements::new(size), &options).unwrap_err();
            // What the driver would say, it is not asked.
            let preview = rig.preview(&Requirements::new(size), &options);
            assert!(!matches!(preview, Ok(AllocationPreview::Grows { bytes, .. }) if bytes == size));
            drop(options);
            assert_eq!(rig.objects(), objects);
            wish.dedicated = Dedicated::Always;
            let own = rig.allocate_wanted_in(&pool, &wish).expect("what is asked for comes first");
            rig.free(own).unwrap();
            rig.destroy_pool(pool).unwrap();
            give_back(&rig, others);
        }
    }
}

/// Replaces small allocations in turn. Returns how often the driver was asked for memory, and the types.
fn churn(rig: &Rig, usage: MemoryUsage, size: u64, frames: bool) -> (u64, Vec<u8>) {
    let desc = wanted(size, usage);
    let mut live: Vec<_> = (0..300).map(|_| rig.allocate_wanted(&desc).unwrap()).collect();
    let calls = || rig.device.usage().allocate_calls + rig.device.usage().free_calls;
    let (before, mut types) = (calls(), Vec::new());
    for round in 0..3000 {
        let at = round * 7 % live.len();
        rig.free(live.swap_remove(at)).unwrap();
        live.push(rig.allocate_wanted(&desc).unwrap());
        types.push(rig.type_of(live.last().unwrap()).0);
        if frames && round % 100 == 99 {
            rig.end_frame();
        }
    }
    let calls = calls() - before;
    types.sort_unstable();
    types.dedup();
    rig.free_all(live);
    (calls, types)
}

#[test]
fn a_full_best_heap_costs_steady_traffic_no_driver_call() {
    for (name, usage, filled, next) in [
        (SMALL_BAR, MemoryUsage::DeviceMapped, WINDOW, 1),
        (SMALL_BAR, MemoryUsage::DeviceUpload, WINDOW, 0),
        ("discrete-no-bar", MemoryUsage::GpuOnly, DEVICE_TYPE, 1),
    ] {
        for size in [KIB, 100_000, 600_000] {
            for frames in [false, true] {
                let rig = Rig::new(name);
                let others = fill(&rig, filled, 0);
                let (calls, types) = churn(&rig, usage, size, frames);
                assert_eq!((calls, types), (0, vec![next]), "{name}, {usage}, {size} bytes");
                rig.trim();
                give_back(&rig, others);
            }
        }
    }
}

#[test]
fn a_best_heap_full_of_the_allocators_own_costs_no_driver_call_either() {
    let rig = Rig::new(SMALL_BAR);
    let own = wanted(MIB, MemoryUsage::DeviceMapped);
    let own: Vec<_> = (0..400).map(|_| rig.allocate_wanted(&own).unwrap()).collect();
    for usage in [MemoryUsage::DeviceMapped, MemoryUsage::DeviceUpload] {
        assert_eq!(churn(&rig, usage, 100_000, true).0, 0);
    }
    rig.free_all(own);
}

#[test]
fn what_was_refused_is_asked_again_once_the_allocator_frees_memory_of_the_heap() {
    let rig = Rig::with(two_device_heaps(64 * MIB), |_| {});
    let alone = wanted(30 * MIB, MemoryUsage::GpuOnly).with_dedicated(Dedicated::Always);
    let mut got: Vec<_> = (0..3).map(|_| rig.allocate_wanted(&alone).unwrap()).collect();
    assert_eq!(types_of(&rig, &got), [0, 1]);
    let calls = rig.device.usage().allocate_calls;
    got.push(rig.allocate_wanted(&alone).unwrap());
    assert_eq!(rig.device.usage().allocate_calls - calls, 1, "the first heap is not asked again");
    // Memory that was allocated together with its resource is freed with it.
    rig.free(got.swap_remove(0)).unwrap();
    rig.trim();
    let again = rig.allocate_wanted(&alone).unwrap();
    assert_eq!(rig.type_of(&again), DEVICE_TYPE);
    got.push(again);
    rig.free_all(got);
}

#[test]
fn what_others_free_is_noticed_in_the_figures() {
    let time = ManualTime::new();
    let clock = TimeSource::Manual(time.clone());
    let rig = Rig::with(two_device_heaps(64 * MIB), |desc| desc.time = clock);
    let others = fill(&rig, DEVICE_TYPE, 0);
    let desc = wanted(8 * MIB, MemoryUsage::GpuOnly).with_dedicated(Dedicated::Always);
    let mut got = vec![rig.allocate_wanted(&desc).unwrap()];
    give_back(&rig, others);
    time.advance(core::time::Duration::from_secs(1));
    got.push(rig.allocate_wanted(&desc).unwrap());
    assert_eq!(types_of(&rig, &got), [1, 0]);
    rig.free_all(got);
}

#[test]
fn a_request_is_not_refused_by_what_was_so_before_others_freed_memory_or_the_driver_recovered() {
    let rig = Rig::with(two_device_heaps(64 * MIB), |_| {});
    let others = fill(&rig, DEVICE_TYPE, 0);
    let desc = wanted_in(8 * MIB, DEVICE_TYPE);
    assert!(rig.allocate_wanted(&desc).is_err());
    let calls = rig.device.usage().allocate_calls;
    for _ in 0..10 {
        let refused = rig.allocate_wanted(&desc).unwrap_err();
        assert!(matches!(refused, AllocationError::OutOfMemory { .. }));
    }
    assert_eq!(
        rig.device.usage().allocate_calls - calls,
        10,
        "the driver is asked once by each that is refused"
    );
    give_back(&rig, others);
    let got = rig.allocate_wanted(&desc).expect("others have freed their memory");
    rig.device.fail_call(1, DeviceError::OutOfHostMemory);
    assert!(rig.allocate_wanted(&desc).is_err());
    let second = rig.allocate_wanted(&desc).expect("the driver refused without a reason that shows");
    // Also where the figures would explain a refusal.
    rig.device.set_budget(HEAP, KIB);
    rig.device.fail_call(1, DeviceError::OutOfDeviceMemory);
    assert!(rig.allocate_wanted(&desc).is_err());
    let third = rig.allocate_wanted(&desc).expect("the driver has recovered, or others have freed memory");
    rig.free_all([got, second, third]);
}

#[test]
fn a_budget_that_rises_lets_the_best_type_serve_again() {
    let rig = Rig::new(SMALL_BAR);
    let window = MemoryHeapIndex(2);
    rig.device.set_budget(window, MIB);
    rig.refresh_budgets();
    let desc = wanted(2 * MIB, MemoryUsage::DeviceMapped).with_dedicated(Dedicated::Always);
    let mut got: Vec<_> = (0..3).map(|_| rig.allocate_wanted(&desc).unwrap()).collect();
    rig.device.set_budget(window, 100 * MIB);
    rig.refresh_budgets();
    got.push(rig.allocate_wanted(&desc).unwrap());
    assert_eq!(types_of(&rig, &got), [1, 3]);
    rig.free_all(got);
}

/// Over its budget, a heap is left for another heap, and not for a worse type of its own.
#[test]
fn no_idle_block_is_freed_for_a_request_that_the_budget_forbids_then_as_well() {
    let rig = Rig::new("integrated");
    let cached = MemoryTypeIndex(1);
    let idle = rig.allocate_wanted(&wanted_in(MIB, cached)).unwrap();
    rig.free(idle).unwrap();
    // The driver refuses the best type, and says a budget that has fallen since it was asked last.
    rig.device.set_budget(HEAP, KIB);
    rig.device.fail_call(1, DeviceError::OutOfDeviceMemory);
    let mut desc = wanted(KIB, MemoryUsage::Upload);
    desc.budget = BudgetPolicy::WithinBudget;
    let got = rig.allocate_wanted(&desc).expect("the idle block of the next type has room");
    assert_eq!(rig.type_of(&got), cached);
    rig.free(got).unwrap();
}

#[test]
fn what_a_last_resort_serves_is_mapped_where_that_is_possible() {
    let rig = Rig::new("integrated");
    let others = fill(&rig, DEVICE_TYPE, 8 * KIB);
    let got = rig.allocate_wanted(&wanted(KIB, MemoryUsage::DeviceUpload)).unwrap();
    assert!(rig.location(&got).unwrap().mapped_ptr.is_some());
    rig.free(got).unwrap();
    give_back(&rig, others);
}

#[test]
fn over_budget_the_memory_type_does_not_change_within_a_heap() {
    let host = P::HOST_VISIBLE.union(P::HOST_COHERENT);
    let shared = P::DEVICE_LOCAL.union(host);
    let mut one_heap = profile("integrated");
    one_heap.heaps = vec![heap(4 * GIB, true)];
    one_heap.memory_types = vec![of(0, shared), of(0, P::DEVICE_LOCAL), of(0, shared.union(P::HOST_CACHED))];
    for usage in [MemoryUsage::DeviceMapped, MemoryUsage::DeviceUpload] {
        let rig = Rig::with(one_heap.clone(), |_| {});
        rig.device.set_budget(HEAP, KIB);
        rig.refresh_budgets();
        for size in [KIB, 20 * MIB] {
            let got = rig.allocate_wanted(&wanted(size, usage)).unwrap();
            assert_eq!(rig.type_of(&got), MemoryTypeIndex(0), "{usage}, {size} bytes");
            rig.free(got).unwrap();
        }
    }
    // With another heap that has a budget: there. With none: in the best type again.
    let rig = Rig::new(DISCRETE);
    rig.device.set_budget(HEAP, KIB);
    rig.refresh_budgets();
    let desc = wanted(20 * MIB, MemoryUsage::DeviceUpload);
    let there = rig.allocate_wanted(&desc).unwrap();
    assert_eq!(rig.type_of(&there), MemoryTypeIndex(1));
    rig.free(there).unwrap();
    rig.trim();
    let others = fill(&rig, MemoryTypeIndex(1), 0);
    let here = rig.allocate_wanted(&desc).expect("the request allows to exceed the budget");
    assert_eq!(rig.type_of(&here), WINDOW);
    rig.free(here).unwrap();
    rig.trim();
    give_back(&rig, others);
}

#[test]
fn a_refusal_says_what_is_reserved_without_what_was_refused() {
    let mut small = profile("lavapipe");
    small.heaps[0].size = 100 * MIB;
    let rig = Rig::with(small, |_| {});
    let first = rig.allocate_wanted(&wanted(60 * MIB, MemoryUsage::GpuOnly)).unwrap();
    for _ in 0..2 {
        let refused = rig.allocate_wanted(&wanted(50 * MIB, MemoryUsage::GpuOnly)).unwrap_err();
        let AllocationError::OutOfMemory { requested, reserved, .. } = refused else { panic!("{refused}") };
        assert_eq!((requested, reserved), (50 * MIB, 60 * MIB));
    }
    rig.free(first).unwrap();
}

#[test]
fn a_request_that_may_exceed_the_budget_is_not_refused_for_the_budget() {
    let mut small = profile(SMALL_BAR);
    small.heaps[0].size = GIB;
    small.heaps[1].size = GIB;
    let rig = Rig::with(small, |_| {});
    for usage in [MemoryUsage::DeviceMapped, MemoryUsage::DeviceUpload] {
        let desc = wanted(3 * GIB, usage);
        assert_eq!(desc.budget, BudgetPolicy::AllowOverBudget);
        let refused = rig.allocate_wanted(&desc).unwrap_err();
        assert!(matches!(refused, AllocationError::OutOfMemory { .. }), "{usage}: {refused}");
    }
}

#[test]
fn idle_blocks_make_room_for_a_pools_first_blocks() {
    let memory_types = |types: &[u8]| PoolDesc::new(types.iter().map(|&at| MemoryTypeIndex(at)));
    let first = |types: &[u8], size| {
        let mut desc = memory_types(types);
        (desc.sizing, desc.min_blocks) = (Some(BlockSize::Fixed(size)), 1);
        desc
    };
    for limit in [None, Some(128 * MIB)] {
        let rig = Rig::with(profile(SMALL_BAR), |desc| {
            desc.heap_limits = limit.map(|limit| (MemoryHeapIndex(2), limit)).into_iter().collect();
        });
        let many: Vec<_> =
            (0..25).map(|_| rig.allocate_wanted(&wanted_in(4 * MIB, WINDOW)).unwrap()).collect();
        rig.free_all(many);
        assert!(rig.statistics().block_bytes >= 100 * MIB, "kept for the next requests");
        let size = if limit.is_some() { 64 * MIB } else { 200 * MIB };
        let pool = rig.create_pool(first(&[3], size)).expect("nothing is in use");
        rig.destroy_pool(pool).unwrap();
    }
    // Nothing helps, and nothing is freed in vain or left behind.
    let rig = Rig::new(SMALL_BAR);
    let others = fill(&rig, WINDOW, MIB);
    let refused = rig.create_pool(first(&[3], 4 * MIB)).unwrap_err();
    assert!(matches!(refused, CreatePoolError::FirstBlocks(AllocationError::OutOfMemory { .. })));
    give_back(&rig, others);
    assert_eq!(rig.objects(), 0);
}

#[test]
fn idle_blocks_that_are_too_small_for_any_block_to_share_make_room_for_the_memory_of_one_request() {
    // What is left, and what is idle: less than 2 MiB, the least block of a pool that wants 16, and enough for the request.
    for (size, movable) in [(MIB, false), (MIB, true), (1200 * KIB, false)] {
        for by_budget in [false, true] {
            let rig = Rig::with(profile("discrete-no-bar"), |desc| {
                desc.block_sizes.smallest = 16 * MIB;
                if !by_budget {
                    desc.heap_limits = vec![(HEAP, 100 * MIB)];
                }
            });
            let pool = rig.create_pool(fixed_pool(DEVICE_TYPE, MIB)).unwrap();
            let idle = rig.allocate_wanted_in(&pool, &wanted_in(MIB, DEVICE_TYPE)).unwrap();
            let rest = 100 * MIB - rig.taken(HEAP) - MIB / 2;
            let full = wanted_in(rest, DEVICE_TYPE).with_dedicated(Dedicated::Always);
            let full = rig.allocate_wanted(&full).unwrap();
            rig.free(idle).unwrap();
            if by_budget {
                rig.device.set_budget(HEAP, 100 * MIB);
                rig.refresh_budgets();
            }
            let mut desc = wanted_in(size, DEVICE_TYPE);
            desc.budget = BudgetPolicy::WithinBudget;
            if movable {
                desc = desc.with_movability(allotment::memory::Movability::Copied);
            }
            let got = rig.allocate_wanted(&desc).expect("the idle block is freed for it");
            assert!(rig.taken(HEAP) <= 100 * MIB);
            rig.free_all([got, full]);
            rig.destroy_pool(pool).unwrap();
        }
    }
}

#[test]
fn a_reservation_frees_idle_blocks_of_other_pools() {
    let mut small = profile(DISCRETE);
    small.heaps[0].size = 64 * MIB;
    let rig = Rig::with(small, |_| {});
    let pool = rig.create_pool(fixed_pool(DEVICE_TYPE, 32 * MIB)).unwrap();
    let idle = rig.allocate_wanted_in(&pool, &wanted_in(20 * MIB, DEVICE_TYPE)).unwrap();
    rig.free(idle).unwrap();
    let (tile, options) = (Requirements::new(MIB), MemoryUsage::GpuOnly.into());
    rig.reserve(&tile, &options, 50 * MIB).unwrap();
    assert_eq!(rig.reports().pool_statistics(&pool).unwrap().block_bytes, 0);
    rig.destroy_pool(pool).unwrap();
}

/// A device with a `Gpu`.
fn gpu(name: &str) -> (SimulatedGpu, Gpu<SimulatedGpu>) {
    let device = SimulatedGpu::new(profile(name));
    (device.clone(), Gpu::new(device, GpuDesc::default()).unwrap())
}

#[test]
fn what_the_gpu_has_finished_with_is_destroyed_before_the_driver_is_asked_for_more() {
    let options = MemoryUsage::GpuOnly.with_name("temporary");
    for how in 0..4 {
        let (device, gpu) = gpu("discrete-no-bar");
        let mut peak = 0;
        for number in 0..100 {
            let memory_type = match how {
                0 => gpu.create_buffer(&BufferDesc::new(256 * MIB), &options).unwrap().info().memory_type,
                1 => gpu.create_image(&ImageDesc::new(8192, 8192, 4), &options).unwrap().info().memory_type,
                2 => {
                    let desc = Requirements::new(200 * MIB);
                    let memory = gpu.memory().allocate(&desc, &options).unwrap();
                    gpu.allocator().info(&memory).unwrap().memory_type
                }
                _ => {
                    let large = BufferDesc::new(256 * MIB);
                    gpu.making_room().create_buffer(&large, &options).unwrap().info().memory_type
                }
            };
            assert_eq!(memory_type, DEVICE_TYPE, "{how}: number {number}");
            peak = peak.max(gpu.allocator().statistics().block_bytes);
        }
        assert!(peak <= 512 * MIB, "{how}: {peak} bytes at once");
        assert_eq!(device.validation_errors(), Vec::<String>::new());
    }
}

#[test]
fn buffers_whose_pieces_are_all_gone_make_room_for_another_resource() {
    let mut small = profile("discrete-no-bar");
    small.heaps[0].size = 64 * MIB;
    let device = SimulatedGpu::new(small);
    let gpu = Gpu::new(device.clone(), GpuDesc::default()).unwrap();
    let options = MemoryUsage::GpuOnly.with_name("of pieces");
    let pieces = BufferPieces::new(gpu.memory(), BufferDesc::new(8 * MIB), options);
    let all: Vec<_> = (0..14).map(|_| pieces.create(4 * MIB, Alignment::ONE).unwrap()).collect();
    assert_eq!(pieces.statistics().page_bytes, 56 * MIB);
    drop(all);
    let texture = MemoryUsage::GpuOnly.with_name("texture");
    let other = gpu.create_buffer(&BufferDesc::new(48 * MIB), &texture).unwrap();
    assert_eq!(other.info().memory_type, DEVICE_TYPE, "one page is kept, and the others are gone");
    assert_eq!(pieces.statistics().page_bytes, 8 * MIB);
    drop((other, pieces));
    drop(gpu);
    assert_eq!(device.validation_errors(), Vec::<String>::new());
}

#[test]
fn an_expandable_buffer_that_is_gone_with_its_pieces_makes_room_for_another_resource() {
    let mut small = profile("discrete-no-bar");
    small.heaps[0].size = 64 * MIB;
    let device = SimulatedGpu::new(small);
    let gpu = Gpu::new(device.clone(), GpuDesc::default()).unwrap();
    let options = MemoryUsage::GpuOnly.with_name("expandable");
    let whole = ExpandableBuffer::new(gpu.memory(), BufferDesc::new(GIB), options).unwrap();
    let all: Vec<_> = (0..14).map(|_| whole.create(4 * MIB, Alignment::ONE).unwrap()).collect();
    assert_eq!(whole.statistics().memory_bytes, 56 * MIB);
    drop((all, whole));
    let texture = MemoryUsage::GpuOnly.with_name("texture");
    let other = gpu.create_buffer(&BufferDesc::new(48 * MIB), &texture).unwrap();
    assert_eq!(other.info().memory_type, DEVICE_TYPE, "nobody reclaimed, and its memory is free");
    drop(other);
    drop(gpu);
    assert_eq!(device.validation_errors(), Vec::<String>::new());
}

#[test]
fn pages_of_an_expandable_buffer_ahead_of_demand_free_nothing_of_others() {
    let device = SimulatedGpu::new(profile("discrete-no-bar"));
    let mut limited = AllocatorDesc::default();
    limited.heap_limits = vec![(MemoryHeapIndex(0), 321 * MIB)];
    let gpu = Gpu::new(device.clone(), GpuDesc::default().with_allocator(limited)).unwrap();
    let options = MemoryUsage::GpuOnly.with_name("expandable");
    let others = gpu.allocator().create_pool(fixed_pool(DEVICE_TYPE, 4 * MIB)).unwrap();
    drop(gpu.create_buffer(&BufferDesc::new(MIB), &options.clone().with_pool(&others)).unwrap());
    gpu.wait_idle().unwrap();
    gpu.reclaim();
    let bytes = || gpu.allocator().statistics().block_bytes;
    let idle = bytes();
    assert_eq!(idle, 4 * MIB, "a block that nobody uses");
    let whole = ExpandableBuffer::new(gpu.memory(), BufferDesc::new(GIB), options).unwrap();
    let first = whole.create(318 * MIB - idle, Alignment::ONE).unwrap();
    assert_eq!(bytes(), 318 * MIB);
    // A page, and one ahead of demand that the limit does not allow.
    let second = whole.create(2 * MIB, Alignment::ONE).unwrap();
    assert_eq!(bytes(), 320 * MIB, "the block is still there");
    // What is needed now takes it.
    let third = whole.create(2 * MIB, Alignment::ONE).unwrap();
    assert_eq!((bytes(), whole.statistics().memory_bytes), (322 * MIB - idle, 322 * MIB - idle));
    drop((first, second, third, whole));
    gpu.allocator().destroy_pool(others).unwrap();
    drop(gpu);
    assert_eq!(device.validation_errors(), Vec::<String>::new());
}

#[test]
fn what_the_gpu_still_uses_is_not_destroyed_and_nothing_waits_for_it() {
    let mut small = profile("discrete-no-bar");
    small.heaps[0].size = 64 * MIB;
    small.heaps[1].size = 64 * MIB;
    let device = SimulatedGpu::new(small);
    let gpu = Gpu::new(device.clone(), GpuDesc::default()).unwrap();
    let options = MemoryUsage::GpuOnly.with_name("target");
    let desc = BufferDesc::new(48 * MIB);
    let first = gpu.create_buffer(&desc, &options).unwrap();
    device.pause_queues();
    let recording = gpu.record("uses it");
    // SAFETY: the submission is empty.
    let submit = |queue| unsafe { device.submit(queue, &Submission::default()) };
    recording.submit(QueueIndex(0), submit).unwrap();
    drop(first);
    let second = gpu.create_buffer(&desc, &options).unwrap();
    assert_eq!(second.info().memory_type, MemoryTypeIndex(1), "the first heap is in use");
    gpu.create_buffer(&desc, &options).expect_err("both heaps are in use");
    device.resume_queues();
    gpu.tracker().wait_idle(gpu.desc().timeout).unwrap();
    let third = gpu.create_buffer(&desc, &options).expect("the GPU has finished");
    assert_eq!(third.info().memory_type, DEVICE_TYPE);
    drop((second, third));
    drop(gpu);
    assert_eq!(device.validation_errors(), Vec::<String>::new());
}

#[test]
fn no_growth_and_a_full_pool_are_refused_only_after_what_is_finished_was_destroyed() {
    let (_, gpu) = gpu(DISCRETE);
    let mut desc = fixed_pool(DEVICE_TYPE, MIB);
    desc.max_blocks = 1;
    let pool = gpu.allocator().create_pool(desc).unwrap();
    let options = MemoryUsage::GpuOnly.with_name("tile").with_pool(&pool);
    let tile = BufferDesc::new(600 * KIB);
    for _ in 0..10 {
        drop(gpu.create_buffer(&tile, &options).expect("the last one is done with"));
    }
    let never = MemoryUsage::GpuOnly.with_name("prefetch").with_new_blocks(NewBlocks::NeverAllocate);
    drop(gpu.create_buffer(&tile, &MemoryUsage::GpuOnly.with_name("mesh")).unwrap());
    for _ in 0..10 {
        drop(gpu.create_buffer(&BufferDesc::new(3 * MIB), &never).expect("the last one is done with"));
    }
    drop(options);
    gpu.wait_idle().unwrap();
    gpu.allocator().destroy_pool(pool).unwrap();
}

#[test]
fn whatever_is_refused_was_asked_for_again_once_what_is_finished_was_destroyed() {
    let (_, gpu) = gpu(DISCRETE);
    let mut desc = PoolDesc::new([DEVICE_TYPE]);
    (desc.max_blocks, desc.name) = (1, Some("one block".into()));
    let pool = gpu.allocator().create_pool(desc).unwrap();
    let options = MemoryUsage::GpuOnly.with_name("target").with_pool(&pool);
    let own = options.clone().with_dedicated(Dedicated::Always);
    let target = BufferDesc::new(6 * MIB);
    for _ in 0..3 {
        drop(gpu.create_buffer(&target, &own).expect("the last one is done with"));
    }
    let requirements = Requirements::new(MIB);
    let reserved = gpu.allocator().reserve(&requirements, &options, 2 * MIB).expect("the block is done with");
    assert!(reserved >= 2 * MIB);
    drop(gpu.create_buffer(&BufferDesc::new(MIB), &options).unwrap());
    gpu.allocator().reset_pool(&pool).expect("no resource is in use");
    drop(gpu.create_buffer(&BufferDesc::new(MIB), &options).unwrap());
    drop((options, own));
    gpu.allocator().destroy_pool(pool).expect("no resource is in use");
}

/// A value whose destructor needs what the caller of a create call may hold.
struct NeedsLock(std::sync::Arc<std::sync::Mutex<u32>>);

impl Drop for NeedsLock {
    fn drop(&mut self) {
        *self.0.lock().unwrap() += 1;
    }
}

#[test]
fn a_create_call_runs_no_destructor_of_the_application() {
    let (_, gpu) = gpu("discrete-no-bar");
    let scene = std::sync::Arc::new(std::sync::Mutex::new(0));
    gpu.deletion_queue().retire(NeedsLock(scene.clone()));
    let count = scene.lock().unwrap();
    for _ in 0..30 {
        let options = MemoryUsage::GpuOnly.with_name("mesh");
        drop(gpu.create_buffer(&BufferDesc::new(256 * MIB), &options).unwrap());
    }
    assert_eq!(*count, 0);
    drop(count);
    gpu.reclaim();
    assert_eq!(*scene.lock().unwrap(), 1);
}

#[test]
fn a_dropped_deletion_queue_does_not_make_a_request_wait() {
    use allotment::lifetime::{DeletionQueue, SubmissionTracker};
    use allotment::memory::OwningAllocator;
    let device = SimulatedGpu::new(profile(DISCRETE));
    let tracker = SubmissionTracker::new(device.clone()).unwrap();
    let allocator =
        std::sync::Arc::new(allotment::Allocator::new(device.clone(), AllocatorDesc::default()).unwrap());
    let queue = DeletionQueue::new(&tracker);
    let memory = OwningAllocator::new(&allocator, &queue).unwrap();
    let options = MemoryUsage::GpuOnly.with_name("mesh");
    let mesh = memory.create_buffer(&BufferDesc::new(20 * MIB), &options).unwrap();
    let open = tracker.record("open for long");
    drop((memory, queue, mesh));
    let other = allocator.allocate(&Requirements::new(20 * MIB), &options).unwrap();
    allocator.free(other).unwrap();
    drop(open);
    tracker.poll();
    assert_eq!(allocator.statistics().allocations, 0);
}

#[test]
fn the_first_blocks_of_a_pool_go_where_its_requests_would() {
    for (left, in_window) in [(3 * MIB, 0), (5 * MIB, 1), (9 * MIB, 2)] {
        for separate_movable in [false, true] {
            let rig = Rig::new(SMALL_BAR);
            let others = fill(&rig, WINDOW, left);
            let mut desc = fixed_pool(WINDOW, 4 * MIB);
            desc.memory_types.push(MemoryTypeIndex(1));
            (desc.min_blocks, desc.empty_blocks) = (2, EmptyBlockPolicy::NONE);
            desc.separate_movable = separate_movable;
            let pool = rig.create_pool(desc).expect("the host has memory");
            let before = rig.taken(MemoryHeapIndex(1));
            assert_eq!(before, (2 - in_window) * 4 * MIB);
            // The pool keeps them, whichever types they are of, and no others.
            give_back(&rig, others);
            rig.refresh_budgets();
            let options = wanted(MIB, MemoryUsage::DeviceMapped);
            let got: Vec<_> = (0..24).map(|_| rig.allocate_wanted_in(&pool, &options).unwrap()).collect();
            assert_eq!(rig.taken(MemoryHeapIndex(1)), before);
            rig.free_all(got);
            rig.trim();
            assert_eq!(rig.taken(MemoryHeapIndex(1)), before);
            assert_eq!(rig.reports().pool_statistics(&pool).unwrap().block_bytes, 8 * MIB);
            rig.check_invariants();
            rig.destroy_pool(pool).unwrap();
        }
    }
}

#[test]
fn a_pool_whose_first_blocks_no_memory_type_can_have_is_refused_for_the_first() {
    let rig = Rig::new(SMALL_BAR);
    let window = fill(&rig, WINDOW, 3 * MIB);
    let host = fill(&rig, MemoryTypeIndex(1), 5 * MIB);
    let mut desc = fixed_pool(WINDOW, 4 * MIB);
    desc.memory_types.push(MemoryTypeIndex(1));
    desc.min_blocks = 2;
    let objects = rig.objects();
    let refused = rig.create_pool(desc).unwrap_err();
    let CreatePoolError::FirstBlocks(AllocationError::OutOfMemory { memory_type, .. }) = refused else {
        panic!("{refused}")
    };
    assert_eq!((memory_type, rig.objects()), (WINDOW, objects));
    give_back(&rig, window);
    give_back(&rig, host);
}
