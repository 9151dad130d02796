//! Resources that are bound to what a pass moves: safe calls never copy to where they were.

use core::time::Duration;
use std::sync::Arc;

use allotment::device::simulated::SimulatedGpu;
use allotment::device::{BufferCopy, BufferDesc, QueueDevice as _, QueueIndex, Submission};
use allotment::lifetime::{DeletionQueue, SubmissionTracker};
use allotment::memory::blocks::{BlockSizes, EmptyBlockPolicy};
use allotment::memory::defragmentation::{
    Defragmentation, DefragmentationDesc, DefragmentationStrategy, NextPass, PassLimits,
};
use allotment::memory::names::ShortName;
use allotment::memory::{AccessError, MappedBuffer, Movability, OwningAllocator, Transfer, TransferError};
use allotment::upload::{UploadError, Uploader, UploaderDesc};
use allotment::{Allocation, Allocator, AllocatorDesc, MemoryUsage};

use crate::rig::{COARSE, DISCRETE, KIB, Wanted, profile, wanted};

/// Four of these fill a block.
const SIZE: u64 = 64 * KIB;

/// An allocator of small blocks that keeps no empty one, and owners over it.
struct Stage {
    device: SimulatedGpu,
    tracker: SubmissionTracker,
    memory: OwningAllocator<SimulatedGpu>,
}

impl Stage {
    fn new(name: &str) -> Self {
        let device = SimulatedGpu::new(profile(name));
        let tracker = SubmissionTracker::new(device.clone()).unwrap();
        let mut desc = AllocatorDesc::default();
        (desc.block_sizes, desc.empty_blocks, desc.threads) =
            (BlockSizes::fixed(4 * SIZE), EmptyBlockPolicy::NONE, 1);
        let allocator = Arc::new(Allocator::new(device.clone(), desc).unwrap());
        let memory = OwningAllocator::new(&allocator, &DeletionQueue::new(&tracker)).unwrap();
        Self { device, tracker, memory }
    }

    fn allocator(&self) -> &Allocator<SimulatedGpu> {
        self.memory.allocator()
    }

    /// Moves all that passes may move, and says how many moves were handed out.
    fn defragment(&self) -> usize {
        let desc = DefragmentationDesc::new(DefragmentationStrategy::Full).with_limits(PassLimits::NONE);
        let mut run = Defragmentation::new(self.allocator(), None, desc).unwrap();
        let mut moves = 0;
        loop {
            match run.next_pass() {
                NextPass::Moves(pass) => {
                    moves += pass.moves().len();
                    pass.end();
                }
                NextPass::LimitReached => {}
                NextPass::Done => break,
            }
        }
        drop(run);
        self.allocator().trim();
        moves
    }

    fn place(&self, allocation: &Allocation) -> (allotment::device::simulated::SimulatedMemory, u64) {
        let place = self.allocator().location(allocation).unwrap();
        (place.memory, place.offset)
    }

    fn finish(self) {
        let Self { device, tracker, memory } = self;
        tracker.wait_idle(Duration::from_secs(10)).unwrap();
        memory.deletion_queue().reclaim();
        memory.allocator().check_invariants();
        assert_eq!(memory.allocator().statistics().allocations, 0);
        drop(memory);
        assert_eq!(device.usage().memory_objects, 0);
        assert_eq!(device.validation_errors(), Vec::<String>::new());
    }
}

fn movable(memory_usage: MemoryUsage) -> Wanted {
    wanted(0, memory_usage).with_movability(Movability::Copied)
}

/// One of every four, so that each block has one of them.
fn every_fourth<T>(all: Vec<T>, mut gone: impl FnMut(T)) -> Vec<T> {
    let mut kept = Vec::new();
    for (i, one) in all.into_iter().enumerate() {
        if i % 4 == 0 { kept.push(one) } else { gone(one) }
    }
    kept
}

