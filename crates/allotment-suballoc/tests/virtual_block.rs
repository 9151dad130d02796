//! Behaviours that a reader should be able to look up, one test each.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use allotment_suballoc::{
    Algorithm, Alignment, AllocateError, CreateError, FitStrategy, GrowError, HandleError, MAX_SIZE,
    RegionKind, Request, StackSide, VirtualBlock,
};

fn block(size: u64, algorithm: Algorithm) -> VirtualBlock<&'static str> {
    VirtualBlock::new(size, algorithm).unwrap()
}

#[test]
fn a_block_of_size_zero_or_beyond_the_limit_is_refused() {
    for algorithm in Algorithm::ALL {
        assert_eq!(VirtualBlock::<()>::new(0, algorithm).unwrap_err(), CreateError::ZeroSize);
        for size in [MAX_SIZE + 1, u64::MAX] {
            assert_eq!(VirtualBlock::<()>::new(size, algorithm).unwrap_err(), CreateError::TooLarge { size });
        }
    }
}

#[test]
fn an_alignment_of_zero_three_or_beyond_the_limit_is_refused() {
    for value in [0, 3, 12, MAX_SIZE + 1, MAX_SIZE << 1, u64::MAX] {
        assert_eq!(Alignment::new(value).unwrap_err().value, value);
    }
    assert_eq!(Alignment::new(MAX_SIZE).unwrap().get(), MAX_SIZE);
}

#[test]
fn a_block_of_the_largest_size_serves_a_request_of_the_largest_size_and_alignment() {
    for algorithm in Algorithm::ALL {
        let mut block = block(MAX_SIZE, algorithm);
        let everything = Request::new(MAX_SIZE).aligned(Alignment::new(MAX_SIZE).unwrap());
        let all = block.allocate(everything, "all").unwrap();
        assert_eq!(all.offset, 0);
        let refused = block.allocate(Request::new(1), "one more").unwrap_err().error;
        assert!(matches!(refused, AllocateError::NoSpace { free: 0, largest_free: 0, .. }), "{refused}");
        block.free(all.handle).unwrap();
        block.check_invariants();
    }
}

#[test]
fn a_request_beyond_the_limit_is_too_large_and_one_at_the_limit_finds_no_space() {
    for algorithm in Algorithm::ALL {
        let mut block = block(100, algorithm);
        let mut refused = |size| block.allocate(Request::new(size), "").unwrap_err().error;
        assert_eq!(refused(MAX_SIZE + 1), AllocateError::TooLarge { size: MAX_SIZE + 1 });
        assert!(matches!(refused(MAX_SIZE), AllocateError::NoSpace { size: MAX_SIZE, .. }));
        assert_eq!(refused(0), AllocateError::ZeroSize);
    }
}

#[test]
fn a_free_region_of_exactly_the_requested_size_is_found() {
    // OffsetAllocator refuses its own capacity unless that is the size of a bin.
    for size in [699_050, 664_908, 5, 33, 1_000_003] {
        let mut block = block(size, Algorithm::Tlsf);
        assert_eq!(block.allocate(Request::new(size), "all").unwrap().offset, 0);
    }
}

#[test]
fn user_data_that_says_nothing_is_still_counted() {
    // VMA's linear blocks take null user data for a freed range and miscount.
    let mut block = VirtualBlock::new(300, Algorithm::Linear).unwrap();
    for _ in 0..3 {
        block.allocate(Request::new(100), ()).unwrap();
    }
    assert_eq!(block.statistics().allocation_count, 3);
    assert_eq!(block.detailed_statistics().brief.allocated, 300);
}

#[test]
fn a_ring_counts_every_live_range_after_it_has_wrapped() {
    // VMA's brief statistics lose ranges here (8 live, 5 reported).
    let mut ring = block(1000, Algorithm::Linear);
    let old: Vec<_> = (0..10).map(|_| ring.allocate(Request::new(100), "old").unwrap()).collect();
    for range in &old[..5] {
        ring.free(range.handle).unwrap();
    }
    for _ in 0..3 {
        ring.allocate(Request::new(100), "new").unwrap();
    }
    assert_eq!(ring.statistics().allocation_count, 8);
    assert_eq!(ring.regions().filter(|r| matches!(r.kind, RegionKind::Used { .. })).count(), 8);
}

