//! What a pool decides from its own traffic: sizes of blocks, and which freed memory is worth keeping.

use allotment::Allocation;
use allotment::memory::blocks::BlockSizes;

use crate::rig::{AllocateWanted as _, DEVICE_TYPE, DISCRETE, HEAP, KIB, MIB, Rig, profile, wanted_in};

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
