//! Images: descriptions, memory requirements and creation.

use ash::vk;

use super::copies::UNUSABLE_LAYOUTS;
use super::families::{Families, ROOM};
use super::formats::texel_layout;
use super::host_copies::is_planar;
use super::resources::{shared_by_chain, transfer_usage};
use super::{Device, EnabledFeatures, MemoryOptions, Shared, refused};
use crate::device::{
    DescriptionError, DescriptionLimit, DeviceError, HostImageWrite, ImageAspect, ImageDesc, ImageDevice,
    ImageDimension, ImageShape, ImageViewSupport, ImageViewUses, MemoryDesc, QueueKind, Requirements,
    ResourceKind, SharingMode, Tiling,
};

/// An image to create.
///
/// Disjoint images (`VK_IMAGE_CREATE_DISJOINT_BIT`) and sparse ones are refused: they are not bound at a single
/// offset. Create and bind them with Vulkan, over allocations.
#[derive(Clone, Copy, Debug)]
pub struct ImageInfo<'a> {
    raw: vk::ImageCreateInfo<'a>,
    /// Handle types of the shared memory that it will be bound to.
    shared_as: vk::ExternalMemoryHandleTypeFlags,
    /// The queue families that may use it, of a description that borrows no list of them.
    families: Families,
    /// All queue families of the device may use it without ownership transfers.
    every_queue: bool,
    /// The [`ImageDesc`] that it was created from, which was not promised to be valid: the driver is queried first.
    unchecked: Option<ImageDesc>,
}

impl<'a> ImageInfo<'a> {
    /// Wraps Vulkan's own description of an image.
    ///
    /// # Safety
    ///
    /// `info` and everything that its chain and its lists point to are valid for the device that the image is created
    /// with, also with the handle types that are [added](Self::with_external_handle_types). They are not written while
    /// the description or a copy of it is used, and may be read from any thread.
    #[must_use]
    pub const unsafe fn from_raw(info: vk::ImageCreateInfo<'a>) -> Self {
        let shared_as = vk::ExternalMemoryHandleTypeFlags::empty();
        Self { raw: info, shared_as, families: Families::NONE, every_queue: false, unchecked: None }
    }

    /// Adds handle types as which the image's memory is shared, both when it is
    /// [exported](MemoryOptions::with_export_handle_types) and when it is imported.
    #[must_use]
    pub fn with_external_handle_types(mut self, handle_types: vk::ExternalMemoryHandleTypeFlags) -> Self {
        self.shared_as |= handle_types;
        self
    }

    /// Returns true if queues of all these families may use the image without ownership transfers.
    fn is_shared_by(&self, families: &[u32]) -> bool {
        let (list, count) = (self.raw.p_queue_family_indices, self.raw.queue_family_index_count);
        // SAFETY: the description is valid, as promised to `from_raw`.
        let own = unsafe { self.families.or(self.raw.sharing_mode, list, count) };
        // A list with a family that is not stored counts as none: the safe side.
        self.every_queue || own.is_some_and(|own| own.includes(families))
    }

    /// Returns the handle types of shared memory that it may be bound to.
    fn sharing(&self) -> vk::ExternalMemoryHandleTypeFlags {
        // SAFETY: each structure of the chain is live and starts as a base structure, as promised to `from_raw`.
        self.shared_as | unsafe { shared_by_chain(self.raw.p_next) }
    }

