//! Shards of default pools and of custom pools, with the shard of each call chosen by the test. (Threads that contend
//! choose for themselves in `tests/allocator/threads.rs`.)

use crate::Allocation;
use crate::Allocator;
use crate::memory::preview::AllocationPreview;
use core::ops::Deref;
use core::time::Duration;
use std::thread::scope;

use super::*;
use crate::device::simulated::{Profile, SimulatedGpu};
use crate::device::{BufferDesc, MemoryTypeIndex, MemoryTypeMask};
use crate::lifetime::{DeletionQueue, SubmissionTracker};
use crate::memory::blocks::{
    BlockSize, BlockSizes, EmptyBlockPolicy, ManualTime, TimeSource, allocate_as_thread,
};
use crate::memory::defragmentation::{
    Defragmentation, DefragmentationDesc, DefragmentationStrategy, Defragmenter, DefragmenterDesc, NextPass,
    PassLimits,
};
use crate::memory::pool::residents::own_shard;
use crate::memory::reports::LeakHandler;
use crate::memory::{
    AccessError, AllocationOptions, DestroyPoolError, Movability, NewBlocks, OwningAllocator, Pool, PoolDesc,
};
use crate::{Algorithm, AllocatorDesc, MemoryUsage, Requirements};

const KIB: u64 = 1 << 10;
const BLOCK: u64 = 64 * KIB;
const SHARDS: u32 = 3;
/// Host memory, which the memory usage of these tests prefers.
const HOST: MemoryTypeIndex = MemoryTypeIndex(1);

/// Lets this thread begin in a shard, as after contention.
fn in_shard<T>(shard: u32, work: impl FnOnce() -> T) -> T {
    let before = allocate_as_thread(shard);
    let result = work();
    allocate_as_thread(before);
    result
}

/// An allocator of three shards, and the pool that requests are directed to: a custom pool, or the default one.
struct World {
    allocator: Allocator<SimulatedGpu>,
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
    fn new(pool: Option<PoolDesc>) -> Self {
        let mut desc = AllocatorDesc::default();
        (desc.threads, desc.block_sizes) = (SHARDS, BlockSizes::fixed(BLOCK));
        (desc.empty_blocks, desc.on_leak) = (EmptyBlockPolicy::default(), LeakHandler::Ignore);
        desc.time = TimeSource::Manual(ManualTime::new());
        let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
        let allocator = Allocator::new(device, desc).unwrap();
        let pool = pool.map(|desc| allocator.create_pool(desc).unwrap());
        let mut options = AllocationOptions::from(MemoryUsage::Upload);
        options = pool.iter().fold(options, |options, pool| options.with_pool(pool));
        Self { allocator, pool, options }
    }

    /// One whose requests are served by a default pool, and one with a custom pool of the same rules.
    fn both() -> [Self; 2] {
        [Self::new(None), Self::new(Some(blocks_of_one_size()))]
    }

    fn pool(&self) -> &Pool {
        self.pool.as_ref().unwrap()
    }

    fn shards(&self) -> PoolShards {
        let requirements = Requirements::new(1);
        let request = &AllocationRequest::new(&requirements, &self.options);
        self.pool.as_ref().map_or_else(|| self.allocator.pools.default_pool_for(HOST, request), Pool::shards)
    }

    fn allocate(&self, shard: u32, size: u64) -> Allocation {
        let got = in_shard(shard, || self.allocator.allocate(&Requirements::new(size), &self.options));
        got.unwrap()
    }

    fn free_all(&self, allocations: impl IntoIterator<Item = Allocation>) {
        allocations.into_iter().for_each(|allocation| self.free(allocation).unwrap());
    }

    /// The driver calls so far that allocated memory.
    fn calls(&self) -> u64 {
        self.reports().device_calls().allocate
    }

    fn finish(self) {
        self.check_invariants();
        drop(self.options);
        self.pool.into_iter().for_each(|pool| self.allocator.destroy_pool(pool).unwrap());
        let device = self.allocator.device().clone();
        assert_eq!(self.allocator.statistics().allocations, 0);
        drop(self.allocator);
        assert_eq!(device.usage().memory_objects, 0);
        assert_eq!(device.validation_errors(), Vec::<String>::new());
    }
}

fn blocks_of_one_size() -> PoolDesc {
    let mut desc = PoolDesc::new([HOST]);
    (desc.sizing, desc.name) = (Some(BlockSize::Growing(BlockSizes::fixed(BLOCK))), Some("tiles".into()));
    desc
}

