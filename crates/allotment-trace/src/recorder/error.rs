//! Errors of recording.

use core::error::Error;
use core::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use allotment::events::AlreadySubscribed;

/// The error of beginning, writing or ending a recording.
#[derive(Debug)]
#[non_exhaustive]
pub enum RecordError {
    /// The file cannot be created. One that is there is unchanged.
    Create {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Another recording is being written to the file, by this program or another one. Finish that one first, or choose
    /// another path.
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be written, for example because the disk is full. What was written before can be read. The
    /// recorder has ended, and costs the program nothing any more.
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Another subscription reads the events, for example another recorder. Finish that one first.
    AlreadySubscribed(AlreadySubscribed),
    /// The system cannot start a thread.
    Thread(io::Error),
    /// The recorder writes all events to a file already. Only a [ring](super::Recorder::ring) is written when asked.
    NotARing,
    /// The recorder's thread has ended: a write failed before, or took too long. [`finish`](super::Recorder::finish)
    /// says why.
    Ended,
}

impl RecordError {
    pub(crate) fn create(path: &Path, error: io::Error) -> Self {
        let path = path.to_owned();
        if error.kind() == ErrorKind::ResourceBusy {
            Self::InUse { path }
        } else {
            Self::Create { path, error }
        }
    }
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { path, error } => {
                write!(f, "the recording {} cannot be created: {error}", path.display())
            }
            Self::InUse { path } => {
                write!(f, "{} is being written by another recorder: finish that one first", path.display())
            }
            Self::Write { path, error } => {
                write!(f, "the recording {} cannot be written: {error}", path.display())
            }
            Self::AlreadySubscribed(error) => error.fmt(f),
            Self::Thread(error) => write!(f, "the recorder's thread cannot be started: {error}"),
            Self::NotARing => {
                f.write_str("the recorder writes to a file already; only a ring is written when asked")
            }
            Self::Ended => f.write_str("the recorder has ended"),
        }
    }
}

impl Error for RecordError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Create { error, .. } | Self::Write { error, .. } | Self::Thread(error) => Some(error),
            Self::AlreadySubscribed(error) => Some(error),
            _ => None,
        }
    }
}

impl From<AlreadySubscribed> for RecordError {
    fn from(error: AlreadySubscribed) -> Self {
        Self::AlreadySubscribed(error)
    }
}