    pub(super) fn raw(&self) -> &vk::ImageCreateInfo<'a> {
        &self.raw
    }

    /// Returns true for what was created from an [`ImageDesc`], with memory that is not shared.
    pub(super) fn is_unchecked_and_unshared(&self) -> bool {
        self.unchecked.is_some() && self.shared_as.is_empty()
    }

    /// Returns a description that borrows nothing, if the image [can be copied](Self::is_copyable).
    fn relocatable(&self) -> Option<ImageInfo<'static>> {
        if !self.is_copyable() {
            return None;
        }
        let Self { raw, shared_as, every_queue, unchecked, .. } = *self;
        let (list, count) = (raw.p_queue_family_indices, raw.queue_family_index_count);
        // SAFETY: the description is valid, as promised to `from_raw`.
        let families = unsafe { self.families.or(raw.sharing_mode, list, count) }?;
        let raw = vk::ImageCreateInfo::default()
            .flags(raw.flags)
            .image_type(raw.image_type)
            .format(raw.format)
            .extent(raw.extent)
            .mip_levels(raw.mip_levels)
            .array_layers(raw.array_layers)
            .samples(raw.samples)
            .tiling(raw.tiling)
            .usage(raw.usage)
            .sharing_mode(raw.sharing_mode)
            .initial_layout(raw.initial_layout);
        Some(ImageInfo { raw, shared_as, families, every_queue, unchecked })
    }

    /// Returns true if a copy of the image's contents in another image of the same description is equivalent.
    /// Not so with a chain, whose meaning is not known here, and with shared memory, which other processes
    /// access in place.
    pub(super) fn is_copyable(&self) -> bool {
        let ImageInfo { raw, shared_as, .. } = self;
        raw.usage.contains(COPIED)
            // The bytes of a transient attachment are lost at the end of its pass, and it cannot have transfer
            // usages.
            && !raw.usage.contains(TRANSIENT)
            && RELOCATABLE_FLAGS.contains(raw.flags)
            // A chained structure may change what an image is: a modifier, a stencil usage, a format list.
            && raw.p_next.is_null()
            && shared_as.is_empty()
            && is_format(raw.format, u32::MAX)
    }

    /// Returns what copies of the texels are checked against.
    fn shape(&self) -> ImageShape {
        let raw = &self.raw;
        let vk::Extent3D { width, height, depth } = raw.extent;
        let mut shape = ImageShape::new([width, height, depth], texel_layout(raw.format));
        (shape.mip_levels, shape.array_layers) = (raw.mip_levels, raw.array_layers);
        shape.samples = raw.samples.as_raw();
        shape.format = raw.format.as_raw() as u32;
        shape.dimension = match raw.image_type {
            vk::ImageType::TYPE_1D => ImageDimension::D1,
            vk::ImageType::TYPE_3D => ImageDimension::D3,
            _ if raw.flags.contains(vk::ImageCreateFlags::CUBE_COMPATIBLE) => ImageDimension::Cube,
            _ => ImageDimension::D2,
        };
        shape.transfer_usage = transfer_usage(
            raw.usage.contains(vk::ImageUsageFlags::TRANSFER_SRC),
            raw.usage.contains(vk::ImageUsageFlags::TRANSFER_DST),
        );
        shape.is_sampled = raw.usage.contains(vk::ImageUsageFlags::SAMPLED);
        shape
    }

    /// Returns what views of the image are checked against.
    fn view_support(&self) -> ImageViewSupport {
        use vk::{ImageCreateFlags as Flags, ImageUsageFlags as Usage};
        let raw = &self.raw;
        let mut support = ImageViewSupport::new(raw.format.as_raw().unsigned_abs());
        support.dimensions = match raw.image_type {
            vk::ImageType::TYPE_1D => 1,
            vk::ImageType::TYPE_3D => 3,
            _ => 2,
        };
        (support.depth, support.mip_levels, support.array_layers) =
            (raw.extent.depth, raw.mip_levels, raw.array_layers);
        support.samples = raw.samples.as_raw();
        if raw.tiling == vk::ImageTiling::LINEAR {
            support.tiling = Tiling::Linear;
        }
        (support.has_depth, support.has_stencil) = match raw.format.as_raw() {
            124..=126 => (true, false),
            127 => (false, true),
            128..=130 => (true, true),
            _ => (false, false),
        };
        // Formats of several planes, and of texels that share chroma, need a conversion, and images for fragment density maps
        // views of a kind of their own. A format of extended usage may not have all of the image's usages itself.
        let is_special = matches!(raw.format.as_raw(), 1_000_156_000..=1_000_156_033 | 1_000_330_000..=1_000_330_003)
            || raw.flags.intersects(Flags::EXTENDED_USAGE | Flags::SUBSAMPLED_EXT);
        let (mut usage, mut lists_formats) = (raw.usage, false);
        let mut next = raw.p_next.cast::<vk::BaseInStructure<'_>>();
        // SAFETY: each structure of the chain is live and starts as a base structure, as promised to `from_raw`.
        while let Some(structure) = unsafe { next.as_ref() } {
            match structure.s_type {
                vk::StructureType::IMAGE_STENCIL_USAGE_CREATE_INFO => {
                    let of_stencil = next.cast::<vk::ImageStencilUsageCreateInfo<'_>>();
                    // SAFETY: `s_type` names its type.
                    usage &= unsafe { (*of_stencil).stencil_usage };
                }
                // The list is not stored, so that only the image's own format is known to be in it.
                vk::StructureType::IMAGE_FORMAT_LIST_CREATE_INFO => lists_formats = true,
                _ => {}
            }
            next = structure.p_next;
        }
        for (flag, uses) in [
            (Usage::SAMPLED, ImageViewUses::SAMPLED),
            (Usage::STORAGE, ImageViewUses::STORAGE),
            (Usage::COLOR_ATTACHMENT, ImageViewUses::RENDER_TARGET),
            (Usage::DEPTH_STENCIL_ATTACHMENT, ImageViewUses::DEPTH_STENCIL),
            (Usage::INPUT_ATTACHMENT, ImageViewUses::INPUT_ATTACHMENT),
        ] {
            support.uses.set(uses, usage.contains(flag) && !is_special);
        }
        let is_modified = raw.tiling == vk::ImageTiling::DRM_FORMAT_MODIFIER_EXT;
        support.other_formats = raw.flags.contains(Flags::MUTABLE_FORMAT) && !lists_formats && !is_modified;
        // These are chained as a list when the image is created.
        support.view_formats = self.unchecked.map_or(support.view_formats, |desc| desc.view_formats);
        support.cube_compatible = raw.flags.contains(Flags::CUBE_COMPATIBLE);
        support.slices_as_layers = raw.flags.contains(Flags::TYPE_2D_ARRAY_COMPATIBLE);
        support
    }

    fn kind(&self) -> ResourceKind {
        if self.raw.tiling == vk::ImageTiling::LINEAR {
            ResourceKind::LinearImage
        } else {
            ResourceKind::OptimalImage
        }
    }
}