#[test]
fn a_thread_that_finds_its_shard_locked_too_often_moves_to_one_with_fewer_in_pools_of_both_kinds() {
    for world in World::both() {
        let shards = world.shards();
        assert_eq!(shards.count, SHARDS);
        // Made before, since that takes the lock of shard 0, from which they get the rules of a custom pool.
        shards.indices().for_each(|index| _ = world.allocator.pools.shard(shards, index).unwrap());
        let slot = world.allocator.pools.shard(shards, shards.first).unwrap();
        world.allocator.pools.residents.crowd();
        let guard = locked(&slot.state);
        let moved = scope(|scope| {
            let work = || {
                world.allocator.pools.residents.on_the_verge_of_moving(0);
                world.allocator.allocate(&Requirements::new(KIB), &world.options).unwrap()
            };
            scope.spawn(work).join().unwrap()
        });
        drop(guard);
        assert_ne!(moved.pool, shards.first, "which one depends on the threads of other tests");
        // This thread found its shard free and stays there, where the other shard's block has room for it too.
        let stays = world.allocate(0, KIB);
        assert_eq!(stays.pool, shards.first);
        world.free_all([moved, stays]);
        world.finish();
    }
}

#[test]
fn a_thread_opens_no_shard_while_the_blocks_of_a_pool_are_nearly_empty() {
    for world in World::both() {
        let shards = world.shards();
        let contend = || {
            let slot = world.allocator.pools.shard(shards, shards.first).unwrap();
            world.allocator.pools.residents.crowd();
            let guard = locked(&slot.state);
            scope(|scope| {
                let work = || {
                    world.allocator.pools.residents.on_the_verge_of_moving(0);
                    world.allocator.allocate(&Requirements::new(KIB), &world.options).unwrap()
                };
                let waits = scope.spawn(work);
                std::thread::sleep(Duration::from_millis(20));
                drop(guard);
                waits.join().unwrap()
            })
        };
        // Two shards would have 7 KiB in 128 KiB of blocks.
        let little = world.allocate(0, 7 * KIB);
        let waited = contend();
        assert_eq!(waited.pool, shards.first);
        // Now there is an eighth of a block, a 16th of two.
        let mut moved = contend();
        for _ in 0..100 {
            if moved.pool != shards.first {
                break;
            }
            // The thread was late and found the lock free.
            world.free(moved).unwrap();
            moved = contend();
        }
        assert_ne!(moved.pool, shards.first);
        world.free_all([little, waited, moved]);
        world.finish();
    }
}

#[test]
fn a_pool_with_a_maximum_and_a_linear_pool_have_one_shard_and_leave_the_thread_where_it_is() {
    let (mut limited, mut linear) = (blocks_of_one_size(), blocks_of_one_size());
    limited.max_blocks = 2;
    linear.algorithm = Algorithm::Linear;
    for desc in [limited, linear] {
        let world = World::new(Some(desc));
        let shards = world.shards();
        assert_eq!(shards.count, 1);
        let slot = world.allocator.pools.shard(shards, shards.first).unwrap();
        let guard = locked(&slot.state);
        let got = scope(|scope| {
            let work = || {
                world.allocator.pools.residents.on_the_verge_of_moving(2);
                let got = world.allocator.allocate(&Requirements::new(KIB), &world.options).unwrap();
                assert_eq!(own_shard(), 2);
                got
            };
            let waits = scope.spawn(work);
            std::thread::sleep(Duration::from_millis(20));
            drop(guard);
            waits.join().unwrap()
        });
        assert_eq!(got.pool, shards.first);
        world.free(got).unwrap();
        world.finish();
    }
}

#[test]
fn a_pool_with_a_maximum_refuses_no_thread_while_a_block_of_it_has_room() {
    let mut desc = blocks_of_one_size();
    desc.max_blocks = 1;
    let world = World::new(Some(desc));
    let got: Vec<_> = (0..8).map(|shard| world.allocate(shard, 8 * KIB)).collect();
    assert_eq!((world.calls(), world.reports().pool_statistics(world.pool()).unwrap().blocks), (1, 1));
    let refused = in_shard(1, || world.allocator.allocate(&Requirements::new(KIB), &world.options));
    assert!(matches!(refused, Err(AllocationError::PoolFull { max_blocks: 1, .. })));
    world.free_all(got);
    world.finish();
}

