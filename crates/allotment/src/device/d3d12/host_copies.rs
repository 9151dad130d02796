//! Copies of texels by the CPU into textures (`WriteToSubresource`), and which textures are placed in memory for them.
//!
//! The CPU reaches a texture only in a custom heap whose pages it can write, on an adapter where CPU and GPU share memory and
//! caches. The API does not say whether the GPU reads such a texture as fast as others, and Microsoft advises against such heaps
//! for all textures; so there is a memory type for them only where the application
//! [asks](super::DeviceDesc::with_host_written_textures) for it. In it are textures that nothing but copies writes.

use windows::Win32::Foundation::E_INVALIDARG;
use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::{DXGI_FORMAT_R8G8B8A8_UNORM, DXGI_SAMPLE_DESC};

use super::formats::texel_layout;
use super::{Device, ResourceInfo, create, refused};
use crate::device::{DeviceError, HostImageWrite, TexelBlock, TexelLayout};

/// The heaps of such textures. The CPU's pages are cached as always: the adapter's caches are coherent with them.
pub(super) const HEAP: D3D12_HEAP_PROPERTIES = D3D12_HEAP_PROPERTIES {
    Type: D3D12_HEAP_TYPE_CUSTOM,
    CPUPageProperty: D3D12_CPU_PAGE_PROPERTY_WRITE_BACK,
    MemoryPoolPreference: D3D12_MEMORY_POOL_L0,
    CreationNodeMask: 1,
    VisibleNodeMask: 1,
};

/// How the CPU writes textures on a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct HostCopies {
    /// Subresources are mapped while they are written, as the API's documentation says. vkd3d maps no textures, and writes them
    /// all the same.
    maps: bool,
}

impl HostCopies {
    /// Tries it with a texture of one texel. Returns `None` where the texel does not arrive.
    pub(super) fn try_out(device: &ID3D12Device) -> Option<Self> {
        let desc = D3D12_RESOURCE_DESC {
            Dimension: D3D12_RESOURCE_DIMENSION_TEXTURE2D,
            Width: 1,
            Height: 1,
            DepthOrArraySize: 1,
            MipLevels: 1,
            Format: DXGI_FORMAT_R8G8B8A8_UNORM,
            SampleDesc: DXGI_SAMPLE_DESC { Count: 1, Quality: 0 },
            Layout: D3D12_TEXTURE_LAYOUT_UNKNOWN,
            ..Default::default()
        };
        let (flags, state) = (D3D12_HEAP_FLAG_NONE, D3D12_RESOURCE_STATE_COMMON);
        let texture: ID3D12Resource = create(|resource| {
            // SAFETY: the device is live, and the runtime checks the description.
            unsafe { device.CreateCommittedResource(&HEAP, flags, &desc, state, None, resource) }
        })
        .ok()?;
        // SAFETY: the texture is live; without a pointer to write there is nothing else to be valid.
        let maps = match unsafe { texture.Map(0, None, None) } {
            Ok(()) => true,
            // Not out of memory, and not a lost device: this runtime has no such call for textures.
            Err(error) if error.code() == E_INVALIDARG => false,
            Err(_) => return None,
        };
        let (texel, mut found) = ([0x12_u8, 0x34, 0x56, 0x78], [0_u8; 4]);
        // SAFETY: the texture has one texel of four bytes, and no queue was given it.
        let written = unsafe { texture.WriteToSubresource(0, None, texel.as_ptr().cast(), 4, 4) };
        // SAFETY: as above.
        let read = unsafe { texture.ReadFromSubresource(found.as_mut_ptr().cast(), 4, 4, 0, None) };
        if maps {
            // SAFETY: it was mapped.
            unsafe { texture.Unmap(0, None) };
        }
        (written.is_ok() && read.is_ok() && found == texel).then_some(Self { maps })
    }

