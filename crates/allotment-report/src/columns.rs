//! Named columns of integers as bytes: the form in which the page gets its data.
//!
//! One column is its name (a length and UTF-8), its coding (one byte), the count of its values, the count of its bytes
//! and the bytes. All counts and values are little-endian base-128 integers. The page decodes a column when it first
//! needs it, so a rarely shown one costs no time when the page opens; `assets/columns.js` is the reader.

use std::io::{self, Write};

/// The largest integer that a number of JavaScript has exactly. Larger ones are written as this.
pub(crate) const MAX_EXACT: u64 = (1 << 53) - 1;

/// How the values of a column are coded.
#[derive(Clone, Copy)]
enum Coding {
    /// Each as itself.
    Plain = 0,
    /// Each as its difference to the one before, with the sign in the lowest bit.
    Difference = 1,
    /// UTF-8 texts: the length of each, then all bytes.
    Texts = 2,
    /// All are equal: one value.
    Equal = 3,
}

/// Writes columns to a stream.
pub(crate) struct ColumnWriter<W> {
    out: W,
    /// The values of the column that is written, reused by the next.
    bytes: Vec<u8>,
}

impl<W: Write> ColumnWriter<W> {
    pub(crate) fn new(out: W) -> Self {
        Self { out, bytes: Vec::new() }
    }

    /// Writes values that are mostly small.
    pub(crate) fn plain(&mut self, name: &str, values: impl IntoIterator<Item = u64>) -> io::Result<()> {
        let (mut count, mut first, mut equal) = (0, 0, true);
        for value in values {
            let value = value.min(MAX_EXACT);
            if count == 0 {
                first = value;
            }
            equal &= value == first;
            push(&mut self.bytes, value);
            count += 1;
        }
        if equal && count > 1 {
            self.bytes.clear();
            push(&mut self.bytes, first);
            return self.column(name, Coding::Equal, count);
        }
        self.column(name, Coding::Plain, count)
    }

    /// Writes values that are close to the ones before them.
    pub(crate) fn difference(&mut self, name: &str, values: impl IntoIterator<Item = u64>) -> io::Result<()> {
        let (mut count, mut before) = (0, 0i64);
        for value in values {
            let value = value.min(MAX_EXACT) as i64;
            let step = value - before; // both are below 2^53
            push(&mut self.bytes, ((step << 1) ^ (step >> 63)) as u64);
            before = value;
            count += 1;
        }
        self.column(name, Coding::Difference, count)
    }

    /// Writes texts.
    pub(crate) fn texts<T: AsRef<str>>(
        &mut self,
        name: &str,
        texts: impl IntoIterator<Item = T, IntoIter: Clone>,
    ) -> io::Result<()> {
        let texts = texts.into_iter();
        let mut count = 0;
        for text in texts.clone() {
            push(&mut self.bytes, text.as_ref().len() as u64);
            count += 1;
        }
        for text in texts {
            self.bytes.extend_from_slice(text.as_ref().as_bytes());
        }
        self.column(name, Coding::Texts, count)
    }

    /// Returns the stream.
    pub(crate) fn finish(self) -> W {
        self.out
    }

    fn column(&mut self, name: &str, coding: Coding, count: u64) -> io::Result<()> {
        let mut head = Vec::with_capacity(name.len() + 24);
        push(&mut head, name.len() as u64);
        head.extend_from_slice(name.as_bytes());
        head.push(coding as u8);
        push(&mut head, count);
        push(&mut head, self.bytes.len() as u64);
        self.out.write_all(&head)?;
        self.out.write_all(&self.bytes)?;
        self.bytes.clear();
        Ok(())
    }
}

/// Appends an integer, 7 bits a byte, lowest first; the highest bit says that more follow.
fn push(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Returns the numbers of a column, as the page reads them.
#[cfg(test)]
pub(crate) fn numbers(mut bytes: &[u8], name: &str) -> Vec<u64> {
    fn next(bytes: &mut &[u8]) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = bytes[0];
            *bytes = &bytes[1..];
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return value;
            }
        }
    }
    while !bytes.is_empty() {
        let length = next(&mut bytes) as usize;
        let is_it = &bytes[..length] == name.as_bytes();
        bytes = &bytes[length..];
        let (coding, count, size) =
            (next(&mut bytes) as u8, next(&mut bytes) as usize, next(&mut bytes) as usize);
        if !is_it {
            bytes = &bytes[size..];
            continue;
        }
        if coding == Coding::Equal as u8 {
            return vec![next(&mut bytes); count];
        }
        let mut before = 0i64;
        let values = (0..count).map(|_| match next(&mut bytes) {
            value if coding == Coding::Plain as u8 => value,
            step => {
                before += (step >> 1) as i64 ^ -((step & 1) as i64);
                before as u64
            }
        });
        return values.collect();
    }
    panic!("there is no column {name}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_its_name_its_coding_its_counts_and_its_values() {
        let mut writer = ColumnWriter::new(Vec::new());
        writer.plain("a", [0, 127, 128, u64::MAX]).unwrap();
        writer.difference("b", [5, 3]).unwrap();
        writer.texts("c", ["é", ""]).unwrap();
        writer.plain("d", [7, 7, 7]).unwrap();
        let expected = [
            &[1, b'a', 0, 4, 12, 0, 127, 0x80, 1][..],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f], // 2^53 - 1
            &[1, b'b', 1, 2, 2, 10, 3],
            &[1, b'c', 2, 2, 4, 2, 0, 0xc3, 0xa9],
            &[1, b'd', 3, 3, 1, 7],
        ]
        .concat();
        let written = writer.finish();
        assert_eq!(written, expected);
        assert_eq!(numbers(&written, "a"), [0, 127, 128, MAX_EXACT]);
        assert_eq!(numbers(&written, "b"), [5, 3]);
        assert_eq!(numbers(&written, "d"), [7, 7, 7]);
    }
}
