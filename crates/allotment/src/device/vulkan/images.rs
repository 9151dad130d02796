//! Images: their descriptions, what they need, and how they are made.

use ash::vk;

use super::resources::shared_by_chain;
use super::{MemoryOptions, Shared, refused};
use crate::device::{
    DescriptionError, DescriptionLimit, DeviceError, ImageDesc, MemoryDesc, Requirements, ResourceKind,
    Tiling,
};

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
    /// `info` and what its chain and its lists point at are valid for the device that the image is made with, also with
    /// the handle types that are [added](Self::shared_as). Nobody writes there while the description or a copy of it is
    /// used, and it may be read from any thread.
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

    /// What memory it may stand in that is shared.
    fn sharing(&self) -> vk::ExternalMemoryHandleTypeFlags {
        // SAFETY: each structure of the chain lives and begins so, as `from_raw` was promised.
        self.shared_as | unsafe { shared_by_chain(self.raw.p_next) }
    }

    pub(super) fn raw(&self) -> &vk::ImageCreateInfo<'a> {
        &self.raw
    }

    /// True where all that the image holds is in another one of the same description after a copy. Of a chain nobody
    /// knows what it says, and memory that is shared stays where it is.
    pub(super) fn is_copyable(&self) -> bool {
        let ImageInfo { raw, shared_as, .. } = self;
        raw.usage.contains(COPIED)
            && !raw.usage.contains(TRANSIENT)
            && MOVABLE.contains(raw.flags)
            && raw.p_next.is_null()
            && shared_as.is_empty()
            && is_format(raw.format, u32::MAX)
            && !is_split(raw.format)
    }

    pub(super) fn kind(&self) -> ResourceKind {
        if self.raw.tiling == vk::ImageTiling::LINEAR {
            ResourceKind::LinearImage
        } else {
            ResourceKind::OptimalImage
        }
    }
}

// SAFETY: what the pointers lead to is only read here, and its maker promised that any thread may.
unsafe impl Send for ImageInfo<'_> {}
// SAFETY: as above.
unsafe impl Sync for ImageInfo<'_> {}

