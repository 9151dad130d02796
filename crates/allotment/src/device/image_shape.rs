//! What an image is made of, and the check of copies of its texels: drivers need not validate either, and a copy beyond a
//! mip level is undefined.

use core::error::Error;
use core::fmt;

use super::{ImageAspect, ImageDimension, QueueIndex, TexelBlock, TexelLayout, TransferUsage};

/// The dimensions of an image and the layout of its texels: what copies of them are checked against.
///
/// ```
/// use allotment::device::{ImageAspect, ImageCopyError, ImageRegion, ImageShape, TexelBlock, TransferUsage};
///
/// let bc1 = TexelBlock { bytes: 8, width: 4, height: 4 };
/// let mut albedo = ImageShape::new([100, 60, 1], bc1.into());
/// albedo.mip_levels = 7;
/// assert_eq!(albedo.level(4), [6, 3, 1]);
/// let level = ImageRegion { mip_level: 4, ..ImageRegion::new(ImageAspect::Color, [6, 3, 1]) };
/// let check = |region| albedo.check_copy(&region, bc1, TransferUsage::DST);
/// let end = ImageRegion { origin: [4, 0, 0], extent: [2, 3, 1], ..level };
/// assert_eq!(check(end), Ok(()), "up to the end of the level");
/// let part = ImageRegion { origin: [2, 0, 0], extent: [4, 3, 1], ..level };
/// assert!(matches!(check(part), Err(ImageCopyError::PartOfBlock { .. })));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageShape {
    /// Width, height and depth of the first mip level in texels.
    pub extent: [u32; 3],
    /// Mip levels.
    pub mip_levels: u32,
    /// Array layers.
    pub array_layers: u32,
    /// Samples per texel.
    pub samples: u32,
    /// The dimension: [`D2`](ImageDimension::D2) only if the depth is 1. A cube is one where the description says so.
    pub dimension: ImageDimension,
    /// The API's format number; 0 if it is not known.
    pub format: u32,
    /// How the texels lie in a buffer.
    pub texels: TexelLayout,
    /// The copies that the image was created for.
    pub transfer_usage: TransferUsage,
    /// Whether only whole mip levels are copied, as Direct3D 12 does with depth and stencil.
    pub whole_levels: bool,
    /// Whether shaders may sample it: `VK_IMAGE_USAGE_SAMPLED_BIT`; in Direct3D 12 all images without
    /// `D3D12_RESOURCE_FLAG_DENY_SHADER_RESOURCE`.
    pub is_sampled: bool,
    /// Whether the CPU can copy texels into it, without staging memory and without a queue
    /// ([`write_image_from_host`](super::ImageDevice::write_image_from_host)): `VK_IMAGE_USAGE_HOST_TRANSFER_BIT`, or
    /// `WriteToSubresource` where the texture is in memory for it.
    pub is_host_writable: bool,
    /// Whether a write of some of its texels cannot be the first use of a subresource in memory that resources share, since only
    /// one of all of them by a queue, a clear or a discard makes it valid: so it is with the render targets and depth buffers of
    /// Direct3D 12.
    pub begins_whole: bool,
}

/// A box of texels of one aspect of a subresource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ImageRegion {
    /// The aspect.
    pub aspect: ImageAspect,
    /// The mip level.
    pub mip_level: u32,
    /// The array layer.
    pub array_layer: u32,
    /// The first texel of the box: x, y and z, in texels of the aspect. Those of a subsampled plane are fewer than the
    /// image's.
    pub origin: [u32; 3],
    /// Width, height and depth of the box in texels of the aspect.
    pub extent: [u32; 3],
}

impl ImageRegion {
    /// Describes a box at the first texel of the first mip level of the first array layer.
    #[must_use]
    pub const fn new(aspect: ImageAspect, extent: [u32; 3]) -> Self {
        Self { aspect, mip_level: 0, array_layer: 0, origin: [0; 3], extent }
    }
}

