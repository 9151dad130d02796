//! A frame that does what the frame before it did calls no driver and allocates no host memory.
//!
//! A test binary of its own, since it counts what goes through the global allocator.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it should")]

#[path = "common/counting.rs"]
mod counting;
#[path = "common/wanted.rs"]
mod requests;

use core::time::Duration;
use std::sync::Arc;

use allotment::device::simulated::{Profile, SimulatedGpu, SimulatedRead};
use allotment::device::{
    BufferDesc, BufferUse, DescriptorDevice as _, DescriptorHeapDesc, DescriptorHeapType,
    DescriptorHeapVisibility, MemoryTypeIndex, QueueDevice as _, QueueIndex, ShaderVisibleHeapType,
    Submission, TimelinePoint, TimelineValue,
};
use allotment::lifetime::{DeletionQueue, ManualTimelines, SubmissionTracker};
use allotment::memory::blocks::{BlockSize, ManualTime, TimeSource};
use allotment::memory::reports::{DriverCallStatistics, LeakHandler};
use allotment::memory::{Dedicated, ExpectedLifetime, MappedBuffer, OwningAllocator};
use allotment::upload::{
    ReadbackRing, RingDesc, UploadPool, UploadPoolDesc, UploadRing, Uploader, UploaderDesc,
};
use allotment::{
    Algorithm, Alignment, Allocation, AllocationOptions, Allocator, AllocatorDesc, Gpu, GpuDesc, MemoryUsage,
    Pool, PoolDesc, Requirements, ResourceKind,
};

use requests::{AllocateWanted as _, Wanted};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

const FRAMES: usize = 1000;

/// Frames in which the allocator may get to know what is wanted.
const FIRST_FRAMES: usize = 5;

fn wanted(size: u64, memory_usage: MemoryUsage) -> Wanted {
    Wanted::new(Requirements::new(size), memory_usage)
}

/// The objects of a frame, each with the frame's own name.
fn wishes() -> Vec<Wanted> {
    let mut wishes = Vec::new();
    for i in 0..40 {
        let memory_usage =
            [MemoryUsage::Upload, MemoryUsage::GpuOnly, MemoryUsage::DeviceUpload, MemoryUsage::Readback]
                [i % 4];
        let lifetime = [ExpectedLifetime::Short, ExpectedLifetime::Long][i / 4 % 2];
        wishes.push(wanted(256 + 777 * i as u64, memory_usage).with_lifetime(lifetime).with_name("buffer"));
    }
    for i in 0..20 {
        let image =
            wanted(20 * KIB + 55 * KIB * i, MemoryUsage::GpuOnly).with_kind(ResourceKind::OptimalImage);
        wishes.push(image.with_name("image").with_category("texture"));
    }
    for mib in [5, 17, 33, 64] {
        wishes.push(wanted(mib * MIB, MemoryUsage::GpuOnly).with_name("render target"));
        wishes.push(
            wanted(mib * MIB + 12 * KIB, MemoryUsage::GpuOnly)
                .with_lifetime(ExpectedLifetime::Short)
                .with_name("history"),
        );
    }
    wishes
}

/// An allocator with a pool of 1 MiB blocks, which the frames share with what outlives them.
struct Scene {
    device: SimulatedGpu,
    allocator: Allocator<SimulatedGpu>,
    pool: Pool,
    wishes: Vec<Wanted>,
}

impl Scene {
    fn new(profile: &str, algorithm: Algorithm) -> Self {
        let device = SimulatedGpu::new(Profile::named(profile).unwrap());
        let mut desc = AllocatorDesc::default();
        (desc.algorithm, desc.on_leak) = (algorithm, LeakHandler::Ignore);
        // Frames of this scene never end, so time would give blocks back that are empty between two of them.
        desc.time = TimeSource::Manual(ManualTime::new());
        let allocator = Allocator::new(device.clone(), desc).unwrap();
        let mut desc = PoolDesc::new([MemoryTypeIndex(0)]);
        (desc.sizing, desc.algorithm) = (Some(BlockSize::Fixed(MIB)), algorithm);
        let pool = allocator.create_pool(desc).unwrap();
        Self { device, allocator, pool, wishes: wishes() }
    }

