//! Buffers: the memory that they need, and their places.

use allotment::device::{
    BufferDesc, BufferDevice as _, DescriptionError, DeviceError, MemoryDevice as _, MemoryHeapIndex,
    MemoryProperties, MemoryTypeIndex,
};

use crate::bytes::{assert_same, pattern};
use crate::fixture::{Fixture, Outcome, Test, tests};
use crate::gpu::{Gpu, copy};

pub(super) fn all<F: Fixture>() -> Vec<Test<F>> {
    tests![F:
        requirements_hold_what_was_asked_for,
        requirements_stay_the_same,
        a_larger_buffer_never_needs_less,
        buffers_are_kept_out_of_memory_for_attachments_and_protected_queues,
        a_buffer_of_no_bytes_is_refused,
        a_buffer_larger_than_any_heap_is_refused,
        a_buffer_stands_at_its_offset,
        a_buffer_may_end_with_its_memory,
        buffers_over_the_same_bytes_share_them,
        destroying_a_buffer_leaves_the_bytes,
        buffers_are_made_and_destroyed_again_and_again,
        dedicated_memory_is_as_large_as_the_requirements_say,
        a_dedicated_buffer_works_in_every_memory_type_that_takes_buffers,
        a_refused_dedicated_buffer_leaves_nothing,
    ]
}

const SIZES: [u64; 8] = [1, 3, 64, 255, 4096, 65_537, 1 << 20, (64 << 20) + 1];

fn requirements_hold_what_was_asked_for<F: Fixture>(gpu: &Gpu<F>) {
    let existing = u32::MAX >> (32 - gpu.properties().memory_types.len());
    for size in SIZES {
        let requirements = gpu.requirements(size);
        assert!(requirements.size >= size, "{size}: {requirements:?}");
        assert!(requirements.alignment.get().is_power_of_two(), "{size}: {requirements:?}");
        assert_ne!(requirements.memory_types.0, 0, "{size}: {requirements:?}");
        assert_eq!(requirements.memory_types.0 & !existing, 0, "{size}: only types that exist");
    }
}

fn requirements_stay_the_same<F: Fixture>(gpu: &Gpu<F>) {
    for size in SIZES {
        let requirements = gpu.requirements(size);
        drop(gpu.buffer(gpu.buffer_types()[0], size));
        assert_eq!(gpu.requirements(size), requirements);
    }
}

fn a_larger_buffer_never_needs_less<F: Fixture>(gpu: &Gpu<F>) {
    let needs: Vec<_> = SIZES.iter().map(|&size| gpu.requirements(size)).collect();
    for pair in needs.windows(2) {
        assert!(pair[0].size <= pair[1].size, "{pair:?}");
        // Programs query the memory type with a small buffer, and create large ones then.
        assert_eq!(pair[0].memory_types, pair[1].memory_types);
    }
}

fn buffers_are_kept_out_of_memory_for_attachments_and_protected_queues<F: Fixture>(gpu: &Gpu<F>) {
    let allowed = gpu.requirements(64).memory_types;
    for (index, memory_type) in gpu.properties().indexed_types() {
        let others = MemoryProperties::LAZILY_ALLOCATED | MemoryProperties::PROTECTED;
        let apart = memory_type.properties.intersects(others);
        assert!(!apart || !allowed.contains(index), "{index}: {}", memory_type.properties);
    }
}

fn a_buffer_of_no_bytes_is_refused<F: Fixture>(gpu: &Gpu<F>) {
    let refused = gpu.device().buffer_requirements(&BufferDesc::new(0).into()).unwrap_err();
    assert_eq!(refused, DeviceError::InvalidDescription(DescriptionError::ZeroSize));
    assert!(refused.to_string().contains("not 0"), "the message names the size: {refused}");
}

fn a_buffer_larger_than_any_heap_is_refused<F: Fixture>(gpu: &Gpu<F>) {
    gpu.fixture().expect_complaints("allocate: ");
    // What cannot be had is refused at the latest when memory is asked for.
    let largest = gpu.properties().heaps.iter().map(|heap| heap.size).max().unwrap();
    for size in [largest + 1, u64::MAX / 2, u64::MAX] {
        match gpu.device().buffer_requirements(&BufferDesc::new(size).into()) {
            Err(error) => assert_ne!(error, DeviceError::Lost),
            Ok(requirements) => {
                assert!(requirements.size >= size, "{size}: {requirements:?}");
                assert!(gpu.try_allocate(gpu.buffer_types()[0], requirements.size).is_err());
            }
        }
        assert!(gpu.try_dedicated_buffer(gpu.buffer_types()[0], size).is_err());
    }
}

fn a_buffer_stands_at_its_offset<F: Fixture>(gpu: &Gpu<F>) {
    let needs = gpu.requirements(100);
    let stride = needs.alignment.align_up(needs.size);
    for memory_type in gpu.visible_buffer_types() {
        let memory = gpu.allocate(memory_type, 6 * stride);
        let mapping = memory.map();
        let mut expected = pattern(100, 6 * stride);
        mapping.put(0, &expected);
        let buffers = [4, 0, 5, 2].map(|at| (at * stride, memory.buffer(at * stride, 100)));
        for (offset, buffer) in &buffers {
            let bytes = pattern(*offset, 100);
            gpu.put(buffer, 0, &bytes);
            expected[*offset as usize..][..100].copy_from_slice(&bytes);
        }
        assert_same(&mapping.get(0..6 * stride), &expected, memory_type);
        for (offset, buffer) in &buffers {
            assert_same(&gpu.get(buffer), &pattern(*offset, 100), (memory_type, *offset));
        }
    }
}

