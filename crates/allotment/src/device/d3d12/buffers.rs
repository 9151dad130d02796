//! Buffers: descriptions and their validation.

use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::{DXGI_FORMAT_UNKNOWN, DXGI_SAMPLE_DESC};

use super::{ResourceInfo, Shared};
use crate::device::{BufferDesc, DescriptionLimit, DeviceError};

/// The description of a buffer, without its width.
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

/// A buffer that can be copied from and to. Of the description's flags (`D3D12_RESOURCE_FLAGS`), only that for
/// unordered access is used; a buffer with others needs [Direct3D 12's own description](ResourceInfo::new).
impl From<BufferDesc> for ResourceInfo<'_> {
    fn from(desc: BufferDesc) -> Self {
        // The upper 32 bits have no meaning in `D3D12_RESOURCE_DESC`.
        let flags = D3D12_RESOURCE_FLAGS(desc.usage as i32 & D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS.0);
        Self::new(D3D12_RESOURCE_DESC { Width: desc.size, Flags: flags, ..BUFFER })
    }
}

impl Shared {
    /// Returns an error for sizes that the runtime need not validate when it is queried for requirements.
    pub(super) fn check_buffer(&self, desc: &D3D12_RESOURCE_DESC) -> Result<(), DeviceError> {
        let largest = self.properties.limits.max_allocation_size;
        Ok(DescriptionLimit::check_buffer(desc.Width, u64::MAX, Some(largest))?)
    }
}