    fn begin(&self, frame: &mut Vec<Allocation>) {
        for wish in &self.wishes {
            frame.push(self.allocator.allocate_wanted(wish).unwrap());
        }
        let half = wanted(512 * KIB, MemoryUsage::GpuOnly).with_name("tile");
        for _ in 0..6 {
            frame.push(self.allocator.allocate_wanted_in(&self.pool, &half).unwrap());
        }
    }

    fn end(&self, frame: &mut Vec<Allocation>, order: Order) {
        if order == Order::Backward {
            frame.reverse();
        }
        frame.drain(..).for_each(|allocation| self.allocator.free(allocation).unwrap());
        self.allocator.end_frame();
    }

    fn finish(self) {
        self.allocator.destroy_pool(self.pool).unwrap();
        self.allocator.check_invariants();
        drop(self.allocator);
        assert_eq!(self.device.usage().memory_objects, 0);
        assert_eq!(self.device.validation_errors(), Vec::<String>::new());
    }
}

/// In which order a frame's things are freed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Order {
    Forward,
    Backward,
}

/// Returns the cost of a thousand frames after the first few: driver calls and host allocations.
fn cost(scene: &Scene, frames_in_flight: usize, order: Order) -> (DriverCallStatistics, u64) {
    let mut frames: Vec<_> = (0..frames_in_flight).map(|_| Vec::with_capacity(100)).collect();
    let (mut calls, mut allocations) = (scene.allocator.reports().device_calls(), 0);
    for i in 0..FRAMES {
        let frame = &mut frames[i % frames_in_flight];
        if !frame.is_empty() {
            scene.end(frame, order);
        }
        if i == FIRST_FRAMES + frames_in_flight {
            (calls, allocations) = (scene.allocator.reports().device_calls(), counting::of_this_thread());
        }
        scene.begin(frame);
    }
    let mut after = scene.allocator.reports().device_calls();
    let allocated = counting::of_this_thread() - allocations;
    frames.iter_mut().for_each(|frame| scene.end(frame, order));
    after.allocate -= calls.allocate;
    after.free -= calls.free;
    after.make_visible -= calls.make_visible;
    (after, allocated)
}

/// Returns the cost of frames in a scene with a level's worth of resources that outlive them all.
fn cost_in_a_level(
    profile: &str,
    algorithm: Algorithm,
    frames_in_flight: usize,
    order: Order,
) -> (DriverCallStatistics, u64) {
    let scene = Scene::new(profile, algorithm);
    let long = wanted(300 * KIB, MemoryUsage::GpuOnly).with_name("mesh");
    let level: Vec<_> = (0..50).map(|_| scene.allocator.allocate_wanted(&long).unwrap()).collect();
    let cost = cost(&scene, frames_in_flight, order);
    level.into_iter().for_each(|allocation| scene.allocator.free(allocation).unwrap());
    scene.finish();
    cost
}

/// One scene after the other, so that no more than one has its memory at a time.
fn every_frame_is_free(profile: &str, algorithm: Algorithm) {
    for order in [Order::Forward, Order::Backward] {
        let (calls, allocations) = cost_in_a_level(profile, algorithm, 1, order);
        assert_eq!(calls.memory(), 0, "driver calls: {algorithm:?} on {profile}, {order:?}, {calls:?}");
        assert_eq!(allocations, 0, "host allocations: {algorithm:?} on {profile}, {order:?}");
    }
}

#[test]
fn a_steady_frame_over_tlsf_calls_no_driver_and_allocates_no_host_memory() {
    for profile in ["discrete-large-bar", "discrete-no-bar", "mobile", "mobile-atom-1"] {
        every_frame_is_free(profile, Algorithm::Tlsf);
    }
}

