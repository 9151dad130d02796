//! The memory layout of images on the simulated GPU: layer after layer; in each layer mip level after mip level,
//! the largest first; in each level aspect after aspect; in each aspect slice after slice and row after row of blocks,
//! tightly packed.

use core::ops::Range;
use std::sync::Arc;

use super::formats::layout;
use super::queues::{SimulatedCopy, Steps};
use super::resources::{InUse, ResourceRange, dedicated_need};
use super::{SimulatedGpu, SimulatedMemory};
use crate::device::{
    CopyDirection, CopyError, DescriptionError, DescriptionLimit, DeviceError, FullImageCopy, HostImageWrite,
    ImageAspect, ImageCopy, ImageCopyError, ImageDesc, ImageDevice, ImageDimension, ImageRegion, ImageShape,
    ImageViewSupport, ImageViewUses, MemoryDesc, QueueKind, Requirements, ResourceKind, SharingMode,
    Submission, TexelBlock, TexelLayout, Tiling, TransferUsage,
};

/// The dimensions of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    image: ImageShape,
}

impl Shape {
    /// Returns the dimensions of a valid description: with texels, and no more mip levels than it takes to reach one
    /// texel. So each level has at most half of the texels of the one above it.
    pub(super) fn of(desc: &ImageDesc) -> Result<Self, DescriptionError> {
        let ImageDesc { extent: [width, height, depth], mip_levels, samples, format, .. } = *desc;
        DescriptionError::check_image(desc)?;
        let texels = layout(format).ok_or(DescriptionError::UnknownFormat { format })?;
        if !samples.is_power_of_two() {
            return Err(DescriptionError::Samples { samples });
        }
        // A chain of levels ends at one texel; Vulkan and Direct3D 12 refuse longer ones.
        let levels = width.max(height).max(depth).ilog2() + 1;
        DescriptionLimit::MipLevels.check(mip_levels.into(), levels.into())?;
        // Each layout has one number, so a view of other texels has another.
        if let Some(format) = desc.views().find(|&view| layout(view) != Some(texels)) {
            return Err(DescriptionError::ViewFormat { format });
        }
        Ok(Self { image: image_shape(desc, texels) })
    }

    /// Returns the size of the image in bytes; `None` beyond 2^64.
    pub(super) fn size(&self) -> Option<u64> {
        let first = self.level_bytes(0)?;
        // All further levels together are about as large as the first, and larger where their blocks have fewer texels.
        let mut layer = if self.image.mip_levels > 1 { first.checked_mul(2)? } else { first };
        let mut levels = 0u64;
        for level in 0..self.image.mip_levels {
            levels = levels.checked_add(self.level_bytes(level)?)?;
        }
        layer = layer.max(levels);
        layer.checked_mul(self.image.array_layers.into())
    }

    /// Returns width and height of the first mip level if work can sample it: a 2D image with one sample and texels
    /// of 4 bytes.
    pub(super) fn sampled_extent(&self) -> Option<[u32; 2]> {
        let ImageShape { extent: [width, height, depth], samples, texels, .. } = self.image;
        let is_sampled = texels == TexelBlock::new(4).into() && [depth, samples] == [1, 1];
        is_sampled.then_some([width, height])
    }

    /// Returns where a mip level of a layer begins, in bytes from the image's start, with its width and height.
    pub(super) fn sampled_level(&self, mip_level: u32, array_layer: u32) -> Option<(u64, [u32; 2])> {
        let is_there = mip_level < self.image.mip_levels && array_layer < self.image.array_layers;
        let [width, height, _] = self.image.level(mip_level);
        is_there.then(|| (self.start(ImageAspect::Color, mip_level, array_layer), [width, height]))
    }

    /// Returns the number of the smallest mip level.
    pub(super) fn last_level(&self) -> u32 {
        self.image.mip_levels - 1
    }

    pub(super) fn is_cube(&self) -> bool {
        self.image.dimension == ImageDimension::Cube
    }

    /// Returns the bytes of an aspect of a mip level of one layer.
    fn aspect_bytes(&self, aspect: ImageAspect, level: u32) -> Option<u64> {
        let texel = self.image.texels.block(aspect)?;
        let [width, height, depth] = self.image.level_of(aspect, level);
        // Each product is checked: the numbers come from a description that nothing has checked yet.
        let row = texel.row_bytes(width).checked_mul(self.image.samples.into())?;
        row.checked_mul(texel.rows(height).into())?.checked_mul(depth.into())
    }

    /// Returns the range of all aspects of a mip level of a layer, in bytes from the image's start.
    pub(super) fn level_range(&self, mip_level: u32, array_layer: u32) -> Option<Range<u64>> {
        if mip_level >= self.image.mip_levels || array_layer >= self.image.array_layers {
            return None;
        }
        let first = self.image.texels.aspects().next()?;
        let start = self.start(first, mip_level, array_layer);
        Some(start..start + self.level_bytes(mip_level)?)
    }

