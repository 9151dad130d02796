//! The memory layout of images on the simulated GPU: layer after layer; in each layer mip level after mip level,
//! the largest first; in each level slice after slice and row after row, tightly packed.

use std::sync::Arc;

use super::queues::{SimulatedCopy, Steps};
use super::resources::{InUse, ResourceRange, dedicated_need};
use super::{SimulatedGpu, SimulatedMemory};
use crate::device::{
    CopyDirection, CopyError, DescriptionError, DescriptionLimit, DeviceError, FullImageCopy, ImageCopy,
    ImageDesc, ImageDevice, ImageShape, MemoryDesc, QueueKind, Requirements, ResourceKind, Submission,
    TexelBlock, Tiling, TransferUsage,
};

/// The dimensions of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    extent: [u32; 3],
    mip_levels: u32,
    array_layers: u32,
    samples: u32,
    /// Bytes per texel.
    texel: u32,
}

impl Shape {
    /// Returns the dimensions of a valid description: with texels, and no more mip levels than it takes to reach one
    /// texel. So each level is at most half of the one above it.
    pub(super) fn of(desc: &ImageDesc) -> Result<Self, DescriptionError> {
        let ImageDesc { extent: [width, height, depth], mip_levels, array_layers, samples, format, .. } =
            *desc;
        DescriptionError::check_image(desc)?;
        if format == 0 {
            return Err(DescriptionError::UnknownFormat { format });
        }
        if !samples.is_power_of_two() {
            return Err(DescriptionError::Samples { samples });
        }
        // A chain of levels ends at one texel; Vulkan and Direct3D 12 refuse longer ones.
        let levels = width.max(height).max(depth).ilog2() + 1;
        DescriptionLimit::MipLevels.check(mip_levels.into(), levels.into())?;
        Ok(Self { extent: desc.extent, mip_levels, array_layers, samples, texel: format })
    }

    /// Returns the size of the image in bytes; `None` beyond 2^64.
    pub(super) fn size(&self) -> Option<u64> {
        let mut texels = Some(1u64);
        // Each product is checked: the numbers come from a description that nothing has checked yet.
        for factor in self.extent.into_iter().chain([self.array_layers, self.samples, self.texel]) {
            texels = texels?.checked_mul(factor.into());
        }
        // Each mip level is at most half of the one above it, so all further levels together are at most as
        // large as the first.
        if self.mip_levels > 1 { texels?.checked_mul(2) } else { texels }
    }

    /// Returns width and height of the first mip level if work can sample it: a 2D image with one sample and texels
    /// of 4 bytes.
    pub(super) fn sampled_extent(&self) -> Option<[u32; 2]> {
        let [width, height, depth] = self.extent;
        ([depth, self.samples, self.texel] == [1, 1, 4]).then_some([width, height])
    }

    /// Returns width, height and depth of a mip level in texels.
    fn level(&self, level: u32) -> [u32; 3] {
        self.extent.map(|length| (length >> level).max(1))
    }

    /// Returns the bytes of a mip level of one layer. As all below, it is less than [`size`](Self::size) of a
    /// valid image, so it cannot overflow.
    fn level_bytes(&self, level: u32) -> u64 {
        let factors = self.level(level).into_iter().chain([self.samples, self.texel]);
        factors.map(u64::from).product()
    }

    /// Returns the offset of a subresource in bytes from the image's start.
    fn start(&self, mip_level: u32, array_layer: u32) -> u64 {
        let before = |levels| (0..levels).map(|level| self.level_bytes(level)).sum::<u64>();
        before(self.mip_levels) * u64::from(array_layer) + before(mip_level)
    }

