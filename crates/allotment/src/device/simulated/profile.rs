//! Hardware profiles of the simulated GPU.

use allotment_suballoc::Alignment;

use crate::device::{
    Api, DescriptorLimits, DeviceProperties, Limits, MemoryHeap, MemoryHeapIndex, MemoryProperties,
    MemoryType, MemoryTypeMask, QueueKind, Requirements, ShaderVisibleHeapLimits,
};
use crate::device::{PrioritySupport, ResourceKind};

use super::descriptors::STRIDE;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The families of a device's queues, to one of which at a time an [exclusive](crate::device::SharingMode::Exclusive)
/// resource belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueFamilies {
    /// All queues use all resources, as in Direct3D 12, or with a Vulkan device that has one family.
    One,
    /// One family of graphics queues, one of compute queues and one of transfer queues, as on most graphics cards.
    ForEachKind,
}

/// The heaps, memory types and limits of a kind of hardware.
///
/// All fields are public: start from the nearest profile and change what the test is about.
///
/// ```
/// use allotment::device::simulated::Profile;
///
/// let mut odd = Profile::named("discrete-no-bar").unwrap();
/// odd.heaps[0].size = 100 << 20;
/// odd.limits.max_allocation_count = 7;
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Profile {
    /// The name for [`named`](Self::named).
    pub name: &'static str,
    /// A description of such hardware.
    pub about: &'static str,
    /// Heaps of physical memory.
    pub heaps: Vec<MemoryHeap>,
    /// Memory types.
    pub memory_types: Vec<MemoryType>,
    /// Limits that matter for memory.
    pub limits: Limits,
    /// Queues that accept submissions.
    pub queues: Vec<QueueKind>,
    /// The families of these queues.
    pub queue_families: QueueFamilies,
    /// The memory types that buffers can be bound to.
    pub buffers: MemoryTypeMask,
    /// The memory types that images can be bound to.
    pub images: MemoryTypeMask,
    /// The alignment of every resource; sizes are rounded up to it, too.
    pub placement: Alignment,
    /// Whether the CPU can copy texels into images, as with `VK_EXT_host_image_copy`.
    pub host_image_copies: bool,
    /// The granularity of what is bound to [reserved
    /// buffers](crate::device::BufferDevice::create_reserved_buffer); `None` where the device has none.
    pub reserved_buffers: Option<Alignment>,
    /// When the device accepts priorities of memory objects.
    pub priorities: PrioritySupport,
    /// The descriptor limits. Strides are the device's own, whatever this says.
    pub descriptors: DescriptorLimits,
}

/// Converts a constant of this file, which must be a power of two.
const fn alignment(value: u64) -> Alignment {
    match Alignment::new(value) {
        Ok(alignment) => alignment,
        Err(_) => panic!("a constant of this file is not a power of two"),
    }
}

const DEVICE: MemoryProperties = MemoryProperties::DEVICE_LOCAL;
const VISIBLE: MemoryProperties = MemoryProperties::HOST_VISIBLE;
const COHERENT: MemoryProperties = VISIBLE.union(MemoryProperties::HOST_COHERENT);
const CACHED: MemoryProperties = COHERENT.union(MemoryProperties::HOST_CACHED);
// Queues cannot write to the one or read from the other, because the states of these heaps are fixed.
/// The types `UPLOAD` and `READBACK` of Direct3D 12's heaps.
const UPLOAD: MemoryProperties = COHERENT.union(MemoryProperties::DEVICE_READ_ONLY);
const READBACK: MemoryProperties = CACHED.union(MemoryProperties::DEVICE_WRITE_ONLY);

/// The limits of Direct3D 12.
const DESCRIPTORS: DescriptorLimits = DescriptorLimits {
    resources: ShaderVisibleHeapLimits { max_capacity: 1_000_000, reserved: 0, table_alignment: 1 },
    samplers: ShaderVisibleHeapLimits { max_capacity: 2048, reserved: 0, table_alignment: 1 },
    strides: [STRIDE; 4],
    max_samplers: 4000,
    raw_buffer_alignment: WORD,
    constants_alignment: CONSTANTS,
    max_raw_range: 1 << 31,
    max_constants_range: 64 << 10,
};

/// Alignment of raw views, and of constants.
const WORD: Alignment = alignment(4);
const CONSTANTS: Alignment = alignment(256);

