//! The lines of a trace: decompression, line breaks, line numbers and size limits.

use std::io::{self, BufRead, Read};

use crate::bytes::{Bytes, Failure};
use crate::error::{TraceError, TraceErrorKind};

/// The most text a trace may have, uncompressed, in bytes: 1 GiB.
///
/// An hour of recording takes a few MiB, so only a hostile file reaches the limit: gzip can expand 1 MiB to 1 GiB.
pub const MAX_TEXT_BYTES: u64 = 1 << 30;

/// The longest line a trace may have, in bytes, its line break included: 64 KiB.
///
/// Names are the only part without a limit of their own, and no tool displays one of this length. The limit keeps
/// binary files from being read completely in search of a line break.
pub const MAX_LINE_BYTES: u64 = 1 << 16;

/// Reads lines from plain or compressed bytes, up to a limit.
pub(crate) struct Text<'a> {
    bytes: Bytes<'a>,
    /// The last line, kept for its capacity.
    line: Vec<u8>,
    /// Its number; 0 before the first.
    number: u64,
    /// Bytes of text that may still be read.
    left: u64,
    limit: u64,
}

impl<'a> Text<'a> {
    /// Opens a source; its first bytes tell whether it is compressed. `limit` bounds the text in bytes.
    pub(crate) fn new(source: &'a mut dyn Read, limit: u64) -> Result<Self, TraceError> {
        let bytes = Bytes::new(source).map_err(|error| TraceError::new(None, TraceErrorKind::Io(error)))?;
        Ok(Self { bytes, line: Vec::new(), number: 0, left: limit, limit })
    }

    /// Returns the next non-blank line without its line break, and its number; `None` at the end.
    pub(crate) fn next_line(&mut self) -> Result<Option<(u64, &str)>, TraceError> {
        loop {
            // No overflow: a line has at least one byte, and the bytes are counted in a `u64`, too.
            self.number += 1;
            self.line.clear();
            // One byte more than either limit, so that exceeding it is noticed.
            let most = u64::min(self.left, MAX_LINE_BYTES) + 1;
            let read = Read::take(&mut self.bytes.input, most)
                .read_until(b'\n', &mut self.line)
                .map_err(|error| self.failure(error))? as u64;
            if read == 0 {
                return Ok(None);
            }
            if read > MAX_LINE_BYTES {
                return Err(self.refuse(TraceErrorKind::LineTooLong));
            }
            self.left = match self.left.checked_sub(read) {
                Some(left) => left,
                None => return Err(self.refuse(TraceErrorKind::TextTooLarge { limit: self.limit })),
            };
            if !matches!(self.line.as_slice(), b"\n" | b"\r\n") {
                break;
            }
        }

        let Ok(mut line) = core::str::from_utf8(&self.line) else {
            return Err(self.refuse(TraceErrorKind::NotUtf8));
        };
        line = line.strip_suffix('\n').unwrap_or(line);
        line = line.strip_suffix('\r').unwrap_or(line);
        if self.number == 1 {
            // Spreadsheets write a byte order mark at the start of a file.
            line = line.strip_prefix('\u{feff}').unwrap_or(line);
        }
        Ok(Some((self.number, line)))
    }

    /// Returns the bytes of the last line, even if it was not valid.
    pub(crate) fn line_bytes(&self) -> &[u8] {
        &self.line
    }

    fn refuse(&self, kind: TraceErrorKind) -> TraceError {
        TraceError::new(Some(self.number), kind)
    }

    #[cold]
    fn failure(&self, error: io::Error) -> TraceError {
        self.refuse(match self.bytes.failure(error) {
            Failure::Source(error) => TraceErrorKind::Io(error),
            Failure::GzipTruncated => TraceErrorKind::GzipTruncated,
            Failure::GzipCorrupt(error) => TraceErrorKind::GzipCorrupt(error),
        })
    }
}