fn a_buffer_may_end_with_its_memory<F: Fixture>(gpu: &Gpu<F>) {
    for memory_type in gpu.buffer_types() {
        for size in [1, 63, 4097] {
            let needs = gpu.requirements(size);
            let before = needs.alignment.align_up(1);
            let buffer = gpu.allocate(memory_type, before + needs.size).buffer(before, size);
            gpu.put(&buffer, 0, &pattern(size, size));
            assert_same(&gpu.get(&buffer), &pattern(size, size), (memory_type, size));
        }
    }
}

fn buffers_over_the_same_bytes_share_them<F: Fixture>(gpu: &Gpu<F>) {
    let needs = gpu.requirements(4096);
    let shift = needs.alignment.align_up(256);
    let size = gpu.requirements(shift + 4096).size.max(shift + needs.size);
    for memory_type in gpu.buffer_types() {
        let memory = gpu.allocate(memory_type, size);
        let whole = memory.buffer(0, shift + 4096);
        let part = memory.buffer(shift, 4096);
        let mut expected = pattern(1, shift + 4096);
        gpu.put(&whole, 0, &expected);
        assert_same(&gpu.get(&part), &expected[shift as usize..], memory_type);
        gpu.put(&part, 7, &pattern(2, 1000));
        expected[shift as usize + 7..][..1000].copy_from_slice(&pattern(2, 1000));
        assert_same(&gpu.get(&whole), &expected, memory_type);
    }
}

fn destroying_a_buffer_leaves_the_bytes<F: Fixture>(gpu: &Gpu<F>) {
    for memory_type in gpu.buffer_types() {
        let memory = gpu.allocate(memory_type, gpu.requirements(4096).size);
        gpu.put(&memory.buffer(0, 4096), 0, &pattern(1, 4096));
        assert_same(&gpu.get(&memory.buffer(0, 4096)), &pattern(1, 4096), memory_type);
    }
}

fn buffers_are_made_and_destroyed_again_and_again<F: Fixture>(gpu: &Gpu<F>) {
    let memory = gpu.allocate(gpu.buffer_types()[0], gpu.requirements(4096).size);
    for _ in 0..1000 {
        let buffers = [memory.buffer(0, 4096), memory.buffer(0, 1)];
        drop(buffers);
    }
}

fn dedicated_memory_is_as_large_as_the_requirements_say<F: Fixture>(gpu: &Gpu<F>) {
    for memory_type in gpu.visible_buffer_types() {
        for size in [1, 100, 65_537] {
            let heaps = || {
                let heaps = (0..gpu.properties().heaps.len()).map(|index| MemoryHeapIndex(index as u8));
                heaps.map(|heap| gpu.device().heap_budget(heap).usage).sum::<u64>()
            };
            let before = heaps();
            let buffer = gpu.try_dedicated_buffer(memory_type, size).unwrap();
            let needed = gpu.requirements(size).size;
            if gpu.fixture().budgets_are_exact() {
                assert_eq!(heaps(), before + needed);
            }
            let mapping = buffer.memory().map();
            mapping.put(0, &pattern(size, needed));
            assert_same(&mapping.get(0..needed), &pattern(size, needed), (memory_type, size));
            assert_same(&gpu.get(&buffer), &pattern(size, needed)[..size as usize], (memory_type, size));
        }
    }
}

fn a_dedicated_buffer_works_in_every_memory_type_that_takes_buffers<F: Fixture>(gpu: &Gpu<F>) {
    for memory_type in gpu.buffer_types() {
        let dedicated = gpu.try_dedicated_buffer(memory_type, 4097).unwrap();
        if gpu.can_read_from(memory_type) {
            let to = gpu.buffer(gpu.target_for(memory_type), 4097);
            gpu.put(&dedicated, 0, &pattern(1, 4097));
            gpu.run(&[copy(&dedicated, 0, &to, 0, 4097)]);
            assert_same(&gpu.get(&to), &pattern(1, 4097), memory_type);
        }
        if gpu.can_write_to(memory_type) {
            let from = gpu.buffer(gpu.source_for(memory_type), 4097);
            gpu.put(&from, 0, &pattern(2, 4097));
            gpu.run(&[copy(&from, 0, &dedicated, 0, 4097)]);
            assert_same(&gpu.get(&dedicated), &pattern(2, 4097), memory_type);
        }
    }
}

fn a_refused_dedicated_buffer_leaves_nothing<F: Fixture>(gpu: &Gpu<F>) {
    gpu.fixture().expect_complaints("allocate: ");
    // That nothing is left is seen when the fixture finishes.
    let beyond = MemoryTypeIndex(gpu.properties().memory_types.len() as u8);
    for _ in 0..3 {
        assert!(gpu.try_dedicated_buffer(beyond, 4096).is_err());
        for memory_type in gpu.buffer_types() {
            assert!(gpu.try_dedicated_buffer(memory_type, 0).is_err());
            assert!(gpu.try_dedicated_buffer(memory_type, u64::MAX).is_err());
        }
    }
}
