//! Room by emptying a window: the cheapest place for the request whose allocations fit into the holes outside it.

use core::cmp::Reverse;
use std::collections::BTreeMap;

use super::layout::{At, Layout, Place};
use super::plan::{MAX_TRIES, RoomPlan, Wanted};
use crate::memory::defragmentation::pace::Pace;

/// A window, with the bytes to copy out of it.
#[derive(Clone, Copy, Debug)]
struct Window {
    cost: u64,
    at: At,
}

/// Empties the cheapest window into the holes outside it.
pub(super) async fn by_window(layout: &mut Layout, wanted: Wanted, pace: &mut Pace) -> Option<RoomPlan> {
    for (_, window) in windows(layout, wanted, pace).await {
        if let Some(plan) = empty(layout, wanted, &window, pace).await {
            return Some(plan);
        }
    }
    None
}

/// Returns the cheapest windows that have no pinned allocation, of those that begin where a hole does, or end where one
/// does; by cost and place.
async fn windows(layout: &Layout, wanted: Wanted, pace: &mut Pace) -> BTreeMap<(u64, At), Window> {
    let mut found = BTreeMap::new();
    for block in 0..layout.block_count() {
        let items = layout.items_in(block, pace).await;
        let end = |at: usize| items[at].0 + layout.item(items[at].1).bytes;
        // Sums of the items before each: the cost of a window is a difference of two.
        let (mut costs, mut pinned) = (vec![0_u64], vec![0_u32]);
        for (at, &(_, item)) in items.iter().enumerate() {
            let cost = layout.item(item).cost;
            costs.push(costs[at].saturating_add(cost.unwrap_or(0)));
            pinned.push(pinned[at] + u32::from(cost.is_none()));
            pace.step().await;
        }
        // Any window can be shifted until it begins where an item ends, or ends where one begins, without meeting another item.
        // So these edges are all that has to be tried.
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
                let (cost, at) = (costs[after] - costs[first], At { block, offset });
                // One that is found twice counts once.
                found.insert((cost, at), Window { cost, at });
                if found.len() > MAX_TRIES {
                    found.pop_last();
                }
            }
            pace.step().await;
        }
    }
    found
}

/// Moves what a window meets into the holes outside it, the largest first.
async fn empty(
    layout: &mut Layout,
    wanted: Wanted,
    &Window { cost, at }: &Window,
    pace: &mut Pace,
) -> Option<RoomPlan> {
    let end = at.offset + wanted.bytes;
    let ends_inside = |&(offset, item): &(u64, u32)| offset + layout.item(item).bytes > at.offset;
    let before_end = layout.in_block(at.block).rev().skip_while(|&(offset, _)| offset >= end);
    let mut items = pace.collect(before_end.take_while(ends_inside).map(|(_, item)| item)).await;
    pace.sort_by_key(&mut items, |&item| Reverse(layout.item(item).bytes)).await;
    // Tried on the layout itself, since each item takes a hole from the next; and put back, since the caller compares plans.
    let (mut steps, mut done, mut all) = (Vec::new(), Vec::new(), true);
    for item in items {
        pace.step().await;
        let Some(to) = hole_outside(layout, item, (at, end), pace).await else {
            all = false;
            break;
        };
        done.push((item, layout.step(item, Place::At(to))));
        steps.push((item, Place::At(to)));
    }
    for (item, from) in done.into_iter().rev() {
        layout.put_back(item, from);
        pace.step().await;
    }
    all.then_some(RoomPlan { at, steps, cost })
}

/// Returns the smallest hole for an item, outside a window.
async fn hole_outside(layout: &Layout, item: u32, (at, end): (At, u64), pace: &mut Pace) -> Option<At> {
    let item = layout.item(item);
    for (hole, stop) in layout.holes_from(item.bytes) {
        pace.step().await;
        let start = hole.offset;
        // A hole that the window cuts is two.
        let parts = if hole.block == at.block {
            [(start, stop.min(at.offset)), (start.max(end), stop)]
        } else {
            [(start, stop), (stop, stop)]
        };
        for (start, stop) in parts {
            let offset = item.alignment.align_up(start);
            if offset + item.bytes <= stop {
                return Some(At { block: hole.block, offset });
            }
        }
    }
    None
}
