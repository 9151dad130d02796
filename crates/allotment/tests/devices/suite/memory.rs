//! Getting memory from the driver, and giving it back.

use allotment::device::{
    BufferDesc, BufferDevice as _, DescriptionError, DescriptionLimit, DeviceError, MemoryDesc,
    MemoryDevice as _, MemoryHandle, MemoryHeapIndex, MemoryTypeIndex,
};

use crate::bytes::{assert_same, pattern};
use crate::fixture::{Fixture, Outcome, Test, tests};
use crate::gpu::{Gpu, RawMemory};

pub(super) fn all<F: Fixture>() -> Vec<Test<F>> {
    tests![F:
        memory_of_any_type_and_size_can_be_had,
        memory_of_no_bytes_is_refused,
        memory_beyond_the_largest_allocation_is_refused,
        memory_beyond_its_heap_is_refused,
        a_memory_type_that_does_not_exist_is_refused,
        as_many_memory_objects_as_the_limit_says_and_not_one_more,
        a_handle_is_the_same_as_a_number,
        live_handles_are_all_different,
        memory_that_was_freed_can_be_had_again,
        usage_follows_what_is_allocated_and_freed,
        memory_objects_never_share_bytes,
        threads_allocate_and_free_at_once,
    ]
}

const MIB: u64 = 1 << 20;

/// The counters that refused calls must not change, where the device counts bytes.
fn usage<F: Fixture>(gpu: &Gpu<F>) -> Vec<u64> {
    let heaps = (0..gpu.properties().heaps.len()).map(|index| MemoryHeapIndex(index as u8));
    let usage = heaps.map(|heap| gpu.device().heap_budget(heap).usage);
    if gpu.fixture().budgets_are_exact() { usage.collect() } else { Vec::new() }
}

/// Asks for memory that cannot be had, and looks whether anything changed.
#[track_caller]
fn assert_refused<F: Fixture>(gpu: &Gpu<F>, memory_type: MemoryTypeIndex, size: u64) -> DeviceError {
    gpu.fixture().expect_complaints("allocate: ");
    let before = usage(gpu);
    let Err(error) = gpu.try_allocate(memory_type, size) else {
        panic!("{size} bytes of memory type {memory_type} were allocated");
    };
    assert_ne!(error, DeviceError::Lost);
    assert_eq!(usage(gpu), before, "{error}");
    error
}

/// The error for more than one memory object may have.
fn above<F: Fixture>(gpu: &Gpu<F>, requested: u64) -> DeviceError {
    let (limit, most) = (DescriptionLimit::AllocationSize, gpu.properties().limits.max_allocation_size);
    DescriptionError::AboveLimit { limit, requested, most }.into()
}

fn heap_size<F: Fixture>(gpu: &Gpu<F>, memory_type: MemoryTypeIndex) -> u64 {
    let heap = gpu.properties().memory_type(memory_type).unwrap().heap;
    gpu.properties().heaps[heap.get()].size
}

fn memory_of_any_type_and_size_can_be_had<F: Fixture>(gpu: &Gpu<F>) {
    for memory_type in gpu.types() {
        // A quarter of a heap is free on any machine that tests run on.
        let most = gpu.properties().limits.max_allocation_size.min(heap_size(gpu, memory_type) / 4);
        for size in [1, 2, 63, 255, 4096, 65_537, MIB, 16 * MIB + 1, 256 * MIB] {
            drop(gpu.allocate(memory_type, size.min(most)));
        }
    }
}

fn memory_of_no_bytes_is_refused<F: Fixture>(gpu: &Gpu<F>) {
    for memory_type in gpu.types() {
        assert_eq!(assert_refused(gpu, memory_type, 0), DescriptionError::ZeroSize.into());
    }
}

fn memory_beyond_the_largest_allocation_is_refused<F: Fixture>(gpu: &Gpu<F>) {
    let largest = gpu.properties().limits.max_allocation_size;
    for memory_type in gpu.types() {
        for size in [largest.saturating_add(1), u64::MAX - 1, u64::MAX] {
            if size > largest {
                assert_eq!(assert_refused(gpu, memory_type, size), above(gpu, size));
            }
        }
    }
}

fn memory_beyond_its_heap_is_refused<F: Fixture>(gpu: &Gpu<F>) {
    for memory_type in gpu.types() {
        let size = heap_size(gpu, memory_type) + 1;
        let error = assert_refused(gpu, memory_type, size);
        if size > gpu.properties().limits.max_allocation_size {
            assert_eq!(error, above(gpu, size));
        } else {
            assert!(error.is_out_of_memory(), "{error}");
        }
    }
}

fn a_memory_type_that_does_not_exist_is_refused<F: Fixture>(gpu: &Gpu<F>) {
    // A safe call, so the device has to look.
    for index in [gpu.properties().memory_types.len() as u8, u8::MAX] {
        let memory_type = MemoryTypeIndex(index);
        let names_another = |error| match error {
            DeviceError::WrongMemoryType { memory_type: wrong, allowed } => {
                wrong == memory_type && gpu.types().into_iter().any(|there| allowed.contains(there))
            }
            _ => false,
        };
        assert!(names_another(assert_refused(gpu, memory_type, 4096)), "memory type {index}");
        let buffer = gpu
            .device()
            .create_dedicated_buffer(&BufferDesc::new(64).into(), &MemoryDesc::new(memory_type, 1));
        assert!(buffer.is_err_and(names_another), "memory type {index}");
    }
}

