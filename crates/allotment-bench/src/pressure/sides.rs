//! The contenders.

use core::cell::RefCell;
use std::sync::Arc;

use allotment::device::MemoryTypeIndex;
use allotment::device::vulkan::{Device, EnabledFeatures};
use allotment::memory::blocks::BlockSize;
use allotment::{Allocation, Allocator, AllocatorDesc, MemoryUsage, PoolDesc, Requirements};
use ash::vk::{MemoryPropertyFlags as Flags, MemoryRequirements};
use vk_mem::{Alloc as _, AllocationCreateInfo, AllocatorCreateInfo, AllocatorPool, PoolCreateInfo};

use super::Access;
use crate::failure::Failure;
use crate::vulkan::{API_VERSION, Gpu, Meter, Reading};

/// A request was refused.
#[derive(Debug)]
pub(super) struct Refused;

/// An allocator with the allocations that it has made.
pub(super) trait Side {
    fn name(&self) -> &'static str;
    /// Returns the index of an allocation, and its memory type.
    fn allocate(&self, access: Access, size: u64) -> Result<(usize, u32), Refused>;
    fn free(&self, index: usize);
    /// Creates a pool of the GPU's memory that begins with a block.
    fn pool_with_a_block(&self, size: u64) -> Result<(), Refused>;
    fn reading(&self) -> Reading;
    fn free_all(&self);
}

/// This library.
pub(super) struct Allotment {
    allocator: Allocator<Device>,
    live: RefCell<Vec<Option<Allocation>>>,
}

impl Allotment {
    pub(super) fn new(gpu: &Arc<Gpu>) -> Result<Self, Failure> {
        let allocator = Allocator::new(gpu.metered(EnabledFeatures::empty())?, AllocatorDesc::default())
            .map_err(|error| Failure::Setup { contender: "allotment", error: error.to_string() })?;
        Ok(Self { allocator, live: RefCell::default() })
    }
}

impl Side for Allotment {
    fn name(&self) -> &'static str {
        "allotment"
    }

    fn allocate(&self, access: Access, size: u64) -> Result<(usize, u32), Refused> {
        let usage = if access == Access::Gpu { MemoryUsage::GpuOnly } else { MemoryUsage::DeviceMapped };
        let allocation =
            self.allocator.allocate(&Requirements::new(size), &usage.into()).map_err(|_| Refused)?;
        let info = self.allocator.info(&allocation).map_err(|_| Refused)?;
        let mut live = self.live.borrow_mut();
        live.push(Some(allocation));
        Ok((live.len() - 1, u32::from(info.memory_type.0)))
    }

    fn free(&self, index: usize) {
        if let Some(allocation) = self.live.borrow_mut()[index].take() {
            drop(self.allocator.free(allocation));
        }
    }

    fn pool_with_a_block(&self, size: u64) -> Result<(), Refused> {
        let mut desc = PoolDesc::new([MemoryTypeIndex(0)]);
        (desc.sizing, desc.min_blocks) = (Some(BlockSize::Fixed(size)), 1);
        let pool = self.allocator.create_pool(desc).map_err(|_| Refused)?;
        self.allocator.destroy_pool(pool).map_err(|_| Refused)
    }

    fn reading(&self) -> Reading {
        Meter::Allotment.read()
    }

    fn free_all(&self) {
        let count = self.live.borrow().len();
        (0..count).for_each(|index| self.free(index));
    }
}

/// VMA with its default options.
pub(super) struct Vma {
    live: RefCell<Vec<Option<vk_mem::Allocation>>>,
    pools: RefCell<Vec<AllocatorPool>>,
    allocator: Arc<vk_mem::Allocator>,
    _gpu: Arc<Gpu>,
}

impl Vma {
    pub(super) fn new(gpu: &Arc<Gpu>) -> Result<Self, Failure> {
        let device = Meter::VkMem.on(gpu);
        let mut info = AllocatorCreateInfo::new(&gpu.instance, &device, gpu.physical);
        info.vulkan_api_version = API_VERSION;
        // SAFETY: instance, device and physical device are valid, and the allocator keeps them alive.
        let allocator = unsafe { vk_mem::Allocator::new(info) }
            .map_err(|error| Failure::Setup { contender: "vk-mem", error: error.to_string() })?;
        Ok(Self {
            live: RefCell::default(),
            pools: RefCell::default(),
            allocator: Arc::new(allocator),
            _gpu: Arc::clone(gpu),
        })
    }
}

impl Side for Vma {
    fn name(&self) -> &'static str {
        "vk-mem"
    }

    fn allocate(&self, access: Access, size: u64) -> Result<(usize, u32), Refused> {
        let requirements = MemoryRequirements { size, alignment: 256, memory_type_bits: u32::MAX };
        let required_flags = match access {
            Access::Gpu => Flags::empty(),
            Access::Both => Flags::HOST_VISIBLE | Flags::HOST_COHERENT,
        };
        let info = AllocationCreateInfo {
            required_flags,
            preferred_flags: Flags::DEVICE_LOCAL,
            ..Default::default()
        };
        // SAFETY: the requirements are not empty and their alignment is a power of two.
        let allocation = unsafe { self.allocator.allocate_memory(&requirements, &info) };
        let allocation = allocation.map_err(|_| Refused)?;
        let memory_type = self.allocator.get_allocation_info(&allocation).memory_type;
        let mut live = self.live.borrow_mut();
        live.push(Some(allocation));
        Ok((live.len() - 1, memory_type))
    }

    fn free(&self, index: usize) {
        if let Some(mut allocation) = self.live.borrow_mut()[index].take() {
            // SAFETY: the allocation is of this allocator, and is freed once.
            unsafe { self.allocator.free_memory(&mut allocation) };
        }
    }

    fn pool_with_a_block(&self, size: u64) -> Result<(), Refused> {
        let desc = PoolCreateInfo {
            memory_type_index: 0,
            block_size: size,
            min_block_count: 1,
            ..Default::default()
        };
        self.pools.borrow_mut().push(self.allocator.create_pool(&desc).map_err(|_| Refused)?);
        Ok(())
    }

    fn reading(&self) -> Reading {
        Meter::VkMem.read()
    }

    fn free_all(&self) {
        let count = self.live.borrow().len();
        (0..count).for_each(|index| self.free(index));
        self.pools.borrow_mut().clear();
    }
}
