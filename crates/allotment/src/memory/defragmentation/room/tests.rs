//! Plans, beside the least that a search through all states finds.

use core::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use allotment_suballoc::Alignment;
use proptest::prelude::*;

use super::layout::{At, Item, Layout, Place};
use super::plan::{RoomPlan, Wanted, plan};

/// Executes a plan step by step. Returns the bytes that it copies; panics where a step cannot be done.
fn execute(layout: &Layout, plan: &RoomPlan, wanted: Wanted) -> u64 {
    let mut layout = layout.clone();
    let mut cost = 0;
    for &(item, to) in &plan.steps {
        let Item { bytes, alignment, cost: each } = layout.item(item);
        if let Place::At(at) = to {
            assert!(alignment.is_aligned(at.offset), "{plan:?}");
            assert!(layout.is_free(at, bytes, None), "{plan:?} {layout:?}");
        }
        cost += each.expect("a pinned item stays");
        layout.step(item, to);
    }
    assert!(wanted.alignment.is_aligned(plan.at.offset));
    assert!(layout.is_free(plan.at, wanted.bytes, None), "{plan:?} {layout:?}");
    cost
}

type State = Vec<Option<At>>;

/// The least bytes that must be copied so that a range is free: a search through all states, for few small items.
fn least(layout: &Layout, items: u32, wanted: Wanted) -> Option<u64> {
    let start: State = (0..items).map(|item| layout.place(item)).collect();
    let mut best = HashMap::from([(start.clone(), 0_u64)]);
    let mut open = BinaryHeap::from([Reverse((0_u64, start))]);
    let rebuilt = |state: &State| {
        let sizes = (0..layout.block_count()).map(|block| layout.size(block)).collect();
        let mut copy = Layout::new(sizes, []);
        let _ = &mut copy;
        let mut all: BTreeMap<At, u64> = BTreeMap::new();
        for (item, at) in (0..).zip(state) {
            all.extend(at.map(|at| (at, layout.item(item).bytes)));
        }
        all
    };
    let free = |all: &BTreeMap<At, u64>, at: At, bytes: u64| {
        at.offset + bytes <= layout.size(at.block)
            && all.iter().all(|(other, &size)| {
                other.block != at.block
                    || other.offset + size <= at.offset
                    || at.offset + bytes <= other.offset
            })
    };
    while let Some(Reverse((cost, state))) = open.pop() {
        if best[&state] < cost {
            continue;
        }
        let all = rebuilt(&state);
        let places = |bytes: u64, alignment: Alignment| {
            let all = &all;
            (0..layout.block_count()).flat_map(move |block| {
                let offsets = (0..layout.size(block)).step_by(alignment.get() as usize);
                offsets.map(move |offset| At { block, offset }).filter(move |&at| free(all, at, bytes))
            })
        };
        if state.iter().all(Option::is_some) && places(wanted.bytes, wanted.alignment).next().is_some() {
            return Some(cost);
        }
        for item in 0..items {
            let Item { bytes, alignment, cost: Some(each) } = layout.item(item) else { continue };
            let aside = state.iter().all(Option::is_some).then_some(None);
            for to in places(bytes, alignment).map(Some).chain(aside) {
                let mut next = state.clone();
                next[item as usize] = to;
                let cost = cost + each;
                if best.get(&next).is_none_or(|&known| cost < known) {
                    best.insert(next.clone(), cost);
                    open.push(Reverse((cost, next)));
                }
            }
        }
    }
    None
}

/// A few blocks with a few items, and a request.
fn cases() -> impl Strategy<Value = (Layout, u32, Wanted)> {
    let item = (1..5_u64, 0..2_u32, 0..12_u8, any::<u8>());
    (1..3_usize, 5..8_u64, prop::collection::vec(item, 2..9), 2..6_u64, 0..2_u32).prop_map(
        |(blocks, size, raw, bytes, log)| {
            let mut used: Vec<(At, u64)> = Vec::new();
            let mut items = Vec::new();
            for (bytes, log, kind, place) in raw {
                let alignment = Alignment::new(1 << log).unwrap();
                let at = At {
                    block: u32::from(place) % blocks as u32,
                    offset: alignment.align_up(u64::from(place / 4) % size),
                };
                let apart = |(other, other_bytes): &(At, u64)| {
                    other.block != at.block
                        || other.offset + other_bytes <= at.offset
                        || at.offset + bytes <= other.offset
                };
                if at.offset + bytes <= size && used.iter().all(apart) {
                    used.push((at, bytes));
                    let cost = (kind != 0).then_some(if kind == 1 { 0 } else { bytes });
                    items.push((Item { bytes, alignment, cost }, at));
                }
            }
            let count = items.len() as u32;
            let wanted = Wanted { bytes, alignment: Alignment::new(1 << log).unwrap() };
            (Layout::new(vec![size; blocks], items), count, wanted)
        },
    )
}

proptest! {
    #[test]
    fn a_plan_makes_the_room_and_costs_what_it_says((layout, _, wanted) in cases()) {
        if let Some(plan) = plan(&layout, wanted) {
            prop_assert_eq!(execute(&layout, &plan, wanted), plan.cost);
        }
    }
}

/// Prints how often a plan is found where there is one, and what it costs beside the least.
#[test]
fn plans_are_found_and_cost_little_more_than_the_least() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut possible, mut found, mut costs, mut leasts, mut nothing) = (0, 0, 0, 0, 0);
    for _ in 0..2000 {
        let (layout, items, wanted) =
            proptest::strategy::ValueTree::current(&cases().new_tree(&mut runner).unwrap());
        let Some(least) = least(&layout, items, wanted) else {
            assert!(plan(&layout, wanted).is_none());
            continue;
        };
        possible += 1;
        nothing += u32::from(least == 0);
        if let Some(plan) = plan(&layout, wanted) {
            found += 1;
            costs += plan.cost;
            leasts += least;
            assert!(plan.cost >= least, "{plan:?} {least}");
        } else {
            println!("missed, {least}: {layout:?} {wanted:?}");
        }
    }
    println!(
        "{possible} possible, {nothing} of them without a copy; {found} found, {costs} bytes for {leasts}"
    );
    assert_eq!(found, possible);
    assert!(costs * 10 <= leasts * 13);
}
