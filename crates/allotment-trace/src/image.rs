//! Parses the names of recorded images.

/// The description of a recorded image for a graphics API, parsed from a name such as
/// `VK_FORMAT_BC3_UNORM_BLOCK 256x128x1 mips=9 layers=1`.
///
/// Mip levels and layers are optional, and 1 by default; unknown words are ignored, so that recorders can add more.
///
/// ```
/// use allotment_trace::ImageShape;
///
/// let shape = ImageShape::parse("VK_FORMAT_D32_SFLOAT 320x240x1").unwrap();
/// assert_eq!((shape.format, shape.extent), ("VK_FORMAT_D32_SFLOAT", [320, 240, 1]));
/// assert_eq!((shape.mip_levels, shape.array_layers), (1, 1));
/// assert_eq!(ImageShape::parse("shadow map"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ImageShape<'a> {
    /// The graphics API's name of the format.
    pub format: &'a str,
    /// Width, height and depth in texels, at least 1 each.
    pub extent: [u32; 3],
    /// Mip levels, at least 1.
    pub mip_levels: u32,
    /// Array layers, at least 1.
    pub array_layers: u32,
}

impl<'a> ImageShape<'a> {
    /// Parses a name; `None` if it does not begin with a format and an extent, or has a count of zero.
    #[must_use]
    pub fn parse(name: &'a str) -> Option<Self> {
        let mut words = name.split_ascii_whitespace();
        let (format, extent) = (words.next()?, words.next()?);
        let mut shape = Self { format, extent: parse_extent(extent)?, mip_levels: 1, array_layers: 1 };
        for word in words {
            match word.split_once('=') {
                Some(("mips", count)) => shape.mip_levels = at_least_one(count)?,
                Some(("layers", count)) => shape.array_layers = at_least_one(count)?,
                _ => {}
            }
        }
        Some(shape)
    }
}

/// Parses `320x240x1`; width, height and depth are required.
fn parse_extent(text: &str) -> Option<[u32; 3]> {
    let mut sides = text.split('x').map(at_least_one);
    let extent = [sides.next()??, sides.next()??, sides.next()??];
    sides.next().is_none().then_some(extent)
}

fn at_least_one(text: &str) -> Option<u32> {
    text.parse().ok().filter(|&number| number >= 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_the_recorder_writes_is_understood() {
        let shape = ImageShape::parse("VK_FORMAT_BC3_UNORM_BLOCK 256x128x3 mips=9 layers=6").unwrap();
        let expected = ImageShape {
            format: "VK_FORMAT_BC3_UNORM_BLOCK",
            extent: [256, 128, 3],
            mip_levels: 9,
            array_layers: 6,
        };
        assert_eq!(shape, expected);
        assert_eq!(
            ImageShape::parse("VK_FORMAT_BC3_UNORM_BLOCK 256x128x3 layers=6 usage=7 sparse mips=9"),
            Some(expected),
            "in any order, with more in between"
        );
    }

    #[test]
    fn what_is_no_shape_is_not_guessed_at() {
        for name in [
            "",
            "VK_FORMAT_R8_UNORM",
            "render target 1",
            "VK_FORMAT_R8_UNORM 16x16",
            "VK_FORMAT_R8_UNORM 16x16x1x1",
            "VK_FORMAT_R8_UNORM 16x0x1",
            "VK_FORMAT_R8_UNORM 16x-1x1",
            "VK_FORMAT_R8_UNORM 99999999999x1x1",
            "VK_FORMAT_R8_UNORM 16x16x1 mips=",
            "VK_FORMAT_R8_UNORM 16x16x1 mips=0",
            "VK_FORMAT_R8_UNORM 16x16x1 layers=many",
        ] {
            assert_eq!(ImageShape::parse(name), None, "{name}");
        }
    }
}
