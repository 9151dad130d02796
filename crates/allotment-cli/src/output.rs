//! Standard output with checked writes.
//!
//! `say!` keeps the first error and writes nothing after it; `main` calls [`finish`] before it reports success. So
//! a full disk is a failure, whichever line it hits, and no print can be missed. A pipe closed by its reader is not
//! a failure: `allotment … | head` has read what it needs.

use core::fmt;
use std::io::{self, ErrorKind, Write};
use std::sync::OnceLock;

/// The first error.
static ERROR: OnceLock<io::Error> = OnceLock::new();

/// Prints a line on standard output.
macro_rules! say {
    () => { $crate::output::line(format_args!("")) };
    ($($what:tt)*) => { $crate::output::line(format_args!($($what)*)) };
}

/// Prints a line, unless an earlier line failed.
pub(crate) fn line(line: fmt::Arguments<'_>) {
    check(|| writeln!(io::stdout(), "{line}"));
}

/// Runs a write to standard output, unless an earlier write failed.
pub(crate) fn check(write: impl FnOnce() -> io::Result<()>) {
    if ERROR.get().is_some() {
        return;
    }
    if let Err(error) = write() {
        // Any thread may come first: all errors concern the same output.
        let _ = ERROR.set(error);
    }
}

/// Returns the first error of standard output, except for a pipe closed by its reader.
pub(crate) fn finish() -> Option<&'static io::Error> {
    check(|| io::stdout().flush());
    ERROR.get().filter(|error| error.kind() != ErrorKind::BrokenPipe)
}
