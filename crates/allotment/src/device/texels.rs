//! How the texels of each aspect of a format lie in a buffer.
//!
//! ```text
//!   format                aspects        a texel in a buffer
//!   R8G8B8A8              Color          4 bytes
//!   BC1                   Color          8 bytes for 4 × 4 texels
//!   D24_UNORM_S8_UINT     Depth          4 bytes, of which 3 count
//!                         Stencil        1 byte
//!   G8_B8R8_2PLANE_420    Plane0         1 byte a texel
//!                         Plane1         2 bytes for 2 × 2 texels of the image, which are 1 texel of the plane
//! ```

use core::fmt;

use super::TexelBlock;

/// What the texels of an image consist of, in parts that are copied one by one: `VkImageAspectFlagBits`. In Direct3D 12,
/// depth and stencil are the plane slices 0 and 1, and planes have the slices of their numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ImageAspect {
    /// The texels of a color format, also of a compressed one: `VK_IMAGE_ASPECT_COLOR_BIT`.
    #[default]
    Color,
    /// The depth values of a depth or depth-stencil format: `VK_IMAGE_ASPECT_DEPTH_BIT`.
    Depth,
    /// The stencil values of a stencil or depth-stencil format: `VK_IMAGE_ASPECT_STENCIL_BIT`.
    Stencil,
    /// The first plane of a multi-planar format, which has the luma or green of each texel:
    /// `VK_IMAGE_ASPECT_PLANE_0_BIT`.
    Plane0,
    /// The second plane: `VK_IMAGE_ASPECT_PLANE_1_BIT`.
    Plane1,
    /// The third plane: `VK_IMAGE_ASPECT_PLANE_2_BIT`.
    Plane2,
}

impl ImageAspect {
    /// The aspects of a multi-planar format, in their order.
    pub const PLANES: [Self; 3] = [Self::Plane0, Self::Plane1, Self::Plane2];

    /// Returns the number of a plane; `None` for color, depth and stencil.
    const fn plane(self) -> Option<usize> {
        match self {
            Self::Plane0 => Some(0),
            Self::Plane1 => Some(1),
            Self::Plane2 => Some(2),
            Self::Color | Self::Depth | Self::Stencil => None,
        }
    }

    /// Returns true for the aspects that a queue without graphics does not copy.
    pub(super) const fn needs_graphics(self) -> bool {
        matches!(self, Self::Depth | Self::Stencil)
    }
}

impl fmt::Display for ImageAspect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Color => "color",
            Self::Depth => "depth",
            Self::Stencil => "stencil",
            Self::Plane0 => "plane 0",
            Self::Plane1 => "plane 1",
            Self::Plane2 => "plane 2",
        })
    }
}

/// How the texels of a format lie in a buffer, for each aspect of the format.
///
/// A device tells it of its images ([`image_shape`](super::ImageDevice::image_shape)).
///
/// ```
/// use allotment::device::{ImageAspect, TexelBlock, TexelLayout};
///
/// // `D32_SFLOAT_S8_UINT`: depth and stencil are copied apart from each other.
/// let (depth, stencil) = (Some(TexelBlock::new(4)), Some(TexelBlock::new(1)));
/// let texels = TexelLayout::DepthStencil { depth, stencil };
/// assert_eq!(texels.block(ImageAspect::Stencil), stencil);
/// assert_eq!(texels.block(ImageAspect::Color), None);
/// assert!(texels.aspects().eq([ImageAspect::Depth, ImageAspect::Stencil]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TexelLayout {
    /// As blocks of a color format.
    Color(TexelBlock),
    /// As depth values, as stencil values, or as both, each in a part of its own. A depth of 24 bits takes 4 bytes.
    DepthStencil {
        /// The block of a depth value, if the format has depth.
        depth: Option<TexelBlock>,
        /// The block of a stencil value, if the format has stencil.
        stencil: Option<TexelBlock>,
    },
    /// As the planes of a multi-planar format, from plane 0 on. A format of which no layout is defined
    /// (`DXGI_FORMAT_420_OPAQUE`) has none.
    Planar([Option<TexelPlane>; 3]),
    /// Not known to this library: the format is one of an extension.
    Unknown,
}

