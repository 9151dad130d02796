//! Races, each run in the order that would go wrong.

use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::{AtomicBool, AtomicU32};
use core::time::Duration;
use std::sync::Arc;
use std::thread::{ScopedJoinHandle, scope};

use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::device::{BufferDesc, MemoryProperties, MemoryTypeIndex, QueueIndex};
use allotment::lifetime::{DeletionQueue, SubmissionTracker};
use allotment::memory::blocks::{BlockGrowth, BlockSize, BlockSizes, EmptyBlockPolicy, Watermark};
use allotment::memory::defragmentation::{
    Defragmentation, DefragmentationDesc, DefragmentationStrategy, Defragmenter, DefragmenterDesc, NextPass,
    PassLimits,
};
use allotment::memory::names::ShortName;
use allotment::memory::{AccessError, Dedicated, Movability, OwningAllocator, Transfer, TransferError};
use allotment::{Allocation, AllocationError, Allocator, AllocatorDesc, PoolDesc};

use crate::gated::GatedDevice;
use crate::hooked_device::Point;
use crate::rig::{
    AllocateWanted as _, DEVICE_TYPE, DISCRETE, HEAP, KIB, MIB, MOBILE, Wanted, fixed_pool, mapped_in,
    profile, small_blocks, wanted_in,
};

/// A device with a gate, an allocator over it that keeps nothing, and 16 MiB of budget.
fn gated(profile: Profile) -> (GatedDevice, Allocator<GatedDevice>) {
    let device = GatedDevice::new(SimulatedGpu::new(profile));
    device.inner.set_budget(HEAP, 16 * MIB);
    let mut desc = AllocatorDesc::default();
    desc.empty_blocks = EmptyBlockPolicy::NONE;
    let allocator = Allocator::new(device.clone(), desc).unwrap();
    (device, allocator)
}

fn dedicated(size: u64) -> Wanted {
    wanted_in(size, DEVICE_TYPE).with_dedicated(Dedicated::Always)
}

fn finish(device: &GatedDevice, allocator: Allocator<GatedDevice>) {
    allocator.check_invariants();
    assert_eq!(allocator.statistics().allocations, 0);
    drop(allocator);
    assert_eq!(device.inner.usage().memory_objects, 0);
    assert_eq!(device.inner.validation_errors(), Vec::<String>::new());
}

#[test]
fn bytes_that_the_driver_is_still_being_asked_for_count_against_the_budget() {
    let (device, allocator) = gated(profile(DISCRETE));
    let desc = dedicated(10 * MIB).within_budget();
    scope(|scope| {
        device.close(Point::BeforeAllocate);
        let first = scope.spawn(|| allocator.allocate_wanted(&desc).unwrap());
        device.wait_for(1);
        // The refusal makes the allocator ask for the driver's figures, which know nothing of the first.
        let second = scope.spawn(|| allocator.allocate_wanted(&desc));
        std::thread::sleep(Duration::from_millis(20));
        device.open();
        let second = second.join().unwrap();
        assert!(matches!(second, Err(AllocationError::OverBudget { .. })), "{second:?}");
        allocator.free(first.join().unwrap()).unwrap();
    });
    finish(&device, allocator);
}

#[test]
fn bytes_that_are_being_given_back_are_not_subtracted_twice() {
    let (device, allocator) = gated(profile(DISCRETE));
    let (first, second) =
        (allocator.allocate_wanted(&dedicated(6 * MIB)), allocator.allocate_wanted(&dedicated(6 * MIB)));
    scope(|scope| {
        device.close(Point::AfterFree);
        let free = scope.spawn(|| allocator.free(first.unwrap()).unwrap());
        device.wait_for(1);
        allocator.refresh_budgets();
        device.open();
        free.join().unwrap();
    });
    let report = allocator.reports().memory_heaps()[0];
    assert_eq!(report.reserved, 6 * MIB);
    assert!(report.usage >= 6 * MIB, "{report:?}");
    allocator.free(second.unwrap()).unwrap();
    finish(&device, allocator);
}