    /// Returns the bytes of a mip level of one layer.
    fn level_bytes(&self, level: u32) -> Option<u64> {
        let mut aspects = self.image.texels.aspects();
        aspects.try_fold(0u64, |bytes, aspect| bytes.checked_add(self.aspect_bytes(aspect, level)?))
    }

    /// Returns the offset of an aspect of a subresource in bytes from the image's start. It is less than
    /// [`size`](Self::size) of a valid image, so it cannot overflow.
    fn start(&self, aspect: ImageAspect, mip_level: u32, array_layer: u32) -> u64 {
        let levels = |levels| (0..levels).filter_map(|level| self.level_bytes(level)).sum::<u64>();
        let before = self.image.texels.aspects().take_while(|&before| before != aspect);
        let aspects = before.filter_map(|before| self.aspect_bytes(before, mip_level)).sum::<u64>();
        levels(self.image.mip_levels) * u64::from(array_layer) + levels(mip_level) + aspects
    }

    /// Checks a copy's subresource and box.
    fn check_copy(&self, copy: &ImageCopy<'_, SimulatedGpu>) -> Result<(), CopyError> {
        let &ImageCopy { mip_level, array_layer, aspect, origin, extent, texels, .. } = copy;
        self.check_region(&ImageRegion { aspect, mip_level, array_layer, origin, extent }, texels)
    }

    /// Checks the subresource and the box of a copy.
    fn check_region(&self, region: &ImageRegion, texels: TexelLayout) -> Result<(), CopyError> {
        let &ImageRegion { aspect, mip_level, array_layer, .. } = region;
        // A wrong layout would make the copy read and write other bytes than the caller means.
        if texels != self.image.texels {
            return Err(CopyError::WrongTexel);
        }
        let texel = texels.block(aspect).ok_or(CopyError::NoSuchAspect { aspect })?;
        // All copies: the image's shape tells of no missing usage, since all images have both.
        self.image.check_copy(region, texel, TransferUsage::empty()).map_err(|error| match error {
            ImageCopyError::NoSuchSubresource { .. } => {
                CopyError::NoSuchSubresource { mip_level, array_layer }
            }
            ImageCopyError::Multisampled { .. } => CopyError::Multisampled,
            ImageCopyError::PartOfBlock { .. } => CopyError::PartOfBlock { mip_level },
            _ => CopyError::OutsideLevel { mip_level },
        })
    }
}

/// Returns what copies of the texels are checked against.
fn image_shape(desc: &ImageDesc, texels: TexelLayout) -> ImageShape {
    let mut shape = ImageShape::new(desc.extent, texels);
    (shape.mip_levels, shape.array_layers, shape.samples) =
        (desc.mip_levels, desc.array_layers, desc.samples);
    (shape.dimension, shape.format) = (desc.resolved_dimension(), desc.format);
    shape
}

impl SimulatedGpu {
    /// Checks a write by the CPU.
    fn check_host_write(&self, write: &HostImageWrite<'_, Self>) -> Result<(), DeviceError> {
        let HostImageWrite { bytes, image, region, texels, .. } = *write;
        image.range.check_alive()?;
        image.shape.check_region(&region, texels)?;
        let texel = texels.block(region.aspect).ok_or(CopyError::WrongTexel)?;
        let size = texel.span(region.extent, texel.row_bytes(region.extent[0]), texel.rows(region.extent[1]));
        if !self.shared.profile.host_image_copies || image.shape.image.samples != 1 {
            return Err(DeviceError::Unsupported);
        }
        if size != Some(bytes.len() as u64) || bytes.is_empty() {
            let (size, available) = (size.unwrap_or(u64::MAX), bytes.len() as u64);
            return Err(DeviceError::OutOfRange { offset: 0, size, available });
        }
        Ok(())
    }

