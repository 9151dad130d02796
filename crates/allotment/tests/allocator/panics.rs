//! A device or a handler that panics: no thread waits for ever, and nothing is left behind.

use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Instant;

use allotment::device::BufferDesc;
use allotment::device::simulated::SimulatedGpu;
use allotment::lifetime::{DeletionQueue, SubmissionTracker};
use allotment::memory::blocks::{BlockGrowth, BlockSizes, EmptyBlockPolicy, MaintenanceThread, Watermark};
use allotment::memory::defragmentation::{
    DefragmentationDesc, DefragmentationStrategy, Defragmenter, DefragmenterDesc, PassLimits, StepOutcome,
};
use allotment::memory::reports::LeakHandler;
use allotment::memory::{Buffer, OwningAllocator};
use allotment::{Allocation, Allocator, AllocatorDesc, MemoryUsage};

use crate::gated::GatedDevice;
use crate::hooked_device::Point;
use crate::rig::{
    AllocateWanted as _, DEVICE_TYPE, DISCRETE, KIB, MIB, fixed_pool, profile, wanted, wanted_in,
};

type Gated = Allocator<GatedDevice>;

/// So long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(20);

fn gated(change: impl FnOnce(&mut AllocatorDesc)) -> (GatedDevice, Arc<Gated>) {
    let device = GatedDevice::new(SimulatedGpu::new(profile(DISCRETE)));
    let mut desc = AllocatorDesc::default();
    desc.threads = 1;
    change(&mut desc);
    let allocator = Arc::new(Allocator::new(device.clone(), desc).unwrap());
    (device, allocator)
}

fn finish(device: &GatedDevice, allocator: Arc<Gated>) {
    allocator.check_invariants();
    assert_eq!(allocator.statistics().allocations, 0);
    drop(Arc::into_inner(allocator).unwrap());
    assert_eq!(device.inner.usage().memory_objects, 0);
    assert_eq!(device.inner.validation_errors(), Vec::<String>::new());
}

/// Returns the result of a second thread that waits for memory which the first one allocates when the device panics.
fn while_another_panics<T: Send + 'static>(
    device: &GatedDevice,
    first: impl FnOnce() + Send + 'static,
    second: impl FnOnce() -> T + Send + 'static,
) -> T {
    device.close(Point::BeforeAllocate);
    device.panic_at(Point::BeforeAllocate, 1);
    let first = thread::spawn(first);
    device.wait_for(1);
    let (send, receive) = channel();
    let second = thread::spawn(move || send.send(second()).unwrap());
    // By then it waits for the first; where it does not, it has what it wants in another way.
    thread::sleep(Duration::from_millis(20));
    device.open();
    assert!(first.join().is_err(), "the device panicked in the first thread");
    let got = receive.recv_timeout(PATIENCE).expect("the second thread waits for ever");
    second.join().unwrap();
    got
}

#[test]
fn a_thread_that_waits_for_a_block_asks_itself_when_the_device_panics_in_the_other() {
    let (device, allocator) = gated(|_| {});
    let allocate = |allocator: &Arc<Gated>| {
        let allocator = Arc::clone(allocator);
        move || allocator.allocate_wanted(&wanted_in(64 * KIB, DEVICE_TYPE)).unwrap()
    };
    let first = allocate(&allocator);
    let got = while_another_panics(&device, move || drop::<Allocation>(first()), allocate(&allocator));
    allocator.free(got).unwrap();
    finish(&device, allocator);
}

#[test]
fn a_thread_that_waits_for_what_is_reserved_goes_on_when_the_device_panics() {
    let (device, allocator) = gated(|_| {});
    let (first, second) = (Arc::clone(&allocator), Arc::clone(&allocator));
    let reserve = move || assert!(first.reserve_wanted(&wanted_in(1, DEVICE_TYPE), 16 * MIB).is_ok());
    let got = while_another_panics(&device, reserve, move || {
        second.allocate_wanted(&wanted_in(64 * KIB, DEVICE_TYPE)).unwrap()
    });
    allocator.free(got).unwrap();
    finish(&device, allocator);
}

#[test]
fn a_full_pool_does_not_count_the_block_that_the_device_panicked_over() {
    let (device, allocator) = gated(|_| {});
    let mut desc = fixed_pool(DEVICE_TYPE, 64 * KIB);
    desc.max_blocks = 1;
    let pool = allocator.create_pool(desc).unwrap();
    device.panic_at(Point::BeforeAllocate, 1);
    let allocate = || allocator.allocate_wanted_in(&pool, &wanted_in(KIB, DEVICE_TYPE)).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(allocate)).is_err());
    let got = thread::scope(|scope| scope.spawn(allocate).join()).unwrap();
    allocator.free(got).unwrap();
    allocator.destroy_pool(pool).unwrap();
    finish(&device, allocator);
}

