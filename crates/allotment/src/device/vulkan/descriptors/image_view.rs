//! Views of images that the library creates itself: from a description that names no image.

use ash::vk;

use super::super::Device;
use super::super::formats::texel_layout;
use super::descriptor::{Descriptor, What};
use crate::device::{
    DeviceError, ImageViewAspect, ImageViewDimension, ImageViewError, ImageViewParameters, ImageViewSupport,
    ImageViewUse, Tiling,
};

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
    /// What the view is for, which decides about its descriptor.
    pub usage: ImageViewUse,
    /// The layout in which the image is when shaders read it. Of no meaning for render targets and depth-stencil images.
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
            usage: ImageViewUse::Sampled,
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
        desc.usage = ImageViewUse::Storage;
        desc.layout = vk::ImageLayout::GENERAL;
        desc.range.level_count = 1;
        desc
    }

    /// Describes a view that was checked against its image.
    fn of(view: &ImageViewParameters, aspects: vk::ImageAspectFlags) -> Self {
        let format = vk::Format::from_raw(view.format as i32);
        let layout = match view.usage {
            ImageViewUse::Storage => vk::ImageLayout::GENERAL,
            _ => vk::ImageLayout::SHADER_READ_ONLY_OPTIMAL,
        };
        let view_type = match view.dimension {
            ImageViewDimension::D1 => vk::ImageViewType::TYPE_1D,
            ImageViewDimension::D1Array => vk::ImageViewType::TYPE_1D_ARRAY,
            ImageViewDimension::D2 => vk::ImageViewType::TYPE_2D,
            ImageViewDimension::D2Array => vk::ImageViewType::TYPE_2D_ARRAY,
            ImageViewDimension::Cube => vk::ImageViewType::CUBE,
            ImageViewDimension::CubeArray => vk::ImageViewType::CUBE_ARRAY,
            ImageViewDimension::D3 => vk::ImageViewType::TYPE_3D,
        };
        let range = vk::ImageSubresourceRange {
            aspect_mask: aspects,
            base_mip_level: view.mip_levels.start,
            level_count: view.mip_levels.end - view.mip_levels.start,
            base_array_layer: view.array_layers.start,
            layer_count: view.array_layers.end - view.array_layers.start,
        };
        Self { usage: view.usage, layout, view_type, range, ..Self::sampled(format) }
    }
}

/// Returns the first format of a pair of compressed formats of the same blocks, from BC1 to ASTC; the format itself of
/// others. Views of a compressed format have one of the pair.
fn compressed_pair(format: u32) -> u32 {
    if (131..=184).contains(&format) { format - (format - 131) % 2 } else { format }
}

impl Device {
    /// Describes a view that was checked against what the image is, and checks its format.
    pub(super) fn describe_view(
        &self,
        image: &ImageViewSupport,
        view: &ImageViewParameters,
    ) -> Result<ImageViewDesc, ImageViewError> {
        use vk::ImageAspectFlags as Aspects;
        let aspects = match view.aspect {
            Some(ImageViewAspect::Depth) => Aspects::DEPTH,
            Some(ImageViewAspect::Stencil) => Aspects::STENCIL,
            None if image.has_depth || image.has_stencil => {
                let depth = if image.has_depth { Aspects::DEPTH } else { Aspects::empty() };
                let stencil = if image.has_stencil { Aspects::STENCIL } else { Aspects::empty() };
                depth | stencil
            }
            None => Aspects::COLOR,
        };
        if view.format != image.format && !self.has_views_of_format(image, view.format) {
            return Err(ImageViewError::IncompatibleFormat { format: view.format, own: image.format });
        }
        Ok(ImageViewDesc::of(view, aspects))
    }

