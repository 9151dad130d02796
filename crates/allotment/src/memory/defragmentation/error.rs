//! Why there is no defragmentation.

use core::error::Error;
use core::fmt;

/// Why a defragmentation was not begun. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DefragmentationError {
    /// The blocks of the pool, or of the default pools, are linear: what comes and goes in order leaves no holes that
    /// are worth filling, and finds its place by the order. Empty them, or use another algorithm.
    LinearPool,
    /// The pool is from another allocator.
    WrongPool,
    /// The pool, or the default pools, are being defragmented already. End that one first: drop it.
    AlreadyRunning,
}

impl fmt::Display for DefragmentationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LinearPool => "linear blocks are not defragmented, empty them instead",
            Self::WrongPool => "the pool belongs to another allocator",
            Self::AlreadyRunning => "a defragmentation of these pools is running, drop it first",
        })
    }
}

impl Error for DefragmentationError {}
