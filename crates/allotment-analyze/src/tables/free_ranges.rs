//! The table of free ranges by size.

use super::{Cell, Column, Definition, Table};
use crate::fragmentation::Holes;

const fn columns<'a>() -> [Definition<(&'a Holes, u64)>; 5] {
    [
        (Column::number("Ranges of at least", "A size."), |&(_, size)| Cell::Bytes(size)),
        (Column::number("Count", "Free ranges of at least that size."), |(holes, size)| {
            Cell::Count(holes.of_at_least(*size).len() as u64)
        }),
        (Column::number("Bytes", "The bytes of these ranges."), |(holes, size)| {
            Cell::Bytes(holes.bytes(*size))
        }),
        (
            Column::number("Requests that fit", "Requests of that size that fit without a new block."),
            |(holes, size)| Cell::Count(holes.fitting(*size)),
        ),
        (Column::number("Share", "The share of all free bytes that is in these ranges."), |(holes, size)| {
            Cell::Share(holes.bytes(*size), holes.free())
        }),
    ]
}

impl Holes {
    /// Returns the free ranges of each power of two up to the largest, which comes first, as a table.
    #[must_use]
    pub fn table(&self) -> Table {
        let rows: Vec<_> = self.curve().into_iter().rev().map(|(size, _)| (self, size)).collect();
        Table::of(&columns(), &rows, |_| None)
    }

    /// Returns the columns of the table, for one whose rows are counted elsewhere.
    #[must_use]
    pub fn columns() -> Vec<Column> {
        columns().map(|(column, _)| column).to_vec()
    }
}
