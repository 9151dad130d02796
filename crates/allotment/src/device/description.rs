//! Errors in resource descriptions that are found before a driver is called: drivers need not validate these
//! values, and their behaviour is undefined for invalid ones.

use core::error::Error;
use core::fmt;

#[cfg(any(feature = "simulated", all(feature = "d3d12", windows)))]
use super::ImageDesc;

/// The rule that the description of a buffer or an image breaks. The driver was not called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DescriptionError {
    /// The size of a buffer is 0. It must be at least 1.
    ZeroSize,
    /// Width, height, depth, mip levels or array layers of an image are 0. Each must be at least 1.
    ZeroExtent {
        /// Width, height and depth in texels.
        extent: [u32; 3],
        /// Mip levels.
        mip_levels: u32,
        /// Array layers.
        array_layers: u32,
    },
    /// A value is above a limit. Request less.
    AboveLimit {
        /// The limit.
        limit: DescriptionLimit,
        /// The value in the description.
        requested: u64,
        /// The limit's value.
        most: u64,
    },
    /// The format is not a core format of the device's API version. Describe an image of an extension's format
    /// with the API's own description.
    UnknownFormat {
        /// The API's format number.
        format: u32,
    },
    /// The usage has flags of which this library does not know that the device allows them: of an extension, of a
    /// later version of the API, or of a feature that the application did not list as enabled. Use the API's own
    /// description.
    UnknownUsage {
        /// The flags that are refused.
        flags: u64,
    },
    /// The options of a memory object have flags (`D3D12_HEAP_FLAGS`) that this library sets itself. Leave them out.
    HeapFlags {
        /// The flags that are refused.
        flags: u32,
    },
    /// The number of samples per texel is not a power of two. Which powers of two are supported depends on the
    /// format.
    Samples {
        /// Samples per texel.
        samples: u32,
    },
    /// A transient attachment has a usage other than color, depth-stencil or input attachment, or none of these.
    TransientUsage,
    /// A three-dimensional image has more than one array layer.
    ArrayOf3d,
    /// A multisampled image is not two-dimensional, has several mip levels, or has linear tiling.
    Multisampled,
    /// A multisampled image has storage usage, and the device was not created with
    /// `shaderStorageImageMultisample` as far as this library knows. Use the API's own description.
    MultisampledStorage,
    /// An image of a multi-planar or subsampled format is not two-dimensional, or has several mip levels, array
    /// layers or samples per texel.
    Planar,
    /// Width or height of an image of a subsampled format is not a multiple of the chroma block.
    PlanarExtent {
        /// Width and height in texels.
        extent: [u32; 2],
        /// The required multiple of width and height.
        multiple: [u32; 2],
    },
    /// The memory is exportable or imported, and the resource was not described for that. Pass the same handle
    /// types to `BufferInfo::with_external_handle_types` or `ImageInfo::with_external_handle_types`.
    NotShared {
        /// The handle types of the memory (`VkExternalMemoryHandleTypeFlags`).
        memory: u32,
        /// The handle types of the resource.
        resource: u32,
    },
}

/// A limit of a device, named as in its API, or of this library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DescriptionLimit {
    /// Size of a buffer in bytes: `maxBufferSize`.
    BufferSize,
    /// Size of a memory object in bytes: `maxMemoryAllocationSize`
    /// ([`Limits::max_allocation_size`](super::Limits::max_allocation_size)).
    AllocationSize,
    /// Size of any resource in bytes: 2^48.
    LibrarySize,
    /// Width in texels of an image of the format (`maxExtent`).
    ImageWidth,
    /// Height in texels of an image of the format (`maxExtent`).
    ImageHeight,
    /// Depth in texels of an image of the format (`maxExtent`).
    ImageDepth,
    /// Mip levels of an image (`maxMipLevels`, and at most down to one texel).
    MipLevels,
    /// Array layers of an image (`maxArrayLayers`).
    ArrayLayers,
    /// Width of an attachment: `maxFramebufferWidth`.
    FramebufferWidth,
    /// Height of an attachment: `maxFramebufferHeight`.
    FramebufferHeight,
}

impl DescriptionError {
    /// Returns an error for an image without texels.
    pub(crate) fn check_texels(
        extent: [u32; 3],
        mip_levels: u32,
        array_layers: u32,
    ) -> Result<(), DescriptionError> {
        // One error for all: an image needs each of the numbers, and the error names them together.
        if extent.contains(&0) || mip_levels == 0 || array_layers == 0 {
            return Err(Self::ZeroExtent { extent, mip_levels, array_layers });
        }
        Ok(())
    }

