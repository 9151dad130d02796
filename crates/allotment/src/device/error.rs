//! What a driver refuses.

use core::error::Error;
use core::fmt;
use core::time::Duration;

use super::queue::TimelinePoint;

use super::DescriptionError;

/// A driver's refusal. Every variant leaves everything as it was, except [`Lost`](Self::Lost).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeviceError {
    /// The heap is full, or the driver says that it is. Free something, or use another heap.
    OutOfDeviceMemory,
    /// The driver ran out of ordinary memory for its own book-keeping.
    OutOfHostMemory,
    /// There are as many memory objects as the device can have
    /// ([`Limits::max_allocation_count`](super::Limits::max_allocation_count)). Share blocks.
    TooManyAllocations,
    /// The memory could not be made addressable by the CPU.
    MapFailed,
    /// The device cannot do this at all.
    Unsupported,
    /// The description of a buffer or an image breaks a rule. The driver was not asked.
    InvalidDescription(DescriptionError),
    /// The application did not enable something that this needs, or did not say that it did.
    NotEnabled(MissingFeature),
    /// The device is gone: nothing submitted will complete. Only a new device helps.
    Lost,
    /// A queue did not reach a point in the time that it was given: wait once more, or submit what it waits for. The work
    /// goes on, and what it uses must stay.
    TimedOut {
        /// What was waited for.
        point: TimelinePoint,
        /// For how long.
        timeout: Duration,
    },
    /// Anything else, with the API's own code.
    Other {
        /// `VkResult` or `HRESULT`.
        code: i32,
    },
}

/// What an application enables when it creates its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MissingFeature {
    /// Vulkan's `timelineSemaphore`, core since 1.2 and before that of `VK_KHR_timeline_semaphore`, without which the
    /// device can have no queues. Enable it and say `EnabledFeatures::TIMELINE_SEMAPHORE`.
    TimelineSemaphore,
    /// The extensions by which memory is shared as handles of the types asked for: on Vulkan
    /// `VK_KHR_external_memory_fd`, `VK_EXT_external_memory_dma_buf`. Enable them and say
    /// `EnabledFeatures::EXTERNAL_MEMORY_FD`, `EnabledFeatures::EXTERNAL_MEMORY_DMA_BUF`.
    ExternalMemory,
}

impl DeviceError {
    /// True where another heap, or less, may still be had.
    #[must_use]
    pub const fn is_out_of_memory(self) -> bool {
        matches!(self, Self::OutOfDeviceMemory | Self::OutOfHostMemory | Self::TooManyAllocations)
    }

    /// True where a wait was too short: nothing is wrong with the device, and another wait may succeed.
    #[must_use]
    pub const fn is_timeout(self) -> bool {
        matches!(self, Self::TimedOut { .. })
    }
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfDeviceMemory => f.write_str("the device is out of memory"),
            Self::OutOfHostMemory => f.write_str("the driver is out of host memory"),
            Self::TooManyAllocations => f.write_str("the device has as many memory objects as it can have"),
            Self::MapFailed => f.write_str("the memory could not be mapped"),
            Self::Unsupported => f.write_str("the device cannot do this"),
            Self::InvalidDescription(error) => error.fmt(f),
            Self::NotEnabled(feature) => write!(f, "the application did not enable {feature}"),
            Self::Lost => f.write_str("the device is lost"),
            Self::TimedOut { point, timeout } => write!(
                f,
                "queue {} did not reach {} within {timeout:?}; wait longer, or submit what it waits for",
                point.queue.0, point.value.0
            ),
            Self::Other { code } => write!(f, "the driver answered with code {code}"),
        }
    }
}

impl Error for DeviceError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
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
                "timelineSemaphore (Vulkan 1.2 or VK_KHR_timeline_semaphore), which queues need: enable it and say EnabledFeatures::TIMELINE_SEMAPHORE"
            }
            Self::ExternalMemory => {
                "the extension for a handle type (VK_KHR_external_memory_fd, VK_EXT_external_memory_dma_buf): enable it and say so"
            }
        })
    }
}
