//! How the texels of each format lie in a buffer.

use ash::vk;

use super::images::chroma_block;
use crate::device::{ImageAspect, TexelBlock, TexelLayout, TexelPlane};

/// The blocks of ASTC in the order of `VkFormat`, each with 16 bytes.
const ASTC: [[u32; 2]; 14] = [
    [4, 4],
    [5, 4],
    [5, 5],
    [6, 5],
    [6, 6],
    [8, 5],
    [8, 6],
    [8, 8],
    [10, 5],
    [10, 6],
    [10, 8],
    [10, 10],
    [12, 10],
    [12, 12],
];

/// Returns how the texels of a format lie in a buffer.
pub(super) fn texel_layout(format: vk::Format) -> TexelLayout {
    let block = |bytes, [width, height]: [u32; 2]| TexelBlock { bytes, width, height }.into();
    let texel = |bytes| block(bytes, [1, 1]);
    let astc = |at: i32| ASTC.get(at as usize).map_or(TexelLayout::Unknown, |&sides| block(16, sides));
    match format.as_raw() {
        1 | 9..=15 => texel(1),
        2..=8 | 16..=22 | 70..=76 => texel(2),
        23..=36 => texel(3),
        37..=69 | 77..=83 | 98..=100 | 122..=123 => texel(4),
        84..=90 => texel(6),
        91..=97 | 101..=103 | 110..=112 => texel(8),
        104..=106 => texel(12),
        107..=109 | 113..=115 => texel(16),
        116..=118 => texel(24),
        119..=121 => texel(32),
        // Depth and stencil. In a buffer the 24 bits of a depth have 32.
        124 => depth_stencil(Some(2), None),
        125..=126 => depth_stencil(Some(4), None),
        127 => depth_stencil(None, Some(1)),
        128 => depth_stencil(Some(2), Some(1)),
        129..=130 => depth_stencil(Some(4), Some(1)),
        // BC1, BC4, ETC2 without full alpha, EAC of one channel.
        131..=134 | 139..=140 | 147..=150 | 153..=154 => block(8, [4, 4]),
        // The other BC formats, ETC2 with alpha, EAC of two channels.
        135..=138 | 141..=146 | 151..=152 | 155..=156 => block(16, [4, 4]),
        // `UNORM` and `SRGB` of each.
        raw @ 157..=184 => astc((raw - 157) / 2),
        raw @ 1_000_066_000..=1_000_066_013 => astc(raw - 1_000_066_000),
        // PVRTC, of 2 and 4 bits a texel in turn.
        raw @ 1_000_054_000..=1_000_054_007 => block(8, if raw % 2 == 0 { [8, 4] } else { [4, 4] }),
        // Two texels in one block, which share their chroma.
        1_000_156_000..=1_000_156_001 => block(4, [2, 1]),
        1_000_156_010..=1_000_156_011 | 1_000_156_020..=1_000_156_021 | 1_000_156_027..=1_000_156_028 => {
            block(8, [2, 1])
        }
        // One plane with 10 or 12 bits of each 16: of one, two and four channels.
        1_000_156_007 | 1_000_156_017 => texel(2),
        1_000_156_008 | 1_000_156_018 => texel(4),
        1_000_156_009 | 1_000_156_019 => texel(8),
        // The other ones have two or three planes: of 8 bits a channel, and of 10, 12 and 16 in 16.
        1_000_156_002..=1_000_156_006 | 1_000_330_000 => planar(format, 1),
        1_000_156_012..=1_000_156_033 | 1_000_330_001..=1_000_330_003 => planar(format, 2),
        1_000_340_000..=1_000_340_001 | 1_000_470_000 => texel(2),
        1_000_470_001 => texel(1),
        _ => TexelLayout::Unknown,
    }
}

fn depth_stencil(depth: Option<u32>, stencil: Option<u32>) -> TexelLayout {
    TexelLayout::DepthStencil { depth: depth.map(TexelBlock::new), stencil: stencil.map(TexelBlock::new) }
}

/// Returns the planes of a multi-planar format of so many bytes a channel: one with the luma, or green, of every texel, and
/// either one plane with both other channels or one with each of them.
fn planar(format: vk::Format, bytes: u8) -> TexelLayout {
    // In the order of `VkFormat`, as in `chroma_block`: planes of 420 and 422 in turn, then those of 444.
    let is_three = matches!(
        format.as_raw(),
        1_000_156_002
            | 1_000_156_004
            | 1_000_156_006
            | 1_000_156_012
            | 1_000_156_014
            | 1_000_156_016
            | 1_000_156_022
            | 1_000_156_024
            | 1_000_156_026
            | 1_000_156_029
            | 1_000_156_031
            | 1_000_156_033
    );
    // Each is 1 or 2.
    let subsampling = chroma_block(format).unwrap_or([1; 2]).map(|texels| texels as u8);
    let plane = |bytes, subsampling| Some(TexelPlane { bytes, subsampling });
    let luma = plane(bytes, [1; 2]);
    TexelLayout::Planar(if is_three {
        [luma, plane(bytes, subsampling), plane(bytes, subsampling)]
    } else {
        [luma, plane(2 * bytes, subsampling), None]
    })
}

