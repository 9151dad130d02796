//! `--table`: times as a small Markdown table, and its place in a file, which is rewritten.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use std::{fs, io};

use super::time::Row;
use crate::failure::Failure;

/// The lines around the table in a file.
const BEGIN: &str = "<!-- begin of the table of `allotment-bench ranges --table` -->";
const END: &str = "<!-- end of the table of `allotment-bench ranges --table` -->";

/// The workloads of the table, and what they are called there.
pub(super) const WORKLOADS: [(&str, &str); 11] = [
    ("churn-1e3", "churn, 10^3 live"),
    ("churn-1e4", "churn, 10^4"),
    ("churn-1e5", "churn, 10^5"),
    ("churn-1e6", "churn, 10^6"),
    ("small-1e5", "small, 10^5"),
    ("descriptors-1e4", "descriptors, 10^4"),
    ("mixed-1e5", "mixed alignment, 10^5"),
    ("textures", "textures by age"),
    ("frames", "frames, first in first out"),
    ("lifo-64", "last in first out, 64"),
    ("pairs", "pairs"),
];

/// The contenders of the table, and what they are called there. The times are compared with those of
/// offset-allocator.
pub(super) const CONTENDERS: [(&str, &str); 6] = [
    ("allotment-tlsf", "TLSF"),
    ("allotment-tlsf-least-time", "TLSF, `LeastTime`"),
    ("allotment-linear", "linear"),
    ("offset-allocator", "offset-allocator 0.2"),
    ("vk-mem", "VMA (`vk-mem` 0.5)"),
    ("range-alloc", "range-alloc 0.1"),
];

/// Returns the lines of the table.
pub(super) fn markdown(rows: &[Row], days_since_1970: u64) -> Vec<String> {
    let (year, month, day) = date(days_since_1970);
    let mut lines = vec![
        format!(
            "Measured on {year}-{month:02}-{day:02} by `allotment-bench ranges --table`: nanoseconds of processor"
        ),
        "time per allocation or free, without the harness, and in parentheses the ratio to offset-allocator."
            .to_owned(),
        String::new(),
        format!("| |{}", CONTENDERS.map(|(_, title)| format!(" {title} |")).concat()),
        format!("|---|{}", "---|".repeat(CONTENDERS.len())),
    ];
    for (workload, title) in WORKLOADS {
        let cell = |contender| {
            let row = rows.iter().find(|row| row.workload == workload && row.contender == contender);
            row.map_or_else(|| " |".to_owned(), |row| format!(" {} |", figure(row)))
        };
        let cells = CONTENDERS.map(|(contender, _)| cell(contender)).concat();
        lines.push(format!("| {title} |{cells}"));
    }
    lines
}

/// Returns a time with its ratio.
fn figure(row: &Row) -> String {
    let time = match row.ns_per_op {
        time if time < 100.0 => format!("{time:.1}"),
        time => format!("{time:.0}"),
    };
    row.ratio.map_or_else(|| time.clone(), |ratio| format!("{time} ({ratio:.2})"))
}

/// Replaces the lines between the two marks of a file; each begins with what the first mark's line begins with, such
/// as `//! `.
pub(super) fn rewrite(path: &Path, table: &[String]) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::File { path: path.to_owned(), error };
    let text = fs::read_to_string(path).map_err(failed)?;
    let Some(text) = replaced(&text, table) else {
        return Err(failed(io::Error::other(format!("it has no lines {BEGIN} and {END}"))));
    };
    fs::write(path, text).map_err(failed)
}

fn replaced(text: &str, table: &[String]) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let begin = lines.iter().position(|line| line.ends_with(BEGIN))?;
    let end = begin + lines[begin..].iter().position(|line| line.ends_with(END))?;
    let prefix = lines[begin].strip_suffix(BEGIN)?;
    let mut written: Vec<String> = lines[..=begin].iter().map(|&line| line.to_owned()).collect();
    // Empty lines around it: otherwise the marks would be lines of the paragraph and of the table.
    let around = [String::new()];
    written.extend(
        [&around, table, &around].concat().iter().map(|line| format!("{prefix}{line}").trim_end().to_owned()),
    );
    written.extend(lines[end..].iter().map(|&line| line.to_owned()));
    Some(written.join("\n") + "\n")
}

/// Returns the days since the beginning of 1970.
pub(super) fn today() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs() / 86400)
}

/// Returns year, month and day.
fn date(mut days: u64) -> (u64, u64, u64) {
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let dates = [0, 58, 59, 789, 19_723, 20_782].map(date);
        let wanted = [(1970, 1, 1), (1970, 2, 28), (1970, 3, 1), (1972, 2, 29), (2024, 1, 1), (2026, 11, 25)];
        assert_eq!(dates, wanted);
    }

    #[test]
    fn the_lines_between_the_marks_are_replaced_and_nothing_else() {
        let table = ["| a |", "| b |"].map(str::to_owned);
        let text = format!("//! before\n//! {BEGIN}\n//! old\n//! {END}\n//! behind\n");
        let wanted =
            format!("//! before\n//! {BEGIN}\n//!\n//! | a |\n//! | b |\n//!\n//! {END}\n//! behind\n");
        assert_eq!(replaced(&text, &table), Some(wanted.clone()));
        assert_eq!(replaced(&wanted, &table), Some(wanted), "a second time changes nothing");
        assert_eq!(replaced("no marks", &table), None);
        assert_eq!(replaced(&format!("{END}\n{BEGIN}\n"), &table), None);
    }
}