impl ImageShape {
    /// Describes an image of one mip level, one array layer and one sample per texel, which can be copied from and to.
    #[must_use]
    pub const fn new(extent: [u32; 3], texels: TexelLayout) -> Self {
        let (mip_levels, array_layers, samples) = (1, 1, 1);
        let (transfer_usage, whole_levels, is_sampled) = (TransferUsage::all(), false, true);
        let (is_host_writable, begins_whole) = (false, false);
        let dimension = if extent[2] > 1 { ImageDimension::D3 } else { ImageDimension::D2 };
        let format = 0;
        Self {
            extent,
            mip_levels,
            array_layers,
            samples,
            dimension,
            format,
            texels,
            transfer_usage,
            whole_levels,
            is_sampled,
            is_host_writable,
            begins_whole,
        }
    }

    /// Returns width, height and depth of a mip level in texels.
    #[must_use]
    pub fn level(&self, mip_level: u32) -> [u32; 3] {
        self.extent.map(|length| length.checked_shr(mip_level).unwrap_or(0).max(1))
    }

    /// Returns width, height and depth of a mip level in texels of an aspect: those of a subsampled plane are fewer.
    #[must_use]
    pub fn level_of(&self, aspect: ImageAspect, mip_level: u32) -> [u32; 3] {
        let [width, height, depth] = self.level(mip_level);
        let [wide, high] = self.texels.subsampling(aspect).map(|texels| texels.max(1));
        // The last texel of a plane may stand for fewer texels of the image than others.
        [width.div_ceil(wide), height.div_ceil(high), depth]
    }

    /// Checks a copy of a box of texels against the image: everything but the layout of the buffer. `texel` is the texel
    /// block of the region's aspect.
    ///
    /// # Errors
    ///
    /// [`ImageCopyError`], the first rule that the copy breaks.
    pub fn check_copy(
        &self,
        region: &ImageRegion,
        texel: TexelBlock,
        copy: TransferUsage,
    ) -> Result<(), ImageCopyError> {
        let &Self { mip_levels, array_layers, samples, texels, .. } = self;
        let &ImageRegion { aspect, mip_level, array_layer, origin, extent } = region;
        let missing = copy.difference(self.transfer_usage);
        if !missing.is_empty() {
            return Err(ImageCopyError::MissingUsage { missing });
        }
        if samples != 1 {
            return Err(ImageCopyError::Multisampled { samples });
        }
        match texels.block(aspect) {
            Some(own) if own != texel => {
                return Err(ImageCopyError::WrongTexel { expected: Some(own), found: texel });
            }
            Some(_) => {}
            // The caller knows the format of an extension, and says what its blocks are.
            None if texels == TexelLayout::Unknown && aspect == ImageAspect::Color => {}
            None => return Err(ImageCopyError::NoSuchAspect { aspect, texels }),
        }
        // A block without a side is no block of any format, and nothing could be counted in it.
        if texel.bytes == 0 || texel.width == 0 || texel.height == 0 {
            return Err(ImageCopyError::WrongTexel { expected: None, found: texel });
        }
        if mip_level >= mip_levels || array_layer >= array_layers {
            return Err(ImageCopyError::NoSuchSubresource {
                mip_level,
                array_layer,
                mip_levels,
                array_layers,
            });
        }
        let level = self.level_of(aspect, mip_level);
        let block = [texel.width, texel.height, 1];
        let mut is_whole = true;
        for axis in 0..3 {
            // Checked, since origin and extent are any numbers and their sum may pass 2^32.
            let end = origin[axis].checked_add(extent[axis]).filter(|&end| end <= level[axis]);
            let Some(end) = end else {
                return Err(ImageCopyError::OutsideLevel { mip_level, origin, extent, level });
            };
            // The last block of a level may have fewer texels than others: a level of 2 x 2 texels is one of 4 x 4.
            is_whole &= origin[axis] % block[axis] == 0 && (end % block[axis] == 0 || end == level[axis]);
        }
        if !is_whole {
            return Err(ImageCopyError::PartOfBlock { origin, extent, level, texel });
        }
        // A box without texels copies nothing, so no part of a level either.
        if self.whole_levels && extent != level && !extent.contains(&0) {
            return Err(ImageCopyError::PartOfLevel { aspect, origin, extent, level });
        }
        Ok(())
    }
}

