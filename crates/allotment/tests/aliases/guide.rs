//! The tables of a page of the guide: `` | `name`, `name` | [`counterpart`][file] | what is different | ``.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The second cell of what has no counterpart.
const NONE: &str = "none";

/// A row: names of another library, and what does their work here.
pub(crate) struct Row {
    pub names: Vec<String>,
    /// The sources of the counterparts; empty where there is none.
    pub sources: Vec<PathBuf>,
}

pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide")
}

/// Reads the rows of a page. Panics where a row has neither a counterpart nor a reason why there is none, or links a file
/// that does not exist.
pub(crate) fn rows(page: &str) -> Vec<Row> {
    let text = fs::read_to_string(folder().join(page)).unwrap_or_else(|error| panic!("{page}: {error}"));
    let links: HashMap<&str, &str> =
        text.lines().filter_map(|line| line.strip_prefix('[')?.split_once("]: ")).collect();
    text.lines().filter_map(|line| row(page, line, &links)).collect()
}

fn row(page: &str, line: &str, links: &HashMap<&str, &str>) -> Option<Row> {
    let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
    let names: Vec<String> = cells[0].split('`').skip(1).step_by(2).map(String::from).collect();
    if names.is_empty() {
        return None; // the head of a table
    }
    let [_, counterpart, difference] = cells[..] else { panic!("{page}: {line}: a row has three cells") };
    assert!(
        !difference.trim().is_empty(),
        "{page}: {line}: says neither what is different nor why there is none"
    );
    let sources = linked(counterpart).map(|name| {
        let link = links.get(name).unwrap_or_else(|| panic!("{page}: {line}: [{name}] is not defined"));
        folder().join(link).canonicalize().unwrap_or_else(|error| panic!("{page}: {link}: {error}"))
    });
    let sources: Vec<PathBuf> = sources.collect();
    assert_eq!(
        sources.is_empty(),
        counterpart == NONE,
        "{page}: {line}: links its counterpart, or says {NONE}"
    );
    Some(Row { names, sources })
}

/// Returns the names of the links of a cell: `file` of `` [`Allocator::free`][file] ``.
fn linked(cell: &str) -> impl Iterator<Item = &str> {
    cell.split("][").skip(1).filter_map(|rest| rest.split(']').next())
}
