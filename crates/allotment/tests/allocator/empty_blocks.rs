//! Which empty memory is kept, for how long, and which requests get it.

use core::time::Duration;
use std::collections::HashSet;
use std::sync::Arc;

use allotment::device::simulated::SimulatedGpu;
use allotment::memory::blocks::{
    BlockGrowth, BlockSizes, EmptyBlockPolicy, MaintenanceThread, ManualTime, TimeSource, Watermark,
};
use allotment::memory::{AccessError, ExpectedLifetime};
use allotment::{Allocation, Allocator, AllocatorDesc, MemoryUsage, Pool, PoolDesc, ResourceKind};

use crate::rig::{
    AllocateWanted as _, COARSE, DEVICE_TYPE, DISCRETE, HEAP, KIB, MIB, Rig, empty_blocks, fixed_pool,
    profile, wanted, wanted_in,
};

fn rig_that_keeps(empty_blocks: EmptyBlockPolicy) -> Rig {
    Rig::with(profile(DISCRETE), |desc| desc.empty_blocks = empty_blocks)
}

fn allocate_all(rig: &Rig, sizes: &[u64]) -> Vec<Allocation> {
    sizes.iter().map(|&size| rig.allocate_wanted(&wanted_in(size, DEVICE_TYPE)).unwrap()).collect()
}

#[test]
fn who_keeps_nothing_gives_a_block_back_as_soon_as_it_is_empty() {
    let rig = rig_that_keeps(EmptyBlockPolicy::NONE);
    let mut got = allocate_all(&rig, &[KIB, KIB, 20 * MIB]);
    assert_eq!(rig.objects(), 2);
    rig.free(got.pop().unwrap()).unwrap();
    rig.free(got.pop().unwrap()).unwrap();
    assert_eq!(rig.objects(), 1, "the block is not empty yet");
    rig.free_all(got);
    assert_eq!(rig.objects(), 0);
}

#[test]
fn a_pool_that_keeps_no_peak_gives_memory_back_without_a_later_call() {
    let reserved = |keeps_peak| {
        let mut keeps = empty_blocks(120, 4 * MIB);
        (keeps.kept_divisor, keeps.keeps_peak) = (0, keeps_peak);
        let rig = rig_that_keeps(keeps);
        let mut got = allocate_all(&rig, &[300 * MIB]);
        got.extend(allocate_all(&rig, &[MIB; 100]));
        rig.free_all(got);
        let idle = rig.statistics().block_bytes;
        let calls = rig.reports().device_calls().memory();
        for _ in 0..40 {
            rig.free_all(allocate_all(&rig, &[KIB]));
        }
        assert!(rig.reports().device_calls().memory() - calls <= 1, "the block that stays serves them");
        idle
    };
    assert!(reserved(true) >= 400 * MIB, "the next frame may need as much");
    assert!(reserved(false) <= 4 * MIB, "{} bytes", reserved(false));
}

#[test]
fn an_empty_block_is_kept_for_as_many_frames_as_was_said() {
    let rig = rig_that_keeps(empty_blocks(10, 64 * MIB));
    rig.free_all(allocate_all(&rig, &[KIB]));
    (0..9).for_each(|_| rig.end_frame());
    assert_eq!(rig.objects(), 1);
    rig.end_frame();
    assert_eq!(rig.objects(), 0);
}

#[test]
fn a_block_that_is_used_again_is_as_good_as_new() {
    let rig = rig_that_keeps(empty_blocks(10, 64 * MIB));
    for _ in 0..30 {
        rig.free_all(allocate_all(&rig, &[KIB]));
        (0..7).for_each(|_| rig.end_frame());
    }
    assert_eq!(rig.reports().device_calls().memory(), 1);
}

#[test]
fn a_frame_gives_back_one_block_at_most() {
    let rig = rig_that_keeps(empty_blocks(4, 1024 * MIB));
    rig.free_all(allocate_all(&rig, &[20 * MIB, 21 * MIB, 22 * MIB, 23 * MIB]));
    assert_eq!(rig.objects(), 4);
    let mut objects = 4;
    for _ in 0..12 {
        rig.end_frame();
        assert!(objects - rig.objects() <= 1);
        objects = rig.objects();
    }
    assert_eq!(objects, 0);
}

