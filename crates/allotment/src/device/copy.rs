//! Copies that queues execute: bytes between buffers, texels between buffers and images, and whole images.

use core::fmt;

use bitflags::bitflags;

use super::{Device, ImageAspect, ImageRegion, Limits, TexelLayout};

bitflags! {
    /// The copies that a buffer was created for; see
    /// [`buffer_transfer_usage`](crate::device::BufferDevice::buffer_transfer_usage).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct TransferUsage: u8 {
        /// Copy source (`VK_BUFFER_USAGE_TRANSFER_SRC_BIT`).
        const SRC = 1;
        /// Copy destination (`VK_BUFFER_USAGE_TRANSFER_DST_BIT`).
        const DST = 1 << 1;
    }
}

/// Names the flags to add, as messages do.
impl fmt::Display for TransferUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.contains(Self::SRC), self.contains(Self::DST)) {
            (true, true) => {
                "transfer source and destination (VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT)"
            }
            (true, false) => "transfer source (VK_BUFFER_USAGE_TRANSFER_SRC_BIT)",
            (false, true) => "transfer destination (VK_BUFFER_USAGE_TRANSFER_DST_BIT)",
            (false, false) => "no transfer usage",
        })
    }
}

/// A copy of bytes from one buffer to another, or within one buffer if the ranges do not overlap.
pub struct BufferCopy<'a, D: Device> {
    /// The source.
    pub from: &'a D::Buffer,
    /// Offset in the source in bytes.
    pub from_offset: u64,
    /// The destination.
    pub to: &'a D::Buffer,
    /// Offset in the destination in bytes.
    pub to_offset: u64,
    /// Size in bytes.
    pub size: u64,
}

impl<D: Device> fmt::Debug for BufferCopy<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferCopy")
            .field("from", &self.from)
            .field("from_offset", &self.from_offset)
            .field("to", &self.to)
            .field("to_offset", &self.to_offset)
            .field("size", &self.size)
            .finish()
    }
}

/// A copy of texels between a buffer and a box of one aspect of a subresource, that is one mip level of one array layer.
/// The image has one sample per texel.
///
/// In the buffer the texels form rows of blocks. The rows of a depth slice follow each other, and so do the slices:
///
/// ```text
///   buffer_offset                    row_pitch
///   ├────────────────────────────────┤
///   ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓░░░░░░░
///   ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓░░░░░░░   `rows` of them to the next slice
///   …                                   of the last row, only the blocks themselves are accessed
/// ```
///
/// [`TexelBlock::row_pitch`], [`TexelBlock::offset`] and [`TexelBlock::rows`] calculate a layout that a device
/// supports.
///
/// A box with a side of 0 has no texels: the copy only transitions the subresource.
pub struct ImageCopy<'a, D: Device> {
    /// The buffer.
    pub buffer: &'a D::Buffer,
    /// Bytes from the buffer's start to the first block, a multiple of [`Limits::image_copy_offset_alignment`]
    /// and, in Vulkan, of the block size in bytes.
    pub buffer_offset: u64,
    /// Bytes from one row of blocks to the next, a multiple of [`Limits::image_copy_row_alignment`] and, in
    /// Vulkan, of the block size in bytes.
    pub row_pitch: u64,
    /// Rows of blocks from one depth slice to the next.
    pub rows: u32,
    /// The image.
    pub image: &'a D::Image,
    /// The mip level.
    pub mip_level: u32,
    /// The array layer.
    pub array_layer: u32,
    /// The aspect. Depth and stencil are copied by graphics queues, and in Direct3D 12 as whole mip levels.
    pub aspect: ImageAspect,
    /// The first texel of the box: x, y and z, multiples of the block's sides, in texels of the aspect.
    pub origin: [u32; 3],
    /// Width, height and depth of the box in texels of the aspect: multiples of the block's sides, or up to the end of the
    /// mip level. On a Vulkan queue whose family has a `minImageTransferGranularity`, origin and extent satisfy it.
    pub extent: [u32; 3],
    /// How the texels of the image's format lie in a buffer, for all of its aspects: those of
    /// [`ImageShape::texels`](super::ImageShape::texels).
    pub texels: TexelLayout,
    /// The direction of the copy.
    pub direction: CopyDirection,
    /// The state that the subresource is in when the copy begins, with all of its aspects.
    pub before: D::ImageState,
    /// The state to which the subresource is transitioned after the copy, with all of its aspects.
    pub after: D::ImageState,
}

impl<D: Device> ImageCopy<'_, D> {
    /// Returns the texel block of the aspect; `None` if the format has no such aspect, or the block no bytes or no texels.
    #[cfg(any(feature = "simulated", feature = "vulkan", all(feature = "d3d12", windows)))]
    pub(super) fn block(&self) -> Option<TexelBlock> {
        // What is counted in blocks is divided by these numbers.
        self.texels.block(self.aspect).filter(|block| block.bytes > 0 && block.width > 0 && block.height > 0)
    }
}

