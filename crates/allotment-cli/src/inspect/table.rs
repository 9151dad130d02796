//! Tables of text.

use allotment_analyze::tables::{self, Cell};
use console::measure_text_width;

use super::columns::{of_tables, say_wrapped, shorten, wrap};

/// Columns that a text has at least, however narrow the terminal is.
const LEAST: usize = 16;

/// How a column is aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Right,
    /// A sentence, in the last column: it goes on in further lines where others are shortened.
    Sentence,
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

    /// Prints the header and the rows, indented, without spaces at the ends of lines, and no wider than the terminal: long
    /// texts are shortened, and what is too wide even then goes on in a second table below.
    pub(super) fn print(&self) {
        self.lines(of_tables()).iter().for_each(|line| say!("{line}"));
    }

    fn lines(&self, columns: usize) -> Vec<String> {
        let mut widths: Vec<_> = self.columns.iter().map(|(title, _)| measure_text_width(title)).collect();
        let least: Vec<_> = widths.iter().map(|&title| title.max(LEAST)).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(measure_text_width(cell));
            }
        }
        self.narrow(&mut widths, &least, columns);
        let mut lines = Vec::new();
        for part in parts(&widths, columns) {
            if !lines.is_empty() {
                lines.push(String::new());
            }
            let titles: Vec<_> = self.columns.iter().map(|(title, _)| (*title).to_owned()).collect();
            for row in core::iter::once(&titles).chain(&self.rows) {
                self.add_row(&mut lines, row, &part, &widths);
            }
        }
        lines
    }

    /// Takes columns from the widest text, and so on, until all fit.
    fn narrow(&self, widths: &mut [usize], least: &[usize], columns: usize) {
        let can = |index: &usize, widths: &[usize]| {
            self.columns[*index].1 != Align::Right && widths[*index] > least[*index]
        };
        // No text is wider than the line, and then each step takes one column.
        for index in 0..widths.len() {
            if can(&index, widths) {
                widths[index] = widths[index].min(columns.max(least[index]));
            }
        }
        while total(widths) > columns {
            let narrowed = (0..widths.len()).filter(|index| can(index, widths));
            let Some(widest) = narrowed.max_by_key(|&index| widths[index]) else { return };
            widths[widest] -= 1;
        }
    }

    fn add_row(&self, lines: &mut Vec<String>, row: &[String], part: &[usize], widths: &[usize]) {
        let mut line = String::new();
        let mut further = Vec::new();
        for &index in part {
            let (align, width) = (self.columns[index].1, widths[index]);
            let mut cell = row[index].clone();
            if align == Align::Sentence {
                further = wrap(&cell, width);
                cell = further.remove(0);
            } else if align == Align::Left {
                cell = shorten(&cell, width);
            }
            let space = " ".repeat(width.saturating_sub(measure_text_width(&cell)));
            line.push_str("  ");
            match align {
                Align::Left | Align::Sentence => line.extend([cell.as_str(), &space]),
                Align::Right => line.extend([&space, cell.as_str()]),
            }
        }
        lines.push(line.trim_end().to_owned());
        let before: usize = part.iter().rev().skip(1).map(|&index| widths[index] + 2).sum();
        lines.extend(further.iter().map(|text| format!("{}{text}", " ".repeat(before + 2))));
    }
}

/// The columns of a line: two spaces before each.
fn total(widths: &[usize]) -> usize {
    widths.iter().map(|width| width + 2).sum()
}

/// The columns of a table that stand beside each other. What does not fit stands below, behind the first column again.
fn parts(widths: &[usize], columns: usize) -> Vec<Vec<usize>> {
    let mut parts: Vec<Vec<usize>> = vec![Vec::new()];
    let mut used = 0;
    for (index, width) in widths.iter().enumerate() {
        if let Some(part) = parts.last_mut() {
            // The first column and another one, at least.
            if used + width + 2 > columns && part.len() > 1 {
                used = widths[0] + 2;
                parts.push(vec![0, index]);
            } else {
                part.push(index);
            }
        }
        used += width + 2;
    }
    parts
}

/// Prints a table of an analysis: its summary, its columns, and what its warnings mean. Texts come last, since they are
/// shortened where the line is short.
pub(super) fn print(table: &tables::Table) {
    table.summary.iter().for_each(|line| say_wrapped(line));
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
        say_wrapped(&format!("{}: {}", table.columns[column].heading, table.columns[column].help));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn table(name: &str) -> Table {
        let titles = [("Bytes", Align::Right), ("Share", Align::Right), ("Call site", Align::Left)];
        let mut table = Table::new(&titles);
        table.row(["65.0 MiB".to_owned(), "100 %".to_owned(), name.to_owned()]);
        table
    }

    #[test]
    fn a_long_text_is_shortened_to_the_line_and_its_end_stays() {
        let lines = table("crates/town/src/streaming/of_textures/by_distance.rs:1234").lines(40);
        let expected = ["     Bytes  Share  Call site", "  65.0 MiB  100 %  …/by_distance.rs:1234"];
        assert_eq!(lines, expected);
        assert_eq!(table("short").lines(40)[1], "  65.0 MiB  100 %  short");
    }

    #[test]
    fn of_two_texts_the_wider_one_is_shortened_first() {
        let mut table = Table::new(&[("A", Align::Left), ("B", Align::Left)]);
        table.row(["a".repeat(20), "b".repeat(60)]);
        let lines = table.lines(60);
        assert!(lines[1].contains(&"a".repeat(20)), "{lines:?}");
        assert_eq!(measure_text_width(&lines[1]), 60);
    }

    #[test]
    fn columns_that_do_not_fit_stand_below_behind_the_first_column() {
        let titles = ["Pool", "Blocks", "Bytes", "Used", "Free"];
        let mut table = Table::new(&titles.map(|title| (title, Align::Right)));
        table.row(["one", "2", "3.00 MiB", "4.00 MiB", "5.00 MiB"].map(str::to_owned));
        let expected = [
            "  Pool  Blocks     Bytes",
            "   one       2  3.00 MiB",
            "",
            "  Pool      Used      Free",
            "   one  4.00 MiB  5.00 MiB",
        ];
        assert_eq!(table.lines(27), expected);
    }

    #[test]
    fn a_sentence_goes_on_in_further_lines() {
        let mut table = Table::new(&[("Rule", Align::Left), ("Question", Align::Sentence)]);
        table.row(["growth".to_owned(), "Which allocations were made between A and B?".to_owned()]);
        let lines = table.lines(37);
        assert_eq!(lines[1..], ["  growth  Which allocations were made", "          between A and B?"]);
    }
}
