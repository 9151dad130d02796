//! Moving ranges within a block: behaviours to look up, and generated operations over real bytes.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../../../allotment/tests/common/amount.rs"]
mod amount;
mod model;

use allotment_suballoc::{
    Algorithm, Alignment, Compaction, CompactionError, Handle, HandleError, Move, MoveError, RegionKind,
    Request, VirtualBlock,
};
use amount::scaled;
use model::Op;
use proptest::collection::vec;
use proptest::prelude::*;

const MOVABLE: [Algorithm; 2] = [Algorithm::Tlsf, Algorithm::Buddy];

fn operations() -> impl Strategy<Value = Vec<Op>> {
    vec(any::<[u8; 4]>().prop_map(Op::decode), 0..200)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: scaled(400) as u32, ..ProptestConfig::default() })]

    #[test]
    fn bytes_survive_every_order_of_moves_in_a_tlsf_block(size in 1..3000u64, ops in operations()) {
        model::run(Algorithm::Tlsf, size, &ops);
    }

    #[test]
    fn bytes_survive_every_order_of_moves_in_a_buddy_block(size in 1..3000u64, ops in operations()) {
        model::run(Algorithm::Buddy, size, &ops);
    }

    #[test]
    fn when_a_run_gives_no_move_every_hole_is_smaller_than_the_ranges_above_it(
        sizes in vec((1..60u64, any::<bool>()), 1..80),
    ) {
        let mut block = with_holes(&sizes, Algorithm::Tlsf);
        let free = block.statistics().free;
        while compact(&mut block) != 0 {}
        prop_assert_eq!(block.statistics().free, free);
        let mut largest_hole = 0;
        for region in block.regions() {
            match region.kind {
                RegionKind::Free => largest_hole = largest_hole.max(region.size),
                _ => prop_assert!(region.size > largest_hole),
            }
        }
    }

    #[test]
    fn one_run_packs_ranges_of_one_size(kept in vec(any::<bool>(), 1..80), size in 1..20u64) {
        let sizes: Vec<_> = kept.iter().map(|&kept| (size, kept)).collect();
        for algorithm in MOVABLE {
            let mut block = with_holes(&sizes, algorithm);
            compact(&mut block);
            let cell = if algorithm == Algorithm::Buddy { size.next_power_of_two() } else { size };
            let used = block.regions().filter(|region| matches!(region.kind, RegionKind::Used { .. }));
            prop_assert!(used.enumerate().all(|(place, region)| region.offset == place as u64 * cell));
            if algorithm == Algorithm::Tlsf {
                prop_assert_eq!(block.largest_free(), block.largest_free_at_best());
            }
        }
    }
}

/// A block that was full of ranges of these sizes, of which only the ones marked so are left.
fn with_holes(sizes: &[(u64, bool)], algorithm: Algorithm) -> VirtualBlock<usize> {
    let cells = |&(size, _): &(u64, bool)| size.next_power_of_two();
    let mut block = VirtualBlock::new(sizes.iter().map(cells).sum::<u64>() * 2, algorithm).unwrap();
    let request = |size| Request::new(size).with_strategy(allotment_suballoc::FitStrategy::LowestOffset);
    let ranges: Vec<_> =
        sizes.iter().enumerate().map(|(n, &(size, _))| block.allocate(request(size), n).unwrap()).collect();
    for (range, &(_, kept)) in ranges.iter().zip(sizes) {
        if !kept {
            block.free(range.handle).unwrap();
        }
    }
    block
}

fn any_place<T>(_: &T) -> Option<Alignment> {
    Some(Alignment::ONE)
}

/// One run in which every move is finished at once; how many there were.
fn compact<T: Clone>(block: &mut VirtualBlock<T>) -> u32 {
    let (mut run, mut moves) = (Compaction::new(), 0);
    while let Some(step) = block.next_move(&mut run, any_place).unwrap() {
        block.finish_move(step).unwrap();
        block.check_invariants();
        moves += 1;
    }
    moves
}

/// 32 free units, then a range of 10 units, then free ones.
fn one_that_can_move(algorithm: Algorithm) -> (VirtualBlock<&'static str>, Handle) {
    let mut block = VirtualBlock::new(128, algorithm).unwrap();
    let low = block.allocate(Request::new(32), "low").unwrap();
    let range = block.allocate(Request::new(10), "range").unwrap();
    block.free(low.handle).unwrap();
    (block, range.handle)
}

fn first_move(block: &mut VirtualBlock<&'static str>) -> Move {
    block.next_move(&mut Compaction::new(), any_place).unwrap().unwrap()
}