    /// Returns whether an image that allows other formats has views of a format: one of its size, of which there are images
    /// of all usages that views of the image may have.
    fn has_views_of_format(&self, image: &ImageViewSupport, format: u32) -> bool {
        // Of Vulkan 1.0, and no depth or stencil: those of extensions need not be enabled.
        const CORE: core::ops::RangeInclusive<u32> = 1..=184;
        let (own, other) = (compressed_pair(image.format), compressed_pair(format));
        let layout = |format: u32| texel_layout(vk::Format::from_raw(format as i32));
        let is_compressed = |format: u32| format >= 131;
        let of_family = if is_compressed(own) || is_compressed(other) {
            own == other
        } else {
            layout(own) == layout(other)
        };
        let is_color = !image.has_depth && !image.has_stencil && !(124..=130).contains(&format);
        if !CORE.contains(&image.format) || !CORE.contains(&format) || !is_color || !of_family {
            return false;
        }
        // SAFETY: the physical device is of this instance.
        let properties = unsafe {
            self.shared.instance.get_physical_device_format_properties(
                self.shared.physical_device,
                vk::Format::from_raw(format as i32),
            )
        };
        let features = match image.tiling {
            Tiling::Optimal => properties.optimal_tiling_features,
            Tiling::Linear => properties.linear_tiling_features,
        };
        // The view has all usages of the image, whatever it is for.
        ImageViewUse::ALL.into_iter().filter(|usage| image.uses.contains(usage.flag())).all(|usage| {
            features.contains(match usage {
                ImageViewUse::Sampled => vk::FormatFeatureFlags::SAMPLED_IMAGE,
                ImageViewUse::Storage => vk::FormatFeatureFlags::STORAGE_IMAGE,
                ImageViewUse::RenderTarget | ImageViewUse::InputAttachment => {
                    vk::FormatFeatureFlags::COLOR_ATTACHMENT
                }
                ImageViewUse::DepthStencil => vk::FormatFeatureFlags::DEPTH_STENCIL_ATTACHMENT,
            })
        })
    }
}

/// A view of an image: a `VkImageView`, and what its descriptor needs beside it.
#[derive(Debug)]
pub struct ImageView {
    handle: vk::ImageView,
    usage: ImageViewUse,
    layout: vk::ImageLayout,
}

impl ImageView {
    /// Returns the Vulkan handle. It belongs to this view: do not destroy it.
    #[must_use]
    pub fn handle(&self) -> vk::ImageView {
        self.handle
    }

    /// # Safety
    ///
    /// The image is live, from the device, and was created for such a view.
    pub(super) unsafe fn new(
        device: &Device,
        image: vk::Image,
        desc: &ImageViewDesc,
    ) -> Result<Self, DeviceError> {
        let &ImageViewDesc { usage, layout, view_type, format, components, range } = desc;
        let info = vk::ImageViewCreateInfo::default()
            .image(image)
            .view_type(view_type)
            .format(format)
            .components(components)
            .subresource_range(range);
        // SAFETY: the caller's promise.
        let handle = unsafe { device.raw().create_image_view(&info, None) }?;
        Ok(Self { handle, usage, layout })
    }

    /// # Safety
    ///
    /// The view is from the device, and no queue uses it any more.
    pub(super) unsafe fn destroy(self, device: &Device) {
        // SAFETY: the caller's promise.
        unsafe { device.raw().destroy_image_view(self.handle, None) };
    }

    pub(super) fn descriptor(&self) -> Descriptor<'_> {
        let (view, layout) = (self.handle, self.layout);
        let image = |ty| What::Image { ty, view, layout };
        Descriptor::of(match self.usage {
            ImageViewUse::Sampled => image(vk::DescriptorType::SAMPLED_IMAGE),
            ImageViewUse::Storage => image(vk::DescriptorType::STORAGE_IMAGE),
            // In no heap: of no type that a device lists.
            ImageViewUse::InputAttachment => image(vk::DescriptorType::INPUT_ATTACHMENT),
            ImageViewUse::RenderTarget => What::RenderTarget(view),
            ImageViewUse::DepthStencil => What::DepthStencil(view),
        })
    }
}
