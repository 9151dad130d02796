//! Plans of generated frames.

use std::collections::BTreeSet;

use allotment::device::QueueIndex;
use allotment::transient::{
    HeapLimits, TransientDesc, TransientError, TransientPass, TransientPlan, TransientPlanner,
    TransientResource,
};
use proptest::prelude::*;

use crate::amount::{first_seed, scaled};
use crate::counting;
use crate::frames::{Frame, Pass, Resource};
use crate::random::frames;
use crate::unrolled::{Unrolled, placements};

/// Takes the resources out that a frame may not have.
pub(crate) fn without_overlapping_histories(frame: &mut Frame) {
    let unrolled = frame.clone();
    let order = Unrolled::new(&unrolled, &[]);
    for resource in &mut frame.resources {
        let overlaps = |read: &usize| resource.uses.iter().any(|&it| !order.is_pass_before(*read, it));
        if resource.reads.iter().any(overlaps) {
            resource.reads.clear();
        }
    }
}

fn check(
    frame: &Frame,
    limits: HeapLimits,
    plan: &TransientPlan,
    passes: &[TransientPass],
    resources: &[TransientResource],
) {
    let waits = Unrolled::waits_of(plan, passes);
    let order = Unrolled::new(frame, &waits);
    let places = placements(plan, resources);
    order.assert_apart(&places);
    let mut total = 0;
    for (at, (resource, place)) in frame.resources.iter().zip(&places).enumerate() {
        let begins: Vec<usize> = (0..passes.len())
            .filter(|&pass| plan.begins(passes[pass]).any(|it| it == resources[at]))
            .collect();
        let firsts: Vec<usize> = (0..passes.len()).filter(|&pass| order.is_first(at, pass)).collect();
        assert_eq!(begins, firsts, "{at}");
        let Some(place) = place else {
            assert_ne!(limits, HeapLimits::default(), "{at} has no place though there is room");
            continue;
        };
        total += resource.desc.size;
        let heap = &plan.heaps()[place.heap as usize];
        assert_eq!(heap.class, resource.desc.class, "{at}");
        assert!(resource.desc.alignment.is_aligned(place.offset), "{at} at {place:?}");
        assert!(heap.alignment >= resource.desc.alignment.get(), "{at}");
        assert!(place.offset + resource.desc.size <= heap.size, "{at} at {place:?} of {heap:?}");
        // Whom it follows, and where it begins.
        let follows: BTreeSet<(usize, bool)> = (plan.follows(resources[at]).iter())
            .map(|it| (it.resource.index(), it.of_frame_before))
            .collect();
        assert_eq!(follows, order.follows(at, &places), "{at}");
    }
    assert_eq!(plan.total_size(), total);
    for heap in plan.heaps() {
        assert!(heap.lower_bound <= heap.size && heap.size <= limits.heap_size, "{heap:?}");
    }
    // No wait is there that the others imply.
    for left_out in 0..waits.len() {
        let mut others = waits.clone();
        let (pass, for_pass) = others.remove(left_out);
        let order = Unrolled::new(frame, &others);
        let count = frame.passes.len();
        assert!(!order.is_pass_before(for_pass, count + pass), "{:?} is implied", waits[left_out]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: scaled(2000) as u32, ..ProptestConfig::default() })]

    #[test]
    fn no_two_resources_have_bytes_in_common_that_may_be_used_at_the_same_time(mut frame in frames(9, 12)) {
        without_overlapping_histories(&mut frame);
        let (plan, passes, resources) = frame.plan(&mut TransientPlanner::default()).unwrap();
        prop_assert!(plan.number() == 1 && plan.moved_bytes() == 0 && plan.not_placed_bytes() == 0);
        check(&frame, HeapLimits::default(), &plan, &passes, &resources);
        let heaps = |class| plan.heaps().iter().filter(move |it| it.class == class);
        let order = Unrolled::new(&frame, &[]);
        for class in 0..2 {
            let clique = order.heaviest_clique(class);
            let bound: u64 = heaps(class).map(|it| it.lower_bound).sum();
            prop_assert!(bound >= clique, "{bound} and {clique}");
            // Only alignment adds to it, and a search that tried all that is lower than the plan.
            let is_aligned = frame.resources.iter().any(|it| it.desc.alignment.get() > 1);
            let is_proved = heaps(class).map(|it| it.size).sum::<u64>() == bound;
            prop_assert!(bound == clique || is_aligned || is_proved, "{bound} and {clique}");
        }
    }

    #[test]
    fn what_changes_leaves_the_rest_where_it_is_as_long_as_that_costs_little(
        mut frame in frames(8, 12),
        changed in any::<prop::sample::Index>(),
        size in 1..200_u64,
        kept_percent in prop_oneof![Just(0_u32), Just(10), Just(1_000_000)],
    ) {
        without_overlapping_histories(&mut frame);
        let mut limits = HeapLimits::default();
        limits.kept_percent = kept_percent;
        let mut planner = TransientPlanner::new(limits);
        let (before, _, old) = frame.plan(&mut planner).unwrap();
        let (again, ..) = frame.plan(&mut planner).unwrap();
        prop_assert!(again == before);
        let changed = changed.index(frame.resources.len());
        let was = core::mem::replace(&mut frame.resources[changed].desc.size, size);
        let (after, passes, new) = frame.plan(&mut planner).unwrap();
        check(&frame, limits, &after, &passes, &new);
        let moved = |at: usize| at != changed && before.placement(old[at]) != after.placement(new[at]);
        let moved: u64 = (0..old.len()).filter(|&at| moved(at)).map(|at| frame.resources[at].desc.size).sum();
        prop_assert_eq!(after.moved_bytes(), moved);
        let is_kept = |at: usize| at != changed && before.placement(old[at]) == after.placement(new[at]);
        let is_same = frame.resources[changed].desc.size == was;
        prop_assert_eq!(after.number(), before.number() + u64::from(!is_same));
        prop_assert!(is_same || (0..old.len()).all(|at| after.is_kept(new[at]) == is_kept(at)));
        let (fresh, ..) = frame.plan(&mut TransientPlanner::default()).unwrap();
        // What keeps its place proves nothing of other plans.
        prop_assert!(after.lower_bound() <= fresh.size() && fresh.lower_bound() <= after.size());
        prop_assert!(after.size() * 100 <= fresh.size() * (100 + u64::from(kept_percent)));
        // One of few bytes that is kept above a large one may cost a thousand times as much.
        if kept_percent == 1_000_000 {
            prop_assert_eq!(moved, 0, "however much it costs");
        }
    }

    #[test]
    fn what_has_no_room_in_the_heaps_has_no_place(
        mut frame in frames(6, 12),
        heap_size in 1..400_u64,
        heaps in 1..4_u32,
    ) {
        without_overlapping_histories(&mut frame);
        let mut limits = HeapLimits::default();
        (limits.heap_size, limits.heaps) = (heap_size, heaps);
        let mut planner = TransientPlanner::new(limits);
        let (plan, passes, resources) = frame.plan(&mut planner).unwrap();
        check(&frame, limits, &plan, &passes, &resources);
        for class in 0..2 {
            prop_assert!(plan.heaps().iter().filter(|it| it.class == class).count() <= heaps as usize);
        }
        prop_assert!(plan.heaps().iter().all(|heap| heap.size > 0));
        let missing = frame.resources.iter().zip(&resources).filter(|(_, it)| plan.placement(**it).is_none());
        prop_assert_eq!(plan.not_placed_bytes(), missing.map(|(it, _)| it.desc.size).sum::<u64>());
        // As many heaps as are needed.
        limits.heaps = u32::MAX;
        let (all, ..) = frame.plan(&mut TransientPlanner::new(limits)).unwrap();
        let too_large = frame.resources.iter().filter(|it| it.desc.size > heap_size);
        prop_assert_eq!(all.not_placed_bytes(), too_large.map(|it| it.desc.size).sum::<u64>());
        for (resource, &it) in frame.resources.iter().zip(&resources) {
            // An empty heap takes it, unless one that is as large as all others together came first.
            prop_assert!(resource.desc.size <= heap_size || plan.placement(it).is_none());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: scaled(150) as u32, ..ProptestConfig::default() })]

    #[test]
    fn a_frame_that_comes_back_soon_has_the_plan_that_it_had_and_says_what_is_where_it_was(
        mut frame in frames(6, 8),
        order in prop::collection::vec((0..5_usize, 1..10_usize), 2..12),
    ) {
        without_overlapping_histories(&mut frame);
        let mut kinds = vec![frame; 5];
        for (kind, frame) in kinds.iter_mut().enumerate() {
            let last = frame.resources.len() - 1;
            frame.resources[last * kind / 4].desc.size += kind as u64;
        }
        let mut planner = TransientPlanner::default();
        // Of each frame, its kind and its plan.
        let mut all: Vec<(usize, TransientPlan)> = Vec::new();
        for (kind, times) in order {
            for _ in 0..times {
                let frame = &kinds[kind];
                let (plan, passes, resources) = frame.plan(&mut planner).unwrap();
                let number = plan.number();
                let is_as_before = all.last().is_some_and(|(last, _)| *last == kind);
                // The kinds of late, each once, the last one first.
                let mut late: Vec<usize> = Vec::new();
                for (other, _) in all.iter().rev().take(8) {
                    if !late.contains(other) {
                        late.push(*other);
                    }
                }
                late.truncate(4);
                let before = all.iter().rev().find(|(other, _)| *other == kind);
                let highest = all.iter().map(|(_, plan)| plan.number()).max().unwrap_or(0);
                let expected = if late.contains(&kind) { before.unwrap().1.number() } else { highest + 1 };
                prop_assert_eq!(number, expected);
                if number > highest {
                    check(frame, HeapLimits::default(), &plan, &passes, &resources);
                }
                if let (false, Some((last, old))) = (is_as_before, all.last()) {
                    let is_kept = |at: usize| {
                        kinds[*last].resources[at].desc == frame.resources[at].desc
                            && old.placement(resources[at]) == plan.placement(resources[at])
                    };
                    prop_assert!((0..resources.len()).all(|at| plan.is_kept(resources[at]) == is_kept(at)));
                }
                all.push((kind, plan));
            }
        }
    }
}

