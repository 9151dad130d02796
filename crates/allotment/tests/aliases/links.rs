//! The links between the pages of the repository, and from them to its files.

use std::fs;
use std::path::{Path, PathBuf};

use crate::guide;

/// Returns the pages: those in the root, and those below `docs`.
fn pages() -> Vec<PathBuf> {
    let docs = guide::folder().join("..");
    let mut pages = Vec::new();
    let mut folders = vec![docs.clone(), docs.join("design"), docs.join("guide"), docs.join("measurements")];
    folders.push(docs.join(".."));
    for folder in folders {
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        pages.extend(files.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    }
    pages
}

/// Returns the targets of the links of a page that are files: `to` of `[text](to#part)` and of `[name]: to`. Code is left out:
/// an index with brackets and a call after it looks like a link.
fn files(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (number, block) in text.split("```").enumerate() {
        if number % 2 == 1 {
            continue;
        }
        found.extend(block.split("](").skip(1).filter_map(|rest| rest.split(')').next()));
        found.extend(block.lines().filter_map(|line| Some(line.strip_prefix('[')?.split_once("]: ")?.1)));
    }
    let inside = found.into_iter().filter(|to| !to.contains("://") && !to.contains("::"));
    inside.filter_map(|to| to.split('#').next()).filter(|to| !to.is_empty()).collect()
}

#[test]
fn each_link_of_a_page_leads_to_a_file() {
    let pages = pages();
    assert!(pages.len() > 50, "pages were found: {}", pages.len());
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        for to in files(&text) {
            assert!(page.parent().unwrap_or(Path::new("")).join(to).exists(), "{}: {to}", page.display());
        }
    }
}

#[test]
fn the_index_of_the_design_notes_leads_to_each() {
    let folder = guide::folder().join("../design");
    let index = fs::read_to_string(folder.join("README.md")).unwrap();
    for page in fs::read_dir(folder).unwrap() {
        let page = page.unwrap().file_name().into_string().unwrap();
        assert!(page == "README.md" || index.contains(&format!("]({page})")), "{page}");
    }
}

#[test]
fn each_measurement_is_in_the_index() {
    let folder = guide::folder().join("../measurements");
    let index = fs::read_to_string(folder.join("README.md")).unwrap();
    for page in fs::read_dir(folder).unwrap() {
        let page = page.unwrap().file_name().into_string().unwrap();
        assert!(page == "README.md" || index.contains(&format!("]({page})")), "{page}");
    }
}
