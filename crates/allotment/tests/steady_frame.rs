//! A frame that does what the frame before it did calls no driver and allocates no host memory.
//!
//! A test binary of its own, since it counts what goes through the global allocator.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it should")]

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use std::alloc::System;

use allotment::device::MemoryTypeIndex;
use allotment::device::host::{HostDevice, Profile};
use allotment::memory::{BlockSizing, Dedicated, DeviceCalls, LeakHandler, Lifetime};
use allotment::{
    Algorithm, Allocation, AllocationDesc, Allocator, AllocatorDesc, Intent, Pool, PoolDesc, Requirements,
    ResourceKind,
};

/// Counts the allocations of each thread and passes them on.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that is ending has no counter any more, and nobody who reads it.
    let _ = ALLOCATIONS.try_with(|allocations| allocations.set(allocations.get() + 1));
}

// SAFETY: everything is passed on to the system's allocator, with the arguments that came in.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static GLOBAL: Counting = Counting;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

const FRAMES: usize = 1000;

/// Frames in which the allocator may get to know what is wanted.
const FIRST_FRAMES: usize = 5;

fn wanted(size: u64, intent: Intent) -> AllocationDesc {
    AllocationDesc::new(Requirements::new(size), intent)
}

/// What a frame wants, with the frame's own name for everything.
fn wishes() -> Vec<AllocationDesc> {
    let mut wishes = Vec::new();
    for i in 0..40 {
        let intent = [Intent::Upload, Intent::Device, Intent::DeviceHostWrite, Intent::Readback][i % 4];
        let lifetime = [Lifetime::Short, Lifetime::Long][i / 4 % 2];
        wishes.push(wanted(256 + 777 * i as u64, intent).living(lifetime).named("buffer"));
    }
    for i in 0..20 {
        let image = wanted(20 * KIB + 55 * KIB * i, Intent::Device).of_kind(ResourceKind::OptimalImage);
        wishes.push(image.named("image").in_category("texture"));
    }
    for mib in [5, 17, 33, 64] {
        wishes.push(wanted(mib * MIB, Intent::Device).named("render target"));
        wishes.push(wanted(mib * MIB + 12 * KIB, Intent::Device).living(Lifetime::Short).named("history"));
    }
    wishes
}

/// An allocator with a pool of 1 MiB blocks, which the frames share with what outlives them.
struct Scene {
    device: HostDevice,
    allocator: Allocator<HostDevice>,
    pool: Pool,
    wishes: Vec<AllocationDesc>,
}

impl Scene {
    fn new(profile: &str, algorithm: Algorithm) -> Self {
        let device = HostDevice::new(Profile::named(profile).unwrap());
        let mut desc = AllocatorDesc::default();
        (desc.algorithm, desc.on_leak) = (algorithm, LeakHandler::Ignore);
        let allocator = Allocator::new(device.clone(), desc).unwrap();
        let mut desc = PoolDesc::new([MemoryTypeIndex(0)]);
        (desc.sizing, desc.algorithm) = (Some(BlockSizing::Fixed(MIB)), algorithm);
        let pool = allocator.create_pool(desc).unwrap();
        Self { device, allocator, pool, wishes: wishes() }
    }

    fn begin(&self, frame: &mut Vec<Allocation>) {
        for wish in &self.wishes {
            frame.push(self.allocator.allocate(wish).unwrap());
        }
        let half = wanted(512 * KIB, Intent::Device).named("tile");
        for _ in 0..6 {
            frame.push(self.allocator.allocate_in(&self.pool, &half).unwrap());
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
        assert_eq!(self.device.complaints(), Vec::<String>::new());
    }
}

/// In which order a frame's things are freed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Order {
    Forward,
    Backward,
}

/// What a thousand frames cost after the first few: calls to the driver, and host allocations.
fn cost(scene: &Scene, frames_in_flight: usize, order: Order) -> (DeviceCalls, u64) {
    let mut frames: Vec<_> = (0..frames_in_flight).map(|_| Vec::with_capacity(100)).collect();
    let (mut calls, mut allocations) = (scene.allocator.device_calls(), 0);
    for i in 0..FRAMES {
        let frame = &mut frames[i % frames_in_flight];
        if !frame.is_empty() {
            scene.end(frame, order);
        }
        if i == FIRST_FRAMES + frames_in_flight {
            (calls, allocations) = (scene.allocator.device_calls(), ALLOCATIONS.get());
        }
        scene.begin(frame);
    }
    let mut after = scene.allocator.device_calls();
    let allocated = ALLOCATIONS.get() - allocations;
    frames.iter_mut().for_each(|frame| scene.end(frame, order));
    after.allocate -= calls.allocate;
    after.free -= calls.free;
    after.make_visible -= calls.make_visible;
    (after, allocated)
}

/// What frames cost in a scene with a level's worth of things that outlive them all.
fn cost_in_a_level(
    profile: &str,
    algorithm: Algorithm,
    frames_in_flight: usize,
    order: Order,
) -> (DeviceCalls, u64) {
    let scene = Scene::new(profile, algorithm);
    let long = wanted(300 * KIB, Intent::Device).named("mesh");
    let level: Vec<_> = (0..50).map(|_| scene.allocator.allocate(&long).unwrap()).collect();
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
    for profile in ["discrete-large-bar", "discrete-no-bar", "mobile"] {
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
                let wish = wanted(1 + i * KIB, Intent::Device).named("scratch");
                drop(scene.allocator.allocate_in(&scene.pool, &wish).unwrap());
            }
            scene.allocator.reset_pool(&scene.pool).unwrap();
            scene.allocator.end_frame();
        };
        (0..FIRST_FRAMES).for_each(|_| frame());
        let (calls, allocations) = (scene.allocator.device_calls(), ALLOCATIONS.get());
        (0..FRAMES).for_each(|_| frame());
        assert_eq!(ALLOCATIONS.get(), allocations, "{algorithm:?}");
        assert_eq!(scene.allocator.device_calls(), calls, "{algorithm:?}");
        scene.finish();
    }
}

#[test]
fn the_counters_do_count() {
    let scene = Scene::new("discrete-large-bar", Algorithm::Tlsf);
    let (calls, allocations) = (scene.allocator.device_calls(), ALLOCATIONS.get());
    let desc = wanted(KIB, Intent::Device).named(String::from("made at run time"));
    let allocation = scene.allocator.allocate(&desc.dedicated(Dedicated::Always)).unwrap();
    scene.allocator.free(allocation).unwrap();
    assert_eq!(scene.allocator.device_calls().memory() - calls.memory(), 2);
    assert!(ALLOCATIONS.get() > allocations);
    scene.finish();
}