    /// Returns an error for usage flags beyond those that are known to be allowed.
    #[cfg(any(feature = "vulkan", all(feature = "d3d12", windows)))]
    pub(crate) fn check_usage(flags: u64, allowed: u64) -> Result<(), DescriptionError> {
        let flags = flags & !allowed;
        if flags == 0 { Ok(()) } else { Err(Self::UnknownUsage { flags }) }
    }

    /// Returns an error for a description of an image without texels.
    #[cfg(any(feature = "simulated", all(feature = "d3d12", windows)))]
    pub(crate) fn check_image(desc: &ImageDesc) -> Result<(), DescriptionError> {
        Self::check_texels(desc.extent, desc.mip_levels, desc.array_layers)
    }
}

impl DescriptionLimit {
    /// Returns what the limit counts.
    const fn unit(self) -> &'static str {
        match self {
            Self::BufferSize | Self::AllocationSize | Self::LibrarySize => "bytes",
            Self::ImageWidth
            | Self::ImageHeight
            | Self::ImageDepth
            | Self::FramebufferWidth
            | Self::FramebufferHeight => "texels",
            Self::MipLevels => "mip levels",
            Self::ArrayLayers => "array layers",
        }
    }

    /// Returns an error if `requested` is above `most`.
    pub(crate) fn check(self, requested: u64, most: u64) -> Result<(), DescriptionError> {
        if requested > most {
            return Err(DescriptionError::AboveLimit { limit: self, requested, most });
        }
        Ok(())
    }

    /// Returns an error for a buffer of size 0 or above the device's limits. `largest_allocation` is `None` for
    /// a sparse buffer, which can be larger than any one memory object.
    pub(crate) fn check_buffer(
        size: u64,
        largest_buffer: u64,
        largest_allocation: Option<u64>,
    ) -> Result<(), DescriptionError> {
        if size == 0 {
            return Err(DescriptionError::ZeroSize);
        }
        // The library's own limit comes first: below it no later sum of sizes and offsets can overflow.
        Self::LibrarySize.check(size, allotment_suballoc::MAX_SIZE)?;
        Self::BufferSize.check(size, largest_buffer)?;
        // A sparse buffer is bound to many memory objects, so the size of one does not limit it.
        Self::AllocationSize.check(size, largest_allocation.unwrap_or(u64::MAX))
    }
}

impl fmt::Display for DescriptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroSize => f.write_str("buffer size must be at least 1 byte, not 0 bytes"),
            Self::ZeroExtent { extent: [width, height, depth], mip_levels, array_layers } => write!(
                f,
                "image needs at least 1 texel in each direction, 1 mip level and 1 array layer: {width} x {height} x {depth} texels, {mip_levels} mip levels, {array_layers} array layers"
            ),
            Self::AboveLimit { limit, requested, most } => {
                let unit = limit.unit();
                write!(f, "{requested} {unit} exceed the limit {limit} of {most} {unit}, request less")
            }
            Self::UnknownFormat { format } => {
                write!(
                    f,
                    "format {format} is not a core format of the device's API version, describe the image with the API's own description"
                )
            }
            Self::UnknownUsage { flags } => write!(
                f,
                "usage flags {flags:#x} are not known to be enabled on the device, use the API's own description of the resource"
            ),
            Self::HeapFlags { flags } => write!(
                f,
                "heap flags {flags:#x} are set by the library, which derives them from the memory type; leave them out"
            ),
            Self::Samples { samples } => write!(f, "{samples} samples per texel is not a power of two, choose 1, 2, 4, 8 or 16"),
            Self::TransientUsage => f.write_str(
                "a transient attachment must be a color, depth-stencil or input attachment and nothing else",
            ),
            Self::ArrayOf3d => f.write_str("a three-dimensional image must have one array layer"),
            Self::Multisampled => f.write_str(
                "a multisampled image must have two dimensions, one mip level and optimal tiling",
            ),
            Self::MultisampledStorage => f.write_str(
                "a storage image must have one sample per texel unless shaderStorageImageMultisample is enabled",
            ),
            Self::Planar => f.write_str(
                "an image of a multi-planar or subsampled format must have two dimensions, one mip level, one array layer and one sample per texel",
            ),
            Self::PlanarExtent { extent: [width, height], multiple: [of_width, of_height] } => write!(
                f,
                "{width} x {height} texels of a subsampled format is not a multiple of {of_width} x {of_height} texels, enlarge it to one"
            ),
            Self::NotShared { memory, resource } => write!(
                f,
                "the memory is shared as handle types {memory:#x} and the resource as {resource:#x}; describe the resource with these types"
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
