//! Errors in descriptions that are found before a driver is called: drivers need not validate these
//! values, and their behaviour is undefined for invalid ones.

use core::error::Error;
use core::fmt;

use super::SamplerError;
#[cfg(any(feature = "simulated", feature = "vulkan", all(feature = "d3d12", windows)))]
use super::{ImageDesc, ImageDimension};

/// The rule that a description breaks: of a buffer, an image, a memory object, a descriptor heap, a sampler or a device. The
/// driver was not called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DescriptionError {
    /// The size of a buffer or a memory object is 0. It must be at least 1.
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
    /// The device has no images of this number of samples per texel with the format, usage and flags of the description.
    SampleCount {
        /// Samples per texel.
        samples: u32,
        /// The supported numbers, which are powers of two, each as a bit (`VkSampleCountFlags`).
        supported: u32,
    },
    /// The resource is bound to memory in parts: sparse (`…_CREATE_SPARSE_BINDING_BIT`) or disjoint
    /// (`…_CREATE_DISJOINT_BIT`). The call binds it to one range of one memory object.
    SeveralBindings,
    /// A transient attachment has a usage other than color, depth-stencil or input attachment, or none of these.
    TransientUsage,
    /// A three-dimensional image has more than one array layer.
    ArrayOf3d,
    /// A one-dimensional image has another height or depth than 1.
    OneDimensional {
        /// Width, height and depth in texels.
        extent: [u32; 3],
    },
    /// A cube is not square, has a depth other than 1, or array layers that are not six for each cube.
    Cube {
        /// Width, height and depth in texels.
        extent: [u32; 3],
        /// Array layers.
        array_layers: u32,
    },
    /// Views of an image cannot have the format: it is of another size or class than the image's format.
    ViewFormat {
        /// The API's number of the view's format.
        format: u32,
    },
    /// A usage needs a feature that the application did not list as enabled. Enable it and list it.
    UsageNotEnabled {
        /// The API's usage flag.
        flag: u32,
        /// The constant of `EnabledFeatures` that lists the feature.
        feature: &'static str,
    },
    /// An attachment of shading rates or of a fragment density map is not two-dimensional, has several samples per texel, or
    /// linear tiling.
    RateAttachment,
    /// A multisampled image is not two-dimensional, has several mip levels, or has linear tiling.
    Multisampled,
    /// A multisampled image has storage usage, and the device was not created with
    /// `shaderStorageImageMultisample` as far as this library knows. Use the API's own description.
    MultisampledStorage,
    /// An image of a multi-planar or subsampled format is not two-dimensional, or has several mip levels, array
    /// layers or samples per texel.
    Planar,
    /// Width or height of an image of a subsampled or compressed format is not a multiple of its block.
    BlockExtent {
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
    /// The capacity of a descriptor heap or layout is 0. It must be at least 1.
    ZeroDescriptors,
    /// A descriptor heap comes without the buffer that it needs, or with one that it does not need. Pass a buffer exactly if
    /// [`descriptor_heap_buffer`](super::DescriptorDevice::descriptor_heap_buffer) describes one.
    DescriptorHeapBuffer,
    /// The types of resource descriptors are none, or one of them is listed twice.
    DescriptorTypes,
    /// A listed type is not one of the six types of resources that slots of a heap can have.
    DescriptorType {
        /// The type (`VkDescriptorType`).
        ty: i32,
        /// Why not, and what to use instead.
        reason: DescriptorTypeReason,
    },
    /// A texture with `D3D12_RESOURCE_FLAG_ALLOW_SIMULTANEOUS_ACCESS` has several samples per texel, or is a depth buffer.
    SimultaneousAccess,
    /// A depth buffer is three-dimensional, a render target or a storage image as well.
    DepthUsage,
    /// A clear value comes with a resource that is neither a render target nor a depth buffer.
    ClearValue,
    /// Castable formats come with a resource without an initial layout.
    CastableFormats,
    /// A custom heap is not of `D3D12_HEAP_TYPE_CUSTOM`, has no CPU page property, or is of a memory pool that the adapter
    /// does not have: L1 exists on adapters with memory of their own.
    CustomHeap,
    /// The heap of a shared handle is smaller than the memory object, of another heap type, or of other resource classes.
    SharedHeap,
    /// A shared handle comes with a resource that is committed: the handle opens a heap, and a committed resource has none.
    SharedHandleOfCommitted,
    /// A number of a sampler is out of its range, or is none.
    Sampler(SamplerError),
}

