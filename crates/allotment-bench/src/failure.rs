//! Failures of commands, in one line each.

use core::fmt;
use std::path::PathBuf;

use allotment_headless::vulkan::OpenError;
use allotment_trace::TraceError;
use ash::vk;

use crate::contender::Refusal;

/// The failure of a command.
#[derive(Debug)]
pub(crate) enum Failure {
    /// There is no Vulkan loader, or no such device.
    NoDevice(String),
    /// A Vulkan call failed.
    Vulkan { call: &'static str, result: vk::Result },
    /// A contender refused a request that the workload needs.
    Refused { contender: &'static str, refusal: Refusal },
    /// A contender could not be created.
    Setup { contender: &'static str, error: String },
    /// A contender returned a range that it must not return.
    Unsound { contender: &'static str, workload: String, fault: String },
    /// Nothing has a name that was asked for.
    NoSuch { what: &'static str, name: String },
    /// A file cannot be read or written.
    File { path: PathBuf, error: std::io::Error },
    /// A trace cannot be read.
    Trace(TraceError),
    /// A generated trace cannot be written.
    Write { path: PathBuf, error: std::io::Error },
    /// Verification failed: bytes differ from those sent.
    Corrupt { memory_type: usize },
    /// A thread of the benchmark panicked.
    Thread,
    /// Figures could not be written as JSON.
    Json(serde_json::Error),
    /// Standard output could not be written.
    Output(&'static std::io::Error),
}

impl Failure {
    /// Returns a function that turns the result of a Vulkan call into a failure.
    pub(crate) fn vulkan(call: &'static str) -> impl FnOnce(vk::Result) -> Self {
        move |result| Self::Vulkan { call, result }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDevice(what) => f.write_str(what),
            Self::Vulkan { call, result } => write!(f, "{call}: {result:?}"),
            Self::Refused { contender, refusal } => write!(f, "{contender}: {refusal}"),
            Self::Setup { contender, error } => write!(f, "{contender} could not be set up: {error}"),
            Self::Unsound { contender, workload, fault } => write!(f, "{contender} in {workload}: {fault}"),
            Self::NoSuch { what, name } => write!(f, "no {what} has a name that begins with {name}"),
            Self::File { path, error } => write!(f, "{}: {error}", path.display()),
            Self::Trace(error) => error.fmt(f),
            Self::Write { path, error } => write!(f, "cannot write {}: {error}", path.display()),
            Self::Corrupt { memory_type } => {
                write!(f, "bytes copied from memory type {memory_type} differ from those written")
            }
            Self::Thread => f.write_str("a thread of the benchmark panicked"),
            Self::Json(error) => error.fmt(f),
            Self::Output(error) => write!(f, "cannot write to standard output: {error}"),
        }
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        Self::NoDevice(error.to_string())
    }
}

impl From<TraceError> for Failure {
    fn from(error: TraceError) -> Self {
        Self::Trace(error)
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::Json(error)
    }
}
