//! Room by a new block: some blocks are emptied and freed, and a larger one takes their place.
//!
//! ```text
//!   blocks    │ A │░░│   │░│ B │   │ C │░░│          the request is larger than each block, and the heap is full
//!             │ A │C │   │ B │░│   freed             C goes into a hole of another block
//!                                  └── a new block of the request's size has these bytes, and what was left of the heap
//! ```
//!
//! The way where no placement in the blocks that there are leaves the room. First within the pool of the request; and where
//! that gives back too little, with the blocks of all pools over the heap: the bytes of a heap serve any of them. A dedicated
//! block can be emptied as well, though nothing goes there, and a pool keeps its minimum of blocks. Which blocks: those of
//! which the fewest bytes have to be copied for each byte that is freed. They are not chosen by a search, so where blocks are
//! nearly full, a choice that would do may be missed.
//!
//! O(n log n) for n allocations in the blocks that are tried, once for each of [`ORDERS`].

use core::cmp::Reverse;
use std::collections::VecDeque;

use super::layout::{At, Layout, Place};
use super::plan::RoomPlan;
use crate::memory::defragmentation::pace::Pace;

/// Orders in which blocks are tried to be emptied.
#[derive(Clone, Copy, Debug)]
enum Order {
    /// The fewest bytes to copy for each byte that is freed.
    Cheapest,
    /// The largest: a few large blocks instead of many small ones, whose allocations may fit nowhere else.
    Largest,
}

/// Which blocks can be freed, once they are empty.
#[derive(Clone, Debug)]
pub(super) struct Freeable {
    /// Of each block: the number of its block set; `None` for dedicated memory, where nothing may go.
    pub(super) sets: Vec<Option<usize>>,
    /// Of each block set: how many shared blocks are above the minimum that its pool keeps.
    pub(super) spare: Vec<u32>,
}

/// Steps that were done, with the places to put the items back to.
type Done = Vec<(u32, Option<At>)>;

const ORDERS: [Order; 2] = [Order::Cheapest, Order::Largest];

/// Returns the steps that empty blocks of at least `missing` bytes in all. The place of the plan is the start of one of these
/// blocks. The layout is unchanged then and otherwise.
pub(super) async fn by_replacement(
    layout: &mut Layout,
    missing: u64,
    freeable: &Freeable,
    pace: &mut Pace,
) -> Option<RoomPlan> {
    let mut best: Option<RoomPlan> = None;
    for order in ORDERS {
        let mut done = Vec::new();
        let plan = emptied(layout, missing, (freeable, order), &mut done, pace).await;
        for (item, from) in done.into_iter().rev() {
            layout.put_back(item, from);
            pace.step().await;
        }
        let cheaper = plan.filter(|plan| best.as_ref().is_none_or(|best| plan.cost < best.cost));
        best = cheaper.or(best);
    }
    best
}

/// Empties one block after the other, as far as their items fit into the others.
async fn emptied(
    layout: &mut Layout,
    missing: u64,
    (freeable, order): (&Freeable, Order),
    done: &mut Done,
    pace: &mut Pace,
) -> Option<RoomPlan> {
    let mut blocks = Vec::new();
    for block in 0..layout.block_count() {
        if let Some(cost) = cost_of(layout, block, pace).await {
            let size = layout.size(block);
            // A fraction in integers: costs and sizes are below 2^48.
            let price = u128::from(cost) * u128::from(u32::MAX) / u128::from(size.max(1));
            blocks.push(match order {
                Order::Cheapest => ((price, Reverse(size)), block),
                Order::Largest => ((0, Reverse(size)), block),
            });
        }
    }
    blocks.sort_unstable();
    let mut plan = RoomPlan { at: At { block: 0, offset: 0 }, steps: Vec::new(), cost: 0 };
    let Freeable { sets, mut spare } = freeable.clone();
    let mut targets: Vec<bool> = sets.iter().map(Option::is_some).collect();
    let mut next = blocks.iter().map(|&(_, block)| block);
    // Of the blocks that are chosen, those that are to be emptied yet; nothing goes there, or it would be moved twice.
    let mut chosen = VecDeque::new();
    let (mut freed, mut coming) = (0_u64, 0_u64);
    // Blocks are chosen until their bytes are enough, and only then emptied one by one: what leaves the first must not go into
    // the second, or it would be copied twice. One that turns out to fit nowhere stays, becomes a target again, and another one
    // is chosen in its stead:
    //   missing 8     chosen [4] [4]      the first is emptied: freed 4     the second fits nowhere     chosen [4]      …
    while freed < missing {
        while freed + coming < missing {
            let block = next.next()?;
            if let Some(set) = sets[block as usize] {
                let Some(left) = spare[set].checked_sub(1) else { continue };
                spare[set] = left;
            }
            targets[block as usize] = false;
            coming += layout.size(block);
            chosen.push_back(block);
        }
        let block = chosen.pop_front()?;
        coming -= layout.size(block);
        // How far to go back if the block cannot be emptied: half of its steps would be copies for nothing.
        let (steps, first) = (plan.steps.len(), done.len());
        if let Some(cost) = empty(layout, block, &targets, (&mut plan.steps, done), pace).await {
            freed += layout.size(block);
            plan.cost = plan.cost.saturating_add(cost);
            plan.at.block = block;
        } else {
            // It stays as it is.
            targets[block as usize] = sets[block as usize].is_some();
            sets[block as usize].into_iter().for_each(|set| spare[set] += 1);
            plan.steps.truncate(steps);
            for (item, from) in done.drain(first..).rev() {
                layout.put_back(item, from);
                pace.step().await;
            }
        }
    }
    Some(plan)
}

/// Returns the bytes to copy so that a block is empty; `None` where something in it cannot be moved.
async fn cost_of(layout: &Layout, block: u32, pace: &mut Pace) -> Option<u64> {
    let mut cost = Some(0_u64);
    for (_, item) in layout.in_block(block) {
        cost = cost.zip(layout.item(item).cost).map(|(sum, each)| sum.saturating_add(each));
        pace.step().await;
    }
    cost
}

/// Moves all items of a block into holes of the blocks of its arena that are targets, the largest first. Returns the bytes to
/// copy; `None` where one fits nowhere, with the others moved as far as `done` says.
async fn empty(
    layout: &mut Layout,
    block: u32,
    targets: &[bool],
    (steps, done): (&mut Vec<(u32, Place)>, &mut Done),
    pace: &mut Pace,
) -> Option<u64> {
    let mut items = pace.collect(layout.in_block(block).map(|(_, item)| item)).await;
    pace.sort_by_key(&mut items, |&item| Reverse(layout.item(item).bytes)).await;
    let mut cost = 0_u64;
    for item in items {
        let it = layout.item(item);
        let mut place = None;
        for (hole, end) in layout.holes_beside(block, it.bytes) {
            pace.step().await;
            let offset = it.alignment.align_up(hole.offset);
            if targets[hole.block as usize] && offset + it.bytes <= end {
                place = Some(At { block: hole.block, offset });
                break;
            }
        }
        let to = Place::At(place?);
        done.push((item, layout.step(item, to)));
        steps.push((item, to));
        cost = cost.saturating_add(it.cost?);
    }
    Some(cost)
}
