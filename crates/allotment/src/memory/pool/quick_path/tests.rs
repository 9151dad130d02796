//! How many ranges wait, and how many of them are joined with their neighbours while the lock is held. (What the lists
//! serve is compared with a model in `tests/allocator/shadow`.)

use core::time::Duration;

use super::*;
use crate::device::MemoryTypeIndex;
use crate::device::simulated::{Profile, SimulatedGpu};
use crate::memory::blocks::{BlockSize, ManualTime, TimeSource};
use crate::memory::pool::clock::LOOKS;
use crate::memory::request::LARGEST_WAITING;
use crate::memory::{AllocationError, AllocationOptions, Movability, NewBlocks, Pool, PoolDesc};
use crate::sync::locked;
use crate::{Allocation, Allocator, AllocatorDesc, MemoryUsage, Requirements};

/// A pool that keeps movable and pinned allocations apart, so that it has two block sets.
struct World {
    allocator: Allocator<SimulatedGpu>,
    time: ManualTime,
    pool: Pool,
    pinned: AllocationOptions,
    movable: AllocationOptions,
}

impl World {
    fn new() -> Self {
        let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
        let time = ManualTime::new();
        let desc = AllocatorDesc { time: TimeSource::Manual(time.clone()), ..AllocatorDesc::default() };
        let allocator = Allocator::new(device, desc).unwrap();
        let mut desc = PoolDesc::new([MemoryTypeIndex(0)]);
        (desc.sizing, desc.max_blocks) = (Some(BlockSize::Fixed(256 << 20)), 2);
        desc.separate_movable = true;
        let pool = allocator.create_pool(desc).unwrap();
        let pinned = AllocationOptions::from(MemoryUsage::GpuOnly).with_pool(&pool);
        let movable = pinned.clone().with_movability(Movability::Copied);
        Self { allocator, time, pool, pinned, movable }
    }

    /// Allocates ranges of all classes, in both sets.
    fn allocate(&self) -> Vec<Allocation> {
        let sizes =
            (0..40_u64).flat_map(|i| [100 << (i % 12), 3000 + 700 * i, LARGEST_WAITING - 40_000 * (i % 13)]);
        let sizes = sizes.flat_map(|size| [(size, &self.pinned), (size + 5, &self.movable)]);
        let sizes = sizes.flat_map(|it| [it; 4]);
        let allocate = |(size, options)| self.allocator.allocate(&Requirements::new(size), options).unwrap();
        sizes.map(allocate).collect()
    }

    /// Frees until as many ranges wait as may, and a few more.
    fn fill(&self) -> Vec<Allocation> {
        let mut live = self.allocate();
        while self.waiting() < MOST_WAITING && live.len() > 8 {
            self.allocator.free(live.pop().unwrap()).unwrap();
        }
        assert_eq!(self.waiting(), MOST_WAITING);
        for _ in 0..4 {
            self.allocator.free(live.pop().unwrap()).unwrap();
            assert!(self.waiting() <= MOST_WAITING);
        }
        self.allocator.check_invariants();
        live
    }

    fn waiting(&self) -> usize {
        let slot = self.allocator.pools.get(self.pool.shards().first).unwrap();
        locked(&slot.state).as_ref().unwrap().waiting
    }

    fn finish(self, live: Vec<Allocation>) {
        live.into_iter().for_each(|allocation| self.allocator.free(allocation).unwrap());
        self.allocator.check_invariants();
        drop((self.pinned, self.movable));
        self.allocator.destroy_pool(self.pool).unwrap();
    }
}

#[test]
fn a_refusal_joins_all_ranges_and_there_are_never_more_than_a_bounded_number_in_all_sets_together() {
    let world = World::new();
    let live = world.fill();
    let never = world.pinned.clone().with_new_blocks(NewBlocks::NeverAllocate);
    let refused = world.allocator.allocate(&Requirements::new(200 << 20), &never);
    assert!(matches!(refused, Err(AllocationError::WouldGrow { .. })), "{refused:?}");
    assert_eq!(world.waiting(), 0);
    drop(never);
    world.finish(live);
}

