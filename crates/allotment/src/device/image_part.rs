//! A part of an image, or all of it, and the order in which bytes have its texels.
//!
//! ```text
//!   an image of 2 layers with 3 mip levels           LayerMajor, as in DDS files and for Direct3D 12
//!                                                    ┌────┬──┬─┬────┬──┬─┐
//!     layer 0   ▓▓▓▓ ▓▓ ▓                            │ 0.0│0.1│…│ 1.0│1.1│…│    layer.level
//!     layer 1   ░░░░ ░░ ░                            └────┴──┴─┴────┴──┴─┘
//!                                                    MipMajor, as in KTX2 files
//!                                                    ┌────┬────┬──┬──┬─┬─┐
//!                                                    │ 0.0│ 1.0│…           level 0 of all layers first
//!                                                    └────┴────┴──┴──┴─┴─┘
//! ```
//!
//! In a subresource the aspects follow each other; in an aspect the slices; in a slice the rows of blocks, without padding.

use core::ops::Range;

use super::{ImageAspect, ImageCopyError, ImageRegion, ImageShape, TexelBlock, TexelLayout};

/// The order in which bytes have the mip levels and array layers of an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ImageDataOrder {
    /// All mip levels of the first array layer, then those of the next: the order of Direct3D 12's subresources and of DDS
    /// files.
    #[default]
    LayerMajor,
    /// The first mip level of all array layers, then the next level: the order of KTX2 files, once their levels are sorted.
    MipMajor,
}

/// What of an image is copied, and the order in which bytes have it. The default is the whole image.
///
/// ```
/// use allotment::device::{ImagePart, ImageShape, TexelBlock};
///
/// // A cube map of 256 × 256 texels in BC7, with all mip levels.
/// let mut sky = ImageShape::new([256, 256, 1], TexelBlock { bytes: 16, width: 4, height: 4 }.into());
/// (sky.mip_levels, sky.array_layers) = (9, 6);
/// let level = |level: u32| u64::from((256_u32 >> level).div_ceil(4).pow(2)) * 16;
/// let all = (0..9).map(level).sum::<u64>() * 6;
/// assert_eq!(sky.part_bytes(&ImagePart::default())?, all);
/// // The sixth face, without its largest level.
/// let part = ImagePart::default().with_mip_levels(1..9).with_array_layers(5..6);
/// assert_eq!(sky.part_bytes(&part)?, (1..9).map(level).sum::<u64>());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ImagePart {
    /// The mip levels; `None` for all.
    pub mip_levels: Option<Range<u32>>,
    /// The array layers, of which a cube has six; `None` for all.
    pub array_layers: Option<Range<u32>>,
    /// The aspect; `None` for all that the format has.
    pub aspect: Option<ImageAspect>,
    /// First texel and extent of a box, in texels of the aspect; `None` for all texels.
    pub region: Option<([u32; 3], [u32; 3])>,
    /// The order of the bytes.
    pub order: ImageDataOrder,
    /// The texel block, for a format of an extension that the library does not know. Set by an unsafe function alone: with
    /// another block, a copy would read past the bytes that are there.
    pub(crate) texel: Option<TexelBlock>,
}

impl Default for ImagePart {
    fn default() -> Self {
        let order = ImageDataOrder::LayerMajor;
        Self { mip_levels: None, array_layers: None, aspect: None, region: None, order, texel: None }
    }
}

