//! Why a request was refused.

use allotment::device::DeviceError;
use thiserror::Error;

/// Why a request was refused.
#[derive(Debug, Error)]
pub enum AllocationError {
    /// The heap is full, or the device can have no more memory objects.
    #[error("Out of memory")]
    OutOfMemory,
    /// The driver did not map the memory.
    #[error("Failed to map memory: {0}")]
    FailedToMap(String),
    /// No memory type that the resource allows has the properties of the location.
    #[error("No compatible memory type available")]
    NoCompatibleMemoryTypeFound,
    /// The size is 0, or the alignment is no power of two.
    #[error("Invalid AllocationCreateDesc")]
    InvalidAllocationCreateDesc,
    /// The allocator was described wrongly.
    #[error("Invalid AllocatorCreateDesc {0}")]
    InvalidAllocatorCreateDesc(String),
    /// Any other error.
    #[error("Internal error: {0}")]
    Internal(String),
    /// An initial layout needs enhanced barriers, so at least an `ID3D12Device10`.
    #[error("Initial `BARRIER_LAYOUT` needs at least `Device10`")]
    BarrierLayoutNeedsDevice10,
    /// Castable formats need an initial layout.
    #[error("Castable formats require enhanced barriers")]
    CastableFormatsRequiresEnhancedBarriers,
    /// Castable formats need at least an `ID3D12Device12`.
    #[error("Castable formats require at least `Device12`")]
    CastableFormatsRequiresAtLeastDevice12,
}

/// A result whose error is an [`AllocationError`], unless another is named.
pub type Result<V, E = AllocationError> = core::result::Result<V, E>;

impl AllocationError {
    /// Returns the error of a request that Allotment refused.
    pub(crate) fn of_request(error: allotment::AllocationError) -> Self {
        use allotment::AllocationError as Refused;
        match error {
            Refused::ZeroSize { .. } => Self::InvalidAllocationCreateDesc,
            Refused::TooLarge { .. }
            | Refused::OverBudget { .. }
            | Refused::HeapLimit { .. }
            | Refused::TooManyAllocations { .. }
            | Refused::OutOfMemory { .. } => Self::OutOfMemory,
            Refused::NoMemoryType { .. } | Refused::NoTypeWithProperties { .. } => {
                Self::NoCompatibleMemoryTypeFound
            }
            Refused::Device { source, .. } => Self::of_device(source),
            other => Self::Internal(other.to_string()),
        }
    }

    /// Returns the error of a device.
    pub(crate) fn of_device(error: DeviceError) -> Self {
        match error {
            DeviceError::OutOfDeviceMemory
            | DeviceError::OutOfHostMemory
            | DeviceError::TooManyAllocations => Self::OutOfMemory,
            DeviceError::MapFailed => Self::FailedToMap(error.to_string()),
            other => Self::Internal(other.to_string()),
        }
    }
}
