//! Errors of reading a trace.

use core::error::Error;
use core::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::error_text;
use crate::fields::{Column, HEADER};
use crate::import::Position;
use crate::text::MAX_LINE_BYTES;

/// An error of reading a trace, with its location.
///
/// Prints as one line, without a full stop:
///
/// ```text
/// supertuxkart-race.csv.gz: line 17: size "12x" is not a whole number of bytes
/// ```
///
/// [`source`](Error::source) returns the error of the operating system or the decompressor, if there is one.
#[derive(Debug)]
#[non_exhaustive]
pub struct TraceError {
    path: Option<PathBuf>,
    line: Option<u64>,
    kind: TraceErrorKind,
}

impl TraceError {
    pub(crate) const fn new(line: Option<u64>, kind: TraceErrorKind) -> Self {
        Self { path: None, line, kind }
    }

    pub(crate) fn at(mut self, path: &Path) -> Self {
        self.path = Some(path.to_owned());
        self
    }

    /// Returns the path, if the trace was read from a named file.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Returns the line of the uncompressed text that is wrong, or that was being read when reading failed. The
    /// header is line 1. `None` if no line was reached: the file could not be opened or is empty.
    #[must_use]
    pub const fn line(&self) -> Option<u64> {
        self.line
    }

    /// Returns the kind of error.
    #[must_use]
    pub const fn kind(&self) -> &TraceErrorKind {
        &self.kind
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        error_text::location(f, self.path(), self.line.map(Position::Line))?;
        self.kind.fmt(f)
    }
}

impl Error for TraceError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.kind.source()
    }
}

/// The kind of a [`TraceError`].
///
/// Text quoted from the file is cut after 40 characters.
#[derive(Debug)]
#[non_exhaustive]
pub enum TraceErrorKind {
    /// The file could not be opened, or the source failed while it was read.
    Io(io::Error),
    /// There is no text, not even a header. An interrupted download or copy leaves such files.
    Empty,
    /// The compressed data ends before its end mark: the file was cut short.
    GzipTruncated,
    /// The compressed data cannot be decompressed, or its checksum is wrong: the file was changed, for example by a
    /// transfer in text mode.
    GzipCorrupt(io::Error),
    /// There is more text than [`MAX_TEXT_BYTES`](crate::MAX_TEXT_BYTES).
    TextTooLarge {
        /// The most bytes of text that are read.
        limit: u64,
    },
    /// The line is longer than [`MAX_LINE_BYTES`].
    LineTooLong,
    /// The line is not UTF-8. Usually the file is not text, for example compressed in another format than gzip.
    NotUtf8,
    /// The file begins like one of another format.
    OtherFormat {
        /// The likely format.
        format: &'static str,
    },
    /// The first line is not the [`HEADER`]: the file has other contents, or its header is missing.
    Header {
        /// The first line.
        found: Box<str>,
    },
    /// The line does not have six fields.
    FieldCount {
        /// The number of fields.
        found: usize,
    },
    /// A quotation mark is inside a field that is not quoted, or a quoted field is not closed on its line, or text
    /// follows its closing mark.
    Quote,
    /// The op is not `a`, `f` or `m`.
    UnknownOp {
        /// The text of the field.
        op: Box<str>,
    },
    /// A field that the op does not use is not empty.
    UnusedField {
        /// The op: `f` or `m`.
        op: char,
        /// The column of the field.
        column: Column,
        /// The text of the field.
        text: Box<str>,
    },
    /// A number is missing, or has characters other than decimal digits.
    NotANumber {
        /// The column of the field.
        column: Column,
        /// The text of the field.
        text: Box<str>,
    },
    /// A number is larger than its column allows.
    NumberTooLarge {
        /// The column of the field. For the usage flags of a buffer it is [`Column::Name`].
        column: Column,
        /// The text of the field, a number that may exceed every integer type.
        text: Box<str>,
        /// The largest number allowed.
        max: u64,
    },
    /// An allocated resource has a size of zero, which no driver requests.
    ZeroSize,
    /// The alignment is 0 or not a power of two.
    AlignmentNotPowerOfTwo {
        /// The alignment, in bytes.
        alignment: u64,
    },
    /// The kind is neither `buffer` nor `image`.
    UnknownKind {
        /// The text of the field.
        kind: Box<str>,
    },
    /// An id is allocated that was allocated before, whether it is still live or not.
    IdReused {
        /// The id.
        id: u64,
        /// The line that allocated it.
        first: u64,
    },
    /// An id is freed that was never allocated before this line.
    FreeOfUnknown {
        /// The id.
        id: u64,
    },
    /// An id is freed that was freed before.
    FreedTwice {
        /// The id.
        id: u64,
        /// The line that freed it.
        first: u64,
    },
    /// The sizes of the resources that are live at this line add up to 2^64 bytes or more.
    TooManyLiveBytes,
    /// More than 2^32 resources are allocated.
    TooManyResources,
}

