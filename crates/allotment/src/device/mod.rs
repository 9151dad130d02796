//! The device layer: the only part of the crate that calls a driver.
//!
//! [`Device`] is the interface between the allocator and a graphics API: memory objects, buffers and images
//! bound to them, and queues that copy. Each implementation is a module of this one:
//!
//! - [`simulated`]: a simulated GPU, which runs on every machine. It has real bytes, one thread per queue, and
//!   failures on demand.
//! - `vulkan` (feature `vulkan`): Vulkan 1.0 and later, over the application's own device.
//! - `d3d12` (feature `d3d12`, on Windows): Direct3D 12, over the application's own device.
//!
//! The Vulkan and Direct3D 12 folders have the same file names, so that a reader of one finds the counterpart in
//! the other. Code that both share is in the files beside the two folders.
//!
//! The trait can be implemented outside this crate. Its contract is written as a generic conformance suite
//! (`tests/devices`), which runs against any implementation.

mod address;
#[cfg(any(feature = "vulkan", all(feature = "d3d12", windows)))]
mod budget;
mod buffer_view;
mod bytes;
#[cfg(any(feature = "vulkan", all(feature = "d3d12", windows)))]
mod command_pools;
mod commands;
mod copy;
mod copy_error;
#[cfg(all(feature = "d3d12", windows))]
pub mod d3d12;
#[cfg_attr(
    not(any(feature = "simulated", feature = "vulkan", all(feature = "d3d12", windows))),
    allow(dead_code, reason = "a device outside this crate checks by itself")
)]
mod description;
mod descriptors;
mod error;
mod image_part;
mod image_shape;
mod image_view;
#[cfg(any(feature = "vulkan", all(feature = "d3d12", windows)))]
mod ledger;
mod memory;
mod owned;
mod ownership;
mod properties;
mod queue;
mod resource;
mod sampler;
#[cfg(feature = "simulated")]
pub mod simulated;
mod texel_buffer;
mod texels;
mod traits;
#[cfg(feature = "vulkan")]
pub mod vulkan;
#[cfg(any(feature = "vulkan", all(feature = "d3d12", windows)))]
mod waves;

pub use address::AddressError;
pub use buffer_view::{BufferViewDesc, BufferViewUses};
pub(crate) use bytes::{copy_bytes, read_bytes, write_bytes};
pub use commands::CommandAllocator;
pub use copy::{
    BufferCopy, CopyDirection, FullImageCopy, HostImageWrite, ImageCopy, TexelBlock, TransferUsage,
};
pub use copy_error::CopyError;
pub use description::{DescriptionError, DescriptionLimit, DescriptorTypeReason};
pub use descriptors::{
    BufferUse, DescriptorHeapAddress, DescriptorHeapBacking, DescriptorHeapDesc, DescriptorHeapType,
    DescriptorHeapVisibility, DescriptorLimits, ShaderVisibleHeapLimits, ShaderVisibleHeapType,
};
pub use error::DeviceError;
pub use image_part::{ImageDataOrder, ImagePart};
pub(crate) use image_part::{PartRegion, PartRegions};
pub use image_shape::{ImageCopyError, ImageRegion, ImageShape};
pub use image_view::{
    ImageViewAspect, ImageViewDesc, ImageViewDimension, ImageViewError, ImageViewParameters,
    ImageViewSupport, ImageViewUse, ImageViewUses,
};
pub use memory::{MemoryDesc, MemoryHandle, Priority, PrioritySupport, RangeBinding};
pub(crate) use owned::{Mapped, Mapping, OwnedMemory, Visibility, make_visible, map_memory};
pub use ownership::{OwnedPart, OwnershipTransfer, SharingMode};
pub(crate) use ownership::{home_queue, is_of_home_family};
pub use properties::{
    Api, DedicatedNeed, DeviceProperties, Limits, MemoryHeap, MemoryHeapBudget, MemoryHeapIndex,
    MemoryProperties, MemoryType, MemoryTypeIndex, MemoryTypeMask, QueueKind, Requirements,
};
pub use queue::{QueueIndex, Submission, TimelinePoint, TimelineValue};
pub use resource::{BufferDesc, ImageDesc, ImageDimension, ResourceKind, Tiling};
pub use sampler::{AddressMode, BorderColor, Compare, Filter, SamplerDesc, SamplerError, SamplerNumber};
pub use texel_buffer::{TexelBufferDesc, TexelBufferLimits, TexelBufferUse};
pub use texels::{ImageAspect, TexelLayout, TexelPlane};
pub use traits::{
    BufferDevice, CommandDevice, DescriptorDevice, Device, ImageDevice, MemoryDevice, QueueDevice,
};