#[test]
fn a_shard_takes_an_empty_block_of_another_before_a_new_one_is_allocated() {
    for world in World::both() {
        let first = world.allocate(0, 60 * KIB);
        world.free(first).unwrap();
        let preview = || world.preview(&Requirements::new(60 * KIB), &world.options);
        assert_eq!(in_shard(1, preview), Ok(AllocationPreview::Fits { memory_type: HOST }));
        let second = world.allocate(1, 60 * KIB);
        assert_eq!((world.calls(), second.pool), (1, world.shards().first + world.shards().stride));
        // A block that is in use is not lent, though a small request would fit.
        let third = world.allocate(0, KIB);
        assert_eq!(world.calls(), 2);
        world.free_all([second, third]);
        world.finish();
    }
}

#[test]
fn a_shard_lends_blocks_of_every_memory_type_of_a_pool() {
    let mut desc = blocks_of_one_size();
    desc.memory_types.push(MemoryTypeIndex(2));
    let world = World::new(Some(desc));
    let mut requirements = Requirements::new(60 * KIB);
    requirements.memory_types = MemoryTypeMask(1 << 2);
    let allocate = || world.allocator.allocate(&requirements, &world.options).unwrap();
    let first = allocate();
    world.free(first).unwrap();
    let second = in_shard(2, allocate);
    assert_eq!((world.calls(), world.location(&second).unwrap().memory_type), (1, MemoryTypeIndex(2)));
    world.free(second).unwrap();
    world.finish();
}

#[test]
fn where_no_block_can_be_allocated_the_room_of_all_shards_is_used() {
    for mut world in World::both() {
        let first = world.allocate(0, 40 * KIB);
        world.options.new_blocks = NewBlocks::NeverAllocate;
        let second = world.allocate(1, 20 * KIB);
        assert_eq!(second.pool, first.pool);
        let refused = in_shard(1, || world.allocator.allocate(&Requirements::new(8 * KIB), &world.options));
        let expected = (8 * KIB, 4 * KIB, 4 * KIB);
        let Err(AllocationError::WouldGrow { requested, free, largest_free, .. }) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!((requested, free, largest_free), expected);
        let preview = in_shard(1, || world.preview(&Requirements::new(8 * KIB), &world.options));
        assert_eq!(preview.unwrap_err(), refused.unwrap_err());
        world.free_all([first, second]);
        world.finish();
    }
}

#[test]
fn what_one_shard_reserved_serves_the_others() {
    for world in World::both() {
        let one = Requirements::new(BLOCK);
        let reserved = in_shard(1, || world.reserve(&one, &world.options, 4 * BLOCK)).unwrap();
        assert_eq!((reserved, world.calls()), (4 * BLOCK, 4));
        let got: Vec<_> = (0..4).map(|shard| world.allocate(shard % SHARDS, BLOCK)).collect();
        assert_eq!(world.calls(), 4);
        world.free_all(got);
        world.finish();
    }
}

/// A pool that keeps two blocks, and no empty one above that.
fn with_minimum() -> PoolDesc {
    let mut desc = blocks_of_one_size();
    (desc.min_blocks, desc.empty_blocks) = (2, EmptyBlockPolicy::NONE);
    desc
}

#[test]
fn a_minimum_of_blocks_holds_for_all_shards_together() {
    let world = World::new(Some(with_minimum()));
    let blocks = || world.reports().pool_statistics(world.pool()).unwrap().blocks;
    assert_eq!((world.calls(), blocks()), (2, 2));
    // Each shard takes one of the two before it asks the driver.
    let (first, second) = (world.allocate(1, 60 * KIB), world.allocate(2, 60 * KIB));
    assert_eq!(world.calls(), 2);
    let third = world.allocate(1, 60 * KIB);
    assert_eq!((world.calls(), blocks()), (3, 3));
    world.check_invariants();
    // Whichever is freed first: of the three, two stay.
    world.free_all([first, third, second]);
    assert_eq!(blocks(), 2);
    world.check_invariants();
    assert!(!world.trim());
    world.end_frame();
    world.maintain();
    assert_eq!(blocks(), 2);
    let again = [world.allocate(0, 60 * KIB), world.allocate(0, 60 * KIB)];
    assert_eq!(world.calls(), 3);
    world.free_all(again);
    let more: Vec<_> = (0..6).map(|shard| world.allocate(shard % SHARDS, 60 * KIB)).collect();
    assert_eq!(blocks(), 6);
    world.reset_pool(world.pool()).unwrap();
    assert_eq!(blocks(), 2, "a reset keeps the minimum, and no more");
    world.free_all(more);
    world.finish();
}