/// Why slots of a heap cannot have descriptors of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DescriptorTypeReason {
    /// A heap has either resources or samplers, as in Direct3D 12. List sampled images, and take the sampler from a
    /// [`SamplerCache`](crate::descriptor::SamplerCache).
    CombinedImageSampler,
    /// Samplers have a heap of their own, which needs no listing.
    Sampler,
    /// Input attachments are read at the pixel that is drawn and not by an index, and cannot be updated after they are bound on
    /// every device. Create a view ([`ImageViewUse::InputAttachment`](super::ImageViewUse::InputAttachment)), and bind its
    /// handle by a descriptor set of the application's own.
    InputAttachment,
    /// Not every driver that has them has them in mutable slots or updates them after they are bound. Pass the device address
    /// of the acceleration structure to shaders, which convert it, or bind it by a descriptor set of the application's own.
    AccelerationStructure,
    /// The bytes of an inline uniform block are in the set itself, so that it is no slot of constant size. Use a uniform
    /// buffer, or push constants.
    InlineUniformBlock,
    /// The offset of a dynamic buffer is an argument of binding a set, and heaps are bound without. Write a descriptor for each
    /// offset, or a dynamic binding of a [`BindingSet`](crate::descriptor::BindingSet).
    DynamicBuffer,
    /// The type is one of an extension that this library does not know, or none.
    Unknown,
}

impl fmt::Display for DescriptorTypeReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CombinedImageSampler => {
                "a heap has either resources or samplers: list sampled images, and take the sampler from a `SamplerCache`"
            }
            Self::Sampler => "samplers have a heap of their own: leave them out",
            Self::InputAttachment => {
                "input attachments have no index: create an `ImageView`, and bind its handle by a descriptor set of your own"
            }
            Self::AccelerationStructure => {
                "acceleration structures are not in slots: pass their device address to shaders, or bind them by a descriptor set of your own"
            }
            Self::InlineUniformBlock => {
                "an inline uniform block is no slot of constant size: use a uniform buffer or push constants"
            }
            Self::DynamicBuffer => {
                "heaps are bound without offsets: write a descriptor for each, or use a dynamic binding of a `BindingSet`"
            }
            Self::Unknown => "it is not one of the resource types of Vulkan 1.0: leave it out",
        })
    }
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
    /// Bytes of addresses of all [reserved buffers](super::BufferDevice::create_reserved_buffer) that are alive:
    /// `sparseAddressSpaceSize`.
    ReservedAddresses,
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
    /// Descriptors of a shader-visible heap or its layout
    /// ([`DescriptorLimits::shader_visible`](super::DescriptorLimits::shader_visible)).
    DescriptorHeapCapacity,
    /// Anisotropy of a sampler: `maxSamplerAnisotropy`, and 1 unless `samplerAnisotropy` is enabled.
    SamplerAnisotropy,
    /// Bias of a sampler's level of detail: `maxSamplerLodBias`, in whole levels.
    SamplerLodBias,
    /// Static samplers of a pipeline: `maxPerStageDescriptorSamplers`, 2032 on Direct3D 12.
    StaticSamplers,
    /// Queues of a device of this library: 256.
    Queues,
    /// Queues that a tracker of this library follows:
    /// [`TimelinePoints::MAX_QUEUES`](crate::lifetime::TimelinePoints::MAX_QUEUES).
    TrackedQueues,
    /// Memory types of a device of this library: 32.
    MemoryTypes,
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

    /// Returns an error for a description of an image without texels, or of another shape than images of the dimension have
    /// on every device.
    #[cfg(any(feature = "simulated", feature = "vulkan", all(feature = "d3d12", windows)))]
    pub(crate) fn check_image(desc: &ImageDesc) -> Result<(), DescriptionError> {
        let &ImageDesc { extent, mip_levels, array_layers, samples, .. } = desc;
        let [width, height, depth] = extent;
        Self::check_texels(extent, mip_levels, array_layers)?;
        let dimension = desc.resolved_dimension();
        match dimension {
            ImageDimension::D1 if [height, depth] != [1, 1] => return Err(Self::OneDimensional { extent }),
            // Vulkan allows any number of layers from six on, of which the last ones are then in no cube.
            ImageDimension::Cube if width != height || depth != 1 || array_layers % 6 != 0 => {
                return Err(Self::Cube { extent, array_layers });
            }
            ImageDimension::D3 if array_layers != 1 => return Err(Self::ArrayOf3d),
            _ => {}
        }
        // Samples that are no power of two have an error of their own.
        let is_multisampled = samples > 1 && samples.is_power_of_two();
        if is_multisampled && (dimension != ImageDimension::D2 || mip_levels != 1) {
            return Err(Self::Multisampled);
        }
        Ok(())
    }
}