/// What is chained, and lists of queue families, are equal where they are the same ones: nothing writes them while the description
/// is used.
impl PartialEq for ImageInfo<'_> {
    fn eq(&self, other: &Self) -> bool {
        let of = |info: &Self| {
            let Self { raw, shared_as, families, every_queue, unchecked } = *info;
            let list = (raw.p_queue_family_indices, raw.queue_family_index_count);
            let texels =
                (raw.image_type, raw.format, raw.extent, raw.mip_levels, raw.array_layers, raw.samples);
            let used = (raw.tiling, raw.usage, raw.sharing_mode, list, raw.initial_layout);
            ((raw.flags, texels, used, raw.p_next), shared_as, families, every_queue, unchecked)
        };
        of(self) == of(other)
    }
}

// SAFETY: the pointers are only read, and `from_raw` was promised that any thread may read them.
unsafe impl Send for ImageInfo<'_> {}
// SAFETY: as above.
unsafe impl Sync for ImageInfo<'_> {}

/// An image that can be sampled and copied from and to, with the description's additional flags
/// (`VkImageUsageFlags`). With the transient attachment flag, only the given flags are used, which must include
/// an attachment usage. The flags are those of Vulkan 1.0, and of features that are listed as
/// [enabled](EnabledFeatures).
///
/// The format is a `VkFormat` that is core in the device's version of Vulkan; formats of extensions are refused,
/// since the library cannot know whether they are enabled. One queue family owns the image at a time, unless its
/// [sharing mode](ImageDesc::with_sharing_mode) says otherwise.
///
/// A description that breaks a rule of Vulkan is refused with [`DeviceError::InvalidDescription`]; one that the device
/// does not support, or cannot [share](ImageInfo::with_external_handle_types), with [`DeviceError::Unsupported`]. Other
/// images need [Vulkan's own description](ImageInfo::from_raw).
impl From<ImageDesc> for ImageInfo<'_> {
    fn from(desc: ImageDesc) -> Self {
        // Without the upper 32 bits, which have no meaning in `VkImageCreateInfo`: a description with one of them is
        // refused before it is used.
        let flags = vk::ImageUsageFlags::from_raw(desc.usage as u32);
        // A transient attachment allows no other usages, so none are added.
        let usage =
            if flags.contains(TRANSIENT) { flags } else { flags | COPIED | vk::ImageUsageFlags::SAMPLED };
        let [width, height, depth] = desc.extent;
        let dimension = desc.resolved_dimension();
        let mut create = vk::ImageCreateFlags::empty();
        if dimension == ImageDimension::Cube {
            create |= vk::ImageCreateFlags::CUBE_COMPATIBLE;
        }
        if desc.views().next().is_some() {
            create |= vk::ImageCreateFlags::MUTABLE_FORMAT;
        }
        let raw = vk::ImageCreateInfo::default()
            .flags(create)
            .image_type(match dimension {
                ImageDimension::D1 => vk::ImageType::TYPE_1D,
                ImageDimension::D2 | ImageDimension::Cube => vk::ImageType::TYPE_2D,
                ImageDimension::D3 => vk::ImageType::TYPE_3D,
            })
            // Numbers above 2^31 become `UNDEFINED`, which the checks below refuse.
            .format(vk::Format::from_raw(desc.format as i32))
            .extent(vk::Extent3D { width, height, depth })
            .mip_levels(desc.mip_levels)
            .array_layers(desc.array_layers)
            .samples(vk::SampleCountFlags::from_raw(desc.samples))
            .tiling(match desc.tiling {
                Tiling::Optimal => vk::ImageTiling::OPTIMAL,
                Tiling::Linear => vk::ImageTiling::LINEAR,
            })
            .usage(usage);
        Self {
            raw,
            shared_as: vk::ExternalMemoryHandleTypeFlags::empty(),
            families: Families::NONE,
            every_queue: desc.sharing_mode == SharingMode::Concurrent,
            unchecked: Some(desc),
        }
    }
}

