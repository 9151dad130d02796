//! What must move so that a request fits.
//!
//! ```text
//!   window      │ A │░░│ B │░░░│ C │        the cheapest place for the request whose allocations fit into holes elsewhere
//!                    └─request─┘   B ──► a hole of another block
//!   slide       │ A │░░│ B │░░│ C │         where they fit nowhere: what lies between holes moves together,
//!               │ A │ B │░░░░░│ C │         so that the holes become one
//!   exchange    both: some of it goes elsewhere, where room is made by a slide, and the rest moves together
//! ```
//!
//! The three are tried in this order, as each copies less than the next. A plan is a list of steps, each of which goes to
//! a place that is free once the steps before it are done. A place that overlaps the old one is reached in two steps,
//! through memory of the run's own, since no queue can copy between ranges that overlap.
//!
//! # Cost
//!
//! O(n log n) for n allocations, and for each window or slide that is tried as many searches as it has allocations; at
//! most [`MAX_TRIES`] of each are tried.

use allotment_suballoc::Alignment;

use super::layout::{At, Layout, Place};

/// Windows, and slides, that are tried.
const MAX_TRIES: usize = 64;

/// A range that a request needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) bytes: u64,
    pub(super) alignment: Alignment,
}

/// The steps that make room, and where the room is then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RoomPlan {
    pub(super) at: At,
    pub(super) steps: Vec<(u32, Place)>,
    /// Bytes that the steps copy.
    pub(super) cost: u64,
}

/// Returns what must move so that a range is free; `None` where no way was found.
pub(super) fn plan(layout: &Layout, wanted: Wanted) -> Option<RoomPlan> {
    if let Some(at) = hole_for(layout, wanted, None) {
        return Some(RoomPlan { at, steps: Vec::new(), cost: 0 });
    }
    let by_window = by_window(layout, wanted);
    let by_slide = by_slide(layout, wanted, None);
    let best = [by_window, by_slide].into_iter().flatten().min_by_key(|plan| plan.cost);
    best.or_else(|| by_exchange(layout, wanted))
}

/// Returns the smallest hole that holds a range, outside the block `but`.
fn hole_for(layout: &Layout, wanted: Wanted, but: Option<u32>) -> Option<At> {
    let blocks = (0..layout.block_count()).filter(|&block| Some(block) != but);
    let holes = blocks.flat_map(|block| layout.holes(block).into_iter().map(move |hole| (block, hole)));
    let fitting = holes.filter_map(|(block, (start, end))| {
        let offset = wanted.alignment.align_up(start);
        (offset + wanted.bytes <= end).then_some((end - start, At { block, offset }))
    });
    fitting.min_by_key(|&(size, at)| (size, at)).map(|(_, at)| at)
}

/// A window, with the bytes to copy out of it.
#[derive(Clone, Copy, Debug)]
struct Window {
    cost: u64,
    at: At,
}

/// Empties the cheapest window into the holes outside it.
fn by_window(layout: &Layout, wanted: Wanted) -> Option<RoomPlan> {
    let mut windows = windows(layout, wanted);
    windows.sort_unstable_by_key(|window| (window.cost, window.at));
    windows.iter().take(MAX_TRIES).find_map(|window| empty(layout, wanted, window.at))
}

/// Returns the windows that have no pinned allocation: those that begin where a hole or an allocation does.
fn windows(layout: &Layout, wanted: Wanted) -> Vec<Window> {
    let mut found = Vec::new();
    for block in 0..layout.block_count() {
        let items: Vec<_> = layout.in_block(block).collect();
        let ends = items.iter().map(|&(offset, item)| offset + layout.item(item).bytes);
        let starts = core::iter::once(0).chain(ends).map(|start| wanted.alignment.align_up(start));
        // And those that end where an allocation begins, or the block ends.
        let limits = items.iter().map(|&(offset, _)| offset).chain(core::iter::once(layout.size(block)));
        let before =
            limits.filter_map(|limit| Some(wanted.alignment.align_down(limit.checked_sub(wanted.bytes)?)));
        for offset in starts.chain(before) {
            if offset + wanted.bytes > layout.size(block) {
                continue;
            }
            let at = At { block, offset };
            if let Some(cost) = cost_of(layout, &inside(layout, wanted, at)) {
                found.push(Window { cost, at });
            }
        }
    }
    found
}

