//! How the texels of an image lie in memory here: layer after layer, in each the mip levels from the largest
//! on, in each of those slice after slice, row after row, with nothing between.

use std::sync::Arc;

use crate::device::{
    CopyDirection, FullImageCopy, ImageCopy, ImageDesc, QueueKind, Submission, TexelBlock, TransferUsage,
};

use super::queues::{HostCopy, Steps};
use super::{InUse, SimulatedGpu, SimulatedImage};

/// The sizes of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    extent: [u32; 3],
    mip_levels: u32,
    array_layers: u32,
    samples: u32,
    /// Bytes.
    texel: u32,
}

impl Shape {
    /// The sizes that a description names, where there can be such an image: with texels, and with mip levels
    /// down to one texel at most, so that each is at most half of the one above it.
    pub(super) fn of(desc: &ImageDesc) -> Option<Self> {
        let ImageDesc { extent, mip_levels, array_layers, samples, format: texel, .. } = *desc;
        let longest = extent.into_iter().max()?;
        let levels = 1..=longest.checked_ilog2()? + 1;
        let some = !extent.contains(&0) && array_layers > 0 && samples > 0 && texel > 0;
        let shape = Self { extent, mip_levels, array_layers, samples, texel };
        (some && levels.contains(&mip_levels)).then_some(shape)
    }

    /// Bytes that hold all of it; `None` beyond 2^64.
    pub(super) fn size(&self) -> Option<u64> {
        let mut texels = Some(1u64);
        for factor in self.extent.into_iter().chain([self.array_layers, self.samples, self.texel]) {
            texels = texels?.checked_mul(factor.into());
        }
        // Each mip level is at most half of the one above it, all of them at most one more.
        if self.mip_levels > 1 { texels?.checked_mul(2) } else { texels }
    }

    /// Width, height and depth of a mip level in texels.
    fn level(&self, level: u32) -> [u32; 3] {
        self.extent.map(|length| (length >> level).max(1))
    }

    /// Bytes of a mip level of one layer. Like all below, it is less than [`size`](Self::size) of an image
    /// that there is.
    fn level_bytes(&self, level: u32) -> u64 {
        let factors = self.level(level).into_iter().chain([self.samples, self.texel]);
        factors.map(u64::from).product()
    }

    /// Where a subresource begins, in bytes from the image's start.
    fn start(&self, mip_level: u32, array_layer: u32) -> u64 {
        let before = |levels| (0..levels).map(|level| self.level_bytes(level)).sum::<u64>();
        before(self.mip_levels) * u64::from(array_layer) + before(mip_level)
    }

