//! Frees that this thread leaves, as if another one had the lock. (Threads that really meet: `tests/allocator/threads.rs`.)

use core::ops::Deref;
use core::sync::atomic::AtomicUsize;
use std::collections::HashMap;
use std::sync::Arc;

use super::*;
use crate::device::simulated::{Profile, SimulatedGpu};
use crate::device::{BufferDesc, Mapping, MemoryDesc, MemoryHeapIndex, MemoryTypeIndex, MemoryTypeMask};
use crate::events::{Event, EventBatch, SubscriptionDesc};
use crate::lifetime::{DeletionQueue, SubmissionTracker};
use crate::memory::allocator::IdleBlocks;
use crate::memory::blocks::{BlockSizes, EmptyBlockPolicy, ManualTime, TimeSource};
use crate::memory::defragmentation::{Defragmentation, DefragmentationDesc, NextPass, PassLimits};
use crate::memory::reports::LeakHandler;
use crate::memory::{
    AccessError, Allocation, AllocationOptions, BudgetPolicy, Dedicated, Movability, OwningAllocator, Pool,
    PoolDesc, Resource,
};
use crate::{Allocator, AllocatorDesc, MemoryUsage, Requirements};

const KIB: u64 = 1 << 10;
const BLOCK: u64 = 64 * KIB;

struct World {
    allocator: Arc<Allocator<SimulatedGpu>>,
    leaks: Arc<AtomicUsize>,
    pool: Option<Pool>,
    options: AllocationOptions,
}

impl Deref for World {
    type Target = Allocator<SimulatedGpu>;

    fn deref(&self) -> &Self::Target {
        &self.allocator
    }
}

impl World {
    /// With a custom pool, or none.
    fn new(custom: bool) -> Self {
        Self::with_limit(custom, u64::MAX)
    }

    /// With so much memory in the heap of all allocations.
    fn with_limit(custom: bool, bytes: u64) -> Self {
        Self::with(custom, bytes, EmptyBlockPolicy::NONE)
    }

    fn with(custom: bool, bytes: u64, empty_blocks: EmptyBlockPolicy) -> Self {
        let leaks = Arc::new(AtomicUsize::new(0));
        let mut desc = AllocatorDesc::default();
        (desc.block_sizes, desc.empty_blocks) = (BlockSizes::fixed(BLOCK), empty_blocks);
        desc.time = TimeSource::Manual(ManualTime::new());
        desc.heap_limits = vec![(MemoryHeapIndex(0), bytes)];
        let counted = Arc::clone(&leaks);
        desc.on_leak = LeakHandler::Call(Arc::new(move |report| {
            counted.fetch_add(report.leaks.len(), Relaxed);
        }));
        let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
        let allocator = Arc::new(Allocator::new(device, desc).unwrap());
        let pool = custom.then(|| allocator.create_pool(PoolDesc::new([MemoryTypeIndex(0)])).unwrap());
        let options = AllocationOptions::from(MemoryUsage::GpuOnly);
        let options = pool.iter().fold(options, |options, pool| options.with_pool(pool));
        Self { allocator, leaks, pool, options }
    }

    fn both() -> [Self; 2] {
        [false, true].map(Self::new)
    }

    fn small(&self, size: u64) -> Allocation {
        self.allocate(&Requirements::new(size), &self.options).unwrap()
    }

    fn slot(&self, allocation: &Allocation) -> &PoolSlot<SimulatedGpu> {
        self.pools.get(allocation.pool).unwrap()
    }

    /// Frees an allocation as a thread does that found the lock of its shard taken, lately.
    fn leave(&self, allocation: Allocation) {
        let slot = self.slot(&allocation);
        self.pools.make_inbox(allocation.pool, slot);
        LEAVES_AT.set(slot.address());
        self.free(allocation).unwrap();
    }
}