/// Returns the items that a window meets.
fn inside(layout: &Layout, wanted: Wanted, at: At) -> Vec<u32> {
    let end = at.offset + wanted.bytes;
    let items = layout.in_block(at.block).filter(|&(offset, _)| offset < end);
    items
        .filter(|&(offset, item)| offset + layout.item(item).bytes > at.offset)
        .map(|(_, item)| item)
        .collect()
}

fn cost_of(layout: &Layout, items: &[u32]) -> Option<u64> {
    items.iter().map(|&item| layout.item(item).cost).sum()
}

/// Moves what a window meets into the holes outside it, the largest first.
fn empty(layout: &Layout, wanted: Wanted, at: At) -> Option<RoomPlan> {
    let mut layout = layout.clone();
    let mut items = inside(&layout, wanted, at);
    items.sort_unstable_by_key(|&item| core::cmp::Reverse(layout.item(item).bytes));
    let cost = cost_of(&layout, &items)?;
    let mut steps = Vec::new();
    for item in items {
        let to = hole_outside(&layout, item, (at, at.offset + wanted.bytes))?;
        layout.step(item, Place::At(to));
        steps.push((item, Place::At(to)));
    }
    Some(RoomPlan { at, steps, cost })
}

/// Returns the smallest hole for an item, outside a window.
fn hole_outside(layout: &Layout, item: u32, (at, end): (At, u64)) -> Option<At> {
    let item = layout.item(item);
    let mut best: Option<(u64, At)> = None;
    for block in 0..layout.block_count() {
        for (start, stop) in layout.holes(block) {
            // A hole that the window cuts is two.
            let parts = if block == at.block {
                [(start, stop.min(at.offset)), (start.max(end), stop)]
            } else {
                [(start, stop), (stop, stop)]
            };
            for (start, stop) in parts.into_iter().filter(|(start, stop)| start < stop) {
                let offset = item.alignment.align_up(start);
                let found = (stop - start, At { block, offset });
                if offset + item.bytes <= stop && best.is_none_or(|best| found < best) {
                    best = Some(found);
                }
            }
        }
    }
    best.map(|(_, at)| at)
}

/// Moves items between two neighbours together, down or up, so that the holes between them become one.
fn by_slide(layout: &Layout, wanted: Wanted, only: Option<u32>) -> Option<RoomPlan> {
    let mut best: Option<RoomPlan> = None;
    for block in (0..layout.block_count()).filter(|&block| only.is_none_or(|only| only == block)) {
        let items: Vec<_> = layout.in_block(block).collect();
        for first in 0..items.len() {
            for slide in [slide_down, slide_up] {
                let limit = best.as_ref().map_or(u64::MAX, |plan| plan.cost);
                best = slide(layout, wanted, block, &items, first, limit).or(best);
            }
        }
    }
    best
}

/// A slide that is being planned.
#[derive(Debug, Default)]
struct Slide {
    steps: Vec<(u32, Place)>,
    cost: u64,
}

impl Slide {
    /// Moves an item within its block. Returns false where it is pinned.
    fn step(&mut self, layout: &Layout, item: u32, from: u64, to: At) -> bool {
        let moved = layout.item(item);
        let Some(each) = moved.cost else { return from == to.offset };
        if from == to.offset {
            return true;
        }
        // A place that overlaps the old one is reached through memory of the run's own.
        let overlaps = from.abs_diff(to.offset) < moved.bytes;
        if overlaps {
            self.steps.push((item, Place::Aside));
        }
        self.steps.push((item, Place::At(to)));
        self.cost = self.cost.saturating_add(each.saturating_mul(1 + u64::from(overlaps)));
        true
    }
}

