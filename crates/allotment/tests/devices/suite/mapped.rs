//! Persistently mapped buffers that move when their owners accept it.

use allotment::device::{BufferDesc, Device, QueueIndex};
use allotment::memory::MappedBuffer;
use allotment::memory::defragmentation::{AcceptedMove, Defragmenter, PassLimits};
use allotment::{AllocationOptions, MemoryUsage};

use super::allocator::KIB;
use super::moves::{defragmenter, stage};
use super::stage::{FIRST, Stage};
use crate::bytes::{assert_same, pattern};
use crate::fixture::{Fixture, Outcome, Test, tests};
use crate::gpu::{Gpu, PATIENCE};

pub(super) fn all<F: Fixture>() -> Vec<Test<F>> {
    tests![F:
        mapped_buffers_move_when_their_owners_accept_with_all_that_was_written,
        what_queues_write_to_mapped_buffers_comes_along_when_they_move,
        mapped_buffers_that_are_written_copied_stepped_accepted_and_dropped_in_any_order_hold_their_bytes,
    ]
}

const SIZE: u64 = 60 * KIB;

fn options(memory_usage: MemoryUsage) -> AllocationOptions {
    memory_usage.with_name("mapped")
}

struct Held<D: Device> {
    buffer: MappedBuffer<D>,
    bytes: Vec<u8>,
}

impl<D: Device> Held<D> {
    fn new(defragmenter: &Defragmenter<D>, memory_usage: MemoryUsage, seed: u64, size: u64) -> Self {
        let desc = BufferDesc::new(size).into();
        let mut buffer = defragmenter.create_mapped_buffer(&desc, &options(memory_usage)).unwrap();
        let bytes = pattern(seed, size);
        buffer.write(0, &bytes).unwrap();
        assert_eq!(buffer.accept_move().unwrap(), AcceptedMove::NotOffered, "opts in");
        Self { buffer, bytes }
    }

    #[track_caller]
    fn assert_holds(&self, what: impl core::fmt::Debug) {
        let mut found = vec![0; self.bytes.len()];
        self.buffer.read(0, &mut found).unwrap();
        assert_same(&found, &self.bytes, what);
    }
}

/// Every fourth of 64 mapped buffers.
fn scattered<F: Fixture>(
    stage: &Stage<'_, F>,
    defragmenter: &Defragmenter<F::Device>,
    memory_usage: MemoryUsage,
) -> Vec<Held<F::Device>> {
    let all: Vec<_> = (0..64).map(|seed| Held::new(defragmenter, memory_usage, seed, SIZE)).collect();
    let kept = all.into_iter().step_by(4).collect();
    stage.deletion_queue.reclaim();
    kept
}

fn mapped_buffers_move_when_their_owners_accept_with_all_that_was_written<F: Fixture>(gpu: &Gpu<F>) {
    for memory_usage in [MemoryUsage::Upload, MemoryUsage::Readback, MemoryUsage::DeviceUpload] {
        let stage = stage(gpu);
        let defragmenter = defragmenter(&stage);
        let mut all = scattered(&stage, &defragmenter, memory_usage);
        let before = stage.memory.allocator().statistics().blocks;
        for round in 0..50 {
            defragmenter.step(PassLimits::NONE).unwrap();
            for held in &mut all {
                // To the address that is valid now.
                held.buffer.write(round, &[round as u8; 5]).unwrap();
                held.bytes[round as usize..][..5].fill(round as u8);
                let (address, moves) = (held.buffer.address(), held.buffer.moves());
                let accepted = held.buffer.accept_move_within(PATIENCE).unwrap();
                assert_ne!(accepted, AcceptedMove::NotYet);
                let moved = accepted == AcceptedMove::Moved;
                assert_eq!(held.buffer.address() != address, moved);
                assert_eq!(held.buffer.moves(), moves + u32::from(moved));
                held.assert_holds((memory_usage, round));
            }
        }
        stage.deletion_queue.reclaim();
        let moves = all.iter().map(|held| held.buffer.moves()).sum::<u32>();
        let sums = defragmenter.statistics();
        let bytes = |held: &Held<F::Device>| {
            u64::from(held.buffer.moves()) * held.buffer.buffer().unwrap().info().size
        };
        assert_eq!((sums.moves, sums.bytes_moved), (moves, all.iter().map(bytes).sum()));
        let after = stage.memory.allocator().statistics().blocks;
        assert!(moves > 0 && after < before, "{moves} moves, {before} blocks are {after}");
        // A queue reads the new places, where it reads such memory at all.
        if memory_usage != MemoryUsage::Readback {
            for (at, held) in all.iter().enumerate() {
                stage.assert_holds(held.buffer.buffer().unwrap(), &held.bytes, at);
            }
        }
    }
}

