//! What a trace says about one buffer or image.

use crate::image::ImageShape;

/// The place of a resource in [`Trace::resources`](crate::Trace::resources).
///
/// Indices are dense and in the order of allocation: the first resource a trace allocates has index 0,
/// the next has 1, and so on. Keep what you know about each resource in a `Vec` of
/// [`Trace::resource_count`](crate::Trace::resource_count) elements. An index means nothing in another
/// trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceIndex(u32);

impl ResourceIndex {
    pub(crate) const fn new(index: u32) -> Self {
        Self(index)
    }

    /// The index as a number.
    #[must_use]
    pub const fn as_u32(self) -> u32 {
        self.0
    }

    /// The index as it is used to index a slice.
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
    /// Without `\n`, as a line ends there.
    pub(crate) name: Box<str>,
}

impl Resource {
    /// The number the recorder gave it, unique in its trace. For people and for other tools; within a
    /// trace a [`ResourceIndex`] is the better name.
    #[must_use]
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// Its size in bytes, as the driver asked for it: 1 to [`MAX_SIZE`](crate::MAX_SIZE).
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Its alignment in bytes, as the driver asked for it: a power of two up to
    /// [`MAX_ALIGNMENT`](crate::MAX_ALIGNMENT).
    #[must_use]
    pub const fn alignment(&self) -> u64 {
        self.alignment
    }

    /// Whether it is a buffer or an image.
    #[must_use]
    pub const fn kind(&self) -> ResourceKind {
        self.kind
    }

    /// A buffer's `VkBufferUsageFlags`, where the recorder knew them. `None` for an image.
    #[must_use]
    pub const fn usage(&self) -> Option<u32> {
        match self.kind {
            ResourceKind::Buffer { usage } => usage,
            ResourceKind::Image => None,
        }
    }

    /// An image's format, extent, mip levels and layers, where its name says them. `None` for a buffer.
    ///
    /// Nothing checks that such an image has the recorded size: another driver may need another one.
    #[must_use]
    pub fn image_shape(&self) -> Option<ImageShape<'_>> {
        match self.kind {
            ResourceKind::Image => ImageShape::parse(&self.name),
            ResourceKind::Buffer { .. } => None,
        }
    }

    /// The name field as it was written: an image's format and extent, a buffer's usage flags as a
    /// decimal number, or empty. It may hold any character but `\n`; escape it before you show it.
    #[must_use]
    pub const fn name(&self) -> &str {
        &self.name
    }
}

/// What a resource is.
///
/// Buffers and images are told apart because drivers do: on some hardware the two must not share a page
/// (Vulkan's `bufferImageGranularity`) or a heap (D3D12's resource heap tier 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResourceKind {
    /// A buffer.
    Buffer {
        /// Its `VkBufferUsageFlags`, where the recorder knew them.
        usage: Option<u32>,
    },
    /// An image.
    Image,
}
