//! Copies by queues: the right bytes to the right place, and no others.

use allotment::device::QueueIndex;

use crate::bytes::{Random, assert_same, pattern};
use crate::fixture::{Fixture, Outcome, Test, tests};
use crate::gpu::{Gpu, copy};

pub(super) fn all<F: Fixture>() -> Vec<Test<F>> {
    tests![F:
        a_copy_moves_its_bytes_and_no_others_between_any_memory_types,
        a_large_copy_arrives_whole,
        many_copies_in_one_submission_all_arrive,
        bytes_move_within_a_buffer,
        bytes_move_between_buffers_in_the_same_memory,
        every_queue_copies,
        any_sequence_of_copies_does_what_a_model_does,
    ]
}

/// Overwrites in `bytes` what a copy overwrites.
fn copy_in_model(from: &[u8], from_offset: u64, to: &mut [u8], to_offset: u64, size: u64) {
    let source = &from[from_offset as usize..][..size as usize];
    to[to_offset as usize..][..size as usize].copy_from_slice(source);
}

fn a_copy_moves_its_bytes_and_no_others_between_any_memory_types<F: Fixture>(gpu: &Gpu<F>) {
    const SIZE: u64 = 5003;
    // From, to, size: both ends, and each way to miss a word, an atom or a page.
    const COPIES: [(u64, u64, u64); 13] = [
        (0, 0, SIZE),
        (0, 0, 1),
        (SIZE - 1, SIZE - 1, 1),
        (0, SIZE - 1, 1),
        (SIZE - 1, 0, 1),
        (4095, 4097, 7),
        (0, 3, 8),
        (5, 5, 64),
        (64, 128, 64),
        (63, 65, 129),
        (904, 1, 4098),
        (1, 0, SIZE - 1),
        (700, 12, 4211),
    ];
    for from_type in gpu.source_types() {
        for to_type in gpu.target_types() {
            let [from, to] = [gpu.buffer(from_type, SIZE), gpu.buffer(to_type, SIZE)];
            let source = pattern(1, SIZE);
            gpu.put(&from, 0, &source);
            for (round, (from_offset, to_offset, size)) in (2..).zip(COPIES) {
                let mut expected = pattern(round, SIZE);
                gpu.put(&to, 0, &expected);
                gpu.run(&[copy(&from, from_offset, &to, to_offset, size)]);
                copy_in_model(&source, from_offset, &mut expected, to_offset, size);
                let what = (from_type, to_type, (from_offset, to_offset, size));
                assert_same(&gpu.get(&to), &expected, what);
            }
            assert_same(&gpu.get(&from), &source, "the source");
        }
    }
}

fn a_large_copy_arrives_whole<F: Fixture>(gpu: &Gpu<F>) {
    const SIZE: u64 = (4 << 20) + 3;
    let types = [gpu.source_types()[0], *gpu.target_types().last().unwrap()];
    let [from, to] = types.map(|t| gpu.buffer(t, SIZE));
    let bytes = pattern(1, SIZE);
    gpu.put(&from, 0, &bytes);
    gpu.run(&[copy(&from, 0, &to, 0, SIZE)]);
    assert_same(&gpu.get(&to), &bytes, types);
}

fn many_copies_in_one_submission_all_arrive<F: Fixture>(gpu: &Gpu<F>) {
    const PART: u64 = 37;
    const PARTS: u64 = 300;
    for memory_type in gpu.buffer_types() {
        let ends = [gpu.source_for(memory_type), gpu.target_for(memory_type)];
        let [from, to] = ends.map(|t| gpu.buffer(t, PARTS * PART));
        let source = pattern(1, PARTS * PART);
        let mut expected = pattern(2, PARTS * PART);
        gpu.put(&from, 0, &source);
        gpu.put(&to, 0, &expected);
        // They run in any order, so no two of them write to the same place. One part in three stays.
        let moves = (0..PARTS).filter(|part| part % 3 != 0).map(|part| (part, PARTS - 1 - part));
        let moves: Vec<_> = moves.map(|(from, to)| (from * PART, to * PART)).collect();
        let copies: Vec<_> = moves.iter().map(|&(a, b)| copy(&from, a, &to, b, PART)).collect();
        gpu.run(&copies);
        for (from_offset, to_offset) in moves {
            copy_in_model(&source, from_offset, &mut expected, to_offset, PART);
        }
        assert_same(&gpu.get(&to), &expected, memory_type);
    }
}

