//! Buffers: descriptions and their validation.

use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::{DXGI_FORMAT_UNKNOWN, DXGI_SAMPLE_DESC};

use super::{Device, Memory, MemoryOptions, ResourceInfo, Shared, full_images, names};
use crate::device::{
    AddressError, BufferDesc, BufferDevice, BufferViewUses, DescriptionError, DescriptionLimit, DeviceError,
    MemoryDesc, RangeBinding, Requirements, TransferUsage,
};

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

/// A buffer that can be copied from and to. Of flags (`D3D12_RESOURCE_FLAGS`), the description can have that for
/// unordered access; one with others is refused with [`DescriptionError::UnknownUsage`], and needs
/// [Direct3D 12's own description](ResourceInfo::new).
impl From<BufferDesc> for ResourceInfo<'_> {
    fn from(desc: BufferDesc) -> Self {
        let flags = D3D12_RESOURCE_FLAGS(desc.usage as i32);
        let mut info = Self::new(D3D12_RESOURCE_DESC { Width: desc.size, Flags: flags, ..BUFFER });
        // A buffer with flags for textures cannot be created, and the upper 32 bits have no meaning.
        info.broken = DescriptionError::check_usage(desc.usage, bits(USAGES)).err();
        info
    }
}

/// The flags that a [`BufferDesc`] can set.
const USAGES: D3D12_RESOURCE_FLAGS = D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS;

/// Returns flags as descriptions have them.
pub(super) fn bits(flags: D3D12_RESOURCE_FLAGS) -> u64 {
    flags.0.unsigned_abs().into()
}

/// Returns what shaders may see a resource as, if it is a buffer. All buffers can be read, except those of acceleration
/// structures, whose contents are opaque.
fn view_uses(info: &ResourceInfo<'_>) -> BufferViewUses {
    let flags = info.desc.Flags;
    let ray_tracing = flags.contains(D3D12_RESOURCE_FLAG_RAYTRACING_ACCELERATION_STRUCTURE)
        || info.initial_state() == Some(D3D12_RESOURCE_STATE_RAYTRACING_ACCELERATION_STRUCTURE);
    if !info.is_buffer() {
        BufferViewUses::empty()
    } else if ray_tracing {
        BufferViewUses::ACCELERATION_STRUCTURE
    } else if flags.contains(D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS) {
        BufferViewUses::all() - BufferViewUses::ACCELERATION_STRUCTURE
    } else {
        BufferViewUses::CONSTANTS | BufferViewUses::READ_ONLY | BufferViewUses::UNIFORM_TEXELS
    }
}

impl Shared {
    /// Returns an error for sizes that the runtime need not validate when it is queried for requirements.
    pub(super) fn check_buffer(&self, desc: &D3D12_RESOURCE_DESC) -> Result<(), DeviceError> {
        // Direct3D 12 has no limit for buffers but the address bits of a resource, so only that one is checked.
        let largest = self.properties.limits.max_allocation_size;
        Ok(DescriptionLimit::check_buffer(desc.Width, u64::MAX, Some(largest))?)
    }
}

// SAFETY: the width is that of the description that the runtime gets, and requirements are the runtime's own.
unsafe impl BufferDevice for Device {
    type Buffer = ID3D12Resource;
    type BufferInfo<'a> = ResourceInfo<'a>;

    fn buffer_size(&self, info: &ResourceInfo<'_>) -> u64 {
        info.desc.Width
    }

    /// All buffers except acceleration structures can be copied both ways: there are no flags for it.
    fn buffer_transfer_usage(&self, info: &ResourceInfo<'_>) -> TransferUsage {
        if full_images::is_copyable_buffer(info) { TransferUsage::all() } else { TransferUsage::empty() }
    }

    fn buffer_view_uses(&self, info: &ResourceInfo<'_>) -> BufferViewUses {
        view_uses(info)
    }

    fn relocatable_buffer_info(&self, info: &ResourceInfo<'_>) -> Option<ResourceInfo<'static>> {
        // A list of castable formats is borrowed, and may be gone when the defragmenter creates the new buffer.
        info.borrowing_nothing().filter(full_images::is_copyable_buffer)
    }

    /// Every buffer has one.
    fn check_device_address(&self, _: &ResourceInfo<'_>) -> Result<(), AddressError> {
        Ok(())
    }

    unsafe fn device_address(&self, buffer: &ID3D12Resource) -> u64 {
        // SAFETY: the buffer is live, by the caller's promise.
        unsafe { buffer.GetGPUVirtualAddress() }
    }

    fn buffer_requirements(&self, info: &ResourceInfo<'_>) -> Result<Requirements, DeviceError> {
        self.shared.describe_placed(info).map(|(_, requirements)| requirements)
    }

    unsafe fn create_buffer(
        &self,
        info: &ResourceInfo<'_>,
        memory: Memory,
        offset: u64,
    ) -> Result<ID3D12Resource, DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.shared.create_in(info, memory, offset) }
    }

    fn create_dedicated_buffer(
        &self,
        info: &ResourceInfo<'_>,
        memory: &MemoryDesc<'_, MemoryOptions>,
    ) -> Result<(Memory, ID3D12Resource), DeviceError> {
        self.shared.create_dedicated(info, memory)
    }

    fn has_reserved_buffers(&self) -> bool {
        self.shared.binding_queue.is_some()
    }

    fn create_reserved_buffer(
        &self,
        info: &ResourceInfo<'_>,
    ) -> Result<(ID3D12Resource, Requirements), DeviceError> {
        self.shared.reserved_buffer(info)
    }

    unsafe fn bind_ranges(
        &self,
        buffer: &ID3D12Resource,
        ranges: &[RangeBinding<Memory>],
    ) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.shared.bind_ranges(buffer, ranges) }
    }

    unsafe fn destroy_buffer(&self, buffer: ID3D12Resource) {
        // Released with the last reference. The application may hold further ones, which the caller's promise
        // covers.
        drop(buffer);
    }

    unsafe fn name_buffer(&self, buffer: &ID3D12Resource, name: &str) {
        names::name(buffer, name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shaders_write_buffers_with_unordered_access_and_see_no_bytes_of_acceleration_structures() {
        let info = |flags| ResourceInfo::new(D3D12_RESOURCE_DESC { Width: 4096, Flags: flags, ..BUFFER });
        let read = BufferViewUses::CONSTANTS | BufferViewUses::READ_ONLY | BufferViewUses::UNIFORM_TEXELS;
        let written = BufferViewUses::READ_WRITE | BufferViewUses::STORAGE_TEXELS;
        let unordered = D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS;
        assert_eq!(view_uses(&info(D3D12_RESOURCE_FLAG_NONE)), read);
        assert_eq!(view_uses(&info(unordered)), read | written);
        let structure = BufferViewUses::ACCELERATION_STRUCTURE;
        let flagged = unordered | D3D12_RESOURCE_FLAG_RAYTRACING_ACCELERATION_STRUCTURE;
        assert_eq!(view_uses(&info(flagged)), structure);
        let state = D3D12_RESOURCE_STATE_RAYTRACING_ACCELERATION_STRUCTURE;
        assert_eq!(view_uses(&info(unordered).with_initial_state(state)), structure);
        let texture = D3D12_RESOURCE_DESC { Dimension: D3D12_RESOURCE_DIMENSION_TEXTURE2D, ..BUFFER };
        assert_eq!(view_uses(&ResourceInfo::new(texture)), BufferViewUses::empty());
    }
}
