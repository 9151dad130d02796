//! The bytes of a file that is imported: its beginning, its lines, its limits.

use std::io::{self, BufRead, Read};

use super::limits::{BYTES_A_STEP, Budget};
use super::{ImportError, ImportErrorKind, Position};
use crate::bytes::{Bytes, Failure};

/// Bytes that are looked at to find the format.
pub(crate) const START: usize = 4096;

/// Reads the uncompressed bytes of a file, up to a limit, and counts the work of it.
pub(crate) struct Source<'a> {
    bytes: Bytes<'a>,
    budget: &'a Budget,
    /// The beginning, which was read to find the format, and how much of it was read again.
    start: Vec<u8>,
    start_read: usize,
    /// Bytes that were read.
    read: u64,
    limit: u64,
    /// Which limit ended the reading.
    exceeded: Option<ImportErrorKind>,
    line: Vec<u8>,
    number: u64,
}

impl<'a> Source<'a> {
    pub(crate) fn new(source: &'a mut dyn Read, budget: &'a Budget) -> Result<Self, ImportErrorKind> {
        let mut bytes = Bytes::new(source).map_err(ImportErrorKind::Io)?;
        let mut start = Vec::new();
        if let Err(error) = Read::take(&mut bytes.input, START as u64).read_to_end(&mut start) {
            return Err(kind_of(&bytes, error));
        }
        Ok(Self {
            bytes,
            budget,
            start,
            start_read: 0,
            read: 0,
            limit: u64::MAX,
            exceeded: None,
            line: Vec::new(),
            number: 0,
        })
    }

    /// Returns the first bytes, which are read again later.
    pub(crate) fn start(&self) -> &[u8] {
        &self.start
    }

    /// Sets the most bytes that are read.
    pub(crate) const fn limit(&mut self, limit: u64) {
        self.limit = limit;
    }

    /// Returns how many bytes were read.
    pub(crate) const fn position(&self) -> u64 {
        self.read
    }

    /// Says what an error of reading this means.
    #[cold]
    pub(crate) fn failure(&mut self, error: io::Error) -> ImportErrorKind {
        self.exceeded.take().unwrap_or_else(|| kind_of(&self.bytes, error))
    }

    /// Returns the next line that is not blank, and its number; `None` at the end.
    pub(crate) fn next_line(&mut self, most: u64) -> Result<Option<(u64, &str)>, ImportError> {
        loop {
            self.number += 1;
            let position = Some(Position::Line(self.number));
            let mut line = core::mem::take(&mut self.line);
            line.clear();
            // One byte more than the limit, so that exceeding it is noticed.
            let read = Read::take(&mut *self, most.saturating_add(1)).read_until(b'\n', &mut line);
            self.line = line;
            match read {
                Err(error) => return Err(ImportError::new(position, self.failure(error))),
                Ok(0) => return Ok(None),
                Ok(read) if read as u64 > most => {
                    return Err(ImportError::new(position, ImportErrorKind::LineTooLong { limit: most }));
                }
                Ok(_) => {}
            }
            // Beside its bytes: blank lines have hardly any.
            self.budget.work(1).map_err(|kind| ImportError::new(position, kind))?;
            if !self.line.trim_ascii().is_empty() {
                break;
            }
        }
        let Ok(mut line) = core::str::from_utf8(&self.line) else {
            return Err(ImportError::new(Some(Position::Line(self.number)), ImportErrorKind::NotUtf8));
        };
        if self.number == 1 {
            line = line.strip_prefix('\u{feff}').unwrap_or(line);
        }
        Ok(Some((self.number, line)))
    }
}

fn kind_of(bytes: &Bytes<'_>, error: io::Error) -> ImportErrorKind {
    match bytes.failure(error) {
        Failure::Source(error) => ImportErrorKind::Io(error),
        Failure::GzipTruncated => ImportErrorKind::GzipTruncated,
        Failure::GzipCorrupt(error) => ImportErrorKind::GzipCorrupt(error),
    }
}

impl Read for Source<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let found = self.fill_buf()?;
        let read = usize::min(found.len(), buffer.len());
        buffer[..read].copy_from_slice(&found[..read]);
        self.consume(read);
        Ok(read)
    }
}

impl BufRead for Source<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let Self { bytes: Bytes { input, stored, .. }, budget, .. } = self;
        let found = if self.start_read < self.start.len() {
            &self.start[self.start_read..]
        } else {
            input.fill_buf()?
        };
        budget.note_stored(stored.get());
        let allowed = usize::try_from(self.limit.saturating_sub(self.read)).unwrap_or(usize::MAX);
        if !found.is_empty() {
            // The work that `consume` has counted.
            self.exceeded = budget.work(0).err();
            if allowed == 0 {
                self.exceeded = Some(ImportErrorKind::TooLarge { limit: self.limit });
            }
            if self.exceeded.is_some() {
                return Err(io::Error::other("a limit is exceeded"));
            }
        }
        Ok(&found[..usize::min(found.len(), allowed)])
    }

    fn consume(&mut self, amount: usize) {
        let steps = |bytes: u64| bytes / BYTES_A_STEP as u64;
        let before = steps(self.read);
        self.read += amount as u64;
        // Too much of it is found as more is read.
        let _ = self.budget.work((steps(self.read) - before) as usize);
        if self.start_read < self.start.len() {
            self.start_read += amount;
        } else {
            self.bytes.input.consume(amount);
        }
    }
}