#[test]
fn frees_count_time_where_nobody_ends_frames() {
    let rig = rig_that_keeps(empty_blocks(2, 1024 * MIB));
    let base = allocate_all(&rig, &[KIB]);
    rig.free_all(allocate_all(&rig, &[30 * MIB]));
    let large = rig.objects();
    for _ in 0..5000 {
        rig.free_all(allocate_all(&rig, &[KIB]));
    }
    assert!(rig.objects() < large, "30 MiB lie idle for ever");
    rig.free_all(base);
}

#[test]
fn beyond_the_need_and_the_surplus_empty_memory_is_given_back_at_once() {
    // Needed at once were 32 MiB, and 4 more may lie idle.
    let rig = rig_that_keeps(empty_blocks(1000, 4 * MIB));
    rig.free_all(allocate_all(&rig, &[16 * MIB, 16 * MIB]));
    assert_eq!(rig.taken(HEAP), 32 * MIB, "what was needed is kept");
    let other = rig.allocate_wanted(&wanted_in(12 * MIB, DEVICE_TYPE)).unwrap();
    rig.free(other).unwrap();
    let kept = rig.taken(HEAP);
    assert!(kept <= 36 * MIB, "{} MiB are kept", kept / MIB);
    assert!(kept >= 28 * MIB, "what was needed is kept: {} MiB", kept / MIB);
}

#[test]
fn spare_memory_of_its_own_goes_to_the_next_of_about_the_same_size() {
    let rig = rig_that_keeps(empty_blocks(1000, 1024 * MIB));
    rig.free_all(allocate_all(&rig, &[64 * MIB]));
    let calls = rig.reports().device_calls();
    let smaller = allocate_all(&rig, &[60 * MIB]);
    assert_eq!(rig.reports().device_calls(), calls, "60 MiB fit the 64");
    assert_eq!(rig.block_size_of(&smaller[0]), 64 * MIB);
    assert!(rig.is_dedicated(&smaller[0]));
    rig.free_all(smaller);
    // `traffic.rs` tests when a much smaller request shares it.
}

#[test]
fn a_small_request_that_wants_memory_of_its_own_takes_spare_memory_before_it_shares_a_block() {
    // Above 64 KiB here, though the quick path serves requests of up to a megabyte.
    let rig = Rig::with(profile(DISCRETE), |desc| {
        desc.empty_blocks = empty_blocks(1000, 1024 * MIB);
        desc.block_sizes.smallest = 64 * KIB;
    });
    let base = allocate_all(&rig, &[8 * MIB]);
    let spare = allocate_all(&rig, &[200 * KIB]);
    let sharing = allocate_all(&rig, &[10 * KIB]);
    assert!(rig.block_size_of(&sharing[0]) >= 256 * KIB, "the block has room for the next request");
    rig.free_all(spare);
    let next = allocate_all(&rig, &[200 * KIB]);
    assert!(rig.is_dedicated(&next[0]));
    for left in [base, sharing, next] {
        rig.free_all(left);
    }
}

#[test]
fn the_spare_memory_that_fits_best_is_taken() {
    let rig = rig_that_keeps(empty_blocks(1000, 1024 * MIB));
    rig.free_all(allocate_all(&rig, &[66 * MIB, 64 * MIB, 65 * MIB]));
    let best = allocate_all(&rig, &[64 * MIB]);
    assert_eq!(rig.block_size_of(&best[0]), 64 * MIB);
    rig.free_all(best);
}

#[test]
fn a_trim_gives_everything_back_that_is_empty_and_says_whether_there_was_any() {
    let rig = rig_that_keeps(empty_blocks(1000, 1024 * MIB));
    let kept = allocate_all(&rig, &[KIB]);
    rig.free_all(allocate_all(&rig, &[20 * MIB, 30 * MIB]));
    let short = wanted(KIB, MemoryUsage::Upload).with_lifetime(ExpectedLifetime::Short);
    rig.free(rig.allocate_wanted(&short).unwrap()).unwrap();
    assert_eq!(rig.objects(), 4);
    assert!(rig.trim());
    assert_eq!(rig.objects(), 1);
    assert!(!rig.trim());
    rig.free_all(kept);
}