/// All usages of Vulkan 1.0.
const USAGES: vk::ImageUsageFlags = vk::ImageUsageFlags::from_raw(0xff);

/// Usages of later versions and of extensions, and what lists their features as enabled.
const MORE_USAGES: [(vk::ImageUsageFlags, EnabledFeatures, &str); 4] = [
    (
        vk::ImageUsageFlags::FRAGMENT_SHADING_RATE_ATTACHMENT_KHR,
        EnabledFeatures::FRAGMENT_SHADING_RATE,
        "FRAGMENT_SHADING_RATE",
    ),
    (
        vk::ImageUsageFlags::FRAGMENT_DENSITY_MAP_EXT,
        EnabledFeatures::FRAGMENT_DENSITY_MAP,
        "FRAGMENT_DENSITY_MAP",
    ),
    (
        vk::ImageUsageFlags::ATTACHMENT_FEEDBACK_LOOP_EXT,
        EnabledFeatures::ATTACHMENT_FEEDBACK_LOOP,
        "ATTACHMENT_FEEDBACK_LOOP",
    ),
    (vk::ImageUsageFlags::HOST_TRANSFER_EXT, EnabledFeatures::HOST_IMAGE_COPY, "HOST_IMAGE_COPY"),
];

/// Usages that only two-dimensional images of one sample have.
const RATES: vk::ImageUsageFlags = vk::ImageUsageFlags::from_raw(
    vk::ImageUsageFlags::FRAGMENT_SHADING_RATE_ATTACHMENT_KHR.as_raw()
        | vk::ImageUsageFlags::FRAGMENT_DENSITY_MAP_EXT.as_raw(),
);

/// Checks usage flags against what the application listed as enabled.
fn check_usage(flags: u64, enabled: EnabledFeatures) -> Result<(), DescriptionError> {
    let mut allowed = u64::from(USAGES.as_raw());
    for (usage, feature, feature_name) in MORE_USAGES {
        let flag = usage.as_raw();
        let bits = u64::from(flag);
        allowed |= bits;
        if flags & bits != 0 && !enabled.contains(feature) {
            return Err(DescriptionError::UsageNotEnabled { flag, feature: feature_name });
        }
    }
    // The upper 32 bits are in none of them.
    DescriptionError::check_usage(flags, allowed)
}

/// Returns true if a view of an image can have another format: one of the same class of compatible formats.
fn is_compatible(format: vk::Format, view: vk::Format) -> bool {
    let (one, other) = (format.as_raw(), view.as_raw());
    // Color formats of single texels are of one class if they have as many bytes. Depth and stencil, planes and formats of
    // extensions are left alone.
    let plain = 1..=123;
    // Of compressed formats `UNORM` and `SRGB`, or the signed and the unsigned one, are next to each other.
    let compressed = 131..=184;
    one == other
        || (plain.contains(&one) && plain.contains(&other) && texel_layout(format) == texel_layout(view))
        || (compressed.contains(&one)
            && compressed.contains(&other)
            && (one - compressed.start()) / 2 == (other - compressed.start()) / 2)
}

const COPIED: vk::ImageUsageFlags = vk::ImageUsageFlags::from_raw(
    vk::ImageUsageFlags::TRANSFER_SRC.as_raw() | vk::ImageUsageFlags::TRANSFER_DST.as_raw(),
);