#[test]
fn threads_that_want_the_same_block_wait_for_one_rather_than_get_one_each() {
    let (device, allocator) = gated(profile(DISCRETE));
    scope(|scope| {
        device.close(Point::BeforeAllocate);
        let wanting = || allocator.allocate_wanted(&wanted_in(64 * KIB, DEVICE_TYPE)).unwrap();
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(wanting)).collect();
        device.wait_for(1);
        std::thread::sleep(Duration::from_millis(20));
        device.open();
        let got: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert_eq!(allocator.reports().device_calls().allocate, 1);
        got.into_iter().for_each(|allocation| allocator.free(allocation).unwrap());
    });
    finish(&device, allocator);
}

#[test]
fn a_pool_never_has_more_memory_objects_than_it_may() {
    let (device, allocator) = gated(profile(DISCRETE));
    let mut desc = PoolDesc::new([DEVICE_TYPE, MemoryTypeIndex(3)]);
    desc.sizing = Some(BlockSize::Growing(small_blocks(64 * KIB, 64 * KIB)));
    desc.max_blocks = 1;
    let pool = allocator.create_pool(desc).unwrap();
    let wishes = [dedicated(MIB), dedicated(MIB), wanted_in(KIB, DEVICE_TYPE)];
    scope(|scope| {
        device.close(Point::BeforeAllocate);
        let (allocator, pool) = (&allocator, &pool);
        let ask = |wish| scope.spawn(move || allocator.allocate_wanted_in(pool, wish));
        let threads = wishes.each_ref().map(ask);
        device.wait_for(1);
        std::thread::sleep(Duration::from_millis(20));
        device.open();
        let got = threads.map(|thread| thread.join().unwrap());
        let statistics = allocator.reports().pool_statistics(pool).unwrap();
        assert_eq!(statistics.blocks + statistics.dedicated, 1, "{got:?}");
        let refused = |got: &Result<_, _>| matches!(got, Err(AllocationError::PoolFull { .. }));
        assert_eq!(got.iter().filter(|got| refused(got)).count(), 2, "{got:?}");
        got.into_iter().flatten().for_each(|allocation| allocator.free(allocation).unwrap());
    });
    allocator.destroy_pool(pool).unwrap();
    finish(&device, allocator);
}

#[test]
fn who_finds_a_pool_full_of_what_another_thread_fails_to_get_asks_himself() {
    let (device, allocator) = gated(profile(DISCRETE));
    let mut desc = fixed_pool(DEVICE_TYPE, 64 * KIB);
    desc.max_blocks = 1;
    let pool = allocator.create_pool(desc).unwrap();
    let desc = wanted_in(KIB, DEVICE_TYPE);
    device.inner.fail_call(1, allotment::device::DeviceError::OutOfDeviceMemory);
    scope(|scope| {
        device.close(Point::BeforeAllocate);
        let threads: Vec<_> =
            (0..2).map(|_| scope.spawn(|| allocator.allocate_wanted_in(&pool, &desc))).collect();
        device.wait_for(1);
        std::thread::sleep(Duration::from_millis(20));
        device.open();
        let got: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        // The thread that was refused looks for room once more, and may find the other one's block: refused or not, its
        // answer is right. But only the device has refused anything: the pool is full of nothing.
        assert!(got.iter().any(Result::is_ok), "{got:?}");
        let by_device = |error: &AllocationError| matches!(error, AllocationError::OutOfMemory { .. });
        assert!(got.iter().all(|got| got.as_ref().err().is_none_or(by_device)), "{got:?}");
        assert_eq!(allocator.reports().pool_statistics(&pool).unwrap().blocks, 1);
        got.into_iter().flatten().for_each(|allocation| allocator.free(allocation).unwrap());
    });
    allocator.destroy_pool(pool).unwrap();
    finish(&device, allocator);
}

