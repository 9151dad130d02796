//! Device properties: memory heaps, memory types, limits and queues.

use allotment_suballoc::Alignment;
use bitflags::bitflags;
use core::fmt;

use super::DeviceError;
use super::resource::ResourceKind;

/// A memory heap, as an index into [`DeviceProperties::heaps`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemoryHeapIndex(pub u8);

impl MemoryHeapIndex {
    /// Returns the index as a number.
    #[must_use]
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

/// A memory type, as an index into [`DeviceProperties::memory_types`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemoryTypeIndex(pub u8);

impl MemoryTypeIndex {
    /// Returns the index as a number.
    #[must_use]
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for MemoryTypeIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for MemoryHeapIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A set of memory types: bit `i` is type `i`, as in `VkMemoryRequirements::memoryTypeBits`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemoryTypeMask(pub u32);

impl MemoryTypeMask {
    /// All memory types.
    pub const ALL: Self = Self(u32::MAX);

    /// Returns true if the set contains the type.
    #[must_use]
    pub const fn contains(self, memory_type: MemoryTypeIndex) -> bool {
        // Checked, since a shift by 32 or more is an overflow, and an index may come from the application.
        memory_type.0 < 32 && self.0 >> memory_type.0 & 1 == 1
    }
}

bitflags! {
    /// The properties of a memory type, named as in Vulkan, and the restrictions of Direct3D 12's heap types.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct MemoryProperties: u32 {
        /// The GPU accesses the memory at full speed.
        const DEVICE_LOCAL = 1;
        /// The CPU can map it.
        const HOST_VISIBLE = 1 << 1;
        /// CPU and GPU writes are visible to each other without flush or invalidate.
        const HOST_COHERENT = 1 << 2;
        /// The CPU's accesses are cached; without this, CPU reads are slow.
        const HOST_CACHED = 1 << 3;
        /// Tile memory that may never be backed by physical memory. For transient attachments only.
        const LAZILY_ALLOCATED = 1 << 4;
        /// For protected submissions only.
        const PROTECTED = 1 << 5;
        /// GPU writes are visible to the GPU without barriers, at a lower speed
        /// (`VK_AMD_device_coherent_memory`). The allocator never selects it unless requested.
        const DEVICE_COHERENT = 1 << 6;
        /// Queues can only read the memory, as in Direct3D 12's upload heaps: it cannot be a copy destination,
        /// and shaders cannot write to it. The CPU provides its contents. The allocator selects it for memory
        /// that the GPU only reads, or when requested.
        const DEVICE_READ_ONLY = 1 << 7;
        /// Queues can only copy into the memory, as in Direct3D 12's readback heaps: it cannot be a copy source,
        /// and shaders cannot read it. The CPU reads its contents. The allocator selects it for readback, or
        /// when requested.
        const DEVICE_WRITE_ONLY = 1 << 8;
    }
}

impl MemoryProperties {
    /// Returns true if the CPU's writes need a flush before the GPU sees them, and the GPU's an invalidate before the
    /// CPU does: the memory is host-visible and not host-coherent.
    ///
    /// The size of an atom says nothing about this: devices whose
    /// [`non_coherent_atom_size`](Limits::non_coherent_atom_size) is 1 need flushes like others.
    ///
    /// ```
    /// use allotment::device::MemoryProperties;
    ///
    /// assert!(MemoryProperties::HOST_VISIBLE.needs_flush());
    /// assert!(!(MemoryProperties::HOST_VISIBLE | MemoryProperties::HOST_COHERENT).needs_flush());
    /// assert!(!MemoryProperties::DEVICE_LOCAL.needs_flush(), "the CPU cannot access it");
    /// ```
    #[must_use]
    pub const fn needs_flush(self) -> bool {
        self.contains(Self::HOST_VISIBLE) && !self.contains(Self::HOST_COHERENT)
    }
}

impl fmt::Display for MemoryProperties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // An empty string in an error message would look like a missing value.
        if self.is_empty() {
            return f.write_str("no properties");
        }
        for (i, (name, _)) in self.iter_names().enumerate() {
            let separator = if i == 0 { "" } else { ", " };
            write!(f, "{separator}{}", name.to_ascii_lowercase().replace('_', "-"))?;
        }
        Ok(())
    }
}

