//! What a problem says of its items, and which it refuses.

use core::iter::once;

use allotment_suballoc::plan::{Item, Plan, PlanError, Problem, ProblemError, Solver};
use allotment_suballoc::{Alignment, MAX_SIZE};
use proptest::prelude::*;

use crate::amount::scaled;
use crate::{cut, naive};

proptest! {
    #![proptest_config(ProptestConfig { cases: scaled(3000) as u32, ..ProptestConfig::default() })]

    #[test]
    fn the_bound_is_the_heaviest_set_of_items_of_which_each_two_conflict(set in naive::sets(24, false, false)) {
        let problem = Problem::new(set.iter().cloned()).unwrap();
        prop_assert_eq!(problem.lower_bound(), naive::clique(&set));
        prop_assert_eq!(problem.total_size(), set.iter().map(|(item, _)| item.size).sum::<u64>());
    }

    #[test]
    fn items_share_a_section_exactly_if_they_are_live_together(set in naive::sets(24, false, false)) {
        let problem = Problem::new(set.iter().cloned()).unwrap();
        let sections = |item| problem.sections_of(item).flatten().collect::<Vec<_>>();
        let mut live = vec![Vec::new(); problem.section_count()];
        for item in 0..set.len() {
            prop_assert!(sections(item).is_sorted_by(|a, b| a < b));
            let ranges: Vec<_> = problem.sections_of(item).collect();
            prop_assert!(ranges.windows(2).all(|two| two[0].end < two[1].start), "none touches the next");
            sections(item).iter().for_each(|&section| live[section].push(item));
            for other in 0..set.len() {
                let together = naive::conflict(&set[item].1, &set[other].1);
                prop_assert_eq!(problem.conflict(item, other), together);
                prop_assert_eq!(sections(item).iter().any(|section| sections(other).contains(section)), together);
            }
        }
        // None is part of the next or of the one before. (An item that is live before and after a gap can make it so.)
        let plain = set.iter().all(|(_, lifetime)| lifetime.len() == 1);
        for two in live.windows(2).filter(|_| plain) {
            prop_assert!(two[0].iter().any(|item| !two[1].contains(item)));
            prop_assert!(two[1].iter().any(|item| !two[0].contains(item)));
        }
    }
}

#[test]
fn a_cut_rectangle_is_as_full_at_all_times() {
    for seed in 0..scaled(200) {
        for set in [cut::guillotine(seed, 50, 1000, 1000), cut::pinwheels(seed, 50, 1000, 1000)] {
            let area: u64 = set.iter().map(|(item, time)| item.size * (time[0].end - time[0].start)).sum();
            assert_eq!(area, 1000 * 1000);
            assert_eq!(Problem::new(set).unwrap().lower_bound(), 1000);
        }
    }
}

/// Three items, of which at each time two are live, and each two are at one.
fn three_in_conflict(item: Item) -> naive::Set {
    let (before, after) = ((item, once(0..2).collect()), (item, once(1..3).collect()));
    vec![before, after, (item, vec![0..1, 2..3])]
}

#[test]
fn what_conflicts_at_several_times_is_in_the_bound_also_among_many_others() {
    let three = three_in_conflict(Item::new(100));
    let bound = |others: usize, size| {
        let others = (0..others).map(|_| (Item::new(size), once(0..3).collect()));
        Problem::new(three.iter().cloned().chain(others)).unwrap().lower_bound()
    };
    assert_eq!(bound(0, 1), 300);
    assert_eq!(bound(130, 1), 430);
    assert_eq!(bound(300, 100), 30_300);
    // More are not searched: then it is what is live at once.
    assert_eq!(bound(2000, 100), 200_200);
    // Two large ones that are live in turn, each a hundred thousand times.
    let in_turn = |first: u64| (0..100_000).map(move |at| first + at * 2..first + at * 2 + 1);
    let two = [0, 1].map(|first| (Item::new(MAX_SIZE), in_turn(first)));
    assert_eq!(Problem::new(two).unwrap().lower_bound(), MAX_SIZE);
}

#[test]
fn a_bound_whose_search_was_too_long_is_one_still() {
    let mut random = cut::Rng::new(7);
    let set: naive::Set = (0..900)
        .map(|_| {
            let range = |start: u64, length: u64| start..start + length;
            let lifetime = (0..3).map(|_| range(random.below(1000), 1 + random.below(30))).collect();
            (Item::new(1 + random.below(100)), lifetime)
        })
        .collect();
    let problem = Problem::new(set.iter().cloned()).unwrap();
    let mut plan = Plan::new();
    Solver::new().greedy(&problem, u64::MAX, &mut plan);
    naive::check(&set, &problem, &plan, u64::MAX);
    let live = |time: u64| set.iter().filter(move |(_, life)| life.iter().any(|it| it.contains(&time)));
    let most = (0..1030).map(|time| live(time).map(|(item, _)| item.size).sum::<u64>()).max();
    assert!(most.unwrap() <= problem.lower_bound() && problem.lower_bound() <= plan.peak());
}