#[test]
fn a_reset_waits_for_who_is_writing_before_it_gives_memory_back() {
    let (device, allocator) = gated(profile(MOBILE));
    let not_coherent = MemoryTypeIndex(1);
    let mut desc = fixed_pool(not_coherent, 64 * KIB);
    desc.empty_blocks = EmptyBlockPolicy::NONE;
    let pool = allocator.create_pool(desc).unwrap();
    let token = allocator.allocate_wanted_in(&pool, &wanted_in(KIB, not_coherent)).unwrap();
    scope(|scope| {
        device.close(Point::BeforeFlush);
        let writer = scope.spawn(|| allocator.write(&token, 0, &[7; 1000]));
        device.wait_for(1);
        let reset = scope.spawn(|| allocator.reset_pool(&pool).unwrap());
        let freed = device.frees_within(Duration::from_millis(50));
        device.open();
        assert!(!freed, "the memory was given back under the writer's hands");
        assert_eq!(writer.join().unwrap(), Ok(()));
        reset.join().unwrap();
    });
    assert_eq!(allocator.write(&token, 0, &[7]), Err(AccessError::Stale));
    allocator.free(token).unwrap();
    allocator.destroy_pool(pool).unwrap();
    finish(&device, allocator);
}

#[test]
fn a_pass_waits_for_who_is_writing_before_it_takes_what_it_moves() {
    let (device, allocator) = gated(profile(MOBILE));
    let not_coherent = MemoryTypeIndex(1);
    let movable = wanted_in(MIB, not_coherent).with_movability(Movability::Copied);
    let mut tokens: Vec<_> = (0..5).map(|_| allocator.allocate_wanted(&movable).unwrap()).collect();
    allocator.free(tokens.remove(0)).unwrap();
    let begun = AtomicBool::new(false);
    scope(|scope| {
        device.close(Point::BeforeFlush);
        let writer = scope.spawn(|| allocator.write(&tokens[3], 0, &[7; 1000]));
        device.wait_for(1);
        let mover = scope.spawn(|| {
            let full = DefragmentationDesc::new(DefragmentationStrategy::Full).with_limits(PassLimits::NONE);
            let mut run = Defragmentation::new(&allocator, None, full).unwrap();
            let NextPass::Moves(pass) = run.next_pass() else { panic!("the last one fits the hole") };
            begun.store(true, SeqCst);
            assert_eq!(pass.moves()[0].id(), tokens[3].id());
        });
        // Time in which the pass could begin. It must not: so the test passes however slow the mover is.
        std::thread::sleep(Duration::from_millis(50));
        let too_early = begun.load(SeqCst);
        device.open();
        assert!(!too_early, "the bytes were taken under the writer's hands");
        assert_eq!(writer.join().unwrap(), Ok(()));
        mover.join().unwrap();
    });
    tokens.into_iter().for_each(|token| allocator.free(token).unwrap());
    finish(&device, allocator);
}

/// The token is made after the block was allocated; a reset in between must leave it stale, not pass it on to
/// the next allocation with the record.
#[test]
fn a_token_that_a_reset_overtakes_is_stale_and_nobody_elses() {
    let (device, allocator) = gated(profile(DISCRETE));
    let pool = allocator.create_pool(fixed_pool(DEVICE_TYPE, 64 * KIB)).unwrap();
    let desc = wanted_in(64 * KIB, DEVICE_TYPE);
    let begun = AtomicU32::new(0);
    scope(|scope| {
        let allocate = |_| {
            begun.fetch_add(1, SeqCst);
            allocator.allocate_wanted_in(&pool, &desc).ok()
        };
        let threads: [_; 2] =
            core::array::from_fn(|_| scope.spawn(move || (0..6000).filter_map(allocate).collect()));
        // The pool is reset only after another request has begun: resets without a pause would keep the lock from them.
        let mut seen = 0;
        while threads.iter().any(|thread| !thread.is_finished()) {
            let now = begun.load(SeqCst);
            if now == seen {
                std::thread::yield_now();
            } else {
                seen = now;
                allocator.reset_pool(&pool).unwrap();
            }
        }
        let join = |thread: ScopedJoinHandle<'_, Vec<Allocation>>| thread.join().unwrap();
        let tokens: Vec<_> = threads.into_iter().flat_map(join).collect();
        let mut ids: Vec<_> = tokens.iter().map(|token| token.id()).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), tokens.len(), "two tokens have the same memory");
        tokens.into_iter().for_each(|token| allocator.free(token).unwrap());
    });
    allocator.destroy_pool(pool).unwrap();
    finish(&device, allocator);
}