fn graphics(passes: usize) -> Vec<Pass> {
    (0..passes).map(|_| Pass { queue: 0, waits: Vec::new() }).collect()
}

fn resource(key: u64, size: u64, uses: &[usize]) -> Resource {
    Resource { desc: TransientDesc::new(key, size), uses: uses.to_vec(), reads: Vec::new() }
}

#[test]
fn passes_that_may_overlap_do_not_share_and_those_that_wait_do() {
    // The third pass is on another queue. It waits for the first; the last one waits for it.
    let mut frame = Frame { passes: graphics(4), resources: Vec::new() };
    frame.passes[2] = Pass { queue: 1, waits: vec![0] };
    frame.passes[3].waits = vec![2];
    for pass in 0..4 {
        frame.resources.push(resource(pass as u64, 100, &[pass]));
    }
    let (plan, _, resources) = frame.plan(&mut TransientPlanner::default()).unwrap();
    let at = |resource: usize| plan.placement(resources[resource]).unwrap().offset;
    assert_eq!(plan.size(), 200, "two are alive at a time");
    assert_ne!(at(1), at(2));
    assert!(plan.waits().is_empty(), "graphics has waited for the other queue: {:?}", plan.waits());
    // Where nothing waits for it, the next frame has to.
    frame.passes[3].waits.clear();
    let (plan, passes, _) = frame.plan(&mut TransientPlanner::default()).unwrap();
    let waits: Vec<_> = plan.waits().iter().map(|it| (it.pass, it.for_pass)).collect();
    assert!(waits.iter().all(|it| it.1 == passes[2]) && waits.len() == 1, "{waits:?}");
}

