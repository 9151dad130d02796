//! Textures: descriptions and their validation.

use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::{
    DXGI_FORMAT, DXGI_FORMAT_D16_UNORM, DXGI_FORMAT_D24_UNORM_S8_UINT, DXGI_FORMAT_D32_FLOAT,
    DXGI_FORMAT_D32_FLOAT_S8X24_UINT, DXGI_FORMAT_R24G8_TYPELESS, DXGI_FORMAT_R32G8X24_TYPELESS,
    DXGI_FORMAT_UNKNOWN, DXGI_SAMPLE_DESC,
};

use super::buffers::bits;
use super::descriptors::is_typeless;
use super::formats::{texel_layout, typeless};
use super::host_copies::is_host_writable;
use super::properties::query;
use super::{Device, Memory, MemoryOptions, ResourceInfo, Shared, full_images, names};
use crate::device::{
    DescriptionError, DescriptionLimit, DeviceError, HostImageWrite, ImageAspect, ImageDesc, ImageDevice,
    ImageDimension, ImageShape, ImageViewSupport, ImageViewUses, MemoryDesc, QueueKind, Requirements,
    ResourceKind, Tiling,
};

/// A texture that can be sampled and copied from and to, with the description's additional flags
/// (`D3D12_RESOURCE_FLAGS`): those for render targets, depth-stencil, unordered access and simultaneous access.
/// A multisampled texture is a render target unless it is a depth buffer, since there are no others.
///
/// A description that breaks a rule of Direct3D 12, or has other flags, is refused with
/// [`DeviceError::InvalidDescription`], one that the device does not support with [`DeviceError::Unsupported`]; so are
/// textures of linear tiling, which Direct3D 12 supports only between adapters. Other textures need
/// [Direct3D 12's own description](ResourceInfo::new).
impl From<ImageDesc> for ResourceInfo<'_> {
    fn from(desc: ImageDesc) -> Self {
        let ImageDesc { extent: [width, height, depth], mip_levels, array_layers, samples, .. } = desc;
        let dimension = desc.resolved_dimension();
        let is_3d = dimension == ImageDimension::D3;
        let slices = if is_3d { depth } else { array_layers };
        // The API counts both in 16 bits; larger numbers become 0, which is refused below.
        let [slices, levels] = [slices, mip_levels].map(|count| u16::try_from(count).unwrap_or(0));
        // In Direct3D 12, 0 mip levels mean all possible ones; here such an image is invalid.
        let none = [height, depth, array_layers, slices.into(), levels.into(), samples].contains(&0);
        let possible = !none && (!is_3d || array_layers == 1);
        let mut flags = D3D12_RESOURCE_FLAGS(desc.usage as i32);
        // Direct3D 12 creates multisampled textures only as render targets or depth buffers.
        if samples > 1 && !flags.contains(DEPTH) {
            flags |= TARGET;
        }
        let raw = D3D12_RESOURCE_DESC {
            Dimension: match dimension {
                ImageDimension::D1 => D3D12_RESOURCE_DIMENSION_TEXTURE1D,
                ImageDimension::D2 | ImageDimension::Cube => D3D12_RESOURCE_DIMENSION_TEXTURE2D,
                ImageDimension::D3 => D3D12_RESOURCE_DIMENSION_TEXTURE3D,
            },
            Alignment: 0,
            // An invalid description gets the width 0, which no runtime accepts, should a check be missing.
            Width: if possible { width.into() } else { 0 },
            Height: height,
            DepthOrArraySize: slices,
            MipLevels: levels,
            // Formats above 2^31 become `UNKNOWN`, which is refused.
            Format: DXGI_FORMAT(desc.format.try_into().unwrap_or(0)),
            SampleDesc: DXGI_SAMPLE_DESC { Count: samples, Quality: 0 },
            Layout: match desc.tiling {
                Tiling::Optimal => D3D12_TEXTURE_LAYOUT_UNKNOWN,
                Tiling::Linear => D3D12_TEXTURE_LAYOUT_ROW_MAJOR,
            },
            Flags: flags,
        };
        let mut info = Self::new(raw);
        info.unchecked = true;
        info.is_cube = dimension == ImageDimension::Cube;
        let views = views(raw.Format, &desc).map(|family| {
            info.typed = family.map(|_| raw.Format);
            info.desc.Format = family.unwrap_or(raw.Format);
        });
        let [.., most_slices] = largest(raw.Dimension);
        let of_slices = if is_3d { DescriptionLimit::ImageDepth } else { DescriptionLimit::ArrayLayers };
        let too_many = || {
            let slices = if is_3d { depth } else { array_layers };
            of_slices.check(slices.into(), most_slices)?;
            DescriptionLimit::MipLevels.check(mip_levels.into(), D3D12_REQ_MIP_LEVELS.into())
        };
        // Flags outside the list need features or rules that nothing here checks.
        let usage = || DescriptionError::check_usage(desc.usage, bits(USAGES)).err();
        let broken = DescriptionError::check_image(&desc).and_then(|()| too_many()).err();
        info.broken = broken.or_else(usage).or(views.err());
        info
    }
}