const fn device_heap(size: u64) -> MemoryHeap {
    MemoryHeap { size, device_local: true }
}

const fn host_heap(size: u64) -> MemoryHeap {
    MemoryHeap { size, device_local: false }
}

const fn memory_type(heap: u8, properties: MemoryProperties) -> MemoryType {
    MemoryType { heap: MemoryHeapIndex(heap), properties }
}

impl Profile {
    /// Returns the common defaults of the profiles.
    fn base(name: &'static str, about: &'static str) -> Self {
        Self {
            name,
            about,
            heaps: Vec::new(),
            memory_types: Vec::new(),
            limits: Limits {
                buffer_image_granularity: Alignment::ONE,
                // Above 1, so that unaligned flushes are found; it is the atom of the measured NVIDIA device.
                non_coherent_atom_size: alignment(64),
                // The value that Vulkan guarantees, so that tests meet the limit of weak drivers.
                max_allocation_count: 4096,
                max_allocation_size: 4 * GIB,
                image_copy_offset_alignment: Alignment::ONE,
                image_copy_row_alignment: Alignment::ONE,
                buffer_offset_alignment: CONSTANTS,
            },
            queues: vec![QueueKind::Graphics, QueueKind::Compute, QueueKind::Transfer],
            queue_families: QueueFamilies::ForEachKind,
            buffers: MemoryTypeMask::ALL,
            images: MemoryTypeMask::ALL,
            placement: Alignment::ONE,
            host_image_copies: false,
            // As on the measured NVIDIA device, and Direct3D 12's tiles.
            reserved_buffers: Some(alignment(64 << 10)),
            priorities: PrioritySupport::AnyTime,
            descriptors: DESCRIPTORS,
        }
    }

    /// Returns all profiles.
    #[must_use]
    pub fn all() -> Vec<Self> {
        vec![
            Self::discrete_large_bar(),
            Self::discrete_small_bar(),
            Self::discrete_no_bar(),
            Self::integrated(),
            Self::mobile("mobile", 64),
            Self::d3d12_tier_1(),
            Self::d3d12_tier_2(),
            Self::d3d12_uma(),
            Self::nvidia_h200(),
            Self::lavapipe(),
            // The least and the most that Vulkan allows for an atom, and a page of the CPU.
            Self::mobile("mobile-atom-1", 1),
            Self::mobile("mobile-atom-256", 256),
            Self::mobile("mobile-atom-4096", 4096),
        ]
    }

