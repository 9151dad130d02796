//! Memory that is not host-coherent: who forgets a flush or an invalidate sees old bytes.

use allotment::device::{MemoryProperties, MemoryTypeIndex};

use crate::bytes::{assert_same, pattern};
use crate::fixture::{Outcome, Test, tests};
use crate::gpu::{Gpu, copy};
use crate::kinds::simulated::SimulatedFixture;

type Simulated = Gpu<SimulatedFixture>;

pub(super) fn all() -> Vec<Test<SimulatedFixture>> {
    tests![SimulatedFixture:
        a_forgotten_flush_shows_as_old_bytes,
        a_forgotten_invalidate_shows_as_old_bytes,
        a_flush_publishes_its_range_only,
        an_invalidate_fetches_its_range_only,
        a_flush_takes_what_the_device_wrote_to_the_same_atom,
        coherent_memory_needs_neither,
    ]
}

const SIZE: u64 = 64 << 10;

/// One atom in the middle of a buffer.
fn atoms(gpu: &Simulated) -> core::ops::Range<u64> {
    let atom = gpu.properties().limits.non_coherent_atom_size.get();
    2 * atom..3 * atom
}

/// A memory type that is not coherent.
fn incoherent(gpu: &Simulated) -> MemoryTypeIndex {
    let mut types = gpu.visible_buffer_types();
    types.retain(|&t| !gpu.has(t, MemoryProperties::HOST_COHERENT));
    types[0]
}

fn a_forgotten_flush_shows_as_old_bytes(gpu: &Simulated) {
    let buffer = gpu.buffer(incoherent(gpu), SIZE);
    let mapping = buffer.memory().map();
    mapping.put(0, &pattern(1, SIZE));
    mapping.write(0, &pattern(2, SIZE));
    assert_same(&gpu.get(&buffer), &pattern(1, SIZE), "the device sees what was flushed");
    assert_same(&mapping.read(0..SIZE), &pattern(2, SIZE), "the CPU sees what it wrote");
    buffer.memory().flush(&(0..SIZE));
    assert_same(&gpu.get(&buffer), &pattern(2, SIZE), "late is not too late");
}

fn a_forgotten_invalidate_shows_as_old_bytes(gpu: &Simulated) {
    let buffer = gpu.buffer(incoherent(gpu), SIZE);
    let mapping = buffer.memory().map();
    mapping.put(0, &pattern(1, SIZE));
    gpu.put(&buffer, 0, &pattern(2, SIZE));
    assert_same(&mapping.read(0..SIZE), &pattern(1, SIZE), "the CPU sees what it knows");
    assert_same(&gpu.get(&buffer), &pattern(2, SIZE), "the device sees what it wrote");
    buffer.memory().invalidate(&(0..SIZE));
    assert_same(&mapping.read(0..SIZE), &pattern(2, SIZE), "late is not too late");
}

/// `old` with `range` of `new`.
fn mixed(old: u64, new: u64, range: &core::ops::Range<u64>) -> Vec<u8> {
    let range = range.start as usize..range.end as usize;
    let mut bytes = pattern(old, SIZE);
    bytes[range.clone()].copy_from_slice(&pattern(new, SIZE)[range]);
    bytes
}

fn a_flush_publishes_its_range_only(gpu: &Simulated) {
    let buffer = gpu.buffer(incoherent(gpu), SIZE);
    let mapping = buffer.memory().map();
    mapping.put(0, &pattern(1, SIZE));
    mapping.write(0, &pattern(2, SIZE));
    let atom = atoms(gpu);
    buffer.memory().flush(&atom);
    assert_same(&gpu.get(&buffer), &mixed(1, 2, &atom), "one atom");
}

fn an_invalidate_fetches_its_range_only(gpu: &Simulated) {
    let buffer = gpu.buffer(incoherent(gpu), SIZE);
    let mapping = buffer.memory().map();
    mapping.put(0, &pattern(1, SIZE));
    gpu.put(&buffer, 0, &pattern(2, SIZE));
    let atom = atoms(gpu);
    buffer.memory().invalidate(&atom);
    assert_same(&mapping.read(0..SIZE), &mixed(1, 2, &atom), "one atom");
}

fn a_flush_takes_what_the_device_wrote_to_the_same_atom(gpu: &Simulated) -> Outcome {
    // Why two allocations must not share an atom: the flush of one overwrites what the device wrote to
    // the other, as the write-back of a cache line does.
    let atom = atoms(gpu);
    let middle = usize::midpoint(atom.start as usize, atom.end as usize);
    if middle == atom.start as usize {
        return Outcome::DoesNotApply("an atom of one byte is not shared");
    }
    let buffer = gpu.buffer(incoherent(gpu), SIZE);
    let mapping = buffer.memory().map();
    mapping.put(0, &pattern(1, SIZE));
    gpu.put(&buffer, middle as u64, &pattern(2, SIZE)[middle..atom.end as usize]);
    mapping.write(atom.start, &pattern(3, SIZE)[atom.start as usize..middle]);
    buffer.memory().flush(&atom);
    let expected = mixed(1, 3, &(atom.start..middle as u64));
    assert_same(&gpu.get(&buffer), &expected, "the device's bytes are gone");
    Outcome::Ran
}

fn coherent_memory_needs_neither(gpu: &Simulated) {
    let mut types = gpu.visible_buffer_types();
    types.retain(|&t| gpu.has(t, MemoryProperties::HOST_COHERENT));
    let [from, to] = [(); 2].map(|()| gpu.buffer(types[0], SIZE));
    let [written, read] = [from.memory().map(), to.memory().map()];
    written.write(0, &pattern(1, SIZE));
    gpu.run(&[copy(&from, 0, &to, 0, SIZE)]);
    assert_same(&read.read(0..SIZE), &pattern(1, SIZE), "as it is");
}