impl DescriptionLimit {
    /// Returns what the limit counts.
    const fn unit(self) -> &'static str {
        match self {
            Self::BufferSize | Self::AllocationSize | Self::ReservedAddresses | Self::LibrarySize => "bytes",
            Self::ImageWidth
            | Self::ImageHeight
            | Self::ImageDepth
            | Self::FramebufferWidth
            | Self::FramebufferHeight => "texels",
            Self::MipLevels => "mip levels",
            Self::ArrayLayers => "array layers",
            Self::DescriptorHeapCapacity => "descriptors",
            Self::SamplerAnisotropy => "samples",
            Self::SamplerLodBias => "levels of detail",
            Self::Queues | Self::TrackedQueues => "queues",
            Self::StaticSamplers => "static samplers",
            Self::MemoryTypes => "memory types",
        }
    }

    /// Returns an error if `requested` is above `most`.
    pub(crate) fn check(self, requested: u64, most: u64) -> Result<(), DescriptionError> {
        if requested > most {
            return Err(DescriptionError::AboveLimit { limit: self, requested, most });
        }
        Ok(())
    }

    /// Returns an error for a memory object of size 0 or above the device's limit.
    pub(crate) fn check_memory(size: u64, largest_allocation: u64) -> Result<(), DescriptionError> {
        if size == 0 {
            return Err(DescriptionError::ZeroSize);
        }
        Self::AllocationSize.check(size, largest_allocation)
    }

    /// Returns an error for a descriptor heap without descriptors, or with more than the device allows.
    pub(crate) fn check_descriptors(capacity: u32, most: u32) -> Result<(), DescriptionError> {
        if capacity == 0 {
            return Err(DescriptionError::ZeroDescriptors);
        }
        Self::DescriptorHeapCapacity.check(capacity.into(), most.into())
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
            Self::ZeroSize => f.write_str("the size must be at least 1 byte, not 0 bytes"),
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
            Self::SampleCount { samples, supported } => {
                write!(f, "{samples} samples per texel is not supported for the format and usage, choose ")?;
                write_bits(f, *supported)
            }
            Self::SeveralBindings => f.write_str(
                "a sparse or disjoint resource is bound to memory in parts, which this call cannot do: create it with the graphics API and allocate memory for each part",
            ),
            Self::TransientUsage => f.write_str(
                "a transient attachment must be a color, depth-stencil or input attachment and nothing else",
            ),
            Self::ArrayOf3d => f.write_str("a three-dimensional image must have one array layer"),
            Self::OneDimensional { extent: [width, height, depth] } => write!(
                f,
                "a one-dimensional image must have height and depth 1: {width} x {height} x {depth} texels"
            ),
            Self::Cube { extent: [width, height, depth], array_layers } => write!(
                f,
                "a cube must be square, with depth 1 and six array layers for each cube: {width} x {height} x {depth} texels, {array_layers} array layers"
            ),
            Self::ViewFormat { format } => write!(
                f,
                "views of the image cannot have format {format}, choose formats of the same size and class as the image's"
            ),
            Self::UsageNotEnabled { flag, feature } => write!(
                f,
                "usage flag {flag:#x} needs a feature that is not listed as enabled, enable it and list it as `EnabledFeatures::{feature}`"
            ),
            Self::RateAttachment => f.write_str(
                "an attachment of shading rates or a fragment density map must have two dimensions, one sample per texel and optimal tiling",
            ),
            Self::Multisampled => f.write_str(
                "a multisampled image must have two dimensions, one mip level and optimal tiling",
            ),
            Self::MultisampledStorage => f.write_str(
                "a storage image must have one sample per texel unless shaderStorageImageMultisample is enabled",
            ),
            Self::Planar => f.write_str(
                "an image of a multi-planar or subsampled format must have two dimensions, one mip level, one array layer and one sample per texel",
            ),
            Self::BlockExtent { extent: [width, height], multiple: [of_width, of_height] } => write!(
                f,
                "{width} x {height} texels of a subsampled or compressed format is not a multiple of {of_width} x {of_height} texels, enlarge it to one"
            ),
            Self::NotShared { memory, resource } => write!(
                f,
                "the memory is shared as handle types {memory:#x} and the resource as {resource:#x}; describe the resource with these types"
            ),
            Self::ZeroDescriptors => f.write_str(
                "the `capacity` of a descriptor heap or its layout is 0 descriptors, ask for at least 1",
            ),
            Self::DescriptorHeapBuffer => f.write_str(
                "a descriptor heap needs a buffer exactly if `descriptor_heap_buffer` describes one, pass it then and only then",
            ),
            Self::DescriptorTypes => f.write_str(
                "the types of resource descriptors must be at least one, each listed once",
            ),
            Self::DescriptorType { ty, reason } => {
                write!(f, "descriptors of type {ty} cannot be in slots of a heap, {reason}")
            }
            Self::SimultaneousAccess => f.write_str(
                "a texture with ALLOW_SIMULTANEOUS_ACCESS must have one sample per texel and be no depth buffer",
            ),
            Self::DepthUsage => f.write_str("a depth buffer must have two dimensions and no other usage"),
            Self::ClearValue => {
                f.write_str("only a render target or a depth buffer has a clear value, leave it out")
            }
            Self::CastableFormats => f.write_str(
                "castable formats need an initial layout, describe the resource with `with_initial_layout`",
            ),
            Self::CustomHeap => f.write_str(
                "a custom heap must be of D3D12_HEAP_TYPE_CUSTOM with a CPU page property, in pool L0, or L1 of an adapter with memory of its own",
            ),
            Self::SharedHeap => f.write_str(
                "the heap of the shared handle is smaller than the memory object, or of another heap type or class: ask for no more, of the memory type that it was exported from",
            ),
            Self::SharedHandleOfCommitted => f.write_str(
                "a shared handle opens a heap, and the resource would be committed: allocate the memory by itself and create the resource in it",
            ),
            Self::Sampler(error) => error.fmt(f),
        }
    }
}