/// A plane of a multi-planar format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TexelPlane {
    /// Bytes per texel of the plane, at least 1.
    pub bytes: u8,
    /// The texels of the image, in width and in height, that one texel of the plane stands for: `[2, 2]` for the chroma of
    /// a format of 4:2:0, `[1, 1]` for its luma.
    pub subsampling: [u8; 2],
}

impl From<TexelBlock> for TexelLayout {
    fn from(block: TexelBlock) -> Self {
        Self::Color(block)
    }
}

impl TexelLayout {
    /// Returns how the texels of an aspect lie in a buffer; `None` if the format has no such aspect, or is not known.
    #[must_use]
    pub fn block(&self, aspect: ImageAspect) -> Option<TexelBlock> {
        match (*self, aspect) {
            (Self::Color(block), ImageAspect::Color) => Some(block),
            (Self::DepthStencil { depth, .. }, ImageAspect::Depth) => depth,
            (Self::DepthStencil { stencil, .. }, ImageAspect::Stencil) => stencil,
            (Self::Planar(planes), aspect) => {
                planes[aspect.plane()?].map(|plane| TexelBlock::new(plane.bytes.into()))
            }
            _ => None,
        }
    }

    /// Returns the texels of the image, in width and in height, that one texel of an aspect stands for: `[1, 1]` except for
    /// subsampled planes.
    #[must_use]
    pub fn subsampling(&self, aspect: ImageAspect) -> [u32; 2] {
        let plane = match *self {
            Self::Planar(planes) => aspect.plane().and_then(|plane| planes[plane]),
            _ => None,
        };
        plane.map_or([1; 2], |plane| plane.subsampling.map(u32::from))
    }

    /// Returns the aspects that can be copied, in the order of [`ImageAspect`]; none if the format is not known.
    pub fn aspects(&self) -> impl Iterator<Item = ImageAspect> + use<> {
        use ImageAspect::{Color, Depth, Plane0, Plane1, Plane2, Stencil};
        let layout = *self;
        [Color, Depth, Stencil, Plane0, Plane1, Plane2]
            .into_iter()
            .filter(move |&aspect| layout.block(aspect).is_some())
    }

    /// Returns true for formats of depth, of stencil, or of both.
    #[must_use]
    pub const fn is_depth_stencil(&self) -> bool {
        matches!(self, Self::DepthStencil { .. })
    }
}

/// Writes the aspects of the format.
impl fmt::Display for TexelLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::Unknown {
            return f.write_str("no aspect that this library knows");
        }
        let mut before = "";
        for aspect in self.aspects() {
            write!(f, "{before}{aspect}")?;
            before = ", ";
        }
        if before.is_empty() { f.write_str("none that can be copied") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_layout_has_the_blocks_of_its_aspects_and_no_others() {
        use ImageAspect::{Color, Depth, Plane0, Plane1, Plane2, Stencil};
        let plane = |bytes, subsampling| Some(TexelPlane { bytes, subsampling });
        let nv12 = TexelLayout::Planar([plane(1, [1, 1]), plane(2, [2, 2]), None]);
        let depth_only = TexelLayout::DepthStencil { depth: Some(TexelBlock::new(4)), stencil: None };
        /// A layout, the bytes and the subsampling of its aspects, and its text.
        type Case<'a> = (TexelLayout, &'a [(ImageAspect, u32, [u32; 2])], &'a str);
        let cases: [Case<'_>; 5] = [
            (TexelBlock::new(4).into(), &[(Color, 4, [1, 1])], "color"),
            (depth_only, &[(Depth, 4, [1, 1])], "depth"),
            (nv12, &[(Plane0, 1, [1, 1]), (Plane1, 2, [2, 2])], "plane 0, plane 1"),
            (TexelLayout::Planar([None; 3]), &[], "none that can be copied"),
            (TexelLayout::Unknown, &[], "no aspect that this library knows"),
        ];
        for (layout, expected, text) in cases {
            for aspect in [Color, Depth, Stencil, Plane0, Plane1, Plane2] {
                let found =
                    layout.block(aspect).map(|block| (aspect, block.bytes, layout.subsampling(aspect)));
                let expected = expected.iter().find(|(of, ..)| *of == aspect).copied();
                assert_eq!(found, expected, "{layout:?}");
            }
            assert_eq!(layout.aspects().count(), expected.len());
            assert_eq!(layout.to_string(), text);
        }
    }
}