#[test]
fn a_history_is_kept_for_the_next_frame_and_its_bytes_are_used_in_between() {
    let mut frame =
        Frame { passes: graphics(5), resources: vec![resource(0, 100, &[4]), resource(1, 100, &[2])] };
    frame.resources[0].reads = vec![0, 1];
    let (plan, passes, resources) = frame.plan(&mut TransientPlanner::default()).unwrap();
    assert_eq!(plan.size(), 100);
    assert!(plan.follows(resources[1])[0].of_frame_before && !plan.follows(resources[0])[0].of_frame_before);
    assert_eq!(plan.begins(passes[4]).collect::<Vec<_>>(), [resources[0]]);
    // Read as late as it is written, it would have to be there twice.
    frame.resources[0].reads = vec![1, 4];
    let refused = frame.plan(&mut TransientPlanner::default()).unwrap_err();
    assert_eq!(refused, TransientError::HistoryOverlaps { key: 0, read: 4, written: 4 });
}

#[test]
fn a_history_that_moves_or_was_none_before_has_lost_its_contents() {
    let mut frame =
        Frame { passes: graphics(5), resources: vec![resource(0, 100, &[4]), resource(1, 300, &[2])] };
    let mut planner = TransientPlanner::default();
    frame.plan(&mut planner).unwrap();
    frame.resources[0].reads = vec![0];
    let (plan, _, resources) = frame.plan(&mut planner).unwrap();
    assert!(!plan.is_kept(resources[0]) && plan.is_kept(resources[1]));
    frame.resources.push(resource(2, 100, &[0]));
    let (plan, _, resources) = frame.plan(&mut planner).unwrap();
    assert!(plan.is_kept(resources[0]));
    // Another resource is alive with it from now on, and they are at the same bytes: the larger one moves.
    frame.resources[1].uses = vec![2, 3, 4];
    let (plan, _, resources) = frame.plan(&mut planner).unwrap();
    assert!(plan.is_kept(resources[0]) && !plan.is_kept(resources[1]), "{plan:?}");
}

