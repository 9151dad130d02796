//! The tables of a page of the guide: `` | `name`, `name` | [`counterpart`][file] | what is different | ``.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The second cell of what has no counterpart.
const NONE: &str = "none";

/// A row: names of another library, and what does their work here.
pub(crate) struct Row {
    pub names: Vec<String>,
    /// Empty where there is none.
    pub counterparts: Vec<Counterpart>,
}

/// An item of Allotment, as a row links it.
pub(crate) struct Counterpart {
    /// The name without its type.
    pub item: String,
    pub source: PathBuf,
}

pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/guide")
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
    assert!(!difference.trim().is_empty(), "{page}: {line}: says nothing of the difference");
    let counterparts = linked(counterpart).map(|(path, name)| {
        let link = links.get(name).unwrap_or_else(|| panic!("{page}: {line}: [{name}] is not defined"));
        let source = folder().join(link);
        assert!(source.is_file(), "{page}: {link}: there is no such file");
        Counterpart { item: path.rsplit("::").next().unwrap().into(), source }
    });
    let counterparts: Vec<Counterpart> = counterparts.collect();
    let says_none = counterpart == NONE;
    assert_eq!(counterparts.is_empty(), says_none, "{page}: {line}: links a counterpart, or says {NONE}");
    Some(Row { names, counterparts })
}

/// Returns the text and the name of the links of a cell: `Allocator::free` and `file` of `` [`Allocator::free`][file] ``.
fn linked(cell: &str) -> impl Iterator<Item = (&str, &str)> {
    cell.split("[`").skip(1).filter_map(|link| {
        let (text, rest) = link.split_once("`][")?;
        Some((text, rest.split_once(']')?.0))
    })
}