#[test]
fn an_id_from_before_a_trim_never_names_an_allocation_after_it() {
    let rig = Rig::new(DISCRETE);
    let (mut kept, mut ids) = (Vec::new(), HashSet::new());
    for round in 0..6 {
        let mut got = allocate_all(&rig, &[KIB; 3000]);
        assert!(got.iter().all(|allocation| ids.insert(allocation.id())), "an id is new");
        // In some rounds nothing lives, in the others an early one, so that the end of the tables is freed; each is used
        // another number of times.
        match round % 3 {
            0 => kept.push(got.swap_remove(100)),
            1 => rig.free_all(kept.drain(..)),
            _ => {}
        }
        rig.free_all(got);
        rig.trim();
        rig.check_invariants();
        let live: HashSet<_> = kept.iter().map(Allocation::id).collect();
        assert!(ids.iter().all(|&id| rig.reports().info(id).is_ok() == live.contains(&id)));
    }
    rig.free_all(kept);
}

#[test]
fn the_handles_of_a_pool_that_was_reset_are_stale_also_after_a_trim() {
    let rig = Rig::new(DISCRETE);
    let pool = rig.create_pool(fixed_pool(DEVICE_TYPE, MIB)).unwrap();
    let allocate = |pool: &Pool| rig.allocate_wanted_in(pool, &wanted_in(KIB, DEVICE_TYPE)).unwrap();
    let stale: Vec<_> = (0..2000).map(|_| allocate(&pool)).collect();
    rig.reset_pool(&pool).unwrap();
    let are_stale = || stale.iter().all(|handle| rig.location(handle).err() == Some(AccessError::Stale));
    rig.trim();
    assert!(are_stale());
    let live: Vec<_> = (0..2000).map(|_| allocate(&pool)).collect();
    assert!(are_stale());
    rig.free_all(live);
    rig.destroy_pool(pool).unwrap();
    rig.trim();
    assert!(are_stale());
    let pool = rig.create_pool(fixed_pool(DEVICE_TYPE, MIB)).unwrap();
    let live: Vec<_> = (0..2000).map(|_| allocate(&pool)).collect();
    assert!(are_stale());
    rig.free_all(live.into_iter().chain(stale));
    rig.destroy_pool(pool).unwrap();
}

#[test]
fn a_pool_never_goes_below_the_blocks_that_it_begins_with() {
    let rig = Rig::new(DISCRETE);
    let mut desc = fixed_pool(DEVICE_TYPE, 256 * KIB);
    (desc.min_blocks, desc.empty_blocks) = (2, EmptyBlockPolicy::NONE);
    let pool = rig.create_pool(desc).unwrap();
    assert_eq!(rig.objects(), 2);
    let desc = wanted_in(200 * KIB, DEVICE_TYPE);
    let got: Vec<_> = (0..4).map(|_| rig.allocate_wanted_in(&pool, &desc).unwrap()).collect();
    assert_eq!(rig.objects(), 4);
    rig.free_all(got);
    assert_eq!(rig.objects(), 2);
    rig.trim();
    (0..300).for_each(|_| rig.end_frame());
    assert_eq!(rig.objects(), 2);
    rig.destroy_pool(pool).unwrap();
}

/// The blocks that a pool begins with are shared ones: dedicated memory does not count as one.
#[test]
fn memory_of_its_own_does_not_count_as_a_block_that_the_pool_begins_with() {
    let rig = Rig::new(DISCRETE);
    let mut desc = PoolDesc::new([DEVICE_TYPE]);
    (desc.min_blocks, desc.empty_blocks) = (1, EmptyBlockPolicy::NONE);
    let pool = rig.create_pool(desc).unwrap();
    let large = rig.allocate_wanted_in(&pool, &wanted_in(300 * MIB, DEVICE_TYPE)).unwrap();
    rig.trim();
    assert_eq!(rig.reports().pool_statistics(&pool).unwrap().blocks, 1);
    rig.free(large).unwrap();
    let statistics = rig.reports().pool_statistics(&pool).unwrap();
    assert_eq!((statistics.blocks, statistics.dedicated), (1, 0));
    rig.destroy_pool(pool).unwrap();
}

