//! Why a description of a resource is refused before a driver sees it: drivers need not look at these things, and
//! behave as they like where nobody did.

use core::error::Error;
use core::fmt;

use super::ImageDesc;

/// The rule that a description of a buffer or an image breaks. The driver was not asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DescriptionError {
    /// A buffer has no bytes. Ask for at least one.
    ZeroSize,
    /// An image has no texels: width, height, depth, mip levels or array layers are 0. Each is at least 1.
    ZeroExtent {
        /// Width, height and depth in texels.
        extent: [u32; 3],
        /// Mip levels.
        mip_levels: u32,
        /// Array layers.
        array_layers: u32,
    },
    /// Something is above a limit. Ask for less.
    AboveLimit {
        /// Which limit.
        limit: DescriptionLimit,
        /// What the description has.
        requested: u64,
        /// What it can have at most.
        most: u64,
    },
    /// The format is none that is core in the device's version of the API. Describe an image of an extension's format
    /// as the API does.
    UnknownFormat {
        /// The API's number.
        format: u32,
    },
    /// The number of samples a texel is not 1, or not a power of two. Which powers of two there can be depends on the
    /// format.
    Samples {
        /// Samples a texel.
        samples: u32,
    },
    /// A transient attachment is also a color, depth-stencil or input attachment, and nothing else.
    TransientUsage,
    /// A three-dimensional image has one array layer.
    ArrayOf3d,
    /// An image of several samples a texel has two dimensions, one mip level and optimal tiling.
    Multisampled,
    /// Shaders write to no image of several samples a texel here, since nothing says that the feature for it
    /// (`shaderStorageImageMultisample`) is enabled. Describe it as the API does.
    MultisampledStorage,
    /// An image of a format that has several planes, or fewer texels for its colors, has two dimensions, one mip level,
    /// one array layer and one sample a texel.
    Planar,
    /// Width and height of an image of a format that has fewer texels for its colors are multiples of these.
    PlanarExtent {
        /// Width and height in texels.
        extent: [u32; 2],
        /// What they are multiples of.
        multiple: [u32; 2],
    },
    /// The memory can be exported or was imported, and the resource was not described for it. Say so with
    /// `BufferInfo::shared_as`, `ImageInfo::shared_as`, and with the same handle types.
    NotShared {
        /// The handle types of the memory (`VkExternalMemoryHandleTypeFlags`).
        memory: u32,
        /// Those of the resource.
        resource: u32,
    },
}

/// A limit of a device, as its API calls it, or of this library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DescriptionLimit {
    /// Bytes of a buffer: `maxBufferSize`.
    BufferSize,
    /// Bytes of a memory object: `maxMemoryAllocationSize`
    /// ([`Limits::max_allocation_size`](super::Limits::max_allocation_size)).
    AllocationSize,
    /// Bytes of any resource: 2^48.
    LibrarySize,
    /// Width of an image of the format in texels (`maxExtent`).
    ImageWidth,
    /// Its height.
    ImageHeight,
    /// Its depth.
    ImageDepth,
    /// Its mip levels (`maxMipLevels`, and down to one texel).
    MipLevels,
    /// Its array layers (`maxArrayLayers`).
    ArrayLayers,
    /// Width of an attachment: `maxFramebufferWidth`.
    FramebufferWidth,
    /// Height of an attachment: `maxFramebufferHeight`.
    FramebufferHeight,
}

impl DescriptionError {
    /// Refuses an image without texels.
    pub(crate) fn check_texels(
        extent: [u32; 3],
        mip_levels: u32,
        array_layers: u32,
    ) -> Result<(), DescriptionError> {
        if extent.contains(&0) || mip_levels == 0 || array_layers == 0 {
            return Err(Self::ZeroExtent { extent, mip_levels, array_layers });
        }
        Ok(())
    }

    /// The same for a description.
    pub(crate) fn check_image(desc: &ImageDesc) -> Result<(), DescriptionError> {
        Self::check_texels(desc.extent, desc.mip_levels, desc.array_layers)
    }
}

impl DescriptionLimit {
    /// Refuses more than `most`.
    pub(crate) fn check(self, requested: u64, most: u64) -> Result<(), DescriptionError> {
        if requested > most {
            return Err(DescriptionError::AboveLimit { limit: self, requested, most });
        }
        Ok(())
    }

    /// Refuses a buffer of no bytes, and one of more than the device can have: `largest_buffer` where it says so, and
    /// one memory object unless the buffer has several (`sparse`).
    pub(crate) fn check_buffer(
        size: u64,
        largest_buffer: u64,
        largest_allocation: Option<u64>,
    ) -> Result<(), DescriptionError> {
        if size == 0 {
            return Err(DescriptionError::ZeroSize);
        }
        Self::LibrarySize.check(size, allotment_suballoc::MAX_SIZE)?;
        Self::BufferSize.check(size, largest_buffer)?;
        Self::AllocationSize.check(size, largest_allocation.unwrap_or(u64::MAX))
    }
}

impl fmt::Display for DescriptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroSize => f.write_str("a buffer's size is at least 1 byte, not 0"),
            Self::ZeroExtent { extent: [width, height, depth], mip_levels, array_layers } => write!(
                f,
                "an image has at least one texel, mip level and array layer, not {width} x {height} x {depth} texels, {mip_levels} mip levels, {array_layers} array layers"
            ),
            Self::AboveLimit { limit, requested, most } => {
                write!(f, "{requested} is above the limit {limit} of {most}")
            }
            Self::UnknownFormat { format } => {
                write!(f, "format {format} is not core in the device's version of the API")
            }
            Self::Samples { samples } => write!(f, "{samples} samples a texel are no power of two"),
            Self::TransientUsage => f.write_str(
                "a transient attachment is a color, depth-stencil or input attachment and nothing else",
            ),
            Self::ArrayOf3d => f.write_str("a three-dimensional image has one array layer"),
            Self::Multisampled => f.write_str(
                "an image of several samples a texel has two dimensions, one mip level and optimal tiling",
            ),
            Self::MultisampledStorage => f.write_str(
                "a storage image has one sample a texel unless shaderStorageImageMultisample is enabled",
            ),
            Self::Planar => f.write_str(
                "an image of a multi-planar or subsampled format has two dimensions, one mip level, one array layer and one sample a texel",
            ),
            Self::PlanarExtent { extent: [width, height], multiple: [of_width, of_height] } => write!(
                f,
                "{width} x {height} texels of a subsampled format are no multiples of {of_width} x {of_height}"
            ),
            Self::NotShared { memory, resource } => write!(
                f,
                "the memory is shared as handle types {memory:#x} and the resource as {resource:#x}, describe it with shared_as"
            ),
        }
    }
}

impl Error for DescriptionError {}

impl fmt::Display for DescriptionLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BufferSize => "maxBufferSize",
            Self::AllocationSize => "maxMemoryAllocationSize",
            Self::LibrarySize => "of this library",
            Self::ImageWidth => "maxExtent.width of the format",
            Self::ImageHeight => "maxExtent.height of the format",
            Self::ImageDepth => "maxExtent.depth of the format",
            Self::MipLevels => "maxMipLevels",
            Self::ArrayLayers => "maxArrayLayers",
            Self::FramebufferWidth => "maxFramebufferWidth",
            Self::FramebufferHeight => "maxFramebufferHeight",
        })
    }
}
