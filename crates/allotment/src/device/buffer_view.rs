//! Views of bytes of buffers, described for every API, and what a buffer was created to be seen as.

use core::fmt;
use core::ops::Range;

use bitflags::bitflags;

use super::{BufferUse, TexelBufferUse};

/// A view of a range of a buffer to create, the same for every API: constants, raw bytes, or an array of structures.
///
/// ```
/// use allotment::device::{BufferUse, BufferViewDesc};
///
/// let camera = BufferViewDesc::new(0..256, BufferUse::Constants); // a CBV, a uniform buffer
/// let counters = BufferViewDesc::new(256..1024, BufferUse::ReadWrite); // a raw UAV, a storage buffer
/// let lights = BufferViewDesc::new(1024..4096, BufferUse::ReadOnly).with_stride(64); // `StructuredBuffer<Light>`
/// assert_eq!(lights.stride, Some(64));
/// # let _ = (camera, counters);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct BufferViewDesc {
    /// The bytes. The [use](BufferUse) says at which multiples they start and end.
    pub range: Range<u64>,
    /// How shaders see them.
    pub usage: BufferUse,
    /// The size of a structure in bytes, of an array of structures; `None` for raw bytes and constants. A multiple of 4, and at
    /// most [`MAX_STRIDE`](Self::MAX_STRIDE). The range has whole structures, and starts at a multiple of their size too.
    /// Vulkan has no such views: there the shader knows the structure, and the view is one of raw bytes.
    pub stride: Option<u32>,
}

impl BufferViewDesc {
    /// The largest structure in bytes (`D3D12_REQ_MULTI_ELEMENT_STRUCTURE_SIZE_IN_BYTES`).
    pub const MAX_STRIDE: u32 = 2048;

    /// Describes a view of a range of a buffer.
    #[must_use]
    pub const fn new(range: Range<u64>, usage: BufferUse) -> Self {
        Self { range, usage, stride: None }
    }

    /// Sets the size of a structure in bytes.
    #[must_use]
    pub fn with_stride(self, stride: u32) -> Self {
        Self { stride: Some(stride), ..self }
    }
}

bitflags! {
    /// What a buffer was created to be seen as by shaders.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct BufferViewUses: u8 {
        /// [Constants](BufferUse::Constants).
        const CONSTANTS = 1;
        /// Bytes that are [read](BufferUse::ReadOnly).
        const READ_ONLY = 1 << 1;
        /// Bytes that are [read and written](BufferUse::ReadWrite).
        const READ_WRITE = 1 << 2;
        /// Texels that are [loaded](TexelBufferUse::Uniform).
        const UNIFORM_TEXELS = 1 << 3;
        /// Texels that are [loaded and stored](TexelBufferUse::Storage).
        const STORAGE_TEXELS = 1 << 4;
        /// Acceleration structures, of which the API has descriptors of their own.
        const ACCELERATION_STRUCTURE = 1 << 5;
    }
}

/// Names the uses, with what to add to a description, as messages do.
impl fmt::Display for BufferViewUses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (Self::CONSTANTS, "constants (VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT)"),
            (Self::READ_ONLY, "bytes that shaders read (VK_BUFFER_USAGE_STORAGE_BUFFER_BIT)"),
            (
                Self::READ_WRITE,
                "bytes that shaders write (VK_BUFFER_USAGE_STORAGE_BUFFER_BIT, D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS)",
            ),
            (Self::UNIFORM_TEXELS, "texels that shaders load (VK_BUFFER_USAGE_UNIFORM_TEXEL_BUFFER_BIT)"),
            (
                Self::STORAGE_TEXELS,
                "texels that shaders store (VK_BUFFER_USAGE_STORAGE_TEXEL_BUFFER_BIT, D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS)",
            ),
            (Self::ACCELERATION_STRUCTURE, "acceleration structures"),
        ];
        let mut separator = "";
        for (_, name) in names.into_iter().filter(|&(flag, _)| self.contains(flag)) {
            write!(f, "{separator}{name}")?;
            separator = ", ";
        }
        if separator.is_empty() { f.write_str("nothing") } else { Ok(()) }
    }
}

impl BufferUse {
    pub(crate) const fn flag(self) -> BufferViewUses {
        match self {
            Self::ReadOnly => BufferViewUses::READ_ONLY,
            Self::ReadWrite => BufferViewUses::READ_WRITE,
            Self::Constants => BufferViewUses::CONSTANTS,
        }
    }
}

impl TexelBufferUse {
    pub(crate) const fn flag(self) -> BufferViewUses {
        match self {
            Self::Uniform => BufferViewUses::UNIFORM_TEXELS,
            Self::Storage => BufferViewUses::STORAGE_TEXELS,
        }
    }
}
