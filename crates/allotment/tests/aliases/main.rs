//! Who knows VMA, D3D12MA, vk-mem or gpu-allocator finds each of its names: in the guide, with what does its work here, and
//! as an alias for the search of the documentation. And what else is checked of the
//! pages: quotes of examples, and links.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it should")]

mod guide;
mod links;
mod names;
mod quotes;
mod sources;

use std::collections::BTreeSet;
use std::fs;

use guide::{Counterpart, Row};
use names::LIBRARIES;

/// Returns what a name is searched by: that of a method without its type. The search takes `Pool::SetName` for a path of
/// this crate.
fn alias_of(name: &str) -> &str {
    name.rsplit("::").next().unwrap()
}

/// Returns false for methods with a type before them that are one word, such as `Resource::resource`: the word alone finds
/// too much, or finds its counterpart already.
fn needs_alias(name: &str) -> bool {
    !name.contains("::") || alias_of(name).contains(|c: char| c == '_' || c.is_uppercase())
}

fn rows_with_a_counterpart() -> impl Iterator<Item = (&'static str, Row)> {
    let rows = |page| guide::rows(page).into_iter().map(move |row| (page, row));
    let all = LIBRARIES.iter().flat_map(move |library| rows(library.page));
    all.filter(|(_, row)| !row.counterparts.is_empty())
}

#[test]
fn each_name_stands_in_the_guide_once_and_nothing_else_does() {
    for library in &LIBRARIES {
        let mut left: BTreeSet<_> = library.names().collect();
        for name in guide::rows(library.page).iter().flat_map(|row| &row.names) {
            assert!(left.remove(name.as_str()), "{}: {name} is there twice, or is no name", library.page);
        }
        assert!(left.is_empty(), "{} has no row for {left:?}", library.page);
    }
}

#[test]
fn each_name_with_a_counterpart_is_an_alias_of_it() {
    for (page, row) in rows_with_a_counterpart() {
        for name in row.names.iter().filter(|name| needs_alias(name)) {
            let alias = alias_of(name);
            let found = row.counterparts.iter().any(|it| sources::finds(&it.source, alias));
            assert!(found, "{page}: nothing that the row of {name} links has the alias {alias}");
        }
    }
}

#[test]
fn each_counterpart_is_where_its_link_leads() {
    for (page, row) in rows_with_a_counterpart() {
        for Counterpart { item, source } in &row.counterparts {
            assert!(sources::declares(source, item), "{page}: {item} is not in {}", source.display());
        }
    }
}

#[test]
fn each_alias_is_a_name_that_has_a_counterpart() {
    let rows: Vec<Row> = rows_with_a_counterpart().map(|(_, row)| row).collect();
    let known: BTreeSet<&str> = rows.iter().flat_map(|row| &row.names).map(|name| alias_of(name)).collect();
    for source in sources::files() {
        for alias in sources::aliases(&source) {
            assert!(
                known.contains(alias.as_str()),
                "{}: no row with a counterpart has {alias}",
                source.display()
            );
        }
    }
}

#[test]
fn the_readme_leads_to_each_page() {
    let readme = fs::read_to_string(guide::folder().join("../../README.md")).unwrap();
    for library in &LIBRARIES {
        assert!(readme.contains(&format!("(docs/guide/{})", library.page)), "{}", library.page);
    }
}