#[test]
fn a_keeper_goes_on_after_a_panic_and_counts_it() {
    let (device, allocator) = gated(|desc| desc.block_growth = BlockGrowth::Ahead(Watermark::default()));
    let tile = wanted(3 * MIB, MemoryUsage::GpuOnly);
    let first = allocator.allocate_wanted(&tile).unwrap();
    device.panic_at(Point::BeforeAllocate, 1);
    let calls = allocator.reports().device_calls().allocate;
    let keeper = MaintenanceThread::spawn(Arc::clone(&allocator)).unwrap();
    let began = Instant::now();
    while (keeper.panics(), allocator.statistics().blocks) != (1, 2) {
        assert!(began.elapsed() < PATIENCE, "{keeper:?} {:?}", allocator.statistics());
        thread::yield_now();
    }
    assert_eq!(
        allocator.reports().device_calls().allocate,
        calls + 2,
        "one that panicked, and one that did not"
    );
    drop(keeper);
    allocator.free(first).unwrap();
    finish(&device, allocator);
}

#[test]
fn a_leak_handler_that_panics_leaks_no_memory_of_the_device() {
    let device = SimulatedGpu::new(profile(DISCRETE));
    let mut desc = AllocatorDesc::default();
    desc.on_leak = LeakHandler::Call(Arc::new(|report| panic!("{report}")));
    let allocator = Allocator::new(device.clone(), desc).unwrap();
    let _forgotten = allocator.allocate_wanted(&wanted(KIB, MemoryUsage::GpuOnly)).unwrap();
    assert_eq!(device.usage().memory_objects, 1);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(allocator))).is_err());
    assert_eq!((device.usage().memory_objects, device.validation_errors().len()), (0, 0));
}

/// Fills buffers of a set, and frees most of them, so that a step has something to move.
fn scattered(set: &Defragmenter<GatedDevice>) -> Vec<Buffer<GatedDevice>> {
    let desc = wanted(1, MemoryUsage::Readback).with_name("a mesh");
    let make = |i: u8| {
        let buffer = set.create_buffer(&BufferDesc::new(16 * KIB), &desc).unwrap();
        buffer.write(0, &[i; 16]).unwrap();
        buffer
    };
    let all: Vec<_> = (0..24).map(make).collect();
    all.into_iter().step_by(4).collect()
}

#[test]
fn a_step_in_which_the_device_panics_leaves_nothing_that_later_steps_find() {
    for gate in [Point::BeforeBind, Point::BeforeName, Point::BeforeSubmit, Point::AfterSubmit] {
        for calls in [1, 2] {
            let (device, allocator) = gated(|desc| {
                (desc.block_sizes, desc.empty_blocks) = (BlockSizes::fixed(64 * KIB), EmptyBlockPolicy::NONE);
            });
            let tracker = SubmissionTracker::new(device.clone()).unwrap();
            let memory = OwningAllocator::new(&allocator, &DeletionQueue::new(&tracker)).unwrap();
            let full = DefragmentationDesc::new(DefragmentationStrategy::Full);
            let set = Defragmenter::new(&memory, DefragmenterDesc::new(full)).unwrap();
            let buffers = scattered(&set);
            assert_eq!(tracker.wait_idle(PATIENCE), Ok(()));
            memory.deletion_queue().reclaim();
            device.panic_at(gate, calls);
            let (mut panics, mut moved) = (0, 0);
            for _ in 0..1000 {
                match catch_unwind(AssertUnwindSafe(|| set.step(PassLimits::NONE))) {
                    Err(_) => panics += 1,
                    Ok(step) => {
                        let step = step.unwrap();
                        moved += step.statistics.moves;
                        if step.outcome == StepOutcome::Idle && moved != 0 {
                            break;
                        }
                    }
                }
                assert_eq!(tracker.wait_idle(PATIENCE), Ok(()));
                memory.deletion_queue().reclaim();
                allocator.check_invariants();
            }
            assert_eq!(panics, calls, "{gate:?}");
            assert_eq!(moved, buffers.iter().map(Buffer::moves).sum::<u32>(), "{gate:?}");
            assert_eq!(allocator.statistics().blocks, 2, "{gate:?}: 6 of 16 KiB fit two blocks");
            for (i, buffer) in buffers.iter().enumerate() {
                let mut bytes = [0; 16];
                buffer.read(0, &mut bytes).unwrap();
                assert_eq!(bytes, [4 * i as u8; 16], "{gate:?}");
            }
            drop((buffers, set));
            assert_eq!(tracker.wait_idle(PATIENCE), Ok(()));
            memory.deletion_queue().reclaim();
            drop((memory, tracker));
            assert_eq!(device.inner.usage().buffers, 0, "{gate:?}");
            finish(&device, allocator);
        }
    }
}
