//! The text of a document: of any encoding that producers write, and with the mistakes of those that are known.

use super::builder::Builder;
use super::limits::Budget;
use super::source::Source;
use super::{ImportError, ImportErrorKind, Position};
use crate::recording::UnreadKind;

use std::io::Read;

/// The text of a document, and what was done to read it.
pub(super) struct Document {
    pub(super) text: String,
    /// Strings that are not UTF-8, and were read as Latin-1, or half of a UTF-16 pair.
    other_encoding: u64,
    /// Backslashes that VMA 2.0 writes without another one.
    backslashes: u64,
    /// Names of custom pools, which VMA 3.0.0 writes as no JSON.
    pool_names: u64,
}

impl Document {
    /// Reads the rest of a file.
    pub(super) fn read(source: &mut Source<'_>, budget: &Budget) -> Result<Self, ImportError> {
        let mut bytes = Vec::new();
        if let Err(error) = source.read_to_end(&mut bytes) {
            let position = Some(Position::Byte(source.position()));
            return Err(ImportError::new(position, source.failure(error)));
        }
        let whole = |kind| ImportError::new(None, kind);
        budget.charge(bytes.capacity()).map_err(whole)?;
        // Programs write the zero at the end of C's strings as well.
        while bytes.last() == Some(&0) && !is_utf16(&bytes) {
            bytes.pop();
        }
        let mut found = Self { text: String::new(), other_encoding: 0, backslashes: 0, pool_names: 0 };
        found.text = if is_utf16(&bytes) {
            budget.charge(2 * bytes.len()).map_err(whole)?;
            from_utf16(&bytes, &mut found.other_encoding)
        } else {
            match String::from_utf8(bytes) {
                Ok(text) => text,
                Err(error) => {
                    let bytes = error.into_bytes();
                    budget.charge(2 * bytes.len()).map_err(whole)?;
                    from_latin1(&bytes, &mut found.other_encoding)
                }
            }
        };
        if found.text.starts_with('\u{feff}') {
            found.text.drain(..'\u{feff}'.len_utf8());
        }
        Ok(found)
    }

    /// Returns the same document without the mistakes of producers that are known. `None` where it has none of them.
    #[cold]
    pub(super) fn mended(&self, budget: &Budget) -> Result<Option<Self>, ImportErrorKind> {
        budget.charge(2 * self.text.len())?;
        let mut new =
            Self { text: String::new(), other_encoding: self.other_encoding, backslashes: 0, pool_names: 0 };
        new.text = mended(&self.text, &mut new.backslashes, &mut new.pool_names);
        Ok((new.backslashes + new.pool_names > 0).then_some(new))
    }

    /// Tells what was done to read the text.
    pub(super) fn tell(&self, builder: &mut Builder<'_>) -> Result<(), ImportErrorKind> {
        if self.other_encoding > 0 {
            let text = "names that are not UTF-8 are shown as Latin-1; have the program write UTF-8";
            builder.unread(UnreadKind::Encoding, self.other_encoding, text)?;
        }
        if self.backslashes > 0 {
            let text = "backslashes in names are not escaped, as VMA 2.0 writes them, which is broken JSON; they were \
                        read as they stand, update VMA to 2.1 or newer";
            builder.unread(UnreadKind::Damaged, self.backslashes, text)?;
        }
        if self.pool_names > 0 {
            let text = "names of custom pools are broken JSON, as VMA 3.0.0 writes them; they were put together \
                        again, update VMA to 3.0.1 or newer";
            builder.unread(UnreadKind::Damaged, self.pool_names, text)?;
        }
        Ok(())
    }
}

/// Returns true for text in UTF-16: with a byte order mark, as D3D12MA's strings have one, or a bracket with a zero.
pub(super) fn is_utf16(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\xff\xfe")
        || bytes.starts_with(b"\xfe\xff")
        || bytes.starts_with(b"{\0")
        || bytes.starts_with(b"\0{")
}

