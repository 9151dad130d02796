//! Maps Vulkan format names, as traces have them, to DXGI formats.

/// Returns the DXGI formats for an image of a Vulkan format such as `VK_FORMAT_R8_UNORM`: the same format if DXGI
/// has it, and a format with the same bytes per texel or block, which needs the same memory. Empty if there is
/// neither.
pub(super) fn formats_for(name: &str) -> impl Iterator<Item = u32> {
    let name = name.strip_prefix("VK_FORMAT_").map(without_packing);
    let own = name.and_then(own);
    let nearest = name.and_then(nearest);
    own.into_iter().chain(nearest.filter(|_| nearest != own))
}

/// Returns the granularity of an image's width and height: the block size of a format, or its chroma subsampling.
pub(super) fn granularity(format: u32) -> u32 {
    match format {
        // BC1 to BC5, BC6H and BC7
        70..=84 | 94..=99 => 4,
        // NV12 and similar formats
        103..=110 => 2,
        _ => 1,
    }
}

/// Strips the packing suffix of a name, which DXGI's names do not have: `_PACK32`, `_4PACK16`.
fn without_packing(name: &str) -> &str {
    name.rsplit_once('_').filter(|(_, last)| last.contains("PACK")).map_or(name, |(rest, _)| rest)
}

fn own(name: &str) -> Option<u32> {
    FORMATS.iter().find(|(known, _)| *known == name).map(|&(_, number)| number)
}

/// Returns a format of the same size, from the component sizes in the name: `R5G5B5A1_UNORM` has 16 bits.
fn nearest(name: &str) -> Option<u32> {
    let block = BLOCKS.iter().find(|(start, _)| name.starts_with(start));
    let shares_texels = ["BLOCK", "PLANE", "_422_"].iter().any(|part| name.contains(part));
    let is_depth = name.starts_with(['D', 'S', 'X']);
    if block.is_some() || shares_texels || is_depth {
        return block.map(|&(_, number)| number);
    }
    let components = name.split('_').next()?;
    let lengths = components.split(|c: char| c.is_ascii_uppercase()).skip(1);
    let bits = lengths.map(|length| length.parse::<u32>().ok()).sum::<Option<u32>>()?;
    NEAREST.iter().find(|(of, _)| *of == bits).map(|&(_, number)| number)
}

/// Bits per texel, and a format of that size that every device can sample.
const NEAREST: [(u32, u32); 6] = [(8, 61), (16, 49), (32, 28), (64, 11), (96, 6), (128, 2)];

/// Prefixes of the names of 4 × 4 block formats that DXGI lacks, and a format with blocks of the same size.
const BLOCKS: [(&str, u32); 6] = [
    ("ETC2_R8G8B8_", 71),
    ("ETC2_R8G8B8A1_", 71),
    ("ETC2_R8G8B8A8_", 77),
    ("EAC_R11_", 80),
    ("EAC_R11G11_", 83),
    ("ASTC_4x4_", 98),
];

