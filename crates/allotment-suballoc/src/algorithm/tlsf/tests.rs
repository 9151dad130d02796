//! What tests of the whole block do not reach.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use proptest::collection::vec;
use proptest::prelude::*;

use super::stacks::{Entry, Next};
use super::{END, Tlsf};
use crate::algorithm::Ranges;
use crate::{Algorithm, Alignment, FitStrategy, Handle, HandleError, Request, VirtualBlock};

/// The free regions in classes as `(class, offset, size)`, by class.
fn listed(tlsf: &Tlsf<u32>) -> Vec<(u32, u64, u64)> {
    let mut listed = Vec::new();
    let _ = tlsf.stacks.visit(0, &mut |Entry { size, node, class, .. }| {
        listed.push((class, tlsf.nodes.offset(node), size));
        Next::Further
    });
    listed
}

#[test]
fn the_example_at_the_top_of_this_module_is_right() {
    let mut tlsf = Tlsf::<u32>::new(1024);
    let mut take = |size| tlsf.allocate(&Request::new(size)).unwrap().unwrap().index;
    let [_a, hole, _b, other, _c] = [40, 160, 100, 600, 124].map(&mut take);
    tlsf.free(hole);
    tlsf.free(other);
    let before = [(104, 40, 160), (165, 300, 600)];
    assert_eq!((listed(&tlsf), tlsf.last), (before.to_vec(), END));

    let request = Request::new(100).aligned(Alignment::new(64).unwrap());
    let quickly = request.with_strategy(FitStrategy::LeastTime);
    let found = |request| tlsf.find(&request).map(|index| tlsf.nodes.offset(index));
    assert_eq!((found(request), found(quickly)), (Some(40), Some(40)));
    // From 64 on, 40..200 has 136 units.
    let larger = |size| Request { size, ..quickly };
    assert_eq!((found(larger(136)), found(larger(137))), (Some(40), Some(300)));
    let range = tlsf.allocate(&request).unwrap().unwrap();
    assert_eq!(range.offset, 64);
    assert_eq!(listed(&tlsf), [(24, 40, 24), (36, 164, 36), (165, 300, 600)]);

    tlsf.free(range.index);
    assert_eq!(listed(&tlsf), before);
}

#[test]
fn ranges_of_all_sizes_in_turn_take_no_more_host_memory_than_was_reserved() {
    let mut tlsf = Tlsf::<u32>::new(1 << 20);
    tlsf.reserve(100);
    let capacity = tlsf.stacks.capacity();
    let take = |tlsf: &mut Tlsf<u32>, size| tlsf.allocate(&Request::new(size)).unwrap().unwrap().index;
    for size in 1..400 {
        let [hole, wall] = [size, 1].map(|size| take(&mut tlsf, size));
        tlsf.free(hole);
        tlsf.check_invariants();
        tlsf.free(wall);
    }
    assert_eq!(tlsf.stacks.capacity(), capacity);
}

#[test]
fn a_node_whose_generations_are_used_up_is_never_used_again() {
    // Here a node has 40 generations; elsewhere more than anybody waits for.
    let mut block = VirtualBlock::new(100, Algorithm::Tlsf).unwrap();
    let mut seen = BTreeSet::<Handle>::new();
    for round in 0..500 {
        let kept = block.allocate(Request::new(1 + round % 7), round).unwrap().handle;
        let handle = block.allocate(Request::new(10), round).unwrap().handle;
        for old in &seen {
            assert_eq!(block.get(*old), Err(HandleError::Stale), "no handle comes again");
        }
        assert!(seen.insert(handle) && seen.insert(kept));
        block.check_invariants();
        for handle in [kept, handle] {
            block.free(handle).unwrap();
        }
    }
}

#[test]
fn handles_from_before_a_block_was_cleared_match_no_later_range() {
    let mut block = VirtualBlock::new(1000, Algorithm::Tlsf).unwrap();
    let mut old = Vec::new();
    for round in 0..100 {
        for handle in old.drain(..) {
            assert_eq!(block.free(handle), Err(HandleError::Stale));
        }
        old.extend((0..10).map(|_| block.allocate(Request::new(1 + round), ()).unwrap().handle));
        block.clear();
        block.allocate(Request::new(1000 - round), ()).unwrap();
        block.check_invariants();
        assert!(old.iter().all(|&handle| block.get(handle).is_err()));
        block.clear();
    }
}