#[test]
fn a_ring_goes_round_and_round() {
    let mut ring = block(1000, Algorithm::Linear);
    let mut live = std::collections::VecDeque::new();
    for step in 0..10_000u64 {
        let size = 50 + step * 7 % 130;
        while let Err(refused) = ring.allocate(Request::new(size), "packet").map(|a| live.push_back(a)) {
            assert!(matches!(refused.error, AllocateError::NoSpace { .. }), "{refused}");
            ring.free(live.pop_front().unwrap().handle).unwrap();
        }
        ring.check_invariants();
    }
    assert!(live.len() >= 4, "a ring of 1000 holds at least four packets of at most 179");
}

#[test]
fn a_stack_gives_back_in_reverse_order_and_begins_anew() {
    let mut stack = block(100, Algorithm::Linear);
    let ranges: Vec<_> = (0..10).map(|_| stack.allocate(Request::new(10), "frame").unwrap()).collect();
    assert!(stack.allocate(Request::new(1), "full").is_err());
    for range in ranges[5..].iter().rev() {
        stack.free(range.handle).unwrap();
    }
    assert_eq!(stack.allocate(Request::new(50), "again").unwrap().offset, 50);
}

#[test]
fn a_hole_in_a_stack_waits_until_the_stack_comes_down_to_it() {
    let mut stack = block(100, Algorithm::Linear);
    let ranges: Vec<_> = (0..10).map(|_| stack.allocate(Request::new(10), "frame").unwrap()).collect();
    stack.free(ranges[8].handle).unwrap();
    assert_eq!(stack.statistics().free, 10);
    assert!(stack.allocate(Request::new(5), "the hole is closed in").is_err());
    stack.free(ranges[9].handle).unwrap();
    assert_eq!(stack.allocate(Request::new(20), "both").unwrap().offset, 80);
}

#[test]
fn what_a_shorter_range_of_a_stack_leaves_is_free_once_the_range_above_it_is() {
    let mut block = block(1000, Algorithm::Linear);
    let [_, second, third] = [(); 3].map(|()| block.allocate(Request::new(100), "").unwrap());
    block.resize(second.handle, 50).unwrap();
    assert_eq!(block.largest_free(), 700);
    block.free(third.handle).unwrap();
    assert_eq!((block.largest_free(), block.statistics().padding), (850, 0));
    block.check_invariants();
    assert_eq!(block.allocate(Request::new(850), "").unwrap().offset, 150);
}

#[test]
fn the_two_stacks_of_a_linear_block_meet_in_the_middle() {
    let mut block = block(100, Algorithm::Linear);
    let up = |size| Request::new(size).with_side(StackSide::Upper);
    assert_eq!(block.allocate(up(10), "x").unwrap().offset, 90);
    assert_eq!(block.allocate(up(5).aligned(Alignment::new(8).unwrap()), "y").unwrap().offset, 80);
    assert_eq!(block.allocate(Request::new(80), "a").unwrap().offset, 0);
    assert!(block.allocate(up(1), "full").is_err());
    assert_eq!(block.grow(200), Err(GrowError::UpperInUse { ranges: 2 }));
}

#[test]
fn the_upper_side_is_refused_where_there_is_none() {
    for algorithm in [Algorithm::Tlsf, Algorithm::Buddy] {
        let refused =
            block(100, algorithm).allocate(Request::new(1).with_side(StackSide::Upper), "").unwrap_err();
        assert_eq!(refused.error, AllocateError::OneSided { algorithm });
    }
    let mut ring = block(100, Algorithm::Linear);
    let first = ring.allocate(Request::new(60), "").unwrap();
    ring.allocate(Request::new(30), "").unwrap();
    ring.free(first.handle).unwrap();
    assert_eq!(ring.allocate(Request::new(20), "").unwrap().offset, 0, "it wraps");
    let refused = ring.allocate(Request::new(1).with_side(StackSide::Upper), "").unwrap_err();
    assert_eq!(refused.error, AllocateError::RingInUse);
}