#[test]
fn a_copy_by_a_buffer_that_a_pass_moved_its_memory_from_is_refused() {
    // One machine's CPU reaches the memory, and the other's does not.
    for (name, memory_usage) in
        [(COARSE, MemoryUsage::GpuOnly), (DISCRETE, MemoryUsage::GpuOnly), (DISCRETE, MemoryUsage::Upload)]
    {
        let stage = Stage::new(name);
        let allocator = stage.allocator();
        let make = |_| allocator.create_buffer(&BufferDesc::new(SIZE), &movable(memory_usage)).unwrap();
        let buffers = every_fourth((0..16).map(make).collect(), |it| allocator.destroy_buffer(it).unwrap());
        let before: Vec<_> = buffers.iter().map(|it| stage.place(it.allocation())).collect();
        assert_eq!(stage.defragment(), 3);
        for by_queue in [false, true] {
            let transfer = Transfer::new(allocator, QueueIndex(0), SIZE).unwrap();
            let mut transfer = if by_queue { transfer.through_the_queue() } else { transfer };
            for (buffer, before) in buffers.iter().zip(&before) {
                let stayed = stage.place(buffer.allocation()) == *before;
                let expected = if stayed {
                    Ok(())
                } else {
                    Err(TransferError::Access(AccessError::Moved { name: ShortName::NONE }))
                };
                assert_eq!(transfer.upload_to(buffer, 0, &[7; 100]), expected, "{name}, {memory_usage}");
                assert_eq!(
                    transfer.download_from(buffer, 0, &mut [0; 100]),
                    expected,
                    "{name}, {memory_usage}"
                );
                // The memory itself is where its token says.
                assert_eq!(transfer.upload(buffer.allocation(), 0, &[7; 100]), Ok(()));
            }
        }
        // Nor by an owner that takes it now.
        let uploader = Uploader::new(&stage.memory, UploaderDesc::default()).unwrap();
        for (buffer, before) in buffers.into_iter().zip(&before) {
            let stayed = stage.place(buffer.allocation()) == *before;
            let owned = stage.memory.own_buffer(buffer).unwrap();
            for refused in [uploader.initialize(&owned, 0, &[7; 100]), uploader.update(&owned, 0, &[7; 100])]
            {
                let is_moved = matches!(refused, Err(UploadError::Access(AccessError::Moved { .. })));
                assert_eq!(
                    (is_moved, refused.is_ok()),
                    (!stayed, stayed),
                    "{name}, {memory_usage}: {refused:?}"
                );
            }
        }
        drop(uploader);
        stage.finish();
    }
}

#[test]
fn what_has_an_owner_stays_where_it_is_whatever_its_description_allows() {
    let stage = Stage::new(COARSE);
    let memory = &stage.memory;
    let desc = movable(MemoryUsage::GpuOnly);
    let buffer = |_| memory.create_buffer(&BufferDesc::new(SIZE), &desc).unwrap();
    let buffers = every_fourth((0..16).map(buffer).collect(), drop);
    let desc = wanted(SIZE, MemoryUsage::GpuOnly).with_movability(Movability::Copied);
    let raw = |_| memory.allocate(&desc.requirements, &desc);
    let raws = every_fourth((0..16).map(raw).map(Result::unwrap).collect(), drop);
    memory.deletion_queue().reclaim();
    let places = || -> Vec<_> {
        let buffers = buffers.iter().map(|it| it.with_raw(|raw| stage.place(raw.allocation())));
        buffers.chain(raws.iter().map(|it| stage.place(it))).collect()
    };
    let before = places();
    assert_eq!(stage.defragment(), 0);
    assert_eq!(places(), before);
    let uploader = Uploader::new(memory, UploaderDesc::default()).unwrap();
    for buffer in &buffers {
        uploader.update(buffer, 0, &[7; 1000]).unwrap();
    }
    uploader.submit().unwrap();
    drop((uploader, buffers, raws));
    stage.finish();
}

