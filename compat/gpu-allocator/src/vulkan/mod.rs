//! An allocator for a Vulkan device of the application.
//!
//! ```no_run
//! use ash::vk;
//! use gpu_allocator::MemoryLocation;
//! use gpu_allocator::vulkan::{AllocationCreateDesc, AllocationScheme, Allocator, AllocatorCreateDesc};
//! # fn engine() -> (ash::Instance, vk::PhysicalDevice, ash::Device, vk::Buffer) { todo!() }
//!
//! let (instance, physical_device, device, buffer) = engine();
//! let mut allocator = Allocator::new(&AllocatorCreateDesc {
//!     instance,
//!     device: device.clone(),
//!     physical_device,
//!     debug_settings: Default::default(),
//!     buffer_device_address: false,
//!     allocation_sizes: Default::default(),
//! })?;
//! let allocation = allocator.allocate(&AllocationCreateDesc {
//!     name: "vertices",
//!     // SAFETY: the buffer is of the device.
//!     requirements: unsafe { device.get_buffer_memory_requirements(buffer) },
//!     location: MemoryLocation::CpuToGpu,
//!     linear: true,
//!     allocation_scheme: AllocationScheme::GpuAllocatorManaged,
//! })?;
//! // SAFETY: the memory is the allocator's until the buffer is destroyed and its memory is freed.
//! unsafe { device.bind_buffer_memory(buffer, allocation.memory(), allocation.offset()) }?;
//! allocator.free(allocation)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod allocation;
mod desc;

use core::fmt;

use allotment::ResourceKind;
use allotment::device::MemoryTypeMask;
use allotment::device::vulkan::{Device, DeviceDesc, EnabledFeatures, MemoryOptions};
use ash::vk;
use log::Level;

use crate::memory::{Memory, Request};
use crate::{AllocationError, AllocatorReport, Result};

pub use allocation::{Allocation, MappedAllocationSlab};
pub use desc::{AllocationCreateDesc, AllocationScheme, AllocatorCreateDesc};

/// Allocates and frees memory of a Vulkan device.
pub struct Allocator {
    memory: Memory<Device>,
    /// Vulkan's own properties of each memory type.
    types: Vec<vk::MemoryPropertyFlags>,
}

impl Allocator {
    /// Creates an allocator. Allocates no memory yet.
    ///
    /// The handles must be of one device, which the application must not destroy before it drops the allocator: as with
    /// gpu-allocator, nothing checks that.
    ///
    /// # Errors
    ///
    /// [`AllocationError::InvalidAllocatorCreateDesc`] for a physical device that is null; else the driver's error.
    pub fn new(desc: &AllocatorCreateDesc) -> Result<Self> {
        if desc.physical_device == vk::PhysicalDevice::null() {
            return Err(AllocationError::InvalidAllocatorCreateDesc("the physical device is null".into()));
        }
        let mut device = DeviceDesc::new(desc.instance.clone(), desc.physical_device, desc.device.clone());
        if desc.buffer_device_address {
            device = device.with_enabled(EnabledFeatures::BUFFER_DEVICE_ADDRESS);
        }
        // SAFETY: the caller's promise in the documentation. gpu-allocator's interface has no way to ask for it.
        let device = unsafe { Device::new(device) }.map_err(AllocationError::of_device)?;
        // SAFETY: the physical device is of this instance.
        let found = unsafe { desc.instance.get_physical_device_memory_properties(desc.physical_device) };
        let types = found.memory_types_as_slice().iter().map(|found| found.property_flags).collect();
        Ok(Self { memory: Memory::new(device, &desc.allocation_sizes, desc.debug_settings)?, types })
    }

    /// Allocates memory.
    ///
    /// # Errors
    ///
    /// [`AllocationError::InvalidAllocationCreateDesc`] for a size of 0 or an alignment that is no power of two,
    /// [`AllocationError::NoCompatibleMemoryTypeFound`] where the resource allows no memory in the location,
    /// [`AllocationError::OutOfMemory`] where the heap is full.
    pub fn allocate(&mut self, desc: &AllocationCreateDesc<'_>) -> Result<Allocation> {
        let vk::MemoryRequirements { size, alignment, memory_type_bits, .. } = desc.requirements;
        let options = MemoryOptions::new();
        let dedicated = match desc.allocation_scheme {
            AllocationScheme::DedicatedBuffer(buffer) => {
                // SAFETY: the caller names a resource of the device whose requirements these are, and binds nothing else.
                Some(unsafe { options.with_dedicated_buffer(buffer) })
            }
            // SAFETY: as above.
            AllocationScheme::DedicatedImage(image) => Some(unsafe { options.with_dedicated_image(image) }),
            AllocationScheme::GpuAllocatorManaged => None,
        };
        let is_dedicated = dedicated.is_some();
        let (allocation, place) = self.memory.allocate(Request {
            name: desc.name,
            size,
            alignment,
            memory_types: MemoryTypeMask(memory_type_bits),
            location: desc.location,
            kind: if desc.linear { ResourceKind::Buffer } else { ResourceKind::OptimalImage },
            dedicated,
        })?;
        let properties = self.types.get(place.memory_type.get()).copied().unwrap_or_default();
        Ok(Allocation::new(allocation, &place, properties, is_dedicated))
    }

    /// Frees memory, whose resources must have been destroyed. Does nothing for a null allocation.
    ///
    /// # Errors
    ///
    /// [`AllocationError::Internal`] for an allocation of another allocator, which is not freed.
    pub fn free(&mut self, allocation: Allocation) -> Result<()> {
        self.memory.free(allocation.into_inner())
    }

    /// Renames an allocation.
    ///
    /// # Errors
    ///
    /// [`AllocationError::Internal`] for an allocation of another allocator.
    pub fn rename_allocation(&mut self, allocation: &mut Allocation, name: &str) -> Result<()> {
        self.memory.rename(allocation.inner(), name)
    }

    /// Logs each live allocation.
    pub fn report_memory_leaks(&self, log_level: Level) {
        self.memory.report_leaks(log_level);
    }

    /// Returns what the allocator holds.
    pub fn generate_report(&self) -> AllocatorReport {
        self.memory.report()
    }

    /// Returns the bytes of all memory blocks.
    pub fn capacity(&self) -> u64 {
        self.memory.capacity()
    }
}

impl fmt::Debug for Allocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.generate_report().fmt(f)
    }
}