/// Returns a block with so many holes of 1,024 units, and nothing else that is free.
fn holes(count: u64) -> VirtualBlock<()> {
    let mut block = VirtualBlock::new(count * 2 * 1024, Algorithm::Tlsf).unwrap();
    let all: Vec<_> = (0..count * 2).map(|_| block.allocate(Request::new(1024), ()).unwrap()).collect();
    all.iter().step_by(2).for_each(|range| block.free(range.handle).unwrap());
    block
}

#[test]
fn the_largest_of_many_equal_holes_is_known() {
    let mut block = holes(1000);
    assert_eq!((block.largest_free(), block.largest_free_at_most()), (1024, 1024));
    assert!(!block.may_fit(1025));
    let (free, at_most) = block.free_and_largest();
    assert!(free == 1000 * 1024 && (1024..=1024 + 1024 / 32).contains(&at_most), "{free} {at_most}");
    let beside = block.regions().find_map(|region| match region.kind {
        crate::RegionKind::Used { handle, .. } => Some(handle),
        _ => None,
    });
    block.free(beside.unwrap()).unwrap();
    assert_eq!(block.largest_free(), 3 * 1024);
    assert_eq!(block.allocate(Request::new(1025), ()).unwrap().offset, 0);
    block.check_invariants();
}

#[test]
fn an_index_of_aligned_ranges_is_made_when_it_is_needed_and_dropped_when_it_is_not() {
    let mut tlsf = Tlsf::<u32>::new(1 << 20);
    // Holes of 64 units whose offsets are odd multiples of 32.
    let mut all = Vec::from([tlsf.allocate(&Request::new(32)).unwrap().unwrap().index]);
    while let Some(taken) = tlsf.allocate(&Request::new(64)).unwrap() {
        all.push(taken.index);
    }
    while tlsf.allocate(&Request::new(1)).unwrap().is_some() {}
    all.iter().skip(1).step_by(2).for_each(|&index| tlsf.free(index));
    let aligned = Request::new(64).aligned(Alignment::new(64).unwrap());
    assert!(!tlsf.by_address.is_used());
    assert!(tlsf.find(&aligned).is_none() && !tlsf.by_address.is_used(), "a question makes none");
    assert!(tlsf.allocate(&aligned).unwrap().is_none());
    assert!(tlsf.by_address.is_used());
    tlsf.check_invariants();
    tlsf.free(all[2]);
    assert!(tlsf.allocate(&aligned).unwrap().is_some(), "three holes in a row hold one");
    for _ in 0..5 * tlsf.capacity() {
        let taken = tlsf.allocate(&Request::new(64)).unwrap().unwrap();
        tlsf.free(taken.index);
    }
    assert!(!tlsf.by_address.is_used());
    tlsf.check_invariants();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn an_index_finds_what_a_look_at_all_regions_finds_and_a_question_tells_what_a_search_takes(
        // A small block is soon so full that many regions are looked at in vain.
        size in prop::sample::select([1 << 13, 1 << 14, 1 << 17].as_slice()),
        // Of 16: how often a step allocates. So the block fills, and empties, and fills again.
        phases in vec((0..16_u64, vec(any::<u64>(), 0..600)), 1..6),
    ) {
        let mut tlsf = Tlsf::<u32>::new(size);
        let mut live = Vec::new();
        for (share, steps) in phases {
            for step in steps {
                if step % 16 < share || live.is_empty() {
                    let alignment = Alignment::new(1 << ((step >> 8) % 4 * 3)).unwrap();
                    let mut request = Request::new(1 + (step >> 16) % if step >> 7 & 1 == 0 { 200 } else { 20 }).aligned(alignment);
                    request = request.with_strategy(match step >> 4 & 7 {
                        0 => FitStrategy::Balanced,
                        1 => FitStrategy::LeastTime,
                        2 => FitStrategy::LeastMemory,
                        _ => FitStrategy::LowestOffset,
                    });
                    let unmet = tlsf.unmet(alignment);
                    let lowest = tlsf.find_lowest(request.size, unmet, tlsf.size);
                    let lowest = lowest.map(|node| alignment.align_up(tlsf.nodes.offset(node)));
                    if request.strategy == FitStrategy::LowestOffset && step >> 40 & 7 == 0 {
                        let limit = (step >> 48) * 2;
                        let below = tlsf.find_below(&request, limit);
                        let below = below.map(|node| alignment.align_up(tlsf.nodes.offset(node)));
                        prop_assert_eq!(below, lowest.filter(|lowest| lowest + request.size <= limit));
                    }
                    let told = tlsf.find(&request).map(|node| alignment.align_up(tlsf.nodes.offset(node)));
                    let taken = tlsf.allocate(&request).unwrap();
                    prop_assert_eq!(taken.as_ref().map(|taken| taken.offset), told, "{:?}", request);
                    if request.strategy == FitStrategy::LowestOffset {
                        prop_assert_eq!(taken.as_ref().map(|taken| taken.offset), lowest);
                    }
                    live.extend(taken.map(|taken| taken.index));
                } else {
                    let at = (step >> 16) as usize % live.len();
                    tlsf.free(live.swap_remove(at));
                }
                if step >> 60 == 0 {
                    tlsf.check_invariants();
                }
            }
            tlsf.check_invariants();
        }
    }
}

