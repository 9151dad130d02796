//! Room by emptying a window: the cheapest place for the request whose allocations fit into the holes outside it.

use core::cmp::Reverse;

use super::layout::{At, Layout, Place};
use super::plan::{MAX_TRIES, RoomPlan, Wanted};

/// A window, with the bytes to copy out of it.
#[derive(Clone, Copy, Debug)]
struct Window {
    cost: u64,
    at: At,
}

/// Empties the cheapest window into the holes outside it.
pub(super) fn by_window(layout: &mut Layout, wanted: Wanted) -> Option<RoomPlan> {
    let mut windows = windows(layout, wanted);
    windows.sort_unstable_by_key(|window| (window.cost, window.at));
    windows.dedup_by_key(|window| window.at);
    windows.iter().take(MAX_TRIES).find_map(|window| empty(layout, wanted, window))
}

/// Returns the windows that have no pinned allocation: those that begin where a hole does, or end where one does.
fn windows(layout: &Layout, wanted: Wanted) -> Vec<Window> {
    let mut found = Vec::new();
    for block in 0..layout.block_count() {
        let items: Vec<_> = layout.in_block(block).collect();
        let end = |at: usize| items[at].0 + layout.item(items[at].1).bytes;
        // Sums of the items before each: the cost of a window is a difference of two.
        let (mut costs, mut pinned) = (vec![0_u64], vec![0_u32]);
        for (at, &(_, item)) in items.iter().enumerate() {
            let cost = layout.item(item).cost;
            costs.push(costs[at].saturating_add(cost.unwrap_or(0)));
            pinned.push(pinned[at] + u32::from(cost.is_none()));
        }
        let starts = core::iter::once(0).chain((0..items.len()).map(end));
        let limits = items.iter().map(|&(offset, _)| offset).chain(core::iter::once(layout.size(block)));
        let before = limits.filter_map(|limit| limit.checked_sub(wanted.bytes));
        let offsets = starts.map(|start| wanted.alignment.align_up(start));
        for offset in offsets.chain(before.map(|start| wanted.alignment.align_down(start))) {
            if offset + wanted.bytes > layout.size(block) {
                continue;
            }
            let first = items.partition_point(|&(start, item)| start + layout.item(item).bytes <= offset);
            let after = items.partition_point(|&(start, _)| start < offset + wanted.bytes);
            if pinned[first] == pinned[after] {
                found.push(Window { cost: costs[after] - costs[first], at: At { block, offset } });
            }
        }
    }
    found
}

/// Moves what a window meets into the holes outside it, the largest first.
fn empty(layout: &mut Layout, wanted: Wanted, &Window { cost, at }: &Window) -> Option<RoomPlan> {
    let end = at.offset + wanted.bytes;
    let ends_inside = |&(offset, item): &(u64, u32)| offset + layout.item(item).bytes > at.offset;
    let before_end = layout.in_block(at.block).rev().skip_while(|&(offset, _)| offset >= end);
    let mut items: Vec<_> = before_end.take_while(ends_inside).map(|(_, item)| item).collect();
    items.sort_unstable_by_key(|&item| Reverse(layout.item(item).bytes));
    let (mut steps, mut done, mut all) = (Vec::new(), Vec::new(), true);
    for item in items {
        let Some(to) = hole_outside(layout, item, (at, end)) else {
            all = false;
            break;
        };
        done.push((item, layout.step(item, Place::At(to))));
        steps.push((item, Place::At(to)));
    }
    done.into_iter().rev().for_each(|(item, from)| layout.put_back(item, from));
    all.then_some(RoomPlan { at, steps, cost })
}

/// Returns the smallest hole for an item, outside a window.
fn hole_outside(layout: &Layout, item: u32, (at, end): (At, u64)) -> Option<At> {
    let item = layout.item(item);
    let mut holes = layout.holes_from(item.bytes).flat_map(|(hole, stop)| {
        let start = hole.offset;
        // A hole that the window cuts is two.
        let parts = if hole.block == at.block {
            [(start, stop.min(at.offset)), (start.max(end), stop)]
        } else {
            [(start, stop), (stop, stop)]
        };
        parts.map(|(start, stop)| (hole.block, start, stop))
    });
    holes.find_map(|(block, start, stop)| {
        let offset = item.alignment.align_up(start);
        (offset + item.bytes <= stop).then_some(At { block, offset })
    })
}
