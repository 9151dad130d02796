//! Errors of importing a file.

use core::error::Error;
use core::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::Foreign;
use super::builder::cut;
use crate::error_text;

/// An error of importing a file, with its location.
///
/// Prints as one line, without a full stop:
///
/// ```text
/// frame.jsonl: line 17: not JSON: expected `,` or `}` at column 12; the file was cut short or edited
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct ImportError {
    path: Option<PathBuf>,
    position: Option<Position>,
    kind: ImportErrorKind,
}

/// A location in the uncompressed contents of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// A line; the first is line 1.
    Line(u64),
    /// Bytes from the beginning.
    Byte(u64),
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::Byte(byte) => write!(f, "byte {byte}"),
        }
    }
}

impl ImportError {
    pub(crate) const fn new(position: Option<Position>, kind: ImportErrorKind) -> Self {
        Self { path: None, position, kind }
    }

    pub(crate) fn at(mut self, path: &Path) -> Self {
        self.path = Some(path.to_owned());
        self
    }

    /// Returns the path, if the file was opened by its name.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Returns where the file is wrong, or where reading stopped. `None` where it is wrong as a whole.
    #[must_use]
    pub const fn position(&self) -> Option<Position> {
        self.position
    }

    /// Returns the kind of error.
    #[must_use]
    pub const fn kind(&self) -> &ImportErrorKind {
        &self.kind
    }
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        error_text::location(f, self.path(), self.position)?;
        self.kind.fmt(f)
    }
}

impl Error for ImportError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.kind {
            ImportErrorKind::Io(error) | ImportErrorKind::GzipCorrupt(error) => Some(error),
            _ => None,
        }
    }
}

/// The kind of an [`ImportError`].
#[derive(Debug)]
#[non_exhaustive]
pub enum ImportErrorKind {
    /// The file could not be opened, or the source failed while it was read.
    Io(io::Error),
    /// There is nothing in the file. An interrupted download or copy leaves such files.
    Empty,
    /// The compressed data ends before its end mark: the file was cut short.
    GzipTruncated,
    /// The compressed data is damaged.
    GzipCorrupt(io::Error),
    /// The file has more uncompressed bytes than [`Limits`](super::Limits) allow.
    TooLarge {
        /// The most bytes that are read.
        limit: u64,
    },
    /// The line is longer than [`Limits`](super::Limits) allow.
    LineTooLong {
        /// The most bytes of a line.
        limit: u64,
    },
    /// The contents of the file take more memory than [`Limits`](super::Limits) allow.
    TooMuchMemory {
        /// The most bytes of memory.
        limit: u64,
    },
    /// The file takes more steps of work than [`Limits`](super::Limits) allow for its size: its values refer to each other,
    /// or it is compressed, as no program's file does or is.
    TooMuchWork {
        /// The most steps.
        limit: u64,
    },
    /// No importer knows the beginning of the file.
    UnknownFormat,
    /// The file is a CSV trace. It has requests and no offsets, so it must be replayed through an allocator.
    IsTrace,
    /// The file is a recording of this library, which needs no importer.
    IsRecording,
    /// The file is a GFXReconstruct capture as one JSON document, which is not read line by line.
    GfxrNotLines,
    /// The file is one of a tool that no importer reads.
    Foreign(Foreign),
    /// The file is in UTF-16, and no JSON dump.
    Utf16,
    /// The line is not UTF-8.
    NotUtf8,
    /// The JSON ends too early.
    JsonTruncated,
    /// The text is not JSON, or a value has another type than the format says.
    Json {
        /// What is wrong, as the JSON reader says.
        message: Box<str>,
    },
    /// The dump has statistics and no allocations.
    DumpWithoutDetails {
        /// Memory objects.
        blocks: u64,
        /// Bytes of them.
        block_bytes: u64,
        /// Allocations in them.
        allocations: u64,
        /// Bytes of those.
        allocation_bytes: u64,
    },
    /// A value contradicts another one, or the format.
    Invalid {
        /// What is wrong.
        what: &'static str,
    },
    /// The pickle ends too early.
    PickleTruncated,
    /// The pickle has an instruction that no snapshot needs.
    PickleOpcode {
        /// The instruction.
        opcode: u8,
    },
    /// The pickle names code or objects of Python, which are not run here.
    PickleCode,
    /// The instructions of the pickle contradict each other.
    PickleCorrupt {
        /// What is wrong.
        what: &'static str,
    },
    /// The pickle is valid and is no snapshot of memory.
    NotASnapshot {
        /// What it lacks.
        what: &'static str,
    },
}

