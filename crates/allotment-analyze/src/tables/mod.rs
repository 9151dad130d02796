//! The tables that the command, the window and the page show: what each column is called and has, said once.
//!
//! A table is declared in a file of its own, as a list of columns, each with the function that makes its cells:
//!
//! ```text
//!   groups.rs   [(Column, row → Cell), …]  ──┐
//!   rows        of an analysis            ──┴─▶ Table ─┬─▶ command   texts, padded
//!                                                      ├─▶ window    drawn, sorted by a click
//!                                                      └─▶ page      texts and ranks, no rule of its own
//! ```
//!
//! So a new column is one more entry of the list.
//!
//! What only one of the three shows as a table is declared where it is shown:
//!
//! - the command: heaps, pools and marks of `stats`, the rules that `lifetimes` lists, and the limits of `check`. Their
//!   columns are for one text of a terminal, and the JSON outputs have the figures.
//! - the page: queues and rings, what happened in the order of time, and what waits for the GPU at the moment. Their rows
//!   come from lives that only the page has.
//!
//! And two lists that several show are no tables: advice is sentences, written once by
//! [`Advice`](crate::Advice), and allocations that share bytes are drawn in the lanes of [`Lanes`](crate::Lanes).

mod allocations;
mod descriptors;
mod difference;
mod free_ranges;
mod groups;
mod leaks;
mod peak_figures;
mod release_latency;
mod shared_memory;

use core::cmp::Ordering;

pub use allocations::{REQUESTED, allocation_cell, allocation_columns, kind, sort_allocations};
use allotment_trace::recording::BlockId;
pub use descriptors::DescriptorHeapRow;

use crate::call_site::short_call_site;
use crate::timeline::AllocationIndex;
use crate::units;

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Column {
    /// What stands above it.
    pub heading: &'static str,
    /// What it has, as a sentence or two, for a person who points at the heading.
    pub help: &'static str,
    /// It has numbers: they stand at the right, and a first click on the heading sorts the largest to the top.
    pub is_number: bool,
}

impl Column {
    const fn text(heading: &'static str, help: &'static str) -> Self {
        Self { heading, help, is_number: false }
    }

    const fn number(heading: &'static str, help: &'static str) -> Self {
        Self { heading, help, is_number: true }
    }
}

/// A cell of a table.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Cell {
    /// The row has no such value.
    Empty,
    /// A text.
    Text(String),
    /// Words in the place of a name that something does not have.
    Unnamed(&'static str),
    /// A call site, whole; its [`text`](Self::text) is the end of it that people read.
    CallSite(String),
    /// A warning.
    Warning(&'static str),
    /// A number of things.
    Count(u64),
    /// A number of things, and what one of them is called.
    Things(u64, &'static str),
    /// So many of them, or more.
    AtLeast(u64, &'static str),
    /// A block.
    Block(BlockId),
    /// Where something begins in a block.
    Offset(u64),
    /// Bytes.
    Bytes(u64),
    /// How many bytes more there are than before.
    Change(i128),
    /// A part, and the whole that it is a share of.
    Share(u64, u64),
    /// A number with two digits behind the point.
    Decimal(f64),
}

impl Cell {
    /// Returns the cell as people read it.
    ///
    /// ```
    /// use allotment_analyze::tables::Cell;
    ///
    /// assert_eq!(Cell::Bytes(1536).text(), "1.50 KiB");
    /// assert_eq!(Cell::CallSite("/home/me/game/src/sky.rs:41:9".into()).text(), "game/src/sky.rs:41");
    /// assert_eq!(Cell::Empty.text(), "–");
    /// ```
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Empty => "–".to_owned(),
            Self::Text(text) => text.clone(),
            Self::CallSite(site) => short_call_site(site).to_owned(),
            Self::Warning(text) | Self::Unnamed(text) => (*text).to_owned(),
            &Self::Count(count) => units::count(count),
            &Self::Things(count, one) => units::plural(count, one),
            &Self::AtLeast(count, one) => format!("{} or more", units::plural(count, one)),
            Self::Block(id) => format!("#{id}"),
            Self::Offset(offset) => format!("0x{offset:x}"),
            &Self::Bytes(bytes) => units::bytes(bytes),
            &Self::Change(change) => units::signed_bytes(change),
            &Self::Share(part, whole) => units::percent(part, whole),
            &Self::Decimal(number) => units::fixed(number, 2),
        }
    }

    /// Returns the whole text of a cell that shows a part of it, else `None`.
    #[must_use]
    pub fn whole(&self) -> Option<&str> {
        match self {
            Self::CallSite(site) if short_call_site(site) != site => Some(site),
            _ => None,
        }
    }

    /// Returns true if there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Text(text) | Self::CallSite(text) => text.is_empty(),
            _ => false,
        }
    }

    /// What cells of a column are sorted by: numbers by size, texts by the alphabet, those without a value first.
    fn key(&self) -> Key {
        match *self {
            Self::Empty | Self::Unnamed(_) => Key::Number(f64::NEG_INFINITY),
            Self::Count(number)
            | Self::Things(number, _)
            | Self::AtLeast(number, _)
            | Self::Offset(number)
            | Self::Bytes(number) => Key::Number(number as f64),
            Self::Block(id) => Key::Number(id.0 as f64),
            Self::Change(change) => Key::Number(change as f64),
            Self::Share(part, whole) => Key::Number(part as f64 / whole.max(1) as f64),
            Self::Decimal(number) => Key::Number(number),
            Self::Text(_) | Self::CallSite(_) | Self::Warning(_) => Key::Text(self.text().to_lowercase()),
        }
    }
}

