//! Why there is no room, and what to wait for.

use core::error::Error;
use core::fmt;

use crate::device::{DeviceError, MemoryTypeIndex, QueueIndex, TimelinePoint};
use crate::lifetime::WaitFor;
use crate::memory::{AccessError, ResourceError};

/// Why a ring has no room for a request. It is as it was before, but for its count of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RingError {
    /// A range of no bytes has no place. Ask for at least one.
    ZeroSize,
    /// The ring is too small for this request even when it is idle. Make a larger one, or serve such
    /// requests elsewhere.
    NeverFits {
        /// Bytes asked for.
        requested: u64,
        /// Bytes of the ring.
        capacity: u64,
    },
    /// There will be room when the device has got further.
    FullForNow {
        /// Bytes asked for, without those that alignment would skip.
        requested: u64,
        /// Bytes that are free now.
        free: u64,
        /// The largest range among them.
        largest: u64,
        /// What has to happen first.
        wait: WaitFor,
    },
}

impl fmt::Display for RingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroSize => f.write_str("a range of size 0 has no place"),
            Self::NeverFits { requested, capacity } => {
                write!(f, "{requested} bytes never fit a ring of {capacity}")
            }
            Self::FullForNow { requested, free, largest, wait } => write!(
                f,
                "no room for {requested} bytes now: {free} are free, the largest range is {largest}; {wait}"
            ),
        }
    }
}

impl Error for RingError {}

/// Why an arena has no room for a request. It is as it was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArenaError {
    /// A range of no bytes has no place. Ask for at least one.
    ZeroSize,
    /// There is no memory for another page.
    Page(ResourceError),
}

impl fmt::Display for ArenaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroSize => f.write_str("a range of size 0 has no place"),
            Self::Page(error) => write!(f, "no page for the upload: {error}"),
        }
    }
}

impl Error for ArenaError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::ZeroSize => None,
            Self::Page(error) => Some(error),
        }
    }
}

/// Why bytes were not read back. What they were to be copied to is as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadbackError {
    /// The device has not written them yet.
    NotYet {
        /// What has to happen first.
        wait: WaitFor,
    },
    /// The ticket is of another ring, or what it is for was [discarded](super::ReadbackRing::discard).
    Stale,
    /// The range does not lie in what the ticket is for, or the driver refused.
    Access(AccessError),
    /// The device was lost before it had written them.
    Device(DeviceError),
}

impl fmt::Display for ReadbackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotYet { wait } => write!(f, "the device has not written it yet: {wait}"),
            Self::Stale => f.write_str("the ticket is of another ring, or its frame was discarded"),
            Self::Access(error) => error.fmt(f),
            Self::Device(error) => error.fmt(f),
        }
    }
}

impl Error for ReadbackError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Access(error) => Some(error),
            Self::Device(error) => Some(error),
            Self::NotYet { .. } | Self::Stale => None,
        }
    }
}

impl From<AccessError> for ReadbackError {
    fn from(error: AccessError) -> Self {
        Self::Access(error)
    }
}

/// Why bytes were not uploaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UploadError {
    /// The target is not from this allocator, or has fewer bytes.
    Access(AccessError),
    /// The deletion queue's tracker tracks another device than the allocator's.
    WrongDevice,
    /// The target's deletion queue has another tracker than the uploader's, and would not wait for its recordings.
    WrongTracker,
    /// There is no room in staging memory.
    Full(RingError),
    /// There is no memory for staging.
    Resource(ResourceError),
    /// The queue refused. After [`DeviceError::Lost`] nothing helps but a new device.
    Device(DeviceError),
    /// The device has no such queue. Take one of its [properties](crate::device::DeviceProperties::queues).
    NoSuchQueue {
        /// The queue that was named.
        queue: QueueIndex,
    },
    /// A batch would wait for what its own queue is given after it. Submit that first.
    WaitsForItself {
        /// What was to be waited for.
        point: TimelinePoint,
    },
    /// Queues cannot write to memory of this type, and the CPU must not while they may read it.
    ReadOnly {
        /// The type.
        memory_type: MemoryTypeIndex,
    },
    /// A box of texels has another number of bytes.
    Size {
        /// Bytes of the box.
        wanted: u128,
        /// Bytes that came.
        found: u64,
    },
    /// Staging memory was full for longer than one is willing to wait.
    TimedOut {
        /// What was waited for.
        point: TimelinePoint,
    },
}

impl fmt::Display for UploadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Access(error) => write!(f, "the target cannot be written: {error}"),
            Self::WrongDevice => f.write_str("the tracker tracks another device than the allocator's"),
            Self::WrongTracker => {
                f.write_str("the target's deletion queue has another tracker than the uploader's")
            }
            Self::Full(error) => write!(f, "no room in staging memory: {error}"),
            Self::Resource(error) => write!(f, "no staging memory: {error}"),
            Self::Device(error) => write!(f, "the queue refused: {error}"),
            Self::NoSuchQueue { queue } => write!(f, "the device has no queue {}", queue.0),
            Self::WaitsForItself { point } => write!(
                f,
                "queue {} would wait for itself: {} was not submitted yet",
                point.queue.0, point.value.0
            ),
            Self::ReadOnly { memory_type } => write!(
                f,
                "queues cannot write to memory type {}; write what nobody reads yet, or use other memory",
                memory_type.0
            ),
            Self::Size { wanted, found } => write!(f, "the texels have {wanted} bytes, and {found} came"),
            Self::TimedOut { point } => write!(
                f,
                "staging memory was full for too long; queue {} did not reach {}",
                point.queue.0, point.value.0
            ),
        }
    }
}

impl Error for UploadError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Access(error) => Some(error),
            Self::Full(error) => Some(error),
            Self::Resource(error) => Some(error),
            Self::Device(error) => Some(error),
            Self::WrongDevice
            | Self::WrongTracker
            | Self::NoSuchQueue { .. }
            | Self::WaitsForItself { .. }
            | Self::ReadOnly { .. }
            | Self::Size { .. }
            | Self::TimedOut { .. } => None,
        }
    }
}

impl From<AccessError> for UploadError {
    fn from(error: AccessError) -> Self {
        Self::Access(error)
    }
}

impl From<RingError> for UploadError {
    fn from(error: RingError) -> Self {
        Self::Full(error)
    }
}

impl From<ResourceError> for UploadError {
    fn from(error: ResourceError) -> Self {
        Self::Resource(error)
    }
}

impl From<DeviceError> for UploadError {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}
