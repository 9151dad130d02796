//! The properties that a device reports.

use allotment::device::{MemoryDevice as _, MemoryHeapIndex, MemoryProperties, MemoryTypeIndex};

use crate::fixture::{Fixture, Outcome, Test, tests};
use crate::gpu::{Gpu, copy};

pub(super) fn all<F: Fixture>() -> Vec<Test<F>> {
    tests![F:
        every_memory_type_has_a_heap,
        there_are_no_more_heaps_and_types_than_an_index_can_name,
        a_memory_type_is_device_local_exactly_where_its_heap_is,
        what_the_cpu_sees_coherently_or_through_its_cache_it_can_map,
        lazily_allocated_memory_cannot_be_mapped,
        what_queues_do_not_both_read_and_write_the_cpu_can_map,
        a_buffer_may_stand_in_memory_that_the_cpu_can_map,
        queues_read_and_write_some_memory_that_takes_buffers,
        limits_are_powers_of_two_and_leave_room,
        there_is_a_queue,
        properties_never_change,
        a_budget_lies_within_its_heap,
        a_heap_that_does_not_exist_has_no_budget,
    ]
}

fn every_memory_type_has_a_heap<F: Fixture>(gpu: &Gpu<F>) {
    let properties = gpu.properties();
    for (index, memory_type) in properties.indexed_types() {
        let heap = properties.heaps.get(memory_type.heap.get());
        assert!(heap.is_some_and(|heap| heap.size > 0), "{index}: {memory_type:?} has {heap:?}");
        assert_eq!(properties.memory_type(index), Some(memory_type));
    }
}

fn there_are_no_more_heaps_and_types_than_an_index_can_name<F: Fixture>(gpu: &Gpu<F>) {
    let properties = gpu.properties();
    assert!((1..=16).contains(&properties.heaps.len()), "{} heaps", properties.heaps.len());
    assert!((1..=32).contains(&properties.memory_types.len()), "{} types", properties.memory_types.len());
    let beyond = MemoryTypeIndex(properties.memory_types.len() as u8);
    assert_eq!(properties.memory_type(beyond), None);
}

fn a_memory_type_is_device_local_exactly_where_its_heap_is<F: Fixture>(gpu: &Gpu<F>) {
    for (index, memory_type) in gpu.properties().indexed_types() {
        let heap = gpu.properties().heaps[memory_type.heap.get()];
        let local = memory_type.properties.contains(MemoryProperties::DEVICE_LOCAL);
        assert_eq!(local, heap.device_local, "{index}: {memory_type:?} of {heap:?}");
    }
}

fn what_the_cpu_sees_coherently_or_through_its_cache_it_can_map<F: Fixture>(gpu: &Gpu<F>) {
    let mapped_only = MemoryProperties::HOST_COHERENT | MemoryProperties::HOST_CACHED;
    for (index, memory_type) in gpu.properties().indexed_types() {
        let properties = memory_type.properties;
        let visible = properties.contains(MemoryProperties::HOST_VISIBLE);
        assert!(visible || !properties.intersects(mapped_only), "{index}: {properties}");
    }
}

fn lazily_allocated_memory_cannot_be_mapped<F: Fixture>(gpu: &Gpu<F>) {
    let both = MemoryProperties::LAZILY_ALLOCATED | MemoryProperties::HOST_VISIBLE;
    for (index, memory_type) in gpu.properties().indexed_types() {
        assert!(!memory_type.properties.contains(both), "{index}: {}", memory_type.properties);
    }
}

fn what_queues_do_not_both_read_and_write_the_cpu_can_map<F: Fixture>(gpu: &Gpu<F>) {
    // Else there would be no way in, or none out.
    for (index, memory_type) in gpu.properties().indexed_types() {
        let one_way = !gpu.can_read_from(index) || !gpu.can_write_to(index);
        let visible = memory_type.properties.contains(MemoryProperties::HOST_VISIBLE);
        assert!(visible || !one_way, "{index}: {}", memory_type.properties);
        assert!(gpu.can_read_from(index) || gpu.can_write_to(index), "{index}: {}", memory_type.properties);
    }
}

fn a_buffer_may_stand_in_memory_that_the_cpu_can_map<F: Fixture>(gpu: &Gpu<F>) {
    let types = gpu.visible_buffer_types();
    assert!(types.iter().any(|&t| gpu.can_read_from(t)), "{:#?}", gpu.properties().memory_types);
    assert!(types.iter().any(|&t| gpu.can_write_to(t)), "{:#?}", gpu.properties().memory_types);
}

fn queues_read_and_write_some_memory_that_takes_buffers<F: Fixture>(gpu: &Gpu<F>) {
    assert!(!gpu.two_way_types().is_empty(), "{:#?}", gpu.properties().memory_types);
}

fn limits_are_powers_of_two_and_leave_room<F: Fixture>(gpu: &Gpu<F>) {
    let limits = gpu.properties().limits;
    for limit in [
        limits.buffer_image_granularity,
        limits.non_coherent_atom_size,
        limits.image_copy_offset_alignment,
        limits.image_copy_row_alignment,
        limits.buffer_offset_alignment,
    ] {
        assert!(limit.get().is_power_of_two(), "{limit}");
        // An atom or a page of more than this would leave no memory type usable.
        assert!(limit.get() <= 1 << 20, "{limit}");
    }
    assert!(limits.max_allocation_count >= 1);
    assert!(limits.max_allocation_size >= 1 << 20, "{} bytes", limits.max_allocation_size);
}

fn there_is_a_queue<F: Fixture>(gpu: &Gpu<F>) {
    let queues = gpu.properties().queues.len();
    assert!((1..=256).contains(&queues), "{queues} queues, which an index of 8 bits names");
}

fn properties_never_change<F: Fixture>(gpu: &Gpu<F>) {
    let before = format!("{:?}", gpu.properties());
    let [from, to] = [64, 64].map(|size| gpu.buffer(gpu.two_way_type(), size));
    gpu.run(&[copy(&from, 0, &to, 0, 64)]);
    let elsewhere =
        std::thread::scope(|scope| scope.spawn(|| format!("{:?}", gpu.properties())).join().unwrap());
    assert_eq!(format!("{:?}", gpu.properties()), before);
    assert_eq!(elsewhere, before);
}

fn a_budget_lies_within_its_heap<F: Fixture>(gpu: &Gpu<F>) {
    for (index, heap) in (0..).zip(&gpu.properties().heaps) {
        let budget = gpu.device().heap_budget(MemoryHeapIndex(index)).budget;
        assert!((1..=heap.size).contains(&budget), "heap {index}: {budget} of {}", heap.size);
    }
}

fn a_heap_that_does_not_exist_has_no_budget<F: Fixture>(gpu: &Gpu<F>) {
    // A safe call, so it must answer something whatever it is asked.
    for index in [gpu.properties().heaps.len() as u8, u8::MAX] {
        assert_eq!(gpu.device().heap_budget(MemoryHeapIndex(index)).budget, 0, "heap {index}");
    }
}