#[test]
fn a_buffer_that_gets_an_owner_while_a_pass_is_open_stays_where_it_is() {
    let stage = Stage::new(COARSE);
    let (memory, allocator) = (&stage.memory, stage.allocator());
    let make = |_| allocator.create_buffer(&BufferDesc::new(SIZE), &movable(MemoryUsage::GpuOnly)).unwrap();
    let buffers = every_fourth((0..8).map(make).collect(), |it| allocator.destroy_buffer(it).unwrap());
    let mut buffers: Vec<_> = buffers.into_iter().map(Some).collect();
    let desc = DefragmentationDesc::new(DefragmentationStrategy::Full).with_limits(PassLimits::NONE);
    let mut run = Defragmentation::new(allocator, None, desc).unwrap();
    let NextPass::Moves(pass) = run.next_pass() else { panic!("there is something to move") };
    let moved = pass.moves()[0].id();
    let found = buffers.iter_mut().find(|it| it.as_ref().is_some_and(|it| it.allocation().id() == moved));
    let buffer = found.and_then(Option::take).unwrap();
    let before = stage.place(buffer.allocation());
    let owned = memory.own_buffer(buffer).unwrap();
    // It does not move, so it can be written as ever.
    let uploader = Uploader::new(memory, UploaderDesc::default()).unwrap();
    uploader.update(&owned, 0, &[7; 1000]).unwrap();
    uploader.submit().unwrap();
    pass.end();
    drop(run);
    assert_eq!(owned.with_raw(|raw| stage.place(raw.allocation())), before);
    uploader.update(&owned, 1000, &[8; 1000]).unwrap();
    uploader.submit().unwrap();
    stage.tracker.wait_idle(Duration::from_secs(10)).unwrap();
    let (mut bytes, transfer) = (vec![0; 2000], Transfer::new(allocator, QueueIndex(0), SIZE));
    owned.with_raw(|raw| transfer.unwrap().download_from(raw, 0, &mut bytes)).unwrap();
    assert_eq!((&bytes[..1000], &bytes[1000..]), (&[7; 1000][..], &[8; 1000][..]));
    assert_eq!(stage.defragment(), 1, "the other one is still moved by hand");
    drop((uploader, owned));
    buffers.into_iter().flatten().for_each(|buffer| allocator.destroy_buffer(buffer).unwrap());
    stage.finish();
}

#[test]
fn a_buffer_that_was_dropped_keeps_its_memory_while_a_queue_reads_it() {
    let stage = Stage::new(COARSE);
    let memory = &stage.memory;
    let readback = wanted(0, MemoryUsage::Readback);
    let back = MappedBuffer::new(memory.allocator(), &BufferDesc::new(SIZE), &readback).unwrap();
    let make = |_| memory.create_buffer(&BufferDesc::new(SIZE), &movable(MemoryUsage::GpuOnly)).unwrap();
    let mut buffers = every_fourth((0..12).map(make).collect(), drop);
    memory.deletion_queue().reclaim();
    let mut transfer = Transfer::new(memory.allocator(), QueueIndex(0), SIZE).unwrap();
    buffers[0].with_raw(|raw| transfer.upload_to(raw, 0, &vec![42; SIZE as usize])).unwrap();

    stage.device.pause_queues();
    let recording = stage.tracker.record("reads a buffer that is dropped");
    let read = buffers.remove(0);
    let copy =
        BufferCopy { from: &read.handle(), from_offset: 0, to: &back.handle(), to_offset: 0, size: SIZE };
    let work = Submission { copies: &[copy], ..Submission::default() };
    // SAFETY: the ranges lie in both buffers; the one is dropped after the recording began, so it is destroyed after its
    // submission, and the other lives until the queue is idle.
    recording.submit(QueueIndex(0), |queue| unsafe { stage.device.submit(queue, &work) }).unwrap();
    drop(read);
    memory.deletion_queue().reclaim();
    assert_eq!(memory.deletion_queue().statistics().pending, 1);
    stage.defragment();
    stage.device.resume_queues();
    stage.tracker.wait_idle(Duration::from_secs(10)).unwrap();
    let mut bytes = vec![0; SIZE as usize];
    back.read(0, &mut bytes).unwrap();
    assert!(bytes.iter().all(|&byte| byte == 42));
    drop((transfer, buffers, back));
    stage.finish();
}