    /// # Safety
    ///
    /// As for [`write_image_from_host`](crate::device::ImageDevice::write_image_from_host).
    pub(super) unsafe fn write(self, write: &HostImageWrite<'_, Device>) -> Result<(), DeviceError> {
        let HostImageWrite { bytes, image, region, texels, .. } = *write;
        let block = texels.block(region.aspect).ok_or(DeviceError::Unsupported)?;
        let mut heap = D3D12_HEAP_PROPERTIES::default();
        // SAFETY: the image is live, and the runtime writes the structure.
        unsafe { image.GetHeapProperties(Some(&raw mut heap), None) }.map_err(|error| refused(&error))?;
        // It may be elsewhere: where the application wished it, or where there was room.
        if heap.CPUPageProperty != HEAP.CPUPageProperty {
            return Err(DeviceError::Unsupported);
        }
        // SAFETY: the image is live.
        let desc = unsafe { image.GetDesc() };
        let bounds = Bounds::of(&desc, write, block).ok_or(DeviceError::Unsupported)?;
        // Of one plane.
        let subresource = region.mip_level + region.array_layer * u32::from(desc.MipLevels);
        let [_, height, depth] = region.extent;
        // The box is not empty.
        let slice = bytes.len() / depth as usize;
        let row = slice / height.div_ceil(block.height) as usize;
        let [row, slice] = [row, slice].map(u32::try_from);
        let (Ok(row), Ok(slice)) = (row, slice) else { return Err(DeviceError::Unsupported) };
        if self.maps {
            // SAFETY: the image is live and in a heap that the CPU can map, and there is no pointer to write.
            unsafe { image.Map(subresource, None, None) }.map_err(|error| refused(&error))?;
        }
        // SAFETY: the subresource exists and has the box, the bytes are those of the box, and nothing else uses the subresource,
        // by the caller's promise.
        let written = unsafe {
            image.WriteToSubresource(subresource, bounds.as_ptr(), bytes.as_ptr().cast(), row, slice)
        };
        if self.maps {
            // SAFETY: it was mapped above.
            unsafe { image.Unmap(subresource, None) };
        }
        written.map_err(|error| refused(&error))
    }
}

/// What of a subresource is written.
enum Bounds {
    All,
    Box(D3D12_BOX),
}

impl Bounds {
    /// Returns `None` for a part of a level that has parts of blocks at its ends: vkd3d takes no box of those.
    fn of(desc: &D3D12_RESOURCE_DESC, write: &HostImageWrite<'_, Device>, block: TexelBlock) -> Option<Self> {
        let is_3d = desc.Dimension == D3D12_RESOURCE_DIMENSION_TEXTURE3D;
        let depth = if is_3d { u64::from(desc.DepthOrArraySize) } else { 1 };
        let side = |side: u64| side.checked_shr(write.region.mip_level).unwrap_or(0).max(1);
        let level = [side(desc.Width), side(desc.Height.into()), side(depth)];
        if write.region.extent.map(u64::from) == level {
            return Some(Self::All);
        }
        let [width, height, _] = level;
        let whole_blocks = width % u64::from(block.width) == 0 && height % u64::from(block.height) == 0;
        let [left, top, front] = write.region.origin;
        let [width, height, depth] = write.region.extent;
        whole_blocks.then_some(Self::Box(D3D12_BOX {
            left,
            top,
            front,
            right: left + width,
            bottom: top + height,
            back: front + depth,
        }))
    }

    fn as_ptr(&self) -> Option<*const D3D12_BOX> {
        match self {
            Self::All => None,
            Self::Box(bounds) => Some(bounds),
        }
    }
}

/// Returns true for textures that the CPU writes where they are in memory for it: of one sample, one plane of colors and no
/// further uses, which begin in the state that the CPU's writes need.
pub(super) fn is_host_writable(info: &ResourceInfo<'_>) -> bool {
    let desc = &info.desc;
    // What has the API's own description is the application's choice. A depth format without depth buffers has depth as well.
    let is_color = match texel_layout(desc) {
        // Formats of two texels in a block are rare, and untried.
        TexelLayout::Color(block) => block.width == block.height,
        _ => false,
    };
    info.unchecked
        && is_color
        && desc.Flags == D3D12_RESOURCE_FLAG_NONE
        && desc.SampleDesc.Count == 1
        && desc.Layout == D3D12_TEXTURE_LAYOUT_UNKNOWN
        && !info.has_initial_layout()
        && info.initial_state() == Some(D3D12_RESOURCE_STATE_COMMON)
}
