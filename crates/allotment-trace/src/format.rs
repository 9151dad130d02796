//! Recognizes files of other formats, for better error messages.

/// First bytes of a file, and its format.
const MARKS: [(&[u8], &str); 15] = [
    (b"<!doctype html", "an HTML page"),
    (b"<html", "an HTML page"),
    (b"<", "XML"),
    (b"version https://git-lfs", "a pointer of Git LFS, not the file itself"),
    (b"PK\x03\x04", "a zip archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"\xfd7zXZ\0", "compressed by xz"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd"),
    (b"BZh", "compressed by bzip2"),
    (b"\x1f\x8b", "compressed by gzip twice"),
    (b"\x7fELF", "a program"),
    (b"MZ\x90\0", "a program"),
    (b"%PDF", "a PDF document"),
    (b"\xff\xfe", "text in UTF-16"),
    (b"\xfe\xff", "text in UTF-16"),
];

/// The magic of tar, after 257 bytes of the first entry's header.
const TAR: &[u8] = b"ustar";

/// Returns the format of a file that begins with these uncompressed bytes, if it is one that often lies beside
/// traces.
pub(crate) fn seen(start: &[u8]) -> Option<&'static str> {
    if start.get(257..).is_some_and(|rest| rest.starts_with(TAR)) {
        return Some("a tar archive");
    }
    let text = start.trim_ascii_start();
    if is_json(text) {
        return Some("JSON");
    }
    let begins = |mark: &[u8]| text.get(..mark.len()).is_some_and(|found| found.eq_ignore_ascii_case(mark));
    MARKS.iter().find(|(mark, _)| begins(mark)).map(|&(_, format)| format)
}

/// Returns whether the text begins like a JSON object or array; `[package]` is TOML.
fn is_json(text: &[u8]) -> bool {
    match text.split_first() {
        Some((b'{', rest)) => matches!(rest.trim_ascii_start().first(), None | Some(b'"' | b'}')),
        Some((b'[', rest)) => {
            matches!(
                rest.trim_ascii_start().first(),
                None | Some(b'{' | b'[' | b']' | b'"' | b'-' | b'0'..=b'9')
            )
        }
        _ => false,
    }
}