#[test]
fn a_strategy_decides_where_a_range_lands() {
    // Free: 64 units at 0, 40 at 100, 1000 at the end.
    let holes = || {
        let mut block = block(1240, Algorithm::Tlsf);
        let low = block.allocate(Request::new(64), "").unwrap();
        block.allocate(Request::new(36), "").unwrap();
        let tight = block.allocate(Request::new(40), "").unwrap();
        block.allocate(Request::new(100), "").unwrap();
        block.free(low.handle).unwrap();
        block.free(tight.handle).unwrap();
        block
    };
    let place = |strategy| holes().allocate(Request::new(40).with_strategy(strategy), "").unwrap().offset;
    assert_eq!(place(FitStrategy::LeastMemory), 100);
    assert_eq!(place(FitStrategy::Balanced), 100);
    assert_eq!(place(FitStrategy::LowestOffset), 0);
}

#[test]
fn a_gap_before_an_aligned_range_is_handed_out_again() {
    let mut block = block(1024, Algorithm::Tlsf);
    block.allocate(Request::new(1), "first").unwrap();
    let aligned = Request::new(512).aligned(Alignment::new(512).unwrap());
    assert_eq!(block.allocate(aligned, "aligned").unwrap().offset, 512);
    assert_eq!(block.allocate(Request::new(511), "in the gap").unwrap().offset, 1);
    assert_eq!(block.statistics().padding, 0);
}

#[test]
fn a_buddy_block_of_any_size_is_usable_to_its_last_unit() {
    let mut block = block(13, Algorithm::Buddy);
    assert_eq!(block.allocate(Request::new(8), "").unwrap().offset, 0);
    assert_eq!(block.allocate(Request::new(4), "").unwrap().offset, 8);
    assert_eq!(block.allocate(Request::new(1), "").unwrap().offset, 12);
    block.grow(16).unwrap();
    assert_eq!(block.allocate(Request::new(2), "").unwrap().offset, 14);
}

#[test]
fn a_buddy_range_grows_into_its_free_buddies_only() {
    let mut block = block(64, Algorithm::Buddy);
    let range = block.allocate(Request::new(5), "").unwrap();
    block.resize(range.handle, 8).unwrap();
    assert_eq!(block.statistics().padding, 0);
    block.resize(range.handle, 33).unwrap();
    assert_eq!(block.statistics().padding, 31);
    block.resize(range.handle, 3).unwrap();
    assert_eq!(block.largest_free(), 32);
    block.check_invariants();
}

#[test]
fn clearing_makes_every_handle_stale_and_everything_free() {
    for algorithm in Algorithm::ALL {
        let mut block = block(1000, algorithm);
        let handles: Vec<_> =
            (1..20).map(|size| block.allocate(Request::new(size), "").unwrap().handle).collect();
        block.clear();
        block.check_invariants();
        assert!(block.is_empty());
        assert!(handles.iter().all(|&handle| block.free(handle).is_err()));
        let whole = if algorithm == Algorithm::Buddy { 512 } else { 1000 };
        assert_eq!(block.allocate(Request::new(whole), "").unwrap().offset, 0);
    }
}

#[test]
fn a_handle_whose_range_was_freed_is_refused_for_ever() {
    let mut random = 7_u64;
    let mut below = |end: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % end
    };
    for algorithm in Algorithm::ALL {
        let mut block = block(4096, algorithm);
        let (mut live, mut freed) = (Vec::new(), Vec::new());
        for round in 0..4000 {
            // The block fills and empties by turns, so that regions vanish and their indices are taken again.
            if live.len() < 2 || below(if round % 512 < 256 { 3 } else { 2 }) == 0 {
                live.extend(block.allocate(Request::new(1 + below(200)), "").map(|range| range.handle));
            } else {
                let handle = live.swap_remove(below(live.len() as u64) as usize);
                block.free(handle).unwrap();
                freed.push(handle);
            }
            if round % 100 == 0 {
                block.check_invariants();
                assert!(live.iter().all(|&handle| block.get(handle).is_ok()));
                assert!(freed.iter().all(|&handle| block.get(handle).is_err()), "{algorithm:?}");
            }
        }
        assert!(freed.len() > 1000);
    }
}