#[test]
fn a_bound_of_items_that_conflict_at_several_times_counts_alignment() {
    let alignment = Alignment::new(8).unwrap();
    assert_eq!(
        Problem::new(three_in_conflict(Item::new(9).aligned(alignment))).unwrap().lower_bound(),
        16 + 16 + 9
    );
}

#[test]
fn a_bound_counts_alignment_only_where_no_plan_avoids_it() {
    let aligned = |size, alignment| Item::new(size).aligned(Alignment::new(alignment).unwrap());
    let together =
        |items: [Item; 2]| Problem::from_intervals(items.map(|item| (item, 0..1))).unwrap().lower_bound();
    assert_eq!(together([aligned(1, 8), aligned(2, 8)]), 9, "the higher one is at 8");
    assert_eq!(together([aligned(8, 8), aligned(16, 16)]), 24);
    assert_eq!(together([aligned(3, 1), aligned(5, 8)]), 8);
    assert_eq!(together([aligned(1, 1), aligned(2, 1).pinned_at(70)]), 72, "and the end of a pin");
    assert_eq!(Problem::from_intervals([]).unwrap().lower_bound(), 0);
}

#[test]
fn a_refused_item_is_named() {
    let item = Item::new(4);
    let refused = |bad: Item, lifetime: core::ops::Range<u64>| {
        let error = Problem::from_intervals([(item, 0..9), (bad, lifetime)]).unwrap_err();
        assert!(error.to_string().contains("item 1"), "{error}");
        error
    };
    assert_eq!(refused(Item::new(0), 0..1), ProblemError::ZeroSize { item: 1 });
    assert_eq!(refused(Item::new(u64::MAX), 0..1), ProblemError::TooLarge { item: 1, size: u64::MAX });
    assert_eq!(refused(item, 3..3), ProblemError::EmptyLifetime { item: 1 });
    #[expect(clippy::reversed_empty_ranges, reason = "that is what is refused")]
    let reversed = refused(item, 4..3);
    assert_eq!(reversed, ProblemError::ReversedLifetime { item: 1, start: 4, end: 3 });
    assert_eq!(
        refused(Item::new(MAX_SIZE + 1), 20..21),
        ProblemError::TooLarge { item: 1, size: MAX_SIZE + 1 }
    );
    let alignment = Alignment::new(8).unwrap();
    assert_eq!(
        refused(item.aligned(alignment).pinned_at(4), 0..1),
        ProblemError::PinMisaligned { item: 1, offset: 4, alignment }
    );
    assert_eq!(
        refused(item.pinned_at(u64::MAX), 0..1),
        ProblemError::PinTooHigh { item: 1, offset: u64::MAX }
    );

    let pins = [(item.pinned_at(6), 0..3), (item, 0..3), (item.pinned_at(3), 2..4)];
    let error = Problem::from_intervals(pins).unwrap_err();
    assert_eq!(error, ProblemError::PinsOverlap { first: 2, second: 0 });
    assert!(error.to_string().contains("items 2 and 0"));
}

/// A recording of months: what it allocates one after the other is more than any memory has.
#[test]
fn the_sum_of_sizes_over_time_may_be_4096_times_the_largest_size() {
    let items = |count: u64| (0..count).map(|at| (Item::new(MAX_SIZE), at / 2..at / 2 + 1));
    let problem = Problem::from_intervals(items(4096)).unwrap();
    assert_eq!((problem.total_size(), problem.lower_bound()), (1 << 60, 2 * MAX_SIZE));
    let error = Problem::from_intervals(items(4097)).unwrap_err();
    assert_eq!(error, ProblemError::TotalTooLarge { item: 4096 });
    assert!(error.to_string().contains(&(1u64 << 60).to_string()), "{error}");
}

#[test]
fn a_problem_that_was_refused_has_no_items() {
    let mut problem = Problem::from_intervals([(Item::new(4), 0..9)]).unwrap();
    problem.assign([4, 0].map(|size| (Item::new(size), once(0..1)))).unwrap_err();
    assert!(problem.is_empty() && problem.lower_bound() == 0 && problem.section_count() == 0);
    problem.assign(once((Item::new(4), once(0..1)))).unwrap();
    assert_eq!((problem.len(), problem.item(0).size), (1, 4));
}

#[test]
fn times_may_be_anything() {
    let whole = (Item::new(MAX_SIZE / 2), 0..u64::MAX);
    let last = (Item::new(8), u64::MAX - 1..u64::MAX);
    let problem = Problem::from_intervals([whole, last]).unwrap();
    assert_eq!(problem.lower_bound(), MAX_SIZE / 2 + 8);
}

#[test]
fn errors_of_plans_name_items() {
    for (error, part) in [
        (PlanError::OtherProblem { items: 71, planned: 72 }, "71 items"),
        (PlanError::Overlap { first: 71, second: 72 }, "71 and 72"),
        (PlanError::Misaligned { item: 71 }, "item 71"),
        (PlanError::PinMoved { item: 71 }, "item 71"),
        (PlanError::AbovePeak { item: 71 }, "item 71"),
    ] {
        assert!(error.to_string().contains(part), "{error}");
    }
    assert!(ProblemError::TooManyItems.to_string().contains("2^29"));
}
