//! What deferred coalescing keeps, how much of it, and for how long.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use allotment_suballoc::{
    Algorithm, Alignment, Allocation, Coalescing, Compaction, RegionKind, Request, ResizeError, VirtualBlock,
};

fn deferred(size: u64) -> VirtualBlock<()> {
    let mut block = VirtualBlock::new(size, Algorithm::Tlsf).unwrap();
    block.set_coalescing(Coalescing::Deferred);
    block
}

fn allocate(block: &mut VirtualBlock<()>, size: u64) -> Allocation {
    block.allocate(Request::new(size), ()).unwrap()
}

#[test]
fn the_range_that_was_freed_last_serves_the_next_request_of_its_size() {
    let mut block = deferred(1 << 20);
    let ranges = [1000, 1010, 1020, 400].map(|size| allocate(&mut block, size));
    ranges.iter().for_each(|range| block.free(range.handle).unwrap());
    assert_eq!(block.coalesce(0), 4);
    // 400 is of another class than the others, which are of one.
    let offsets = [1001, 400, 1002, 1003].map(|size| allocate(&mut block, size).offset);
    assert_eq!(offsets, [2, 3, 1, 0].map(|which: usize| ranges[which].offset));
    assert_eq!(block.statistics().padding, (1024 - 1001) + (1024 - 1002) + (1024 - 1003));
}

#[test]
fn a_cached_range_at_a_wrong_offset_is_passed_over() {
    let mut block = deferred(1 << 20);
    let ranges = [64, 64].map(|size| allocate(&mut block, size));
    ranges.iter().for_each(|range| block.free(range.handle).unwrap());
    assert_eq!(ranges[1].offset, 64);
    let aligned = Request::new(64).aligned(Alignment::new(4096).unwrap());
    assert_eq!(block.allocate(aligned, ()).unwrap().offset % 4096, 0);
    block.check_invariants();
}

#[test]
fn no_more_is_cached_than_eight_of_a_size_and_an_eighth_of_what_is_used() {
    let mut block = deferred(1 << 30);
    let ranges: Vec<_> = (0..10_000).map(|_| allocate(&mut block, 1024)).collect();
    for (i, range) in ranges.iter().enumerate() {
        block.free(range.handle).unwrap();
        let (live, cached) = (10_000 - i as u64 - 1, u64::from(block.coalesce(0)));
        // A free merges some of what is too much, and not all at once.
        assert!(cached <= 8 + (live + cached) / 8 + 32, "{cached} are cached beside {live}");
    }
    assert!((8..40).contains(&block.coalesce(0)));
    assert_eq!(block.coalesce(u32::MAX), 0);
    assert_eq!(block.largest_free(), 1 << 30);
    assert_eq!(block.statistics().free_range_count, 1);
}

#[test]
fn a_full_block_merges_at_once_until_a_sixteenth_of_it_is_free() {
    let mut block = deferred(64 * 256);
    let ranges: Vec<_> = (0..64).map(|_| allocate(&mut block, 256).handle).collect();
    [1, 3].into_iter().for_each(|which| block.free(ranges[which]).unwrap());
    assert_eq!(block.coalesce(0), 2);
    assert!(block.allocate(Request::new(257), ()).is_err(), "both are as large as that, apart");
    assert_eq!(block.coalesce(0), 0, "what did not serve is merged");
    // 62 are left; a sixteenth of the block are 4.
    for which in [5, 7, 9, 11] {
        block.free(ranges[which]).unwrap();
        assert_eq!(block.coalesce(0), 0, "space is short");
    }
    block.free(ranges[13]).unwrap();
    assert_eq!(block.coalesce(0), 1);
}

#[test]
fn a_request_merges_no_more_than_it_needs() {
    let mut block = deferred(4 * 34 + 38 + 4);
    let ranges = [34, 34, 34, 34, 38, 4].map(|size| allocate(&mut block, size));
    ranges[..5].iter().for_each(|range| block.free(range.handle).unwrap());
    assert_eq!(block.coalesce(0), 5);
    assert!(block.allocate(Request::new(500), ()).is_err());
    assert_eq!(block.coalesce(0), 5, "more than all that is free");
    assert_eq!(allocate(&mut block, 35).offset, ranges[4].offset, "the only one that is large enough");
    assert_eq!(block.coalesce(0), 4);
    // 3 units are left behind it.
    assert_eq!(allocate(&mut block, 4 * 34).offset, 0);
    assert_eq!(block.coalesce(0), 0);
    block.check_invariants();
}

