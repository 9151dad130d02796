//! The table of two recordings side by side, such as one and its requests made again with other settings.

use super::{Cell, Column, Definition, Table};
use crate::what_if::PeakFigures;

/// A figure: its name, and its cell.
type Figure = (&'static str, fn(&PeakFigures) -> Cell);

const FIGURES: [Figure; 10] = [
    ("Peak of the blocks", |is| Cell::Bytes(is.peaks.blocks.bytes)),
    ("   used then", |is| Cell::Bytes(is.at_peak.bytes.used)),
    ("   overhead then", |is| Cell::Bytes(is.at_peak.bytes.overhead())),
    ("   free then", |is| Cell::Bytes(is.at_peak.bytes.free)),
    ("   wasted then", |is| Cell::Bytes(is.wasted())),
    ("   blocks then", |is| Cell::Count(is.at_peak.blocks)),
    ("   fragmentation then", |is| Cell::Decimal(is.at_peak.fragmentation())),
    ("Peak of used bytes", |is| Cell::Bytes(is.peaks.used.bytes)),
    ("Blocks from the driver in all", |is| Cell::Count(is.allocated_blocks)),
    ("Requests refused", |is| Cell::Count(is.refused)),
];

/// A figure of both sides.
struct FigureRow {
    name: &'static str,
    sides: [Cell; 2],
}

const fn columns([first, second]: [&'static str; 2]) -> [Definition<FigureRow>; 4] {
    [
        (Column::text("Figure", "What is compared."), |row| Cell::Text(row.name.to_owned())),
        (Column::number(first, "The figure of the first."), |row| row.sides[0].clone()),
        (Column::number(second, "The figure of the second."), |row| row.sides[1].clone()),
        (Column::number("Change", "How much more the second has."), |row| change(&row.sides)),
    ]
}

fn change(sides: &[Cell; 2]) -> Cell {
    match sides {
        [a, b] if a == b => Cell::Empty,
        [Cell::Bytes(a), Cell::Bytes(b)] => Cell::Change(i128::from(*b) - i128::from(*a)),
        [Cell::Count(a), Cell::Count(b)] => {
            let sign = if b > a { "+" } else { "−" };
            Cell::Text(format!("{sign}{}", Cell::Count(a.abs_diff(*b)).text()))
        }
        [Cell::Decimal(a), Cell::Decimal(b)] => {
            let sign = if b > a { "+" } else { "−" };
            Cell::Text(format!("{sign}{}", Cell::Decimal((b - a).abs()).text()))
        }
        _ => Cell::Empty,
    }
}

impl PeakFigures {
    /// Returns the figures of two recordings as a table, under these headings.
    ///
    /// ```
    /// use allotment_analyze::PeakFigures;
    ///
    /// let [a, b] = [PeakFigures::default(), PeakFigures::default()];
    /// let table = PeakFigures::table(["recorded", "what if"], [&a, &b]);
    /// assert_eq!(table.columns[1].heading, "recorded");
    /// assert_eq!(table.rows[0].cells[1].text(), "0 B");
    /// ```
    #[must_use]
    pub fn table(headings: [&'static str; 2], sides: [&Self; 2]) -> Table {
        let rows = FIGURES.map(|(name, cell)| FigureRow { name, sides: sides.map(cell) });
        Table::of(&columns(headings), &rows, |_| None)
    }
}