    /// Returns the profile with a name, or `None`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|profile| profile.name == name)
    }

    /// Returns a profile with the heaps, memory types, limits and queues of another device, so that an allocator
    /// makes the same decisions on both. Which types support buffers and images is not known, so all do.
    ///
    /// ```
    /// use allotment::device::MemoryDevice as _;
    /// use allotment::device::simulated::{SimulatedGpu, Profile};
    ///
    /// let device = SimulatedGpu::new(Profile::named("mobile").unwrap());
    /// let again = SimulatedGpu::new(Profile::of(device.properties()));
    /// assert_eq!(again.properties().heaps, device.properties().heaps);
    /// ```
    #[must_use]
    pub fn of(properties: &DeviceProperties) -> Self {
        Self {
            heaps: properties.heaps.clone(),
            memory_types: properties.memory_types.clone(),
            limits: properties.limits,
            queues: properties.queues.clone(),
            ..Self::base("as another device", "the heaps, memory types, limits and queues of another device")
        }
    }

    fn discrete_large_bar() -> Self {
        Self {
            heaps: vec![device_heap(8 * GIB), host_heap(16 * GIB)],
            memory_types: vec![
                memory_type(0, DEVICE),
                memory_type(1, COHERENT),
                memory_type(1, CACHED),
                memory_type(0, DEVICE.union(COHERENT)),
            ],
            ..Self::base("discrete-large-bar", "a graphics card all of whose memory the CPU can map")
        }
    }

    fn discrete_small_bar() -> Self {
        Self {
            // The window is part of the card's memory, so it is taken off the large heap.
            heaps: vec![device_heap(8 * GIB - 256 * MIB), host_heap(16 * GIB), device_heap(256 * MIB)],
            memory_types: vec![
                memory_type(0, DEVICE),
                // The mappable part is a heap of its own, as drivers without resizable BAR report it.
                memory_type(1, COHERENT),
                memory_type(1, CACHED),
                memory_type(2, DEVICE.union(COHERENT)),
            ],
            ..Self::base("discrete-small-bar", "a graphics card with a window of 256 MiB for the CPU")
        }
    }

    fn discrete_no_bar() -> Self {
        let base = Self::base(
            "discrete-no-bar",
            "an older graphics card: none of its memory can be mapped, granularity 64 KiB",
        );
        Self {
            heaps: vec![device_heap(4 * GIB), host_heap(16 * GIB)],
            memory_types: vec![memory_type(0, DEVICE), memory_type(1, COHERENT), memory_type(1, CACHED)],
            // Larger than the 4 KiB up to which the allocator rounds, so that it must use separate blocks.
            limits: Limits { buffer_image_granularity: alignment(65536), ..base.limits },
            ..base
        }
    }

    fn integrated() -> Self {
        Self {
            heaps: vec![device_heap(16 * GIB)],
            memory_types: vec![memory_type(0, DEVICE.union(COHERENT)), memory_type(0, DEVICE.union(CACHED))],
            host_image_copies: true,
            descriptors: DescriptorLimits {
                // Not 0 as in the other profiles: allocation must leave out the slots that belong to the driver.
                resources: ShaderVisibleHeapLimits { reserved: 32, ..DESCRIPTORS.resources },
                samplers: ShaderVisibleHeapLimits { reserved: 16, ..DESCRIPTORS.samplers },
                ..DESCRIPTORS
            },
            ..Self::base(
                "integrated",
                "a GPU that shares one heap with the CPU, and whose driver reserves descriptors",
            )
        }
    }

    /// Returns a phone whose flushes have a granularity of `atom` bytes. Each such profile has memory that needs flushes.
    fn mobile(name: &'static str, atom: u64) -> Self {
        let base = Self::base(
            name,
            "a tiled GPU of a phone: cached memory is not coherent, lazily allocated memory for attachments",
        );
        Self {
            heaps: vec![device_heap(4 * GIB)],
            memory_types: vec![
                memory_type(0, DEVICE.union(COHERENT)),
                // Not coherent: flushes and invalidates are needed and observed.
                memory_type(0, DEVICE.union(VISIBLE).union(MemoryProperties::HOST_CACHED)),
                memory_type(0, DEVICE.union(MemoryProperties::LAZILY_ALLOCATED)),
            ],
            // Lazily allocated memory supports attachments only.
            buffers: MemoryTypeMask(0b011),
            host_image_copies: true,
            limits: Limits {
                non_coherent_atom_size: alignment(atom),
                image_copy_offset_alignment: alignment(64),
                image_copy_row_alignment: alignment(64),
                ..base.limits
            },
            queues: vec![QueueKind::Graphics],
            descriptors: DescriptorLimits {
                // A table alignment above 1, as with Vulkan's descriptor buffers where the offset alignment
                // exceeds the stride.
                resources: ShaderVisibleHeapLimits { max_capacity: 1 << 17, table_alignment: 4, reserved: 0 },
                samplers: ShaderVisibleHeapLimits { table_alignment: 4, ..DESCRIPTORS.samplers },
                ..DESCRIPTORS
            },
            ..base
        }
    }

    /// Returns the common defaults of Direct3D 12.
    fn d3d12(name: &'static str, about: &'static str) -> Self {
        let base = Self::base(name, about);
        let limits = Limits {
            // `D3D12_TEXTURE_DATA_PLACEMENT_ALIGNMENT` and `D3D12_TEXTURE_DATA_PITCH_ALIGNMENT`.
            image_copy_offset_alignment: alignment(512),
            image_copy_row_alignment: alignment(256),
            ..base.limits
        };
        Self { limits, placement: alignment(65536), queue_families: QueueFamilies::One, ..base }
    }

    fn d3d12_tier_1() -> Self {
        Self {
            heaps: vec![device_heap(8 * GIB), host_heap(16 * GIB)],
            memory_types: vec![
                memory_type(0, DEVICE),
                memory_type(0, DEVICE),
                memory_type(0, DEVICE),
                memory_type(1, UPLOAD),
                memory_type(1, READBACK),
            ],
            // Types 0, 3 and 4 hold buffers, 1 and 2 textures: tier 1 forbids both in one heap.
            buffers: MemoryTypeMask(0b11001),
            images: MemoryTypeMask(0b00110),
            ..Self::d3d12(
                "d3d12-tier-1",
                "resource heap tier 1: buffers, render targets and other textures in separate heaps",
            )
        }
    }

    fn d3d12_tier_2() -> Self {
        Self {
            heaps: vec![device_heap(8 * GIB), host_heap(16 * GIB)],
            memory_types: vec![
                memory_type(0, DEVICE),
                memory_type(1, UPLOAD),
                memory_type(1, READBACK),
                memory_type(0, DEVICE.union(COHERENT)),
            ],
            images: MemoryTypeMask(0b0001),
            ..Self::d3d12("d3d12-tier-2", "resource heap tier 2 with a GPU upload heap")
        }
    }

    fn d3d12_uma() -> Self {
        Self {
            heaps: vec![device_heap(16 * GIB)],
            memory_types: vec![
                memory_type(0, DEVICE),
                memory_type(0, DEVICE.union(UPLOAD)),
                memory_type(0, DEVICE.union(READBACK)),
            ],
            images: MemoryTypeMask(0b001),
            ..Self::d3d12("d3d12-uma", "an integrated GPU under Direct3D 12, resource heap tier 2")
        }
    }

    fn nvidia_h200() -> Self {
        let base = Self::base("nvidia-h200", "as read off an H200 with driver 580");
        Self {
            heaps: vec![host_heap(94 * GIB), device_heap(140 * GIB)],
            memory_types: vec![
                memory_type(0, MemoryProperties::empty()),
                memory_type(1, DEVICE),
                memory_type(0, COHERENT),
                memory_type(0, CACHED),
                memory_type(1, DEVICE.union(COHERENT)),
            ],
            // Measured on the device; below 4 KiB, so images and buffers share blocks.
            limits: Limits { buffer_image_granularity: alignment(1024), ..base.limits },
            ..base
        }
    }

    fn lavapipe() -> Self {
        let base = Self::base("lavapipe", "Mesa's software renderer: one memory type");
        Self {
            heaps: vec![device_heap(16 * GIB)],
            memory_types: vec![memory_type(0, DEVICE.union(CACHED))],
            host_image_copies: true,
            limits: Limits {
                buffer_image_granularity: alignment(64),
                image_copy_offset_alignment: alignment(128),
                image_copy_row_alignment: alignment(128),
                ..base.limits
            },
            queues: vec![QueueKind::Graphics],
            ..base
        }
    }

    /// Returns the family of each queue.
    pub(super) fn families(&self) -> Vec<u32> {
        let family = |kind: &QueueKind| match (self.queue_families, kind) {
            (QueueFamilies::One, _) | (_, QueueKind::Graphics) => 0,
            (QueueFamilies::ForEachKind, QueueKind::Compute) => 1,
            (QueueFamilies::ForEachKind, QueueKind::Transfer) => 2,
        };
        self.queues.iter().map(family).collect()
    }

    pub(super) fn properties(&self) -> DeviceProperties {
        DeviceProperties {
            name: format!("simulated {}", self.name),
            api: Api::Simulated,
            heaps: self.heaps.clone(),
            memory_types: self.memory_types.clone(),
            limits: self.limits,
            queues: self.queues.clone(),
        }
    }

    /// Returns the memory requirements of a resource on this device, which by itself has the requirements `own`.
    #[must_use]
    pub fn requirements(&self, kind: ResourceKind, own: Requirements) -> Requirements {
        let allowed = match kind {
            ResourceKind::Buffer => self.buffers,
            ResourceKind::LinearImage | ResourceKind::OptimalImage => self.images,
            ResourceKind::Unknown => MemoryTypeMask(self.buffers.0 & self.images.0),
        };
        // The mask must not name types that the profile lacks, and a shift by 32 would overflow.
        let exists = u32::MAX >> (32 - self.memory_types.len().clamp(1, 32));
        Requirements {
            // A size near 2^64 is left as it is, for the layer above to refuse.
            size: own.size.checked_next_multiple_of(self.placement.get()).unwrap_or(own.size),
            alignment: own.alignment.max(self.placement),
            memory_types: MemoryTypeMask(own.memory_types.0 & allowed.0 & exists),
            dedicated: own.dedicated,
            kind,
        }
    }
}