fn from_utf16(bytes: &[u8], halves: &mut u64) -> String {
    let big = bytes.starts_with(b"\xfe\xff") || bytes.starts_with(b"\0");
    let units = bytes.chunks_exact(2).map(|pair| {
        let pair = [pair[0], pair[1]];
        if big { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) }
    });
    let units = units.take_while(|&unit| unit != 0);
    let chars = char::decode_utf16(units).map(|found| {
        found.unwrap_or_else(|_| {
            *halves += 1;
            char::REPLACEMENT_CHARACTER
        })
    });
    chars.collect()
}

/// Reads each string that is not UTF-8 as Latin-1, in which each byte is a character, and the rest as it is.
fn from_latin1(bytes: &[u8], strings: &mut u64) -> String {
    let mut text = String::with_capacity(bytes.len() + bytes.len() / 8);
    for part in StringParts(bytes) {
        match core::str::from_utf8(part) {
            Ok(part) => text.push_str(part),
            Err(_) => {
                *strings += 1;
                text.extend(part.iter().map(|&byte| char::from(byte)));
            }
        }
    }
    text
}

/// The contents of the strings of a JSON text, and what is between them, in turn.
struct StringParts<'a>(&'a [u8]);

impl<'a> Iterator for StringParts<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.0.is_empty() {
            return None;
        }
        // Up to and with the next quotation mark that no backslash is before.
        let mut at = 0;
        while let Some(&byte) = self.0.get(at) {
            at += if byte == b'\\' { 2 } else { 1 };
            if byte == b'"' {
                break;
            }
        }
        let (part, rest) = self.0.split_at(usize::min(at, self.0.len()));
        self.0 = rest;
        Some(part)
    }
}

/// Returns where the contents of a string end.
fn end_of_string(text: &str) -> usize {
    let mut escaped = false;
    let end = text.bytes().position(|byte| {
        let is_end = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        is_end
    });
    end.unwrap_or(text.len())
}

/// Returns JSON of what VMA 2.0 and 3.0.0 write:
///
/// ```text
///  2.0     "UserData": "C:\art"                   "UserData": "C:\\art"
///  3.0.0   "Name": "0,                            "Name": "0 - frames"
///          " - ": "frames"",
/// ```
fn mended(text: &str, backslashes: &mut u64, pool_names: &mut u64) -> String {
    const NAME: &str = "\"Name\": \"";
    const MIDDLE: &str = "\" - \": \"";
    let mut out = String::with_capacity(text.len() + 64);
    let mut rest = text;
    while let Some(at) = rest.find(['\\', '\n', 'N']) {
        // The beginning of a pool's name ends in a comma at the end of its line.
        let (before, from) = rest.split_at(at);
        if let Some(middle) = from.strip_prefix('N').and_then(|_| {
            let line = before.ends_with('"').then(|| from.strip_prefix(&NAME[1..])).flatten()?;
            let digits = line.bytes().take_while(u8::is_ascii_digit).count();
            let after = line[digits..].strip_prefix(',')?.trim_ascii_start();
            let name = after.strip_prefix(MIDDLE)?;
            (digits > 0).then_some((&line[..digits], name))
        }) {
            let (digits, name) = middle;
            let end = end_of_string(name);
            *pool_names += 1;
            out.push_str(before);
            out.push_str(&NAME[1..]);
            out.push_str(digits);
            out.push_str(" - ");
            out.push_str(&name[..end]);
            // The name ends with two quotation marks.
            rest = name[end..].strip_prefix('"').unwrap_or_default();
            continue;
        }
        out.push_str(before);
        match from.as_bytes() {
            [b'\\', b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' | b'u', ..] => {
                out.push_str(&from[..2]);
                rest = &from[2..];
            }
            [b'\\', ..] => {
                *backslashes += 1;
                out.push_str("\\\\");
                rest = &from[1..];
            }
            _ => {
                out.push_str(&from[..1]);
                rest = &from[1..];
            }
        }
    }
    out.push_str(rest);
    out
}
