//! Resources that are dropped together, whose memory is freed in one lock of a pool.

use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicU32, Ordering};
use std::panic::catch_unwind;
use std::sync::Arc;
use std::thread;

use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::device::{BufferDesc, ImageDesc, MemoryTypeIndex};
use allotment::lifetime::{DeletionQueue, SubmissionTracker};
use allotment::memory::blocks::EmptyBlockPolicy;
use allotment::memory::{Dedicated, OwningAllocator};
use allotment::{AllocationOptions, Allocator, AllocatorDesc, MemoryUsage, PoolDesc, Requirements};

use crate::hooked_device::{Hook, HookedDevice, Point};

/// Panics when so many buffers were destroyed.
#[derive(Debug, Default)]
struct PanicsAfter {
    destroyed: AtomicU32,
    at: AtomicU32,
}

impl Hook for PanicsAfter {
    fn reached(&self, point: Point) {
        if point == Point::AfterDestroyBuffer {
            let destroyed = self.destroyed.fetch_add(1, Ordering::Relaxed) + 1;
            assert_ne!(destroyed, self.at.load(Ordering::Relaxed), "the device panics");
        }
    }
}

fn discrete() -> SimulatedGpu {
    SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap())
}

#[test]
fn where_the_device_panics_at_one_of_many_the_memory_of_those_before_it_and_after_it_is_freed() {
    for at in [1, 2, 40, 99, 100] {
        let device = HookedDevice::<PanicsAfter>::new(discrete());
        let tracker = SubmissionTracker::new(device.clone()).unwrap();
        let allocator = Arc::new(Allocator::new(device.clone(), AllocatorDesc::default()).unwrap());
        let memory = OwningAllocator::new(&allocator, &DeletionQueue::new(&tracker)).unwrap();
        let create = |of: u64| {
            memory.create_buffer(&BufferDesc::new(1000 * (of % 9 + 1)), &MemoryUsage::GpuOnly.into())
        };
        let buffers: Vec<_> = (0..100).map(|of| create(of).unwrap()).collect();
        drop(buffers);
        device.hook.at.store(at, Ordering::Relaxed);
        let reclaim = || memory.deletion_queue().reclaim();
        assert!(catch_unwind(AssertUnwindSafe(reclaim)).is_err());
        assert_eq!(device.hook.destroyed.load(Ordering::Relaxed), 100);
        // That of the one whose destruction did not return: the driver may have it.
        assert_eq!(allocator.statistics().allocations, 1, "at {at}");
        allocator.check_invariants();
        assert_eq!(reclaim().count, 0);
        assert_eq!(device.inner.validation_errors(), Vec::<String>::new());
    }
}

/// Panics when so many memory objects were freed.
#[derive(Debug, Default)]
struct PanicsAfterFrees {
    freed: AtomicU32,
    at: AtomicU32,
}

impl Hook for PanicsAfterFrees {
    fn reached(&self, point: Point) {
        if point == Point::AfterFree {
            let freed = self.freed.fetch_add(1, Ordering::Relaxed) + 1;
            assert_ne!(freed, self.at.load(Ordering::Relaxed), "the device panics");
        }
    }
}

#[test]
fn where_the_device_panics_at_the_free_of_one_of_many_the_rest_is_freed() {
    for at in [1, 2, 32, 40, 99, 100] {
        let device = HookedDevice::<PanicsAfterFrees>::new(discrete());
        let tracker = SubmissionTracker::new(device.clone()).unwrap();
        let mut desc = AllocatorDesc::default();
        desc.empty_blocks = EmptyBlockPolicy::NONE;
        let allocator = Arc::new(Allocator::new(device.clone(), desc).unwrap());
        let memory = OwningAllocator::new(&allocator, &DeletionQueue::new(&tracker)).unwrap();
        let options = AllocationOptions::new(MemoryUsage::GpuOnly).with_dedicated(Dedicated::Always);
        let create = |_| memory.create_buffer(&BufferDesc::new(1 << 20), &options).unwrap();
        drop((0..100).map(create).collect::<Vec<_>>());
        device.hook.at.store(at, Ordering::Relaxed);
        let reclaim = || memory.deletion_queue().reclaim();
        assert!(catch_unwind(AssertUnwindSafe(reclaim)).is_err());
        assert_eq!(allocator.statistics().allocations, 0, "at {at}");
        assert_eq!(device.hook.freed.load(Ordering::Relaxed), 100);
        // That memory still counts, since its free did not return.
        assert_eq!(allocator.statistics().block_bytes, 0);
        assert_eq!(device.inner.validation_errors(), Vec::<String>::new());
    }
}

