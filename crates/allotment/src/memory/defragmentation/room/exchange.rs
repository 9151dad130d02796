//! Room by an exchange: some allocations leave a block, and what remains in it moves together.

use core::cmp::Reverse;

use super::layout::{At, Layout, Place};
use super::plan::{MAX_TRIES, RoomPlan, Wanted, hole_for};
use super::slide::by_slide;
use crate::memory::defragmentation::pace::Pace;

/// Takes so many items out of a block that the rest, moved together, leaves the room; and makes room for them elsewhere.
pub(super) async fn by_exchange(layout: &mut Layout, wanted: Wanted, pace: &mut Pace) -> Option<RoomPlan> {
    let mut blocks: Vec<_> =
        (0..layout.block_count()).filter(|&block| layout.size(block) >= wanted.bytes).collect();
    // The block with the most free bytes has the least to give away.
    blocks.sort_unstable_by_key(|&block| (Reverse(layout.free_bytes(block)), block));
    for block in blocks.into_iter().take(MAX_TRIES) {
        let mut done = Vec::new();
        let plan = exchange(layout, wanted, block, &mut done, pace).await;
        for (item, from) in done.into_iter().rev() {
            layout.put_back(item, from);
            pace.step().await;
        }
        if plan.is_some() {
            return plan;
        }
    }
    None
}

async fn exchange(
    layout: &mut Layout,
    wanted: Wanted,
    block: u32,
    done: &mut Vec<(u32, Option<At>)>,
    pace: &mut Pace,
) -> Option<RoomPlan> {
    let (mut steps, mut cost, mut tries) = (Vec::new(), 0_u64, 0);
    // The smallest first: it finds room most easily, and the least is copied too much.
    let movable = |&item: &u32| layout.item(item).cost.is_some();
    let mut items = pace.collect(layout.in_block(block).map(|(_, item)| item).filter(movable)).await;
    pace.sort_by_key(&mut items, |&item| layout.item(item).bytes).await;
    let mut waiting = items.into_iter();
    loop {
        if let Some(last) = by_slide(layout, wanted, Some(block), pace).await {
            steps.extend(last.steps);
            return Some(RoomPlan { at: last.at, steps, cost: cost.saturating_add(last.cost) });
        }
        // A slide looks at all items of the block, so it is not tried for ever, only where there are bytes enough.
        tries += usize::from(layout.free_bytes(block) >= wanted.bytes);
        if tries > MAX_TRIES {
            return None;
        }
        let (item, room) = loop {
            let item = waiting.next()?;
            pace.step().await;
            if let Some(room) = room_elsewhere(layout, item, block, pace).await {
                break (item, room);
            }
        };
        let to = Place::At(room.at);
        for (item, to) in room.steps.into_iter().chain([(item, to)]) {
            done.push((item, layout.step(item, to)));
            steps.push((item, to));
        }
        cost = cost.saturating_add(room.cost).saturating_add(layout.item(item).cost?);
    }
}

/// Returns room for an item in another block, made by a slide there if need be.
async fn room_elsewhere(layout: &Layout, item: u32, block: u32, pace: &mut Pace) -> Option<RoomPlan> {
    let wanted =
        Wanted { bytes: layout.item(item).bytes, alignment: layout.item(item).alignment, missing: None };
    if let Some(at) = hole_for(layout, wanted, Some(block)) {
        return Some(RoomPlan { at, steps: Vec::new(), cost: 0 });
    }
    let mut best: Option<RoomPlan> = None;
    for other in (0..layout.block_count()).filter(|&other| other != block) {
        let plan = by_slide(layout, wanted, Some(other), pace).await;
        let cheaper = plan.filter(|plan| best.as_ref().is_none_or(|best| plan.cost < best.cost));
        best = cheaper.or(best);
    }
    best
}