/// Returns the typeless format that views of several formats need, or an error for a format that is not of its family;
/// `None` where no further formats are asked for.
fn views(format: DXGI_FORMAT, desc: &ImageDesc) -> Result<Option<DXGI_FORMAT>, DescriptionError> {
    let mut views = desc.views().peekable();
    let Some(&first) = views.peek() else { return Ok(None) };
    // Resources of the API's states have no list of castable formats, so the family is all that there is.
    let family = typeless(format).ok_or(DescriptionError::ViewFormat { format: first })?;
    let in_family =
        |view: u32| i32::try_from(view).is_ok_and(|view| typeless(DXGI_FORMAT(view)) == Some(family));
    match views.find(|&view| !in_family(view)) {
        Some(format) => Err(DescriptionError::ViewFormat { format }),
        None => Ok(Some(family)),
    }
}

const TARGET: D3D12_RESOURCE_FLAGS = D3D12_RESOURCE_FLAG_ALLOW_RENDER_TARGET;
const DEPTH: D3D12_RESOURCE_FLAGS = D3D12_RESOURCE_FLAG_ALLOW_DEPTH_STENCIL;
const STORAGE: D3D12_RESOURCE_FLAGS = D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS;

const SHARED: D3D12_RESOURCE_FLAGS = D3D12_RESOURCE_FLAG_ALLOW_SIMULTANEOUS_ACCESS;

/// The flags that this crate's descriptions can set.
const USAGES: D3D12_RESOURCE_FLAGS = D3D12_RESOURCE_FLAGS(TARGET.0 | DEPTH.0 | STORAGE.0 | SHARED.0);

pub(super) fn kind(info: &ResourceInfo<'_>) -> ResourceKind {
    if info.is_buffer() {
        ResourceKind::Buffer
    } else if info.desc.Layout == D3D12_TEXTURE_LAYOUT_ROW_MAJOR {
        ResourceKind::LinearImage
    } else {
        ResourceKind::OptimalImage
    }
}

/// Returns what copies of the texels are checked against.
fn shape(info: &ResourceInfo<'_>) -> ImageShape {
    let desc = &info.desc;
    let is_3d = desc.Dimension == D3D12_RESOURCE_DIMENSION_TEXTURE3D;
    let slices = u32::from(desc.DepthOrArraySize);
    let (depth, layers) = if is_3d { (slices, 1) } else { (1, slices) };
    let width = u32::try_from(desc.Width).unwrap_or(u32::MAX);
    let mut shape = ImageShape::new([width, desc.Height, depth], texel_layout(desc));
    let longest = width.max(desc.Height).max(depth);
    // 0 stands for all levels that there can be.
    let all = longest.checked_ilog2().map_or(0, |last| last + 1);
    shape.mip_levels = if desc.MipLevels == 0 { all } else { desc.MipLevels.into() };
    (shape.array_layers, shape.samples) = (layers, desc.SampleDesc.Count);
    shape.format = info.typed.unwrap_or(desc.Format).0.unsigned_abs();
    shape.dimension = match desc.Dimension {
        D3D12_RESOURCE_DIMENSION_TEXTURE1D => ImageDimension::D1,
        D3D12_RESOURCE_DIMENSION_TEXTURE3D => ImageDimension::D3,
        _ if info.is_cube => ImageDimension::Cube,
        _ => ImageDimension::D2,
    };
    // `CopyTextureRegion` copies whole subresources of depth and stencil.
    shape.whole_levels = shape.texels.is_depth_stencil();
    let targets = D3D12_RESOURCE_FLAG_ALLOW_RENDER_TARGET | D3D12_RESOURCE_FLAG_ALLOW_DEPTH_STENCIL;
    shape.begins_whole = info.desc.Flags.0 & targets.0 != 0;
    shape.is_sampled = !desc.Flags.contains(D3D12_RESOURCE_FLAG_DENY_SHADER_RESOURCE);
    shape
}

