//! What queues copy: bytes between buffers, texels between buffers and images, and whole images.

use core::fmt;

use bitflags::bitflags;

use super::{Device, Limits};

bitflags! {
    /// Which copies between buffers a buffer was made for; see [`Device::buffer_transfer_usage`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct TransferUsage: u8 {
        /// It may be copied from (`VK_BUFFER_USAGE_TRANSFER_SRC_BIT`).
        const SRC = 1;
        /// It may be copied to (`VK_BUFFER_USAGE_TRANSFER_DST_BIT`).
        const DST = 1 << 1;
    }
}

/// Bytes to copy from one buffer to another. They may be the same buffer where the ranges do not overlap.
pub struct BufferCopy<'a, D: Device> {
    /// Where to read.
    pub from: &'a D::Buffer,
    /// From which byte.
    pub from_offset: u64,
    /// Where to write.
    pub to: &'a D::Buffer,
    /// From which byte.
    pub to_offset: u64,
    /// How many bytes.
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

/// Texels to copy between a buffer and a box of one subresource: one mip level of one array layer. Images of
/// colours with one sample a texel; depth and stencil, and formats of several planes, are not copied.
///
/// In the buffer the texels lie in rows of blocks, the rows of a depth slice one after the other, the slices
/// likewise:
///
/// ```text
///   buffer_offset                    row_pitch
///   ├────────────────────────────────┤
///   ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓░░░░░░░
///   ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓░░░░░░░   `rows` of them to the next slice
///   …                                   of the last row, only the blocks themselves are touched
/// ```
///
/// [`TexelBlock::row_pitch`], [`TexelBlock::offset`] and [`TexelBlock::rows`] say what a device wants.
///
/// A box of which a side is 0 has no texels: the subresource only changes its state.
pub struct ImageCopy<'a, D: Device> {
    /// The buffer.
    pub buffer: &'a D::Buffer,
    /// Bytes from the buffer's start to the first block, a multiple of
    /// [`Limits::image_copy_offset_alignment`] and, on Vulkan, of the bytes of a block.
    pub buffer_offset: u64,
    /// Bytes from one row of blocks to the next, a multiple of [`Limits::image_copy_row_alignment`] and, on
    /// Vulkan, of the bytes of a block.
    pub row_pitch: u64,
    /// Rows of blocks from one depth slice to the next.
    pub rows: u32,
    /// The image.
    pub image: &'a D::Image,
    /// Which mip level of it.
    pub mip_level: u32,
    /// Which array layer of it.
    pub array_layer: u32,
    /// The first texel of the box: x, y and z, multiples of the block's sides.
    pub origin: [u32; 3],
    /// Width, height and depth of the box in texels: multiples of the block's sides, or up to the end of the
    /// mip level. On a Vulkan queue whose family has a `minImageTransferGranularity`, origin and extent keep
    /// to it.
    pub extent: [u32; 3],
    /// What the image's format packs together.
    pub texel: TexelBlock,
    /// Which way the texels go.
    pub direction: CopyDirection,
    /// The state that the subresource is in when the copy begins.
    pub before: D::ImageState,
    /// The state that it shall be in when the copy is done.
    pub after: D::ImageState,
}

impl<D: Device> Clone for ImageCopy<'_, D> {
    fn clone(&self) -> Self {
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
            .field("origin", &self.origin)
            .field("extent", &self.extent)
            .field("texel", &self.texel)
            .field("direction", &self.direction)
            .field("before", &self.before)
            .field("after", &self.after)
            .finish()
    }
}

/// All texels of an image into another one of the same description: all mip levels, array layers, samples, and
/// aspects. Which images can be copied so, [`Device::is_copyable_image`] says.
pub struct FullImageCopy<'a, D: Device> {
    /// The image to read.
    pub from: &'a D::Image,
    /// The image to write, another one. It is as it was made: nobody has changed its state since.
    pub to: &'a D::Image,
    /// What both were made from.
    pub info: &'a D::ImageInfo<'static>,
    /// The state that all of `from` is in when the copy begins, and is in again after it.
    pub before: D::ImageState,
    /// The state that all of `to` shall be in when the copy is done. What it held before is lost.
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

/// Which way the texels of an [`ImageCopy`] go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CopyDirection {
    /// From the buffer into the image.
    IntoImage,
    /// Out of the image into the buffer.
    OutOfImage,
}

/// The smallest part of an image that has bytes of its own: one texel, or a block of them where the format is
/// compressed.
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
    /// Bytes of a block, at least 1.
    pub bytes: u32,
    /// Texels from side to side, at least 1.
    pub width: u32,
    /// Texels from top to bottom, at least 1.
    pub height: u32,
}

impl TexelBlock {
    /// A texel of `bytes` bytes that is not compressed.
    #[must_use]
    pub const fn new(bytes: u32) -> Self {
        Self { bytes, width: 1, height: 1 }
    }

    /// Bytes of a row of blocks that holds `width` texels.
    #[must_use]
    pub const fn row_bytes(self, width: u32) -> u64 {
        width.div_ceil(self.width) as u64 * self.bytes as u64
    }

    /// Rows of blocks that hold `height` rows of texels.
    #[must_use]
    pub const fn rows(self, height: u32) -> u32 {
        height.div_ceil(self.height)
    }

    /// Bytes from one row of blocks to the next, at least, that every device with these limits takes for
    /// `width` texels.
    #[must_use]
    pub fn row_pitch(self, width: u32, limits: &Limits) -> u64 {
        self.whole(limits.image_copy_row_alignment.get()).map_or(0, |step| {
            // Below 2^64: blocks of 2^32 bytes at most, 2^32 of them; and the step below 2^63.
            self.row_bytes(width).div_ceil(step).saturating_mul(step)
        })
    }

    /// The next offset from `at` on, in bytes, that every device with these limits takes as an
    /// [offset in the buffer](ImageCopy::buffer_offset).
    #[must_use]
    pub fn offset(self, at: u64, limits: &Limits) -> u64 {
        let step = self.whole(limits.image_copy_offset_alignment.get());
        step.map_or(at, |step| at.div_ceil(step).saturating_mul(step))
    }

    /// Bytes from the first block of a box to the last's end, where rows are `row_pitch` bytes apart and
    /// slices `rows` rows. 0 where a side of the box is 0, and `None` beyond 2^64.
    #[must_use]
    pub fn span(self, extent: [u32; 3], row_pitch: u64, rows: u32) -> Option<u64> {
        let [width, height, depth] = extent;
        if extent.contains(&0) {
            return Some(0);
        }
        let rows_before = u64::from(depth - 1) * u64::from(rows) + u64::from(self.rows(height) - 1);
        rows_before.checked_mul(row_pitch)?.checked_add(self.row_bytes(width))
    }

    /// The smallest multiple of a power of two that holds whole blocks.
    fn whole(self, alignment: u64) -> Option<u64> {
        let shared = alignment.trailing_zeros().min(self.bytes.trailing_zeros());
        (alignment >> shared).checked_mul(self.bytes.into()).filter(|&step| step > 0)
    }
}

#[cfg(test)]
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
