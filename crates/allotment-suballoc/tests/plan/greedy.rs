//! The greedy solver.

use allotment_suballoc::Alignment;
use allotment_suballoc::plan::{Item, Plan, PlanError, Problem, Solver};
use proptest::prelude::*;

use crate::amount::scaled;
use crate::naive::Set;
use crate::{cut, naive};

fn greedy(problem: &Problem, limit: u64) -> Plan {
    let mut plan = Plan::new();
    Solver::new().greedy(problem, limit, &mut plan);
    plan
}

proptest! {
    #![proptest_config(ProptestConfig { cases: scaled(3000) as u32, ..ProptestConfig::default() })]

    #[test]
    fn no_items_overlap_and_all_are_aligned_and_within_the_limit(
        mut set in naive::sets(24, true, true),
        limit in prop_oneof![Just(u64::MAX), 0..150u64],
    ) {
        let problem = naive::problem(&mut set);
        let plan = greedy(&problem, limit);
        naive::check(&set, &problem, &plan, limit);
        if limit == u64::MAX {
            prop_assert_eq!(plan.not_placed().count(), 0);
        }
    }

    #[test]
    fn the_result_depends_on_the_problem_only(sets in proptest::collection::vec(naive::sets(24, true, true), 1..6)) {
        let (mut solver, mut plan, mut problem) = (Solver::new(), Plan::new(), Problem::default());
        for mut set in sets {
            let fresh = naive::problem(&mut set);
            problem.assign(set.iter().cloned()).unwrap();
            solver.greedy(&problem, u64::MAX, &mut plan);
            prop_assert!(plan.offsets().eq(greedy(&fresh, u64::MAX).offsets()));
        }
    }
}

#[test]
fn a_plan_stays_near_the_known_optimum() {
    for seed in 0..scaled(100) {
        for set in [cut::guillotine(seed, 100, 1 << 20, 1 << 20), cut::pinwheels(seed, 100, 1 << 20, 1 << 20)]
        {
            let problem = Problem::new(set.clone()).unwrap();
            assert_eq!(problem.lower_bound(), 1 << 20);
            let plan = greedy(&problem, u64::MAX);
            naive::check(&set, &problem, &plan, u64::MAX);
            assert!(plan.ratio() < 1.6, "{}", plan.ratio());
        }
    }
}

#[test]
fn what_does_not_fit_is_left_out_and_the_rest_is_placed() {
    let items = [(Item::new(8), 0..2), (Item::new(16), 0..2), (Item::new(8), 1..3), (Item::new(30), 2..3)];
    let problem = Problem::from_intervals(items).unwrap();
    let plan = greedy(&problem, 24);
    assert_eq!(plan.not_placed().count(), 2, "30 is too large for any, and one of the others must go");
    assert_eq!(plan.offset(3), None);
    assert!(plan.peak() <= 24);
    assert_eq!(plan.lower_bound(), 38, "of a plan of all items");
}

/// Half of the items are live all the time, so that each of these is compared with all sections: quadratic.
fn hostile(count: u64) -> Set {
    let items = (0..count).map(|at| {
        let size = Item::new(1 + at * 7919 % 31);
        let alignment = Alignment::new(1 << (at % 4)).unwrap();
        let (item, life) = if at % 2 == 0 { (size.aligned(alignment), 0..count) } else { (size, at..at + 1) };
        (item, Vec::from([life]))
    });
    items.collect()
}

#[test]
fn a_greedy_solver_that_is_stopped_has_a_plan_of_all_items() {
    let mut set = hostile(3000);
    set[70].0 = Item::new(8).pinned_at(8 << 10);
    let problem = Problem::new(set.clone()).unwrap();
    let complete = greedy(&problem, u64::MAX);
    let mut peaks = Vec::new();
    for calls in [1, 2, 10, 50] {
        let (mut solver, mut plan, mut called) = (Solver::new(), Plan::new(), 0);
        let stop = || {
            called += 1;
            called >= calls
        };
        solver.greedy_until(&problem, u64::MAX, stop, &mut plan);
        assert_eq!(called, calls, "it is asked so often, and not again");
        naive::check(&set, &problem, &plan, u64::MAX);
        assert_eq!((plan.not_placed().count(), plan.lower_bound()), (0, problem.lower_bound()));
        peaks.push(plan.peak());
    }
    assert!(peaks[0] >= problem.total_size(), "at once: all are on top of each other");
    assert!(peaks.is_sorted_by(|before, after| before >= after) && peaks[3] < peaks[0], "{peaks:?}");
    assert!(peaks[3] > complete.peak(), "otherwise it was not stopped");
}

