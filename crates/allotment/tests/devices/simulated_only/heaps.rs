//! Heaps that fill up, budgets, and profiles.

use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::device::{DeviceError, MemoryDevice as _, MemoryHeapIndex, MemoryTypeIndex};

use crate::fixture::{Outcome, Test, tests};
use crate::gpu::Gpu;
use crate::kinds::simulated::SimulatedFixture;

type Simulated = Gpu<SimulatedFixture>;

pub(super) fn all() -> Vec<Test<SimulatedFixture>> {
    tests![SimulatedFixture:
        a_heap_holds_its_size_and_not_one_byte_more,
        memory_types_of_one_heap_share_its_size,
        threads_never_take_more_than_a_heap_has,
        a_count_limit_is_exact_under_threads,
        a_budget_is_nine_tenths_of_its_heap_unless_set,
        a_budget_is_no_limit,
        memory_of_a_large_machine_costs_nothing_until_it_is_touched,
        calls_are_counted,
        every_profile_is_found_by_its_name,
    ]
}

/// A device like this one whose heaps have `size` bytes.
fn with_heaps_of(gpu: &Simulated, size: u64) -> Simulated {
    let mut profile = gpu.device().profile().clone();
    for heap in &mut profile.heaps {
        heap.size = size;
    }
    Gpu::new(SimulatedFixture::new(profile))
}

fn a_heap_holds_its_size_and_not_one_byte_more(gpu: &Simulated) {
    let gpu = with_heaps_of(gpu, 1000);
    for memory_type in gpu.types() {
        let memory = [gpu.allocate(memory_type, 999), gpu.allocate(memory_type, 1)];
        assert_eq!(gpu.try_allocate(memory_type, 1).err(), Some(DeviceError::OutOfDeviceMemory));
        drop(memory);
        let all = gpu.allocate(memory_type, 1000);
        assert_eq!(gpu.try_allocate(memory_type, 1).err(), Some(DeviceError::OutOfDeviceMemory));
        drop(all);
        assert_eq!(gpu.try_allocate(memory_type, 1001).err(), Some(DeviceError::OutOfDeviceMemory));
    }
    gpu.finish().unwrap();
}

fn memory_types_of_one_heap_share_its_size(gpu: &Simulated) {
    let gpu = with_heaps_of(gpu, 1000);
    let [one, other] = [MemoryTypeIndex(1), MemoryTypeIndex(2)];
    let heap = |t| gpu.properties().memory_type(t).unwrap().heap;
    assert_eq!(heap(one), heap(other), "what this test is about");
    let first = gpu.allocate(one, 600);
    assert!(gpu.try_allocate(other, 401).is_err());
    let second = gpu.allocate(other, 400);
    assert_eq!(gpu.device().heap_budget(heap(one)).usage, 1000);
    drop((first, second));
    gpu.finish().unwrap();
}

/// How many of `tries` calls a thread that ask for 64 bytes succeed on four threads, all kept to the end.
fn taken_by_threads(gpu: &Simulated, tries: usize) -> usize {
    let take = || {
        let memory = (0..tries).filter_map(|_| gpu.try_allocate(MemoryTypeIndex(0), 64).ok());
        memory.collect::<Vec<_>>()
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
        let kept: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        kept.len()
    })
}

fn threads_never_take_more_than_a_heap_has(gpu: &Simulated) {
    let gpu = with_heaps_of(gpu, 100 * 64);
    for _ in 0..10 {
        assert_eq!(taken_by_threads(&gpu, 100), 100);
    }
    gpu.finish().unwrap();
}

fn a_count_limit_is_exact_under_threads(gpu: &Simulated) {
    let mut profile = gpu.device().profile().clone();
    profile.limits.max_allocation_count = 7;
    let gpu = Gpu::new(SimulatedFixture::new(profile));
    for _ in 0..50 {
        assert_eq!(taken_by_threads(&gpu, 5), 7);
    }
    gpu.finish().unwrap();
}

fn a_budget_is_nine_tenths_of_its_heap_unless_set(gpu: &Simulated) {
    let heaps = gpu.properties().heaps.len() as u8;
    for index in 0..heaps {
        let size = gpu.properties().heaps[usize::from(index)].size;
        assert_eq!(gpu.device().heap_budget(MemoryHeapIndex(index)).budget, size / 10 * 9);
    }
    gpu.device().set_budget(MemoryHeapIndex(0), 12_345);
    assert_eq!(gpu.device().heap_budget(MemoryHeapIndex(0)).budget, 12_345);
    assert_ne!(gpu.device().heap_budget(MemoryHeapIndex(1)).budget, 12_345);
    gpu.device().set_budget(MemoryHeapIndex(heaps), 1);
    assert_eq!(gpu.device().heap_budget(MemoryHeapIndex(heaps)).budget, 0, "there is no such heap");
}

fn a_budget_is_no_limit(gpu: &Simulated) {
    // As with a driver: beyond it things get slow, and the heap's end comes later.
    gpu.device().set_budget(MemoryHeapIndex(0), 100);
    let memory = gpu.allocate(MemoryTypeIndex(0), 4096);
    assert_eq!(gpu.device().heap_budget(MemoryHeapIndex(0)).usage, 4096);
    drop(memory);
}

fn memory_of_a_large_machine_costs_nothing_until_it_is_touched(_: &Simulated) {
    let gpu = Gpu::new(SimulatedFixture::new(Profile::named("nvidia-h200").unwrap()));
    let memory: Vec<_> = (0..8).map(|_| gpu.allocate(MemoryTypeIndex(1), 1 << 30)).collect();
    assert_eq!(gpu.device().usage().memory_bytes, 8 << 30);
    drop(memory);
    gpu.finish().unwrap();
}

fn calls_are_counted(gpu: &Simulated) {
    let device = gpu.device();
    assert_eq!(device.usage(), Default::default());
    let visible = gpu.visible_types()[0];
    let buffer = gpu.buffer(visible, 100);
    let memory = gpu.allocate(visible, 1000);
    drop(memory.map());
    drop(memory.map());
    device.fail_call(1, DeviceError::OutOfDeviceMemory);
    assert!(gpu.try_allocate(visible, 1).is_err());
    let usage = device.usage();
    assert_eq!((usage.memory_objects, usage.memory_bytes, usage.buffers), (2, 1100, 1));
    assert_eq!((usage.allocate_calls, usage.map_calls, usage.free_calls), (3, 2, 0));
    drop((buffer, memory));
    let usage = device.usage();
    assert_eq!((usage.memory_objects, usage.memory_bytes, usage.buffers), (0, 0, 0));
    assert_eq!((usage.allocate_calls, usage.map_calls, usage.free_calls), (3, 2, 2));
}

fn every_profile_is_found_by_its_name(_: &Simulated) {
    for profile in Profile::all() {
        let found = Profile::named(profile.name).unwrap();
        assert_eq!(found.about, profile.about, "no other profile has the name {}", profile.name);
        assert!(SimulatedGpu::new(found).properties().name.contains(profile.name));
    }
    assert!(Profile::named("steam-engine").is_none());
}
