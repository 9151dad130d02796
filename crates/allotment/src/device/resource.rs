//! API-independent descriptions of buffers and images.
//!
//! For tests, tools and code that runs on every device. An API's own descriptions
//! ([`Device::BufferInfo`](super::BufferDevice::BufferInfo), [`Device::ImageInfo`](super::ImageDevice::ImageInfo)) can
//! express more, and can be created from these.

use super::SharingMode;

/// The kind of resource that is bound to memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ResourceKind {
    /// A buffer.
    #[default]
    Buffer,
    /// An image of linear tiling.
    LinearImage,
    /// An image of optimal tiling.
    OptimalImage,
    /// Not known, or resources of several kinds at different times. Treated as both linear and optimal.
    Unknown,
}

impl ResourceKind {
    /// Returns true if the buffer-image granularity must separate the resource from linear ones.
    pub(crate) const fn is_optimal(self) -> bool {
        // An unknown resource counts as optimal here and as linear elsewhere: it must be apart from both.
        matches!(self, Self::OptimalImage | Self::Unknown)
    }
}

/// A buffer to create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BufferDesc {
    /// Size in bytes, at least 1.
    pub size: u64,
    /// The graphics API's usage flags (`VkBufferUsageFlags`, `D3D12_RESOURCE_FLAGS`), in addition to "transfer
    /// source and destination"; 0 for none. Flags that the device is not known to allow are refused
    /// ([`DescriptionError::UnknownUsage`](super::DescriptionError::UnknownUsage)).
    pub usage: u64,
    /// The queues that may use it: by default all of them, one after the other.
    pub sharing_mode: SharingMode,
}

impl BufferDesc {
    /// Describes a buffer of `size` bytes that can be copied from and to.
    #[must_use]
    pub const fn new(size: u64) -> Self {
        Self { size, usage: 0, sharing_mode: SharingMode::Concurrent }
    }

    /// Sets the graphics API's usage flags.
    #[must_use]
    pub const fn with_usage(self, usage: u64) -> Self {
        Self { usage, ..self }
    }

    /// Sets the queues that may use the buffer.
    ///
    /// ```
    /// use allotment::device::{BufferDesc, SharingMode};
    ///
    /// let mesh = BufferDesc::new(4096).with_sharing_mode(SharingMode::Exclusive);
    /// assert_eq!(BufferDesc::new(4096).sharing_mode, SharingMode::Concurrent);
    /// ```
    #[must_use]
    pub const fn with_sharing_mode(self, sharing_mode: SharingMode) -> Self {
        Self { sharing_mode, ..self }
    }
}

/// How the texels of an image are laid out in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Tiling {
    /// In an order that the driver chooses.
    #[default]
    Optimal,
    /// Row by row. Not available in Direct3D 12, which has no such images.
    Linear,
}

/// The dimension of an image: `VkImageType`, `D3D12_RESOURCE_DIMENSION`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ImageDimension {
    /// One: height and depth are 1.
    D1,
    /// Two, if the depth is 1; an image of a larger depth has three.
    #[default]
    D2,
    /// Three, also if the depth is 1.
    D3,
    /// Two, with array layers that are the faces of cubes, six for each (`VK_IMAGE_CREATE_CUBE_COMPATIBLE_BIT`).
    Cube,
}

/// An image to create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageDesc {
    /// The dimension.
    pub dimension: ImageDimension,
    /// Width, height and depth in texels, at least 1 each.
    pub extent: [u32; 3],
    /// Mip levels, at least 1.
    pub mip_levels: u32,
    /// Array layers, at least 1; exactly 1 of a three-dimensional image, and a multiple of 6 of a cube.
    pub array_layers: u32,
    /// Samples per texel: 1, 2, 4, 8, 16.
    pub samples: u32,
    /// The graphics API's format number (`VkFormat`, `DXGI_FORMAT`); on the simulated GPU, bytes per texel, or a number of
    /// `SimulatedGpu::format`.
    pub format: u32,
    /// Further formats that views of the image may have; 0 for none. See [`with_view_formats`](Self::with_view_formats).
    pub view_formats: [u32; Self::MAX_VIEW_FORMATS],
    /// How the texels are laid out in memory.
    pub tiling: Tiling,
    /// The graphics API's usage flags (`VkImageUsageFlags`, `D3D12_RESOURCE_FLAGS`), in addition to "transfer
    /// source and destination, and sampled"; 0 for none. Flags that the device is not known to allow are refused
    /// ([`DescriptionError::UnknownUsage`](super::DescriptionError::UnknownUsage)).
    pub usage: u64,
    /// The queues that may use it: by default those of one family at a time.
    pub sharing_mode: SharingMode,
}