#[test]
fn a_frame_joins_the_ranges_of_a_few_classes_and_in_the_end_none_waits_that_no_request_needs() {
    let world = World::new();
    let live = world.fill();
    let mut before = world.waiting();
    for frame in 0.. {
        assert!(frame < 16 * 1024, "{before} ranges still wait");
        world.allocator.end_frame();
        let now = world.waiting();
        assert!(before - now <= 2 * LOOKS as usize * DEPTH, "{} of two sets at once", before - now);
        before = now;
        if now == 0 {
            break;
        }
    }
    world.finish(live);
}

#[test]
fn after_a_long_pause_no_more_ranges_are_joined_at_once_than_after_a_few_ticks() {
    let world = World::new();
    let mut live = world.fill();
    for _ in 0..4 {
        let before = world.waiting();
        world.time.advance(Duration::from_secs(3600));
        // Frees read the clock now and then.
        for _ in 0..64 {
            world.allocator.free(live.pop().unwrap()).unwrap();
            let now = world.waiting();
            assert!(before.saturating_sub(now) <= 2 * (LOOKS as usize + 1) * DEPTH, "{before} → {now}");
        }
    }
    world.finish(live);
}

#[test]
fn the_last_range_of_the_only_block_waits_as_well_and_the_block_is_empty_and_goes_when_it_is_old() {
    let world = World::new();
    let allocate = |size| world.allocator.allocate(&Requirements::new(size), &world.pinned).unwrap();
    let empty = || world.allocator.statistics().blocks == 1 && world.allocator.statistics().allocations == 0;
    // The labels go with the allocation that has them.
    let named = world.pinned.clone().with_name("gone");
    let mut before = None;
    for round in 0..300 {
        let allocation = if round % 3 == 1 {
            world.allocator.allocate(&Requirements::new(1000), &named).unwrap()
        } else {
            allocate(1000)
        };
        let info = world.allocator.info(&allocation).unwrap();
        assert_eq!(info.name.is_some(), round % 3 == 1);
        assert_eq!(before.replace(info.offset).unwrap_or(info.offset), info.offset);
        world.allocator.free(allocation).unwrap();
        // Each 64th free counts a frame, and takes the full path.
        assert!(empty() && (world.waiting() == 1 || round % 64 == 63), "round {round}");
        world.allocator.check_invariants();
    }
    // It is as empty as one in which nothing waits: a request of all its bytes finds room.
    let all = allocate(256 << 20);
    assert_eq!((world.waiting(), world.allocator.statistics().blocks), (0, 1));
    world.allocator.free(all).unwrap();
    world.allocator.free(allocate(1000)).unwrap();
    let frames = world.allocator.desc().empty_blocks.frames;
    (0..=frames).for_each(|_| world.allocator.end_frame());
    assert_eq!((world.waiting(), world.allocator.statistics().blocks), (0, 0));
    drop(named);
    world.finish(Vec::new());
}

#[test]
fn the_last_range_of_one_block_beside_another_does_not_wait_so_that_the_fuller_one_is_filled_first() {
    let world = World::new();
    let allocate = |size| world.allocator.allocate(&Requirements::new(size), &world.pinned).unwrap();
    let (first, second, third) = (allocate((256 << 20) - 4096), allocate(4096), allocate(4096));
    assert_eq!(world.allocator.statistics().blocks, 2);
    world.allocator.free(second).unwrap();
    assert_eq!(world.waiting(), 1);
    world.allocator.free(third).unwrap();
    assert_eq!(world.waiting(), 1, "the newest would be taken first");
    let (again, filled) = (allocate(4096), world.allocator.info(&first).unwrap().memory);
    assert_eq!(world.allocator.info(&again).unwrap().memory, filled);
    world.finish(vec![first, again]);
}