/// Submits a copy of other bytes to a buffer.
fn write_by_queue<F: Fixture>(
    stage: &Stage<'_, F>,
    queue: QueueIndex,
    held: &mut Held<F::Device>,
    seed: u64,
) {
    held.bytes = pattern(seed, held.bytes.len() as u64);
    let source = stage.source(&held.bytes);
    let recording = stage.tracker.record("writes to a mapped buffer");
    let from = source.handle();
    stage.submit_copy(queue, recording, &[], [&from, &held.buffer.handle()], held.bytes.len() as u64);
}

fn what_queues_write_to_mapped_buffers_comes_along_when_they_move<F: Fixture>(gpu: &Gpu<F>) {
    let stage = stage(gpu);
    let defragmenter = defragmenter(&stage);
    let mut all = scattered(&stage, &defragmenter, MemoryUsage::Readback);
    let mut seed = 1000;
    for _ in 0..50 {
        defragmenter.step(PassLimits::NONE).unwrap();
        for held in &mut all {
            seed += 1;
            write_by_queue(&stage, FIRST, held, seed);
            // Where it has not completed, the buffer stays, and is asked again in the next round.
            held.buffer.accept_move().unwrap();
        }
        all.iter_mut().for_each(|held| _ = held.buffer.accept_move_within(PATIENCE).unwrap());
        stage.wait_idle();
        all.iter().for_each(|held| held.assert_holds("what the queue wrote"));
    }
    assert!(all.iter().map(|held| held.buffer.moves()).sum::<u32>() > 0);
}

fn mapped_buffers_that_are_written_copied_stepped_accepted_and_dropped_in_any_order_hold_their_bytes<
    F: Fixture,
>(
    gpu: &Gpu<F>,
) {
    let mut moves = 0;
    for (seed, memory_usage) in
        (1..5u64).zip([MemoryUsage::Upload, MemoryUsage::Readback].into_iter().cycle())
    {
        let stage = stage(gpu);
        let defragmenter = defragmenter(&stage);
        let mut state = seed;
        let mut below = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        let mut live: Vec<Held<F::Device>> = Vec::new();
        let mut open = None;
        for round in 0..600u64 {
            let at = below(live.len().max(1) as u64) as usize;
            let count = live.len();
            match (below(12), live.get_mut(at)) {
                (0..3, _) if count < 64 => {
                    live.push(Held::new(&defragmenter, memory_usage, round, SIZE / 2 + below(SIZE / 2)));
                }
                (3..5, Some(_)) if count > 20 => {
                    // Its last write may be in flight, by a handle that its drop retires.
                    drop(live.swap_remove(at));
                    stage.deletion_queue.reclaim();
                }
                // Not to the memory that uploads have on Direct3D 12.
                (5, Some(held)) if gpu.can_write_to(held.buffer.memory_type()) => {
                    write_by_queue(&stage, FIRST, held, 5000 + round);
                    // The CPU writes to the same bytes below.
                    if below(2) == 0 {
                        stage.wait_idle();
                    }
                }
                (6, _) => open = open.is_none().then(|| stage.tracker.record("open for some rounds")),
                (7, Some(_)) => stage.wait_idle(),
                (8, Some(held)) => {
                    stage.wait_idle();
                    // What a queue wrote beside it is not written over, where memory is not coherent.
                    held.assert_holds((seed, round));
                    let (offset, len) = (below(SIZE / 2 - 100), 1 + below(99));
                    let bytes = pattern(round, len);
                    held.buffer.write(offset, &bytes).unwrap();
                    held.bytes[offset as usize..][..len as usize].copy_from_slice(&bytes);
                }
                (9, _) => {
                    let limits = PassLimits::NONE.with_moves(1 + below(20) as u32);
                    (0..10).for_each(|_| _ = defragmenter.step(limits).unwrap());
                }
                (_, Some(_)) => {
                    for held in live.iter_mut().step_by(1 + below(3) as usize) {
                        let accepted = match below(2) {
                            0 => held.buffer.accept_move().unwrap(),
                            _ => held.buffer.accept_move_within(PATIENCE).unwrap(),
                        };
                        moves += u32::from(accepted == AcceptedMove::Moved);
                        assert!(accepted != AcceptedMove::Moved || open.is_none(), "a recording may write");
                    }
                }
                _ => {}
            }
            if round % 50 == 49 {
                stage.wait_idle();
                live.iter().for_each(|held| held.assert_holds((seed, round)));
                stage.memory.allocator().check_invariants();
            }
        }
        drop((open, live));
        drop(defragmenter);
        stage.wait_idle();
        stage.deletion_queue.reclaim();
    }
    assert!(moves > 0);
}