#[test]
fn a_greedy_solver_that_is_stopped_exceeds_no_limit() {
    let set = hostile(3000);
    let problem = Problem::new(set.clone()).unwrap();
    let (mut plan, mut called) = (Plan::new(), 0);
    let stop = || {
        called += 1;
        called >= 20
    };
    let limit = problem.lower_bound() / 2;
    Solver::new().greedy_until(&problem, limit, stop, &mut plan);
    assert_eq!(called, 20);
    naive::check(&set, &problem, &plan, limit);
    assert!(plan.not_placed().count() > 0 && plan.peak() > limit / 2);
}

#[test]
fn a_greedy_solver_that_is_stopped_keeps_the_best_order_so_far() {
    let set = hostile(3000);
    let problem = Problem::new(set).unwrap();
    let calls = |most: u32| {
        let (mut plan, mut called) = (Plan::new(), 0);
        let stop = || {
            called += 1;
            called >= most
        };
        Solver::new().greedy_until(&problem, u64::MAX, stop, &mut plan);
        (called, plan)
    };
    let (all, complete) = calls(u32::MAX);
    let (_, nearly) = calls(all - 1);
    assert!(!complete.is_optimal(), "otherwise it ends with the first order");
    assert!(nearly.peak() >= complete.peak() && nearly.ratio() < 1.5, "{}", nearly.ratio());
}

#[test]
fn a_pinned_item_stays_and_the_others_go_around_it() {
    let items = [
        (Item::new(8).pinned_at(8), 0..3),
        (Item::new(8), 0..1),
        (Item::new(16), 1..2),
        (Item::new(4), 2..3),
    ];
    let problem = Problem::from_intervals(items).unwrap();
    let plan = greedy(&problem, u64::MAX);
    assert!(plan.offsets().eq([Some(8), Some(0), Some(16), Some(0)]));
    assert_eq!(greedy(&problem, 10).offset(0), Some(8), "above the limit, too");
}

#[test]
fn what_can_be_lower_is_placed_before_what_its_alignment_lifts() {
    let items = [
        (Item::new(4).pinned_at(0), 0..1),
        (Item::new(8).aligned(Alignment::new(8).unwrap()), 0..2),
        (Item::new(4), 0..1),
    ];
    let plan = greedy(&Problem::from_intervals(items).unwrap(), u64::MAX);
    assert!(plan.offsets().eq([Some(0), Some(8), Some(4)]));
}

#[test]
fn a_check_names_what_is_wrong() {
    let two = |size: u64, second: u64| {
        Problem::from_intervals([(Item::new(size), 0..2), (Item::new(4), second..3)]).unwrap()
    };
    let plan = greedy(&two(4, 2), u64::MAX);
    assert!(plan.offsets().eq([Some(0), Some(0)]));
    assert_eq!(plan.check(&two(4, 1)), Err(PlanError::Overlap { first: 0, second: 1 }));
    assert_eq!(plan.check(&two(5, 2)), Err(PlanError::AbovePeak { item: 0 }));
    let one = Problem::from_intervals([(Item::new(4), 0..2)]).unwrap();
    assert_eq!(plan.check(&one), Err(PlanError::OtherProblem { items: 1, planned: 2 }));

    let plan = greedy(&two(4, 1), u64::MAX);
    let aligned = [Item::new(4), Item::new(4).aligned(Alignment::new(8).unwrap())];
    let upper = plan.offsets().position(|offset| offset == Some(4)).unwrap();
    let with = |upper_item: Item| {
        let mut items = [(Item::new(4), 0..2), (Item::new(4), 1..3)];
        items[upper].0 = upper_item;
        Problem::from_intervals(items).unwrap()
    };
    assert_eq!(plan.check(&with(aligned[1])), Err(PlanError::Misaligned { item: upper }));
    assert_eq!(plan.check(&with(aligned[0].pinned_at(8))), Err(PlanError::PinMoved { item: upper }));
}