#[test]
fn an_empty_a_full_and_a_packed_block_have_nothing_to_move() {
    for algorithm in MOVABLE {
        let mut block = VirtualBlock::new(64, algorithm).unwrap();
        assert_eq!(compact(&mut block), 0, "empty");
        assert_eq!(block.largest_free_at_best(), 64);
        let ranges: Vec<_> = (0..8).map(|n| block.allocate(Request::new(8), n).unwrap()).collect();
        assert_eq!(compact(&mut block), 0, "full");
        assert_eq!(block.largest_free_at_best(), 0);
        block.free(ranges[7].handle).unwrap();
        assert_eq!(compact(&mut block), 0, "packed");
    }
}

#[test]
fn one_range_moves_to_the_start_and_its_data_goes_along() {
    for algorithm in MOVABLE {
        let (mut block, old) = one_that_can_move(algorithm);
        let step = first_move(&mut block);
        assert_eq!((step.from(), step.from_offset(), step.to_offset(), step.size()), (old, 32, 0, 10));
        assert_eq!(block.statistics().allocation_count, 2, "both are in use while the move is open");
        assert_eq!(*block.get(step.to()).unwrap().data, "range");

        *block.data_mut(old).unwrap() = "changed since";
        let new = block.finish_move(step).unwrap();
        assert_eq!(*block.get(new).unwrap().data, "changed since");
        assert_eq!(block.get(old), Err(HandleError::Stale));
        assert_eq!(block.statistics().allocation_count, 1);
        assert_eq!(compact(&mut block), 0);
    }
}

#[test]
fn what_is_pinned_stays_where_it_is() {
    for algorithm in MOVABLE {
        let (mut block, range) = one_that_can_move(algorithm);
        let mut run = Compaction::new();
        assert_eq!(block.next_move(&mut run, |_| None).unwrap(), None);
        assert_eq!(block.next_move(&mut run, any_place).unwrap(), None, "a run looks at a range once");
        assert_eq!(block.get(range).unwrap().offset, 32);
    }
}

#[test]
fn the_new_place_has_the_alignment_that_the_caller_says() {
    // Free: 5 to 40. The only multiple of 32 in it has 8 units before the range.
    let mut block = VirtualBlock::new(100, Algorithm::Tlsf).unwrap();
    block.allocate(Request::new(5), 'a').unwrap();
    let hole = block.allocate(Request::new(35), 'b').unwrap();
    block.allocate(Request::new(8), 'c').unwrap();
    block.free(hole.handle).unwrap();
    let mut place_at = |alignment| {
        let alignment = Alignment::new(alignment).unwrap();
        let step = block.next_move(&mut Compaction::new(), |_| Some(alignment)).unwrap()?;
        let offset = step.to_offset();
        block.cancel_move(step).unwrap();
        Some(offset)
    };
    assert_eq!([1, 8, 32, 64].map(&mut place_at), [Some(5), Some(8), Some(32), None]);
}

#[test]
fn a_range_is_not_moved_into_a_place_that_overlaps_its_own() {
    let mut block = VirtualBlock::new(100, Algorithm::Tlsf).unwrap();
    let low = block.allocate(Request::new(9), 'a').unwrap();
    block.allocate(Request::new(10), 'b').unwrap();
    block.free(low.handle).unwrap();
    assert_eq!(compact(&mut block), 0);
    assert_eq!((block.largest_free(), block.largest_free_at_best()), (81, 90));
}

#[test]
fn a_linear_block_is_refused() {
    let mut block = VirtualBlock::new(100, Algorithm::Linear).unwrap();
    block.allocate(Request::new(50), ()).unwrap();
    assert_eq!(block.next_move(&mut Compaction::new(), any_place), Err(CompactionError::InOrder));
    assert_eq!(block.largest_free_at_best(), 50);
}

#[test]
fn a_run_and_a_move_of_another_block_are_refused() {
    let (mut one, _) = one_that_can_move(Algorithm::Tlsf);
    let (mut other, _) = one_that_can_move(Algorithm::Tlsf);
    let mut run = Compaction::new();
    let step = one.next_move(&mut run, any_place).unwrap().unwrap();
    assert_eq!(other.next_move(&mut run, any_place), Err(CompactionError::WrongBlock));
    let refused = other.finish_move(step).unwrap_err();
    assert_eq!(refused.error, MoveError::WrongBlock);
    let refused = other.cancel_move(refused.moved).unwrap_err();
    assert_eq!(refused.error, MoveError::WrongBlock);
    one.finish_move(refused.moved).unwrap();
}