/// The creation flags with which an image can be copied as a whole: those about its views. Some others forbid
/// it; the rest mean that the application depends on the image's memory.
const RELOCATABLE_FLAGS: vk::ImageCreateFlags = vk::ImageCreateFlags::from_raw(
    vk::ImageCreateFlags::MUTABLE_FORMAT.as_raw()
        | vk::ImageCreateFlags::CUBE_COMPATIBLE.as_raw()
        | vk::ImageCreateFlags::TYPE_2D_ARRAY_COMPATIBLE.as_raw()
        | vk::ImageCreateFlags::BLOCK_TEXEL_VIEW_COMPATIBLE.as_raw()
        | vk::ImageCreateFlags::EXTENDED_USAGE.as_raw(),
);

const TRANSIENT: vk::ImageUsageFlags = vk::ImageUsageFlags::TRANSIENT_ATTACHMENT;

/// A transient attachment needs at least one of these usages, and can have no other.
const ATTACHMENTS: vk::ImageUsageFlags = vk::ImageUsageFlags::from_raw(
    vk::ImageUsageFlags::COLOR_ATTACHMENT.as_raw()
        | vk::ImageUsageFlags::DEPTH_STENCIL_ATTACHMENT.as_raw()
        | vk::ImageUsageFlags::INPUT_ATTACHMENT.as_raw(),
);

/// Returns true for usages that every device supports together.
// `TRANSIENT_ATTACHMENT` has two VUIDs: no usages but attachments (00963), and at least one of them (00966).
fn is_usage(usage: vk::ImageUsageFlags) -> bool {
    !usage.contains(TRANSIENT) || (usage.intersects(ATTACHMENTS) && (ATTACHMENTS | TRANSIENT).contains(usage))
}

/// Returns what width and height must be multiples of, for multi-planar and chroma-subsampled formats, that is
/// all that Vulkan samples with a conversion; `None` for other formats.
pub(super) fn chroma_block(format: vk::Format) -> Option<[u32; 2]> {
    const WIDE: [u32; 2] = [2, 1];
    const BOTH: [u32; 2] = [2, 2];
    // In the order of `VkFormat`: 8, 10, 12 and 16 bits, each with 422, 420 and 444.
    match format.as_raw() {
        1_000_156_000 | 1_000_156_001 | 1_000_156_004 | 1_000_156_005 => Some(WIDE),
        1_000_156_002 | 1_000_156_003 => Some(BOTH),
        1_000_156_010 | 1_000_156_011 | 1_000_156_014 | 1_000_156_015 => Some(WIDE),
        1_000_156_012 | 1_000_156_013 => Some(BOTH),
        1_000_156_020 | 1_000_156_021 | 1_000_156_024 | 1_000_156_025 => Some(WIDE),
        1_000_156_022 | 1_000_156_023 => Some(BOTH),
        1_000_156_027 | 1_000_156_028 | 1_000_156_031 | 1_000_156_032 => Some(WIDE),
        1_000_156_029 | 1_000_156_030 => Some(BOTH),
        // Also the single-plane formats of 10 and 12 bits in 16, which drivers need not distinguish.
        1_000_156_000..=1_000_156_033 | 1_000_330_000..=1_000_330_003 => Some([1, 1]),
        _ => None,
    }
}

/// Returns true for numbers that are formats of core Vulkan of a version.
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