#[test]
fn a_search_for_the_lowest_region_finds_none_of_those_before_the_block_was_cleared() {
    let lowest = |size| Request::new(size).with_strategy(FitStrategy::LowestOffset);
    let aligned = |size| Request::new(size).aligned(Alignment::new(256).unwrap());
    for last in [lowest(1), aligned(1)] {
        let mut block = block(1 << 20, Algorithm::Tlsf);
        let ranges: Vec<_> = (0..4000).map(|_| block.allocate(Request::new(100), "").unwrap()).collect();
        for range in ranges.iter().skip(1).step_by(2) {
            block.free(range.handle).unwrap();
        }
        // So many holes that they are found by an index, which these searches make.
        block.allocate(lowest(50), "").unwrap();
        block.allocate(aligned(90), "").unwrap();
        block.clear();
        block.check_invariants();
        assert_eq!(block.allocate(last, "").unwrap().offset, 0);
        assert_eq!(block.allocate(lowest(1000), "").unwrap().offset, 1);
        block.check_invariants();
    }
}

#[test]
fn the_dump_is_json_and_shows_every_region() {
    let mut block = block(64, Algorithm::Buddy);
    block.allocate(Request::new(5), "a \"quoted\"\n name").unwrap();
    let mut text = String::new();
    block
        .write_json(&mut text, |name, o| {
            o.text("Type", "BUFFER")?;
            o.text("Name", name)
        })
        .unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["TotalBytes"], 64);
    assert_eq!(json["Suballocations"][0]["Name"], "a \"quoted\"\n name");
    assert_eq!(json["Suballocations"][1]["Type"], "PADDING");
    let sum: u64 =
        json["Suballocations"].as_array().unwrap().iter().map(|r| r["Size"].as_u64().unwrap()).sum();
    assert_eq!(sum, 64);
}

#[test]
fn a_block_is_empty_only_while_no_range_is_live() {
    for algorithm in Algorithm::ALL {
        let mut block = block(64, algorithm);
        assert!(block.is_empty());
        let [first, second] = [1, 28].map(|size| block.allocate(Request::new(size), "").unwrap());
        assert!(!block.is_empty());
        block.free(first.handle).unwrap();
        assert!(!block.is_empty());
        block.free(second.handle).unwrap();
        assert!(block.is_empty());
        assert_eq!((block.algorithm(), block.size()), (algorithm, 64));
    }
}

#[test]
fn what_an_upper_range_loses_to_its_alignment_is_padding_behind_it() {
    let mut block = block(100, Algorithm::Linear);
    let upper = |size| Request::new(size).with_side(StackSide::Upper);
    block.allocate(upper(10), "x").unwrap();
    let aligned = block.allocate(upper(5).aligned(Alignment::new(8).unwrap()), "y").unwrap();
    let regions = |block: &VirtualBlock<_>| -> Vec<_> {
        let letter = |kind: &RegionKind<'_, &'static str>| match kind {
            RegionKind::Used { data, .. } => **data,
            RegionKind::Padding => "padding",
            _ => "free",
        };
        block.regions().map(|region| (region.offset, region.size, letter(&region.kind))).collect()
    };
    assert_eq!(regions(&block), [(0, 80, "free"), (80, 5, "y"), (85, 5, "padding"), (90, 10, "x")]);
    assert_eq!((block.statistics().padding, block.statistics().free), (5, 80));
    // A range cannot grow into its padding, and gives it up where it is cut short.
    assert!(block.resize(aligned.handle, 6).is_err());
    block.resize(aligned.handle, 3).unwrap();
    assert_eq!(regions(&block), [(0, 80, "free"), (80, 3, "y"), (83, 7, "free"), (90, 10, "x")]);
    assert_eq!((block.statistics().padding, block.statistics().free), (0, 87));
    block.free(aligned.handle).unwrap();
    assert_eq!(regions(&block), [(0, 90, "free"), (90, 10, "x")]);
    // Also behind the last range of the block.
    block.clear();
    block.allocate(upper(10).aligned(Alignment::new(64).unwrap()), "z").unwrap();
    assert_eq!(regions(&block), [(0, 64, "free"), (64, 10, "z"), (74, 26, "padding")]);
}