#[test]
fn a_range_that_was_freed_while_it_moved_leaves_nothing_behind() {
    for algorithm in MOVABLE {
        let (mut block, range) = one_that_can_move(algorithm);
        let step = first_move(&mut block);
        assert_eq!(block.free(range), Ok("range"));
        let refused = block.finish_move(step).unwrap_err();
        assert_eq!(refused.error, MoveError::SourceFreed);
        block.cancel_move(refused.moved).unwrap();
        assert!(block.is_empty());
        block.check_invariants();
    }
}

#[test]
fn a_place_that_was_freed_leaves_the_range_where_it_is_and_movable() {
    for algorithm in MOVABLE {
        let (mut block, range) = one_that_can_move(algorithm);
        let step = first_move(&mut block);
        block.free(step.to()).unwrap();
        let refused = block.finish_move(step).unwrap_err();
        assert_eq!(refused.error, MoveError::PlaceFreed);
        assert_eq!(compact(&mut block), 0, "the move is still open");
        block.cancel_move(refused.moved).unwrap();
        assert_eq!(block.get(range).unwrap().offset, 32);
        assert_eq!(compact(&mut block), 1);
    }
}

#[test]
fn a_range_that_was_resized_while_it_moved_stays_where_it_is() {
    for algorithm in MOVABLE {
        let (mut block, range) = one_that_can_move(algorithm);
        let step = first_move(&mut block);
        block.resize(range, 11).unwrap();
        let refused = block.finish_move(step).unwrap_err();
        assert_eq!(refused.error, MoveError::Resized { from: 11, to: 10 });
        block.cancel_move(refused.moved).unwrap();
        assert_eq!(block.get(range).unwrap().size, 11);
        assert_eq!(block.statistics().allocation_count, 1);
    }
}

#[test]
fn a_block_that_was_cleared_forgets_its_moves() {
    for algorithm in MOVABLE {
        let (mut block, _) = one_that_can_move(algorithm);
        let mut run = Compaction::new();
        let step = block.next_move(&mut run, any_place).unwrap().unwrap();
        block.clear();
        let again = block.allocate(Request::new(10), "again").unwrap();
        block.cancel_move(step).unwrap();
        assert_eq!(*block.get(again.handle).unwrap().data, "again");
        assert_eq!(block.next_move(&mut run, any_place).unwrap(), None);
    }
}

#[test]
fn a_range_at_the_place_of_a_move_that_was_cleared_away_can_move() {
    for algorithm in MOVABLE {
        let (mut block, _) = one_that_can_move(algorithm);
        let _cleared = first_move(&mut block);
        block.clear();
        // The same regions once more.
        let low = block.allocate(Request::new(32), "low").unwrap();
        let range = block.allocate(Request::new(10), "range").unwrap();
        block.free(low.handle).unwrap();
        assert_eq!(first_move(&mut block).from(), range.handle);
    }
}

#[test]
fn a_second_run_leaves_open_moves_and_their_places_alone() {
    for algorithm in MOVABLE {
        let mut block = VirtualBlock::new(128, algorithm).unwrap();
        let ranges: Vec<_> = (0..8).map(|n| block.allocate(Request::new(16), n).unwrap()).collect();
        for range in &ranges[..3] {
            block.free(range.handle).unwrap();
        }
        let open = block.next_move(&mut Compaction::new(), any_place).unwrap().unwrap();
        assert_eq!((open.from_offset(), open.to_offset()), (112, 0));
        block.allocate_below(Request::new(16), 64, 8).unwrap();

        let mut asked = Vec::new();
        let mut run = Compaction::new();
        while let Some(step) = block
            .next_move(&mut run, |&n| {
                asked.push(n);
                Some(Alignment::ONE)
            })
            .unwrap()
        {
            block.finish_move(step).unwrap();
        }
        assert_eq!(asked, [6, 5, 4, 3, 8]);
        block.finish_move(open).unwrap();
        block.check_invariants();
    }
}

#[test]
fn a_run_copes_with_ranges_that_come_and_go_around_its_cursor() {
    for algorithm in MOVABLE {
        let mut block = VirtualBlock::new(256, algorithm).unwrap();
        let ranges: Vec<_> = (0..16).map(|n| block.allocate(Request::new(16), n).unwrap()).collect();
        for n in [0, 1, 2, 3] {
            block.free(ranges[n].handle).unwrap();
        }
        let mut run = Compaction::new();
        let mut next = |block: &mut VirtualBlock<usize>| {
            let step = block.next_move(&mut run, any_place).unwrap()?;
            let which = *block.get(step.from()).unwrap().data;
            block.finish_move(step).unwrap();
            Some(which)
        };
        assert_eq!(next(&mut block), Some(15));
        // The cursor's region is merged with those below it, and all of them are allocated again as one range.
        for n in [14, 13, 12] {
            block.free(ranges[n].handle).unwrap();
        }
        assert_eq!(block.allocate(Request::new(64), 100).unwrap().offset, ranges[12].offset);
        assert_eq!(next(&mut block), Some(11));
        block.free(ranges[10].handle).unwrap();
        assert_eq!(next(&mut block), Some(9));
        block.grow(512).unwrap();
        assert_eq!(next(&mut block), Some(8));
        assert_eq!(next(&mut block), None, "15, 11, 9 and 8 have the places of 0 to 3");
    }
}

