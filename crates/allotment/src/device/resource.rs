//! What can stand in memory, said in no API's words.
//!
//! For tests, tools and code that runs on every device. An API's own descriptions
//! ([`Device::BufferInfo`](super::Device::BufferInfo), [`Device::ImageInfo`](super::Device::ImageInfo)) can
//! say more, and are made from these.

/// What kind of resource will stand in the memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ResourceKind {
    /// A buffer.
    #[default]
    Buffer,
    /// An image of linear tiling.
    LinearImage,
    /// An image of optimal tiling.
    OptimalImage,
    /// Any of these, by turns perhaps.
    Unknown,
}

impl ResourceKind {
    /// True when the resource must keep the granularity's distance from linear ones.
    pub(crate) const fn is_optimal(self) -> bool {
        matches!(self, Self::OptimalImage | Self::Unknown)
    }

    /// The name that VMA's dumps use.
    pub(crate) const fn dump_name(self) -> &'static str {
        match self {
            Self::Buffer => "BUFFER",
            Self::LinearImage => "IMAGE_LINEAR",
            Self::OptimalImage => "IMAGE_OPTIMAL",
            Self::Unknown => "UNKNOWN",
        }
    }
}

/// A buffer that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BufferDesc {
    /// Bytes, at least 1.
    pub size: u64,
    /// The graphics API's own usage flags (`VkBufferUsageFlags`, `D3D12_RESOURCE_FLAGS`); 0 where there
    /// is nothing to add to "can be copied from and to".
    pub usage: u64,
}

impl BufferDesc {
    /// A buffer of `size` bytes that can be copied from and to.
    #[must_use]
    pub const fn new(size: u64) -> Self {
        Self { size, usage: 0 }
    }

    /// The same with flags of the graphics API.
    #[must_use]
    pub const fn with_usage(self, usage: u64) -> Self {
        Self { usage, ..self }
    }
}

/// How the texels of an image lie in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Tiling {
    /// As the device likes it.
    #[default]
    Optimal,
    /// Row by row. Not on Direct3D 12, which has no such images.
    Linear,
}

/// An image that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageDesc {
    /// Width, height and depth in texels, at least 1 each; an image of depth 1 is two-dimensional.
    pub extent: [u32; 3],
    /// Mip levels, at least 1.
    pub mip_levels: u32,
    /// Array layers, at least 1; 1 where the depth is not.
    pub array_layers: u32,
    /// Samples a texel: 1, 2, 4, 8, 16.
    pub samples: u32,
    /// The graphics API's own number (`VkFormat`, `DXGI_FORMAT`); on the simulated device, bytes a texel.
    pub format: u32,
    /// How its texels lie in memory.
    pub tiling: Tiling,
    /// The graphics API's own usage flags (`VkImageUsageFlags`, `D3D12_RESOURCE_FLAGS`); 0 where there
    /// is nothing to add to "can be copied from and to, and sampled".
    pub usage: u64,
}

impl ImageDesc {
    /// An image of two dimensions, one mip level, one layer and one sample, of optimal tiling.
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
}