/// Moves as many items down as needed, from the one at `first` on, so that there is room behind them. `None` where that
/// copies `limit` bytes or more.
fn slide_down(
    layout: &Layout,
    wanted: Wanted,
    block: u32,
    items: &[(u64, u32)],
    first: usize,
    limit: u64,
) -> Option<RoomPlan> {
    let mut slide = Slide::default();
    let mut end = first.checked_sub(1).map_or(0, |at| items[at].0 + layout.item(items[at].1).bytes);
    for (next, &(offset, item)) in (first + 1..).zip(&items[first..]) {
        let moved = layout.item(item);
        let to = moved.alignment.align_up(end).min(offset);
        if !slide.step(layout, item, offset, At { block, offset: to }) || slide.cost >= limit {
            return None;
        }
        end = to + moved.bytes;
        let until = items.get(next).map_or(layout.size(block), |&(offset, _)| offset);
        let room = wanted.alignment.align_up(end);
        if room + wanted.bytes <= until {
            return Some(RoomPlan { at: At { block, offset: room }, steps: slide.steps, cost: slide.cost });
        }
    }
    None
}

/// Moves as many items up as needed, from the one at `first` down, so that there is room before them.
fn slide_up(
    layout: &Layout,
    wanted: Wanted,
    block: u32,
    items: &[(u64, u32)],
    first: usize,
    limit: u64,
) -> Option<RoomPlan> {
    let mut slide = Slide::default();
    let mut end = items.get(first + 1).map_or(layout.size(block), |&(offset, _)| offset);
    for at in (0..=first).rev() {
        let (offset, item) = items[at];
        let moved = layout.item(item);
        let to = moved.alignment.align_down(end.checked_sub(moved.bytes)?).max(offset);
        if !slide.step(layout, item, offset, At { block, offset: to }) || slide.cost >= limit {
            return None;
        }
        end = to;
        let from = at.checked_sub(1).map_or(0, |at| items[at].0 + layout.item(items[at].1).bytes);
        let room = end.checked_sub(wanted.bytes).map(|room| wanted.alignment.align_down(room));
        if let Some(offset) = room.filter(|&room| room >= from) {
            return Some(RoomPlan { at: At { block, offset }, steps: slide.steps, cost: slide.cost });
        }
    }
    None
}

/// Takes so many items out of a block that the rest, moved together, leaves the room; and makes room for them elsewhere.
fn by_exchange(layout: &Layout, wanted: Wanted) -> Option<RoomPlan> {
    let mut blocks: Vec<_> = (0..layout.block_count()).collect();
    // The block with the most free bytes has the least to give away.
    blocks.sort_unstable_by_key(|&block| {
        core::cmp::Reverse(layout.holes(block).iter().map(|(start, end)| end - start).sum::<u64>())
    });
    blocks.into_iter().find_map(|block| exchange(layout, wanted, block))
}

fn exchange(layout: &Layout, wanted: Wanted, block: u32) -> Option<RoomPlan> {
    let mut layout = layout.clone();
    let (mut steps, mut cost) = (Vec::new(), 0_u64);
    loop {
        if let Some(last) = by_slide(&layout, wanted, Some(block)) {
            steps.extend(last.steps);
            return Some(RoomPlan { at: last.at, steps, cost: cost.saturating_add(last.cost) });
        }
        // The smallest first: it finds room most easily, and the least is copied too much.
        let mut items: Vec<_> = layout.in_block(block).map(|(_, item)| item).collect();
        items.retain(|&item| layout.item(item).cost.is_some());
        items.sort_unstable_by_key(|&item| layout.item(item).bytes);
        let moved = items.into_iter().find_map(|item| {
            let leaves = Wanted { bytes: layout.item(item).bytes, alignment: layout.item(item).alignment };
            let room = match hole_for(&layout, leaves, Some(block)) {
                Some(at) => RoomPlan { at, steps: Vec::new(), cost: 0 },
                None => (0..layout.block_count())
                    .filter(|&other| other != block)
                    .filter_map(|other| by_slide(&layout, leaves, Some(other)))
                    .min_by_key(|plan| plan.cost)?,
            };
            Some((item, room))
        });
        let (item, room) = moved?;
        let to = Place::At(room.at);
        for (item, to) in room.steps.into_iter().chain([(item, to)]) {
            layout.step(item, to);
            steps.push((item, to));
        }
        cost = cost.saturating_add(room.cost).saturating_add(layout.item(item).cost?);
    }
}
