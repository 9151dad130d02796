//! What a pool decides from its own traffic: sizes of blocks, and which freed memory is worth keeping.

use allotment::device::{MemoryDesc, MemoryDevice as _};
use allotment::memory::blocks::BlockSizes;
use allotment::{Alignment, Allocation, PoolDesc};

use crate::rig::{
    AllocateWanted as _, DEVICE_TYPE, DISCRETE, HEAP, KIB, MIB, Rig, fixed_pool, profile, wanted_in,
};

fn allocate(rig: &Rig, size: u64) -> Allocation {
    rig.allocate_wanted(&wanted_in(size, DEVICE_TYPE)).unwrap()
}

/// Calls that allocate or free memory.
fn calls(rig: &Rig) -> u64 {
    rig.reports().device_calls().memory()
}

#[test]
fn a_block_for_a_request_that_is_no_small_part_of_it_has_room_for_whole_requests_only() {
    let rig = Rig::new(DISCRETE);
    let first = allocate(&rig, 1536 * KIB);
    assert_eq!(rig.block_size_of(&first), 3 * MIB, "a third one would not fit 4 MiB");
    let second = allocate(&rig, 1536 * KIB);
    assert_eq!(rig.memory_of(&first), rig.memory_of(&second));
    let third = allocate(&rig, 3 * MIB);
    assert_eq!(rig.block_size_of(&third), 3 * MIB);
    rig.free_all([first, second, third]);
}

#[test]
fn a_block_for_a_small_request_has_the_whole_size() {
    let rig = Rig::new(DISCRETE);
    let small = allocate(&rig, 700 * KIB);
    assert_eq!(rig.block_size_of(&small), 4 * MIB);
    rig.free(small).unwrap();
}

#[test]
fn blocks_of_one_size_have_that_whatever_the_request() {
    let rig = Rig::with(profile(DISCRETE), |desc| desc.block_sizes = BlockSizes::fixed(32 * MIB));
    let first = allocate(&rig, 10 * MIB);
    assert_eq!(rig.block_size_of(&first), 32 * MIB);
    rig.free(first).unwrap();
}

#[test]
fn a_large_request_takes_room_in_a_shared_block_before_it_gets_dedicated_memory() {
    let rig = Rig::new(DISCRETE);
    // 320 MiB make the next block 16 MiB, and the threshold 4 MiB.
    let base: Vec<_> = (0..320).map(|_| allocate(&rig, MIB)).collect();
    let filler: Vec<_> = (0..16).map(|_| allocate(&rig, MIB)).collect();
    let (freed, kept): (Vec<_>, Vec<_>) =
        filler.into_iter().enumerate().partition(|(at, _)| (4..14).contains(at));
    rig.free_all(freed.into_iter().map(|(_, allocation)| allocation));
    let before = calls(&rig);
    let large = allocate(&rig, 5 * MIB);
    assert_eq!(calls(&rig), before);
    assert!(!rig.is_dedicated(&large));
    rig.free(large).unwrap();
    rig.free_all(base);
    rig.free_all(kept.into_iter().map(|(_, allocation)| allocation));
}

#[test]
fn a_size_that_was_never_freed_before_shares_a_spare_block_and_one_that_was_gets_its_own() {
    let rig = Rig::new(DISCRETE);
    let base = allocate(&rig, 20 * MIB);
    rig.free(allocate(&rig, 64 * MIB)).unwrap();
    let before = calls(&rig);
    let first = allocate(&rig, 40 * MIB);
    assert_eq!(
        (calls(&rig), rig.block_size_of(&first)),
        (before, 64 * MIB),
        "nothing says that 40 MiB come again"
    );
    rig.free(first).unwrap();
    rig.trim();
    rig.free(allocate(&rig, 64 * MIB)).unwrap();
    let second = allocate(&rig, 40 * MIB);
    assert_eq!(rig.block_size_of(&second), 40 * MIB, "they did come again");
    rig.free_all([base, second]);
}

