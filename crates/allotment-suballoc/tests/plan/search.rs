//! The search: against all plans of few items, with known optima, with limits, and stopped.

use allotment_suballoc::plan::{Item, Plan, Problem, Solver};
use proptest::prelude::*;

use crate::amount::scaled;
use crate::naive::{self, Set};
use crate::{cut, exhaustive};

/// Searches for so many calls of `stop`.
fn search(problem: &Problem, limit: u64, calls: u32) -> Plan {
    let mut plan = Plan::new();
    let mut left = calls;
    let stop = || {
        left = left.saturating_sub(1);
        left == 0
    };
    Solver::new().search(problem, limit, stop, &mut plan);
    plan
}

fn against_all_plans(set: &Set, problem: &Problem) {
    let plan = search(problem, u64::MAX, 1_000_000);
    naive::check(set, problem, &plan, u64::MAX);
    assert!(plan.is_optimal(), "few items are exhausted");
    assert_eq!(plan.peak(), exhaustive::lowest_peak(set, plan.peak()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: scaled(2000) as u32, ..ProptestConfig::default() })]

    #[test]
    fn of_few_items_no_plan_is_lower(set in naive::sets(6, false, false)) {
        against_all_plans(&set, &Problem::new(set.iter().cloned()).unwrap());
    }

    #[test]
    fn of_few_aligned_and_pinned_items_no_plan_is_lower(mut set in naive::sets(6, true, true)) {
        let problem = naive::problem(&mut set);
        against_all_plans(&set, &problem);
    }

    #[test]
    fn no_items_overlap_and_all_are_aligned_and_within_the_limit(
        mut set in naive::sets(24, true, true),
        limit in prop_oneof![Just(u64::MAX), 0..150u64],
    ) {
        let problem = naive::problem(&mut set);
        let plan = search(&problem, limit, 50);
        naive::check(&set, &problem, &plan, limit);
        let mut greedy = Plan::new();
        Solver::new().greedy(&problem, limit, &mut greedy);
        prop_assert!(plan.not_placed().count() == 0 || plan.not_placed().eq(greedy.not_placed()));
        if greedy.not_placed().count() == 0 {
            prop_assert!(plan.peak() <= greedy.peak());
        }
    }

    #[test]
    fn a_limit_that_a_plan_of_few_items_fits_in_leaves_none_out(set in naive::sets(6, false, false)) {
        let problem = Problem::new(set.iter().cloned()).unwrap();
        let peak = search(&problem, u64::MAX, 1_000_000).peak();
        let plan = search(&problem, peak, 1_000_000);
        naive::check(&set, &problem, &plan, peak);
        prop_assert!(plan.is_optimal());
        if peak > 0 {
            let plan = search(&problem, peak - 1, 1_000_000);
            prop_assert!(plan.not_placed().count() > 0);
            prop_assert!(plan.lower_bound() >= peak, "that it is impossible is proved");
        }
    }

    #[test]
    fn the_result_depends_on_the_problem_and_the_calls_only(
        sets in proptest::collection::vec(naive::sets(24, true, true), 1..4),
        calls in 1..40u32,
    ) {
        let (mut solver, mut plan) = (Solver::new(), Plan::new());
        for mut set in sets {
            let problem = naive::problem(&mut set);
            let mut left = calls;
            solver.search(&problem, u64::MAX, || { left = left.saturating_sub(1); left == 0 }, &mut plan);
            let fresh = search(&problem, u64::MAX, calls);
            prop_assert!(plan.offsets().eq(fresh.offsets()));
            prop_assert_eq!(plan.lower_bound(), fresh.lower_bound());
        }
    }
}

#[test]
fn a_rectangle_that_was_cut_is_put_together_again() {
    for seed in 0..scaled(100) {
        for set in [cut::guillotine(seed, 80, 1 << 20, 1 << 20), cut::pinwheels(seed, 80, 1 << 20, 1 << 20)] {
            let problem = Problem::new(set.clone()).unwrap();
            let plan = search(&problem, u64::MAX, 20_000);
            naive::check(&set, &problem, &plan, u64::MAX);
            assert!(plan.is_optimal(), "seed {seed}: {}", plan.ratio());
            assert_eq!(plan.peak(), 1 << 20);
        }
    }
}

/// The search computes in the unit that divides all sizes.
#[test]
fn a_pin_that_the_unit_of_the_sizes_does_not_divide_stays_where_it_is() {
    let mut improved = 0;
    for seed in 0..10 {
        let mut set = cut::guillotine(seed, 40, 1 << 16, 1 << 16);
        set.iter_mut().for_each(|(item, _)| item.size *= 3);
        let after = (1 << 16) + 1;
        set.push((Item::new(3).pinned_at(1), core::iter::once(after..after + 1).collect()));
        let problem = Problem::new(set.iter().cloned()).unwrap();
        let mut greedy = Plan::new();
        Solver::new().greedy(&problem, u64::MAX, &mut greedy);
        let plan = search(&problem, u64::MAX, 20_000);
        naive::check(&set, &problem, &plan, u64::MAX);
        improved += u32::from(plan.peak() < greedy.peak());
    }
    assert!(improved > 0, "the greedy plans are as good");
}

/// A limit below which the greedy solver leaves something out.
#[test]
fn a_search_places_what_the_greedy_solver_leaves_out() {
    let mut better = 0;
    for seed in 0..20 {
        let problem = Problem::new(cut::guillotine(seed, 60, 1 << 20, 1 << 20)).unwrap();
        let mut greedy = Plan::new();
        Solver::new().greedy(&problem, 1 << 20, &mut greedy);
        let plan = search(&problem, 1 << 20, 20_000);
        assert_eq!(plan.not_placed().count(), 0);
        better += u32::from(greedy.not_placed().count() > 0);
    }
    assert!(better > 10, "{better}");
}

#[test]
fn a_search_that_is_stopped_at_once_has_the_greedy_plan() {
    let problem = Problem::new(cut::pinwheels(3, 100, 1 << 20, 1 << 20)).unwrap();
    let mut greedy = Plan::new();
    Solver::new().greedy(&problem, u64::MAX, &mut greedy);
    assert!(!greedy.is_optimal());
    let plan = search(&problem, u64::MAX, 1);
    assert!(plan.offsets().eq(greedy.offsets()));
    assert_eq!(plan.lower_bound(), problem.lower_bound());
}

#[test]
fn a_search_without_items_ends() {
    let plan = search(&Problem::default(), u64::MAX, 1);
    assert!(plan.is_optimal());
    assert_eq!((plan.peak(), plan.ratio()), (0, 1.0));
}

#[test]
fn a_problem_too_large_to_search_gets_the_greedy_plan() {
    // Each of 3,000 with each: 9 million conflicts. With their alignments the greedy plan misses the bound.
    let items = (0..3000u64).map(|i| {
        let alignment = allotment_suballoc::Alignment::new(1 << (i % 3)).unwrap();
        (Item::new(1 + i % 2).aligned(alignment), 0..1)
    });
    let problem = Problem::from_intervals(items).unwrap();
    let plan = search(&problem, u64::MAX, u32::MAX);
    plan.check(&problem).unwrap();
    assert!(!plan.is_optimal(), "otherwise nothing was to be searched");
}