impl ImageDesc {
    /// The most formats that views may have beside the image's own.
    pub const MAX_VIEW_FORMATS: usize = 4;

    /// Describes a two-dimensional image with one mip level, one array layer, one sample and optimal tiling.
    ///
    /// `format` is a `VkFormat` on Vulkan and a `DXGI_FORMAT` on Direct3D 12. The simulated GPU has no formats: there it
    /// is the number of bytes a texel.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device, GpuDesc::default())?;
    /// // On the simulated GPU, 4 bytes a texel. 37, which on Vulkan is `VK_FORMAT_R8G8B8A8_UNORM`, would be 37 bytes a
    /// // texel here.
    /// let albedo = gpu.create_image(&ImageDesc::new(256, 256, 4), &MemoryUsage::GpuOnly.with_name("albedo"))?;
    /// assert_eq!(albedo.size(), 256 * 256 * 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn new(width: u32, height: u32, format: u32) -> Self {
        Self {
            dimension: ImageDimension::D2,
            extent: [width, height, 1],
            mip_levels: 1,
            array_layers: 1,
            samples: 1,
            format,
            view_formats: [0; Self::MAX_VIEW_FORMATS],
            tiling: Tiling::Optimal,
            usage: 0,
            sharing_mode: SharingMode::Exclusive,
        }
    }

    /// Describes a one-dimensional image, as [`new`](Self::new) does a two-dimensional one.
    ///
    /// ```
    /// use allotment::device::{ImageDesc, ImageDimension};
    ///
    /// let gradient = ImageDesc::new_1d(256, 4);
    /// assert_eq!((gradient.dimension, gradient.extent), (ImageDimension::D1, [256, 1, 1]));
    /// ```
    #[must_use]
    pub const fn new_1d(width: u32, format: u32) -> Self {
        Self { dimension: ImageDimension::D1, ..Self::new(width, 1, format) }
    }

    /// Describes a three-dimensional image, as [`new`](Self::new) does a two-dimensional one.
    ///
    /// ```
    /// use allotment::device::{ImageDesc, ImageDimension};
    ///
    /// let fog = ImageDesc::new_3d(160, 90, 64, 8);
    /// assert_eq!((fog.dimension, fog.extent), (ImageDimension::D3, [160, 90, 64]));
    /// ```
    #[must_use]
    pub const fn new_3d(width: u32, height: u32, depth: u32, format: u32) -> Self {
        let extent = [width, height, depth];
        Self { dimension: ImageDimension::D3, extent, ..Self::new(width, height, format) }
    }

    /// Describes a cube of six faces of `side` by `side` texels. An array of cubes has six
    /// [array layers](Self::with_array_layers) for each.
    ///
    /// ```
    /// use allotment::device::ImageDesc;
    ///
    /// let probes = ImageDesc::new_cube(128, 4).with_array_layers(4 * 6);
    /// assert_eq!(probes.extent, [128, 128, 1]);
    /// assert_eq!(ImageDesc::new_cube(128, 4).array_layers, 6);
    /// ```
    #[must_use]
    pub const fn new_cube(side: u32, format: u32) -> Self {
        Self { dimension: ImageDimension::Cube, array_layers: 6, ..Self::new(side, side, format) }
    }

    /// Sets the number of mip levels.
    #[must_use]
    pub const fn with_mip_levels(self, mip_levels: u32) -> Self {
        Self { mip_levels, ..self }
    }

    /// Sets the number of mip levels to all that the image can have, down to a single texel.
    ///
    /// ```
    /// use allotment::device::ImageDesc;
    ///
    /// assert_eq!(ImageDesc::new(300, 200, 4).with_full_mips().mip_levels, 9); // 300, 150, 75, 37, 18, 9, 4, 2, 1
    /// ```
    #[must_use]
    pub const fn with_full_mips(self) -> Self {
        let [width, height, depth] = self.extent;
        // The longest side decides, and the highest bit of all is its own. Without texels, an image has one level at least.
        let mip_levels = u32::BITS - (width | height | depth | 1).leading_zeros();
        Self { mip_levels, ..self }
    }

    /// Sets the number of samples per texel: 1, 2, 4, 8, 16. Which are supported depends on the device, the format and
    /// the usage; an image of several samples is two-dimensional and has one mip level.
    ///
    /// ```
    /// use allotment::device::ImageDesc;
    ///
    /// assert_eq!(ImageDesc::new(1920, 1080, 4).with_samples(4).samples, 4);
    /// ```
    #[must_use]
    pub const fn with_samples(self, samples: u32) -> Self {
        Self { samples, ..self }
    }

    /// Sets further formats that views of the image may have, such as the sRGB one of a `UNORM` format: at most
    /// [`MAX_VIEW_FORMATS`](Self::MAX_VIEW_FORMATS), which is checked when the program is compiled.
    ///
    /// On Vulkan the image gets `VK_IMAGE_CREATE_MUTABLE_FORMAT_BIT`, and the list from Vulkan 1.2 on. On Direct3D 12 it is
    /// created with the typeless format of the family, so each view names its format, and a depth buffer can be read as a
    /// color. Formats that views cannot have are refused
    /// ([`DescriptionError::ViewFormat`](super::DescriptionError::ViewFormat)).
    ///
    /// ```
    /// use allotment::device::ImageDesc;
    ///
    /// // `VK_FORMAT_R8G8B8A8_UNORM`, which is also read as `VK_FORMAT_R8G8B8A8_SRGB`.
    /// let albedo = ImageDesc::new(256, 256, 37).with_view_formats([43]);
    /// assert_eq!(albedo.view_formats, [43, 0, 0, 0]);
    /// ```
    #[must_use]
    pub const fn with_view_formats<const N: usize>(self, formats: [u32; N]) -> Self {
        const { assert!(N <= Self::MAX_VIEW_FORMATS, "too many view formats") };
        let mut view_formats = [0; Self::MAX_VIEW_FORMATS];
        let mut at = 0;
        while at < N {
            view_formats[at] = formats[at];
            at += 1;
        }
        Self { view_formats, ..self }
    }

    /// Returns the dimension that the image has: three where the depth is above 1.
    #[cfg(any(feature = "simulated", feature = "vulkan", all(feature = "d3d12", windows)))]
    pub(super) fn resolved_dimension(&self) -> ImageDimension {
        match self.dimension {
            ImageDimension::D2 if self.extent[2] > 1 => ImageDimension::D3,
            dimension => dimension,
        }
    }

    /// Returns the further formats of views.
    #[cfg(any(feature = "simulated", feature = "vulkan", all(feature = "d3d12", windows)))]
    pub(super) fn views(&self) -> impl Iterator<Item = u32> + use<> {
        self.view_formats.into_iter().filter(|&format| format != 0)
    }

    /// Sets the number of array layers.
    #[must_use]
    pub const fn with_array_layers(self, array_layers: u32) -> Self {
        Self { array_layers, ..self }
    }

    /// Sets the graphics API's usage flags.
    ///
    /// ```
    /// use allotment::device::ImageDesc;
    ///
    /// let target = ImageDesc::new(256, 256, 37).with_usage(0x10); // RGBA8, a colour attachment, on Vulkan
    /// assert_eq!((target.extent, target.mip_levels), ([256, 256, 1], 1));
    /// ```
    #[must_use]
    pub const fn with_usage(self, usage: u64) -> Self {
        Self { usage, ..self }
    }

    /// Sets the queues that may use the image.
    ///
    /// ```
    /// use allotment::device::{ImageDesc, SharingMode};
    ///
    /// // A compute queue writes it, and a graphics queue reads it, without transfers of ownership.
    /// let fog = ImageDesc::new_3d(160, 90, 64, 8).with_sharing_mode(SharingMode::Concurrent);
    /// assert_eq!(ImageDesc::new(16, 16, 4).sharing_mode, SharingMode::Exclusive);
    /// ```
    #[must_use]
    pub const fn with_sharing_mode(self, sharing_mode: SharingMode) -> Self {
        Self { sharing_mode, ..self }
    }
}
