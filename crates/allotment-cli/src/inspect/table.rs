//! Tables of text.

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
    if name.is_empty() { "(without a name)".to_owned() } else { shown(name) }
}
