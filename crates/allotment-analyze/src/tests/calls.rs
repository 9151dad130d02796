//! Trees of calls against a naive count.

use std::collections::BTreeMap;

use allotment_trace::recording::{CallRole, Recording, StackId, State, TextId};
use proptest::prelude::*;

use super::generated::{Has, recordings};
use crate::{Call, CallQuestion, CallTree, CallTreeDesc, Peaks, Scope, Timeline};

/// Count and bytes of all, and of what is left, by the calls from the root.
type ByPath = BTreeMap<Vec<(u32, u32)>, [(u64, u64); 2]>;

/// What each event allocated, which of it exists in the end, and its stack and call site as the last event said.
fn naive(recording: &Recording, from: u64, to: u64, desc: CallTreeDesc) -> ByPath {
    struct Row {
        allocated: u64,
        freed: Option<u64>,
        reserved: bool,
        bytes: u64,
        stack: StackId,
        site: TextId,
    }
    let mut state = State::default();
    let (mut rows, mut open): (Vec<Row>, BTreeMap<_, usize>) = (Vec::new(), BTreeMap::new());
    for (number, event) in recording.events.iter().enumerate().map(|(i, event)| (i as u64, event)) {
        let before = state.clone();
        if state.apply(event).is_err() {
            continue;
        }
        for (key, live) in &state.allocations {
            if !before.allocations.contains_key(key) {
                open.insert(*key, rows.len());
                let (bytes, stack, site) = (live.is.requested, live.stack, live.call_site);
                rows.push(Row { allocated: number, freed: None, reserved: false, bytes, stack, site });
            }
            let row = &mut rows[open[key]];
            (row.stack, row.site) = (live.stack, live.call_site);
            row.reserved |= live.reservation && number < to;
        }
        for key in before.allocations.keys().filter(|key| !state.allocations.contains_key(key)) {
            rows[open[key]].freed = Some(number);
        }
    }
    let text = |text| recording.text(text).unwrap_or("");
    let mut by_path = ByPath::new();
    for row in rows.iter().filter(|row| (from..to).contains(&row.allocated) && !row.reserved) {
        let calls: Vec<_> = recording.stacks.calls(row.stack).collect();
        let shown = calls.iter().filter(|call| {
            desc.unfolded || CallRole::of(text(call.function), text(call.place)) != CallRole::Machinery
        });
        let mut path: Vec<_> = shown.map(|call| (call.function.0, call.place.0)).collect();
        if path.is_empty() {
            path.push(calls.first().map_or((0, row.site.0), |call| (call.function.0, call.place.0)));
        }
        if !desc.inverted {
            path.reverse();
        }
        let is_left = row.freed.is_none_or(|freed| freed >= to);
        for end in 0..=path.len() {
            let [all, left] = by_path.entry(path[..end].to_vec()).or_default();
            (all.0, all.1) = (all.0 + 1, all.1 + row.bytes);
            if is_left {
                (left.0, left.1) = (left.0 + 1, left.1 + row.bytes);
            }
        }
    }
    by_path
}

fn by_path(tree: &CallTree) -> ByPath {
    let mut by_path = ByPath::new();
    let mut paths = vec![Vec::new()];
    for (number, node) in tree.nodes().iter().enumerate() {
        if number > 0 {
            let Call { function, place } = node.call;
            let mut path = paths[node.parent].clone();
            path.push((function.0, place.0));
            assert_eq!(path.len(), node.depth);
            paths.push(path);
        }
        let amounts = [node.total, node.left].map(|amount| (amount.count, amount.bytes));
        if number > 0 || node.total.count > 0 {
            assert!(
                by_path.insert(paths[number].clone(), amounts).is_none(),
                "a call is twice below another"
            );
        }
        let below: u64 = node.children.iter().map(|&child| tree.nodes()[child].total.bytes).sum();
        assert_eq!(node.total.bytes, below + node.own.bytes);
        assert!(node.children.is_sorted_by_key(|&child| core::cmp::Reverse(tree.nodes()[child].total.bytes)));
    }
    let mut order: Vec<_> = tree.in_order().collect();
    order.sort_unstable();
    assert!(order.into_iter().eq(1..tree.nodes().len()), "each node comes once");
    by_path
}

proptest! {
    #[test]
    fn a_tree_of_calls_counts_what_each_call_allocated(
        recording in recordings(Has { aliasing: false, contradictions: true }, 120),
        (from, to) in (0_u64..130, 0_u64..130),
        (inverted, unfolded) in any::<(bool, bool)>(),
    ) {
        let timeline = Timeline::new(&recording);
        let desc = CallTreeDesc { inverted, unfolded };
        let tree = |question| by_path(&CallTree::of(&timeline, question, &desc));
        let to = to.min(timeline.end());
        prop_assert_eq!(tree(CallQuestion::Between(from, to)), naive(&recording, from, to, desc));

        // What exists at a moment is what is left of all that came before.
        let exists = |position| {
            let mut all = naive(&recording, 0, position, desc);
            all.retain(|_, [_, left]| left.0 > 0);
            all.values_mut().for_each(|amounts| amounts[0] = amounts[1]);
            all
        };
        prop_assert_eq!(tree(CallQuestion::At(to)), exists(to));
        let peak = Peaks::of(&timeline, Scope::All).occupied.moment.event;
        prop_assert_eq!(tree(CallQuestion::Peak), exists(peak));
    }

    #[test]
    fn the_leaked_calls_are_those_of_the_leaks(
        recording in recordings(Has { aliasing: true, contradictions: false }, 120),
    ) {
        let timeline = Timeline::new(&recording);
        let tree = CallTree::of(&timeline, CallQuestion::Leaked, &CallTreeDesc::default());
        let cursor = crate::Cursor::at(&timeline, timeline.end());
        let leaks = crate::Leaks::at(&cursor, crate::Grouping::Name);
        prop_assert_eq!((tree.root().total.count, tree.root().total.bytes), (leaks.count, leaks.bytes));
    }
}

