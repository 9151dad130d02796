//! Views of images that the library creates itself: from a description that names no image.

use ash::vk;

use super::super::Device;
use super::descriptor::Descriptor;
use crate::device::DeviceError;

/// How shaders see an image: the parameters of a `VkImageViewCreateInfo` beside the image, and those of its descriptor.
///
/// ```
/// use allotment::device::vulkan::ImageViewDesc;
/// use ash::vk;
///
/// let albedo = ImageViewDesc::sampled(vk::Format::R8G8B8A8_UNORM); // all of a 2D image, as it is sampled
/// let mip = ImageViewDesc { range: albedo.range.base_mip_level(3).level_count(1), ..albedo };
/// assert_eq!(mip.layout, vk::ImageLayout::SHADER_READ_ONLY_OPTIMAL);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ImageViewDesc {
    /// The type of the descriptor: `SAMPLED_IMAGE` or `STORAGE_IMAGE`.
    pub descriptor_type: vk::DescriptorType,
    /// The layout in which the image is when shaders read it.
    pub layout: vk::ImageLayout,
    /// The type of the view.
    pub view_type: vk::ImageViewType,
    /// The format of the view.
    pub format: vk::Format,
    /// The order of the components.
    pub components: vk::ComponentMapping,
    /// The mip levels, the array layers and the aspects.
    pub range: vk::ImageSubresourceRange,
}

impl ImageViewDesc {
    /// Describes all mip levels of a 2D colour image that shaders sample in `SHADER_READ_ONLY_OPTIMAL`.
    #[must_use]
    pub const fn sampled(format: vk::Format) -> Self {
        Self {
            descriptor_type: vk::DescriptorType::SAMPLED_IMAGE,
            layout: vk::ImageLayout::SHADER_READ_ONLY_OPTIMAL,
            view_type: vk::ImageViewType::TYPE_2D,
            format,
            components: vk::ComponentMapping {
                r: vk::ComponentSwizzle::IDENTITY,
                g: vk::ComponentSwizzle::IDENTITY,
                b: vk::ComponentSwizzle::IDENTITY,
                a: vk::ComponentSwizzle::IDENTITY,
            },
            range: vk::ImageSubresourceRange {
                aspect_mask: vk::ImageAspectFlags::COLOR,
                base_mip_level: 0,
                level_count: vk::REMAINING_MIP_LEVELS,
                base_array_layer: 0,
                layer_count: 1,
            },
        }
    }

    /// Describes the first mip level of a 2D colour image that shaders load from and store to in `GENERAL`.
    #[must_use]
    pub const fn storage(format: vk::Format) -> Self {
        let mut desc = Self::sampled(format);
        desc.descriptor_type = vk::DescriptorType::STORAGE_IMAGE;
        desc.layout = vk::ImageLayout::GENERAL;
        desc.range.level_count = 1;
        desc
    }
}

/// A view of an image: a `VkImageView`, and what its descriptor needs beside it.
#[derive(Debug)]
pub struct ImageView {
    handle: vk::ImageView,
    descriptor_type: vk::DescriptorType,
    layout: vk::ImageLayout,
}

impl ImageView {
    /// # Safety
    ///
    /// The image is live, from the device, and was created for such a view.
    pub(super) unsafe fn new(
        device: &Device,
        image: vk::Image,
        desc: &ImageViewDesc,
    ) -> Result<Self, DeviceError> {
        let &ImageViewDesc { descriptor_type, layout, view_type, format, components, range } = desc;
        let info = vk::ImageViewCreateInfo::default()
            .image(image)
            .view_type(view_type)
            .format(format)
            .components(components)
            .subresource_range(range);
        // SAFETY: the caller's promise.
        let handle = unsafe { device.raw().create_image_view(&info, None) }?;
        Ok(Self { handle, descriptor_type, layout })
    }

    /// # Safety
    ///
    /// The view is from the device, and no queue uses it any more.
    pub(super) unsafe fn destroy(self, device: &Device) {
        // SAFETY: the caller's promise.
        unsafe { device.raw().destroy_image_view(self.handle, None) };
    }

    pub(super) fn descriptor(&self) -> Descriptor<'_> {
        Descriptor::of_image(self.descriptor_type, self.handle, self.layout)
    }
}
