//! Standard output, of which every write is checked.
//!
//! `say!` keeps the first error and writes nothing after it; `main` asks [`finish`] before it succeeds. So a full disk
//! is a failure, whichever line it met, and no print can be forgotten. A pipe that its reader closed is no failure:
//! `allotment-bench … | head` has read what it wanted.

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

/// Prints a line, unless an earlier one could not be written.
pub(crate) fn line(line: fmt::Arguments<'_>) {
    check(|| writeln!(io::stdout(), "{line}"));
}

/// Writes something to standard output, unless an earlier write failed.
pub(crate) fn check(write: impl FnOnce() -> io::Result<()>) {
    if ERROR.get().is_none() {
        if let Err(error) = write() {
            // Whichever thread comes first: both errors are about the same output.
            let _ = ERROR.set(error);
        }
    }
}

/// Why standard output does not hold everything that was printed; nothing where it does, or where its reader closed it.
pub(crate) fn finish() -> Option<&'static io::Error> {
    check(|| io::stdout().flush());
    ERROR.get().filter(|error| error.kind() != ErrorKind::BrokenPipe)
}