#[test]
fn the_targets_of_a_window_that_was_resized_do_not_lie_beside_the_new_ones() {
    let rig = Rig::new(DISCRETE);
    let frames = |rig: &Rig| (0..10).for_each(|_| rig.end_frame());
    let targets = |rig: &Rig, size: u64| [0, 1, 2].map(|_| allocate(rig, size));
    let small = targets(&rig, 20 * MIB);
    frames(&rig);
    rig.free_all(small);
    // Larger ones, in the same frame.
    let large = targets(&rig, 33 * MIB);
    assert!(rig.taken(HEAP) <= 3 * 33 * MIB + 20 * MIB, "{} MiB", rig.taken(HEAP) / MIB);
    frames(&rig);
    rig.free_all(large);
}

#[test]
fn memory_of_sizes_that_are_used_in_turns_is_kept_once_they_came_back() {
    let rig = Rig::new(DISCRETE);
    let mut last = 0;
    for frame in 0..20 {
        let before = calls(&rig);
        let target = allocate(&rig, if frame % 2 == 0 { 33 * MIB } else { 20 * MIB });
        rig.free(target).unwrap();
        rig.end_frame();
        if calls(&rig) != before {
            last = frame;
        }
    }
    assert!(last < 6, "frame {last} still called the driver");
}

/// Requests `size` bytes that are aligned to 64 KiB.
fn allocate_aligned(rig: &Rig, size: u64) -> Allocation {
    let mut wanted = wanted_in(size, DEVICE_TYPE);
    wanted.requirements.alignment = Alignment::new(64 * KIB).unwrap();
    rig.allocate_wanted(&wanted).unwrap()
}

#[test]
fn the_place_of_an_aligned_request_serves_the_next_of_them_and_no_small_one() {
    let rig = Rig::new(DISCRETE);
    let mut live: Vec<_> = (0..4).map(|_| allocate_aligned(&rig, 4000)).collect();
    live.extend((0..8).map(|_| allocate(&rig, 4096)));
    let offset = |allocation: &Allocation| rig.location(allocation).unwrap().offset;
    let place = offset(&live[1]);
    rig.free(live.swap_remove(1)).unwrap();
    let small = allocate(&rig, 4096);
    assert_ne!(offset(&small), place, "it fits exactly");
    let next = allocate_aligned(&rig, 300);
    assert_eq!(offset(&next), place, "it is smaller, and fits");
    live.extend([small, next]);
    rig.free_all(live);
}

#[test]
fn the_places_of_aligned_requests_are_free_where_nothing_else_is() {
    let rig = Rig::with(profile(DISCRETE), |desc| desc.block_sizes = BlockSizes::fixed(MIB));
    let aligned: Vec<_> = (0..16).map(|_| allocate_aligned(&rig, 4096)).collect();
    let between: Vec<_> = (0..16).map(|_| allocate(&rig, 60 * KIB)).collect();
    let first = rig.memory_of(&aligned[0]);
    assert!(aligned.iter().chain(&between).all(|it| rig.memory_of(it) == first), "the block is full");
    rig.free_all(aligned);
    let small: Vec<_> = (0..16).map(|_| allocate(&rig, 4096)).collect();
    assert!(small.iter().all(|it| rig.memory_of(it) == first));
    rig.free_all(between);
    rig.free_all(small);
}

#[test]
fn the_place_of_a_large_aligned_request_is_not_taken_by_a_tiny_one() {
    let rig = Rig::new(DISCRETE);
    let mut pool = fixed_pool(DEVICE_TYPE, MIB);
    pool.max_blocks = 1;
    for fixed in [false, true] {
        let pool = rig.create_pool(if fixed { pool.clone() } else { PoolDesc::new([DEVICE_TYPE]) }).unwrap();
        let allocate = |size: u64, alignment: u64| {
            let mut wanted = wanted_in(size, DEVICE_TYPE);
            wanted.requirements.alignment = Alignment::new(alignment).unwrap();
            rig.allocate_wanted_in(&pool, &wanted)
        };
        let first = allocate(32 * KIB, 64 * KIB).unwrap();
        let others: Vec<_> = core::iter::from_fn(|| allocate(32 * KIB, 256).ok()).take(31).collect();
        rig.free(first).unwrap();
        let tiny = allocate(300, 64 * KIB).unwrap();
        assert!(rig.info(&tiny).unwrap().occupied <= 8 * KIB, "fixed: {fixed}");
        let rest = allocate(16 * KIB, 256).expect("31 KiB are free behind it");
        assert_eq!(rig.memory_of(&rest), rig.memory_of(&others[0]), "fixed: {fixed}");
        rig.free_all(others);
        rig.free_all([tiny, rest]);
        rig.destroy_pool(pool).unwrap();
    }
}