#[test]
fn every_report_of_a_pool_has_its_shards_as_one() {
    let mut world = World::new(Some(blocks_of_one_size()));
    let named = |world: &mut World, shard, name: &'static str| {
        world.options.name = Some(name.into());
        world.allocate(shard, 40 * KIB)
    };
    let got = [named(&mut world, 0, "rock"), named(&mut world, 1, "tree"), named(&mut world, 2, "lake")];
    let statistics = world.reports().pool_statistics(world.pool()).unwrap();
    assert_eq!((statistics.blocks, statistics.allocations, statistics.allocation_bytes), (3, 3, 120 * KIB));
    let detailed = world.reports().detailed_pool_statistics(world.pool()).unwrap();
    assert_eq!((detailed.brief, detailed.free_ranges), (statistics, 3));
    let pools: Vec<_> =
        world.reports().leaks().into_iter().map(|leak| leak.pool.unwrap().to_string()).collect();
    assert_eq!(pools, ["tiles"; 3]);
    assert_eq!(world.reports().blocks().iter().filter(|block| block.pool.as_str() == "tiles").count(), 3);
    let dump = world.reports().dump_json();
    let (_, custom) = dump.split_once("\"CustomPools\"").unwrap();
    assert_eq!(custom.matches("\"Name\":\"0 - tiles\"").count(), 1, "{custom}");
    assert_eq!(["rock", "tree", "lake"].map(|name| custom.matches(name).count()), [1; 3], "{custom}");
    world.free_all(got);
    world.finish();
}

#[test]
fn a_reset_frees_the_allocations_of_all_shards_or_of_none() {
    let world = World::new(Some(blocks_of_one_size()));
    let got = [0, 1, 2].map(|shard| world.allocate(shard, KIB));
    let buffer = in_shard(2, || world.create_buffer(&BufferDesc::new(KIB), &world.options)).unwrap();
    let refused = world.reset_pool(world.pool());
    assert_eq!(refused, Err(AllocationError::ResourcesInPool { count: 1, name: ShortName::new("tiles") }));
    assert_eq!(world.reports().pool_statistics(world.pool()).unwrap().allocations, 4, "nothing has changed");
    world.destroy_buffer(buffer).unwrap();
    world.reset_pool(world.pool()).unwrap();
    assert_eq!(world.reports().pool_statistics(world.pool()).unwrap().allocations, 0);
    assert!(got.iter().all(|token| world.write(token, 0, &[1]) == Err(AccessError::Stale)));
    world.free_all(got);
    world.finish();
}

#[test]
fn a_reset_waits_for_a_thread_that_reads_or_writes_in_any_shard() {
    let world = World::new(Some(blocks_of_one_size()));
    let token = world.allocate(2, KIB);
    let (_, held) = world.hold(&token).unwrap();
    scope(|scope| {
        let reset = scope.spawn(|| world.reset_pool(world.pool()));
        std::thread::sleep(Duration::from_millis(30));
        assert!(world.location(&token).is_ok() && !reset.is_finished());
        drop(held);
        reset.join().unwrap().unwrap();
    });
    assert!(world.location(&token).is_err());
    world.free(token).unwrap();
    world.finish();
}

#[test]
fn a_pool_is_destroyed_with_all_its_shards_and_the_next_one_takes_their_places() {
    let mut world = World::new(Some(blocks_of_one_size()));
    let token = world.allocate(2, KIB);
    let shards = world.shards();
    // The options hold a clone of the pool.
    world.options = MemoryUsage::Upload.into();
    let pool = world.pool.take().unwrap();
    let refused = world.destroy_pool(pool);
    let Err(DestroyPoolError::InUse { pool, allocations: 1 }) = refused else { panic!("{refused:?}") };
    world.reset_pool(&pool).unwrap();
    world.destroy_pool(pool).unwrap();
    assert_eq!(world.statistics(), Default::default());
    let mut one = blocks_of_one_size();
    one.max_blocks = 1;
    let one = world.create_pool(one).unwrap();
    let next = world.create_pool(blocks_of_one_size()).unwrap();
    assert_eq!((one.shards().count, next.shards()), (1, shards));
    world.options = world.options.with_pool(&next);
    let live = world.allocate(2, KIB);
    assert_eq!((live.pool, live.record), (token.pool, token.record));
    world.free(token).unwrap();
    assert_eq!(world.reports().pool_statistics(&next).unwrap().allocations, 1, "a stale token frees nothing");
    world.free(live).unwrap();
    world.destroy_pool(one).unwrap();
    world.pool = Some(next);
    world.finish();
}

