//! The table of allocations that resources share.

use super::{Cell, Column, Definition, Table};
use crate::shared_history::SharedHistory;
use crate::timeline::Timeline;

type Row<'a> = (&'a str, &'a SharedHistory);

const fn columns<'a>() -> [Definition<Row<'a>>; 7] {
    [
        (Column::text("Memory", "The name of the allocation that the resources share."), |(name, _)| {
            if name.is_empty() { Cell::Unnamed("(no name)") } else { Cell::Text((*name).to_owned()) }
        }),
        (Column::number("Size", "Bytes of the allocation."), |(_, of)| Cell::Bytes(of.size)),
        (Column::number("Resources", "How many were ever placed in it."), |(_, of)| {
            Cell::Count(of.resources)
        }),
        (
            Column::number("Their sizes", "Bytes of all of these together, whenever they existed."),
            |(_, of)| Cell::Bytes(of.total_bytes),
        ),
        (
            Column::number(
                "At the same time",
                "The most bytes that resources had together which existed at the same time.",
            ),
            |(_, of)| Cell::Bytes(of.peak_bytes),
        ),
        (
            Column::number(
                "Times its size",
                "How many times as much memory those would need that existed at the same time, if each had its own.",
            ),
            |(_, of)| Cell::Decimal(of.peak_bytes as f64 / of.size.max(1) as f64),
        ),
        (Column::number("Activations", "How often a resource was given the bytes of others."), |(_, of)| {
            Cell::Count(of.activations)
        }),
    ]
}

impl SharedHistory {
    /// Returns some allocations that resources share as a table.
    #[must_use]
    pub fn table(timeline: &Timeline<'_>, all: &[Self]) -> Table {
        let named = all.iter().map(|of| {
            let name = timeline.texts(of.allocation).name;
            (timeline.recording().text(name).unwrap_or_default(), of)
        });
        Table::of(&columns(), &named.collect::<Vec<_>>(), |(_, of)| Some(of.allocation))
    }
}