/// An image that can be sampled and copied from and to, and what the description's flags
/// (`VkImageUsageFlags`) add to that. With the flag for transient attachments it is what the flags say and no
/// more: an attachment, which must be said too. Of the flags, those of Vulkan 1.0 count.
///
/// The format is a `VkFormat` that is core in the device's version of Vulkan; one that extensions added
/// is refused, since nothing says whether they are enabled. One queue family owns the image at a time.
///
/// A description that breaks a rule of Vulkan is refused with [`DeviceError::InvalidDescription`]; what the device cannot
/// make, or cannot [share](ImageInfo::shared_as), with [`DeviceError::Unsupported`]. Other images are described [as Vulkan does](ImageInfo::from_raw).
impl From<ImageDesc> for ImageInfo<'_> {
    fn from(desc: ImageDesc) -> Self {
        // Flags beyond 32 bits are of another structure.
        let flags = vk::ImageUsageFlags::from_raw(desc.usage as u32) & USAGES;
        let usage =
            if flags.contains(TRANSIENT) { flags } else { flags | COPIED | vk::ImageUsageFlags::SAMPLED };
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

/// All usages of Vulkan 1.0.
const USAGES: vk::ImageUsageFlags = vk::ImageUsageFlags::from_raw(0xff);

const COPIED: vk::ImageUsageFlags = vk::ImageUsageFlags::from_raw(
    vk::ImageUsageFlags::TRANSFER_SRC.as_raw() | vk::ImageUsageFlags::TRANSFER_DST.as_raw(),
);

/// What an image can be besides, and be copied as a whole: flags about its views. Of the others some forbid it, and
/// the rest say that the application knows of the image's memory.
const MOVABLE: vk::ImageCreateFlags = vk::ImageCreateFlags::from_raw(
    vk::ImageCreateFlags::MUTABLE_FORMAT.as_raw()
        | vk::ImageCreateFlags::CUBE_COMPATIBLE.as_raw()
        | vk::ImageCreateFlags::TYPE_2D_ARRAY_COMPATIBLE.as_raw()
        | vk::ImageCreateFlags::BLOCK_TEXEL_VIEW_COMPATIBLE.as_raw()
        | vk::ImageCreateFlags::EXTENDED_USAGE.as_raw(),
);

const TRANSIENT: vk::ImageUsageFlags = vk::ImageUsageFlags::TRANSIENT_ATTACHMENT;

/// What a transient attachment is besides: one of these at least, and nothing else.
const ATTACHMENTS: vk::ImageUsageFlags = vk::ImageUsageFlags::from_raw(
    vk::ImageUsageFlags::COLOR_ATTACHMENT.as_raw()
        | vk::ImageUsageFlags::DEPTH_STENCIL_ATTACHMENT.as_raw()
        | vk::ImageUsageFlags::INPUT_ATTACHMENT.as_raw(),
);

/// True for usages that go together on every device.
fn is_usage(usage: vk::ImageUsageFlags) -> bool {
    !usage.contains(TRANSIENT) || (usage.intersects(ATTACHMENTS) && (ATTACHMENTS | TRANSIENT).contains(usage))
}

/// True for formats of several planes, or whose colours have fewer texels than their brightness.
fn is_split(format: vk::Format) -> bool {
    split_multiple(format).is_some()
}

/// What width and height are multiples of, for formats of several planes, or whose colours have fewer texels than their
/// brightness: all that Vulkan samples with a conversion.
fn split_multiple(format: vk::Format) -> Option<[u32; 2]> {
    const WIDE: [u32; 2] = [2, 1];
    const BOTH: [u32; 2] = [2, 2];
    // In the order of `VkFormat`: of 8, 10, 12 and 16 bits, each 422, 420 and 444.
    match format.as_raw() {
        1_000_156_000 | 1_000_156_001 | 1_000_156_004 | 1_000_156_005 => Some(WIDE),
        1_000_156_002 | 1_000_156_003 => Some(BOTH),
        1_000_156_010 | 1_000_156_011 | 1_000_156_014 | 1_000_156_015 => Some(WIDE),
        1_000_156_012 | 1_000_156_013 => Some(BOTH),
        1_000_156_020 | 1_000_156_021 | 1_000_156_024 | 1_000_156_025 => Some(WIDE),
        1_000_156_022 | 1_000_156_023 => Some(BOTH),
        1_000_156_027 | 1_000_156_028 | 1_000_156_031 | 1_000_156_032 => Some(WIDE),
        1_000_156_029 | 1_000_156_030 => Some(BOTH),
        // Also the formats of 10 and 12 bits in 16 that have one plane, which drivers need not tell apart.
        1_000_156_000..=1_000_156_033 | 1_000_330_000..=1_000_330_003 => Some([1, 1]),
        _ => None,
    }
}

/// True for numbers that are formats of core Vulkan of a version.
fn is_format(format: vk::Format, version: u32) -> bool {
    match format.as_raw() {
        1..=184 => true,
        1_000_156_000..=1_000_156_033 => version >= vk::API_VERSION_1_1,
        1_000_066_000..=1_000_066_013 | 1_000_330_000..=1_000_330_003 | 1_000_340_000..=1_000_340_001 => {
            version >= vk::API_VERSION_1_3
        }
        _ => false,
    }
}

/// Checks a description against the rules of Vulkan that hold on every device, those that a driver need not look at
/// when it is asked about a format.
fn check_rules(raw: &vk::ImageCreateInfo<'_>, version: u32) -> Result<(), DescriptionError> {
    let vk::Extent3D { width, height, depth } = raw.extent;
    DescriptionError::check_texels([width, height, depth], raw.mip_levels, raw.array_layers)?;
    let samples = raw.samples.as_raw();
    let is_3d = raw.image_type == vk::ImageType::TYPE_3D;
    let multisampled = samples != 1;
    if !is_format(raw.format, version) {
        return Err(DescriptionError::UnknownFormat { format: raw.format.as_raw().unsigned_abs() });
    }
    if !is_usage(raw.usage) {
        return Err(DescriptionError::TransientUsage);
    }
    if !samples.is_power_of_two() {
        return Err(DescriptionError::Samples { samples });
    }
    if is_3d && raw.array_layers != 1 {
        return Err(DescriptionError::ArrayOf3d);
    }
    let flat = !is_3d && raw.mip_levels == 1;
    if multisampled && (!flat || raw.tiling != vk::ImageTiling::OPTIMAL) {
        return Err(DescriptionError::Multisampled);
    }
    // Whether the feature is on nobody said.
    if multisampled && raw.usage.contains(vk::ImageUsageFlags::STORAGE) {
        return Err(DescriptionError::MultisampledStorage);
    }
    if let Some(multiple) = split_multiple(raw.format) {
        // Several layers are a matter of a feature (`ycbcrImageArrays`), of which nothing is known here.
        if !flat || multisampled || raw.array_layers != 1 {
            return Err(DescriptionError::Planar);
        }
        if width % multiple[0] != 0 || height % multiple[1] != 0 {
            return Err(DescriptionError::PlanarExtent { extent: [width, height], multiple });
        }
    }
    DescriptionLimit::MipLevels
        .check(raw.mip_levels.into(), u64::from(width.max(height).max(depth).ilog2() + 1))
}

impl Shared {
    /// Asks whether the device can make an image of which nobody promised it.
    fn check_image(
        &self,
        raw: &vk::ImageCreateInfo<'_>,
        shared_as: vk::ExternalMemoryHandleTypeFlags,
    ) -> Result<(), DeviceError> {
        check_rules(raw, self.version)?;
        if raw.usage.intersects(ATTACHMENTS | TRANSIENT) {
            let [width, height] = self.max_framebuffer;
            DescriptionLimit::FramebufferWidth.check(raw.extent.width.into(), width.into())?;
            DescriptionLimit::FramebufferHeight.check(raw.extent.height.into(), height.into())?;
        }
        if shared_as.is_empty() {
            return self.check_image_limits(raw, None);
        }
        // The driver is asked about one handle type at a time.
        let bits =
            (0..u32::BITS).map(|bit| shared_as & vk::ExternalMemoryHandleTypeFlags::from_raw(1 << bit));
        for handle_type in bits.filter(|bit| !bit.is_empty()) {
            self.check_image_limits(raw, Some((handle_type, shared_as)))?;
        }
        Ok(())
    }

    /// Asks the driver how large an image may be whose description it may be asked about; and where memory
    /// is shared, whether it can be shared as a type and as all others too.
    fn check_image_limits(
        &self,
        raw: &vk::ImageCreateInfo<'_>,
        sharing: Option<(vk::ExternalMemoryHandleTypeFlags, vk::ExternalMemoryHandleTypeFlags)>,
    ) -> Result<(), DeviceError> {
        let most = self.image_format_properties(raw, sharing)?;
        let vk::Extent3D { width, height, depth } = raw.extent;
        DescriptionLimit::ImageWidth.check(width.into(), most.max_extent.width.into())?;
        DescriptionLimit::ImageHeight.check(height.into(), most.max_extent.height.into())?;
        DescriptionLimit::ImageDepth.check(depth.into(), most.max_extent.depth.into())?;
        DescriptionLimit::MipLevels.check(raw.mip_levels.into(), most.max_mip_levels.into())?;
        DescriptionLimit::ArrayLayers.check(raw.array_layers.into(), most.max_array_layers.into())?;
        if most.sample_counts.contains(raw.samples) { Ok(()) } else { Err(DeviceError::Unsupported) }
    }

    fn image_format_properties(
        &self,
        raw: &vk::ImageCreateInfo<'_>,
        sharing: Option<(vk::ExternalMemoryHandleTypeFlags, vk::ExternalMemoryHandleTypeFlags)>,
    ) -> Result<vk::ImageFormatProperties, DeviceError> {
        let Some((handle_type, all)) = sharing else {
            // SAFETY: the physical device is of this instance, and the values are ones that may be asked about.
            let most = unsafe {
                self.instance.get_physical_device_image_format_properties(
                    self.physical_device,
                    raw.format,
                    raw.image_type,
                    raw.tiling,
                    raw.usage,
                    raw.flags,
                )
            };
            return most.map_err(refused);
        };
        let mut external = vk::PhysicalDeviceExternalImageFormatInfo::default().handle_type(handle_type);
        let mut external_answer = vk::ExternalImageFormatProperties::default();
        let wanted = vk::PhysicalDeviceImageFormatInfo2::default()
            .format(raw.format)
            .ty(raw.image_type)
            .tiling(raw.tiling)
            .usage(raw.usage)
            .flags(raw.flags)
            .push_next(&mut external);
        let mut answer = vk::ImageFormatProperties2::default().push_next(&mut external_answer);
        // SAFETY: as above, and the function is there: nothing is shared below Vulkan 1.1.
        let asked = unsafe {
            self.instance.get_physical_device_image_format_properties2(
                self.physical_device,
                &wanted,
                &mut answer,
            )
        };
        asked.map_err(refused)?;
        let most = answer.image_format_properties;
        if self.shares(&external_answer.external_memory_properties, all) {
            Ok(most)
        } else {
            Err(DeviceError::Unsupported)
        }
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
        self.check_shareable(shared_as)?;
        if unchecked {
            self.check_image(&raw, shared_as)?;
        }
        if shared_as.is_empty() {
            return Ok(f(&raw));
        }
        let mut external = vk::ExternalMemoryImageCreateInfo::default().handle_types(shared_as);
        Ok(f(&raw.push_next(&mut external)))
    }

    pub(super) fn image_requirements(&self, info: &ImageInfo<'_>) -> Result<Requirements, DeviceError> {
        self.with_image_info(info, |raw| {
            // Only an image tells what follows from the modifier that it got.
            let described = raw.tiling != vk::ImageTiling::DRM_FORMAT_MODIFIER_EXT;
            if let Some(functions) = self.maintenance4.as_ref().filter(|_| described) {
                let wanted = vk::DeviceImageMemoryRequirements::default().create_info(raw);
                // SAFETY: the description is valid: its maker promised it, or the device was asked.
                return Ok(self.asked(info.kind(), |answer| unsafe {
                    functions.image(&self.raw, &wanted, answer);
                }));
            }
            Ok(self.needs_of_temporary(self.bare_image(raw)?).with_kind(info.kind()))
        })?
    }

    fn bare_image(&self, raw: &vk::ImageCreateInfo<'_>) -> Result<vk::Image, DeviceError> {
        // SAFETY: the description is valid: its maker promised it, or the device was asked.
        unsafe { self.raw.create_image(raw, None) }.map_err(refused)
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
        self.check_placed(memory, info.sharing())?;
        let image = self.with_image_info(info, |raw| self.bare_image(raw))??;
        // SAFETY: the image is new, the memory suits it by the caller's promise.
        unsafe { self.bound(image, memory, offset) }
    }

    pub(super) fn create_dedicated_image(
        &self,
        info: &ImageInfo<'_>,
        memory: &MemoryDesc<'_, MemoryOptions>,
    ) -> Result<(vk::DeviceMemory, vk::Image), DeviceError> {
        self.check_sharing(memory.options.map(MemoryOptions::sharing).unwrap_or_default(), info.sharing())?;
        self.bound_alone(self.with_image_info(info, |raw| self.bare_image(raw))??, memory)
    }
}
