//! Host memory: what a block keeps once its ranges are freed, and what operations need after `reserve`.
//!
//! A test binary of its own, since it counts what goes through the global allocator.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../../allotment/tests/common/counting.rs"]
mod counting;
mod layout;

use allotment_suballoc::plan::{Item, Plan, Problem, Solver};
use allotment_suballoc::{Algorithm, Compaction, FitStrategy, Request, VirtualBlock};

use counting::{bytes_of_this_thread as bytes, of_this_thread as allocations};
use layout::{aligned, cells};

#[test]
fn a_block_whose_ranges_have_no_hole_between_them_takes_no_memory_for_lists_of_holes() {
    for size in [1 << 20, 1 << 40] {
        let before = bytes();
        let mut block = VirtualBlock::new(size, Algorithm::Tlsf).unwrap();
        let [first, second] = [(); 2].map(|()| block.allocate(Request::new(1000), ()).unwrap().handle);
        let without = bytes() - before;
        assert!(without <= 128, "{without} bytes");
        block.free(first).unwrap();
        assert!(bytes() - before > 4 << 10, "a hole is listed in its class");
        block.free(second).unwrap();
    }
}

#[test]
fn a_block_that_is_empty_and_shrunk_keeps_what_a_new_one_has() {
    for algorithm in Algorithm::ALL {
        let before = bytes();
        let mut block = VirtualBlock::new(1 << 28, algorithm).unwrap();
        let new = bytes() - before;
        // From the first run of a compaction on, a block knows when its ranges were allocated.
        let _ = block.next_move(&mut Compaction::new(), |_| None);
        let mut handles = Vec::with_capacity(100_000);
        let with_handles = bytes();
        for i in 0..100_000 {
            handles.push(block.allocate(Request::new(64 + i % 100), [0_u64; 4]).unwrap().handle);
        }
        assert!(bytes() - with_handles > 5 << 20);
        for handle in handles.drain(..) {
            block.free(handle).unwrap();
        }
        drop(handles);
        block.shrink_to_fit();
        let kept = bytes() - before;
        // A vector that grew has room for a few more elements than one that was made for them.
        assert!(kept <= new + 512, "{algorithm}: {kept} bytes, {new} when new");
    }
}

#[test]
fn a_block_whose_first_range_alone_is_live_keeps_little_once_it_is_shrunk() {
    for algorithm in Algorithm::ALL {
        let mut block = VirtualBlock::new(1 << 28, algorithm).unwrap();
        let first = block.allocate(Request::new(64), 1).unwrap().handle;
        let before = bytes();
        let handles: Vec<_> =
            (0..100_000).map(|i| block.allocate(Request::new(64 + i % 100), 0).unwrap().handle).collect();
        handles.iter().rev().for_each(|&handle| assert_eq!(block.free(handle), Ok(0)));
        drop(handles);
        assert!(bytes() - before > 1 << 20, "{algorithm}: it was larger");
        block.shrink_to_fit();
        let kept = bytes() - before;
        assert!(kept <= 4 << 10, "{algorithm}: {kept} bytes more than with one range");
        block.check_invariants();
        assert_eq!(block.free(first), Ok(1));
    }
}

/// The last of 20,000 ranges stays, so the host memory of all before it does. (A linear block frees from its ends.)
#[test]
fn a_block_with_one_range_left_uses_what_it_kept_before_it_gets_more() {
    for algorithm in [Algorithm::Tlsf, Algorithm::Buddy] {
        let mut block = VirtualBlock::new(1 << 28, algorithm).unwrap();
        let handles: Vec<_> =
            (0..20_000).map(|_| block.allocate(Request::new(64), ()).unwrap().handle).collect();
        let (_, others) = handles.split_last().unwrap();
        others.iter().for_each(|&handle| block.free(handle).unwrap());
        block.shrink_to_fit();
        let before = bytes();
        let again: Vec<_> =
            (0..10_000).map(|_| block.allocate(Request::new(64), ()).unwrap().handle).collect();
        let more = bytes() - before - (again.capacity() * size_of_val(&again[0])) as i64;
        assert!(more <= 16 << 10, "{algorithm}: {more} bytes more");
        block.check_invariants();
    }
}

#[test]
fn operations_on_as_many_ranges_as_were_reserved_get_no_memory_from_the_heap() {
    for algorithm in Algorithm::ALL {
        let mut block = VirtualBlock::new(1 << 24, algorithm).unwrap();
        // Some more than are allocated: free ranges count as well.
        block.reserve(1100);
        let mut handles = Vec::with_capacity(1000);
        let before = allocations();
        for i in 0..1000 {
            handles.push(block.allocate(Request::new(1 + i * 7 % 900), i).unwrap().handle);
        }
        for handle in handles.drain(..) {
            block.free(handle).unwrap();
        }
        assert_eq!(allocations() - before, 0, "{algorithm}");
    }
}