#[test]
fn a_steady_frame_over_buddy_calls_no_driver_and_allocates_no_host_memory() {
    every_frame_is_free("discrete-large-bar", Algorithm::Buddy);
}

#[test]
fn a_steady_frame_over_linear_calls_no_driver_and_allocates_no_host_memory() {
    every_frame_is_free("discrete-large-bar", Algorithm::Linear);
}

/// With frames in flight, each frame is placed around what is left of the others, and packing is never
/// quite the same twice. Then a block more is wanted now and then, but not every few frames.
#[test]
fn with_frames_in_flight_driver_calls_are_rare() {
    for (profile, algorithm) in [
        ("discrete-large-bar", Algorithm::Tlsf),
        ("discrete-large-bar", Algorithm::Buddy),
        ("discrete-large-bar", Algorithm::Linear),
        ("discrete-no-bar", Algorithm::Tlsf),
        ("mobile", Algorithm::Tlsf),
    ] {
        for frames_in_flight in [2, 3] {
            let (calls, _) = cost_in_a_level(profile, algorithm, frames_in_flight, Order::Forward);
            let most = FRAMES as u64 / 50;
            assert!(
                calls.memory() <= most,
                "{algorithm:?} on {profile}, {frames_in_flight} in flight: {calls:?}"
            );
        }
    }
}

#[test]
fn a_pool_that_is_reset_each_frame_costs_nothing_either() {
    for algorithm in Algorithm::ALL {
        let scene = Scene::new("discrete-large-bar", algorithm);
        let frame = || {
            for i in 0..40 {
                let wish = wanted(1 + i * KIB, MemoryUsage::GpuOnly).with_name("scratch");
                drop(scene.allocator.allocate_wanted_in(&scene.pool, &wish).unwrap());
            }
            scene.allocator.reset_pool(&scene.pool).unwrap();
            scene.allocator.end_frame();
        };
        (0..FIRST_FRAMES).for_each(|_| frame());
        let (calls, allocations) = (scene.allocator.reports().device_calls(), counting::of_this_thread());
        (0..FRAMES).for_each(|_| frame());
        assert_eq!(counting::of_this_thread(), allocations, "{algorithm:?}");
        assert_eq!(scene.allocator.reports().device_calls(), calls, "{algorithm:?}");
        scene.finish();
    }
}

/// Two recordings with an arena each, one of which is discarded, and a frame in a ring for either way: three
/// frames are in flight.
#[test]
fn a_steady_frame_of_uploads_and_readbacks_makes_no_buffer_and_allocates_no_host_memory() {
    const QUEUE: QueueIndex = QueueIndex(0);
    let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    let allocator = Arc::new(Allocator::new(device.clone(), AllocatorDesc::default()).unwrap());
    let timelines = ManualTimelines::new(1);
    let tracker = SubmissionTracker::new(timelines.clone()).unwrap();
    let mut desc = UploadPoolDesc::default();
    (desc.page_size, desc.kept_bytes) = (16 * KIB, 32 * 16 * KIB);
    let pool = UploadPool::new(&allocator, &tracker, desc).unwrap();
    let mut ring = UploadRing::new(&allocator, &tracker, &RingDesc::upload(128 * KIB)).unwrap();
    let mut results = ReadbackRing::new(&allocator, &tracker, &RingDesc::readback(KIB)).unwrap();
    let mut tickets = Vec::with_capacity(8);
    let mut frame = || {
        let recordings = [tracker.record("drawn"), tracker.record("given up")];
        for recording in &recordings {
            let mut arena = pool.arena(recording.id());
            for i in 0..100 {
                let size = 64 + i * 7;
                let mut slice = arena.allocate(size, Alignment::new(256).unwrap()).unwrap();
                slice.write(0, &[1; 64]).unwrap();
                ring.allocate(size / 4, Alignment::ONE).unwrap().write(0, &[2; 16]).unwrap();
            }
            assert!(arena.statistics().pages > 2);
        }
        tickets.push(results.allocate(100, Alignment::ONE).unwrap());
        let [drawn, given_up] = recordings;
        let done = drawn.submit(QUEUE, |_| Ok::<_, ()>(timelines.submit(QUEUE))).unwrap();
        drop(given_up);
        ring.close(done);
        results.close(done);
        timelines.complete(QUEUE, TimelineValue(done.value.0.saturating_sub(3)));
        if tickets.len() == 5 {
            results.read(&tickets[0], &mut [0; 100]).unwrap();
            drop(tickets.remove(0));
        }
    };
    (0..100).for_each(|_| frame());
    let (usage, allocations) = (device.usage(), counting::of_this_thread());
    let made = pool.statistics().made;
    (0..FRAMES).for_each(|_| frame());
    assert_eq!(counting::of_this_thread(), allocations);
    assert_eq!(device.usage(), usage);
    assert_eq!(pool.statistics().made, made);
    assert_eq!((ring.statistics().failures, results.statistics().failures), (0, 0));
    timelines.complete_all(QUEUE);
}

