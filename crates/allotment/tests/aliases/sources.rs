//! The aliases for the search of the documentation, as they are written in the sources, and the names of items.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the source files of the crates with a public interface that programs move to.
pub(crate) fn files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for folder in ["../src", "../../allotment-suballoc/src"] {
        collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut files);
    }
    files
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else {
            files.push(path);
        }
    }
}

/// Returns the aliases in a source: of `#[doc(alias = "one")]` and of `#[doc(alias("one", "another"))]`.
pub(crate) fn aliases(source: &Path) -> Vec<String> {
    let text = fs::read_to_string(source).unwrap();
    let attributes = text.split("#[doc(alias").skip(1).filter_map(|rest| rest.split(")]").next());
    attributes.flat_map(|list| list.split('"').skip(1).step_by(2)).map(String::from).collect()
}

/// Returns true where the search for a name finds an item of a source: by an alias, or by its own name. Case and underscores
/// count for nothing in it.
pub(crate) fn finds(source: &Path, name: &str) -> bool {
    let text = fs::read_to_string(source).unwrap();
    let mut found = aliases(source).into_iter().chain(text.lines().filter_map(declared).map(String::from));
    found.any(|it| searched(&it) == searched(name))
}

/// Returns true where a source declares an item of exactly this name.
pub(crate) fn declares(source: &Path, name: &str) -> bool {
    fs::read_to_string(source).unwrap().lines().filter_map(declared).any(|it| it == name)
}

/// Returns the name of the public item, of the field, of the trait's method or of the variant without data that a line
/// declares.
fn declared(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let public = line.strip_prefix("pub ");
    let mut rest = public.unwrap_or(line);
    let whole = rest;
    for word in ["unsafe ", "fn ", "struct ", "enum ", "const "] {
        rest = rest.strip_prefix(word).unwrap_or(rest);
    }
    if public.is_none() && rest.len() == whole.len() {
        return line.strip_suffix(',').filter(|name| name.starts_with(char::is_uppercase));
    }
    rest.split(|c: char| !(c.is_alphanumeric() || c == '_')).next()
}

fn searched(name: &str) -> String {
    name.replace('_', "").to_lowercase()
}