impl ImportErrorKind {
    pub(crate) fn json(error: &serde_json::Error) -> Self {
        if error.is_eof() { Self::JsonTruncated } else { Self::json_value(error) }
    }

    /// Returns the same as [`json`](Self::json) for a part of a text that is known to be JSON as a whole.
    pub(crate) fn json_value(error: &serde_json::Error) -> Self {
        let (text, column) = (error.to_string(), error.column());
        // The line is part of the position.
        let end = format!(" at line {} column {column}", error.line());
        let message = match text.strip_suffix(&end) {
            Some(text) => format!("{} at column {column}", cut(text)),
            None => cut(&text).to_owned(),
        };
        Self::Json { message: message.into() }
    }
}

impl fmt::Display for ImportErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error_text::cannot_read(f, "the file", error),
            Self::Empty => f.write_str("the file is empty; copy it again"),
            Self::GzipTruncated => f.write_str(error_text::GZIP_TRUNCATED),
            Self::GzipCorrupt(_) => f.write_str(error_text::GZIP_CORRUPT),
            Self::TooLarge { limit } => {
                write!(
                    f,
                    "the file has more than {limit} uncompressed bytes; record a shorter time, or raise the limit"
                )
            }
            Self::LineTooLong { limit } => {
                write!(
                    f,
                    "the line is longer than {limit} bytes; convert without the contents of buffers, or raise the \
                     limit"
                )
            }
            Self::TooMuchMemory { limit } => {
                write!(
                    f,
                    "the file needs more than {limit} bytes of memory; record a shorter time, or raise the limit"
                )
            }
            Self::TooMuchWork { limit } => {
                write!(
                    f,
                    "the file needs more than {limit} steps of work, which no file of a program of its size does; raise the \
                     limit if one does"
                )
            }
            Self::UnknownFormat => f.write_str(
                "not a format that can be imported: JSON lines of gfxrecon-convert, a JSON dump of VMA or D3D12MA, \
                 a PyTorch memory snapshot, or a report of gpu-allocator or wgpu as JSON",
            ),
            Self::IsTrace => f.write_str(
                "a CSV trace has no offsets; replay it through an allocator, which gives a recording",
            ),
            Self::IsRecording => f.write_str("the file is a recording; open it without an importer"),
            Self::GfxrNotLines => f.write_str(
                "GFXReconstruct calls as one JSON document; convert with `gfxrecon-convert --format jsonl`",
            ),
            Self::Foreign(found) => f.write_str(found.advice()),
            Self::Utf16 => f.write_str("the text is UTF-16; save it as UTF-8"),
            Self::NotUtf8 => f.write_str("the line is not UTF-8; the file is damaged or no text"),
            Self::JsonTruncated => f.write_str("the JSON ends too early; the file was cut short, copy it again"),
            Self::Json { message } => {
                f.write_str("not JSON as the format has it: ")?;
                error_text::one_line(f, message, 200)
            }
            Self::DumpWithoutDetails { blocks, block_bytes, allocations, allocation_bytes } => write!(
                f,
                "the dump has statistics alone ({allocation_bytes} bytes in {allocations} allocations, {block_bytes} bytes \
                 in {blocks} blocks) and no list of allocations; write it with the detailed map \
                 (`vmaBuildStatsString(…, VK_TRUE)`, `BuildStatsString(…, TRUE)`)"
            ),
            Self::Invalid { what } => write!(f, "{what}; the file is damaged or not of this format"),
            Self::PickleTruncated => {
                f.write_str("the pickle ends too early; the file was cut short, copy it again")
            }
            Self::PickleOpcode { opcode } => write!(
                f,
                "pickle instruction {opcode:#04x} is not known; the file is damaged or no memory snapshot"
            ),
            Self::PickleCode => f.write_str(
                "the pickle names Python code, which is not run here; save the snapshot with \
                 `torch.cuda.memory._dump_snapshot`, which has plain values only",
            ),
            Self::PickleCorrupt { what } => write!(f, "the pickle is damaged: {what}"),
            Self::NotASnapshot { what } => write!(f, "the pickle is no memory snapshot: {what}"),
        }
    }
}
