//! Descriptors, as far as the graphics APIs agree on them: heaps of equal slots, written by the CPU and read by
//! the GPU when it executes commands.
//!
//! ```text
//!   CPU descriptor heap  ▓▓▓▓▓▓▓▓        any type; never read by the GPU, cheap to read for the CPU
//!                         │ copy
//!   shader-visible heap  ░░▓▓░░░░▓▓      resources or samplers; what shaders index
//! ```
//!
//! | | simulated | Vulkan, descriptor buffer | Vulkan, descriptor sets | Direct3D 12 |
//! |---|---|---|---|---|
//! | shader-visible heap | bytes | a mapped buffer with an address | one update-after-bind set | `ID3D12DescriptorHeap` |
//! | CPU descriptor heap | bytes | bytes | the values of later descriptor writes | `ID3D12DescriptorHeap` |
//! | copy | bytes | bytes | `vkUpdateDescriptorSets` | `CopyDescriptorsSimple` |
//! | render targets | bytes | image views | image views | `ID3D12DescriptorHeap` |

use core::fmt::{self, Debug};

use super::Device;
use allotment_suballoc::Alignment;

/// The type of the descriptors in a descriptor heap, as `D3D12_DESCRIPTOR_HEAP_TYPE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DescriptorHeapType {
    /// Buffers and images that shaders read and write (`CBV_SRV_UAV`).
    Resource,
    /// Samplers.
    Sampler,
    /// Render target views.
    RenderTarget,
    /// Depth-stencil views.
    DepthStencil,
}

impl DescriptorHeapType {
    /// All types.
    pub const ALL: [Self; 4] = [Self::Resource, Self::Sampler, Self::RenderTarget, Self::DepthStencil];
}

impl fmt::Display for DescriptorHeapType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Resource => "resource",
            Self::Sampler => "sampler",
            Self::RenderTarget => "render target",
            Self::DepthStencil => "depth stencil",
        })
    }
}

/// The types of shader-visible descriptor heaps. A separate enum, since there are no shader-visible heaps of
/// render target or depth-stencil views.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ShaderVisibleHeapType {
    /// Buffers and images.
    Resource,
    /// Samplers.
    Sampler,
}

impl ShaderVisibleHeapType {
    /// Both types.
    pub const ALL: [Self; 2] = [Self::Resource, Self::Sampler];
}

impl From<ShaderVisibleHeapType> for DescriptorHeapType {
    fn from(kind: ShaderVisibleHeapType) -> Self {
        match kind {
            ShaderVisibleHeapType::Resource => Self::Resource,
            ShaderVisibleHeapType::Sampler => Self::Sampler,
        }
    }
}

/// Whether shaders read a descriptor heap, and the type of its descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DescriptorHeapVisibility {
    /// Descriptors that the CPU writes and copies from; shaders never read them.
    CpuOnly(DescriptorHeapType),
    /// Descriptors that shaders read. The CPU writes them and reads nothing back.
    ShaderVisible(ShaderVisibleHeapType),
}

impl DescriptorHeapVisibility {
    /// Returns the type of the descriptors.
    #[must_use]
    pub fn kind(self) -> DescriptorHeapType {
        match self {
            Self::CpuOnly(kind) => kind,
            Self::ShaderVisible(kind) => kind.into(),
        }
    }
}

/// A descriptor heap to create.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DescriptorHeapDesc {
    /// Whether shaders read the heap, and the type of its descriptors.
    pub usage: DescriptorHeapVisibility,
    /// Number of descriptors, at least 1; at most the limit in [`DescriptorLimits`] for a shader-visible heap.
    pub capacity: u32,
}

/// The limits of shader-visible descriptor heaps of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShaderVisibleHeapLimits {
    /// The maximum number of descriptors in a heap, including those that the driver reserves. 0 if the device
    /// has no such heaps.
    pub max_capacity: u32,
    /// Number of descriptors at the end of each heap that the driver reserves.
    pub reserved: u32,
    /// Alignment of the index of a table's first descriptor; a power of two.
    pub table_alignment: u32,
}