/// VMA gives two blocks back and gets them again in each of these frames.
#[test]
fn a_frame_that_frees_and_allocates_the_same_again_calls_no_driver() {
    let rig = Rig::with(profile(DISCRETE), |desc| desc.block_sizes = crate::rig::small_blocks(MIB, MIB));
    for frame in 0..100 {
        rig.free_all(allocate_all(&rig, &[512 * KIB; 6]));
        rig.end_frame();
        assert_eq!(rig.reports().device_calls().memory(), 3, "frame {frame}");
    }
}

#[test]
fn what_nobody_frees_is_never_given_back() {
    let rig = Rig::with(profile(COARSE), |desc| desc.empty_blocks = EmptyBlockPolicy::NONE);
    let image = wanted(KIB, MemoryUsage::GpuOnly).with_kind(ResourceKind::OptimalImage);
    let (buffer, image) = (
        rig.allocate_wanted(&wanted(KIB, MemoryUsage::GpuOnly)).unwrap(),
        rig.allocate_wanted(&image).unwrap(),
    );
    (0..500).for_each(|_| rig.end_frame());
    rig.trim();
    assert_eq!(rig.objects(), 2);
    rig.free_all([buffer, image]);
}

const SECOND: Duration = Duration::from_secs(1);

/// An allocator and its clock, which stands still.
fn timed(change: impl FnOnce(&mut AllocatorDesc)) -> (Rig, ManualTime) {
    let time = ManualTime::new();
    let rig = Rig::with(profile(DISCRETE), |desc| {
        desc.time = TimeSource::Manual(time.clone());
        change(desc);
    });
    (rig, time)
}

/// Works as a compute tool: loads much, of all sizes, uploads it, and frees nearly all of it. Returns what it keeps.
fn compute(rig: &Rig) -> Vec<Allocation> {
    let sizes = |count| (0..count).map(|i| 64 * KIB + (i * 7919 * KIB) % (12 * MIB));
    let device = sizes(60).map(|size| rig.allocate_wanted(&wanted(size, MemoryUsage::GpuOnly)).unwrap());
    let all: Vec<_> = device.collect();
    let staging: Vec<_> =
        sizes(20).map(|size| rig.allocate_wanted(&wanted(size, MemoryUsage::Upload)).unwrap()).collect();
    assert!(rig.taken(HEAP) > 300 * MIB, "{} MiB", rig.taken(HEAP) / MIB);
    rig.free_all(staging);
    rig.free_all(all);
    vec![rig.allocate_wanted(&wanted(512 * KIB, MemoryUsage::GpuOnly)).unwrap()]
}

#[test]
fn a_program_without_frames_gives_its_peak_back_a_few_seconds_after_it() {
    let (rig, time) = timed(|_| {});
    let kept = compute(&rig);
    let peak = rig.statistics().block_bytes;
    time.advance(5 * SECOND);
    later(&rig);
    let left = rig.statistics().block_bytes;
    assert!(left <= 12 * MIB, "of {} MiB {} MiB are left", peak / MIB, left / MIB);
    rig.free_all(kept);
}

/// A few calls, in another memory type than that of most of what lies empty.
fn later(rig: &Rig) {
    for _ in 0..4 {
        rig.free(rig.allocate_wanted(&wanted(KIB, MemoryUsage::Readback)).unwrap()).unwrap();
    }
}

#[test]
fn calls_that_empty_no_block_notice_the_time_as_well() {
    let (rig, time) = timed(|_| {});
    let kept = compute(&rig);
    time.advance(5 * SECOND);
    for _ in 0..64 {
        rig.free(rig.allocate_wanted(&wanted(KIB, MemoryUsage::GpuOnly)).unwrap()).unwrap();
    }
    assert!(rig.statistics().block_bytes <= 12 * MIB, "{:?}", rig.statistics());
    rig.free_all(kept);
}

#[test]
fn what_is_used_again_within_the_time_is_kept() {
    let (rig, time) = timed(|_| {});
    let mut calls = None;
    for _ in 0..50 {
        rig.free_all(allocate_all(&rig, &[100 * MIB, 3 * MIB, 3 * MIB]));
        time.advance(SECOND);
        let so_far = rig.reports().device_calls().memory();
        assert_eq!(*calls.get_or_insert(so_far), so_far, "a driver call");
    }
}

