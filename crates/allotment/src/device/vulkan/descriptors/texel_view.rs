//! Views of buffers as texels.

use ash::vk;

use super::super::formats::texel_layout;
use super::super::{Device, refused};
use super::descriptor::{Descriptor, TexelBuffer};
use crate::device::{DeviceError, TexelBufferDesc, TexelBufferLimits, TexelBufferUse, TexelLayout};

/// A view of a buffer as texels: a `VkBufferView`, and what its descriptor needs beside it.
#[derive(Debug)]
pub struct TexelBufferView {
    handle: vk::BufferView,
    desc: TexelBufferDesc,
}

impl TexelBufferView {
    /// Returns the Vulkan handle. It belongs to this view: do not destroy it.
    #[must_use]
    pub fn handle(&self) -> vk::BufferView {
        self.handle
    }

    /// # Safety
    ///
    /// The buffer is live, from the device, was created for this use, and the description is within the limits.
    pub(super) unsafe fn new(
        device: &Device,
        buffer: vk::Buffer,
        desc: &TexelBufferDesc,
    ) -> Result<Self, DeviceError> {
        let info = vk::BufferViewCreateInfo::default()
            .buffer(buffer)
            .format(format_of(desc.format))
            .offset(desc.range.start)
            .range(desc.range.end - desc.range.start);
        // SAFETY: the caller's promise.
        let handle = unsafe { device.raw().create_buffer_view(&info, None) }.map_err(refused)?;
        Ok(Self { handle, desc: desc.clone() })
    }

    /// # Safety
    ///
    /// The view is from the device, and no queue uses it any more.
    pub(super) unsafe fn destroy(self, device: &Device) {
        // SAFETY: the caller's promise.
        unsafe { device.raw().destroy_buffer_view(self.handle, None) };
    }

    /// # Safety
    ///
    /// The view is of the buffer, which is live.
    pub(super) unsafe fn descriptor<'a>(&'a self, device: &Device, buffer: &'a vk::Buffer) -> Descriptor<'a> {
        let TexelBufferDesc { range, format, usage } = self.desc.clone();
        let texels = TexelBuffer { view: self.handle, buffer, range, format: format_of(format) };
        match usage {
            // SAFETY: the caller's promise.
            TexelBufferUse::Uniform => unsafe { Descriptor::uniform_texel_buffer(device, texels) },
            // SAFETY: as above.
            TexelBufferUse::Storage => unsafe { Descriptor::storage_texel_buffer(device, texels) },
        }
    }
}

fn format_of(number: u32) -> vk::Format {
    vk::Format::from_raw(number as i32)
}

impl Device {
    pub(super) fn limits_of_texels(&self, format: u32, usage: TexelBufferUse) -> Option<TexelBufferLimits> {
        // Formats of colors of Vulkan 1.0 that are not compressed: others need not be enabled.
        if !(1..=123).contains(&format) {
            return None;
        }
        let TexelLayout::Color(texel) = texel_layout(format_of(format)) else { return None };
        // SAFETY: the physical device is of this instance.
        let properties = unsafe {
            self.shared
                .instance
                .get_physical_device_format_properties(self.shared.physical_device, format_of(format))
        };
        let needed = match usage {
            TexelBufferUse::Uniform => vk::FormatFeatureFlags::UNIFORM_TEXEL_BUFFER,
            TexelBufferUse::Storage => vk::FormatFeatureFlags::STORAGE_TEXEL_BUFFER,
        };
        let (alignment, max_texels) = self.shared.descriptors.texels;
        properties.buffer_features.contains(needed).then_some(TexelBufferLimits {
            texel: texel.bytes.into(),
            alignment,
            max_texels,
        })
    }
}
