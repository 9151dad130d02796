//! The memory and the time that an importer may use, whatever a file says.

/// Limits of an import. The default suits files of programs; a smaller one suits files of strangers.
///
/// An importer refuses a file that exceeds a limit: it never returns a part of it as if it were the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of a file that is read line by line, uncompressed: 64 GiB. It bounds time: a compressed file of a few MiB
    /// can expand to that.
    pub text_bytes: u64,
    /// Bytes of one line: 16 MiB. Lines are long where calls have large arrays.
    pub line_bytes: u64,
    /// Bytes of a file that is one document (JSON dump or pickle), uncompressed: 512 MiB.
    pub document_bytes: u64,
    /// Bytes of memory for what is kept: 2 GiB. It counts the events (of about 14 million), the texts, what exists at a
    /// moment, and the values of a pickle; each at its size with the spare room of growing vectors. A JSON dump, which
    /// is parsed as a whole, may have a sixteenth of it, 128 MiB of text. Beside all that there is one line.
    pub memory_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { text_bytes: 64 << 30, line_bytes: 16 << 20, document_bytes: 512 << 20, memory_bytes: 2 << 30 }
    }
}

/// The longest text that is kept of a name, in bytes; the rest of it is cut off. No view shows a longer one.
pub(crate) const MAX_TEXT: usize = 1024;

/// Counts memory against its limit.
#[derive(Debug)]
pub(crate) struct Memory {
    left: u64,
    limit: u64,
}

impl Memory {
    pub(crate) const fn new(limit: u64) -> Self {
        Self { left: limit, limit }
    }

    /// Counts bytes that are kept from now on.
    pub(crate) fn charge(&mut self, bytes: usize) -> Result<(), super::ImportErrorKind> {
        match self.left.checked_sub(bytes as u64) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(super::ImportErrorKind::TooMuchMemory { limit: self.limit }),
        }
    }

    /// Counts bytes that are kept no longer.
    pub(crate) const fn refund(&mut self, bytes: usize) {
        self.left = self.left.saturating_add(bytes as u64);
    }
}
