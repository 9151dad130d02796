//! Images: their descriptions, what they need, and how they are made.

use ash::vk;

use super::{DedicatedTo, MemoryOptions, Shared, refused};
use crate::device::{DeviceError, ImageDesc, MemoryDesc, Requirements, ResourceKind, Tiling};

/// An image that is wanted.
///
/// Images whose planes are bound one by one (`VK_IMAGE_CREATE_DISJOINT_BIT`) and sparse ones are refused:
/// they have no single place. Make and bind them yourself, over allocations.
#[derive(Clone, Copy, Debug)]
pub struct ImageInfo<'a> {
    raw: vk::ImageCreateInfo<'a>,
    /// Handle types of memory that it will stand in.
    shared_as: vk::ExternalMemoryHandleTypeFlags,
    /// Nobody promised that the device can make it: it is asked first.
    unchecked: bool,
}

impl<'a> ImageInfo<'a> {
    /// An image as Vulkan describes it.
    ///
    /// # Safety
    ///
    /// `info` and what its chain points at are valid for the device that the image is made with.
    #[must_use]
    pub const unsafe fn from_raw(info: vk::ImageCreateInfo<'a>) -> Self {
        let shared_as = vk::ExternalMemoryHandleTypeFlags::empty();
        Self { raw: info, shared_as, unchecked: false }
    }

    /// The same for memory that is shared as handles of these types, both when it is
    /// [exported](MemoryOptions::exported_as) and when it is imported.
    #[must_use]
    pub fn shared_as(mut self, handle_types: vk::ExternalMemoryHandleTypeFlags) -> Self {
        self.shared_as |= handle_types;
        self
    }

    pub(super) fn kind(&self) -> ResourceKind {
        if self.raw.tiling == vk::ImageTiling::LINEAR {
            ResourceKind::LinearImage
        } else {
            ResourceKind::OptimalImage
        }
    }
}

/// An image that can be sampled and copied from and to, and what the description's flags
/// (`VkImageUsageFlags`) add to that. A transient attachment is one of these flags alone. The format is a
/// `VkFormat`. One queue family owns the image at a time.
///
/// What the device cannot make is refused with [`DeviceError::Unsupported`].
impl From<ImageDesc> for ImageInfo<'_> {
    fn from(desc: ImageDesc) -> Self {
        let flags = vk::ImageUsageFlags::from_raw(desc.usage as u32);
        let copied = vk::ImageUsageFlags::TRANSFER_SRC | vk::ImageUsageFlags::TRANSFER_DST;
        let usage = if flags.contains(vk::ImageUsageFlags::TRANSIENT_ATTACHMENT) {
            flags
        } else {
            flags | copied | vk::ImageUsageFlags::SAMPLED
        };
        let [width, height, depth] = desc.extent;
        let raw = vk::ImageCreateInfo::default()
            .image_type(if depth > 1 { vk::ImageType::TYPE_3D } else { vk::ImageType::TYPE_2D })
            .format(vk::Format::from_raw(i32::try_from(desc.format).unwrap_or(0)))
            .extent(vk::Extent3D { width, height, depth })
            .mip_levels(desc.mip_levels)
            .array_layers(desc.array_layers)
            .samples(vk::SampleCountFlags::from_raw(desc.samples))
            .tiling(match desc.tiling {
                Tiling::Optimal => vk::ImageTiling::OPTIMAL,
                Tiling::Linear => vk::ImageTiling::LINEAR,
            })
            .usage(usage);
        Self { raw, shared_as: vk::ExternalMemoryHandleTypeFlags::empty(), unchecked: true }
    }
}

/// True for numbers that are formats of core Vulkan or of an extension.
fn is_format(format: vk::Format) -> bool {
    (vk::Format::R4G4_UNORM_PACK8..=vk::Format::ASTC_12X12_SRGB_BLOCK).contains(&format)
        || format.as_raw() >= 1_000_000_000
}

impl Shared {
    /// Asks whether the device can make an image of which nobody promised it.
    fn check_image(&self, raw: &vk::ImageCreateInfo<'_>) -> Result<(), DeviceError> {
        let vk::Extent3D { width, height, depth } = raw.extent;
        let empty = [width, height, depth, raw.mip_levels, raw.array_layers].contains(&0);
        let samples = raw.samples.as_raw();
        let is_3d = raw.image_type == vk::ImageType::TYPE_3D;
        let longest = width.max(height).max(depth);
        if empty || !samples.is_power_of_two() || !is_format(raw.format) || is_3d && raw.array_layers != 1 {
            return Err(DeviceError::Unsupported);
        }
        let wanted = vk::PhysicalDeviceImageFormatInfo2::default()
            .format(raw.format)
            .ty(raw.image_type)
            .tiling(raw.tiling)
            .usage(raw.usage)
            .flags(raw.flags);
        let mut answer = vk::ImageFormatProperties2::default();
        // SAFETY: the physical device is of this instance, and the values are ones that may be asked about.
        let asked = unsafe {
            self.instance.get_physical_device_image_format_properties2(
                self.physical_device,
                &wanted,
                &mut answer,
            )
        };
        asked.map_err(refused)?;
        let most = answer.image_format_properties;
        let fits = width <= most.max_extent.width
            && height <= most.max_extent.height
            && depth <= most.max_extent.depth
            && raw.mip_levels <= most.max_mip_levels.min(longest.ilog2() + 1)
            && raw.array_layers <= most.max_array_layers
            && most.sample_counts.contains(raw.samples)
            && (samples == 1 || raw.mip_levels == 1);
        if fits { Ok(()) } else { Err(DeviceError::Unsupported) }
    }

