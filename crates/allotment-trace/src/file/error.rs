//! Errors of reading a file.

use core::error::Error;
use core::fmt;
use std::io;

/// The error of a file that cannot be read at all.
///
/// Of a file that is damaged further on, everything before the damage is read, and a [`Damage`] says where it is.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// The file could not be opened, or the source failed while it was read.
    Io(io::Error),
    /// The file does not begin as a recording does. It has another format, or a transfer in text mode changed it.
    NotARecording,
    /// A later version of the library wrote the file. Update the reader.
    Version {
        /// The version of the file.
        found: u32,
    },
    /// The header is damaged, so that nothing is known about what follows.
    Header(Damage),
    /// There is no snapshot with the number that was asked for.
    NoSnapshot {
        /// How many snapshots there are.
        snapshots: usize,
    },
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::NotARecording => f.write_str(
                "this is no recording: its first bytes are others (a transfer in text mode changes them, too)",
            ),
            Self::Version { found } => write!(
                f,
                "the recording has version {found} of the format, and this program reads version {}: update it",
                super::VERSION
            ),
            Self::Header(damage) => write!(f, "the recording's header is damaged: {damage}"),
            Self::NoSnapshot { snapshots } => write!(f, "the recording has {snapshots} snapshots, and no such one"),
        }
    }
}

impl Error for ReadError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::Header(damage) => Some(damage),
            _ => None,
        }
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Where a file is damaged. Everything before is as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Where the damaged chunk begins, in bytes from the beginning of the file.
    pub offset: u64,
    /// The damage.
    pub what: DamageKind,
}

/// The kind of damage of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DamageKind {
    /// The file ends before the end of the recording: the program that recorded it ended suddenly or is still
    /// recording, or a copy was interrupted.
    Truncated,
    /// The checksum is wrong: bytes were changed.
    Checksum,
    /// The chunk says that it is longer than [`MAX_CHUNK_BYTES`](super::MAX_CHUNK_BYTES).
    TooLong,
    /// The checksum is right, and the contents are not: the writer has an error, or the file was made on purpose.
    Contents(&'static str),
    /// There is more in the recording than the [options](super::ReadOptions) allow.
    TooMuch {
        /// The name of the values that are too many.
        of: &'static str,
        /// How much is allowed.
        limit: u64,
    },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let offset = self.offset;
        match self.what {
            DamageKind::Truncated => write!(f, "the recording is cut short at byte {offset}"),
            DamageKind::Checksum => write!(f, "the checksum of the chunk at byte {offset} is wrong"),
            DamageKind::TooLong => write!(f, "the chunk at byte {offset} has an impossible length"),
            DamageKind::Contents(what) => write!(f, "the chunk at byte {offset} makes no sense: {what}"),
            DamageKind::TooMuch { of, limit } => {
                write!(
                    f,
                    "from byte {offset} on there are more than {limit} {of}: raise the limit to read them"
                )
            }
        }
    }
}

impl Error for Damage {}