/// Writes the powers of two of a mask: "1, 2 or 4".
fn write_bits(f: &mut fmt::Formatter<'_>, mask: u32) -> fmt::Result {
    let mut left = mask;
    while left != 0 {
        let bit = left & left.wrapping_neg();
        left ^= bit;
        let before = match (bit == mask & mask.wrapping_neg(), left) {
            (true, _) => "",
            (false, 0) => " or ",
            (false, _) => ", ",
        };
        write!(f, "{before}{bit}")?;
    }
    Ok(())
}

impl Error for DescriptionError {}

impl From<SamplerError> for DescriptionError {
    fn from(error: SamplerError) -> Self {
        Self::Sampler(error)
    }
}

impl fmt::Display for DescriptionLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BufferSize => "maxBufferSize",
            Self::AllocationSize => "maxMemoryAllocationSize",
            Self::ReservedAddresses => "sparseAddressSpaceSize",
            Self::LibrarySize => "of this library",
            Self::ImageWidth => "maxExtent.width of the format",
            Self::ImageHeight => "maxExtent.height of the format",
            Self::ImageDepth => "maxExtent.depth of the format",
            Self::MipLevels => "maxMipLevels",
            Self::ArrayLayers => "maxArrayLayers",
            Self::FramebufferWidth => "maxFramebufferWidth",
            Self::FramebufferHeight => "maxFramebufferHeight",
            Self::DescriptorHeapCapacity => "of a shader-visible heap",
            Self::SamplerAnisotropy => "maxSamplerAnisotropy (1 unless samplerAnisotropy is enabled)",
            Self::SamplerLodBias => "maxSamplerLodBias",
            Self::StaticSamplers => "of a pipeline (maxPerStageDescriptorSamplers)",
            Self::Queues | Self::MemoryTypes => "of this library",
            Self::TrackedQueues => "of a tracker of this library",
        })
    }
}
