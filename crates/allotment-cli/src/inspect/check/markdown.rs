//! What a check found as Markdown, for the summary of a job or a pull request.
//!
//! Texts of a file may come from anybody: in a table of a pull request they must be no HTML, no link, no mention and no end
//! of a cell.

use core::fmt::Write;

use allotment_trace::recording::Unread;

use super::Found;
use super::growth::{Compared, Row};
use crate::units::count;

pub(super) fn text(found: &Found<'_>) -> String {
    let failed = found.rules.iter().filter(|rule| !rule.ok).count();
    let mut page = String::new();
    let outcome = match failed {
        0 => format!("all {} rules hold", found.rules.len()),
        _ => format!("**{failed} of {} rules failed**", found.rules.len()),
    };
    let against = found.compared.map(|it| format!(", against {}", escaped(it.title))).unwrap_or_default();
    line(&mut page, format_args!("### GPU memory: {outcome}\n\n{}{against}\n", escaped(found.title)));
    for it in found.unread {
        line(&mut page, format_args!("> not read: {}\n", escaped(&Unread::to_string(it))));
    }
    header(&mut page, &[("", false), ("Rule", false), ("Limit", true), ("Measured", true), ("", false)]);
    for rule in found.rules {
        let [measured, limit] = &rule.texts;
        row(&mut page, &[outcome_of(rule.outcome()), rule.rule, limit, measured, &escaped(&rule.about)]);
    }
    if let Some(compared) = found.compared {
        growth(&mut page, compared);
    }
    page
}

fn growth(page: &mut String, compared: &Compared<'_>) {
    for note in &compared.notes {
        line(page, format_args!("\n{}", escaped(note)));
    }
    let ([failed, grew, shrank], [more_grew, more_shrank]) = compared.rows();
    let is_open = !failed.is_empty();
    let grew: Vec<_> = failed.into_iter().chain(grew).collect();
    if grew.is_empty() && shrank.is_empty() {
        line(page, format_args!("\nNo group has another peak than before."));
    }
    table(page, compared, "Groups that grew", &grew, more_grew, is_open);
    table(page, compared, "Groups that shrank", &shrank, more_shrank, false);
}

/// Writes a table that is folded unless it is what the reader looks for.
fn table(page: &mut String, compared: &Compared<'_>, title: &str, rows: &[Row], more: usize, is_open: bool) {
    if rows.is_empty() {
        return;
    }
    let open = if is_open { " open" } else { "" };
    let all = count((rows.len() + more) as u64);
    line(page, format_args!("\n<details{open}><summary>{title}: {all}</summary>\n"));
    header(page, &compared.headings());
    for of_group in rows {
        let mut cells = compared.cells(of_group);
        let texts = cells.len() - 2;
        cells[texts..].iter_mut().for_each(|cell| *cell = escaped(cell));
        let mut cells: Vec<_> = cells.iter().map(String::as_str).collect();
        cells[0] = outcome_of(cells[0]);
        row(page, &cells);
    }
    if more > 0 {
        line(page, format_args!("\n… and {} others", count(more as u64)));
    }
    line(page, format_args!("\n</details>"));
}

fn outcome_of(outcome: &str) -> &str {
    match outcome {
        "ok" => "✅",
        "FAILED" => "❌",
        other => other,
    }
}

fn header(page: &mut String, columns: &[(&str, bool)]) {
    row(page, &columns.iter().map(|(heading, _)| *heading).collect::<Vec<_>>());
    row(
        page,
        &columns.iter().map(|&(_, is_number)| if is_number { "--:" } else { "---" }).collect::<Vec<_>>(),
    );
}

fn row(page: &mut String, cells: &[&str]) {
    line(page, format_args!("| {} |", cells.join(" | ")));
}

fn line(page: &mut String, line: core::fmt::Arguments<'_>) {
    // A `String` takes all.
    let _ = writeln!(page, "{line}");
}

/// Returns a text that Markdown shows as it is, in a cell of a table: each character that may mean something is written as
/// its number in HTML, in which nothing is special any more.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        match letter {
            letter if letter.is_control() => escaped.push(' '),
            // What begins HTML, links, code, emphasis, mentions of people, references of issues, addresses, cells, lists.
            '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '<' | '>' | '(' | ')' | '#' | '!' | '|'
            | '~' | '&' | '@' | '$' | ':' => {
                let _ = write!(escaped, "&#{};", u32::from(letter));
            }
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_no_cell_no_code_no_html_and_no_mention() {
        let text = escaped("a|b`c`\n<img src=x> @you #1 [x](y)");
        for special in ['|', '`', '\n', '<', '>', '@', '[', '('] {
            assert!(!text.contains(special), "{special} in {text}");
        }
        assert_eq!(escaped("地形 mesh 3.5"), "地形 mesh 3.5");
        assert_eq!(escaped("a|b"), "a&#124;b");
    }
}
