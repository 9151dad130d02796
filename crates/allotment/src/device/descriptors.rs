//! Descriptors, as far as graphics APIs agree on them: heaps of equal slots, written by the CPU and read by the
//! GPU when its work runs.
//!
//! ```text
//!   staging heap         ▓▓▓▓▓▓▓▓        any kind; never read by the GPU, cheap to read for the CPU
//!                         │ copy
//!   shader-visible heap  ░░▓▓░░░░▓▓      resources or samplers; what shaders index
//! ```
//!
//! | | simulated | Vulkan, descriptor buffer | Vulkan, descriptor sets | Direct3D 12 |
//! |---|---|---|---|---|
//! | shader-visible heap | bytes | a mapped buffer with an address | one update-after-bind set | `ID3D12DescriptorHeap` |
//! | staging heap | bytes | bytes | what would be written | `ID3D12DescriptorHeap` |
//! | copy | bytes | bytes | `vkUpdateDescriptorSets` | `CopyDescriptorsSimple` |
//! | render targets | bytes | image views | image views | `ID3D12DescriptorHeap` |

use core::fmt::{self, Debug};
use core::ops::Range;

use super::{Device, DeviceError};
use crate::Alignment;

/// What a descriptor is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DescriptorHeapType {
    /// Buffers and images that shaders read and write.
    Resource,
    /// How shaders sample images.
    Sampler,
    /// Images that are drawn to.
    RenderTarget,
    /// Images that depth and stencil are written to.
    DepthStencil,
}

impl DescriptorHeapType {
    /// All of them.
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

/// What shaders can see descriptors of. There is no word for a shader-visible heap of render targets, since there is
/// no such heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ShaderVisibleHeapType {
    /// Buffers and images.
    Resource,
    /// Samplers.
    Sampler,
}

impl ShaderVisibleHeapType {
    /// Both of them.
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

/// Who reads a heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DescriptorHeapVisibility {
    /// Descriptors that the CPU writes and copies from; shaders never read them.
    CpuOnly(DescriptorHeapType),
    /// Descriptors that shaders read. The CPU writes them and reads nothing back.
    ShaderVisible(ShaderVisibleHeapType),
}

impl DescriptorHeapVisibility {
    /// What the descriptors are of.
    #[must_use]
    pub fn kind(self) -> DescriptorHeapType {
        match self {
            Self::CpuOnly(kind) => kind,
            Self::ShaderVisible(kind) => kind.into(),
        }
    }
}

/// A heap to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DescriptorHeapDesc {
    /// Who reads it, and what it is of.
    pub usage: DescriptorHeapVisibility,
    /// Descriptors, at least 1, and no more than [`DescriptorLimits`] say where shaders see it.
    pub capacity: u32,
}

/// What a device can do with the shader-visible heaps of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShaderVisibleHeapLimits {
    /// Descriptors that a heap can have, those that the driver keeps for itself included. 0 where there are no such
    /// heaps.
    pub max_capacity: u32,
    /// Descriptors at the end of each heap that the driver keeps for itself.
    pub reserved: u32,
    /// What the index of a table's first descriptor must be a multiple of; a power of two.
    pub table_alignment: u32,
}

/// What a device can do with descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorLimits {
    /// Of resources.
    pub resources: ShaderVisibleHeapLimits,
    /// Of samplers.
    pub samplers: ShaderVisibleHeapLimits,
    /// Bytes from one descriptor to the next, in the order of [`DescriptorHeapType::ALL`]. At least 1.
    pub strides: [u32; 4],
    /// Samplers that can exist at once, whether they are in a heap or not.
    pub max_samplers: u32,
    /// What the first byte of a range must be a multiple of that shaders read or write as raw bytes.
    pub raw_buffer_alignment: Alignment,
    /// What it must be a multiple of where the range is constants. What ranges end at is no matter of the API.
    pub constants_alignment: Alignment,
    /// Bytes that a range can have at most that shaders read or write as raw bytes.
    pub max_raw_range: u64,
    /// Bytes that a range of constants can have at most.
    pub max_constants_range: u64,
}

impl DescriptorLimits {
    /// Of shader-visible heaps of a kind.
    #[must_use]
    pub fn shader_visible(&self, kind: ShaderVisibleHeapType) -> &ShaderVisibleHeapLimits {
        match kind {
            ShaderVisibleHeapType::Resource => &self.resources,
            ShaderVisibleHeapType::Sampler => &self.samplers,
        }
    }