/// Each frame uploads to a buffer and to transient memory, frees a resource and submits; three frames are in flight.
#[test]
fn a_steady_frame_of_a_gpu_makes_no_memory_call_and_allocates_no_host_memory() {
    const QUEUE: QueueIndex = QueueIndex(0);
    let device = SimulatedGpu::new(Profile::named("discrete-no-bar").unwrap());
    let gpu = Gpu::new(device.clone(), GpuDesc::default()).unwrap();
    let desc = AllocationOptions::new(MemoryUsage::GpuOnly);
    let buffer = || gpu.create_buffer(&BufferDesc::new(4096), &desc).unwrap();
    let lasting = buffer();
    let frame = || {
        let frame = gpu.begin_frame().unwrap();
        let freed = buffer();
        gpu.uploads().update_buffer(&lasting, 0, &[7; 64]).unwrap();
        gpu.uploads().write_buffer(&freed, 0, &[8; 64]).unwrap();
        for i in 0..100 {
            frame.upload(&[i; 100][..]).unwrap();
        }
        drop(frame.command_allocator(QUEUE).unwrap());
        let submit = |queue, waits: &[_]| {
            // SAFETY: there is nothing in it.
            unsafe { device.submit(queue, &Submission { waits, ..Submission::default() }) }
        };
        frame.submit(QUEUE, submit).unwrap();
        drop(freed);
        frame.end().unwrap();
    };
    // With as many frames in flight as there can be, for which tables grow: a busy machine has the GPU late at any time.
    device.set_latency(Duration::from_millis(1));
    (0..100).for_each(|_| frame());
    device.set_latency(Duration::ZERO);
    (0..100).for_each(|_| frame());
    let (calls, allocations) = (gpu.allocator().reports().device_calls(), counting::of_this_thread());
    (0..FRAMES).for_each(|_| frame());
    assert_eq!(counting::of_this_thread(), allocations);
    assert_eq!(gpu.allocator().reports().device_calls().memory(), calls.memory());
    drop(lasting);
    gpu.wait_idle().unwrap();
    drop(gpu);
    assert_eq!(device.validation_errors(), Vec::<String>::new());
}

/// Things of which there is one for each submission in flight, at most of them.
const MOST_IN_FLIGHT: usize = 12;

