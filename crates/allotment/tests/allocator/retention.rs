//! Which empty memory is kept, for how long, and who gets it.

use allotment::memory::{Lifetime, Retention};
use allotment::{Allocation, Intent, PoolDesc, ResourceKind};

use crate::rig::{
    COARSE, DEVICE_TYPE, DISCRETE, HEAP, KIB, MIB, Rig, fixed_pool, profile, retention, wanted, wanted_in,
};

fn rig_that_keeps(retention: Retention) -> Rig {
    Rig::with(profile(DISCRETE), |desc| desc.retention = retention)
}

fn allocate_all(rig: &Rig, sizes: &[u64]) -> Vec<Allocation> {
    sizes.iter().map(|&size| rig.allocate(&wanted_in(size, DEVICE_TYPE)).unwrap()).collect()
}

#[test]
fn who_keeps_nothing_gives_a_block_back_as_soon_as_it_is_empty() {
    let rig = rig_that_keeps(Retention::NONE);
    let mut got = allocate_all(&rig, &[KIB, KIB, 20 * MIB]);
    assert_eq!(rig.objects(), 2);
    rig.free(got.pop().unwrap()).unwrap();
    rig.free(got.pop().unwrap()).unwrap();
    assert_eq!(rig.objects(), 1, "the block is not empty yet");
    rig.free_all(got);
    assert_eq!(rig.objects(), 0);
}

#[test]
fn an_empty_block_is_kept_for_as_many_frames_as_was_said() {
    let rig = rig_that_keeps(retention(10, 64 * MIB));
    rig.free_all(allocate_all(&rig, &[KIB]));
    (0..9).for_each(|_| rig.end_frame());
    assert_eq!(rig.objects(), 1);
    rig.end_frame();
    assert_eq!(rig.objects(), 0);
}

#[test]
fn a_block_that_is_used_again_is_as_good_as_new() {
    let rig = rig_that_keeps(retention(10, 64 * MIB));
    for _ in 0..30 {
        rig.free_all(allocate_all(&rig, &[KIB]));
        (0..7).for_each(|_| rig.end_frame());
    }
    assert_eq!(rig.device_calls().memory(), 1);
}

#[test]
fn a_frame_gives_back_one_block_at_most() {
    let rig = rig_that_keeps(retention(4, 1024 * MIB));
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
    let rig = rig_that_keeps(retention(2, 1024 * MIB));
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
    let rig = rig_that_keeps(retention(1000, 4 * MIB));
    rig.free_all(allocate_all(&rig, &[16 * MIB, 16 * MIB]));
    assert_eq!(rig.taken(HEAP), 32 * MIB, "what was needed is kept");
    let other = rig.allocate(&wanted_in(12 * MIB, DEVICE_TYPE)).unwrap();
    rig.free(other).unwrap();
    let kept = rig.taken(HEAP);
    assert!(kept <= 36 * MIB, "{} MiB are kept", kept / MIB);
    assert!(kept >= 28 * MIB, "what was needed is kept: {} MiB", kept / MIB);
}

#[test]
fn spare_memory_of_its_own_goes_to_the_next_of_about_the_same_size() {
    let rig = rig_that_keeps(retention(1000, 1024 * MIB));
    rig.free_all(allocate_all(&rig, &[64 * MIB]));
    let calls = rig.device_calls();
    let smaller = allocate_all(&rig, &[60 * MIB]);
    assert_eq!(rig.device_calls(), calls, "60 MiB stand in the 64");
    assert_eq!(rig.block_size_of(&smaller[0]), 64 * MIB);
    assert!(rig.is_dedicated(&smaller[0]));
    rig.free_all(smaller);
    let much_smaller = allocate_all(&rig, &[40 * MIB]);
    assert_eq!(rig.block_size_of(&much_smaller[0]), 40 * MIB, "24 MiB would lie idle");
    rig.free_all(much_smaller);
}

#[test]
fn the_spare_memory_that_fits_best_is_taken() {
    let rig = rig_that_keeps(retention(1000, 1024 * MIB));
    rig.free_all(allocate_all(&rig, &[66 * MIB, 64 * MIB, 65 * MIB]));
    let best = allocate_all(&rig, &[64 * MIB]);
    assert_eq!(rig.block_size_of(&best[0]), 64 * MIB);
    rig.free_all(best);
}

#[test]
fn a_trim_gives_everything_back_that_is_empty_and_says_whether_there_was_any() {
    let rig = rig_that_keeps(retention(1000, 1024 * MIB));
    let kept = allocate_all(&rig, &[KIB]);
    rig.free_all(allocate_all(&rig, &[20 * MIB, 30 * MIB]));
    let short = wanted(KIB, Intent::Upload).living(Lifetime::Short);
    rig.free(rig.allocate(&short).unwrap()).unwrap();
    assert_eq!(rig.objects(), 4);
    assert!(rig.trim());
    assert_eq!(rig.objects(), 1);
    assert!(!rig.trim());
    rig.free_all(kept);
}

#[test]
fn a_pool_never_goes_below_the_blocks_that_it_begins_with() {
    let rig = Rig::new(DISCRETE);
    let mut desc = fixed_pool(DEVICE_TYPE, 256 * KIB);
    (desc.min_blocks, desc.retention) = (2, Retention::NONE);
    let pool = rig.create_pool(desc).unwrap();
    assert_eq!(rig.objects(), 2);
    let desc = wanted_in(200 * KIB, DEVICE_TYPE);
    let got: Vec<_> = (0..4).map(|_| rig.allocate_in(&pool, &desc).unwrap()).collect();
    assert_eq!(rig.objects(), 4);
    rig.free_all(got);
    assert_eq!(rig.objects(), 2);
    rig.trim();
    (0..300).for_each(|_| rig.end_frame());
    assert_eq!(rig.objects(), 2);
    rig.destroy_pool(pool).unwrap();
}

/// The blocks that a pool begins with are shared ones: memory of its own does not stand in for them.
#[test]
fn memory_of_its_own_does_not_count_as_a_block_that_the_pool_begins_with() {
    let rig = Rig::new(DISCRETE);
    let mut desc = PoolDesc::new([DEVICE_TYPE]);
    (desc.min_blocks, desc.retention) = (1, Retention::NONE);
    let pool = rig.create_pool(desc).unwrap();
    let large = rig.allocate_in(&pool, &wanted_in(300 * MIB, DEVICE_TYPE)).unwrap();
    rig.trim();
    assert_eq!(rig.pool_statistics(&pool).unwrap().blocks, 1);
    rig.free(large).unwrap();
    let statistics = rig.pool_statistics(&pool).unwrap();
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
        assert_eq!(rig.device_calls().memory(), 3, "frame {frame}");
    }
}

#[test]
fn what_nobody_frees_is_never_given_back() {
    let rig = Rig::with(profile(COARSE), |desc| desc.retention = Retention::NONE);
    let image = wanted(KIB, Intent::Device).of_kind(ResourceKind::OptimalImage);
    let (buffer, image) =
        (rig.allocate(&wanted(KIB, Intent::Device)).unwrap(), rig.allocate(&image).unwrap());
    (0..500).for_each(|_| rig.end_frame());
    rig.trim();
    assert_eq!(rig.objects(), 2);
    rig.free_all([buffer, image]);
}