/// A recording in which each of some allocations has a stack of its own.
fn of_stacks(stacks: u32, depth: u32) -> Recording {
    use allotment::device::{MemoryTypeIndex, ResourceKind};
    use allotment_trace::recording::{
        Allocated, AllocationKey, BlockId, BlockKind, Event, Placement, PoolId, StackFrame,
    };
    let mut recording = Recording::default();
    let (block, pool, memory_type) = (BlockId(1), PoolId(0), MemoryTypeIndex(0));
    let size = 1 << 30;
    let kind = BlockKind::Shared;
    recording.events.push(Event::BlockAllocated { block, pool, memory_type, kind, size });
    for stack in 0..stacks {
        let allocation = AllocationKey(stack.into());
        recording.events.push(Event::Allocated(Allocated {
            allocation,
            block,
            offset: u64::from(stack) << 10,
            requested: 1 + u64::from(stack),
            occupied: 1 << 10,
            user_data: 0,
            name: TextId::NONE,
            category: TextId::NONE,
            alignment: allotment::Alignment::ONE,
            usage: None,
            kind: ResourceKind::Buffer,
            placement: Placement::ExistingBlock,
            second_choice: false,
            movable: false,
        }));
        let mut parent = StackId::NONE;
        for call in 0..depth {
            recording.texts.push(format!("call_{stack}_{call}"));
            let function = TextId(recording.texts.len() as u32);
            let frame = StackFrame { parent, function, place: TextId::NONE };
            parent = recording.stacks.push(frame).unwrap();
        }
        recording.events.push(Event::Stack { allocation, stack: parent });
    }
    recording
}

#[test]
fn what_a_tree_has_no_room_for_is_counted_and_the_calls_nearest_to_the_root_are_there() {
    let recording = of_stacks(20, 10);
    let timeline = Timeline::new(&recording);
    let all = CallQuestion::At(timeline.end()).allocations(&timeline);
    let bytes: u64 = (1..=20).sum();
    for inverted in [false, true] {
        let desc = CallTreeDesc { inverted, unfolded: true };
        let tree = |most| CallTree::of_at_most(&timeline, all.iter().copied(), timeline.end(), &desc, most);
        for most in [1, 2, 5, 20, 21, 22, 60, 61, 150, 200, 201, 1000] {
            let tree = tree(most);
            assert_eq!((tree.root().total.bytes, tree.root().total.count), (bytes, 20));
            for node in tree.nodes() {
                let below: u64 = node.children.iter().map(|&child| tree.nodes()[child].total.bytes).sum();
                assert_eq!(node.total.bytes, below + node.own.bytes);
            }
            assert_eq!(tree.root().own.bytes, 0, "each is below a call, or one that is not shown");
            let (missing, shown): (Vec<_>, Vec<_>) =
                tree.nodes().iter().partition(|node| node.call == Call::NOT_SHOWN);
            assert!(shown.len() <= most, "{most}: {}", shown.len());
            assert_eq!(missing.is_empty(), most >= 201, "{most}");
            assert!(missing.iter().all(|node| node.children.is_empty() && node.own == node.total));
            // All levels that have room are whole: the root and 20 calls of each level.
            let whole = ((most - 1) / 20).min(10);
            assert_eq!(shown.iter().filter(|node| node.depth <= whole).count(), 1 + 20 * whole, "{most}");
        }
        // Where not even the first level has room, the largest are there.
        let tree = tree(6);
        let first: Vec<_> = tree.root().children.iter().map(|&child| &tree.nodes()[child]).collect();
        assert_eq!(first.iter().map(|node| node.total.bytes).collect::<Vec<_>>(), [120, 20, 19, 18, 17, 16]);
        assert_eq!(first[0].call, Call::NOT_SHOWN);
        assert_eq!(first[0].call.label(|_| ""), "(not shown)");
    }
}

#[test]
fn a_label_keeps_both_ends_of_a_long_name() {
    let long = format!("begin{}end", "ä".repeat(100_000));
    let call = Call { function: TextId(1), place: TextId::NONE };
    let label = call.label(|text| if text == TextId(1) { &*long } else { "" });
    assert_eq!(label.chars().count(), Call::MAX_LABEL);
    assert!(label.starts_with("beginä") && label.ends_with("äend") && label.contains('…'), "{label}");
}