/// Why texels cannot be copied. Nothing was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ImageCopyError {
    /// The image has no such mip level or array layer.
    NoSuchSubresource {
        /// The mip level of the copy.
        mip_level: u32,
        /// The array layer of the copy.
        array_layer: u32,
        /// Mip levels of the image.
        mip_levels: u32,
        /// Array layers of the image.
        array_layers: u32,
    },
    /// The box is not inside its mip level. Mip levels get smaller, and so does the depth of three-dimensional ones.
    OutsideLevel {
        /// The mip level.
        mip_level: u32,
        /// First texel of the box.
        origin: [u32; 3],
        /// Width, height and depth of the box in texels.
        extent: [u32; 3],
        /// Width, height and depth of the mip level in texels.
        level: [u32; 3],
    },
    /// The box covers a part of a block of a compressed format. It must begin at a multiple of the block's sides, and end
    /// at one or at the end of the mip level.
    PartOfBlock {
        /// First texel of the box.
        origin: [u32; 3],
        /// Width, height and depth of the box in texels.
        extent: [u32; 3],
        /// Width, height and depth of the mip level in texels.
        level: [u32; 3],
        /// The block.
        texel: TexelBlock,
    },
    /// The texel block is not that of the image's format, or has no bytes or no texels.
    WrongTexel {
        /// The block of the image's format, if this library knows the format.
        expected: Option<TexelBlock>,
        /// The block of the copy.
        found: TexelBlock,
    },
    /// The image's format has no such aspect. Copy the aspects that it has, one by one.
    NoSuchAspect {
        /// The aspect of the copy.
        aspect: ImageAspect,
        /// How the texels of the image's format lie in a buffer.
        texels: TexelLayout,
    },
    /// The queue does not copy depth and stencil. Copy them on a graphics queue.
    NeedsGraphicsQueue {
        /// The aspect of the copy.
        aspect: ImageAspect,
        /// The queue of the copy.
        queue: QueueIndex,
    },
    /// The box is a part of a mip level, of which the device copies the aspect as a whole only: Direct3D 12 does so with
    /// depth and stencil. Copy the whole level.
    PartOfLevel {
        /// The aspect of the copy.
        aspect: ImageAspect,
        /// First texel of the box.
        origin: [u32; 3],
        /// Width, height and depth of the box in texels.
        extent: [u32; 3],
        /// Width, height and depth of the mip level in texels.
        level: [u32; 3],
    },
    /// A box was chosen of several mip levels or aspects, which have different extents. Choose one of each.
    RegionOfSeveral {
        /// The mip levels that were chosen.
        mip_levels: u32,
        /// How the texels of the image's format lie in a buffer.
        texels: TexelLayout,
    },
    /// The texels have more than 2^64 bytes.
    TooLarge,
    /// The resource is a buffer. Copy bytes to it instead.
    NotAnImage,
    /// The image has several samples per texel. Render to it, or resolve into it.
    Multisampled {
        /// Samples per texel.
        samples: u32,
    },
    /// A copy on the queue cannot find the texels in the state before it, or leave them in the state after it. On Vulkan
    /// no image is left in the layouts `UNDEFINED` and `PREINITIALIZED`; on a copy queue of Direct3D 12 both states are
    /// `COMMON`.
    States {
        /// The queue of the copy.
        queue: QueueIndex,
    },
    /// The image was not created for such copies. Add the usage flags to its description.
    MissingUsage {
        /// The missing usages.
        missing: TransferUsage,
    },
}

/// Writes a box or a level.
struct Texels([u32; 3]);

impl fmt::Display for Texels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [width, height, depth] = self.0;
        write!(f, "{width}x{height}x{depth} texels")
    }
}

/// Writes a block.
struct Block(TexelBlock);

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TexelBlock { bytes, width, height } = self.0;
        write!(f, "{bytes} bytes for {width}x{height} texels")
    }
}

