//! The bytes of a file, plain or gzip-compressed, and which of the two is at fault where reading fails.

use core::cell::Cell;
use std::io::{self, BufRead, BufReader, Cursor, ErrorKind, Read};
use std::rc::Rc;

use flate2::bufread::MultiGzDecoder;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Uncompressed bytes of a source.
pub(crate) struct Bytes<'a> {
    pub(crate) input: Box<dyn BufRead + 'a>,
    compressed: bool,
    /// Set if the source reported an error, rather than the decompression on top of it. Both are [`io::Error`]s of
    /// `input`, with overlapping kinds.
    source_failed: Rc<Cell<bool>>,
    /// How many bytes were read of the source, compressed where it is.
    pub(crate) stored: Rc<Cell<u64>>,
}

/// Why reading failed.
pub(crate) enum Failure {
    /// The source did.
    Source(io::Error),
    /// The compressed bytes end too early.
    GzipTruncated,
    /// The compressed bytes are damaged.
    GzipCorrupt(io::Error),
}

impl<'a> Bytes<'a> {
    /// Opens a source; its first bytes tell whether it is compressed.
    pub(crate) fn new(source: &'a mut dyn Read) -> io::Result<Self> {
        let source_failed = Rc::new(Cell::new(false));
        let stored = Rc::new(Cell::new(0));
        let mut source = Watched { source, failed: Rc::clone(&source_failed), read: Rc::clone(&stored) };

        let mut start = Vec::new();
        Read::take(&mut source, GZIP_MAGIC.len() as u64).read_to_end(&mut start)?;
        let compressed = start == GZIP_MAGIC;

        let bytes = BufReader::new(Cursor::new(start).chain(source));
        let input: Box<dyn BufRead + 'a> = if compressed {
            // Several concatenated gzip files are one gzip file; parallel compressors write such files.
            Box::new(BufReader::new(MultiGzDecoder::new(bytes)))
        } else {
            Box::new(bytes)
        };
        Ok(Self { input, compressed, source_failed, stored })
    }

    /// Says what an error of `input` comes from.
    #[cold]
    pub(crate) fn failure(&self, error: io::Error) -> Failure {
        if self.source_failed.get() || !self.compressed {
            Failure::Source(error)
        } else if error.kind() == ErrorKind::UnexpectedEof {
            Failure::GzipTruncated
        } else {
            Failure::GzipCorrupt(error)
        }
    }
}

/// A source that remembers whether it failed, and how much was read of it.
struct Watched<'a> {
    source: &'a mut dyn Read,
    failed: Rc<Cell<bool>>,
    read: Rc<Cell<u64>>,
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.source.read(buffer) {
                // Retried here rather than above, where decompression would have to survive the error.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.failed.set(true);
                    return Err(error);
                }
                Ok(read) => {
                    self.read.set(self.read.get() + read as u64);
                    return Ok(read);
                }
            }
        }
    }
}