/// Defragments by hand while another thread creates a buffer and waits at `gate`. The buffer's block is nearly empty and
/// there is room for it elsewhere, so that it would be moved if a pass could.
fn defragmented_while_created<T: Send>(
    gate: Point,
    allocator: &Allocator<GatedDevice>,
    device: &GatedDevice,
    create: impl FnOnce() -> T + Send,
) -> T {
    let raw = |size| {
        allocator.allocate_wanted(&wanted_in(size, DEVICE_TYPE).with_movability(Movability::Copied)).unwrap()
    };
    // The first block takes no more; the second has this one and, later, the buffer.
    let (first, second) = (raw(60 * KIB), raw(40 * KIB));
    scope(|scope| {
        device.close(gate);
        let created = scope.spawn(create);
        device.wait_for(1);
        // Now the first has room for the buffer, which is alone in the second.
        allocator.free(first).unwrap();
        let third = raw(30 * KIB);
        allocator.free(second).unwrap();
        let desc = DefragmentationDesc::new(DefragmentationStrategy::Full).with_limits(PassLimits::NONE);
        let mut run = Defragmentation::new(allocator, None, desc).unwrap();
        loop {
            match run.next_pass() {
                NextPass::Moves(pass) => {
                    let sizes: Vec<_> = pass.moves().iter().map(|one| one.size()).collect();
                    assert!(!sizes.contains(&(20 * KIB)), "a pass took what is being created");
                    pass.end();
                }
                NextPass::LimitReached => {}
                NextPass::Done => break,
            }
        }
        drop(run);
        allocator.trim();
        device.open();
        let created = created.join().unwrap();
        allocator.free(third).unwrap();
        created
    })
}

fn in_small_blocks() -> (GatedDevice, Allocator<GatedDevice>) {
    in_small_blocks_of(profile(DISCRETE))
}

fn in_small_blocks_of(profile: Profile) -> (GatedDevice, Allocator<GatedDevice>) {
    let device = GatedDevice::new(SimulatedGpu::new(profile));
    let mut desc = AllocatorDesc::default();
    (desc.block_sizes, desc.empty_blocks, desc.threads) =
        (BlockSizes::fixed(64 * KIB), EmptyBlockPolicy::NONE, 1);
    let allocator = Allocator::new(device.clone(), desc).unwrap();
    (device, allocator)
}

#[test]
fn a_pass_does_not_take_a_buffer_that_is_being_bound() {
    for gate in [Point::BeforeBind, Point::BeforeName] {
        let (device, allocator) = in_small_blocks();
        let desc = wanted_in(1, DEVICE_TYPE).with_movability(Movability::Copied).with_name("a mesh");
        let create = || allocator.create_buffer(&BufferDesc::new(20 * KIB), &desc).unwrap();
        let buffer = defragmented_while_created(gate, &allocator, &device, create);
        let info = allocator.info(buffer.allocation()).unwrap();
        assert_eq!(info.movability, Movability::Copied, "it may be moved from now on");
        allocator.destroy_buffer(buffer).unwrap();
        finish(&device, allocator);
    }
}

#[test]
fn a_pass_does_not_take_a_buffer_that_its_set_is_creating() {
    for gate in [Point::BeforeBind, Point::BeforeName] {
        let (device, allocator) = in_small_blocks();
        let allocator = Arc::new(allocator);
        let tracker = SubmissionTracker::new(device.clone()).unwrap();
        let memory = OwningAllocator::new(&allocator, &DeletionQueue::new(&tracker)).unwrap();
        let set = Defragmenter::new(&memory, DefragmenterDesc::default()).unwrap();
        let desc = wanted_in(1, DEVICE_TYPE).with_name("a mesh");
        let create = || set.create_buffer(&BufferDesc::new(20 * KIB), &desc).unwrap();
        let buffer = defragmented_while_created(gate, &allocator, &device, create);
        assert_eq!(buffer.moves(), 0);
        drop((buffer, set, memory, tracker));
        finish(&device, Arc::into_inner(allocator).unwrap());
    }
}