impl fmt::Display for ImageCopyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NoSuchSubresource { mip_level, array_layer, mip_levels, array_layers } => write!(
                f,
                "there is no mip level {mip_level} of array layer {array_layer}: the image has {mip_levels} mip levels of {array_layers} array layers, which count from 0; choose one of them"
            ),
            Self::OutsideLevel { mip_level, origin: [x, y, z], extent, level } => write!(
                f,
                "the box of {} at ({x}, {y}, {z}) exceeds mip level {mip_level} of {}, choose a box inside it",
                Texels(extent),
                Texels(level)
            ),
            Self::PartOfBlock { origin: [x, y, z], extent, level, texel } => write!(
                f,
                "the box of {} at ({x}, {y}, {z}) of a mip level of {} cuts blocks of {}x{} texels, begin and end at whole blocks or at the end of the level",
                Texels(extent),
                Texels(level),
                texel.width,
                texel.height
            ),
            Self::WrongTexel { expected: Some(expected), found } => write!(
                f,
                "the image's format has texel blocks of {}, not of {}; pass those of the format",
                Block(expected),
                Block(found)
            ),
            Self::WrongTexel { expected: None, found } => {
                write!(f, "no format has texel blocks of {}; pass those of the image's format", Block(found))
            }
            Self::NoSuchAspect { aspect, texels } => {
                write!(f, "the image's format has no {aspect} aspect, copy those that it has: {texels}")
            }
            Self::NeedsGraphicsQueue { aspect, queue } => {
                write!(f, "queue {} does not copy the {aspect} aspect, copy it on a graphics queue", queue.0)
            }
            Self::PartOfLevel { aspect, origin: [x, y, z], extent, level } => write!(
                f,
                "the box of {} at ({x}, {y}, {z}) is a part of a mip level of {}, and the device copies the {aspect} aspect of whole mip levels only; copy the whole level",
                Texels(extent),
                Texels(level)
            ),
            Self::RegionOfSeveral { mip_levels, texels } => write!(
                f,
                "a box was chosen of {mip_levels} mip levels and of these aspects: {texels}; choose one mip level and one aspect"
            ),
            Self::TooLarge => {
                f.write_str("the texels have more than 2^64 bytes, choose fewer mip levels or layers")
            }
            Self::NotAnImage => f.write_str("the resource is a buffer, copy bytes to it instead"),
            Self::Multisampled { samples } => write!(
                f,
                "the image has {samples} samples per texel, and only an image of one sample is copied from and to buffers; resolve it, or render to it"
            ),
            Self::States { queue } => write!(
                f,
                "a copy on queue {} cannot take the image from the state before it to the state after it, choose others",
                queue.0
            ),
            Self::MissingUsage { missing } => {
                write!(f, "the image was created without the usage {missing}, add it to the description")
            }
        }
    }
}

impl Error for ImageCopyError {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::device::TexelPlane;

    const BC: TexelBlock = TexelBlock { bytes: 8, width: 4, height: 4 };
    const RGBA: TexelBlock = TexelBlock::new(4);

    fn shape(extent: [u32; 3], mip_levels: u32, array_layers: u32, texel: TexelBlock) -> ImageShape {
        ImageShape { mip_levels, array_layers, ..ImageShape::new(extent, texel.into()) }
    }

    /// Whether a box may be copied, texel by texel: each is in the level, and so is all of its block in the box, as far as
    /// the level has it.
    fn may_be_copied(level: [u32; 3], origin: [u32; 3], extent: [u32; 3], texel: TexelBlock) -> bool {
        let block = [texel.width, texel.height, 1];
        (0..3).all(|axis| {
            let in_box = |at| (origin[axis]..origin[axis] + extent[axis]).contains(&at);
            (origin[axis]..origin[axis] + extent[axis]).all(|at| {
                let first = at / block[axis] * block[axis];
                let of_block = first..(first + block[axis]).min(level[axis]);
                at < level[axis] && of_block.into_iter().all(in_box)
            })
        })
    }

    proptest! {
        #[test]
        fn a_box_is_copied_if_each_of_its_texels_and_blocks_is_in_the_level(
            image in [1..20u32, 1..20, 1..6],
            (mip_level, mip_levels) in (0..6u32, 1..6u32),
            (array_layer, array_layers) in (0..4u32, 1..4u32),
            origin in [0..22u32, 0..22, 0..7],
            extent in [1..22u32, 1..22, 1..7],
            block in [1..6u32, 1..6],
        ) {
            let texel = TexelBlock { bytes: 8, width: block[0], height: block[1] };
            let shape = shape(image, mip_levels, array_layers, texel);
            let region = ImageRegion { aspect: ImageAspect::Color, mip_level, array_layer, origin, extent };
            let found = shape.check_copy(&region, texel, TransferUsage::DST);
            let level = image.map(|side| (0..mip_level).fold(side, |side, _| (side / 2).max(1)));
            let is_there = mip_level < mip_levels && array_layer < array_layers;
            prop_assert_eq!(found.is_ok(), is_there && may_be_copied(level, origin, extent, texel), "{:?}", found);
        }
    }