#[test]
fn an_index_by_address_is_made_where_regions_are_many_and_dropped_where_no_search_asks() {
    let mut tlsf = Tlsf::<u32>::new(1 << 20);
    let lowest = Request::new(40).with_strategy(FitStrategy::LowestOffset);
    let mut all = Vec::new();
    while let Some(taken) = tlsf.allocate(&Request::new(64)).unwrap() {
        all.push(taken.index);
    }
    assert!(tlsf.allocate(&lowest).unwrap().is_none() && !tlsf.by_address.is_used(), "no region to look at");
    all.iter().skip(3).step_by(2).for_each(|&index| tlsf.free(index));
    assert!(tlsf.find(&lowest).is_some() && !tlsf.by_address.is_used(), "a question makes none");
    assert_eq!(tlsf.allocate(&lowest).unwrap().unwrap().offset, 3 * 64);
    assert_eq!(tlsf.allocate(&lowest).unwrap().unwrap().offset, 5 * 64);
    assert!(tlsf.by_address.has(Alignment::ONE));
    tlsf.check_invariants();
    // So many that pages are emptied and merged, up to the root.
    all.iter().step_by(2).for_each(|&index| tlsf.free(index));
    tlsf.check_invariants();
    assert!(tlsf.allocate(&lowest).unwrap().is_some());
    for _ in 0..5 * tlsf.capacity() {
        let taken = tlsf.allocate(&Request::new(64)).unwrap().unwrap();
        tlsf.free(taken.index);
    }
    assert!(!tlsf.by_address.is_used());
    tlsf.check_invariants();
}

#[test]
fn an_alignment_that_many_regions_do_not_have_gets_an_index_of_its_own() {
    let mut tlsf = Tlsf::<u32>::new(1 << 20);
    // Holes of 64 units whose offsets are odd multiples of 32.
    let mut all = Vec::from([tlsf.allocate(&Request::new(32)).unwrap().unwrap().index]);
    while let Some(taken) = tlsf.allocate(&Request::new(64)).unwrap() {
        all.push(taken.index);
    }
    while tlsf.allocate(&Request::new(1)).unwrap().is_some() {}
    all.iter().skip(1).step_by(2).for_each(|&index| tlsf.free(index));
    let lowest = Request::new(64).with_strategy(FitStrategy::LowestOffset);
    let aligned = lowest.aligned(Alignment::new(64).unwrap());
    assert!(tlsf.allocate(&aligned).unwrap().is_none());
    tlsf.check_invariants();
    tlsf.free(all[4000]);
    assert_eq!(tlsf.allocate(&aligned).unwrap().unwrap().offset, 3999 * 64);
    assert_eq!(tlsf.allocate(&lowest).unwrap().unwrap().offset, 32);
    tlsf.check_invariants();
}

