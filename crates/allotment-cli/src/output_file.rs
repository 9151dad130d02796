//! Files that a command writes: each is written completely or not at all, as [`output`](allotment_trace::output) does.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use allotment_trace::output;

use crate::failure::Failure;
use crate::output::check;

/// A file to be written later; it was found writable when this was created.
#[derive(Debug)]
pub(crate) struct OutputFile {
    /// The path as the user gave it.
    path: PathBuf,
    file: output::OutputFile,
}

impl OutputFile {
    /// Checks that the file can be written, without changing it, so that a replay of an hour does not end with a
    /// missing directory.
    pub(crate) fn new(path: &Path) -> Result<Self, Failure> {
        let failed = |error| Failure::write(path, error);
        let file = output::OutputFile::new(path).map_err(failed)?;
        file.check().map_err(failed)?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Returns whether both are the same file.
    pub(crate) fn is(&self, other: &Path) -> bool {
        self.file.is(other)
    }

    /// Writes the file. An older file is replaced once the new one is safe on disk, and stays unchanged if that
    /// fails.
    pub(crate) fn write(&self, contents: &[u8]) -> Result<(), Failure> {
        let names = ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];
        if self.file.special().is_some_and(|path| names.iter().any(|name| path == Path::new(name))) {
            check(|| io::stdout().write_all(contents));
            return Ok(());
        }
        self.file.replace(|file| file.write_all(contents)).map_err(|error| Failure::write(&self.path, error))
    }
}
