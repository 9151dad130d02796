//! Which part of the library may import which: each only those below it.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// The layers from the bottom up: files and folders of `src`. What stands in one line does not import each other, but for the
/// first.
const LAYERS: &[&[&str]] = &[
    &["chunks", "log", "shrinkable_table", "slab", "sync", "table"],
    &["device"],
    &["choices"],
    &["events", "lifetime"],
    &["memory"],
    &["descriptor", "upload"],
    &["gpu"],
    &["compiled", "lib", "prelude"],
];

fn sources(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            sources(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

fn layer_of(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

/// Returns the code of a file without its comments and its unit tests, which may use the whole library.
fn code_of(text: &str) -> String {
    let code = text.split("\n#[cfg(test)]\n").next().unwrap_or(text);
    code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// Returns the modules that stand behind `crate::` in some code; of `crate::{a, b}` both.
fn imported(code: &str) -> Vec<String> {
    let name = |text: &str| -> String {
        text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let mut names = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        match rest.strip_prefix('{') {
            Some(list) => {
                // What stands within further braces belongs to the name before them.
                let mut depth = 1;
                let mut starts = true;
                for (at, c) in list.char_indices() {
                    match c {
                        '{' => depth += 1,
                        '}' => depth -= 1,
                        ',' if depth == 1 => starts = true,
                        _ if starts && !c.is_whitespace() => {
                            names.push(name(&list[at..]));
                            starts = false;
                        }
                        _ => {}
                    }
                    if depth == 0 {
                        break;
                    }
                }
            }
            None => names.push(name(rest)),
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

/// Returns `file imports module` for each import that runs up, or of a name at the root, which says no layer.
fn wrong_imports(file: &str, code: &str) -> Vec<String> {
    let module = file.split(['/', '\\']).next().unwrap_or(file).trim_end_matches(".rs");
    let Some(own) = layer_of(module) else {
        return vec![format!("{file} is of no layer: name its module in LAYERS")];
    };
    // The top says where everything is.
    if own == LAYERS.len() - 1 {
        return Vec::new();
    }
    let is_below = |layer: usize| layer < own || layer == 0;
    let wrong = |name: &String| name != module && !layer_of(name).is_some_and(is_below);
    imported(code).into_iter().filter(wrong).map(|name| format!("{file} imports {name}")).collect()
}

#[test]
fn no_layer_imports_one_above_it() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src");
    let mut files = Vec::new();
    sources(&src, &mut files).unwrap();
    assert!(files.len() > 300, "the sources are where they are expected");
    let wrong: Vec<String> = files
        .iter()
        .flat_map(|path| {
            let file = path.strip_prefix(&src).unwrap().to_string_lossy().into_owned();
            // Unit tests in files of their own.
            if file.ends_with("tests.rs") || path.components().any(|part| part.as_os_str() == "tests") {
                return Vec::new();
            }
            wrong_imports(&file, &code_of(&fs::read_to_string(path).unwrap()))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_import_that_runs_up_is_found_however_it_is_written() {
    let wrong = |code: &str| wrong_imports("events/log.rs", &code_of(code));
    assert_eq!(wrong("use crate::memory::Name;"), ["events/log.rs imports memory"]);
    assert_eq!(wrong("use crate::{device::Device, gpu::Gpu};"), ["events/log.rs imports gpu"]);
    assert_eq!(wrong("use crate::{device::{Device}, gpu::Gpu};"), ["events/log.rs imports gpu"]);
    assert_eq!(wrong("let x: crate::upload::Ring = y;"), ["events/log.rs imports upload"]);
    assert_eq!(wrong("use crate::lifetime::Tracker;"), ["events/log.rs imports lifetime"]);
    assert_eq!(wrong("use crate::Allocator;"), ["events/log.rs imports Allocator"]);
    assert_eq!(wrong_imports("strange.rs", "").len(), 1);
    let fine = "use crate::device::Device;\n/// [`Gpu`](crate::gpu::Gpu)\n#[cfg(test)]\nuse crate::Gpu;";
    assert!(wrong(fine).is_empty());
}
