//! Why a resource was not created.

use core::error::Error;
use core::fmt;

use crate::device::DeviceError;
use crate::memory::{AccessError, AllocationError, RoomError};

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
    /// The device cannot create such a resource, or the driver refused.
    Device(DeviceError),
    /// Its memory could not be allocated.
    Allocation(AllocationError),
    /// A resource of this description cannot be relocatable: it lacks the copy usages, or its description cannot be
    /// used for a second resource. Add the usages, or leave it pinned.
    NotRelocatable,
    /// Its memory could not be allocated, nor could room be made for it by moving others.
    Room(RoomError),
    /// The resource cannot be bound to the allocation, or the CPU cannot map memory that has to be mapped.
    Access(AccessError),
}

impl fmt::Display for ResourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(error) => write!(f, "the device refused the resource: {error}"),
            Self::Allocation(error) => write!(f, "no memory for the resource: {error}"),
            Self::Room(error) => write!(f, "no memory for the resource: {error}"),
            Self::NotRelocatable => {
                write!(f, "the resource cannot be relocatable: copies of it are not possible")
            }
            Self::Access(error) => write!(f, "the resource cannot be bound to the memory: {error}"),
        }
    }
}

impl Error for ResourceError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Device(error) => Some(error),
            Self::Allocation(error) => Some(error),
            Self::Room(error) => Some(error),
            Self::Access(error) => Some(error),
            Self::NotRelocatable => None,
        }
    }
}
