//! The width of a line, and how texts are made to fit it.

use console::{Term, measure_text_width};

/// Columns of a table where standard output is a pipe or a file: those of a log. What is cut is whole in the JSON output.
const OF_PIPES: usize = 160;

/// Returns the columns of a line: those of `COLUMNS`, which a person sets, or else of the terminal; `None` in a pipe.
pub(super) fn of_terminal() -> Option<usize> {
    let asked = std::env::var("COLUMNS").ok().and_then(|text| text.trim().parse::<u16>().ok());
    let terminal = Term::stdout();
    let size = || terminal.size_checked().filter(|_| terminal.is_term()).map(|(_, columns)| columns);
    asked.filter(|&columns| columns > 0).or_else(size).map(usize::from)
}

/// Returns the columns of a table.
pub(super) fn of_tables() -> usize {
    of_terminal().unwrap_or(OF_PIPES)
}

/// Shortens a text to some columns. Its end stays, in which names of one kind and lines of one program differ; of a text that
/// is no path, some of its beginning stays as well.
pub(super) fn shorten(text: &str, columns: usize) -> String {
    // Most texts are short, and to measure one looks at each of its letters.
    if text.len() <= columns || measure_text_width(text) <= columns {
        return text.to_owned();
    }
    let is_path = text.contains(['/', '\\']) && !text.contains(' ');
    let head = if is_path { 0 } else { columns.saturating_sub(1) / 3 };
    let tail = columns.saturating_sub(1 + head);
    let (begin, mut end) = (taken(text.chars(), head), text.len() - taken(text.chars().rev(), tail));
    if is_path {
        // A whole folder, or none.
        end += text[end..].find(['/', '\\']).unwrap_or(0);
    }
    format!("{}…{}", &text[..begin], &text[end..])
}

/// The bytes of as many letters as fit in some columns.
fn taken(letters: impl Iterator<Item = char>, columns: usize) -> usize {
    let (mut bytes, mut used) = (0, 0);
    for letter in letters {
        used += measure_text_width(letter.encode_utf8(&mut [0; 4]));
        if used > columns {
            break;
        }
        bytes += letter.len_utf8();
    }
    bytes
}

/// Breaks a sentence into lines of some columns, at spaces. A word that is longer stands alone.
pub(super) fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let Some(line) = lines.last_mut() else { break };
        if line.is_empty() {
            line.push_str(word);
        } else if measure_text_width(line) + 1 + measure_text_width(word) <= columns {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// Prints a sentence in lines that fit the terminal. In a pipe it is one line.
pub(super) fn say_wrapped(text: &str) {
    match of_terminal() {
        Some(columns) => wrap(text, columns).iter().for_each(|line| say!("{line}")),
        None => say!("{text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_end_and_some_of_its_beginning() {
        assert_eq!(shorten("layer", 5), "layer");
        assert_eq!(shorten("transformer.h.12.attn.c_proj.weight", 16), "trans…roj.weight");
        assert_eq!(shorten("sky cube map and 37 others", 16), "sky c… 37 others");
        assert_eq!(shorten("abcdef", 1), "…");
        assert_eq!(shorten("abcdef", 2), "…f");
    }

    #[test]
    fn a_path_keeps_its_file_and_line() {
        assert_eq!(shorten("crates/town/src/streaming/textures.rs:88", 17), "…/textures.rs:88");
        assert_eq!(shorten(r"C:\town\src\textures.rs:88", 17), r"…\textures.rs:88");
    }

    #[test]
    fn letters_of_two_columns_are_not_cut_in_half() {
        let short = shorten("地形の法線と空の立方体", 9);
        assert!(measure_text_width(&short) <= 9, "{short}");
        assert!(short.ends_with("方体") && short.starts_with('地'), "{short}");
    }

    #[test]
    fn a_sentence_is_broken_at_its_spaces() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("a terribly", 3), ["a", "terribly"]);
        assert_eq!(wrap("", 3), [""]);
    }
}
