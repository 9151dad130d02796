//! What must move so that a request fits.
//!
//! ```text
//!   window      │ A │░░│ B │░░░│ C │        the cheapest place for the request whose allocations fit into holes elsewhere
//!                    └─request─┘   B ──► a hole of another block
//!   slide       │ A │░░│ B │░░│ C │         where they fit nowhere: what lies between holes moves together,
//!               │ A │ B │░░░░░│ C │         so that the holes become one
//!   exchange    both: some of it goes elsewhere, where room is made by a slide, and the rest moves together
//!   repack      where all of that fails: everything movable is placed anew, the largest first
//! ```
//!
//! Where not even that leaves the room, blocks are emptied and freed for a larger one (`replace.rs`).
//!
//! The cheaper of window and slide is taken; where there is none, the others are tried in this order, as each copies
//! less than the next. A plan is a list of steps, each of which goes to a place that is free once the steps before it are
//! done. A place that overlaps the old one is reached in two steps, through memory of the run's own, since no queue can
//! copy between ranges that overlap.
//!
//! # Cost
//!
//! O(n log n) for n allocations, and for each window or slide that is tried O(log n) for each allocation in it. At most
//! [`MAX_TRIES`] of each are tried.

use allotment_suballoc::Alignment;

use super::exchange::by_exchange;
use super::layout::{At, Layout, Place};
use super::repack::by_repack;
use super::slide::by_slide;
use super::window::by_window;
use crate::memory::defragmentation::pace::Pace;

/// Windows, and slides, that are tried.
pub(super) const MAX_TRIES: usize = 64;

/// A range that a request needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) bytes: u64,
    pub(super) alignment: Alignment,
    /// Bytes that blocks have to give back before a new block can be had for the range; `None` where none can.
    pub(super) missing: Option<u64>,
}

/// The steps that make room, and where the room is then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RoomPlan {
    pub(super) at: At,
    pub(super) steps: Vec<(u32, Place)>,
    /// Bytes that the steps copy.
    pub(super) cost: u64,
}

/// Returns what must move so that a range is free; `None` where no way was found. The layout is unchanged then and
/// otherwise.
pub(super) async fn plan(layout: &mut Layout, wanted: Wanted, pace: &mut Pace) -> Option<RoomPlan> {
    if let Some(at) = hole_for(layout, wanted, None) {
        return Some(RoomPlan { at, steps: Vec::new(), cost: 0 });
    }
    let by_window = by_window(layout, wanted, pace).await;
    let by_slide = by_slide(layout, wanted, None, pace).await;
    let best = [by_window, by_slide].into_iter().flatten().min_by_key(|plan| plan.cost);
    if best.is_some() {
        return best;
    }
    match by_exchange(layout, wanted, pace).await {
        Some(plan) => Some(plan),
        None => by_repack(layout, wanted, pace).await,
    }
}

/// Returns the smallest hole that holds a range, outside the block `but`.
pub(super) fn hole_for(layout: &Layout, wanted: Wanted, but: Option<u32>) -> Option<At> {
    let holes = layout.holes_from(wanted.bytes).filter(|(at, _)| Some(at.block) != but);
    let mut fitting = holes.filter_map(|(At { block, offset }, end)| {
        let offset = wanted.alignment.align_up(offset);
        (offset + wanted.bytes <= end).then_some(At { block, offset })
    });
    fitting.next()
}