impl<D: Device> Clone for ImageCopy<'_, D> {
    fn clone(&self) -> Self {
        // By hand: a derive would require `D: Clone`, though only references are copied.
        *self
    }
}

impl<D: Device> Copy for ImageCopy<'_, D> {}

impl<D: Device> fmt::Debug for ImageCopy<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImageCopy")
            .field("buffer", &self.buffer)
            .field("buffer_offset", &self.buffer_offset)
            .field("row_pitch", &self.row_pitch)
            .field("rows", &self.rows)
            .field("image", &self.image)
            .field("mip_level", &self.mip_level)
            .field("array_layer", &self.array_layer)
            .field("aspect", &self.aspect)
            .field("origin", &self.origin)
            .field("extent", &self.extent)
            .field("texels", &self.texels)
            .field("direction", &self.direction)
            .field("before", &self.before)
            .field("after", &self.after)
            .finish()
    }
}

/// A copy of all texels of an image into another image of the same description: all mip levels, array layers, samples
/// and aspects. [`relocatable_image_info`](crate::device::ImageDevice::relocatable_image_info) tells which images
/// support it.
pub struct FullImageCopy<'a, D: Device> {
    /// The source image.
    pub from: &'a D::Image,
    /// The destination, another image in its initial state: nothing has transitioned it since its creation.
    pub to: &'a D::Image,
    /// The description from which both were created.
    pub info: &'a D::ImageInfo<'static>,
    /// The state of all of `from` when the copy begins, which is restored after it.
    pub before: D::ImageState,
    /// The state to which all of `to` is transitioned after the copy. Its previous contents are lost.
    pub after: D::ImageState,
}

impl<D: Device> Clone for FullImageCopy<'_, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D: Device> Copy for FullImageCopy<'_, D> {}

impl<D: Device> fmt::Debug for FullImageCopy<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FullImageCopy")
            .field("from", &self.from)
            .field("to", &self.to)
            .field("info", &self.info)
            .field("before", &self.before)
            .field("after", &self.after)
            .finish()
    }
}

/// Texels that the CPU copies from its own memory into an image: see
/// [`ImageDevice::write_image_from_host`](crate::device::ImageDevice::write_image_from_host).
pub struct HostImageWrite<'a, D: Device> {
    /// The texels of the box: slice by slice, row of blocks by row of blocks, without padding.
    pub bytes: &'a [u8],
    /// The image.
    pub image: &'a D::Image,
    /// The box of texels of one aspect of a subresource, with at least one texel.
    pub region: ImageRegion,
    /// How the texels of the image's format lie in a buffer, for all of its aspects.
    pub texels: TexelLayout,
    /// The state that the subresource is in, with all of its aspects: the default state, or that after an earlier write.
    pub before: D::ImageState,
    /// The state that it is in afterwards.
    pub after: D::ImageState,
}

impl<D: Device> Clone for HostImageWrite<'_, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D: Device> Copy for HostImageWrite<'_, D> {}

impl<D: Device> fmt::Debug for HostImageWrite<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostImageWrite")
            .field("bytes", &self.bytes.len())
            .field("image", &self.image)
            .field("region", &self.region)
            .field("texels", &self.texels)
            .field("before", &self.before)
            .field("after", &self.after)
            .finish()
    }
}

/// The direction of an [`ImageCopy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CopyDirection {
    /// From the buffer to the image.
    IntoImage,
    /// From the image to the buffer.
    OutOfImage,
}

/// The smallest addressable part of an image: one texel, or one block of a compressed format.
///
/// ```
/// use allotment::device::TexelBlock;
///
/// let bc1 = TexelBlock { bytes: 8, width: 4, height: 4 };
/// assert_eq!(bc1.row_bytes(10), 3 * 8);
/// assert_eq!(bc1.rows(10), 3);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TexelBlock {
    /// Bytes per block, at least 1.
    pub bytes: u32,
    /// Width of a block in texels, at least 1.
    pub width: u32,
    /// Height of a block in texels, at least 1.
    pub height: u32,
}

impl TexelBlock {
    /// Describes an uncompressed texel of `bytes` bytes.
    #[must_use]
    pub const fn new(bytes: u32) -> Self {
        Self { bytes, width: 1, height: 1 }
    }

    /// Returns the bytes of a row of blocks that contains `width` texels.
    #[must_use]
    pub const fn row_bytes(self, width: u32) -> u64 {
        width.div_ceil(self.width) as u64 * self.bytes as u64
    }

