//! Problems made at random, and what is true of them by comparing everything with everything.

use core::ops::Range;

use allotment_suballoc::Alignment;
use allotment_suballoc::plan::{Item, Plan, Problem, ProblemError};
use proptest::collection::vec;
use proptest::prelude::*;

/// Items with lifetimes of one or more ranges.
pub(crate) type Set = Vec<(Item, Vec<Range<u64>>)>;

/// At most `items` items in 24 units of time; with alignments and pins, if wanted.
pub(crate) fn sets(items: usize, aligned: bool, pinned: bool) -> impl Strategy<Value = Set> {
    let range =
        (0..20u64, prop_oneof![3 => 1..5u64, 1 => 5..24u64]).prop_map(|(start, len)| start..start + len);
    let lifetime = prop_oneof![4 => vec(range.clone(), 1), 1 => vec(range, 2..4)];
    let alignment = if aligned { 0..5u32 } else { 0..1 };
    let pin = if pinned {
        prop_oneof![6 => Just(None), 1 => (0..8u64).prop_map(Some)].boxed()
    } else {
        Just(None).boxed()
    };
    let item = (1..20u64, alignment, pin, lifetime).prop_map(|(size, log2, pin, lifetime)| {
        let alignment = Alignment::new(1 << log2).unwrap();
        let item = Item::new(size).aligned(alignment);
        // Far enough apart that some do not overlap.
        (pin.map_or(item, |pin| item.pinned_at(pin * 16)), lifetime)
    });
    vec(item, 0..=items)
}

/// The problem of a set, without the pins that overlap others.
pub(crate) fn problem(set: &mut Set) -> Problem {
    loop {
        match Problem::new(set.iter().cloned()) {
            Ok(problem) => return problem,
            Err(ProblemError::PinsOverlap { first, second }) => {
                assert!(conflict(&set[first].1, &set[second].1), "they are live together");
                let ends = |item: &Item| (item.pin.unwrap(), item.pin.unwrap() + item.size);
                let (a, b) = (ends(&set[first].0), ends(&set[second].0));
                assert!(a.0 < b.1 && b.0 < a.1, "they overlap");
                set[second].0.pin = None;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

pub(crate) fn conflict(a: &[Range<u64>], b: &[Range<u64>]) -> bool {
    a.iter().any(|a| b.iter().any(|b| a.start < b.end && b.start < a.end))
}

/// The largest sum of sizes of items of which each two conflict.
pub(crate) fn clique(set: &Set) -> u64 {
    /// Of `left`, with or without the first of them, beside items of the weight `chosen`.
    fn heaviest(set: &Set, left: &[usize], chosen: u64, best: &mut u64) {
        *best = chosen.max(*best);
        let Some((&first, rest)) = left.split_first() else { return };
        if chosen + left.iter().map(|&item| set[item].0.size).sum::<u64>() > *best {
            let with: Vec<usize> =
                rest.iter().copied().filter(|&it| conflict(&set[first].1, &set[it].1)).collect();
            heaviest(set, &with, chosen + set[first].0.size, best);
            heaviest(set, rest, chosen, best);
        }
    }
    let mut best = 0;
    heaviest(set, &Vec::from_iter(0..set.len()), 0, &mut best);
    best
}

/// Checks everything that must hold of a plan, each item with each other one.
pub(crate) fn check(set: &Set, problem: &Problem, plan: &Plan, limit: u64) {
    assert_eq!(plan.offsets().len(), set.len());
    let mut peak = 0;
    for (index, (item, lifetime)) in set.iter().enumerate() {
        let Some(offset) = plan.offset(index) else {
            assert!(item.pin.is_none(), "what is pinned is placed");
            continue;
        };
        assert!(item.alignment.is_aligned(offset));
        assert!(item.pin.is_none_or(|pin| pin == offset));
        assert!(item.pin.is_some() || offset + item.size <= limit);
        peak = peak.max(offset + item.size);
        for (other, (below, other_lifetime)) in set.iter().enumerate().take(index) {
            assert_eq!(problem.conflict(index, other), conflict(lifetime, other_lifetime));
            if let (true, Some(other)) = (problem.conflict(index, other), plan.offset(other)) {
                assert!(
                    offset + item.size <= other || other + below.size <= offset,
                    "{index} overlaps another"
                );
            }
        }
    }
    assert_eq!(plan.peak(), peak);
    assert_eq!(plan.check(problem), Ok(()));
    assert_eq!(plan.not_placed().count(), plan.offsets().filter(Option::is_none).count());
    if plan.not_placed().count() == 0 {
        assert!(plan.lower_bound() <= plan.peak());
        assert!(plan.ratio() >= 1.0);
        assert_eq!(plan.is_optimal(), plan.lower_bound() == plan.peak());
    } else {
        assert!(!plan.is_optimal());
    }
}