/// A heap of physical memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryHeap {
    /// Size in bytes.
    #[doc(alias = "GetMemoryCapacity")]
    pub size: u64,
    /// Whether the memory is local to the device (video memory) rather than to the host.
    pub device_local: bool,
}

/// A type of memory that can be allocated from a heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryType {
    /// The heap that allocations of the type count against.
    pub heap: MemoryHeapIndex,
    /// The properties of the memory.
    pub properties: MemoryProperties,
}

/// The graphics API behind a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Api {
    /// None: the simulated GPU.
    Simulated,
    /// Vulkan.
    Vulkan,
    /// Direct3D 12. Queues can only [read](MemoryProperties::DEVICE_READ_ONLY) its upload heaps and only
    /// [write](MemoryProperties::DEVICE_WRITE_ONLY) its readback heaps. It has no linear images.
    Direct3D12,
}

/// The limits of a device that matter for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Granularity in bytes at which linear and optimal resources must be separated: no page of this size may
    /// contain both.
    pub buffer_image_granularity: Alignment,
    /// Granularity in bytes of flushes and invalidates of memory that
    /// [needs them](MemoryProperties::needs_flush). 1 is a size like any other.
    pub non_coherent_atom_size: Alignment,
    /// The maximum number of memory objects at the same time.
    pub max_allocation_count: u32,
    /// The maximum size of one memory object in bytes.
    pub max_allocation_size: u64,
    /// Alignment in bytes of the buffer offset of a copy between buffer and image. For Vulkan this is the
    /// optimal alignment, which every queue supports; the specification requires 4 only.
    pub image_copy_offset_alignment: Alignment,
    /// Alignment in bytes of the row pitch of a copy between buffer and image. For Vulkan this is the optimal
    /// alignment; the specification requires whole texels only.
    pub image_copy_row_alignment: Alignment,
    /// Alignment in bytes at which a range of a buffer can be bound in every way: as a uniform (constant) buffer, a storage
    /// buffer, texels, vertices, indices or indirect arguments. On Vulkan the largest of the device's limits
    /// (`minUniformBufferOffsetAlignment` and its like), at least 16; on Direct3D 12 256, for constant buffers.
    pub buffer_offset_alignment: Alignment,
}

/// The kind of work for which a queue is best suited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum QueueKind {
    /// Draws, dispatches and copies.
    Graphics,
    /// Dispatches and copies.
    Compute,
    /// Copies.
    Transfer,
}

/// The memory heaps, memory types, limits and queues of a device. Never changes during the device's life.
#[doc(alias(
    "vmaGetMemoryProperties",
    "vmaGetPhysicalDeviceProperties",
    "get_memory_properties",
    "get_physical_device_properties"
))]
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeviceProperties {
    /// Name of the device, for display.
    pub name: String,
    /// The graphics API.
    pub api: Api,
    /// Heaps of physical memory, at most 16.
    #[doc(alias = "IsUMA")]
    pub heaps: Vec<MemoryHeap>,
    /// Memory types, at most 32.
    pub memory_types: Vec<MemoryType>,
    /// Limits that matter for memory.
    pub limits: Limits,
    /// Queues that accept submissions.
    pub queues: Vec<QueueKind>,
}

impl DeviceProperties {
    /// Returns the memory type at `index`, or `None` if there is none.
    #[doc(alias("vmaGetMemoryTypeProperties", "vmaGetAllocationMemoryProperties", "memory_properties"))]
    #[must_use]
    pub fn memory_type(&self, index: MemoryTypeIndex) -> Option<&MemoryType> {
        self.memory_types.get(index.get())
    }

