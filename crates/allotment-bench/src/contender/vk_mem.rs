//! AMD's Vulkan Memory Allocator (C++), through the crate `vk-mem`.
//!
//! Memory is asked for by requirements and flags, since nothing is ever bound to it; VMA's `AUTO` usages
//! need a resource. So VMA does not learn whether a buffer or an image will stand there, and on devices
//! whose granularity is above 1 it treats every allocation with the care that either might need.

use std::sync::Arc;

use ash::vk::{MemoryPropertyFlags as Flags, MemoryRequirements};
use vk_mem::{Alloc, Allocation, AllocationCreateInfo, Allocator, AllocatorCreateInfo};

use super::{Blocks, Contender, Refusal, Request, Role};
use crate::failure::Failure;
use crate::vulkan::{API_VERSION, Gpu, Meter, Reading};

const NAME: &str = "vk-mem";

/// VMA with its defaults, internally synchronised.
pub(crate) struct VkMem {
    /// Before the device that it is made of, so that it goes first.
    allocator: Allocator,
    _gpu: Arc<Gpu>,
}

impl VkMem {
    pub(crate) fn new(gpu: &Arc<Gpu>, blocks: Blocks) -> Result<Self, Failure> {
        let device = Meter::VkMem.on(gpu);
        let mut info = AllocatorCreateInfo::new(&gpu.instance, &device, gpu.physical);
        info.vulkan_api_version = API_VERSION;
        if let Blocks::Fixed(size) = blocks {
            info.preferred_large_heap_block_size = size;
        }
        // SAFETY: instance, device and physical device are valid, and the allocator holds on to them.
        let allocator = unsafe { Allocator::new(info) }
            .map_err(|error| Failure::Setup { contender: NAME, error: error.to_string() })?;
        Ok(Self { allocator, _gpu: Arc::clone(gpu) })
    }

    /// Bytes of blocks and dedicated memory, by VMA's own count.
    #[cfg(test)]
    pub(crate) fn own_count(&self) -> u64 {
        self.allocator.calculate_statistics().map_or(0, |found| found.total.statistics.blockBytes)
    }
}

impl Contender for VkMem {
    type Token = Allocation;

    fn name(&self) -> &'static str {
        NAME
    }

    fn allocate(&self, request: &Request) -> Result<Allocation, Refusal> {
        let requirements = MemoryRequirements {
            size: request.size,
            alignment: request.alignment,
            memory_type_bits: u32::MAX,
        };
        // What VMA's older usages GPU_ONLY, CPU_ONLY, GPU_TO_CPU and CPU_TO_GPU stand for.
        let (required_flags, preferred_flags) = match request.role {
            Role::Device => (Flags::empty(), Flags::DEVICE_LOCAL),
            Role::Upload => (Flags::HOST_VISIBLE | Flags::HOST_COHERENT, Flags::empty()),
            Role::Readback => (Flags::HOST_VISIBLE, Flags::HOST_CACHED),
            Role::DeviceHostWrite => (Flags::HOST_VISIBLE, Flags::DEVICE_LOCAL),
        };
        let info = AllocationCreateInfo { required_flags, preferred_flags, ..Default::default() };
        // SAFETY: the requirements are not empty, their alignment is a power of two, and no pool is named.
        unsafe { self.allocator.allocate_memory(&requirements, &info) }.map_err(Refusal::new)
    }

    fn free(&self, mut token: Allocation) -> Result<(), Refusal> {
        // SAFETY: the token is from this allocator and is used up here, so that it is freed once.
        unsafe { self.allocator.free_memory(&mut token) };
        Ok(())
    }

    fn reading(&self) -> Reading {
        Meter::VkMem.read()
    }
}