impl ImagePart {
    /// Chooses mip levels.
    ///
    /// ```
    /// # use allotment::device::{ImagePart, ImageShape, TexelBlock};
    /// # let mut shape = ImageShape::new([64, 64, 1], TexelBlock::new(4).into());
    /// # (shape.mip_levels, shape.array_layers) = (7, 6);
    /// let smaller = ImagePart::default().with_mip_levels(1..3);
    /// assert_eq!(shape.part_bytes(&smaller)?, 6 * (32 * 32 + 16 * 16) * 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_mip_levels(self, mip_levels: Range<u32>) -> Self {
        Self { mip_levels: Some(mip_levels), ..self }
    }

    /// Chooses array layers: faces of a cube, say.
    ///
    /// ```
    /// # use allotment::device::{ImagePart, ImageShape, TexelBlock};
    /// # let mut shape = ImageShape::new([64, 64, 1], TexelBlock::new(4).into());
    /// # (shape.mip_levels, shape.array_layers) = (7, 6);
    /// let face = ImagePart::default().with_array_layers(2..3).with_mip_levels(0..1);
    /// assert_eq!(shape.part_bytes(&face)?, 64 * 64 * 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_array_layers(self, array_layers: Range<u32>) -> Self {
        Self { array_layers: Some(array_layers), ..self }
    }

    /// Chooses one aspect: depth or stencil, or one plane.
    ///
    /// ```
    /// use allotment::device::{ImageAspect, ImagePart, ImageShape, TexelBlock, TexelLayout};
    ///
    /// let (depth, stencil) = (Some(TexelBlock::new(4)), Some(TexelBlock::new(1)));
    /// let shape = ImageShape::new([64, 64, 1], TexelLayout::DepthStencil { depth, stencil });
    /// assert_eq!(shape.part_bytes(&ImagePart::default())?, 64 * 64 * (4 + 1));
    /// assert_eq!(shape.part_bytes(&ImagePart::default().with_aspect(ImageAspect::Stencil))?, 64 * 64);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_aspect(self, aspect: ImageAspect) -> Self {
        Self { aspect: Some(aspect), ..self }
    }

    /// Chooses a box of texels, of one mip level and one aspect.
    ///
    /// ```
    /// # use allotment::device::{ImagePart, ImageShape, TexelBlock};
    /// # let mut shape = ImageShape::new([64, 64, 1], TexelBlock::new(4).into());
    /// # (shape.mip_levels, shape.array_layers) = (7, 6);
    /// let glyph = ImagePart::default().with_mip_levels(0..1).with_array_layers(0..1).with_region([32, 8, 0], [16, 16, 1]);
    /// assert_eq!(shape.part_bytes(&glyph)?, 16 * 16 * 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_region(self, origin: [u32; 3], extent: [u32; 3]) -> Self {
        Self { region: Some((origin, extent)), ..self }
    }

    /// Sets the order in which bytes have mip levels and array layers.
    ///
    /// ```
    /// use allotment::device::{ImageDataOrder, ImagePart};
    ///
    /// let of_ktx2_file = ImagePart::default().with_order(ImageDataOrder::MipMajor);
    /// assert_eq!(ImagePart::default().order, ImageDataOrder::LayerMajor, "that of DDS files");
    /// # let _ = of_ktx2_file;
    /// ```
    #[must_use]
    pub fn with_order(self, order: ImageDataOrder) -> Self {
        Self { order, ..self }
    }

    /// Says what the texel blocks are, of an image whose format is one of an extension that the library does not know. Of
    /// other formats it has to be their own block, which is checked.
    ///
    /// ```
    /// use allotment::device::{ImagePart, ImageShape, TexelBlock, TexelLayout};
    ///
    /// let shape = ImageShape::new([64, 64, 1], TexelLayout::Unknown);
    /// assert!(shape.part_bytes(&ImagePart::default()).is_err());
    /// // SAFETY: the format has blocks of 8 × 4 texels in 8 bytes, as its extension says.
    /// let part = unsafe { ImagePart::default().with_texel(TexelBlock { bytes: 8, width: 8, height: 4 }) };
    /// assert_eq!(shape.part_bytes(&part)?, 8 * 16 * 8);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Safety
    ///
    /// Where the part is of an image whose format the library does not know, `texel` is the block of that format.
    #[must_use]
    pub unsafe fn with_texel(self, texel: TexelBlock) -> Self {
        Self { texel: Some(texel), ..self }
    }
}

