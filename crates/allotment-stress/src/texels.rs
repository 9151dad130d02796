//! The expected texels of an image: which boxes of them a part has, in which order, and what each byte should be.
//!
//! ```text
//!   ImagePart ──boxes──► [TexelBox]     in the order of the bytes, or none where the image has no such part
//!                           │ rows
//!                           ▼
//!   Plane                the bytes of one aspect of one subresource, rows of blocks without padding
//! ```
//!
//! Counted texel by texel from what the APIs say, without the library's own code for parts of images: two programs with the
//! same fault would agree.

use core::ops::Range;

use allotment::device::{ImageAspect, ImageDataOrder, ImagePart, ImageShape, TexelBlock};

use crate::shadow::pattern;

/// What a byte should be: its value, or [`UNKNOWN`].
pub(crate) type Expected = u16;

/// Any value.
const UNKNOWN: Expected = 0x100;

/// The values that 4 bytes of a texel have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TexelValues {
    /// All that the bytes can be.
    Any,
    /// The lower 24 bits. The upper ones are undefined in what is copied out of an image.
    Low24,
    /// Numbers from 0 to 1.
    Float,
}

/// What the library knows of the state of a subresource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// Nothing was written.
    Nothing,
    State,
    /// The state was forgotten.
    Forgotten,
    /// A write failed halfway.
    Perhaps,
}

/// The texels of one aspect of one subresource.
#[derive(Clone, Debug)]
struct Plane {
    aspect: ImageAspect,
    mip_level: u32,
    array_layer: u32,
    extent: [u32; 3],
    block: TexelBlock,
    bytes: Vec<Expected>,
}

/// Texels of one plane that are copied at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TexelBox {
    plane: usize,
    origin: [u32; 3],
    extent: [u32; 3],
}

/// The texels of an image.
#[derive(Clone, Debug)]
pub(crate) struct Texels {
    shape: ImageShape,
    values: TexelValues,
    /// By array layer, mip level and aspect.
    planes: Vec<Plane>,
    /// By array layer and mip level.
    known: Vec<Known>,
}

impl Texels {
    /// Describes a new image.
    pub(crate) fn new(shape: ImageShape, values: TexelValues) -> Self {
        let mut planes = Vec::new();
        for array_layer in 0..shape.array_layers {
            for mip_level in 0..shape.mip_levels {
                for aspect in shape.texels.aspects() {
                    let Some(block) = shape.texels.block(aspect) else { continue };
                    let [wide, high] = shape.texels.subsampling(aspect);
                    let [width, height, depth] = shape.extent.map(|side| (side >> mip_level).max(1));
                    let extent = [width.div_ceil(wide), height.div_ceil(high), depth];
                    let row = extent[0].div_ceil(block.width) * block.bytes;
                    let size = row * extent[1].div_ceil(block.height) * depth;
                    let bytes = vec![UNKNOWN; size as usize];
                    planes.push(Plane { aspect, mip_level, array_layer, extent, block, bytes });
                }
            }
        }
        let known = vec![Known::Nothing; (shape.array_layers * shape.mip_levels) as usize];
        Self { shape, values, planes, known }
    }

    pub(crate) fn shape(&self) -> &ImageShape {
        &self.shape
    }

    /// Returns the extent and the texel block of an aspect of a mip level.
    pub(crate) fn level(&self, aspect: ImageAspect, mip_level: u32) -> Option<([u32; 3], TexelBlock)> {
        let found = self.planes.iter().find(|it| it.aspect == aspect && it.mip_level == mip_level)?;
        Some((found.extent, found.block))
    }

    /// Returns the boxes of a part, in the order of its bytes; `None` where no copy can have them.
    pub(crate) fn boxes(&self, part: &ImagePart) -> Option<Vec<TexelBox>> {
        let ImageShape { mip_levels, array_layers, samples, whole_levels, .. } = self.shape;
        let levels = part.mip_levels.clone().unwrap_or(0..mip_levels);
        let layers = part.array_layers.clone().unwrap_or(0..array_layers);
        let is_wanted = |aspect: &ImageAspect| part.aspect.is_none_or(|wanted| wanted == *aspect);
        let aspects: Vec<_> = self.shape.texels.aspects().filter(is_wanted).collect();
        let of_several = part.region.is_some() && (levels.len() > 1 || aspects.len() > 1);
        if aspects.is_empty() || levels.end > mip_levels || layers.end > array_layers || of_several {
            return None;
        }
        let subresources: Vec<(u32, u32)> = match part.order {
            ImageDataOrder::LayerMajor => {
                layers.flat_map(|layer| levels.clone().map(move |level| (level, layer))).collect()
            }
            ImageDataOrder::MipMajor => {
                levels.flat_map(|level| layers.clone().map(move |layer| (level, layer))).collect()
            }
        };
        let mut boxes = Vec::new();
        for (mip_level, array_layer) in subresources {
            for &aspect in &aspects {
                let is_it = |it: &Plane| {
                    (it.aspect, it.mip_level, it.array_layer) == (aspect, mip_level, array_layer)
                };
                let plane = self.planes.iter().position(is_it)?;
                let Plane { extent: level, block, .. } = self.planes[plane];
                let (origin, extent) = part.region.unwrap_or(([0; 3], level));
                let sides = [block.width, block.height, 1];
                for axis in 0..3 {
                    let (first, side) = (u64::from(origin[axis]), u64::from(sides[axis]));
                    let (end, level_end) = (first + u64::from(extent[axis]), u64::from(level[axis]));
                    let is_whole = first % side == 0 && (end % side == 0 || end == level_end);
                    if end > level_end || !is_whole {
                        return None;
                    }
                }
                if samples != 1 || (whole_levels && extent != level && !extent.contains(&0)) {
                    return None;
                }
                boxes.push(TexelBox { plane, origin, extent });
            }
        }
        Some(boxes)
    }

