//! A table of all allocations as CSV (RFC 4180), a row each: first those that ended, in the order in which they did, then
//! those that are alive, in the order in which they were allocated.
//!
//! Empty fields are not known or not so. Places are the last ones: a move changes them.

use core::fmt::{self, Display, Write as _};
use std::collections::HashMap;
use std::io;

use super::text::{Field, Text};
use super::{Export, kind_name};
use crate::recording::{AllocationKey, Event, Extent, Live, Moment, Recording, State};

const COLUMNS: &[&str] = &[
    "id",
    "name",
    "category",
    "kind",
    "usage",
    "memory_type",
    "heap",
    "pool",
    "pool_name",
    "block",
    "block_kind",
    "offset",
    "requested",
    "occupied",
    "alignment",
    "placement",
    "second_choice",
    "movable",
    "reservation",
    "mapped",
    "moves",
    "user_data",
    "call_site",
    "allocated_event",
    "allocated_frame",
    "allocated_ns",
    "free_requested_event",
    "free_requested_frame",
    "free_requested_ns",
    "end",
    "end_event",
    "end_frame",
    "end_ns",
];

pub(super) fn write(export: Export<'_>, out: &mut impl io::Write) -> io::Result<()> {
    Text::new(out).with(|text| write_rows(&export, text))
}

/// The values of an allocation that a state does not have.
#[derive(Clone, Copy)]
struct Extra {
    id: u64,
    moves: u64,
}

fn write_rows<W: io::Write>(export: &Export<'_>, out: &mut Text<'_, W>) -> fmt::Result {
    let mut state = State::default();
    let mut extras: HashMap<AllocationKey, Extra> = HashMap::new();
    let mut next_id = 0;
    write!(out, "{}\r\n", COLUMNS.join(","))?;
    for event in export.events {
        // A row is written while the state still has the allocation and its block.
        match *event {
            Event::Freed { allocation } => {
                if let (Some(extra), Some(live)) =
                    (extras.remove(&allocation), state.allocations.get(&allocation))
                {
                    write_row(out, export.recording, &state, live, extra, "freed")?;
                }
            }
            Event::Lost => write_all(out, export.recording, &state, &mut extras, "lost")?,
            _ => {}
        }
        if state.apply(event).is_err() {
            continue;
        }
        match *event {
            Event::Allocated(is) => {
                extras.insert(is.allocation, Extra { id: next_id, moves: 0 });
                next_id += 1;
            }
            Event::Exchanged { allocation, .. } => {
                if let Some(extra) = extras.get_mut(&allocation) {
                    extra.moves += 1;
                }
            }
            _ => {}
        }
    }
    write_all(out, export.recording, &state, &mut extras, "alive")
}

fn write_all<W: io::Write>(
    out: &mut Text<'_, W>,
    recording: &Recording,
    state: &State,
    extras: &mut HashMap<AllocationKey, Extra>,
    end: &str,
) -> fmt::Result {
    let mut all: Vec<_> = extras.drain().collect();
    all.sort_unstable_by_key(|(_, extra)| extra.id);
    all.into_iter().try_for_each(|(key, extra)| match state.allocations.get(&key) {
        Some(live) => write_row(out, recording, state, live, extra, end),
        None => Ok(()),
    })
}

fn write_row<W: io::Write>(
    out: &mut Text<'_, W>,
    recording: &Recording,
    state: &State,
    live: &Live,
    extra: Extra,
    end: &str,
) -> fmt::Result {
    let Live { is, .. } = live;
    let text = |id| Field(recording.text(id).unwrap_or_default());
    let block = state.blocks.get(&is.block);
    let pool = block.map(|block| block.pool);
    let pool_name = pool.and_then(|pool| state.pools.get(&pool)).map(|pool| text(pool.name));
    let memory_type = block.map(|block| block.memory_type);
    let heap = memory_type.and_then(|of| recording.header.memory_types.get(of.get())).map(|of| of.heap);
    let free = live.free_requested;
    let ended = (end != "alive").then_some(state.now);
    write!(out, "{},{},{},", extra.id, text(is.name), text(is.category))?;
    write!(out, "{},{},", kind_name(is.kind), Known(is.usage))?;
    write!(out, "{},{},", Known(memory_type), Known(heap))?;
    write!(out, "{},{},", Known(pool.map(|pool| pool.0)), Known(pool_name))?;
    write!(out, "{},{},", is.block.0, Known(block.map(|block| block.kind)))?;
    write!(out, "{},{},{},{},", is.offset, is.requested, is.occupied, is.alignment.get())?;
    write!(out, "{},{},{},", Field(&is.placement.to_string()), is.second_choice, is.movable)?;
    write!(out, "{},{},{},{},", live.reservation, live.maps > 0, extra.moves, is.user_data)?;
    write!(out, "{},", text(live.call_site))?;
    // A dump of one moment does not say when anything began.
    let began = (recording.header.extent != Extent::Moment).then_some(live.allocated);
    write!(out, "{},{},{end},{}\r\n", When(began), When(free), When(ended))
}

/// A value, or an empty field.
struct Known<T>(Option<T>);

impl<T: Display> Display for Known<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |value| value.fmt(f))
    }
}

/// A moment as three fields: event, frame, nanoseconds.
struct When(Option<Moment>);

impl Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(Moment { event, frame, nanoseconds }) => write!(f, "{event},{frame},{nanoseconds}"),
            None => f.write_str(",,"),
        }
    }
}