/// Returns what views of an image are checked against.
fn view_support(info: &ResourceInfo<'_>) -> ImageViewSupport {
    let (desc, shape) = (&info.desc, shape(info));
    // A description with formats of views has a typeless one, and the format that was asked for beside it.
    let mut support = ImageViewSupport::new(shape.format);
    support.dimensions = match desc.Dimension {
        D3D12_RESOURCE_DIMENSION_TEXTURE1D => 1,
        D3D12_RESOURCE_DIMENSION_TEXTURE3D => 3,
        _ => 2,
    };
    let [_, _, depth] = shape.extent;
    (support.depth, support.mip_levels, support.array_layers) = (depth, shape.mip_levels, shape.array_layers);
    support.samples = shape.samples;
    let has = |flag: D3D12_RESOURCE_FLAGS| desc.Flags.contains(flag);
    // Views of video formats have the formats of their planes, which are not described here.
    for (uses, is_allowed) in [
        (ImageViewUses::SAMPLED, !has(D3D12_RESOURCE_FLAG_DENY_SHADER_RESOURCE)),
        (ImageViewUses::STORAGE, has(STORAGE)),
        (ImageViewUses::RENDER_TARGET, has(TARGET)),
        (ImageViewUses::DEPTH_STENCIL, has(DEPTH)),
    ] {
        support.uses.set(uses, is_allowed && !has_planes(desc.Format));
    }
    // A typeless format has depth in a depth buffer only.
    let is_depth = matches!(
        desc.Format,
        DXGI_FORMAT_D32_FLOAT_S8X24_UINT
            | DXGI_FORMAT_D32_FLOAT
            | DXGI_FORMAT_D24_UNORM_S8_UINT
            | DXGI_FORMAT_D16_UNORM
    );
    support.has_depth = has(DEPTH) || is_depth;
    support.has_stencil = support.has_depth
        && matches!(
            desc.Format,
            DXGI_FORMAT_R32G8X24_TYPELESS
                | DXGI_FORMAT_D32_FLOAT_S8X24_UINT
                | DXGI_FORMAT_R24G8_TYPELESS
                | DXGI_FORMAT_D24_UNORM_S8_UINT
        );
    support.other_formats = is_typeless(desc.Format) || support.has_depth;
    support.cube_compatible = support.dimensions == 2 && support.array_layers >= 6 && support.samples == 1;
    support.slices_as_layers = true;
    support
}

/// Returns true for video formats of more than one plane: NV12 to NV11, P208 to V408. Their smallest alignment
/// is unknown.
pub(super) fn has_planes(format: DXGI_FORMAT) -> bool {
    matches!(format.0, 103..=111 | 130..=132)
}

/// Returns true for formats of blocks of 4 by 4 texels: BC1 to BC5, BC6H and BC7.
pub(super) fn is_compressed(format: DXGI_FORMAT) -> bool {
    matches!(format.0, 70..=84 | 94..=99)
}

/// Returns an error for textures without texels, for which runtimes differ in their results.
pub(super) fn check_extent(desc: &D3D12_RESOURCE_DESC) -> Result<(), DeviceError> {
    let width = u32::try_from(desc.Width).unwrap_or(u32::MAX);
    // For 0 levels the runtime creates all possible ones; depth and array layers are one number.
    DescriptionError::check_texels([width, desc.Height, 1], 1, desc.DepthOrArraySize.into())?;
    if desc.Format == DXGI_FORMAT_UNKNOWN {
        return Err(DescriptionError::UnknownFormat { format: 0 }.into());
    }
    Ok(())
}

/// Returns an error for usages that exclude each other, on every device.
fn check_usage(desc: &D3D12_RESOURCE_DESC, is_3d: bool) -> Result<(), DescriptionError> {
    let (samples, depth) = (desc.SampleDesc.Count, desc.Flags.contains(DEPTH));
    if !samples.is_power_of_two() {
        return Err(DescriptionError::Samples { samples });
    }
    let is_2d = desc.Dimension == D3D12_RESOURCE_DIMENSION_TEXTURE2D;
    if samples != 1 && (!is_2d || desc.MipLevels != 1) {
        return Err(DescriptionError::Multisampled);
    }
    if samples != 1 && desc.Flags.contains(STORAGE) {
        return Err(DescriptionError::MultisampledStorage);
    }
    if (samples != 1 || depth) && desc.Flags.contains(SHARED) {
        return Err(DescriptionError::SimultaneousAccess);
    }
    if depth && (is_3d || desc.Flags.0 & USAGES.0 != DEPTH.0) {
        return Err(DescriptionError::DepthUsage);
    }
    Ok(())
}