    /// Calls `f` with the description that the driver gets.
    fn with_image_info<R>(
        &self,
        info: &ImageInfo<'_>,
        f: impl FnOnce(&vk::ImageCreateInfo<'_>) -> R,
    ) -> Result<R, DeviceError> {
        let ImageInfo { raw, shared_as, unchecked } = *info;
        let apart = vk::ImageCreateFlags::DISJOINT | vk::ImageCreateFlags::SPARSE_BINDING;
        if raw.flags.intersects(apart) {
            return Err(DeviceError::Unsupported);
        }
        if unchecked {
            self.check_image(&raw)?;
        }
        if shared_as.is_empty() {
            return Ok(f(&raw));
        }
        if !self.shareable().contains(shared_as) {
            return Err(DeviceError::Unsupported);
        }
        let mut external = vk::ExternalMemoryImageCreateInfo::default().handle_types(shared_as);
        Ok(f(&raw.push_next(&mut external)))
    }

    pub(super) fn image_requirements(&self, info: &ImageInfo<'_>) -> Result<Requirements, DeviceError> {
        self.with_image_info(info, |raw| {
            if let Some(functions) = &self.maintenance4 {
                let wanted = vk::DeviceImageMemoryRequirements::default().create_info(raw);
                // SAFETY: the description is valid: its maker promised it, or the device was asked.
                return Ok(self.asked(|answer| unsafe { functions.image(&self.raw, &wanted, answer) }));
            }
            let image = self.bare_image(raw)?;
            let needs = self.needs_of_image(image);
            // SAFETY: made above, and never used.
            unsafe { self.raw.destroy_image(image, None) };
            Ok(needs)
        })?
    }

    fn bare_image(&self, raw: &vk::ImageCreateInfo<'_>) -> Result<vk::Image, DeviceError> {
        // SAFETY: the description is valid: its maker promised it, or the device was asked.
        unsafe { self.raw.create_image(raw, None) }.map_err(refused)
    }

    /// `image` is live, of this device, and not disjoint.
    pub(super) fn needs_of_image(&self, image: vk::Image) -> Requirements {
        let wanted = vk::ImageMemoryRequirementsInfo2::default().image(image);
        // SAFETY: the image is live; the function is core in 1.1.
        self.asked(|answer| unsafe { self.raw.get_image_memory_requirements2(&wanted, answer) })
    }

    /// # Safety
    ///
    /// As for [`create_image`](crate::Device::create_image).
    pub(super) unsafe fn create_image(
        &self,
        info: &ImageInfo<'_>,
        memory: vk::DeviceMemory,
        offset: u64,
    ) -> Result<vk::Image, DeviceError> {
        let image = self.with_image_info(info, |raw| self.bare_image(raw))??;
        // SAFETY: the image is new, the memory suits it by the caller's promise.
        match unsafe { self.raw.bind_image_memory(image, memory, offset) } {
            Ok(()) => Ok(image),
            Err(error) => {
                // SAFETY: made above, and never used.
                unsafe { self.raw.destroy_image(image, None) };
                Err(refused(error))
            }
        }
    }

    pub(super) fn create_dedicated_image(
        &self,
        info: &ImageInfo<'_>,
        memory: &MemoryDesc<'_, MemoryOptions>,
    ) -> Result<(vk::DeviceMemory, vk::Image), DeviceError> {
        let image = self.with_image_info(info, |raw| self.bare_image(raw))??;
        let unmake = |error| {
            // SAFETY: made above, and never used.
            unsafe { self.raw.destroy_image(image, None) };
            error
        };
        let needs = self.needs_of_image(image);
        if !needs.memory_types.contains(memory.memory_type) {
            return Err(unmake(DeviceError::Unsupported));
        }
        let desc = MemoryDesc { size: needs.size, ..*memory };
        let memory = self.allocate(&desc, DedicatedTo::Image(image)).map_err(unmake)?;
        // SAFETY: both are new, and the memory was made for the image.
        match unsafe { self.raw.bind_image_memory(image, memory, 0) } {
            Ok(()) => Ok((memory, image)),
            Err(error) => {
                let error = unmake(refused(error));
                // SAFETY: made above, and known to nobody else; the image went first.
                unsafe { self.free(memory) };
                Err(error)
            }
        }
    }
}
