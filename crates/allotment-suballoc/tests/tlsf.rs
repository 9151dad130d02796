//! Where TLSF blocks place ranges, and that they place whatever fits.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod layout;

use allotment_suballoc::{AllocateError, FitStrategy, RegionKind, Request, VirtualBlock};

use layout::{aligned, cells, with_holes, with_ranges};

const ALL: [FitStrategy; 4] =
    [FitStrategy::Balanced, FitStrategy::LeastTime, FitStrategy::LeastMemory, FitStrategy::LowestOffset];

/// The size of the region that serves a request, and where in the block the range is then.
#[track_caller]
fn assert_placed(block: &mut VirtualBlock<()>, request: Request, room: u64, offset: u64) {
    assert_eq!(block.room_for(&request), Some(room), "room for {request:?}");
    let range = block.allocate(request, ()).unwrap();
    assert_eq!(range.offset, offset, "{request:?}");
    block.check_invariants();
    block.free(range.handle).unwrap();
}

#[test]
fn more_equal_regions_than_a_search_looks_at_are_all_found() {
    // In the middle of their size class, which is divided from 137 regions on.
    let sizes = [1040, 16].repeat(200);
    for strategy in ALL {
        let mut block = with_holes(&sizes, (0..400).step_by(2));
        let request = Request::new(1040).with_strategy(strategy);
        for _ in 0..200 {
            assert!(block.would_fit(&request), "{strategy:?}");
            block.allocate(request, ()).unwrap();
        }
        assert_eq!(block.statistics().free, 0);
        block.check_invariants();
    }
}

#[test]
fn a_request_is_served_by_a_region_of_its_own_class_below_a_smaller_one() {
    for strategy in ALL {
        let mut block = with_holes(&[1050, 10, 1030, 10], [0, 2]);
        assert_placed(&mut block, Request::new(1040).with_strategy(strategy), 1050, 0);
    }
}

#[test]
fn the_room_for_a_request_is_that_of_the_region_which_serves_it() {
    let mut block = with_holes(&[1024, 10, 1040, 10], [0, 2]);
    assert_placed(&mut block, Request::new(1030), 1040, 1034);
    // The time of a search is the least where every region of a class holds the range.
    let least_time = |size| Request::new(size).with_strategy(FitStrategy::LeastTime);
    let mut block = with_holes(&[1050, 10, 1056, 10], [0, 2]);
    assert_placed(&mut block, least_time(1040), 1056, 1060);
    // The rest of the block comes last.
    let (mut block, ranges) = with_ranges(3060, [1050, 10]);
    block.free(ranges[0]).unwrap();
    assert_placed(&mut block, least_time(1040), 1050, 0);
}

#[test]
fn an_aligned_range_is_placed_in_front_of_the_rest_of_the_block_where_it_fits() {
    let (mut block, ranges) = with_ranges(1024, [1, 80, 47, 88, 1]);
    block.free(ranges[1]).unwrap();
    block.free(ranges[3]).unwrap();
    assert_placed(&mut block, aligned(64, 64), 88, 128);
    // The one that holds it wherever it begins.
    let (mut block, ranges) = with_ranges(1024, [1, 66, 62, 74, 54, 82, 46, 98, 30, 128, 1]);
    [1, 3, 5, 7, 9].into_iter().for_each(|at| block.free(ranges[at]).unwrap());
    assert_placed(&mut block, aligned(65, 64), 128, 576);
}

#[test]
fn a_range_whose_alignment_every_offset_has_is_placed_in_its_own_class() {
    let mut sizes = vec![4160, 64];
    sizes.extend([4096, 64].repeat(30));
    sizes.extend([8192, 64]);
    let mut block = with_holes(&sizes, (0..64).step_by(2));
    assert_placed(&mut block, aligned(4160, 64), 4160, 0);
}

#[test]
fn the_smallest_of_the_next_class_serves_where_many_of_the_own_class_are_too_small() {
    let mut sizes = [4096, 16].repeat(136);
    sizes.extend([4230, 16, 4300, 16]);
    let mut block = with_holes(&sizes, (0..276).step_by(2));
    let request = Request::new(4200).with_strategy(FitStrategy::LeastMemory);
    assert_placed(&mut block, request, 4230, 136 * 4112);
}

#[test]
fn the_only_region_that_holds_an_aligned_range_is_found_among_thousands_that_are_aligned_wrongly() {
    const CELLS: u64 = 3000;
    // A hole holds 37 units from the multiple of 64 in it on; that of one cell holds 64.
    let firsts = [0, 1, 17, 1234, CELLS - 1].into_iter().flat_map(|fits| ALL.map(|first| (fits, first)));
    for (fits, first) in firsts {
        let mut block = cells(CELLS, Some(fits));
        // A region that was used and freed is looked at first, so each strategy is the first one once.
        for (strategy, size) in [first].into_iter().chain(ALL).zip([64, 64, 50, 50, 64]) {
            let request = aligned(size, 64).with_strategy(strategy);
            assert!(block.would_fit(&request), "{strategy:?}");
            let range = block.allocate(request, ()).unwrap();
            assert_eq!(range.offset, fits * 256 + 64, "{strategy:?}");
            assert!(!block.would_fit(&request), "{strategy:?}");
            block.allocate(request, ()).unwrap_err();
            block.free(range.handle).unwrap();
            block.check_invariants();
        }
    }
}

