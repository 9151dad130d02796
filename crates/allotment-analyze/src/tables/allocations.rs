//! The columns of a list of allocations. It may have millions of rows, so whoever shows it makes the cells that are seen.

use core::cmp::Ordering;

use allotment::device::ResourceKind;
use allotment_trace::recording::{Event, Moment, TextId};

use super::{Cell, Column, Definition};
use crate::timeline::{AllocationIndex, Place, Timeline};
use crate::units::count;

/// An allocation at a moment at which it exists.
struct AllocationRow<'t, 'a> {
    timeline: &'t Timeline<'a>,
    allocation: AllocationIndex,
    position: u64,
}

impl AllocationRow<'_, '_> {
    fn text(&self, id: TextId) -> String {
        self.timeline.recording().text(id).unwrap_or("").to_owned()
    }

    fn place(&self) -> Place {
        self.timeline.place_at(self.allocation, self.position)
    }
}

fn columns<'t, 'a>() -> [Definition<AllocationRow<'t, 'a>>; 11] {
    [
        (Column::text("Name", "The name that the program gave it."), |row| {
            let name = row.text(row.timeline.texts(row.allocation).name);
            Cell::Text(if name.is_empty() { "(no name)".to_owned() } else { name })
        }),
        (Column::text("Category", "The category that the program gave it."), |row| {
            Cell::Text(row.text(row.timeline.texts(row.allocation).category))
        }),
        (Column::text("Kind", "The kind of resource that it is for."), |row| {
            let event = row.timeline.lifetime(row.allocation).allocated as usize;
            Cell::Text(match row.timeline.recording().events.get(event) {
                Some(Event::Allocated(is)) => kind(is.kind).to_owned(),
                _ => String::new(),
            })
        }),
        (Column::number("Requested", "Bytes that were requested."), |row| {
            Cell::Bytes(row.timeline.requested(row.allocation))
        }),
        (Column::number("Overhead", "Bytes that it occupies beyond those."), |row| {
            match row.place().occupied.saturating_sub(row.timeline.requested(row.allocation)) {
                0 => Cell::Empty,
                overhead => Cell::Bytes(overhead),
            }
        }),
        (
            Column::number("Block", "The block that it is in; of a pool, the pool and the block in it."),
            |row| Cell::Block(row.timeline.block_info(row.place().block).id),
        ),
        (Column::number("Offset", "Where it begins in the block."), |row| Cell::Offset(row.place().offset)),
        // A dump of one moment does not say when anything began.
        (Column::number("Allocated", "The event that allocated it."), |row| {
            if !row.timeline.has_history() {
                return Cell::Empty;
            }
            Cell::Count(row.timeline.lifetime(row.allocation).allocated)
        }),
        (Column::number("Freed", "The event that freed it."), |row| {
            row.timeline.lifetime(row.allocation).freed.map_or(Cell::Empty, Cell::Count)
        }),
        (Column::number("Lifetime", "From its allocation until it was freed, or until the end."), |row| {
            if !row.timeline.has_history() {
                return Cell::Empty;
            }
            let life = row.timeline.lifetime(row.allocation);
            row.timeline.span(life.allocated, life.freed.unwrap_or(row.timeline.end()))
        }),
        (Column::text("Call site", "Where it was made."), |row| {
            Cell::CallSite(row.text(row.timeline.texts(row.allocation).call_site))
        }),
    ]
}

/// The columns of a list of allocations.
#[must_use]
pub fn allocation_columns() -> Vec<Column> {
    columns().map(|(column, _)| column).to_vec()
}

/// The column of [`allocation_columns`] by which a list is sorted first: the bytes that were requested.
pub const REQUESTED: usize = 3;

/// Makes the cell of an allocation in one of [`allocation_columns`]. At `position` it exists.
///
/// # Panics
///
/// If there is no such column.
#[must_use]
pub fn allocation_cell(
    timeline: &Timeline<'_>,
    allocation: AllocationIndex,
    position: u64,
    column: usize,
) -> Cell {
    columns()[column].1(&AllocationRow { timeline, allocation, position })
}

/// Sorts allocations by one of [`allocation_columns`], as they are at a position at which all exist, or, without one, as each
/// was first. Equal ones stay in their order.
///
/// # Panics
///
/// If there is no such column.
pub fn sort_allocations(
    timeline: &Timeline<'_>,
    rows: &mut [AllocationIndex],
    (column, down): (usize, bool),
    position: Option<u64>,
) {
    let at = |row| position.unwrap_or_else(|| timeline.lifetime(row).allocated + 1);
    let mut keyed: Vec<_> =
        rows.iter().map(|&row| (allocation_cell(timeline, row, at(row), column).key(), row)).collect();
    keyed.sort_by(|(a, _), (b, _)| {
        let order = a.partial_cmp(b).unwrap_or(Ordering::Equal);
        if down { order.reverse() } else { order }
    });
    for (row, (_, sorted)) in rows.iter_mut().zip(keyed) {
        *row = sorted;
    }
}

impl Timeline<'_> {
    /// Returns the words for a moment: `event 1,200, frame 7`. Without a frame where the recording has none, and without an
    /// event where it is a dump of one moment.
    #[must_use]
    pub fn when(&self, moment: Moment) -> String {
        if !self.has_history() {
            return "the moment of the dump".to_owned();
        }
        let event = format!("event {}", count(moment.event));
        if self.frame_count() == 0 { event } else { format!("{event}, frame {}", count(moment.frame)) }
    }

    /// Returns the time between two positions: in frames where the recording has some, else in events.
    #[must_use]
    pub fn span(&self, from: u64, to: u64) -> Cell {
        if self.frame_count() > 0 {
            Cell::Things(self.moment(to).frame - self.moment(from).frame, "frame")
        } else {
            Cell::Things(to - from, "event")
        }
    }
}

/// Returns what a kind of resource is called; empty for one that is not known.
#[must_use]
pub const fn kind(kind: ResourceKind) -> &'static str {
    match kind {
        ResourceKind::Buffer => "buffer",
        ResourceKind::LinearImage => "linear image",
        ResourceKind::OptimalImage => "optimal image",
        _ => "",
    }
}
