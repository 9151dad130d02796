//! The table of descriptor heaps.

use allotment_trace::recording::{DescriptorHeap, Moment};

use super::{Cell, Column, Definition, Table};
use crate::cursor::Cursor;
use crate::descriptors::{DescriptorHistory, DescriptorOccupancy};
use crate::timeline::Timeline;

/// A descriptor heap that exists at a moment.
#[derive(Clone, Debug)]
pub struct DescriptorHeapRow {
    /// Empty where the program gave none.
    pub name: String,
    /// The heap and its ranges.
    pub heap: DescriptorHeap,
    /// How full it is.
    pub occupancy: DescriptorOccupancy,
    /// The most slots that were allocated at once in the whole recording, and when.
    pub peak: (u64, Moment),
}

fn columns(timeline: &Timeline<'_>) -> [Definition<DescriptorHeapRow>; 10] {
    let (peak_when, when): (_, fn(&DescriptorHeapRow) -> Cell) = if timeline.frame_count() > 0 {
        (Column::number("Peak frame", "The frame of that peak."), |row| Cell::Count(row.peak.1.frame))
    } else {
        (Column::number("Peak event", "The event of that peak."), |row| Cell::Count(row.peak.1.event))
    };
    [
        (Column::text("Descriptor heap", "The name that the program gave it."), |row| {
            Cell::Text(if row.name.is_empty() { "(no name)".to_owned() } else { row.name.clone() })
        }),
        (Column::text("Type", "The type of the descriptors, and whether shaders see them."), |row| {
            Cell::Text(row.heap.kind.to_string())
        }),
        (Column::number("Slots", "Descriptors that it can hold."), |row| {
            Cell::Count(row.occupancy.capacity.into())
        }),
        (Column::number("Allocated", "Slots that are allocated."), |row| {
            Cell::Count(row.occupancy.allocated.into())
        }),
        (Column::number("Share", "Their share of all slots."), |row| {
            Cell::Share(row.occupancy.allocated.into(), row.occupancy.capacity.into())
        }),
        (Column::number("Ranges", "Ranges of slots that are allocated."), |row| {
            Cell::Count(row.occupancy.ranges.into())
        }),
        (
            Column::number(
                "Longest free run",
                "The length of the longest table that can still be allocated.",
            ),
            |row| Cell::Count(row.occupancy.longest_free.into()),
        ),
        (
            Column::number(
                "Fragmentation",
                "The share of the free slots that is outside the longest free run.",
            ),
            |row| Cell::Decimal(row.occupancy.fragmentation()),
        ),
        (
            Column::number("Peak", "The most slots that were allocated at once in the whole recording."),
            |row| Cell::Count(row.peak.0),
        ),
        (peak_when, when),
    ]
}

impl DescriptorHeapRow {
    /// Returns the descriptor heaps that exist where a cursor is, in the order in which they were created.
    #[must_use]
    pub fn all(cursor: &Cursor<'_, '_>) -> Vec<Self> {
        let timeline = cursor.timeline();
        let at_moment = timeline.descriptor_heaps().filter_map(|index| {
            let (_, heap) = timeline.descriptor_heap_at(index, cursor.position())?;
            Some(Self {
                name: timeline.recording().text(heap.name).unwrap_or("").to_owned(),
                occupancy: DescriptorOccupancy::of(cursor.moment(), heap.capacity, &heap.ranges),
                // The peak needs no samples between the first event and the last.
                peak: DescriptorHistory::of(timeline, index, 1).peak,
                heap,
            })
        });
        at_moment.collect()
    }

    /// Returns some heaps as a table.
    #[must_use]
    pub fn table(timeline: &Timeline<'_>, heaps: &[Self]) -> Table {
        Table::of(&columns(timeline), heaps, |_| None)
    }

    /// Returns the columns of the table, for one whose rows are counted elsewhere.
    #[must_use]
    pub fn columns(timeline: &Timeline<'_>) -> Vec<Column> {
        columns(timeline).map(|(column, _)| column).to_vec()
    }
}
