//! Text of exports: JSON and CSV over a writer of bytes.

use core::fmt::{self, Display, Write as _};
use std::io;

use allotment_suballoc::json::{self, Object};

/// Formats text over a writer of bytes, and keeps the writer's error, which [`fmt::Error`] cannot carry.
pub(super) struct Text<'a, W> {
    out: &'a mut W,
    error: Option<io::Error>,
}

impl<'a, W: io::Write> Text<'a, W> {
    pub(super) fn new(out: &'a mut W) -> Self {
        Self { out, error: None }
    }

    /// Calls `write`, and returns the error of the writer where there was one.
    pub(super) fn with(mut self, write: impl FnOnce(&mut Self) -> fmt::Result) -> io::Result<()> {
        match (write(&mut self), self.error) {
            (_, Some(error)) => Err(error),
            (Err(fmt::Error), None) => Err(io::Error::other("a value could not be formatted")),
            (Ok(()), None) => Ok(()),
        }
    }
}

impl<W: io::Write> fmt::Write for Text<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.out.write_all(text.as_bytes()).map_err(|error| {
            self.error = Some(error);
            fmt::Error
        })
    }
}

/// Writes one JSON object to `out`, and a line break.
pub(super) fn json<W: io::Write>(
    out: &mut W,
    fill: impl FnOnce(&mut Object<'_, Text<'_, W>>) -> fmt::Result,
) -> io::Result<()> {
    Text::new(out).with(|text| {
        json::object(text, fill)?;
        text.write_char('\n')
    })
}

/// A field of CSV: quoted where RFC 4180 demands it.
pub(super) struct Field<'a>(pub(super) &'a str);

impl Display for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.contains([',', '"', '\n', '\r']) {
            return f.write_str(self.0);
        }
        f.write_char('"')?;
        for (i, part) in self.0.split('"').enumerate() {
            f.write_str(if i == 0 { "" } else { "\"\"" })?;
            f.write_str(part)?;
        }
        f.write_char('"')
    }
}