#[test]
fn the_room_for_a_request_is_the_size_of_the_free_region_that_serves_it() {
    let room = |block: &VirtualBlock<_>, size| block.room_for(&Request::new(size));
    // Free: 40 units at 0, 20 at 50, 30 at the end.
    let [mut tlsf, mut linear] = [Algorithm::Tlsf, Algorithm::Linear].map(|algorithm| {
        let mut block = block(100, algorithm);
        let ranges = [40, 10, 20].map(|size| block.allocate(Request::new(size), "").unwrap().handle);
        block.free(ranges[0]).unwrap();
        block.free(ranges[2]).unwrap();
        block.allocate(Request::new(20).with_strategy(FitStrategy::LowestOffset), "").unwrap();
        block
    });
    // TLSF has filled the first 20 units; the linear block those at 50.
    assert_eq!([20, 21, 50, 51].map(|size| room(&tlsf, size)), [Some(20), Some(50), Some(50), None]);
    assert_eq!([30, 31, 40, 41].map(|size| room(&linear, size)), [Some(30), Some(40), Some(40), None]);
    let upper = |size| Request::new(size).with_side(StackSide::Upper);
    assert_eq!(linear.room_for(&upper(30)), Some(30));
    assert_eq!(linear.room_for(&upper(31)), None);
    assert_eq!(tlsf.room_for(&upper(1)), None);
    // The linear block becomes a ring.
    linear.allocate(Request::new(31), "").unwrap();
    assert_eq!((room(&linear, 9), room(&linear, 10), linear.room_for(&upper(1))), (Some(9), None, None));
    tlsf.clear();
    assert_eq!(room(&tlsf, 1), Some(100));

    let mut buddy = block(64, Algorithm::Buddy);
    buddy.allocate(Request::new(5), "").unwrap();
    assert_eq!([8, 9, 17, 33].map(|size| room(&buddy, size)), [Some(8), Some(16), Some(32), None]);
}

#[test]
fn a_request_is_served_by_the_first_block_in_which_it_fits() {
    for algorithm in Algorithm::ALL {
        // The last takes more than 32 bits.
        let mut blocks = [8, 16, 32, 1 << 40].map(|size| block(size, algorithm));
        for (size, block) in [(16, 1), (20, 2), (1 << 33, 3), (8, 0)] {
            let mut places = blocks.iter_mut().map(|block| block.allocate_if_it_fits(Request::new(size), ""));
            let found = places.position(|place| place.unwrap().is_some_and(|range| range.size == size));
            assert_eq!(found, Some(block), "{algorithm}: {size}");
        }
        assert_eq!(blocks.map(|block| block.statistics().allocated), [8, 16, 20, 1 << 33]);
        let refused = block(8, algorithm).allocate_if_it_fits(Request::new(0), "");
        assert_eq!(refused, Err(AllocateError::ZeroSize));
    }
}

#[test]
fn ranges_freed_together_come_back_in_order_with_an_error_for_each_wrong_handle() {
    for (algorithm, count) in
        Algorithm::ALL.into_iter().flat_map(|algorithm| [(algorithm, 10), (algorithm, 10_000)])
    {
        let mut block = VirtualBlock::new(1 << 20, algorithm).unwrap();
        let mut handles: Vec<_> = (0..count)
            .map(|number| block.allocate(Request::new(1 + number % 60), number).unwrap().handle)
            .collect();
        let mut other = VirtualBlock::new(8, algorithm).unwrap();
        handles.insert(3, handles[1]);
        handles.insert(7, other.allocate(Request::new(1), 0).unwrap().handle);
        let mut freed = Vec::new();
        block.free_many(&handles, |range| freed.push(range));
        assert_eq!(freed.remove(7), Err(HandleError::WrongBlock));
        assert_eq!(freed.remove(3), Err(HandleError::Stale));
        assert!(freed.into_iter().eq((0..count).map(Ok)));
        assert!(block.is_empty() && !other.is_empty());
        block.check_invariants();
    }
}

#[test]
fn a_request_that_is_far_too_large_is_known_not_to_fit_without_a_search() {
    for algorithm in Algorithm::ALL {
        let mut block = block(1024, algorithm);
        for free in [1024, 512, 256] {
            assert!(block.may_fit(free));
            // The bound is at most 3 % too large.
            assert!((free..free + 32).contains(&block.largest_free_at_most()));
            assert!(!block.may_fit(free + 32));
            block.allocate(Request::new(free / 2), "").unwrap();
        }
    }
}