    /// Returns where the bytes of a box are in its plane, row by row.
    fn rows(&self, it: &TexelBox) -> impl Iterator<Item = Range<usize>> + use<> {
        let Plane { extent: [width, height, _], block, .. } = self.planes[it.plane];
        let &TexelBox { origin: [x, y, z], extent: [wide, high, deep], .. } = it;
        let (pitch, lines) = (width.div_ceil(block.width) * block.bytes, height.div_ceil(block.height));
        let (first, row) = (x / block.width * block.bytes, wide.div_ceil(block.width) * block.bytes);
        let (top, count) = (y / block.height, high.div_ceil(block.height));
        (z..z + deep).flat_map(move |slice| (top..top + count).map(move |line| (slice, line))).map(
            move |(slice, line)| {
                let start = (slice * lines + line) * pitch + first;
                start as usize..(start + row) as usize
            },
        )
    }

    /// Returns the number of bytes of boxes.
    pub(crate) fn size(&self, boxes: &[TexelBox]) -> usize {
        boxes.iter().flat_map(|it| self.rows(it)).map(|row| row.len()).sum()
    }

    /// Returns bytes for boxes that no other call of this process gets.
    pub(crate) fn new_bytes(&self, boxes: &[TexelBox]) -> Vec<u8> {
        let mut bytes = pattern(self.size(boxes) as u64);
        let mut rest = &mut bytes[..];
        for it in boxes {
            let size = self.size(&[*it]);
            let (now, later) = rest.split_at_mut(size);
            if self.values == TexelValues::Float && self.planes[it.plane].block.bytes == 4 {
                // A half to one: nothing that a device may round or flush.
                now.chunks_exact_mut(4).for_each(|texel| {
                    (texel[2], texel[3]) = (texel[2] & 0x7f, 0x3f);
                });
            }
            rest = later;
        }
        bytes
    }

    /// Returns what the bytes of boxes should be.
    pub(crate) fn expected(&self, boxes: &[TexelBox]) -> Vec<Expected> {
        let rows =
            boxes.iter().flat_map(|it| self.rows(it).map(move |row| &self.planes[it.plane].bytes[row]));
        rows.flatten().copied().collect()
    }

    /// Records a write of the first `count` bytes of boxes.
    pub(crate) fn write(&mut self, boxes: &[TexelBox], bytes: &[u8], count: usize) {
        let mut at = 0;
        for it in boxes {
            let rows: Vec<_> = self.rows(it).collect();
            let (plane, values) = (&mut self.planes[it.plane], self.values);
            for row in rows {
                for place in row {
                    if at < count {
                        // The fourth byte of 24 bits comes back as anything.
                        let is_lost =
                            values == TexelValues::Low24 && plane.block.bytes == 4 && place % 4 == 3;
                        plane.bytes[place] = if is_lost { UNKNOWN } else { bytes[at].into() };
                    }
                    at += 1;
                }
            }
        }
    }

    /// Marks the first `count` bytes of boxes as unknown, and with `keeps_rest` no others: else all of the subresources whose
    /// contents may have been discarded.
    pub(crate) fn forget(&mut self, boxes: &[TexelBox], count: usize, keeps_rest: bool) {
        let mut at = 0;
        for it in boxes {
            let rows: Vec<_> = self.rows(it).collect();
            for place in rows.into_iter().flatten() {
                if at < count {
                    self.planes[it.plane].bytes[place] = UNKNOWN;
                }
                at += 1;
            }
            if !keeps_rest || self.known_of(it) != Known::State {
                let (level, layer) = self.subresource(it);
                let of = |plane: &&mut Plane| (plane.mip_level, plane.array_layer) == (level, layer);
                self.planes.iter_mut().filter(of).for_each(|plane| plane.bytes.fill(UNKNOWN));
            }
        }
    }

    fn subresource(&self, it: &TexelBox) -> (u32, u32) {
        let plane = &self.planes[it.plane];
        (plane.mip_level, plane.array_layer)
    }

