//! A frame that allocates and frees the same set as the frame before asks neither the driver nor the
//! system for anything.
//!
//! A program of its own, since it counts every heap allocation of its process.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use std::alloc::System;

use allotment::device::MemoryTypeIndex;
use allotment::device::host::{HostDevice, Profile};
use allotment::memory::{BlockSizing, Lifetime};
use allotment::{
    Algorithm, Alignment, Allocation, AllocationDesc, Allocator, AllocatorDesc, Intent, Pool, PoolDesc,
    Requirements, ResourceKind,
};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const FRAMES: u32 = 1000;

thread_local! {
    /// Heap allocations of this thread, so that tests that run beside this one are not counted.
    static HEAP_ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

fn count() {
    // While a thread ends its counter is gone, and nobody asks for it any more.
    let _ = HEAP_ALLOCATIONS.try_with(|counter| counter.set(counter.get() + 1));
}

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps `alloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps `alloc_zeroed`'s contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller keeps `realloc`'s contract.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps `dealloc`'s contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn allocator(algorithm: Algorithm) -> Allocator<HostDevice> {
    let mut desc = AllocatorDesc::default();
    desc.algorithm = algorithm;
    Allocator::new(HostDevice::new(Profile::named("discrete-large-bar").unwrap()), desc).unwrap()
}

/// What a frame of a game might want: constants, particles, images, staging, a few large targets.
fn wishes() -> Vec<AllocationDesc> {
    let mut wishes = Vec::new();
    for i in 0..200 {
        let needs = Requirements::new(256 + i * 977).aligned(Alignment::new(1 << (i % 9)).unwrap());
        let intent = Intent::ALL[i as usize % 4];
        let lifetime = if i % 3 == 0 { Lifetime::Long } else { Lifetime::Short };
        wishes.push(AllocationDesc::new(needs, intent).named("of this frame").living(lifetime));
    }
    for size in [512 * KIB, 700 * KIB, 3 * MIB, 9 * MIB, 33 * MIB, 64 * MIB] {
        let image = AllocationDesc::new(Requirements::new(size), Intent::Device);
        wishes.push(image.of_kind(ResourceKind::OptimalImage).named("a target"));
    }
    wishes
}

/// Runs the frames and counts what the later ones ask of the driver and of the system.
fn asked_in_steady_frames(
    allocator: &Allocator<HostDevice>,
    mut frame: impl FnMut(&mut Vec<Allocation>),
) -> (u64, u64) {
    const FIRST: u32 = 3;
    let mut live = Vec::with_capacity(1000);
    let mut before = (0, 0);
    for number in 0..FRAMES {
        if number == FIRST {
            before = (allocator.device_calls().memory(), HEAP_ALLOCATIONS.get());
        }
        frame(&mut live);
        for allocation in live.drain(..) {
            allocator.free(allocation).unwrap();
        }
        allocator.end_frame();
    }
    (allocator.device_calls().memory() - before.0, HEAP_ALLOCATIONS.get() - before.1)
}

#[test]
fn a_steady_frame_asks_neither_the_driver_nor_the_system_whatever_the_algorithm() {
    for algorithm in Algorithm::ALL {
        let allocator = allocator(algorithm);
        let wishes = wishes();
        let asked = asked_in_steady_frames(&allocator, |live| {
            live.extend(wishes.iter().map(|wish| allocator.allocate(wish).unwrap()));
        });
        assert_eq!(asked, (0, 0), "driver calls and heap allocations with {algorithm}");
        assert!(allocator.device_calls().allocate > 0, "the first frames did ask");
    }
}

#[test]
fn large_resources_that_take_turns_within_a_frame_do_not_drive_each_other_out() {
    let allocator = allocator(Algorithm::Tlsf);
    let sizes = [20 * MIB, 31 * MIB, 47 * MIB, 90 * MIB];
    let asked = asked_in_steady_frames(&allocator, |_| {
        for size in sizes {
            let target = AllocationDesc::new(Requirements::new(size), Intent::Device).named("by turns");
            allocator.free(allocator.allocate(&target).unwrap()).unwrap();
        }
    });
    assert_eq!(asked, (0, 0));
}

fn six_in_blocks_of_a_mebibyte(allocator: &Allocator<HostDevice>) -> Pool {
    let mut desc = PoolDesc::new([MemoryTypeIndex(0)]);
    desc.sizing = BlockSizing::Fixed(MIB);
    allocator.create_pool(desc).unwrap()
}

#[test]
fn six_half_mebibytes_in_blocks_of_one_make_no_driver_call_after_the_first_frame() {
    // VMA keeps one empty block and so makes 201 allocations and 200 frees in 100 such frames.
    let allocator = allocator(Algorithm::Tlsf);
    let pool = six_in_blocks_of_a_mebibyte(&allocator);
    let half = AllocationDesc::new(Requirements::new(512 * KIB), Intent::Device);
    let asked = asked_in_steady_frames(&allocator, |live| {
        live.extend((0..6).map(|_| allocator.allocate_in(&pool, &half).unwrap()));
    });
    assert_eq!(asked, (0, 0));
    assert_eq!(allocator.device_calls().allocate, 3);
    allocator.destroy_pool(pool).unwrap();
}

#[test]
fn nobody_has_to_say_that_a_frame_is_over() {
    let allocator = allocator(Algorithm::Tlsf);
    let half = AllocationDesc::new(Requirements::new(512 * KIB), Intent::Device);
    let mut calls = 0;
    for frame in 0..FRAMES {
        let live: Vec<_> = (0..12).map(|_| allocator.allocate(&half).unwrap()).collect();
        live.into_iter().for_each(|allocation| allocator.free(allocation).unwrap());
        if frame == 2 {
            calls = allocator.device_calls().memory();
        }
    }
    assert_eq!(allocator.device_calls().memory(), calls);
}