#[test]
fn a_range_that_the_exact_size_fits_serves_an_aligned_request_where_the_driver_gives_no_other() {
    let rig = Rig::with(profile("discrete-no-bar"), |desc| desc.block_sizes = BlockSizes::fixed(MIB));
    // The block is full but for 2,560 bytes at a multiple of 64 KiB.
    let first = allocate_aligned(&rig, 64 * KIB);
    let hole = allocate(&rig, 2560);
    let rest = allocate(&rig, MIB - 64 * KIB - 2560);
    assert_eq!(rig.location(&hole).unwrap().offset, 64 * KIB);
    rig.free(hole).unwrap();
    // Another part of the program has all other memory.
    let mut others = Vec::new();
    let left = || rig.device.properties().heaps[HEAP.get()].size - rig.taken(HEAP);
    while left() > 0 {
        let desc = MemoryDesc::new(DEVICE_TYPE, left().min(2 << 30));
        others.push(rig.device.allocate_memory(&desc).unwrap());
    }
    let aligned = allocate_aligned(&rig, 2000);
    assert_eq!(rig.location(&aligned).unwrap().offset, 64 * KIB);
    rig.free_all([first, rest, aligned]);
    for memory in others {
        // SAFETY: nothing is bound to it, and it is freed once.
        unsafe { rig.device.free_memory(memory) };
    }
}

#[test]
fn a_large_request_finds_the_only_block_that_fits_behind_many_that_are_aligned_wrongly() {
    let rig = Rig::new(DISCRETE);
    let mut desc = fixed_pool(DEVICE_TYPE, MIB);
    desc.max_blocks = 66;
    let pool = rig.create_pool(desc).unwrap();
    let allocate = |size: u64| rig.allocate_wanted_in(&pool, &wanted_in(size, DEVICE_TYPE)).unwrap();
    let (mut kept, mut holes) = (Vec::new(), Vec::new());
    for _ in 0..65 {
        kept.push(allocate(4 * KIB));
        holes.push(allocate(512 * KIB));
        kept.push(allocate(508 * KIB));
    }
    // The last one is emptier than those before.
    let last = allocate(384 * KIB);
    rig.free_all(holes);
    let mut wanted = wanted_in(512 * KIB, DEVICE_TYPE);
    wanted.requirements.alignment = Alignment::new(64 * KIB).unwrap();
    let found = rig.allocate_wanted_in(&pool, &wanted).expect("the last block has room");
    assert_eq!(rig.memory_of(&found), rig.memory_of(&last));
    rig.free_all(kept);
    rig.free_all([last, found]);
    rig.destroy_pool(pool).unwrap();
}

#[test]
fn alignment_is_not_paid_twice_where_small_requests_come_and_go_between_aligned_ones() {
    let (rig, mut rng) = (Rig::new(DISCRETE), 7_u64);
    let mut random = |below: u64| {
        rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (rng >> 33) % below
    };
    let (mut live, mut aligned, mut most_aligned) = (Vec::new(), 0_u64, 0);
    for at in 0..12_000 {
        if at >= 2000 {
            let (is_aligned, allocation) = live.swap_remove(random(2000) as usize);
            rig.free(allocation).unwrap();
            aligned -= u64::from(is_aligned);
        }
        let (is_aligned, size) = (random(4) == 0, 256 + random(8 * KIB - 256));
        let allocation = if is_aligned { allocate_aligned(&rig, size) } else { allocate(&rig, size) };
        live.push((is_aligned, allocation));
        aligned += u64::from(is_aligned);
        most_aligned = most_aligned.max(aligned);
    }
    let (reserved, least) = (rig.statistics().block_bytes, most_aligned * 64 * KIB);
    assert!(reserved <= least + least / 8 + 4 * MIB, "{reserved} for {least}");
    rig.free_all(live.into_iter().map(|(_, allocation)| allocation));
}
