//! Errors of relocatable resources and of their moves.

use core::error::Error;
use core::fmt;

use crate::device::DeviceError;
use crate::memory::{DefragmentationError, ResourceError};

/// Why a relocatable resource was not created. Nothing remains allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MovableError {
    /// A resource of this description cannot be copied: it lacks the copy usages, or its description cannot be used for
    /// a second resource. Add the usages, or create the resource by the allocator itself, where it does not move.
    NotCopyable,
    /// The options name a custom pool, which a set does not defragment. Leave the pool out, or create the resource by the
    /// allocator itself, where manual passes move it ([`Allocator::defragmentation_in`](crate::Allocator::defragmentation_in)).
    CustomPool,
    /// The resource or its memory could not be created.
    Resource(ResourceError),
}

impl fmt::Display for MovableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotCopyable => {
                write!(f, "the resource cannot be relocatable: copies of it are not possible")
            }
            Self::CustomPool => {
                write!(
                    f,
                    "the resource cannot be relocatable in a custom pool: leave the pool out of its options"
                )
            }
            Self::Resource(error) => error.fmt(f),
        }
    }
}

impl Error for MovableError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::NotCopyable | Self::CustomPool => None,
            Self::Resource(error) => error.source(),
        }
    }
}

impl From<ResourceError> for MovableError {
    fn from(error: ResourceError) -> Self {
        Self::Resource(error)
    }
}

/// Why a step moved nothing. All resources stay in their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MoveError {
    /// Another defragmentation of these pools is running, or their algorithm does not allow any.
    Defragmentation(DefragmentationError),
    /// The device has no such queue.
    NoSuchQueue,
    /// The allocator and the tracker belong to different devices.
    WrongDevice,
    /// The device refused the copies.
    Device(DeviceError),
}

impl fmt::Display for MoveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Defragmentation(error) => error.fmt(f),
            Self::NoSuchQueue => write!(f, "the device has no such queue"),
            Self::WrongDevice => write!(f, "the tracker belongs to another device than the allocator"),
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
