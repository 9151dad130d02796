//! Buffers: what is made of this crate's description, and which the device can have.

use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::{DXGI_FORMAT_UNKNOWN, DXGI_SAMPLE_DESC};

use super::{ResourceInfo, Shared};
use crate::device::{BufferDesc, DescriptionLimit, DeviceError};

/// A buffer's description without its width.
pub(super) const BUFFER: D3D12_RESOURCE_DESC = D3D12_RESOURCE_DESC {
    Dimension: D3D12_RESOURCE_DIMENSION_BUFFER,
    Alignment: 0,
    Width: 0,
    Height: 1,
    DepthOrArraySize: 1,
    MipLevels: 1,
    Format: DXGI_FORMAT_UNKNOWN,
    SampleDesc: DXGI_SAMPLE_DESC { Count: 1, Quality: 0 },
    Layout: D3D12_TEXTURE_LAYOUT_ROW_MAJOR,
    Flags: D3D12_RESOURCE_FLAG_NONE,
};

/// A buffer that can be copied from and to. Of the description's flags (`D3D12_RESOURCE_FLAGS`), that for
/// unordered access counts; a buffer with others is described [as Direct3D 12 does](ResourceInfo::new).
impl From<BufferDesc> for ResourceInfo<'_> {
    fn from(desc: BufferDesc) -> Self {
        // Flags beyond 32 bits are of no structure.
        let flags = D3D12_RESOURCE_FLAGS(desc.usage as i32 & D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS.0);
        Self::new(D3D12_RESOURCE_DESC { Width: desc.size, Flags: flags, ..BUFFER })
    }
}

impl Shared {
    /// Refuses what the runtime need not look at when it is asked for requirements.
    pub(super) fn check_buffer(&self, desc: &D3D12_RESOURCE_DESC) -> Result<(), DeviceError> {
        let largest = self.properties.limits.max_allocation_size;
        Ok(DescriptionLimit::check_buffer(desc.Width, u64::MAX, Some(largest))?)
    }
}