#[test]
fn a_block_with_room_goes_on_to_cache_ranges_after_it_refused_a_large_request() {
    let mut block = deferred(1000);
    let ranges = [300, 100, 300].map(|size| allocate(&mut block, size));
    block.free(ranges[1].handle).unwrap();
    assert!(block.allocate(Request::new(350), ()).is_err());
    let small = allocate(&mut block, 50);
    block.free(small.handle).unwrap();
    assert_eq!(block.coalesce(0), 1);
}

#[test]
fn a_range_grows_into_cached_ranges_as_far_as_it_needs() {
    let mut block = deferred(11 * 64);
    let ranges: Vec<_> = (0..11).map(|_| allocate(&mut block, 64).handle).collect();
    // The list of the class ends with the range that is freed first.
    (1..=7).rev().for_each(|which| block.free(ranges[which]).unwrap());
    block.resize(ranges[0], 3 * 64 - 10).unwrap();
    assert_eq!(block.coalesce(0), 5);
    block.check_invariants();
    let refused = block.resize(ranges[0], 8 * 64 + 1);
    assert_eq!(refused, Err(ResizeError::NoRoom { size: 8 * 64 + 1, largest: 8 * 64 }));
    block.resize(ranges[0], 8 * 64).unwrap();
    block.check_invariants();
}

#[test]
fn a_move_that_is_open_ends_under_the_other_policy() {
    let mut block = deferred(1 << 12);
    let ranges = [100, 100, 100].map(|size| allocate(&mut block, size));
    ranges[..2].iter().for_each(|range| block.free(range.handle).unwrap());
    for coalescing in [Coalescing::Immediate, Coalescing::Deferred] {
        let moved = block.next_move(&mut Compaction::new(), |()| Some(Alignment::ONE)).unwrap();
        block.set_coalescing(coalescing);
        block.check_invariants();
        let Some(moved) = moved else { continue };
        block.finish_move(moved).unwrap();
        block.check_invariants();
    }
    let used: Vec<_> =
        block.regions().filter(|region| matches!(region.kind, RegionKind::Used { .. })).collect();
    assert_eq!((used.len(), used[0].offset), (1, 0));
}

#[test]
fn space_is_never_more_than_wholly_fragmented_nor_less_than_not_at_all() {
    let mut block = deferred(3 * 34);
    let ranges = [33, 33, 33].map(|size| allocate(&mut block, size));
    block.free(ranges[1].handle).unwrap();
    let detailed = block.detailed_statistics();
    assert_eq!(
        (detailed.brief.free, detailed.largest_free),
        (34, 35),
        "with the padding of the range before"
    );
    assert_eq!(detailed.fragmentation(), 0.0);
}

#[test]
fn a_request_that_needs_the_padding_of_others_gets_it() {
    // 33 are rounded up to 34.
    let mut block = deferred(3 * 34 + 1);
    let ranges = [33, 33, 33].map(|size| allocate(&mut block, size));
    assert_eq!(ranges.map(|range| range.offset), [0, 34, 68]);
    assert_eq!(block.statistics().padding, 3);
    block.free(ranges[1].handle).unwrap();
    assert_eq!(block.largest_free(), 35);
    assert_eq!(allocate(&mut block, 35).offset, 33);
    assert_eq!(block.statistics().padding, 0);
    block.check_invariants();
}

#[test]
fn handles_outlive_a_change_of_the_policy_and_stale_ones_stay_stale() {
    let mut block = VirtualBlock::new(1 << 16, Algorithm::Tlsf).unwrap();
    let [before, freed] = ["before", "freed"].map(|data| block.allocate(Request::new(100), data).unwrap());
    block.free(freed.handle).unwrap();
    block.set_coalescing(Coalescing::Deferred);
    let [during, cached] = ["during", "cached"].map(|data| block.allocate(Request::new(100), data).unwrap());
    block.free(cached.handle).unwrap();
    block.set_coalescing(Coalescing::Immediate);
    block.check_invariants();
    let after = block.allocate(Request::new(100), "after").unwrap();
    for stale in [freed, cached] {
        assert!(block.free(stale.handle).is_err());
    }
    for (range, data) in [(before, "before"), (during, "during"), (after, "after")] {
        assert_eq!(block.free(range.handle), Ok(data));
    }
    assert!(block.is_empty());
}