    /// Checks an image copy on a queue of a kind.
    pub(super) fn check_image_copy(
        &self,
        copy: &ImageCopy<'_, Self>,
        kind: Option<QueueKind>,
    ) -> Result<(), DeviceError> {
        copy.image.shape.check_copy(copy)?;
        // As the backends do, so a test finds it without a GPU.
        if copy.aspect.needs_graphics() && kind != Some(QueueKind::Graphics) {
            return Err(CopyError::NeedsGraphicsQueue.into());
        }
        let texel = copy.block().ok_or(CopyError::WrongTexel)?;
        copy.buffer.check_usage(match copy.direction {
            CopyDirection::IntoImage => TransferUsage::SRC,
            CopyDirection::OutOfImage => TransferUsage::DST,
        })?;
        let limits = &self.shared.properties.limits;
        let &ImageCopy { buffer_offset: offset, row_pitch, rows, extent, .. } = copy;
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

/// Returns where in an image a valid region begins, the steps from there, and its bytes per row, rows and slices.
fn place(shape: &Shape, region: &ImageRegion, texel: TexelBlock) -> (u64, Steps, [u64; 3]) {
    // In 64 bits from here on: the check before holds for the sums, not for 32-bit products.
    let [width, height, depth] = region.extent;
    let size = [texel.row_bytes(width), texel.rows(height).into(), depth.into()];
    let [x, y, z] = region.origin;
    let [level_width, level_height, _] = shape.image.level_of(region.aspect, region.mip_level);
    let (row, rows) = (texel.row_bytes(level_width), u64::from(texel.rows(level_height)));
    // The box begins at whole blocks, so the bytes and rows before it are those of the blocks before it.
    let before = (u64::from(z) * rows + u64::from(texel.rows(y))) * row + texel.row_bytes(x);
    let first = shape.start(region.aspect, region.mip_level, region.array_layer) + before;
    (first, Steps { row, slice: rows * row }, size)
}

/// Converts a valid image copy to rows of bytes.
pub(super) fn rows(copy: &ImageCopy<'_, SimulatedGpu>) -> SimulatedCopy {
    let texel = copy.block().unwrap_or(TexelBlock::new(1));
    let (buffer, image, shape) = (&copy.buffer.range, &copy.image.range, copy.image.shape);
    let &ImageCopy { mip_level, array_layer, aspect, origin, extent, .. } = copy;
    let region = ImageRegion { aspect, mip_level, array_layer, origin, extent };
    let (first, in_image, [width, height, depth]) = place(&shape, &region, texel);
    let in_buffer = Steps { row: copy.row_pitch, slice: copy.row_pitch * u64::from(copy.rows) };
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
        size: width,
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
    let plain = shape.image.samples == 1 && !shape.image.texels.is_depth_stencil();
    if !plain && kind != Some(QueueKind::Graphics) {
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
        let range = self.bind(
            "create_image",
            desc,
            requirements.size,
            &requirements,
            (memory, offset),
            (Some(shape), desc.sharing_mode),
        )?;
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
        let mut shape = image_shape(desc, layout(desc.format).unwrap_or(TexelLayout::Unknown));
        shape.is_host_writable =
            self.shared.profile.host_image_copies && desc.samples == 1 && desc.tiling == Tiling::Optimal;
        shape
    }

    fn can_write_from_host(&self, shape: &ImageShape, (): ()) -> bool {
        shape.is_host_writable
    }

    unsafe fn write_image_from_host(&self, write: &HostImageWrite<'_, Self>) -> Result<(), DeviceError> {
        // As Vulkan's function can fail.
        self.shared.faults.check()?;
        self.check_host_write(write)
            .inspect_err(|wrong| self.report(format!("write_image_from_host: {write:?}: {wrong}")))?;
        let HostImageWrite { bytes, image, region, texels, .. } = *write;
        let texel = texels.block(region.aspect).unwrap_or(TexelBlock::new(1));
        let (first, steps, [width, rows, slices]) = place(&image.shape, &region, texel);
        let (memory, mut left) = (image.range.memory(), bytes);
        for at in
            (0..slices).flat_map(|slice| (0..rows).map(move |row| slice * steps.slice + row * steps.row))
        {
            let (row, rest) = left.split_at(width as usize);
            let at = image.range.offset + first + at;
            // The device's view: the driver makes what it writes visible.
            if let Some(error) = self.shared.queues.check_host_write(memory, at..at + width) {
                self.report(error);
            }
            memory.write(at, row);
            left = rest;
        }
        Ok(())
    }

    fn can_copy_aspect(&self, queue: QueueKind, aspect: ImageAspect) -> bool {
        !aspect.needs_graphics() || queue == QueueKind::Graphics
    }

    /// Views of all uses but input attachments, as in Direct3D 12, of any number of layers.
    fn image_view_support(&self, desc: &ImageDesc) -> ImageViewSupport {
        let mut support = ImageViewSupport::new(desc.format);
        let [_, _, depth] = desc.extent;
        support.uses = ImageViewUses::all() - ImageViewUses::INPUT_ATTACHMENT;
        support.dimensions = if depth > 1 { 3 } else { 2 };
        (support.depth, support.mip_levels, support.array_layers) =
            (depth, desc.mip_levels, desc.array_layers);
        (support.samples, support.tiling) = (desc.samples, desc.tiling);
        support.cube_compatible = desc.array_layers >= 6 && desc.samples == 1 && depth == 1;
        support.slices_as_layers = true;
        support
    }

    fn queues_share_image(&self, desc: &ImageDesc) -> bool {
        desc.sharing_mode == SharingMode::Concurrent
    }

    /// All images can be copied: here an image is bytes and nothing else.
    fn discards_from_any_state(&self) -> bool {
        true
    }

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