/// Between two chunks nothing holds the buffer. The transfer says so, and what it wrote before has moved along.
#[test]
fn a_transfer_that_a_move_overtakes_has_written_the_chunks_before() {
    // Staging that is flushed, since it is then that the transfer is between two chunks; and a buffer in memory that the CPU
    // reaches, so that the test can copy it.
    let mut profile = profile(DISCRETE);
    let mapped_device_type = MemoryTypeIndex(3);
    profile.memory_types[1].properties.remove(MemoryProperties::HOST_COHERENT);
    let (device, allocator) = in_small_blocks_of(profile);
    let raw = |size| {
        allocator
            .allocate_wanted(&mapped_in(size, mapped_device_type).with_movability(Movability::Copied))
            .unwrap()
    };
    let (first, second) = (raw(60 * KIB), raw(40 * KIB));
    let desc = mapped_in(1, mapped_device_type).with_movability(Movability::Copied);
    let buffer = allocator.create_buffer(&BufferDesc::new(20 * KIB), &desc).unwrap();
    let mut transfer = Transfer::new(&allocator, QueueIndex(0), 8 * KIB).unwrap().through_the_queue();
    transfer.upload_to(&buffer, 0, &[1; 20 << 10]).unwrap();
    scope(|scope| {
        device.close(Point::BeforeSubmit);
        let written = scope.spawn(|| transfer.upload_to(&buffer, 0, &[2; 20 << 10]));
        device.wait_for(1);
        device.close(Point::BeforeFlush);
        device.wait_for(1);
        allocator.free(first).unwrap();
        let third = raw(30 * KIB);
        allocator.free(second).unwrap();
        move_everything(&allocator);
        device.open();
        assert_eq!(
            written.join().unwrap(),
            Err(TransferError::Access(AccessError::Moved { name: ShortName::NONE }))
        );
        allocator.free(third).unwrap();
    });
    let mut found = vec![0; 20 << 10];
    allocator.read(buffer.allocation(), 0, &mut found).unwrap();
    assert_eq!(found, [vec![2; 8 << 10], vec![1; 12 << 10]].concat());
    drop(transfer);
    allocator.destroy_buffer(buffer).unwrap();
    finish(&device, allocator);
}

/// All moves that there are, with their bytes.
fn move_everything(allocator: &Allocator<GatedDevice>) {
    let desc = DefragmentationDesc::new(DefragmentationStrategy::Full).with_limits(PassLimits::NONE);
    let mut run = Defragmentation::new(allocator, None, desc).unwrap();
    loop {
        match run.next_pass() {
            NextPass::Moves(pass) => {
                for one in pass.moves() {
                    let (from, to) = (one.from().mapped_ptr.unwrap(), one.to().mapped_ptr.unwrap());
                    // SAFETY: both places are mapped and reserved as long as the pass is open.
                    unsafe { to.copy_from_nonoverlapping(from, one.size() as usize) };
                }
                pass.end();
            }
            NextPass::LimitReached => {}
            NextPass::Done => break,
        }
    }
}

#[test]
fn a_pool_is_destroyed_only_after_the_block_that_maintenance_is_allocating_for_it() {
    let (device, allocator) = gated(profile(DISCRETE));
    let mut desc = fixed_pool(DEVICE_TYPE, MIB);
    desc.block_growth = Some(BlockGrowth::Ahead(Watermark::default()));
    let pool = allocator.create_pool(desc).unwrap();
    // The pool has demand to foresee, and no room.
    let used = allocator.allocate_wanted_in(&pool, &wanted_in(MIB, DEVICE_TYPE)).unwrap();
    let destroyed = AtomicBool::new(false);
    scope(|scope| {
        device.close(Point::BeforeAllocate);
        let maintenance = scope.spawn(|| allocator.maintain());
        device.wait_for(1);
        allocator.free(used).unwrap();
        let destroyer = scope.spawn(|| {
            allocator.destroy_pool(pool).unwrap();
            destroyed.store(true, SeqCst);
            // In the same place, a pool of another memory type.
            allocator.create_pool(fixed_pool(MemoryTypeIndex(1), MIB)).unwrap()
        });
        std::thread::sleep(Duration::from_millis(20));
        let too_early = destroyed.load(SeqCst);
        device.open();
        assert!(!too_early, "the block would go to the next pool");
        maintenance.join().unwrap();
        let next = destroyer.join().unwrap();
        assert_eq!(allocator.reports().pool_statistics(&next).unwrap().blocks, 0);
        allocator.destroy_pool(next).unwrap();
    });
    finish(&device, allocator);
}