/// Allocates three of 20 KiB a block in one shard, and frees all but one of each block.
fn sparse(world: &World, shard: u32, blocks: usize) -> Vec<Allocation> {
    let got: Vec<_> = (0..blocks * 3).map(|_| world.allocate(shard, 20 * KIB)).collect();
    let (kept, freed): (Vec<_>, Vec<_>) = got.into_iter().enumerate().partition(|(at, _)| at % 3 == 0);
    world.free_all(freed.into_iter().map(|(_, token)| token));
    kept.into_iter().map(|(_, token)| token).collect()
}

#[test]
fn a_defragmentation_of_a_pool_moves_the_allocations_of_all_its_shards() {
    // Shard 0 keeps the minimum of two.
    for (desc, freed) in [(blocks_of_one_size(), 6), (with_minimum(), 5)] {
        let mut world = World::new(Some(desc));
        world.options.movability = Movability::Copied;
        let kept: Vec<_> = (0..SHARDS).flat_map(|shard| sparse(&world, shard, 3)).collect();
        let pool = world.pool.clone().unwrap();
        let desc = DefragmentationDesc::new(DefragmentationStrategy::Full).with_limits(PassLimits::NONE);
        let mut run = Defragmentation::new(&*world, Some(&pool), desc).unwrap();
        assert!(
            Defragmentation::new(&*world, Some(&pool), DefragmentationDesc::default()).is_err(),
            "one at a time"
        );
        assert_eq!((run.plan().blocks, run.plan().blocks_freed()), (9, freed));
        while let NextPass::Moves(pass) = run.next_pass() {
            pass.end();
        }
        drop(run);
        assert_eq!(world.reports().pool_statistics(&pool).unwrap().blocks, 9 - freed);
        drop(pool);
        world.check_invariants();
        world.free_all(kept);
        world.finish();
    }
}

#[test]
fn a_defragmenter_moves_its_resources_in_all_shards_of_a_pool() {
    let World { allocator, pool, options } = World::new(Some(blocks_of_one_size()));
    let allocator = std::sync::Arc::new(allocator);
    let tracker = SubmissionTracker::new(allocator.device().clone()).unwrap();
    let memory = OwningAllocator::new(&allocator, &DeletionQueue::new(&tracker)).unwrap();
    let defragmentation = DefragmentationDesc::new(DefragmentationStrategy::Full);
    let desc = DefragmenterDesc { defragmentation, ..DefragmenterDesc::default() };
    let defragmenter = Defragmenter::new(&memory, desc).unwrap();
    let create = || defragmenter.create_buffer(&BufferDesc::new(20 * KIB), &options).unwrap();
    let mut buffers: Vec<_> = (0..6).map(|_| in_shard(1, create)).collect();
    buffers.extend((0..6).map(|_| in_shard(2, create)));
    let mut at = 0;
    buffers.retain(|_| (at += 1, at % 3 == 1).1);
    let before = allocator.reports().pool_statistics(pool.as_ref().unwrap()).unwrap().blocks;
    for _ in 0..20 {
        defragmenter.step(PassLimits::NONE).unwrap();
        memory.deletion_queue().tracker().wait_idle(Duration::from_secs(10)).unwrap();
        memory.deletion_queue().reclaim();
    }
    let moved: u32 = buffers.iter().map(|buffer| buffer.moves()).sum();
    assert_eq!((before, moved), (4, 2));
    drop((buffers, defragmenter, memory, tracker));
    let allocator = std::sync::Arc::into_inner(allocator).unwrap();
    World { allocator, pool, options }.finish();
}

/// Numbers that look like chance and are the same each time.
fn next(state: &mut u64, below: u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 11) % below
}