#[derive(PartialEq, PartialOrd)]
enum Key {
    Number(f64),
    Text(String),
}

/// A row of a table.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Row {
    /// A cell for each column.
    pub cells: Vec<Cell>,
    /// The allocation that the row is about, or the first of several.
    pub allocation: Option<AllocationIndex>,
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Table {
    /// What stands above the table: a line with the sums, and lines about what is left out.
    pub summary: Vec<String>,
    /// The columns in which a row has something.
    pub columns: Vec<Column>,
    /// The rows, the most important first.
    pub rows: Vec<Row>,
}

/// A column, and its cell of a row.
type Definition<R> = (Column, fn(&R) -> Cell);

impl Table {
    /// Makes the cells of some rows. A column in which no row has anything is left out.
    fn of<R>(
        definitions: &[Definition<R>],
        rows: &[R],
        allocation: fn(&R) -> Option<AllocationIndex>,
    ) -> Self {
        let mut columns = Vec::new();
        let mut made: Vec<_> =
            rows.iter().map(|row| Row { cells: Vec::new(), allocation: allocation(row) }).collect();
        for &(column, cell) in definitions {
            let cells: Vec<_> = rows.iter().map(cell).collect();
            if cells.iter().all(Cell::is_empty) {
                continue;
            }
            columns.push(column);
            for (row, cell) in made.iter_mut().zip(cells) {
                row.cells.push(cell);
            }
        }
        Self { summary: Vec::new(), columns, rows: made }
    }

    /// Returns for each row its rank in a column, the smallest 0. Equal cells have the same rank.
    ///
    /// # Panics
    ///
    /// If there is no such column.
    #[must_use]
    pub fn ranks(&self, column: usize) -> Vec<usize> {
        let keys: Vec<_> = self.rows.iter().map(|row| row.cells[column].key()).collect();
        let mut order: Vec<_> = (0..keys.len()).collect();
        order.sort_by(|&a, &b| keys[a].partial_cmp(&keys[b]).unwrap_or(Ordering::Equal));
        let mut ranks = vec![0; keys.len()];
        for pair in order.windows(2) {
            ranks[pair[1]] = ranks[pair[0]] + usize::from(keys[pair[0]] != keys[pair[1]]);
        }
        ranks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_in_which_no_row_has_anything_is_left_out() {
        let definitions: [Definition<u64>; 3] = [
            (Column::text("Name", ""), |_| Cell::Text(String::new())),
            (Column::number("Bytes", ""), |&row| Cell::Bytes(row)),
            (Column::number("Frame", ""), |_| Cell::Empty),
        ];
        let table = Table::of(&definitions, &[1, 2], |_| None);
        assert_eq!(table.columns, [definitions[1].0]);
        assert_eq!(table.rows[1].cells, [Cell::Bytes(2)]);
    }

    #[test]
    fn equal_cells_have_one_rank_and_texts_go_by_the_alphabet() {
        let cells = ["b", "A", "b", "c"];
        let definitions: [Definition<&str>; 1] =
            [(Column::text("Name", ""), |&name| Cell::Text(name.to_owned()))];
        assert_eq!(Table::of(&definitions, &cells, |_| None).ranks(0), [1, 0, 1, 2]);
    }
}
