//! Why a resource was not created.

use core::error::Error;
use core::fmt;

use crate::device::{DeviceError, TransferUsage};
use crate::lifetime::WrongDevice;
use crate::memory::name_in_error;
use crate::memory::{AccessError, AllocationError, OtherName, RoomError, ShortName};

/// Why a resource was not created. Neither a resource nor memory is left behind.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// use allotment::memory::{NewBlocks, ResourceError};
///
/// let options = MemoryUsage::GpuOnly.with_name("prefetch").with_new_blocks(NewBlocks::NeverAllocate);
/// match allocator.create_buffer(&BufferDesc::new(4096), &options) {
///     Err(ResourceError::Allocation(error)) => println!("later, when there is room: {error}"),
///     other => panic!("{other:?}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResourceError {
    /// The device cannot create such a resource, its description breaks a rule, or the driver refused.
    Device {
        /// The error of the device.
        source: DeviceError,
        /// Name of the resource, if it has one.
        name: ShortName,
    },
    /// Its memory could not be allocated.
    Allocation(AllocationError),
    /// A resource of this description cannot be relocatable: it lacks the copy usages, or its description cannot be
    /// used for a second resource. Add the usages, or leave it pinned.
    NotRelocatable {
        /// The copy usages to add; empty where its description cannot be used for a second resource.
        missing: TransferUsage,
        /// Name of the resource, if it has one.
        name: ShortName,
    },
    /// Its memory could not be allocated, nor could room be made for it by moving others.
    Room(RoomError),
    /// The tracker of what is to use it tracks another device than the allocator's. Create both for one device.
    WrongDevice,
    /// The resource cannot be bound to the allocation, or the CPU cannot map memory that has to be mapped.
    Access(AccessError),
    /// The resource cannot be placed there in the [memory](crate::memory::Memory).
    Placed {
        /// Why not, with the name of the resource.
        source: AccessError,
        /// Name of the memory, if it has one.
        memory: OtherName,
    },
}

name_in_error!(ResourceError, own: [Device, NotRelocatable], inner: [Allocation, Room, Access], source: [Placed]);

impl fmt::Display for ResourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device { source, name } => {
                name.begin(f)?;
                match source {
                    // Found by this library: no driver was called.
                    DeviceError::InvalidDescription(rule) => {
                        write!(f, "the description is not valid: {rule}")
                    }
                    DeviceError::Lost => source.fmt(f),
                    error if error.is_callers() => error.fmt(f),
                    _ => write!(f, "the device refused the resource: {source}"),
                }
            }
            Self::Allocation(error) => write!(f, "no memory for the resource: {error}"),
            Self::Room(error) => write!(f, "no memory for the resource: {error}"),
            Self::WrongDevice => WrongDevice.fmt(f),
            Self::NotRelocatable { missing, name } => {
                name.begin(f)?;
                if missing.is_empty() {
                    f.write_str(
                        "no second resource that a queue could copy to can be created from the description: add the copy \
                         usages of an image (VK_IMAGE_USAGE_TRANSFER_SRC_BIT | VK_IMAGE_USAGE_TRANSFER_DST_BIT), chain \
                         nothing to the description, let the defragmenter use the first graphics queue, or leave it pinned",
                    )
                } else {
                    write!(
                        f,
                        "a relocatable buffer is copied when it moves: add {missing} to its usage, or leave it pinned"
                    )
                }
            }
            Self::Access(error) => write!(f, "the resource cannot be bound to the memory: {error}"),
            Self::Placed { source, memory } => match memory.get() {
                Some(memory) => write!(f, "the resource cannot be placed in memory {memory:?}: {source}"),
                None => write!(f, "the resource cannot be placed in the memory: {source}"),
            },
        }
    }
}

impl Error for ResourceError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Device { source, .. } => Some(source),
            Self::Allocation(error) => Some(error),
            Self::Room(error) => Some(error),
            Self::Access(error) | Self::Placed { source: error, .. } => Some(error),
            Self::NotRelocatable { .. } | Self::WrongDevice => None,
        }
    }
}

impl From<WrongDevice> for ResourceError {
    fn from(_: WrongDevice) -> Self {
        Self::WrongDevice
    }
}

impl From<DeviceError> for ResourceError {
    fn from(source: DeviceError) -> Self {
        Self::Device { source, name: ShortName::NONE }
    }
}