#[test]
fn regions_without_room_at_its_alignment_have_no_entry_in_an_index() {
    let mut tlsf = Tlsf::<u32>::new(1 << 16);
    let mut holes = Vec::new();
    // No multiple of 64 is in a hole.
    while tlsf.allocate(&Request::new(1)).unwrap().is_some() {
        holes.push(tlsf.allocate(&Request::new(20)).unwrap().unwrap().index);
        tlsf.allocate(&Request::new(43)).unwrap();
    }
    holes.iter().for_each(|&hole| tlsf.free(hole));
    let aligned = Alignment::new(64).unwrap();
    assert!(tlsf.allocate(&Request::new(20).aligned(aligned)).unwrap().is_none());
    assert_eq!(tlsf.by_address.pages(aligned), Some(1));
    // What is in none must not be taken out of one either.
    tlsf.allocate(&Request::new(20)).unwrap().unwrap();
    tlsf.check_invariants();
    assert!(tlsf.by_address.has(aligned));
}

#[test]
fn an_index_by_address_of_few_regions_has_few_pages() {
    let pages = |tlsf: &Tlsf<u32>| tlsf.by_address.pages(Alignment::ONE).unwrap();
    let mut tlsf = Tlsf::<u32>::new(1 << 20);
    let lowest = Request::new(64).with_strategy(FitStrategy::LowestOffset);
    let mut all = Vec::new();
    while let Some(taken) = tlsf.allocate(&Request::new(64)).unwrap() {
        all.push(taken.index);
    }
    all.iter().step_by(2).for_each(|&index| tlsf.free(index));
    assert_eq!(tlsf.allocate(&lowest).unwrap().unwrap().offset, 0);
    assert!(pages(&tlsf) < 20, "as far as was asked, which is not far");
    // No region has so much room, so all are looked at.
    let none = Request::new(65).with_strategy(FitStrategy::LowestOffset);
    assert!(tlsf.allocate(&none).unwrap().is_none());
    tlsf.check_invariants();
    let many = pages(&tlsf);
    assert!(many > all.len() / 2 / 16, "{many} pages");
    // The free regions become one by and by, but for one in 200, in no order.
    let mut at = 1;
    for _ in 0..all.len() / 2 {
        at = (at + 2 * 1_000_003) % all.len();
        if at % 400 != 1 {
            tlsf.free(all[at]);
        }
    }
    tlsf.check_invariants();
    let (pages, regions) = (pages(&tlsf), tlsf.tally().free_count as usize);
    assert!(pages <= 2 + regions / 4, "{pages} pages for {regions} regions");
}

#[test]
fn an_index_by_address_that_is_made_piece_by_piece_is_right_whatever_changes_in_between() {
    let mut tlsf = Tlsf::<u32>::new(1 << 18);
    let mut all = Vec::new();
    while let Some(taken) = tlsf.allocate(&Request::new(64)).unwrap() {
        all.push((taken.index, taken.offset));
    }
    for _ in 0..all.len() / 2 {
        let (index, _) = all.swap_remove(all.len() * 7 / 11);
        tlsf.free(index);
    }
    // No hole has so much room but the last, which is behind all others.
    let wanted = Request::new(3000).with_strategy(FitStrategy::LowestOffset);
    let (mut step, mut pieces) = (1_u64, 0);
    while !tlsf.prepare(&wanted, 5) {
        pieces += 1;
        for _ in 0..3 {
            step = step.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if step >> 63 == 0 {
                let (index, _) = all.swap_remove((step >> 32) as usize % all.len());
                tlsf.free(index);
            } else {
                let request = Request::new(1 + (step >> 40 & 63));
                all.extend(tlsf.allocate(&request).unwrap().map(|taken| (taken.index, taken.offset)));
            }
        }
        tlsf.check_invariants();
    }
    assert!(pieces > 100, "{pieces} pieces");
    let found = tlsf.find(&wanted).map(|node| tlsf.place(node).offset);
    let mut regions = core::iter::successors(Some(tlsf.first()), |&at| Some(tlsf.place(at).after));
    let regions = regions.by_ref().take_while(|&at| at != crate::algorithm::NONE).map(|at| tlsf.place(at));
    let fits =
        |place: &crate::algorithm::Place| place.state == crate::algorithm::State::Free && place.size >= 3000;
    assert_eq!(found, regions.filter(fits).map(|place| place.offset).next());
}
