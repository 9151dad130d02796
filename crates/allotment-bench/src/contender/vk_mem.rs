//! AMD's Vulkan Memory Allocator (C++), through the crate `vk-mem`.
//!
//! Memory is allocated by requirements and flags, since nothing is bound to it; VMA's `AUTO` usages need a
//! resource. So VMA cannot distinguish buffers from images, and on devices with a granularity above 256 it must
//! treat every allocation as either. For a fair comparison there is a second contender on such devices: a pool that
//! ignores the granularity.

use std::sync::Arc;

use ash::vk::{MemoryPropertyFlags as Flags, MemoryRequirements};
use vk_mem::{
    Alloc, Allocation, AllocationCreateInfo, Allocator, AllocatorCreateInfo, AllocatorPool,
    AllocatorPoolCreateFlags, PoolCreateInfo,
};

use super::{Blocks, Contender, Refusal, Request, Role};
use crate::failure::Failure;
use crate::vulkan::{API_VERSION, Gpu, Meter, Reading};

/// VMA with its default options, internally synchronized.
pub(crate) struct VkMem {
    /// A custom pool, instead of the allocator's default pools.
    pool: Option<AllocatorPool>,
    /// Before its device, so that it is dropped first.
    allocator: Arc<Allocator>,
    meter: Meter,
    _gpu: Arc<Gpu>,
}

impl VkMem {
    /// The largest granularity that VMA ignores.
    pub(crate) const GRANULARITY_IGNORED: u64 = 256;

    pub(crate) fn new(gpu: &Arc<Gpu>, blocks: Blocks) -> Result<Self, Failure> {
        Self::metered(gpu, blocks, Meter::VkMem)
    }

    /// Creates VMA with a pool for buffers alone. Supports only [`Role::Device`].
    pub(crate) fn for_buffers(gpu: &Arc<Gpu>) -> Result<Self, Failure> {
        let mut made = Self::metered(gpu, Blocks::Default, Meter::VkMemPool)?;
        let failed =
            |error: ash::vk::Result| Failure::Setup { contender: made.name(), error: error.to_string() };
        let memory = AllocationCreateInfo { preferred_flags: Flags::DEVICE_LOCAL, ..Default::default() };
        // SAFETY: the mask names types of the device.
        let memory_type =
            unsafe { made.allocator.find_memory_type_index(u32::MAX, &memory) }.map_err(failed)?;
        let desc = PoolCreateInfo {
            memory_type_index: memory_type,
            flags: AllocatorPoolCreateFlags::IGNORE_BUFFER_IMAGE_GRANULARITY,
            ..Default::default()
        };
        made.pool = Some(made.allocator.create_pool(&desc).map_err(failed)?);
        Ok(made)
    }

    fn metered(gpu: &Arc<Gpu>, blocks: Blocks, meter: Meter) -> Result<Self, Failure> {
        let device = meter.on(gpu);
        let mut info = AllocatorCreateInfo::new(&gpu.instance, &device, gpu.physical);
        info.vulkan_api_version = API_VERSION;
        if let Blocks::Fixed(size) = blocks {
            info.preferred_large_heap_block_size = size;
        }
        // SAFETY: instance, device and physical device are valid, and the allocator keeps them alive.
        let allocator = unsafe { Allocator::new(info) }
            .map_err(|error| Failure::Setup { contender: "vk-mem", error: error.to_string() })?;
        Ok(Self { pool: None, allocator: Arc::new(allocator), meter, _gpu: Arc::clone(gpu) })
    }

    /// Returns VMA's own allocator.
    pub(crate) fn allocator(&self) -> &Allocator {
        &self.allocator
    }

    /// Returns the bytes of blocks and dedicated memory, by VMA's own count.
    #[cfg(test)]
    pub(crate) fn own_count(&self) -> u64 {
        self.allocator.calculate_statistics().map_or(0, |found| found.total.statistics.blockBytes)
    }
}

impl Contender for VkMem {
    type Token = Allocation;

    fn name(&self) -> &'static str {
        if self.meter == Meter::VkMemPool { "vk-mem-pool" } else { "vk-mem" }
    }

    fn allocate(&self, request: &Request) -> Result<Allocation, Refusal> {
        let requirements = MemoryRequirements {
            size: request.size,
            alignment: request.alignment,
            memory_type_bits: u32::MAX,
        };
        // The flags of VMA's older usages GPU_ONLY, CPU_ONLY, GPU_TO_CPU and CPU_TO_GPU.
        let (required_flags, preferred_flags) = match request.role {
            Role::Device => (Flags::empty(), Flags::DEVICE_LOCAL),
            Role::Upload => (Flags::HOST_VISIBLE | Flags::HOST_COHERENT, Flags::empty()),
            Role::Readback => (Flags::HOST_VISIBLE, Flags::HOST_CACHED),
            Role::DeviceUpload => (Flags::HOST_VISIBLE, Flags::DEVICE_LOCAL),
        };
        let info = AllocationCreateInfo { required_flags, preferred_flags, ..Default::default() };
        let done = match &self.pool {
            None => {
                // SAFETY: the requirements are not empty and their alignment is a power of two.
                unsafe { self.allocator.allocate_memory(&requirements, &info) }
            }
            Some(pool) => {
                // SAFETY: as above; the pool is this allocator's.
                unsafe { pool.allocate_memory(&requirements, &info) }
            }
        };
        done.map_err(Refusal::new)
    }

    fn free(&self, mut token: Allocation) -> Result<(), Refusal> {
        // SAFETY: the token is from this allocator and is used up here, so that it is freed once.
        unsafe { self.allocator.free_memory(&mut token) };
        Ok(())
    }

    fn reading(&self) -> Reading {
        self.meter.read()
    }
}
