//! API-independent descriptions of buffers and images.
//!
//! For tests, tools and code that runs on every device. An API's own descriptions
//! ([`Device::BufferInfo`](super::BufferDevice::BufferInfo), [`Device::ImageInfo`](super::ImageDevice::ImageInfo)) can
//! express more, and can be created from these.

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
}

impl BufferDesc {
    /// Describes a buffer of `size` bytes that can be copied from and to.
    #[must_use]
    pub const fn new(size: u64) -> Self {
        Self { size, usage: 0 }
    }

    /// Sets the graphics API's usage flags.
    #[must_use]
    pub const fn with_usage(self, usage: u64) -> Self {
        Self { usage, ..self }
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

/// An image to create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageDesc {
    /// Width, height and depth in texels, at least 1 each. An image of depth 1 is two-dimensional.
    pub extent: [u32; 3],
    /// Mip levels, at least 1.
    pub mip_levels: u32,
    /// Array layers, at least 1; exactly 1 if the depth is not 1.
    pub array_layers: u32,
    /// Samples per texel: 1, 2, 4, 8, 16.
    pub samples: u32,
    /// The graphics API's format number (`VkFormat`, `DXGI_FORMAT`); on the simulated GPU, bytes per texel.
    pub format: u32,
    /// How the texels are laid out in memory.
    pub tiling: Tiling,
    /// The graphics API's usage flags (`VkImageUsageFlags`, `D3D12_RESOURCE_FLAGS`), in addition to "transfer
    /// source and destination, and sampled"; 0 for none. Flags that the device is not known to allow are refused
    /// ([`DescriptionError::UnknownUsage`](super::DescriptionError::UnknownUsage)).
    pub usage: u64,
}

impl ImageDesc {
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
            extent: [width, height, 1],
            mip_levels: 1,
            array_layers: 1,
            samples: 1,
            format,
            tiling: Tiling::Optimal,
            usage: 0,
        }
    }

    /// Sets the number of mip levels.
    #[must_use]
    pub const fn with_mip_levels(self, mip_levels: u32) -> Self {
        Self { mip_levels, ..self }
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
}
