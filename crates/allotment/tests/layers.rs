//! Which part of the library may import which: each only those below it.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// The layers from the bottom up: files and folders of `src`. What stands in one line does not import each other, but for the
/// first.
const LAYERS: &[&[&str]] = &[
    &["chunks", "hash", "log", "shrinkable_table", "slab", "sync", "table"],
    &["device"],
    &["choices"],
    &["events", "lifetime"],
    &["memory"],
    &["descriptor", "transient", "upload"],
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

/// Returns whether a file, by its path within the sources, has unit tests alone.
fn is_test(file: &str) -> bool {
    file.ends_with("tests.rs") || file.split(['/', '\\']).any(|part| part == "tests")
}

fn layer_of(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

/// Returns the code of a file without its comments and its unit tests, which may use the whole library.
fn code_of(text: &str) -> String {
    let code = text.split("\n#[cfg(test)]\n").next().unwrap_or(text);
    code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// Returns the names that stand behind `path` in some code: behind `crate::` the modules; of `crate::{a, b}` both.
fn imported(code: &str, path: &str) -> Vec<String> {
    let name = |text: &str| -> String {
        text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let mut names = Vec::new();
    for (at, _) in code.match_indices(path) {
        // `super::` alone, and not as the end of `super::super::`.
        if code[..at].ends_with("::") {
            continue;
        }
        let rest = &code[at + path.len()..];
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
    imported(code, "crate::").into_iter().filter(wrong).map(|name| format!("{file} imports {name}")).collect()
}

/// The parts of `memory` from the bottom up. Each imports only those before it.
const PARTS_OF_MEMORY: &[&str] = &[
    "mover",
    "time",
    "token",
    "request",
    "statistics",
    "descriptors",
    "writers",
    "leak_report",
    "driver",
    "block_set",
    "pool",
    "allocator",
    "reports",
    "defragmentation",
    "resource",
];

/// Returns in which part of `memory` each name is defined that a module exports: `memory` itself, or the part `own`.
fn parts_of_names(module: &str, own: Option<&str>) -> Vec<(String, String)> {
    let mut parts = Vec::new();
    for statement in module.split(';') {
        let Some((shown, path)) = statement.split_once("use ") else { continue };
        // What a module imports for itself, or shows of the rest of the library, is none of it; nor what `memory` shows of
        // its own modules once more, for the crate.
        if !shown.trim_end().rsplit('\n').next().is_some_and(|line| line.trim_start().starts_with("pub"))
            || path.starts_with("crate::")
            || own.is_none() && path.starts_with("self::")
        {
            continue;
        }
        let above = path.strip_prefix("super::");
        let Some((first, names)) = above.unwrap_or(path).split_once("::") else { continue };
        let part = if above.is_some() { first } else { own.unwrap_or(first) };
        let names = names.split(|c: char| !c.is_alphanumeric() && c != '_');
        parts.extend(names.filter(|name| !name.is_empty()).map(|name| (name.to_owned(), part.to_owned())));
    }
    parts
}

/// Returns `file imports part` for each import of a part of `memory` that is above the file's own.
fn wrong_in_memory(file: &str, code: &str, names: &[(String, String)]) -> Vec<String> {
    let path: Vec<&str> = file.split(['/', '\\']).collect();
    let own = path[0].trim_end_matches(".rs");
    let Some(rank) = PARTS_OF_MEMORY.iter().position(|part| *part == own) else {
        return vec![format!("{file} is of no part: name it in PARTS_OF_MEMORY")];
    };
    // What a folder shows of others is no import.
    let shown =
        |statement: &&str| !(file.ends_with("mod.rs") && statement.trim_start().starts_with("pub use"));
    let code = &code.split_inclusive(';').filter(shown).collect::<String>();
    // What a file calls `memory` from where it stands: a `mod.rs` is its folder.
    let depth = path.len() - usize::from(path.last() == Some(&"mod.rs"));
    let mut imports = imported(code, "crate::memory::");
    imports.extend(imported(code, &"super::".repeat(depth)));
    let part = |name: String| {
        let exported = names.iter().find(|(exported, _)| *exported == name);
        exported.map_or(name, |(_, part)| part.clone())
    };
    let is_up = |part: &String| PARTS_OF_MEMORY[rank + 1..].contains(&part.as_str());
    let wrong: Vec<_> = imports.into_iter().map(part).filter(is_up).collect();
    wrong.into_iter().map(|part| format!("memory/{file} imports {part}")).collect()
}

/// The one file of a part that others may name: `memory` shows it as a module.
const SHOWN_FILES: &[(&str, &str)] = &[("reports", "dump_schema")];

/// Returns each part of `memory` with each module that is a file or a folder of it.
fn files_of_parts(memory: &Path) -> Vec<(String, String)> {
    let mut inside = Vec::new();
    for part in PARTS_OF_MEMORY {
        // Some are single files.
        for entry in fs::read_dir(memory.join(part)).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().trim_end_matches(".rs").to_owned();
            inside.push(((*part).to_owned(), name));
        }
    }
    inside
        .retain(|(part, module)| module != "mod" && !SHOWN_FILES.contains(&(part.as_str(), module.as_str())));
    inside
}

/// Returns `file imports part::module` for each import from a file inside another part of `memory`, which does not show it in
/// its `mod.rs`. The file may be any of the library.
fn imports_from_inside(file: &str, code: &str, inside: &[(String, String)]) -> Vec<String> {
    let mut path: Vec<&str> = file.split(['/', '\\']).collect();
    if path.last() == Some(&"mod.rs") {
        path.pop();
    }
    let in_memory = path.first() == Some(&"memory");
    let own = path.get(1).filter(|_| in_memory).map_or("", |part| part.trim_end_matches(".rs"));
    // What the file calls `memory`; the modules that are written out in `memory/mod.rs` are one deeper.
    let mut memory = vec!["crate::memory::".to_owned()];
    if in_memory {
        memory.push("super::".repeat(path.len().max(2) - 1));
    }
    let mut wrong = Vec::new();
    for part in PARTS_OF_MEMORY.iter().filter(|part| **part != own) {
        for memory in &memory {
            for module in imported(code, &format!("{memory}{part}::")) {
                if inside.iter().any(|it| it.0 == *part && it.1 == module) {
                    wrong.push(format!("{file} imports {part}::{module}"));
                }
            }
        }
    }
    wrong
}

#[test]
fn what_a_part_of_memory_shows_stands_in_its_mod_file() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src");
    let inside = files_of_parts(&src.join("memory"));
    assert!(inside.len() > 80, "the files are where they are expected");
    let mut files = Vec::new();
    sources(&src, &mut files).unwrap();
    let mut wrong = Vec::new();
    for path in files {
        let file = path.strip_prefix(&src).unwrap().to_string_lossy().into_owned();
        wrong.extend(imports_from_inside(&file, &code_of(&fs::read_to_string(&path).unwrap()), &inside));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_import_from_inside_a_part_is_found_however_it_is_written() {
    let inside = [("pool".to_owned(), "moves".to_owned())];
    let wrong = |file: &str, code: &str| imports_from_inside(file, &code_of(code), &inside);
    let found = ["memory/allocator/free.rs imports pool::moves"];
    assert_eq!(wrong("memory/allocator/free.rs", "use crate::memory::pool::moves::MoveEnd;"), found);
    assert_eq!(wrong("memory/allocator/free.rs", "use crate::memory::pool::{Pool, moves::MoveEnd};"), found);
    assert_eq!(wrong("memory/allocator/free.rs", "use super::super::pool::moves;"), found);
    assert_eq!(
        wrong("memory/allocator/mod.rs", "fn f(it: super::pool::moves::MoveEnd) {}"),
        ["memory/allocator/mod.rs imports pool::moves"]
    );
    assert_eq!(
        wrong("memory/mod.rs", "pub mod a {\n    pub use super::pool::moves::MoveEnd;\n}"),
        ["memory/mod.rs imports pool::moves"]
    );
    assert_eq!(
        wrong("gpu/mod.rs", "use crate::memory::pool::moves::MoveEnd;"),
        ["gpu/mod.rs imports pool::moves"]
    );
    let fine = "use crate::memory::pool::{MoveEnd, Pool};\nuse crate::memory::token::moves;";
    assert!(wrong("memory/allocator/free.rs", fine).is_empty());
    assert!(wrong("memory/pool/room.rs", "use crate::memory::pool::moves::MoveEnd;").is_empty(), "its own");
    assert!(wrong("gpu/mod.rs", "use super::pool::moves::Other;").is_empty(), "another folder");
}

/// Returns the names of the methods of `Allocator` that a file defines.
fn methods_of_the_allocator(code: &str) -> Vec<String> {
    let blocks = code.split("\nimpl").skip(1).filter_map(|block| block.split("\n}").next());
    let of_it = blocks.filter(|block| {
        let head = block.split('{').next().unwrap_or_default();
        head.contains(" Allocator<") && !head.contains(" for ")
    });
    of_it.flat_map(|block| imported(&block.replace("fn ", "fn::"), "fn::")).collect()
}

/// Returns `file calls method` for each call of a method that only parts above the file's own add to the allocator. No import
/// shows these. `defined` has each function with its part.
fn calls_up(
    file: &str,
    code: &str,
    methods: &[(String, String)],
    defined: &[(String, String)],
) -> Vec<String> {
    let rank = |part: &str| PARTS_OF_MEMORY.iter().position(|other| *other == part);
    let Some(own) = rank(&part_of_file(file)) else { return Vec::new() };
    let is_called = |method: &str| {
        let path = format!("Self::{method}");
        let mut by_path = code.split(&path).skip(1);
        let is_it = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        ["self", "allocator"].iter().any(|it| code.contains(&format!("{it}.{method}("))) || by_path.any(is_it)
    };
    let is_above = |(method, part): &&(String, String)| {
        let other = |(name, part): &(String, String)| name == method && rank(part).is_none_or(|at| at <= own);
        rank(part).is_some_and(|at| at > own) && !defined.iter().any(other)
    };
    let above = methods.iter().filter(is_above).filter(|(method, _)| is_called(method));
    above.map(|(method, _)| format!("memory/{file} calls {method}")).collect()
}

fn part_of_file(file: &str) -> String {
    file.split(['/', '\\']).next().unwrap_or(file).trim_end_matches(".rs").to_owned()
}

#[test]
fn no_part_of_memory_calls_what_one_above_it_adds_to_the_allocator() {
    let memory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src/memory");
    let mut files = Vec::new();
    sources(&memory, &mut files).unwrap();
    let read = |path: PathBuf| {
        let file = path.strip_prefix(&memory).unwrap().to_string_lossy().into_owned();
        (file != "mod.rs" && !is_test(&file)).then(|| (file, code_of(&fs::read_to_string(&path).unwrap())))
    };
    let files: Vec<_> = files.into_iter().filter_map(read).collect();
    let methods: Vec<_> = files
        .iter()
        .flat_map(|(file, code)| {
            methods_of_the_allocator(code).into_iter().map(|method| (method, part_of_file(file)))
        })
        .collect();
    let functions = |code: &str| imported(&code.replace("fn ", "fn::"), "fn::");
    let defined: Vec<_> = files
        .iter()
        .flat_map(|(file, code)| functions(code).into_iter().map(|name| (name, part_of_file(file))))
        .collect();
    for (method, part) in [("free", "allocator"), ("reports", "reports"), ("take_offer", "defragmentation")] {
        assert!(methods.contains(&(method.to_owned(), part.to_owned())), "{method} of {part}");
    }
    let wrong: Vec<_> =
        files.iter().flat_map(|(file, code)| calls_up(file, code, &methods, &defined)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_call_that_runs_up_within_memory_is_found_however_it_is_written() {
    let code = "impl<D: Device> Allocator<D> {\n    pub fn dump(&self) {\n    }\n}\nimpl Clone for Allocator<D> {\n    fn clone() {}\n}";
    let methods: Vec<_> = methods_of_the_allocator(&format!("\n{code}"))
        .into_iter()
        .map(|it| (it, "reports".to_owned()))
        .collect();
    assert_eq!(methods, [("dump".to_owned(), "reports".to_owned())]);
    let wrong = |file: &str, code: &str| calls_up(file, code, &methods, &methods);
    assert_eq!(wrong("pool/mod.rs", "allocator.dump()"), ["memory/pool/mod.rs calls dump"]);
    assert_eq!(wrong("allocator/free.rs", "self.dump();"), ["memory/allocator/free.rs calls dump"]);
    assert_eq!(wrong("allocator/free.rs", "map(Self::dump)"), ["memory/allocator/free.rs calls dump"]);
    assert!(wrong("allocator/free.rs", "self.dumped(); Self::dump_all").is_empty());
    assert!(wrong("resource/mod.rs", "self.dump()").is_empty());
    let own = [("dump".to_owned(), "pool".to_owned())];
    assert!(calls_up("pool/mod.rs", "self.dump()", &methods, &own).is_empty(), "a method of the pool's own");
}

#[test]
fn no_part_of_memory_imports_one_above_it() {
    let memory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src/memory");
    let module = |path: &str| code_of(&fs::read_to_string(memory.join(path)).unwrap());
    let mut names = parts_of_names(&module("mod.rs"), None);
    // Two parts show their names themselves, and `memory` has them from there.
    for part in ["reports", "defragmentation"] {
        names.extend(parts_of_names(&module(&format!("{part}/mod.rs")), Some(part)));
    }
    let part_of = |name: &str| names.iter().find(|(exported, _)| exported == name).map(|(_, part)| &**part);
    let found = ["AllocationError", "BlockGrowth", "Defragmenter", "DefragmentationDesc"].map(part_of);
    assert_eq!(found, [Some("request"), Some("pool"), Some("resource"), Some("defragmentation")]);
    let mut files = Vec::new();
    sources(&memory, &mut files).unwrap();
    let (mut read, mut wrong) = (0, Vec::new());
    for path in files {
        let file = path.strip_prefix(&memory).unwrap().to_string_lossy().into_owned();
        let is_test = is_test(&file);
        if file != "mod.rs" && !is_test {
            read += 1;
            wrong.extend(wrong_in_memory(&file, &code_of(&fs::read_to_string(&path).unwrap()), &names));
        }
    }
    assert!(read > 100, "read {read} files");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_import_that_runs_up_within_memory_is_found_however_it_is_written() {
    let names = parts_of_names(
        "pub use request::error::{AccessError, AllocationError};\npub use pool::PoolDesc;",
        None,
    );
    let wrong = |file: &str, code: &str| wrong_in_memory(file, &code_of(code), &names);
    assert_eq!(
        wrong("block_set/live.rs", "use crate::memory::pool::Rules;"),
        ["memory/block_set/live.rs imports pool"]
    );
    assert_eq!(
        wrong("block_set/live.rs", "use crate::memory::{Name, PoolDesc};"),
        ["memory/block_set/live.rs imports pool"]
    );
    assert_eq!(
        wrong("block_set/mod.rs", "use super::pool::Rules;"),
        ["memory/block_set/mod.rs imports pool"]
    );
    assert_eq!(
        wrong("block_set/live.rs", "use super::super::pool::Rules;"),
        ["memory/block_set/live.rs imports pool"]
    );
    assert_eq!(wrong("time.rs", "use super::AllocationError;"), ["memory/time.rs imports request"]);
    assert!(
        wrong("pool/mod.rs", "use super::block_set::Block; use crate::memory::AllocationError;").is_empty()
    );
    assert!(wrong("pool/plan.rs", "use super::request::Own;").is_empty(), "a file of the pool itself");
}

#[test]
fn no_layer_imports_one_above_it() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src");
    let mut files = Vec::new();
    sources(&src, &mut files).unwrap();
    let mut read = 0;
    let wrong: Vec<String> = files
        .iter()
        .flat_map(|path| {
            let file = path.strip_prefix(&src).unwrap().to_string_lossy().into_owned();
            // Unit tests in files of their own.
            if is_test(&file) {
                return Vec::new();
            }
            read += 1;
            wrong_imports(&file, &code_of(&fs::read_to_string(path).unwrap()))
        })
        .collect();
    assert!(read > 300, "the sources are where they are expected");
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
