//! The format numbers of the simulated GPU, which say how the texels of an image lie in memory.
//!
//! ```text
//!   31            24 23            16 15             8 7              0
//!   0            bytes per texel                                          a color format
//!   1000 0000       width             height           bytes of a block    blocks of texels
//!   1000 0001       0                 depth            stencil             bytes of each, 0 for none
//!   1001 0wwh       plane 0           plane 1          plane 2             bytes of each, 0 for none
//! ```
//!
//! A texel of the planes 1 and 2 stands for 2^`ww` × 2^`h` texels of the image.

use super::SimulatedGpu;
use crate::device::{TexelBlock, TexelLayout, TexelPlane};

const BLOCKS: u8 = 0x80;
const DEPTH_STENCIL: u8 = 0x81;
const PLANES: u8 = 0x90;
/// The first bit, which no number of bytes per texel has.
const CLASS: u32 = 1 << 31;

impl SimulatedGpu {
    /// Returns the format number of images whose texels lie in a buffer like this: of a compressed format, of depth and
    /// stencil, or of several planes. The number of a color format of single texels is their size in bytes.
    ///
    /// Returns `None` for layouts that no format of a graphics API has: without bytes, with blocks of more than 255 bytes or
    /// texels a side, or with planes 1 and 2 of different subsampling, or of another one than 1, 2 or 4 texels in width
    /// and 1 or 2 in height.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// use allotment::device::{ImageDesc, ImageDevice as _, TexelBlock, TexelLayout};
    ///
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// // A shadow map with 4 bytes of depth and 1 byte of stencil a texel.
    /// let texels =
    ///     TexelLayout::DepthStencil { depth: Some(TexelBlock::new(4)), stencil: Some(TexelBlock::new(1)) };
    /// let desc = ImageDesc::new(16, 16, SimulatedGpu::format(texels).unwrap());
    /// assert_eq!(device.image_shape(&desc).texels, texels);
    /// assert_eq!(device.image_requirements(&desc)?.size, 16 * 16 * (4 + 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn format(texels: TexelLayout) -> Option<u32> {
        let number = match texels {
            TexelLayout::Color(TexelBlock { bytes, width: 1, height: 1 }) => bytes,
            TexelLayout::Color(TexelBlock { bytes, width, height }) => {
                u32::from_be_bytes([BLOCKS, byte(width)?, byte(height)?, byte(bytes)?])
            }
            TexelLayout::DepthStencil { depth, stencil } => {
                let bytes = |block: Option<TexelBlock>| block.map_or(Some(0), |block| byte(block.bytes));
                u32::from_be_bytes([DEPTH_STENCIL, 0, bytes(depth)?, bytes(stencil)?])
            }
            TexelLayout::Planar(planes) => {
                let bytes = planes.map(|plane| plane.map_or(0, |plane| plane.bytes));
                let [wide, high] = planes[1].map_or([1; 2], |plane| plane.subsampling);
                let [wide, high] = [wide.checked_ilog2()?, high.checked_ilog2()?];
                let class = PLANES | byte(wide << 1 | high)?;
                u32::from_be_bytes([class, bytes[0], bytes[1], bytes[2]])
            }
            TexelLayout::Unknown => return None,
        };
        // Only what a number stands for has one: whatever a layout has besides is not in it.
        (layout(number) == Some(texels)).then_some(number)
    }
}

fn byte(number: u32) -> Option<u8> {
    u8::try_from(number).ok()
}

/// Returns how the texels of a format lie in memory; `None` for numbers that are no format.
pub(super) fn layout(format: u32) -> Option<TexelLayout> {
    let [class, first, second, third] = format.to_be_bytes();
    let texel = |bytes: u8| (bytes > 0).then(|| TexelBlock::new(bytes.into()));
    if format & CLASS == 0 {
        return (format > 0).then(|| TexelBlock::new(format).into());
    }
    match class {
        BLOCKS => {
            let [width, height, bytes] = [first, second, third].map(u32::from);
            (width > 0 && height > 0 && bytes > 0).then(|| TexelBlock { bytes, width, height }.into())
        }
        DEPTH_STENCIL if first == 0 && (second > 0 || third > 0) => {
            Some(TexelLayout::DepthStencil { depth: texel(second), stencil: texel(third) })
        }
        PLANES..=0x95 => {
            let chroma = [1 << ((class >> 1) & 3), 1 << (class & 1)];
            let plane = |bytes, subsampling| (bytes > 0).then_some(TexelPlane { bytes, subsampling });
            // No plane without those before it, as no format has such planes.
            let is_planar = first > 0 && second > 0;
            let planes = [plane(first, [1; 2]), plane(second, chroma), plane(third, chroma)];
            is_planar.then_some(TexelLayout::Planar(planes))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_layout_of_a_format_has_a_number_of_its_own() {
        let plane = |bytes, subsampling| Some(TexelPlane { bytes, subsampling });
        let texel = |bytes| Some(TexelBlock::new(bytes));
        let mut numbers = Vec::new();
        for layout in [
            TexelBlock::new(1).into(),
            TexelBlock::new(16).into(),
            TexelBlock { bytes: 16, width: 12, height: 10 }.into(),
            TexelBlock { bytes: 8, width: 4, height: 4 }.into(),
            TexelBlock { bytes: 4, width: 2, height: 1 }.into(),
            TexelLayout::DepthStencil { depth: texel(2), stencil: None },
            TexelLayout::DepthStencil { depth: None, stencil: texel(1) },
            TexelLayout::DepthStencil { depth: texel(4), stencil: texel(1) },
            TexelLayout::Planar([plane(1, [1, 1]), plane(2, [2, 2]), None]),
            TexelLayout::Planar([plane(1, [1, 1]), plane(2, [4, 1]), None]),
            TexelLayout::Planar([plane(2, [1, 1]), plane(2, [2, 1]), plane(2, [2, 1])]),
        ] {
            let number = SimulatedGpu::format(layout).unwrap();
            assert_eq!(super::layout(number), Some(layout));
            assert!(!numbers.contains(&number), "{layout:?}");
            numbers.push(number);
        }
    }

    #[test]
    fn layouts_of_no_format_have_no_number() {
        let plane = |bytes, subsampling| Some(TexelPlane { bytes, subsampling });
        for layout in [
            TexelBlock::new(0).into(),
            TexelBlock::new(u32::MAX).into(),
            TexelBlock { bytes: 256, width: 4, height: 4 }.into(),
            TexelBlock { bytes: 8, width: 0, height: 4 }.into(),
            TexelLayout::DepthStencil { depth: None, stencil: None },
            TexelLayout::DepthStencil {
                depth: Some(TexelBlock { bytes: 4, width: 2, height: 1 }),
                stencil: None,
            },
            TexelLayout::Planar([None; 3]),
            TexelLayout::Planar([plane(1, [1, 1]), plane(2, [3, 2]), None]),
            TexelLayout::Planar([plane(1, [1, 1]), plane(1, [2, 2]), plane(1, [2, 1])]),
            TexelLayout::Planar([plane(1, [2, 2]), plane(1, [2, 2]), None]),
            TexelLayout::Unknown,
        ] {
            assert_eq!(SimulatedGpu::format(layout), None, "{layout:?}");
        }
    }

    proptest! {
        #[test]
        fn whatever_a_number_stands_for_has_that_number(class in 0x80..=0xffu32, rest in 0..(1u32 << 24)) {
            let number = class << 24 | rest;
            if let Some(layout) = layout(number) {
                prop_assert_eq!(SimulatedGpu::format(layout), Some(number));
            }
        }
    }
}
