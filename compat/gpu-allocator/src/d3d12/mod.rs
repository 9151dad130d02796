//! An allocator for a Direct3D 12 device of the application.
//!
//! ```no_run
//! use gpu_allocator::MemoryLocation;
//! use gpu_allocator::d3d12::{AllocationCreateDesc, Allocator, AllocatorCreateDesc, ID3D12DeviceVersion};
//! use windows::Win32::Graphics::Direct3D12::*;
//! # fn engine() -> (ID3D12Device, D3D12_RESOURCE_DESC) { todo!() }
//!
//! let (device, texture) = engine();
//! let mut allocator = Allocator::new(&AllocatorCreateDesc {
//!     device: ID3D12DeviceVersion::Device(device.clone()),
//!     debug_settings: Default::default(),
//!     allocation_sizes: Default::default(),
//! })?;
//! let location = MemoryLocation::GpuOnly;
//! let desc = AllocationCreateDesc::from_d3d12_resource_desc(&device, &texture, "albedo", location);
//! let allocation = allocator.allocate(&desc)?;
//! let mut albedo: Option<ID3D12Resource> = None;
//! // SAFETY: the heap is the allocator's until the resource is released and its memory is freed.
//! unsafe {
//!     let state = D3D12_RESOURCE_STATE_COMMON;
//!     device.CreatePlacedResource(allocation.heap(), allocation.offset(), &texture, state, None, &mut albedo)?;
//! }
//! drop(albedo);
//! allocator.free(allocation)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod allocation;
mod desc;
mod interfaces;
mod memory_types;
mod resource;

use core::fmt;

use allotment::ResourceKind;
use allotment::device::d3d12::{Device, DeviceDesc};
use log::Level;

use crate::memory::{Memory, Request};
use crate::{AllocationError, AllocatorReport, Result};

use memory_types::MemoryTypes;

pub use allocation::Allocation;
pub use desc::{AllocationCreateDesc, AllocatorCreateDesc, ID3D12DeviceVersion, ResourceCategory};
pub use resource::{
    CommittedAllocationStatistics, Resource, ResourceCreateDesc, ResourceStateOrBarrierLayout, ResourceType,
};

/// Allocates and frees memory of a Direct3D 12 device, and creates resources in it.
pub struct Allocator {
    memory: Memory<Device>,
    types: MemoryTypes,
    device: ID3D12DeviceVersion,
    committed: CommittedAllocationStatistics,
}

impl Allocator {
    /// Returns the device that the allocator was created for.
    pub fn device(&self) -> &ID3D12DeviceVersion {
        &self.device
    }

    /// Creates an allocator. Allocates no memory yet.
    ///
    /// Looks for the device's adapter, which knows the sizes of the heaps, through a DXGI factory.
    ///
    /// # Errors
    ///
    /// The driver's error, where there is no DXGI or the device is lost.
    pub fn new(desc: &AllocatorCreateDesc) -> Result<Self> {
        let device = interfaces::device_for_allotment(&desc.device);
        let device = DeviceDesc::from_device(device).map_err(AllocationError::of_device)?;
        let [written, read] = memory_types::mapped_heaps();
        let device = Device::new(device.with_custom_heap(written).with_custom_heap(read))
            .map_err(AllocationError::of_device)?;
        let types = MemoryTypes::of_device(&device);
        Ok(Self {
            memory: Memory::new(device, &desc.allocation_sizes, desc.debug_settings)?,
            types,
            device: desc.device.clone(),
            committed: CommittedAllocationStatistics { num_allocations: 0, total_size: 0 },
        })
    }

    /// Allocates memory.
    ///
    /// # Errors
    ///
    /// [`AllocationError::InvalidAllocationCreateDesc`] for a size of 0 or an alignment that is no power of two,
    /// [`AllocationError::NoCompatibleMemoryTypeFound`] for a texture in memory that the CPU reaches,
    /// [`AllocationError::OutOfMemory`] where the heap is full.
    pub fn allocate(&mut self, desc: &AllocationCreateDesc<'_>) -> Result<Allocation> {
        let (allocation, place) = self.memory.allocate(Request {
            name: desc.name,
            size: desc.size,
            alignment: desc.alignment,
            memory_types: self.types.of(desc.location, desc.resource_category),
            location: desc.location,
            kind: match desc.resource_category {
                ResourceCategory::Buffer => ResourceKind::Buffer,
                ResourceCategory::RtvDsvTexture | ResourceCategory::OtherTexture => {
                    ResourceKind::OptimalImage
                }
            },
            dedicated: None,
        })?;
        match interfaces::heap_of(self.memory.device(), &place) {
            Some(heap) => Ok(Allocation::new(allocation, &place, heap)),
            // Only resources that Allotment itself creates are committed ones.
            None => {
                self.memory.free(Some(allocation))?;
                Err(AllocationError::Internal("the memory is no heap".into()))
            }
        }
    }

    /// Frees memory, whose resources must have been released.
    ///
    /// # Errors
    ///
    /// [`AllocationError::Internal`] for an allocation of another allocator, which is not freed.
    pub fn free(&mut self, allocation: Allocation) -> Result<()> {
        self.memory.free(Some(allocation.into_inner()))
    }

    /// Renames an allocation.
    ///
    /// # Errors
    ///
    /// [`AllocationError::Internal`] for an allocation of another allocator.
    pub fn rename_allocation(&mut self, allocation: &mut Allocation, name: &str) -> Result<()> {
        self.memory.rename(Some(allocation.inner()), name)
    }

    /// Logs each live allocation, and how many committed resources are not freed.
    pub fn report_memory_leaks(&self, log_level: Level) {
        self.memory.report_leaks(log_level);
        self.committed.report_leaks(log_level);
    }

    /// Returns what the allocator holds: committed resources have memory of their own, and are not in there.
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

impl Drop for Allocator {
    fn drop(&mut self) {
        // The allocations are logged by what they are allocated from.
        if self.memory.logs_leaks_on_shutdown() {
            self.committed.report_leaks(Level::Warn);
        }
    }
}
