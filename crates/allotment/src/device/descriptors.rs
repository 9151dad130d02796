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
use core::ops::Range;

use super::{Device, DeviceError};
use crate::Alignment;

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

/// A graphics API's descriptors, as the descriptor layer uses them.
///
/// Every method may be called from any thread at any time. Writes to different descriptors of one heap may happen at
/// the same time.
///
/// # Safety
///
/// Safe code relies on these promises of an implementation: a heap has as many descriptors as were requested,
/// those of different indices share no bytes, and [`descriptor_limits`](Self::descriptor_limits) never changes.
pub unsafe trait DescriptorDevice: Device + Sized {
    /// The API's descriptor heap.
    type DescriptorHeap: Debug + Send + Sync;
    /// A descriptor to write: a view of a resource, or a sampler, with the API's parameters.
    ///
    /// The code that creates one promises that the objects it names are of this device, and live until no heap
    /// contains the descriptor any more: until each slot, table or CPU descriptor range that it was written to
    /// was overwritten or freed. `'a` may end long before. Heaps are copied: from CPU heaps to shader-visible
    /// ones, and when they grow or are compacted. Where Vulkan uses descriptor sets, a copy passes the handles
    /// to the driver again.
    ///
    /// A device may require less: for Direct3D 12 and for the simulated GPU it is enough that the objects which
    /// a descriptor names are live while it is written. Objects that submitted work accesses through descriptors
    /// must live until that work is complete, on every device.
    type Descriptor<'a>: Clone + Debug;
    /// The API's sampler: a driver object, or its description.
    type Sampler: Debug + Send + Sync;

    /// Returns the device's descriptor limits.
    fn descriptor_limits(&self) -> DescriptorLimits;

    /// Returns the heap type that a descriptor belongs to.
    fn descriptor_kind(descriptor: &Self::Descriptor<'_>) -> DescriptorHeapType;

    /// Returns whether heaps of this device accept such a descriptor. A descriptor that they do not accept is
    /// not written; tests and debug builds panic.
    fn can_write(&self, descriptor: &Self::Descriptor<'_>) -> bool {
        let _ = descriptor;
        true
    }

    /// Returns the description of the buffer that backs a heap, which has to be in mapped, host-coherent memory;
    /// `None` if the driver or the implementation provides the memory.
    fn descriptor_heap_buffer(&self, desc: &DescriptorHeapDesc) -> Option<Self::BufferInfo<'static>>;

    /// Creates a descriptor heap. Its descriptors are undefined.
    ///
    /// # Errors
    ///
    /// [`DeviceError`]; no heap exists in that case. [`DeviceError::Unsupported`] beyond the
    /// [limits](Self::descriptor_limits), for a capacity of 0, and if the device has no such heaps.
    ///
    /// # Safety
    ///
    /// `memory` is `Some` exactly if [`descriptor_heap_buffer`](Self::descriptor_heap_buffer) returns a
    /// description: a live buffer created from that description in host-coherent memory, all of it mapped. Both
    /// outlive the heap, and nothing else uses them.
    unsafe fn create_descriptor_heap(
        &self,
        desc: &DescriptorHeapDesc,
        memory: Option<DescriptorHeapBacking<'_, Self>>,
    ) -> Result<Self::DescriptorHeap, DeviceError>;

    /// Destroys a descriptor heap. The buffer that backs it is not destroyed.
    ///
    /// # Safety
    ///
    /// `heap` is from this device, and neither a queue nor a thread uses it after this call.
    unsafe fn destroy_descriptor_heap(&self, heap: Self::DescriptorHeap);

    /// Returns the address of a heap's first descriptor.
    fn descriptor_heap_address(&self, heap: &Self::DescriptorHeap) -> DescriptorHeapAddress;

    /// Writes a descriptor.
    ///
    /// # Safety
    ///
    /// `heap` is live and from this device, `at` is below its capacity, and the descriptor is of the heap's
    /// type. No other thread writes this slot or copies from it during this call. No work that is submitted or
    /// being recorded reads the slot before it was written and expects the previous descriptor.
    unsafe fn write_descriptor(
        &self,
        heap: &Self::DescriptorHeap,
        at: u32,
        descriptor: &Self::Descriptor<'_>,
    );

    /// Writes null descriptors: shaders that read through them read zeros, where the API guarantees that. A null
    /// sampler is one with default values.
    ///
    /// # Safety
    ///
    /// The conditions of [`write_descriptor`](Self::write_descriptor) apply, for each slot of the range.
    unsafe fn write_null_descriptors(&self, heap: &Self::DescriptorHeap, at: Range<u32>);

    /// Overwrites unused descriptors so that accesses through them are noticed: the simulated GPU reports a
    /// validation error; other devices read nothing. For debugging.
    ///
    /// # Safety
    ///
    /// The conditions of [`write_descriptor`](Self::write_descriptor) apply, for each slot of the range.
    unsafe fn poison_descriptors(&self, heap: &Self::DescriptorHeap, at: Range<u32>);

    /// Copies descriptors, with their values at the time of the call.
    ///
    /// # Safety
    ///
    /// Both heaps are live, from this device and of the same type; `from` is a CPU descriptor heap. The ranges
    /// lie in them, do not overlap if they are the same heap, and each copied slot was written. No other thread
    /// writes the ranges during this call, or copies from `to`. The last promise of
    /// [`write_descriptor`](Self::write_descriptor) holds for the slots that are overwritten.
    unsafe fn copy_descriptors(
        &self,
        from: &Self::DescriptorHeap,
        from_at: u32,
        to: &Self::DescriptorHeap,
        to_at: u32,
        count: u32,
    );

    /// Creates a sampler.
    ///
    /// # Errors
    ///
    /// [`DeviceError`]; no sampler exists in that case. [`DeviceError::Unsupported`] if the device does not
    /// support the description.
    fn create_sampler(&self, desc: &super::SamplerDesc) -> Result<Self::Sampler, DeviceError>;

    /// Destroys a sampler.
    ///
    /// # Safety
    ///
    /// The sampler is from this device, and no queue uses it after this call, through a descriptor either.
    unsafe fn destroy_sampler(&self, sampler: Self::Sampler);

    /// Returns the descriptor of a sampler.
    ///
    /// # Safety
    ///
    /// The sampler is from this device, and the descriptor is written into heaps of this device only. The
    /// sampler lives for as long as [`Descriptor`](Self::Descriptor) requires.
    unsafe fn sampler_descriptor<'a>(&self, sampler: &'a Self::Sampler) -> Self::Descriptor<'a>;

    /// Returns the descriptor of a buffer range.
    ///
    /// # Safety
    ///
    /// The buffer is from this device, and was created for this use; the range lies in it, is not empty, and
    /// satisfies the rules of the [use](BufferUse). The descriptor is written into heaps of this device only.
    ///
    /// The buffer lives until no heap contains the descriptor any more: until each slot, table or CPU descriptor
    /// range that it was written to was overwritten or freed. [`Descriptor`](Self::Descriptor) says why, and
    /// which devices require less.
    unsafe fn buffer_descriptor<'a>(
        &self,
        buffer: &'a Self::Buffer,
        range: Range<u64>,
        usage: BufferUse,
    ) -> Self::Descriptor<'a>;
}

/// The buffer that backs a descriptor heap, on devices where a buffer does.
#[derive(Clone, Copy, Debug)]
pub struct DescriptorHeapBacking<'a, D: Device> {
    /// The buffer.
    pub buffer: &'a D::Buffer,
    /// The CPU address of its first byte.
    pub address: core::ptr::NonNull<u8>,
}