    /// What the first byte of a range of a buffer must be a multiple of that is used so.
    #[must_use]
    pub fn buffer_alignment(&self, usage: BufferUse) -> Alignment {
        match usage {
            BufferUse::ReadOnly | BufferUse::ReadWrite => self.raw_buffer_alignment,
            BufferUse::Constants => self.constants_alignment,
        }
    }

    /// Bytes that a range of a buffer can have at most that is used so.
    #[must_use]
    pub fn max_buffer_range(&self, usage: BufferUse) -> u64 {
        match usage {
            BufferUse::ReadOnly | BufferUse::ReadWrite => self.max_raw_range,
            BufferUse::Constants => self.max_constants_range,
        }
    }

    /// Bytes from one descriptor of a kind to the next.
    #[must_use]
    pub fn stride(&self, kind: DescriptorHeapType) -> u32 {
        self.strides[kind as usize]
    }
}

/// Where a heap's first descriptor is. Those behind it are [`DescriptorLimits::stride`] apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DescriptorHeapAddress {
    /// To the CPU: an address, or a `D3D12_CPU_DESCRIPTOR_HANDLE`. 0 where there is none: where the driver keeps the
    /// descriptors in sets.
    pub cpu: u64,
    /// To the GPU: an address, or a `D3D12_GPU_DESCRIPTOR_HANDLE`. 0 where shaders do not see the heap, and where they
    /// see it by a set.
    pub gpu: u64,
}

/// How shaders use a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BufferUse {
    /// Raw bytes that are read (`ByteAddressBuffer`, `readonly buffer`). Ranges begin and end at multiples of 4 bytes.
    /// They begin at multiples of `minStorageBufferOffsetAlignment` on Vulkan, and of 16 on Direct3D 12. They have at
    /// most [`max_raw_range`](DescriptorLimits::max_raw_range) bytes.
    ReadOnly,
    /// Raw bytes that are read and written (`RWByteAddressBuffer`, `buffer`). As above.
    ReadWrite,
    /// Constants (`ConstantBuffer`, `uniform`). Ranges begin at multiples of
    /// [`constants_alignment`](DescriptorLimits::constants_alignment), and end at multiples of 256 bytes. They have at
    /// most [`max_constants_range`](DescriptorLimits::max_constants_range) bytes.
    Constants,
}

/// A graphics API, as far as descriptors are concerned.
///
/// Every method may be called from any thread at any time. Writes to different descriptors of one heap may happen at
/// the same time.
///
/// # Safety
///
/// Safe code relies on what an implementation says: a heap has as many descriptors as it was asked for, those of
/// different indices share no bytes, and [`descriptor_limits`](Self::descriptor_limits) never changes.
pub unsafe trait DescriptorDevice: Device + Sized {
    /// The API's heap.
    type DescriptorHeap: Debug + Send + Sync;
    /// What is written into a slot: a view of a resource, or a sampler. It says what the API wants to know.
    ///
    /// Who makes one promises that what it names is of this device, and lives until no heap holds the descriptor any
    /// more: until each slot, table or staging range that it was written to was overwritten or has come back. `'a` may
    /// end long before. Heaps are copied, from staging to where shaders see them, and when they grow or are compacted.
    /// Where Vulkan has descriptor sets, a copy hands the handles to the driver again.
    ///
    /// A device may ask for less: to Direct3D 12 and to the simulated device it is enough that what a descriptor names
    /// is live while it is written. What work reads through must live until that work has run, everywhere.
    type Descriptor<'a>: Clone + Debug;
    /// The API's sampler: an object of the driver, or what describes it.
    type Sampler: Debug + Send + Sync;

    /// What the device can do.
    fn descriptor_limits(&self) -> DescriptorLimits;

