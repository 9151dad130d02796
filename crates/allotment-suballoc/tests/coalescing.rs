//! What deferred coalescing keeps, how much of it, and for how long.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use allotment_suballoc::{Algorithm, Alignment, Allocation, Coalescing, Request, VirtualBlock};

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
fn a_kept_range_at_a_wrong_offset_is_passed_over() {
    let mut block = deferred(1 << 20);
    let ranges = [64, 64].map(|size| allocate(&mut block, size));
    ranges.iter().for_each(|range| block.free(range.handle).unwrap());
    assert_eq!(ranges[1].offset, 64);
    let aligned = Request::new(64).aligned(Alignment::new(4096).unwrap());
    assert_eq!(block.allocate(aligned, ()).unwrap().offset % 4096, 0);
    block.check_invariants();
}

#[test]
fn no_more_is_kept_than_eight_of_a_size_and_an_eighth_of_what_is_used() {
    let mut block = deferred(1 << 30);
    let ranges: Vec<_> = (0..10_000).map(|_| allocate(&mut block, 1024)).collect();
    for (i, range) in ranges.iter().enumerate() {
        block.free(range.handle).unwrap();
        let (live, kept) = (10_000 - i as u64 - 1, u64::from(block.coalesce(0)));
        // A free merges some of what is too much, and not all at once.
        assert!(kept <= 8 + (live + kept) / 8 + 32, "{kept} are kept beside {live}");
    }
    assert!((8..40).contains(&block.coalesce(0)));
    assert_eq!(block.coalesce(u32::MAX), 0);
    assert_eq!(block.largest_free(), 1 << 30);
    assert_eq!(block.statistics().free_range_count, 1);
}

#[test]
fn a_full_block_merges_at_once_until_a_sixteenth_of_it_is_free() {
    let mut block = deferred(16 << 10);
    let mut ranges: Vec<_> = (0..16).map(|_| allocate(&mut block, 1 << 10)).collect();
    let first = ranges.remove(0);
    block.free(first.handle).unwrap();
    assert_eq!(block.coalesce(0), 1);
    assert!(block.allocate(Request::new(1025), ()).is_err(), "nothing to merge it with");
    assert_eq!(block.coalesce(0), 0, "what did not serve is merged");
    let next = ranges.remove(0);
    block.free(next.handle).unwrap();
    assert_eq!(block.coalesce(0), 0, "space is short");
    // Two of sixteen are free.
    let next = ranges.remove(0);
    block.free(next.handle).unwrap();
    assert_eq!(block.coalesce(0), 1);
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
    let [during, kept] = ["during", "kept"].map(|data| block.allocate(Request::new(100), data).unwrap());
    block.free(kept.handle).unwrap();
    block.set_coalescing(Coalescing::Immediate);
    block.check_invariants();
    let after = block.allocate(Request::new(100), "after").unwrap();
    for stale in [freed, kept] {
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
