//! Failures of commands: one line of text, and an exit code.

use core::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use allotment::memory::{CreateAllocatorError, ResourceError, TransferError};
use allotment::{AlignmentError, AllocationError};
use allotment_trace::{RecordError, TraceError};

/// The failure of a command.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The arguments are invalid.
    Usage(String),
    /// The trace cannot be read.
    Trace(TraceError),
    /// The input of a command that inspects recordings cannot be read.
    Input(String),
    /// Rules of the check command that do not hold.
    Rules { failed: usize, of: usize },
    /// Items of a plan that have no place within the capacity.
    NotPlaced { items: usize, of: usize },
    /// The recording of a replay failed.
    Record(RecordError),
    /// An allocation of the trace was refused.
    Allocation { line: u64, id: u64, error: AllocationError },
    /// A resource of the trace could not be created.
    Resource { line: u64, id: u64, error: Box<ResourceError> },
    /// Data could not be transferred.
    Transfer { id: u64, error: TransferError },
    /// Verification failed: a byte differs from the one written.
    Corrupt { id: u64, offset: u64 },
    /// The device's validation found errors, whether or not the command failed because of them.
    Validation { messages: Vec<String>, failure: Option<Box<Self>> },
    /// No such device was found.
    NoDevice(String),
    /// A file could not be written.
    Write { path: PathBuf, error: std::io::Error },
    /// Standard output could not be written.
    Output(&'static std::io::Error),
    /// An error of the library that cannot occur in a correct program.
    Unexpected(String),
}

impl Failure {
    pub(crate) fn write(path: &Path, error: std::io::Error) -> Self {
        Self::Write { path: path.to_owned(), error }
    }

    /// 2 for bad usage, and for a recording that cannot be read; 1 for everything else.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(if matches!(self, Self::Usage(_) | Self::Input(_)) { 2 } else { 1 })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(what) => f.write_str(what),
            Self::Trace(error) => error.fmt(f),
            Self::Input(what) => f.write_str(what),
            Self::NotPlaced { items, of } => {
                write!(f, "{items} of {of} items have no place within the capacity")
            }
            Self::Rules { failed, of } => write!(f, "{failed} of {of} rules failed"),
            Self::Record(error) => error.fmt(f),
            Self::Allocation { line, id, error } => write!(f, "line {line}: resource {id}: {error}"),
            Self::Resource { line, id, error } => write!(f, "line {line}: resource {id}: {error}"),
            Self::Transfer { id, error } => write!(f, "resource {id}: {error}"),
            Self::Corrupt { id, offset } => {
                write!(f, "resource {id}: byte {offset} differs from the byte written")
            }
            Self::Validation { messages, failure } => {
                match messages.as_slice() {
                    [message] => write!(f, "validation error: {message}")?,
                    _ => {
                        write!(f, "{} validation errors:", messages.len())?;
                        messages.iter().try_for_each(|message| write!(f, "\n  {message}"))?;
                    }
                }
                failure.iter().try_for_each(|failure| write!(f, "\nallotment: {failure}"))
            }
            Self::NoDevice(why) => f.write_str(why),
            Self::Write { path, error } => {
                write!(f, "cannot write {}: ", path.display())?;
                match error.kind() {
                    ErrorKind::IsADirectory => f.write_str("it is a directory, not a file"),
                    _ => error.fmt(f),
                }
            }
            Self::Output(error) => write!(f, "cannot write to standard output: {error}"),
            Self::Unexpected(what) => f.write_str(what),
        }
    }
}

impl From<TraceError> for Failure {
    fn from(error: TraceError) -> Self {
        Self::Trace(error)
    }
}

impl From<CreateAllocatorError> for Failure {
    fn from(error: CreateAllocatorError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<AlignmentError> for Failure {
    fn from(error: AlignmentError) -> Self {
        Self::Unexpected(error.to_string())
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::Unexpected(error.to_string())
    }
}