    /// What a descriptor is of.
    fn descriptor_kind(descriptor: &Self::Descriptor<'_>) -> DescriptorHeapType;

    /// Whether heaps of this device take such a descriptor. One that they do not take is not written, and tests and
    /// debug builds panic.
    fn can_write(&self, descriptor: &Self::Descriptor<'_>) -> bool {
        let _ = descriptor;
        true
    }

    /// The buffer that a heap stands in, in memory that is mapped and host-coherent; `None` where the driver or the
    /// implementation itself has the memory.
    fn descriptor_heap_buffer(&self, desc: &DescriptorHeapDesc) -> Option<Self::BufferInfo<'static>>;

    /// Makes a heap. What its descriptors are is undefined.
    ///
    /// # Errors
    ///
    /// [`DeviceError`]; there is no heap then. [`DeviceError::Unsupported`] beyond the
    /// [limits](Self::descriptor_limits), for no descriptors, and where there are no such heaps.
    ///
    /// # Safety
    ///
    /// `memory` is there exactly where [`descriptor_heap_buffer`](Self::descriptor_heap_buffer) says so: a live buffer
    /// made of that description in host-coherent memory, all of it mapped. Both outlive the heap, and nobody else uses them.
    unsafe fn create_descriptor_heap(
        &self,
        desc: &DescriptorHeapDesc,
        memory: Option<DescriptorHeapBacking<'_, Self>>,
    ) -> Result<Self::DescriptorHeap, DeviceError>;

    /// Destroys a heap; the buffer that it stands in stays.
    ///
    /// # Safety
    ///
    /// `heap` is from this device, and neither a queue nor anybody else uses it after this call.
    unsafe fn destroy_descriptor_heap(&self, heap: Self::DescriptorHeap);

    /// Where a heap's descriptors are.
    fn descriptor_heap_address(&self, heap: &Self::DescriptorHeap) -> DescriptorHeapAddress;

    /// Writes a descriptor.
    ///
    /// # Safety
    ///
    /// `heap` is live and from this device, `at` is below its capacity, and the descriptor is of the heap's kind. Nobody
    /// else writes this slot or copies from it meanwhile. No work that is submitted or being recorded reads the slot
    /// before it was written and expects what was there.
    unsafe fn write_descriptor(
        &self,
        heap: &Self::DescriptorHeap,
        at: u32,
        descriptor: &Self::Descriptor<'_>,
    );

    /// Writes descriptors of nothing: shaders that read through them read zeros, where the API can promise that. A
    /// sampler of nothing is one with all defaults.
    ///
    /// # Safety
    ///
    /// As for [`write_descriptor`](Self::write_descriptor), for each of the range.
    unsafe fn write_null_descriptors(&self, heap: &Self::DescriptorHeap, at: Range<u32>);

    /// Makes descriptors that nobody wrote since conspicuous: what reads through them is noticed (by the simulated
    /// device, which complains), or reads nothing. For debugging.
    ///
    /// # Safety
    ///
    /// As for [`write_descriptor`](Self::write_descriptor), for each of the range.
    unsafe fn poison_descriptors(&self, heap: &Self::DescriptorHeap, at: Range<u32>);

    /// Copies descriptors, as they are now.
    ///
    /// # Safety
    ///
    /// Both heaps are live, from this device and of the same kind; `from` is a staging heap. The ranges lie in them, do
    /// not overlap where they are the same heap, and each copied slot was written. Nobody else writes them meanwhile,
    /// or copies from `to`. For what is overwritten, the last promise of [`write_descriptor`](Self::write_descriptor)
    /// holds.
    unsafe fn copy_descriptors(
        &self,
        from: &Self::DescriptorHeap,
        from_at: u32,
        to: &Self::DescriptorHeap,
        to_at: u32,
        count: u32,
    );

    /// Makes a sampler.
    ///
    /// # Errors
    ///
    /// [`DeviceError`]; there is none then. [`DeviceError::Unsupported`] where the device cannot sample so.
    fn create_sampler(&self, desc: &super::SamplerDesc) -> Result<Self::Sampler, DeviceError>;

    /// Destroys a sampler.
    ///
    /// # Safety
    ///
    /// It is from this device, and no queue uses it after this call, through a descriptor either.
    unsafe fn destroy_sampler(&self, sampler: Self::Sampler);

    /// A sampler's descriptor.
    ///
    /// # Safety
    ///
    /// The sampler is of this device, and the descriptor is written into heaps of this device alone. The sampler lives
    /// for as long as [`Descriptor`](Self::Descriptor) says.
    unsafe fn sampler_descriptor<'a>(&self, sampler: &'a Self::Sampler) -> Self::Descriptor<'a>;

    /// The descriptor of a range of a buffer.
    ///
    /// # Safety
    ///
    /// The buffer is from this device, and was made to be used so; the range lies in it, is not empty, and keeps to
    /// what the [use](BufferUse) wants. The descriptor is written into heaps of this device alone.
    ///
    /// The buffer lives until no heap holds the descriptor any more: until each slot, table or staging range that it
    /// was written to was overwritten or has come back. [`Descriptor`](Self::Descriptor) says why, and who asks for
    /// less.
    unsafe fn buffer_descriptor<'a>(
        &self,
        buffer: &'a Self::Buffer,
        range: Range<u64>,
        usage: BufferUse,
    ) -> Self::Descriptor<'a>;
}

/// What a heap stands in, where it stands in a buffer.
#[derive(Clone, Copy, Debug)]
pub struct DescriptorHeapBacking<'a, D: Device> {
    /// The buffer.
    pub buffer: &'a D::Buffer,
    /// Where the CPU writes its first byte.
    pub address: core::ptr::NonNull<u8>,
}