impl From<ImageRegion> for ImagePart {
    fn from(region: ImageRegion) -> Self {
        let ImageRegion { aspect, mip_level, array_layer, origin, extent } = region;
        let part = Self::default().with_mip_levels(mip_level..mip_level.saturating_add(1));
        let part = part.with_array_layers(array_layer..array_layer.saturating_add(1));
        part.with_aspect(aspect).with_region(origin, extent)
    }
}

/// The regions of an [`ImagePart`], in the order of their bytes. Checked when made: each lies in the image.
#[derive(Clone, Debug)]
pub(crate) struct PartRegions<'a> {
    shape: &'a ImageShape,
    levels: Range<u32>,
    layers: Range<u32>,
    aspects: Aspects,
    region: Option<([u32; 3], [u32; 3])>,
    order: ImageDataOrder,
    /// Levels, layers and aspects as one number, of those that come next and of all.
    next: u64,
    end: u64,
}

/// The aspects of a part with their blocks, in order.
#[derive(Clone, Copy, Debug)]
struct Aspects {
    list: [(ImageAspect, TexelBlock); 3],
    count: usize,
}

/// A region of a part: all of its texels are of one aspect of one subresource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartRegion {
    pub(crate) region: ImageRegion,
    pub(crate) texel: TexelBlock,
}

impl PartRegion {
    /// Returns the bytes of a row of blocks.
    pub(crate) fn row_bytes(&self) -> u64 {
        self.texel.row_bytes(self.region.extent[0])
    }

    /// Returns the rows of blocks of a slice.
    pub(crate) fn rows(&self) -> u32 {
        self.texel.rows(self.region.extent[1])
    }

    /// Returns the bytes of all rows; `None` beyond 2^64.
    pub(crate) fn bytes(&self) -> Option<u64> {
        let rows = u64::from(self.rows()).checked_mul(self.region.extent[2].into())?;
        self.row_bytes().checked_mul(rows)
    }
}

impl ImageShape {
    /// Returns the bytes of a part of the image: of all its mip levels, layers and aspects, without padding.
    ///
    /// # Errors
    ///
    /// [`ImageCopyError`] where the image has no such part.
    pub fn part_bytes(&self, part: &ImagePart) -> Result<u64, ImageCopyError> {
        // An image has less than 2^64 bytes, but this number is anybody's.
        self.regions(part)?
            .try_fold(0_u64, |sum, region| sum.checked_add(region.bytes()?))
            .ok_or(ImageCopyError::TooLarge)
    }

    /// Returns the regions of a part of the image, in the order of their bytes. A part of several aspects has each of a
    /// subresource in turn.
    ///
    /// # Errors
    ///
    /// [`ImageCopyError`] where the image has no such part.
    pub(crate) fn regions(&self, part: &ImagePart) -> Result<PartRegions<'_>, ImageCopyError> {
        let &Self { mip_levels, array_layers, texels, .. } = self;
        let levels = part.mip_levels.clone().unwrap_or(0..mip_levels);
        let layers = part.array_layers.clone().unwrap_or(0..array_layers);
        let aspects = self.aspects(part)?;
        // An empty range is no mistake of arithmetic that a caller should not hear of, but a part without texels.
        if levels.end > mip_levels || layers.end > array_layers {
            let (mip_level, array_layer) = (levels.end.saturating_sub(1), layers.end.saturating_sub(1));
            return Err(ImageCopyError::NoSuchSubresource {
                mip_level,
                array_layer,
                mip_levels,
                array_layers,
            });
        }
        if part.region.is_some() && (levels.len() > 1 || aspects.count > 1) {
            return Err(ImageCopyError::RegionOfSeveral { mip_levels: levels.len() as u32, texels });
        }
        let end = (levels.len() * layers.len()) as u64 * aspects.count as u64;
        let (region, order) = (part.region, part.order);
        Ok(PartRegions { shape: self, levels, layers, aspects, region, order, next: 0, end })
    }

    /// Returns the aspects of a part.
    fn aspects(&self, part: &ImagePart) -> Result<Aspects, ImageCopyError> {
        let texels = self.texels;
        let mut aspects = Aspects { list: [(ImageAspect::Color, TexelBlock::new(1)); 3], count: 0 };
        let wanted = |aspect: &ImageAspect| part.aspect.is_none_or(|wanted| wanted == *aspect);
        for aspect in texels.aspects().filter(wanted) {
            if let Some(block) = texels.block(aspect) {
                aspects.list[aspects.count] = (aspect, block);
                aspects.count += 1;
            }
        }
        let color = part.aspect.is_none_or(|aspect| aspect == ImageAspect::Color);
        match (aspects.count, part.texel) {
            (0, Some(texel)) if texels == TexelLayout::Unknown && color => {
                aspects.list[0] = (ImageAspect::Color, texel);
                aspects.count = 1;
                Ok(aspects)
            }
            (0, _) => {
                let aspect = part.aspect.unwrap_or_default();
                Err(ImageCopyError::NoSuchAspect { aspect, texels })
            }
            (1, Some(found)) if found != aspects.list[0].1 => {
                Err(ImageCopyError::WrongTexel { expected: Some(aspects.list[0].1), found })
            }
            _ => Ok(aspects),
        }
    }
}

