//! Errors of the device layer.

use core::error::Error;
use core::fmt;
use core::time::Duration;

use super::queue::{QueueIndex, TimelinePoint};

use super::{CopyError, DescriptionError, MemoryTypeIndex, MemoryTypeMask};

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
    /// The device, its driver or its API does not support the operation. A wrong argument is another error.
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
    /// The application's queue cannot copy: it is for video, for example, or of a queue family that does not exist. List only
    /// graphics, compute and transfer queues.
    QueueCannotCopy {
        /// The queue, in the order in which the application listed them.
        queue: QueueIndex,
    },
    /// A description breaks a rule. The driver was not called.
    InvalidDescription(DescriptionError),
    /// A copy of a submission breaks a rule. Nothing was submitted.
    InvalidCopy(CopyError),
    /// Memory of this type cannot be allocated or used here: the device has no such type, it needs a feature that the
    /// application did not enable, or the resource does not allow it.
    WrongMemoryType {
        /// The memory type.
        memory_type: MemoryTypeIndex,
        /// Memory types that can be used.
        allowed: MemoryTypeMask,
    },
    /// The range exceeds a memory object, a buffer or a descriptor heap.
    OutOfRange {
        /// Start of the range, in bytes.
        offset: u64,
        /// Size of the range, in bytes.
        size: u64,
        /// Size of the object, in bytes.
        available: u64,
    },
    /// An offset is not a multiple of the alignment that the resource or the copy requires.
    Misaligned {
        /// The offset in bytes.
        offset: u64,
        /// The alignment in bytes.
        alignment: u64,
    },
    /// The resource requires dedicated memory. Create both together
    /// ([`create_dedicated_buffer`](super::BufferDevice::create_dedicated_buffer),
    /// [`create_dedicated_image`](super::ImageDevice::create_dedicated_image)).
    DedicatedRequired,
    /// Memory, a resource or a descriptor heap that the call names was destroyed, or belongs to another device.
    Destroyed,
    /// The imported memory is a memory object of this device already. Use that, whose owner frees it.
    AlreadyImported,
    /// The call takes exactly one type of external handle, of those that are allowed.
    HandleType {
        /// The handle types that were passed (`VkExternalMemoryHandleTypeFlags`).
        handle_types: u32,
        /// The handle types of which one is allowed.
        allowed: u32,
    },
    /// Work reads descriptors of a heap that is not shader-visible. Copy them to one that is.
    NotShaderVisible,
    /// The application did not enable Vulkan's `timelineSemaphore`, which all queues need: core since 1.2, from
    /// `VK_KHR_timeline_semaphore` before. Enable it and pass `EnabledFeatures::TIMELINE_SEMAPHORE`.
    TimelineSemaphoreNotEnabled,
    /// The application did not enable the extension that shares memory as the requested handle type: in Vulkan
    /// `VK_KHR_external_memory_fd`, `VK_EXT_external_memory_dma_buf`. Enable it and pass
    /// `EnabledFeatures::EXTERNAL_MEMORY_FD`, `EnabledFeatures::EXTERNAL_MEMORY_DMA_BUF`.
    ExternalMemoryNotEnabled,
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

impl DeviceError {
    /// Returns true if a smaller allocation, or one from another heap, may succeed.
    #[must_use]
    pub const fn is_out_of_memory(self) -> bool {
        matches!(self, Self::OutOfDeviceMemory | Self::OutOfHostMemory | Self::TooManyAllocations)
    }

    /// Returns true if an argument is wrong, or something was not enabled: the driver was not called, and the error says
    /// what to do.
    pub(crate) const fn is_callers(self) -> bool {
        matches!(
            self,
            Self::NoSuchQueue { .. }
                | Self::WaitsForItself { .. }
                | Self::QueueCannotCopy { .. }
                | Self::InvalidDescription(_)
                | Self::InvalidCopy(_)
                | Self::WrongMemoryType { .. }
                | Self::OutOfRange { .. }
                | Self::Misaligned { .. }
                | Self::DedicatedRequired
                | Self::Destroyed
                | Self::AlreadyImported
                | Self::HandleType { .. }
                | Self::NotShaderVisible
                | Self::TimelineSemaphoreNotEnabled
                | Self::ExternalMemoryNotEnabled
        )
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
            Self::QueueCannotCopy { queue } => write!(
                f,
                "queue {} cannot copy, list only graphics, compute and transfer queues",
                queue.0
            ),
            Self::InvalidDescription(error) => error.fmt(f),
            Self::InvalidCopy(error) => error.fmt(f),
            Self::WrongMemoryType { memory_type, allowed } => {
                write!(f, "memory type {memory_type} cannot be used here, choose one of the mask {:#x}", allowed.0)
            }
            Self::OutOfRange { offset, size, available } => write!(
                f,
                "{size} bytes at offset {offset} exceed the {available} bytes there, choose a range inside them"
            ),
            Self::Misaligned { offset, alignment } => write!(
                f,
                "offset {offset} is not a multiple of the alignment of {alignment} bytes, choose one that is"
            ),
            Self::DedicatedRequired => f.write_str(
                "the device requires dedicated memory for the resource, create both together (`create_buffer`, `create_image`)",
            ),
            Self::Destroyed => f.write_str(
                "memory, a resource or a descriptor heap was destroyed before, or belongs to another device: keep it alive until the work that uses it has completed",
            ),
            Self::AlreadyImported => f.write_str(
                "the memory is a memory object of this device already, use that instead of another import",
            ),
            Self::HandleType { handle_types, allowed } => write!(
                f,
                "handle types {handle_types:#x} cannot be used here, pass exactly one of {allowed:#x}"
            ),
            Self::NotShaderVisible => f.write_str(
                "work cannot read a descriptor heap that is not shader-visible, copy the descriptors to one that is",
            ),
            Self::TimelineSemaphoreNotEnabled => f.write_str(
                "the application did not enable timelineSemaphore (Vulkan 1.2 or VK_KHR_timeline_semaphore), which queues need: enable it and pass EnabledFeatures::TIMELINE_SEMAPHORE",
            ),
            Self::ExternalMemoryNotEnabled => f.write_str(
                "the application did not enable the extension for a handle type (VK_KHR_external_memory_fd, VK_EXT_external_memory_dma_buf): enable it and pass its EnabledFeatures flag",
            ),
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
            Self::InvalidCopy(error) => Some(error),
            _ => None,
        }
    }
}

impl From<CopyError> for DeviceError {
    fn from(error: CopyError) -> Self {
        Self::InvalidCopy(error)
    }
}

impl From<DescriptionError> for DeviceError {
    fn from(error: DescriptionError) -> Self {
        Self::InvalidDescription(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_device_fits_four_registers() {
        // Errors of the layers above contain one, a name and numbers of their own.
        assert!(size_of::<DeviceError>() <= 32, "{}", size_of::<DeviceError>());
    }
}
