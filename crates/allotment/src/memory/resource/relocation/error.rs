//! Errors of steps of defragmentation.

use core::error::Error;
use core::fmt;

use crate::device::{DeviceError, QueueIndex};
use crate::memory::DefragmentationError;

/// Why a step moved nothing. All resources stay in their places.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// use allotment::memory::defragmentation::{Defragmenter, DefragmenterDesc, MoveError};
///
/// let queue = QueueIndex(9);
/// let desc = DefragmenterDesc::default().with_queue(queue);
/// assert_eq!(Defragmenter::new(gpu.memory(), desc).err(), Some(MoveError::NoSuchQueue { queue }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MoveError {
    /// The algorithm of the default pools does not allow any defragmentation.
    Defragmentation(DefragmentationError),
    /// The device has no such queue. Use one of its [properties](crate::device::DeviceProperties::queues).
    NoSuchQueue {
        /// The queue that was asked for.
        queue: QueueIndex,
    },
    /// The allocator and the tracker belong to different devices.
    WrongDevice,
    /// The allocator has 32,767 [`Defragmenter`](crate::memory::Defragmenter)s, the most that it can tell apart. One that
    /// was dropped counts until the last resource that it created is dropped.
    TooManyDefragmenters,
    /// The copies could not be made or submitted, or a resource for them could not be created.
    Device(DeviceError),
}

impl fmt::Display for MoveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Defragmentation(error) => error.fmt(f),
            Self::NoSuchQueue { queue } => DeviceError::NoSuchQueue { queue: *queue }.fmt(f),
            Self::WrongDevice => write!(
                f,
                "the tracker belongs to another device than the allocator, create both for one device"
            ),
            Self::TooManyDefragmenters => write!(
                f,
                "the allocator has 32767 defragmenters, the most it can have: drop some, and the resources that they created"
            ),
            Self::Device(error) => write!(f, "nothing could be moved: {error}"),
        }
    }
}

impl Error for MoveError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Defragmentation(error) => Some(error),
            Self::Device(error) => Some(error),
            Self::NoSuchQueue { .. } | Self::WrongDevice | Self::TooManyDefragmenters => None,
        }
    }
}