    #[test]
    fn the_edges_of_a_level_are_those_of_the_apis() {
        use ImageCopyError::{NoSuchSubresource, OutsideLevel, PartOfBlock};
        let no_subresource = |error: &_| matches!(error, NoSuchSubresource { .. });
        let outside = |error: &_| matches!(error, OutsideLevel { .. });
        let part = |error: &_| matches!(error, PartOfBlock { .. });
        let flat = shape([5, 1, 1], 3, 6, RGBA);
        let deep = shape([4, 4, 4], 3, 1, RGBA);
        // 10 x 6 texels, then 5 x 3, 2 x 1 and 1 x 1: smaller than a block.
        let blocks = shape([10, 6, 1], 4, 1, BC);
        let whole = [0; 3];
        /// An image, a subresource, a box's origin and extent, and the rule that it breaks.
        type Case<'a> = (&'a ImageShape, [u32; 2], [u32; 3], [u32; 3], Option<fn(&ImageCopyError) -> bool>);
        let cases: [Case<'_>; 22] = [
            (&flat, [2, 5], whole, [1, 1, 1], None),
            (&flat, [3, 0], whole, [1, 1, 1], Some(no_subresource)),
            (&flat, [0, 6], whole, [1, 1, 1], Some(no_subresource)),
            (&flat, [u32::MAX, 0], whole, [1, 1, 1], Some(no_subresource)),
            (&flat, [0, u32::MAX], whole, [1, 1, 1], Some(no_subresource)),
            (&flat, [2, 0], whole, [2, 1, 1], Some(outside)),
            (&flat, [1, 0], whole, [2, 1, 1], None),
            (&flat, [0, 0], [5, 0, 0], [0, 1, 1], None),
            (&flat, [0, 0], [6, 0, 0], [0, 1, 1], Some(outside)),
            (&flat, [0, 0], [u32::MAX, 0, 0], [2, 1, 1], Some(outside)),
            // Layers of an array do not become fewer, slices of a 3D image do; and layers are no slices.
            (&flat, [2, 0], whole, [1, 1, 2], Some(outside)),
            (&deep, [1, 0], [0, 0, 1], [2, 2, 1], None),
            (&deep, [1, 0], [0, 0, 2], [2, 2, 1], Some(outside)),
            (&deep, [2, 0], whole, [1, 1, 2], Some(outside)),
            (&deep, [0, 1], whole, [4, 4, 1], Some(no_subresource)),
            (&blocks, [0, 0], [8, 4, 0], [2, 2, 1], None),
            (&blocks, [0, 0], [8, 4, 0], [4, 4, 1], Some(outside)),
            (&blocks, [0, 0], whole, [6, 6, 1], Some(part)),
            (&blocks, [0, 0], [2, 0, 0], [8, 6, 1], Some(part)),
            (&blocks, [2, 0], whole, [2, 1, 1], None),
            (&blocks, [2, 0], whole, [1, 1, 1], Some(part)),
            (&blocks, [3, 0], whole, [4, 4, 1], Some(outside)),
        ];
        for (at, (image, [mip_level, array_layer], origin, extent, rule)) in cases.into_iter().enumerate() {
            let TexelLayout::Color(texel) = image.texels else { unreachable!("all have") };
            let region = ImageRegion { aspect: ImageAspect::Color, mip_level, array_layer, origin, extent };
            let found = image.check_copy(&region, texel, TransferUsage::SRC);
            match rule {
                None => assert_eq!(found, Ok(()), "{at}"),
                Some(rule) => assert!(found.as_ref().is_err_and(rule), "{at}: {found:?}"),
            }
        }
    }

    #[test]
    fn images_that_buffers_cannot_be_copied_to_are_refused_with_the_reason() {
        let plain = ImageShape::new([8, 8, 1], RGBA.into());
        let all = ImageRegion::new(ImageAspect::Color, [8, 8, 1]);
        let check = |image: ImageShape, texel| image.check_copy(&all, texel, TransferUsage::DST).unwrap_err();
        let none = TexelBlock { bytes: 4, width: 0, height: 1 };
        assert_eq!(check(plain, BC), ImageCopyError::WrongTexel { expected: Some(RGBA), found: BC });
        let unknown = ImageShape { texels: TexelLayout::Unknown, ..plain };
        assert_eq!(check(unknown, none), ImageCopyError::WrongTexel { expected: None, found: none });
        assert_eq!(unknown.check_copy(&all, BC, TransferUsage::DST), Ok(()));
        let multisampled = ImageShape { samples: 4, ..plain };
        assert_eq!(check(multisampled, RGBA), ImageCopyError::Multisampled { samples: 4 });
        let source = ImageShape { transfer_usage: TransferUsage::SRC, ..plain };
        assert_eq!(check(source, RGBA), ImageCopyError::MissingUsage { missing: TransferUsage::DST });
    }

    #[test]
    fn an_aspect_is_copied_with_its_own_blocks_and_its_own_extent() {
        let (four, one) = (TexelBlock::new(4), TexelBlock::new(1));
        let depth = TexelLayout::DepthStencil { depth: Some(four), stencil: Some(one) };
        let plane = |bytes, subsampling| Some(TexelPlane { bytes, subsampling });
        let planes = TexelLayout::Planar([plane(1, [1, 1]), plane(2, [2, 2]), None]);
        let check = |texels, aspect, extent, texel| {
            let shape = ImageShape::new([6, 5, 1], texels);
            shape.check_copy(&ImageRegion::new(aspect, extent), texel, TransferUsage::SRC)
        };
        let (level, half) = ([6, 5, 1], [3, 3, 1]);
        assert_eq!(check(depth, ImageAspect::Depth, level, four), Ok(()));
        assert_eq!(check(depth, ImageAspect::Stencil, level, one), Ok(()));
        assert_eq!(check(planes, ImageAspect::Plane0, level, one), Ok(()));
        assert_eq!(check(planes, ImageAspect::Plane1, half, TexelBlock::new(2)), Ok(()));
        let wrong = |expected, found| Err(ImageCopyError::WrongTexel { expected: Some(expected), found });
        assert_eq!(check(depth, ImageAspect::Stencil, level, four), wrong(one, four));
        let outside = check(planes, ImageAspect::Plane1, level, TexelBlock::new(2));
        assert!(matches!(outside, Err(ImageCopyError::OutsideLevel { level, .. }) if level == half));
        for (texels, aspect) in [
            (depth, ImageAspect::Color),
            (planes, ImageAspect::Color),
            (planes, ImageAspect::Plane2),
            (RGBA.into(), ImageAspect::Depth),
            (TexelLayout::Unknown, ImageAspect::Stencil),
        ] {
            let refused = check(texels, aspect, level, four);
            assert_eq!(refused, Err(ImageCopyError::NoSuchAspect { aspect, texels }));
        }
    }

    #[test]
    fn a_part_of_a_level_is_refused_where_only_whole_ones_are_copied() {
        let texel = TexelBlock::new(2);
        let depth = TexelLayout::DepthStencil { depth: Some(texel), stencil: None };
        let shape = ImageShape { mip_levels: 2, whole_levels: true, ..ImageShape::new([8, 4, 1], depth) };
        let region =
            |mip_level, extent| ImageRegion { mip_level, ..ImageRegion::new(ImageAspect::Depth, extent) };
        let check = |region: ImageRegion| shape.check_copy(&region, texel, TransferUsage::DST);
        assert_eq!(check(region(0, [8, 4, 1])), Ok(()));
        assert_eq!(check(region(1, [4, 2, 1])), Ok(()));
        assert_eq!(check(region(0, [0, 4, 1])), Ok(()), "nothing is copied");
        assert!(matches!(check(region(0, [4, 4, 1])), Err(ImageCopyError::PartOfLevel { .. })));
    }
}