/// Returns the flag of an aspect.
pub(super) const fn aspect_flag(aspect: ImageAspect) -> vk::ImageAspectFlags {
    match aspect {
        ImageAspect::Color => vk::ImageAspectFlags::COLOR,
        ImageAspect::Depth => vk::ImageAspectFlags::DEPTH,
        ImageAspect::Stencil => vk::ImageAspectFlags::STENCIL,
        ImageAspect::Plane0 => vk::ImageAspectFlags::PLANE_0,
        ImageAspect::Plane1 => vk::ImageAspectFlags::PLANE_1,
        ImageAspect::Plane2 => vk::ImageAspectFlags::PLANE_2,
    }
}

/// Returns the aspects that a barrier of an image names. A combined format has both of its aspects in one layout unless
/// `separateDepthStencilLayouts` is enabled, and the color aspect stands for all planes of an image that is not disjoint.
pub(super) fn barrier_aspects(texels: &TexelLayout) -> vk::ImageAspectFlags {
    if texels.is_depth_stencil() {
        texels.aspects().fold(vk::ImageAspectFlags::empty(), |flags, aspect| flags | aspect_flag(aspect))
    } else {
        vk::ImageAspectFlags::COLOR
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The layout that a format's name tells.
    fn told_by_name(name: &str) -> TexelLayout {
        let block = |bytes, width, height| TexelBlock { bytes, width, height }.into();
        if let Some((_, of)) = name.split_once("PLANE") {
            // "G8_B8R8_2PLANE_420_UNORM": a channel has 8 bits or 16, of which fewer may count.
            let bytes = if name.starts_with("G8") { 1 } else { 2 };
            let subsampling = match &of[1..4] {
                "420" => [2, 2],
                "422" => [2, 1],
                _ => [1, 1],
            };
            let plane = |bytes, subsampling| Some(TexelPlane { bytes, subsampling });
            return TexelLayout::Planar(if name.contains("_3PLANE") {
                [plane(bytes, [1, 1]), plane(bytes, subsampling), plane(bytes, subsampling)]
            } else {
                [plane(bytes, [1, 1]), plane(2 * bytes, subsampling), None]
            });
        }
        let depth = ["D16", "D24", "D32"].iter().find(|it| name.contains(**it));
        let stencil = name.starts_with("S8") || name.contains("_S8_");
        if depth.is_some() || stencil {
            // The specification of `VkBufferImageCopy`: 24 bits of depth lie in 4 bytes.
            let depth = depth.map(|it| TexelBlock::new(if *it == "D16" { 2 } else { 4 }));
            return TexelLayout::DepthStencil { depth, stencil: stencil.then(|| TexelBlock::new(1)) };
        }
        let number = |text: &str| text.parse::<u32>().unwrap();
        if let Some((_, after)) = name.split_once("ASTC_") {
            let (sides, _) = after.split_once('_').unwrap();
            let (width, height) = sides.split_once('X').unwrap();
            return block(16, number(width), number(height));
        }
        if name.starts_with("PVRTC") {
            return block(8, if name.contains("2BPP") { 8 } else { 4 }, 4);
        }
        if name.ends_with("_BLOCK") {
            let half = ["BC1", "BC4", "ETC2_R8G8B8_", "ETC2_R8G8B8A1", "EAC_R11_"];
            return block(if half.iter().any(|it| name.starts_with(it)) { 8 } else { 16 }, 4, 4);
        }
        // Channels and their bits: "R10X6G10X6_UNORM_2PACK16" has 32.
        let channels = name.split('_').next().unwrap();
        let bits: u32 =
            channels.split(|it: char| !it.is_ascii_digit()).filter_map(|it| it.parse::<u32>().ok()).sum();
        let of_two = if name.contains("_422_") { 2 } else { 1 };
        block(bits / 8, of_two, 1)
    }

    #[test]
    fn each_format_lies_in_a_buffer_as_its_name_tells() {
        let core = 1..=184;
        let planar = (1_000_156_000..=1_000_156_033).chain(1_000_330_000..=1_000_330_003);
        let others = (1_000_054_000..=1_000_054_007).chain(1_000_066_000..=1_000_066_013);
        let small = (1_000_340_000..=1_000_340_001).chain(1_000_470_000..=1_000_470_001);
        let mut named = 0;
        for format in core.chain(planar).chain(others).chain(small).map(vk::Format::from_raw) {
            let name = format!("{format:?}");
            let name = name.trim_end_matches("_KHR").trim_end_matches("_EXT").trim_end_matches("_IMG");
            if name.bytes().all(|it| it.is_ascii_digit()) {
                continue;
            }
            // Its channels have no bits in the name's first part: an exponent is shared.
            let told =
                if name.starts_with("E5B9G9R9") { TexelBlock::new(4).into() } else { told_by_name(name) };
            assert_eq!(texel_layout(format), told, "{name}");
            let mut flags = vk::ImageAspectFlags::empty();
            if let TexelLayout::DepthStencil { depth, stencil } = told {
                flags |= depth.map_or(flags, |_| vk::ImageAspectFlags::DEPTH);
                flags |= stencil.map_or(vk::ImageAspectFlags::empty(), |_| vk::ImageAspectFlags::STENCIL);
            } else {
                flags = vk::ImageAspectFlags::COLOR;
            }
            assert_eq!(barrier_aspects(&told), flags, "{name}");
            named += 1;
        }
        assert!(named > 200, "{named}");
        assert_eq!(texel_layout(vk::Format::UNDEFINED), TexelLayout::Unknown);
    }
}