/// Vulkan's name without prefix and packing suffix, and DXGI's number. Depth-stencil and stencil formats map to
/// those that drivers use for them.
const FORMATS: [(&str, u32); 84] = [
    ("R8_UNORM", 61),
    ("R8_SNORM", 63),
    ("R8_UINT", 62),
    ("R8_SINT", 64),
    ("R8G8_UNORM", 49),
    ("R8G8_SNORM", 51),
    ("R8G8_UINT", 50),
    ("R8G8_SINT", 52),
    ("R8G8B8A8_UNORM", 28),
    ("R8G8B8A8_SNORM", 31),
    ("R8G8B8A8_UINT", 30),
    ("R8G8B8A8_SINT", 32),
    ("R8G8B8A8_SRGB", 29),
    ("B8G8R8A8_UNORM", 87),
    ("B8G8R8A8_SRGB", 91),
    ("R16_UNORM", 56),
    ("R16_SNORM", 58),
    ("R16_UINT", 57),
    ("R16_SINT", 59),
    ("R16_SFLOAT", 54),
    ("R16G16_UNORM", 35),
    ("R16G16_SNORM", 37),
    ("R16G16_UINT", 36),
    ("R16G16_SINT", 38),
    ("R16G16_SFLOAT", 34),
    ("R16G16B16A16_UNORM", 11),
    ("R16G16B16A16_SNORM", 13),
    ("R16G16B16A16_UINT", 12),
    ("R16G16B16A16_SINT", 14),
    ("R16G16B16A16_SFLOAT", 10),
    ("R32_UINT", 42),
    ("R32_SINT", 43),
    ("R32_SFLOAT", 41),
    ("R32G32_UINT", 17),
    ("R32G32_SINT", 18),
    ("R32G32_SFLOAT", 16),
    ("R32G32B32_UINT", 7),
    ("R32G32B32_SINT", 8),
    ("R32G32B32_SFLOAT", 6),
    ("R32G32B32A32_UINT", 3),
    ("R32G32B32A32_SINT", 4),
    ("R32G32B32A32_SFLOAT", 2),
    ("A8B8G8R8_UNORM", 28),
    ("A8B8G8R8_SNORM", 31),
    ("A8B8G8R8_UINT", 30),
    ("A8B8G8R8_SINT", 32),
    ("A8B8G8R8_SRGB", 29),
    ("A2B10G10R10_UNORM", 24),
    ("A2B10G10R10_UINT", 25),
    ("B10G11R11_UFLOAT", 26),
    ("E5B9G9R9_UFLOAT", 67),
    ("R5G6B5_UNORM", 85),
    ("A1R5G5B5_UNORM", 86),
    ("A4R4G4B4_UNORM", 115),
    ("A8_UNORM", 65),
    ("BC1_RGB_UNORM_BLOCK", 71),
    ("BC1_RGB_SRGB_BLOCK", 72),
    ("BC1_RGBA_UNORM_BLOCK", 71),
    ("BC1_RGBA_SRGB_BLOCK", 72),
    ("BC2_UNORM_BLOCK", 74),
    ("BC2_SRGB_BLOCK", 75),
    ("BC3_UNORM_BLOCK", 77),
    ("BC3_SRGB_BLOCK", 78),
    ("BC7_UNORM_BLOCK", 98),
    ("BC7_SRGB_BLOCK", 99),
    ("BC4_UNORM_BLOCK", 80),
    ("BC4_SNORM_BLOCK", 81),
    ("BC5_UNORM_BLOCK", 83),
    ("BC5_SNORM_BLOCK", 84),
    ("BC6H_UFLOAT_BLOCK", 95),
    ("BC6H_SFLOAT_BLOCK", 96),
    ("D16_UNORM", 55),
    ("X8_D24_UNORM", 45),
    ("D32_SFLOAT", 40),
    ("D24_UNORM_S8_UINT", 45),
    ("D32_SFLOAT_S8_UINT", 20),
    ("D16_UNORM_S8_UINT", 45),
    ("S8_UINT", 62),
    ("G8_B8R8_2PLANE_420_UNORM", 103),
    ("G10X6_B10X6R10X6_2PLANE_420_UNORM", 104),
    ("G16_B16R16_2PLANE_420_UNORM", 105),
    ("G8B8G8R8_422_UNORM", 107),
    ("G10X6B10X6G10X6R10X6_422_UNORM", 108),
    ("G16B16G16R16_422_UNORM", 109),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn formats(name: &str) -> Vec<u32> {
        formats_for(&format!("VK_FORMAT_{name}")).collect()
    }

    #[test]
    fn a_format_that_dxgi_has_comes_first_and_one_as_large_after_it() {
        assert_eq!(formats("R8G8B8A8_UNORM"), [28]);
        assert_eq!(formats("R8G8B8A8_SRGB"), [29, 28]);
        assert_eq!(formats("R16G16B16A16_SFLOAT"), [10, 11]);
        assert_eq!(formats("A2B10G10R10_UNORM_PACK32"), [24, 28]);
        assert_eq!(formats("D32_SFLOAT"), [40], "no color stands for depth");
        assert_eq!(formats("X8_D24_UNORM_PACK32"), [45]);
        assert_eq!(formats("BC3_UNORM_BLOCK"), [77]);
        assert_eq!(formats("G8_B8R8_2PLANE_420_UNORM"), [103]);
    }

    #[test]
    fn a_format_that_dxgi_lacks_becomes_one_as_large() {
        for (name, number) in [
            ("R4G4_UNORM_PACK8", 61),
            ("R5G5B5A1_UNORM_PACK16", 49),
            ("R10X6_UNORM_PACK16", 49),
            ("R8G8B8A8_SSCALED", 28),
            ("R10X6G10X6B10X6A10X6_UNORM_4PACK16", 11),
            ("R64_SFLOAT", 11),
            ("R64G64_UINT", 2),
            ("ETC2_R8G8B8A1_SRGB_BLOCK", 71),
            ("ETC2_R8G8B8A8_UNORM_BLOCK", 77),
            ("ASTC_4x4_UNORM_BLOCK", 98),
        ] {
            assert_eq!(formats(name), [number], "{name}");
        }
    }

    #[test]
    fn what_has_no_like_is_not_guessed_at() {
        for name in [
            "R8G8B8_UNORM",
            "R64G64B64_UINT",
            "ASTC_12x12_UNORM_BLOCK",
            "PAISLEY",
            "",
            "G8_B8_R8_3PLANE_420_UNORM",
        ] {
            assert!(formats(name).is_empty(), "{name}");
        }
        assert_eq!(formats_for("DXGI_FORMAT_R8_UNORM").count(), 0);
    }

    #[test]
    fn no_name_is_there_twice() {
        for (at, (name, _)) in FORMATS.iter().enumerate() {
            assert_eq!(FORMATS.iter().position(|(other, _)| other == name), Some(at), "{name}");
        }
    }
}
