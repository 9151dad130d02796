//! Recorded buffers and images.

use crate::image::ImageShape;

/// The index of a resource in [`Trace::resources`](crate::Trace::resources).
///
/// Indices are dense and in the order of allocation: the first allocated resource has index 0, the next 1, and so
/// on. Store per-resource state in a `Vec` of [`Trace::resource_count`](crate::Trace::resource_count) elements. An
/// index is valid only for its own trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceIndex(u32);

impl ResourceIndex {
    pub(crate) const fn new(index: u32) -> Self {
        Self(index)
    }

    /// Returns the index as a number.
    #[must_use]
    pub const fn as_u32(self) -> u32 {
        self.0
    }

    /// Returns the index for indexing a slice.
    #[must_use]
    pub const fn as_usize(self) -> usize {
        self.0 as usize
    }
}

/// A buffer or an image that the recorded program bound to memory.
///
/// # Examples
///
/// ```
/// use allotment_trace::{ResourceKind, Trace};
///
/// let csv = "op,id,size,alignment,kind,name\na,5,4096,256,buffer,17\n";
/// let trace = Trace::read(csv.as_bytes())?;
/// let buffer = &trace.resources()[0];
/// assert_eq!((buffer.id(), buffer.size(), buffer.alignment()), (5, 4096, 256));
/// // VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT
/// assert_eq!(buffer.kind(), ResourceKind::Buffer { usage: Some(0x11) });
/// # Ok::<(), allotment_trace::TraceError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Resource {
    pub(crate) id: u64,
    /// 1 to [`MAX_SIZE`](crate::MAX_SIZE).
    pub(crate) size: u64,
    /// A power of two up to [`MAX_ALIGNMENT`](crate::MAX_ALIGNMENT).
    pub(crate) alignment: u64,
    pub(crate) kind: ResourceKind,
    /// Has no `\n`, which ends a line.
    pub(crate) name: Box<str>,
}

impl Resource {
    /// Returns the id that the recorder assigned, unique in its trace. Useful in messages and for other tools;
    /// within a trace use its [`ResourceIndex`].
    #[must_use]
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// Returns its size in bytes, as the driver required: 1 to [`MAX_SIZE`](crate::MAX_SIZE).
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Returns its alignment in bytes, as the driver required: a power of two up to
    /// [`MAX_ALIGNMENT`](crate::MAX_ALIGNMENT).
    #[must_use]
    pub const fn alignment(&self) -> u64 {
        self.alignment
    }

    /// Returns whether it is a buffer or an image.
    #[must_use]
    pub const fn kind(&self) -> ResourceKind {
        self.kind
    }

    /// Returns a buffer's `VkBufferUsageFlags`, if the recorder knew them. `None` for an image.
    #[must_use]
    pub const fn usage(&self) -> Option<u32> {
        match self.kind {
            ResourceKind::Buffer { usage } => usage,
            ResourceKind::Image => None,
        }
    }

    /// Returns an image's format, extent, mip levels and layers, if its name has them. `None` for a buffer.
    ///
    /// The recorded size may not match such an image: another driver may need another size.
    #[must_use]
    pub fn image_shape(&self) -> Option<ImageShape<'_>> {
        match self.kind {
            ResourceKind::Image => ImageShape::parse(&self.name),
            ResourceKind::Buffer { .. } => None,
        }
    }

    /// Returns the name field as written: an image's format and extent, a buffer's usage flags as a decimal number,
    /// or empty. It may contain any character but `\n`; escape it for display.
    #[must_use]
    pub const fn name(&self) -> &str {
        &self.name
    }
}

/// The kind of a resource.
///
/// Buffers and images are distinguished because drivers do so: on some hardware the two must not share a page
/// (Vulkan's `bufferImageGranularity`) or a heap (D3D12's resource heap tier 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResourceKind {
    /// A buffer.
    Buffer {
        /// Its `VkBufferUsageFlags`, if the recorder knew them.
        usage: Option<u32>,
    },
    /// An image.
    Image,
}