    /// Says what is wrong with a box of texels of the image, where something is.
    fn complaint(&self, copy: &ImageCopy<'_, SimulatedGpu>) -> Option<&'static str> {
        if copy.mip_level >= self.mip_levels || copy.array_layer >= self.array_layers {
            return Some("is of no subresource that the image has");
        }
        if self.samples != 1 {
            return Some("is of an image with several samples a texel");
        }
        if copy.texel != TexelBlock::new(self.texel) {
            return Some("says other texels than the image's");
        }
        let level = self.level(copy.mip_level);
        let ends = (0..3).map(|axis| copy.origin[axis].checked_add(copy.extent[axis]));
        let inside = ends.zip(level).all(|(end, length)| end.is_some_and(|end| end <= length));
        if inside { None } else { Some("reaches beyond its subresource") }
    }
}

impl SimulatedGpu {
    /// Says what is wrong with a copy whose box has no texels or some, where something is.
    pub(super) fn image_complaint(&self, copy: &ImageCopy<'_, Self>) -> Option<&'static str> {
        let complaint = copy.image.shape.complaint(copy);
        if complaint.is_some() {
            return complaint;
        }
        let complaint = copy.buffer.complaint(match copy.direction {
            CopyDirection::IntoImage => TransferUsage::SRC,
            CopyDirection::OutOfImage => TransferUsage::DST,
        });
        if complaint.is_some() {
            return complaint;
        }
        let limits = &self.shared.properties.limits;
        let texel = copy.texel;
        if !limits.image_copy_offset_alignment.is_aligned(copy.buffer_offset) {
            return Some("begins off the alignment of texels in a buffer");
        }
        if !limits.image_copy_row_alignment.is_aligned(copy.row_pitch) {
            return Some("has rows off their alignment");
        }
        if copy.row_pitch < texel.row_bytes(copy.extent[0]) || copy.rows < texel.rows(copy.extent[1]) {
            return Some("has rows or slices that overlap");
        }
        let span = texel.span(copy.extent, copy.row_pitch, copy.rows);
        let end = span.and_then(|span| span.checked_add(copy.buffer_offset));
        if end.is_some_and(|end| end <= copy.buffer.range.size) {
            None
        } else {
            Some("reaches beyond its buffer")
        }
    }
}

/// The bytes to move for a copy that nothing is wrong with.
pub(super) fn rows(copy: &ImageCopy<'_, SimulatedGpu>) -> HostCopy {
    let (buffer, image, shape) = (&copy.buffer.range, &copy.image.range, copy.image.shape);
    let [width, height, depth] = copy.extent.map(u64::from);
    let [x, y, z] = copy.origin.map(u64::from);
    let [row, rows, _] = shape.level(copy.mip_level).map(u64::from);
    let texel = u64::from(shape.texel);
    let first = shape.start(copy.mip_level, copy.array_layer) + ((z * rows + y) * row + x) * texel;
    let in_buffer = Steps { row: copy.row_pitch, slice: copy.row_pitch * u64::from(copy.rows) };
    let in_image = Steps { row: row * texel, slice: rows * row * texel };
    let buffer = (InUse::new(buffer), buffer.offset + copy.buffer_offset, in_buffer);
    let image = (InUse::new(image), image.offset + first, in_image);
    let (from, to) = match copy.direction {
        CopyDirection::IntoImage => (buffer, image),
        CopyDirection::OutOfImage => (image, buffer),
    };
    HostCopy {
        from: from.0,
        from_offset: from.1,
        from_steps: from.2,
        to: to.0,
        to_offset: to.1,
        to_steps: to.2,
        size: width * texel,
        rows: height,
        slices: depth,
    }
}

/// Says what is wrong with the copy of a whole image that is at a place of a submission, where something is.
pub(super) fn whole_complaint(
    kind: Option<QueueKind>,
    submission: &Submission<'_, SimulatedGpu>,
    at: usize,
) -> Option<&'static str> {
    let FullImageCopy { from, to, info, .. } = submission.full_images[at];
    let shape = Some(from.shape);
    if shape != Some(to.shape) || shape != Shape::of(info) {
        return Some("is of images that were made differently, or not as it says");
    }
    if shape.is_some_and(|shape| shape.samples != 1) && kind != Some(QueueKind::Graphics) {
        return Some("is of several samples a texel, on a queue that is not for graphics");
    }
    let either = |image: &SimulatedImage| ptr_eq(image, from) || ptr_eq(image, to);
    let earlier = &submission.full_images[..at];
    if earlier.iter().any(|copy| either(copy.from) || either(copy.to)) {
        return Some("is of an image that the submission copies already");
    }
    let in_part = submission.image_copies.iter().any(|copy| either(copy.image));
    in_part.then_some("is of an image that the submission copies in part too")
}

fn ptr_eq(one: &SimulatedImage, other: &SimulatedImage) -> bool {
    Arc::ptr_eq(&one.range.users, &other.range.users)
}

/// The bytes to move for a copy of a whole image that nothing is wrong with.
pub(super) fn all_bytes(copy: &FullImageCopy<'_, SimulatedGpu>) -> HostCopy {
    let (from, to) = (&copy.from.range, &copy.to.range);
    HostCopy::of_bytes(from, from.offset, to, to.offset, from.size)
}