#[test]
fn no_call_tells_a_free_that_was_left_from_one_that_has_happened() {
    type Look = fn(&World, crate::memory::AllocationId);
    let looks: [(&str, Look); 14] = [
        ("statistics", |world, _| assert_eq!(world.statistics().allocations, 1)),
        ("allocations", |world, _| assert_eq!(world.reports().allocations().len(), 1)),
        ("leaks", |world, _| assert_eq!(world.reports().leaks().len(), 1)),
        ("info", |world, id| assert_eq!(world.reports().info(id).err(), Some(AccessError::Stale))),
        ("blocks", |world, _| assert_eq!(world.reports().blocks()[0].ranges.allocation_count, 1)),
        ("dump", |world, _| {
            let dump = world.reports().dump_json();
            assert!(!dump.contains("\"Size\": 1234"), "{dump}");
        }),
        ("pool", |world, _| {
            let Some(pool) = &world.pool else { return };
            assert_eq!(world.reports().pool_statistics(pool).unwrap().allocations, 1);
        }),
        ("detailed", |world, _| {
            let all = world.reports().detailed_statistics();
            assert_eq!(all.iter().map(|of| of.brief.allocations).sum::<u32>(), 1);
        }),
        ("invariants", |world, _| {
            world.check_invariants();
            assert!(world.pools.with_left_frees().next().is_none());
        }),
        ("end of a frame", |world, _| {
            world.end_frame();
            assert!(world.pools.with_left_frees().next().is_none());
        }),
        ("maintenance", |world, _| {
            world.maintain();
            assert!(world.pools.with_left_frees().next().is_none());
        }),
        ("calls of the driver", |world, _| {
            _ = world.reports().device_calls();
            assert!(world.pools.with_left_frees().next().is_none());
        }),
        ("stalls", |world, _| {
            _ = world.reports().stalls();
            assert!(world.pools.with_left_frees().next().is_none());
        }),
        ("subscription", |world, _| {
            let mut events = world.subscribe(&SubscriptionDesc::default()).unwrap();
            let mut batch = EventBatch::new();
            events.read(&mut batch);
            let told = batch.events().iter().filter(|event| matches!(event, Event::Allocated(_)));
            assert_eq!(told.count(), 1);
        }),
    ];
    for (name, look) in looks {
        for world in World::both() {
            let (kept, freed) = (world.small(500), world.small(1234));
            let id = freed.id();
            world.leave(freed);
            assert!(world.slot(&kept).has_left_frees(), "{name}");
            look(&world, id);
            world.free(kept).unwrap();
            assert_eq!(world.statistics().allocations, 0, "{name}");
        }
    }
}

#[test]
fn a_request_takes_the_range_of_an_allocation_whose_free_was_left() {
    for world in World::both() {
        let (kept, freed) = (world.small(500), world.small(1000));
        let offset = world.location(&freed).unwrap().offset;
        world.leave(freed);
        let next = world.small(1000);
        assert_eq!(world.location(&next).unwrap().offset, offset);
        assert!(!world.slot(&next).has_left_frees());
        [kept, next].into_iter().for_each(|it| world.free(it).unwrap());
    }
}

#[test]
fn a_request_of_the_last_range_of_a_full_pool_finds_it_though_its_free_was_left() {
    let world = World::new(false);
    let mut desc = PoolDesc::new([MemoryTypeIndex(0)]);
    (desc.max_blocks, desc.sizing) = (1, Some(crate::memory::blocks::BlockSize::Fixed(BLOCK)));
    let pool = world.create_pool(desc).unwrap();
    let options = MemoryUsage::GpuOnly.with_pool(&pool);
    let allocate = |size| world.allocate(&Requirements::new(size), &options);
    // The last of its block, and one beside another.
    for kept in [0, KIB] {
        let beside = (kept != 0).then(|| allocate(kept).unwrap());
        let large = allocate(BLOCK - kept - KIB).unwrap();
        let slot = world.slot(&large);
        let tiny = allocate(KIB).unwrap();
        world.pools.make_inbox(tiny.pool, slot);
        LEAVES_AT.set(slot.address());
        world.free(tiny).unwrap();
        LEAVES_AT.set(slot.address());
        world.free(large).unwrap();
        let again = allocate(BLOCK - kept).unwrap();
        LEAVES_AT.set(0);
        beside.into_iter().chain([again]).for_each(|it| world.free(it).unwrap());
    }
    world.check_invariants();
    drop(options);
    world.destroy_pool(pool).unwrap();
}

#[test]
fn memory_that_was_left_is_there_for_memory_of_its_own() {
    // Of a heap.
    let world = World::with_limit(false, BLOCK);
    let mut requirements = Requirements::new(BLOCK);
    // Not in another heap.
    requirements.memory_types = MemoryTypeMask(1);
    world.leave(world.small(KIB));
    let own = world.with_memory_options(&()).allocate(&requirements, &world.options).unwrap();
    world.free(own).unwrap();
    // Of a pool that may have one block.
    let mut desc = PoolDesc::new([MemoryTypeIndex(0)]);
    desc.max_blocks = 1;
    let pool = world.create_pool(desc).unwrap();
    let options = MemoryUsage::GpuOnly.with_pool(&pool);
    world.leave(world.allocate(&Requirements::new(KIB), &options).unwrap());
    let own = world.with_memory_options(&()).allocate(&requirements, &options).unwrap();
    world.free(own).unwrap();
    drop(options);
    world.destroy_pool(pool).unwrap();
}