#[test]
fn buddy_and_linear_blocks_have_no_choice() {
    for algorithm in [Algorithm::Buddy, Algorithm::Linear] {
        let mut block = VirtualBlock::new(64, algorithm).unwrap();
        let range = block.allocate(Request::new(8), ()).unwrap();
        block.set_coalescing(Coalescing::Deferred);
        assert_eq!(block.coalescing(), Coalescing::Immediate);
        block.free(range.handle).unwrap();
        assert_eq!((block.coalesce(9), block.largest_free()), (0, 64));
    }
}

#[test]
fn cached_ranges_are_merged_a_few_at_a_time_also_where_offsets_need_more_than_32_bits() {
    for size in [1 << 20, 1 << 40] {
        let mut block = deferred(size);
        for range in [(); 8].map(|()| allocate(&mut block, 64)) {
            block.free(range.handle).unwrap();
        }
        assert_eq!([5, 2, 5].map(|at_most| block.coalesce(at_most)), [3, 1, 0], "a block of {size}");
        block.check_invariants();
    }
}

#[test]
fn a_request_for_all_that_is_free_merges_all_of_it() {
    let mut block = deferred(128);
    for range in [(); 2].map(|()| allocate(&mut block, 64)) {
        block.free(range.handle).unwrap();
    }
    assert!(block.would_fit(&Request::new(128)));
    assert_eq!(allocate(&mut block, 128).offset, 0);
}

#[test]
fn the_room_for_a_request_is_where_it_is_served_also_beside_cached_ranges() {
    let mut block = deferred(1000);
    let [first, _] = [(); 2].map(|()| allocate(&mut block, 100));
    block.free(first.handle).unwrap();
    assert_eq!(block.room_for(&Request::new(50)), Some(800));
    assert_eq!(allocate(&mut block, 50).offset, 200);
    // Only cached ranges that are merged hold it.
    let mut block = deferred(448);
    let ranges = [(); 7].map(|()| allocate(&mut block, 64));
    [0, 1, 2, 4, 5].into_iter().for_each(|at: usize| block.free(ranges[at].handle).unwrap());
    assert_eq!(block.room_for(&Request::new(100)), Some(128));
    assert_eq!(allocate(&mut block, 100).offset, 256);
}

#[test]
fn what_is_cached_beyond_an_eighth_is_merged_a_few_at_a_time() {
    let mut block = deferred(1 << 22);
    let mut ranges = [(); 60].map(|()| allocate(&mut block, 64)).into_iter();
    let rest = allocate(&mut block, 1);
    let mut free = |block: &mut VirtualBlock<()>, count| {
        ranges.by_ref().take(count).for_each(|range| block.free(range.handle).unwrap());
    };
    free(&mut block, 9);
    assert_eq!(block.coalesce(0), 8);
    free(&mut block, 14);
    // An eighth of what is used holds all of them.
    block.resize(rest.handle, (1 << 20) + 1).unwrap();
    free(&mut block, 30);
    assert_eq!(block.coalesce(0), 38);
    // Each frees a range that is not cached, since it has exactly the size that was asked for, and merges a few others where
    // it may.
    let turn = |block: &mut VirtualBlock<()>| {
        let range = allocate(block, 33);
        block.resize(range.handle, 33).unwrap();
        block.free(range.handle).unwrap();
        block.coalesce(0)
    };
    let mut cached = turn(&mut block);
    assert!((0..60).all(|_| turn(&mut block) >= 38), "an eighth is not exceeded");
    block.free(rest.handle).unwrap();
    for _ in 0..60 {
        let now = turn(&mut block);
        assert!(cached - now.min(cached) <= 16, "{cached} to {now} in one step");
        cached = now;
    }
    assert!(cached <= 9, "{cached} are left");
    block.check_invariants();
}

#[test]
fn a_block_that_was_cleared_has_nothing_cached() {
    let mut block = deferred(1 << 20);
    for range in [(); 8].map(|()| allocate(&mut block, 64)) {
        block.free(range.handle).unwrap();
    }
    block.clear();
    assert_eq!((block.coalesce(0), block.statistics().free_range_count), (0, 1));
    let range = allocate(&mut block, 64);
    block.free(range.handle).unwrap();
    block.clear();
    assert_eq!(allocate(&mut block, 1 << 20).offset, 0);
}
