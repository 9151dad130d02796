//! The memory and the time that an importer may use, whatever a file says.

use core::cell::Cell;

use super::ImportErrorKind;

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
    /// Bytes of a file that is one document (JSON dump or pickle), uncompressed: 2 GiB.
    pub document_bytes: u64,
    /// Bytes of memory for what is kept: 8 GiB. It counts the events (of about 50 million), the texts, what exists at a
    /// moment, and the values of a document; each at its size with the spare room of growing vectors. The text of a JSON
    /// dump may have an eighth of it, 1 GiB. Beside all that there is one line.
    pub memory_bytes: u64,
    /// Steps of work beside those that the size of a file allows: 2^25, two or three seconds. A step is a value, a line
    /// or eight bytes of text that are looked at; the file allows 64 for each of its bytes, as they are stored. Files of
    /// programs need fewer than that. It bounds time where a small file says much: one that is compressed, or whose
    /// values refer to the same values again and again.
    pub work: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            text_bytes: 64 << 30,
            line_bytes: 16 << 20,
            document_bytes: 2 << 30,
            memory_bytes: 8 << 30,
            work: 1 << 25,
        }
    }
}

/// The longest text that is kept of a name, in bytes; the rest of it is cut off. No view shows a longer one.
pub(crate) const MAX_TEXT: usize = 1024;

/// The steps of work that each byte of a file allows, as it is stored. JSON takes an eighth of a step a byte, and a pickle
/// about one; gzip makes a tenth to a fiftieth of what programs write.
const STEPS_A_BYTE: u64 = 64;

/// The bytes of text that are a step of work.
pub(crate) const BYTES_A_STEP: usize = 8;

/// What an import costs, against its limits: one for each import, on which all that reads, keeps or looks at something
/// counts.
#[derive(Debug)]
pub(crate) struct Budget {
    memory: Cell<u64>,
    work: Cell<u64>,
    /// The most steps, with those that the bytes read until now allow.
    allowed: Cell<u64>,
    limits: Limits,
}

impl Budget {
    pub(crate) const fn new(limits: &Limits) -> Self {
        Self { memory: Cell::new(0), work: Cell::new(0), allowed: Cell::new(limits.work), limits: *limits }
    }

    pub(crate) const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Counts bytes that are kept from now on.
    pub(crate) fn charge(&self, bytes: usize) -> Result<(), ImportErrorKind> {
        let limit = self.limits.memory_bytes;
        let memory = self.memory.get().saturating_add(bytes as u64);
        if memory > limit {
            return Err(ImportErrorKind::TooMuchMemory { limit });
        }
        self.memory.set(memory);
        Ok(())
    }

    /// Counts bytes that are kept no longer.
    pub(crate) fn refund(&self, bytes: usize) {
        self.memory.set(self.memory.get().saturating_sub(bytes as u64));
    }

    /// Counts steps of work.
    #[inline]
    pub(crate) fn work(&self, steps: usize) -> Result<(), ImportErrorKind> {
        let work = self.work.get().saturating_add(steps as u64);
        self.work.set(work);
        let limit = self.allowed.get();
        if work > limit { Err(ImportErrorKind::TooMuchWork { limit }) } else { Ok(()) }
    }

    /// Counts the work of looking at a text.
    pub(crate) fn look_at(&self, text: &str) -> Result<(), ImportErrorKind> {
        self.work(1 + text.len() / BYTES_A_STEP)
    }

    /// Notes how many bytes of the file were read, as they are stored.
    pub(crate) fn note_stored(&self, bytes: u64) {
        self.allowed.set(self.limits.work.saturating_add(bytes.saturating_mul(STEPS_A_BYTE)));
    }
}
