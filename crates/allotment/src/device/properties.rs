//! What a device is and has: heaps, memory types, limits, queues.

use allotment_suballoc::Alignment;
use bitflags::bitflags;
use core::fmt;

use super::resource::ResourceKind;

/// Which heap; an index into [`DeviceProperties::heaps`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemoryHeapIndex(pub u8);

impl MemoryHeapIndex {
    /// The index as a number.
    #[must_use]
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

/// Which memory type; an index into [`DeviceProperties::memory_types`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemoryTypeIndex(pub u8);

impl MemoryTypeIndex {
    /// The index as a number.
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

/// A set of memory types: bit `i` stands for type `i`, as in `VkMemoryRequirements::memoryTypeBits`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemoryTypeMask(pub u32);

impl MemoryTypeMask {
    /// Any memory type.
    pub const ALL: Self = Self(u32::MAX);

    /// True when the set holds the type.
    #[must_use]
    pub const fn contains(self, memory_type: MemoryTypeIndex) -> bool {
        memory_type.0 < 32 && self.0 >> memory_type.0 & 1 == 1
    }
}

bitflags! {
    /// What a memory type can do, named as in Vulkan, and what queues cannot do there.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct MemoryProperties: u32 {
        /// The device reaches it at full speed.
        const DEVICE_LOCAL = 1;
        /// The CPU can map it.
        const HOST_VISIBLE = 1 << 1;
        /// Writes of one side are visible to the other without flush or invalidate.
        const HOST_COHERENT = 1 << 2;
        /// The CPU reads it through its cache; without this, reads are slow.
        const HOST_CACHED = 1 << 3;
        /// Tile memory that may never be backed; for transient attachments only.
        const LAZILY_ALLOCATED = 1 << 4;
        /// For protected queues only.
        const PROTECTED = 1 << 5;
        /// Device writes are visible to the device without barriers, slowly
        /// (`VK_AMD_device_coherent_memory`). Never chosen unless it is asked for.
        const DEVICE_COHERENT = 1 << 6;
        /// Queues only read it, as in Direct3D 12's upload heaps: nothing is copied into it, and no shader
        /// writes there. What it holds comes from the CPU. Chosen for what the device only reads, and for
        /// who asks for it.
        const DEVICE_READ_ONLY = 1 << 7;
        /// Queues only copy into it, as in Direct3D 12's readback heaps: nothing is copied from it, and no
        /// shader reads there. What it holds is for the CPU. Chosen for what the CPU reads back, and for who
        /// asks for it.
        const DEVICE_WRITE_ONLY = 1 << 8;
    }
}

impl fmt::Display for MemoryProperties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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

/// A pool of physical memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryHeap {
    /// Bytes.
    pub size: u64,
    /// The device's own memory, rather than the host's.
    pub device_local: bool,
}

/// A way to use a heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryType {
    /// The heap that it takes from.
    pub heap: MemoryHeapIndex,
    /// What it can do.
    pub properties: MemoryProperties,
}

/// Which graphics API speaks behind a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Api {
    /// None: simulated.
    Host,
    /// Vulkan.
    Vulkan,
    /// Direct3D 12. Its upload heaps are [read only](MemoryProperties::DEVICE_READ_ONLY) for queues, its
    /// readback heaps [write only](MemoryProperties::DEVICE_WRITE_ONLY); it has no linear images.
    Direct3D12,
}

/// Numbers that the memory layer must keep to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes that a linear and an optimal resource must be apart: no page of this size may hold both.
    pub buffer_image_granularity: Alignment,
    /// Flushes and invalidates of memory that is not host-coherent cover whole atoms of this many bytes.
    pub non_coherent_atom_size: Alignment,
    /// How many memory objects there can be at once.
    pub max_allocation_count: u32,
    /// The most bytes that one memory object can have.
    pub max_allocation_size: u64,
    /// Where texels that are copied to or from an image may begin in a buffer, in bytes. On Vulkan this is what
    /// the device copies fastest and what every queue takes; of the specification, 4 is enough.
    pub image_copy_offset_alignment: Alignment,
    /// What bytes from row to row of such texels are a multiple of. On Vulkan this is what the device copies
    /// fastest; of the specification, whole texels are enough.
    pub image_copy_row_alignment: Alignment,
}

/// What a queue is best at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum QueueKind {
    /// Draws, computes and copies.
    Graphics,
    /// Computes and copies.
    Compute,
    /// Copies.
    Transfer,
}

/// One queue of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueInfo {
    /// What it is best at.
    pub kind: QueueKind,
}

/// What a device is and has. Never changes while the device lives.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeviceProperties {
    /// For people.
    pub name: String,
    /// Who speaks behind it.
    pub api: Api,
    /// Pools of physical memory, at most 16.
    pub heaps: Vec<MemoryHeap>,
    /// Ways to use them, at most 32.
    pub memory_types: Vec<MemoryType>,
    /// Numbers to keep to.
    pub limits: Limits,
    /// Queues to submit to.
    pub queues: Vec<QueueInfo>,
}

impl DeviceProperties {
    /// The memory type at `index`, where there is one.
    #[must_use]
    pub fn memory_type(&self, index: MemoryTypeIndex) -> Option<&MemoryType> {
        self.memory_types.get(index.get())
    }

    /// All memory types with their indices.
    pub fn indexed_types(&self) -> impl Iterator<Item = (MemoryTypeIndex, &MemoryType)> {
        // At most 32, as said at the field.
        self.memory_types.iter().enumerate().map(|(i, memory_type)| (MemoryTypeIndex(i as u8), memory_type))
    }
}

/// How full a heap is, as the driver sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryHeapBudget {
    /// Bytes in use by this process.
    pub usage: u64,
    /// Bytes that this process can use before the system starts to move memory out.
    pub budget: u64,
}

/// Whether a resource wants memory of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DedicatedNeed {
    /// It does not care.
    #[default]
    None,
    /// The driver says that it would be faster.
    Preferred,
    /// The driver insists.
    Required,
}

/// What memory a resource requires, as its device says.
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
            dedicated: if self.dedicated == other.dedicated { self.dedicated } else { DedicatedNeed::None },
            kind: if self.kind == other.kind { self.kind } else { ResourceKind::Unknown },
        }
    }
}