#[test]
fn what_makes_no_plan_is_named_and_the_plan_before_stays() {
    let mut planner = TransientPlanner::default();
    let mut frame =
        Frame { passes: graphics(2), resources: vec![resource(7, 100, &[0, 1]), resource(8, 50, &[1])] };
    let (before, passes, _) = frame.plan(&mut planner).unwrap();
    frame.resources[1].desc.key = 7;
    assert_eq!(frame.plan(&mut planner).unwrap_err(), TransientError::KeyUsedTwice { key: 7 });
    frame.resources[1].desc = TransientDesc::new(9, 0);
    let refused = frame.plan(&mut planner).unwrap_err();
    assert!(matches!(refused, TransientError::Impossible { key: 9, .. }), "{refused}");
    // Two pins of which neither may go.
    frame.resources[0].desc = frame.resources[0].desc.pinned_at(0);
    frame.resources[1].desc = TransientDesc::new(10, 50).pinned_at(64);
    let refused = frame.plan(&mut planner).unwrap_err();
    assert!(matches!(refused, TransientError::Impossible { key: 7 | 10, .. }), "{refused}");
    planner.begin();
    let first = planner.pass(QueueIndex(0), &[]).unwrap();
    let unknown = TransientError::UnknownPass { pass: 1, passes: 1 };
    assert_eq!(planner.pass(QueueIndex(1), &[passes[1]]), Err(unknown));
    assert_eq!(planner.resource(&TransientDesc::new(0, 1), &[first, passes[1]]), Err(unknown));
    assert_eq!(planner.history(&TransientDesc::new(0, 1), &[first], &[passes[1]]), Err(unknown));
    assert_eq!(
        planner.history(&TransientDesc::new(3, 1), &[first], &[]),
        Err(TransientError::NotRead { key: 3 })
    );
    let frame =
        Frame { passes: graphics(2), resources: vec![resource(7, 100, &[0, 1]), resource(8, 50, &[1])] };
    let (after, ..) = frame.plan(&mut planner).unwrap();
    assert_eq!(after, before);
}