#[test]
fn the_only_region_that_holds_an_aligned_range_may_be_the_first_of_the_block() {
    let sizes: Vec<_> = [100, 156].into_iter().chain([1, 100, 155].repeat(1000)).collect();
    let holes = [0].into_iter().chain((3..sizes.len()).step_by(3));
    let mut block = with_holes(&sizes, holes);
    for _ in 0..2 {
        assert_placed(&mut block, aligned(64, 64), 100, 0);
    }
}

#[test]
fn what_is_not_found_soon_is_found_piece_by_piece_or_refused() {
    // An index by address is made up to the hole that fits, past three regions of each cell; of all holes where none does.
    for (fits, pieces_of_100) in [(Some(1500), 45), (None, 90)] {
        let mut block = cells(3000, fits);
        let request = aligned(64, 64);
        let mut pieces = 0;
        while !block.prepare(&request, 100) {
            let range = block.allocate_if_found_soon(request, (), 0);
            assert_eq!(range, Err(AllocateError::Unprepared), "after {pieces} pieces");
            pieces += 1;
        }
        assert!((pieces_of_100..=pieces_of_100 + 5).contains(&pieces), "{pieces}");
        let range = block.allocate_if_found_soon(request, (), 0).unwrap();
        assert_eq!(range.map(|range| range.offset), fits.map(|fits| fits * 256 + 64));
        block.check_invariants();
    }
    // Where few are aligned wrongly, or another one surely fits, nothing is left for later.
    let mut few = cells(100, Some(50));
    assert!(few.prepare(&aligned(64, 64), 0));
    assert!(few.allocate_if_found_soon(aligned(64, 64), (), 0).unwrap().is_some());
    assert!(cells(3000, None).allocate_if_found_soon(aligned(20, 64), (), 0).unwrap().is_some());
}

#[test]
fn an_index_that_ends_early_in_a_block_is_prepared_however_few_regions_are_free() {
    let mut block = cells(3000, None);
    let lowest = Request::new(90).with_strategy(FitStrategy::LowestOffset);
    block.allocate(lowest, ()).unwrap();
    // No hole is left, and the index knows of the first ones.
    while block.allocate_if_it_fits(Request::new(1), ()).unwrap().is_some() {}
    let last = block.regions().last().and_then(|region| match region.kind {
        RegionKind::Used { handle, .. } => Some(handle),
        _ => None,
    });
    block.free(last.unwrap()).unwrap();
    let request = Request::new(1).with_strategy(FitStrategy::LowestOffset);
    let mut pieces = 0;
    while !block.prepare(&request, 100) {
        pieces += 1;
    }
    assert!(pieces > 50, "{pieces}");
    assert!(block.allocate(request, ()).is_ok());
}

#[test]
fn ranges_of_several_alignments_are_found_in_any_order() {
    let [low, middle, high] = [(90, 16, 32), (90, 32, 32), (64, 64, 64)];
    for requests in [[low, middle, high], [high, middle, low], [middle, low, high], [high, low, middle]] {
        let mut block = cells(3000, Some(1234));
        for (size, alignment, offset) in requests.into_iter().chain(requests) {
            assert_placed(&mut block, aligned(size, alignment), 100, 1234 * 256 + offset);
        }
    }
}

#[test]
fn the_room_at_the_lowest_offset_is_told_also_where_a_refusal_made_an_index() {
    // From the multiple of 64 in it on, the hole of cell 5 holds 84 units, that of cell 9 holds 64, and each other one 37.
    let sizes: Vec<_> = (0..3000)
        .flat_map(|cell| match cell {
            5 => [28, 120, 108],
            9 => [28, 100, 128],
            _ => [1, 100, 155],
        })
        .collect();
    let mut block = with_holes(&sizes, (1..sizes.len()).step_by(3));
    block.allocate(aligned(90, 64), ()).unwrap_err();
    let lowest = aligned(64, 64).with_strategy(FitStrategy::LowestOffset);
    let range = block.allocate(lowest, ()).unwrap();
    assert_eq!(range.offset, 5 * 256 + 64);
    block.free(range.handle).unwrap();
    assert_placed(&mut block, lowest, 120, 5 * 256 + 64);
}

#[test]
fn regions_that_come_after_an_aligned_range_was_refused_are_found() {
    let mut block = cells(300, None);
    block.allocate(aligned(64, 64), ()).unwrap_err();
    let end = block.size();
    block.grow(end + 4001 * 128).unwrap();
    let ranges: Vec<_> = (0..4000).map(|_| block.allocate(Request::new(128), ()).unwrap()).collect();
    block.free(ranges[3998].handle).unwrap();
    block.check_invariants();
    block.allocate(aligned(64, 64), ()).unwrap();
    block.check_invariants();
}
