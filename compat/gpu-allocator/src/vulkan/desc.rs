//! What an allocator and an allocation are created from.

use ash::vk;

use crate::{AllocationSizes, AllocatorDebugSettings, MemoryLocation};

/// Whether an allocation shares a memory object with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocationScheme {
    /// It has one of its own, dedicated to this buffer.
    DedicatedBuffer(vk::Buffer),
    /// It has one of its own, dedicated to this image.
    DedicatedImage(vk::Image),
    /// The allocator decides.
    GpuAllocatorManaged,
}

/// What to allocate.
#[derive(Clone, Debug)]
pub struct AllocationCreateDesc<'a> {
    /// The name, for reports and logs.
    pub name: &'a str,
    /// What Vulkan says of the resource.
    pub requirements: vk::MemoryRequirements,
    /// Where the memory lies.
    pub location: MemoryLocation,
    /// True for buffers and linear images, false for optimal images.
    pub linear: bool,
    /// Whether the allocation shares a memory object with others.
    pub allocation_scheme: AllocationScheme,
}

/// What an allocator is created from.
pub struct AllocatorCreateDesc {
    /// The functions of the application's instance.
    pub instance: ash::Instance,
    /// The functions of the application's device.
    pub device: ash::Device,
    /// The physical device.
    pub physical_device: vk::PhysicalDevice,
    /// What the allocator logs.
    pub debug_settings: AllocatorDebugSettings,
    /// Whether the application enabled the feature `bufferDeviceAddress`.
    pub buffer_device_address: bool,
    /// The sizes of memory blocks.
    pub allocation_sizes: AllocationSizes,
}