/// Checks a description against the rules of Vulkan that hold on every device, which drivers need not check in a
/// format query.
fn check_rules(raw: &vk::ImageCreateInfo<'_>, version: u32) -> Result<(), DescriptionError> {
    let vk::Extent3D { width, height, depth } = raw.extent;
    DescriptionError::check_texels([width, height, depth], raw.mip_levels, raw.array_layers)?;
    let samples = raw.samples.as_raw();
    let is_2d = raw.image_type == vk::ImageType::TYPE_2D;
    let is_3d = raw.image_type == vk::ImageType::TYPE_3D;
    let is_cube = raw.flags.contains(vk::ImageCreateFlags::CUBE_COMPATIBLE);
    let multisampled = samples != 1;
    if !is_format(raw.format, version) {
        return Err(DescriptionError::UnknownFormat { format: raw.format.as_raw() as u32 });
    }
    if !is_usage(raw.usage) {
        return Err(DescriptionError::TransientUsage);
    }
    // A sample count is a flag bit, of which an image has exactly one; a query with several is undefined.
    if !samples.is_power_of_two() {
        return Err(DescriptionError::Samples { samples });
    }
    if is_3d && raw.array_layers != 1 {
        return Err(DescriptionError::ArrayOf3d);
    }
    // A cube or a 3D image cannot be multisampled, nor one with several levels or of linear tiling (VUID 02257).
    let flat = is_2d && !is_cube && raw.mip_levels == 1;
    if multisampled && (!flat || raw.tiling != vk::ImageTiling::OPTIMAL) {
        return Err(DescriptionError::Multisampled);
    }
    if raw.usage.intersects(RATES) && (!is_2d || multisampled || raw.tiling != vk::ImageTiling::OPTIMAL) {
        return Err(DescriptionError::RateAttachment);
    }
    // Not known here whether `shaderStorageImageMultisample` is enabled.
    if multisampled && raw.usage.contains(vk::ImageUsageFlags::STORAGE) {
        return Err(DescriptionError::MultisampledStorage);
    }
    if let Some(multiple) = chroma_block(raw.format) {
        // Several layers need a feature (`ycbcrImageArrays`) that this crate does not track.
        if !flat || multisampled || raw.array_layers != 1 {
            return Err(DescriptionError::Planar);
        }
        if width % multiple[0] != 0 || height % multiple[1] != 0 {
            return Err(DescriptionError::BlockExtent { extent: [width, height], multiple });
        }
    }
    DescriptionLimit::MipLevels
        .check(raw.mip_levels.into(), u64::from(width.max(height).max(depth).ilog2() + 1))
}

impl Shared {
    /// Checks with queries whether the device supports an image whose description was not promised to be valid.
    fn check_image(
        &self,
        raw: &vk::ImageCreateInfo<'_>,
        shared_as: vk::ExternalMemoryHandleTypeFlags,
    ) -> Result<(), DeviceError> {
        check_rules(raw, self.version)?;
        // lavapipe's answers below are also yes for formats without the feature.
        let host_transfer = raw.usage.contains(vk::ImageUsageFlags::HOST_TRANSFER_EXT);
        if host_transfer && !self.has_host_transfer(raw.format, raw.tiling) {
            return Err(DeviceError::Unsupported);
        }
        // Usages as attachments are limited by the framebuffer as well as by the format.
        if raw.usage.intersects(ATTACHMENTS | TRANSIENT) {
            let [width, height] = self.max_framebuffer;
            DescriptionLimit::FramebufferWidth.check(raw.extent.width.into(), width.into())?;
            DescriptionLimit::FramebufferHeight.check(raw.extent.height.into(), height.into())?;
        }
        if shared_as.is_empty() {
            return self.check_image_limits(raw, None);
        }
        // A query takes one handle type at a time.
        let bits =
            (0..u32::BITS).map(|bit| shared_as & vk::ExternalMemoryHandleTypeFlags::from_raw(1 << bit));
        for handle_type in bits.filter(|bit| !bit.is_empty()) {
            self.check_image_limits(raw, Some((handle_type, shared_as)))?;
        }
        Ok(())
    }

    /// Checks a description that was not promised to be valid, but for the formats of views.
    pub(super) fn check_unchecked(&self, info: &ImageInfo<'_>) -> Result<(), DeviceError> {
        let Some(desc) = &info.unchecked else { return Ok(()) };
        DescriptionError::check_image(desc)?;
        check_usage(desc.usage, self.enabled)?;
        self.check_image(&info.raw, info.shared_as)
    }