    /// Checks a copy's subresource and box.
    fn check_copy(&self, copy: &ImageCopy<'_, SimulatedGpu>) -> Result<(), CopyError> {
        let &ImageCopy { mip_level, array_layer, .. } = copy;
        if mip_level >= self.mip_levels || array_layer >= self.array_layers {
            return Err(CopyError::NoSuchSubresource { mip_level, array_layer });
        }
        // Neither API copies between a buffer and a multisampled image.
        if self.samples != 1 {
            return Err(CopyError::Multisampled);
        }
        // A wrong texel block would make the copy read and write other bytes than the caller means.
        if copy.texel != TexelBlock::new(self.texel) {
            return Err(CopyError::WrongTexel);
        }
        let level = self.level(copy.mip_level);
        // Checked, since origin and extent are any numbers and their sum may pass 2^32.
        let ends = (0..3).map(|axis| copy.origin[axis].checked_add(copy.extent[axis]));
        let inside = ends.zip(level).all(|(end, length)| end.is_some_and(|end| end <= length));
        if inside { Ok(()) } else { Err(CopyError::OutsideLevel { mip_level }) }
    }
}

impl SimulatedGpu {
    /// Checks an image copy.
    pub(super) fn check_image_copy(&self, copy: &ImageCopy<'_, Self>) -> Result<(), DeviceError> {
        copy.image.shape.check_copy(copy)?;
        copy.buffer.check_usage(match copy.direction {
            CopyDirection::IntoImage => TransferUsage::SRC,
            CopyDirection::OutOfImage => TransferUsage::DST,
        })?;
        let limits = &self.shared.properties.limits;
        let &ImageCopy { texel, buffer_offset: offset, row_pitch, rows, extent, .. } = copy;
        let alignment = limits.image_copy_offset_alignment;
        if !alignment.is_aligned(offset) {
            return Err(DeviceError::Misaligned { offset, alignment: alignment.get() });
        }
        // With overlapping rows the result would depend on the order in which a GPU copies them.
        let apart = row_pitch >= texel.row_bytes(extent[0]) && rows >= texel.rows(extent[1]);
        if !apart || !limits.image_copy_row_alignment.is_aligned(row_pitch) {
            return Err(CopyError::Rows { row_pitch, rows }.into());
        }
        copy.buffer.range.check(offset, texel.span(extent, row_pitch, rows))?;
        copy.buffer.range.check_alive()?;
        copy.image.range.check_alive()
    }
}

/// Converts a valid image copy to rows of bytes.
pub(super) fn rows(copy: &ImageCopy<'_, SimulatedGpu>) -> SimulatedCopy {
    let (buffer, image, shape) = (&copy.buffer.range, &copy.image.range, copy.image.shape);
    // In 64 bits from here on: the check above holds for the sums, not for 32-bit products.
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
    SimulatedCopy {
        from: from.0,
        from_offset: from.1,
        from_steps: from.2,
        to: to.0,
        to_offset: to.1,
        to_steps: to.2,
        size: width * texel,
        rows: height,
        slices: depth,
        texels: Some(copy.direction),
    }
}

/// Checks the `at`-th whole-image copy of a submission.
pub(super) fn check_full_image(
    kind: Option<QueueKind>,
    submission: &Submission<'_, SimulatedGpu>,
    at: usize,
) -> Result<(), DeviceError> {
    let FullImageCopy { from, to, info, .. } = submission.full_images[at];
    let shape = from.shape;
    if shape != to.shape || Shape::of(info) != Ok(shape) {
        return Err(CopyError::DifferentImages.into());
    }
    // The backends refuse this as well, see `full_images.rs` there, so a test finds it without a GPU.
    if shape.samples != 1 && kind != Some(QueueKind::Graphics) {
        return Err(CopyError::NeedsGraphicsQueue.into());
    }
    let either = |image: &SimulatedImage| ptr_eq(image, from) || ptr_eq(image, to);
    let earlier = &submission.full_images[..at];
    // Copies of a submission run in any order, so a second use of an image is a race.
    let twice = earlier.iter().any(|copy| either(copy.from) || either(copy.to));
    let in_part = submission.image_copies.iter().any(|copy| either(copy.image));
    if twice || in_part {
        return Err(CopyError::ImageTwice.into());
    }
    from.range.check_alive()?;
    to.range.check_alive()
}

