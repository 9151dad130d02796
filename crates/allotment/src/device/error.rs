//! Errors of the device layer.

use core::error::Error;
use core::fmt;
use core::time::Duration;

use super::queue::{QueueIndex, TimelinePoint};

use super::DescriptionError;

/// An error of a driver, or of the checks before the driver is called. Every variant leaves everything
/// unchanged, except [`Lost`](Self::Lost).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeviceError {
    /// The memory heap is full, or the driver says that it is. Free memory, or use another heap.
    OutOfDeviceMemory,
    /// The driver ran out of host memory for its own data structures.
    OutOfHostMemory,
    /// The device has reached its limit of memory objects
    /// ([`Limits::max_allocation_count`](super::Limits::max_allocation_count)). Suballocate from larger blocks.
    TooManyAllocations,
    /// The memory could not be mapped.
    MapFailed,
    /// The device does not support the operation.
    Unsupported,
    /// The device has no such queue. Use one of its [properties](super::DeviceProperties::queues).
    NoSuchQueue {
        /// The queue that was asked for.
        queue: QueueIndex,
    },
    /// The submission would wait for a point of its own queue that only it or a later one reaches, which is a deadlock.
    WaitsForItself {
        /// The point.
        point: TimelinePoint,
    },
    /// The description of a buffer or an image breaks a rule. The driver was not called.
    InvalidDescription(DescriptionError),
    /// The operation needs a feature or extension that the application did not enable, or did not list as
    /// enabled.
    NotEnabled(MissingFeature),
    /// The device is lost: no submission will complete. Create a new device.
    Lost,
    /// A queue did not reach a point within the timeout. Wait again, or submit the work that the queue waits
    /// for. The submitted work continues, so the resources that it uses must stay alive.
    TimedOut {
        /// The point that was waited for.
        point: TimelinePoint,
        /// The timeout.
        timeout: Duration,
    },
    /// Any other error, with the API's code.
    Other {
        /// `VkResult` or `HRESULT`.
        code: i32,
    },
}

/// A feature that the application has to enable when it creates its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MissingFeature {
    /// Vulkan's `timelineSemaphore`, which all queues need: core since 1.2, from `VK_KHR_timeline_semaphore`
    /// before. Enable it and pass `EnabledFeatures::TIMELINE_SEMAPHORE`.
    TimelineSemaphore,
    /// The extension that shares memory as the requested handle type: in Vulkan `VK_KHR_external_memory_fd`,
    /// `VK_EXT_external_memory_dma_buf`. Enable it and pass `EnabledFeatures::EXTERNAL_MEMORY_FD`,
    /// `EnabledFeatures::EXTERNAL_MEMORY_DMA_BUF`.
    ExternalMemory,
}

impl DeviceError {
    /// Returns true if a smaller allocation, or one from another heap, may succeed.
    #[must_use]
    pub const fn is_out_of_memory(self) -> bool {
        matches!(self, Self::OutOfDeviceMemory | Self::OutOfHostMemory | Self::TooManyAllocations)
    }

    /// Names the whole time of a wait that had several steps, rather than what was left of it for the last.
    pub(crate) fn within(self, timeout: Duration) -> Self {
        match self {
            Self::TimedOut { point, .. } => Self::TimedOut { point, timeout },
            other => other,
        }
    }

    /// Returns true if a wait timed out: the device works, and another wait may succeed.
    #[must_use]
    pub const fn is_timeout(self) -> bool {
        matches!(self, Self::TimedOut { .. })
    }
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfDeviceMemory => f.write_str("out of device memory, free something"),
            Self::OutOfHostMemory => f.write_str("out of host memory in the driver"),
            Self::TooManyAllocations => f.write_str("too many memory objects for the device"),
            Self::MapFailed => f.write_str("the memory could not be mapped"),
            Self::Unsupported => f.write_str("the device does not support this operation"),
            Self::NoSuchQueue { queue } => {
                write!(f, "the device has no queue {}, choose one of its `properties().queues`", queue.0)
            }
            Self::WaitsForItself { point } => write!(
                f,
                "queue {} would wait for itself: {} was not submitted yet, submit that first",
                point.queue.0, point.value.0
            ),
            Self::InvalidDescription(error) => error.fmt(f),
            Self::NotEnabled(feature) => write!(f, "the application did not enable {feature}"),
            Self::Lost => f.write_str("the device is lost, create a new one"),
            Self::TimedOut { point, timeout } => write!(
                f,
                "queue {} did not reach {} within {timeout:?}; wait longer, or submit the work that it waits for",
                point.queue.0, point.value.0
            ),
            Self::Other { code } => write!(f, "the driver returned error code {code}"),
        }
    }
}

impl Error for DeviceError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            // The other variants have no cause besides the driver's code, which they contain.
            Self::InvalidDescription(error) => Some(error),
            _ => None,
        }
    }
}

impl From<DescriptionError> for DeviceError {
    fn from(error: DescriptionError) -> Self {
        Self::InvalidDescription(error)
    }
}

impl fmt::Display for MissingFeature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TimelineSemaphore => {
                "timelineSemaphore (Vulkan 1.2 or VK_KHR_timeline_semaphore), which queues need: enable it and pass EnabledFeatures::TIMELINE_SEMAPHORE"
            }
            Self::ExternalMemory => {
                "the extension for a handle type (VK_KHR_external_memory_fd, VK_EXT_external_memory_dma_buf): enable it and pass its EnabledFeatures flag"
            }
        })
    }
}
