//! Parts of error messages that reading a trace and importing a file share. Every message is one line, whatever the
//! names of files and the texts in them contain.

use core::fmt::{self, Display, Write as _};
use std::io;
use std::path::Path;

pub(crate) const GZIP_TRUNCATED: &str = "the gzip data ends too early; the file was cut short, copy it again";
pub(crate) const GZIP_CORRUPT: &str = "the gzip data is damaged; copy the file again";

/// Writes where an error is, as the beginning of its message: `path: position: `, as far as they are known.
pub(crate) fn location(
    f: &mut fmt::Formatter<'_>,
    path: Option<&Path>,
    position: Option<impl Display>,
) -> fmt::Result {
    if let Some(path) = path {
        one_line(f, &path.to_string_lossy(), usize::MAX)?;
        f.write_str(": ")?;
    }
    position.map_or(Ok(()), |position| write!(f, "{position}: "))
}

/// Writes that `what` cannot be read.
pub(crate) fn cannot_read(f: &mut fmt::Formatter<'_>, what: &str, error: &io::Error) -> fmt::Result {
    write!(f, "cannot read {what}: ")?;
    // Not the error's own text: that comes from the source, and may have several lines.
    match error.kind() {
        io::ErrorKind::NotFound => f.write_str("no such file"),
        io::ErrorKind::IsADirectory => f.write_str("it is a directory, not a file"),
        kind => kind.fmt(f),
    }
}

/// Writes text of a file on one line, cut after `most` characters.
pub(crate) fn one_line(f: &mut fmt::Formatter<'_>, text: &str, most: usize) -> fmt::Result {
    let mut chars = text.chars();
    for c in chars.by_ref().take(most) {
        if c.is_control() {
            write!(f, "{}", c.escape_default())?;
        } else {
            f.write_char(c)?;
        }
    }
    if chars.next().is_some() { f.write_str("…") } else { Ok(()) }
}
