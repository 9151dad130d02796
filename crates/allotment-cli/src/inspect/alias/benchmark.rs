//! Planning benchmarks: CSV files with the columns `id`, `lower`, `upper` and `size` in any order, among others.

use core::fmt;
use std::io::{BufRead, BufReader, Read};

use allotment_suballoc::plan::{Item, Problem};

use super::{Memory, NamedItem};
use crate::failure::Failure;
use crate::inspect::load::Input;

/// The columns, in the first line.
const COLUMNS: [&str; 4] = ["id", "lower", "upper", "size"];

/// A first line that is longer is none of a benchmark: of a binary file it may be all of it.
const LONGEST_FIRST_LINE: u64 = 1 << 20;

/// Reads a benchmark; `None` where the first line says that the file is something else.
pub(super) fn read(input: &Input) -> Result<Option<Memory>, Failure> {
    let path = input.path().display();
    let failure = |line: usize, what: &dyn fmt::Display| match line {
        0 => Failure::Input(format!("{path}: {what}")),
        line => Failure::Input(format!("{path}, line {line}: {what}")),
    };
    let mut file = BufReader::new(input.reader().map_err(|error| failure(0, &error))?);
    let mut first = Vec::new();
    file.by_ref()
        .take(LONGEST_FIRST_LINE)
        .read_until(b'\n', &mut first)
        .map_err(|error| failure(0, &error))?;
    let first = String::from_utf8_lossy(&first).into_owned();
    let columns = fields(first.trim_start_matches('\u{feff}'));
    let found = COLUMNS.map(|name| columns.iter().position(|column| column.eq_ignore_ascii_case(name)));
    let [Some(id), Some(lower), Some(upper), Some(size)] = found else { return Ok(None) };
    let mut items = Vec::new();
    let mut problem = Vec::new();
    for (number, line) in (2..).zip(file.lines()) {
        let line = line.map_err(|error| failure(number, &error))?;
        if line.trim().is_empty() {
            continue;
        }
        let mut fields = fields(&line);
        let read = |at: usize| {
            let text = fields
                .get(at)
                .ok_or_else(|| failure(number, &format_args!("there is no field {}", at + 1)))?;
            let wrong =
                |_| failure(number, &format_args!("{}: \"{text}\" is not a whole number", columns[at]));
            text.parse::<u64>().map_err(wrong)
        };
        let life = read(lower)?..read(upper)?;
        if life.is_empty() {
            let what = format_args!("upper, {}, is not above lower, {}", life.end, life.start);
            return Err(failure(number, &what));
        }
        match read(size)? {
            0 => return Err(failure(number, &"the size is 0")),
            size => problem.push((Item::new(size), life.clone())),
        }
        if id >= fields.len() {
            return Err(failure(number, &format_args!("there is no field {}", id + 1)));
        }
        let id = fields.swap_remove(id);
        items.push(NamedItem { name: id.clone(), id, life });
    }
    let problem = Problem::from_intervals(problem).map_err(|error| failure(0, &error))?;
    Ok(Some(Memory { memory_type: None, recorded_peak: None, items, problem }))
}

/// Splits a line. A field in quotes may have commas in it, and quotes that are doubled; there are no fields of several lines.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut is_quoted = false;
    let mut characters = line.trim().chars().peekable();
    while let (Some(character), Some(field)) = (characters.next(), fields.last_mut()) {
        match character {
            '"' if is_quoted && characters.next_if_eq(&'"').is_some() => field.push('"'),
            '"' if is_quoted => is_quoted = false,
            '"' if field.trim().is_empty() => is_quoted = true,
            ',' if !is_quoted => fields.push(String::new()),
            character => field.push(character),
        }
    }
    for field in &mut fields {
        field.truncate(field.trim_end().len());
        field.drain(..field.len() - field.trim_start().len());
    }
    fields
}

/// Returns a text as a field of a CSV file: in quotes where it would be read as something else.
pub(super) fn quoted(text: &str) -> String {
    let needs_quotes = text.contains(['"', ',', '\n', '\r']) || text.trim() != text;
    if needs_quotes { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_in_quotes_have_commas_and_quotes() {
        assert_eq!(fields("a, b ,\"c, d\", \"e\"\"f\" ,"), ["a", "b", "c, d", "e\"f", ""]);
        assert_eq!(
            fields("5\" disk,\"\""),
            ["5\" disk", ""],
            "a quote within a field is one of its characters"
        );
        for text in ["plain", "a, b", "say \"this\"", ""] {
            assert_eq!(fields(&format!("{},2", quoted(text))), [text, "2"]);
        }
    }
}