#[test]
fn what_is_dropped_together_is_freed_whatever_it_is_and_of_whichever_allocator_and_pool() {
    let device = discrete();
    let tracker = SubmissionTracker::new(device.clone()).unwrap();
    let queue = DeletionQueue::new(&tracker);
    let allocators =
        [(); 2].map(|()| Arc::new(Allocator::new(device.clone(), AllocatorDesc::default()).unwrap()));
    let memories = allocators.each_ref().map(|allocator| OwningAllocator::new(allocator, &queue).unwrap());
    let pools = allocators.each_ref().map(|it| it.create_pool(PoolDesc::new([MemoryTypeIndex(0)])).unwrap());
    for round in 0..20_usize {
        let (mut buffers, mut images) = (Vec::new(), Vec::new());
        for at in 0..150 {
            // Runs of each kind, longer in later rounds.
            let kind = at / (1 + round);
            let memory = &memories[kind / 7 % 2];
            let options = match kind % 7 {
                0 => MemoryUsage::GpuOnly.into(),
                1 => MemoryUsage::Upload.with_name("one name for all"),
                2 => AllocationOptions::new(MemoryUsage::GpuOnly).with_name(format!("number {at}")),
                3 => MemoryUsage::GpuOnly.with_pool(&pools[kind / 7 % 2]),
                _ => MemoryUsage::Readback.into(),
            };
            let size = if kind % 7 == 4 && at % 50 == 0 { 40 << 20 } else { 256 << (at % 9) };
            match kind % 7 {
                5 => {
                    let (desc, options) = (ImageDesc::new(64, 64, 4), &MemoryUsage::GpuOnly.into());
                    images.push(memory.create_image(&desc, options).unwrap());
                }
                6 => {
                    let placed = memory.allocate_memory(&Requirements::new(1 << 16), &options).unwrap();
                    buffers.push(
                        memory.create_buffer_in(&placed, 0, &BufferDesc::new(1 << 12), "in it").unwrap(),
                    );
                }
                _ => buffers.push(memory.create_buffer(&BufferDesc::new(size), &options).unwrap()),
            }
        }
        let count = (buffers.len() + images.len()) as u64;
        drop((buffers, images));
        // With the memory in which buffers are placed.
        assert!(queue.reclaim().count >= count);
        queue.reclaim();
        for allocator in &allocators {
            allocator.check_invariants();
            assert_eq!((allocator.statistics().allocations, allocator.statistics().allocation_bytes), (0, 0));
        }
    }
    for (allocator, pool) in allocators.iter().zip(pools) {
        allocator.destroy_pool(pool).unwrap();
    }
    assert_eq!(device.validation_errors(), Vec::<String>::new());
}

#[test]
fn threads_that_drop_and_create_beside_a_reclaim_leave_nothing_behind() {
    let device = discrete();
    let tracker = SubmissionTracker::new(device.clone()).unwrap();
    let allocator = Arc::new(Allocator::new(device.clone(), AllocatorDesc::default()).unwrap());
    let memory = OwningAllocator::new(&allocator, &DeletionQueue::new(&tracker)).unwrap();
    let options = MemoryUsage::GpuOnly.with_name("one of many");
    thread::scope(|scope| {
        for of in 0..3_u64 {
            let (memory, options) = (&memory, &options);
            scope.spawn(move || {
                for round in 0..60 {
                    let create =
                        |at: u64| memory.create_buffer(&BufferDesc::new(256 << ((at + of) % 7)), options);
                    let buffers: Vec<_> = (0..40).map(|at| create(at).unwrap()).collect();
                    drop(buffers);
                    if round % 3 == of {
                        memory.deletion_queue().reclaim();
                    }
                }
            });
        }
    });
    memory.deletion_queue().reclaim();
    allocator.check_invariants();
    assert_eq!(allocator.statistics().allocations, 0);
    assert_eq!(device.validation_errors(), Vec::<String>::new());
}
