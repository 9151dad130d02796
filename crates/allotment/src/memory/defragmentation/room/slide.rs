//! Room by a slide: what lies between holes moves together, down or up, so that the holes become one.

use std::collections::BTreeMap;

use super::layout::{At, Layout, Place};
use super::plan::{MAX_TRIES, RoomPlan, Wanted};
use crate::memory::defragmentation::pace::Pace;

/// A run of neighbours between holes that have the bytes of the request together.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// Bytes of all that is between the holes.
    cost: u64,
    block: u32,
    first: usize,
    last: usize,
}

/// Finds the cheapest slide, in one block or in all.
pub(super) async fn by_slide(
    layout: &Layout,
    wanted: Wanted,
    only: Option<u32>,
    pace: &mut Pace,
) -> Option<RoomPlan> {
    let mut best: Option<RoomPlan> = None;
    for block in (0..layout.block_count()).filter(|&block| only.is_none_or(|only| only == block)) {
        if layout.free_bytes(block) < wanted.bytes {
            continue;
        }
        let items = layout.items_in(block, pace).await;
        for run in runs(layout, wanted, block, &items, pace).await.values() {
            for down in [true, false] {
                let limit = best.as_ref().map_or(u64::MAX, |plan| plan.cost);
                if run.cost < limit {
                    let slide = if down {
                        slide_down(layout, wanted, &items, run, limit, pace).await
                    } else {
                        slide_up(layout, wanted, &items, run, limit, pace).await
                    };
                    best = slide.or(best);
                }
            }
        }
    }
    best
}

/// Looks for the shortest run from each item on that is between enough free bytes, without a pinned item. Returns the
/// cheapest, by cost and first item.
async fn runs(
    layout: &Layout,
    wanted: Wanted,
    block: u32,
    items: &[(u64, u32)],
    pace: &mut Pace,
) -> BTreeMap<(u64, usize), Run> {
    let end = |at: usize| items[at].0 + layout.item(items[at].1).bytes;
    // The hole before each item, and the one behind the last.
    let starts = items.iter().map(|&(offset, _)| offset).chain(core::iter::once(layout.size(block)));
    let holes = starts.enumerate().map(|(at, start)| start - at.checked_sub(1).map_or(0, end));
    let holes = pace.collect(holes).await;
    let (mut found, mut last, mut free, mut cost) = (BTreeMap::new(), 0, 0, 0_u64);
    // `free` has the holes from `first` to `last`, `cost` the items from `first` to `last`, without `last`.
    for first in 0..items.len() {
        if last == first {
            (free, cost) = (holes[first], 0);
        }
        // One item at least: a hole that is large enough by itself is not aligned.
        while (free < wanted.bytes || last == first) && last < items.len() {
            pace.step().await;
            let Some(each) = layout.item(items[last].1).cost else { break };
            (cost, last) = (cost + each, last + 1);
            free += holes[last];
        }
        if free >= wanted.bytes && last > first {
            found.insert((cost, first), Run { cost, block, first, last: last - 1 });
            // The most expensive go: a run costs a walk, and the cheap ones are tried first.
            if found.len() > MAX_TRIES {
                found.pop_last();
            }
        }
        pace.step().await;
        // The next run begins behind this item; behind a pinned one, where it stopped, with nothing.
        if last == first {
            last = first + 1;
        } else {
            free -= holes[first];
            cost -= layout.item(items[first].1).cost.unwrap_or(0);
        }
    }
    found
}

/// A slide that is being planned.
#[derive(Debug, Default)]
struct Slide {
    steps: Vec<(u32, Place)>,
    cost: u64,
}

impl Slide {
    /// Moves an item within its block. Returns false where it is pinned, or would have to go aside and may not.
    fn step(&mut self, layout: &Layout, item: u32, from: u64, to: At) -> bool {
        let moved = layout.item(item);
        let Some(each) = moved.cost else { return from == to.offset };
        if from == to.offset {
            return true;
        }
        // A place that overlaps the old one is reached through memory of the run's own.
        let overlaps = from.abs_diff(to.offset) < moved.bytes;
        if overlaps && !layout.aside {
            return false;
        }
        if overlaps {
            self.steps.push((item, Place::Aside));
        }
        self.steps.push((item, Place::At(to)));
        self.cost = self.cost.saturating_add(each.saturating_mul(1 + u64::from(overlaps)));
        true
    }
}

/// Moves items down, from the first of a run on, until there is room behind them. `None` where that copies `limit` bytes
/// or more.
async fn slide_down(
    layout: &Layout,
    wanted: Wanted,
    items: &[(u64, u32)],
    &Run { block, first, .. }: &Run,
    limit: u64,
    pace: &mut Pace,
) -> Option<RoomPlan> {
    // Each item goes down to the end of the one before it, and the room behind it grows until the request fits:
    //   before   a ░░ b ░ c ░░ d       request of 4
    //   b down   a b ░░░ c ░░ d        3
    //   c down   a b c ░░░░░ d         5: it fits, and d stays
    let mut slide = Slide::default();
    let mut end = first.checked_sub(1).map_or(0, |at| items[at].0 + layout.item(items[at].1).bytes);
    for (next, &(offset, item)) in (first + 1..).zip(&items[first..]) {
        let moved = layout.item(item);
        // Never up: an alignment could ask for more than the hole has, and then the item stays.
        let to = moved.alignment.align_up(end).min(offset);
        if !slide.step(layout, item, offset, At { block, offset: to }) || slide.cost >= limit {
            return None;
        }
        end = to + moved.bytes;
        pace.step().await;
        let until = items.get(next).map_or(layout.size(block), |&(offset, _)| offset);
        let room = wanted.alignment.align_up(end);
        if room + wanted.bytes <= until {
            return Some(RoomPlan { at: At { block, offset: room }, steps: slide.steps, cost: slide.cost });
        }
    }
    None
}

/// Moves items up, from the last of a run down, until there is room before them.
async fn slide_up(
    layout: &Layout,
    wanted: Wanted,
    items: &[(u64, u32)],
    &Run { block, last, .. }: &Run,
    limit: u64,
    pace: &mut Pace,
) -> Option<RoomPlan> {
    // The mirror image, which copies less where the large items of a run are its first ones.
    let mut slide = Slide::default();
    let mut end = items.get(last + 1).map_or(layout.size(block), |&(offset, _)| offset);
    for at in (0..=last).rev() {
        let (offset, item) = items[at];
        let moved = layout.item(item);
        let to = moved.alignment.align_down(end.checked_sub(moved.bytes)?).max(offset);
        if !slide.step(layout, item, offset, At { block, offset: to }) || slide.cost >= limit {
            return None;
        }
        end = to;
        pace.step().await;
        let from = at.checked_sub(1).map_or(0, |at| items[at].0 + layout.item(items[at].1).bytes);
        let room = end.checked_sub(wanted.bytes).map(|room| wanted.alignment.align_down(room));
        if let Some(offset) = room.filter(|&room| room >= from) {
            return Some(RoomPlan { at: At { block, offset }, steps: slide.steps, cost: slide.cost });
        }
    }
    None
}