/// Returns the largest texture of Direct3D 12, in texels and layers.
fn largest(dimension: D3D12_RESOURCE_DIMENSION) -> [u64; 3] {
    match dimension {
        D3D12_RESOURCE_DIMENSION_TEXTURE1D => {
            [D3D12_REQ_TEXTURE1D_U_DIMENSION.into(), 1, D3D12_REQ_TEXTURE1D_ARRAY_AXIS_DIMENSION.into()]
        }
        D3D12_RESOURCE_DIMENSION_TEXTURE3D => [D3D12_REQ_TEXTURE3D_U_V_OR_W_DIMENSION.into(); 3],
        _ => {
            let side = D3D12_REQ_TEXTURE2D_U_OR_V_DIMENSION.into();
            [side, side, D3D12_REQ_TEXTURE2D_ARRAY_AXIS_DIMENSION.into()]
        }
    }
}

impl Shared {
    /// Checks with queries whether the device supports a texture whose description was not promised to be valid.
    pub(super) fn check_image(&self, desc: &D3D12_RESOURCE_DESC, is_cube: bool) -> Result<(), DeviceError> {
        let is_3d = desc.Dimension == D3D12_RESOURCE_DIMENSION_TEXTURE3D;
        let [width, height, slices] = [desc.Width, desc.Height.into(), desc.DepthOrArraySize.into()];
        check_extent(desc)?;
        let [most_width, most_height, most_slices] = largest(desc.Dimension);
        DescriptionLimit::ImageWidth.check(width, most_width)?;
        DescriptionLimit::ImageHeight.check(height, most_height)?;
        let of_slices = if is_3d { DescriptionLimit::ImageDepth } else { DescriptionLimit::ArrayLayers };
        of_slices.check(slices, most_slices)?;
        // Slices of a 3D texture shrink with the levels; those of an array do not.
        let longest = width.max(height).max(if is_3d { slices } else { 1 });
        // Runtimes differ in what they check, so the rules of every device are checked here.
        DescriptionLimit::MipLevels.check(desc.MipLevels.into(), (longest.ilog2() + 1).into())?;
        check_usage(desc, is_3d)?;
        // Blocks are whole, except on devices that report otherwise.
        if is_compressed(desc.Format) && (width % 4 != 0 || height % 4 != 0) {
            // Both are at most 16,384 by now.
            let extent = [width as u32, desc.Height];
            return Err(DescriptionError::BlockExtent { extent, multiple: [4, 4] }.into());
        }
        // The API has no linear textures for general use, and a device may lack the format.
        if desc.Layout != D3D12_TEXTURE_LAYOUT_UNKNOWN || !self.has_format(desc, is_cube) {
            return Err(DeviceError::Unsupported);
        }
        let samples = desc.SampleDesc.Count;
        if samples == 1 || self.has_samples(desc, samples) {
            return Ok(());
        }
        let counts = [2, 4, 8, 16].into_iter().filter(|&count| self.has_samples(desc, count));
        Err(DescriptionError::SampleCount { samples, supported: counts.fold(1, |all, count| all | count) }
            .into())
    }

    fn has_format(&self, desc: &D3D12_RESOURCE_DESC, is_cube: bool) -> bool {
        let wanted = D3D12_FEATURE_DATA_FORMAT_SUPPORT { Format: desc.Format, ..Default::default() };
        // A query that fails means an unknown format: treated as unsupported.
        let Some(support) = query(&self.raw, wanted) else { return false };
        let mut needed = match desc.Dimension {
            D3D12_RESOURCE_DIMENSION_TEXTURE1D => D3D12_FORMAT_SUPPORT1_TEXTURE1D,
            D3D12_RESOURCE_DIMENSION_TEXTURE3D => D3D12_FORMAT_SUPPORT1_TEXTURE3D,
            _ => D3D12_FORMAT_SUPPORT1_TEXTURE2D,
        };
        if is_cube {
            needed |= D3D12_FORMAT_SUPPORT1_TEXTURECUBE;
        }
        let uses = [
            (TARGET, D3D12_FORMAT_SUPPORT1_RENDER_TARGET),
            (DEPTH, D3D12_FORMAT_SUPPORT1_DEPTH_STENCIL),
            (STORAGE, D3D12_FORMAT_SUPPORT1_TYPED_UNORDERED_ACCESS_VIEW),
        ];
        for (_, support) in uses.into_iter().filter(|&(flag, _)| desc.Flags.contains(flag)) {
            needed |= support;
        }
        support.Support1.contains(needed)
    }