impl PartRegions<'_> {
    /// Returns the mip levels and the array layers that the regions are of.
    pub(crate) fn subresources(&self) -> (Range<u32>, Range<u32>) {
        (self.levels.clone(), self.layers.clone())
    }
}

impl Iterator for PartRegions<'_> {
    type Item = PartRegion;

    fn next(&mut self) -> Option<PartRegion> {
        if self.next == self.end {
            return None;
        }
        // The aspect changes first, as the last digit of a number.
        let aspects = self.aspects.count as u64;
        let (subresource, aspect) = (self.next / aspects, (self.next % aspects) as usize);
        self.next += 1;
        let (levels, layers) = (self.levels.len() as u64, self.layers.len() as u64);
        let (level, layer) = match self.order {
            ImageDataOrder::LayerMajor => (subresource % levels, subresource / levels),
            ImageDataOrder::MipMajor => (subresource / layers, subresource % layers),
        };
        let (mip_level, array_layer) = (self.levels.start + level as u32, self.layers.start + layer as u32);
        let (aspect, texel) = self.aspects.list[aspect];
        let (origin, extent) =
            self.region.unwrap_or_else(|| ([0; 3], self.shape.level_of(aspect, mip_level)));
        let region = ImageRegion { aspect, mip_level, array_layer, origin, extent };
        Some(PartRegion { region, texel })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::device::{TexelPlane, TransferUsage};

    fn layout() -> impl Strategy<Value = TexelLayout> {
        let plane = |bytes, subsampling| Some(TexelPlane { bytes, subsampling });
        let (four, one) = (Some(TexelBlock::new(4)), Some(TexelBlock::new(1)));
        prop_oneof![
            Just(TexelBlock::new(4).into()),
            Just(TexelBlock { bytes: 8, width: 4, height: 4 }.into()),
            Just(TexelLayout::DepthStencil { depth: four, stencil: one }),
            Just(TexelLayout::DepthStencil { depth: None, stencil: one }),
            Just(TexelLayout::Planar([plane(1, [1, 1]), plane(2, [2, 2]), None])),
        ]
    }

    proptest! {
        #[test]
        fn the_regions_of_a_part_are_all_of_its_texels_once_and_in_its_order(
            extent in [1..20_u32, 1..20, 1..4],
            (mip_levels, array_layers) in (1..5_u32, 1..4_u32),
            texels in layout(),
            (level, levels, layer, layers) in (0..4_u32, 0..5_u32, 0..3_u32, 0..4_u32),
            is_mip_major in any::<bool>(),
        ) {
            let mut shape = ImageShape::new(extent, texels);
            (shape.mip_levels, shape.array_layers) = (mip_levels, array_layers);
            let (order, is_there) = (
                if is_mip_major { ImageDataOrder::MipMajor } else { ImageDataOrder::LayerMajor },
                level + levels <= mip_levels && layer + layers <= array_layers,
            );
            let part = ImagePart::default()
                .with_mip_levels(level..level + levels)
                .with_array_layers(layer..layer + layers)
                .with_order(order);
            let found = shape.regions(&part).map(Iterator::collect::<Vec<_>>);
            prop_assert_eq!(found.is_ok(), is_there);
            let Ok(found) = found else { return Ok(()) };
            // Each is a copy that the image allows.
            for PartRegion { region, texel } in &found {
                prop_assert_eq!(shape.check_copy(region, *texel, TransferUsage::DST), Ok(()));
            }
            let mut expected = Vec::new();
            for layer in layer..layer + layers {
                for level in level..level + levels {
                    expected.extend(texels.aspects().map(|aspect| (layer, level, aspect)));
                }
            }
            if is_mip_major {
                expected.sort_by_key(|(layer, level, aspect)| (*level, *layer, *aspect));
            }
            let listed = found.iter().map(|PartRegion { region, .. }| (region.array_layer, region.mip_level, region.aspect));
            prop_assert_eq!(listed.collect::<Vec<_>>(), expected);
            // The bytes are those of whole blocks, counted one by one.
            let blocks = |length: u32, block: u32| u64::from((0..length).step_by(block as usize).count() as u32);
            let bytes = found.iter().map(|PartRegion { region, texel }| {
                let [width, height, depth] = region.extent;
                blocks(width, texel.width) * blocks(height, texel.height) * u64::from(depth) * u64::from(texel.bytes)
            });
            prop_assert_eq!(shape.part_bytes(&part), Ok(bytes.sum::<u64>()));
        }
    }

    #[test]
    fn parts_that_an_image_does_not_have_are_refused_with_the_reason() {
        let depth =
            TexelLayout::DepthStencil { depth: Some(TexelBlock::new(4)), stencil: Some(TexelBlock::new(1)) };
        let shape = ImageShape { mip_levels: 3, ..ImageShape::new([8, 8, 1], depth) };
        let refused = |part| shape.part_bytes(&part).unwrap_err();
        let part = ImagePart::default;
        let color = refused(part().with_aspect(ImageAspect::Color));
        assert!(matches!(color, ImageCopyError::NoSuchAspect { aspect: ImageAspect::Color, .. }));
        let level = refused(part().with_mip_levels(2..4));
        assert!(matches!(level, ImageCopyError::NoSuchSubresource { mip_level: 3, .. }));
        let several = refused(part().with_region([0; 3], [4, 4, 1]));
        assert!(matches!(several, ImageCopyError::RegionOfSeveral { mip_levels: 3, .. }));
        let one = part().with_mip_levels(1..2).with_aspect(ImageAspect::Stencil);
        assert_eq!(shape.part_bytes(&one.clone().with_region([0; 3], [4, 2, 1])), Ok(8));
        // SAFETY: the library knows the format.
        let wrong = refused(unsafe { one.with_texel(TexelBlock::new(4)) });
        assert!(matches!(wrong, ImageCopyError::WrongTexel { .. }));

        let unknown = ImageShape::new([8, 8, 1], TexelLayout::Unknown);
        let untold = unknown.part_bytes(&part()).unwrap_err();
        assert!(matches!(untold, ImageCopyError::NoSuchAspect { .. }));
        // SAFETY: there is no image of it.
        let told = unsafe { part().with_texel(TexelBlock::new(2)) };
        assert_eq!(unknown.part_bytes(&told), Ok(128));
        let endless =
            ImageShape { mip_levels: 1, ..ImageShape::new([u32::MAX; 3], TexelBlock::new(16).into()) };
        assert_eq!(endless.part_bytes(&part()), Err(ImageCopyError::TooLarge));
        assert_eq!(endless.part_bytes(&part().with_mip_levels(1..1)), Ok(0), "nothing is copied");
    }
}