#[test]
fn memory_that_was_left_is_there_for_the_first_blocks_of_a_pool() {
    let world = World::with_limit(false, BLOCK);
    world.leave(world.small(KIB));
    let mut desc = PoolDesc::new([MemoryTypeIndex(0)]);
    (desc.min_blocks, desc.sizing) = (1, Some(crate::memory::blocks::BlockSize::Fixed(BLOCK)));
    let pool = world.create_pool(desc).unwrap();
    world.destroy_pool(pool).unwrap();
}

#[test]
fn what_is_left_after_a_request_began_is_taken_before_it_is_refused() {
    let world = World::with_limit(false, BLOCK);
    let left = Cell::new(Some(world.small(KIB)));
    let desc = MemoryDesc::new(MemoryTypeIndex(0), BLOCK);
    let terms = (BudgetPolicy::AllowOverBudget, Mapping::OnDemand);
    for idle in [IdleBlocks::Keep, IdleBlocks::Free] {
        // By another thread, which this one stands in for: a call for memory of the driver takes nothing before it.
        world.leave(left.take().unwrap_or_else(|| world.small(KIB)));
        let memory = world.object_of_driver(&desc, terms, idle).unwrap();
        world.heaps().free(world.device(), memory);
    }
}

#[test]
fn no_request_is_refused_while_what_was_freed_in_any_way_has_room_for_it() {
    const LIMIT: u64 = 6 * BLOCK;
    for seed in 1..60_u64 {
        let policy = if seed % 2 == 0 { EmptyBlockPolicy::NONE } else { EmptyBlockPolicy::default() };
        let world = World::with(seed % 3 == 0, LIMIT, policy);
        let tracker = SubmissionTracker::new(world.device().clone()).unwrap();
        let queue = DeletionQueue::new(&tracker);
        let owning = OwningAllocator::new(&world.allocator, &queue).unwrap();
        let options = world.options.clone().with_name("any");
        let options = options.with_memory_types(MemoryTypeMask(1));
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut next = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) % below
        };
        let (mut live, mut buffers) = (Vec::new(), Vec::new());
        for step in 0..400 {
            // What the blocks have in which anything lives: all else is free, in one way or another.
            let of_live = live.iter().map(|it| world.info(it).unwrap());
            let blocks = of_live.chain(buffers.iter().map(Resource::info));
            let used: HashMap<_, _> = blocks.map(|it| (format!("{:?}", it.memory), it.block_size)).collect();
            let free = LIMIT - used.values().sum::<u64>();
            let all = next(4) == 0;
            let size = if all { free } else { 256 * (1 + next(80)) };
            let own = options.clone().with_dedicated(Dedicated::Always);
            let options = if all { &own } else { &options };
            let mut requirements = Requirements::new(size);
            requirements.memory_types = MemoryTypeMask(1);
            let context = || format!("seed {seed}, step {step}: {size} of {free} bytes");
            let must =
                |what: Option<String>| assert!(what.is_none() || size > free, "{}: {what:?}", context());
            match next(if free == 0 { 3 } else { 6 }) {
                0 | 1 if !live.is_empty() => {
                    let freed = live.swap_remove(next(live.len() as u64) as usize);
                    LEAVES_AT.set(0);
                    if next(4) == 0 {
                        world.free(freed).unwrap();
                    } else {
                        world.leave(freed);
                    }
                }
                0..=2 if !buffers.is_empty() => {
                    drop(buffers.swap_remove(next(buffers.len() as u64) as usize));
                }
                0..=2 if next(8) == 0 => world.end_frame(),
                3 if size != 0 => match world.allocate(&requirements, options) {
                    Ok(it) => live.push(it),
                    Err(error) => must(Some(error.to_string())),
                },
                4 if size != 0 => match world.with_memory_options(&()).allocate(&requirements, options) {
                    Ok(it) => live.push(it),
                    Err(error) => must(Some(error.to_string())),
                },
                5 if size != 0 => match owning.create_buffer(&BufferDesc::new(size), options) {
                    Ok(it) => buffers.push(it),
                    Err(error) => must(Some(error.to_string())),
                },
                _ => {}
            }
        }
        LEAVES_AT.set(0);
        drop((buffers, options, owning));
        live.into_iter().for_each(|it| world.leave(it));
        queue.reclaim();
        assert_eq!(world.statistics().allocations, 0);
        world.check_invariants();
    }
}

