//! The crate `gpu-allocator`, behind a mutex, which programs with several threads need.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ash::vk;
use gpu_allocator::vulkan::{
    Allocation, AllocationCreateDesc, AllocationScheme, Allocator, AllocatorCreateDesc,
};
use gpu_allocator::{AllocationSizes, AllocatorDebugSettings, MemoryLocation};

use super::{Blocks, Contender, Kind, Refusal, Request, Role};
use crate::failure::Failure;
use crate::vulkan::{Gpu, Meter, Reading};

const NAME: &str = "gpu-allocator";

/// gpu-allocator with its default options, behind a mutex.
pub(crate) struct GpuAllocator {
    /// Before its device, so that it is dropped first.
    allocator: Mutex<Allocator>,
    _gpu: Arc<Gpu>,
}

impl GpuAllocator {
    pub(crate) fn new(gpu: &Arc<Gpu>, blocks: Blocks) -> Result<Self, Failure> {
        let allocation_sizes = match blocks {
            Blocks::Default => AllocationSizes::default(),
            // Raised to its minimum of 4 MiB.
            Blocks::Fixed(size) => AllocationSizes::new(size, size),
        };
        let desc = AllocatorCreateDesc {
            instance: gpu.instance.clone(),
            device: Meter::GpuAllocator.on(gpu),
            physical_device: gpu.physical,
            debug_settings: AllocatorDebugSettings::default(),
            buffer_device_address: false,
            allocation_sizes,
        };
        let allocator = Allocator::new(&desc)
            .map_err(|error| Failure::Setup { contender: NAME, error: error.to_string() })?;
        Ok(Self { allocator: Mutex::new(allocator), _gpu: Arc::clone(gpu) })
    }

    /// Locks gpu-allocator's own allocator.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Allocator> {
        self.allocator.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the bytes of its blocks, by its own count.
    #[cfg(test)]
    pub(crate) fn own_count(&self) -> u64 {
        self.lock().capacity()
    }
}

impl Contender for GpuAllocator {
    type Token = Allocation;

    fn name(&self) -> &'static str {
        NAME
    }

    fn allocate(&self, request: &Request) -> Result<Allocation, Refusal> {
        let desc = AllocationCreateDesc {
            name: "",
            requirements: vk::MemoryRequirements {
                size: request.size,
                alignment: request.alignment,
                memory_type_bits: u32::MAX,
            },
            location: match request.role {
                Role::Device => MemoryLocation::GpuOnly,
                Role::Upload | Role::DeviceUpload => MemoryLocation::CpuToGpu,
                Role::Readback => MemoryLocation::GpuToCpu,
            },
            linear: request.kind == Kind::Buffer,
            allocation_scheme: AllocationScheme::GpuAllocatorManaged,
        };
        self.lock().allocate(&desc).map_err(Refusal::new)
    }

    fn free(&self, token: Allocation) -> Result<(), Refusal> {
        self.lock().free(token).map_err(Refusal::new)
    }

    fn reading(&self) -> Reading {
        Meter::GpuAllocator.read()
    }
}