#[test]
fn a_block_is_far_below_its_peak_once_it_has_less_than_half_of_the_regions_that_it_had() {
    for algorithm in Algorithm::ALL {
        let mut block = VirtualBlock::new(1 << 16, algorithm).unwrap();
        let ranges: Vec<_> = (0..1000).map(|_| block.allocate(Request::new(8), ()).unwrap().handle).collect();
        let mut free_where = |freed: fn(usize) -> bool| {
            ranges
                .iter()
                .enumerate()
                .filter(|(at, _)| freed(*at))
                .for_each(|(_, &range)| block.free(range).unwrap());
            block.is_far_below_its_peak()
        };
        assert!(!free_where(|_| false), "{algorithm}: all are live");
        assert!(!free_where(|at| at % 2 == 1), "{algorithm}: 500 are live, 500 free");
        let far = free_where(|at| at % 2 == 0 && at % 10 != 0);
        assert!(far, "{algorithm}: 100 are live, with about as many free between them");
        block.shrink_to_fit();
        block.clear();
        block.shrink_to_fit();
        assert!(!block.is_far_below_its_peak(), "{algorithm}: shrunk");
    }
}

#[test]
fn a_block_that_was_cleared_allocates_as_many_ranges_again_without_the_heap() {
    for algorithm in Algorithm::ALL {
        let mut block = VirtualBlock::new(1 << 24, algorithm).unwrap();
        let fill = |block: &mut VirtualBlock<_>| {
            let before = allocations();
            (0..1000).for_each(|i| assert!(block.allocate(Request::new(1 + i % 90), i).is_ok()));
            allocations() - before
        };
        assert!(fill(&mut block) > 0);
        block.clear();
        assert_eq!(fill(&mut block), 0, "{algorithm}");
    }
}

#[test]
fn a_block_grows_its_tables_rarely_and_not_far_beyond_what_it_needs() {
    for algorithm in Algorithm::ALL {
        let mut block = VirtualBlock::new(1 << 28, algorithm).unwrap();
        let before = (bytes(), allocations());
        for _ in 0..30_000 {
            block.allocate(Request::new(64), ()).unwrap();
        }
        let (bytes, times) = (bytes() - before.0, allocations() - before.1);
        // What the documentation says of each.
        let most = match algorithm {
            Algorithm::Buddy => 80,
            Algorithm::Tlsf => 30,
            Algorithm::Linear => 24,
        };
        assert!(bytes <= most * 30_000 + (16 << 10), "{algorithm}: {bytes} bytes");
        assert!(times <= 300, "{algorithm}: {times} times");
    }
}

#[test]
fn a_block_with_ranges_reserves_for_as_many_more_and_not_for_their_product() {
    for algorithm in Algorithm::ALL {
        let mut block = VirtualBlock::new(1 << 28, algorithm).unwrap();
        (0..1000).for_each(|i| assert!(block.allocate(Request::new(64), i).is_ok()));
        let before = bytes();
        block.reserve(1000);
        let more = bytes() - before;
        assert!(more <= 256 << 10, "{algorithm}: {more} bytes");
    }
}

#[test]
fn a_linear_block_has_room_for_exactly_the_ranges_that_were_reserved() {
    let mut block = VirtualBlock::new(1 << 24, Algorithm::Linear).unwrap();
    block.reserve(10_000);
    let before = allocations();
    (0..10_000).for_each(|i| assert!(block.allocate(Request::new(64), i).is_ok()));
    assert_eq!(allocations() - before, 0);
}

#[test]
fn an_index_of_aligned_ranges_is_made_once() {
    let mut block = cells(3000, Some(1234));
    let requests = |block: &mut VirtualBlock<()>| {
        let range = block.allocate(aligned(64, 64), ()).unwrap();
        block.allocate(aligned(64, 64), ()).unwrap_err();
        block.free(range.handle).unwrap();
    };
    requests(&mut block);
    let before = allocations();
    (0..3).for_each(|_| requests(&mut block));
    assert_eq!(allocations() - before, 0);
}

#[test]
fn a_search_for_the_lowest_aligned_range_makes_an_index_where_many_are_aligned_wrongly() {
    let mut block = cells(3000, None);
    let lowest = |request: Request| request.with_strategy(FitStrategy::LowestOffset);
    let one = block.allocate(lowest(Request::new(1)), ()).unwrap();
    block.free(one.handle).unwrap();
    let before = bytes();
    block.allocate(lowest(aligned(64, 64)), ()).unwrap_err();
    assert!(bytes() - before > 30_000, "{} bytes", bytes() - before);
}