    fn index(&self, it: &TexelBox) -> usize {
        let (level, layer) = self.subresource(it);
        (layer * self.shape.mip_levels + level) as usize
    }

    /// Returns what is known of the state of a box's subresource.
    pub(crate) fn known_of(&self, it: &TexelBox) -> Known {
        self.known[self.index(it)]
    }

    /// Returns whether the boxes are all texels of their subresources, of all aspects.
    pub(crate) fn are_whole(&self, boxes: &[TexelBox]) -> bool {
        let aspects = self.shape.texels.aspects().count();
        let of = |it: &TexelBox| boxes.iter().filter(|other| self.index(other) == self.index(it)).count();
        boxes.iter().all(|it| it.extent == self.planes[it.plane].extent && of(it) == aspects)
    }

    /// Sets what is known of the states of boxes that have texels.
    pub(crate) fn set_known(&mut self, boxes: &[TexelBox], known: Known) {
        for it in boxes.iter().filter(|it| !it.extent.contains(&0)) {
            let at = self.index(it);
            self.known[at] = known;
        }
    }

    /// Sets what is known of all states.
    pub(crate) fn set_all_known(&mut self, known: Known) {
        self.known.fill(known);
    }

    /// Returns whether everything of it was written.
    pub(crate) fn is_known(&self) -> bool {
        self.known.iter().all(|known| *known == Known::State)
    }
}

/// Returns the first difference and the number of different bytes.
pub(crate) fn difference(expected: &[Expected], found: &[u8]) -> Option<String> {
    if expected.len() != found.len() {
        return Some(format!("{} bytes rather than {}", found.len(), expected.len()));
    }
    let is_wrong = |(_, (expected, found)): &(usize, (&Expected, &u8))| {
        **expected != UNKNOWN && **expected != Expected::from(**found)
    };
    let mut wrong = expected.iter().zip(found).enumerate().filter(is_wrong);
    let (first, (expected_byte, found_byte)) = wrong.next()?;
    let count = 1 + wrong.count();
    Some(format!(
        "{count} of {} bytes are wrong, the first at {first}: {found_byte:#04x} rather than {expected_byte:#04x}",
        expected.len()
    ))
}

#[cfg(test)]
mod tests {
    use allotment::device::{TexelBlock, TexelLayout};

    use super::*;

    fn shape(texels: TexelLayout) -> ImageShape {
        let mut shape = ImageShape::new([10, 6, 1], texels);
        (shape.mip_levels, shape.array_layers) = (3, 2);
        shape
    }

    #[test]
    fn a_part_has_as_many_bytes_as_the_library_says() {
        let depth =
            TexelLayout::DepthStencil { depth: Some(TexelBlock::new(4)), stencil: Some(TexelBlock::new(1)) };
        let blocks = TexelBlock { bytes: 8, width: 4, height: 4 };
        for shape in [shape(TexelBlock::new(3).into()), shape(blocks.into()), shape(depth)] {
            let texels = Texels::new(shape, TexelValues::Any);
            let mut refused = 0;
            let mut input = crate::Input::of_seed(3);
            for _ in 0..2000 {
                let part = crate::images::random_part(&mut input, &texels);
                let size = texels.boxes(&part).map(|boxes| texels.size(&boxes) as u64);
                refused += u32::from(size.is_none());
                // The library looks at boxes only when it copies.
                if let Some(size) = size {
                    assert_eq!(shape.part_bytes(&part), Ok(size), "{part:?}");
                }
            }
            assert!((100..1500).contains(&refused), "{refused}");
        }
    }

    #[test]
    fn a_box_is_found_where_it_was_written_and_the_rest_is_unknown() {
        let mut texels = Texels::new(shape(TexelBlock::new(1).into()), TexelValues::Any);
        let part =
            |x| ImagePart::default().with_mip_levels(0..1).with_array_layers(0..1).with_region(x, [2, 2, 1]);
        let boxes = texels.boxes(&part([3, 1, 0])).unwrap();
        texels.write(&boxes, &[1, 2, 3, 4], 3);
        assert_eq!(texels.expected(&boxes), [1, 2, 3, UNKNOWN]);
        let beside = texels.boxes(&part([4, 2, 0])).unwrap();
        assert_eq!(texels.expected(&beside), [UNKNOWN; 4]);
        let above = texels.boxes(&part([4, 0, 0])).unwrap();
        assert_eq!(texels.expected(&above), [UNKNOWN, UNKNOWN, 2, UNKNOWN]);
        assert_eq!(difference(&texels.expected(&above), &[9, 9, 2, 9]), None);
        assert!(difference(&texels.expected(&above), &[9, 9, 3, 9]).unwrap().contains("1 of 4 bytes"));
        texels.forget(&boxes, 1, true);
        assert_eq!(texels.expected(&boxes)[0], UNKNOWN);
    }
}