impl TraceErrorKind {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io(error) | Self::GzipCorrupt(error) => Some(error),
            _ => None,
        }
    }
}

impl fmt::Display for TraceErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error_text::cannot_read(f, "the trace", error),
            Self::Empty => write!(f, "the trace is empty, without even the header \"{HEADER}\""),
            Self::GzipTruncated => f.write_str(error_text::GZIP_TRUNCATED),
            Self::GzipCorrupt(_) => f.write_str(error_text::GZIP_CORRUPT),
            Self::TextTooLarge { limit } => {
                write!(f, "the trace has more than {limit} bytes of uncompressed text, the most that is read")
            }
            Self::LineTooLong => {
                write!(f, "the line is longer than {MAX_LINE_BYTES} bytes, the most that is read")
            }
            Self::NotUtf8 => {
                f.write_str("the line is not utf-8; a trace is csv, plain or compressed by gzip")
            }
            Self::OtherFormat { format } => write!(
                f,
                "this looks like {format}; a trace is csv, plain or compressed by gzip, that begins with the header \
                 \"{HEADER}\""
            ),
            Self::Header { found } => write!(f, "the header is {found:?}, but must be \"{HEADER}\""),
            Self::FieldCount { found } => {
                let s = if *found == 1 { "" } else { "s" };
                write!(
                    f,
                    "{found} field{s} instead of {}; empty ones need their commas too",
                    Column::ALL.len()
                )
            }
            Self::Quote => f.write_str(
                "a quotation mark is out of place; a field with one is quoted as a whole, on one line, and \
                 the mark in it doubled",
            ),
            Self::UnknownOp { op } => write!(f, "op {op:?} is none of \"a\", \"f\" and \"m\""),
            Self::UnusedField { op, column, text } => {
                write!(f, "{column} is {text:?}, but must be empty where op is \"{op}\"")
            }
            Self::NotANumber { column, text } if text.is_empty() => write!(f, "{column} is missing"),
            Self::NotANumber { column, text } => {
                let what = match column {
                    Column::Size | Column::Alignment => "a whole number of bytes",
                    _ => "a whole number",
                };
                write!(f, "{column} {text:?} is not {what}")
            }
            Self::NumberTooLarge { column, text, max } => {
                let what = match column {
                    Column::Name => "buffer usage",
                    _ => column.as_str(),
                };
                write!(f, "{what} {text} is larger than {max}, the most it can be")
            }
            Self::ZeroSize => f.write_str("size is 0 bytes, but must be at least 1"),
            Self::AlignmentNotPowerOfTwo { alignment } => {
                write!(f, "alignment {alignment} is not a power of two")
            }
            Self::UnknownKind { kind } => write!(f, "kind {kind:?} is neither \"buffer\" nor \"image\""),
            Self::IdReused { id, first } => {
                write!(f, "id {id} was already allocated on line {first}; an id is never used again")
            }
            Self::FreeOfUnknown { id } => write!(f, "id {id} is freed, but was not allocated before"),
            Self::FreedTwice { id, first } => write!(f, "id {id} was already freed on line {first}"),
            Self::TooManyLiveBytes => f.write_str("the live resources add up to 2^64 bytes or more"),
            Self::TooManyResources => f.write_str("the trace allocates more than 2^32 resources"),
        }
    }
}

/// Returns the start of a text from the file, for an error.
pub(crate) fn excerpt(text: &str) -> Box<str> {
    const MOST: usize = 40;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}
