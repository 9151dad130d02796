//! Mapped memory, as the CPU sees it.

use crate::bytes::{assert_same, pattern};
use crate::fixture::{Fixture, Outcome, Test, tests};
use crate::gpu::{Gpu, copy};

pub(super) fn all<F: Fixture>() -> Vec<Test<F>> {
    tests![F:
        all_bytes_of_mapped_memory_can_be_written_and_read,
        a_mapped_address_is_a_multiple_of_64,
        mapped_objects_lie_apart,
        bytes_outlast_an_unmap,
        mapped_memory_may_be_freed_without_an_unmap,
        any_thread_writes_and_reads_mapped_bytes,
        what_was_flushed_is_seen_by_the_device,
        what_the_device_wrote_is_seen_after_an_invalidate,
        flush_and_invalidate_reach_the_last_byte,
    ]
}

/// Around a word, an atom, a page and a map's alignment, and not a multiple of any.
const SIZES: [u64; 9] = [1, 2, 63, 64, 65, 257, 4096, 4097, (1 << 20) + 3];

fn all_bytes_of_mapped_memory_can_be_written_and_read<F: Fixture>(gpu: &Gpu<F>) {
    for memory_type in gpu.visible_types() {
        for size in SIZES {
            let mapping = gpu.allocate(memory_type, size).map();
            let bytes = pattern(size, size);
            mapping.write(0, &bytes);
            assert_same(&mapping.read(0..size), &bytes, (memory_type, size));
        }
        // As large as a block of a real application. All of it must be there; a byte in each page says so.
        let size = 64 << 20;
        let mapping = gpu.allocate(memory_type, size).map();
        for at in (0..size).step_by(1 << 16).chain([size - 1]) {
            mapping.write(at, &[(at >> 16) as u8]);
        }
        for at in (0..size).step_by(1 << 16).chain([size - 1]) {
            assert_eq!(
                mapping.read(at..at + 1),
                [(at >> 16) as u8],
                "byte {at} of memory type {memory_type}"
            );
        }
    }
}

fn a_mapped_address_is_a_multiple_of_64<F: Fixture>(gpu: &Gpu<F>) {
    for memory_type in gpu.visible_types() {
        for size in SIZES {
            let address = gpu.allocate(memory_type, size).map().first().addr().get();
            assert_eq!(address % 64, 0, "{size} bytes of memory type {memory_type} at {address:#x}");
        }
    }
}

fn mapped_objects_lie_apart<F: Fixture>(gpu: &Gpu<F>) {
    let mut mappings = Vec::new();
    for memory_type in gpu.visible_types() {
        for size in SIZES {
            let memory = gpu.allocate(memory_type, size);
            mappings.push((memory.map(), size));
        }
    }
    let mut ranges: Vec<_> =
        mappings.iter().map(|(mapping, size)| (mapping.first().addr().get() as u64, *size)).collect();
    ranges.sort_unstable();
    for pair in ranges.windows(2) {
        assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{pair:x?}");
    }
}

fn bytes_outlast_an_unmap<F: Fixture>(gpu: &Gpu<F>) {
    for memory_type in gpu.visible_types() {
        let memory = gpu.allocate(memory_type, 5000);
        let bytes = pattern(1, 5000);
        memory.map().put(0, &bytes);
        for _ in 0..3 {
            assert_same(&memory.map().get(0..5000), &bytes, memory_type);
        }
    }
}

fn mapped_memory_may_be_freed_without_an_unmap<F: Fixture>(gpu: &Gpu<F>) {
    for memory_type in gpu.visible_types() {
        for _ in 0..3 {
            let mapping = gpu.allocate(memory_type, 5000).map();
            mapping.write(0, &[1; 5000]);
            mapping.free_mapped();
        }
    }
}

fn any_thread_writes_and_reads_mapped_bytes<F: Fixture>(gpu: &Gpu<F>) {
    const PART: u64 = 10_007;
    for memory_type in gpu.visible_types() {
        let mapping = gpu.allocate(memory_type, 4 * PART).map();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let mapping = &mapping;
                scope.spawn(move || mapping.write(thread * PART, &pattern(thread, PART)));
            }
        });
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let mapping = &mapping;
                // Each reads what another wrote.
                let part = (thread + 1) % 4;
                scope.spawn(move || {
                    let found = mapping.read(part * PART..(part + 1) * PART);
                    assert_same(&found, &pattern(part, PART), (memory_type, part));
                });
            }
        });
    }
}

fn what_was_flushed_is_seen_by_the_device<F: Fixture>(gpu: &Gpu<F>) {
    for memory_type in gpu.visible_buffer_types().into_iter().filter(|&t| gpu.can_read_from(t)) {
        let [from, to] = [memory_type, gpu.target_types()[0]].map(|t| gpu.buffer(t, 4096));
        let mapping = from.memory().map();
        for round in 0..3 {
            let bytes = pattern(round, 4096);
            mapping.write(0, &bytes);
            // In three steps that meet inside atoms.
            for range in [0..1000, 1000..1001, 1001..4096] {
                from.memory().flush(&range);
            }
            gpu.run(&[copy(&from, 0, &to, 0, 4096)]);
            assert_same(&gpu.get(&to), &bytes, (memory_type, round));
        }
    }
}

fn what_the_device_wrote_is_seen_after_an_invalidate<F: Fixture>(gpu: &Gpu<F>) {
    for memory_type in gpu.visible_buffer_types().into_iter().filter(|&t| gpu.can_write_to(t)) {
        let [from, to] = [gpu.source_types()[0], memory_type].map(|t| gpu.buffer(t, 4096));
        let mapping = to.memory().map();
        for round in 0..3 {
            let bytes = pattern(round, 4096);
            gpu.put(&from, 0, &bytes);
            gpu.run(&[copy(&from, 0, &to, 0, 4096)]);
            for range in [0..1000, 1000..1001, 1001..4096] {
                to.memory().invalidate(&range);
            }
            assert_same(&mapping.read(0..4096), &bytes, (memory_type, round));
        }
    }
}

fn flush_and_invalidate_reach_the_last_byte<F: Fixture>(gpu: &Gpu<F>) {
    // The end of memory counts as the end of an atom, wherever it lies.
    for memory_type in gpu.visible_buffer_types() {
        for size in SIZES.into_iter().filter(|&size| size < 1 << 20) {
            let needed = gpu.requirements(size).size;
            let memory = gpu.allocate(memory_type, needed + 1);
            let mapping = memory.map();
            mapping.put(0, &pattern(2, needed + 1));
            let first = memory.buffer(0, size);
            if gpu.can_read_from(memory_type) {
                let second = gpu.buffer(gpu.target_for(memory_type), size);
                gpu.run(&[copy(&first, 0, &second, 0, size)]);
                assert_same(&gpu.get(&second), &pattern(2, size), (memory_type, size));
            }
            gpu.put(&first, 0, &pattern(3, size));
            assert_same(&mapping.get(0..size), &pattern(3, size), (memory_type, size));
            let rest = mapping.get(size..needed + 1);
            assert_same(&rest, &pattern(2, needed + 1)[size as usize..], (memory_type, size));
        }
    }
}