#[test]
fn a_resource_is_where_it_is_pinned_and_the_others_go_around_it() {
    let mut frame =
        Frame { passes: graphics(1), resources: (0..4).map(|key| resource(key, 64, &[0])).collect() };
    let mut planner = TransientPlanner::default();
    frame.plan(&mut planner).unwrap();
    frame.resources[3].desc = frame.resources[3].desc.pinned_at(64);
    let (plan, _, resources) = frame.plan(&mut planner).unwrap();
    assert_eq!(plan.placement(resources[3]).unwrap().offset, 64);
    assert_eq!(plan.size(), 256);
}

#[test]
fn a_better_plan_is_taken_where_there_is_one_and_the_frame_stays_planned() {
    // A rectangle of time and bytes that is cut into pieces is hard to put together again.
    let (mut improved, mut number) = (0, first_seed());
    for _ in 0..6 {
        let mut pieces = vec![(0, 64, 100_000)];
        while pieces.len() < 160 {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let drawn = (number >> 33) as usize;
            let at = drawn % pieces.len();
            let (first, end, size) = pieces[at];
            let part = 1 + drawn / 1000 % 97;
            if drawn / 500 % 2 == 0 && end - first > 1 {
                let middle = first + 1 + part % (end - first - 1);
                pieces[at] = (first, middle, size);
                pieces.push((middle, end, size));
            } else if size > 100 {
                pieces[at] = (first, end, size * part / 100);
                pieces.push((first, end, size - size * part / 100));
            }
        }
        let mut frame = Frame { passes: graphics(64), resources: Vec::new() };
        for (key, (first, end, size)) in (0..).zip(pieces) {
            frame.resources.push(resource(key, size as u64, &[first, end - 1]));
        }
        let mut planner = TransientPlanner::default();
        let (before, passes, resources) = frame.plan(&mut planner).unwrap();
        let mut steps = 0;
        let after = planner
            .improve(|| {
                steps += 1;
                steps > 500
            })
            .clone();
        check(&frame, HeapLimits::default(), &after, &passes, &resources);
        let is_better = after.size() < before.size();
        assert_eq!(after.number(), before.number() + u64::from(is_better));
        improved += u32::from(is_better);
        let (again, ..) = frame.plan(&mut planner).unwrap();
        assert_eq!(again, after);
    }
    assert!(improved > 0, "a search finds nothing that a short one does not");
}

#[test]
fn a_frame_that_is_as_the_one_before_allocates_no_host_memory() {
    let mut frame = Frame { passes: graphics(40), resources: Vec::new() };
    for at in 0..20 {
        frame.passes[at * 2] = Pass { queue: 1, waits: Vec::new() };
    }
    for key in 0..200_u64 {
        let first = key as usize * 7 % 38;
        frame.resources.push(resource(key, 1000 + key, &[first, first + 1 + key as usize % 2]));
    }
    let mut planner = TransientPlanner::default();
    let (passes, _) = frame.describe(&mut planner).unwrap();
    planner.plan().unwrap();
    // What describes a frame has room for as much again.
    frame.describe(&mut planner).unwrap();
    planner.plan().unwrap();
    let before = counting::of_this_thread();
    planner.begin();
    for pass in &frame.passes {
        planner.pass(QueueIndex(pass.queue), &[]).unwrap();
    }
    for it in &frame.resources {
        let uses = [passes[it.uses[0]], passes[it.uses[1]]];
        planner.resource(&it.desc, &uses).unwrap();
    }
    assert_eq!(planner.plan().unwrap().number(), 1);
    assert_eq!(counting::of_this_thread(), before);
}