    /// Checks an image against the driver's limits for its format. With `sharing`, also checks that its memory
    /// can be shared as one type together with all others.
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
        // The counts depend on usage and flags, so they are those of the query and not `VkPhysicalDeviceLimits`.
        if most.sample_counts.contains(raw.samples) {
            return Ok(());
        }
        let (samples, supported) = (raw.samples.as_raw(), most.sample_counts.as_raw());
        Err(DescriptionError::SampleCount { samples, supported }.into())
    }

    fn image_format_properties(
        &self,
        raw: &vk::ImageCreateInfo<'_>,
        sharing: Option<(vk::ExternalMemoryHandleTypeFlags, vk::ExternalMemoryHandleTypeFlags)>,
    ) -> Result<vk::ImageFormatProperties, DeviceError> {
        // The function of 1.0, so that an image without sharing needs no query of 1.1.
        let Some((handle_type, all)) = sharing else {
            // SAFETY: the physical device is of this instance, and the values were checked to be valid for a
            // query.
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
        // SAFETY: as above, and the function exists: nothing is shared below Vulkan 1.1.
        let result = unsafe {
            self.instance.get_physical_device_image_format_properties2(
                self.physical_device,
                &wanted,
                &mut answer,
            )
        };
        result.map_err(refused)?;
        let most = answer.image_format_properties;
        if self.shares(&external_answer.external_memory_properties, all) {
            Ok(most)
        } else {
            Err(DeviceError::Unsupported)
        }
    }

    /// Checks the formats of views, and returns all that views can have; none where the version has no list of them.
    fn view_formats(
        &self,
        raw: &vk::ImageCreateInfo<'_>,
        desc: &ImageDesc,
    ) -> Result<Vec<vk::Format>, DescriptionError> {
        // Numbers above 2^31 become negative, which no format is.
        let view = |format: u32| vk::Format::from_raw(format as i32);
        let fits = |format| is_format(format, self.version) && is_compatible(raw.format, format);
        if let Some(format) = desc.views().find(|&format| !fits(view(format))) {
            return Err(DescriptionError::ViewFormat { format });
        }
        // With the list, drivers may keep the image compressed. It names the image's own format as well.
        if self.version < vk::API_VERSION_1_2 || desc.views().next().is_none() {
            return Ok(Vec::new());
        }
        Ok(core::iter::once(raw.format).chain(desc.views().map(view)).collect())
    }

    /// Validates the description and calls `f` with the structure for the driver.
    fn with_image_info<R>(
        &self,
        info: &ImageInfo<'_>,
        f: impl FnOnce(&vk::ImageCreateInfo<'_>) -> R,
    ) -> Result<R, DeviceError> {
        let ImageInfo { mut raw, shared_as, families, every_queue, unchecked } = *info;
        let mut room;
        if families != Families::NONE {
            room = ROOM;
            raw = raw.queue_family_indices(families.list(&mut room));
        }
        if every_queue && self.families.len() > 1 {
            raw = raw.sharing_mode(vk::SharingMode::CONCURRENT).queue_family_indices(&self.families);
        }
        // Both are bound in parts with `vkBindImageMemory2` or `vkQueueBindSparse`, which one offset cannot
        // express.
        let several_bindings = vk::ImageCreateFlags::DISJOINT | vk::ImageCreateFlags::SPARSE_BINDING;
        if raw.flags.intersects(several_bindings) {
            return Err(DescriptionError::SeveralBindings.into());
        }
        self.check_shareable(shared_as)?;
        // The application has vouched for its own description, so no query is made for it.
        let mut formats = Vec::new();
        if let Some(desc) = unchecked {
            self.check_unchecked(info)?;
            formats = self.view_formats(&raw, &desc)?;
        }
        raw.usage = self.created_usage(info);
        let mut list = vk::ImageFormatListCreateInfo::default().view_formats(&formats);
        if !formats.is_empty() {
            raw = raw.push_next(&mut list);
        }
        if shared_as.is_empty() {
            return Ok(f(&raw));
        }
        // An image that is bound to shared memory must have named the handle types at its creation.
        let mut external = vk::ExternalMemoryImageCreateInfo::default().handle_types(shared_as);
        Ok(f(&raw.push_next(&mut external)))
    }

    fn create_unbound_image(&self, raw: &vk::ImageCreateInfo<'_>) -> Result<vk::Image, DeviceError> {
        // SAFETY: the description is valid: promised to `from_raw`, or checked with queries.
        unsafe { self.raw.create_image(raw, None) }.map_err(refused)
    }
}

// SAFETY: requirements are the driver's own, and the kind is that of the tiling that the driver gets.
unsafe impl ImageDevice for Device {
    type Image = vk::Image;
    type ImageInfo<'a> = ImageInfo<'a>;
    /// The default is `UNDEFINED`, the initial layout of images, from which a transition may discard the
    /// contents.
    type ImageState = vk::ImageLayout;

    fn image_kind(&self, info: &ImageInfo<'_>) -> ResourceKind {
        info.kind()
    }

    fn image_shape(&self, info: &ImageInfo<'_>) -> ImageShape {
        let mut shape = info.shape();
        // A chained structure may give the aspects different usages.
        shape.is_host_writable = self.shared.host_copies.is_some()
            && self.shared.created_usage(info).contains(vk::ImageUsageFlags::HOST_TRANSFER_EXT)
            && info.raw.p_next.is_null()
            && !is_planar(info.raw.format)
            && !info.raw.flags.contains(vk::ImageCreateFlags::SUBSAMPLED_EXT);
        shape
    }

    fn can_write_from_host(&self, shape: &ImageShape, after: vk::ImageLayout) -> bool {
        let copies = self.shared.host_copies.as_ref();
        shape.is_host_writable && copies.is_some_and(|copies| copies.can_write_in(after))
    }

    unsafe fn write_image_from_host(&self, write: &HostImageWrite<'_, Self>) -> Result<(), DeviceError> {
        let copies = self.shared.host_copies.as_ref().ok_or(DeviceError::Unsupported)?;
        // SAFETY: the caller's promise.
        unsafe { copies.write(self.shared.raw.handle(), write) }
    }

    fn image_view_support(&self, info: &ImageInfo<'_>) -> ImageViewSupport {
        let cube_arrays = self.shared.enabled.contains(EnabledFeatures::IMAGE_CUBE_ARRAY);
        ImageViewSupport { cube_arrays, ..info.view_support() }
    }

    fn can_copy_between_states(&self, _: QueueKind, _: vk::ImageLayout, after: vk::ImageLayout) -> bool {
        !UNUSABLE_LAYOUTS.contains(&after)
    }

    fn state_to_read(&self, _: QueueKind, shape: &ImageShape) -> vk::ImageLayout {
        if shape.is_sampled {
            // Also of depth and stencil: it is the layout that descriptors of views name, and `DEPTH_STENCIL_READ_ONLY_OPTIMAL`
            // is only for images that can be attachments (VUID 01210).
            vk::ImageLayout::SHADER_READ_ONLY_OPTIMAL
        } else {
            // The other is only for sampled images and input attachments (VUID 01211); it may be a storage image or a target.
            vk::ImageLayout::GENERAL
        }
    }

    // `UNDEFINED` is allowed as the old layout of any image.
    fn discards_from_any_state(&self) -> bool {
        true
    }

    fn can_copy_aspect(&self, queue: QueueKind, aspect: ImageAspect) -> bool {
        !aspect.needs_graphics() || queue == QueueKind::Graphics
    }

    fn queues_share_image(&self, info: &ImageInfo<'_>) -> bool {
        info.is_shared_by(&self.shared.families)
    }

    fn relocatable_image_info(&self, info: &ImageInfo<'_>) -> Option<ImageInfo<'static>> {
        info.relocatable()
    }

    fn image_requirements(&self, info: &ImageInfo<'_>) -> Result<Requirements, DeviceError> {
        let device = &*self.shared;
        device.with_image_info(info, |raw| {
            // The driver chooses one of the modifiers at creation, so only an image has definite requirements.
            let described = raw.tiling != vk::ImageTiling::DRM_FORMAT_MODIFIER_EXT;
            if let Some(functions) = device.maintenance4.as_ref().filter(|_| described) {
                let wanted = vk::DeviceImageMemoryRequirements::default().create_info(raw);
                // SAFETY: the description is valid: as promised to `from_raw` it, or the device was asked.
                return Ok(device.query_requirements(info.kind(), |answer| unsafe {
                    functions.image(&device.raw, &wanted, answer);
                }));
            }
            // An object does not tell its tiling, so the kind comes from the description.
            Ok(device.temporary_requirements(device.create_unbound_image(raw)?).with_kind(info.kind()))
        })?
    }

    unsafe fn create_image(
        &self,
        info: &ImageInfo<'_>,
        memory: vk::DeviceMemory,
        offset: u64,
    ) -> Result<vk::Image, DeviceError> {
        let device = &*self.shared;
        device.check_memory_sharing(memory, info.sharing())?;
        let image = device.with_image_info(info, |raw| device.create_unbound_image(raw))??;
        // SAFETY: the image is new, and the memory satisfies its requirements by the caller's promise.
        unsafe { device.bind(image, memory, offset) }
    }

    fn create_dedicated_image(
        &self,
        info: &ImageInfo<'_>,
        memory: &MemoryDesc<'_, MemoryOptions>,
    ) -> Result<(vk::DeviceMemory, vk::Image), DeviceError> {
        let device = &*self.shared;
        device
            .check_sharing(memory.options.map(MemoryOptions::sharing).unwrap_or_default(), info.sharing())?;
        device.bind_dedicated(device.with_image_info(info, |raw| device.create_unbound_image(raw))??, memory)
    }

    unsafe fn destroy_image(&self, image: vk::Image) {
        // SAFETY: the caller's promise.
        unsafe { self.shared.raw.destroy_image(image, None) };
    }

    unsafe fn name_image(&self, image: &vk::Image, name: &str) {
        self.shared.name(*image, name);
    }
}
