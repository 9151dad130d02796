//! Call sites as people read them.

/// Returns the part of a call site that says where in a program it is: the crate's folder, the file and the line.
///
/// A compiler writes the path that the file had on the machine that built it, and a column. What stands before the crate's
/// folder is private and the same in each line of a list. The crate's folder is the one before the last `src`, else before
/// the last `tests`, `examples` or `benches`; of another absolute path, the last folder and the file are left. A text that
/// does not end with the number of a line is returned as it is.
///
/// ```
/// use allotment_analyze::short_call_site;
///
/// assert_eq!(short_call_site("/home/me/game/engine/src/sky/dome.rs:41:9"), "engine/src/sky/dome.rs:41");
/// assert_eq!(short_call_site(r"C:\game\examples\town.rs:30:5"), r"game\examples\town.rs:30");
/// assert_eq!(short_call_site("/opt/tool/lib/load.cpp:7"), "lib/load.cpp:7");
/// assert_eq!(short_call_site("src/loader.rs:42:9"), "src/loader.rs:42");
/// assert_eq!(short_call_site("a texture, of the sky"), "a texture, of the sky");
/// ```
#[must_use]
pub fn short_call_site(site: &str) -> &str {
    let Some(path) = without_number(site) else { return site };
    // Of a line and a column, the line stays.
    let (path, end) = without_number(path).map_or((path, site.len()), |inner| (inner, path.len()));
    &site[start(path)..end]
}

/// Returns what comes before `:` and a number at the end of a text.
fn without_number(text: &str) -> Option<&str> {
    let (before, number) = text.rsplit_once(':')?;
    (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(before)
}

/// Returns the path of a call site, and its line and column (0 where it has none). `None` for another text.
pub(crate) fn file_and_line(site: &str) -> Option<(&str, [u64; 2])> {
    let number = |from: &str, before: &str| from[before.len() + 1..].parse().unwrap_or(u64::MAX);
    let before = without_number(site)?;
    Some(match without_number(before) {
        Some(file) => (file, [number(before, file), number(site, before)]),
        None => (before, [number(site, before), 0]),
    })
}

/// Returns the part of a path that is shown, as [`short_call_site`] shows it.
pub(crate) fn short_path(path: &str) -> &str {
    &path[start(path)..]
}

/// Returns where the part of a path begins that is shown.
fn start(path: &str) -> usize {
    const SEPARATORS: [char; 2] = ['/', '\\'];
    // Where each folder begins, and its name. The last part is the file.
    let mut at = 0;
    let mut parts: Vec<_> = path
        .split(SEPARATORS)
        .map(|part| {
            let begin = at;
            at += part.len() + 1;
            (begin, part)
        })
        .collect();
    parts.pop();
    let last = |names: &[&str]| parts.iter().rposition(|(_, part)| names.contains(part));
    let named = |index: usize| !matches!(parts[index].1, "" | "." | "..") && !parts[index].1.ends_with(':');
    if let Some(folder) = last(&["src"]).or_else(|| last(&["tests", "examples", "benches"])) {
        let of_crate = folder.checked_sub(1).filter(|&index| named(index));
        return parts[of_crate.unwrap_or(folder)].0;
    }
    let is_absolute = parts.first().is_some_and(|(_, part)| part.is_empty() || part.ends_with(':'));
    match parts.len().checked_sub(1) {
        Some(folder) if is_absolute && named(folder) => parts[folder].0,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crates_folder_the_file_and_the_line_of_a_call_site_are_left() {
        for (site, short) in [
            ("/a/game/crates/ring/src/upload/ring.rs:30:32", "ring/src/upload/ring.rs:30"),
            ("/home/a/.cargo/registry/src/index-1/hash-0.1/src/map.rs:1:2", "hash-0.1/src/map.rs:1"),
            ("crates/game/examples/town.rs:12:3", "game/examples/town.rs:12"),
            ("/a/game/src/tests/advice.rs:5:1", "game/src/tests/advice.rs:5"),
            (r"D:\src\main.rs:5:1", r"src\main.rs:5"),
            ("/src/main.rs:5:1", "src/main.rs:5"),
            ("./src/main.rs:5:1", "src/main.rs:5"),
            ("/main.cpp:5", "/main.cpp:5"),
            ("engine/sky.cpp:5", "engine/sky.cpp:5"),
            ("main.rs:5:1", "main.rs:5"),
            ("é/src/ü.rs:5:1", "é/src/ü.rs:5"),
            ("12:3", "12:3"),
            (":1:2", ":1"),
            ("", ""),
            ("https://example/src/", "https://example/src/"),
        ] {
            assert_eq!(short_call_site(site), short, "{site}");
        }
    }
}
