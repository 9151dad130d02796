//! What an allocator and an allocation are created from.

use core::ops::Deref;
use core::slice;

use windows::Win32::Graphics::Direct3D12::*;

use crate::{AllocationSizes, AllocatorDebugSettings, MemoryLocation};

/// The kinds of resources that share no heap on resource heap tier 1. Tier 2 knows no such kinds.
///
/// ```
/// use gpu_allocator::d3d12::ResourceCategory;
/// use windows::Win32::Graphics::Direct3D12::*;
///
/// let mut texture = D3D12_RESOURCE_DESC { Dimension: D3D12_RESOURCE_DIMENSION_TEXTURE2D, ..Default::default() };
/// assert_eq!(ResourceCategory::from(&texture), ResourceCategory::OtherTexture);
/// texture.Flags = D3D12_RESOURCE_FLAG_ALLOW_RENDER_TARGET;
/// assert_eq!(ResourceCategory::from(&texture), ResourceCategory::RtvDsvTexture);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceCategory {
    /// A buffer.
    Buffer,
    /// A texture that can be a render target or a depth buffer.
    RtvDsvTexture,
    /// Any other texture.
    OtherTexture,
}

impl From<&D3D12_RESOURCE_DESC> for ResourceCategory {
    fn from(desc: &D3D12_RESOURCE_DESC) -> Self {
        let target = D3D12_RESOURCE_FLAG_ALLOW_RENDER_TARGET | D3D12_RESOURCE_FLAG_ALLOW_DEPTH_STENCIL;
        if desc.Dimension == D3D12_RESOURCE_DIMENSION_BUFFER {
            Self::Buffer
        } else if desc.Flags.0 & target.0 != 0 {
            Self::RtvDsvTexture
        } else {
            Self::OtherTexture
        }
    }
}

/// What to allocate.
#[derive(Clone, Debug)]
pub struct AllocationCreateDesc<'a> {
    /// The name, for reports and logs.
    pub name: &'a str,
    /// Where the memory lies.
    pub location: MemoryLocation,
    /// The size in bytes, as `ID3D12Device::GetResourceAllocationInfo` says it.
    pub size: u64,
    /// The alignment in bytes, from there as well.
    pub alignment: u64,
    /// What the memory is for.
    pub resource_category: ResourceCategory,
}

impl<'a> AllocationCreateDesc<'a> {
    /// Asks the device for size and alignment of a resource.
    pub fn from_d3d12_resource_desc(
        device: &ID3D12Device,
        desc: &D3D12_RESOURCE_DESC,
        name: &'a str,
        location: MemoryLocation,
    ) -> Self {
        // SAFETY: the device is live, and the call accepts any description.
        let info = unsafe { device.GetResourceAllocationInfo(0, slice::from_ref(desc)) };
        let D3D12_RESOURCE_ALLOCATION_INFO { SizeInBytes: size, Alignment: alignment } = info;
        Self { name, location, size, alignment, resource_category: desc.into() }
    }
}

/// A device, as the newest interface of it that the application has.
#[derive(Clone, Debug)]
pub enum ID3D12DeviceVersion {
    /// Any device: resources begin in a state.
    Device(ID3D12Device),
    /// A device of this version: resources may begin in a layout, for enhanced barriers.
    Device10(ID3D12Device10),
    /// A device of this version: resources that begin in a layout may have castable formats.
    Device12(ID3D12Device12),
}

impl Deref for ID3D12DeviceVersion {
    type Target = ID3D12Device;

    fn deref(&self) -> &ID3D12Device {
        match self {
            Self::Device(device) => device,
            // Older versions of `windows` do not dereference them to it.
            Self::Device10(device) => device.into(),
            Self::Device12(device) => device.into(),
        }
    }
}

/// What an allocator is created from.
#[derive(Debug)]
pub struct AllocatorCreateDesc {
    /// The application's device.
    pub device: ID3D12DeviceVersion,
    /// What the allocator logs.
    pub debug_settings: AllocatorDebugSettings,
    /// The sizes of memory blocks.
    pub allocation_sizes: AllocationSizes,
}