    /// Returns the error for a memory type that is not one of `allowed`, of which the device may have fewer.
    pub(crate) fn wrong_memory_type(
        &self,
        memory_type: MemoryTypeIndex,
        allowed: MemoryTypeMask,
    ) -> DeviceError {
        let existing = self.indexed_types().fold(0, |mask, (index, _)| mask | 1 << index.0);
        DeviceError::WrongMemoryType { memory_type, allowed: MemoryTypeMask(allowed.0 & existing) }
    }

    /// Returns all memory types with their indices.
    pub fn indexed_types(&self) -> impl Iterator<Item = (MemoryTypeIndex, &MemoryType)> {
        // The cast cannot truncate: `memory_types` has at most 32 entries, as its field promises.
        self.memory_types.iter().enumerate().map(|(i, memory_type)| (MemoryTypeIndex(i as u8), memory_type))
    }
}

/// The usage and budget of a memory heap, as the driver reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryHeapBudget {
    /// Bytes in use by this process.
    pub usage: u64,
    /// Bytes that this process can use before the system starts to evict memory.
    pub budget: u64,
}

/// Whether a resource needs dedicated memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DedicatedNeed {
    /// No preference.
    #[default]
    None,
    /// The driver prefers dedicated memory for performance.
    Preferred,
    /// The driver requires dedicated memory.
    Required,
}

/// The memory requirements of a resource.
#[doc(alias = "from_d3d12_resource_desc")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requirements {
    /// Size in bytes.
    pub size: u64,
    /// Alignment of the resource's offset, in bytes.
    pub alignment: Alignment,
    /// Memory types that the resource can be bound to.
    pub memory_types: MemoryTypeMask,
    /// Whether the resource wants dedicated memory.
    pub dedicated: DedicatedNeed,
    /// What kind of resource it is. Buffers and optimal images are kept apart where the device demands that.
    pub kind: ResourceKind,
}

impl Requirements {
    /// Returns the requirements of a buffer of `size` bytes, at any offset in any memory type.
    #[must_use]
    pub const fn new(size: u64) -> Self {
        Self {
            size,
            alignment: Alignment::ONE,
            memory_types: MemoryTypeMask::ALL,
            dedicated: DedicatedNeed::None,
            kind: ResourceKind::Buffer,
        }
    }

    /// Sets the alignment.
    #[must_use]
    pub const fn with_alignment(self, alignment: Alignment) -> Self {
        Self { alignment, ..self }
    }

    /// Sets the memory types that the resource can be bound to.
    #[must_use]
    pub const fn with_memory_types(self, memory_types: MemoryTypeMask) -> Self {
        Self { memory_types, ..self }
    }

    /// Sets whether the resource wants dedicated memory.
    #[must_use]
    pub const fn with_dedicated(self, dedicated: DedicatedNeed) -> Self {
        Self { dedicated, ..self }
    }

    /// Sets the kind of resource.
    #[must_use]
    pub const fn with_kind(self, kind: ResourceKind) -> Self {
        Self { kind, ..self }
    }

    /// Returns requirements that serve this resource and `other` in turn, on the same bytes: the larger size, the
    /// stricter alignment, the memory types that both allow. The kind is
    /// [`Unknown`](ResourceKind::Unknown) where the two differ.
    ///
    /// ```
    /// use allotment::{Alignment, Requirements};
    ///
    /// let color = Requirements::new(8 << 20).with_alignment(Alignment::new(65536)?);
    /// let depth = Requirements::new(9 << 20);
    /// let either = color.or(depth);
    /// assert_eq!((either.size, either.alignment.get()), (9 << 20, 65536));
    /// # Ok::<(), allotment::AlignmentError>(())
    /// ```
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            size: self.size.max(other.size),
            alignment: self.alignment.max(other.alignment),
            memory_types: MemoryTypeMask(self.memory_types.0 & other.memory_types.0),
            // Different needs cancel out: dedicated memory belongs to one resource, and these bytes to two.
            dedicated: if self.dedicated == other.dedicated { self.dedicated } else { DedicatedNeed::None },
            // `Unknown` is kept apart from both kinds, so whichever resource is in use, the granularity holds.
            kind: if self.kind == other.kind { self.kind } else { ResourceKind::Unknown },
        }
    }
}