fn bytes_move_within_a_buffer<F: Fixture>(gpu: &Gpu<F>) {
    for memory_type in gpu.two_way_types() {
        let buffer = gpu.buffer(memory_type, 5000);
        let mut expected = pattern(1, 5000);
        gpu.put(&buffer, 0, &expected);
        // Ranges that touch do not overlap.
        for (from_offset, to_offset, size) in [(0, 2500, 2500), (4999, 0, 1), (1001, 3, 998), (10, 11, 1)] {
            gpu.run(&[copy(&buffer, from_offset, &buffer, to_offset, size)]);
            copy_in_model(&expected.clone(), from_offset, &mut expected, to_offset, size);
            assert_same(&gpu.get(&buffer), &expected, (memory_type, from_offset, to_offset, size));
        }
    }
}

fn bytes_move_between_buffers_in_the_same_memory<F: Fixture>(gpu: &Gpu<F>) {
    let needs = gpu.requirements(4096);
    let stride = needs.alignment.align_up(needs.size);
    for memory_type in gpu.two_way_types() {
        let memory = gpu.allocate(memory_type, 2 * stride);
        let [from, to] = [memory.buffer(stride, 4096), memory.buffer(0, 4096)];
        let mut expected = pattern(2, 4096);
        gpu.put(&from, 0, &pattern(1, 4096));
        gpu.put(&to, 0, &expected);
        gpu.run(&[copy(&from, 5, &to, 1000, 3001)]);
        copy_in_model(&pattern(1, 4096), 5, &mut expected, 1000, 3001);
        assert_same(&gpu.get(&to), &expected, memory_type);
        assert_same(&gpu.get(&from), &pattern(1, 4096), memory_type);
    }
}

fn every_queue_copies<F: Fixture>(gpu: &Gpu<F>) {
    for (seed, queue) in (1..).zip(gpu.queues()) {
        for memory_type in gpu.buffer_types() {
            let ends = [gpu.source_for(memory_type), gpu.target_for(memory_type)];
            let [from, to] = ends.map(|t| gpu.buffer(t, 4097));
            gpu.put(&from, 0, &pattern(seed, 4097));
            gpu.wait(gpu.submit(queue, &[], &[copy(&from, 0, &to, 0, 4097)]));
            assert_same(&gpu.get(&to), &pattern(seed, 4097), (queue, memory_type));
        }
    }
}

fn any_sequence_of_copies_does_what_a_model_does<F: Fixture>(gpu: &Gpu<F>) {
    const SIZE: u64 = 3001;
    let types = gpu.buffer_types();
    let types: [_; 4] = core::array::from_fn(|i| types[i % types.len()]);
    let pairs = (0..4).flat_map(|from| (1..4).map(move |on| (from, (from + on) % 4)));
    let pairs: Vec<_> =
        pairs.filter(|&(from, to)| gpu.can_read_from(types[from]) && gpu.can_write_to(types[to])).collect();
    let queues: Vec<QueueIndex> = gpu.queues().collect();
    let mut random = Random::new(9);
    let buffers = types.map(|t| gpu.buffer(t, SIZE));
    let mut model: Vec<_> = (0..4).map(|i| pattern(i, SIZE)).collect();
    for (buffer, bytes) in buffers.iter().zip(&model) {
        gpu.put(buffer, 0, bytes);
    }
    let mut last = None;
    for _ in 0..200 {
        let (from, to) = pairs[random.below(pairs.len() as u64) as usize];
        let most = if random.below(2) == 0 { 9 } else { SIZE };
        let size = 1 + random.below(most);
        let [from_offset, to_offset] = [(); 2].map(|()| random.below(SIZE - size + 1));
        let queue = queues[random.below(queues.len() as u64) as usize];
        let copies = [copy(&buffers[from], from_offset, &buffers[to], to_offset, size)];
        // Each works on what the one before left, on whichever queue.
        last = Some(gpu.submit(queue, last.as_slice(), &copies));
        let source = model[from].clone();
        copy_in_model(&source, from_offset, &mut model[to], to_offset, size);
    }
    gpu.wait(last.unwrap());
    for (i, (buffer, bytes)) in buffers.iter().zip(&model).enumerate() {
        assert_same(&gpu.get(buffer), bytes, i);
    }
}
