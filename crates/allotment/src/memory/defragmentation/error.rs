//! The error of a defragmentation that cannot begin.

use core::error::Error;
use core::fmt;

/// Why a defragmentation did not begin. The pools are unchanged.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// use allotment::memory::{DefragmentationDesc, DefragmentationError};
///
/// let run = allocator.defragmentation(DefragmentationDesc::default())?;
/// let second = allocator.defragmentation(DefragmentationDesc::default()).err();
/// assert_eq!(second, Some(DefragmentationError::AlreadyRunning));
/// drop(run); // ends it
/// assert!(allocator.defragmentation(DefragmentationDesc::default()).is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DefragmentationError {
    /// The blocks of the pool, or of the default pools, use the linear algorithm. It places allocations by the order in
    /// which they come, and leaves no holes that are worth filling. Free the allocations, or use another algorithm.
    LinearPool,
    /// The pool belongs to another allocator.
    WrongPool,
    /// Another defragmentation with passes of the pool, or of the default pools, is running. Drop it first.
    /// [`Defragmenter`](crate::memory::Defragmenter)s may be running as well.
    AlreadyRunning,
}

impl fmt::Display for DefragmentationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LinearPool => {
                "pools with the linear algorithm cannot be defragmented, free their allocations instead"
            }
            Self::WrongPool => "the pool belongs to another allocator",
            Self::AlreadyRunning => "a defragmentation of these pools is running, drop it first",
        })
    }
}

impl Error for DefragmentationError {}