    fn has_samples(&self, desc: &D3D12_RESOURCE_DESC, samples: u32) -> bool {
        let wanted = D3D12_FEATURE_DATA_MULTISAMPLE_QUALITY_LEVELS {
            Format: desc.Format,
            SampleCount: samples,
            ..Default::default()
        };
        // Quality level 0 exists only where at least one level is reported.
        let levels = query(&self.raw, wanted);
        levels.is_some_and(|levels| levels.NumQualityLevels > 0)
    }
}

// SAFETY: requirements are the runtime's own, and the kind is that of the layout that the runtime gets.
unsafe impl ImageDevice for Device {
    type Image = ID3D12Resource;
    type ImageInfo<'a> = ResourceInfo<'a>;
    /// On a copy queue it is `COMMON` before and after a submission: images have no other state there.
    type ImageState = D3D12_RESOURCE_STATES;

    fn image_kind(&self, info: &ResourceInfo<'_>) -> ResourceKind {
        kind(info)
    }

    fn image_shape(&self, info: &ResourceInfo<'_>) -> ImageShape {
        let mut shape = shape(info);
        shape.is_host_writable = self.shared.host_copies.is_some() && is_host_writable(info);
        shape
    }

    // The CPU records no barriers, and writes what is in this state.
    fn can_write_from_host(&self, shape: &ImageShape, after: D3D12_RESOURCE_STATES) -> bool {
        shape.is_host_writable && after == D3D12_RESOURCE_STATE_COMMON
    }

    unsafe fn write_image_from_host(&self, write: &HostImageWrite<'_, Self>) -> Result<(), DeviceError> {
        let copies = self.shared.host_copies.ok_or(DeviceError::Unsupported)?;
        // SAFETY: the caller's promise.
        unsafe { copies.write(write) }
    }

    // On a copy queue an image has no other state than `COMMON`, before and after each list.
    fn image_view_support(&self, info: &ResourceInfo<'_>) -> ImageViewSupport {
        view_support(info)
    }

    fn can_copy_between_states(
        &self,
        queue: QueueKind,
        before: D3D12_RESOURCE_STATES,
        after: D3D12_RESOURCE_STATES,
    ) -> bool {
        queue != QueueKind::Transfer || [before, after] == [D3D12_RESOURCE_STATE_COMMON; 2]
    }

    fn state_to_read(&self, queue: QueueKind, shape: &ImageShape) -> D3D12_RESOURCE_STATES {
        // Shaders promote it from there, and the CPU leaves texels in no other state.
        if !shape.is_sampled || shape.is_host_writable {
            return D3D12_RESOURCE_STATE_COMMON;
        }
        match queue {
            QueueKind::Graphics => D3D12_RESOURCE_STATE_ALL_SHADER_RESOURCE,
            // Its lists know no pixel shaders.
            QueueKind::Compute => D3D12_RESOURCE_STATE_NON_PIXEL_SHADER_RESOURCE,
            // Shaders of other queues promote it from there.
            QueueKind::Transfer => D3D12_RESOURCE_STATE_COMMON,
        }
    }

    fn can_copy_aspect(&self, queue: QueueKind, aspect: ImageAspect) -> bool {
        !aspect.needs_graphics() || queue == QueueKind::Graphics
    }

    fn relocatable_image_info(&self, info: &ResourceInfo<'_>) -> Option<ResourceInfo<'static>> {
        info.borrowing_nothing().filter(full_images::is_copyable_image)
    }

    fn image_requirements(&self, info: &ResourceInfo<'_>) -> Result<Requirements, DeviceError> {
        self.shared.describe_placed(info).map(|(_, requirements)| requirements)
    }

    unsafe fn create_image(
        &self,
        info: &ResourceInfo<'_>,
        memory: Memory,
        offset: u64,
    ) -> Result<ID3D12Resource, DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.shared.create_in(info, memory, offset) }
    }

    fn create_dedicated_image(
        &self,
        info: &ResourceInfo<'_>,
        memory: &MemoryDesc<'_, MemoryOptions>,
    ) -> Result<(Memory, ID3D12Resource), DeviceError> {
        self.shared.create_dedicated(info, memory)
    }

    unsafe fn destroy_image(&self, image: ID3D12Resource) {
        // Released with the last reference, as a buffer is.
        drop(image);
    }

    unsafe fn name_image(&self, image: &ID3D12Resource, name: &str) {
        names::name(image, name);
    }
}
