//! Why a resource is not movable, and why none was moved.

use core::error::Error;
use core::fmt;

use crate::device::DeviceError;
use crate::memory::{DefragmentationError, ResourceError};

/// Why a movable resource was not made. Nothing is left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MovableError {
    /// A resource made so cannot be copied: it lacks the usages for that, or is described by more than can be said
    /// twice. Add the usages, or make it by the allocator itself, where it stays.
    NotCopyable,
    /// There is no resource or no memory.
    Resource(ResourceError),
}

impl fmt::Display for MovableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotCopyable => write!(f, "a resource made so cannot be copied, so it cannot be moved"),
            Self::Resource(error) => error.fmt(f),
        }
    }
}

impl Error for MovableError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::NotCopyable => None,
            Self::Resource(error) => error.source(),
        }
    }
}

impl From<ResourceError> for MovableError {
    fn from(error: ResourceError) -> Self {
        Self::Resource(error)
    }
}

/// Why a step moved nothing. Everything stays where it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MoveError {
    /// Somebody else defragments these pools, or they cannot be.
    Defragmentation(DefragmentationError),
    /// The device has no such queue.
    NoSuchQueue,
    /// The deletion queue's tracker tracks another device than the allocator's.
    WrongDevice,
    /// The device refused the copies.
    Device(DeviceError),
}

impl fmt::Display for MoveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Defragmentation(error) => error.fmt(f),
            Self::NoSuchQueue => write!(f, "the device has no such queue"),
            Self::WrongDevice => write!(f, "the tracker tracks another device than the allocator's"),
            Self::Device(error) => write!(f, "the device refused to copy: {error}"),
        }
    }
}

impl Error for MoveError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Defragmentation(error) => Some(error),
            Self::Device(error) => Some(error),
            Self::NoSuchQueue | Self::WrongDevice => None,
        }
    }
}
