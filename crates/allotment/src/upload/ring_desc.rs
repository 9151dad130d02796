//! The description of a ring's buffer.

use crate::memory::{AllocationOptions, MemoryUsage};

/// Describes the buffer of an [`UploadRing`](super::UploadRing) or a [`ReadbackRing`](super::ReadbackRing): how large
/// it is, how the GPU uses it, and which memory it is in.
///
/// On Vulkan a buffer is used only as it was created for. Without further [usage](Self::with_usage) the ring can be the
/// source or the destination of copies, and nothing else. A buffer that `usage` cannot describe is created by the
/// caller and passed to [`UploadRing::over`](super::UploadRing::over) or
/// [`ReadbackRing::over`](super::ReadbackRing::over).
///
/// ```
/// use allotment::MemoryUsage;
/// use allotment::upload::RingDesc;
/// use ash::vk::BufferUsageFlags;
///
/// // Constants and dynamic vertices, in host-visible device memory if there is any.
/// let usage = BufferUsageFlags::UNIFORM_BUFFER | BufferUsageFlags::VERTEX_BUFFER;
/// let desc = RingDesc::upload(8 << 20).with_usage(usage.as_raw().into()).with_memory_usage(MemoryUsage::DeviceUpload);
/// assert_eq!(desc.capacity, 8 << 20);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RingDesc {
    /// Size of the ring in bytes, at least 1.
    pub capacity: u64,
    /// The graphics API's usage flags of the buffer, as in [`BufferDesc::usage`](crate::device::BufferDesc::usage):
    /// `VkBufferUsageFlags`, `D3D12_RESOURCE_FLAGS`. Copies from and to the buffer are always possible.
    pub usage: u64,
    /// Options of the buffer's memory. Host-visible memory is required beside.
    pub memory: AllocationOptions,
}

impl RingDesc {
    /// Describes a ring of `capacity` bytes that the CPU writes, in memory for [`MemoryUsage::Upload`].
    #[must_use]
    pub fn upload(capacity: u64) -> Self {
        Self::new(capacity, MemoryUsage::Upload, "upload ring")
    }

    /// Describes a ring of `capacity` bytes that the CPU reads, in memory for [`MemoryUsage::Readback`].
    #[must_use]
    pub fn readback(capacity: u64) -> Self {
        Self::new(capacity, MemoryUsage::Readback, "readback ring")
    }

    fn new(capacity: u64, memory_usage: MemoryUsage, name: &'static str) -> Self {
        let memory = AllocationOptions::new(memory_usage)
            .with_name(name)
            .with_category(AllocationOptions::LIBRARY_CATEGORY);
        Self { capacity, usage: 0, memory }
    }

    /// Sets the graphics API's usage flags.
    #[must_use]
    pub fn with_usage(mut self, usage: u64) -> Self {
        self.usage = usage;
        self
    }

    /// Sets the memory usage.
    #[must_use]
    pub fn with_memory_usage(mut self, memory_usage: MemoryUsage) -> Self {
        self.memory.usage = memory_usage;
        self
    }

    /// Sets all memory options: properties, priority, budget policy, name.
    #[must_use]
    pub fn with_memory(mut self, memory: AllocationOptions) -> Self {
        self.memory = memory;
        self
    }
}