fn as_many_memory_objects_as_the_limit_says_and_not_one_more<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    let limit = gpu.properties().limits.max_allocation_count;
    if limit > 8192 {
        return Outcome::DoesNotApply("there is no limit worth the name on memory objects");
    }
    let memory_type = gpu.types()[0];
    let mut memory: Vec<_> = (0..limit).map(|_| gpu.allocate(memory_type, 64)).collect();
    let before = usage(gpu);
    let one_more = gpu.try_allocate(memory_type, 64).err();
    assert_eq!(one_more, Some(DeviceError::TooManyAllocations));
    let dedicated = gpu.try_dedicated_buffer(gpu.buffer_types()[0], 64).err();
    assert_eq!(dedicated, Some(DeviceError::TooManyAllocations));
    assert_eq!(usage(gpu), before, "what is refused takes nothing");
    memory.pop();
    memory.push(gpu.allocate(memory_type, 64));
    assert!(gpu.try_allocate(memory_type, 64).is_err(), "one was freed, one was taken");
    Outcome::Ran
}

fn a_handle_is_the_same_as_a_number<F: Fixture>(gpu: &Gpu<F>) {
    let memory: Vec<_> = (0..16).map(|_| gpu.allocate(gpu.types()[0], 4096)).collect();
    for memory in &memory {
        assert_eq!(RawMemory::<F>::from_raw(memory.handle().to_raw()), memory.handle());
    }
}

fn live_handles_are_all_different<F: Fixture>(gpu: &Gpu<F>) {
    let mut live = Vec::new();
    for round in 0..4 {
        for memory_type in gpu.types() {
            live.extend((0..8).map(|_| gpu.allocate(memory_type, 4096)));
        }
        for (i, one) in live.iter().enumerate() {
            for other in &live[..i] {
                assert_ne!(one.handle(), other.handle());
                assert_ne!(one.handle().to_raw(), other.handle().to_raw());
            }
        }
        // Every other goes, so that the next round may be given their places.
        let mut index = round;
        live.retain(|_| {
            index += 1;
            index % 2 == 0
        });
    }
}

fn memory_that_was_freed_can_be_had_again<F: Fixture>(gpu: &Gpu<F>) {
    for memory_type in gpu.types() {
        let heap = heap_size(gpu, memory_type);
        let size = (256 * MIB).min(heap / 4);
        // More than twice what the heap has, one after the other; not forever on the largest.
        for _ in 0..(2 * heap / size + 1).min(80) {
            drop(gpu.allocate(memory_type, size));
        }
    }
}

fn usage_follows_what_is_allocated_and_freed<F: Fixture>(gpu: &Gpu<F>) {
    for memory_type in gpu.types() {
        let size = (64 * MIB).min(heap_size(gpu, memory_type) / 8);
        let heap = gpu.properties().memory_type(memory_type).unwrap().heap;
        let of_heap = || gpu.device().heap_budget(heap).usage;
        let (before, others) = (of_heap(), usage(gpu));
        let memory = [gpu.allocate(memory_type, size), gpu.allocate(memory_type, size)];
        let during = of_heap();
        if gpu.fixture().budgets_are_exact() {
            assert_eq!(during, before + 2 * size);
            for (index, (now, before)) in usage(gpu).into_iter().zip(&others).enumerate() {
                assert!(index == heap.get() || now == *before, "heap {index} has nothing to do with it");
            }
        }
        drop(memory);
        if gpu.fixture().budgets_are_exact() {
            assert_eq!(of_heap(), before);
        }
        // A driver's figure may be the system's, which counts pages when they are touched, and others' too.
    }
}

fn memory_objects_never_share_bytes<F: Fixture>(gpu: &Gpu<F>) {
    for memory_type in gpu.buffer_types() {
        let size = |i: u64| 1 + i * 977;
        let buffers: Vec<_> = (0..24).map(|i| gpu.buffer(memory_type, size(i))).collect();
        for (i, buffer) in (0..).zip(&buffers) {
            gpu.put(buffer, 0, &pattern(i, size(i)));
        }
        for (i, buffer) in (0..).zip(&buffers) {
            assert_same(&gpu.get(buffer), &pattern(i, size(i)), (memory_type, i));
        }
    }
}

fn threads_allocate_and_free_at_once<F: Fixture>(gpu: &Gpu<F>) {
    let types = gpu.types();
    let before = usage(gpu);
    std::thread::scope(|scope| {
        for thread in 0..4usize {
            let types = &types;
            scope.spawn(move || {
                let mut kept = Vec::new();
                for i in 0..64usize {
                    let memory_type = types[(i + thread) % types.len()];
                    kept.push(gpu.allocate(memory_type, 1 + (i as u64 * 4099)));
                    if i % 3 == 0 {
                        kept.swap_remove(i % kept.len());
                    }
                }
                let mut handles: Vec<_> = kept.iter().map(|memory| memory.handle().to_raw()).collect();
                handles.sort_unstable();
                handles.dedup();
                assert_eq!(handles.len(), kept.len());
            });
        }
    });
    assert_eq!(usage(gpu), before);
}