/// Generated operations, each in a shard by chance, beside a list of what must be live.
#[test]
fn in_whichever_shard_each_call_is_made_no_two_allocations_overlap_and_all_sums_are_right() {
    for seed in 0..120_u64 {
        let mut state = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let minimum = next(&mut state, 3) as u32;
        let mut desc = blocks_of_one_size();
        desc.min_blocks = minimum;
        desc.algorithm = [Algorithm::Tlsf, Algorithm::Buddy][next(&mut state, 2) as usize];
        desc.empty_blocks =
            [EmptyBlockPolicy::NONE, EmptyBlockPolicy::default()][next(&mut state, 2) as usize];
        let custom = seed % 3 != 0;
        let world = World::new(custom.then_some(desc));
        let mut live: Vec<Allocation> = Vec::new();
        for _ in 0..150 {
            let shard = next(&mut state, u64::from(SHARDS)) as u32;
            match next(&mut state, 20) {
                0 => in_shard(shard, || world.end_frame()),
                1 => drop(in_shard(shard, || world.trim())),
                2 if custom && next(&mut state, 4) == 0 => {
                    world.reset_pool(world.pool()).unwrap();
                    world.free_all(live.drain(..));
                }
                3 => drop(in_shard(shard, || world.reserve(&Requirements::new(KIB), &world.options, BLOCK))),
                4..=10 if !live.is_empty() => {
                    let at = next(&mut state, live.len() as u64) as usize;
                    world.free(live.swap_remove(at)).unwrap();
                }
                _ => {
                    let most = [20 * KIB, 2 * BLOCK][usize::from(next(&mut state, 5) == 0)];
                    let size = 1 + next(&mut state, most);
                    let preview = in_shard(shard, || world.preview(&Requirements::new(size), &world.options));
                    let calls = world.calls();
                    live.push(world.allocate(shard, size));
                    let fits = matches!(preview, Ok(AllocationPreview::Fits { .. }));
                    assert_eq!(fits, world.calls() == calls, "{preview:?}, seed {seed}");
                }
            }
            world.check_invariants();
            check(&world, &live, if custom { minimum } else { 0 });
        }
        world.free_all(live);
        world.finish();
    }
}

/// Compares an allocator with the list of what is live in it.
fn check(world: &World, live: &[Allocation], minimum: u32) {
    let statistics = match &world.pool {
        Some(pool) => world.reports().pool_statistics(pool).unwrap(),
        None => world.statistics(),
    };
    assert_eq!(statistics, world.statistics());
    let mut places: Vec<_> = live
        .iter()
        .map(|token| {
            let place = world.location(token).unwrap();
            (format!("{:?}", place.memory), place.offset, place.size)
        })
        .collect();
    assert_eq!(statistics.allocations as usize, live.len());
    assert_eq!(statistics.allocation_bytes, places.iter().map(|place| place.2).sum::<u64>());
    assert!(statistics.blocks >= minimum);
    places.sort();
    for pair in places.windows(2) {
        assert!(pair[0].0 != pair[1].0 || pair[0].1 + pair[0].2 <= pair[1].1, "{pair:?}");
    }
}

#[test]
fn a_custom_pool_has_those_shards_that_a_thread_used_and_threads_that_need_one_at_once_make_one() {
    let world = World::new(Some(blocks_of_one_size()));
    let shards = world.shards();
    let made = || -> Vec<u32> {
        let slots = shards.indices().filter_map(|index| world.pools.get(index));
        slots.filter_map(|slot| locked(&slot.state).as_ref().map(|state| state.shard)).collect()
    };
    assert_eq!(made(), [0]);
    let first = world.allocate(0, KIB);
    assert_eq!(made(), [0]);
    let together = scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| world.allocate(2, KIB))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(made(), [0, 2]);
    world.check_invariants();
    // With shard 1 missing in between.
    world.reset_pool(world.pool()).unwrap();
    let listed = world.reports().pool_allocations(world.pool()).unwrap();
    assert!(listed.is_empty() && together.iter().all(|it| world.location(it).is_err()));
    let last = world.allocate(2, KIB);
    assert_eq!(world.reports().pool_allocations(world.pool()).unwrap().len(), 1);
    assert_eq!(world.reports().pool_statistics(world.pool()).unwrap().allocations, 1);
    world.free_all(together.into_iter().chain([first, last]));
    let World { allocator, pool, options } = world;
    drop(options);
    allocator.destroy_pool(pool.unwrap()).unwrap();
    // Another pool in the same slots begins with one shard as well, and makes the others anew.
    let again = World { options: AllocationOptions::from(MemoryUsage::Upload), pool: None, allocator };
    let pool = again.create_pool(blocks_of_one_size()).unwrap();
    assert_eq!(pool.shards(), shards);
    let options = again.options.clone().with_pool(&pool);
    let mut again = World { options, pool: Some(pool), ..again };
    again.allocator.check_invariants();
    let is_made = |world: &World, shard| {
        world.pools.get(shards.index(shard)).is_some_and(|slot| locked(&slot.state).is_some())
    };
    assert!(is_made(&again, 0) && !is_made(&again, 2));
    let allocation = again.allocate(2, KIB);
    assert!(is_made(&again, 2));
    again.free_all([allocation]);
    again.options = AllocationOptions::default();
    again.finish();
}