#[test]
fn a_block_that_becomes_empty_has_not_been_empty_for_as_long_as_nobody_looked() {
    let (rig, time) = timed(|_| {});
    let got = allocate_all(&rig, &[100 * MIB]);
    time.advance(100 * SECOND);
    rig.free_all(got);
    assert_eq!(rig.objects(), 1, "it was in use until now");
    time.advance(5 * SECOND);
    (0..4).for_each(|_| rig.free_all(allocate_all(&rig, &[KIB])));
    assert!(rig.statistics().block_bytes <= 4 * MIB);
}

#[test]
fn a_program_that_grows_again_gives_back_first_what_lies_empty_elsewhere() {
    let (rig, time) = timed(|_| {});
    rig.free(rig.allocate_wanted(&wanted(100 * MIB, MemoryUsage::Upload)).unwrap()).unwrap();
    time.advance(5 * SECOND);
    let got = rig.allocate_wanted(&wanted(100 * MIB, MemoryUsage::GpuOnly)).unwrap();
    assert_eq!(rig.objects(), 1);
    rig.free(got).unwrap();
}

#[test]
fn while_frames_end_real_time_does_not_count_however_long_they_take() {
    let (rig, time) = timed(|desc| desc.empty_blocks = empty_blocks(10, 1024 * MIB));
    rig.free_all(allocate_all(&rig, &[100 * MIB]));
    for _ in 0..9 {
        time.advance(3 * SECOND);
        rig.end_frame();
        (0..8).for_each(|_| rig.free_all(allocate_all(&rig, &[KIB])));
    }
    assert_eq!(rig.objects(), 2);
    rig.end_frame();
    assert_eq!(rig.objects(), 1);
}

#[test]
fn when_the_frames_are_over_real_time_counts_again() {
    let (rig, time) = timed(|_| {});
    (0..3).for_each(|_| rig.end_frame());
    rig.free_all(allocate_all(&rig, &[100 * MIB]));
    rig.end_frame();
    time.advance(15 * SECOND);
    (0..8).for_each(|_| rig.free_all(allocate_all(&rig, &[KIB])));
    assert!(rig.statistics().block_bytes <= 4 * MIB, "{:?}", rig.statistics());
}

#[test]
fn a_reservation_holds_for_as_much_real_time_as_retention_says() {
    let (rig, time) = timed(|_| {});
    rig.reserve_wanted(&wanted(MIB, MemoryUsage::GpuOnly), 100 * MIB).unwrap();
    time.advance(SECOND);
    later(&rig);
    assert!(rig.statistics().block_bytes >= 100 * MIB);
    time.advance(3 * SECOND);
    later(&rig);
    time.advance(3 * SECOND);
    later(&rig);
    assert!(rig.statistics().block_bytes <= 4 * MIB, "{:?}", rig.statistics());
}

#[test]
fn upkeep_gives_back_what_real_time_made_old_without_a_call_of_anybody_else() {
    let (rig, time) = timed(|desc| desc.block_growth = BlockGrowth::Ahead(Watermark::default()));
    let kept = compute(&rig);
    rig.maintain();
    (0..3).for_each(|_| {
        time.advance(5 * SECOND);
        rig.maintain();
    });
    assert!(rig.statistics().block_bytes <= 24 * MIB, "{:?}", rig.statistics());
    rig.free_all(kept);
}

#[test]
fn a_keeper_notices_real_time_by_itself() {
    let time = ManualTime::new();
    let mut desc = AllocatorDesc::default();
    (desc.block_growth, desc.time) =
        (BlockGrowth::Ahead(Watermark::default()), TimeSource::Manual(time.clone()));
    desc.block_sizes = BlockSizes::fixed(MIB);
    let device = SimulatedGpu::new(profile(DISCRETE));
    let allocator = Arc::new(Allocator::new(device, desc).unwrap());
    allocator.free(allocator.allocate_wanted(&wanted(100 * MIB, MemoryUsage::GpuOnly)).unwrap()).unwrap();
    let keeper = MaintenanceThread::spawn(Arc::clone(&allocator)).unwrap();
    time.advance(100 * SECOND);
    let began = std::time::Instant::now();
    while allocator.statistics().block_bytes > 4 * MIB {
        assert!(began.elapsed() < 20 * SECOND, "{:?}", allocator.statistics());
        std::thread::yield_now();
    }
    drop(keeper);
}