fn ptr_eq(one: &SimulatedImage, other: &SimulatedImage) -> bool {
    Arc::ptr_eq(&one.range.users, &other.range.users)
}

/// Converts a valid whole-image copy to bytes.
pub(super) fn all_bytes(copy: &FullImageCopy<'_, SimulatedGpu>) -> SimulatedCopy {
    let (from, to) = (&copy.from.range, &copy.to.range);
    SimulatedCopy::of_bytes(from, from.offset, to, to.offset, from.size)
}

/// An image of the simulated GPU.
#[derive(Clone, Debug)]
pub struct SimulatedImage {
    pub(super) range: ResourceRange,
    pub(super) shape: Shape,
}

impl SimulatedGpu {
    /// Returns the dimensions and memory requirements of an image.
    fn image_memory_requirements(&self, desc: &ImageDesc) -> Result<(Shape, Requirements), DescriptionError> {
        let shape = Shape::of(desc)?;
        // More than any limit where the number is too large for a size.
        let size = shape.size().unwrap_or(u64::MAX);
        DescriptionLimit::AllocationSize.check(size, self.shared.properties.limits.max_allocation_size)?;
        let own = Requirements::new(size).with_dedicated(dedicated_need(desc.usage));
        Ok((shape, self.requirements(kind_of(desc), own)))
    }

    fn image_at(
        &self,
        desc: &ImageDesc,
        memory: SimulatedMemory,
        offset: u64,
    ) -> Result<SimulatedImage, DeviceError> {
        let (shape, requirements) = self.image_memory_requirements(desc)?;
        let range =
            self.bind("create_image", desc, requirements.size, &requirements, (memory, offset), Some(shape))?;
        self.shared.memories.count_image(1);
        Ok(SimulatedImage { range, shape })
    }
}

fn kind_of(desc: &ImageDesc) -> ResourceKind {
    match desc.tiling {
        Tiling::Optimal => ResourceKind::OptimalImage,
        Tiling::Linear => ResourceKind::LinearImage,
    }
}

// SAFETY: an image is bound to as many bytes of live memory as its requirements name, and its kind is its tiling.
unsafe impl ImageDevice for SimulatedGpu {
    type Image = SimulatedImage;
    type ImageInfo<'a> = ImageDesc;
    /// Images have no state on this device.
    type ImageState = ();

    fn image_kind(&self, desc: &ImageDesc) -> ResourceKind {
        kind_of(desc)
    }

    fn image_shape(&self, desc: &ImageDesc) -> ImageShape {
        let mut shape = ImageShape::new(desc.extent, TexelBlock::new(desc.format).into());
        (shape.mip_levels, shape.array_layers, shape.samples) =
            (desc.mip_levels, desc.array_layers, desc.samples);
        shape
    }

    /// All images can be copied: here an image is bytes and nothing else.
    fn relocatable_image_info(&self, desc: &ImageDesc) -> Option<ImageDesc> {
        Some(*desc)
    }

    fn image_requirements(&self, desc: &ImageDesc) -> Result<Requirements, DeviceError> {
        self.shared.faults.check()?;
        Ok(self.image_memory_requirements(desc)?.1)
    }

    unsafe fn create_image(
        &self,
        desc: &ImageDesc,
        memory: SimulatedMemory,
        offset: u64,
    ) -> Result<SimulatedImage, DeviceError> {
        let (_, requirements) = self.image_memory_requirements(desc)?;
        self.check_not_dedicated("create_image", desc, &requirements)?;
        self.image_at(desc, memory, offset)
    }

    fn create_dedicated_image(
        &self,
        desc: &ImageDesc,
        memory: &MemoryDesc<'_, ()>,
    ) -> Result<(SimulatedMemory, SimulatedImage), DeviceError> {
        let requirements = self.image_requirements(desc)?;
        self.create_dedicated(&requirements, memory, |memory| self.image_at(desc, memory, 0))
    }

    unsafe fn destroy_image(&self, image: SimulatedImage) {
        self.unbind("destroy_image", image.range);
        self.shared.memories.count_image(-1);
    }
}
