//! Tables of text.

use allotment_analyze::tables::{self, Cell};
use console::measure_text_width;

/// How a column is aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Right,
}

/// A table: its columns, then its rows.
#[derive(Debug)]
pub(super) struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new(columns: &[(&'static str, Align)]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    pub(super) fn row(&mut self, cells: impl Into<Vec<String>>) {
        self.rows.push(cells.into());
    }

    /// Prints the header and the rows, indented, without spaces at the ends of lines.
    pub(super) fn print(&self) {
        let mut widths: Vec<_> = self.columns.iter().map(|(title, _)| measure_text_width(title)).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(measure_text_width(cell));
            }
        }
        let titles: Vec<_> = self.columns.iter().map(|(title, _)| (*title).to_owned()).collect();
        for row in core::iter::once(&titles).chain(&self.rows) {
            let mut line = String::new();
            for ((cell, &width), &(_, align)) in row.iter().zip(&widths).zip(&self.columns) {
                let space = " ".repeat(width - measure_text_width(cell));
                line.push_str("  ");
                match align {
                    Align::Left => line.extend([cell.as_str(), &space]),
                    Align::Right => line.extend([&space, cell.as_str()]),
                }
            }
            say!("{}", line.trim_end());
        }
    }
}

/// Prints a table of an analysis: its summary, its columns, and what its warnings mean. Texts come last, since one may be
/// longer than the line.
pub(super) fn print(table: &tables::Table) {
    for line in &table.summary {
        say!("{line}");
    }
    if table.rows.is_empty() {
        return;
    }
    say!();
    let warns = |column: usize| table.rows.iter().any(|row| matches!(row.cells[column], Cell::Warning(_)));
    let mut order: Vec<_> = (0..table.columns.len()).collect();
    order.sort_by_key(|&column| (!table.columns[column].is_number, !warns(column)));
    let heading = |&column: &usize| {
        let column = table.columns[column];
        (column.heading, if column.is_number { Align::Right } else { Align::Left })
    };
    let mut lines = Table::new(&order.iter().map(heading).collect::<Vec<_>>());
    for row in &table.rows {
        lines.row(order.iter().map(|&column| shown(&row.cells[column].text())).collect::<Vec<_>>());
    }
    lines.print();
    for column in order.into_iter().filter(|&column| warns(column)) {
        say!();
        say!("{}: {}", table.columns[column].heading, table.columns[column].help);
    }
}

/// Prints rows of a label and a value, indented.
pub(super) fn print_pairs(rows: &[(String, String)]) {
    let width = rows.iter().map(|(label, _)| measure_text_width(label)).max().unwrap_or(0);
    for (label, value) in rows {
        let space = " ".repeat(width - measure_text_width(label));
        say!("  {label}{space}  {value}");
    }
}

/// Returns a text of a recording as a terminal can show it: a file may come from anybody, and control characters do
/// things to a terminal.
pub(super) fn shown(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Returns the name of a group or of an object as a terminal can show it, or what stands for none.
pub(super) fn name_or_none(name: &str) -> String {
    if name.is_empty() { "(no name)".to_owned() } else { shown(name) }
}