#[test]
fn what_the_allocator_frees_itself_is_never_left() {
    for world in World::both() {
        let (kept, left, own) = (world.small(500), world.small(300), world.small(1000));
        let slot = world.slot(&kept);
        world.leave(left);
        assert!(slot.has_left_frees());
        LEAVES_AT.set(slot.address());
        world.free_own(own);
        assert!(!slot.has_left_frees());
        assert_eq!(slot.allocations(), 1);
        world.free(kept).unwrap();
    }
}

#[test]
fn large_memory_of_its_own_is_not_left() {
    for world in World::both() {
        let options = world.options.clone().with_dedicated(Dedicated::Always);
        let allocate = |size| world.allocate(&Requirements::new(size), &options).unwrap();
        let (kept, own, small) = (world.small(500), allocate(LARGE), allocate(KIB));
        world.leave(own);
        assert!(!world.slot(&kept).has_left_frees());
        assert_eq!(world.slot(&kept).allocations(), 2);
        world.leave(small);
        assert!(world.slot(&kept).has_left_frees());
        assert_eq!(world.statistics().block_bytes, BLOCK);
        world.free(kept).unwrap();
    }
}

#[test]
fn whoever_can_leave_a_free_finds_it_afterwards() {
    for _ in 0..200 {
        let world = World::new(false);
        let it = world.small(KIB);
        let (index, slot) = (it.pool, world.slot(&it));
        let in_use = RecordInUse::new(it.record, it.generation);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let guard = locked(&slot.state);
                world.pools.make_inbox(index, slot);
                drop(guard);
            });
            let inbox = loop {
                match slot.left.inbox.get() {
                    Some(inbox) => break inbox,
                    None => spin_loop(),
                }
            };
            inbox.add(in_use.word());
            assert!(world.pools.may_have_left_frees());
            assert_eq!(world.statistics().allocations, 0);
        });
    }
}

#[test]
fn what_was_left_is_no_leak_and_keeps_no_pool_from_its_end() {
    for mut world in World::both() {
        let leaks = Arc::clone(&world.leaks);
        let freed: Vec<_> = (1..20).map(|size| world.small(size * 300)).collect();
        freed.into_iter().for_each(|it| world.leave(it));
        world.options = MemoryUsage::GpuOnly.into();
        if let Some(pool) = world.pool.take() {
            world.destroy_pool(pool).unwrap();
        }
        drop(world);
        assert_eq!(leaks.load(Relaxed), 0);
    }
}

#[test]
fn a_token_of_before_a_reset_frees_nothing_though_its_free_is_left() {
    let world = World::new(true);
    let pool = world.pool.as_ref().unwrap();
    let (left, stale) = (world.small(1000), world.small(1000));
    world.leave(left);
    world.reset_pool(pool).unwrap();
    let new = [world.small(1000), world.small(1000)];
    world.leave(stale);
    assert_eq!(world.statistics().allocations, 2);
    for it in new {
        assert!(world.location(&it).is_ok());
        world.leave(it);
    }
    assert_eq!(world.statistics().allocations, 0);
    world.check_invariants();
}

#[test]
fn while_events_are_read_no_free_is_left() {
    for world in World::both() {
        let (kept, freed) = (world.small(500), world.small(1000));
        let (first, id) = (world.small(700), freed.id());
        world.leave(first);
        let mut events = world.subscribe(&SubscriptionDesc::default()).unwrap();
        world.leave(freed);
        let mut batch = EventBatch::new();
        events.read(&mut batch);
        let is_free = |event: &Event| matches!(event, Event::Freed { allocation } if *allocation == id.key());
        assert!(batch.events().iter().any(is_free));
        world.free(kept).unwrap();
    }
}

#[test]
fn the_thread_that_leaves_frees_takes_them_where_no_other_comes() {
    for world in World::both() {
        let all: Vec<_> = (0..4 * MANY).map(|_| world.small(300)).collect();
        let (index, slot) = (all[0].pool, world.slot(&all[0]));
        world.pools.make_inbox(index, slot);
        let mut most = 0;
        for it in all {
            LEAVES_AT.set(slot.address());
            let in_use = RecordInUse::new(it.record, it.generation);
            match world.pools.leave((index, slot), in_use, false) {
                Leave::Left => most += 1,
                Leave::Many(guard) => {
                    drop(world.take_left_frees_of(slot, guard));
                    assert!(!slot.has_left_frees());
                }
                Leave::Locked(_) => panic!("there is room"),
            }
        }
        assert!(most > 2 * MANY);
        assert_eq!(world.statistics().allocations, 0);
    }
}