    /// Returns the rows of blocks that contain `height` rows of texels.
    #[must_use]
    pub const fn rows(self, height: u32) -> u32 {
        height.div_ceil(self.height)
    }

    /// Returns the smallest row pitch in bytes that every device with these limits supports for `width` texels.
    #[must_use]
    pub fn row_pitch(self, width: u32, limits: &Limits) -> u64 {
        // The step is a common multiple: Vulkan counts rows in whole blocks, Direct3D 12 in 256 bytes.
        self.whole(limits.image_copy_row_alignment.get()).map_or(0, |step| {
            // The product stays below 2^64: at most 2^32 blocks of at most 2^32 bytes, and a step below 2^63.
            self.row_bytes(width).div_ceil(step).saturating_mul(step)
        })
    }

    /// Returns the first offset in bytes, starting at `at`, that every device with these limits supports as a
    /// [buffer offset](ImageCopy::buffer_offset).
    #[must_use]
    pub fn offset(self, at: u64, limits: &Limits) -> u64 {
        let step = self.whole(limits.image_copy_offset_alignment.get());
        step.map_or(at, |step| at.div_ceil(step).saturating_mul(step))
    }

    /// Returns the bytes from the first block of a box to the end of the last one, where rows are `row_pitch`
    /// bytes apart and slices `rows` rows. Returns 0 if a side of the box is 0, and `None` beyond 2^64.
    #[must_use]
    pub fn span(self, extent: [u32; 3], row_pitch: u64, rows: u32) -> Option<u64> {
        let [width, height, depth] = extent;
        // A box without texels has no last block, whose end the formula below would name.
        if extent.contains(&0) {
            return Some(0);
        }
        // In 64 bits: the product of two 32-bit numbers and the sum both fit.
        let rows_before = u64::from(depth - 1) * u64::from(rows) + u64::from(self.rows(height) - 1);
        // The last row has no padding, so that a copy may end at the end of its buffer.
        rows_before.checked_mul(row_pitch)?.checked_add(self.row_bytes(width))
    }

    /// Returns the smallest multiple of `alignment` that is also a multiple of the block size.
    fn whole(self, alignment: u64) -> Option<u64> {
        let shared = alignment.trailing_zeros().min(self.bytes.trailing_zeros());
        // The least common multiple: an alignment is a power of two, so the common factors are trailing zero
        // bits.
        (alignment >> shared).checked_mul(self.bytes.into()).filter(|&step| step > 0)
    }
}

#[cfg(test)]
#[cfg(feature = "simulated")]
mod tests {
    use super::*;
    use crate::Alignment;
    use crate::device::simulated::Profile;

    fn limits(row: u64, offset: u64) -> Limits {
        let mut limits = Profile::named("integrated").unwrap().limits;
        limits.image_copy_row_alignment = Alignment::new(row).unwrap();
        limits.image_copy_offset_alignment = Alignment::new(offset).unwrap();
        limits
    }

    #[test]
    fn rows_and_offsets_are_whole_blocks_and_aligned() {
        for bytes in [1, 2, 3, 4, 6, 8, 12, 16] {
            for (row, offset) in [(1, 1), (1, 4), (256, 512), (128, 128)] {
                let (texel, limits) = (TexelBlock::new(bytes), limits(row, offset));
                for width in [1, 2, 5, 63, 64, 65, 1000] {
                    let pitch = texel.row_pitch(width, &limits);
                    assert!(pitch >= texel.row_bytes(width));
                    assert_eq!((pitch % row, pitch % u64::from(bytes)), (0, 0), "{texel:?}, {width}, {row}");
                    assert!(
                        pitch - texel.row_bytes(width) < row * u64::from(bytes),
                        "no wider than it must be"
                    );
                    let at = texel.offset(width.into(), &limits);
                    assert!(at >= width.into());
                    assert_eq!((at % offset, at % u64::from(bytes)), (0, 0), "{texel:?}, {width}, {offset}");
                }
            }
        }
    }

    #[test]
    fn a_span_ends_with_the_last_block() {
        let bc1 = TexelBlock { bytes: 8, width: 4, height: 4 };
        assert_eq!(bc1.span([10, 6, 1], 256, 2), Some(256 + 24));
        assert_eq!(bc1.span([1, 1, 3], 256, 5), Some(2 * 5 * 256 + 8));
        assert_eq!(bc1.span([0, 6, 1], 256, 2), Some(0));
        assert_eq!(bc1.span([4, 4, 2], u64::MAX, 2), None);
        let all = [u32::MAX; 3];
        assert_eq!(TexelBlock::new(u32::MAX).span(all, u64::MAX, u32::MAX), None);
        assert_eq!(TexelBlock::new(0).row_pitch(5, &limits(256, 512)), 0, "there are no such blocks");
    }
}
