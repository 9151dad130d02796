//! What the page's totals must be: summed over the model's state, one allocation after another.

use allotment::Algorithm;
use allotment_trace::recording::{Placement, Recording, State};
use serde_json::{Value, json};

/// The state after so many events.
pub(crate) fn state_at(recording: &Recording, events: usize) -> State {
    let mut state = State::default();
    for event in &recording.events[..events] {
        state.apply(event).unwrap();
    }
    state
}

/// The totals in the form in which the page has them, without what the page derives from them.
pub(crate) fn totals(state: &State) -> Value {
    let (mut used, mut padding, mut rounding, mut moves, mut pending, mut allocations) = (0, 0, 0, 0, 0, 0);
    for live in state.allocations.values() {
        if live.reservation || live.is.placement == Placement::Destination {
            moves += live.is.occupied;
            continue;
        }
        allocations += 1;
        let beyond = live.is.occupied - live.is.requested;
        if live.free_requested.is_some() {
            pending += live.is.occupied;
            continue;
        }
        used += live.is.requested;
        let pool = state.blocks[&live.is.block].pool;
        match state.pools[&pool].algorithm {
            Algorithm::Buddy => rounding += beyond,
            _ => padding += beyond,
        }
    }
    let (mut free, mut reserved, mut largest) = (0, 0, 0);
    for block in state.blocks.values() {
        reserved += block.size;
        let mut reach = 0;
        for &(offset, key) in &block.allocations {
            largest = largest.max(offset - reach);
            free += offset - reach;
            reach = offset + state.allocations[&key].is.occupied;
        }
        largest = largest.max(block.size - reach);
        free += block.size - reach;
    }
    json!({
        "allocations": allocations, "blocks": state.blocks.len(), "reserved": reserved, "used": used,
        "overhead": padding + rounding + moves, "padding": padding, "rounding": rounding, "moves": moves,
        "pending": pending, "free": free, "largestFree": largest,
    })
}