#[test]
fn a_refusal_in_a_small_block_gets_no_memory_from_the_heap() {
    let mut block = VirtualBlock::new(256, Algorithm::Tlsf).unwrap();
    block.reserve(20);
    let [_, hole, _] = [1, 100, 155].map(|size| block.allocate(Request::new(size), ()).unwrap());
    block.free(hole.handle).unwrap();
    let before = allocations();
    for strategy in
        [FitStrategy::Balanced, FitStrategy::LeastTime, FitStrategy::LeastMemory, FitStrategy::LowestOffset]
    {
        block.allocate(aligned(64, 64).with_strategy(strategy), ()).unwrap_err();
    }
    assert_eq!(block.allocate_below(Request::new(10), 50, ()).unwrap().offset, 1);
    assert_eq!(allocations() - before, 0);
}

#[test]
fn a_block_that_grew_and_is_empty_again_keeps_no_peak() {
    let mut block = VirtualBlock::new(1000, Algorithm::Tlsf).unwrap();
    let ranges: Vec<_> = (0..1000).map(|_| block.allocate(Request::new(1), ()).unwrap().handle).collect();
    block.grow(1001).unwrap();
    ranges.into_iter().for_each(|range| block.free(range).unwrap());
    block.shrink_to_fit();
    assert!(!block.is_far_below_its_peak());
}

#[test]
fn a_reservation_takes_what_the_documentation_says() {
    for few in [0, 1] {
        VirtualBlock::<()>::new(1 << 20, Algorithm::Tlsf).unwrap().reserve(few);
    }
    let mut block = VirtualBlock::<()>::new(1 << 20, Algorithm::Tlsf).unwrap();
    let before = bytes();
    block.reserve(100_000);
    let taken = bytes() - before;
    assert!(taken <= 27 * 100_000 + 80_000, "{taken} bytes");
}

#[test]
fn a_reservation_suffices_for_regions_of_many_sizes_and_for_many_of_one_size() {
    // Six sizes are freed, and then a seventh that takes the place of two.
    let mut block = VirtualBlock::new(47, Algorithm::Tlsf).unwrap();
    block.reserve(11);
    let before = allocations();
    block.grow(48).unwrap();
    let ranges =
        [1, 2, 3, 2, 5, 2, 7, 2, 9, 2, 11, 2].map(|size| block.allocate(Request::new(size), ()).unwrap());
    for at in [0, 2, 4, 6, 8, 10, 1] {
        block.free(ranges[at].handle).unwrap();
    }
    assert_eq!(allocations() - before, 0, "few");

    let freed = |reserved, size, holes: &mut dyn Iterator<Item = u64>| {
        let mut block = VirtualBlock::new(size, Algorithm::Tlsf).unwrap();
        block.reserve(reserved);
        let holes: Vec<_> = holes
            .map(|size| {
                let hole = block.allocate(Request::new(size), ()).unwrap().handle;
                block.allocate(Request::new(1), ()).unwrap();
                hole
            })
            .collect();
        let before = allocations();
        holes.into_iter().for_each(|hole| block.free(hole).unwrap());
        allocations() - before
    };
    assert_eq!(freed(10_881, 1 << 17, &mut (1..=40).flat_map(|size| [size; 136])), 0, "136 each of 40 sizes");
    assert_eq!(freed(250, 1 << 20, &mut (0..100).map(|i| 1024 + i % 32)), 0, "100 of one class");
}

#[test]
fn a_second_plan_of_the_same_size_allocates_nothing() {
    // Lifetimes of one to nine units, two ranges for some; the second problem has as many, other ones.
    let items = |seed: u64| {
        (0..300u64).map(move |i| {
            let start = (i * 7 + seed) % 100;
            let wrapped = (i % 10 == 0).then_some(0..1 + i % 3);
            (Item::new(1 + (i * 31 + seed) % 64), core::iter::once(start..start + 1 + i % 9).chain(wrapped))
        })
    };
    let (mut problem, mut solver, mut plan) = (Problem::new(items(0)).unwrap(), Solver::new(), Plan::new());
    let mut run = |problem: &Problem| {
        solver.greedy(problem, u64::MAX, &mut plan);
        let greedy = plan.peak();
        let mut calls = 0;
        let stop = || {
            calls += 1;
            calls == 50
        };
        solver.search(problem, u64::MAX, stop, &mut plan);
        (greedy, plan.peak(), calls)
    };
    let first = run(&problem);
    assert!(first.2 > 1, "the greedy plan is not optimal");
    let before = allocations();
    problem.assign(items(0)).unwrap();
    let second = run(&problem);
    assert_eq!(allocations(), before);
    assert_eq!(first, second);
}