#[test]
fn a_run_passes_nothing_over_when_the_regions_at_its_cursor_are_gone() {
    // Each freed region absorbs the one at the cursor, or that which had, and what they were is then near the start: in a TLSF
    // block the free space behind a new range, in a buddy block a new cell.
    let cases: [(Algorithm, &[usize], &[usize]); 2] =
        [(Algorithm::Tlsf, &[6, 5], &[4, 3, 2]), (Algorithm::Buddy, &[6, 5, 4], &[3, 2])];
    for (algorithm, freed, left) in cases {
        let mut block = VirtualBlock::new(128, algorithm).unwrap();
        let ranges: Vec<_> = (0..8).map(|n| block.allocate(Request::new(16), n).unwrap()).collect();
        block.free(ranges[0].handle).unwrap();
        block.free(ranges[1].handle).unwrap();
        let mut run = Compaction::new();
        let step = block.next_move(&mut run, any_place).unwrap().unwrap();
        assert_eq!(step.from(), ranges[7].handle);
        block.finish_move(step).unwrap();
        freed.iter().for_each(|&n| assert_eq!(block.free(ranges[n].handle), Ok(n)));
        block.allocate_below(Request::new(8), 32, 8).unwrap();

        let mut asked = Vec::new();
        let none = block.next_move(&mut run, |&n| {
            asked.push(n);
            Some(Alignment::ONE)
        });
        assert_eq!((none, asked.as_slice()), (Ok(None), left), "{algorithm}");
    }
}

#[test]
fn a_run_begins_with_the_highest_range_whatever_its_region_was_before() {
    let mut block = VirtualBlock::new(30, Algorithm::Tlsf).unwrap();
    let [a, b, c] = [(); 3].map(|()| block.allocate(Request::new(10), 0).unwrap());
    block.free(b.handle).unwrap();
    block.free(c.handle).unwrap();
    block.allocate(Request::new(10), 1).unwrap();
    let highest = block.allocate(Request::new(5), 2).unwrap();
    assert_eq!(highest.offset, 20);
    block.free(a.handle).unwrap();
    let step = block.next_move(&mut Compaction::new(), any_place).unwrap().unwrap();
    assert_eq!((step.from(), step.from_offset(), step.to_offset()), (highest.handle, 20, 0));
    block.cancel_move(step).unwrap();
}

#[test]
fn a_place_below_a_limit_is_the_lowest_and_padding_counts() {
    let mut block = VirtualBlock::new(64, Algorithm::Buddy).unwrap();
    assert!(block.allocate_below(Request::new(5), 7, ()).is_err(), "the cell would end at 8");
    assert_eq!(block.allocate_below(Request::new(5), 8, ()).unwrap().offset, 0);
    assert_eq!(block.allocate_below(Request::new(5), u64::MAX, ()).unwrap().offset, 8);
}

#[test]
fn data_whose_clone_panics_changes_nothing() {
    #[derive(Debug)]
    struct NeverCloned;
    impl Clone for NeverCloned {
        fn clone(&self) -> Self {
            panic!("not to be cloned")
        }
    }
    let mut block = VirtualBlock::new(100, Algorithm::Tlsf).unwrap();
    let low = block.allocate(Request::new(20), NeverCloned).unwrap();
    block.allocate(Request::new(20), NeverCloned).unwrap();
    assert_eq!(block.next_move(&mut Compaction::new(), any_place).unwrap(), None, "nothing to clone");
    block.free(low.handle).unwrap();
    let step = core::panic::AssertUnwindSafe(|| block.next_move(&mut Compaction::new(), any_place).is_ok());
    assert!(std::panic::catch_unwind(step).is_err());
    block.check_invariants();
    assert_eq!(block.statistics().allocation_count, 1);
}

#[test]
fn a_run_and_a_move_take_the_bytes_that_the_documentation_says() {
    assert_eq!((size_of::<Compaction>(), size_of::<Move>()), (32, 56));
}