#[test]
fn uploads_over_a_queue_that_is_late_for_the_first_time_allocate_no_host_memory() {
    let device = SimulatedGpu::new(Profile::named("discrete-no-bar").unwrap());
    let tracker = SubmissionTracker::new(device.clone()).unwrap();
    let allocator = Arc::new(Allocator::new(device.clone(), AllocatorDesc::default()).unwrap());
    let memory = OwningAllocator::new(&allocator, &DeletionQueue::new(&tracker)).unwrap();
    let uploader = Uploader::new(&memory, UploaderDesc::default()).unwrap();
    let desc = MemoryUsage::GpuOnly.into();
    let buffer = |_| memory.create_buffer(&BufferDesc::new(4096), &desc).unwrap();
    let buffers: Vec<_> = (0..5).map(buffer).collect();
    let batch = || {
        buffers.iter().for_each(|buffer| uploader.update(buffer, 0, &[7; 64]).unwrap());
        uploader.submit().unwrap()
    };
    for _ in 0..100 {
        assert_eq!(tracker.wait_all(&batch(), Duration::from_secs(10)), Ok(()));
    }
    device.pause_queues();
    let allocations = counting::of_this_thread();
    (0..MOST_IN_FLIGHT).for_each(|_| _ = batch());
    assert_eq!(counting::of_this_thread(), allocations);
    device.resume_queues();
}

#[test]
fn results_that_are_late_for_the_first_time_allocate_no_host_memory() {
    const QUEUE: QueueIndex = QueueIndex(0);
    let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    let allocator = Arc::new(Allocator::new(device, AllocatorDesc::default()).unwrap());
    let timelines = ManualTimelines::new(1);
    let tracker = SubmissionTracker::new(timelines.clone()).unwrap();
    let mut results = ReadbackRing::new(&allocator, &tracker, &RingDesc::readback(16 * KIB)).unwrap();
    let mut frame = || {
        drop(results.allocate(100, Alignment::ONE).unwrap());
        results.close(TimelinePoint { queue: QUEUE, value: timelines.submit(QUEUE) });
    };
    for _ in 0..100 {
        frame();
        timelines.complete_all(QUEUE);
    }
    let allocations = counting::of_this_thread();
    (0..MOST_IN_FLIGHT).for_each(|_| frame());
    assert_eq!(counting::of_this_thread(), allocations);
    timelines.complete_all(QUEUE);
}

#[test]
fn pages_that_come_back_at_once_for_the_first_time_allocate_no_host_memory() {
    const QUEUE: QueueIndex = QueueIndex(0);
    let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    let allocator = Arc::new(Allocator::new(device, AllocatorDesc::default()).unwrap());
    let timelines = ManualTimelines::new(1);
    let tracker = SubmissionTracker::new(timelines.clone()).unwrap();
    let pool = UploadPool::new(&allocator, &tracker, UploadPoolDesc::default()).unwrap();
    let frame = |late: u64| {
        let recording = tracker.record("a frame");
        let mut arena = pool.arena(recording.id());
        arena.allocate(100, Alignment::ONE).unwrap();
        drop(arena);
        let done = recording.submit(QUEUE, |_| Ok::<_, ()>(timelines.submit(QUEUE))).unwrap();
        timelines.complete(QUEUE, TimelineValue(done.value.0.saturating_sub(late)));
    };
    let late = MOST_IN_FLIGHT as u64;
    (0..200).for_each(|_| frame(late));
    let (made, allocations) = (pool.statistics().made, counting::of_this_thread());
    for late in [0, late, 1, late] {
        (0..40).for_each(|_| frame(late));
    }
    assert_eq!((pool.statistics().made, counting::of_this_thread()), (made, allocations));
    timelines.complete_all(QUEUE);
}