#[test]
fn a_thread_that_frees_alone_frees_at_once_after_a_while() {
    let world = World::new(false);
    let all: Vec<_> = (0..(ALONE + 4) * MANY).map(|_| world.small(300)).collect();
    let (index, slot) = (all[0].pool, world.slot(&all[0]));
    world.pools.make_inbox(index, slot);
    LEAVES_AT.set(slot.address());
    let (half, rest) = (all.len() / 2, (ALONE + 2) * MANY);
    for (at, it) in all.into_iter().enumerate() {
        world.free(it).unwrap();
        if at == half {
            assert_eq!(LEAVES_AT.get(), slot.address(), "another thread may come again");
        }
        if at as u32 > rest {
            assert!(!slot.has_left_frees());
        }
    }
    assert_eq!(LEAVES_AT.get(), 0);
}

#[test]
fn frees_that_need_the_long_way_are_left_and_happen() {
    let world = World::new(false);
    let moved = world.options.clone().with_movability(Movability::Copied).with_name("moved");
    let large = Requirements::new(BLOCK / 2 - KIB);
    // One that a pass is moving.
    let mut all: Vec<_> = (0..6).map(|_| world.allocate(&large, &moved).unwrap()).collect();
    for at in [4, 2, 0] {
        world.leave(all.swap_remove(at));
    }
    let desc = DefragmentationDesc::default().with_limits(PassLimits::NONE);
    let mut run = Defragmentation::new(&*world.allocator, None, desc).unwrap();
    if let NextPass::Moves(pass) = run.next_pass() {
        let id = pass.moves()[0].id();
        let at = all.iter().position(|it| it.id() == id).unwrap();
        world.leave(all.swap_remove(at));
        assert!(pass.end().moved.iter().all(|it| it.id() != id), "it was freed before the end");
    } else {
        panic!("half of each block is free");
    }
    drop(run);
    assert_eq!(world.statistics().allocations, all.len() as u32);
    all.into_iter().for_each(|it| world.leave(it));
    assert_eq!(world.statistics().block_bytes, 0);
    // One with a block of its own, and one with a name.
    let options = world.options.clone().with_dedicated(Dedicated::Always).with_name("own block");
    let own = world.allocate(&Requirements::new(10 * BLOCK), &options).unwrap();
    world.leave(own);
    assert_eq!(world.statistics().block_bytes, 0);
    world.check_invariants();
}

#[test]
fn whatever_is_left_the_allocator_is_the_same_as_one_in_which_nothing_is() {
    for seed in 1..40_u64 {
        for world in World::both() {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut next = |below: u64| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 11) % below
            };
            let mut live: Vec<(Allocation, u64)> = Vec::new();
            for step in 0..600 {
                let grows = step % 200 < 120;
                if live.is_empty() || next(5) < if grows { 3 } else { 2 } {
                    let most = if next(20) == 0 { 40 * KIB } else { 3 * KIB };
                    let size = 1 + next(most);
                    live.push((world.small(size), size));
                } else {
                    let (freed, _) = live.swap_remove(next(live.len() as u64) as usize);
                    if next(3) == 0 {
                        LEAVES_AT.set(0);
                        world.free(freed).unwrap();
                    } else {
                        world.leave(freed);
                    }
                }
                if next(25) == 0 {
                    let (statistics, bytes) = (world.statistics(), live.iter().map(|(_, size)| size).sum());
                    assert_eq!(
                        (statistics.allocations, statistics.allocation_bytes),
                        (live.len() as u32, bytes)
                    );
                    world.check_invariants();
                }
                if next(50) == 0 {
                    world.end_frame();
                }
            }
            let mut ranges: Vec<_> = live
                .iter()
                .map(|(it, size)| {
                    let place = world.location(it).unwrap();
                    assert_eq!(place.size, *size);
                    (format!("{:?}", place.memory), place.offset, place.size)
                })
                .collect();
            ranges.sort();
            assert!(ranges.windows(2).all(|two| two[0].0 != two[1].0 || two[0].1 + two[0].2 <= two[1].1));
            live.into_iter().for_each(|(it, _)| world.leave(it));
            assert_eq!(world.statistics().allocations, 0);
            world.check_invariants();
        }
    }
}