/// The descriptor limits of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorLimits {
    /// Limits of resource heaps.
    pub resources: ShaderVisibleHeapLimits,
    /// Limits of sampler heaps.
    pub samplers: ShaderVisibleHeapLimits,
    /// Bytes from one descriptor to the next, in the order of [`DescriptorHeapType::ALL`]. At least 1.
    pub strides: [u32; 4],
    /// The maximum number of samplers at the same time, whether in a heap or not.
    pub max_samplers: u32,
    /// Alignment in bytes of the start of a buffer range that shaders access as raw bytes.
    pub raw_buffer_alignment: Alignment,
    /// Alignment in bytes of the start of a range of constants. No API aligns the end of a range.
    pub constants_alignment: Alignment,
    /// The maximum size in bytes of a buffer range that shaders access as raw bytes.
    pub max_raw_range: u64,
    /// The maximum size in bytes of a range of constants.
    pub max_constants_range: u64,
}

impl DescriptorLimits {
    /// Returns the limits of shader-visible heaps of a type.
    #[must_use]
    pub fn shader_visible(&self, kind: ShaderVisibleHeapType) -> &ShaderVisibleHeapLimits {
        match kind {
            ShaderVisibleHeapType::Resource => &self.resources,
            ShaderVisibleHeapType::Sampler => &self.samplers,
        }
    }

    /// Returns the alignment of the start of a buffer range for a use, in bytes.
    #[must_use]
    pub fn buffer_alignment(&self, usage: BufferUse) -> Alignment {
        match usage {
            BufferUse::ReadOnly | BufferUse::ReadWrite => self.raw_buffer_alignment,
            BufferUse::Constants => self.constants_alignment,
        }
    }

    /// Returns the maximum size of a buffer range for a use, in bytes.
    #[must_use]
    pub fn max_buffer_range(&self, usage: BufferUse) -> u64 {
        match usage {
            BufferUse::ReadOnly | BufferUse::ReadWrite => self.max_raw_range,
            BufferUse::Constants => self.max_constants_range,
        }
    }

    /// Returns the bytes from one descriptor of a type to the next.
    #[must_use]
    pub fn stride(&self, kind: DescriptorHeapType) -> u32 {
        // The array is in the order of the enum, so the discriminant is the index.
        self.strides[kind as usize]
    }
}

/// The address of a heap's first descriptor. The following ones are [`DescriptorLimits::stride`] apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DescriptorHeapAddress {
    /// For the CPU: an address, or a `D3D12_CPU_DESCRIPTOR_HANDLE`. 0 if there is none because the driver stores
    /// the descriptors in sets.
    pub cpu: u64,
    /// For the GPU: an address, or a `D3D12_GPU_DESCRIPTOR_HANDLE`. 0 for a heap that shaders do not read, and
    /// where they read it through a descriptor set.
    pub gpu: u64,
}

/// How shaders use a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BufferUse {
    /// Raw bytes that are read (`ByteAddressBuffer`, `readonly buffer`). Ranges start and end at multiples of 4
    /// bytes. They start at multiples of `minStorageBufferOffsetAlignment` in Vulkan, and of 16 in Direct3D 12.
    /// Their size is at most [`max_raw_range`](DescriptorLimits::max_raw_range).
    ReadOnly,
    /// Raw bytes that are read and written (`RWByteAddressBuffer`, `buffer`). The rules of
    /// [`ReadOnly`](Self::ReadOnly) apply.
    ReadWrite,
    /// Constants (`ConstantBuffer`, `uniform`). Ranges start at multiples of
    /// [`constants_alignment`](DescriptorLimits::constants_alignment), and end at multiples of 256 bytes. Their
    /// size is at most [`max_constants_range`](DescriptorLimits::max_constants_range).
    Constants,
}

/// The buffer that backs a descriptor heap, on devices where a buffer does.
#[derive(Clone, Copy, Debug)]
pub struct DescriptorHeapBacking<'a, D: Device> {
    /// The buffer.
    pub buffer: &'a D::Buffer,
    /// The CPU address of its first byte.
    pub address: core::ptr::NonNull<u8>,
}