#[test]
fn a_steady_frame_of_descriptors_allocates_no_host_memory() {
    const QUEUE: QueueIndex = QueueIndex(0);
    let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    let allocator = Arc::new(Allocator::new(device.clone(), AllocatorDesc::default()).unwrap());
    let desc = MemoryUsage::Upload.into();
    let buffer = MappedBuffer::new(&allocator, &BufferDesc::new(4096), &desc).unwrap();
    buffer.write(0, &[0; 4096]).unwrap();
    // SAFETY: the device has no buffers for heaps.
    let heap = |usage| unsafe {
        device.create_descriptor_heap(&DescriptorHeapDesc { usage, capacity: 100 }, None).unwrap()
    };
    let staging = heap(DescriptorHeapVisibility::CpuOnly(DescriptorHeapType::Resource));
    let heap = heap(DescriptorHeapVisibility::ShaderVisible(ShaderVisibleHeapType::Resource));
    let frame = || {
        let handle = buffer.handle();
        // SAFETY: the buffer is live, and the range lies in it.
        let descriptor = unsafe { device.buffer_descriptor(&handle, 0..256, BufferUse::ReadOnly) };
        // SAFETY: all slots are in their heaps, and no work reads them now.
        (0..100).for_each(|at| unsafe { device.write_descriptor(&staging, at, &descriptor) });
        // SAFETY: as above.
        unsafe { device.copy_descriptors(&staging, 0, &heap, 0, 100) };
        let (indices, to) = (&handle, &handle);
        let read =
            |to_offset| SimulatedRead { heap: &heap, indices, indices_offset: 0, count: 50, to, to_offset };
        let reads: [_; 10] = core::array::from_fn(|i| read(2048 + 200 * i as u64));
        // SAFETY: the ranges lie in the buffer, which lives until the wait is over.
        let value = unsafe { device.submit_reads(QUEUE, &[], &reads) }.unwrap();
        let waited = device.wait(TimelinePoint { queue: QUEUE, value }, Duration::from_secs(10));
        assert_eq!(waited, Ok(()));
    };
    (0..10).for_each(|_| frame());
    let allocations = counting::of_this_thread();
    (0..FRAMES).for_each(|_| frame());
    assert_eq!(counting::of_this_thread(), allocations);
    assert_eq!(device.validation_errors(), [""; 0]);
}

/// Which block is filled depends on when the GPU is done with what was in others.
#[test]
fn a_block_that_is_filled_for_the_first_time_later_than_another_allocates_no_host_memory() {
    let scene = Scene::new("integrated", Algorithm::Tlsf);
    let allocate =
        |bytes| scene.allocator.allocate_wanted_in(&scene.pool, &wanted(bytes, MemoryUsage::GpuOnly));
    let (half, small) = (512 * KIB, 8 * KIB);
    // Two blocks, the first of which had many ranges once. Their records are there from then on.
    let mut halves: Vec<_> = (0..4).map(|_| allocate(half).unwrap()).collect();
    let second = scene.allocator.location(&halves[3]).unwrap().memory;
    halves.drain(..2).for_each(|one| scene.allocator.free(one).unwrap());
    let crowd: Vec<_> = (0..60).map(|_| allocate(small).unwrap()).collect();
    crowd.into_iter().for_each(|one| scene.allocator.free(one).unwrap());
    let mut first: Vec<_> = (0..2).map(|_| allocate(half).unwrap()).collect();
    halves.drain(..).for_each(|one| scene.allocator.free(one).unwrap());

    let mut crowd = Vec::with_capacity(60);
    let before = counting::of_this_thread();
    (0..60).for_each(|_| crowd.push(allocate(small).unwrap()));
    assert_eq!(counting::of_this_thread() - before, 0);
    assert!(crowd.iter().all(|one| scene.allocator.location(one).unwrap().memory == second));
    crowd.drain(..).chain(first.drain(..)).for_each(|one| scene.allocator.free(one).unwrap());
    scene.finish();
}

#[test]
fn the_counters_do_count() {
    let scene = Scene::new("discrete-large-bar", Algorithm::Tlsf);
    let (calls, allocations) = (scene.allocator.reports().device_calls(), counting::of_this_thread());
    let desc = wanted(KIB, MemoryUsage::GpuOnly).with_name(String::from("made at run time"));
    let allocation = scene.allocator.allocate_wanted(&desc.with_dedicated(Dedicated::Always)).unwrap();
    scene.allocator.free(allocation).unwrap();
    assert_eq!(scene.allocator.reports().device_calls().memory() - calls.memory(), 2);
    assert!(counting::of_this_thread() > allocations);
    scene.finish();
}
