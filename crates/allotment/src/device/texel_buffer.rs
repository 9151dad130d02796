//! Buffers that shaders see as texels, described for every API.

use core::fmt;
use core::ops::Range;

/// How shaders see a buffer as texels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TexelBufferUse {
    /// They load texels (`Buffer<float4>`, `textureBuffer`).
    Uniform,
    /// They load and store texels (`RWBuffer<float4>`, `imageBuffer`).
    Storage,
}

impl fmt::Display for TexelBufferUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Uniform => "uniform texel buffer",
            Self::Storage => "storage texel buffer",
        })
    }
}

/// A view of a buffer as texels to create.
///
/// ```
/// use allotment::device::{TexelBufferDesc, TexelBufferUse};
///
/// let positions = TexelBufferDesc::new(0..1 << 16, 109, TexelBufferUse::Uniform); // VK_FORMAT_R32G32B32A32_SFLOAT
/// assert_eq!(positions.range.end, 65_536);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct TexelBufferDesc {
    /// The bytes: whole texels.
    pub range: Range<u64>,
    /// The graphics API's format number (`VkFormat`, `DXGI_FORMAT`); on the simulated GPU, bytes per texel.
    pub format: u32,
    /// How shaders see it.
    pub usage: TexelBufferUse,
}

impl TexelBufferDesc {
    /// Describes a range of a buffer as texels of a format.
    #[must_use]
    pub const fn new(range: Range<u64>, format: u32, usage: TexelBufferUse) -> Self {
        Self { range, format, usage }
    }
}

/// The limits of views of buffers as texels of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TexelBufferLimits {
    /// Bytes per texel, at least 1. Ranges have whole texels.
    pub texel: u64,
    /// Alignment of the start of a range in bytes; no power of two where that of a texel is none.
    pub alignment: u64,
    /// The maximum number of texels.
    pub max_texels: u64,
}
